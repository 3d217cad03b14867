"""Which variables put a row where it is, and what they would be if they were like the others."""

from __future__ import annotations

import numpy as np

from .scale import chi2_quantile

#: A variable is blamed where it adds more to the squared distance than this quantile of chi-squared with
#: one degree of freedom; at most MOST of them are.
BLAMED, MOST = 0.999, 10

#: This many numbers are worked on at once.
ENTRIES = 2**20

#: A pivot below this share of the first is rounding: the others say nothing about that variable.
PIVOT = 1e-10


def blame(
    R: np.ndarray, V: np.ndarray, inside: np.ndarray, beside: float, unit: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Split ``r^T P r`` over variables, for ``P = V Diag(inside) V^T + beside (I - V V^T)``.

    With variable j replaced by what the others make of it, ``r_j - (P r)_j / P_jj``, the square falls by
    ``(P r)_j^2 / P_jj``. By Cauchy and Schwarz that is largest for the one variable in which a row was
    changed, which the square of its own deviation is not. The variable of the largest fall is blamed and
    left out, then the next one given the rest, as in a Cholesky factorisation with pivots; what remains
    is split by these falls.

    Parameters
    ----------
    R : array of shape (n, d)
        Centred rows.
    V : array of shape (d, s) with orthonormal columns
    inside, beside : array of shape (s,), float
        The eigenvalues of P: within the subspace, and beside it.
    unit : float
        The square that a row of the model has on average for each of its directions.

    Returns
    -------
    parts : array of shape (n, d)
        Nonnegative; a row sums to its square.
    expected : array of shape (n, d)
        What the variables that are not blamed make of each, another left out of its own.
    """
    n, d = R.shape
    if n * d > ENTRIES and n > 1:
        step = max(1, ENTRIES // d)
        chunks = [blame(R[i : i + step], V, inside, beside, unit) for i in range(0, n, step)]
        parts, expected = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
        return parts, expected
    size = np.maximum(np.abs(R).max(axis=1, keepdims=True), np.finfo(float).tiny)
    R = R / size  # so that no square overflows
    Y = R @ V
    U = (Y * inside) @ V.T + beside * (R - Y @ V.T)
    diagonal = (V * V) @ inside + beside * np.clip(1 - (V * V).sum(axis=1), 0.0, None)
    G, least = np.tile(diagonal, (n, 1)), PIVOT * diagonal.max()
    total = Y**2 @ inside + beside * np.clip((R * R).sum(axis=1) - (Y * Y).sum(axis=1), 0.0, None)
    small = np.maximum(chi2_quantile(BLAMED, 1) * unit / size[:, 0] / size[:, 0], 1e-9 * total)
    parts, steps = np.zeros((n, d)), list[tuple[np.ndarray, ...]]()
    for _ in range(min(MOST, d)):
        falls = np.where((least < G) & (parts == 0), U * U / np.maximum(G, least), 0.0)
        pivot = falls.argmax(axis=1)
        rows = np.flatnonzero(falls[np.arange(n), pivot] > small)
        if not len(rows):
            break
        j = pivot[rows]
        column = (V[j] * (inside - beside)) @ V.T
        column[np.arange(len(rows)), j] += beside
        for others, _, L, _ in steps:
            both, mine, theirs = np.intersect1d(rows, others, return_indices=True)
            column[mine] -= L[theirs, pivot[both]][:, None] * L[theirs]
        L = column / np.sqrt(G[rows, j])[:, None]
        w = U[rows, j] / np.sqrt(G[rows, j])
        U[rows] -= L * w[:, None]
        G[rows] = np.maximum(G[rows] - L * L, 0.0)
        parts[rows, j] = w * w
        steps.append((rows, j, L, w))
    blamed = parts > 0
    falls = np.where((least < G) & ~blamed, U * U / np.maximum(G, least), 0.0)
    change = np.where((least < G) & ~blamed, U / np.maximum(G, least), 0.0)
    rest = np.clip(total - parts.sum(axis=1), 0.0, None) / np.maximum(falls.sum(axis=1), 1e-300)
    parts += falls * rest[:, None]
    for step in range(len(steps) - 1, -1, -1):  # back substitution: C^T change = w
        rows, j, L, w = steps[step]
        known = L * change[rows] * blamed[rows]
        known[np.arange(len(rows)), j] = 0.0
        change[rows, j] = (w - known.sum(axis=1)) / L[np.arange(len(rows)), j]
    with np.errstate(over="ignore"):
        return parts * size * size, (R - change) * size
