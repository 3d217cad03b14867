"""Refuse packed chunks that unpack to far more than they should, before they take memory."""

import asyncio
import bz2
import copy
import io
import lzma
import math
import mmap
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from .limits import RATIO_HELD, raised
from .table import TableError, pa

#: Bytes that are unpacked at a time.
PIECE = 2**20

#: A stage of a chunk may have TIMES the bytes of its numbers, and BESIDES more.
TIMES, BESIDES = 2, 2**20

#: The most bytes of text in a chunk.
TEXT = 2**26

#: Codecs that are unpacked here, by their names in pyarrow (which tells zlib from gzip by itself), and
#: codecs whose input says how long their output is.
STREAMS = {"zlib": "gzip", "gzip": "gzip", "zstd": "zstd", "bz2": "", "lzma": ""}
SIZED = {"zstd", "blosc", "lz4", "packbits", "astype", "delta", "fixedscaleoffset", "quantize"}

#: Larger HDF5 files are not searched for damaged heaps, which takes a second for each GB.
SEARCHED = 2**30

#: Filters of HDF5 by their numbers; deflate unpacks to at most 1,032 times its size.
DEFLATE, SHUFFLE, FLETCHER, SZIP, NBIT, SCALED = range(1, 7)
LZF, BLOSC, ZSTD = 32000, 32001, 32015
DEFLATE_RATIO = 1032


def limit_of(stored: int, declared: int, free: int) -> int:
    """Return how much a chunk may unpack to; refuse a chunk whose own size exceeds the limits."""
    limit = max(free, RATIO_HELD * stored)
    if declared > limit:
        raise TableError(
            f"a chunk of {stored:,} bytes unpacks to {declared:,}, more than {free >> 20} MB and than "
            f"{RATIO_HELD} times its size; write it in smaller chunks, or {raised(declared)}"
        )
    return min(limit, TIMES * declared + BESIDES)


def check_unpacked(size: int, stored: int, limit: int) -> None:
    """Refuse a chunk that unpacks to more than the limit."""
    if size > limit:
        raise TableError(
            f"a chunk of {stored:,} bytes unpacks to more than {limit:,}, which is more than it should "
            "hold; the file is damaged or means harm: write it again"
        )


def pieces(name: str, config: dict[str, Any], data: Any, limit: int) -> Iterator[bytes]:
    """Yield what a packed stream holds; refuse it beyond the limit."""
    total, stored = 0, memoryview(data).nbytes
    with _opened(name, config, data) as stream:
        while piece := stream.read(PIECE):
            check_unpacked(total := total + len(piece), stored, limit)
            yield piece


def _opened(name: str, config: dict[str, Any], data: Any) -> Any:
    if name == "lzma":
        form = config.get("format", lzma.FORMAT_XZ)
        filters = config.get("filters") if form == lzma.FORMAT_RAW else None
        return lzma.LZMAFile(io.BytesIO(data), format=form, filters=filters)
    if name == "bz2":  # pyarrow refuses empty streams
        return bz2.BZ2File(io.BytesIO(data))
    return pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), STREAMS[name])


def size_of(name: str, config: dict[str, Any], data: Any) -> int | None:
    """Return the bytes that a codec of SIZED will make; None where a frame of zstd does not say it."""
    packed = memoryview(data).cast("B")
    if name == "zstd":
        head = bytes(packed[:18])
        if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
            return None
        whole = head[4] >> 5 & 1
        start, width = 6 - whole + (0, 1, 2, 4)[head[4] & 3], (whole, 2, 4, 8)[head[4] >> 6]
        size = int.from_bytes(head[start : start + width], "little")
        return size + 256 * (width == 2) if width else None
    if name in ("blosc", "lz4"):
        start = 4 if name == "blosc" else 0
        return int.from_bytes(packed[start : start + 4], "little")
    if name == "packbits":
        return 8 * len(packed)
    kinds = [config.get(key) for key in ("encode_dtype", "astype", "decode_dtype", "dtype")]
    sizes = [np.dtype(kind).itemsize for kind in kinds if kind is not None]
    return len(packed) // max(1, sizes[0]) * sizes[-1] if sizes else len(packed)


def guarded_zarr(array: Any, free: int) -> Any:
    """Return an array of zarr whose codecs refuse chunks that unpack to more than they should."""
    itemsize = 0 if array.dtype.kind in "OT" else array.dtype.itemsize
    nbytes = math.prod(array.shards or array.chunks) * itemsize
    inner = array._async_array
    codecs = [_guarded(codec, nbytes, itemsize, free) for codec in inner.codec_pipeline]
    pipeline = type(inner.codec_pipeline).from_codecs(codecs)
    object.__setattr__(inner, "codec_pipeline", pipeline)
    return array


