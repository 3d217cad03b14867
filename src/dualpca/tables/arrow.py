"""Parquet and Arrow files: only the columns that were chosen are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from ..operators.sources import BLOCK, ArrowSource
from .columns import Header
from .origin import Origin
from .table import Strings, TableError, module


class Arrow(Origin):
    """A Parquet file, or an Arrow file (Feather) or stream."""

    def __init__(self, file: BinaryIO, path: Any, *, parquet: bool) -> None:
        pa, ds = module("pyarrow"), module("pyarrow.dataset")
        self.notes, self._lasting = [], path is not None
        file.seek(0)
        if not parquet and file.read(6) != b"ARROW1":
            # A stream; of a memory map its columns are views.
            file.seek(0)
            self._data = pa.ipc.open_stream(pa.memory_map(str(path)) if path else file).read_all()
        else:
            kind = ds.ParquetFileFormat() if parquet else ds.IpcFileFormat()
            if path is None:
                fragment = kind.make_fragment(pa.PythonFile(file, mode="r"))
            else:
                local = module("pyarrow.fs").LocalFileSystem()
                fragment = kind.make_fragment(str(path), filesystem=local)
            self._data = ds.FileSystemDataset([fragment], fragment.physical_schema, kind)
        schema = self._data.schema
        names = list(schema.names)
        name, count = Counter(names).most_common(1)[0] if names else ("", 1)
        if count > 1:
            raise TableError(f"{count} columns have the name {name!r}; rename all but one")
        text = frozenset(j for j, column in enumerate(schema) if not _is_number(column.type))
        # pandas writes row names that are not plain counts under such names.
        index = next((j for j, name in enumerate(names) if name.startswith("__index_level_")), None)
        self.header = Header(names, text=text, index=index)
        table = hasattr(self._data, "num_rows")
        self.rows = self._data.num_rows if table else self._data.count_rows()

    def _select(self, columns: list[int]) -> Any:
        if hasattr(self._data, "num_rows"):
            return self._data.select(columns)
        pa, schema = module("pyarrow"), self._data.schema
        return self._data.replace_schema(pa.schema([schema.field(j) for j in columns]))

    def blocks(
        self, features: list[int], texts: list[int]
    ) -> Iterator[tuple[np.ndarray, list[Any]]]:
        strings = [self._strings(j) for j in texts]
        start = 0
        for block in ArrowSource(self._select(features)).read(BLOCK):
            stop = start + len(block)
            yield block, [s[start:stop].array for s in strings]
            start = stop

    def float_type(self, features: list[int]) -> np.dtype:
        return ArrowSource(self._select(features)).dtype

    def _strings(self, column: int) -> Strings:
        pa, chosen = module("pyarrow"), self._select([column])
        table = chosen if hasattr(chosen, "num_rows") else chosen.to_table()
        cells, kind = table.column(0), table.column(0).type
        try:
            return Strings(cells.cast(kind.value_type) if pa.types.is_dictionary(kind) else cells)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TableError(
                f"column {self.header.names[column]!r} has type {kind}, which names no rows; choose "
                "another for --id or --label"
            ) from error

    def in_place(self, features: list[int]) -> Any:
        return self._select(features) if self._lasting else None


def _is_number(kind: Any) -> bool:
    types = module("pyarrow").types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)
