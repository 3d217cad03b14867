"""Unpacking within limits: a stream of packed bytes may hold far more than its file says."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .limits import FREE, RATIO_HELD, raised
from .table import TableError

#: Bytes that are fed to an unpacker at a time, and bytes that it gives back.
FED, PIECE = 2**14, 2**20

#: Deflate never unpacks to more than so many times its size.
DEFLATE = 1032

#: A stage of a chunk may have so many times the bytes of its numbers, and so many besides.
TIMES, BESIDES = 2, 2**20

#: Bytes of text in a chunk.
TEXT = 2**26


def most(stored: int, declared: int, free: int = FREE) -> int:
    """How much a chunk may unpack to; refused where its own size is beyond the limits."""
    limit = max(free, RATIO_HELD * stored)
    if declared > limit:
        raise TableError(
            f"a chunk of {stored:,} bytes unpacks to {declared:,}, more than {free >> 20} MB and than "
            f"{RATIO_HELD} times its size; write it in smaller chunks, or {raised(declared)}"
        )
    return min(limit, TIMES * declared + BESIDES)


def too_much(stored: int, limit: int) -> TableError:
    """What to raise where a stream goes on beyond its limit."""
    return TableError(
        f"a chunk of {stored:,} bytes unpacks to more than {limit:,}, which is more than it should "
        "hold; the file is damaged or means harm: write it again"
    )


class _Inflate:
    """zlib with the interface of bz2 and lzma."""

    def __init__(self, wbits: int) -> None:
        self._inflate = zlib.decompressobj(wbits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inflate, name)

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail

    def decompress(self, data: bytes, length: int) -> bytes:
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, length)


def pieces(make: Callable[[], Any], data: Any) -> Iterator[bytes]:
    """What packed bytes hold, piece by piece; streams one after the other, what follows left out."""
    data, start, streams = memoryview(data).cast("B"), 0, 0
    while start < len(data):
        machine = make()
        try:
            while not machine.eof:
                feed = bytes(data[start : start + FED]) if machine.needs_input else b""
                start += len(feed)
                piece = machine.decompress(feed, PIECE)
                if piece:
                    yield piece
                elif not feed and start >= len(data) and not machine.eof:
                    raise EOFError("the packed bytes are cut short")
        except (OSError, EOFError, zlib.error, lzma.LZMAError):
            if not streams:
                raise
            return
        streams += 1
        start -= len(machine.unused_data)


def _zstd(data: Any) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd") as stream:
        while piece := stream.read(PIECE):
            yield piece


def zstd_size(data: Any) -> int | None:
    """What the first frame of zstd says it holds; None where it does not."""
    head = bytes(memoryview(data).cast("B")[:18])
    if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
        return None
    whole = head[4] >> 5 & 1
    start = 6 - whole + (0, 1, 2, 4)[head[4] & 3]
    width = (whole, 2, 4, 8)[head[4] >> 6]
    size = int.from_bytes(head[start : start + width], "little")
    return None if not width else size + 256 * (width == 2)


def _lzma(config: dict[str, Any], limit: int) -> Callable[[], Any]:
    form = config.get("format", lzma.FORMAT_XZ)
    if form == lzma.FORMAT_RAW:
        return partial(lzma.LZMADecompressor, form, filters=config.get("filters"))
    return partial(lzma.LZMADecompressor, form, memlimit=max(FREE, 2 * limit))


def _stream(name: str, config: dict[str, Any], data: Any, limit: int) -> Iterator[bytes] | None:
    """What packed bytes hold in pieces; None where they tell their size."""
    if name in ("zlib", "gzip"):
        return pieces(partial(_Inflate, 15 if name == "zlib" else 31), data)
    if name == "bz2":
        return pieces(bz2.BZ2Decompressor, data)
    if name == "lzma":
        return pieces(_lzma(config, limit), data)
    return _zstd(data) if name == "zstd" and zstd_size(data) is None else None


def unpacked(name: str, config: dict[str, Any], data: Any, limit: int) -> bytearray | None:
    """What packed bytes hold, refused beyond a limit; None where the codec may unpack them itself."""
    stream, stored, found = _stream(name, config, data, limit), _length(data), bytearray()
    if stream is None:
        if told(name, config, data) > limit:
            raise too_much(stored, limit)
        return None
    for piece in stream:
        found += piece
        if len(found) > limit:
            raise too_much(stored, limit)
    return found


def counted(name: str, data: Any, limit: int) -> int:
    """The bytes that packed ones hold, counted until they are beyond a limit."""
    stream, size = _stream(name, {}, data, limit), 0
    if stream is None:
        return told(name, {}, data)
    for piece in stream:
        size += len(piece)
        if size > limit:
            break
    return size


def _length(data: Any) -> int:
    return len(memoryview(data).cast("B"))


def told(name: str, config: dict[str, Any], data: Any) -> int:
    """The bytes that a codec will make: told at the start of its input, or by the types of numbers."""
    packed = memoryview(data).cast("B")
    if name == "zstd":
        return zstd_size(data) or 0
    if name == "blosc":
        return int.from_bytes(packed[4:8], "little")
    if name == "lz4":
        return int.from_bytes(packed[:4], "little")
    if name == "packbits":
        return 8 * len(packed)
    kinds = [config.get(key) for key in ("encode_dtype", "astype", "decode_dtype", "dtype")]
    sizes = [np.dtype(kind).itemsize for kind in kinds if kind is not None]
    return len(packed) // max(1, sizes[0]) * sizes[-1] if sizes else len(packed)


#: The codecs of zarr that :func:`unpacked` knows; of the others none makes more of less.
GROW = {
    *("zlib", "gzip", "bz2", "lzma", "zstd", "blosc", "lz4", "packbits"),
    *("astype", "delta", "fixedscaleoffset", "quantize"),
}
