"""Gather the chosen columns of a source into a table: cells are counted, rows kept or dropped."""

import io
import mmap
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...operators import Blocks
from ...operators.files import BLOCK, ArraySource
from .choose import Choice
from .columns import Source
from .limits import check_text
from .table import Strings, Table, TableError, counted, joined, listed, pa, shown


@contextmanager
def readable() -> Iterator[None]:
    """Turn whatever the reader of a format raises into a TableError of one line."""
    try:
        yield
    except (TableError, ImportError):
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise TableError(
            f"this cannot be read ({reason}); is the file whole, and its format right? See --format"
        ) from error


def gather(
    source: Source, choice: Choice, missing: str, memory: int, dtype: Any, on_rows: Any
) -> Table:
    """Return the table of the chosen columns: in memory where it fits, else streamed."""
    row_names = source.header.names if source.header.rows is None else list(source.header.rows)
    texts = [*choice.ids, *([] if choice.label is None else [choice.label])]
    dtype = np.dtype(dtype or source.float_type(choice.features))
    names = choice.names or [source.header.names[j] for j in choice.features]

    def one_pass(keep: Callable[[Any], Any] | None) -> tuple[list[Strings], Tally]:
        columns: list[list[Any]] = [[] for _ in texts]
        tally, nbytes = Tally(names, source.place, choice.varying and source.table), 0
        for block, cells in _blocks(source, choice.features, texts):
            with np.errstate(over="ignore"):  # infinite cells are counted
                block = block.astype(dtype, copy=False)
            complete = tally.count(block)
            if complete is not None and missing == "drop":
                block, cells = block[complete], [c.filter(pa.array(complete)) for c in cells]
            if keep is not None:
                keep(block)
            for column, part in zip(columns, cells, strict=True):
                column.append(part)
                check_text(nbytes := nbytes + part.nbytes, memory)
            if on_rows is not None:
                on_rows(tally.rows, *source.progress(tally.rows))
        empty = [pa.array([], pa.string())]
        return [Strings(pa.chunked_array(column or empty)) for column in columns], tally

    size = (source.rows or 0) * len(choice.features) * dtype.itemsize
    data = source.in_place(choice.features) if size > memory else None
    with closing(Rows(len(choice.features), dtype, memory)) as rows:
        strings, tally = one_pass(rows.append if data is None else None)
        if (constant := tally.constant()).any():
            choice = _without(choice, names, constant, source.header.settings)
            if data is not None or tally.is_odd(constant):
                return gather(source, choice, missing, memory, dtype, on_rows)
            rows.select(np.flatnonzero(~constant))
        tally.check(missing, choice.exact)
        if data is not None and missing == "drop" and len(tally.incomplete):
            data, (strings, tally) = None, one_pass(rows.append)
        X = rows.finish() if data is None else data
    if data is not None or isinstance(X, MappedFile):
        X = Blocks([X], dtype=dtype)
        X.names = choice.names
    table = Table(X, choice.names, n_missing=tally.cells, left_out=choice.left_out)
    table.notes = [*source.notes, *choice.notes]
    table.percent = [source.header.names[j] for j in choice.features if j in source.header.percent]
    dropped = len(tally.incomplete) if missing == "drop" else 0
    if tally.rows == dropped:
        raise TableError(
            f"all of {counted(tally.rows, 'row')} have missing cells; use --missing impute, or "
            "--drop for the columns they are in"
            if dropped
            else "there are no rows; give at least one"
        )
    if dropped:
        table.dropped = tally.incomplete
        table.notes.append(f"dropped {counted(dropped, 'row')} with missing cells")
    table.id_columns = [row_names[j] for j in choice.ids]
    if choice.label is not None:
        table.label_column, table.labels = row_names[choice.label], strings.pop()
    if strings:
        several = len(strings) > 1
        table.ids = Strings(joined(*(s.array for s in strings), by="/")) if several else strings[0]
    return table


