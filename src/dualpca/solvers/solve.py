"""One ``solve``: it owns stopping, tracing and progress."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..linalg import (
    Array,
    is_implicit,
    max_abs,
    namespace,
    norm,
    orthonormalize,
    singular_values,
)
from ..operators import Operator
from ..problem import DCProblem
from ..progress import printing, report_step
from .anderson import Anderson
from .base import Iterate, Solver
from .dca import DCA, IRLS, SimultaneousIteration
from .proximal import ProximalGradient, ZeroFPR

__all__ = ["SOLVERS", "Record", "Result", "solve"]

#: The solvers of DC problems by name, with their default options.
SOLVERS: dict[str, Solver] = {
    "dca": DCA(),
    "anderson": Anderson(),
    "proximal_gradient": ProximalGradient(),
    "zerofpr": ZeroFPR(),
    "simultaneous": SimultaneousIteration(),
    "irls": IRLS(),
}


@dataclass(frozen=True)
class Record:
    """One line of a trace."""

    iteration: int
    passes: int
    seconds: float
    residual: float | None
    fixed_point: float | None
    objective: float | None


@dataclass(frozen=True)
class Result:
    """What :func:`solve` found, and at what accuracy and cost."""

    W: Array
    iterations: int
    passes: int
    converged: bool
    residual: float
    trace: tuple[Record, ...]
    problem: DCProblem
    stopped: bool = False

    @property
    def objective(self) -> float:
        """``G(W) - F(XW)``: one more pass."""
        return self.problem.objective(self.W)


def as_solver(solver: str | Solver) -> Solver:
    """A solver by name, or as given."""
    if isinstance(solver, type) or not (isinstance(solver, str) or callable(solver)):
        raise TypeError(
            f"solver={solver!r} is no solver; give a name ({', '.join(SOLVERS)}) or an instance, "
            "such as ZeroFPR(memory=10)"
        )
    if not isinstance(solver, str):
        return solver
    if solver not in SOLVERS:
        raise ValueError(f"solver={solver!r} is unknown; choose one of {', '.join(SOLVERS)}")
    return SOLVERS[solver]


def solve(
    problem: DCProblem,
    solver: str | Solver = "dca",
    W0: Array | None = None,
    *,
    s: int | None = None,
    tol: float = 1e-4,
    max_iter: int = 1000,
    stop: str = "residual",
    random_state: Any = None,
    trace: bool = False,
    callback: Callable[[Record], Any] | None = None,
    verbose: int = 0,
) -> Result:
    """Minimise a DC problem until the residual is at most ``tol``.

    Parameters
    ----------
    problem : DCProblem
    solver : str or solver
        A key of :data:`SOLVERS`, or one with options of your own, such as ``ZeroFPR(memory=10)``.
    W0 : array, optional
        The start; its columns are completed to full rank. By default random and orthonormal, with
        ``s`` columns.
    s : int, optional
        The number of columns, where ``W0`` is not given.
    tol : float
        Stop when ``||Z - W W^T Z||_F / ||Z||_F <= tol`` with ``Z = X^T dF(XW)`` and W orthonormal:
        the same for every solver and formulation, whatever the scale of the data or the step. Where
        G is not the spectral unit ball, the square root of the Fenchel gap of W, relative to the
        objective, must be too. In sparse PCA it is the relative length of a step of DCA.
    max_iter : int
        Give up, with a ConvergenceWarning, after so many iterations.
    stop : {"residual", "span", "paper"}
        "span" leaves out the Fenchel gap. "paper" stops as the paper's experiments do, when
        ``max|W - prox|/gamma <= tol``; that depends on the step, the scale and the formulation.
    random_state : int, Generator or None
        The seed of the random start.
    trace : bool
        Record the residual and the objective of every iterate (the objective costs small work).
    callback : callable, optional
        Called with each :class:`Record`; where it returns True, the iterations stop, and the best
        iterate so far is the result.
    verbose : int
        1 shows a line of progress on standard error, 2 a line for each iteration.

    Returns
    -------
    Result

    Notes
    -----
    DCA on a dual problem runs as DCA on its primal, whose iterates it shares (Proposition 2.5):
    the primal step takes one pass over row blocks where the dual one takes two.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import formulation, solve
    >>> result = solve(formulation("n", np.diag([3.0, 2.0, 1.0])), s=1, tol=1e-8, random_state=0)
    >>> result.converged, round(result.objective, 6)
    (True, -3.0)
    """
    _check(problem, W0, s, tol, max_iter, stop)
    solver = as_solver(solver)
    name = type(solver).__name__
    if isinstance(solver, SimultaneousIteration) and stop != "span" and not problem.G.known_by_span:
        message = f"simultaneous iteration finds a span, and G={problem.G!r} asks for more"
        raise ValueError(f"{message}; use solver='dca', or stop='span' for the span alone")
    begun_at_random = W0 is None
    if W0 is None:
        assert s is not None
        W0 = problem.start(s, random_state)
    elif not is_implicit(W0):
        W0 = _complete(W0)
    if isinstance(solver, (DCA, Anderson)) and problem.is_dual:
        result = solve(
            problem.dual,
            solver,
            problem.to_dual(W0),
            tol=tol,
            max_iter=max_iter,
            stop=stop,
            trace=trace,
            callback=callback,
            verbose=verbose,
        )
        return replace(result, W=problem.dual.to_dual(result.W), problem=problem)

    given: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "stop": stop}
    given |= {"trace": trace, "callback": callback, "verbose": verbose}
    # A step of one's own has the scale of the data, and so has what the paper stops at.
    free = stop != "paper" and getattr(solver, "gamma", None) is None and problem.homogeneous
    passes = problem.X.passes
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the numbers are looked at
        try:
            found = _iterate(problem, solver, W0, **given, least=_least(problem.X) if free else 0.0)
        except OverflowError as error:
            energy = problem.X.energy()
            scaled = None
            if free and math.isfinite(energy):
                scaled = _in_range(problem, solver, W0, energy, given, begun_at_random)
            if scaled is None:
                raise ValueError(
                    f"X is too large or too small for {name}, whose numbers leave the range of "
                    f"{problem.X.dtype}; divide X by its largest magnitude"
                ) from error
            found = replace(scaled, passes=problem.X.passes - passes)
    if begun_at_random and found.residual == 0 and norm(problem.X @ found.W) == 0:
        # X W = 0 is a fixed point, which a start that sees something is not.
        W0 = problem.start(W0.shape[1], random_state, through_data=True)
        return solve(problem, solver, W0, **given) if max_abs(W0) > 0 else found
    return found


def _in_range(
    problem: DCProblem,
    solver: Solver,
    W0: Array,
    energy: float,
    given: dict[str, Any],
    random: bool,
) -> Result | None:
    """The solution from X times a power of 2, of ``||X||_F`` near 1; None where that fails too."""
    again, t, k = problem.scaled(2.0 ** -round(math.log2(energy) / 2) if energy > 0 else 1.0)
    try:
        found = _iterate(again, solver, W0 if random else W0 / t, **given, least=0.0)
    except OverflowError:
        return None
    W = found.W * t
    records = (
        replace(record, objective=None if record.objective is None else k * record.objective)
        for record in found.trace
    )
    finite = math.isfinite(max_abs(W))
    return replace(found, W=W, trace=tuple(records), problem=problem) if finite else None


def _iterate(
    problem: DCProblem,
    solver: Solver,
    W0: Array,
    *,
    tol: float,
    max_iter: int,
    stop: str,
    trace: bool,
    callback: Callable[[Record], Any] | None,
    verbose: int,
    least: float,
) -> Result:
    """:func:`solve` from W0; an OverflowError where numbers overflow, or F falls below ``least``."""
    begun, passes, name = time.perf_counter(), problem.X.passes, type(solver).__name__
    records: list[Record] = []
    iterate: Iterate
    best: Iterate | None = None
    converged = stopped = False
    with printing(name, verbose):
        for iteration, iterate in enumerate(solver(problem, W0), start=1):
            size = iterate.fixed_point if stop == "paper" else _residual(iterate, stop)
            if size is None:
                raise ValueError(f"stop='paper' needs a proximal step, which {solver!r} has not")
            converged = size <= tol
            # F is known where the residual is; of rows it is infinite also where rounding says so.
            known = stop != "paper" and problem.homogeneous
            value = abs(iterate.point.F) if known else least
            if not (math.isfinite(size) and least <= value < math.inf):
                raise OverflowError(f"F(XW) is {value} and the residual {size}")
            stopped = report_step(name.lower(), size, tol, problem.X.passes)
            if trace or callback:
                record = Record(
                    iteration,
                    problem.X.passes - passes,
                    time.perf_counter() - begun,
                    _residual(iterate, stop) if trace or stop != "paper" else None,
                    iterate.fixed_point,
                    iterate.point.objective if trace else None,
                )
                records.append(record)
                stopped = (callback is not None and callback(record) is True) or stopped
            if stop != "paper" and (best is None or size < _residual(best, stop)):
                best = iterate
            if converged or stopped or iteration >= max_iter:
                break
    used = problem.X.passes - passes
    # Below what rounding allows, iterates wander: the best of them is the answer.
    iterate = best or iterate
    residual = _residual(iterate, stop)
    if not (converged or stopped):
        warnings.warn(
            f"{name} stopped at max_iter={max_iter} with a residual of "
            f"{residual:.1e}, above tol={tol:.1e}; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )
    return Result(
        iterate.point.W,
        iteration,
        used,
        converged,
        residual,
        tuple(records if trace else ()),
        problem,
        stopped,
    )


def _residual(iterate: Iterate, stop: str) -> float:
    return iterate.point.span_residual if stop == "span" else iterate.point.residual


def _least(X: Operator) -> float:
    """Values below this have lost digits to underflow on the way."""
    info = np.finfo("float32" if "float32" in str(X.dtype) else "float64")
    return float(info.smallest_normal / info.eps)


def _complete(W: Array) -> Array:
    """W as it is where it has full rank; else an orthonormal basis that contains its columns' span."""
    sigma = singular_values(W)
    floor = namespace(sigma).finfo(sigma.dtype).eps * max(W.shape) * float(sigma[0])
    return W if float(sigma[-1]) > floor else orthonormalize(W)


