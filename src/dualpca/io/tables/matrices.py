"""npy, npz and Matrix Market files.

Matrix Market text is parsed here: SciPy's reader writes beyond its arrays where a file has more entries
than its header tells.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
import warnings
import zipfile
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy_format

from .limits import check_disk, check_size, check_sparse
from .source import MatrixSource, Source, float_type_of, nameless
from .table import TableError, listed, shown

#: The arrays of which scipy.sparse.save_npz makes a matrix.
_PARTS = {"data", "indices", "indptr", "shape"}


def npy(file: BinaryIO) -> Source:
    """Return the array of an npy file, mapped."""
    file.seek(0)
    shape, fortran, dtype = _npy_header(file)
    float_type_of(shape, dtype)
    if 0 in shape:
        raise TableError(f"the array has shape {shape}; give at least one row and one column")
    order: Any = "F" if fortran else "C"
    start = file.tell()
    if file.seek(0, 2) < start + int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise TableError("the file is cut short; copy or save it again")
    data = np.memmap(file, dtype=dtype, mode="r", offset=start, shape=shape, order=order)  # type: ignore[call-overload]
    return MatrixSource(data, nameless(shape[1]))


def _npy_header(file: Any) -> Any:
    version = npy_format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise TableError(f"npy of version {version} holds records; save a matrix of numbers")
    if version == (1, 0):
        return npy_format.read_array_header_1_0(file)
    return npy_format.read_array_header_2_0(file)


def npz(file: BinaryIO, key: str | None, free: int) -> Source:
    """Return the matrix of an npz file: the one of that key, a sparse one, or the only one."""
    stored = file.seek(0, 2)
    file.seek(0)
    with zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if key is None and set(names) >= _PARTS:
            sizes = (archive.getinfo(f"{name}.npy").file_size for name in _PARTS)
            check_size(sum(sizes), stored, free, held=True)
            return _sparse_npz(file)
        if key is None:
            matrices = [name for name in names if _dimensions(archive, name) == 2]
            if len(matrices) != 1:
                raise TableError(
                    f"the file has {len(matrices)} matrices among {listed(names) or 'no arrays'}; "
                    "choose one with --key"
                )
            key = matrices[0]
        if key not in names:
            raise TableError(f"there is no array {key!r}; --key may be {listed(names)}")
        size = archive.getinfo(f"{key}.npy").file_size
        check_size(size, stored, free)
        check_disk(size)
        with (
            archive.open(f"{key}.npy") as member,
            tempfile.TemporaryFile(prefix="dualpca-") as plain,
        ):
            shutil.copyfileobj(member, plain, 2**20)
            return npy(plain)  # the map holds the temporary file


def _dimensions(archive: zipfile.ZipFile, name: str) -> int:
    with archive.open(f"{name}.npy") as member:
        return len(_npy_header(member)[0])


def _sparse_npz(file: BinaryIO) -> Source:
    file.seek(0)
    with np.load(file, allow_pickle=False) as parts:
        kind = parts["format"].item() if "format" in parts else b"csr"
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        make = {"csr": sp.csr_array, "csc": sp.csc_array}.get(kind)
        if make is None:
            raise TableError(f"the sparse matrix has format {kind!r}; save it as CSR")
        shape = tuple(int(size) for size in parts["shape"])
        data = parts["data"]
        check_sparse(shape, data.size)
        matrix = make((data, parts["indices"], parts["indptr"]), shape=shape)
    return MatrixSource(matrix, nameless(matrix.shape[1]))


#: Numbers that are read of a Matrix Market file, by the type of its entries.
_TYPES = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = {"general": 0, "symmetric": 1, "skew-symmetric": -1}

#: The longest line of the header, the most lines of comments, and the bytes parsed at a time.
_LINE, _COMMENTS, _PIECE = 2**16, 2**16, 2**20


def matrix_market(file: BinaryIO) -> Source:
    """Return the matrix of a Matrix Market file, sparse or dense."""
    stored = file.seek(0, 2)
    file.seek(0)
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    text: Any = gzip.GzipFile(fileobj=file) if packed else file
    words = text.readline(_LINE).decode("latin-1").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise TableError("this is no Matrix Market file, which begins with %%MatrixMarket matrix")
    form, kind, symmetry = words[2:]
    dense = form == "array"
    if (
        form not in ("array", "coordinate")
        or kind not in _TYPES[: 4 if dense else 5]
        or symmetry not in _SYMMETRIES
    ):
        described = shown(" ".join(words[2:]))
        raise TableError(
            f"the matrix is {described}; write it as real numbers, general or symmetric"
        )
    sign, sizes = _SYMMETRIES[symmetry], _sizes(text, 2 if dense else 3)
    rows, columns = sizes[:2]
    if sign and rows != columns:
        raise TableError(f"it is {symmetry}, of {rows} rows and {columns} columns; copy it again")
    entries = rows * (rows + sign) // 2 if dense and sign else rows * columns if dense else sizes[2]
    width = 1 if dense else 2 if kind == "pattern" else 3
    check_sparse((rows, columns), entries)
    check_size(2 * width * entries, stored, held=True)  # a digit and a space each
    values = _numbers(text, width * entries).reshape(entries, width)
    if dense and not sign:
        matrix = values.reshape((rows, columns), order="F")
        return MatrixSource(matrix, nameless(columns), lasting=False)
    if dense:
        j, i = np.triu_indices(rows, 0 if sign > 0 else 1)
    else:
        places = values[:, :2].T
        inside = (places >= 1) & (places <= [[rows], [columns]]) & (places == np.floor(places))
        if not inside.all():
            raise TableError(f"an entry lies outside of the {rows} rows and {columns} columns")
        i, j = places.astype(np.int64) - 1
    data = np.ones(entries) if kind == "pattern" else values[:, -1]
    if sign:
        off = i != j
        i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
        data = np.concatenate([data, sign * data[off]])
    matrix = sp.csr_array((data, (i, j)), shape=(rows, columns))
    if dense:
        return MatrixSource(matrix.toarray(), nameless(columns), lasting=False)
    return MatrixSource(matrix, nameless(columns))


def _sizes(text: Any, count: int) -> list[int]:
    line = b""
    for _ in range(_COMMENTS):
        line = text.readline(_LINE)
        if not line or not (line.startswith(b"%") or not line.strip()):
            break
    sizes = line.split()
    if len(sizes) != count or not all(size.isdigit() and len(size) < 19 for size in sizes):
        raise TableError(f"its line of sizes is {shown(line.decode('latin-1'))}; copy it again")
    return [int(size) for size in sizes]


def _numbers(text: Any, count: int) -> np.ndarray:
    """Return exactly so many numbers of a text."""
    numbers, done, tail = np.empty(count), 0, b""
    while piece := text.read(_PIECE):
        tail += piece
        cut = 1 + max(tail.rfind(blank) for blank in (b"\n", b" ", b"\t", b"\r"))
        done, tail = _parse(numbers, done, tail[:cut]), tail[cut:]
        if len(tail) > _LINE:
            raise TableError(f"{shown(tail[:100].decode('latin-1'))} is no number; copy it again")
    if _parse(numbers, done, tail) < count:
        raise TableError("it is cut short: its header tells of more entries; copy or save it again")
    return numbers


def _parse(numbers: np.ndarray, done: int, text: bytes) -> int:
    if not text.strip():
        return done
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            if b"\0" in text:  # strtod would end there
                raise ValueError
            values = np.fromstring(text, sep=" ")
        except (ValueError, DeprecationWarning):
            raise TableError("there is text among its numbers; copy or save it again") from None
    if done + len(values) > len(numbers):
        raise TableError("it has more entries than its header tells; copy or save it again")
    numbers[done : done + len(values)] = values
    return done + len(values)
