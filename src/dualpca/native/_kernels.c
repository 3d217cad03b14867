/* Thin products with row-major dense and CSR matrices, in threads, for Python's stable ABI.
 *
 * Every function takes buffers, checks their shapes, releases the GIL and writes into an output that the
 * caller allocated. Rows (or columns) are divided among the threads in a fixed way and their sums are
 * added in order, so that an answer depends on the number of threads only.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "instructions.h"
#include "threads.h"

/* One thread's share. */
typedef struct {
    const task *task;
    const table *table;
    long first, last, from, to; /* rows, and columns of a Gram matrix */
    void *sum;
    double *total, energy;
    int failed;
} share;

/* Sums of n columns, up to whole lines of the cache: no two threads write to one. */
static long whole_lines(long n)
{
    return (n + 15) / 16 * 16;
}

static void *work(void *argument)
{
    share *s = argument;
    const task *t = s->task;
    if (t->kind == GRAM) s->failed = s->table->gram(t->X, s->first, s->last, s->from, s->to, s->sum, t->out.row_stride / (long)sizeof(double));
    else if (t->kind == MOMENTS) s->energy = s->table->moments(t->X, s->first, s->last, s->sum, whole_lines(t->X->columns));
    else if (t->kind == REWEIGH) s->failed = s->table->reweigh(t, s->first, s->last, s->sum, s->total);
    else if (t->kind == SQUARES) s->table->squares(t->X, s->first, s->last, s->sum);
    else if (t->kind == COSWEEP) s->failed = s->table->columns(t, s->first, s->last, s->sum);
    else if (t->S) s->failed = s->table->csr(t, s->first, s->last, s->sum, s->total);
    else s->failed = s->table->rows(t, s->first, s->last, s->sum, s->total);
    return NULL;
}

/* Where share i of `count` begins: equal numbers of rows, or of stored entries. */
static long cut(const task *t, long n, long unit, int i, int count)
{
    if (i == 0 || i == count) return i ? n : 0;
    if (!t->S) return (n * i / count + unit - 1) / unit * unit < n ? (n * i / count + unit - 1) / unit * unit : n;
    const csr *S = t->S;
#define ENTRIES(row) (S->long_indices ? (long)((const long long *)S->indptr)[row] : (long)((const int *)S->indptr)[row])
    const long wanted = ENTRIES(0) + (ENTRIES(n) - ENTRIES(0)) / count * i;
    long low = 0, high = n;
    while (low < high) {
        const long middle = (low + high) / 2;
        if (ENTRIES(middle) < wanted) low = middle + 1;
        else high = middle;
    }
    return low;
#undef ENTRIES
}

/* X W, exp(X W) but at most 1, X^T H, X^T (X W - shift), X (X^T W) or X^T H of the rows
 * that F weighs into `out`, of type float where `single`; X W into `middle`, if given. */
