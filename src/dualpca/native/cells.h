/* Rows with holes and wrong cells for Python: buffers in, threads, sums out. _kernels.c includes it once. */

static const struct { long lanes; int (*rows)(const cell_task *, long, long, double *, double *); } CELLS[] = {
    {2, cell_rows_double_16},
#if defined(__x86_64__)
    {4, cell_rows_double_32},
    {8, cell_rows_double_64},
#endif
};

typedef struct {
    const cell_task *task;
    long first, last;
    double *sums, value;
    int failed;
} cell_share;

static void *cell_work(void *argument)
{
    cell_share *s = argument;
    s->failed = CELLS[level].rows(s->task, s->first, s->last, s->sums, &s->value);
    return NULL;
}

/* Columns of V, or products of pairs of them, in groups of lanes. */
static void cell_pack(const double *V, long d, long s, long lanes, int pairs, double *packed)
{
    long at = 0;
    for (long a = 0; a < (pairs ? s : 1); a++)
        for (long c = a; c < s; c++, at++)
            for (long j = 0; j < d; j++)
                packed[(at / lanes * d + j) * lanes + at % lanes] = V[j * s + c] * (pairs ? V[j * s + a] : 1.0);
}

/* Scores of all rows, or a step, whose sums go to `out`, d x (h (h + 1) / 2 + h) for h = s + 1. */
static int cell_run(cell_task *t, const double *V, const double *scales, double *out, double *value, int count)
{
    const long d = t->X->columns, s = t->s, h = s + 1, lanes = CELLS[level].lanes, n = h * (h + 1) / 2;
    const long ld = t->ld = padded(d, sizeof(double)), groups = (n + lanes - 1) / lanes + (h + lanes - 1) / lanes;
    const long of_pairs = (s * h / 2 + lanes - 1) / lanes, of_V = (s + lanes - 1) / lanes;
    const long numbers = (s + 2) * ld + (of_pairs + of_V) * d * lanes, sums = out ? groups * d * lanes : 0;
    double *memory = aligned((numbers + count * sums) * sizeof(double));
    if (!memory) return -1;
    memset(memory, 0, (numbers + count * sums) * sizeof(double));
    double *Vt = memory, *inverse = Vt + s * ld, *squares = inverse + ld, *packed = squares + ld;
    double *pairs = packed + of_V * d * lanes, *total = pairs + of_pairs * d * lanes;
    for (long j = 0; j < d; j++) {
        inverse[j] = 1 / scales[j], squares[j] = scales[j] * scales[j];
        if (!j || squares[j] < t->smallest) t->smallest = squares[j];
        for (long a = 0; a < s; a++) Vt[a * ld + j] = V[j * s + a];
    }
    cell_pack(V, d, s, lanes, 0, packed), cell_pack(V, d, s, lanes, 1, pairs);
    t->Vt = Vt, t->V = packed, t->pairs = pairs, t->inverse = inverse, t->squares = squares;
    cell_share shares[64];
    const long N = t->X->rows;
    for (int i = 0; i < count; i++)
        shares[i] = (cell_share){t, N * i / count, N * (i + 1) / count, out ? total + i * sums : NULL, 0, 0};
    run(cell_work, shares, sizeof *shares, count);
    int failed = 0;
    for (int c = 0; c < count; c++) failed |= shares[c].failed, *value += shares[c].value;
    for (long k = 0; out && k < n + h; k++) {
        const long at = k < n ? k : (n + lanes - 1) / lanes * lanes + k - n;
        for (long j = 0; j < d; j++) {
            double sum = 0;
            for (int c = 0; c < count; c++) sum += total[c * sums + (at / lanes * d + j) * lanes + at % lanes];
            out[j * (n + h) + k] = sum;
        }
    }
    free(memory);
    return failed;
}

enum { CELL_X, CELL_CENTER, CELL_V, CELL_SCALES, CELL_CONSTANTS, CELL_STEPS, CELL_B, CELL_OUT, CELL_VIEWS };

/* cell_rows(X, center, V, scales, constants, factors or mass, B, out or None, threads) */
static PyObject *cell_rows(PyObject *self, PyObject *args)
{
    PyObject *o[CELL_VIEWS];
    int threads;
    if (!PyArg_ParseTuple(args, "OOOOOOOOi", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6], &o[7], &threads)) return NULL;
    Py_buffer v[VIEWS] = {{0}};
    const int step = o[CELL_OUT] != Py_None;
    for (int i = 0; i < CELL_VIEWS - !step; i++) {
        const int two = i == CELL_X || i == CELL_V || i == CELL_B || i == CELL_OUT;
        if (get(o[i], &v[i], 1 + two, i >= CELL_B, i == CELL_X ? "fd" : "d")) return finish(v, -1);
    }
    const long N = v[CELL_X].shape[0], d = v[CELL_X].shape[1], s = v[CELL_V].shape[1], h = s + 1;
    int fits = N > 0 && d > 0 && s > 0 && s <= CELL_COMPONENTS && v[CELL_V].shape[0] == d && v[CELL_CENTER].shape[0] == d;
    fits = fits && v[CELL_SCALES].shape[0] == d && v[CELL_CONSTANTS].shape[0] == 9 && is_dense_row(&v[CELL_X], 1);
    fits = fits && v[CELL_B].shape[0] == N && v[CELL_B].shape[1] == s && (!step || v[CELL_STEPS].shape[0] == N);
    if (step) fits = fits && v[CELL_OUT].shape[0] == d && v[CELL_OUT].shape[1] == h * (h + 1) / 2 + h;
    for (int i = 1; i < CELL_VIEWS - !step; i++) fits = fits && PyBuffer_IsContiguous(&v[i], 'C');
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the shapes or layouts of the arrays do not fit the rows of X");
        return finish(v, -1);
    }
    const double *k = v[CELL_CONSTANTS].buf;
    const dense X = {v[CELL_X].buf, N, d, v[CELL_X].strides[0], v[CELL_X].itemsize == 8, v[CELL_CENTER].buf, 1.0};
    cell_task t = {.X = &X, .s = s, .loss = {k[0], k[1], k[2], k[3], k[4]}, .ridge = k[5], .usual = k[6], .root = k[7], .relax = k[8],
                   .B = v[CELL_B].buf};
    if (step) t.mass = v[CELL_STEPS].buf;
    else t.factors = v[CELL_STEPS].buf, t.steps = v[CELL_STEPS].shape[0];
    double value = 0;
    int failed;
    threads = limited(threads, 4.0 * N * d * s * s);
    Py_BEGIN_ALLOW_THREADS
    failed = cell_run(&t, v[CELL_V].buf, v[CELL_SCALES].buf, step ? v[CELL_OUT].buf : NULL, &value, threads);
    Py_END_ALLOW_THREADS
    release(v);
    return failed ? PyErr_NoMemory() : PyFloat_FromDouble(value);
}
