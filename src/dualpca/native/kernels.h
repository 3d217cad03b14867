/* Thin products of one vector width and one arithmetic type T; _kernels.c includes it for each.
 *
 * A panel is R rows of X. Factors with b columns are packed into groups of L columns, one vector
 * register to a row, so that both products of a panel keep R vectors in registers:
 *
 *     y_panel    Y += P W      R accumulators, a row of W at a time
 *     z_panel    Z += P^T Y    R rows of Y stay, four columns of P at a time
 *
 * P is then still in the cache for the second product: X is read from memory once.
 */

#define L (VECTOR / (long)sizeof(T))
typedef T NAME(vector) __attribute__((vector_size(VECTOR)));
typedef __typeof__((NAME(vector)){0} < (NAME(vector)){0}) NAME(integers);
#define V NAME(vector)
#define I NAME(integers)

/* Groups of columns that are multiplied at a time: there are registers for two in AVX-512. */
enum { NAME(pair) = VECTOR == 64 ? 2 : 1 };
#define PAIR NAME(pair)

/* Sums run over at most CHUNK columns or FLUSH panels before they are added to the next level: the
 * error then grows with the root of these, not of the sides of X. */
#define CHUNK 256
#define FLUSH 256

/* Rows of a factor that a sparse row will need are fetched this many entries ahead. */
#define AHEAD 16

/* Y += P W for `count` groups of columns, as far `apart` as is said: an entry of P is loaded once for all. */
static inline __attribute__((always_inline)) void NAME(y_sum)(const T *P, long ld, long n, const T *W, long w_apart, T *Y, long y_apart, const int count, const char *ahead, long stride, long size)
{
    V a[R][2];
    for (int r = 0; r < R; r++)
        for (int g = 0; g < count; g++) a[r][g] = (V){0};
    const long line = ahead ? 64 / size : n;
    for (long first = 0; first < n; first += line) {
        const long last = first + line < n ? first + line : n;
        for (int r = 0; r < R && ahead; r++) __builtin_prefetch(ahead + r * stride + first * size, 0, 2);
        for (long j = first; j < last; j++) {
            V w[2];
            for (int g = 0; g < count; g++) w[g] = *(const V *)(W + g * w_apart + j * L);
#pragma GCC unroll 12
            for (int r = 0; r < R; r++)
#pragma GCC unroll 2
                for (int g = 0; g < count; g++) a[r][g] += P[r * ld + j] * w[g];
        }
    }
    for (int g = 0; g < count; g++)
        for (int r = 0; r < R; r++) *(V *)(Y + g * y_apart + r * L) += a[r][g];
}

static void NAME(y_panel)(const T *P, long ld, long n, const T *W, long w_apart, T *Y, long y_apart, int count)
{
    if (count == PAIR) NAME(y_sum)(P, ld, n, W, w_apart, Y, y_apart, PAIR, NULL, 0, 0);
    else NAME(y_sum)(P, ld, n, W, w_apart, Y, y_apart, 1, NULL, 0, 0);
}

/* `ahead` is where R rows of X go on, with entries of so many bytes, which are fetched meanwhile: rows that
 * are converted before they are multiplied would be waited for. */
static void NAME(y_panel_ahead)(const T *P, long ld, long n, const T *W, long w_apart, T *Y, long y_apart, int count, const char *ahead, long stride, long size)
{
    if (count == PAIR) NAME(y_sum)(P, ld, n, W, w_apart, Y, y_apart, PAIR, ahead, stride, size);
    else NAME(y_sum)(P, ld, n, W, w_apart, Y, y_apart, 1, ahead, stride, size);
}

