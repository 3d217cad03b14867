"""Read a table: the format by its extension, the columns by choice, the rows block by block."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack
from numbers import Integral
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...operators import Blocks
from . import convert, hierarchy, matrices
from .arrow import ArrowFile
from .choose import choose
from .columns import Columns, Source
from .gather import gather, readable
from .limits import FREE
from .sniff import NA_VALUES
from .table import Table, TableError
from .text import TextSource

EXTENSIONS = {
    **{"csv": "csv", "tsv": "tsv", "tab": "tsv", "txt": "csv", "parquet": "parquet"},
    **{"pq": "parquet", "arrow": "arrow", "feather": "arrow", "ipc": "arrow", "npy": "npy"},
    **{"npz": "npz", "mtx": "mtx", "h5ad": "hdf5", "h5": "hdf5", "hdf5": "hdf5", "zarr": "zarr"},
    **{"xlsx": "xlsx", "xlsm": "xlsx", "jsonl": "jsonl", "ndjson": "jsonl"},
}

#: The first bytes of a stream tell its format; otherwise it is CSV.
_MAGIC = {
    **{b"PAR1": "parquet", b"ARROW1": "arrow", b"\x93NUMPY": "npy", b"PK\x03\x04": "npz"},
    **{b"\x89HDF": "hdf5", b"%%MatrixMarket": "mtx", b"{": "jsonl"},
}

MISSING = ("refuse", "drop", "keep")
BAD_LINES = ("error", "skip")


def read(
    path: Any,
    *,
    format: str | None = None,
    key: str | None = None,
    columns: Columns | None = None,
    missing: str = "refuse",
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    comment: str | None = None,
    skip: int = 0,
    bad_lines: str = "error",
    na_values: Collection[str] = NA_VALUES,
    header: str | bool = "auto",
    memory: int = 256 * 2**20,
    unpacked: int = FREE,
    dtype: Any = None,
    on_rows: Callable[[int, int, int], Any] | None = None,
) -> Table:
    """Read the numbers of a file, with the names of rows and columns.

    Delimited text (csv, tsv, txt, also .gz and .bz2), JSON lines, Excel (xlsx), Parquet, Arrow
    (Feather), npy, npz, Matrix Market, HDF5 (h5ad too) and zarr are known by their extensions. A
    matrix larger than ``memory`` is streamed from the file, or from a temporary copy; sparse matrices
    stay sparse, in memory.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard input, whose first bytes tell the format.
    format : str, optional
        "csv", "tsv", "jsonl", "xlsx", "parquet", "arrow", "npy", "npz", "mtx", "h5ad", "hdf5" or
        "zarr", whatever the extension.
    key : str, optional
        Which array of an npz, HDF5 or zarr file to read, such as "layers/counts", or which sheet of
        an xlsx; the first by default.
    columns : Columns, optional
        Which columns are numbers to analyse, names of rows, labels.
    missing : {"refuse", "drop", "keep"}
        Missing cells are an error, or their rows are left out, or they are NaN. Infinite cells
        are always an error.
    delimiter, decimal, thousands : str, optional
        Of delimited text; found out by default, the last two for each column. Columns of numbers such
        as 1,234 or 1.234,5, $ 5, 9.9% (which is 0.099), (12) (-12) or 1 234 are read where all cells
        agree; notes say how.
    comment : str, optional
        Lines of text that begin with this are left out.
    skip : int, default 0
        So many lines of text before the header are left out.
    bad_lines : {"error", "skip"}
        Lines of text with too many or too few cells are an error, or are left out with a note.
    na_values : collection of str
        What stands for a missing cell in delimited text.
    header : {"auto", True, False}
        Whether the first row of delimited text has the names. By default it has, unless all its
        cells are numbers.
    memory : int, default 256 MB
        Bytes of numbers that are held in memory.
    unpacked : int, default 256 MB
        Bytes that a chunk of zarr or HDF5, or an array of these or of npz, may unpack to however small
        it is in the file. Beyond that a chunk has at most 100 times its packed size, an array 1000 times
        that of the file, or 100 times where it is read as a whole.
    dtype : {None, "float32", "float64"}
        By default float32 where the file has float32, else float64.
    on_rows : callable, optional
        Called after each block with the rows read, the bytes read and the bytes there are.

    Returns
    -------
    Table

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dualpca.io.tables import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,height,weight\\nada,1.7,60\\nbob,1.8,81\\n")
    ...     table = read(path)
    >>> table.X
    array([[ 1.7, 60. ],
           [ 1.8, 81. ]])
    >>> table.names, list(table.ids)
    (['height', 'weight'], ['ada', 'bob'])
    """
    if missing not in MISSING:
        raise ValueError(f"missing={missing!r} is not known; give one of {', '.join(MISSING)}")
    if bad_lines not in BAD_LINES:
        raise ValueError(
            f"bad_lines={bad_lines!r} is not known; give one of {', '.join(BAD_LINES)}"
        )
    if isinstance(skip, bool) or not isinstance(skip, Integral) or skip < 0:
        raise ValueError(f"skip={skip!r} is no number of lines; give one, such as 2")
    if isinstance(unpacked, bool) or not isinstance(unpacked, Integral) or unpacked < 1:
        raise ValueError(f"unpacked={unpacked!r} is no number of bytes; give one, such as 2**30")
    if dtype is not None and np.dtype(dtype).name not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r} is not known; give 'float32' or 'float64'")
    if format is not None and format not in {*EXTENSIONS, *EXTENSIONS.values()}:
        known = ", ".join(EXTENSIONS)
        raise TableError(f"{path}: format {format!r} is not known; give one of {known}")
    text = {
        **{"delimiter": delimiter, "decimal": decimal, "thousands": thousands, "comment": comment},
        **{"skip": int(skip), "bad_lines": bad_lines, "na_values": na_values, "header": header},
    }
    try:
        with ExitStack() as stack:
            kind, file, place = _opened(path, format, stack)
            with readable():
                source = _source(kind, file, place, key, text, int(unpacked), stack)
            with ExitStack() as closing:
                closing.callback(source.close)
                choice = choose(source.header, columns or Columns())
                table = gather(source, choice, missing, memory, dtype, on_rows)
                if isinstance(table.X, Blocks):  # it may read on from the source
                    closing.pop_all()
    except TableError as error:
        name = "standard input" if str(path) == "-" else path
        raise TableError(f"{name}: {error}") from error
    return table


def _opened(path: Any, format: str | None, stack: ExitStack) -> tuple[str, BinaryIO, Path | None]:
    """Return the format, the open file, and its path where it can be opened again."""
    kind = EXTENSIONS.get(format or "")
    if str(path) == "-":
        if sys.stdin is None:
            raise TableError("it is closed; give a file, or the output of a command")
        file = _copied(sys.stdin.buffer, stack)
        return kind or _by_magic(file), file, None
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise TableError(f"{error.strerror or error}; check the name of the file") from error
    if stat.S_ISDIR(mode):
        if not any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup")):
            raise TableError("this is a folder, and no zarr; give a file")
        return "zarr", stack.enter_context(tempfile.TemporaryFile()), path
    endings = [ending[1:].lower() for ending in path.suffixes]
    if endings and endings[-1] in ("gz", "bz2", "zip"):
        endings.pop()
    kind = kind or EXTENSIONS.get(endings[-1] if endings else "")
    is_stream = not stat.S_ISREG(mode)
    if not (kind or is_stream):
        raise TableError(
            f"the extension {path.suffix!r} is not known; give --format, one of "
            f"{', '.join(dict.fromkeys(EXTENSIONS.values()))}"
        )
    try:
        file = stack.enter_context(path.open("rb"))
    except OSError as error:
        raise TableError(f"{error.strerror or error}; check its permissions") from error
    if is_stream:
        file = _copied(file, stack)
        return kind or _by_magic(file), file, None
    if file.seek(0, 2) == 0:
        raise TableError("the file is empty; give one with a row of numbers at least")
    return kind or "csv", file, path


def _copied(stream: Any, stack: ExitStack) -> BinaryIO:
    """Copy a stream, which can be read once, to a temporary file without a name.

    Devices other than terminals are refused: /dev/zero has no end, and a disk is no table.
    """
    try:
        mode, terminal = os.fstat(stream.fileno()).st_mode, stream.isatty()
    except (AttributeError, OSError):  # in memory
        mode, terminal = 0, False
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not terminal):
        raise TableError("this is a device, whose bytes may have no end; give a file or a pipe")
    file = stack.enter_context(tempfile.TemporaryFile(prefix="dualpca-"))  # noqa: SIM115
    try:
        shutil.copyfileobj(stream, file, 2**20)
    except OSError as error:
        raise TableError(
            f"it cannot be copied to the temporary folder {tempfile.gettempdir()!r} "
            f"({error.strerror or error}); set TMPDIR to a larger disk, or give a file"
        ) from error
    if file.tell() == 0:
        raise TableError("there is nothing to read; is the command before it right?")
    return file


def _by_magic(file: BinaryIO) -> str:
    file.seek(0)
    head = file.read(16).lstrip()
    if head.startswith(b"PK") and b"xl/" in file.read(2**16):
        return "xlsx"
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "csv")


def _source(
    kind: str,
    file: BinaryIO,
    path: Path | None,
    key: str | None,
    text: dict[str, Any],
    free: int,
    stack: ExitStack,
) -> Source:
    if key is not None and kind not in ("npz", "hdf5", "zarr", "xlsx"):
        raise TableError(f"--key {key!r} is for npz, HDF5, zarr and xlsx files; leave it out")
    stored = file.seek(0, 2)
    file.seek(0)
    if kind in ("csv", "tsv"):
        return TextSource(file, stored, first="," if kind == "csv" else "\t", **text)
    if kind == "xlsx":
        return convert.sheet(file, stored, key, free, text, stack)
    if kind == "jsonl":
        return convert.json_lines(file, stored, free, text, stack)
    if kind in ("parquet", "arrow"):
        return ArrowFile(file, path, stored, parquet=kind == "parquet")
    if kind == "hdf5":
        return hierarchy.hdf5(file, path, stored, key, free)
    if kind == "zarr":
        if path is None:
            raise TableError("zarr cannot come through a pipe; give its path")
        return hierarchy.zarr(path, key, free)
    if kind == "npz":
        return matrices.npz(file, stored, key, free)
    return matrices.npy(file) if kind == "npy" else matrices.matrix_market(file, stored)
