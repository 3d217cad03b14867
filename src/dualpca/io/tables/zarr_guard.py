"""Arrays of zarr whose codecs refuse what unpacks to more than it should; imported where zarr is."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from typing import Any

from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.codecs._v2 import V2Codec

from . import unpack


def guarded(array: Any, free: int) -> Any:
    """The same array, with codecs that keep to the limits."""
    inner = array._async_array
    pipeline = inner.codec_pipeline
    codecs = [_guarded(codec, free) for codec in pipeline]
    object.__setattr__(inner, "codec_pipeline", type(pipeline).from_codecs(codecs))
    return array


def _guarded(codec: Any, free: int) -> Any:
    if isinstance(codec, V2Codec):
        return SecondFormat(codec.filters, codec.compressor, free)
    if hasattr(codec, "index_codecs"):  # chunks in shards
        return replace(codec, codecs=tuple(_guarded(part, free) for part in codec.codecs))
    told = codec.to_dict()
    name = str(told["name"]).removeprefix("numcodecs.")
    if name not in unpack.GROW:
        return codec
    kind = OfBytes if isinstance(codec, BytesBytesCodec) else OfArrays
    return kind(codec, name, told.get("configuration") or {}, free)


def _limit(stored: int, spec: Any, free: int) -> int:
    """How much a chunk of that shape and type may unpack to."""
    dtype = spec.dtype.to_native_dtype()
    if dtype.kind in "OT":
        return unpack.TEXT
    return unpack.most(stored, math.prod(spec.shape) * dtype.itemsize, free)


class Stage:
    """A codec of numcodecs, whose input is looked at first."""

    def __init__(self, codec: Any, limit: int) -> None:
        self._codec, self._limit = codec, limit

    def decode(self, data: Any) -> Any:
        config = self._codec.get_config()
        if config["id"] not in unpack.GROW:
            return self._codec.decode(data)
        found = unpack.unpacked(config["id"], config, data, self._limit)
        return self._codec.decode(data) if found is None else found


@dataclass(frozen=True)
class SecondFormat(V2Codec):
    """Compressor and filters of the second format of zarr."""

    free: int = 0

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        limit = _limit(len(chunk_bytes), chunk_spec, self.free)
        first: Any = self.compressor and Stage(self.compressor, limit)
        others: Any = tuple(Stage(codec, limit) for codec in self.filters or ())
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
        found = await asyncio.to_thread(unpack.unpacked, self.name, self.config, data, limit)
        if found is None:
            return await self.codec._decode_single(chunk, spec)
        return spec.prototype.buffer.from_bytes(found)

    def evolve_from_array_spec(self, array_spec: Any) -> Any:
        return replace(self, codec=self.codec.evolve_from_array_spec(array_spec))

    def resolve_metadata(self, chunk_spec: Any) -> Any:
        return self.codec.resolve_metadata(chunk_spec)

    def compute_encoded_size(self, length: int, spec: Any) -> int:
        return self.codec.compute_encoded_size(length, spec)

    def to_dict(self) -> Any:
        return self.codec.to_dict()


class OfBytes(Guarded, BytesBytesCodec):
    """One that packs bytes."""


class OfArrays(Guarded, ArrayArrayCodec):
    """One that changes the numbers."""
