"""Sparse components of ``C = X^T X``: DCA on the sparse formulations, from several starts.

By deflation and by the block method, components are fixed points of DCA on a problem of
:mod:`dualpca.formulations`, before they are refitted. A step is ``W = dG*(Z)`` with the
``Z = X^T dF(XW)`` of :mod:`.deflation`. It is that of :class:`~dualpca.solvers.DCA`, but all starts share
one ``C W``, and Z comes from C in NumPy: the implicit factors of a Kernel cost three times as much.
Eigenvectors on a support, refits and least squares ("reconstruction") are not DCA.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse.linalg

from ..formulations import block_sparse, gpower, sparse
from ..linalg import Array
from ..operators import Operator
from ..problem import DCProblem
from ..progress import report_step
from .deflation import (
    DeflatedGram,
    adjusted_variances,
    best_scores,
    column_targets,
    cumulative_variances,
    fit_targets,
    polar_targets,
    unit,
)

#: Starts of a component found by deflation, unless n_starts is given: they share the products.
STARTS = 8

#: DCA steps from all starts before the best one continues alone.
EXPLORE = 6

#: Supports of LANCZOS features or more get their leading eigenvector from Lanczos, not LAPACK. On
#: supports of more than WIDEST features, whose matrix would not be small, DCA continues without.
LANCZOS, WIDEST = 100, 4000


@dataclass(frozen=True)
class SparseOptions:
    """The parameters of :class:`dualpca.SparsePCA`; ``n_nonzero`` has a number for each component."""

    n_nonzero: tuple[int, ...]
    method: str
    deflation: str
    penalty: str
    alpha: float
    positive: bool
    n_starts: int | None
    tol: float
    max_iter: int
    seed: int

    @property
    def shrinks(self) -> bool:
        """Whether a penalty shrinks the loadings, which are then refitted on their support."""
        return self.penalty != "cardinality"

    def objective(self, X: Operator, j: int | None, longest: float) -> DCProblem:
        """Return the problem of component j, or of all components together if j is None.

        ``longest`` is the largest length of a column of X, which penalties are relative to.
        """
        if self.shrinks:
            gamma = self.alpha * (longest if self.penalty == "l1" else longest**2)
            return gpower(X, gamma, self.penalty, self.positive).dual
        if j is None:
            return block_sparse(X, self.n_nonzero, self.positive).dual
        return sparse(X, self.n_nonzero[j], self.positive)


@dataclass(frozen=True)
class SparseResult:
    """Loadings W in columns, with the lengths of the iteration, and how they were found.

    DCA solved one problem for each column, or one for all.
    """

    W: Array
    problems: list[DCProblem]
    residual: float
    iterations: int

    def step(self, Z: Array) -> Array:
        """Return ``dG*(Z)``, the end of a DCA step; Z may have more features than W."""
        parts = zip(self.problems, np.split(Z, len(self.problems), axis=1), strict=True)
        return np.column_stack([p.G.conjugate.subgradient(part) for p, part in parts])


def sparse_components(C: DeflatedGram, options: SparseOptions, warm: Array = None) -> SparseResult:
    """Find the components of C; ``warm`` has an additional start for each."""
    by_method = _one_by_one if options.method == "deflation" else _together
    return by_method(C.undeflated(), options, warm)


def refitted(C: DeflatedGram, options: SparseOptions, W: Array) -> Array:
    """Return the best loadings on the supports of W if a penalty has shrunk them, else W.

    This is no DCA: by deflation they are leading eigenvectors, else a power method on fixed supports.
    """
    if not options.shrinks:
        return W
    if options.method != "deflation":
        support, least = W != 0, 0.0 if options.positive else -np.inf

        def power_step(V: Array, CV: Array) -> Array:
            return np.where(support, np.maximum(polar_targets(V, CV), least), 0.0)

        return _iterate(C, power_step, W, options)[0]
    C, W = C.undeflated(), W.copy()
    for j in np.flatnonzero(W.any(axis=0)):
        w = _eigenvector(C, W[:, [j]], options)
        # The refitted components before it may explain all of it.
        W[:, [j]] = w if C.remove(w, C @ w, options.deflation) else 0.0
    return W


def fixed_point_target(C: DeflatedGram, options: SparseOptions, W: Array, CW: Array) -> Array:
    """Return Z such that W is a fixed point if ``W = dG*(Z)`` up to lengths, given ``C W``."""
    if options.method != "deflation":
        return (polar_targets if options.method == "block" else fit_targets)(W, CW)
    C, Z = C.undeflated(), np.zeros_like(W)
    for j in np.flatnonzero(W.any(axis=0)):
        w, z = W[:, [j]], C.corrected(W[:, [j]], CW[:, [j]])
        Z[:, [j]] = column_targets(w, z)
        C.remove(w, z, options.deflation)
    return Z


def _one_by_one(C: DeflatedGram, options: SparseOptions, warm: Array) -> SparseResult:
    """Find each component in what deflation by those before it leaves of C."""
    n, s = len(C.variances), len(options.n_nonzero)
    rng = np.random.default_rng(options.seed)
    V = _leading_subspace(C, rng.standard_normal((n, min(n, s + 4))), steps=4)
    W, worst, total, problems = np.zeros((n, s)), 0.0, 0, []
    for j in range(s):
        problems.append(options.objective(C.data, j, C.longest))
        variances = np.maximum(C.variances, 0.0)
        if variances.sum() <= C.floor:
            continue
        V = _leading_subspace(C, V, steps=1)
        starts = _starts(V, variances, options, rng)
        starts = starts if warm is None else np.column_stack([warm[:, [j]], starts])
        w, Cw, residual, iterations = _component(C, problems[j], starts, options)
        worst, total = max(worst, residual), total + iterations
        if C.remove(w, Cw, options.deflation):
            W[:, [j]] = w
    return SparseResult(W, problems, worst, total)


def _leading_subspace(C: DeflatedGram, V: Array, steps: int) -> Array:
    """Return rough leading eigenvectors of C by subspace iteration from V."""
    for _ in range(steps):
        V = np.linalg.qr(V)[0]
        CV = C @ V
        V = CV @ np.linalg.eigh(V.T @ CV)[1][:, ::-1]
    return np.linalg.qr(V)[0]


def _starts(V: Array, variances: Array, options: SparseOptions, rng: Any) -> Array:
    """Return ``n_starts`` leading eigenvectors, features of largest variance and random vectors.

    With a penalty the feature of largest variance is always among them: the others might vanish.
    """
    n, count = len(variances), options.n_starts or STARTS
    dense = min(V.shape[1], (count + 1) // 2)
    single = max(min(n, (count - dense + 1) // 2), int(options.shrinks))
    E = np.zeros((n, single))
    E[np.argsort(-variances, kind="stable")[:single], np.arange(single)] = 1.0
    R = rng.standard_normal((n, max(count - dense - single, 0)))
    if options.positive:
        V, R = _longer_part(V), np.abs(R)
    return np.column_stack([V[:, :dense], E, R])


def _longer_part(V: Array) -> Array:
    """Return the positive or the negative part of each column, whichever is longer."""
    longer = (V.clip(0) ** 2).sum(axis=0) >= (V.clip(None, 0) ** 2).sum(axis=0)
    return (V * np.where(longer, 1.0, -1.0)).clip(0)


def _component(
    C: DeflatedGram, problem: DCProblem, W: Array, options: SparseOptions
) -> tuple[Array, Array, float, int]:
    """Return w, ``C w``, the length of the last step and the number of steps, from the best start.

    DCA, except that on the k-sparse ball w becomes the leading eigenvector on its support once a step
    keeps the support or is short. No further step on that support could exceed it; both moves raise
    the objective, and there are finitely many supports. The search then ends with a step from an
    eigenvector that keeps the support, or whose eigenvector is no better.
    """
    step, W = problem.G.conjugate.subgradient, unit(W)
    explored = EXPLORE if W.shape[1] > 1 else 0
    for _ in range(explored):
        W = unit(step(column_targets(W, C @ W)))
    CW = C @ W
    Z = column_targets(W, CW)
    best = int(np.argmax([problem.G.conjugate(Z[:, [j]]) for j in range(Z.shape[1])]))
    w, Cw = W[:, [best]], CW[:, [best]]
    residual, steps = np.inf, 0
    last, level, is_eigenvector = (w, Cw), -np.inf, False
    while steps < options.max_iter:
        new, steps = unit(step(column_targets(w, Cw))), steps + 1
        residual = float(np.linalg.norm(new - w))
        short, same = residual <= options.tol, np.array_equal(new != 0, w != 0)
        if report_step("deflation", residual, options.tol) or (same and is_eigenvector):
            break
        w = _eigenvector(C, new, options) if (short or same) and not options.shrinks else new
        Cw, is_eigenvector = C @ w, w is not new
        if is_eigenvector:
            value = float(np.vdot(w, Cw))
            if value <= level:  # features are tied: the last eigenvector is a subgradient as well
                (w, Cw), residual = last, 0.0
                break
            last, level = (w, Cw), value
        elif short:
            break
    return w, Cw, residual, explored + steps


def _eigenvector(C: DeflatedGram, w: Array, options: SparseOptions) -> Array:
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


def _together(C: DeflatedGram, options: SparseOptions, warm: Array) -> SparseResult:
    """Find all components together, from principal axes and from random rotations of these.

    "reconstruction" continues from the results of "block" and of deflation, so that it never falls
    behind either in what it maximises.
    """
    n, s = len(C.variances), len(options.n_nonzero)
    rng, by_fit = np.random.default_rng(options.seed), options.method == "reconstruction"
    problem = options.objective(C.data, None, C.longest)
    V = _leading_subspace(C, rng.standard_normal((n, min(n, s + 4))), steps=8)[:, :s]
    turns = [rng.standard_normal((s, s)) for _ in range((options.n_starts or 1) - 1)]
    starts = [V, *(V @ np.linalg.qr(turn)[0] for turn in turns)]
    starts = [_longer_part(W) for W in starts] if options.positive else starts
    if options.shrinks:  # the axes might vanish
        starts.append(_pivots(C, s))
    if warm is not None and not by_fit:
        starts.append(warm)

    def dca_step(W: Array, CW: Array) -> Array:
        return problem.G.conjugate.subgradient(polar_targets(W, CW))

    def explained(result: tuple[Array, float, int]) -> float:
        W = unit(result[0])
        if by_fit:
            return float(cumulative_variances(W, C @ W)[-1])
        return float(adjusted_variances(W, C @ W).sum())

    tried = [_iterate(C, dca_step, W, options) for W in starts]
    if by_fit:
        many = max(options.n_starts or 1, STARTS)
        other = replace(options, method="deflation", deflation="projection", n_starts=many)
        deflated = sparse_components(C, other)
        tried.append((deflated.W, np.inf, deflated.iterations))
        tried += [] if warm is None else [(warm, np.inf, 0)]
        fit = partial(_least_squares, deflated.problems)
        tried = [_iterate(C, fit, W, options, steps) for W, _, steps in tried]
    W, residual, steps = max(tried, key=explained)
    return SparseResult(W, [problem], residual, steps)


def _least_squares(problems: list[DCProblem], W: Array, CW: Array) -> Array:
    """Fit one loading after the other, the scores fixed: ``||X - T W^T||`` never rises. No DCA."""
    W, XT, G = best_scores(W, CW)
    for j, problem in enumerate(problems):
        if G[j, j] > 0:
            z = (XT[:, [j]] - W @ G[:, [j]]) / G[j, j] + W[:, [j]]
            W[:, [j]] = np.where(problem.G.conjugate.subgradient(z) != 0, z, 0.0)
    return W


def _pivots(C: DeflatedGram, s: int) -> Array:
    """Return loadings with orthonormal scores, each adding the feature that is explained least."""
    W, left = np.zeros((len(C.variances), s)), C.variances
    for j in range(s):
        i = int(np.argmax(left))
        if left[i] <= C.floor:
            break
        w = np.eye(1, len(W), i).T
        w -= W @ (W.T @ (C @ w))
        z = C @ w
        length = float(np.vdot(w, z)) ** 0.5
        W[:, [j]], left = w / length, left - (z[:, 0] / length) ** 2
    return W


def _iterate(
    C: DeflatedGram, step: Callable[..., Array], W: Array, options: SparseOptions, before: int = 0
) -> tuple[Array, float, int]:
    """Repeat ``W = step(W, C W)`` until the columns turn by at most ``tol``.

    Return W, the last turn and the number of steps, with those ``before``. The common scale of W
    means nothing, and would overflow or vanish with that of the data.
    """
    residual, steps = np.inf, 0
    while residual > options.tol and steps < options.max_iter:
        new, steps = step(W, C @ W), steps + 1
        residual = float(np.linalg.norm(unit(new) - unit(W))) / W.shape[1] ** 0.5
        W = new / (float(np.abs(new).max()) or 1.0)
        if report_step(options.method, residual, options.tol):
            break
    return W, residual, before + steps
