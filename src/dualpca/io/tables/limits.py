"""Limits of what a file may claim to hold: an untrue claim is refused before memory is taken."""

import shutil
import tempfile
from typing import Any

from ..._memory import ensure
from .table import TableError, counted

#: The most bytes of a row of text, and the most columns of any file: each has a name in memory.
LONGEST, COLUMNS = 2**26, 2**22

#: Beyond FREE bytes, which --unpacked raises, a file holds at most RATIO times its own size (deflate
#: reaches 1,032), and RATIO_HELD times where all of it is in memory at once.
FREE, RATIO, RATIO_HELD = 2**28, 1000, 100

#: The most bytes of names and labels of rows.
TEXT = 2**30

#: A sparse matrix has at most this many rows, or this many for each of its entries.
ROWS, ROWS_PER_ENTRY = 2**22, 100


def raised(nbytes: int) -> str:
    """Return the remedy that allows this many bytes."""
    return f"raise --unpacked to {-(-nbytes >> 20)} (in MB; in Python unpacked=, in bytes)"


def check_size(nbytes: int, stored: int, free: int | None = None, *, held: bool = False) -> None:
    """Refuse arrays far larger than the file; ``held`` arrays are in memory as a whole.

    ``free`` bytes are allowed in any case, where an option sets them.
    """
    if nbytes > max(free or FREE, (RATIO_HELD if held else RATIO) * stored):
        raise TableError(
            f"its header tells of {nbytes:,} bytes of numbers, and the file has {stored:,}; one that "
            "is packed so tightly is refused: write it without compression"
            + ("" if free is None else f", or {raised(nbytes)}")
        )
    if held:
        ensure(nbytes, "its arrays", "give a smaller file, or one that is not sparse")


def check_disk(nbytes: int) -> None:
    """Refuse an array that the temporary folder has no room for."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise TableError(
            f"it takes {nbytes:,} bytes in the temporary folder {folder!r}, which has {free:,}; set "
            "TMPDIR to a larger disk"
        )


def check_columns(columns: int) -> int:
    """Return the number of columns; refuse it where their names alone would fill the memory."""
    if columns > COLUMNS:
        raise TableError(f"{columns:,} columns are too many; give at most {COLUMNS:,}")
    return columns


def check_sparse(shape: Any, entries: int) -> None:
    """Refuse a sparse matrix of nearly all empty rows, which take memory without an entry."""
    if len(shape) == 2:
        check_columns(shape[1])
        if shape[0] > max(ROWS, ROWS_PER_ENTRY * entries):
            raise TableError(
                f"the matrix has {counted(shape[0], 'row')} and {entries:,} entries; is its shape "
                "right? Leave out the rows without entries"
            )


def check_text(nbytes: int, memory: int = 0) -> None:
    """Refuse names and labels that would fill the memory."""
    if nbytes > max(TEXT, 4 * memory):
        raise TableError(
            f"the names and labels of the rows take more than {max(TEXT, 4 * memory) >> 20} MB; "
            "choose another --id and --label, or raise --memory"
        )


def check_line(line: Any, number: int) -> Any:
    """Return a line; refuse one that does not end."""
    if len(line) >= LONGEST:
        size = f"longer than {LONGEST >> 20} MB"
        raise TableError(f"line {number} is {size}; is this delimited text? See --format")
    return line
