"""Refuse HDF5 files that the HDF5 library would unpack without end, or never come to an end with."""

from __future__ import annotations

import io
import math
import mmap
import struct
from collections import deque
from contextlib import suppress
from typing import Any, BinaryIO

from .limits import RATIO_HELD
from .table import TableError
from .unpack import limit_of, pieces, refusal

#: Larger files are not searched for damaged heaps, which takes a second for each GB.
SEARCHED = 2**30

#: Filters of HDF5 by their numbers; deflate unpacks to at most 1,032 times its size.
DEFLATE, SHUFFLE, FLETCHER, SZIP, NBIT, SCALED, LZF, BLOSC, ZSTD = (
    *range(1, 7),
    32000,
    32001,
    32015,
)
DEFLATE_RATIO = 1032


def check_heaps(file: BinaryIO, stored: int) -> None:
    """Refuse damaged heaps of strings, on which the HDF5 library goes round for ever, in C."""
    if stored > SEARCHED:
        return
    try:
        content: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except io.UnsupportedOperation:  # in memory
        return
    with content:
        start = content.find(b"GCOL\x01")
        while start >= 0:
            if not _heap_ends(content, start):
                raise TableError(
                    "the HDF5 file is damaged: a heap of strings does not end; write it again, or "
                    "copy it with h5repack"
                )
            start = content.find(b"GCOL\x01", start + 5)


def _heap_ends(content: Any, start: int) -> bool:
    """Return whether going through a heap, object by object, ends where the heap does.

    A heap is "GCOL", the version 1, its size at byte 8, and objects from byte 16 on: an index, which is
    0 for free space, and a size.
    """
    if start + 16 > len(content):
        return False
    end = start + struct.unpack_from("<Q", content, start + 8)[0]
    place = start + 16
    while place + 16 <= end <= len(content):
        index, size = struct.unpack_from("<H6xQ", content, place)
        step = 16 + -(-size // 8) * 8 if index else size
        if not 0 < step <= end - place:
            return False
        place += step
    return end <= len(content)


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
    names = {DEFLATE: "zlib", BLOSC: "blosc", ZSTD: "zstd"}
    if len(packing) > 1 or code not in (*names, SZIP, NBIT, SCALED, LZF):
        numbers = ", ".join(str(filters[i][0]) for i in packing)
        raise TableError(
            f"the array is packed by the HDF5 filter(s) {numbers}, of which nothing tells how much "
            "they make; write it with gzip, or open it with h5py and give the data set to fit"
        )
    declared = math.prod(node.chunks) * node.dtype.itemsize
    chunks: list[Any] = []
    if hasattr(node.id, "chunk_iter"):
        node.id.chunk_iter(chunks.append)
    else:
        chunks += (node.id.get_chunk_info(i) for i in range(node.id.get_num_chunks()))
    for chunk in chunks:
        limit_of(chunk.size, declared, free)
        limit = max(free, RATIO_HELD * chunk.size)
        plain = chunk.filter_mask >> packing[0] & 1
        if plain or code == LZF or (code == DEFLATE and DEFLATE_RATIO * chunk.size <= limit):
            continue  # lzf makes at most 88 times its size
        if code in (NBIT, SCALED):
            size = values[2] * values[4]
        else:
            data = node.id.read_direct_chunk(tuple(chunk.chunk_offset))[1]
            size = int.from_bytes(data[:4], "little") if code == SZIP else 0
            if code in names:
                with suppress(OSError):  # what follows the stream, a checksum say, is no matter
                    deque(pieces(names[code], {}, data, limit) or (), maxlen=0)
        if size > limit:
            raise refusal(chunk.size, limit)
