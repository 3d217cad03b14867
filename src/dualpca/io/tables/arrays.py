"""npy and npz files."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from contextlib import ExitStack
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy_format

from ..fitted import check_compressed
from .columns import Header, unnamed
from .limits import check_columns, check_disk, check_size, check_sparse
from .origin import Dense, Origin, checked
from .table import Strings, TableError, listed

#: The arrays of which scipy.sparse.save_npz makes a matrix.
_PARTS = {"data", "indices", "indptr", "shape"}


class Sparse(Origin):
    """A sparse matrix, in memory; ``about`` are the columns that describe its rows."""

    def __init__(self, data: Any, header: Header, about: dict[str, Any] | None = None) -> None:
        self.dtype = checked(data.shape, data.dtype)
        check_compressed(data)
        self.matrix = sp.csr_array(data).astype(self.dtype, copy=False)
        self.matrix.sum_duplicates()
        self.rows, self.header, self.notes = self.matrix.shape[0], header, []
        self.about = about or {}

    def blocks(self, features: list[int], texts: list[int]) -> Any:
        raise NotImplementedError("a sparse matrix is taken whole")


def nameless(columns: int) -> Header:
    """The header of a matrix without names."""
    return Header(unnamed(check_columns(columns)), named=False, told=False)


def npy(file: BinaryIO) -> Origin:
    """The array of an npy file, mapped."""
    file.seek(0)
    version = npy_format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise TableError(f"npy of version {version} holds records; save a matrix of numbers")
    read = {1: npy_format.read_array_header_1_0, 2: npy_format.read_array_header_2_0}[version[0]]
    shape, fortran, dtype = read(file)
    checked(shape, dtype)
    if 0 in shape:
        raise TableError(f"the array has shape {shape}; give at least one row and one column")
    order: Any = "F" if fortran else "C"
    start = file.tell()
    if file.seek(0, 2) < start + int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise TableError("the file is cut short; copy or save it again")
    data = np.memmap(file, dtype=dtype, mode="r", offset=start, shape=shape, order=order)  # type: ignore[call-overload]
    return Dense(data, nameless(shape[1]))


def npz(file: BinaryIO, key: str | None, free: int) -> Origin:
    """The matrix of an npz file: the one of that key, a sparse one, or the only one there is."""
    stored = file.seek(0, 2)
    file.seek(0)
    with zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if key is None and set(names) >= _PARTS:
            sizes = (archive.getinfo(f"{name}.npy").file_size for name in _PARTS)
            check_size(sum(sizes), stored, free, held=True)
            return _sparse(file)
        if key is None:
            key = _only([n for n in names if _dimensions(archive, n) == 2], names)
        elif key not in names:
            raise TableError(f"there is no array {key!r}; --key may be {listed(names)}")
        size = archive.getinfo(f"{key}.npy").file_size
        check_size(size, stored, free)
        check_disk(size)
        with ExitStack() as stack:
            member = stack.enter_context(archive.open(f"{key}.npy"))
            plain = stack.enter_context(tempfile.TemporaryFile(prefix="dualpca-"))
            shutil.copyfileobj(member, plain, 2**20)
            return npy(plain)  # the map holds the temporary file


def _dimensions(archive: zipfile.ZipFile, name: str) -> int:
    with archive.open(f"{name}.npy") as member:
        major, _ = npy_format.read_magic(member)
        read = npy_format.read_array_header_1_0 if major == 1 else npy_format.read_array_header_2_0
        return len(read(member)[0])


def _only(matrices: list[str], names: list[str]) -> str:
    if len(matrices) != 1:
        raise TableError(
            f"the file has {len(matrices)} matrices among {listed(names) or 'no arrays'}; choose "
            "one with --key"
        )
    return matrices[0]


def _sparse(file: BinaryIO) -> Origin:
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
    return Sparse(matrix, nameless(matrix.shape[1]))


def strings(values: Any) -> Strings:
    """An array of text, bytes, numbers or truth values as strings."""
    flat = np.asarray(values).ravel().tolist()
    return Strings(v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in flat)
