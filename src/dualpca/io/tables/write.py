"""Writing tables in blocks, whole or not at all."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..files import check_free, written
from .sinks import Npy, Parquet, Sink, Tabbed, Text, column
from .table import TableError, listed, printable

_FORMATS: dict[str, Any] = {
    "csv": Text,
    "tsv": Tabbed,
    "tab": Tabbed,
    "parquet": Parquet,
    "pq": Parquet,
    "npy": Npy,
}


class Writer:
    """A table that is written block by block; a file appears when it is complete.

    Parameters
    ----------
    path : str or path
        csv, tsv (both also .gz), parquet or npy; "-" is standard output, CSV by default.
    format : str, optional
        One of these, whatever the extension.
    overwrite : bool
        Without it a file that exists is an error.
    safe : bool, default True
        In csv and tsv, put an apostrophe before text that a spreadsheet would take for a formula: that
        begins with ``= + - @`` or their wide forms, tab or an end of line, and is no number. Numbers are
        never changed.

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
        self._make, self._packed = _kind(self._path, format)
        self._columns: list[str] = []
        self._file: Any = None
        self._sink: Sink | None = None
        if self._path is not None:
            check_free(self._path, overwrite)

    def __enter__(self) -> Writer:
        self._context: Any
        if self._path is None:
            self._context = nullcontext(_Terminal() if _seen(self._make) else sys.stdout.buffer)
        else:
            self._context = written(self._path, overwrite=self._overwrite)
        self._raw: Any = self._context.__enter__()
        # Neither name nor time: equal tables make equal files.
        self._file = gzip.GzipFile("", "wb", 6, self._raw, 0) if self._packed else self._raw
        return self

    def write(self, block: Mapping[str, Any]) -> None:
        """Add rows: columns by name, of text or numbers, the same ones in each block."""
        if self._file is None:
            raise TableError("the writer is not open; use it in a with statement")
        columns = {str(name): column(values) for name, values in block.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            raise TableError(
                f"a block has columns of {sorted(lengths)} rows; give some, of equal lengths"
            )
        if self._sink is None:
            self._columns = list(columns)
            self._sink = self._make(self._file, columns, safe=self._safe)
        if self._columns != list(columns):
            raise TableError(
                f"a block has columns {listed(columns)} after {listed(self._columns)}; give the same"
            )
        self._sink.add(columns)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                self._end()
        except BaseException as failure:
            self._abandon()
            self._context.__exit__(type(failure), failure, failure.__traceback__)
            raise
        if kind is not None:
            self._abandon()
        self._file = None
        self._context.__exit__(kind, error, trace)

    def _abandon(self) -> None:
        self._file = None
        if self._sink is not None:
            self._sink.abandon()

    def _end(self) -> None:
        if self._sink is None:
            raise TableError("nothing was written; write one block at least")
        self._sink.end()
        if self._packed:
            self._file.close()
        self._raw.flush()


def _seen(make: Any) -> bool:
    """Whether what is written goes to a terminal, as text."""
    return issubclass(make, Text) and sys.stdout.isatty()


class _Terminal:
    """Standard output, with control characters in names written out: a terminal would obey them."""

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


def _kind(path: Path | None, format: str | None) -> tuple[Any, bool]:
    """The class of the sink, and whether the file is compressed."""
    endings = [ending[1:].lower() for ending in path.suffixes] if path else ["csv"]
    packed = bool(endings) and endings[-1] == "gz"
    name = format or (endings[-1 - packed] if len(endings) > packed else "")
    if name not in _FORMATS:
        found = f"the extension {name!r}" if name else "a file without extension"
        raise TableError(
            f"{found} is not known; write csv, tsv, parquet or npy: choose another ending"
        )
    make = _FORMATS[name]
    if packed and not issubclass(make, Text):
        raise TableError(f"{name} is not written compressed by gz; leave out .gz")
    if path is None and make is Npy:
        raise TableError("npy cannot go through a pipe; give a file, or write csv")
    return make, packed
