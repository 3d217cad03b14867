"""Find delimiter, header and kinds of columns in the head of a delimited file."""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from .columns import counts_rows, seems_id
from .notation import THOUSANDS, Notation, alike, is_numeric, notation_of, numeric, unit_of
from .table import TableError, pa, pc, shown

#: Cells that are missing: those of pandas, and dashes.
NA_VALUES = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "-", "--"),
)

#: A number as files have it, with a decimal point; true and false count.
NUMBER = (
    r"^[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[iI]nf(?:inity)?|INF(?:INITY)?"
    r"|[nN]a[nN]|NAN)$|^(?:[tT]rue|TRUE|[fF]alse|FALSE)$"
)
_NUMBER = re.compile(NUMBER)

#: A column of at least this many cells, fewer than half of them different, holds categories, not names.
ENOUGH = 10

_TRUTH = {"true", "false"}
_FRACTION = re.compile(r"[+-]?[0-9]*[.,][0-9]+(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_GROUPS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+")

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_DATE = re.compile(
    r"(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2(?:[0-9]{4}|[0-9]{2})"
    rf"|[0-9]{{1,2}}[ -]{_MONTH}[ -][0-9]{{2,4}}|{_MONTH} [0-9]{{1,2}}, ?[0-9]{{4}})"
    r"(?:[T ]+[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)? ?(?:[AaPp][Mm])?"
    r"(?:Z| ?[+-][0-9]{2}:?[0-9]{2})?)?"
)

DELIMITERS = "\t;|, "

#: The most rows of a head that are looked at, and the most blank lines one after the other.
ROWS, BLANK = 100_000, 2**20


