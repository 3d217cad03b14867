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

import numpy as np

from ..linalg import Array
from ..problem import DCProblem
from ..progress import report_step
from .branch import best_support
from .deflation import (
    DeflatedGram,
    adjusted_variances,
    best_scores,
    column_targets,
    cumulative_variances,
    fit_targets,
    gaussian,
    leading_subspace,
    polar_targets,
    unit,
)
from .options import SparseOptions
from .search import best_component, eigenvector, longer_part, starting_points


@dataclass(frozen=True)
class SparseResult:
    """Loadings W in columns, with the lengths of the iteration, and how they were found.

    DCA solved one problem for each column, or one for all.
    """

    W: Array
    problems: list[DCProblem]
    residual: float
    iterations: int
    #: What branch and bound proved, if asked for: a bound for each component, and the nodes it took.
    bounds: Array = None
    nodes: int = 0

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
        w = eigenvector(C, W[:, [j]], options)
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
    V = leading_subspace(C, gaussian(n, s), steps=4)
    rng, problems = np.random.default_rng(options.seed), []
    W, worst, total, bounds, nodes = np.zeros((n, s)), 0.0, 0, np.zeros(s), 0
    for j in range(s):
        problems.append(options.objective(C.data, j, C.longest))
        if np.maximum(C.variances, 0.0).sum() <= C.floor:
            continue
        V = leading_subspace(C, V, steps=1)
        starts = starting_points(C, V, options.n_nonzero[j], options, rng)
        starts = starts if warm is None else np.column_stack([warm[:, [j]], starts])
        w, Cw, residual, iterations = best_component(C, problems[j], starts, options)
        worst, total = max(worst, residual), total + iterations
        if options.certify:
            proof = best_support(C.block(np.arange(n)), options.n_nonzero[j], w, options.max_nodes)
            (w, bounds[j], more), Cw = proof, C @ proof[0]
            nodes += more
        if C.remove(w, Cw, options.deflation):
            W[:, [j]] = w
    return SparseResult(W, problems, worst, total, bounds if options.certify else None, nodes)


def _together(C: DeflatedGram, options: SparseOptions, warm: Array) -> SparseResult:
    """Find all components together, from principal axes and from random rotations of these.

    "reconstruction" continues from the results of "block" and of deflation, so that it never falls
    behind either in what it maximises.
    """
    n, s = len(C.variances), len(options.n_nonzero)
    rng, by_fit = np.random.default_rng(options.seed), options.method == "reconstruction"
    problem = options.objective(C.data, None, C.longest)
    V = leading_subspace(C, gaussian(n, s), steps=8)[:, :s]
    turns = [rng.standard_normal((s, s)) for _ in range((options.n_starts or 1) - 1)]
    starts = [V, *(V @ np.linalg.qr(turn)[0] for turn in turns)]
    starts = [longer_part(W) for W in starts] if options.positive else starts
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
        other = replace(options, method="deflation", deflation="projection", n_starts=None)
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
