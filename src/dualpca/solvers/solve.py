"""``solve`` runs any solver on any problem: it stops, traces and reports progress."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..linalg import Array, eps, finfo, is_implicit, max_abs, norm, orthonormalize, singular_values
from ..problem import DCProblem
from ..progress import Listener, Step, listening, printing, report_step
from .base import Point, Solver
from .dca import DCA, IRLS, Anderson, SimultaneousIteration
from .proximal import ProximalGradient, ZeroFPR

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
class Result:
    """The answer of :func:`solve`, with its accuracy and cost."""

    W: Array
    iterations: int
    passes: int
    converged: bool
    residual: float
    trace: tuple[Step, ...]
    problem: DCProblem
    stopped: bool = False

    @property
    def objective(self) -> float:
        """``G(W) - F(XW)``, for one more pass."""
        return self.problem.objective(self.W)


def as_solver(solver: str | Solver) -> Solver:
    """Return a solver by name, or as given."""
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise ValueError(f"solver={solver!r} is unknown; choose one of {', '.join(SOLVERS)}")
        return SOLVERS[solver]
    if isinstance(solver, type) or not callable(solver):
        raise TypeError(
            f"solver={solver!r} is no solver; give a name ({', '.join(SOLVERS)}) or an instance, "
            "such as ZeroFPR(memory=10)"
        )
    return solver


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
    callback: Callable[[Step], Any] | None = None,
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
        Called with each :class:`dualpca.progress.Step`; where it returns True, the iterations stop,
        and the best iterate so far is the result.
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
    >>> from dualpca import solve
    >>> from dualpca.formulations import formulation
    >>> result = solve(formulation("n", np.diag([3.0, 2.0, 1.0])), s=1, tol=1e-8, random_state=0)
    >>> result.converged, round(result.objective, 6)
    (True, -3.0)
    """
    _check(problem, W0, s, tol, max_iter, stop)
    solver = as_solver(solver)
    if getattr(solver, "span_only", False) and stop != "span" and not problem.G.known_by_span:
        raise ValueError(
            f"{solver!r} finds a span, and G={problem.G!r} asks for more; use solver='dca', or "
            "stop='span' for the span alone"
        )
    run = _Run(solver, tol, max_iter, stop, trace, callback, verbose)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the results are tested
        if W0 is not None:
            return run(problem, _complete(W0))
        assert s is not None
        result = run(problem, problem.start(s, random_state), random=True)
        if result.residual == 0 and norm(problem.X @ result.W) == 0:  # XW = 0 is a fixed point
            W0 = problem.start(s, random_state, through_data=True)
            return run(problem, _complete(W0)) if max_abs(W0) > 0 else result
        return result