/* Z += P^T Y for `count` groups of columns, four columns of P at a time, or two. */
static inline __attribute__((always_inline)) void NAME(z_sum)(const T *P, long ld, long n, const T *Y, long y_apart, T *Z, long z_apart, const int count)
{
    const int some = 4 / count;
    V y[R][2];
    for (int g = 0; g < count; g++)
        for (int r = 0; r < R; r++) y[r][g] = *(const V *)(Y + g * y_apart + r * L);
    long j = 0;
    for (; j + some <= n; j += some) {
        V z[4][2];
        for (int i = 0; i < some; i++)
            for (int g = 0; g < count; g++) z[i][g] = *(const V *)(Z + g * z_apart + (j + i) * L);
#pragma GCC unroll 12
        for (int r = 0; r < R; r++)
#pragma GCC unroll 4
            for (int i = 0; i < some; i++)
#pragma GCC unroll 2
                for (int g = 0; g < count; g++) z[i][g] += P[r * ld + j + i] * y[r][g];
        for (int i = 0; i < some; i++)
            for (int g = 0; g < count; g++) *(V *)(Z + g * z_apart + (j + i) * L) = z[i][g];
    }
    for (; j < n; j++)
        for (int g = 0; g < count; g++) {
            V z = *(V *)(Z + g * z_apart + j * L);
            for (int r = 0; r < R; r++) z += P[r * ld + j] * y[r][g];
            *(V *)(Z + g * z_apart + j * L) = z;
        }
}

static void NAME(z_panel)(const T *P, long ld, long n, const T *Y, long y_apart, T *Z, long z_apart, int count)
{
    if (count == PAIR) NAME(z_sum)(P, ld, n, Y, y_apart, Z, z_apart, PAIR);
    else NAME(z_sum)(P, ld, n, Y, y_apart, Z, z_apart, 1);
}

/* Whether rows of X can be used as they are. */
static int NAME(same)(const dense *X)
{
    return X->wide == (sizeof(T) == 8) && !X->center && X->scale == 1.0;
}

/* Columns [from, to) of R rows of scale (X - 1 c^T) as a panel in T; rows beyond `rows` are 0. */
static void NAME(convert)(const dense *X, long row, long rows, long from, long to, T *restrict panel, long ld)
{
    const double *c = X->center, scale = X->scale;
    const int same = NAME(same)(X);
    for (long r = 0; r < R; r++) {
        T *p = panel + r * ld;
        if (r >= rows) {
            memset(p + from, 0, (to - from) * sizeof(T));
            continue;
        }
        const char *start = X->data + (row + r) * X->stride;
        if (same) {
            memcpy(p + from, (const T *)start + from, (to - from) * sizeof(T));
        } else if (X->wide) {
            const double *x = (const double *)start;
            if (c) for (long j = from; j < to; j++) p[j] = (T)((x[j] - c[j]) * scale);
            else for (long j = from; j < to; j++) p[j] = (T)(x[j] * scale);
        } else {
            const float *x = (const float *)start;
            if (c) for (long j = from; j < to; j++) p[j] = (T)(((double)x[j] - c[j]) * scale);
            else for (long j = from; j < to; j++) p[j] = (T)(x[j] * scale);
        }
    }
}

/* Columns of a factor as groups of `lanes`: entry (g rows + i) lanes + k is A[i, g lanes + k], or 0. */
static void NAME(pack)(const factor *A, long groups, long rows, long lanes, void *memory)
{
    T *packed = memory;
    memset(packed, 0, groups * rows * lanes * sizeof(T));
    for (long g = 0; g < groups; g++) {
        const long b = A->columns - g * lanes < lanes ? A->columns - g * lanes : lanes;
        for (long i = 0; i < A->rows; i++) {
            const char *a = A->data + i * A->row_stride + g * lanes * A->column_stride;
            T *p = packed + (g * rows + i) * lanes;
            if (A->column_stride == sizeof(T)) memcpy(p, a, b * sizeof(T));
            else for (long k = 0; k < b; k++) p[k] = *(const T *)(a + k * A->column_stride);
        }
    }
}

/* Write rows of `lanes` numbers to a factor from its column `first` on, as many as it has. */
static void NAME(store)(const factor *A, long row, long rows, long first, long lanes, const T *Y)
{
    const long n = A->columns - first < lanes ? A->columns - first : lanes;
    for (long r = 0; r < rows; r++)
        memcpy(A->data + (row + r) * A->row_stride + first * sizeof(T), Y + r * lanes, n * sizeof(T));
}

/* exp(x) but at most 1, of rows of `lanes` numbers: 2^n e^r with |r| <= log(2) / 2, e^r by its Taylor series. Below the
 * logarithm of the least normal number it is 0. */