static int multiply(enum kind kind, const dense *X, const csr *S, const factor *W, const factor *out,
                    const factor *middle, const factor *shift, const row_loss *F, double *total, int single, int count)
{
    const table *f = table_for(out->columns, single);
    const long size = single ? sizeof(float) : sizeof(double);
    const long N = X ? X->rows : S->rows, d = X ? X->columns : S->columns;
    const long vectors = (out->columns + f->lanes - 1) / f->lanes;
    const long lanes = (!S || vectors == 1 ? 1 : vectors == 2 ? 2 : 4) * f->lanes;
    const long groups = (out->columns + lanes - 1) / lanes, width = groups * lanes;
    const long packed_rows = (W->rows + f->panel - 1) / f->panel * f->panel;
    const long part = S ? size : (long)sizeof(double); /* bytes of an entry of a sum */
    const int summed = kind != MATMUL && kind != MATEXP, across = kind == COSWEEP;
    const long n = across ? N : d; /* rows of a sum */
    share shares[64] = {{0}};
    void *packed = aligned(groups * packed_rows * lanes * size);
    const long bytes = summed ? count * n * width * part : 0;
    void *sums = aligned(bytes);
    const long apart = whole_lines(width + 2); /* the last two are sums of F */
    double *totals = calloc(count, apart * sizeof(double));
    void *moved = aligned(width * size);
    int failed = !packed || !sums || !totals || !moved;
    task t = {kind, X, S, packed, NULL, kind == RMATMUL || across ? packed_rows : W->rows, groups, lanes, *out, middle ? *middle : (factor){0}, F};
    if (!failed) {
        memset(sums, 0, bytes);
        f->pack(W, groups, t.packed_rows, lanes, packed);
        if (shift) f->pack(shift, groups, 1, lanes, moved), t.shift = moved;
        for (int i = 0; i < count; i++)
            shares[i] = (share){&t, f, cut(&t, across ? d : N, across ? 16 : f->panel, i, count), cut(&t, across ? d : N, across ? 16 : f->panel, i + 1, count), 0, 0,
                                (char *)sums + (summed ? i * n * width * part : 0), totals + i * apart, 0, 0};
        run(work, shares, sizeof *shares, count);
        for (int i = 0; i < count; i++) failed |= shares[i].failed;
    }
    for (long g = 0; !failed && summed && g < groups; g++) {
        const long b = out->columns - g * lanes < lanes ? out->columns - g * lanes : lanes;
        for (long i = 0; i < n; i++) {
            char *o = out->data + i * out->row_stride + g * lanes * size;
            double sum[64]; /* four vectors of floats */
            for (long k = 0; k < lanes; k++) sum[k] = 0;
            for (int c = 0; c < count; c++) {
                const char *part_sum = (char *)sums + (c * n * width + (g * n + i) * lanes) * part;
                if (S && single) for (long k = 0; k < lanes; k++) sum[k] += ((const float *)part_sum)[k];
                else for (long k = 0; k < lanes; k++) sum[k] += ((const double *)part_sum)[k];
            }
            if (single) for (long k = 0; k < b; k++) ((float *)o)[k] = (float)sum[k];
            else memcpy(o, sum, b * sizeof(double));
        }
    }
    for (int c = 0; total && !failed && c < count; c++) {
        for (long k = 0; k < out->columns; k++) total[k] += totals[c * apart + k];
        for (long k = 0; F && k < 2; k++) total[out->columns + k] += totals[c * apart + width + k];
    }
    free(packed), free(sums), free(totals), free(moved);
    return failed;
}

/* Python: buffers of float32, float64, int32 or int64 with their shapes checked. */

static int get(PyObject *object, Py_buffer *view, int dimensions, int writable, const char *types)
{
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0))) return -1;
    const char *format = view->format ? view->format : "B";
    const union { short number; char bytes[2]; } order = {1};
    if (strchr(order.bytes[0] ? "@=<" : "@=>", format[0]) && format[0]) format++; /* this machine's byte order */
    if (view->ndim == dimensions && strlen(format) == 1 && strchr(types, format[0])) return 0;
    PyErr_Format(PyExc_TypeError, "a buffer has %d dimensions and format '%s'; %d and one of '%s' are needed",
                 view->ndim, format, dimensions, types);
    PyBuffer_Release(view);
    view->obj = NULL;
    return -1;
}

static int is_dense_row(const Py_buffer *view, int axis)
{
    return view->shape[axis] <= 1 || view->strides[axis] == view->itemsize;
}

static factor as_factor(const Py_buffer *view)
{
    return (factor){view->buf, view->shape[0], view->shape[1], view->strides[0], view->strides[1]};
}

static int limited(int count, double operations)
{
    const int worth = operations < 1e9 ? 1 + (int)(operations / 2e7) : 64; /* a share takes 0.1 ms or more */
    count = count < worth ? count : worth;
    return count < 1 ? 1 : count > 64 ? 64 : count;
}

