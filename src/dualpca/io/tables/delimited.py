"""CSV, TSV and other delimited text, streamed by pyarrow; all cells are read as strings first."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from .columns import Header, unique, unnamed
from .limits import COLUMNS, LONGEST, check_columns, check_line
from .origin import Again, Origin
from .sniff import (
    DELIMITERS,
    NUMBER,
    counts_columns,
    decimal_of,
    delimiter_of,
    encoding_of,
    has_header,
    head_rows,
    is_number,
    rows_of,
    text_columns,
)
from .streams import Feed, Pieces, Recode, Squeeze
from .table import TableError, listed, module, shown

#: So much of a file decides what its columns are.
HEAD = 2**20

#: Bytes of text that are parsed at a time. Four times as many take 120 MB more memory (a million
#: rows of 50 numbers), and no less time.
_BLOCK = 2**20

#: Rows of more columns are parsed one by one: for each column pyarrow takes 10 KB.
_WIDE = 2**14


class Delimited(Origin):
    """A delimited text file, compressed or not."""

    def __init__(
        self,
        file: BinaryIO,
        *,
        delimiter: str | None = None,
        decimal: str | None = None,
        na_values: Collection[str] = (),
        header: str | bool = "auto",
        first: str = ",",
    ) -> None:
        self._file, self._na = file, frozenset(na_values)
        words = {"true", "false"}
        numbers = [na for na in self._na if is_number(na) and na.lower() not in words]
        self._na_numbers = np.array([float(na) for na in numbers if not np.isnan(float(na))])
        self._size = file.seek(0, 2)
        self._squeezed = False
        head, whole = self._head(HEAD)
        self._encoding = encoding_of(head, whole)
        self.notes = []
        text, whole = self._text(delimiter, first)
        found = head_rows(text, self._delimiter, whole)
        if not found:
            raise TableError("the file is empty; give one with a row of numbers at least")
        self._decimal = decimal or decimal_of([row for _, row in found[:1000]], self._delimiter)
        if self._decimal == "," and decimal is None:
            self.notes.append("numbers are read with a decimal comma")
        if self._encoding == "latin-1":
            self._note_latin()
        self._columns(found, header)
        longest = max(len(text) // len(found), max(sum(map(len, row)) for _, row in found[:1000]))
        self._block = max(_BLOCK, 16 * longest)

    def _note_latin(self) -> None:
        self.notes.append("the file is not UTF-8; its text is read as latin-1")

    def _open(self) -> Any:
        """The text of the file from its start, in UTF-8."""
        self._file.seek(0)
        magic = self._file.read(10)
        self._file.seek(0)
        stream: Any = self._file
        if magic.startswith(b"\x1f\x8b"):
            stream = gzip.GzipFile(fileobj=self._file)
        elif magic.startswith(b"BZh") and magic[4:] == b"1AY&SY":
            stream = bz2.BZ2File(self._file)
        encoding = getattr(self, "_encoding", "utf-8")
        if encoding != "utf-8":
            stream = io.BufferedReader(Pieces(stream, Recode(encoding)), _BLOCK)
        if self._squeezed:
            stream = io.BufferedReader(Pieces(stream, Squeeze()), _BLOCK)
        return stream

    def _head(self, size: int) -> tuple[bytes, bool]:
        """The first bytes, and whether they are all."""
        stream, parts, left = self._open(), [], size + 1
        while left and (part := stream.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)[:size], left > 0

    def _text(self, delimiter: str | None, first: str) -> tuple[str, bool]:
        """A head of two rows at least, as text; the delimiter on the way."""
        size = HEAD
        while True:
            signs, texts, whole = delimiter or DELIMITERS, dict[str, str](), True
            for self._squeezed in dict.fromkeys(sign == " " for sign in signs):
                head, whole = self._head(size)
                decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
                text = decoder.decode(head, final=whole)
                texts |= {sign: text for sign in signs if (sign == " ") is self._squeezed}
            if size > COLUMNS:  # lists of cells take more memory than text
                for sign, text in texts.items():
                    lines = text.replace("\r", "\n").split("\n")
                    check_columns(max(line.count(sign) for line in lines))
            self._delimiter = delimiter or delimiter_of(texts, whole, first)
            self._squeezed = self._delimiter == " "
            text = texts[self._delimiter]
            if whole or len(head_rows(text, self._delimiter, whole)) > 1:
                return text, whole
            if size >= LONGEST:
                raise TableError(
                    f"there are no two rows in the first {size >> 20} MB; is this delimited text? "
                    "See --format"
                )
            size *= 8

    def _columns(self, found: list[tuple[int, list[str]]], wish: str | bool) -> None:
        """Names and kinds of the columns, from the rows of the head."""
        first = found[0][1]
        rest = [row for _, row in found[1:]]
        titled = bool(wish)
        if wish == "auto":
            counting = counts_columns(first, rest)
            titled = counting or has_header(first, self._decimal, self._na)
            if counting:
                self.notes.append("the first row counts the columns; it is taken for their names")
        body = [row for _, row in found[titled:]]
        self._skip = found[0][0] if titled else 0
        if not body:
            raise TableError("the file has a header but no rows; add some, or see --header")
        names, index = [name.strip() for name in first], None
        if titled and all(len(row) == len(names) + 1 for row in body):
            # Trailing delimiters; or names of rows, above which R writes nothing.
            names = [*names, ""] if all(not row[-1] for row in body) else ["", *names]
        body = [row for row in body if len(row) == len(names)]
        text, empty = text_columns(body, self._decimal, self._na)
        empty = frozenset(j for j in empty if titled and not names[j])
        if titled and len(names) > 1 and not names[0] and 0 not in empty:
            names[0], index = "row", 0
        if empty:
            self.notes.append(
                "left out empty columns without a name: "
                + listed(str(j + 1) for j in sorted(empty))
            )
        if not titled:
            more = f"..x{len(names)}" if len(names) > 1 else ""
            self.notes.append(f"no header: columns are called x1{more}")
        names = unique(names, self.notes) if titled else unnamed(len(names))
        self.header = Header(names, titled, text=text, index=index, empty=empty)

    def progress(self, done: int) -> tuple[int, int]:
        return self._file.tell(), self._size

    def place(self, row: int) -> str:
        for count, (line, _) in enumerate(self._rows()):
            if count == row:
                return f"line {line}"
        return f"row {row + 1}"

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        lines = io.TextIOWrapper(self._open(), "utf-8-sig", errors="replace", newline="")
        try:
            rows = rows_of(_ended(lines), self._delimiter)
            yield from (row for row in rows if row[0] > self._skip)
        finally:
            lines.detach()

    def blocks(
        self, features: list[int], texts: list[int]
    ) -> Iterator[tuple[np.ndarray, list[Any]]]:
        if len(self.header.names) > _WIDE:
            yield from self._one_by_one(features, texts)
            return
        pa, csv = module("pyarrow"), module("pyarrow.csv")
        names = [str(j) for j in range(len(self.header.names))]
        wanted = [names[j] for j in dict.fromkeys([*features, *texts])]
        done, feed = 0, Feed(self._open())
        try:
            with csv.open_csv(
                pa.PythonFile(feed, mode="r"),
                read_options=csv.ReadOptions(
                    column_names=names, skip_rows=self._skip, block_size=self._block
                ),
                parse_options=csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted
                ),
            ) as reader:
                for batch in reader:
                    block = np.empty((batch.num_rows, len(features)), order="F")
                    for k, j in enumerate(features):
                        where = partial(_down, done, j)
                        block[:, k] = self._column(batch.column(names[j]), where, feed)
                    yield block, [batch.column(names[j]) for j in texts]
                    done += batch.num_rows
        except pa.ArrowInvalid as error:
            feed.close()
            if "UTF8" in str(error) and self._encoding == "utf-8":
                self._encoding = "latin-1"
                self._note_latin()
                raise Again from error
            raise self._explained(error) from error
        finally:
            feed.close()

    def _one_by_one(
        self, features: list[int], texts: list[int]
    ) -> Iterator[tuple[np.ndarray, list[Any]]]:
        pa, expected = module("pyarrow"), len(self.header.names)
        for done, (line, row) in enumerate(self._rows()):
            if len(row) != expected:
                raise _uneven(line, row, expected)
            cells = pa.array([row[j] for j in features], pa.string())
            numbers = self._column(cells, partial(_across, done, features))
            yield numbers[None], [pa.array([row[j]], pa.string()) for j in texts]

    def _column(
        self, cells: Any, where: Callable[[int], tuple[int, int]], feed: Feed | None = None
    ) -> np.ndarray:
        """The numbers of some cells, NaN where they are missing; ``where`` tells row and column."""
        numbers = self._numbers(cells, where, feed)
        if len(self._na_numbers):  # -999 also where it is written -999.0
            numbers = np.where(np.isin(numbers, self._na_numbers), np.nan, numbers)
        return numbers

    def _numbers(self, cells: Any, where: Any, feed: Feed | None) -> np.ndarray:
        pa, pc = module("pyarrow"), module("pyarrow.compute")
        plain = cells if self._decimal == "." else pc.replace_substring(cells, self._decimal, ".")
        try:
            return plain.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            pass  # missing cells, spaces, truth values, or text
        plain = pc.utf8_trim_whitespace(plain)
        na = pa.array(sorted(self._na), pa.string())
        absent = pc.is_in(pc.utf8_trim_whitespace(cells), value_set=na)
        plain = pc.if_else(absent, None, plain)
        good = pc.fill_null(pc.match_substring_regex(plain, NUMBER), True)
        bad = pc.index(good, False).as_py()
        if bad >= 0:
            row, column = where(bad)
            if feed is not None:
                feed.close()
            raise TableError(
                f"{self.place(row)}, column {shown(self.header.names[column])}: "
                f"{shown(cells[bad].as_py())} is no number; correct the cell, declare it missing "
                "with --na, or leave the column out with --drop"
            )
        lower = pc.utf8_lower(plain)
        for word, digit in (("true", "1"), ("false", "0")):
            plain = pc.if_else(pc.equal(lower, word), digit, plain)
        plain = pc.replace_substring_regex(plain, r"^\+", "")
        return plain.cast(pa.float64()).to_numpy(zero_copy_only=False)

    def _explained(self, error: Exception) -> TableError:
        """What is wrong with a file that pyarrow refuses."""
        expected = len(self.header.names)
        for line, row in self._rows():
            if len(row) != expected:
                return _uneven(line, row, expected)
        reason = shown(str(error).splitlines()[0])
        return TableError(f"the text cannot be read ({reason}); check its quotes and --delimiter")


def _down(done: int, column: int, cell: int) -> tuple[int, int]:
    return done + cell, column


def _across(row: int, columns: list[int], cell: int) -> tuple[int, int]:
    return row, columns[cell]


def _uneven(line: int, row: list[str], expected: int) -> TableError:
    return TableError(
        f"line {line} has {len(row)} cells where {expected} are expected; correct that line, or give "
        "the right --delimiter"
    )


def _ended(lines: io.TextIOWrapper) -> Iterator[str]:
    """Lines, as long as they end."""
    number = 0
    while line := lines.readline(LONGEST):
        check_line(line, number := number + 1)
        yield line
