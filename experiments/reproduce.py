"""``dualpca reproduce``: runs experiments with progress, writes what they found, and the page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dualpca.cli.reproduce import NAMES

from .engine import Context, Experiment, MissingDataError, Results, Store, pending, run
from .raw import RAW, read_raw, write_raw
from .report import page, write

ROOT = Path(__file__).parents[1]


def load(name: str) -> Experiment:
    """The experiment of a name: that of the module with underscores in the place of hyphens."""
    return import_module(f"{__package__}.{name.replace('-', '_')}").EXPERIMENT


def stored(name: str, root: Path, quick: bool) -> Results | None:
    """The results of an experiment as they are on disk; None where some are missing."""
    experiment = load(name)
    records = Store.open(root, experiment, quick).records
    results = Results(experiment, quick, records, lambda other: stored(other, root, quick))
    return results if results.complete else None


def reproduce(
    names: Sequence[str],
    *,
    quick: bool = False,
    docs: bool = False,
    data: Path | None = None,
    results: Path | None = None,
    fresh: bool = False,
    console: Console | None = None,
) -> bool:
    """Run the experiments named, "all" for all; whether every one that was named itself has run.

    An experiment whose data are missing is passed over with a message. ``docs`` writes the raw results
    and docs/reproduction.md from everything that is stored in full.
    """
    console = console or Console()
    context = Context.of(quick, data)
    root = results or ROOT / "results" / "reproduce"
    ok = True
    for name in dict.fromkeys(NAMES if "all" in names else names):
        experiment = load(name)
        store = Store.open(root, experiment, quick, fresh)
        begun = time.perf_counter()
        try:
            _run(experiment, store, context, console)
        except MissingDataError as error:
            console.print(f"{name}: skipped. {error}", markup=False, soft_wrap=True)
            ok = ok and "all" in names
            continue
        found = stored(name, root, quick)
        assert found is not None
        path = write(found, store.folder)
        told = f"{name}: {time.perf_counter() - begun:.0f} s, {path}"
        console.print(told, markup=False, soft_wrap=True)
    if docs:
        there = [stored(name, root, False) for name in NAMES]
        path = write_raw([results for results in there if results is not None], ROOT / RAW)
        console.print(f"wrote {path}", markup=False, soft_wrap=True)
        from_raw(console)
    return ok


def from_raw(console: Console | None = None) -> Path:
    """Write docs/reproduction.md and its figures from the raw results, without a run."""
    path = page(kept(), ROOT / "docs", Context().repeats)
    (console or Console()).print(f"wrote {path}", markup=False, soft_wrap=True)
    return path


def kept() -> list[tuple[Experiment, Results | None]]:
    """Every experiment with its raw results."""
    found = read_raw(ROOT / RAW, load)
    return [(load(name), found(name)) for name in NAMES]


def _run(experiment: Experiment, store: Store, context: Context, console: Console) -> None:
    """What is pending, under a bar with the time left; no bar where there is no terminal."""
    total = sum(len(methods) for _, methods in pending(experiment, store, context.quick))
    columns = (
        BarColumn(20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(experiment.name, total=total)
        there = len(store.records)
        for line in run(experiment, store, context):
            progress.update(task, description=line, completed=len(store.records) - there)
