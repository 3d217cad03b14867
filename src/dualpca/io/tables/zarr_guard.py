"""Arrays of zarr whose codecs refuse chunks that unpack to more than they should.

This module imports zarr; it is imported where a zarr is read.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.codecs._v2 import V2Codec

from . import unpack


def guarded(array: Any, free: int) -> Any:
    """Return the same array, with codecs that keep to the limits."""
    inner = array._async_array
    codecs = [_guarded(codec, free) for codec in inner.codec_pipeline]
    pipeline = type(inner.codec_pipeline).from_codecs(codecs)
    object.__setattr__(inner, "codec_pipeline", pipeline)
    return array


def _guarded(codec: Any, free: int) -> Any:
    if isinstance(codec, V2Codec):
        return GuardedV2(codec.filters, codec.compressor, free)
    if hasattr(codec, "index_codecs"):  # chunks in shards
        return replace(codec, codecs=tuple(_guarded(part, free) for part in codec.codecs))
    described = codec.to_dict()
    name = str(described["name"]).removeprefix("numcodecs.")
    if name not in {*unpack.STREAMS, *unpack.SIZED}:
        return codec
    kind = GuardedBytes if isinstance(codec, BytesBytesCodec) else GuardedArray
    return kind(codec, name, described.get("configuration") or {}, free)


def _limit(stored: int, spec: Any, free: int) -> int:
    dtype = spec.dtype.to_native_dtype()
    if dtype.kind in "OT":
        return unpack.TEXT
    return unpack.limit_of(stored, math.prod(spec.shape) * dtype.itemsize, free)


def _unpacked(name: str, config: dict[str, Any], data: Any, limit: int) -> bytes | None:
    pieces = unpack.pieces(name, config, data, limit)
    return None if pieces is None else b"".join(pieces)


def _stage(codec: Any, limit: int) -> Any:
    """Return a codec of numcodecs that checks its input first."""

    def decode(data: Any) -> Any:
        config = codec.get_config()
        known = config["id"] in {*unpack.STREAMS, *unpack.SIZED}
        content = _unpacked(config["id"], config, data, limit) if known else None
        return codec.decode(data) if content is None else content

    return SimpleNamespace(decode=decode)


@dataclass(frozen=True)
class GuardedV2(V2Codec):
    """The compressor and the filters of the second format of zarr."""

    free: int = 0

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        limit = _limit(len(chunk_bytes), chunk_spec, self.free)
        first: Any = self.compressor and _stage(self.compressor, limit)
        others: Any = tuple(_stage(codec, limit) for codec in self.filters or ())
        return await V2Codec(others, first)._decode_single(chunk_bytes, chunk_spec)


@dataclass(frozen=True)
class Guarded:
    """A codec of the third format of zarr."""

    codec: Any
    name: str
    config: dict[str, Any]
    free: int

    is_fixed_size = False

    async def _decode_single(self, chunk: Any, spec: Any) -> Any:
        data = chunk.as_numpy_array().reshape(-1, order="A")
        limit = _limit(data.nbytes, spec, self.free)
        content = await asyncio.to_thread(_unpacked, self.name, self.config, data, limit)
        if content is None:
            return await self.codec._decode_single(chunk, spec)
        return spec.prototype.buffer.from_bytes(content)

    def evolve_from_array_spec(self, array_spec: Any) -> Any:
        return replace(self, codec=self.codec.evolve_from_array_spec(array_spec))

    def resolve_metadata(self, chunk_spec: Any) -> Any:
        return self.codec.resolve_metadata(chunk_spec)

    def compute_encoded_size(self, length: int, spec: Any) -> int:
        return self.codec.compute_encoded_size(length, spec)

    def to_dict(self) -> Any:
        return self.codec.to_dict()


class GuardedBytes(Guarded, BytesBytesCodec):
    """A codec that packs bytes."""


class GuardedArray(Guarded, ArrayArrayCodec):
    """A codec that changes the numbers."""
