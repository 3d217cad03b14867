"""Progress on a terminal: rows read, passes, residual and time left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ..progress import Listener, Step, listening, seconds_left


class Watch(Listener):
    """One line of progress, for reading and then for fitting."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.steps: list[Step] = []
        self.task: Any = None
        self.words = ""

    def _row(self, words: str, total: float | None = None) -> Any:
        if self.task is None:
            self.task = self.progress.add_task(words, total=total)
        return self.task

    def reading(self, rows: int, done: int, total: int) -> None:
        """Show how many rows and bytes of a file have been read."""
        words = f"reading, {rows:,} rows"
        self.progress.update(self._row(words), description=words, completed=done, total=total)

    def step(self, step: Step) -> None:
        self.steps.append(step)
        left = seconds_left(self.steps)
        what = step.phase or "fitting"
        self.words = (
            f"{what}, pass {step.passes}, {step.quantity} {step.value:.1e} to {step.tol:.0e}"
            + ("" if left is None else f", about {left:.0f} s left")
        )
        self.progress.update(self._row(self.words), description=self.words)

    def rows(self, done: int, total: int) -> None:
        words = self.words or "working"
        self.progress.update(self._row(words), description=words, completed=done, total=total)

    def phase(self, words: str) -> None:
        """Begin another phase."""
        self.words, self.steps = words, []
        if self.task is not None:
            self.progress.update(self.task, description=words, completed=0)


@contextmanager
def watching(quiet: bool) -> Iterator[Watch | None]:
    """Show the progress of all that runs inside, if standard error is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        watch = Watch(progress)
        with listening(watch):
            yield watch