enum { X_VIEW, W_VIEW, OUT_VIEW, CENTER_VIEW, WEIGHTS_VIEW, SHIFT_VIEW, TOTAL_VIEW, MIDDLE_VIEW, INDICES_VIEW, INDPTR_VIEW, ALPHA_VIEW, MASS_VIEW, SCALES_VIEW, BESIDE_VIEW, VIEWS };

static void release(Py_buffer *views)
{
    for (int i = 0; i < VIEWS; i++)
        if (views[i].obj) PyBuffer_Release(&views[i]);
}

static PyObject *finish(Py_buffer *views, int failed)
{
    release(views);
    if (failed > 0) return PyErr_NoMemory();
    if (failed < 0) return NULL;
    Py_RETURN_NONE;
}

/* Get W, out, shift and total, and check that they fit a product with an N x d matrix. */
static int factors(Py_buffer *v, enum kind kind, long N, long d, PyObject *W, PyObject *out, PyObject *shift,
                   PyObject *total)
{
    if (get(W, &v[W_VIEW], 2, 0, "fd") || get(out, &v[OUT_VIEW], 2, 1, "fd")) return -1;
    if (shift != Py_None && (get(shift, &v[SHIFT_VIEW], 2, 0, "fd") || get(total, &v[TOTAL_VIEW], 1, 1, "d"))) return -1;
    const long b = v[W_VIEW].shape[1], in = kind == RMATMUL || kind == COSWEEP ? N : d, result = kind == MATMUL || kind == MATEXP || kind == COSWEEP ? N : d;
    int fits = v[W_VIEW].shape[0] == in && v[OUT_VIEW].shape[0] == result && v[OUT_VIEW].shape[1] == b;
    fits = fits && v[W_VIEW].itemsize == v[OUT_VIEW].itemsize && is_dense_row(&v[OUT_VIEW], 1);
    if (v[SHIFT_VIEW].obj)
        fits = fits && kind == SWEEP && v[SHIFT_VIEW].shape[0] == 1 && v[SHIFT_VIEW].shape[1] == b &&
               v[SHIFT_VIEW].itemsize == v[W_VIEW].itemsize && v[TOTAL_VIEW].shape[0] == b &&
               is_dense_row(&v[TOTAL_VIEW], 0);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the shapes or types of the factors do not fit the matrix");
    return fits ? 0 : -1;
}

static PyObject *product(PyObject *self, PyObject *args)
{
    PyObject *x, *w, *o, *c, *sh, *to, *m;
    int kind, threads;
    double scale;
    if (!PyArg_ParseTuple(args, "iOOOOdOOOi", &kind, &x, &w, &o, &c, &scale, &sh, &to, &m, &threads)) return NULL;
    Py_buffer v[VIEWS] = {{0}};
    if (get(x, &v[X_VIEW], 2, 0, "fd")) return finish(v, -1);
    dense X = {v[X_VIEW].buf, v[X_VIEW].shape[0], v[X_VIEW].shape[1], v[X_VIEW].strides[0], v[X_VIEW].itemsize == 8, NULL, scale};
    if (factors(v, kind, X.rows, X.columns, w, o, sh, to)) return finish(v, -1);
    if (c != Py_None) {
        if (get(c, &v[CENTER_VIEW], 1, 0, "d")) return finish(v, -1);
        X.center = v[CENTER_VIEW].buf;
    }
    if (!is_dense_row(&v[X_VIEW], 1) || (X.center && (v[CENTER_VIEW].shape[0] != X.columns || !is_dense_row(&v[CENTER_VIEW], 0)))) {
        PyErr_SetString(PyExc_ValueError, "the rows of X or the center are not contiguous, or do not fit");
        return finish(v, -1);
    }
    if (m != Py_None) {
        if (get(m, &v[MIDDLE_VIEW], 2, 1, "fd")) return finish(v, -1);
        if (kind != SWEEP || v[MIDDLE_VIEW].shape[0] != X.rows || v[MIDDLE_VIEW].shape[1] != v[W_VIEW].shape[1] ||
            v[MIDDLE_VIEW].itemsize != v[W_VIEW].itemsize || !is_dense_row(&v[MIDDLE_VIEW], 1)) {
            PyErr_SetString(PyExc_ValueError, "the middle product does not fit");
            return finish(v, -1);
        }
    }
    const factor W = as_factor(&v[W_VIEW]), out = as_factor(&v[OUT_VIEW]);
    const factor shift = sh != Py_None ? as_factor(&v[SHIFT_VIEW]) : out, middle = m != Py_None ? as_factor(&v[MIDDLE_VIEW]) : out;
    int failed;
    threads = limited(threads, 4.0 * X.rows * X.columns * W.columns);
    Py_BEGIN_ALLOW_THREADS
    failed = multiply(kind, &X, NULL, &W, &out, m != Py_None ? &middle : NULL, sh != Py_None ? &shift : NULL, NULL,
                      sh != Py_None ? v[TOTAL_VIEW].buf : NULL, v[W_VIEW].itemsize == 4, threads);
    Py_END_ALLOW_THREADS
    return finish(v, failed ? 1 : 0);
}

