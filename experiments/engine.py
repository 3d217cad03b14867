"""The engine of the reproduction: an experiment is declared, its cells are run, each is stored at once.

A cell is a dict of settings; a finished (cell, method) is one line of JSON in
``results/reproduce/NAME/full/cells.jsonl`` (``quick`` in the place of ``full`` for reduced runs), so
that an interrupted run goes on where it stopped. Numbers of another ``version`` of the experiment do
not count. ``experiments/raw.jsonl.gz`` holds the lines of the run that the page tells of.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy

PUBLISHED = Path(__file__).with_name("paper")

#: Seconds that a run may take: the paper's, and those of a reduced run.
CAP, QUICK_CAP = 5.0, 0.4

#: Where PG and ZeroFPR begin. The paper does not name its start; the first is that of the timings.
STARTS = ("orthonormal", "randn", "rand")

Cell = dict[str, Any]


class MissingDataError(Exception):
    """A data set is neither in the folder nor to be fetched; the message says what to do."""


class NotInPrintError(KeyError):
    """A number that a check asks for has not been published."""


class Printed(dict[str, Any]):
    """Published numbers in the form of measured ones."""

    def __missing__(self, key: str) -> Any:
        raise NotInPrintError(key)


@dataclass(frozen=True)
class Context:
    """How to run: reduced or not, where the data are, seconds a run may take, runs a mean is over."""

    quick: bool = False
    data: Path | None = None
    cap: float = CAP
    repeats: int = 3

    @classmethod
    def of(cls, quick: bool, data: Path | None = None) -> Context:
        """The paper's cap and three repeats; a smaller cap and one for a reduced run."""
        return cls(quick, data, QUICK_CAP, 1) if quick else cls(False, data)


@dataclass(frozen=True)
class Table:
    """A table of strings, the first column naming the rows."""

    title: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """With its title in bold above it."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join([f"**{self.title}**", "", *(f"| {' | '.join(row)} |" for row in lines)])


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and its check: ``check(results)`` gives a verdict and the number."""

    number: int
    text: str
    line: int
    check: Callable[[Results], tuple[str, str]]


@dataclass(frozen=True)
class Experiment:
    """What is run and how it is told.

    Parameters
    ----------
    name, title, label : str
        On the command line, on the page, and in paper.tex.
    cells, quick : sequence of dict
        Settings in full, and reduced: quick[i] is the small sister of cells[i].
    methods : sequence of str
        Who is measured in each cell.
    prepare : callable
        ``prepare(cell, context)`` makes what the methods of a cell share.
    measure : callable
        ``measure(prepared, cell, method, context)`` gives a dict for JSON.
    tables : callable
        ``tables(results)``, published numbers beside ours.
    prose : str
        A paragraph or two, with places for numbers in braces.
    facts : callable
        ``facts(results)``, the numbers.
    claims : sequence of Claim
    summary : callable
        ``summary(results)``: published, ours and why they differ, in a few words.
    remark : callable
        ``remark(results)``, what follows the prose.
    figure : callable, optional
        ``figure(results)`` gives a matplotlib Figure.
    published : str, optional
        The CSV of published numbers under experiments/paper.
    printed : callable
        ``printed(value, deviation)`` puts a published number into the form of a measured one.
    version : int
        Raised where old numbers no longer mean the same.
    """

    name: str
    title: str
    label: str
    cells: Sequence[Cell]
    quick: Sequence[Cell]
    methods: Sequence[str]
    prepare: Callable[[Cell, Context], Any]
    measure: Callable[[Any, Cell, str, Context], dict[str, Any]]
    tables: Callable[[Results], list[Table]]
    prose: str
    claims: Sequence[Claim]
    summary: Callable[[Results], tuple[str, str, str]] = lambda results: ("", "", "")
    facts: Callable[[Results], dict[str, Any]] = lambda results: {}
    remark: Callable[[Results], str] = lambda results: ""
    figure: Callable[[Results], Any] | None = None
    published: str = ""
    printed: Callable[[str, str], dict[str, Any]] = lambda value, std: {"value": float(value)}
    version: int = 1

    def of(self, quick: bool) -> Sequence[Cell]:
        """The cells of a full or a reduced run."""
        return self.quick if quick else self.cells


@dataclass
class Store:
    """The finished cells of one experiment on disk."""

    folder: Path
    version: int
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, root: Path, experiment: Experiment, quick: bool, fresh: bool = False) -> Store:
        """What is there of this version; a line cut short by an interruption is dropped."""
        store = cls(root / experiment.name / ("quick" if quick else "full"), experiment.version)
        if fresh:
            store.path.unlink(missing_ok=True)
        lines = store.path.read_text().splitlines() if store.path.exists() else []
        for line in lines:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if record["version"] == store.version:
                store.records[store.key(record["cell"], record["method"])] = record
        return store

    @property
    def path(self) -> Path:
        return self.folder / "cells.jsonl"

    @staticmethod
    def key(cell: Cell, method: str) -> str:
        return json.dumps([cell, method], sort_keys=True)

    def add(self, cell: Cell, method: str, data: dict[str, Any], seconds: float) -> None:
        """Append a line, with a line break first where the last one was cut short."""
        record = {"version": self.version, "cell": cell, "method": method, "data": data}
        record |= {"seconds": seconds, "machine": machine()}
        self.folder.mkdir(parents=True, exist_ok=True)
        cut = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        with self.path.open("a") as file:
            file.write(("\n" if cut else "") + json.dumps(record) + "\n")
        self.records[self.key(cell, method)] = record


