"""Rows that are functions of the rows of another operator, block by block as these are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..linalg import Array
from .base import SweepMap
from .block_ops import GRAM_FACTOR, block_rows, stack, sum_up, take
from .row_blocks import BlockFunction, RowBlocked
from .views import View

#: From ``rows, block`` of one operator to those of another: one or more of them.
BlockMap = Callable[[slice, Any], Iterable[tuple[slice, Any]]]


class RowMap(View, RowBlocked):
    """Rows that are functions of the rows of X, computed from each block as it is read.

    ``block_map`` may travel to other machines: it must hold no more than it needs.
    """

    X: RowBlocked

    def __init__(
        self, X: RowBlocked, shape: tuple[int, int], block_map: BlockMap, dtype: Any = None
    ) -> None:
        RowBlocked.__init__(self, shape, X.dtype if dtype is None else dtype, X._counter)
        View.__init__(self, X, shape, dtype)
        self.explicit_rows = X.explicit_rows
        self._block_map = block_map

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        for rows, block in self.X.blocks(factor):
            yield from self._block_map(rows, block)

    def sum_blocks(self, f: BlockFunction, factor: int = 1) -> tuple[Any, ...]:
        block_map = self._block_map
        return self.X.sum_blocks(
            lambda rows, block: sum_up(f(*part) for part in block_map(rows, block)), factor
        )

    def map_rows(self, f: BlockFunction, columns: int | None = None) -> Array:
        block_map = self._block_map
        return self.X.map_rows(
            lambda rows, block: stack([f(*part) for part in block_map(rows, block)]), columns
        )

    def rowwise(self, W: Array, f: SweepMap) -> Array:
        return self.map_rows(lambda rows, block: f(block @ W, rows))


class Selected(RowMap):
    """The rows of X where ``keep`` is true: what is left when outliers are dropped."""

    def __init__(self, X: RowBlocked, keep: np.ndarray) -> None:
        keep = np.asarray(keep, dtype=bool)
        before = np.concatenate([[0], np.cumsum(keep)])

        def select(rows: slice, block: Any) -> list[tuple[slice, Any]]:
            chosen = np.nonzero(keep[rows])[0]
            new = slice(int(before[rows.start]), int(before[rows.stop]))
            return [(new, block if len(chosen) == block.shape[0] else take(block, chosen))]

        super().__init__(X, (int(keep.sum()), X.shape[1]), select)
        self._rows = np.flatnonzero(keep)

    def take(self, rows: np.ndarray) -> Any:
        return self.X.take(self._rows[rows])


class Columns(RowMap):
    """The columns ``features`` of X, taken from each block as it is read: no copy of X."""

    def __init__(self, X: RowBlocked, features: np.ndarray) -> None:
        def select(rows: slice, block: Any) -> list[tuple[slice, Any]]:
            return [(rows, take(block, features, axis=1))]

        super().__init__(X, (X.shape[0], len(features)), select)


class Mapped(RowMap):
    """``phi(X)``: each block of rows through a function, such as a feature map, in each pass."""

    def __init__(self, X: RowBlocked, phi: Callable[[Any], Any], columns: int, dtype: Any) -> None:
        step = block_rows(columns, np.dtype(dtype).itemsize, GRAM_FACTOR)

        def apply(rows: slice, block: Any) -> Iterator[tuple[slice, Any]]:
            for i in range(0, block.shape[0], step):
                part = block[i : i + step]
                yield slice(rows.start + i, rows.start + i + part.shape[0]), phi(part)

        super().__init__(X, (X.shape[0], columns), apply, dtype)

    @property
    def sparse(self) -> bool:
        return False

    @property
    def entries(self) -> int:
        return self.shape[0] * self.shape[1]

    # A function of rows costs more for each call than for each row.
    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        return super().blocks(GRAM_FACTOR)

    def sum_blocks(self, f: BlockFunction, factor: int = 1) -> tuple[Any, ...]:
        return super().sum_blocks(f, GRAM_FACTOR)
