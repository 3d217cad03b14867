"""Parquet and Arrow files: only the columns that were chosen are read."""

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np

from ...operators.arrow import UNNAMED, ArrowSource, index_of
from ...operators.files import BLOCK
from .columns import Header, Source, counts_rows, seems_id
from .limits import check_columns, check_size, check_text
from .sniff import ROWS
from .table import Package, Strings, TableError, is_number, pa, pc, shown

ds = Package("pyarrow.dataset")


class ArrowFile(Source):
    """A Parquet file, or an Arrow file (Feather) or stream."""

    def __init__(self, file: BinaryIO, path: Any, stored: int, *, parquet: bool) -> None:
        self.notes, self._file, self._path = [], file, path
        if not parquet and file.read(6) != b"ARROW1":
            file.seek(0)
            stream = pa.ipc.open_stream(pa.memory_map(str(path)) if path else file)
            self._data = pa.Table.from_batches(_sound(stream, stored), stream.schema)
        else:
            self._data = self._dataset(ds.ParquetFileFormat() if parquet else ds.IpcFileFormat())
            if not parquet:
                deque(_sound(self._data.to_batches(batch_readahead=1), stored), maxlen=0)
        schema = self._data.schema
        names = list(schema.names)
        name, count = Counter(names).most_common(1)[0] if names else ("", 1)
        if count > 1:
            raise TableError(f"{count} columns have the name {shown(name)}; rename all but one")
        check_columns(len(names))
        in_memory = hasattr(self._data, "num_rows")
        self.rows = self._data.num_rows if in_memory else self._data.count_rows()
        text = {j for j, column in enumerate(schema) if not is_number(column.type)}
        opaque = frozenset(j for j in text if not _names_rows(schema.field(j).type))
        levels, self._counted = index_of(schema, self.rows)
        index = tuple(map(names.index, levels))
        if self._counted is not None:  # names of rows that pandas does not write as a column
            index = (len(names),)
            name = self._counted.name
            names.append(f"{UNNAMED}0__" if name in names else name)  # as pandas would write it
            text.add(len(names) - 1)
        types = pa.types
        dates = frozenset(j for j in text - opaque if j < len(schema) and _is_date(schema.types[j]))
        truth = [j for j, column in enumerate(schema) if types.is_boolean(column.type)]
        self.header = Header(
            names,
            text=frozenset(text),
            index=index,
            opaque=opaque,
            dates=dates,
            remarks=dict.fromkeys(truth, "read true as 1 and false as 0"),
        )
        numbered = (j for j, kind in enumerate(schema.types) if types.is_integer(kind))
        self.header.numbered = tuple(filter(self._counts_rows, numbered))
        # A cell takes a bit at least: zeros take little in Parquet.
        check_size(self.rows * len(names) // 8, stored)

    def _dataset(self, kind: Any) -> Any:
        if self._path is None:
            fragment = kind.make_fragment(pa.PythonFile(self._file, mode="r"))
        else:
            local = Package("pyarrow.fs").LocalFileSystem()
            fragment = kind.make_fragment(str(self._path), filesystem=local)
        return ds.FileSystemDataset([fragment], fragment.physical_schema, kind)

    def _select(self, columns: list[int]) -> Any:
        if hasattr(self._data, "num_rows"):
            return self._data.select(columns).replace_schema_metadata()
        schema = self._data.schema
        return self._data.replace_schema(pa.schema([schema.field(j) for j in columns]))

    def _counts_rows(self, column: int) -> bool:
        """Return whether a column of integers seems to number the rows, by the first of them."""
        name = self.header.names[column]
        if column and not seems_id(name):
            return False
        part = self._select([column])
        part = part.slice(0, ROWS) if hasattr(part, "slice") else part.head(ROWS)
        cells = part.column(0)
        return not cells.null_count and counts_rows(name, column == 0, cells.to_pylist())

    def blocks(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        strings, start = [self._strings(j).array for j in texts], 0
        for block in ArrowSource(self._select(features)).read(BLOCK):
            stop = start + len(block)
            yield block, [s[start:stop] for s in strings]
            start = stop
        if any(len(s) != start for s in strings) or start != self.rows:
            raise TableError("its columns have different numbers of rows; write it again")

    def float_type(self, features: list[int]) -> np.dtype:
        return ArrowSource(self._select(features)).dtype

    def in_place(self, features: list[int]) -> Any:
        return None if self._path is None else self._select(features)

    def _strings(self, column: int) -> Strings:
        name = self.header.names[column]
        if self._counted is not None and column in self.header.index:
            return Strings(pa.array(self._counted.values))
        kind = self._data.schema.field(column).type
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if column not in self.header.opaque:
                cells = self._cells(column, name)
                if pa.types.is_dictionary(cells.type):
                    if pa.types.is_string(cells.type.value_type):
                        check_text(sum(map(_text_bytes, cells.chunks)))
                    cells = cells.cast(cells.type.value_type)
                strings = Strings(cells)
                strings.array.validate(full=True)  # text of Parquet may be no UTF-8
                return strings
        raise TableError(
            f"column {shown(name)} has type {str(kind)[:60]}, or is no UTF8: it names no rows; choose "
            "another for --id or --label"
        )

    def _cells(self, column: int, name: str) -> Any:
        data = self._data
        if hasattr(data, "num_rows"):
            return data.column(column)
        parquet = isinstance(data.format, ds.ParquetFileFormat)
        if parquet and data.schema.types[column] == pa.string():
            # As it is stored: one long text for many rows is held once.
            data = self._dataset(ds.ParquetFileFormat(dictionary_columns={name}))
        return data.to_table(columns=[name]).column(0)


def _sound(batches: Any, stored: int) -> Iterator[Any]:
    """Yield batches whose offsets and lengths were checked: bad ones make pyarrow read other memory."""
    total = 0
    for batch in batches:
        batch.validate(full=True)
        check_size(total := total + batch.nbytes, stored)
        yield batch


def _text_bytes(cells: Any) -> int:
    """Return the bytes of all texts of an array with a dictionary."""
    lengths = pc.binary_length(cells.dictionary).cast("int64")
    return pc.sum(lengths.take(cells.indices)).as_py() or 0


def _is_date(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def _names_rows(kind: Any) -> bool:
    """Return whether a type has one value for a cell; lists and records have several."""
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return not types.is_nested(getattr(kind, "storage_type", kind))
