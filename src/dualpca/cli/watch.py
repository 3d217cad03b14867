"""Progress on a terminal: rows read, passes, residual and time left."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ..progress import Listener, Step, listening, seconds_left


class Watch(Listener):
    """One line of progress, of reading or of fitting."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.words = progress, "working"
        self.steps: list[Step] = []
        self.task: Any = None

    def _show(self, **more: Any) -> None:
        if self.task is None:  # a new task is drawn at once
            self.task = self.progress.add_task(self.words, total=None)
        self.progress.update(self.task, description=self.words, **more)

    def reading(self, rows: int, done: int, total: int) -> None:
        """Show how many rows and bytes of a file have been read."""
        self.words = f"reading, {rows:,} rows"
        self._show(completed=done, total=total)

    def step(self, step: Step) -> None:
        self.steps.append(step)
        left = seconds_left(self.steps)
        self.words = (
            f"{step.phase or 'fitting'}, pass {step.passes}, {step.quantity} {step.value:.1e} to "
            f"{step.tol:.0e}" + ("" if left is None else f", about {left:.0f} s left")
        )
        self._show()

    def rows(self, done: int, total: int) -> None:
        self._show(completed=done, total=total)


@contextmanager
def watching(quiet: bool) -> Iterator[Watch | None]:
    """Show the progress of all that runs inside, if standard error is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    text, bar = TextColumn("{task.description}", markup=False), BarColumn(bar_width=20)
    columns = (text, bar, TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        watch = Watch(progress)
        with listening(watch):
            yield watch