def _guarded(codec: Any, nbytes: int, itemsize: int, free: int) -> Any:
    """Return a codec that checks its input; ``nbytes`` are those of a chunk, 0 where it holds text."""

    def unpacked(name: str, config: dict[str, Any], data: Any) -> bytes | None:
        stored = memoryview(data).nbytes
        limit = limit_of(stored, nbytes, free) if nbytes else TEXT
        size = size_of(name, config, data) if name in SIZED else None
        if size is None and name in STREAMS:
            return b"".join(pieces(name, config, data, limit))
        check_unpacked(size or 0, stored, limit)
        return None  # the codec unpacks the data itself

    def stage(part: Any) -> Any:
        def decode(data: Any) -> Any:
            config = part.get_config()
            content = unpacked(config["id"], config, data)
            return part.decode(data) if content is None else content

        return part and SimpleNamespace(decode=decode)

    async def decode_single(chunk: Any, spec: Any) -> Any:
        data = chunk.as_numpy_array().reshape(-1, order="A")
        content = await asyncio.to_thread(unpacked, name, config, data)
        if content is None:
            return await codec._decode_single(chunk, spec)
        return spec.prototype.buffer.from_bytes(content)

    def evolved(array_spec: Any) -> Any:
        return _guarded(codec.evolve_from_array_spec(array_spec), nbytes, itemsize, free)

    if hasattr(codec, "compressor"):  # the second format of zarr
        stages = tuple(stage(part) for part in codec.filters or ())
        return type(codec)(stages, stage(codec.compressor))
    if hasattr(codec, "index_codecs"):  # chunks in shards
        inside = math.prod(codec.chunk_shape) * itemsize
        parts = tuple(_guarded(part, inside, itemsize, free) for part in codec.codecs)
        return replace(codec, codecs=parts)
    described = codec.to_dict()
    name = str(described["name"]).removeprefix("numcodecs.")
    config = described.get("configuration") or {}
    if name not in {*STREAMS, *SIZED}:
        return codec
    twin = copy.copy(codec)
    object.__setattr__(twin, "_decode_single", decode_single)
    object.__setattr__(twin, "evolve_from_array_spec", evolved)
    return twin


def check_heaps(file: BinaryIO, stored: int) -> None:
    """Refuse damaged heaps of strings, on which the HDF5 library loops for ever, in C.

    A heap is "GCOL", the version 1, its size at byte 8, and objects from byte 16 on: an index, which is
    0 for free space, and a size.
    """
    if stored > SEARCHED:
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(b"GCOL\x01")
        while start >= 0:
            end = start + int.from_bytes(content[start + 8 : start + 16], "little")
            place, sound = start + 16, start + 16 <= stored
            while sound and place + 16 <= end <= stored:
                index, size = struct.unpack_from("<H6xQ", content, place)
                step = 16 + -(-size // 8) * 8 if index else size
                sound = 0 < step <= end - place
                place += step
            if not sound or end > stored:
                raise TableError(
                    "the HDF5 file is damaged: a heap of strings does not end; write it again, or "
                    "copy it with h5repack"
                )
            start = content.find(b"GCOL\x01", start + 5)


def check_chunks(node: Any, free: int) -> None:
    """Refuse an array of HDF5 with a chunk that would unpack to more than it should.

    The library unpacks a chunk to its end, however long that is. A chunk that could exceed the limit
    is therefore unpacked once before, piece by piece.
    """
    if node.chunks is None:
        return
    given = node.id.get_create_plist()
    filters = [given.get_filter(i) for i in range(given.get_nfilters())]
    packing = [i for i, entry in enumerate(filters) if entry[0] not in (SHUFFLE, FLETCHER)]
    if not packing:
        return
    code, values = filters[packing[0]][0], filters[packing[0]][2]
    if len(packing) > 1 or code not in (DEFLATE, SZIP, NBIT, SCALED, LZF, BLOSC, ZSTD):
        numbers = ", ".join(str(filters[i][0]) for i in packing)
        raise TableError(
            f"the array is packed by the HDF5 filter(s) {numbers}, of which nothing tells how much "
            "they make; write it with gzip, or open it with h5py and give the data set to fit"
        )
    declared = math.prod(node.chunks) * node.dtype.itemsize
    chunks: list[Any] = []
    node.id.chunk_iter(chunks.append)
    for chunk in chunks:
        limit_of(chunk.size, declared, free)
        limit = max(free, RATIO_HELD * chunk.size)
        plain = chunk.filter_mask >> packing[0] & 1
        if plain or code == LZF or (code == DEFLATE and DEFLATE_RATIO * chunk.size <= limit):
            continue  # lzf makes at most 88 times its size
        if code in (NBIT, SCALED):
            check_unpacked(values[2] * values[4], chunk.size, limit)
            continue
        data = node.id.read_direct_chunk(tuple(chunk.chunk_offset))[1]
        # The first bytes of szip say its size, as those of lz4 do.
        name = {DEFLATE: "zlib", ZSTD: "zstd", BLOSC: "blosc", SZIP: "lz4"}[code]
        if name in SIZED and (size := size_of(name, {}, data)) is not None:
            check_unpacked(size, chunk.size, limit)
        else:
            with suppress(OSError):  # a checksum may follow the stream
                deque(pieces(name, {}, data, limit), maxlen=0)