def _without(
    choice: Choice, names: list[str], constant: np.ndarray, settings: Sequence[str]
) -> Choice:
    """Return the choice without the columns that are constant."""
    gone, kept = (list(np.flatnonzero(which)) for which in (constant, ~constant))
    if not kept:
        raise TableError(
            f"all cells of {counted(len(names), 'column')} of numbers are equal: there is nothing to "
            f"analyse{'; see ' if settings else ''}{', '.join(settings)}"
        )
    left = [names[j] for j in gone]
    kind = "constant column" if len(left) == 1 else "constant columns"
    return replace(
        choice,
        features=[choice.features[j] for j in kept],
        names=[names[j] for j in kept],
        left_out=[*choice.left_out, *left],
        notes=[
            *choice.notes,
            f"left out {kind}: {listed(left)}; --keep analyses columns as they are",
        ],
    )


def _blocks(source: Source, features: list[int], texts: list[int]) -> Iterator[Any]:
    blocks = source.blocks(features, texts)
    while True:
        with readable():
            block = next(blocks, None)
        if block is None:
            return
        yield block


class Rows:
    """A float matrix that grows by blocks of rows, or the only block of a sparse one.

    Beyond ``memory`` bytes it lies in a temporary file, without a name where the system allows, that
    is gone with the last reference to it, however the program ends.
    """

    def __init__(self, columns: int, dtype: np.dtype, memory: int) -> None:
        self._columns, self._dtype, self._memory = columns, dtype, memory
        self._file: Any = io.BytesIO()
        self._count = 0
        self._sparse: Any = None

    def append(self, block: Any) -> None:
        """Add the rows of a block."""
        if sp.issparse(block):
            self._sparse = block
            return
        content = np.ascontiguousarray(block, dtype=self._dtype).reshape(-1).view(np.uint8).data
        held = self._file
        try:
            if isinstance(held, io.BytesIO) and held.tell() + len(content) > self._memory:
                self._file = tempfile.TemporaryFile(prefix="dualpca-")  # noqa: SIM115
                self._file.write(held.getbuffer())
            self._file.write(content)
        except OSError as error:
            raise TableError(
                f"the temporary folder {tempfile.gettempdir()!r} is full after "
                f"{counted(self._count, 'row')} ({error.strerror}); set TMPDIR to a larger disk, or "
                "raise --memory"
            ) from error
        self._count += len(block)

    def select(self, columns: np.ndarray) -> None:
        """Keep these columns only; rows are moved towards the start of the file."""
        width, kept = (number * self._dtype.itemsize for number in (self._columns, len(columns)))
        step = max(1, BLOCK // width)
        for start in range(0, self._count, step):
            self._file.seek(start * width)
            content = self._file.read(step * width)
            part = np.frombuffer(content, self._dtype).reshape(-1, self._columns)[:, columns]
            self._file.seek(start * kept)
            self._file.write(np.ascontiguousarray(part).data)
        self._file.truncate(self._count * kept)
        self._columns = len(columns)

    def finish(self) -> Any:
        """Return the matrix, in memory or in the file; None if it has no rows."""
        shape, file = (self._count, self._columns), self._file
        if self._sparse is not None or not self._count:
            return self._sparse
        if isinstance(file, io.BytesIO):
            return np.frombuffer(file.getbuffer(), self._dtype).reshape(shape)
        file.flush()
        return MappedFile(file, shape, self._dtype)

    def close(self) -> None:
        """Let go of the file, which a map or an array still holds."""
        with suppress(BufferError):
            self._file.close()


class MappedFile(ArraySource):
    """Rows in a temporary file, mapped; pages that were read are released.

    Otherwise all of them would count as memory in use after one pass. A page that is released too early
    is mapped again from the system's cache.
    """

    def __init__(self, file: Any, shape: tuple[int, int], dtype: Any) -> None:
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        super().__init__(np.frombuffer(self._map, dtype=dtype).reshape(shape))

    def read(self, block_bytes: int) -> Iterator[np.ndarray]:
        done = 0
        for block in super().read(block_bytes):
            yield block
            self._release(done - 2 * block.nbytes, done)  # one is in use, one is read ahead
            done += block.nbytes
        self._release(0, done)

    def take(self, rows: np.ndarray) -> np.ndarray:
        taken = super().take(rows)
        self._release(0, len(self._map))
        return taken

    def _release(self, start: int, stop: int) -> None:
        start = max(start - start % mmap.PAGESIZE, 0)
        if hasattr(mmap, "MADV_DONTNEED") and stop > start:
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)


