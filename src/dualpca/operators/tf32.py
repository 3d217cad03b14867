"""TF32: float32 products on a GPU's matrix units, whose factors keep 10 bits of their mantissa."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from array_api_compat import is_cupy_array, is_torch_array

from ..linalg import Array
from .base import Operator, RowMap, View


@contextmanager
def matmul_precision(like: Array, kind: str) -> Iterator[None]:
    """float32 products of torch and cupy by "tf32" or "ieee"; afterwards as the user had them."""
    if is_torch_array(like):
        import torch

        flags: Any = torch.backends.cuda.matmul
        # Newer versions refuse a mixture of both names, and the new one restores the old one.
        name = "fp32_precision" if hasattr(flags, "fp32_precision") else "allow_tf32"
        before = getattr(flags, name)
        setattr(flags, name, kind if name == "fp32_precision" else kind == "tf32")
        try:
            yield
        finally:
            setattr(flags, name, before)
    elif is_cupy_array(like):
        from cupy._core import _routines_linalg as types

        before = types.get_compute_type("f")
        wanted = types.COMPUTE_TYPE_TF32 if kind == "tf32" else types.COMPUTE_TYPE_DEFAULT
        types.set_compute_type("f", wanted)
        try:
            yield
        finally:
            types.set_compute_type("f", before)
    else:
        yield


class Tf32(View):
    """X with its products in TF32: off by up to ``2^-10 |X| |W|``, for all but the last digits."""

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

    def sweep(self, W: Array, row_map: RowMap | None = None) -> Any:
        with matmul_precision(W, "tf32"):
            return self.X.sweep(W, row_map)

    def row_norms(self) -> Array:
        return self.X.row_norms()

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        return self.X.gram(weights, single=single)

    def kernel(self, *, single: bool = False) -> Array:
        return self.X.kernel(single=single)