/* The buffers of the rows: those of `views` from ALPHA_VIEW on that are given, each of N numbers. */
static int row_buffers(Py_buffer *v, PyObject **objects, int count, long N)
{
    for (int i = 0; i < count; i++) {
        Py_buffer *view = &v[ALPHA_VIEW + i];
        if (objects[i] == Py_None) continue;
        if (get(objects[i], view, 1, 0, "d")) return -1;
        if (view->shape[0] != N || !is_dense_row(view, 0)) {
            PyErr_SetString(PyExc_ValueError, "numbers of the rows are not contiguous, or not one for each");
            return -1;
        }
    }
    return 0;
}

static PyObject *reweigh(PyObject *self, PyObject *args)
{
    PyObject *x, *w, *o, *c, *sh, *to, *rows[4];
    int psi, threads;
    double scale, c2, parameter, eps;
    if (!PyArg_ParseTuple(args, "OOOOdOO(OOOO)(iddd)i", &x, &w, &o, &c, &scale, &sh, &to, &rows[0], &rows[1], &rows[2],
                          &rows[3], &psi, &c2, &parameter, &eps, &threads)) return NULL;
    Py_buffer v[VIEWS] = {{0}};
    if (get(x, &v[X_VIEW], 2, 0, "fd") || get(w, &v[W_VIEW], 2, 0, "fd") || get(o, &v[OUT_VIEW], 2, 1, "fd") ||
        get(sh, &v[SHIFT_VIEW], 2, 0, "fd") || get(to, &v[TOTAL_VIEW], 1, 1, "d") || row_buffers(v, rows, 4, v[X_VIEW].shape[0])) return finish(v, -1);
    if (c != Py_None && get(c, &v[CENTER_VIEW], 1, 0, "d")) return finish(v, -1);
    const long N = v[X_VIEW].shape[0], d = v[X_VIEW].shape[1], s = v[W_VIEW].shape[1];
    const long columns = s + (v[BESIDE_VIEW].obj != NULL), size = v[W_VIEW].itemsize;
    int fits = is_dense_row(&v[X_VIEW], 1) && v[ALPHA_VIEW].obj && v[W_VIEW].shape[0] == d && v[OUT_VIEW].shape[0] == d &&
               v[OUT_VIEW].shape[1] == columns && is_dense_row(&v[OUT_VIEW], 1) && v[OUT_VIEW].itemsize == size &&
               v[SHIFT_VIEW].shape[0] == 1 && v[SHIFT_VIEW].shape[1] == s && v[SHIFT_VIEW].itemsize == size &&
               v[TOTAL_VIEW].shape[0] == columns + 2 && is_dense_row(&v[TOTAL_VIEW], 0);
    fits = fits && (c == Py_None || (v[CENTER_VIEW].shape[0] == d && is_dense_row(&v[CENTER_VIEW], 0)));
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the shapes or types of the factors do not fit the matrix");
        return finish(v, -1);
    }
    const dense X = {v[X_VIEW].buf, N, d, v[X_VIEW].strides[0], v[X_VIEW].itemsize == 8, v[CENTER_VIEW].buf, scale};
    const row_loss F = {v[ALPHA_VIEW].buf, v[MASS_VIEW].buf, v[SCALES_VIEW].buf, v[BESIDE_VIEW].buf, c2, parameter, eps,
                        (size == 4 ? 3.4028235e38 : 1.7976931348623157e308) / 4, psi, columns > s ? s : -1};
    const factor W = as_factor(&v[W_VIEW]), out = as_factor(&v[OUT_VIEW]), shift = as_factor(&v[SHIFT_VIEW]);
    int failed;
    threads = limited(threads, 4.0 * N * d * s);
    Py_BEGIN_ALLOW_THREADS
    failed = multiply(REWEIGH, &X, NULL, &W, &out, NULL, &shift, &F, v[TOTAL_VIEW].buf, size == 4, threads);
    Py_END_ALLOW_THREADS
    return finish(v, failed ? 1 : 0);
}

