"""Some of the rows: what is left when outliers are dropped, or a sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_numpy_array

from ._blocks import stack
from .rows import Matrix, RowBlocked


class Selected(RowBlocked):
    """The rows of X where ``keep`` is true, taken from each block as it is read: no copy of X."""

    def __init__(self, X: RowBlocked, keep: np.ndarray) -> None:
        self._keep = np.asarray(keep, dtype=bool)
        super().__init__((int(self._keep.sum()), X.shape[1]), X.dtype, X._counter)
        self._base = X
        self.asarray = X.asarray  # type: ignore[method-assign]

    @property
    def sparse(self) -> bool:
        return self._base.sparse

    @property
    def entries(self) -> int:
        return self._base.entries * self.shape[0] // max(1, self._base.shape[0])

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        start = 0
        for rows, block in self._base.blocks(factor):
            keep = np.nonzero(self._keep[rows])[0]
            if len(keep) == 0:
                continue
            if len(keep) < block.shape[0]:
                block = block[keep] if sp.issparse(block) else _take(block, keep)
            yield slice(start, start + len(keep)), block
            start += len(keep)

    def gathered(self) -> Matrix:
        """The rows as one matrix in memory; of an array nothing else is read."""
        read = self.blocks if isinstance(self._base, Matrix) else self._read
        blocks = [block for _, block in read()]
        return Matrix(sp.vstack(blocks, format="csr") if self.sparse else stack(blocks))


def _take(block: Any, keep: np.ndarray) -> Any:
    if is_numpy_array(block):
        return block[keep]
    xp = array_namespace(block)
    return xp.take(block, xp.asarray(keep, device=device(block)), axis=0)
