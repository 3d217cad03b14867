"""The centre and the subspace of robust PCA, fitted together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..formulations import robust, row_epsilon
from ..functions import RowLoss
from ..linalg import (
    Array,
    asarray_like,
    at_least,
    cross,
    is_implicit,
    largest,
    max_abs,
    norm,
    orthonormalize,
)
from ..losses import Loss
from ..operators import Kernel, Operator, Weighted
from ..operators.block_ops import energy_of
from ..operators.centering import moved
from ..operators.views import check_energy
from ..problem import DCProblem
from ..solvers import IRLS, Anderson
from ..solvers.solve import as_solver
from ..solvers.subspace import solve_quietly
from .starts import NEAR

#: The subspace is fitted and the centre moved at most ROUNDS times. IRLS gives way to DCA after CYCLE
#: iterations.
ROUNDS, CYCLE = 10, 50


def row_scales(norms: Array, spread: float) -> Array:
    """Return ``1/||x_i - c||``; rows near the centre, without a clear direction, count as further."""
    return 1 / at_least(norms, NEAR * spread)


@dataclass(frozen=True, eq=False)
class JointLoss(RowLoss):
    """A :class:`RowLoss` of rows ``a_i (x_i - c)`` that also finds where their centre is to go.

    By their weights at W, c and W that are fitted to the rows minimise a sum of squares that majorises
    the loss. The mean of ``x_i - c``, by which c moves, is one more column of the sweep that finds
    ``X^T dF(XW)``, and costs no pass. ``scales`` are the a.
    """

    scales: Array | None = None
    _last: list[Any] = field(default_factory=list, repr=False)

    def pullback(self, X: Any, W: Array) -> tuple[float, Array]:
        F = RowLoss(self.alpha, self.loss, self.mass)
        s, (both, value, mass) = W.shape[1], X.reweigh(W, F, self.scales)
        if is_implicit(both):
            units = asarray_like(np.eye(s + 1), both.coefficients)
            Z, total = both @ units[:, :s], both @ units[:, s:]
        else:
            Z, total = both[:, :s], both[:, s:]
        self._last[:] = W, Z, total, float(mass)
        return float(value), Z

    def mean(self, X: Any, W: Array) -> Array:
        """Return the mean of ``x_i - c`` by the weights at W: a pass, unless W was swept last."""
        if not (self._last and self._last[0] is W):
            self.pullback(X, W)
        _, _, total, mass = self._last
        return total / mass if mass > 0 else total

    def step(self, problem: DCProblem, W: Array) -> Array:
        """Return the step of DCA from W, by the weights there, about the mean instead of c."""
        mean = self.mean(problem.X, W)
        _, Z, _, mass = self._last
        Z = Z - mean @ (mass * cross(mean, W))
        # Numbers that overflow are left to the solver, which says so.
        return problem.G.conjugate.subgradient(Z) if math.isfinite(max_abs(Z)) else W


def fit_rows(
    X: Operator,
    W: Array,
    loss: Loss,
    options: Any,
    solver: Any,
    mass: Array | None,
    joint: bool,
    spread: float,
) -> tuple[Array | None, Array, Array | None, float, float, int]:
    """Minimise ``sum_i m_i rho(a_i ||(I - W W^T)(x_i - c)||)`` over W, and over c where ``joint``.

    The rows of X are centred at the start; ``a_i`` is 1, or 1 over their norm. In turns, c becomes the
    mean of the rows by their weights, and DCA finds W with c fixed (Algorithm 5; 6 for "dual" or a
    kernel), which both lower the objective; until c stays. Return the shift of c (None if it is not
    fitted), W, the scales a of rows, epsilon, the residual and the number of iterations.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite norm is refused
        norms = X.row_norms()
    # A row that is divided by its norm may have any norm that is finite.
    bounded = options.normalize and largest(norms) < math.inf
    check_energy(spread * spread if bounded else energy_of(norms), X)
    scales = X.persist_rows(row_scales(norms, spread))[0] if options.normalize else None

    def problem_at(shift: Array | None) -> DCProblem:
        view = X if shift is None else moved(X, shift)
        rows = view if scales is None else Weighted(view, scales)
        problem: Any = robust(rows, row_epsilon(rows.row_norms(), loss), loss, mass)
        if not joint:
            return problem
        a = X.row_vector(np.ones(X.shape[0])) if scales is None else scales
        return replace(problem, F=JointLoss(problem.F.alpha, loss, mass, scales=a))

    def has_moved(move: Array) -> bool:
        return norm(move - W @ cross(W, move)) > options.tol * spread

    shift, problem, iterations = None, problem_at(None), 0
    if joint:  # the start has seen a sample: with the centre of all rows one round is often enough
        F: Any = problem.F
        move = F.mean(problem.X, W)
        new = W if X.implicit else F.step(problem, W)
        if has_moved(move):
            shift, problem = move, problem_at(move)
        W = new
    for _ in range(ROUNDS):
        left = {"tol": options.tol, "max_iter": max(1, options.max_iter - iterations)}
        if isinstance(solver, str):
            kernel = Kernel.linear(problem.X)
            dual, W0 = replace(problem, X=kernel), kernel.rmatmul(problem.X @ W)
            result = solve_quietly(dual, as_solver("dca"), W0=W0, **left)
            last = problem.X.rmatmul(result.W.coefficients)
        else:
            most = min(CYCLE, left["max_iter"]) if isinstance(solver, IRLS) else left["max_iter"]
            result = solve_quietly(problem, solver, W0=W, tol=options.tol, max_iter=most)
            if isinstance(solver, IRLS) and not (result.converged or result.stopped):
                # It may go round between equal eigenvalues; DCA does not.
                result = solve_quietly(problem, Anderson(), W0=result.W, **left)
            last = result.W
        W = orthonormalize(last)
        iterations += result.iterations
        if not joint or iterations >= options.max_iter or result.stopped:
            break
        F = problem.F
        move = F.mean(problem.X, last)
        shift = move if shift is None else shift + move
        if not has_moved(move):
            break
        problem = problem_at(shift)
    epsilon = row_epsilon(problem.X.row_norms(), loss)
    return shift, W, scales, epsilon, result.residual, iterations
