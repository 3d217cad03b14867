"""``dualpca follow``: a model measures and learns rows as they come, by a pipe or a growing file."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..io.files import check_free
from ..io.models import save
from ..io.tables import Columns, TableError
from ..io.tables.lines import LineReader, Rows
from ..io.tables.table import counted
from . import options
from .emit import EMITTERS
from .fitting import NotedModel, open_model
from .live import Known, Live, check_rows, first_fit, varying
from .options import FIRST, FIRST_EACH, Format, Method, Missing
from .reading import split
from .run import INTERRUPTED, OK, RefusedError, stderr_line
from .tail import Interrupts, Piece, Tail

#: What a model is made with, which stays when it is continued.
MADE_WITH = ("method", "components", "scale", "missing", "quantile")

#: Lines with their numbers.
Lines = tuple[list[int], list[bytes]]


@options.grouped
def follow(
    lines: options.LineOptions,
    stream: options.FollowOptions,
    data: Annotated[
        str, typer.Argument(metavar="[DATA]", help="A file that grows, or - for standard input.")
    ] = "-",
) -> int:
    """Measure and learn rows as they come: CSV or JSON lines from a pipe or a growing file.

    Prints the scores, distances and flags of each row by the model of the rows before it. Ctrl-C, and the
    end of a pipe, save the model and end the command; the same command then goes on from there.
    """
    check(stream)
    with Interrupts() as interrupts:
        return Follower(data, lines, stream, interrupts).run()


def check(stream: options.FollowOptions) -> None:
    """Refuse what no stream takes."""
    if stream.method not in (None, Method.robust, Method.plain):
        raise RefusedError(
            f"--method {stream.method} learns no rows one by one; use robust or plain"
        )
    if stream.missing is Missing.refuse:
        raise RefusedError("--missing refuse would end the stream; use em, shrink, impute or drop")
    if stream.forget is not None and not stream.forget > 1:
        raise RefusedError(f"--forget {stream.forget:g} is no number of rows; give one above 1")
    if stream.model is not None:
        check_free(stream.model, overwrite=True)


class Follower:
    """The work of the command: lines to rows, rows to the model, columns to standard output."""

    def __init__(
        self,
        data: str,
        lines: options.LineOptions,
        stream: options.FollowOptions,
        interrupts: Interrupts,
    ) -> None:
        self._lines, self._options, self._interrupts = lines, stream, interrupts
        self._name = "standard input" if data == "-" else data
        given = {name: getattr(stream, name) for name in MADE_WITH}
        given |= {"keep": split(lines.keep), "drop": split(lines.drop)}
        self._made_with = {k: str(v) if isinstance(v, Enum) else v for k, v in given.items()}
        self._notes: dict[str, Any] = {}
        self._known = Known()
        self._live = self._continued() if stream.model and stream.model.exists() else None
        self._tail = Tail(data, interrupts, stream.until_end)
        self._read: LineReader | None = None
        self._broken = self._unsaved = 0

    def _continued(self) -> Live:
        """Return the model of the file; refuse options that it was not made with."""
        fitted, path = open_model(str(self._options.model)), self._options.model
        if fitted.name not in ("PCA", "RobustPCA"):
            raise RefusedError(
                f"{path}: {fitted.name} learns no rows one by one; fit plain or robust"
            )
        self._notes, self._known = fitted.notes, Known.of(fitted.notes, path)
        for name, given in self._made_with.items():
            if given is not None and given != self._known.made_with.get(name):
                raise RefusedError(
                    f"--{name} {given}: {path} was not made with it; leave it out, or give another "
                    "--model"
                )
        self._made_with = self._known.made_with
        if self._options.forget is not None:
            fitted.estimator.set_params(forget=self._options.forget)
        return Live(
            fitted, fitted.notes.get("rows") or 0, not fitted.fills_holes, self._options.drift
        )

    def run(self) -> int:
        """Follow the lines to their end."""
        pieces = map(self._kept, self._tail)
        try:
            first, rest = self._start(pieces)
        except TableError as error:
            raise TableError(f"{self._name}: {error}") from error
        if self._live is None or not self._read:
            return INTERRUPTED
        kind = self._options.format or (Format.text if sys.stdout.isatty() else Format.csv)
        self._why = self._options.why or kind is Format.text
        with EMITTERS[kind]() as self._emitter:
            try:
                blocks = [] if first is None else [self._columns(first, learned=True)]
                for piece in chain([rest], pieces):
                    self._take(piece, blocks)
                    blocks = []
            except BrokenPipeError:
                self._save()
                raise
        self._save()
        self._say_broken()
        return OK

    def _start(self, pieces: Iterator[Lines]) -> tuple[Rows | None, Lines]:
        """Open the reader of the lines, and the model; return rows that it has learned, and lines left.

        A new model is fitted to the first rows. One that is continued has learned none of the lines,
        unless it knows this file: then it goes on where it was.
        """
        numbers: list[int] = []
        lines: list[bytes] = []

        def wait_for(count: int) -> None:
            while len(lines) < count and (piece := next(pieces, None)) is not None:
                numbers.extend(piece[0])
                lines.extend(piece[1])

        wanted = self._options.first or FIRST
        wait_for(2 if self._live else wanted + 1)
        if not lines:
            if self._interrupts.stopped:
                return None, ([], [])
            raise TableError("there are no rows; give one at least")
        reader = self._reader(lines[: wanted + 1])
        each = FIRST_EACH * (len(reader.names) + 1)
        if self._live is None and self._options.first is None and each > wanted:
            wait_for((wanted := each) + 1)
            reader = self._reader(lines[: wanted + 1])
        self._read = reader
        for note in [] if self._options.quiet else reader.notes:
            stderr_line(note)
        if self._live is not None:
            return None, ([], []) if self._tail.resume(self._known.place) else (numbers, lines)
        cut = wanted
        while short := wanted - len(reader.rows(numbers[:cut], lines[:cut]).X):
            wait_for(cut + short)  # for others in place of broken lines, and of the header
            if len(lines) <= cut:
                break
            cut = min(cut + short, len(lines))
        return self._first_fit(numbers[:cut], lines[:cut]), (numbers[cut:], lines[cut:])

    def _reader(self, head: list[bytes]) -> LineReader:
        fitted, given = None if self._live is None else self._live.fitted, self._lines
        columns = Columns(
            keep=split(given.keep) if fitted is None else fitted.input_names,
            drop=(split(given.drop) or ()) if fitted is None else (),
            ids=() if given.id == ["none"] else split(given.id),
            likely_ids=self._notes.get("ids") or (),
            exact=fitted is not None,
        )
        reader = LineReader(head, columns, self._known.written, **given.of_text())
        if fitted is not None and len(reader.names) != fitted.model.n_features_in_:
            raise TableError(
                f"{counted(len(reader.names), 'column')} of numbers where the model has "
                f"{counted(fitted.model.n_features_in_, 'feature')}; give those of its fit"
            )
        return reader

    def _first_fit(self, numbers: list[int], lines: list[bytes]) -> Rows:
        """Fit a new model to the first rows, and return them."""
        assert self._read is not None
        given, reader = self._options, self._read
        rows = reader.rows(numbers, lines)
        if not len(rows.X):
            number, reason = (
                rows.broken[0] if rows.broken else (1, "there is no row below the names")
            )
            raise TableError(f"no line can be read; line {number}: {reason}")
        self._report(rows)
        missing, fit = given.missing or Missing.em, given.fit_options()
        check_rows(len(rows.X), fit.method, missing)

        def select(names: list[str]) -> None:
            rows.X = rows.X[:, [reader.names.index(name) for name in names]]
            reader.select(names)

        if not self._lines.keep:
            select(varying(rows.X, reader.names, given.quiet))
        model, names = first_fit(rows.X, reader.names, fit, missing, given.forget, given.quiet)
        select(names)
        percent = [name for name in reader.percent if name in names]
        self._notes = {"source": Path(self._name).name, "ids": reader.id_names, "percent": percent}
        fitted = NotedModel(model, self._notes)
        self._live = Live(fitted, len(rows.X), missing is Missing.drop, given.drift)
        self._unsaved = len(rows.X)
        return rows

    def _take(self, piece: Lines, blocks: list[dict[str, Any]]) -> None:
        """Measure and learn the rows of some lines, and then print them, behind other blocks.

        Where printing fails, the model has learned all rows up to the place in the file.
        """
        assert self._live is not None
        assert self._read is not None
        rows = self._read.rows(*piece)
        self._report(rows)
        done = 0
        while done < len(rows.X):
            stop = done + self._live.take(len(rows.X) - done, self._options.batch)
            blocks.append(self._columns(rows.part(slice(done, stop))))
            done = stop
        self._print(blocks)
        self._unsaved += len(rows.X)
        if self._unsaved >= self._options.save_every:
            self._save_or_warn()

    def _columns(self, rows: Rows, learned: bool = False) -> dict[str, Any]:
        """Measure rows, and learn from them unless that is done; return what is printed of them."""
        assert self._live is not None
        count, before = len(rows.X), 0 if learned else self._live.rows
        columns: dict[str, Any] = {"row": before + 1 + np.arange(count), "line": rows.numbers}
        if rows.ids is not None:
            columns["id"] = np.array(rows.ids, dtype=object)
        measured, events = self._live.step(rows.X, self._why, learn=not learned)
        columns |= {**measured, "event": np.full(count, "", dtype=object)}
        for event in events:
            stderr_line(f"row {self._live.rows:,}: {event}")
            columns["event"][-1] = event
        return columns

    def _print(self, blocks: list[dict[str, Any]]) -> None:
        for columns in blocks:
            if self._options.flagged:
                odd = np.flatnonzero((columns["outlier"] > 0) | (columns["event"] != ""))
                columns = {name: values[odd] for name, values in columns.items()}
            self._emitter.write(columns)
        sys.stdout.flush()

    def _report(self, rows: Rows) -> None:
        for number, reason in rows.broken[: max(self._options.reports - self._broken, 0)]:
            stderr_line(f"line {number:,} is left out: {reason}")
        self._broken += len(rows.broken)

    def _say_broken(self) -> None:
        if self._broken > self._options.reports:
            stderr_line(f"left out {counted(self._broken, 'broken line')} in all")

    def _save_or_warn(self) -> None:
        """Save the model; where that fails, say so, and try again after more rows."""
        try:
            self._save()
        except OSError as error:
            stderr_line(f"warning: the model is not saved: {error}")
            self._unsaved = 0

    def _save(self) -> None:
        if self._options.model is None or self._live is None or self._read is None:
            return
        known = Known(self._made_with, self._read.memory(), self._tail.place())
        notes = {**self._notes, "rows": self._live.rows, "follow": asdict(known)}
        save(self._live.fitted.model, self._options.model, notes=notes, overwrite=True)
        self._unsaved = 0

    def _kept(self, piece: Piece) -> Lines:
        """Return the lines that are not blank, nor comments, nor to be skipped, with their numbers."""
        numbers, lines = list(range(piece.number, piece.number + len(piece.lines))), piece.lines
        comment, skip = (self._lines.comment or "").encode(), self._lines.skip
        if piece.number > skip and not comment and all(lines):
            return numbers, lines
        kept = [
            (n, line)
            for n, line in zip(numbers, lines, strict=True)
            if n > skip and line.strip() and not (comment and line.startswith(comment))
        ]
        return [n for n, _ in kept], [line for _, line in kept]
