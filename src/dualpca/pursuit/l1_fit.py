"""Scores that minimise the sum of absolute residuals, for many rows at once."""

from __future__ import annotations

import warnings

from array_api_compat import device
from sklearn.exceptions import ConvergenceWarning

from ..linalg import Array, namespace
from ..solvers.solve import user_stacklevel

#: Rows are fitted in batches of about this many numbers.
BATCH = 2**22

#: The error relative to ``||x||_1``, the most interior-point steps, and how much of the way to the
#: boundary a step goes.
PRECISION, MAX_STEPS, TO_BOUNDARY = 1e-10, 100, 0.9995


def l1_scores(X: Array, V: Array) -> Array:
    """``argmin_t ||x - V t||_1`` for each row x, V orthonormal, in the dtype of X."""
    xp, (N, d), r = namespace(X), X.shape, V.shape[1]
    V = xp.astype(V, xp.float64, copy=False)
    step = max(1, BATCH // (d + r * r))
    batches = (X[i : min(i + step, N), :] for i in range(0, N, step))
    scores = [_fit_rows(xp.astype(rows, xp.float64, copy=False), V) for rows in batches]
    return xp.astype(xp.concat(scores, axis=0), X.dtype, copy=False)


def _fit_rows(X: Array, V: Array) -> Array:
    """Fit all rows by interior points: Portnoy and Koenker (1997), Section 4.

    Mehrotra's method for ``min sum(p + q), V t + p - q = x, p, q >= 0`` and its dual
    ``max x^T y, V^T y = 0, |y| <= 1``; both constraints hold from the start. A row is done when
    ``||x - V t||_1 - (x - V t)^T y``, which bounds the distance to the minimum, is small.
    """
    xp = namespace(X)
    if V.shape[1] == 0:
        return X @ V
    size = xp.mean(xp.abs(X), axis=1, keepdims=True)
    size = xp.where(size > 0, size, xp.ones_like(size))
    x, y, rows = X / size, xp.zeros_like(X), xp.arange(X.shape[0], device=device(X))
    t = x @ V
    r = x - t @ V.T
    interior = xp.mean(xp.abs(r), axis=1, keepdims=True) + PRECISION
    p, q = xp.clip(r, 0.0, None) + interior, xp.clip(-r, 0.0, None) + interior
    fitted: list[tuple[Array, Array]] = []
    for _ in range(MAX_STEPS):
        r = x - t @ V.T
        done = xp.sum(xp.abs(r) - r * y, axis=1) <= PRECISION * X.shape[1]
        fitted.append((rows[done], t[done]))
        if bool(xp.all(done)):
            break
        x, y, t, p, q, rows = (a[~done] for a in (x, y, t, p, q, rows))
        y, t, p, q = _interior_step(x, y, t, p, q, V)
    else:
        warnings.warn(
            f"{rows.shape[0]} of {X.shape[0]} rows were not fitted to {PRECISION:.0e} in {MAX_STEPS} "
            "steps; their scores are close to the best",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )
        fitted.append((rows, t))
    order = xp.argsort(xp.concat([row for row, _ in fitted]))
    return xp.take(xp.concat([t for _, t in fitted], axis=0), order, axis=0) * size


def _interior_step(x: Array, y: Array, t: Array, p: Array, q: Array, V: Array) -> tuple[Array, ...]:
    """Take a predictor and a corrector step from (y, t, p, q)."""
    xp, k = namespace(x), V.shape[1]
    eps = float(xp.finfo(y.dtype).eps)
    a, b = xp.clip(1 - y, eps, None), xp.clip(1 + y, eps, None)
    W = 1 / (p / a + q / b)
    G = xp.stack([W @ (V * V[:, j : j + 1]) for j in range(k)], axis=1)
    # If fewer than k residuals vanish, the solution is not unique and G nearly singular.
    ridge = 10 * eps * xp.linalg.trace(G) / k
    G = G + ridge[:, None, None] * xp.eye(k, dtype=G.dtype, device=device(G))[None, :, :]
    primal, dual = x - t @ V.T - p + q, y @ V

    def newton(at_p: Array, at_q: Array) -> tuple[Array, ...]:
        """Return dy, dt, dp, dq with ``a dp - p dy = at_p`` and ``b dq + q dy = at_q``."""
        g = primal - at_p / a + at_q / b
        dt = xp.linalg.solve(G, ((W * g) @ V + dual)[:, :, None])[:, :, 0]
        dy = W * (g - dt @ V.T)
        return dy, dt, (at_p + p * dy) / a, (at_q - q * dy) / b

    def step_lengths(dy: Array, dp: Array, dq: Array) -> tuple[Array, ...]:
        """Return how far each row can go in the primal and in the dual variables, at most 1."""
        ratios = xp.maximum(-dp / p, -dq / q), xp.maximum(dy / a, -dy / b)
        largest = (xp.max(ratio, axis=1, keepdims=True) for ratio in ratios)
        return tuple(TO_BOUNDARY / xp.clip(ratio, TO_BOUNDARY, None) for ratio in largest)

    dy, dt, dp, dq = newton(-p * a, -q * b)
    alpha, beta = step_lengths(dy, dp, dq)
    now = xp.mean(p * a + q * b, axis=1, keepdims=True)
    after = (p + alpha * dp) * (a - beta * dy) + (q + alpha * dq) * (b + beta * dy)
    target = now * (xp.mean(after, axis=1, keepdims=True) / now) ** 3 / 2
    dy, dt, dp, dq = newton(target - p * a + dp * dy, target - q * b - dq * dy)
    alpha, beta = step_lengths(dy, dp, dq)
    return y + beta * dy, t + alpha * dt, p + alpha * dp, q + alpha * dq
