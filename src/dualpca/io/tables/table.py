"""The table that is read from a file, and the one error of reading and writing."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

#: The most characters of a name or cell in a message.
LONG = 60


class Package:
    """An optional package, which is imported when it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        try:
            return getattr(import_module(self._name), attribute)
        except ImportError as error:
            package = self._name.split(".")[0]
            raise ImportError(
                f"tables need {package}, which is not installed: pip install 'dualpca[io]'"
            ) from error


pa, pc = Package("pyarrow"), Package("pyarrow.compute")


class TableError(ValueError):
    """A file that cannot be read or written as asked; one line that says what to do."""


class Strings(Sequence[str]):
    """Strings held compactly, in one Arrow array.

    Parameters
    ----------
    values : pyarrow array, or iterable of str
        Missing ones are empty strings.

    Examples
    --------
    >>> from dualpca.io.tables import Strings
    >>> names = Strings(["ada", "bob", "cyd"])
    >>> names[1], list(names[1:]), list(names[[2, 0]])
    ('bob', ['bob', 'cyd'], ['cyd', 'ada'])
    """

    def __init__(self, values: Any) -> None:
        large = pa.large_string()
        if isinstance(values, pa.ChunkedArray):
            # Large before they are joined: offsets of 32 bits end at 2 GB of text.
            values = pa.concat_arrays(values.cast(large).chunks or [pa.array([], large)])
        elif not isinstance(values, pa.Array):
            values = pa.array(list(values), large)
        self.array = values.cast(large).fill_null("")

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice) and np.ndim(index) == 0:
            return self.array[int(index)].as_py()
        # By numpy, which knows masks and counts from the end.
        return Strings(self.array.take(np.arange(len(self))[index]))

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 10_000):
            yield from self.array.slice(start, 10_000).to_pylist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.array.to_numpy(zero_copy_only=False), dtype=dtype or object)

    def __repr__(self) -> str:
        return f"<{len(self)} strings: {listed(self, 3)}>"


@dataclass
class Table:
    """A table that was read.

    Attributes
    ----------
    X : ndarray, scipy.sparse.csr_array or Blocks
        The numbers: an array where they fit the memory allowed, else an operator that reads the
        file, or a temporary one, in blocks, and that has the names as ``X.names``.
    names : list of str or None
        The names of the columns of X.
    ids, labels : Strings or None
        A name and a label for each row.
    n_missing : int
        Missing cells in the columns of X, in rows kept or dropped.
    dropped : array of int
        The data rows of the file, from 0, that were dropped for their missing cells.
    notes : list of str
        Sentences for the user.
    id_columns, label_column, left_out, percent
        Which columns the ids and labels come from, which were left out as no numbers, and which are
        percents, read as shares of 1.
    """

    X: Any
    names: list[str] | None
    ids: Strings | None = None
    labels: Strings | None = None
    n_missing: int = 0
    notes: list[str] = field(default_factory=list)
    id_columns: list[str] = field(default_factory=list)
    label_column: str | None = None
    left_out: list[str] = field(default_factory=list)
    percent: list[str] = field(default_factory=list)
    dropped: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def n_dropped(self) -> int:
        """The number of rows that were dropped."""
        return len(self.dropped)

    def frame(self) -> Any:
        """Return the numbers as a pandas data frame, with the ids of the rows as its index."""
        import pandas as pd

        if sp.issparse(self.X) or not isinstance(self.X, np.ndarray):
            raise TableError(
                f"X is a {type(self.X).__name__}, which a data frame would copy into memory; use X itself"
            )
        return pd.DataFrame(
            self.X, columns=self.names, index=None if self.ids is None else list(self.ids)
        )

    def in_file(self, rows: np.ndarray) -> np.ndarray:
        """Return the data rows of the file, from 1, of rows of X, from 0."""
        before = self.dropped - np.arange(len(self.dropped))  # kept rows before each dropped one
        return rows + np.searchsorted(before, rows, side="right") + 1


def listed(names: Iterable[str], most: int = 6) -> str:
    """Return some names for a sentence: "a, b, c and 4 more"."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(_cut(str(name), 3 * LONG) for name in names[:most]) + more


def shown(text: Any) -> str:
    """Return text from a file in quotes, cut where it is long."""
    return repr(_cut(str(text), LONG))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def printable(text: str, keep: str = "") -> str:
    """Return text with control characters, which names in files may have, written out."""
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def counted(number: int, thing: str) -> str:
    """Return a number of things: "1 row", "2,000 rows"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is one of numbers."""
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def joined(*cells: Any, by: str = "") -> Any:
    """Return arrays of texts, or single texts, joined row by row."""
    parts = (pa.scalar(c, pa.large_string()) if isinstance(c, str) else c for c in (*cells, by))
    return pc.binary_join_element_wise(*parts)
