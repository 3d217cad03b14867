"""GPUs: rows of the host that are multiplied on a device, and products in TF32."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import is_cupy_array, is_torch_array

from ..linalg import Array
from .base import Operator
from .block_ops import block_rows
from .files import ahead
from .row_blocks import RowBlocked
from .sweep_maps import SweepMap
from .views import View

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
        import torch

        on_host = isinstance(X.dtype, np.dtype) and not (X.sparse or X.is_distributed)
        if not (X.explicit_rows and on_host):
            raise ValueError(
                f"device={device!r} takes dense numpy data and files, not {X!r}; leave device out"
            )
        self._host, self._device = X, torch.device(device)
        super().__init__(X.shape, getattr(torch, str(np.dtype(X.dtype))), X._counter)
        copying = math.prod(self.shape) * self.dtype.itemsize / COPYING
        self.read_seconds = max(X.read_seconds, copying)

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        import torch

        if self._device.type == "cpu":
            for rows, block in self._host.blocks(FACTOR):
                yield rows, _tensor(block)
            return
        stream = torch.cuda.current_stream(self._device)
        for rows, block, copied in ahead(self._copies()):
            stream.wait_event(copied)
            block.record_stream(stream)  # its memory is used again after the products only
            yield rows, block

    def _copies(self) -> Iterator[tuple[slice, Any, Any]]:
        """Yield blocks on their way to the device, and the event of their arrival."""
        import torch

        stream = torch.cuda.Stream(self._device)
        rows_at_once = block_rows(self.shape[1], self.dtype.itemsize, FACTOR)
        shape = (min(rows_at_once, self.shape[0]), self.shape[1])
        staged = [torch.empty(shape, dtype=self.dtype, pin_memory=True) for _ in range(2)]
        sent: list[Any] = [None, None]
        for i, (rows, block) in enumerate(self._host.blocks(FACTOR)):
            k = i % 2
            if sent[k] is not None:
                sent[k].synchronize()
            buffer = staged[k][: block.shape[0]].copy_(_tensor(block))
            with torch.cuda.stream(stream):
                moved = buffer.to(self._device, non_blocking=True)
                sent[k] = stream.record_event()
            yield rows, moved, sent[k]

    def take(self, rows: np.ndarray) -> Any:
        return self.asarray(self._host.take(rows))

    def asarray(self, values: Any) -> Array:
        import torch

        if not isinstance(values, torch.Tensor):
            values = torch.from_numpy(np.array(values))
        return values.to(device=self._device, dtype=self.dtype)


def _tensor(block: np.ndarray) -> Any:
    """Return a tensor on the memory of an array; torch would warn of read-only memory."""
    import torch

    if block.flags.writeable:
        return torch.from_numpy(block)
    if not block.flags.c_contiguous:
        return torch.from_numpy(block.copy())
    memory: Any = (ctypes.c_char * block.nbytes).from_address(block.ctypes.data)
    return torch.from_numpy(np.frombuffer(memory, block.dtype).reshape(block.shape))


@contextmanager
def matmul_precision(like: Array, kind: str) -> Iterator[None]:
    """Compute float32 products of torch and cupy by "tf32" or "ieee" in this context.

    TF32 products run on a GPU's matrix units; their factors keep 10 bits of the mantissa.
    """
    if is_torch_array(like):
        import torch

        flags: Any = torch.backends.cuda.matmul
        # Newer versions refuse a mixture of both names, and the new one restores the old one.
        name = "fp32_precision" if hasattr(flags, "fp32_precision") else "allow_tf32"
        before, set_to = getattr(flags, name), partial(setattr, flags, name)
        set_to(kind if name == "fp32_precision" else kind == "tf32")
    elif is_cupy_array(like):
        from cupy._core import _routines_linalg as types

        before, set_to = types.get_compute_type("f"), partial(types.set_compute_type, "f")
        set_to(types.COMPUTE_TYPE_TF32 if kind == "tf32" else types.COMPUTE_TYPE_DEFAULT)
    else:
        yield
        return
    try:
        yield
    finally:
        set_to(before)


class Tf32(View):
    """X for solvers that only multiply, with products in TF32: off by up to ``2^-10 |X| |W|``."""

    precision = "tf32"

    @property
    def T(self) -> Operator:
        return self.__dict__.setdefault("_transposed", Tf32(self.X.T))

    def matmul(self, W: Array) -> Array:
        with matmul_precision(W, "tf32"):
            return self.X.matmul(W)

    def rmatmul(self, H: Array) -> Array:
        with matmul_precision(H, "tf32"):
            return self.X.rmatmul(H)

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        with matmul_precision(W, "tf32"):
            return self.X.sweep(W, row_map)

    def take(self, rows: np.ndarray) -> Any:
        return self.X.take(rows)