static PyObject *csr_product(PyObject *self, PyObject *args)
{
    PyObject *x, *indices, *indptr, *w, *o, *sh, *to;
    int kind, threads;
    Py_ssize_t columns;
    if (!PyArg_ParseTuple(args, "iOOOnOOOOi", &kind, &x, &indices, &indptr, &columns, &w, &o, &sh, &to, &threads)) return NULL;
    Py_buffer v[VIEWS] = {{0}};
    if (get(x, &v[X_VIEW], 1, 0, "fd") || get(indices, &v[INDICES_VIEW], 1, 0, "ilq") ||
        get(indptr, &v[INDPTR_VIEW], 1, 0, "ilq")) return finish(v, -1);
    csr S = {v[X_VIEW].buf, v[INDICES_VIEW].buf, v[INDPTR_VIEW].buf, v[INDPTR_VIEW].shape[0] - 1, columns, v[INDICES_VIEW].shape[0], v[INDICES_VIEW].itemsize == 8};
    int fits = v[INDPTR_VIEW].itemsize == v[INDICES_VIEW].itemsize && S.rows >= 0 && kind <= RMATMUL;
    for (int i = 0; i < 3; i++) fits = fits && is_dense_row(&v[(int[]){X_VIEW, INDICES_VIEW, INDPTR_VIEW}[i]], 0);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the parts of the sparse matrix do not fit each other");
    if (!fits || factors(v, kind, S.rows, columns, w, o, sh, to)) return finish(v, -1);
    const factor W = as_factor(&v[W_VIEW]), out = as_factor(&v[OUT_VIEW]);
    const factor shift = sh != Py_None ? as_factor(&v[SHIFT_VIEW]) : out;
    const int single = v[W_VIEW].itemsize == 4;
    if (v[X_VIEW].itemsize != v[W_VIEW].itemsize) {
        PyErr_SetString(PyExc_TypeError, "the entries and the factor differ in type");
        return finish(v, -1);
    }
    int failed;
    threads = limited(threads, 40.0 * v[X_VIEW].shape[0] * W.columns);
    Py_BEGIN_ALLOW_THREADS
    failed = multiply(kind, NULL, &S, &W, &out, NULL, sh != Py_None ? &shift : NULL, NULL,
                      sh != Py_None ? v[TOTAL_VIEW].buf : NULL, single, threads);
    Py_END_ALLOW_THREADS
    return finish(v, failed ? 1 : 0);
}