def machine() -> str:
    """Where the numbers come from."""
    threads = os.environ.get("OMP_NUM_THREADS") or os.cpu_count()
    versions = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    )
    return f"{platform.machine()}, BLAS threads: {threads}, {versions}"


@dataclass(frozen=True)
class Results:
    """The numbers of one experiment as far as they are there, published ones beside them."""

    experiment: Experiment
    quick: bool
    records: dict[str, dict[str, Any]]
    #: another experiment's, where complete
    other: Callable[[str], Results | None] = lambda name: None
    #: where PG and ZeroFPR began, of the times that are read
    start: str = STARTS[0]
    #: whether these are the published numbers
    in_print: bool = False

    def from_start(self, start: str) -> Results:
        """The same with the times of another start."""
        return replace(self, start=start, other=_each(self.other, lambda r: r.from_start(start)))

    def as_printed(self) -> Results:
        """The published numbers in the place of ours."""
        records: dict[str, dict[str, Any]] = {}
        for cell in self.cells:
            for row in self._rows(cell):
                key = Store.key(cell, row["method"])
                data = records.setdefault(key, {"data": Printed()})["data"]
                if "quantity" in row:
                    data[row["quantity"]] = float(row["value"])
                else:
                    data.update(self.experiment.printed(row["value"], row["std"]))
        other = _each(self.other, lambda r: r.as_printed())
        return replace(self, records=records, other=other, in_print=True)

    @property
    def cap(self) -> float:
        """Seconds that a run could take."""
        return QUICK_CAP if self.quick else CAP

    @property
    def cells(self) -> Sequence[Cell]:
        return self.experiment.of(self.quick)

    @property
    def complete(self) -> bool:
        """Whether every method has been measured in every cell."""
        return all(self.get(m, c) is not None for c in self.cells for m in self.experiment.methods)

    @property
    def seconds(self) -> float:
        """What running all cells took."""
        return sum(record["seconds"] for record in self.declared)

    @property
    def declared(self) -> list[dict[str, Any]]:
        """The records of the cells and methods that the experiment has now."""
        keys = (Store.key(c, m) for c in self.cells for m in self.experiment.methods)
        return [self.records[key] for key in keys if key in self.records]

    def get(self, method: str, cell: Cell) -> dict[str, Any] | None:
        """What was measured."""
        record = self.records.get(Store.key(cell, method))
        return None if record is None else record["data"]

    def __call__(self, method: str, cell: Cell) -> dict[str, Any]:
        """What was measured; KeyError where it was not."""
        key = Store.key(cell, method)
        if self.in_print and key not in self.records:
            raise NotInPrintError(key)
        return self.records[key]["data"]

    @cached_property
    def _published(self) -> list[dict[str, str]]:
        return read_published(self.experiment.published) if self.experiment.published else []

    def published(self, method: str, cell: Cell, **more: Any) -> tuple[str, str] | None:
        """Value and deviation as printed, of a cell or of the one that a reduced cell stands for."""
        for row in self._rows(cell, **more):
            if row["method"] == method:
                return row["value"], row["std"]
        return None

    def _rows(self, cell: Cell, **more: Any) -> Iterator[dict[str, str]]:
        """The published numbers of a cell."""
        cell = self.experiment.cells[list(self.cells).index(cell)] | more
        for row in self._published:
            if all(_same(row[key], cell[key]) for key in cell if key in row):
                yield row


def _each(
    other: Callable[[str], Results | None], view: Callable[[Results], Results]
) -> Callable[[str], Results | None]:
    """Another experiment's results, seen in the same way."""

    def seen(name: str) -> Results | None:
        found = other(name)
        return None if found is None else view(found)

    return seen


def read_published(name: str) -> list[dict[str, str]]:
    """A CSV of published numbers, a row for each."""
    with (PUBLISHED / name).open(newline="") as file:
        return list(csv.DictReader(file))


def _same(text: str, value: Any) -> bool:
    return text == value if isinstance(value, str) else float(text) == float(value)


def pending(experiment: Experiment, store: Store, quick: bool) -> list[tuple[Cell, list[str]]]:
    """Each cell with the methods that are still to be measured there."""
    return [
        (cell, [m for m in experiment.methods if Store.key(cell, m) not in store.records])
        for cell in experiment.of(quick)
    ]


def run(experiment: Experiment, store: Store, context: Context) -> Iterator[str]:
    """Measure what is pending; yields a line before each preparation and after each measurement."""
    for cell, methods in pending(experiment, store, context.quick):
        if not methods:
            continue
        named = ", ".join(f"{key} {value}" for key, value in cell.items())
        yield f"{experiment.name}: {named}"
        begun = time.perf_counter()
        prepared = experiment.prepare(cell, context)
        for method in methods:
            data = experiment.measure(prepared, cell, method, context)
            store.add(cell, method, data, time.perf_counter() - begun)
            begun = time.perf_counter()
            yield f"{experiment.name}: {named}: {method}"
