"""Progress of a fit: solvers report each tested :class:`Step`, operators each block of rows, and streams
each new regime.

Listeners hear all of it and may stop the iterations: ``verbose`` is one, a :class:`Printer`, and
scikit-learn's callbacks are another. ``convergence_`` holds the steps of the innermost run.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Listener", "Step", "listening", "seconds_left"]


@dataclass(frozen=True)
class Step:
    """One tested iteration: ``value``, the field named by ``quantity``, is compared with ``tol``.

    ``phase`` is "" in the main iterations, else their purpose: "start", "refit", "regime" or
    "certificate". A certificate tests ``shortfall``, its bound so far on the relative shortfall in
    captured variance, and its ``residual`` is NaN. ``passes`` counts passes over the data, or iterations
    where these do not read the data. ``iteration``, ``fixed_point`` and ``objective`` are known in
    :func:`dualpca.solve` only, and ``left``, the share of the resamples that is left, in
    :func:`dualpca.bootstrap` only.
    """

    solver: str
    phase: str
    passes: int
    residual: float
    tol: float
    seconds: float
    quantity: str = "residual"
    shortfall: float | None = None
    iteration: int = 0
    fixed_point: float | None = None
    objective: float | None = None
    left: float | None = None

    @property
    def value(self) -> float:
        """The tested quantity: a residual, a shortfall, the paper's fixed-point distance, or ``left``."""
        return float(getattr(self, self.quantity))


class Listener:
    """A listener hears the events of a fit; override the methods, which do nothing.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualpca import PCA
    >>> from dualpca.progress import Listener, listening
    >>> class Enough(Listener):
    ...     def step(self, step):
    ...         return step.residual <= 0.1
    >>> with listening(Enough()):
    ...     pca = PCA(5, solver="krylov", tol=1e-10, random_state=0).fit(load_digits().data)
    >>> bool(1e-10 < pca.residual_ <= 0.1)
    True
    """

    def step(self, step: Step) -> bool | None:
        """Hear of a tested iteration; return True to stop these iterations.

        The best iterate is kept. Solvers whose iterates build on each other (Krylov, Chebyshev,
        principal component pursuit) keep the last one.
        """

    def rows(self, done: int, total: int) -> None:
        """Hear that ``done`` of ``total`` rows of a pass have been read."""

    def regime(self, drift: Any) -> None:
        """Hear that a stream has entered a new regime; ``drift`` is ``drift_`` of the model in it."""


@dataclass
class Run:
    """The listeners of a context and of those around it, its phase and its main steps."""

    listeners: tuple[Listener, ...]
    outer_phase: str = ""
    begun: float = field(default_factory=time.perf_counter)
    phase: str = ""
    steps: list[Step] = field(default_factory=list)
    stopped: bool = False


_RUN: ContextVar[Run | None] = ContextVar("run", default=None)


