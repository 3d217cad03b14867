/* Gram matrices X^T X of one vector width and one arithmetic type T.
 *
 * DEPTH rows of X are packed into panels of B columns, two vectors to a row. A tile has H columns of one
 * panel on the left and one or two vectors of another on the right, its sums in registers:
 *
 *     C[i : i + H, j : j + n L] += P[:, i : i + H]^T P[:, j : j + n L]
 *
 * Only tiles that reach the diagonal from above are formed. Where a few columns are left at the end, they
 * are the left side of tiles with all others: a vector would be mostly zeros.
 */

#define B (2 * L)
#define H (B < HEIGHT ? B : HEIGHT)

/* Rows of a panel, which fits into the first cache. Its sums are added to those in float64, so that
 * rounding grows with its few rows. */
#define DEPTH 256

static inline __attribute__((always_inline)) void NAME(tile)(const T *left, const T *right, long rows, int height, int n, double *C, long ld)
{
    V a[H][2];
    for (int h = 0; h < height; h++)
        for (int v = 0; v < n; v++) a[h][v] = (V){0};
    for (long k = 0; k < rows; k++) {
        V x[2];
        for (int v = 0; v < n; v++) x[v] = *(const V *)(right + k * B + v * L);
#pragma GCC unroll 8
        for (int h = 0; h < height; h++)
#pragma GCC unroll 2
            for (int v = 0; v < n; v++) a[h][v] += left[k * B + h] * x[v];
    }
    for (int h = 0; h < height; h++)
        for (int v = 0; v < n; v++)
            for (int l = 0; l < L; l++) C[h * ld + v * L + l] += a[h][v][l];
}

/* One call for each shape of a tile, whose loops are then unrolled. */
static void NAME(tiles)(const T *left, const T *right, long rows, long height, long n, double *C, long ld)
{
    if (n > 1 && height > 4) NAME(tile)(left, right, rows, H, 2, C, ld);
    else if (n > 1 && height > 2) NAME(tile)(left, right, rows, 4, 2, C, ld);
    else if (n > 1) NAME(tile)(left, right, rows, 2, 2, C, ld);
    else if (height > 4) NAME(tile)(left, right, rows, H, 1, C, ld);
    else if (height > 2) NAME(tile)(left, right, rows, 4, 1, C, ld);
    else NAME(tile)(left, right, rows, 2, 1, C, ld);
}

/* The entries of a panel, from rows of X that are contiguous in this direction or in the other. */
#define PACK(E, VALUE)                                                                           \
    if (X->step == sizeof(E))                                                                    \
        for (long k = 0; k < rows; k++) {                                                        \
            const E *x = (const E *)(start + (chosen ? chosen[k] : k) * X->stride);              \
            for (long j = 0; j < n; j++) panel[k * B + j] = (T)(VALUE(x[j]));                    \
        }                                                                                        \
    else                                                                                         \
        for (long j = 0; j < n; j++) {                                                           \
            const E *x = (const E *)(start + j * X->step);                                       \
            if (chosen) for (long k = 0; k < rows; k++) panel[k * B + j] = (T)(VALUE(x[chosen[k]])); \
            else for (long k = 0; k < rows; k++) panel[k * B + j] = (T)(VALUE(x[k]));            \
        }
#define PLAIN(x) (x)
#define SCALED(x) ((double)(x) * scale)
#define OFF_COLUMNS(x) (((double)(x) - c[j]) * scale)
#define OFF_IN_FLOAT(x) (((x) - high[j]) - low[j])
#define OFF_ROWS(x) (((double)(x) - c[k]) * scale)

/* `rows` rows of the columns [first, last) of scale (X - 1 c^T), or scale (X - r 1^T), as rows of a panel: those
 * from `row` on, or those `chosen` among them, times their `roots`. */
