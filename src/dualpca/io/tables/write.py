"""Write tables in blocks, whole or not at all: delimited text, Parquet and npy."""

import gzip
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..files import check_free, written
from .sniff import NUMBER
from .table import Package, Strings, TableError, is_number, joined, listed, pa, pc, printable

#: Text that a spreadsheet may take for a formula; some take the wide signs of Asian scripts too.
_FORMULA = r"^[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]"

#: The delimiters of the formats of text; the other formats are "parquet" and "npy".
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_FORMATS = {"tab": "tsv", "pq": "parquet", **{k: k for k in ("csv", "tsv", "parquet", "npy")}}


class Text:
    """Delimited text in UTF-8: numbers with all their digits, text quoted at need, NaN empty.

    pyarrow.csv would quote every text and never disarm a formula.
    """

    def __init__(self, file: Any, columns: dict[str, Any], safe: bool, delimiter: str) -> None:
        self._file, self._single, self._safe = file, len(columns) == 1, safe
        self._delimiter = delimiter
        self.add({str(j): _column([name]) for j, name in enumerate(columns)})

    def add(self, columns: dict[str, Any]) -> None:
        lines = joined(*map(self._cells, columns.values()), by=self._delimiter).to_pylist()
        self._file.write("".join(f"{line}\n" for line in lines).encode())

    def _cells(self, cells: Any) -> Any:
        # A line that is all blank would be skipped when it is read.
        empty = '""' if self._single else ""
        if is_number(cells.type):
            if pa.types.is_floating(cells.type):
                cells = pc.if_else(pc.is_nan(cells), None, cells)
            return pc.fill_null(cells.cast(pa.large_string()), empty)
        if self._safe:
            formula = pc.match_substring_regex(cells, _FORMULA)
            formula = pc.and_not(formula, pc.match_substring_regex(cells, NUMBER))
            cells = pc.if_else(formula, joined("'", cells), cells)
        special = pc.match_substring_regex(cells, rf'[{self._delimiter}"\r\n]|^\s|\s$')
        quoted = joined('"', pc.replace_substring(cells, '"', '""'), '"')
        return pc.if_else(pc.equal(cells, ""), empty, pc.if_else(special, quoted, cells))

    def end(self) -> None:
        """Do nothing: text has no end."""


class Parquet:
    """Parquet, with the types of the first block."""

    def __init__(self, file: Any, columns: dict[str, Any]) -> None:
        schema = pa.schema([(name, values.type) for name, values in columns.items()])
        target = pa.PythonFile(file, mode="w")
        self._writer = Package("pyarrow.parquet").ParquetWriter(target, schema)

    def add(self, columns: dict[str, Any]) -> None:
        try:
            table = pa.table(columns).cast(self._writer.schema)
        except pa.ArrowInvalid as error:
            raise TableError(f"blocks have different types ({error}); convert them") from error
        self._writer.write_table(table)

    def end(self) -> None:
        self._writer.close()


class Npy:
    """One matrix: float32 where all columns are, else float64."""

    def __init__(self, file: Any, columns: dict[str, Any]) -> None:
        self._file, self._shape = file, (0, len(columns))
        single = all(str(values.type) == "float" for values in columns.values())
        self._dtype = np.dtype("float32" if single else "float64")
        self.end()

    def add(self, columns: dict[str, Any]) -> None:
        for name, values in columns.items():
            if not is_number(values.type):
                raise TableError(f"npy holds numbers only, and {name!r} is text; write csv instead")
        parts = [v.to_numpy(zero_copy_only=False) for v in columns.values()]
        self._file.write(np.stack(parts, axis=1).astype(self._dtype).tobytes())
        self._shape = self._shape[0] + len(parts[0]), self._shape[1]

    def end(self) -> None:
        # numpy leaves room for any number of rows, so that the header can be written again.
        self._file.seek(0)
        kind = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": kind, "fortran_order": False, "shape": self._shape}
        np.lib.format.write_array_header_1_0(self._file, header)


