"""Arrays of HDF5 whose chunks keep to the limits."""

from __future__ import annotations

import math
from typing import Any

from . import unpack
from .limits import RATIO_HELD
from .table import TableError

#: Filters of HDF5 by their numbers.
DEFLATE, SHUFFLE, FLETCHER, SZIP, NBIT, SCALED, LZF, BLOSC, ZSTD = (
    1,
    2,
    3,
    4,
    5,
    6,
    32000,
    32001,
    32015,
)


def check_hdf5(node: Any, free: int) -> None:
    """Refuse an array of HDF5 with a chunk that would unpack to more than it should.

    The library unpacks a chunk to its end, however long that is. A chunk that could be longer than the
    limit is therefore unpacked once before, piece by piece.
    """
    if node.chunks is None:
        return
    given = node.id.get_create_plist()
    filters = [given.get_filter(i) for i in range(given.get_nfilters())]
    packing = [i for i, entry in enumerate(filters) if entry[0] not in (SHUFFLE, FLETCHER)]
    if not packing:
        return
    code, values = filters[packing[0]][0], filters[packing[0]][2]
    known = (DEFLATE, SZIP, NBIT, SCALED, LZF, BLOSC, ZSTD)
    if len(packing) > 1 or code not in known:
        numbers = ", ".join(str(filters[i][0]) for i in packing)
        raise TableError(
            f"the array is packed by the HDF5 filter(s) {numbers}, of which nothing tells how much "
            "they make; write it with gzip, or open it with h5py and give the data set to fit"
        )
    declared = math.prod(node.chunks) * node.dtype.itemsize
    for offset, mask, stored in _chunks(node):
        unpack.most(stored, declared, free)
        limit = max(free, RATIO_HELD * stored)
        if mask >> packing[0] & 1 or code == LZF:  # not packed; at most 88 times its size
            continue
        if code in (NBIT, SCALED):
            size = values[2] * values[4]
        elif code == DEFLATE and unpack.DEFLATE * stored <= limit:
            continue
        else:
            size = _size(code, node.id.read_direct_chunk(offset)[1], limit)
        if size > limit:
            raise unpack.too_much(stored, limit)


def _size(code: int, data: bytes, limit: int) -> int:
    """The bytes that a packed chunk makes, counted until they are beyond the limit."""
    if code == SZIP:
        return int.from_bytes(data[:4], "little")
    return unpack.counted({DEFLATE: "zlib", BLOSC: "blosc", ZSTD: "zstd"}[code], data, limit)


def _chunks(node: Any) -> list[tuple[Any, int, int]]:
    """The place, the filters left out, and the stored bytes of each chunk that was written."""
    infos: list[Any] = []
    if hasattr(node.id, "chunk_iter"):
        node.id.chunk_iter(infos.append)
    else:
        infos += (node.id.get_chunk_info(i) for i in range(node.id.get_num_chunks()))
    return [(tuple(info.chunk_offset), info.filter_mask, info.size) for info in infos]
