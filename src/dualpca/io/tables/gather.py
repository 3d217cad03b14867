"""From an open file to a table: cells are counted, rows kept or dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .arrays import Sparse
from .columns import Choice
from .limits import check_text
from .origin import Again, Origin, described
from .rows import Rows, Tally, operator
from .table import Strings, Table, TableError, counted, module


@contextmanager
def readable() -> Iterator[None]:
    """Whatever the reader of a format finds wrong, in one line."""
    try:
        yield
    except (TableError, ImportError, Again):
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise TableError(
            f"this cannot be read ({reason}); is the file whole, and its format right? See --format"
        ) from error


class Gathering:
    """The table of the chosen columns of an open file."""

    def __init__(
        self,
        origin: Origin,
        choice: Choice,
        *,
        missing: str,
        memory: int,
        dtype: Any,
        on_rows: Callable[[int, int, int], Any] | None,
    ) -> None:
        self._origin, self._choice = origin, choice
        self._missing, self._memory, self._on_rows = missing, memory, on_rows
        self._names = choice.names or [origin.header.names[j] for j in choice.features]
        self._texts = [*choice.ids, *([] if choice.label is None else [choice.label])]
        self._dtype = np.dtype(dtype or origin.float_type(choice.features))

    def table(self) -> Table:
        """Read it all."""
        origin, choice = self._origin, self._choice
        X, strings, tally = self._sparse() if isinstance(origin, Sparse) else self._dense()
        dropped = tally.rows if self._missing == "drop" else 0
        if tally.seen == dropped:
            raise TableError(
                f"all of {counted(tally.seen, 'row')} have missing cells; use --missing impute, or "
                "--drop for the columns they are in"
                if dropped
                else "there are no rows; give at least one"
            )
        table = Table(X, choice.names, n_missing=tally.cells)
        if dropped:
            table.dropped = tally.incomplete
        table.notes = [*origin.notes, *choice.notes]
        if dropped:
            table.notes.append(f"dropped {counted(dropped, 'row')} with missing cells")
        about = origin.header.names if origin.header.rows is None else list(origin.header.rows)
        table.id_columns = [about[j] for j in choice.ids]
        table.left_out = choice.left_out
        if choice.label is not None:
            table.label_column, table.labels = about[choice.label], strings.pop()
        if strings:
            table.ids = _joined(strings)
        return table

    def _dense(self) -> tuple[Any, list[Strings], Tally]:
        """What fits memory is copied there; else the file is read in place, or copied to a file."""
        origin, features = self._origin, self._choice.features
        size = (origin.rows or 0) * len(features) * self._dtype.itemsize
        source = origin.in_place(features) if size > self._memory else None
        if source is not None:
            strings, tally = self._pass(None)
            if self._missing != "drop" or not tally.rows:
                return operator(source, self._choice.names, self._dtype), strings, tally
        rows = Rows(len(features), self._dtype, self._memory)
        try:
            strings, tally = self._pass(rows)
            return rows.finish(self._choice.names), strings, tally
        finally:
            rows.close()

    def _pass(self, rows: Rows | None) -> tuple[list[Strings], Tally]:
        """All blocks, counted and kept; the texts of the rows that are kept."""
        pa = module("pyarrow")
        texts: list[list[Any]] = [[] for _ in self._texts]
        tally, taken = Tally(self._names, self._origin.place), 0
        for block, found in self._blocks():
            with np.errstate(over="ignore"):  # infinity is counted
                block = block.astype(self._dtype, copy=False)
            complete = tally.count(block)
            if complete is not None and self._missing == "drop":
                block, found = (
                    block[complete],
                    [cells.filter(pa.array(complete)) for cells in found],
                )
            if rows is not None:
                rows.append(block)
            for kept, cells in zip(texts, found, strict=True):
                kept.append(cells)
                check_text(taken := taken + cells.nbytes, self._memory)
            if self._on_rows is not None:
                self._on_rows(tally.seen, *self._origin.progress(tally.seen))
        self._judge(tally)
        empty = pa.array([], pa.string())
        return [Strings(pa.chunked_array(kept or [empty])) for kept in texts], tally

    def _blocks(self) -> Iterator[Any]:
        blocks = self._origin.blocks(self._choice.features, self._texts)
        while True:
            with readable():
                block = next(blocks, None)
            if block is None:
                return
            yield block

    def _judge(self, tally: Tally) -> None:
        tally.refuse_infinite()
        if self._missing == "refuse":
            tally.refuse_missing(self._choice.exact)

    def _sparse(self) -> tuple[Any, list[Strings], Tally]:
        origin = self._origin
        assert isinstance(origin, Sparse)
        tally, features = Tally(self._names, origin.place), self._choice.features
        with np.errstate(over="ignore"):
            X = origin.matrix.astype(self._dtype, copy=False)
        if features != list(range(X.shape[1])):
            X = X[:, features]
        complete = tally.count_sparse(X)
        self._judge(tally)
        with readable():
            strings = described(origin.about, self._texts)
        if self._missing == "drop" and complete is not None:
            X, strings = X[complete], [cells[complete] for cells in strings]
        if self._on_rows is not None:
            self._on_rows(tally.seen, *origin.progress(tally.seen))
        return X, strings, tally


def _joined(columns: list[Strings]) -> Strings:
    if len(columns) == 1:
        return columns[0]
    pa, join = module("pyarrow"), module("pyarrow.compute").binary_join_element_wise
    slash = pa.scalar("/", pa.large_string())
    return Strings(join(*(column.array for column in columns), slash))
