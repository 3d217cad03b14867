"""The leading subspace of an operator, by a spectral solver or by a solver of DC problems."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ..formulations import formulation as make_formulation
from ..linalg import eps, namespace, orthonormalize, to_numpy
from ..operators import Operator
from ..problem import DCProblem
from ..progress import stopped
from .base import TINY, Solver
from .solve import SOLVERS, as_solver, solve, user_stacklevel
from .spectral import SPECTRAL, Krylov, SpectralSolver
from .spectral.lanczos import certify
from .spectral.ritz import Ritz, SubspaceResult, ritz_pairs

#: The solvers of PCA's DC problems; IRLS is for the robust ones.
ITERATIVE = tuple(name for name in SOLVERS if name != "irls")

#: A direct solver warns of a residual above ``tol`` and above this many eps, the best it can do.
DIRECT_ROUNDING = 100

#: A fraction of the variance is first looked for among this many components.
FIRST = 16


@dataclass(frozen=True)
class FromDC(SpectralSolver):
    """A solver of DC problems as a spectral solver, by a formulation of PCA; (l) where None."""

    solver: Solver
    formulation: Any = None

    iterative = True

    def __call__(
        self, X: Operator, s: int, *, tol: float, seed: int, max_passes: int = 1000, **options: Any
    ) -> SubspaceResult:
        start, energy = options.get("start"), options.get("energy", math.inf)
        if self.formulation is None:
            problem = make_formulation("l", X)
        else:  # it is about the rows of the data
            problem = as_problem(self.formulation, X.T if X.T.implicit else X)
        given = {"s": s, "tol": tol, "max_iter": max_passes, "random_state": seed}
        result = solve_quietly(problem, self.solver, start, stop="span", **given)
        W, operator = result.W, problem.X
        if problem.is_dual:
            W, operator = problem.to_dual(W), problem.X.T
        W = X.rmatmul(W) if operator is X.T else W
        if W.shape[1] < s:  # an implicit W has no more columns than K has rank; QR completes it
            xp = namespace(W)
            zeros = xp.zeros((W.shape[0], s - W.shape[1]), dtype=W.dtype)
            W = xp.concat([W, zeros], axis=1)
        ritz, image = ritz_pairs(X, orthonormalize(W))
        certificate = certify(X, ritz, image, s, tol=tol, energy=energy, seed=seed)
        return SubspaceResult(ritz.signed(), certificate, result.iterations)


def costs(X: Operator, s: int, tol: float, energy: float) -> dict[str, float]:
    """Return the estimated seconds of each solver that costs may choose."""
    seconds = {name: solver.cost(X, s, tol, energy) for name, solver in SPECTRAL.items()}
    return {name: value for name, value in seconds.items() if value < math.inf}


def choose(X: Operator, s: int, *, dense: bool, tol: float, energy: float) -> tuple[str, str]:
    """Return the name of the cheapest solver, and why it was chosen.

    ``dense`` tells whether X is one dense array in memory, or X^T X is.
    """
    for name, solver in SPECTRAL.items():
        if (dense or not solver.needs_dense) and (reason := solver.preference(X, s)):
            return name, reason
    seconds = costs(X, s, tol, energy)
    estimates = ", ".join(f"{name} {value:.2g} s" for name, value in seconds.items())
    return min(seconds, key=seconds.__getitem__), f"estimated {estimates}"


def leading_subspace(
    X: Operator,
    s: int,
    *,
    dense: bool,
    energy: float,
    solver: Any,
    formulation: Any,
    tol: float,
    max_iter: int,
    seed: int,
    start: Any = None,
) -> SubspaceResult:
    """Return the s leading right singular vectors of X by the solver that was asked for.

    ``dense`` tells whether X is one dense array in memory, ``energy`` is ``||X||_F^2``, and ``start`` has
    columns near the answer, which iterative solvers begin from. The ``note`` of the result names the
    solver, the precision of its passes and why it was chosen.
    """
    dense, why = dense or X.T.implicit, "as asked"
    if solver == "auto" and formulation is None:
        solver, why = choose(X, s, dense=dense, tol=tol, energy=energy)
    elif solver == "auto":
        solver, why = "dca", "solves any formulation"
    chosen = SPECTRAL.get(solver) if isinstance(solver, str) else solver
    if not isinstance(chosen, SpectralSolver):
        chosen = FromDC(as_solver(solver), formulation)
    elif formulation is not None:
        raise ValueError(
            f"solver={solver!r} computes components directly and takes no formulation; "
            f"drop formulation={formulation!r}, or choose one of {', '.join(ITERATIVE)}"
        )
    name = solver if isinstance(solver, str) else type(solver).__name__
    if chosen.needs_dense and not dense:
        raise ValueError(
            f"solver={name!r} needs a dense array in memory; use solver='gram', 'krylov' or 'auto' "
            "for sparse data, files and dask"
        )
    begin = {} if start is None else {"start": start}
    result = chosen(X, s, tol=tol, max_passes=max_iter, seed=seed, energy=energy, **begin)
    floor = 0.0 if chosen.iterative else DIRECT_ROUNDING * eps(result.ritz.theta)
    spent = chosen.iterative and result.steps >= max_iter
    warn_above(result.ritz.residual, max(tol, floor), name, max_iter if spent else None)
    kernels = ", C kernels" if chosen.iterative and X.uses_kernels else ""
    note = f"{name} ({result.note}{kernels}): {why}" if result.note else f"{name}: {why}"
    return replace(result, note=note)


def principal_axes(
    X: Operator, s: int, *, tol: float, seed: int, max_iter: int = 1000, verify: bool = True
) -> Ritz:
    """Return the s leading right singular vectors of X by the quickest solver.

    Without ``verify``, Krylov makes no passes for the certificate, which the pairs do not have.
    """
    energy = max(X.energy(), TINY)
    options: dict[str, Any] = {"dense": False, "solver": "auto", "formulation": None}
    if not verify and choose(X, s, dense=False, tol=tol, energy=energy)[0] == "krylov":
        options["solver"] = Krylov(verify=False)
    options |= {"energy": energy, "tol": tol, "max_iter": max_iter, "seed": seed}
    return leading_subspace(X, s, **options).ritz


def growing_subspace(X: Operator, wanted: float, **options: Any) -> SubspaceResult:
    """Return leading right singular vectors of X whose Ritz values sum to more than ``wanted``.

    An iterative solver computes twice as many until they do. All are computed where that is quicker,
    where more than an eighth of them is needed, and by other solvers.
    """
    limit, s, name, everything = min(X.shape), FIRST, options["solver"], math.inf
    tol, energy = options["tol"], options["energy"]
    auto = name == "auto" and options["formulation"] is None
    if auto:
        seconds = costs(X, limit, tol, energy)
        direct = [value for key, value in seconds.items() if not SPECTRAL[key].iterative]
        everything = min(direct, default=math.inf)
        name = next(key for key in seconds if SPECTRAL[key].iterative)
    solver = SPECTRAL.get(name) if isinstance(name, str) else None
    while solver is not None and solver.iterative and s <= limit / 8:
        if auto and solver.cost(X, s, tol, energy) >= everything:
            break
        result = leading_subspace(X, s, **{**options, "solver": name})
        if float(to_numpy(result.ritz.theta).sum(dtype=float)) > wanted or stopped():
            why = f"{s} components hold the fraction, all would take {everything:.2g} s"
            return replace(result, note=result.note.replace("as asked", why)) if auto else result
        s *= 2
    return leading_subspace(X, limit, **options)


def as_problem(formulation: Any, X: Operator) -> DCProblem:
    """Return the problem of a formulation given by letter, or by a function of an operator."""
    if isinstance(formulation, str) and formulation.startswith(("robust", "sparse")):
        raise ValueError(
            f"formulation={formulation!r} has other solutions than PCA; use "
            f"dualpca.solve(dualpca.formulations.formulation({formulation!r}, X), s=n_components) for it"
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


def solve_quietly(problem: DCProblem, solver: Any, *start: Any, **options: Any) -> Any:
    """Call :func:`solve`; the estimator warns itself, as it knows the final residual."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(problem, solver, *start, **options)


def warn_above(
    residual: float, tol: float, name: str, max_iter: int | None, rounding: float = 0.0
) -> None:
    """Warn the caller of a residual above ``tol``, unless a listener stopped the iterations.

    ``max_iter`` is None where iterations were left, so that rounding alone keeps it from ``tol``.
    """
    # The same basis, measured twice, differs by rounding, which is relative to the image of the basis.
    if residual > 1.01 * tol + rounding and not stopped():
        if max_iter is None:
            remedy = "which is what the rounding of X allows; give float64, centre X, or raise tol"
        else:
            remedy = f"in at most max_iter={max_iter} iterations; raise max_iter or tol"
        warnings.warn(
            f"{name} reached a residual of {residual:.1e}, above tol={tol:.1e}, {remedy}",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )
