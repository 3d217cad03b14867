"""Find delimiter, decimal sign, header and columns of text in the head of a delimited file."""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from .table import TableError

#: Cells that are missing: those of pandas.
NA_VALUES = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)

#: A number as files have it, with a decimal point; true and false count.
NUMBER = (
    r"^[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[iI]nf(?:inity)?|INF(?:INITY)?"
    r"|[nN]a[nN]|NAN)$|^(?:[tT]rue|TRUE|[fF]alse|FALSE)$"
)
_NUMBER = re.compile(NUMBER)
_DECIMAL = {sign: re.compile(rf"[+-]?[0-9]*\{sign}[0-9]+(?:[eE][+-]?[0-9]+)?") for sign in ".,"}

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


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell is a number or a truth value."""
    return _NUMBER.match(cell.strip().replace(decimal, ".")) is not None


def delimiter_of(texts: dict[str, str], whole: bool, first: str) -> str:
    """Return the delimiter that cuts the head into most even rows, of these with most numbers.

    ``texts`` has the head for each delimiter that is tried; ``first`` wins a tie. Words have spaces
    between them too: a space is taken where nothing else cuts, or where it separates numbers only.
    """
    best, chosen = (0.0, 0.0, 0), first
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
        numbers = sum(is_number(cell) or is_number(cell, ",") or not cell for cell in cells)
        if delimiter == " " and best[0] >= 0.9 and numbers < len(cells):
            continue
        score = (round(often / len(body), 1), round(numbers / len(cells), 2), count)
        if score > best:
            best, chosen = score, delimiter
    return chosen


def decimal_of(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """Return a comma where there are numbers with a comma, and none with a point."""
    if delimiter == ",":
        return "."
    cells = [cell.strip() for row in rows for cell in row]
    seen = {s: any(rule.fullmatch(cell) for cell in cells) for s, rule in _DECIMAL.items()}
    return "," if seen[","] and not seen["."] else "."


def counts_columns(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row counts from 0 or 1, as pandas names columns, above fractions."""
    counting = list(first) in [[str(j + k) for j in range(len(first))] for k in (0, 1)]
    cells = (cell for row in body for cell in row)
    return counting and any(rule.fullmatch(cell) for cell in cells for rule in _DECIMAL.values())


def text_columns(
    rows: Sequence[Sequence[str]], decimal: str, na: Collection[str]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the columns most of whose cells are no numbers, and those without any cell."""
    text, empty = set(), set()
    for j, column in enumerate(zip(*rows, strict=False)):
        cells = [cell for cell in column if cell.strip() not in na]
        if not cells:
            empty.add(j)
        elif 2 * sum(is_number(cell, decimal) for cell in cells) < len(cells):
            text.add(j)
    return frozenset(text), frozenset(empty)