static void NAME(exponential)(long rows, T *Y)
{
    enum { DOUBLE = sizeof(T) == 8, BITS = DOUBLE ? 52 : 23, BIAS = DOUBLE ? 1023 : 127, TERMS = DOUBLE ? 13 : 7 };
    const T magic = DOUBLE ? 0x1.8p52 : 0x1.8p23f, least = DOUBLE ? -708 : -87;
    const T high = DOUBLE ? 0x1.62e42feep-1 : 0x1.62e4p-1f, low = DOUBLE ? 0x1.a39ef35793c76p-33 : 0x1.7f7d1cp-20f;
    for (long k = 0; k < rows; k++) {
        V x = *(V *)(Y + k * L);
        x = (V)((I)x & (x < 0));
        const I normal = x > least;
        x = (V)(((I)x & normal) | ((I)((V){0} + least) & ~normal));
        const V shifted = x * (T)1.4426950408889634 + magic, n = shifted - magic, r = x - n * high - n * low;
        V e = (V){0} + 1;
        for (int i = TERMS; i > 0; i--) e = e * r * ((T)1 / i) + 1;
        const I power = ((I)shifted - (I)((V){0} + magic) + BIAS) << BITS;
        *(V *)(Y + k * L) = (V)((I)(e * (V)power) & normal);
    }
}

static void NAME(flush)(long size, T *part, double *sum)
{
    for (long i = 0; i < size; i++) sum[i] += part[i], part[i] = 0;
}

/* Rows [first, last) of a product: SWEEP adds X^T (X W - shift) to `sum`, and the column sums of
 * X W - shift to `total`; MATMUL and MATEXP write rows of X W or of exp(X W); RMATMUL adds X^T H to `sum`. */
static int NAME(rows)(const task *t, long first, long last, double *sum, double *total)
{
    const dense *X = t->X;
    const int image = t->kind == MATMUL || t->kind == MATEXP;
    const long d = X->columns, G = t->groups, size = d * L, entry = X->wide ? sizeof(double) : sizeof(float);
    const long parts = (d + CHUNK - 1) / CHUNK, chunk = ((d + parts - 1) / parts + 15) / 16 * 16;
    T *scratch = aligned(R * padded(d, sizeof(T)) * sizeof(T) + (image ? 0 : G * size * sizeof(T)));
    if (!scratch) return -1;
    T *Z = scratch + R * padded(d, sizeof(T)), Y[PAIR * R * L] __attribute__((aligned(64)));
    if (!image) memset(Z, 0, G * size * sizeof(T));
    const T *W = t->packed, *shift = t->shift;
    long since = 0;
    for (long row = first; row < last; row += R) {
        const long rows = last - row < R ? last - row : R;
        /* Rows that are a multiple of 4096 bytes apart would share one set of the first cache. */
        const int direct = NAME(same)(X) && rows == R && X->stride % 4096;
        const long ld = direct ? X->stride / (long)sizeof(T) : padded(d, sizeof(T));
        const char *start = X->data + row * X->stride, *next = row + 2 * R <= last ? start + R * X->stride : start;
        const T *P = direct ? (const T *)start : scratch;
        for (long g = 0, count; g < G; g += count) {
            count = g + PAIR <= G ? PAIR : 1;
            memset(Y, 0, sizeof Y);
            if (t->kind == RMATMUL)
                for (long i = 0; i < count; i++)
                    memcpy(Y + i * R * L, W + ((g + i) * t->packed_rows + row) * L, rows * L * sizeof(T));
            for (long j = 0, end; j < d; j = end) {
                end = d - j < chunk ? d : j + chunk;
                if (!direct && g == 0) NAME(convert)(X, row, rows, j, end, scratch, ld);
                if (t->kind == RMATMUL) continue;
                if (direct || g > 0)
                    NAME(y_panel)(P + j, ld, end - j, W + g * size + j * L, size, Y, R * L, count);
                else
                    NAME(y_panel_ahead)(P + j, ld, end - j, W + g * size + j * L, size, Y, R * L, count, end < d ? start + end * entry : next, X->stride, entry);
            }
            for (long i = 0; i < count && t->kind != RMATMUL; i++) {
                T *y = Y + i * R * L;
                if (t->kind == MATEXP) NAME(exponential)(rows, y);
                if (image) {
                    NAME(store)(&t->out, row, rows, (g + i) * L, L, y);
                    continue;
                }
                if (shift)
                    for (long r = 0; r < rows; r++)
                        for (long k = 0; k < L; k++) {
                            y[r * L + k] -= shift[(g + i) * L + k];
                            total[(g + i) * L + k] += y[r * L + k];
                        }
                if (t->middle.data) NAME(store)(&t->middle, row, rows, (g + i) * L, L, y);
            }
            if (!image) NAME(z_panel)(P, ld, d, Y, R * L, Z + g * size, size, count);
        }
        if (!image && ++since == FLUSH) NAME(flush)(G * size, Z, sum), since = 0;
    }
    if (!image) NAME(flush)(G * size, Z, sum);
    free(scratch);
    return 0;
}

