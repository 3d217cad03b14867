"""How rows are written as text, Parquet and npy: the first block starts, more are added, then it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import numpy as np

from .sniff import NUMBER
from .table import Strings, TableError, module

#: Text that a spreadsheet may take for a formula; some take the wide signs of Asian scripts too.
_FORMULA = r"^[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]"


class Sink(ABC):
    """Writes columns, Arrow arrays by name, to an open file."""

    def __init__(self, file: Any, columns: dict[str, Any]) -> None:
        self._file, self._names = file, list(columns)

    @abstractmethod
    def add(self, columns: dict[str, Any]) -> None:
        """Write more rows."""

    def end(self) -> None:  # noqa: B027 (text has no end)
        """Write what comes last."""

    def abandon(self) -> None:  # noqa: B027 (text and npy have nothing to let go of)
        """Let go of the file, which is not wanted any more."""


class Text(Sink):
    """Delimited text in UTF-8: numbers with all their digits, text quoted at need, NaN empty."""

    delimiter = ","

    def __init__(self, file: Any, columns: dict[str, Any], *, safe: bool) -> None:
        super().__init__(file, columns)
        self._safe = safe
        self.add({str(j): column([name]) for j, name in enumerate(columns)})

    def add(self, columns: dict[str, Any]) -> None:
        cells = [self._cells(values) for values in columns.values()]
        join = module("pyarrow.compute").binary_join_element_wise
        lines = join(*cells, _scalar(self.delimiter)).to_pylist()
        self._file.write("".join(f"{line}\n" for line in lines).encode())

    def _cells(self, values: Any) -> Any:
        pa, pc = module("pyarrow"), module("pyarrow.compute")
        # A line that is all blank would be skipped when it is read.
        empty = _scalar('""' if len(self._names) == 1 else "")
        if is_number(values.type):
            if pa.types.is_floating(values.type):
                values = pc.if_else(pc.is_nan(values), None, values)
            return pc.fill_null(values.cast(pa.large_string()), empty)
        cells = values
        if self._safe:
            formula = pc.and_(
                pc.match_substring_regex(cells, _FORMULA),
                pc.invert(pc.match_substring_regex(cells, NUMBER)),
            )
            cells = pc.if_else(formula, _wrapped("'", cells, ""), cells)
        quoted = _wrapped('"', pc.replace_substring(cells, '"', '""'), '"')
        special = pc.match_substring_regex(cells, rf'[{self.delimiter}"\r\n]|^\s|\s$')
        cells = pc.if_else(special, quoted, cells)
        return pc.if_else(pc.equal(cells, ""), empty, cells)


class Tabbed(Text):
    """Text with tabs."""

    delimiter = "\t"


class Parquet(Sink):
    """Parquet, with the types of the first block."""

    def __init__(self, file: Any, columns: dict[str, Any], *, safe: bool) -> None:
        super().__init__(file, columns)
        pa, pq = module("pyarrow"), module("pyarrow.parquet")
        schema = pa.schema([(name, values.type) for name, values in columns.items()])
        self._writer = pq.ParquetWriter(pa.PythonFile(file, mode="w"), schema)

    def add(self, columns: dict[str, Any]) -> None:
        pa, schema = module("pyarrow"), self._writer.schema
        try:
            arrays = [v.cast(schema.field(name).type) for name, v in columns.items()]
        except pa.ArrowInvalid as error:
            raise TableError(
                f"blocks have columns of different types ({error}); convert them"
            ) from error
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=schema))

    def end(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        with suppress(Exception):  # the file is not wanted, but its writer insists on an end
            self._writer.close()


class Npy(Sink):
    """One matrix: float32 where all columns are, else float64."""

    def __init__(self, file: Any, columns: dict[str, Any], *, safe: bool) -> None:
        super().__init__(file, columns)
        types = [values.type for values in columns.values()]
        narrow = all(module("pyarrow").types.is_float32(kind) for kind in types)
        self._dtype, self._count = np.dtype("float32" if narrow else "float64"), 0
        self._header()

    def _header(self) -> None:
        # numpy leaves room for any number of rows, so that the header can be written again.
        self._file.seek(0)
        kind = np.lib.format.dtype_to_descr(self._dtype)
        shape = (self._count, len(self._names))
        header = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def add(self, columns: dict[str, Any]) -> None:
        for name, values in columns.items():
            if not is_number(values.type):
                raise TableError(f"npy holds numbers only, and {name!r} is text; write csv instead")
        parts = [np.asarray(v.to_numpy(zero_copy_only=False)) for v in columns.values()]
        self._file.write(np.stack(parts, axis=1).astype(self._dtype).tobytes())
        self._count += len(parts[0])

    def end(self) -> None:
        self._header()


def column(values: Any) -> Any:
    """A column as an Arrow array of numbers or large strings."""
    pa = module("pyarrow")
    if isinstance(values, Strings):
        return values.array
    array = np.asarray(values)
    if array.ndim != 1:
        raise TableError(f"a column has shape {array.shape}; give a sequence")
    if array.dtype.kind in "bui" or array.dtype in (np.float32, np.float64):
        return pa.array(np.ascontiguousarray(array))
    if array.dtype.kind in "OU":
        # Of the values themselves: arrays of text lose zeros at its end.
        return Strings("" if value is None else str(value) for value in values).array
    raise TableError(f"a column has dtype {array.dtype}; give text or real numbers")


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is a number or a truth value."""
    types = module("pyarrow").types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _scalar(text: str) -> Any:
    pa = module("pyarrow")
    return pa.scalar(text, pa.large_string())


def _wrapped(before: str, cells: Any, after: str) -> Any:
    join = module("pyarrow.compute").binary_join_element_wise
    return join(_scalar(before), cells, _scalar(after), _scalar(""))
