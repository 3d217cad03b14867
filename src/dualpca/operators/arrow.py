"""Columns of Arrow and Parquet; the index of a pandas data frame there names rows and is no data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .files import Source, changed

#: How pandas names the columns of an index that has no name.
UNNAMED = "__index_level_"


class Counted(NamedTuple):
    """An index that counts; pandas writes only its start, stop and step."""

    name: str
    values: range


def index_of(schema: Any, rows: int | None = None) -> tuple[list[str], Counted | None]:
    """Return the columns that are levels of the index; a counted index, if it has a name.

    Metadata that pandas would not write, or that does not fit the columns and rows, is ignored.
    """
    names = set(schema.names)
    try:
        entries = (schema.pandas_metadata or {})["index_columns"]
        levels = [entry for entry in entries if isinstance(entry, str) and entry in names]
        counted = _counted(entries[0], rows) if len(entries) == 1 and not levels else None
    except (ValueError, TypeError, LookupError, RecursionError):
        levels, counted = [], None
    others = (name for name in schema.names if name.startswith(UNNAMED))
    levels = list(dict.fromkeys([*levels, *others]))
    return levels, None if levels else counted


def _counted(entry: dict[str, Any], rows: int | None) -> Counted | None:
    start, stop, step = (entry[key] for key in ("start", "stop", "step"))
    if any(type(n) is not int or abs(n) >= 2**62 for n in (start, stop, step)):
        return None
    values, name = range(start, stop, step), entry["name"]
    return None if name is None or len(values) != rows else Counted(str(name), values)


class ArrowSource(Source):
    """Columns of Arrow or Parquet, streamed by record batches; nulls become NaN.

    The index of a pandas data frame is left out, as that of one in memory is. A record batch, of
    Parquet a few row groups, is in memory as a whole besides the blocks.
    """

    def __init__(self, data: Any) -> None:
        schema = getattr(data, "schema_arrow", None) or data.schema
        index = index_of(schema)[0]
        self._columns = [j for j, name in enumerate(schema.names) if name not in index]
        self.names = [schema.names[j] for j in self._columns]
        kinds = [_arrow_type(schema.names[j], schema.field(j).type) for j in self._columns]
        dtype = np.result_type(*kinds) if kinds else np.dtype("float64")
        if hasattr(data, "count_rows"):
            rows = data.count_rows()
        elif hasattr(data, "num_record_batches"):  # an IPC file in older pyarrow
            rows = sum(data.get_batch(i).num_rows for i in range(data.num_record_batches))
        else:
            rows = (data.metadata if hasattr(data, "read_row_group") else data).num_rows
        super().__init__((rows, len(kinds)), dtype)
        self._data = data

    def _batches(self, step: int) -> Iterator[Any]:
        data = self._data
        if hasattr(data, "num_record_batches"):  # an IPC file
            return (data.get_batch(i) for i in range(data.num_record_batches))
        if hasattr(data, "read_row_group"):  # a Parquet file
            groups = (data.read_row_group(i) for i in range(data.num_row_groups))
            return (batch for group in groups for batch in group.to_batches())
        if hasattr(data, "scanner"):  # a data set
            options: dict[str, Any] = {"batch_readahead": 1, "fragment_readahead": 1}
            if type(getattr(data, "format", None)).__name__ == "ParquetFileFormat":
                from pyarrow.dataset import ParquetFragmentScanOptions

                # Buffers that are read ahead stay in memory: in the end all of the file.
                options["fragment_scan_options"] = ParquetFragmentScanOptions(pre_buffer=False)
            return data.to_batches(batch_size=step, **options)
        return iter(data.to_batches() if hasattr(data, "to_batches") else [data])

    def read(self, block_bytes: int) -> Iterator[Any]:
        (left, d), step, filled = self.shape, self._rows(block_bytes), 0
        for whole in self._batches(step):
            batch, start = whole.select(self._columns), 0
            while start < batch.num_rows:
                if left == 0:
                    raise changed(f"more than {self.shape[0]} rows", self.shape[0])
                if filled == 0:
                    block = np.empty((min(step, left), d), dtype=self.dtype, order="F")
                part = batch.slice(start, len(block) - filled)
                _fill(block[filled : filled + part.num_rows], part)
                start, filled = start + part.num_rows, filled + part.num_rows
                if filled == len(block):
                    yield block
                    del block  # or it would be held while the next batch is read
                    left, filled = left - filled, 0


def _arrow_type(name: str, kind: Any) -> np.dtype:
    from pyarrow import types

    if types.is_float32(kind):
        return np.dtype("float32")
    number = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if not any(is_kind(kind) for is_kind in number):
        raise ValueError(
            f"column {name!r} has type {kind}, not numbers; leave it out: select([...]) of a table, "
            "replace_schema(...) of a data set, or encode it as numbers"
        )
    return np.dtype("float64")


def _fill(block: np.ndarray, batch: Any) -> None:
    import pyarrow as pa

    for j, column in enumerate(batch.columns):
        if not pa.types.is_floating(column.type):
            # Unsafe as in numpy: integers beyond 2^53 are rounded.
            column = column.cast(pa.float64(), safe=False)
        block[:, j] = column.to_numpy(zero_copy_only=False)