static PyObject *moments(PyObject *self, PyObject *args)
{
    PyObject *x, *o, *w;
    int threads;
    if (!PyArg_ParseTuple(args, "OOOi", &x, &o, &w, &threads)) return NULL;
    Py_buffer v[VIEWS] = {{0}};
    if (get(x, &v[X_VIEW], 2, 0, "fd") || get(o, &v[OUT_VIEW], 1, 1, "d")) return finish(v, -1);
    if (w != Py_None && get(w, &v[WEIGHTS_VIEW], 1, 0, "d")) return finish(v, -1);
    const dense X = {v[X_VIEW].buf, v[X_VIEW].shape[0], v[X_VIEW].shape[1], v[X_VIEW].strides[0], v[X_VIEW].itemsize == 8, NULL, 1.0, v[WEIGHTS_VIEW].buf};
    const int weighted = !X.weights || (v[WEIGHTS_VIEW].shape[0] == X.rows && is_dense_row(&v[WEIGHTS_VIEW], 0));
    if (!is_dense_row(&v[X_VIEW], 1) || !is_dense_row(&v[OUT_VIEW], 0) || v[OUT_VIEW].shape[0] != X.columns || !weighted) {
        PyErr_SetString(PyExc_ValueError, "the rows of X are not contiguous, or the sums or the weights do not fit");
        return finish(v, -1);
    }
    const table *f = X.wide ? TABLES[level].twice : TABLES[level].single;
    const int count = limited(threads, 8.0 * X.rows * X.columns);
    const long size = whole_lines(X.columns);
    double *sums = aligned(2 * count * size * sizeof(double)), *out = v[OUT_VIEW].buf, energy = 0;
    const task t = {.kind = MOMENTS, .X = &X};
    if (!sums) return finish(v, 1);
    memset(sums, 0, 2 * count * size * sizeof(double));
    Py_BEGIN_ALLOW_THREADS
    share shares[64] = {{0}};
    for (int i = 0; i < count; i++)
        shares[i] = (share){.task = &t, .table = f, .first = cut(&t, X.rows, 1, i, count), .last = cut(&t, X.rows, 1, i + 1, count), .sum = sums + 2 * i * size};
    run(work, shares, sizeof *shares, count);
    for (int i = 0; i < count; i++) {
        energy += shares[i].energy;
        for (long j = 0; j < X.columns; j++) out[j] += sums[2 * i * size + j];
    }
    Py_END_ALLOW_THREADS
    free(sums);
    release(v);
    return PyFloat_FromDouble(energy);
}

static PyObject *row_squares(PyObject *self, PyObject *args)
{
    PyObject *x, *o, *c;
    double scale;
    int threads;
    if (!PyArg_ParseTuple(args, "OOOdi", &x, &o, &c, &scale, &threads)) return NULL;
    Py_buffer v[VIEWS] = {{0}};
    if (get(x, &v[X_VIEW], 2, 0, "fd") || get(o, &v[OUT_VIEW], 1, 1, "d")) return finish(v, -1);
    if (c != Py_None && get(c, &v[CENTER_VIEW], 1, 0, "d")) return finish(v, -1);
    const dense X = {v[X_VIEW].buf, v[X_VIEW].shape[0], v[X_VIEW].shape[1], v[X_VIEW].strides[0], v[X_VIEW].itemsize == 8, v[CENTER_VIEW].buf, scale};
    const int centered = !X.center || (v[CENTER_VIEW].shape[0] == X.columns && is_dense_row(&v[CENTER_VIEW], 0));
    if (!is_dense_row(&v[X_VIEW], 1) || !is_dense_row(&v[OUT_VIEW], 0) || v[OUT_VIEW].shape[0] != X.rows || !centered) {
        PyErr_SetString(PyExc_ValueError, "the rows of X are not contiguous, or the squares or the center do not fit");
        return finish(v, -1);
    }
    const int count = limited(threads, 8.0 * X.rows * X.columns);
    const task t = {.kind = SQUARES, .X = &X};
    Py_BEGIN_ALLOW_THREADS
    share shares[64] = {{0}};
    for (int i = 0; i < count; i++)
        shares[i] = (share){.task = &t, .table = X.wide ? TABLES[level].twice : TABLES[level].single,
                            .first = cut(&t, X.rows, 16, i, count), .last = cut(&t, X.rows, 16, i + 1, count), .sum = v[OUT_VIEW].buf};
    run(work, shares, sizeof *shares, count);
    Py_END_ALLOW_THREADS
    return finish(v, 0);
}

