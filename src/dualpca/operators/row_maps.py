"""Blocks made from those of another operator as they are read: nothing is copied or stored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from ..linalg import Array
from .block_ops import GRAM_FACTOR, block_rows, stack, sum_up, take
from .row_blocks import BlockMap, RowBlocked

#: From ``rows, block`` of one operator to those of another: one or more of them.
Turn = Callable[[slice, Any], Iterable[tuple[slice, Any]]]


class Derived(RowBlocked):
    """Rows that are functions of the rows of X, block by block."""

    def __init__(self, X: RowBlocked, shape: tuple[int, int], dtype: Any = None) -> None:
        super().__init__(shape, X.dtype if dtype is None else dtype, X._counter)
        self._base = X
        self.asarray = X.asarray  # type: ignore[method-assign]
        self.row_vector = X.row_vector  # type: ignore[method-assign]
        self.persist_rows = X.persist_rows  # type: ignore[method-assign]

    @property
    def sparse(self) -> bool:
        return self._base.sparse

    @property
    def is_distributed(self) -> bool:
        return self._base.is_distributed

    @property
    def read_seconds(self) -> float:
        return self._base.read_seconds

    @abstractmethod
    def _turn(self) -> Turn:
        """The function of blocks, which may travel: it holds no more than it needs."""

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        turn = self._turn()
        for rows, block in self._base.blocks(factor):
            yield from turn(rows, block)

    def _each(self, f: BlockMap, factor: int = 1) -> Iterable[Any]:
        turn = self._turn()
        return chain.from_iterable(
            self._base._each(lambda rows, block: [f(*part) for part in turn(rows, block)], factor)
        )

    def sum_blocks(self, f: BlockMap, factor: int = 1) -> tuple[Any, ...]:
        turn = self._turn()
        return self._base.sum_blocks(
            lambda rows, block: sum_up(f(*part) for part in turn(rows, block)), factor
        )

    def map_rows(self, f: BlockMap, columns: int | None = None) -> Array:
        turn = self._turn()
        return self._base.map_rows(
            lambda rows, block: stack([f(*part) for part in turn(rows, block)]), columns
        )


class Selected(Derived):
    """The rows of X where ``keep`` is true: what is left when outliers are dropped."""

    def __init__(self, X: RowBlocked, keep: np.ndarray) -> None:
        self._keep = np.asarray(keep, dtype=bool)
        super().__init__(X, (int(self._keep.sum()), X.shape[1]))

    @property
    def entries(self) -> int:
        return self._base.entries * self.shape[0] // max(1, self._base.shape[0])

    def _turn(self) -> Turn:
        keep, before = self._keep, np.concatenate([[0], np.cumsum(self._keep)])

        def turn(rows: slice, block: Any) -> list[tuple[slice, Any]]:
            chosen = np.nonzero(keep[rows])[0]
            new = slice(int(before[rows.start]), int(before[rows.stop]))
            return [(new, block if len(chosen) == block.shape[0] else take(block, chosen))]

        return turn

    def take(self, rows: np.ndarray) -> Any:
        return self._base.take(np.flatnonzero(self._keep)[rows])


class Mapped(Derived):
    """``phi(X)``: each block of rows through a function, such as a feature map, in each pass."""

    def __init__(self, X: RowBlocked, phi: Callable[[Any], Any], columns: int, dtype: Any) -> None:
        super().__init__(X, (X.shape[0], columns), dtype)
        self._phi = phi

    @property
    def sparse(self) -> bool:
        return False

    def _turn(self) -> Turn:
        phi = self._phi
        step = block_rows(self.shape[1], np.dtype(self.dtype).itemsize, GRAM_FACTOR)

        def turn(rows: slice, block: Any) -> Iterator[tuple[slice, Any]]:
            for i in range(0, block.shape[0], step):
                part = block[i : i + step]
                yield slice(rows.start + i, rows.start + i + part.shape[0]), phi(part)

        return turn

    # A function of rows costs more for each call than for each row.
    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        return super().blocks(GRAM_FACTOR)

    def _each(self, f: BlockMap, factor: int = 1) -> Iterable[Any]:
        return super()._each(f, GRAM_FACTOR)

    def sum_blocks(self, f: BlockMap, factor: int = 1) -> tuple[Any, ...]:
        return super().sum_blocks(f, GRAM_FACTOR)
