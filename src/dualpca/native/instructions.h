/* The arguments of a product, and the kernels of every instruction set that the compiler knows. */
typedef struct {
    const char *data;
    long rows, columns, stride; /* stride in bytes */
    int wide;                   /* whether entries are float64 */
    const double *center;       /* subtracted from each row, or NULL */
    double scale;
    const double *weights;      /* of the rows, for Gram matrices and moments, or NULL */
    /* Of Gram matrices only: the bytes between the entries of a row, which others want contiguous, and what is
     * subtracted from each column, or NULL. */
    long step;
    const double *row_center;
} dense;

typedef struct {
    const void *data, *indices, *indptr;
    long rows, columns, stored;
    int long_indices;
} csr;

typedef struct {
    char *data;
    long rows, columns, row_stride, column_stride; /* strides in bytes */
} factor;

/* The loss of rows of robust PCA, -m c^2 psi((alpha^2 - t^2) / c^2) of a row of length t, and what stands beside
 * its scores: see reweigh.h. */
typedef struct {
    const double *alpha, *mass, *scales, *beside; /* the last three may be NULL */
    double c2, parameter, eps, largest;
    int psi;
    long column; /* where `beside` goes, or -1 */
} row_loss;

enum psi { POWER, HUBER, LOGARITHM, CAUCHY, GEMAN_MCCLURE, WELSCH, TUKEY, SQUARE };

/* psi(v) and its slope; v > 0. */
static double psi_of(const row_loss *F, double v, double *slope)
{
    switch (F->psi) {
    case POWER: {
        const double value = F->parameter == 1 ? sqrt(v) : pow(v, F->parameter / 2);
        *slope = F->parameter / 2 * value / v;
        return value;
    }
    case HUBER: *slope = v <= 1 ? 1 : 1 / sqrt(v); return v <= 1 ? v : 2 * sqrt(v) - 1;
    case LOGARITHM: *slope = 1 / v; return log(v);
    case CAUCHY: *slope = 1 / (1 + v); return log1p(v);
    case GEMAN_MCCLURE: *slope = 1 / (1 + v) / (1 + v); return v / (1 + v);
    case WELSCH: *slope = exp(-v); return -expm1(-v);
    case TUKEY: {
        const double rest = v < 1 ? 1 - v : 0;
        *slope = rest * rest;
        return (1 - rest * rest * rest) / 3;
    }
    default: *slope = 1; return v;
    }
}

/* The weight of row i, whose scores have this squared length, and its part of the value; both are 0 where alpha is
 * 0, and rounding beyond alpha is clamped. */
static double weight(const row_loss *F, long i, double size2, double *value)
{
    const double a2 = F->alpha[i] * F->alpha[i], gap = a2 - size2, floor = F->eps * a2;
    double v = (gap > floor ? gap : floor) / F->c2, slope = 0;
    *value = 0;
    if (v > 0) {
        const double m = F->mass ? F->mass[i] : 1;
        *value = -m * F->c2 * psi_of(F, v < F->largest ? v : F->largest, &slope);
        slope *= 2 * m;
    }
    if (size2 > (1 + 100 * F->eps) * a2) *value = INFINITY;
    return slope;
}

enum kind { SWEEP, MATMUL, RMATMUL, COSWEEP, MATEXP, MOMENTS, GRAM, REWEIGH, SQUARES };

typedef struct {
    enum kind kind;
    const dense *X;
    const csr *S;
    const void *packed, *shift;
    long packed_rows, groups, lanes;
    factor out, middle; /* the rows of X W in a sweep go to `middle`, if that has data */
    const row_loss *F;
} task;

typedef struct {
    long lanes, panel;
    void (*pack)(const factor *, long, long, long, void *);
    int (*rows)(const task *, long, long, double *, double *);
    int (*columns)(const task *, long, long, double *);
    int (*reweigh)(const task *, long, long, double *, double *);
    int (*csr)(const task *, long, long, void *, double *);
    void (*squares)(const dense *, long, long, double *);
    double (*moments)(const dense *, long, long, double *, long);
    int (*gram)(const dense *, long, long, long, long, double *, long);
    long (*whole)(long);
} table;

/* Bytes of the columns of X that are read for both products of X (X^T W) while they stay in the cache. */
#define STRIP (2L << 20)

/* Bytes of the columns of a Gram matrix that are summed at a time: they stay in the last cache. */
#define GRAM_SLAB (8L << 20)

/* Rows that a tile of a Gram matrix may reach beyond its last one. */
#define MARGIN 8

static void *aligned(size_t size)
{
    return aligned_alloc(64, (size + 127) / 64 * 64);
}

/* Entries from one row of a panel to the next, not a multiple of 4096 bytes. */
static long padded(long n, long size)
{
    const long entries = (n + 15) / 16 * 16;
    return entries * size % 2048 ? entries : entries + 16;
}

#define PASTE(a, b, c) a##_##b##_##c
#define EXPAND(a, b, c) PASTE(a, b, c)
#define NAME(name) EXPAND(name, T, VECTOR)

#if defined(__x86_64__)
#define VECTOR 16
#define R 8
#define HEIGHT 4
#define T float
#include "kernels.h"
#undef T
#define T double
#include "kernels.h"
#include "cell_rows.h"
#undef T
#undef VECTOR
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define VECTOR 32
#define T float
#include "kernels.h"
#undef T
#define T double
#include "kernels.h"
#include "cell_rows.h"
#undef T
#undef VECTOR
#undef R
#undef HEIGHT
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512")
#define VECTOR 64
#define R 12
#define HEIGHT 8
#define T float
#include "kernels.h"
#undef T
#define T double
#include "kernels.h"
#include "cell_rows.h"
#undef T
#pragma GCC pop_options
static const struct { const char *name; const table *single, *twice; } TABLES[] = {
    {"sse2", &table_float_16, &table_double_16},
    {"avx2", &table_float_32, &table_double_32},
    {"avx512", &table_float_64, &table_double_64},
};
static int best(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) return 2;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1 : 0;
}
#else /* NEON and others: vectors of 16 bytes, which the compiler knows how to multiply */
#define VECTOR 16
#define R 12
#define HEIGHT 8
#define T float
#include "kernels.h"
#undef T
#define T double
#include "kernels.h"
#include "cell_rows.h"
#undef T
static const struct { const char *name; const table *single, *twice; } TABLES[] = {
    {"vector", &table_float_16, &table_double_16},
};
static int best(void)
{
    return 0;
}
#endif

static int level;

/* The kernels of the best instructions; of narrower vectors where those hold all columns. */
static const table *table_for(long columns, int single)
{
    int i = level;
    while (i > 0 && columns <= (single ? TABLES[i - 1].single : TABLES[i - 1].twice)->lanes) i--;
    return single ? TABLES[i].single : TABLES[i].twice;
}
