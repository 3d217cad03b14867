"""Rows of numbers as they come: held in memory, beyond a limit in a temporary file; and counted."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...operators import Blocks
from ...operators.files import ArraySource
from .table import TableError, counted, listed, shown

#: Memory is asked for in steps of so many bytes.
_STEP = 16 * 2**20


class Rows:
    """A float matrix that grows by blocks of rows.

    Beyond ``memory`` bytes it lies in a temporary file that has no name where the system allows,
    so that it is gone with the last reference to it, however the program ends.
    """

    def __init__(self, columns: int, dtype: Any, memory: int) -> None:
        self._data = np.empty((0, columns), dtype=dtype)
        self._memory, self._row_bytes = memory, columns * np.dtype(dtype).itemsize
        self._file: Any = None
        self._count = 0

    def append(self, block: np.ndarray) -> None:
        """Add the rows of a block."""
        count = self._count + len(block)
        if self._file is None and count * self._row_bytes > self._memory:
            self._file = tempfile.TemporaryFile(prefix="dualpca-")  # noqa: SIM115
            self._write(self._data[: self._count])
            self._data = self._data[:0].copy()
        if self._file is not None:
            self._write(block)
        else:
            if count > len(self._data):
                rows = max(count, len(self._data) + _STEP // self._row_bytes)
                # In place, where the system can: joining blocks at the end would need twice as much.
                self._data.resize((rows, self._data.shape[1]), refcheck=False)
            self._data[self._count : count] = block
        self._count = count

    def _write(self, block: np.ndarray) -> None:
        # Through the file and not a map of it, whose pages would count as memory in use.
        try:
            rows = np.ascontiguousarray(block, dtype=self._data.dtype)
            self._file.write(rows.reshape(-1).view(np.uint8).data)  # no copy in memory
        except OSError as error:
            size = counted(self._count, "row")
            raise TableError(
                f"the temporary folder {tempfile.gettempdir()!r} is full after {size} "
                f"({error.strerror}); set TMPDIR to a larger disk, or raise --memory"
            ) from error

    def finish(self, names: list[str] | None) -> Any:
        """The matrix, as an array; or as an operator that reads the file."""
        if self._file is None:
            self._data.resize((self._count, self._data.shape[1]), refcheck=False)
            return self._data
        self._file.flush()
        shape = (self._count, self._data.shape[1])
        file, self._file = self._file, None  # the source holds it now
        with file:
            return operator(MappedFile(file, shape, self._data.dtype), names)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


class MappedFile(ArraySource):
    """Rows in a temporary file, one behind the other, mapped; pages are let go as reading goes on.

    They would count as memory in use, all of them after one pass. What is let go while it is still
    worked on is mapped again from the system's cache.
    """

    def __init__(self, file: Any, shape: tuple[int, int], dtype: Any) -> None:
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # it holds the file
        super().__init__(np.frombuffer(self._map, dtype=dtype).reshape(shape))

    def read(self, block_bytes: int) -> Iterator[np.ndarray]:
        done = 0
        for block in super().read(block_bytes):
            yield block
            self._let_go(done - 2 * block.nbytes, done)  # one is worked on, one is read ahead
            done += block.nbytes
        self._let_go(0, done)

    def take(self, rows: np.ndarray) -> np.ndarray:
        found = super().take(rows)
        self._let_go(0, len(self._map))
        return found

    def _let_go(self, start: int, stop: int) -> None:
        start -= start % mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED") and stop > max(start, 0):
            self._map.madvise(mmap.MADV_DONTNEED, max(start, 0), stop - max(start, 0))


def operator(data: Any, names: list[str] | None, dtype: Any = None) -> Blocks:
    """The operator of data that is not in memory, with the names of its columns."""
    X = Blocks([data], dtype=dtype)
    X.names = names
    return X


class Tally:
    """Counts missing and infinite cells; ``place`` says where a row is, for the user."""

    def __init__(self, names: list[str], place: Callable[[int], str]) -> None:
        self._names, self._place = names, place
        self.seen = self.rows = 0
        self._missing = np.zeros(len(names), dtype=np.int64)
        self._infinite, self._first = 0, (0, 0)
        self._incomplete: list[np.ndarray] = []

    @property
    def cells(self) -> int:
        """Missing cells."""
        return int(self._missing.sum())

    @property
    def incomplete(self) -> np.ndarray:
        """The rows with missing cells, from 0."""
        return np.concatenate(self._incomplete or [np.zeros(0, dtype=np.int64)])

    def count(self, block: np.ndarray) -> np.ndarray | None:
        """Count a block; which of its rows are complete, None where all are."""
        start, complete = self.seen, None
        self.seen += len(block)
        # One number tells in nearly every case: a sum of finite entries seldom overflows.
        with np.errstate(over="ignore", invalid="ignore"):
            plain = bool(np.isfinite(block.sum()))
        if plain:
            return None
        infinite = np.isinf(block)
        if infinite.any():
            if not self._infinite:
                row, column = np.argwhere(infinite)[0]
                self._first = (start + int(row), int(column))
            self._infinite += int(infinite.sum())
        missing = np.isnan(block)
        if missing.any():
            self._missing += missing.sum(axis=0)
            complete = ~missing.any(axis=1)
            self._note(start, complete)
        return complete

    def count_sparse(self, X: Any) -> np.ndarray | None:
        """Count a CSR matrix; which of its rows are complete, None where all are."""
        self.seen += X.shape[0]
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        infinite, missing = np.isinf(X.data), np.isnan(X.data)
        if infinite.any():
            first = int(np.flatnonzero(infinite)[0])
            self._first = (int(rows[first]), int(X.indices[first]))
            self._infinite += int(infinite.sum())
        if not missing.any():
            return None
        np.add.at(self._missing, X.indices[missing], 1)
        complete = np.ones(X.shape[0], dtype=bool)
        complete[rows[missing]] = False
        self._note(0, complete)
        return complete

    def _note(self, start: int, complete: np.ndarray) -> None:
        self._incomplete.append(start + np.flatnonzero(~complete))
        self.rows += len(self._incomplete[-1])

    def refuse_infinite(self) -> None:
        """An error where there were infinite cells."""
        if self._infinite:
            row, column = self._first
            raise TableError(
                f"{counted(self._infinite, 'cell')} infinite or too large, the first in "
                f"{self._place(row)}, column {shown(self._names[column])}; correct the file, drop the "
                "column with --drop, or declare the value missing with --na"
            )

    def refuse_missing(self, exact: bool = False) -> None:
        """An error where there were missing cells; ``exact`` where a model knows its columns."""
        if self.cells:
            order = np.argsort(-self._missing, kind="stable")
            worst = (
                f"{shown(self._names[j])} ({self._missing[j]:,})"
                for j in order[self._missing[order] > 0]
            )
            raise TableError(
                f"{counted(self.cells, 'missing cell')} in {self.rows:,} of "
                f"{counted(self.seen, 'row')}, most in {listed(worst, 3)}; use --missing drop to "
                "leave these rows out, "
                + (
                    "or fit the model with --missing impute, which fills them"
                    if exact
                    else "--missing impute to fill them, or --drop for a column"
                )
            )
