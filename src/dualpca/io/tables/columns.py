"""The columns of an open file, and what is asked of them."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .table import LONG, listed, shown


@dataclass(frozen=True)
class Columns:
    """Which columns to read, and as what.

    Columns are chosen by name, by number from 1 ("3"), by range ("3-10" or "x1:x9") and by pattern
    ("pixel*"); a name that is one of the file's is never taken for anything else.

    Parameters
    ----------
    keep : sequence of str, optional
        Read only these, in the order of the file; all columns of numbers by default.
    drop : sequence of str
        Leave these out.
    ids : str or sequence of str, optional
        The columns that name the rows, joined by "/" where there are several. By default the
        first column of text, else one of integers that seem to number the rows; ``()`` for none.
    likely_ids : sequence of str
        Names of columns that name the rows, such as those of an earlier file: taken where ``ids`` is
        None and the file has them.
    label : str, optional
        The column with a label for each row.
    exact : bool
        ``keep`` are the names of a model's features: read exactly these columns, in this order. A
        file without names has to have as many columns. No column of integers is taken to number the
        rows.
    varying : bool
        Leave out columns of a table whose cells are all equal or missing. Matrices (npy, npz, Matrix
        Market, HDF5 and zarr files), whose columns are alike, are read whole.
    """

    keep: Sequence[str] | None = None
    drop: Sequence[str] = ()
    ids: str | Sequence[str] | None = None
    likely_ids: Sequence[str] = ()
    label: str | None = None
    exact: bool = False
    varying: bool = False


@dataclass
class Header:
    """The columns of a file.

    ``named``: the names come from the file. ``shown``: generated names (x1, x2, ...) are worth printing.
    ``text``, ``empty``: columns without numbers, without cells. ``opaque``, ``dates``: columns of
    ``text``, such as lists, that cannot name rows; of dates. ``repeated``: those of categories, which
    name no rows either. ``rows``: the names of the columns that describe rows, where a file keeps them
    elsewhere. ``index``: the columns, among ``rows`` if it is set, that name the rows. ``numbered``:
    columns of integers that seem to. ``percent``: those of percents, read as shares of 1. ``remarks``:
    how a column is read, or why not; one of text that has a remark names no rows. ``settings``: the
    options of the command line that say how such a file is read.
    """

    names: list[str]
    named: bool = True
    shown: bool = True
    text: frozenset[int] = frozenset()
    index: tuple[int, ...] = ()
    rows: list[str] | None = None
    empty: frozenset[int] = frozenset()
    opaque: frozenset[int] = frozenset()
    dates: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()
    numbered: tuple[int, ...] = ()
    percent: frozenset[int] = frozenset()
    remarks: dict[int, str] = field(default_factory=dict)
    settings: Sequence[str] = ()


class Source(ABC):
    """A file that is open: its ``header``, its number of ``rows`` if known, ``notes`` for the user.

    The columns of a ``table`` are of any kinds, those of a matrix are alike.
    """

    header: Header
    table: bool = True
    rows: int | None = None
    dtype: np.dtype = np.dtype("float64")
    notes: list[str]

    @abstractmethod
    def blocks(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        """Yield blocks of rows: numbers of the features, and Arrow arrays of strings of the texts.

        The numbers are an array, or the whole of a sparse matrix as CSR.
        """

    def float_type(self, features: list[int]) -> np.dtype:
        """Return the type of a matrix of these features."""
        return self.dtype

    def in_place(self, features: list[int]) -> Any:
        """Return what an operator can read these features from, pass by pass, or None."""
        return None

    def place(self, row: int) -> str:
        """Return where a row is, for the user."""
        return f"data row {row + 1}"

    def progress(self, done: int) -> tuple[int, int]:
        """Return the bytes read after so many rows, and the bytes in all."""
        size = len(self.header.names) * self.dtype.itemsize
        return done * size, (self.rows or 0) * size

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Let go of what was opened."""


def unnamed(number: int) -> list[str]:
    """Return names for columns that have none: x1, x2, ..."""
    return [f"x{j + 1}" for j in range(number)]


#: Names of columns that number rows or things.
_ID = re.compile(
    r"(?i:(.*[\W_])?(id|ids|idx|index|rowid|row|no|nr|#|rowname|rownames)|row[\W_]*(number|num|no|nr)"
    r"|(no|nr)\.|unnamed: 0)|.*[a-z]I[dD]"
)


def seems_id(name: str) -> bool:
    """Return whether a column has a name that columns of ids have."""
    return len(name) <= LONG and _ID.fullmatch(name.strip()) is not None


def counts_rows(name: str, first: bool, values: Sequence[int]) -> bool:
    """Return whether integers seem to number the rows.

    They are unique and have the name of an id, or they are in the first column, in three rows at least,
    and count from 0 or 1.
    """
    if seems_id(name):
        return len(set(values)) == len(values)
    start = values[0] if len(values) else 2
    counting = range(start, start + len(values))
    return first and len(values) > 2 and start in (0, 1) and list(values) == list(counting)


def unique(names: Sequence[str], notes: list[str]) -> list[str]:
    """Fill in empty names and number repeated ones; notes say which."""
    taken, result, odd = set(names), dict[str, None](), []
    counts: dict[str, int] = {}
    for j, name in enumerate(names):
        base = new = name or f"x{j + 1}"
        while new in result or (new != name and new in taken):
            counts[base] = counts.get(base, 1) + 1
            new = f"{base}_{counts[base]}"
        if new != name:
            odd.append(f"{shown(name)} (column {j + 1}) is called {shown(new)}")
        result[new] = None
    if odd:
        notes.append(f"column names that were empty or repeated: {listed(odd, 4)}")
    return list(result)
