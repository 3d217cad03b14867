"""One sparse component of C: DCA from several starts, eigenvectors on supports, exchanges."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse.linalg

from ..linalg import Array
from ..problem import DCProblem
from ..progress import report_step, stopped
from .deflation import DeflatedGram, column_targets, unit
from .options import SparseOptions

#: Starts of a component found by deflation, unless n_starts is given, apart from single features,
#: which are at most FEATURES if C is formed. All share the products.
STARTS, FEATURES = 8, 128

#: DCA steps from all starts, after each of which the better half goes on, before the FINAL best
#: continue alone, and the IMPROVED best of these by exchanges. On supports that are too wide for
#: exchanges the IMPROVED best continue, and the best one if each step is a pass over the data.
EXPLORE, FINAL, IMPROVED = 6, 8, 3

#: Exchanges of two features that are tried, the most promising first. One must raise the variance
#: by more than rounding.
EXCHANGES, RISE = 10, 1e-11

#: Supports of LANCZOS features or more get their leading eigenvector from Lanczos, not LAPACK. On
#: supports of more than WIDEST features, whose matrix would not be small, DCA continues without.
LANCZOS, WIDEST = 100, 4000


def starting_points(C: DeflatedGram, V: Array, k: int, options: SparseOptions, rng: Any) -> Array:
    """Return leading eigenvectors, the most promising single features and random vectors.

    They are ``n_starts``, half and a quarter of these, or half of STARTS and all features up to
    FEATURES. With a penalty the feature of largest variance is always among them: the others might
    vanish.
    """
    n, count = len(V), options.n_starts or STARTS
    dense = min(V.shape[1], (count + 1) // 2)
    single = max(min(n, (count - dense + 1) // 2), int(options.shrinks))
    R = rng.standard_normal((n, max(count - dense - single, 0)))
    if options.n_starts is None:
        single, R = min(n, FEATURES if C.formed else STARTS // 2), R[:, :0]
    E = np.zeros((n, single))
    E[_promising(C, k, single, options), np.arange(single)] = 1.0
    if options.positive:
        V, R = longer_part(V), np.abs(R)
    return np.column_stack([V[:, :dense], E, R])


def _promising(C: DeflatedGram, k: int, count: int, options: SparseOptions) -> Array:
    """Return the features from which a step of DCA goes highest, or those of largest variance.

    A step from the feature i reaches the k largest entries of ``c_i / sqrt(C_ii)``.
    """
    n, variances = len(C.variances), np.maximum(C.variances, 0.0)
    reach = variances
    if C.formed and not options.shrinks and count < n:
        A = C.rows(slice(None))
        A = np.partition(A.clip(0) if options.positive else np.abs(A), n - k, axis=1)[:, n - k :]
        reach = np.hypot.reduce(A, axis=1) / np.sqrt(
            np.where(variances > C.floor, variances, np.inf)
        )
    return np.argsort(-reach, kind="stable")[:count]


def longer_part(V: Array) -> Array:
    """Return the positive or the negative part of each column, whichever is longer."""
    longer = (V.clip(0) ** 2).sum(axis=0) >= (V.clip(None, 0) ** 2).sum(axis=0)
    return (V * np.where(longer, 1.0, -1.0)).clip(0)


def best_component(
    C: DeflatedGram, problem: DCProblem, W: Array, options: SparseOptions
) -> tuple[Array, Array, float, int]:
    """Return w, ``C w``, the length of the last step and the number of steps, from the best start.

    All starts take steps together. After each the better half goes on, one of each support. The best
    ones ascend to fixed points, and the best of these on from exchanges of a feature for another.
    """
    step, W = problem.G.conjugate.subgradient, unit(W)
    explored, final = EXPLORE if W.shape[1] > 1 else 0, FINAL if C.formed else 1
    names = np.random.default_rng(0).integers(2**62, size=len(W))  # sums tell supports apart
    for _ in range(explored):
        Z = column_targets(W, C @ W)
        W = unit(step(Z))
        ranked = np.argsort(-(W * Z).sum(axis=0), kind="stable")
        _, first = np.unique(names @ (W != 0)[:, ranked], return_index=True)
        W = W[:, ranked[np.sort(first)[: max(final, len(ranked) // 2)]]]

    def reached(found: tuple[Array, Array, float, int]) -> float:
        return float(problem.G.conjugate(column_targets(*found[:2])))

    tried: list[tuple[Array, Array, float, int]] = []
    seen: set[bytes] = set()
    if np.count_nonzero(W[:, :1]) >= LANCZOS:
        final = min(final, IMPROVED)
    for w in W.T[:final]:
        found = _ascent(C, problem, w[:, None], options, explored, seen)
        tried += [] if found is None else [found]
        if stopped():
            break

    def exchanged(found: tuple[Array, Array, float, int]) -> tuple[Array, Array, float, int] | None:
        w = None if options.shrinks or options.positive else _exchanged(C, found[0])
        return None if w is None else _ascent(C, problem, w, options, found[3], seen)

    tried = sorted(tried, key=reached, reverse=True)[:IMPROVED]
    for i in range(len(tried)):
        while tried[i][2] <= options.tol and not stopped() and (better := exchanged(tried[i])):
            tried[i] = better
    return max(tried, key=reached)


def _ascent(
    C: DeflatedGram,
    problem: DCProblem,
    w: Array,
    options: SparseOptions,
    before: int,
    seen: set[bytes],
) -> tuple[Array, Array, float, int] | None:
    """Return w, ``C w``, the length of the last step and the number of steps, with those ``before``.

    DCA, except that on the k-sparse ball w becomes the leading eigenvector on its support once a step
    keeps the support or is short. No further step on that support could exceed it; both moves raise
    the objective, and there are finitely many supports. The search then ends with a step from an
    eigenvector that keeps the support, or whose eigenvector is no better. It has no result where it
    meets a support of ``seen``, on which another ascent had the eigenvector: it would go the same way.
    """
    step, Cw = problem.G.conjugate.subgradient, C @ w
    residual, steps, mine = np.inf, 0, set[bytes]()
    last, level, is_eigenvector = (w, Cw), -np.inf, False
    while steps < options.max_iter:
        new, steps = unit(step(column_targets(w, Cw))), steps + 1
        residual = float(np.linalg.norm(new - w))
        short, same = residual <= options.tol, np.array_equal(new != 0, w != 0)
        if report_step("deflation", residual, options.tol) or (same and is_eigenvector):
            break
        w = new
        if (short or same) and not options.shrinks:
            if (support := np.packbits(new != 0).tobytes()) in seen:
                return None
            w = eigenvector(C, new, options)
            mine |= {support} if w is not new else set()
        Cw, is_eigenvector = C @ w, w is not new
        if is_eigenvector:
            value = float(np.vdot(w, Cw))
            if value <= level:  # features are tied: the last eigenvector is a subgradient as well
                (w, Cw), residual = last, 0.0
                break
            last, level = (w, Cw), value
        elif short:
            break
    seen |= mine
    return w, Cw, residual, before + steps


def _exchanged(C: DeflatedGram, w: Array) -> Array | None:
    """Return the eigenvector of a better support, with one feature of w exchanged, if there is one.

    w is the leading eigenvector of ``C_SS``, lambda its eigenvalue and P the pseudoinverse of
    ``lambda - C_SS``. S without i and with j has a larger eigenvalue if and only if
    ``C_jj + c^T (lambda - C_S'S')^{-1} c > lambda``, with S' = S without i and c = ``C_S'j``, by Schur
    complements. The second term, a limit of downdated inverses, is ``c^T P c - 2 a (P c)_i + a^2 P_ii``
    with c = ``C_Sj`` and ``a = w^T c / w_i``.
    """
    S = np.flatnonzero(w)
    if not C.formed or not 0 < len(S) < min(LANCZOS, len(w)):
        return None
    theta, U = np.linalg.eigh(C.block(S))
    level, v = theta[-1], U[:, -1]
    if level <= C.floor:
        return None
    rows = C.rows(S) / level  # in units of lambda, nothing overflows
    P = (U[:, :-1] / np.maximum(1 - theta[:-1] / level, RISE)) @ U[:, :-1].T
    a, Pc = (v @ rows) / np.where(np.abs(v) > RISE, v, RISE)[:, None], P @ rows
    gain = (rows * Pc).sum(axis=0) - 2 * a * Pc + a**2 * np.diag(P)[:, None]
    gain += C.variances / level - 1
    gain[:, S] = -np.inf
    best = np.argpartition(gain, -min(EXCHANGES, gain.size), axis=None)[-EXCHANGES:]
    pairs = np.column_stack(np.unravel_index(best[gain.flat[best] > 0], gain.shape))
    if not len(pairs):
        return None
    supports = [np.append(np.delete(S, i), j) for i, j in pairs]
    values, vectors = np.linalg.eigh(np.stack([C.block(T) for T in supports]))
    top = int(np.argmax(values[:, -1]))
    if values[top, -1] <= level * (1 + RISE):
        return None
    new = np.zeros_like(w)
    new[supports[top], 0] = vectors[top, :, -1]
    return new


def eigenvector(C: DeflatedGram, w: Array, options: SparseOptions) -> Array:
    """Return the leading eigenvector on the support of w, to rounding.

    Return w itself on wide supports, if an eigenvector that must be positive is not, and if Lanczos
    does not converge.
    """
    S = np.flatnonzero(w)
    if not 1 < len(S) <= WIDEST:
        return w
    B = C.block(S)
    try:
        if len(S) < LANCZOS:
            v = np.linalg.eigh(B)[1][:, -1]
        else:
            v = scipy.sparse.linalg.eigsh(B, 1, which="LA", v0=w[S, 0], tol=0)[1][:, 0]
    except scipy.sparse.linalg.ArpackNoConvergence:
        return w
    v = v if v @ w[S, 0] >= 0 else -v
    if options.positive and v.min() < 0:
        return w
    w = w.copy()
    w[S, 0] = v
    return w
