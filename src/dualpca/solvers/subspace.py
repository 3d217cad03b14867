"""Which solver, and from any solver to the leading subspace of an operator."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ..formulations import formulation as make_formulation
from ..linalg import Array, namespace, orthonormalize, to_numpy
from ..operators import Operator
from ..problem import DCProblem
from ..progress import stopped
from . import SOLVERS, Ritz, solve
from .base import TINY as TINY
from .choice import costs, plan, sweeping
from .solve import as_solver, user_stacklevel
from .spectral.certificate import Certificate
from .spectral.complement import certify
from .spectral.gram import by_gram, by_lapack
from .spectral.krylov import block_of
from .spectral.ritz import ritz_pairs
from .spectral.truncated import by_chebyshev, by_krylov, mixed_scale

#: The solvers of PCA's DC problems; IRLS is for the robust ones.
ITERATIVE = tuple(name for name in SOLVERS if name != "irls")

#: A direct solver tells of a residual above ``tol`` and so many eps, which are as good as it gets.
DIRECT_ROUNDING = 100

#: The solvers that compute components from an operator, without a formulation.
DIRECT = ("lapack", "gram", "krylov", "chebyshev")


@dataclass(frozen=True)
class Subspace:
    """Ritz pairs, the certificate of what they may miss, and how they were found."""

    ritz: Ritz
    certificate: Certificate
    solver: str
    iterations: int

    def shortfall(self, s: int | None = None) -> float:
        """An upper bound on the relative shortfall in captured variance of the first s, or of all."""
        theta = self.ritz.theta
        s = theta.shape[0] if s is None else s
        if not float(namespace(theta).sum(theta[:s])) > 0:
            return 0.0
        return max(self.certificate.shortfall(s), 4 * eps_of(self.ritz))


def leading_subspace(
    X: Operator,
    s: int,
    *,
    rows: Operator | None = None,
    dense: bool,
    energy: float,
    solver: Any,
    formulation: Any,
    tol: float,
    max_iter: int,
    seed: int,
) -> Subspace:
    """The s leading right singular vectors of X, by the solver that was asked for.

    ``rows`` is what formulations are made of: X itself, or X^T where X is the transpose of the data.
    ``energy`` is ``||X||_F^2``.
    """
    why = "as asked"
    if solver == "auto" and formulation is None:
        chosen = plan(X, s, dense=dense, tol=tol, energy=energy)
        solver, why = chosen.solver, chosen.reason
    elif solver == "auto":
        solver, why = "dca", "solves any formulation"
    name = solver if isinstance(solver, str) else type(solver).__name__
    if name in DIRECT and formulation is not None:
        raise ValueError(
            f"solver={name!r} computes components directly and takes no formulation; "
            f"drop formulation={formulation!r}, or choose one of {', '.join(ITERATIVE)}"
        )
    kernel = X.T.implicit  # then X^T X is K itself, and LAPACK decomposes that
    if name == "lapack" and not (dense or kernel):
        raise ValueError(
            "solver='lapack' needs a dense array in memory; use solver='gram', 'krylov' or 'auto' for "
            "sparse data, files and dask"
        )
    if name in DIRECT:
        if name in ("krylov", "chebyshev"):
            scale = mixed_scale(X, tol, energy)
            solve_by = by_krylov if name == "krylov" else by_chebyshev
            found = solve_by(
                X, s, tol=tol, max_steps=max_iter, seed=seed, scale=scale, energy=energy
            )
        elif name == "gram" or kernel:
            found = by_gram(X, s, tol=0.0 if kernel else tol, seed=seed)
        else:
            found = by_lapack(X, s)
        iterative = name in ("krylov", "chebyshev")
        rounding = 0.0 if iterative else DIRECT_ROUNDING * eps_of(found.ritz)
        spent = iterative and found.steps >= max_iter
        warn_above(found.ritz.residual, max(tol, rounding), name, max_iter if spent else None)
        told = f"{name} ({found.note}): {why}" if found.note else f"{name}: {why}"
        return Subspace(found.ritz, found.certificate, told, found.steps)
    if formulation is None:
        problem = as_problem("l", X)
    else:
        problem = as_problem(formulation, X if rows is None else rows)
    result = solve_quietly(
        problem,
        as_solver(solver),
        s=s,
        tol=tol,
        max_iter=max_iter,
        stop="span",
        random_state=seed,
    )
    W, operator = tested(problem, result.W)
    W = X.rmatmul(W) if operator is X.T else W
    ritz, image = ritz_pairs(X, orthonormalize(_pad(W, s)))
    warn_above(ritz.residual, tol, name, max_iter)
    columns = block_of(ritz.V)
    certificate = certify(X, ritz, image, s, tol=tol, energy=energy, columns=columns, seed=seed)
    return Subspace(ritz.signed(), certificate, f"{name}: {why}", result.iterations)


def principal_axes(
    X: Operator,
    s: int,
    *,
    tol: float,
    seed: int,
    max_iter: int = 1000,
    rows: Operator | None = None,
) -> Ritz:
    """The s leading right singular vectors of X by whatever solver is quickest."""
    return leading_subspace(
        X,
        s,
        rows=rows,
        dense=False,
        energy=max(X.energy(), TINY),
        solver="auto",
        formulation=None,
        tol=tol,
        max_iter=max_iter,
        seed=seed,
    ).ritz


@dataclass(frozen=True)
class Decomposition:
    """What a fitted PCA is made of: Ritz pairs of the centred data, its energy and its mean.

    ``mass`` is the number of rows, or the sum of their weights; ``discarded`` bounds the variance
    that was lost before the Ritz pairs were computed; ``state`` is what partial_fit goes on from.
    """

    subspace: Subspace
    energy: float
    mass: float
    mean: Array | None
    shape: tuple[float, int]
    passes: int
    discarded: float = 0.0
    state: Any = None


#: A fraction of the variance is first looked for among so many components.
FIRST = 16


def growing_subspace(X: Operator, wanted: float, **options: Any) -> Subspace:
    """Leading right singular vectors of X whose Ritz values sum to more than ``wanted``.

    Krylov looks for twice as many until they do. All are computed where that is quicker, where they
    are more than an eighth of all, and by other solvers.
    """
    limit, s = min(X.shape), FIRST
    tol, energy = options["tol"], options["energy"]
    auto = options["solver"] == "auto" and options["formulation"] is None
    everything = costs(X, limit, tol, energy)["gram"] if auto else math.inf
    name = sweeping(X) if auto else options["solver"]
    while name in ("krylov", "chebyshev") and s <= limit / 8:
        if costs(X, s, tol, energy).get(name, 0.0) >= everything:
            break
        found = leading_subspace(X, s, **{**options, "solver": name})
        if _captured(found) > wanted or stopped():
            why = f"{s} components hold the fraction, all would take {everything:.2g} s"
            return replace(found, solver=found.solver.replace("as asked", why)) if auto else found
        s *= 2
    return leading_subspace(X, limit, **options)


def _captured(found: Subspace) -> float:
    return float(to_numpy(found.ritz.theta).sum(dtype=float))


def eps_of(ritz: Ritz) -> float:
    return float(namespace(ritz.theta).finfo(ritz.theta.dtype).eps)


def _pad(W: Array, s: int) -> Array:
    """W with s columns: an implicit W has no more than K has rank; a QR completes the null ones."""
    missing = s - W.shape[1]
    if missing <= 0:
        return W
    xp = namespace(W)
    return xp.concat([W, xp.zeros((W.shape[0], missing), dtype=W.dtype)], axis=1)


def as_problem(formulation: Any, X: Operator) -> DCProblem:
    """A formulation by letter, or a function that makes a DCProblem of an operator."""
    if isinstance(formulation, str) and formulation.startswith(("robust", "sparse")):
        raise ValueError(
            f"formulation={formulation!r} has other solutions than PCA; use "
            f"dualpca.solve(dualpca.formulation({formulation!r}, X), s=n_components) for it"
        )
    if not callable(formulation):
        return make_formulation(formulation, X)
    problem = formulation(X)
    if not isinstance(problem, DCProblem):
        raise TypeError(
            f"formulation={formulation!r} returned {problem!r}; it must return a DCProblem, as in "
            "formulation=lambda X: DCProblem(G, F, X)"
        )
    return problem


def solve_quietly(problem: DCProblem, solver: Any, **options: Any) -> Any:
    """:func:`solve`, leaving the warning to the estimator, which knows the final residual."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(problem, solver, **options)


def tested(problem: DCProblem, W: Array) -> tuple[Array, Operator]:
    """What ``tol`` was asked of, W or the image of a dual variable, and the operator it belongs to."""
    return (problem.to_dual(W), problem.X.T) if problem.is_dual else (W, problem.X)


def warn_above(residual: float, tol: float, name: str, max_iter: int | None) -> None:
    """Say what was reached where that is less than was asked and nobody stopped it, at the caller.

    ``max_iter`` is None where iterations were left, so that rounding alone keeps it from ``tol``.
    """
    # The same basis, measured twice, differs by rounding.
    if residual > 1.01 * tol and not stopped():
        if max_iter is None:
            remedy = "which is what the rounding of X allows; give float64, centre X, or raise tol"
        else:
            remedy = f"in at most max_iter={max_iter} iterations; raise max_iter or tol"
        warnings.warn(
            f"{name} reached a residual of {residual:.1e}, above tol={tol:.1e}, {remedy}",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )
