"""Which solver, and from any solver to the leading subspace of an operator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ..formulations import formulation as make_formulation
from ..linalg import Array
from ..operators import Operator
from ..problem import DCProblem
from ..solvers import SOLVERS, Ritz, rayleigh_ritz, solve
from ..solvers.direct import gram_ritz, lapack_ritz
from ..solvers.solve import as_solver

#: The solvers of PCA's DC problems; IRLS is for the robust ones.
ITERATIVE = tuple(name for name in SOLVERS if name != "irls")

#: Direct solvers are exact and, up to this size of the smaller side, quick.
DIRECT_LIMIT = 2000


@dataclass(frozen=True)
class Subspace:
    """Ritz pairs and how they were found."""

    ritz: Ritz
    solver: str
    iterations: int


def leading_subspace(
    X: Operator,
    s: int,
    *,
    dense: bool,
    solver: Any,
    formulation: Any,
    tol: float,
    max_iter: int,
    seed: int,
) -> Subspace:
    """The s leading right singular vectors of X, by the solver that was asked for."""
    if formulation is None and solver in ("auto", "lapack", "gram"):
        small = min(X.shape)
        if solver == "auto":
            full = dense and (s > 0.5 * small or small <= 200)
            solver = "lapack" if full else "gram" if small <= DIRECT_LIMIT else "dca"
        if solver == "lapack":
            if not dense:
                raise ValueError(
                    "solver='lapack' needs a dense array; use solver='gram' or 'auto' for sparse data"
                )
            return Subspace(lapack_ritz(X, s), "lapack", 1)
        if solver == "gram":
            return Subspace(gram_ritz(X, s), "gram", 1)
    elif solver == "auto":
        solver = "dca"
    elif formulation is not None and solver in ("lapack", "gram"):
        raise ValueError(
            f"solver={solver!r} computes components directly and takes no formulation; "
            f"drop formulation={formulation!r}, or choose one of {', '.join(ITERATIVE)}"
        )
    name = solver if isinstance(solver, str) else type(solver).__name__
    problem = as_problem("l" if formulation is None else formulation, X)
    result = solve_quietly(problem, as_solver(solver), s, tol=tol, max_iter=max_iter, seed=seed)
    W, operator = tested(problem, result.W)
    ritz = rayleigh_ritz(X, X.rmatmul(W) if operator is X.T else W)
    warn_above(ritz.residual, tol, name, max_iter, stacklevel=5)
    return Subspace(ritz, name, result.iterations)


def as_problem(formulation: Any, X: Operator) -> DCProblem:
    """A formulation by letter, or a function that makes a DCProblem of an operator."""
    if not callable(formulation):
        return make_formulation(formulation, X)
    problem = formulation(X)
    if not isinstance(problem, DCProblem):
        raise TypeError(
            f"formulation={formulation!r} returned {problem!r}; it must return a DCProblem, as in "
            "formulation=lambda X: DCProblem(G, F, X)"
        )
    return problem


def solve_quietly(
    problem: DCProblem, solver: Any, s: int, *, tol: float, max_iter: int, seed: int
) -> Any:
    """:func:`solve`, leaving the warning to the estimator, which knows the final residual."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(problem, solver, s=s, tol=tol, max_iter=max_iter, random_state=seed)


def tested(problem: DCProblem, W: Array) -> tuple[Array, Operator]:
    """What ``tol`` was asked of, W or the image of a dual variable, and the operator it belongs to."""
    if problem.F.one_pass or not problem.dual.F.one_pass:
        return W, problem.X
    return problem.to_dual(W), problem.X.T


def warn_above(residual: float, tol: float, name: str, max_iter: int, stacklevel: int) -> None:
    """Say what was reached where that is less than was asked, at the caller of ``fit``."""
    if residual > 1.01 * tol:  # the same basis, measured twice, differs by rounding
        warnings.warn(
            f"{name} reached a residual of {residual:.1e}, above tol={tol:.1e}, in at most "
            f"max_iter={max_iter} iterations; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
