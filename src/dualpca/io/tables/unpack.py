"""Unpack within limits: a stream of packed bytes may hold far more than its file says."""

from __future__ import annotations

import bz2
import io
import lzma
from collections.abc import Iterator
from typing import Any

import numpy as np

from .limits import FREE, RATIO_HELD, raised
from .table import TableError, module

#: Bytes that are unpacked at a time.
PIECE = 2**20

#: A stage of a chunk may have TIMES the bytes of its numbers, and BESIDES more.
TIMES, BESIDES = 2, 2**20

#: The most bytes of text in a chunk.
TEXT = 2**26

#: Codecs whose output is unpacked here, by the name that pyarrow has for them (which tells zlib from
#: gzip by itself); and those whose output is as long as their input says.
STREAMS = {"zlib": "gzip", "gzip": "gzip", "zstd": "zstd", "bz2": "", "lzma": ""}
SIZED = {"zstd", "blosc", "lz4", "packbits", "astype", "delta", "fixedscaleoffset", "quantize"}


def limit_of(stored: int, declared: int, free: int = FREE) -> int:
    """Return how much a chunk may unpack to; refuse it where its own size is beyond the limits."""
    limit = max(free, RATIO_HELD * stored)
    if declared > limit:
        raise TableError(
            f"a chunk of {stored:,} bytes unpacks to {declared:,}, more than {free >> 20} MB and than "
            f"{RATIO_HELD} times its size; write it in smaller chunks, or {raised(declared)}"
        )
    return min(limit, TIMES * declared + BESIDES)


def pieces(name: str, config: dict[str, Any], data: Any, limit: int) -> Iterator[bytes] | None:
    """Return what packed bytes hold, refused beyond a limit; None where the codec may unpack them."""
    stored = len(memoryview(data).cast("B"))
    if name in SIZED and (size := size_of(name, config, data)) is not None:
        if size > limit:
            raise refusal(stored, limit)
        return None

    def read() -> Iterator[bytes]:
        total = 0
        with _opened(name, config, data) as stream:
            while piece := stream.read(PIECE):
                total += len(piece)
                if total > limit:
                    raise refusal(stored, limit)
                yield piece

    return read()


def refusal(stored: int, limit: int) -> TableError:
    return TableError(
        f"a chunk of {stored:,} bytes unpacks to more than {limit:,}, which is more than it should "
        "hold; the file is damaged or means harm: write it again"
    )


def _opened(name: str, config: dict[str, Any], data: Any) -> Any:
    if name == "lzma":
        form = config.get("format", lzma.FORMAT_XZ)
        filters = config.get("filters") if form == lzma.FORMAT_RAW else None
        return lzma.LZMAFile(io.BytesIO(data), format=form, filters=filters)
    if name == "bz2":  # pyarrow refuses streams of nothing
        return bz2.BZ2File(io.BytesIO(data))
    pa = module("pyarrow")
    return pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), STREAMS[name])


def size_of(name: str, config: dict[str, Any], data: Any) -> int | None:
    """Return the bytes that a codec will make, told by its input or by types; None if nothing tells."""
    packed = memoryview(data).cast("B")
    if name == "zstd":
        return _zstd_size(bytes(packed[:18]))
    if name == "blosc":
        return int.from_bytes(packed[4:8], "little")
    if name == "lz4":
        return int.from_bytes(packed[:4], "little")
    if name == "packbits":
        return 8 * len(packed)
    kinds = [config.get(key) for key in ("encode_dtype", "astype", "decode_dtype", "dtype")]
    sizes = [np.dtype(kind).itemsize for kind in kinds if kind is not None]
    return len(packed) // max(1, sizes[0]) * sizes[-1] if sizes else len(packed)


def _zstd_size(head: bytes) -> int | None:
    """Return the size in the header of the first frame of zstd, None where it has none."""
    if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
        return None
    whole = head[4] >> 5 & 1
    start = 6 - whole + (0, 1, 2, 4)[head[4] & 3]
    width = (whole, 2, 4, 8)[head[4] >> 6]
    size = int.from_bytes(head[start : start + width], "little")
    return None if not width else size + 256 * (width == 2)