def rows_of(lines: Any, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with the number of its last line."""
    reader, last = csv.reader(lines, delimiter=delimiter), 0
    try:
        for row in reader:
            if row:
                last = reader.line_num
                yield last, row
            elif reader.line_num > last + BLANK:
                raise TableError(f"after line {last} there are more than {BLANK:,} blank lines")
    except csv.Error as error:
        raise TableError(
            f"line {reader.line_num} cannot be read ({error}); give the right --delimiter, or "
            "correct the quotes there"
        ) from error


def head_rows(text: str, delimiter: str, whole: bool) -> list[tuple[int, list[str]]]:
    """Return the first rows of a head without its last one, which may have been cut."""
    rows = list(islice(rows_of(io.StringIO(text, newline=""), delimiter), ROWS + 1))
    return rows if len(rows) < 2 or (whole and len(rows) <= ROWS) else rows[:-1]


def is_number(cell: str) -> bool:
    """Return whether a cell is a number with a decimal point, or a truth value."""
    return _NUMBER.match(cell.strip()) is not None


def delimiter_of(texts: dict[str, str], whole: bool, first: str) -> str:
    """Return the delimiter that cuts the head into most even rows, of these with most numbers.

    ``texts`` has the head for each delimiter that is tried; ``first`` wins a tie. Words have spaces
    between them too: a space is taken where nothing else cuts, or where it separates numbers only.
    """
    best, chosen, tabbed = (0.0, 0.0, 0), first, False
    for delimiter in sorted(texts, key=lambda sign: (sign == " ", sign != first)):
        try:
            rows = [row for _, row in head_rows(texts[delimiter], delimiter, whole)][:500]
        except TableError:
            continue
        body = rows[1:] or rows
        count, often = Counter(map(len, body)).most_common(1)[0] if body else (1, 0)
        if count < 2:
            continue
        cells = [cell for row in body for cell in row]
        numbers = sum(is_number(c) or not c or is_numeric(c) or unit_of(c) != "" for c in cells)
        if delimiter == " " and (tabbed or (best[0] >= 0.9 and numbers < len(cells))):
            continue
        # Groups of digits in cells between tabs have spaces between them too.
        even = len({len(row) for row in rows}) == 1
        tabbed |= delimiter == "\t" and even and 2 * numbers >= len(cells)
        score = (round(often / len(body), 1), round(numbers / len(cells), 2), count)
        if score > best:
            best, chosen = score, delimiter
    return chosen


def counts_columns(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row counts from 0 or 1, as pandas names columns, above fractions."""
    counting = list(first) in [[str(j + k) for j in range(len(first))] for k in (0, 1)]
    cells = (cell for row in body for cell in row)
    return counting and any(map(_FRACTION.fullmatch, cells))


@dataclass
class Kinds:
    """What the columns of a head are: text (dates among it), empty, or numbers in some notation.

    ``usual`` is the notation of columns that are not in ``notations``. ``remarks`` are how a column of
    numbers is read, or why it is text though most of its cells are numbers. ``numbered`` columns seem
    to number the rows, and ``repeated`` ones, of text, have the same cell in most of them.
    """

    usual: Notation
    text: set[int] = field(default_factory=set)
    dates: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    notations: dict[int, Notation] = field(default_factory=dict)
    remarks: dict[int, str] = field(default_factory=dict)
    numbered: list[int] = field(default_factory=list)


def kinds_of(
    rows: Sequence[tuple[int, Sequence[str]]],
    names: Sequence[str],
    na: Collection[str],
    decimal: str | None,
    thousands: str | None,
) -> Kinds:
    """Return the kinds of the columns of some rows, each of which has the number of its line."""
    columns = list(zip(*(row for _, row in rows), strict=False))
    present = [[cell for cell in column if cell.strip() not in na] for column in columns]
    plain = [sum(map(is_number, cells)) for cells in present]
    odd = {j: _alike(present[j]) for j, n in enumerate(plain) if n < len(present[j])}
    odd = {j: c for j, c in odd.items() if 2 * numeric(c) >= len(c)}
    groups = THOUSANDS if thousands is None else (thousands,)
    other = {".": ",", ",": "."}.get(thousands or "")
    decimals = decimal or other or _decimals(present, plain, odd)
    kinds = Kinds(Notation(decimals[0], thousands or ""))
    for j, cells in enumerate(present):
        if not cells:
            kinds.empty.add(j)
            continue
        count, notation = plain[j], kinds.usual
        if j in odd or (decimals[0] == "," and any("." in cell for cell in cells)):
            notation, count = notation_of(odd[j] if j in odd else _alike(cells), decimals, groups)
            if notation.plain or notation == kinds.usual:
                plain[j] = count
        if count < len(cells) and 2 * plain[j] < len(cells):
            kinds.text.add(j)
            if len(cells) >= ENOUGH and 2 * len(set(cells)) < len(cells):
                kinds.repeated.add(j)
            if all(_DATE.fullmatch(cell.strip()) for cell in cells):
                kinds.dates.add(j)
            elif 2 * count >= len(cells):
                kinds.remarks[j] = _disagreement(rows, j, notation, na)
            continue
        if notation != kinds.usual:
            kinds.notations[j] = notation
            kinds.remarks[j] = notation.told(_example(cells))
        elif any(cell.strip().lower() in _TRUTH for cell in cells):
            kinds.remarks[j] = "read true as 1 and false as 0"
        elif (j == 0 or seems_id(names[j])) and len(cells) == len(rows):
            integers = [int(cell) for cell in cells if _INTEGER.fullmatch(cell.strip())]
            if len(integers) == len(cells) and counts_rows(names[j], j == 0, integers):
                kinds.numbered.append(j)
    return kinds


def _decimals(present: Sequence[Sequence[str]], plain: Sequence[int], odd: dict[int, Any]) -> str:
    """Return the decimal signs that columns may have, that of most columns first.

    It is a comma where a column has numbers with a comma that are none with a point, and no column has
    the opposite.
    """
    prefers = dict.fromkeys(".,", False)
    for cells in odd.values():
        counts = {sign: notation_of(cells, sign)[1] for sign in ".,"}
        sign = max(counts, key=lambda sign: counts[sign])
        prefers[sign] |= counts["."] != counts[","] and 2 * counts[sign] >= len(cells)
    if prefers[","]:
        whole = (column for j, column in enumerate(present) if plain[j] == len(column))
        points = (cell.strip() for column in whole for cell in column if "." in cell)
        prefers["."] |= any(not _GROUPS.fullmatch(cell) for cell in points)
    return ",." if prefers[","] and not prefers["."] else ".,"


def _alike(cells: Sequence[str]) -> Any:
    return alike(pa.array(cells, pa.string()))


def _example(cells: Sequence[str]) -> str:
    """Return a cell that shows the notation of its column: the one with most signs."""
    return max((cell.strip() for cell in cells[:1000]), key=lambda c: len(re.sub("[0-9]", "", c)))


def _disagreement(
    rows: Sequence[tuple[int, Sequence[str]]], j: int, notation: Notation, na: Collection[str]
) -> str:
    """Return a sentence that names a cell that is no number, and one that is."""
    cells = [(line, row[j]) for line, row in rows if row[j].strip() not in na]
    good = pc.match_substring_regex(_alike([cell for _, cell in cells]), notation.pattern())
    line, odd = cells[good.to_pylist().index(False)]
    other = _example(
        [cell for (_, cell), fits in zip(cells, good.to_pylist(), strict=True) if fits]
    )
    return f"{shown(odd)} (line {line}) is no number as {shown(other)} is"
