"""Rows that come line by line: the first lines tell what the columns are; broken lines are left out."""

import csv as python_csv
import io
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from . import convert
from .choose import Choice, choose
from .columns import Columns
from .feed import squeezed, text_of
from .limits import FREE
from .notation import Notation
from .sniff import NA_VALUES
from .table import Package, counted, joined, pa, pc, shown
from .text import TextSource

csv, json = Package("pyarrow.csv"), Package("pyarrow.json")

#: So many lines are read one by one: the start of pyarrow's reader takes as long.
FEW = 20


@dataclass
class Rows:
    """Rows that were read, NaN where a cell is missing, and the lines that were not.

    ``numbers`` are the numbers of the lines, ``ids`` the names of the rows, if they have any, and
    ``broken`` the numbers of lines that are no rows, each with the reason.
    """

    X: np.ndarray
    numbers: np.ndarray
    ids: list[str] | None
    broken: list[tuple[int, str]]

    def part(self, rows: slice) -> "Rows":
        """Return some of the rows, without broken lines."""
        return Rows(self.X[rows], self.numbers[rows], self.ids and self.ids[rows], [])


class LineReader:
    """CSV or JSON lines, a row in each line.

    Parameters
    ----------
    head : sequence of bytes
        The first lines, without their ends and without blank ones. One that begins with "{" makes it
        JSON lines; otherwise they are delimited text, whose delimiter, header and kinds of columns are
        found out as :func:`read` does.
    columns : Columns, optional
        Which columns are numbers to analyse, and names of rows.
    memory : dict, optional
        What :meth:`memory` of an earlier reader of such lines returned: a head of few lines does not
        tell how numbers are written.
    **options
        ``delimiter``, ``decimal``, ``thousands``, ``na_values`` and ``header`` of :func:`read`.

    Examples
    --------
    >>> from dualpca.io.tables.lines import LineReader
    >>> lines = [b"time,flow,level", b"10:00,1.5,2", b"10:01,oops,3", b"10:02,1.7,"]
    >>> reader = LineReader(lines)
    >>> rows = reader.rows([1, 2, 3, 4], lines)
    >>> reader.names, rows.ids, rows.numbers.tolist()
    (['flow', 'level'], ['10:00', '10:02'], [2, 4])
    >>> rows.X
    array([[1.5, 2. ],
           [1.7, nan]])
    >>> rows.broken
    [(3, "column 'flow': 'oops' is no number")]
    """

    def __init__(
        self,
        head: Sequence[bytes],
        columns: Columns | None = None,
        memory: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        text = b"\n".join(head) + b"\n"
        given = {"na_values": NA_VALUES, "header": "auto", **options, "bad_lines": "skip"}
        self._json = text.lstrip().startswith(b"{")
        with ExitStack() as stack:
            if self._json:
                file, more = io.BytesIO(text), {"skip": 0, "comment": None, "thousands": None}
                source = convert.json_lines(file, len(text), FREE, given | more, stack)
            else:
                known = (memory or {}).get("delimiter")
                given["delimiter"] = given.get("delimiter") or known
                source = TextSource(io.BytesIO(text), len(text), **given)
            self.choice: Choice = choose(source.header, columns or Columns())
        self._source, self._width = source, len(source.header.names)
        self.id_names = [source.header.names[j] for j in self.choice.ids]
        self.names = self.choice.names or [source.header.names[j] for j in self.choice.features]
        self.notes = [*source.notes, *self.choice.notes]
        self.percent = [source.header.names[j] for j in source.header.percent]
        #: The line of names, which is no row wherever it comes again.
        self.header = head[0] if source.titled and not self._json else None
        if memory:
            written = {name: Notation(*parts) for name, parts in memory["notations"].items()}
            for j, name in zip(self.choice.features, self.names, strict=True):
                if name in written:
                    source.notations[j] = written[name]

    def memory(self) -> dict[str, Any]:
        """Return how the lines write numbers, for a later reader of the same columns."""
        pairs = zip(self.choice.features, self.names, strict=True)
        notations = {name: list(astuple(self._source.notation(j))) for j, name in pairs}
        return {"delimiter": None if self._json else self._source.delimiter, "notations": notations}

    def select(self, names: Sequence[str]) -> None:
        """Keep these columns of numbers only."""
        pairs = dict(zip(self.names, self.choice.features, strict=True))
        self.names, self.choice.features = list(names), [pairs[name] for name in names]

    def rows(self, numbers: Sequence[int], lines: Sequence[bytes]) -> Rows:
        """Return the rows of lines with these numbers, less those that repeat the header."""
        if self.header in lines:
            pairs = zip(numbers, lines, strict=True)
            kept = [(n, line) for n, line in pairs if line != self.header]
            numbers, lines = [n for n, _ in kept], [line for _, line in kept]
        whole = self._whole(lines) if len(lines) > FEW else None
        if whole is not None:
            return Rows(whole[0], np.asarray(numbers, dtype=int), whole[1], [])
        return self._one_by_one(numbers, lines)

    def _whole(self, lines: Sequence[bytes]) -> tuple[np.ndarray, list[str] | None] | None:
        """Return numbers and names of rows by pyarrow; None if any line is not as it should be."""
        content, ids = b"\n".join(lines), self.choice.ids
        odd = not self._json and (b'"' in content or b"\r" in content)
        if odd or not content.isascii() or self._source.delimiter == " ":
            return None
        with suppress(pa.ArrowException):
            table = self._parsed(content)
            if table.num_rows != len(lines):
                return None
            X = np.empty((len(lines), len(self.names)), order="F")
            for k, j in enumerate(self.choice.features):
                column = table.column(str(j)).combine_chunks()
                values = self._source.numbers(column, j)[0]
                if values is None:
                    return None
                X[:, k] = values
            if not np.isinf(X).any():
                parts = [table.column(str(j)).fill_null("") for j in ids]
                names = joined(*parts, by="/").to_pylist() if ids else None
                return np.ascontiguousarray(X), names
        return None

    def _parsed(self, content: bytes) -> Any:
        """Return a table of the columns that are wanted, by their numbers."""
        features, ids = ([str(j) for j in part] for part in (self.choice.features, self.choice.ids))
        names, file = self._source.header.names, pa.BufferReader(content)
        block = {"use_threads": False, "block_size": max(len(content) + 1, 2**16)}
        if self._json:
            wanted = [*self.choice.features, *self.choice.ids]
            kinds = [pa.float64()] * len(features) + [pa.large_string()] * len(ids)
            parse = json.ParseOptions(
                explicit_schema=pa.schema(zip((names[j] for j in wanted), kinds, strict=True)),
                unexpected_field_behavior="ignore",
            )
            table = json.read_json(file, json.ReadOptions(**block), parse)
            return table.rename_columns([*features, *ids])
        numbers = [str(j) for j in range(len(names))]
        types = dict.fromkeys([*features, *ids], pa.large_string())
        return csv.read_csv(
            file,
            csv.ReadOptions(column_names=numbers, **block),
            csv.ParseOptions(delimiter=self._source.delimiter, quote_char=False),
            csv.ConvertOptions(column_types=types, include_columns=list(types)),
        )

    def _one_by_one(self, numbers: Sequence[int], lines: Sequence[bytes]) -> Rows:
        """Return the rows of lines of which some may be broken."""
        cells = (self._records if self._json else self._cells)(lines)
        broken: dict[int, str] = {}
        for i, row in enumerate(cells):
            if len(row) != self._width:
                broken[i] = self._why(lines[i], row)
        at, X = np.arange(len(cells)), np.empty((0, len(self.names)))
        if broken:
            at = np.array([i for i in range(len(cells)) if i not in broken], dtype=int)
            cells = [cells[i] for i in at]
        if cells:
            columns = list(zip(*cells, strict=True))
            X = np.empty((len(cells), len(self.names)), order="F")
            for k, j in enumerate(self.choice.features):
                self._fill(X[:, k], pa.array(columns[j], pa.string()), j, at, broken)
            if broken:
                good = np.array([i not in broken for i in at])
                X, at = X[good], at[good]
                cells = [row for row, kept in zip(cells, good, strict=True) if kept]
        ids = None
        if self.choice.ids:
            ids = ["/".join(row[j] for j in self.choice.ids) for row in cells]
        told = [(int(numbers[i]), broken[i]) for i in sorted(broken)]
        return Rows(np.ascontiguousarray(X), np.asarray(numbers, dtype=int)[at], ids, told)

    def _fill(
        self, column: np.ndarray, cells: Any, j: int, at: np.ndarray, broken: dict[int, str]
    ) -> None:
        """Write the numbers of cells into a column; note the rows that have none."""
        values, bad = self._source.numbers(cells, j)
        name = shown(self._source.header.names[j])
        if values is None:
            wrong = self._source.notation(j).misfits(cells, self._source.na).to_numpy(False)
            for i in np.flatnonzero(wrong):
                cell = shown(cells[int(i)].as_py())
                broken.setdefault(int(at[i]), f"column {name}: {cell} is no number")
            values, bad = self._source.numbers(pc.if_else(pa.array(wrong), "", cells), j)
            assert values is not None, bad
        column[:] = values
        for i in np.flatnonzero(np.isinf(column)):
            broken.setdefault(int(at[i]), f"column {name} is infinite or too large")

    def _cells(self, lines: Sequence[bytes]) -> list[list[str]]:
        """Return the cells of each line of delimited text; none where its quotes do not match."""
        content = b"\n".join(lines)
        if self._source.delimiter == " ":
            content = b"".join(squeezed(iter([content])))
        text = text_of(content)
        texts = text.split("\n") if lines else []
        delimiter = self._source.delimiter
        try:
            if '"' not in text or not any(line.count('"') % 2 for line in texts):
                rows = list(python_csv.reader(texts, delimiter=delimiter))
                if len(rows) == len(texts):
                    return rows
        except python_csv.Error:
            pass
        return [_one_row(line, delimiter) for line in texts]

    def _records(self, lines: Sequence[bytes]) -> list[list[str]]:
        """Return the cells of each JSON object by the names of the columns; none of what is no object."""
        names, rows = self._source.header.names, []
        for line in text_of(b"\n".join(lines)).split("\n") if lines else ():
            record = convert.json_record(line)
            rows.append([] if record is None else convert.json_cells(record, names))
        return rows

    def _why(self, line: bytes, row: list[str]) -> str:
        if self._json:
            return f"{shown(text_of(line).strip())} is no JSON object"
        if not row:
            return f"{shown(text_of(line).strip())} cannot be read; its quotes do not match"
        return f"{counted(len(row), 'cell')} where {self._width:,} are expected"


def _one_row(line: str, delimiter: str) -> list[str]:
    try:
        return (
            next(python_csv.reader([line], delimiter=delimiter)) if line.count('"') % 2 == 0 else []
        )
    except (python_csv.Error, StopIteration):
        return []
