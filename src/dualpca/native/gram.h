/* Gram matrices X^T X of few columns, of one vector width and one arithmetic type T.
 *
 * A panel of rows is copied to the first cache, with zeros up to whole vectors. A tile has H columns of it
 * on the left and one vector of columns on the right, its sums in registers:
 *
 *     C[i : i + H, j : j + L] += P[:, i : i + H]^T P[:, j : j + L]
 *
 * Only tiles that reach the diagonal from above are formed. Where a few columns are left at the end, they
 * are the left side of tiles with all others: a vector would be mostly zeros.
 */

#define H 8

/* Bytes of a panel. Its sums are added to those in float64, so that rounding grows with its few rows. */
#define PANEL 24576

static inline __attribute__((always_inline)) void NAME(tile)(const T *left, const T *right, long ld, long rows, int height, double *C)
{
    V a[H];
    for (int r = 0; r < height; r++) a[r] = (V){0};
    for (long k = 0; k < rows; k++) {
        const V x = *(const V *)(right + k * ld);
#pragma GCC unroll 8
        for (int r = 0; r < height; r++) a[r] += left[k * ld + r] * x;
    }
    for (int r = 0; r < height; r++)
        for (int l = 0; l < L; l++) C[r * ld + l] += a[r][l];
}

/* Where the columns begin that are the left side of tiles with all others: at most half a long vector. */
static long NAME(whole)(long d)
{
    return L >= H && d % L <= L / 2 ? d - d % L : (d + L - 1) / L * L;
}

/* X^T X of rows [first, last) into C, which is 0 before; its rows are padded(d) apart. */
static int NAME(gram)(const dense *X, long first, long last, double *C)
{
    const long d = X->columns, ld = padded(d, sizeof(T)), whole = NAME(whole)(d), m = d - whole;
    const long fit = PANEL / (ld * (long)sizeof(T)), most = (fit < R ? R : fit > 256 ? 256 : fit) / R * R;
    T *P = aligned(most * ld * sizeof(T));
    if (!P) return -1;
    memset(P, 0, most * ld * sizeof(T));
    for (long row = first; row < last; row += most) {
        const long rows = last - row < most ? last - row : most;
        for (long r = 0; r < rows; r += R) NAME(convert)(X, row + r, rows - r < R ? rows - r : R, P + r * ld, ld);
        for (long j = 0; j < whole; j += L)
            for (long i = 0; i < j + L && i < d; i += H) NAME(tile)(P + i, P + j, ld, rows, H, C + i * ld + j);
        for (long j = 0; j < d && m > 0; j += L) {
            double *last_rows = C + whole * ld + j;
            if (m <= 2) NAME(tile)(P + whole, P + j, ld, rows, 2, last_rows);
            else if (m <= 4) NAME(tile)(P + whole, P + j, ld, rows, 4, last_rows);
            else NAME(tile)(P + whole, P + j, ld, rows, H, last_rows);
        }
    }
    free(P);
    for (long i = 0; i < d; i++) /* what was not formed is above the diagonal, or in the last rows */
        for (long j = i + 1; j < d; j++)
            if (j < whole) C[j * ld + i] = C[i * ld + j];
            else C[i * ld + j] = C[j * ld + i];
    return 0;
}

#undef H
#undef PANEL
