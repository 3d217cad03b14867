"""CSV, TSV and other delimited text, streamed by pyarrow; all cells are read as strings first."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import re
from collections.abc import Callable, Collection, Iterator
from threading import Lock
from typing import Any, BinaryIO

import numpy as np

from . import sniff
from .columns import Header, unique, unnamed
from .limits import COLUMNS, LONGEST, check_columns, check_line
from .source import RestartRead, Source
from .table import TableError, listed, module, shown

#: This much of a file decides what its columns are.
HEAD = 2**20

#: Bytes of text that are parsed at a time. Four times as many take 120 MB more memory (a million
#: rows of 50 numbers), and no less time.
_BLOCK = 2**20

#: Rows of more columns are parsed one by one: pyarrow takes 10 KB for each column.
_WIDE = 2**14


class Feed:
    """What pyarrow's threads read ahead from, until it is closed and the file can be used again."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._lock, self.closed = stream, Lock(), False

    def read(self, size: int = -1) -> bytes:
        with self._lock:
            return b"" if self.closed else self._stream.read(size)

    def close(self) -> None:
        with self._lock:
            self.closed = True


class Changed(io.RawIOBase):
    """A stream whose bytes go through ``change(piece, last)``."""

    def __init__(self, stream: Any, change: Callable[[bytes, bool], bytes]) -> None:
        self._stream, self._change, self._ready, self._ended = stream, change, b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            piece = self._stream.read(2**18)
            self._ended = not piece
            self._ready = self._change(piece, self._ended)
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