/* One thread's squares of a Gram matrix of d columns, whose rows are `ld` apart: add what the other
 * threads have summed, and copy it to the other side of the diagonal. */
typedef struct {
    double *S;
    const double *sums;
    long d, ld, size, whole;
    int groups, index, count;
} squares;

static void *merge(void *argument)
{
    enum { SIDE = 64 }; /* both sides of the diagonal stay in the cache */
    const squares *q = argument;
    for (long i0 = q->index * SIDE; i0 < q->d; i0 += q->count * SIDE)
        for (long j0 = i0; j0 < q->d; j0 += SIDE)
            for (long i = i0; i < q->d && i < i0 + SIDE; i++)
                for (long j = i < j0 ? j0 : i; j < q->d && j < j0 + SIDE; j++) {
                    const long above = i * q->ld + j, below = j * q->ld + i, at = j < q->whole ? above : below;
                    double sum = q->S[at];
                    for (int g = 1; g < q->groups; g++) sum += q->sums[(g - 1) * q->size + at];
                    q->S[above] = q->S[below] = sum;
                }
    return NULL;
}

/* Where strip k of `count` begins: strips of a triangle of d columns have equal areas. */
static long strip(long d, long unit, int k, int count)
{
    const long at = (long)(d * sqrt((double)k / count)) / unit * unit;
    return k == count ? d : at;
}

static PyObject *gram(PyObject *self, PyObject *args)
{
    PyObject *x, *o, *c, *w;
    int by_row, single, threads;
    double scale;
    if (!PyArg_ParseTuple(args, "OOOpdOpi", &x, &o, &c, &by_row, &scale, &w, &single, &threads)) return NULL;
    Py_buffer v[VIEWS] = {{0}};
    if (get(x, &v[X_VIEW], 2, 0, "fd") || get(o, &v[OUT_VIEW], 2, 1, "d")) return finish(v, -1);
    if (c != Py_None && get(c, &v[CENTER_VIEW], 1, 0, "d")) return finish(v, -1);
    if (w != Py_None && get(w, &v[WEIGHTS_VIEW], 1, 0, "d")) return finish(v, -1);
    const double *center = v[CENTER_VIEW].buf, *weights = v[WEIGHTS_VIEW].buf;
    const long step = v[X_VIEW].shape[1] > 1 ? v[X_VIEW].strides[1] : v[X_VIEW].itemsize; /* one column has any stride */
    const dense X = {v[X_VIEW].buf, v[X_VIEW].shape[0], v[X_VIEW].shape[1], v[X_VIEW].strides[0], v[X_VIEW].itemsize == 8,
                     by_row ? NULL : center, scale, weights, step, by_row ? center : NULL};
    const factor out = as_factor(&v[OUT_VIEW]);
    const long d = X.columns, ld = out.columns, size = out.rows * ld;
    const int centered = !center || (v[CENTER_VIEW].shape[0] == (by_row ? X.rows : d) && is_dense_row(&v[CENTER_VIEW], 0));
    const int weighted = !weights || (v[WEIGHTS_VIEW].shape[0] == X.rows && is_dense_row(&v[WEIGHTS_VIEW], 0) && !X.row_center);
    const int fits = centered && weighted && out.rows >= d + MARGIN && ld >= whole_lines(d) && is_dense_row(&v[OUT_VIEW], 1) && out.row_stride == ld * (long)sizeof(double);
    if (!(is_dense_row(&v[X_VIEW], 0) || is_dense_row(&v[X_VIEW], 1)) || !fits) {
        PyErr_SetString(PyExc_ValueError, "X is not contiguous in either direction, or the center, the weights or the output do not fit");
        return finish(v, -1);
    }
    const table *f = single ? TABLES[level].single : TABLES[level].twice;
    /* Threads share out the rows where all their sums stay in the cache; else columns, then rows. */
    const int most = limited(threads, 1.0 * X.rows * d * d);
    const int wanted = 8 * most * d * d <= 3 * GRAM_SLAB ? 1 : (int)(d / 256), strips = wanted < 1 ? 1 : wanted < most ? wanted : most;
    const int groups = most / strips, count = groups * strips;
    double *sums = groups > 1 ? calloc(groups - 1, size * sizeof(double)) : NULL, *S = v[OUT_VIEW].buf;
    const task t = {.kind = GRAM, .X = &X, .out = out};
    int failed = 0;
    if (groups > 1 && !sums) return finish(v, 1);
    Py_BEGIN_ALLOW_THREADS
    share shares[64] = {{0}};
    squares parts[64];
    for (int i = 0; i < count; i++) {
        const int g = i / strips, k = i % strips;
        shares[i] = (share){.task = &t, .table = f, .first = cut(&t, X.rows, 1, g, groups), .last = cut(&t, X.rows, 1, g + 1, groups),
                            .from = strip(d, 2 * f->lanes, k, strips), .to = strip(d, 2 * f->lanes, k + 1, strips), .sum = g ? sums + (g - 1) * size : S};
        parts[i] = (squares){S, sums, d, ld, size, f->whole(d), groups, i, count};
    }
    run(work, shares, sizeof *shares, count);
    for (int i = 0; i < count; i++) failed |= shares[i].failed;
    if (!failed) run(merge, parts, sizeof *parts, count);
    Py_END_ALLOW_THREADS
    free(sums);
    return finish(v, failed ? 1 : 0);
}

