"""CSV, TSV and other delimited text, streamed by pyarrow; all cells are read as strings first."""

import bz2
import codecs
import gzip
import io
import itertools
import re
from collections import deque
from collections.abc import Collection, Iterator
from threading import Lock
from typing import Any, BinaryIO

import numpy as np

from . import sniff
from .columns import Header, Source, unique, unnamed
from .limits import COLUMNS, LONGEST, check_columns, check_line
from .table import Package, TableError, listed, pa, pc, shown

#: This much of a file decides what its columns are.
HEAD = 2**20

#: Bytes of a file that are decoded and parsed at a time. Four times as many take 120 MB more memory (a
#: million rows of 50 numbers), and no less time.
_PIECE = _BLOCK = 2**20

#: Rows of more columns are parsed one by one: pyarrow takes 10 KB for each column.
_WIDE = 2**14

#: What bytes that are no UTF-8 become: letters of latin-1.
_LATIN_1 = {0xDC00 + byte: byte for byte in range(128, 256)}

_RUNS = re.compile(rb'("[^"\r\n]*")|[ \t]+')
_ENDS = re.compile(rb"^ | (?=\r?$)", re.MULTILINE)


class Feed(io.RawIOBase):
    """A stream of pieces, which pyarrow's threads read ahead until it is closed."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._ready, self._lock = pieces, b"", Lock()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._lock:
            while not self._ready and (piece := next(self._pieces, None)) is not None:
                self._ready = piece
            count = min(len(buffer), len(self._ready))
            buffer[:count], self._ready = self._ready[:count], self._ready[count:]
            return count

    def close(self) -> None:
        with self._lock:
            self._pieces, self._ready = iter(()), b""
        super().close()


def _squeezed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Make runs of spaces and tabs one space, and none at the ends of lines; quoted cells stay."""
    tail, count = b"", 1
    for piece in itertools.chain(pieces, [b""]):
        lines, newline, tail = (tail + piece).rpartition(b"\n") if piece else (tail, b"", b"")
        count += lines.count(b"\n") + len(newline)
        check_line(tail, count)
        yield _ENDS.sub(b"", _RUNS.sub(lambda run: run[1] or b" ", lines)) + newline


