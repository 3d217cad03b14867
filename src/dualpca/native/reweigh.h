/* Sweeps of robust PCA for one vector width and one arithmetic type T: rows weighted by their residuals.
 *
 * A panel of y = b (X W - shift) is kept for all groups of columns. Its rows are then known by their
 * squares, get their weights in the loss, and are multiplied by X^T while X is still in the cache:
 *
 *     Z += P^T Diag(b w) (y, a)
 *
 * w is twice the slope of the loss at the residual alpha^2 - ||y||^2. The column of the numbers a behind
 * those of W is there where they are given.
 */

/* Replace the rows of y in a panel by rows of b w (y, a); add them to the sums of their columns. */
static void NAME(weigh)(const task *t, long row, long rows, T *Y, double *total, double *sums)
{
    const row_loss *F = t->F;
    const V *shift = t->shift;
    for (long r = 0; r < rows; r++) {
        const long i = row + r;
        const T b = F->scales ? (T)F->scales[i] : 1;
        V squares = {0};
        double size2 = 0, value = 0;
        for (long g = 0; g < t->groups; g++) {
            V *y = (V *)(Y + (g * R + r) * L);
            *y = (*y - shift[g]) * b;
            squares += *y * *y;
        }
        for (int l = 0; l < L; l++) size2 += squares[l];
        const double w = weight(F, i, size2, &value);
        sums[0] += value;
        if (F->column >= 0) {
            Y[(F->column / L * R + r) * L + F->column % L] = (T)F->beside[i];
            sums[1] += w * F->beside[i] * F->beside[i];
        }
        for (long g = 0; g < t->groups; g++) {
            V *y = (V *)(Y + (g * R + r) * L);
            *y *= b * (T)w;
            for (int l = 0; l < L; l++) total[g * L + l] += (*y)[l];
        }
    }
}

/* Rows [first, last): adds X^T H to `sum`, the columns of H to `total`, and behind these the values of the
 * loss and the squares of a by their weights. */
static int NAME(reweigh)(const task *t, long first, long last, double *sum, double *total)
{
    const dense *X = t->X;
    const long d = X->columns, G = t->groups, size = d * L, parts = (d + CHUNK - 1) / CHUNK;
    const long chunk = ((d + parts - 1) / parts + 15) / 16 * 16, width = padded(d, sizeof(T));
    T *scratch = aligned((R * width + G * R * L + G * size) * sizeof(T));
    if (!scratch) return -1;
    T *Y = scratch + R * width, *Z = Y + G * R * L;
    const T *W = t->packed;
    memset(Z, 0, G * size * sizeof(T));
    long since = 0;
    for (long row = first; row < last; row += R) {
        const long rows = last - row < R ? last - row : R;
        const int direct = NAME(same)(X) && rows == R && X->stride % 4096;
        const long ld = direct ? X->stride / (long)sizeof(T) : width;
        const T *P = direct ? (const T *)(X->data + row * X->stride) : scratch;
        if (!direct) NAME(convert)(X, row, rows, 0, d, scratch, ld);
        memset(Y, 0, G * R * L * sizeof(T));
        for (long g = 0, count; g < G; g += count) {
            count = g + PAIR <= G ? PAIR : 1;
            for (long j = 0, end; j < d; j = end) {
                end = d - j < chunk ? d : j + chunk;
                NAME(y_panel)(P + j, ld, end - j, W + g * size + j * L, size, Y + g * R * L, R * L, count);
            }
        }
        NAME(weigh)(t, row, rows, Y, total, total + G * L);
        for (long g = 0, count; g < G; g += count) {
            count = g + PAIR <= G ? PAIR : 1;
            NAME(z_panel)(P, ld, d, Y + g * R * L, R * L, Z + g * size, size, count);
        }
        if (++since == FLUSH) NAME(flush)(G * size, Z, sum), since = 0;
    }
    NAME(flush)(G * size, Z, sum);
    free(scratch);
    return 0;
}
