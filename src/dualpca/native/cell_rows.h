/* Rows with holes and wrong cells (robust/cells.py), for one vector width; _kernels.c includes it for each.
 *
 * A panel of R rows stays in the cache through all that is done to it. Its products are those of kernels.h:
 * y_panel for the s x s systems of the rows, z_panel for the sums of the columns.
 */

#ifndef CELL_COMPONENTS
#define CELL_COMPONENTS 32 /* at most so many; BLAS is as fast for more */

typedef struct { /* losses.Tanh */
    double b, c, q1, q2, d;
} cell_loss;

typedef struct {
    const dense *X; /* with its center */
    long s, ld;     /* components, and columns of a panel: a multiple of 8 */
    cell_loss loss;
    double ridge, usual, root, relax, smallest; /* of the systems, of row losses, of |z|^1/2, of moves, of sigma^2 */
    const double *Vt, *V, *pairs;        /* s x ld; V and the products of its columns in groups of L lanes */
    const double *inverse, *squares;     /* of the scales, 0 beyond the last column */
    const double *mass, *factors;        /* of rows; of the scales in each step, 0 for what the row asks for */
    long steps;
    double *B;
} cell_task;

static const double CELL_EXP[] = {1, 1, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                  1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600};
static const double CELL_LOG[] = {1, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
#define CELL_SQRT2 1.4142135623730951
#define CELL_LN2 0.69314718055994531
#define CELL_GROUPS(n) (((n) + L - 1) / L)
#endif

#define L (VECTOR / (long)sizeof(double))

/* exp(q2 (c - z)) for z between b and c: by the series at an eighth of it, which is below 0.3. */
static inline double NAME(cell_exp)(const cell_loss *k, double z)
{
    const double y = k->q2 * (k->c - z) / 8;
    double e = CELL_EXP[12];
    for (int i = 11; i >= 0; i--) e = CELL_EXP[i] + y * e;
    e *= e;
    e *= e;
    return e * e;
}

/* The slope of Tanh and its loss psi at v = z^2 from b^2 on: q1 tanh(y) / z and 2 (d - q1/q2 log cosh(y)), with
 * y = q2 (c - z) up to c^2, then 0 and 2 d. The logarithm is that of a number between 2^-1/2 and 2^1/2, by its
 * series, and of a power of 2. */
static inline double NAME(cell_slope)(const cell_loss *k, double v, double *psi)
{
    double z = __builtin_sqrt(v);
    z = z < k->c ? z : k->c;
    const double e = NAME(cell_exp)(k, z), e2 = e * e, inverse = 1 / (e * (e2 + 1) * z);
    if (psi) {
        const double cosh = 0.5 * (e2 + 1) * ((e2 + 1) * z * inverse);
        double m = cosh > CELL_SQRT2 ? cosh / 2 : cosh, powers = cosh > CELL_SQRT2 ? CELL_LN2 : 0;
        powers += m > CELL_SQRT2 ? CELL_LN2 : 0;
        m = m > CELL_SQRT2 ? m / 2 : m;
        const double f = (m - 1) / (m + 1), f2 = f * f;
        double series = CELL_LOG[10];
        for (int i = 9; i >= 0; i--) series = CELL_LOG[i] + f2 * series;
        *psi = 2 * (k->d - k->q1 / k->q2 * (2 * f * series + powers));
    }
    return k->q1 * (e2 - 1) * (e * inverse);
}

/* Solve A x = b for packed upper triangles A = L L^T, in place; b becomes x. */
static void NAME(cell_solve)(long s, double *A, double *b)
{
    double *row[CELL_COMPONENTS]; /* row i of the upper triangle, from its diagonal on */
    for (long i = 0, at = 0; i < s; at += s - i, i++) row[i] = A + at - i;
    for (long i = 0; i < s; i++) {
        const double pivot = 1 / __builtin_sqrt(row[i][i]);
        for (long j = i; j < s; j++) row[i][j] *= pivot;
        b[i] *= pivot;
        for (long k = i + 1; k < s; k++) {
            for (long j = k; j < s; j++) row[k][j] -= row[i][k] * row[i][j];
            b[k] -= row[i][k] * b[i];
        }
    }
    for (long i = s - 1; i >= 0; i--) {
        for (long j = i + 1; j < s; j++) b[i] -= row[i][j] * b[j];
        b[i] /= row[i][i];
    }
}

/* r -= there * V b for each row of a panel. */
static void NAME(cell_subtract)(const cell_task *t, const double *b, const double *there, double *r)
{
    const long ld = t->ld;
    for (long i = 0; i < R; i++, r += ld, there += ld, b += t->s) {
        for (long a = 0; a < t->s; a++) {
            const double *v = t->Vt + a * ld, c = b[a];
            for (long j = 0; j < ld; j++) r[j] -= c * v[j];
        }
        for (long j = 0; j < ld; j++) r[j] *= there[j];
    }
}

/* The scores that fit the residuals r with weights w: R x s. wr becomes w * r. */
static void NAME(cell_fit)(const cell_task *t, const double *r, const double *w, double *wr, double *systems, double *move)
{
    const long d = t->X->columns, s = t->s, pairs = s * (s + 1) / 2, wide = CELL_GROUPS(pairs) * L;
    double Y[R * L] __attribute__((aligned(64)));
    for (long i = 0; i < R * t->ld; i++) wr[i] = w[i] * r[i];
    for (long g = 0; g < CELL_GROUPS(pairs); g++) {
        memset(Y, 0, sizeof Y);
        NAME(y_panel)(w, t->ld, d, t->pairs + g * d * L, 0, Y, 0, 1);
        for (long i = 0; i < R; i++) memcpy(systems + i * wide + g * L, Y + i * L, L * sizeof(double));
    }
    for (long g = 0; g < CELL_GROUPS(s); g++) {
        memset(Y, 0, sizeof Y);
        NAME(y_panel)(wr, t->ld, d, t->V + g * d * L, 0, Y, 0, 1);
        for (long i = 0; i < R; i++)
            memcpy(move + i * s + g * L, Y + i * L, (s - g * L < L ? s - g * L : L) * sizeof(double));
    }
    for (long i = 0; i < R; i++) {
        for (long a = 0, at = 0; a < s; at += s - a, a++) systems[i * wide + at] += t->ridge;
        NAME(cell_solve)(s, systems + i * wide, move + i * s);
    }
}

/* x - c and 1, or 0 and 0 where a cell is missing; what is beyond the table is missing. */
static void NAME(cell_load)(const cell_task *t, long row, long rows, double *r, double *there)
{
    const dense *X = t->X;
    memset(r, 0, R * t->ld * sizeof(double));
    memset(there, 0, R * t->ld * sizeof(double));
    for (long i = 0; i < rows; i++, r += t->ld, there += t->ld) {
        const char *start = X->data + (row + i) * X->stride;
        if (X->wide) for (long j = 0; j < X->columns; j++) r[j] = ((const double *)start)[j] - X->center[j];
        else for (long j = 0; j < X->columns; j++) r[j] = ((const float *)start)[j] - X->center[j];
        for (long j = 0; j < X->columns; j++) {
            there[j] = r[j] == r[j] ? 1.0 : 0.0;
            r[j] = r[j] == r[j] ? r[j] : 0.0;
        }
    }
}

/* The weights of the cells of a row, whose squares are divided by `larger`, and sigma^2 psi if `loss` is given.
 * The few cells beyond b are gathered first. */
static void NAME(cell_weigh)(const cell_task *t, const double *r, const double *there, double larger, double *w,
                             double *loss, double *far, int *where)
{
    const cell_loss k = t->loss;
    const double factor = 1 / larger, b2 = k.b * k.b, *inverse = t->inverse;
    double *psi = far + t->ld, *v = psi + t->ld;
    long n = 0;
    for (long j = 0; j < t->ld; j++) v[j] = r[j] * inverse[j] * (r[j] * inverse[j]) * factor, w[j] = there[j];
    for (long j = 0; loss && j < t->ld; j++) loss[j] = t->squares[j] * v[j];
    for (long j = 0; j < t->ld; j++) where[n] = (int)j, n += v[j] > b2;
    for (long i = 0; i < n; i++) far[i] = v[where[i]];
    if (loss) {
        for (long i = 0; i < n; i++) far[i] = NAME(cell_slope)(&k, far[i], psi + i);
        for (long i = 0; i < n; i++) loss[where[i]] = t->squares[where[i]] * psi[i];
    } else {
        for (long i = 0; i < n; i++) far[i] = NAME(cell_slope)(&k, far[i], NULL);
    }
    for (long i = 0; i < n; i++) w[where[i]] = far[i];
}

static double NAME(cell_sum)(const double *a, long n)
{
    typedef double vector __attribute__((vector_size(VECTOR)));
    vector sum = {0};
    double total = 0;
    for (long j = 0; j < n; j += L) sum += *(const vector *)(a + j);
    for (int j = 0; j < L; j++) total += sum[j];
    return total;
}

/* Rows [first, last): robust scores, or, where `sums` are given, a step that moves scores and adds to the
 * sums of the columns. */
static int NAME(cell_rows)(const cell_task *t, long first, long last, double *sums, double *value)
{
    const long d = t->X->columns, s = t->s, ld = t->ld, panel = R * ld, h = s + 1;
    const long wide = CELL_GROUPS(s * h / 2) * L;
    double *memory = aligned((4 * panel + 5 * ld + R * (wide + 2 * s)) * sizeof(double));
    if (!memory) return -1;
    double *r = memory, *there = r + panel, *w = there + panel, *wr = w + panel, *cell = wr + panel;
    double *far = cell + ld, *systems = far + 3 * ld, *move = systems + R * wide, *B = move + R * s;
    int *where = (int *)(B + R * s);
    double Y[R * L] __attribute__((aligned(64)));
    for (long row = first; row < last; row += R) {
        const long rows = last - row < R ? last - row : R;
        double by_row[R] = {0};
        NAME(cell_load)(t, row, rows, r, there);
        memset(B, 0, R * s * sizeof(double));
        if (sums) {
            memcpy(B, t->B + row * s, rows * s * sizeof(double));
            NAME(cell_subtract)(t, B, there, r);
        }
        for (long step = 0; step < (sums ? 1 : t->steps); step++) {
            for (long i = 0; i < rows; i++) {
                const double *ri = r + i * ld, *ti = there + i * ld, count = NAME(cell_sum)(ti, ld), least = count > 1 ? count : 1;
                if (sums) {
                    const cell_loss k = t->loss;
                    double psi = 0;
                    for (long j = 0; j < ld; j++) cell[j] = ti[j] * t->squares[j];
                    const double there2 = NAME(cell_sum)(cell, ld);
                    const double c2 = t->usual * (there2 > t->smallest ? there2 : t->smallest) / least;
                    NAME(cell_weigh)(t, ri, ti, 1.0, w + i * ld, cell, far, where);
                    const double v = NAME(cell_sum)(cell, ld) / least / c2;
                    by_row[i] = t->mass[row + i];
                    if (v > k.b * k.b) by_row[i] *= NAME(cell_slope)(&k, v, &psi);
                    *value += t->mass[row + i] * count * c2 * (v > k.b * k.b ? psi : v);
                    continue;
                }
                double larger = t->factors[step] * t->factors[step];
                if (!(larger > 0)) {
                    for (long j = 0; j < ld; j++) cell[j] = __builtin_sqrt(__builtin_fabs(ri[j] * t->inverse[j]));
                    const double size = NAME(cell_sum)(cell, ld) / least / t->root;
                    larger = size > 1 ? size * size * size * size : 1.0;
                }
                NAME(cell_weigh)(t, ri, ti, larger, w + i * ld, NULL, far, where);
            }
            if (rows < R) memset(w + rows * ld, 0, (R - rows) * ld * sizeof(double));
            NAME(cell_fit)(t, r, w, wr, systems, move);
            for (long i = 0; sums && i < rows * s; i++) move[i] *= t->relax;
            for (long i = 0; i < rows * s; i++) B[i] += move[i];
            if (sums || step + 1 < t->steps) NAME(cell_subtract)(t, move, there, r);
        }
        memcpy(t->B + row * s, B, rows * s * sizeof(double));
        if (!sums) continue;
        for (long i = 0; i < panel; i++) wr[i] = w[i] * r[i];
        double *sum = sums; /* one lane of Y after the other, then Z += P^T Y */
        long lane = 0;
        for (long a = 0; a <= h; a++) { /* a < h: h_a h_c for c from a on, with w; a = h: h_c, with w r */
            for (long c = a < h ? a : 0; c < h; c++) {
                if (!lane) memset(Y, 0, sizeof Y);
                for (long i = 0; i < rows; i++) {
                    const double left = a == h || !a ? 1.0 : B[i * s + a - 1], right = c ? B[i * s + c - 1] : 1.0;
                    Y[i * L + lane] = by_row[i] * left * right;
                }
                if (++lane < L && c + 1 < h) continue;
                if (lane < L && a + 1 < h) break;
                NAME(z_panel)(a < h ? w : wr, ld, d, Y, 0, sum, 0, 1);
                sum += d * L, lane = 0;
            }
        }
    }
    free(memory);
    return 0;
}

#undef L