#include "cells.h"

/* The names of the instruction sets that this machine has, best last; with a name, use that one. */
static PyObject *instructions(PyObject *self, PyObject *args)
{
    const char *wanted = NULL;
    if (!PyArg_ParseTuple(args, "|s", &wanted)) return NULL;
    PyObject *names = PyList_New(0);
    for (int i = 0; names && i <= best(); i++) {
        PyObject *name = PyUnicode_FromString(TABLES[i].name);
        if (!name || PyList_Append(names, name)) Py_CLEAR(names);
        Py_XDECREF(name);
        if (wanted && !strcmp(wanted, TABLES[i].name)) level = i;
    }
    return names;
}

static PyMethodDef METHODS[] = {
    {"product", product, METH_VARARGS, "product(kind, X, W, out, center, scale, shift, total, middle, threads)"},
    {"reweigh", reweigh, METH_VARARGS, "reweigh(X, W, out, center, scale, shift, sums, (alpha, mass, scales, beside), (psi, c^2, parameter, eps), threads)"},
    {"csr_product", csr_product, METH_VARARGS, "csr_product(kind, data, indices, indptr, columns, W, out, shift, total, threads)"},
    {"moments", moments, METH_VARARGS, "moments(X, sums, weights, threads): add column sums to sums, return the sum of squares"},
    {"row_squares", row_squares, METH_VARARGS, "row_squares(X, out, center, scale, threads): the squares of the rows of scale (X - 1 center^T)"},
    {"gram", gram, METH_VARARGS, "gram(X, out, center, by_row, scale, weights, single, threads): X^T Diag(weights) X in the first rows and columns of a padded out, in float32 or float64"},
    {"cell_rows", cell_rows, METH_VARARGS, "cell_rows(X, center, V, scales, constants, factors or mass, B, out, threads)"},
    {"instructions", instructions, METH_VARARGS, "instructions(name=None): the instruction sets of this machine, best last"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_kernels", "Thin products with dense and CSR matrices.", -1, METHODS};

PyMODINIT_FUNC PyInit__kernels(void)
{
    level = best();
    pthread_atfork(NULL, NULL, forget_threads);
    return PyModule_Create(&MODULE);
}
