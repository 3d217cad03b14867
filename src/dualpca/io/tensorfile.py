"""Read and write files of named arrays and a text: safetensors with a checksum over the file.

The file is written and read here, not by the package safetensors: the checksum has a fixed place in the
header, sizes are checked before memory is taken, and arrays are read once, into their own memory.
"""

import hashlib
import json
import math
import os
from typing import Any, BinaryIO

import numpy as np

#: The types of safetensors that numpy has, little-endian.
DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    **{f"{k.upper()}{8 * n}": f"<{k}{n}" for k in "uif" for n in (2, 4, 8)},
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

#: A file begins with the 8 bytes of the header's length, this prefix and 64 hexadecimal digits.
PREFIX = b'{"__metadata__":{"sha256":"'
DIGITS = 64

#: The most bytes of a header, as in safetensors, and the most dimensions of an array, as in numpy.
HEADER, DIMENSIONS = 100_000_000, 64

#: The most lists, objects and members in a header, and the most values (names of columns are values):
#: each takes far more memory than its few bytes in the file.
PARTS, VALUES = 2**18, 2**22 + 2**18


class ModelFileError(ValueError):
    """A file that is no model, that was damaged, or that needs a newer dualpca."""


def damaged(path: Any, error: Exception) -> ModelFileError:
    """Return the error to raise for a header that cannot be read."""
    reason = " ".join(str(error).split())[:200]
    return ModelFileError(
        f"{path} has a damaged header ({type(error).__name__}: {reason}); take another copy of it"
    )


def header_of(tensors: dict[str, np.ndarray], text: str) -> tuple[bytes, list[np.ndarray]]:
    """Return the header, with its length and zeros for its checksum, and the arrays in order."""
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
    """Write the header and the arrays, then the checksum of all into its place."""
    digest = hashlib.sha256(head)
    file.write(head)
    for array in arrays:
        content = _bytes(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")))
        digest.update(content)
        file.write(content)
    file.seek(8 + len(PREFIX))
    file.write(digest.hexdigest().encode())


def opened(path: Any) -> BinaryIO:
    """Open a plain file; refuse a device, and a pipe instead of waiting for it."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        remedy = "a model is read from a plain file: copy it to one"
        raise ModelFileError(f"{path} is a pipe or a device; {remedy}")
    return open(path, "rb")


def read_header(file: BinaryIO, path: Any) -> tuple[str, dict[str, Any], bytes]:
    """Return the text, the layout of the arrays, and the bytes of the header."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(8 + len(PREFIX))
    if start[8:] != PREFIX:
        raise ModelFileError(f"{path} is not a dualpca model file; give one of model.save(path)")
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
            raise TypeError("its metadata is no text")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(path, error) from None
    return text, layout, head


def parsed(text: str) -> Any:
    """Parse the JSON of a header; refuse repeated keys, of which readers may take either."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(members := dict(pairs)) < len(pairs):
            raise ValueError("it has a key twice")
        return members

    _check_cost(text)
    return json.loads(text, object_pairs_hook=unique)


def _check_cost(text: str) -> None:
    """Refuse JSON of very many parts before memory is taken for them; signs in strings do not count."""
    if len(text) <= PARTS:
        return
    if not text.isascii():
        raise ValueError("it has letters that are not escaped")
    bare = text.replace("\\\\", "").replace('\\"', "")  # no quote is left within a string
    in_string, parts, values = False, 0, 0
    for start in range(0, len(bare), 2**20):
        letters = np.frombuffer(bare[start : start + 2**20].encode(), np.uint8)
        quoted = np.logical_xor.accumulate(letters == ord('"')) ^ in_string
        counts = np.bincount(letters[~quoted], minlength=256)
        in_string = bool(quoted[-1])
        parts += int(counts[[ord("["), ord("{"), ord(":")]].sum())
        values += int(counts[ord(",")])
        if parts > PARTS or values > VALUES:
            raise ValueError(
                f"it has more than {PARTS} lists, objects and members, or more than {VALUES} values; "
                "shorten the feature names or notes"
            )


def read_arrays(
    file: BinaryIO, path: Any, layout: dict[str, Any], head: bytes
) -> dict[str, np.ndarray]:
    """Read the arrays behind the header; refuse them where the checksum does not fit."""
    size = file.seek(0, os.SEEK_END)
    try:
        arrays = _allocated(layout, size - len(head))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(path, error) from None
    first = 8 + len(PREFIX)
    digest = hashlib.sha256(head[:first] + b"0" * DIGITS + head[first + DIGITS :])
    file.seek(len(head))
    for array in arrays.values():
        content = _bytes(array)
        file.readinto(content)  # type: ignore[attr-defined]
        digest.update(content)
    if digest.hexdigest().encode() != head[first : first + DIGITS]:
        raise ModelFileError(
            f"{path} was changed or damaged after it was written: its checksum does not fit; take "
            "another copy of it"
        )
    return arrays


def _allocated(layout: dict[str, Any], size: int) -> dict[str, np.ndarray]:
    """Return empty arrays in the order of the file, which they have to fill without a gap."""
    end, shapes = 0, {}
    for name, entry in sorted(layout.items(), key=lambda item: item[1]["data_offsets"]):
        shape, dtype = entry["shape"], np.dtype(DTYPES[entry["dtype"]])
        # Sizes are checked before they are multiplied, which takes long for numbers of many digits.
        counts = type(shape) is list and all(type(n) is int and 0 <= n < 2**63 for n in shape)
        if not counts or len(shape) > DIMENSIONS:
            raise ValueError(f"{name} has a shape that is none")
        start, end = end, end + math.prod(shape) * dtype.itemsize
        if entry["data_offsets"] != [start, end]:
            raise ValueError(f"{name} has {shape} numbers at {entry['data_offsets']}")
        shapes[name] = tuple(shape), dtype
    if end != size:
        raise ValueError(f"its arrays take {end} bytes and the file has {size}")
    return {name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()}


def _bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
