"""Rows in the memory of the host or in files, multiplied on a device that cannot hold them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ..linalg import Array
from .base import Operator
from .block_ops import block_rows
from .files import ahead
from .row_blocks import RowBlocked

#: A device multiplies blocks that are so many times larger than a cache.
FACTOR = 32


#: Bytes a second that go from the host to the device.
COPYING = 2e10


class OnDevice(RowBlocked):
    """X, each block of which is copied to a torch device once per pass.

    The next block is read, staged in pinned memory and copied while the device multiplies the one
    before; three blocks of about 128 MB are on the device at a time.
    """

    def __init__(self, X: Operator, device: Any) -> None:
        if (
            not isinstance(X, RowBlocked)
            or X.sparse
            or X.is_distributed
            or not isinstance(X.dtype, np.dtype)
        ):
            raise ValueError(
                f"device={device!r} takes dense numpy data and files, not {X!r}; leave device out"
            )
        self._base, self._device = X, torch.device(device)
        super().__init__(X.shape, getattr(torch, str(np.dtype(X.dtype))), X._counter)

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        if self._device.type == "cpu":
            for rows, block in self._base.blocks(FACTOR):
                yield rows, _tensor(block)
            return
        stream = torch.cuda.current_stream(self._device)
        for rows, block, copied in ahead(self._copies()):
            stream.wait_event(copied)
            block.record_stream(stream)  # its memory is used again after the products only
            yield rows, block

    def _copies(self) -> Iterator[tuple[slice, Any, Any]]:
        """Blocks on their way to the device, and the event of their arrival."""
        stream = torch.cuda.Stream(self._device)
        rows_at_once = block_rows(self.shape[1], self.dtype.itemsize, FACTOR)
        shape = (min(rows_at_once, self.shape[0]), self.shape[1])
        staged = [torch.empty(shape, dtype=self.dtype, pin_memory=True) for _ in range(2)]
        sent: list[Any] = [None, None]
        for i, (rows, block) in enumerate(self._base.blocks(FACTOR)):
            k = i % 2
            if sent[k] is not None:
                sent[k].synchronize()
            buffer = staged[k][: block.shape[0]].copy_(_tensor(block))
            with torch.cuda.stream(stream):
                moved = buffer.to(self._device, non_blocking=True)
                sent[k] = stream.record_event()
            yield rows, moved, sent[k]

    @property
    def read_seconds(self) -> float:
        return max(self._base.read_seconds, math.prod(self.shape) * self.dtype.itemsize / COPYING)

    def take(self, rows: np.ndarray) -> Any:
        return self.asarray(self._base.take(rows))

    def asarray(self, values: Any) -> Array:
        if not isinstance(values, torch.Tensor):
            values = torch.from_numpy(np.array(values))
        return values.to(device=self._device, dtype=self.dtype)


def _tensor(block: np.ndarray) -> Any:
    """A tensor on the memory of an array, which is only read: torch would warn where it must be."""
    if block.flags.writeable:
        return torch.from_numpy(block)
    if not block.flags.c_contiguous:
        return torch.from_numpy(block.copy())
    memory: Any = (ctypes.c_char * block.nbytes).from_address(block.ctypes.data)
    return torch.from_numpy(np.frombuffer(memory, block.dtype).reshape(block.shape))
