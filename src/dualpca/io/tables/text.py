"""CSV, TSV and other delimited text, streamed by pyarrow; all cells are read as strings first."""

import io
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from . import sniff
from .columns import Header, Source, unique, unnamed
from .feed import PIECE, Feed, decoded, emptied, squeezed
from .limits import COLUMNS, LONGEST, check_columns, check_line
from .notation import THOUSANDS, Notation, is_numeric
from .table import Package, TableError, counted, listed, pa, shown

#: This much of a file decides what its columns are.
HEAD = 2**20

#: Bytes of a file that are parsed at a time. Four times as many take 120 MB more memory (a million rows
#: of 50 numbers), and no less time.
_BLOCK = PIECE

#: The options of the command line that say how delimited text is read.
SETTINGS = ("--delimiter", "--decimal", "--header", "--skip", "--comment")

#: Rows of more columns are parsed one by one: pyarrow takes 10 KB for each column.
_WIDE = 2**14


class TextSource(Source):
    """A delimited text file, compressed or not."""

    def __init__(
        self,
        file: BinaryIO,
        stored: int,
        *,
        delimiter: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        comment: str | None = None,
        skip: int = 0,
        bad_lines: str = "error",
        na_values: Collection[str] = (),
        header: str | bool = "auto",
        first: str = ",",
        names: Sequence[str] | None = None,
        line: str = "line",
        settings: Sequence[str] = SETTINGS,
    ) -> None:
        """Take the ``names`` of the columns from elsewhere where they are not in the file.

        ``line`` is what the user calls a line of the file, and ``settings`` are the options that count.
        """
        _check(delimiter, decimal, thousands, comment)
        self._file, self.na, self.notes = file, frozenset(na_values), []
        self._emptied, self._comment, self._skips = skip, comment or "", bad_lines == "skip"
        self._feed, self._line = Feed(iter(())), line
        truth = ("true", "false")
        numbers = [float(w) for w in self.na if sniff.is_number(w) and w.lower() not in truth]
        self._na_numbers = np.array([n for n in numbers if not np.isnan(n)])
        self._size, self.delimiter = stored, ""
        text, whole = self._head(delimiter, first)
        rows = sniff.head_rows(text, self.delimiter, whole)
        if not rows:
            why = (
                "nothing is left without the lines of --skip and --comment"
                if skip or comment
                else ""
            )
            raise TableError(f"{why or 'the file is empty'}; give a row of numbers at least")
        self._read_columns(rows, header, names, decimal, thousands)
        self.header.settings = settings
        first_rows = [row for _, row in rows[:1000]]
        longest = max(len(text) // len(rows), max(sum(map(len, row)) for row in first_rows))
        self._block = max(_BLOCK, 16 * longest)

    def _open(self) -> Feed:
        """Return the text of the file from its start, in UTF-8; one that was opened before ends."""
        self._feed.close()
        pieces = decoded(self._file, self.notes)
        if self._emptied or self._comment:
            pieces = emptied(pieces, self._emptied, self._comment)
        self._feed = Feed(squeezed(pieces) if self.delimiter == " " else pieces)
        return self._feed

    def _head(self, delimiter: str | None, first: str) -> tuple[str, bool]:
        """Return a head of at least two rows, and whether it is all; find the delimiter on the way."""
        size, signs = HEAD, delimiter or sniff.DELIMITERS
        while True:
            self.delimiter = ""
            head = io.BufferedReader(self._open()).read(size + 1)
            whole, head = len(head) <= size, head[:size]
            spaced = b"".join(squeezed(iter([head])))
            texts = {s: (spaced if s == " " else head).decode(errors="replace") for s in signs}
            if size > COLUMNS:  # lists of cells take more memory than text
                for sign, text in texts.items():
                    lines = text.replace("\r", "\n").split("\n")
                    check_columns(max(line.count(sign) for line in lines))
            self.delimiter = delimiter or sniff.delimiter_of(texts, whole, first)
            text = texts[self.delimiter]
            if whole or len(sniff.head_rows(text, self.delimiter, whole)) > 1:
                return text, whole
            if size >= LONGEST:
                raise TableError(
                    f"there are no two rows in the first {size >> 20} MB; is this delimited text? "
                    "See --format"
                )
            size *= 8

    def _read_columns(
        self,
        rows: list[tuple[int, list[str]]],
        header: str | bool,
        given: Sequence[str] | None,
        decimal: str | None,
        thousands: str | None,
    ) -> None:
        """Find the names and kinds of the columns in the rows of the head."""
        first, titled = rows[0][1], bool(header)
        if given is None and header == "auto":
            counting = sniff.counts_columns(first, [row for _, row in rows[1:]])
            cells = (cell for cell in first if cell.strip() not in self.na)
            titled = counting or not all(
                sniff.is_number(cell) or is_numeric(cell) for cell in cells
            )
            if counting:
                self.notes.append("the first row counts the columns; it is taken for their names")
        body = rows if given is not None else rows[titled:]
        self._skip = rows[0][0] if titled and given is None else 0
        if not body:
            raise TableError("the file has a header but no rows; add some, or see --header")
        names = [name.strip() for name in given or first]
        index: tuple[int, ...] = ()
        widths = Counter(len(row) for _, row in body)
        usual = widths.most_common(1)[0][0]
        if titled and usual == len(names) + 1 and (self._skips or len(widths) == 1):
            # Lines end with a delimiter; or R wrote nothing above the names of rows.
            ended = all(not row[-1] for _, row in body if len(row) == usual)
            names = [*names, ""] if ended else ["", *names]
        elif self._skips and not titled:
            names = unnamed(usual)
        body = [(line, row) for line, row in body if len(row) == len(names)]
        kinds = sniff.kinds_of(body, names, self.na, decimal, thousands)
        self._usual, self.notations = kinds.usual, kinds.notations
        if self._usual.decimal == "," and decimal is None:
            self.notes.append("numbers are read with a decimal comma")
        empty = frozenset(j for j in kinds.empty if titled and not names[j])
        if titled and len(names) > 1 and not names[0] and 0 not in empty:
            names[0], index = "row", (0,)
        if empty:
            numbers = listed(str(j + 1) for j in sorted(empty))
            self.notes.append(f"left out empty columns without a name: {numbers}")
        if not titled:
            more = f"..x{len(names)}" if len(names) > 1 else ""
            self.notes.append(f"no header: columns are called x1{more}")
        names = unique(names, self.notes) if titled else unnamed(len(names))
        self.header = Header(
            names,
            titled,
            text=frozenset(kinds.text),
            dates=frozenset(kinds.dates),
            repeated=frozenset(kinds.repeated),
            index=index,
            empty=empty,
            remarks=kinds.remarks,
            numbered=tuple(kinds.numbered),
            percent=frozenset(j for j, notation in kinds.notations.items() if notation.percent),
        )

    @property
    def titled(self) -> bool:
        """Whether the first row has the names."""
        return self._skip > 0

    def progress(self, done: int) -> tuple[int, int]:
        return self._file.tell(), self._size

    def place(self, row: int) -> str:
        rows = ((line, cells) for line, cells in self._rows() if self._is_even(cells))
        for count, (line, _) in enumerate(rows):
            if count == row:
                return f"{self._line} {line}"
        return super().place(row)

    def _is_even(self, cells: list[str]) -> bool:
        return not self._skips or len(cells) == len(self.header.names)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows below the header, each with the number of its last line."""
        text = io.TextIOWrapper(io.BufferedReader(self._open()), "utf-8", newline="")
        lines = enumerate(iter(lambda: text.readline(LONGEST), ""), 1)
        rows = sniff.rows_of((check_line(line, n) for n, line in lines), self.delimiter)
        yield from (row for row in rows if row[0] > self._skip)

    def blocks(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        bad: list[str] = []  # the first of the lines that are skipped, and an empty text for others
        wide = len(self.header.names) > _WIDE
        yield from (self._one_by_one if wide else self._by_arrow)(features, texts, bad)
        if bad:
            lines = counted(len(bad), self._line)
            note = f"left out {lines} with too many or too few cells, the first {shown(bad[0])}"
            self.notes += [] if note in self.notes else [note]

    def _by_arrow(
        self, features: list[int], texts: list[int], bad: list[str]
    ) -> Iterator[tuple[Any, list[Any]]]:
        def handle(row: Any) -> str:
            bad.append("" if bad else row.text)
            return "skip"

        csv = Package("pyarrow.csv")
        names = [str(j) for j in range(len(self.header.names))]
        wanted = [names[j] for j in dict.fromkeys([*features, *texts])]
        read = csv.ReadOptions(column_names=names, skip_rows=self._skip, block_size=self._block)
        parse = csv.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=True,
            invalid_row_handler=handle if self._skips else None,
        )
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
            deque(self._one_by_one([], [], []), maxlen=0)  # raises at a line that is uneven
            reason = f"the text cannot be read ({shown(str(error).splitlines()[0])})"
            raise TableError(f"{reason}; check its quotes and --delimiter") from error
        finally:
            self._feed.close()

    def _one_by_one(
        self, features: list[int], texts: list[int], bad: list[str]
    ) -> Iterator[tuple[Any, list[Any]]]:
        expected, done = len(self.header.names), 0
        groups: dict[Notation, list[int]] = {}
        for k, j in enumerate(features):
            groups.setdefault(self.notation(j), []).append(k)
        for line, row in self._rows():
            if not self._is_even(row):
                bad.append("" if bad else self.delimiter.join(row))
                continue
            if len(row) != expected:
                cut = "--delimiter" in self.header.settings
                raise TableError(
                    f"{self._line} {line} has {counted(len(row), 'cell')} where {expected:,} are "
                    f"expected; correct that {self._line}, {'give the right --delimiter, ' * cut}or "
                    f"leave out {self._line}s above the header with --skip, others with --bad-lines "
                    "skip"
                )
            numbers = np.empty((1, len(features)))
            for places in groups.values():
                columns = [features[k] for k in places]
                cells = pa.array([row[j] for j in columns], pa.string())
                numbers[0, places] = self._numbers(cells, done, columns)
            yield numbers, [pa.array([row[j]], pa.string()) for j in texts]
            done += 1

    def notation(self, column: int) -> Notation:
        """Return how a column writes numbers."""
        return self.notations.get(column, self._usual)

    def numbers(self, cells: Any, column: int) -> tuple[np.ndarray | None, int]:
        """Return numbers, NaN where one is missing; or None and the place of a cell that is none."""
        values, bad = self.notation(column).numbers(cells, self.na)
        if values is not None and len(self._na_numbers):  # -999 is missing also if written -999.0
            values = np.where(np.isin(values, self._na_numbers), np.nan, values)
        return values, bad

    def _numbers(self, cells: Any, row: int, columns: list[int]) -> np.ndarray:
        """Return numbers, NaN where one is missing: of a row, or from a row on of a single column."""
        values, bad = self.numbers(cells, columns[0])
        if values is None:
            at, j = (row + bad, columns[0]) if len(columns) == 1 else (row, columns[bad])
            cell, options = cells[bad].as_py(), ""
            if is_numeric(cell):
                options = ", say how it is written with --thousands and --decimal"
            raise TableError(
                f"{self.place(at)}, column {shown(self.header.names[j])}: {shown(cell)} is no number"
                f"{self.notation(j).words()}; correct the cell{options}, declare it missing with --na, "
                "or leave the column out with --drop"
            )
        return values


def _check(
    delimiter: str | None, decimal: str | None, thousands: str | None, comment: str | None
) -> None:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise TableError(f"delimiter {delimiter!r} is not one character; give one, such as ';'")
    if decimal is not None and (decimal not in (".", ",") or decimal == delimiter):
        remedy = "give '.' or ',' and another delimiter"
        raise TableError(f"decimal {decimal!r} cannot be used; {remedy}")
    if thousands is not None and (
        thousands not in THOUSANDS or (thousands and thousands == decimal)
    ):
        raise TableError(
            f"thousands {thousands!r} cannot be used; give ',', '.', ' ' or \"'\", and another sign than "
            "--decimal; '' if digits are not grouped"
        )
    if comment is not None and (not comment or set(comment) & set("\r\n")):
        raise TableError(f"comment {comment!r} begins no line; give a text such as '#'")