def _recoder(encoding: str) -> Callable[[bytes, bool], bytes]:
    """Return a function from bytes of another encoding to UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    return lambda piece, last: decoder.decode(piece, last).encode("utf-8", errors="replace")


class Squeeze:
    """Make runs of spaces and tabs one space, and none at the ends of lines; quoted cells stay."""

    _RUNS = re.compile(rb'("[^"\r\n]*")|[ \t]+')
    _ENDS = re.compile(rb"^ | (?=\r?$)", re.MULTILINE)

    def __init__(self) -> None:
        self._tail, self._lines = bytearray(), 0

    def __call__(self, piece: bytes, last: bool) -> bytes:
        lines, newline, tail = (piece, b"", b"") if last else piece.rpartition(b"\n")
        if not (newline or last):
            self._tail += piece
            check_line(self._tail, self._lines + 1)
            return b""
        lines, self._tail = bytes(self._tail) + lines, bytearray(tail)
        self._lines += lines.count(b"\n") + 1
        runs = self._RUNS.sub(lambda run: run[1] or b" ", lines)
        return self._ENDS.sub(b"", runs) + newline


class TextSource(Source):
    """A delimited text file, compressed or not."""

    _encoding, _delimiter, _squeezed = "utf-8", ",", False

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
        self._file, self._na, self.notes = file, frozenset(na_values), []
        numbers = [
            na for na in self._na if sniff.is_number(na) and na.lower() not in ("true", "false")
        ]
        self._na_numbers = np.array([float(na) for na in numbers if not np.isnan(float(na))])
        self._size = file.seek(0, 2)
        self._encoding = sniff.encoding_of(*self._head(HEAD))
        text, whole = self._text(delimiter, first)
        rows = sniff.head_rows(text, self._delimiter, whole)
        if not rows:
            raise TableError("the file is empty; give one with a row of numbers at least")
        self._decimal = decimal or sniff.decimal_of(
            [row for _, row in rows[:1000]], self._delimiter
        )
        if self._decimal == "," and decimal is None:
            self.notes.append("numbers are read with a decimal comma")
        if self._encoding == "latin-1":
            self._note_latin()
        self._read_columns(rows, header)
        longest = max(len(text) // len(rows), max(sum(map(len, row)) for _, row in rows[:1000]))
        self._block = max(_BLOCK, 16 * longest)

    def _note_latin(self) -> None:
        self.notes.append("the file is not UTF-8; its text is read as latin-1")

    def _open(self) -> Any:
        """Return the text of the file from its start, in UTF-8."""
        self._file.seek(0)
        magic = self._file.read(10)
        self._file.seek(0)
        stream: Any = self._file
        if magic.startswith(b"\x1f\x8b"):
            stream = gzip.GzipFile(fileobj=self._file)
        elif magic.startswith(b"BZh") and magic[4:] == b"1AY&SY":
            stream = bz2.BZ2File(self._file)
        if self._encoding != "utf-8":
            stream = io.BufferedReader(Changed(stream, _recoder(self._encoding)), _BLOCK)
        if self._squeezed:
            stream = io.BufferedReader(Changed(stream, Squeeze()), _BLOCK)
        return stream

    def _head(self, size: int) -> tuple[bytes, bool]:
        """Return the first bytes, and whether they are all."""
        stream, parts, left = self._open(), [], size + 1
        while left and (part := stream.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)[:size], left > 0

    def _text(self, delimiter: str | None, first: str) -> tuple[str, bool]:
        """Return a head of at least two rows, and whether it is all; find the delimiter on the way."""
        size, signs = HEAD, delimiter or sniff.DELIMITERS
        while True:
            texts, whole = dict[str, str](), True
            for self._squeezed in dict.fromkeys(sign == " " for sign in signs):
                head, whole = self._head(size)
                decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
                text = decoder.decode(head, final=whole)
                texts |= {sign: text for sign in signs if (sign == " ") is self._squeezed}
            if size > COLUMNS:  # lists of cells take more memory than text
                for sign, text in texts.items():
                    lines = text.replace("\r", "\n").split("\n")
                    check_columns(max(line.count(sign) for line in lines))
            self._delimiter = delimiter or sniff.delimiter_of(texts, whole, first)
            self._squeezed = self._delimiter == " "
            text = texts[self._delimiter]
            if whole or len(sniff.head_rows(text, self._delimiter, whole)) > 1:
                return text, whole
            if size >= LONGEST:
                raise TableError(
                    f"there are no two rows in the first {size >> 20} MB; is this delimited text? "
                    "See --format"
                )
            size *= 8

    def _read_columns(self, rows: list[tuple[int, list[str]]], header: str | bool) -> None:
        """Find the names and kinds of the columns in the rows of the head."""
        first, titled = rows[0][1], bool(header)
        if header == "auto":
            counting = sniff.counts_columns(first, [row for _, row in rows[1:]])
            titled = counting or sniff.has_header(first, self._decimal, self._na)
            if counting:
                self.notes.append("the first row counts the columns; it is taken for their names")
        body = [row for _, row in rows[titled:]]
        self._skip = rows[0][0] if titled else 0
        if not body:
            raise TableError("the file has a header but no rows; add some, or see --header")
        names, index = [name.strip() for name in first], None
        if titled and all(len(row) == len(names) + 1 for row in body):
            # Lines end with a delimiter; or R wrote nothing above the names of rows.
            names = [*names, ""] if all(not row[-1] for row in body) else ["", *names]
        body = [row for row in body if len(row) == len(names)]
        text, empty = sniff.text_columns(body, self._decimal, self._na)
        empty = frozenset(j for j in empty if titled and not names[j])
        if titled and len(names) > 1 and not names[0] and 0 not in empty:
            names[0], index = "row", 0
        if empty:
            numbers = listed(str(j + 1) for j in sorted(empty))
            self.notes.append(f"left out empty columns without a name: {numbers}")
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
        """Yield the rows below the header, each with the number of its last line."""
        lines = io.TextIOWrapper(self._open(), "utf-8-sig", errors="replace", newline="")
        try:
            rows = sniff.rows_of(_lines(lines), self._delimiter)
            yield from (row for row in rows if row[0] > self._skip)
        finally:
            lines.detach()

    def blocks(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        if len(self.header.names) > _WIDE:
            yield from self._one_by_one(features, texts)
            return
        pa, csv = module("pyarrow"), module("pyarrow.csv")
        names = [str(j) for j in range(len(self.header.names))]
        wanted = [names[j] for j in dict.fromkeys([*features, *texts])]
        read = csv.ReadOptions(column_names=names, skip_rows=self._skip, block_size=self._block)
        parse = csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        types = dict.fromkeys(wanted, pa.string())
        convert = csv.ConvertOptions(column_types=types, include_columns=wanted)
        done, feed = 0, Feed(self._open())
        try:
            with csv.open_csv(pa.PythonFile(feed, mode="r"), read, parse, convert) as reader:
                for batch in reader:
                    block = np.empty((batch.num_rows, len(features)), order="F")
                    for k, j in enumerate(features):
                        cells = batch.column(names[j])
                        numbers = self._numbers(cells)
                        if isinstance(numbers, int):
                            feed.close()
                            raise self._no_number(done + numbers, j, cells[numbers].as_py())
                        block[:, k] = numbers
                    yield block, [batch.column(names[j]) for j in texts]
                    done += batch.num_rows
        except pa.ArrowInvalid as error:
            feed.close()
            if "UTF8" in str(error) and self._encoding == "utf-8":
                self._encoding = "latin-1"
                self._note_latin()
                raise RestartRead from error
            raise self._explained(error) from error
        finally:
            feed.close()

    def _one_by_one(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        pa, expected = module("pyarrow"), len(self.header.names)
        for done, (line, row) in enumerate(self._rows()):
            if len(row) != expected:
                raise _uneven(line, row, expected)
            numbers = self._numbers(pa.array([row[j] for j in features], pa.string()))
            if isinstance(numbers, int):
                raise self._no_number(done, features[numbers], row[features[numbers]])
            yield numbers[None], [pa.array([row[j]], pa.string()) for j in texts]

    def _numbers(self, cells: Any) -> np.ndarray | int:
        """Return the numbers of cells, NaN where they are missing, or the place of one that is none."""
        pa, pc = module("pyarrow"), module("pyarrow.compute")
        plain = cells if self._decimal == "." else pc.replace_substring(cells, self._decimal, ".")
        try:
            numbers = plain.cast(pa.float64())
        except pa.ArrowInvalid:  # missing cells, spaces, truth values, or text
            na = pa.array(sorted(self._na), pa.string())
            missing = pc.is_in(pc.utf8_trim_whitespace(cells), value_set=na)
            plain = pc.if_else(missing, None, pc.utf8_trim_whitespace(plain))
            good = pc.fill_null(pc.match_substring_regex(plain, sniff.NUMBER), True)
            bad = pc.index(good, False).as_py()
            if bad >= 0:
                return bad
            lower = pc.utf8_lower(plain)
            for word, digit in (("true", "1"), ("false", "0")):
                plain = pc.if_else(pc.equal(lower, word), digit, plain)
            numbers = pc.replace_substring_regex(plain, r"^\+", "").cast(pa.float64())
        values = numbers.to_numpy(zero_copy_only=False)
        if len(self._na_numbers):  # -999 is missing also where it is written -999.0
            values = np.where(np.isin(values, self._na_numbers), np.nan, values)
        return values

    def _no_number(self, row: int, column: int, cell: str) -> TableError:
        return TableError(
            f"{self.place(row)}, column {shown(self.header.names[column])}: {shown(cell)} is no "
            "number; correct the cell, declare it missing with --na, or leave the column out with "
            "--drop"
        )

    def _explained(self, error: Exception) -> TableError:
        """Return what is wrong with a file that pyarrow refuses."""
        expected = len(self.header.names)
        for line, row in self._rows():
            if len(row) != expected:
                return _uneven(line, row, expected)
        reason = shown(str(error).splitlines()[0])
        return TableError(f"the text cannot be read ({reason}); check its quotes and --delimiter")


def _uneven(line: int, row: list[str], expected: int) -> TableError:
    return TableError(
        f"line {line} has {len(row)} cells where {expected} are expected; correct that line, or give "
        "the right --delimiter"
    )


def _lines(lines: io.TextIOWrapper) -> Iterator[str]:
    number = 0
    while line := lines.readline(LONGEST):
        check_line(line, number := number + 1)
        yield line