/* Columns [first, last) of COSWEEP, a strip at a time: adds X (X^T W) to `sum`. */
static int NAME(columns)(const task *t, long first, long last, double *sum)
{
    const dense *X = t->X;
    const long N = X->rows, padded_rows = t->packed_rows, G = t->groups, apart = padded_rows * L, entry = X->wide ? sizeof(double) : sizeof(float);
    const long fit = STRIP / (padded_rows * (long)sizeof(T)) / 16 * 16, width = fit < 16 ? 16 : fit > CHUNK ? CHUNK : fit;
    T *Z = aligned((G * padded_rows * L + G * width * L + padded_rows * width) * sizeof(T));
    if (!Z) return -1;
    T *Y = Z + G * padded_rows * L, *strip = Y + G * width * L;
    memset(Z, 0, G * padded_rows * L * sizeof(T));
    const T *W = t->packed;
    long since = 0;
    for (long j = first; j < last; j += width) {
        const long n = last - j < width ? last - j : width;
        memset(Y, 0, G * width * L * sizeof(T));
        for (int second = 0; second < 2; second++)
            for (long row = 0; row < N; row += R) {
                const long rows = N - row < R ? N - row : R;
                const int direct = NAME(same)(X) && rows == R && X->stride % 4096;
                const char *start = X->data + row * X->stride + j * entry;
                const long ld = direct ? X->stride / (long)sizeof(T) : width;
                const T *P = direct ? (const T *)start : strip + row * width;
                if (!direct && !second) NAME(convert)(X, row, rows, j, j + n, strip + row * width - j, width);
                for (long g = 0, count; g < G; g += count) {
                    T *z = Z + g * apart + row * L, *y = Y + g * width * L;
                    count = g + PAIR <= G ? PAIR : 1;
                    if (!second) NAME(z_panel)(P, ld, n, W + g * apart + row * L, apart, y, width * L, count);
                    else if (g > 0 || j + n + width > last || rows < R) NAME(y_panel)(P, ld, n, y, width * L, z, apart, count);
                    else NAME(y_panel_ahead)(P, ld, n, y, width * L, z, apart, count, start + n * entry, X->stride, entry);
                }
            }
        if (++since == FLUSH / 16 || j + width >= last) {
            since = 0;
            for (long g = 0; g < G; g++) NAME(flush)(N * L, Z + g * padded_rows * L, sum + g * N * L);
        }
    }
    free(Z);
    return 0;
}

/* Rows [first, last) of a CSR matrix, K vectors of a factor's row at a time: an index is read once for
 * K L columns. */
#define CSR(INDEX, K)                                                                                \
    for (long row = first; row < last; row++) {                                                      \
        const INDEX *column = (const INDEX *)S->indices, *start = (const INDEX *)S->indptr + row;    \
        for (long g = 0; g < t->groups; g++) {                                                       \
            const V *Wg = (const V *)t->packed + g * t->packed_rows * K;                             \
            V y[K];                                                                                  \
            for (int i = 0; i < K; i++) y[i] = t->kind == RMATMUL ? Wg[row * K + i] : (V){0};        \
            for (long k = start[0]; k < start[1] && t->kind != RMATMUL; k++) {                       \
                const V *w = Wg + (long)column[k] * K;                                               \
                __builtin_prefetch(Wg + (long)column[k + AHEAD < S->stored ? k + AHEAD : k] * K);    \
                for (int i = 0; i < K; i++) y[i] += x[k] * w[i];                                     \
            }                                                                                        \
            if (t->kind == MATMUL) {                                                                 \
                NAME(store)(&t->out, row, 1, g * K * L, K * L, (const T *)y);                        \
                continue;                                                                            \
            }                                                                                        \
            for (int i = 0; i < K && shift; i++) {                                                   \
                y[i] -= ((const V *)shift)[g * K + i];                                               \
                for (int k = 0; k < L; k++) total[(g * K + i) * L + k] += y[i][k];                   \
            }                                                                                        \
            V *Zg = (V *)part + g * S->columns * K;                                                  \
            for (long k = start[0]; k < start[1]; k++) {                                             \
                V *z = Zg + (long)column[k] * K;                                                     \
                __builtin_prefetch(Zg + (long)column[k + AHEAD < S->stored ? k + AHEAD : k] * K, 1); \
                for (int i = 0; i < K; i++) z[i] += x[k] * y[i];                                     \
            }                                                                                        \
        }                                                                                            \
    }

