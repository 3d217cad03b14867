"""A file that is open: its columns, and its rows in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from ...operators.files import BLOCK, float_type, source_of
from .columns import Header
from .limits import check_columns
from .table import Strings, TableError


class Again(Exception):  # noqa: N818 (no error: the file has to be read once more from its start)
    """What was taken for granted about a file has changed; its blocks have to be read again."""


class Origin(ABC):
    """A file that is open.

    ``header`` are its columns and ``rows`` how many rows it has, where that is known; ``notes`` are
    sentences for the user.
    """

    header: Header
    rows: int | None = None
    dtype: np.dtype = np.dtype("float64")
    notes: list[str]

    @abstractmethod
    def blocks(
        self, features: list[int], texts: list[int]
    ) -> Iterator[tuple[np.ndarray, list[Any]]]:
        """Blocks of rows: numbers of the features, and Arrow arrays of strings of the texts."""

    def float_type(self, features: list[int]) -> np.dtype:
        """The type of a matrix of these features."""
        return self.dtype

    def in_place(self, features: list[int]) -> Any:
        """What an operator can read these features from, pass by pass; None where nothing can."""
        return None

    def place(self, row: int) -> str:
        """Where a row is, for the user."""
        return f"row {row + 1}"

    def progress(self, done: int) -> tuple[int, int]:
        """Bytes read after so many rows, and bytes in all."""
        size = len(self.header.names) * self.dtype.itemsize
        return done * size, (self.rows or 0) * size

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Let go of what was opened."""


class Dense(Origin):
    """A matrix of numbers: an array, a memory map, an HDF5 data set or a zarr array.

    ``about`` are the columns that describe its rows, by name, each read when it is asked for.
    """

    def __init__(
        self, data: Any, header: Header, about: dict[str, Any] | None = None, *, mapped: bool = True
    ) -> None:
        self.dtype = checked(data.shape, data.dtype)
        check_columns(data.shape[1])
        self.rows, self.header, self.notes = int(data.shape[0]), header, []
        self._data, self._about, self._mapped = data, about or {}, mapped

    def blocks(
        self, features: list[int], texts: list[int]
    ) -> Iterator[tuple[np.ndarray, list[Any]]]:
        strings = described(self._about, texts)
        every = features == list(range(self._data.shape[1]))
        start = 0
        for block in source_of(self._data).read(BLOCK):
            stop = start + len(block)
            yield block if every else block[:, features], [s[start:stop].array for s in strings]
            start = stop

    def in_place(self, features: list[int]) -> Any:
        if not self._mapped or features != list(range(self._data.shape[1])):
            return None
        source = source_of(self._data)
        source.tells = False  # the notes do
        return source


def described(about: dict[str, Any], texts: list[int]) -> list[Strings]:
    """The columns about rows with these numbers."""
    readers = list(about.values())
    return [Strings(readers[j]()) for j in texts]


def checked(shape: Any, dtype: Any) -> np.dtype:
    """The float type of a matrix; an error where it is none, or has complex numbers or objects."""
    if len(shape) != 2:
        raise TableError(
            f"the array has {len(shape)} dimension(s), shape {tuple(shape)}; a matrix is needed, "
            "rows by columns: reshape it, or give the --key of another"
        )
    try:
        return float_type(dtype)
    except (ValueError, TypeError) as error:
        raise TableError(
            f"the array has dtype {dtype}; real numbers are needed: save it as float64, or give the "
            "--key of another"
        ) from error


def opened(path: Any, file: BinaryIO) -> Any:
    """The path where there is one, else the file from its start: what most readers take."""
    if path is not None:
        return path
    file.seek(0)
    return file