class TextSource(Source):
    """A delimited text file, compressed or not."""

    def __init__(
        self,
        file: BinaryIO,
        stored: int,
        *,
        delimiter: str | None = None,
        decimal: str | None = None,
        na_values: Collection[str] = (),
        header: str | bool = "auto",
        first: str = ",",
    ) -> None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise TableError(f"delimiter {delimiter!r} is not one character; give one, such as ';'")
        if decimal is not None and (decimal not in (".", ",") or decimal == delimiter):
            remedy = "give '.' or ',' and another delimiter"
            raise TableError(f"decimal {decimal!r} cannot be used; {remedy}")
        self._file, self._na, self.notes = file, frozenset(na_values), []
        self._feed = Feed(iter(()))
        truth = ("true", "false")
        numbers = [float(w) for w in self._na if sniff.is_number(w) and w.lower() not in truth]
        self._na_numbers = np.array([n for n in numbers if not np.isnan(n)])
        self._size, self._delimiter = stored, ""
        text, whole = self._head(delimiter, first)
        rows = sniff.head_rows(text, self._delimiter, whole)
        if not rows:
            raise TableError("the file is empty; give one with a row of numbers at least")
        first_rows = [row for _, row in rows[:1000]]
        self._decimal = decimal or sniff.decimal_of(first_rows, self._delimiter)
        if self._decimal == "," and decimal is None:
            self.notes.append("numbers are read with a decimal comma")
        self._read_columns(rows, header)
        longest = max(len(text) // len(rows), max(sum(map(len, row)) for row in first_rows))
        self._block = max(_BLOCK, 16 * longest)

    def _open(self) -> Feed:
        """Return the text of the file from its start, in UTF-8; one that was opened before ends."""
        self._feed.close()
        self._feed = Feed(_squeezed(self._pieces()) if self._delimiter == " " else self._pieces())
        return self._feed

    def _pieces(self) -> Iterator[bytes]:
        stream: Any = self._file
        stream.seek(0)
        magic = stream.read(10)
        stream.seek(0)
        if magic.startswith(b"\x1f\x8b"):
            stream = gzip.GzipFile(fileobj=stream)
        elif magic.startswith(b"BZh") and magic[4:] == b"1AY&SY":
            stream = bz2.BZ2File(stream)
        first, others = stream.read(_PIECE), iter(lambda: stream.read(_PIECE), b"")
        wide = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding, errors = ("utf-16", "replace") if wide else ("utf-8-sig", "surrogateescape")
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        for piece in itertools.chain([first], others, [b""]):
            text = decoder.decode(piece, final=not piece)
            if not text.isascii() and (latin := text.translate(_LATIN_1)) != text:
                text, note = latin, "the file is not UTF-8; its text is read as latin-1"
                self.notes += [] if note in self.notes else [note]
            yield text.encode(errors="replace")

    def _head(self, delimiter: str | None, first: str) -> tuple[str, bool]:
        """Return a head of at least two rows, and whether it is all; find the delimiter on the way."""
        size, signs = HEAD, delimiter or sniff.DELIMITERS
        while True:
            self._delimiter = ""
            head = io.BufferedReader(self._open()).read(size + 1)
            whole, head = len(head) <= size, head[:size]
            squeezed = b"".join(_squeezed(iter([head])))
            texts = {s: (squeezed if s == " " else head).decode(errors="replace") for s in signs}
            if size > COLUMNS:  # lists of cells take more memory than text
                for sign, text in texts.items():
                    lines = text.replace("\r", "\n").split("\n")
                    check_columns(max(line.count(sign) for line in lines))
            self._delimiter = delimiter or sniff.delimiter_of(texts, whole, first)
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
            cells = (cell for cell in first if cell.strip() not in self._na)
            titled = counting or not all(sniff.is_number(cell, self._decimal) for cell in cells)
            if counting:
                self.notes.append("the first row counts the columns; it is taken for their names")
        body = [row for _, row in rows[titled:]]
        self._skip = rows[0][0] if titled else 0
        if not body:
            raise TableError("the file has a header but no rows; add some, or see --header")
        names = [name.strip() for name in first]
        index: tuple[int, ...] = ()
        if titled and all(len(row) == len(names) + 1 for row in body):
            # Lines end with a delimiter; or R wrote nothing above the names of rows.
            names = [*names, ""] if all(not row[-1] for row in body) else ["", *names]
        body = [row for row in body if len(row) == len(names)]
        text, empty = sniff.text_columns(body, self._decimal, self._na)
        empty = frozenset(j for j in empty if titled and not names[j])
        if titled and len(names) > 1 and not names[0] and 0 not in empty:
            names[0], index = "row", (0,)
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
        text = io.TextIOWrapper(io.BufferedReader(self._open()), "utf-8", newline="")
        lines = enumerate(iter(lambda: text.readline(LONGEST), ""), 1)
        rows = sniff.rows_of((check_line(line, n) for n, line in lines), self._delimiter)
        yield from (row for row in rows if row[0] > self._skip)

    def blocks(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        if len(self.header.names) > _WIDE:
            yield from self._one_by_one(features, texts)
            return
        csv = Package("pyarrow.csv")
        names = [str(j) for j in range(len(self.header.names))]
        wanted = [names[j] for j in dict.fromkeys([*features, *texts])]
        read = csv.ReadOptions(column_names=names, skip_rows=self._skip, block_size=self._block)
        parse = csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        types = dict.fromkeys(wanted, pa.string())
        convert = csv.ConvertOptions(column_types=types, include_columns=wanted)
        done, file = 0, pa.PythonFile(self._open(), mode="r")
        try:
            with csv.open_csv(file, read, parse, convert) as reader:
                for batch in reader:
                    block = np.empty((batch.num_rows, len(features)), order="F")
                    for k, j in enumerate(features):
                        block[:, k] = self._numbers(batch.column(names[j]), done, [j])
                    yield block, [batch.column(names[j]) for j in texts]
                    done += batch.num_rows
        except pa.ArrowInvalid as error:
            deque(self._one_by_one([], []), maxlen=0)  # raises at a line that is uneven
            reason = f"the text cannot be read ({shown(str(error).splitlines()[0])})"
            raise TableError(f"{reason}; check its quotes and --delimiter") from error
        finally:
            self._feed.close()

    def _one_by_one(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        expected = len(self.header.names)
        for done, (line, row) in enumerate(self._rows()):
            if len(row) != expected:
                raise TableError(
                    f"line {line} has {len(row)} cells where {expected} are expected; correct that "
                    "line, or give the right --delimiter"
                )
            cells = pa.array([row[j] for j in features], pa.string())
            numbers = self._numbers(cells, done, features)
            yield numbers[None], [pa.array([row[j]], pa.string()) for j in texts]

    def _numbers(self, cells: Any, row: int, columns: list[int]) -> np.ndarray:
        """Return numbers, NaN where one is missing: of a row, or from a row on of a single column."""
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
                at, j = (row + bad, columns[0]) if len(columns) == 1 else (row, columns[bad])
                raise TableError(
                    f"{self.place(at)}, column {shown(self.header.names[j])}: "
                    f"{shown(cells[bad].as_py())} is no number; correct the cell, declare it missing "
                    "with --na, or leave the column out with --drop"
                ) from None
            lower = pc.utf8_lower(plain)
            for word, digit in (("true", "1"), ("false", "0")):
                plain = pc.if_else(pc.equal(lower, word), digit, plain)
            numbers = pc.replace_substring_regex(plain, r"^\+", "").cast(pa.float64())
        values = numbers.to_numpy(zero_copy_only=False)
        if len(self._na_numbers):  # -999 is missing also where it is written -999.0
            values = np.where(np.isin(values, self._na_numbers), np.nan, values)
        return values