@contextmanager
def listening(*listeners: Listener) -> Iterator[None]:
    """Let these listeners hear everything that runs inside the context."""
    outer = _RUN.get() or Run(())
    run = Run((*listeners, *outer.listeners), outer.phase or outer.outer_phase)
    token = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(token)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Mark the iterations inside as serving another purpose than the main ones."""
    run = _RUN.get() or Run(())
    before = run.phase, run.stopped
    run.phase, run.stopped = name, False
    try:
        yield
    finally:
        run.phase, run.stopped = before


def report_step(
    solver: str, residual: float, tol: float, passes: int | None = None, **details: Any
) -> bool:
    """Report a tested iteration; return whether a listener asks to stop there.

    ``details`` are the optional fields of :class:`Step`.
    """
    run = _RUN.get()
    if run is None:
        return False
    passes = len(run.steps) + 1 if passes is None else passes
    seconds, purpose = time.perf_counter() - run.begun, run.phase or run.outer_phase
    step = Step(solver, purpose, passes, float(residual), tol, seconds, **details)
    if not run.phase:
        run.steps.append(step)
    answers = [listener.step(step) for listener in run.listeners]
    run.stopped = run.stopped or any(answers)
    return any(answers)


def stopped() -> bool:
    """Whether a listener stopped iterations of this run in this phase."""
    run = _RUN.get()
    return run is not None and run.stopped


def reading(blocks: Iterator[tuple[slice, Any]], total: int) -> Iterator[tuple[slice, Any]]:
    """Yield the same row blocks; listeners hear of each after the caller worked on it."""
    run = _RUN.get()
    for rows, block in blocks:
        yield rows, block
        for listener in run.listeners if run else ():
            listener.rows(total if rows.stop is None else rows.stop, total)


def report_regime(drift: Any) -> None:
    """Report that a stream has entered a new regime."""
    run = _RUN.get()
    for listener in run.listeners if run else ():
        listener.regime(drift)


def convergence(passes: int | None, residual: float) -> list[tuple[int, float]]:
    """Return passes and residual of the main steps since the last call, and those of the result.

    ``passes=None`` takes the passes of the last step.
    """
    run = _RUN.get() or Run(())
    steps, run.steps = [(step.passes, step.residual) for step in run.steps], []
    if passes is None:
        passes = steps[-1][0] if steps else 0
    if steps and steps[-1][0] == passes:  # the same iterate, measured again
        steps = steps[:-1]
    return [*steps, (passes, float(residual))]


def seconds_left(steps: list[Step]) -> float | None:
    """Estimate the time to ``tol`` from the fall in the last few steps; None where there is none."""
    last = steps[-1]
    first = next(s for s in steps[-8:] if (s.solver, s.quantity) == (last.solver, last.quantity))
    if not first.value > last.value > last.tol > 0:
        return None
    fall = math.log(first.value / last.value)
    return (last.seconds - first.seconds) * math.log(last.value / last.tol) / fall


class Printer(Listener):
    """Rewrites one line of standard error on a terminal, else prints at most a line a second.

    ``name`` is the name of what is fitted; with ``every`` each step gets a line.
    """

    def __init__(self, name: str, *, every: bool = False) -> None:
        self.name, self.every = name, every
        self.steps: list[Step] = []
        self._shown, self._open, self._width = -math.inf, False, 0

    def step(self, step: Step) -> None:
        self.steps.append(step)
        due = time.perf_counter() >= self._shown + (0.1 if sys.stderr.isatty() else 1.0)
        if not (due or self.every or step.value <= step.tol):
            return
        left = seconds_left(self.steps)
        what = f"{step.phase} ({step.solver})" if step.phase else step.solver
        self._write(
            f"{self.name}: {what}, pass {step.passes}, {step.quantity} {step.value:.1e} "
            f"(tol {step.tol:.0e}), {step.seconds:.1f} s"
            + ("" if left is None else f", about {left:.1f} s left")
        )

    def rows(self, done: int, total: int) -> None:
        if sys.stderr.isatty() and time.perf_counter() >= self._shown + 0.5:
            self._write(f"{self.name}: row {done} of {total}")

    def regime(self, drift: Any) -> None:
        angle = float(drift.angles[0])
        self._write(f"{self.name}: new regime {drift.regime}, turned by {angle:.1f} degrees")

    def _write(self, text: str) -> None:
        self._shown = time.perf_counter()
        self._open = sys.stderr.isatty() and not self.every
        sys.stderr.write("\r" + text.ljust(self._width) if self._open else text + "\n")
        self._width = len(text)
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._open:
            sys.stderr.write("\n")
            self._open = False


@contextmanager
def printing(name: str, verbose: int) -> Iterator[None]:
    """Print the progress of everything inside: a line with ``verbose=1``, one for each step with 2."""
    with ExitStack() as stack:
        if verbose and sys.stderr is not None:
            printer = Printer(name, every=verbose > 1)
            stack.callback(printer.close)
            stack.enter_context(listening(printer))
        yield
