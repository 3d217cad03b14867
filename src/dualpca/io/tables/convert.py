"""Excel sheets and JSON lines, turned into delimited text in a temporary file, which is then read."""

import csv
import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO

from .feed import Feed, decoded, emptied
from .limits import LONGEST, check_columns, check_line, check_size
from .table import Package, TableError, counted, listed, shown
from .text import TextSource

#: Cells of a sheet that hold an error of a formula: they are missing.
ERRORS = {"#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA"}

_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


class Lines:
    """Rows that are written to a temporary file; many rows of empty cells are refused in time."""

    def __init__(self, stored: int, free: int, stack: ExitStack) -> None:
        self.file = stack.enter_context(tempfile.TemporaryFile(prefix="dualpca-"))  # noqa: SIM115
        self._text = io.TextIOWrapper(self.file, "utf-8", newline="")
        stack.callback(self._text.detach)
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._stored, self._free, self.nbytes = stored, free, 0

    def write(self, cells: Sequence[str]) -> None:
        """Write a row; one without cells is a blank line."""
        self.nbytes += sum(map(len, cells)) + len(cells) + 1
        check_size(self.nbytes, self._stored, self._free)
        try:
            if cells:
                self._writer.writerow(cells)
            else:
                self._text.write("\n")
        except OSError as error:
            raise TableError(
                f"the temporary folder {tempfile.gettempdir()!r} is full ({error.strerror}); set TMPDIR "
                "to a larger disk"
            ) from error

    def source(self, options: dict[str, Any], **more: Any) -> TextSource:
        """Return the source that reads the rows."""
        self._text.flush()
        # Numbers are stored as such: only those in cells of text can have other signs.
        given = {"delimiter": ",", "decimal": ".", "comment": None, "skip": 0}
        return TextSource(self.file, self.nbytes, **(options | given | more))


def sheet(
    file: BinaryIO,
    stored: int,
    key: str | None,
    free: int,
    options: dict[str, Any],
    stack: ExitStack,
) -> TextSource:
    """Return the first sheet of an Excel file, or that of the key."""
    with zipfile.ZipFile(file) as archive:
        check_size(sum(part.file_size for part in archive.infolist()), stored, free, held=True)
    lines, skip, comment = Lines(stored, free, stack), options["skip"], options["comment"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and extensions that have no numbers
        book = Package("openpyxl").load_workbook(
            file, read_only=True, data_only=True, keep_links=False
        )
        stack.callback(book.close)
        sheets = {page.title: page for page in book.worksheets}
        if not sheets or (key is not None and key not in sheets):
            raise TableError(f"there is no sheet {key or ''!r}; --key may be {listed(sheets)}")
        page = next(iter(sheets.values())) if key is None else sheets[key]
        page.reset_dimensions()  # which may tell of more cells than there are
        width = 0
        for number, row in enumerate(page.iter_rows(values_only=True)):
            cells = [_text(value) for value in row]
            while cells and not cells[-1]:
                cells.pop()
            if number < skip or (comment and cells and cells[0].startswith(comment)):
                cells = []
            width = check_columns(max(width, len(cells)))
            lines.write(cells and cells + [""] * (width - len(cells)))
    source = lines.source(options, line="sheet row", settings=("--header", "--skip", "--comment"))
    if key is None and len(sheets) > 1:
        others = f"{counted(len(sheets) - 1, 'other')}: {listed(list(sheets)[1:])}"
        source.notes.append(f"read the sheet {shown(page.title)}; --key takes one of {others}")
    return source


def _text(value: Any) -> str:
    """Return the value of a cell as delimited text has it, in one line."""
    if value is None or value in ERRORS:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return " ".join(str(value).splitlines())


def json_lines(
    file: BinaryIO, stored: int, free: int, options: dict[str, Any], stack: ExitStack
) -> TextSource:
    """Return the table of a file that has a JSON object in each line; its names are those of any."""
    names: dict[str, None] = {}
    opaque, bad, notes = set[str](), list[str](), list[str]()
    for _, record in _records(file, options, notes):
        if record is not None:
            names.update(dict.fromkeys(record))
            opaque |= {name for name, value in record.items() if isinstance(value, (dict, list))}
            check_columns(len(names))
    if not names:
        raise TableError("the file has no JSON objects with names; give one in each line")
    lines = Lines(stored, free, stack)
    for line, record in _records(file, options, notes):
        if record is None:
            bad += [line] if line.strip() else []
            lines.write([])
        else:
            lines.write(json_cells(record, names))
    source = lines.source(options, names=list(names), settings=("--skip", "--comment"))
    source.notes += [note for note in notes if note not in source.notes]
    if bad:
        few = f"{counted(len(bad), 'line')} that {'is' if len(bad) == 1 else 'are'} no JSON object"
        source.notes.append(f"left out {few}, the first {shown(bad[0])}")
    where = {j for j, name in enumerate(names) if name in opaque}
    source.header.text |= where
    source.header.opaque |= where
    return source


def _records(
    file: BinaryIO, options: dict[str, Any], notes: list[str]
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield the lines with their objects; None for blank ones, and for bad ones that are skipped."""
    pieces = emptied(decoded(file, notes), options["skip"], options["comment"] or "")
    with io.TextIOWrapper(io.BufferedReader(Feed(pieces)), "utf-8", newline=None) as text:
        for number, line in enumerate(iter(lambda: text.readline(LONGEST), ""), 1):
            check_line(line, number)
            record = json_record(line)
            if record is None and line.strip() and options["bad_lines"] != "skip":
                raise TableError(
                    f"line {number} is no JSON object, but {shown(line.strip())}; correct it, or "
                    "leave such lines out with --bad-lines skip"
                )
            yield line, record


def json_record(line: str) -> dict[str, Any] | None:
    """Return the JSON object of a line, with numbers as texts, so that they are rounded once."""
    try:
        record = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def json_cells(record: dict[str, Any], names: Iterable[str]) -> list[str]:
    """Return the texts of an object by names."""
    cells = map(record.get, names)
    return [cell if isinstance(cell, str) else _json_text(cell) for cell in cells]


def _json_text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "..."  # left out as a column of lists or records
    return {None: "", True: "true", False: "false"}[value]