static int NAME(csr)(const task *t, long first, long last, void *part, double *total)
{
    const csr *S = t->S;
    const T *x = S->data, *shift = t->shift;
    const long K = t->lanes / L;
    if (S->long_indices) {
        if (K == 1) { CSR(long long, 1) } else if (K == 2) { CSR(long long, 2) } else { CSR(long long, 4) }
    } else {
        if (K == 1) { CSR(int, 1) } else if (K == 2) { CSR(int, 2) } else { CSR(int, 4) }
    }
    return 0;
}

/* Rows [first, last) of data of type T, by their weights: adds to the sums of the columns and returns that of
 * squares, all in float64. It is finite only where all entries are. Even and odd rows have sums of their own, `size`
 * apart, so that a row need not wait for the sums of the one before. */
static double NAME(moments)(const dense *X, long first, long last, double *sums, long size)
{
    enum { D = VECTOR / sizeof(double) };
    typedef double doubles __attribute__((vector_size(VECTOR), aligned(8)));
    typedef T entries __attribute__((vector_size(D * sizeof(T)), aligned(sizeof(T))));
    double energy = 0;
    for (long row = first; row < last; row++) {
        const T *x = (const T *)(X->data + row * X->stride);
        const double w = X->weights ? X->weights[row] : 1;
        if (w == 0) continue;
        double *sum = sums + row % 2 * size, one = 0;
        doubles square[2] = {{0}, {0}};
        long j = 0;
        for (; j + 2 * D <= X->columns; j += 2 * D)
            for (int k = 0; k < 2; k++) {
                const doubles a = __builtin_convertvector(*(const entries *)(x + j + k * D), doubles);
                *(doubles *)(sum + j + k * D) += a * w;
                square[k] += a * a;
            }
        for (; j < X->columns; j++) sum[j] += w * x[j], one += (double)x[j] * x[j];
        square[0] += square[1];
        for (int k = 0; k < D; k++) one += square[0][k];
        energy += w * one;
    }
    for (long j = 0; j < X->columns; j++) sums[j] += sums[size + j];
    return energy;
}

/* The squares of the rows [first, last) of scale (X - 1 c^T), in float64. */
static void NAME(squares)(const dense *X, long first, long last, double *squares)
{
    enum { D = VECTOR / sizeof(double) };
    typedef double doubles __attribute__((vector_size(VECTOR), aligned(8)));
    typedef T entries __attribute__((vector_size(D * sizeof(T)), aligned(sizeof(T))));
    const double *c = X->center;
    for (long row = first; row < last; row++) {
        const T *x = (const T *)(X->data + row * X->stride);
        doubles square[2] = {{0}, {0}};
        double one = 0;
        long j = 0;
        for (; j + 2 * D <= X->columns; j += 2 * D)
            for (int k = 0; k < 2; k++) {
                doubles a = __builtin_convertvector(*(const entries *)(x + j + k * D), doubles);
                if (c) a -= *(const doubles *)(c + j + k * D);
                square[k] += a * a;
            }
        for (; j < X->columns; j++) one += (x[j] - (c ? c[j] : 0)) * (x[j] - (c ? c[j] : 0));
        square[0] += square[1];
        for (int k = 0; k < D; k++) one += square[0][k];
        squares[row] = one * X->scale * X->scale;
    }
}

#include "gram.h"
#include "reweigh.h"

static const table NAME(table) = {
    L, R, NAME(pack), NAME(rows), NAME(columns), NAME(reweigh), NAME(csr), NAME(squares), NAME(moments), NAME(gram), NAME(whole),
};

#undef CSR
#undef CHUNK
#undef FLUSH
#undef AHEAD
#undef PAIR
#undef L
#undef V
#undef I