class Writer:
    """A table that is written block by block; a file appears when it is complete.

    Parameters
    ----------
    path : str or path
        csv, tsv (both also .gz), parquet or npy; "-" is standard output, CSV by default.
    format : str, optional
        One of these, whatever the extension.
    overwrite : bool
        Whether to replace an existing file; otherwise that is an error.
    safe : bool, default True
        In csv and tsv, put an apostrophe before text that a spreadsheet would take for a formula: text
        that begins with ``= + - @`` or their wide forms, tab or an end of line, and is no number.
        Numbers are never changed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dualpca.io.tables import Writer
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.csv")
    ...     with Writer(path) as writer:
    ...         writer.write({"row": ["a", "b"], "PC1": [0.5, 1.0]})
    ...         writer.write({"row": ["c"], "PC1": [0.1]})
    ...     print(path.read_text().splitlines())
    ['row,PC1', 'a,0.5', 'b,1', 'c,0.1']
    """

    def __init__(
        self, path: Any, *, format: str | None = None, overwrite: bool = False, safe: bool = True
    ) -> None:
        self._path = None if str(path) == "-" else Path(path)
        self._overwrite, self._safe = overwrite, safe
        endings = [e[1:].lower() for e in self._path.suffixes] if self._path else ["csv"]
        self._packed = endings[-1:] == ["gz"]
        name = format or (endings[-1 - self._packed] if len(endings) > self._packed else "")
        if name not in _FORMATS:
            subject = f"the extension {name!r}" if name else "a file without extension"
            raise TableError(f"{subject} is not known; write csv, tsv, parquet or npy")
        self.format = _FORMATS[name]
        if self._packed and self.format not in _DELIMITERS:
            raise TableError(f"{name} is not written compressed by gz; leave out .gz")
        if self._path is None and self.format == "npy":
            raise TableError("npy cannot go through a pipe; give a file, or write csv")
        self._columns: list[str] = []
        self._file: Any = None
        self._sink: Any = None
        if self._path is not None:
            check_free(self._path, overwrite)

    def __enter__(self) -> Self:
        self._context = ExitStack()
        self._raw: Any
        if self._path is not None:
            self._raw = self._context.enter_context(written(self._path, overwrite=self._overwrite))
        elif self.format in _DELIMITERS and sys.stdout.isatty():
            self._raw = _Terminal()
        else:
            self._raw = sys.stdout.buffer
        # Neither name nor time is stored: equal tables make equal files.
        self._file = gzip.GzipFile("", "wb", 6, self._raw, 0) if self._packed else self._raw
        return self

    def write(self, block: Mapping[str, Any]) -> None:
        """Add rows: columns by name, of text or numbers, the same ones in each block."""
        if self._file is None:
            raise TableError("the writer is not open; use it in a with statement")
        columns = {str(name): _column(values) for name, values in block.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            rows = sorted(lengths)
            raise TableError(f"a block has columns of {rows} rows; give some, of equal lengths")
        if self._sink is None:
            self._columns = list(columns)
            if self.format in _DELIMITERS:
                self._sink = Text(self._file, columns, self._safe, _DELIMITERS[self.format])
            else:
                self._sink = (Npy if self.format == "npy" else Parquet)(self._file, columns)
        if self._columns != list(columns):
            now, before = listed(columns), listed(self._columns)
            raise TableError(f"a block has columns {now} after {before}; give the same")
        self._sink.add(columns)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        file, self._file = self._file, None
        with self._context:
            if error is not None:
                with suppress(Exception):  # the writer of Parquet insists on an end
                    self._sink.end()
                raise error
            if self._sink is None:
                raise TableError("nothing was written; write one block at least")
            self._sink.end()
            if self._packed:
                file.close()
            self._raw.flush()


class _Terminal:
    """Standard output with control characters written out, which a terminal would obey."""

    def write(self, content: bytes) -> None:
        sys.stdout.write(printable(content.decode(), keep="\n\t"))

    def flush(self) -> None:
        sys.stdout.flush()


def write(
    path: Any,
    blocks: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    format: str | None = None,
    overwrite: bool = False,
    safe: bool = True,
) -> None:
    """Write a table, columns by name, or the blocks of one in order.

    The parameters are those of :class:`Writer`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dualpca.io.tables import read, write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.parquet")
    ...     write(path, ({"PC1": [k / 2], "PC2": [-k]} for k in range(2)))
    ...     read(path).X
    array([[ 0. ,  0. ],
           [ 0.5, -1. ]])
    """
    with Writer(path, format=format, overwrite=overwrite, safe=safe) as writer:
        for block in [blocks] if isinstance(blocks, Mapping) else blocks:
            writer.write(block)


def _column(values: Any) -> Any:
    """Return a column as an Arrow array of numbers or large strings."""
    if isinstance(values, Strings):
        return values.array
    array = np.asarray(values)
    if array.ndim != 1:
        raise TableError(f"a column has shape {array.shape}; give a sequence")
    if array.dtype.kind in "bui" or array.dtype in (np.float32, np.float64):
        return pa.array(np.ascontiguousarray(array))
    if array.dtype.kind in "OU":
        # From the values themselves: an array of text loses zeros at its end.
        return Strings("" if value is None else str(value) for value in values).array
    raise TableError(f"a column has dtype {array.dtype}; give text or real numbers")
