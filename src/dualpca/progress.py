"""What a fit tells while it runs: rows that were read, residuals that were reached.

Solvers tell of each iteration that they test, operators of the rows they read, whoever listens; a
listener may stop the iterations. Estimators listen for ``verbose`` and for scikit-learn's callbacks;
:func:`listening` adds a listener to whatever runs inside it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Listener", "Printer", "Step", "listening", "seconds_left"]


@dataclass(frozen=True)
class Step:
    """One iteration that was tested.

    ``phase`` is "" in the main iterations, else what they serve: "start", "refit", "certificate". The
    ``residual`` of a certificate is the relative shortfall in captured variance that it bounds so far.
    ``passes`` are those over the data so far, or iterations where the data is not read in them.
    """

    solver: str
    phase: str
    passes: int
    residual: float
    tol: float
    seconds: float


class Listener:
    """Listens to fits; the methods do nothing here.

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
        """An iteration was tested; True stops these iterations, and the best iterate is kept.

        The last one is kept of solvers whose iterates build on each other: Krylov, Chebyshev, and the
        alternating directions of principal component pursuit.
        """

    def rows(self, done: int, total: int) -> None:
        """So many rows of a pass have been read."""


@dataclass
class Run:
    """Who listens, the phase, and the main steps so far; it also tells the run around it."""

    listeners: tuple[Listener, ...]
    outer: Run | None
    begun: float = field(default_factory=time.perf_counter)
    phase: str = ""
    steps: list[tuple[int, float]] = field(default_factory=list)
    stopped: bool = False

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self.listeners) or (self.outer is not None and self.outer.heard)

    def tell(self, step: Step) -> bool:
        stop = [bool(listener.step(step)) for listener in self.listeners]
        stop.append(self.outer is not None and self.outer.tell(step))
        return any(stop)

    def read(self, done: int, total: int) -> None:
        for listener in self.listeners:
            listener.rows(done, total)
        if self.outer is not None:
            self.outer.read(done, total)


_RUN: ContextVar[Run | None] = ContextVar("run", default=None)


@contextmanager
def listening(*listeners: Listener) -> Iterator[Run]:
    """Have these listeners told of all that runs inside.

    Parameters
    ----------
    *listeners : Listener
    """
    run = Run(listeners, _RUN.get())
    token = _RUN.set(run)
    try:
        yield run
    finally:
        _RUN.reset(token)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """The iterations inside serve something else than the main ones."""
    run = _RUN.get()
    if run is None:
        yield
        return
    before = run.phase, run.stopped
    run.phase, run.stopped = name, False
    try:
        yield
    finally:
        run.phase, run.stopped = before


def report_step(solver: str, residual: float, tol: float, passes: int | None = None) -> bool:
    """Tell of an iteration; whether to stop there."""
    run = _RUN.get()
    if run is None:
        return False
    passes = len(run.steps) + 1 if passes is None else passes
    if not run.phase:
        run.steps.append((passes, float(residual)))
    if not run.heard:
        return False
    seconds = time.perf_counter() - run.begun
    stop = run.tell(Step(solver, _phase(run), passes, float(residual), tol, seconds))
    run.stopped = run.stopped or stop
    return stop


def _phase(run: Run | None) -> str:
    return "" if run is None else run.phase or _phase(run.outer)


def stopped() -> bool:
    """Whether iterations of this run, in this phase, were stopped by a listener."""
    run = _RUN.get()
    return run is not None and run.stopped


def reading(blocks: Iterator[tuple[slice, Any]], total: int) -> Iterator[tuple[slice, Any]]:
    """The same row blocks, telling of each that was worked on."""
    run = _RUN.get()
    if run is None or not run.heard:
        return blocks
    return _told(run, blocks, total)


def _told(run: Run, blocks: Iterator[tuple[slice, Any]], total: int) -> Iterator[Any]:
    for rows, block in blocks:
        yield rows, block
        run.read(total if rows.stop is None else rows.stop, total)


def convergence(passes: int | None, residual: float) -> list[tuple[int, float]]:
    """Passes and residual of the main steps since the last call, and the result as the last."""
    run = _RUN.get()
    steps: list[tuple[int, float]] = []
    if run is not None:
        steps, run.steps = run.steps, []
    if passes is None:  # those of the last step
        passes = steps[-1][0] if steps else 0
    last = (passes, float(residual))
    if steps and steps[-1][0] == passes:  # the same iterate, measured again
        steps = steps[:-1]
    return [*steps, last]


def seconds_left(steps: list[Step]) -> float | None:
    """The time to ``tol`` at the rate at which residuals fell in the last few steps, if they did."""
    recent = [step for step in steps[-8:] if step.solver == steps[-1].solver and step.residual > 0]
    if len(recent) < 2 or not recent[0].residual > recent[-1].residual > recent[-1].tol > 0:
        return None
    rate = math.log(recent[0].residual / recent[-1].residual)
    seconds = recent[-1].seconds - recent[0].seconds
    return seconds * math.log(recent[-1].residual / recent[-1].tol) / rate


class Printer(Listener):
    """Lines on standard error: one that is written anew on a terminal, else at most one a second.

    Parameters
    ----------
    name : str
        What is being fitted.
    every : bool
        A line of its own for each step.
    """

    def __init__(self, name: str, *, every: bool = False) -> None:
        self.name, self.every = name, every
        self.steps: list[Step] = []
        self._shown, self._open, self._width = -math.inf, False, 0

    def step(self, step: Step) -> None:
        self.steps.append(step)
        due = time.perf_counter() >= self._shown + (0.1 if sys.stderr.isatty() else 1.0)
        if due or self.every or step.residual <= step.tol:
            self._write(self.line(step))

    def line(self, step: Step) -> str:
        """A step in words."""
        left = seconds_left(self.steps)
        what = f"{step.phase} ({step.solver})" if step.phase else step.solver
        return (
            f"{self.name}: {what}, pass {step.passes}, residual {step.residual:.1e} "
            f"(tol {step.tol:.0e}), {step.seconds:.1f} s"
            + ("" if left is None else f", about {left:.1f} s left")
        )

    def rows(self, done: int, total: int) -> None:
        if not sys.stderr.isatty() or time.perf_counter() < self._shown + 0.5:
            return
        self._write(f"{self.name}: row {done} of {total}")

    def _write(self, text: str) -> None:
        self._shown = time.perf_counter()
        if sys.stderr.isatty() and not self.every:
            sys.stderr.write("\r" + text.ljust(self._width))
            self._open, self._width = True, len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._open:
            sys.stderr.write("\n")
            self._open = False


@contextmanager
def printing(name: str, verbose: int) -> Iterator[None]:
    """Lines about what runs inside, where ``verbose``: one, or one for each step from 2 on."""
    if not verbose or sys.stderr is None:
        yield
        return
    printer = Printer(name, every=verbose > 1)
    try:
        with listening(printer):
            yield
    finally:
        printer.close()