def _check(
    problem: DCProblem, W0: Array | None, s: int | None, tol: float, max_iter: int, stop: str
) -> None:
    limit = problem.X.shape[1]
    if W0 is None and s is None:
        raise ValueError("neither W0 nor s was given; pass s=number of columns, or a start W0")
    if s is not None and (not isinstance(s, Integral) or isinstance(s, bool)):
        raise TypeError(f"s={s!r} counts columns; give an integer")
    if s is not None and not 1 <= s <= limit:
        raise ValueError(f"s={s} is out of range; choose 1 <= s <= {limit}")
    if W0 is not None:
        if len(getattr(W0, "shape", ())) != 2:
            raise TypeError(f"W0 is a {type(W0).__name__}; give a matrix with {limit} rows")
        if W0.shape[0] != limit:
            raise ValueError(f"W0 has {W0.shape[0]} rows where the problem's variable has {limit}")
        if s is not None and W0.shape[1] != s:
            raise ValueError(
                f"W0 has {W0.shape[1]} columns and s={s}; leave s out, or make them agree"
            )
    if not tol >= 0:
        raise ValueError(f"tol={tol} must be a number >= 0, such as 1e-4")
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter} must be at least 1")
    if stop not in ("residual", "span", "paper"):
        raise ValueError(f"stop={stop!r} is unknown; choose 'residual', 'span' or 'paper'")


def user_stacklevel() -> int:
    """How many frames up the caller of this package is: where a warning should point."""
    frame, level = sys._getframe(1), 1
    ours = ("dualpca", "sklearn.callback")  # the latter lies around fit
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(ours):
        frame, level = frame.f_back, level + 1
    return level
