"""Matrix Market files. That of SciPy writes beyond its arrays where there are more entries than told."""

from __future__ import annotations

import gzip
import warnings
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from .arrays import Sparse, nameless
from .limits import check_size, check_sparse
from .origin import Dense, Origin
from .table import TableError, shown

#: Numbers of an entry, its place in the matrix before it.
_WIDTHS = {
    **{("coordinate", kind): 3 for kind in ("real", "double", "integer", "unsigned-integer")},
    **{("array", kind): 1 for kind in ("real", "double", "integer", "unsigned-integer")},
    ("coordinate", "pattern"): 2,
}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")

#: The longest line of the header, and the most lines of comments.
_LINE, _COMMENTS = 2**16, 2**16

#: Bytes of text that are parsed at a time.
_PIECE = 2**20


def matrix_market(file: BinaryIO) -> Origin:
    """The matrix of a Matrix Market file, sparse or dense."""
    stored = file.seek(0, 2)
    file.seek(0)
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    text: Any = gzip.GzipFile(fileobj=file) if packed else file
    form, width, symmetry = _banner(text.readline(_LINE))
    sizes = _sizes(text, 2 if form == "array" else 3)
    rows, columns = sizes[:2]
    if symmetry != "general" and rows != columns:
        raise TableError(f"it is {symmetry}, of {rows} rows and {columns} columns; copy it again")
    entries = sizes[2] if form == "coordinate" else rows * columns
    if form == "array" and symmetry != "general":
        entries = rows * (rows + (1 if symmetry == "symmetric" else -1)) // 2
    check_sparse((rows, columns), entries)
    check_size(2 * width * entries, stored, held=True)  # a digit and a space each
    values = _numbers(text, width * entries).reshape(entries, width)
    if form == "array":
        return Dense(
            _dense(values[:, 0], (rows, columns), symmetry), nameless(columns), mapped=False
        )
    return Sparse(_sparse(values, (rows, columns), symmetry), nameless(columns))


def _banner(line: bytes) -> tuple[str, int, str]:
    words = line.decode("latin-1").lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise TableError("this is no Matrix Market file, which begins with %%MatrixMarket matrix")
    form, kind, symmetry = words[2:]
    if (form, kind) not in _WIDTHS or symmetry not in _SYMMETRIES:
        told = shown(" ".join(words[2:]))
        raise TableError(f"the matrix is {told}; write it as real numbers, general or symmetric")
    return form, _WIDTHS[form, kind], symmetry


def _sizes(text: Any, count: int) -> list[int]:
    for _ in range(_COMMENTS):
        words = text.readline(_LINE)
        if not words or not (words.startswith(b"%") or not words.strip()):
            break
    sizes = words.split()
    if len(sizes) != count or not all(size.isdigit() and len(size) < 19 for size in sizes):
        raise TableError(f"its line of sizes is {shown(words.decode('latin-1'))}; copy it again")
    return [int(size) for size in sizes]


def _numbers(text: Any, count: int) -> np.ndarray:
    """So many numbers, no more and no less."""
    found, done, rest = np.empty(count), 0, b""
    while piece := text.read(_PIECE):
        rest += piece
        cut = 1 + max(rest.rfind(sign) for sign in (b"\n", b" ", b"\t", b"\r"))
        done, rest = _put(found, done, rest[:cut]), rest[cut:]
        if len(rest) > _LINE:
            raise TableError(f"{shown(rest[:100].decode('latin-1'))} is no number; copy it again")
    done = _put(found, done, rest)
    if done < count:
        raise TableError("it is cut short: its header tells of more entries; copy or save it again")
    return found


def _put(found: np.ndarray, done: int, text: bytes) -> int:
    if not text.strip():
        return done
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            if b"\0" in text:  # the end of the text to strtod
                raise ValueError
            values = np.fromstring(text, sep=" ")
        except (ValueError, DeprecationWarning):
            raise TableError("there is text among its numbers; copy or save it again") from None
    if done + len(values) > len(found):
        raise TableError("it has more entries than its header tells; copy or save it again")
    found[done : done + len(values)] = values
    return done + len(values)


def _dense(values: np.ndarray, shape: tuple[int, int], symmetry: str) -> np.ndarray:
    if symmetry == "general":
        return values.reshape(shape, order="F")
    matrix = np.zeros(shape)
    columns, rows = np.triu_indices(shape[0], 0 if symmetry == "symmetric" else 1)
    matrix[rows, columns] = values
    matrix[columns, rows] = values if symmetry == "symmetric" else -values
    return matrix


def _sparse(values: np.ndarray, shape: tuple[int, int], symmetry: str) -> sp.csr_array:
    places = values[:, :2].T
    inside = (places >= 1) & (places <= np.reshape(shape, (2, 1))) & (places == np.floor(places))
    if not inside.all():
        raise TableError(f"an entry lies outside of the {shape[0]} rows and {shape[1]} columns")
    i, j = places.astype(np.int64) - 1
    data = values[:, 2] if values.shape[1] == 3 else np.ones(len(values))
    if symmetry != "general":
        off = i != j
        sign = 1 if symmetry == "symmetric" else -1
        i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
        data = np.concatenate([data, sign * data[off]])
    return sp.csr_array((data, (i, j)), shape=shape)