@dataclass(frozen=True)
class _Run:
    """The options of one call of :func:`solve`."""

    solver: Solver
    tol: float
    max_iter: int
    stop: str
    trace: bool
    callback: Callable[[Step], Any] | None
    verbose: int

    def __call__(self, problem: DCProblem, W0: Array, random: bool = False) -> Result:
        """Solve from W0, on the primal and on rescaled data where that is needed."""
        if problem.is_dual and getattr(self.solver, "shares_dual_iterates", False):
            result = self(problem.dual, _complete(problem.to_dual(W0)))
            return replace(result, W=problem.dual.to_dual(result.W), problem=problem)
        # A fixed step and the paper's stopping quantity depend on the scale of the data.
        free = self.stop != "paper" and getattr(self.solver, "gamma", None) is None
        rescalable, X = free and problem.homogeneous, problem.X
        passes, limits = X.passes, finfo(X)
        # Below this size, values have lost digits to underflow.
        least = float(limits.smallest_normal / limits.eps) if rescalable else 0.0
        try:
            try:
                return self.iterate(problem, W0, least)
            except OverflowError:
                if not rescalable:
                    raise
                return replace(self.rescaled(problem, W0, random), passes=X.passes - passes)
        except OverflowError as error:
            raise ValueError(
                f"X is too large or too small for {type(self.solver).__name__}, whose numbers "
                f"leave the range of {X.dtype}; divide X by its largest magnitude"
            ) from error

    def rescaled(self, problem: DCProblem, W0: Array, random: bool) -> Result:
        """Solve for X times a power of 2 with ``||X||_F`` near 1, and scale the answer back."""
        energy = problem.X.energy()
        if not math.isfinite(energy):
            raise OverflowError("||X||_F^2 is not finite")
        power = 2.0 ** -round(math.log2(energy) / 2) if energy > 0 else 1.0
        scaled, t, k = problem.scaled(power)
        result = self.iterate(scaled, W0 if random else W0 / t, 0.0)
        W = result.W * t
        if not math.isfinite(max_abs(W)):
            raise OverflowError("the solution W is not finite")
        steps = (replace(step, objective=k * (step.objective or 0.0)) for step in result.trace)
        return replace(result, W=W, trace=tuple(steps), problem=problem)

    def iterate(self, problem: DCProblem, W0: Array, least: float) -> Result:
        """Run the solver; raise an OverflowError if numbers overflow or F falls below ``least``."""
        passes, name, paper = problem.X.passes, type(self.solver).__name__, self.stop == "paper"
        trace = _Trace(passes, self.callback)
        heard = listening(trace) if self.trace or self.callback else nullcontext()
        best: Point | None = None
        converged = stopped = False
        with printing(name, self.verbose), heard:
            for iteration, iterate in enumerate(self.solver(problem, W0), start=1):
                point = iterate.point
                size = iterate.fixed_point if paper else self.residual(point)
                if size is None:
                    raise ValueError(f"stop='paper' needs a proximal step, unlike {self.solver!r}")
                # F is known where the residual is. Rounding may leave the domain of a row function,
                # where F is infinite.
                value = least if paper or not problem.homogeneous else abs(point.F)
                if not (math.isfinite(size) and least <= value < math.inf):
                    raise OverflowError(f"F(XW) is {value} and the residual {size}")
                converged = size <= self.tol
                stopped = report_step(
                    name.lower(),
                    math.nan if paper and not self.trace else self.residual(point),
                    self.tol,
                    problem.X.passes,
                    quantity="fixed_point" if paper else "residual",
                    iteration=iteration,
                    fixed_point=iterate.fixed_point,
                    objective=point.objective if self.trace else None,
                )
                if paper or best is None or size < self.residual(best):
                    best = point  # below what rounding allows, iterates wander
                if converged or stopped or iteration >= self.max_iter:
                    break
        assert best is not None
        used, residual = problem.X.passes - passes, self.residual(best)
        if not (converged or stopped):
            warnings.warn(
                f"{name} stopped at max_iter={self.max_iter} with a residual of {residual:.1e}, "
                f"above tol={self.tol:.1e}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=user_stacklevel(),
            )
        steps = tuple(trace.steps if self.trace else ())
        return Result(best.W, iteration, used, converged, residual, steps, problem, stopped)

    def residual(self, point: Point) -> float:
        return point.span_residual if self.stop == "span" else point.residual


class _Trace(Listener):
    """Keeps the steps of a run, with passes counted from its beginning, and calls its callback."""

    def __init__(self, passes: int, callback: Callable[[Step], Any] | None) -> None:
        self.passes, self.callback, self.steps = passes, callback, list[Step]()

    def step(self, step: Step) -> bool:
        self.steps.append(replace(step, passes=step.passes - self.passes))
        return self.callback is not None and self.callback(self.steps[-1]) is True


def _complete(W: Array) -> Array:
    """Return W if it has full rank, else an orthonormal basis whose span contains its columns."""
    if is_implicit(W):
        return W
    sigma = singular_values(W)
    floor = eps(sigma) * max(W.shape) * float(sigma[0])
    return W if float(sigma[-1]) > floor else orthonormalize(W)


def _check(problem: DCProblem, W0: Array, s: Any, tol: float, max_iter: int, stop: str) -> None:
    limit = problem.X.shape[1]
    if W0 is None and s is None:
        raise ValueError("neither W0 nor s was given; pass s=number of columns, or a start W0")
    if s is not None and (not isinstance(s, Integral) or isinstance(s, bool)):
        raise TypeError(f"s={s!r} counts columns; give an integer")
    if s is not None and not 1 <= int(s) <= limit:
        raise ValueError(f"s={s} is out of range; choose 1 <= s <= {limit}")
    if W0 is not None:
        if len(getattr(W0, "shape", ())) != 2:
            raise TypeError(f"W0 is a {type(W0).__name__}; give a matrix with {limit} rows")
        if W0.shape[0] != limit:
            raise ValueError(f"W0 has {W0.shape[0]} rows where the problem's variable has {limit}")
        if s is not None and W0.shape[1] != s:
            raise ValueError(f"W0 has {W0.shape[1]} columns and s={s}; leave s out")
    if not tol >= 0:
        raise ValueError(f"tol={tol} must be a number >= 0, such as 1e-4")
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter} must be at least 1")
    if stop not in ("residual", "span", "paper"):
        raise ValueError(f"stop={stop!r} is unknown; choose 'residual', 'span' or 'paper'")


def user_stacklevel() -> int:
    """Return how many frames up the caller of this package is, so that a warning points at it."""
    frame, level = sys._getframe(1), 1
    ours = ("dualpca", "sklearn.callback")  # the latter lies around fit
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(ours):
        frame, level = frame.f_back, level + 1
    return level
