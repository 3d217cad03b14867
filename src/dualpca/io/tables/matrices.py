"""Matrices of numbers: npy, npz and Matrix Market files.

Matrix Market text is parsed here: SciPy's reader writes beyond its arrays where a file has more entries
than its header tells.
"""

import gzip
import shutil
import warnings
import zipfile
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy_format

from ...operators.files import BLOCK, float_type, source_of
from ..fitted import check_compressed
from .columns import Header, Source, unnamed
from .limits import check_columns, check_disk, check_size, check_sparse
from .table import TableError, listed, shown


class MatrixSource(Source):
    """A matrix of numbers: an array, a memory map, an HDF5 data set, a zarr array, or a sparse matrix.

    ``row_columns`` has the columns that describe its rows, by name, each read when it is needed.
    ``lasting`` data can still be read when the table is returned.
    """

    table = False

    def __init__(
        self, data: Any, header: Header, row_columns: Any = None, *, lasting: bool = True
    ) -> None:
        self.dtype = float_type_of(data.shape, data.dtype)
        check_columns(data.shape[1])
        self._sparse = sp.issparse(data)
        if self._sparse:
            check_compressed(data)
            data = sp.csr_array(data).astype(self.dtype, copy=False)
            data.sum_duplicates()
        self.rows, self.header, self.notes = int(data.shape[0]), header, []
        self._data, self._row_columns = data, list((row_columns or {}).values())
        self._lasting = lasting and not self._sparse

    def blocks(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        strings, start = [self._row_columns[j]().array for j in texts], 0
        every = features == list(range(self._data.shape[1]))
        for block in [self._data] if self._sparse else source_of(self._data).read(BLOCK):
            stop = start + block.shape[0]
            yield block if every else block[:, features], [s[start:stop] for s in strings]
            start = stop

    def in_place(self, features: list[int]) -> Any:
        if not self._lasting or features != list(range(self._data.shape[1])):
            return None
        source = source_of(self._data)
        source.tells = False  # the notes of the table do so
        return source


def nameless(columns: int) -> Header:
    """Return the header of a matrix without names."""
    return Header(unnamed(check_columns(columns)), named=False, shown=False)


def float_type_of(shape: Any, dtype: Any) -> np.dtype:
    """Return the float type of a matrix; refuse other shapes, complex numbers and objects."""
    if len(shape) != 2:
        raise TableError(
            f"the array has {len(shape)} dimension(s), shape {tuple(shape)}; a matrix is needed, "
            "rows by columns: reshape it, or give the --key of another"
        )
    try:
        return float_type(dtype)
    except (ValueError, TypeError) as error:
        raise TableError(
            f"the array has dtype {dtype}; real numbers are needed: save it as float64, or give the "
            "--key of another"
        ) from error


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
    read = npy_format.read_array_header_1_0 if version[0] == 1 else npy_format.read_array_header_2_0
    return read(file)


def npz(file: BinaryIO, stored: int, key: str | None, free: int) -> Source:
    """Return the matrix of an npz file: the one of that key, a sparse one, or the only one."""
    with zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if key is None and set(names) >= _PARTS:
            sizes = (archive.getinfo(f"{name}.npy").file_size for name in _PARTS)
            check_size(sum(sizes), stored, free, held=True)
            return _sparse_npz(file)
        if key is None:
            matrices = []
            for name in names:
                with archive.open(f"{name}.npy") as member:
                    matrices += [name] if len(_npy_header(member)[0]) == 2 else []
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
        with archive.open(f"{key}.npy") as member, TemporaryFile(prefix="dualpca-") as plain:
            shutil.copyfileobj(member, plain, 2**20)
            return npy(plain)  # the map holds the temporary file


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


#: The types of entries and the symmetries of a Matrix Market file that are read.
_TYPES = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = {"general": 0, "symmetric": 1, "skew-symmetric": -1}

#: The longest line of the header, the most lines of comments, and the most bytes of a number.
_LINE, _COMMENTS, _NUMBER = 2**16, 2**16, 64


def matrix_market(file: BinaryIO, stored: int) -> Source:
    """Return the matrix of a Matrix Market file, sparse or dense."""
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    text: Any = gzip.GzipFile(fileobj=file) if packed else file
    words = text.readline(_LINE).decode("latin-1").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise TableError("this is no Matrix Market file, which begins with %%MatrixMarket matrix")
    form, kind, symmetry = words[2:]
    dense, pattern = form == "array", kind == "pattern"
    known = form in ("array", "coordinate") and kind in _TYPES and symmetry in _SYMMETRIES
    if not known or (dense and pattern):
        form = shown(" ".join(words[2:]))
        raise TableError(f"the matrix is {form}; write it as real numbers, general or symmetric")
    lines = (text.readline(_LINE) for _ in range(_COMMENTS))
    line = next((line for line in lines if not line or line.strip()[:1] not in (b"", b"%")), b"")
    sizes = line.split()
    if len(sizes) != 3 - dense or not all(n.isdigit() and len(n) < 19 for n in sizes):
        raise TableError(f"its line of sizes is {shown(line.decode('latin-1'))}; copy it again")
    rows, columns, *count = map(int, sizes)
    sign = _SYMMETRIES[symmetry]
    if sign and rows != columns:
        raise TableError(f"it is {symmetry}, and its shape is {rows} by {columns}; copy it again")
    entries = count[0] if count else rows * (rows + sign) // 2 if sign else rows * columns
    width = 1 if dense else 3 - pattern
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
            raise TableError(
                f"an entry lies outside of the shape, {rows} by {columns}; copy it again"
            )
        i, j = places.astype(np.int64) - 1
    data = np.ones(entries) if pattern else values[:, -1]
    if sign:
        off = i != j
        i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
        data = np.concatenate([data, sign * data[off]])
    matrix = sp.csr_array((data, (i, j)), shape=(rows, columns))
    return MatrixSource(matrix.toarray() if dense else matrix, nameless(columns), lasting=not dense)


def _numbers(text: Any, count: int) -> np.ndarray:
    """Return the numbers of a text, which has to hold exactly ``count`` of them."""
    most = _NUMBER * (count + 1)
    content = text.read(most + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            if b"\0" in content:  # strtod would end there
                raise ValueError
            numbers = np.fromstring(content, sep=" ") if content.strip() else np.zeros(0)
        except (ValueError, DeprecationWarning):
            raise TableError("there is text among its numbers; copy or save it again") from None
    if len(content) > most or len(numbers) > count:
        raise TableError("it has more entries than its header tells; copy or save it again")
    if len(numbers) < count:
        raise TableError("it is cut short: its header tells of more entries; copy or save it again")
    return numbers
