"""Files of named arrays and a text: safetensors, checksummed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

#: The types of safetensors that numpy has, little-endian.
DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

#: How a file begins, behind the 8 bytes of the header's length; 64 hexadecimal digits follow.
PREFIX = b'{"__metadata__":{"sha256":"'
DIGITS = 64

#: The most bytes of a header, as in safetensors, and the most dimensions of an array, as in numpy.
HEADER, DIMENSIONS = 100_000_000, 64

#: The most lists, objects and members of objects in a header, and the most values: names of columns are
#: values of one list. Each takes far more memory than the few bytes it may have in the file.
PARTS, VALUES = 2**18, 2**22 + 2**18


class ModelFileError(ValueError):
    """A file that is no model, or that was damaged, or that needs a newer dualpca."""


def header_of(tensors: dict[str, np.ndarray], text: str) -> tuple[bytes, list[np.ndarray]]:
    """The header, its length before it and zeros for its checksum, and the arrays in their order."""
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    layout: dict[str, Any] = {"__metadata__": {"sha256": "0" * DIGITS, "dualpca": text}}
    end = 0
    for name in order:
        array = tensors[name]
        layout[name] = {
            "dtype": NAMES[array.dtype.newbyteorder("<").str],
            "shape": list(array.shape),
            "data_offsets": [end, end := end + array.nbytes],
        }
    head = json.dumps(layout, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    if len(head) > HEADER:
        raise ValueError(
            f"the names and numbers of the model take {len(head)} bytes, more than the {HEADER} of a "
            "header; shorten the feature names or notes"
        )
    for part in (text, head.decode()):
        _check_cost(part)
    return len(head).to_bytes(8, "little") + head, [tensors[name] for name in order]


def write(file: BinaryIO, head: bytes, arrays: list[np.ndarray]) -> None:
    """The header and the arrays, then the checksum of all into its place."""
    digest = hashlib.sha256(head)
    file.write(head)
    for array in arrays:
        content = _bytes(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")))
        digest.update(content)
        file.write(content)
    file.seek(8 + len(PREFIX))
    file.write(digest.hexdigest().encode())


@contextmanager
def opened(path: Any) -> Iterator[BinaryIO]:
    """A plain file to read; a pipe, which would be waited for, or a device is refused."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ModelFileError(
                f"{path} is a pipe or a device; a model is read from a plain file: copy it to one"
            )
        yield file


def _without_waiting(path: Any, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_header(file: BinaryIO, path: Any) -> tuple[str, dict[str, Any], bytes]:
    """The text, what is said of the arrays, and the header as it stands in the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(8 + len(PREFIX) + DIGITS)
    if start[8 : 8 + len(PREFIX)] != PREFIX:
        raise ModelFileError(
            f"{path} is not a dualpca model file; give one that model.save(path) has written"
        )
    length = int.from_bytes(start[:8], "little")
    if length > min(size - 8, HEADER):
        raise ModelFileError(
            f"{path} is truncated or damaged: its header has {length} bytes, the file {size}; "
            "take another copy of it"
        )
    file.seek(0)
    head = file.read(8 + length)
    try:
        layout = parsed(str(memoryview(head)[8:], "ascii"))  # as json.dumps writes it
        text = layout.pop("__metadata__")["dualpca"]
        if not isinstance(text, str):
            raise TypeError("its text is no text")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(path, error) from None
    return text, layout, head


def parsed(text: str) -> Any:
    """The JSON of a header; keys that are there twice, of which readers may take either, are refused."""
    _check_cost(text)
    return json.loads(text, object_pairs_hook=_unique)


def _check_cost(text: str) -> None:
    """Refuse JSON of very many parts before memory is taken for them; those within strings are none."""
    if len(text) <= PARTS:
        return
    if not text.isascii():
        raise ValueError("it has letters that are not escaped")
    bare = text.replace("\\\\", "").replace('\\"', "")  # no quote is left within a string
    within, parts, values = False, 0, 0
    for start in range(0, len(bare), 2**20):
        letters = np.frombuffer(bare[start : start + 2**20].encode(), np.uint8)
        inside = np.logical_xor.accumulate(letters == ord('"')) ^ within
        counts = np.bincount(letters[~inside], minlength=256)
        within = bool(inside[-1])
        parts += int(counts[ord("[")] + counts[ord("{")] + counts[ord(":")])
        values += int(counts[ord(",")])
        if parts > PARTS or values > VALUES:
            raise ValueError(
                f"it has more than {PARTS} lists, objects and members, or more than {VALUES} values; "
                "shorten the feature names or notes"
            )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has a key twice")
    return found


def damaged(path: Any, error: Exception) -> ModelFileError:
    """What to raise for a header that cannot be read."""
    told = " ".join(str(error).split())[:200]
    return ModelFileError(
        f"{path} has a damaged header ({type(error).__name__}: {told}); take another copy of it"
    )


def read_arrays(
    file: BinaryIO, path: Any, layout: dict[str, Any], head: bytes
) -> dict[str, np.ndarray]:
    """The arrays behind the header; what the checksum does not confirm is refused."""
    size = file.seek(0, os.SEEK_END)
    try:
        shapes = _checked(layout, size - len(head))
        # Of dimensions that numpy has not it is numpy that tells.
        found = {name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(path, error) from None
    first = 8 + len(PREFIX)
    given = head[first : first + DIGITS].decode("ascii", "replace")
    digest = hashlib.sha256(head[:first] + b"0" * DIGITS + head[first + DIGITS :])
    file.seek(len(head))
    for array in found.values():
        content = _bytes(array)
        file.readinto(content)  # type: ignore[attr-defined]
        digest.update(content)
    if digest.hexdigest() != given:
        raise ModelFileError(
            f"{path} was changed or damaged after it was written: its checksum does not fit; take "
            "another copy of it"
        )
    return found


def _checked(layout: dict[str, Any], size: int) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shapes and types in the order of the file, which the arrays fill without a gap."""
    end, found = 0, {}
    for name, entry in sorted(layout.items(), key=lambda item: item[1]["data_offsets"]):
        shape, dtype = entry["shape"], np.dtype(DTYPES[entry["dtype"]])
        # Few and small before they are multiplied, which takes long for numbers of many digits.
        counts = type(shape) is list and all(type(n) is int and 0 <= n < 2**63 for n in shape)
        if not counts or len(shape) > DIMENSIONS:
            raise ValueError(f"{name} has a shape that is none")
        start, end = end, end + math.prod(shape) * dtype.itemsize
        if entry["data_offsets"] != [start, end]:
            raise ValueError(f"{name} has {shape} numbers at {entry['data_offsets']}")
        found[name] = tuple(shape), dtype
    if end != size:
        raise ValueError(f"its arrays take {end} bytes and the file has {size}")
    return found


def _bytes(array: np.ndarray) -> memoryview:
    """The memory of a contiguous array, byte by byte."""
    return array.reshape(-1).view(np.uint8).data
