"""HDF5 files whose heaps of strings are not sound are first looked through by another process.

On a damaged heap the HDF5 library goes round for ever, in C, where no signal ends it.
"""

from __future__ import annotations

import io
import mmap
import struct
import subprocess
import sys
from typing import Any, BinaryIO

from .origin import opened
from .table import TableError

#: Seconds that looking through a file may take, and the bytes for each second more.
PATIENCE, PACE = 30.0, 10 * 2**20

#: Larger files are not searched for heaps, which takes a second for each GB.
SEARCHED = 2**30

#: Names and strings are what a heap holds; numbers are not read. What is not HDF5, and values of kinds
#: that h5py has no type for, are for the reader to tell.
_LOOK = """
import contextlib, signal, sys, h5py

if hasattr(signal, "alarm"):  # it ends by itself, whatever becomes of whoever asked
    signal.alarm(int(sys.argv[2]))

def look(name, node):
    for key in node.attrs:
        with contextlib.suppress(Exception):
            node.attrs[key]
    if getattr(node, "shape", None) and node.dtype.kind == "O":
        for i in range(0, node.shape[0], 10_000):
            with contextlib.suppress(Exception):
                node[i : i + 10_000]

where = sys.argv[1]
try:
    file = h5py.File(open(int(where), "rb") if where.isdigit() else where[1:], "r")
except Exception:
    sys.exit()
look("", file)
file.visititems(look)
"""


def check_comes_to_an_end(file: BinaryIO, path: Any) -> None:
    """Refuse an HDF5 file that the library cannot look through in time, or dies of."""
    source = opened(path, file)
    try:
        held = [file.fileno()] if source is file else []
    except io.UnsupportedOperation:  # in memory
        return
    size = file.seek(0, 2)
    if size <= SEARCHED and _sound(file, size):
        return
    where = str(held[0]) if held else f"/{path}"
    seconds = round(PATIENCE + size / PACE)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _LOOK, where, str(seconds)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds + 1,
            pass_fds=held,
        )
    except subprocess.TimeoutExpired:
        done = None
    file.seek(0)
    if done is None or done.returncode != 0:
        raise TableError(
            "the HDF5 file is damaged: the HDF5 library cannot look through it, does not come to an "
            "end with it, or dies; write it again"
        )


def _sound(file: BinaryIO, size: int) -> bool:
    """Whether going through each heap, object by object, ends where the heap does."""
    if size == 0:
        return True
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(b"GCOL")
        while start >= 0:
            if not _ends(content, start):
                return False
            start = content.find(b"GCOL", start + 4)
    return True


def _ends(content: mmap.mmap, start: int) -> bool:
    """Of a heap at ``start``: signature, version, its size; then objects, of which 0 is free space."""
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
