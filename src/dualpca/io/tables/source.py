"""A file that is open: its columns, and its rows in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...operators.files import BLOCK, float_type, source_of
from ..fitted import check_compressed
from .columns import Header, unnamed
from .limits import check_columns
from .table import Strings, TableError


class Source(ABC):
    """A file that is open: its ``header``, its number of ``rows`` if known, ``notes`` for the user."""

    header: Header
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
        return f"row {row + 1}"

    def progress(self, done: int) -> tuple[int, int]:
        """Return the bytes read after so many rows, and the bytes in all."""
        size = len(self.header.names) * self.dtype.itemsize
        return done * size, (self.rows or 0) * size

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Let go of what was opened."""


class MatrixSource(Source):
    """A matrix of numbers: an array, a memory map, an HDF5 data set, a zarr array, or a sparse matrix.

    ``row_columns`` has the columns that describe its rows, by name, each read when it is needed.
    ``lasting`` data can still be read when the table is returned.
    """

    def __init__(
        self, data: Any, header: Header, row_columns: Any = None, *, lasting: bool = True
    ) -> None:
        self.dtype = float_type_of(data.shape, data.dtype)
        check_columns(data.shape[1])
        self._sparse = sp.issparse(data)
        if self._sparse:
            check_compressed(data)
            data = sp.csr_array(data).astype(self.dtype, copy=False)
            data.sum_duplicates()
        self.rows, self.header, self.notes = int(data.shape[0]), header, []
        self._data, self._row_columns = data, list((row_columns or {}).values())
        self._lasting = lasting and not self._sparse

    def blocks(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        strings, start = [Strings(self._row_columns[j]()) for j in texts], 0
        every = features == list(range(self._data.shape[1]))
        for block in [self._data] if self._sparse else source_of(self._data).read(BLOCK):
            stop = start + block.shape[0]
            yield block if every else block[:, features], [s[start:stop].array for s in strings]
            start = stop

    def in_place(self, features: list[int]) -> Any:
        if not self._lasting or features != list(range(self._data.shape[1])):
            return None
        source = source_of(self._data)
        source.tells = False  # the notes of the table do so
        return source


def nameless(columns: int) -> Header:
    """Return the header of a matrix without names."""
    return Header(unnamed(check_columns(columns)), named=False, shown=False)


def float_type_of(shape: Any, dtype: Any) -> np.dtype:
    """Return the float type of a matrix; refuse other shapes, complex numbers and objects."""
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