class Tally:
    """Count missing and infinite cells; ``place`` says where a row is, for the user.

    ``varying`` columns are looked for as well: those that have two cells of different numbers.
    """

    def __init__(self, names: list[str], place: Callable[[int], str], varying: bool) -> None:
        self._names, self._place = names, place
        self.rows = self.cells = self._infinite = 0  # cells that are missing
        self._first_infinite = (0, 0)
        self._missing = np.zeros(len(names), dtype=np.int64)
        self._alike = np.arange(len(names) if varying else 0)  # columns that have not varied so far
        self._value = np.full(len(self._alike), np.nan)
        self.incomplete = np.zeros(0, dtype=np.int64)  # the rows with missing cells, from 0

    def count(self, block: Any) -> np.ndarray | None:
        """Count a block, dense or CSR; return which of its rows are complete, None where all are."""
        start = self.rows
        self.rows += block.shape[0]
        if len(self._alike) and block.shape[0]:
            self._compare(block[:, self._alike])
        # One number decides in nearly every case: a sum of finite entries seldom overflows.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum()):
                return None
        if sp.issparse(block):
            block = block.tocoo()
            odd = np.flatnonzero(~np.isfinite(block.data))
            rows, columns, values = block.row[odd], block.col[odd], block.data[odd]
        else:
            rows, columns = np.nonzero(~np.isfinite(block))
            values = block[rows, columns]
        missing = np.isnan(values)
        if len(infinite := np.flatnonzero(~missing)):
            if not self._infinite:
                self._first_infinite = start + int(rows[infinite[0]]), int(columns[infinite[0]])
            self._infinite += len(infinite)
        if not missing.any():
            return None
        self.cells += int(missing.sum())
        self._missing += np.bincount(columns[missing], minlength=len(self._names))
        complete = np.ones(block.shape[0], dtype=bool)
        complete[rows[missing]] = False
        self.incomplete = np.concatenate([self.incomplete, start + np.flatnonzero(~complete)])
        return complete

    def _compare(self, part: np.ndarray) -> None:
        """Compare columns that have not varied so far with their first cell."""
        low, high = np.fmin.reduce(part, axis=0), np.fmax.reduce(part, axis=0)  # without NaN
        value = np.where(np.isnan(self._value), low, self._value)
        same = np.isnan(low) | ((low == value) & (high == value))
        self._alike, self._value = self._alike[same], value[same]

    def constant(self) -> np.ndarray:
        """Return which columns did not vary, if there is more than one row."""
        constant = np.zeros(len(self._names), dtype=bool)
        constant[self._alike] = self.rows > 1
        return constant

    def is_odd(self, columns: np.ndarray) -> bool:
        """Return whether cells of these columns are missing, or any cell is infinite."""
        return bool(self._infinite or self._missing[columns].any())

    def check(self, missing: str, exact: bool) -> None:
        """Refuse infinite cells, and missing ones on request; ``exact`` where a model has its columns."""
        if self._infinite:
            row, column = self._first_infinite
            raise TableError(
                f"{counted(self._infinite, 'cell')} infinite or too large, the first in "
                f"{self._place(row)}, column {shown(self._names[column])}; correct the file, drop the "
                "column with --drop, or declare the value missing with --na"
            )
        if missing == "refuse" and self.cells:
            order = np.argsort(-self._missing, kind="stable")[: np.count_nonzero(self._missing)]
            worst = (f"{shown(self._names[j])} ({self._missing[j]:,})" for j in order)
            remedy = (
                "or fit the model with --missing impute or shrink, which fill them"
                if exact
                else "--missing impute or shrink to fill them, or --drop for a column"
            )
            raise TableError(
                f"{counted(self.cells, 'missing cell')} in {len(self.incomplete):,} of "
                f"{counted(self.rows, 'row')}, most in {listed(worst, 3)}; use --missing drop to "
                f"leave these rows out, {remedy}"
            )