static void NAME(pack_columns)(const dense *X, long row, long rows, const long *chosen, const T *roots, long first, long last, T *restrict panel)
{
    const long n = last - first;
    const char *start = X->data + row * X->stride + first * X->step;
    const double scale = X->scale, *c = X->center ? X->center + first : X->row_center ? X->row_center + row : NULL;
    if (X->center && !X->wide && sizeof(T) == sizeof(float) && scale == 1.0) {
        float high[B], low[B]; /* c in two floats: both subtractions are right to the digits of what is left */
        for (long j = 0; j < n; j++) high[j] = (float)c[j], low[j] = (float)(c[j] - high[j]);
        PACK(float, OFF_IN_FLOAT)
    } else if (X->center) { if (X->wide) PACK(double, OFF_COLUMNS) else PACK(float, OFF_COLUMNS) }
    else if (c) { if (X->wide) PACK(double, OFF_ROWS) else PACK(float, OFF_ROWS) }
    else if (scale != 1.0) { if (X->wide) PACK(double, SCALED) else PACK(float, SCALED) }
    else { if (X->wide) PACK(double, PLAIN) else PACK(float, PLAIN) }
    for (long k = 0; k < rows && chosen; k++)
        if (roots[k] != 1)
            for (long j = 0; j < n; j++) panel[k * B + j] *= roots[k];
}

/* Find the next DEPTH rows that weigh anything, at most, from `row` on; return where the search ended. */
static long NAME(choose)(const double *weights, long row, long last, long *chosen, T *roots, long *rows)
{
    const long begin = row;
    for (*rows = 0; row < last && *rows < DEPTH; row++)
        if (weights[row] != 0) chosen[*rows] = row - begin, roots[(*rows)++] = (T)sqrt(weights[row]);
    return row;
}

/* Where the columns begin that are the left side of tiles with all others: at most half a long vector. */
static long NAME(whole)(long d)
{
    return L > 4 && d % L <= L / 2 ? d - d % L : (d + L - 1) / L * L;
}

/* Add X^T Diag(w) X of rows [first, last), shifted and scaled, to columns [from, to) of C, whose rows are ld apart: above the diagonal,
 * and in the last rows from `whole` on. As many columns at a time as stay in the cache are summed. */
static int NAME(gram)(const dense *X, long first, long last, long from, long to, double *C, long ld)
{
    const long d = X->columns, whole = NAME(whole)(d), fit = GRAM_SLAB / (d * (long)sizeof(double)) / B * B;
    long chosen[DEPTH];
    T roots[DEPTH];
    T *P = aligned((d + B) * DEPTH * sizeof(T));
    if (!P) return -1;
    memset(P, 0, (d + B) * DEPTH * sizeof(T));
    for (long begin = from, stop; begin < to; begin = stop) {
        stop = fit < B ? begin + B : begin + fit;
        if (stop > to) stop = to;
        for (long row = first, next; row < last; row = next) {
            long rows = last - row < DEPTH ? last - row : DEPTH;
            next = X->weights ? NAME(choose)(X->weights, row, last, chosen, roots, &rows) : row + rows;
            for (long p = 0; p < d; p += B)
                if (p < stop || p + B > whole)
                    NAME(pack_columns)(X, row, rows, X->weights ? chosen : NULL, roots, p, d < p + B ? d : p + B, P + p * DEPTH);
            for (long j = begin; j < stop; j += B) {
                const T *right = P + j * DEPTH;
                const long end = j + B < whole ? j + B : whole, n = (d - j + L - 1) / L;
                for (long i = 0; i < end && j < whole; i += H) { /* a vector below the diagonal is left out */
                    const long at = i >= j + L ? j + L : j;
                    NAME(tiles)(P + i / B * B * DEPTH + i % B, right + at - j, rows, H, (end - at) / L, C + i * ld + at, ld);
                }
                if (whole < d)
                    NAME(tiles)(P + whole / B * B * DEPTH + whole % B, right, rows, d - whole, n < 2 ? n : 2, C + whole * ld + j, ld);
            }
        }
    }
    free(P);
    return 0;
}

#undef B
#undef H
#undef DEPTH
#undef PACK
#undef PLAIN
#undef SCALED
#undef OFF_COLUMNS
#undef OFF_IN_FLOAT
#undef OFF_ROWS
