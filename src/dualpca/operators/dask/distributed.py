"""Dask collections as an operator: a pass is a few tasks a worker, however many the blocks."""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, is_numpy_array
from dask.delayed import Delayed, delayed
from dask.optimization import cull
from dask.sizeof import sizeof

from ...linalg import Array, to_numpy
from ..base import BlockFunction, check_length
from ..block_ops import (
    as_float,
    block_rows,
    cast,
    compressed,
    one_blas_thread,
    one_thread,
    stack,
    sum_up,
    take,
)
from ..blocks import READING
from ..row_blocks import RowBlocked
from .cluster import active_client, compute, holders, workers
from .row_arrays import RowArrays, column_names, counted, own_blocks, whole_rows

#: Tasks for each thread of the scheduler in a pass: enough to keep all threads busy to its end.
TASKS = 4

#: Bytes of blocks that a task makes at once from their graph, so that shared parts are made once.
BATCH_BYTES = 128 * 2**20

#: Seconds that a pass waits for the scheduler.
SCHEDULING = 0.05

#: Results are summed by so many at a time.
BRANCHES = 8


class Group:
    """The row blocks of one task: in memory, or as graphs that are computed batch by batch."""

    def __init__(self, rows: list[slice], blocks: list[Any], graphs: list[Any]) -> None:
        self.starts = [part.start for part in rows]
        self._rows, self._blocks, self._graphs = rows, blocks, graphs

    def __sizeof__(self) -> int:
        # The scheduler lets idle workers take over tasks whose data is small.
        return sum(sizeof(block) for block in self._blocks)

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield the first row and the block, in order."""
        made = (block for graph, keys in self._graphs for block in dask.get(graph, keys))
        for rows, block in zip(self._rows, self._blocks or made, strict=True):
            n = rows.stop - rows.start
            if block.shape[0] != n:
                raise ValueError(
                    f"a block of X has {block.shape[0]} rows where its chunks say {n}; "
                    "give the chunks where the blocks are made, or call X.compute_chunk_sizes()"
                )
            yield rows.start, block


class Rows:
    """The part of an array with a row for each row of the data that belongs to a group's blocks."""

    def __init__(self, starts: list[int], blocks: list[Any], like: Any) -> None:
        self._starts, self._blocks = starts, [as_kind(block, like) for block in blocks]

    def __getitem__(self, key: Any) -> Any:
        rows, *others = key if isinstance(key, tuple) else (key,)
        i = int(np.searchsorted(self._starts, rows.start, side="right")) - 1
        first = self._starts[i]
        return self._blocks[i][(slice(rows.start - first, rows.stop - first), *others)]


class Message:
    """A function of blocks, pickled apart from the arrays it holds.

    Each worker replaces arrays with a row for each row of the data (dask arrays) by the rows it has,
    and other arrays by arrays of the kind that its blocks are, such as arrays on a GPU.
    """

    def __init__(self, f: BlockFunction) -> None:
        self.arrays: list[Any] = []
        self.lazy_rows: list[Any] = []
        buffer, message = io.BytesIO(), self

        class Pickler(cloudpickle.Pickler):
            def persistent_id(self, obj: Any) -> Any:
                for kind, place in ((np.ndarray, message.arrays), (da.Array, message.lazy_rows)):
                    if type(obj) is kind and not getattr(obj.dtype, "hasobject", False):
                        place.append(obj)
                        return kind.__name__, len(place) - 1
                return None

        Pickler(buffer).dump(f)
        self.code = buffer.getvalue()

    def __getstate__(self) -> Any:
        return {"arrays": self.arrays, "code": self.code}

    def load(self, like: Any, rows: list[Rows]) -> BlockFunction:
        """Return the function, with arrays of ``like``'s kind."""
        message = self

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, key: Any) -> Any:
                kind, i = key
                return rows[i] if kind == "Array" else as_kind(message.arrays[i], like)

        return Unpickler(io.BytesIO(self.code)).load()


def as_kind(array: Any, like: Any) -> Any:
    """Return an array in the namespace of a block; numpy if the block is sparse."""
    if sp.issparse(like) or is_numpy_array(like) or not is_numpy_array(array):
        return array
    return array_namespace(like).asarray(array)


def as_block(block: Any, dtype: Any) -> Any:
    """Return a block as an array or CSR/CSC matrix of that dtype."""
    return cast(compressed(block), str(np.dtype(dtype)))


def each(group: Group, message: Message, dtype: Any, factor: int, *parts: Any) -> Iterator[Any]:
    """Apply a function to cache-sized parts of each block of a group, on a worker."""
    f = None
    for start, block in group.blocks():
        block = as_block(block, dtype)
        f = f or message.load(block, [Rows(group.starts, part, block) for part in parts])
        n, d = block.shape
        step = block_rows(d, block.dtype.itemsize, factor) if is_numpy_array(block) else n
        cuts = [slice(i, min(i + step, n)) for i in range(0, n, step)]
        yield [
            f(slice(start + cut.start, start + cut.stop), block if len(cuts) == 1 else block[cut])
            for cut in cuts
        ]


def total(*work: Any) -> tuple[Any, ...]:
    """Return the sum of a function over a group, on the host."""
    with one_thread():
        sums = sum_up(part for parts in each(*work) for part in parts)
    return tuple(to_numpy(entry) if hasattr(entry, "shape") else entry for entry in sums)


def rows_of(*work: Any) -> list[Any]:
    """Return the rows that a function makes of each block of a group."""
    with one_thread():
        blocks = [stack(parts) for parts in each(*work)]
    # Vectors are combined with others of their kind, which may come from the host.
    return [to_numpy(rows) if rows.ndim == 1 else rows for rows in blocks]


class Distributed(RowBlocked):
    """A dask array or data frame, multiplied where its blocks are by the active scheduler.

    Persisted blocks are used where they lie; others are computed anew in each pass, so that data may
    be larger than the memory of the cluster. A pass is a few tasks for each thread, whatever the
    number of blocks, and a tree of sums; only thin factors travel.
    """

    is_distributed = True
    persist_rows: Any = property(attrgetter("_arrays.hold"))

    def __init__(self, X: Any) -> None:
        self.names = column_names(X)
        self.X = X = whole_rows(X)
        self._rows = X.chunks[0]  # none of them empty
        ends = np.cumsum([0, *self._rows]).tolist()
        self._slices = [slice(start, stop) for start, stop in pairwise(ends)]
        head = delayed(lambda b: compressed(b)[:0] if b.ndim == 2 else b, pure=False)
        first = compute(head(own_blocks(X.blocks[:1])[0, 0]))  # what X says of itself may be wrong
        if first.ndim != 2 or np.ma.isMaskedArray(first):
            kind = "is masked" if first.ndim == 2 else f"has {first.ndim} dimension(s)"
            raise ValueError(f"a block of X {kind}; give matrices of numbers, filled where masked")
        self.sparse = sp.issparse(first)
        super().__init__((ends[-1], int(X.shape[1])), as_float(first[:0]).dtype)
        self._members = self._grouped()
        nbytes = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        self.read_seconds = SCHEDULING + (0.0 if self._held else nbytes / READING)
        self._arrays = RowArrays(self._rows, self._members)
        self._groups = self._hold()

    @cached_property
    def _blocks(self) -> Any:
        """The row blocks, each a delayed object."""
        return own_blocks(self.X)[:, 0]

    def __reduce__(self) -> Any:
        raise TypeError("the operator of distributed data stays with the client")

    def _grouped(self) -> list[list[int]]:
        """Return which blocks make a group: those that one worker holds, or neighbours."""
        places = holders(self.X)
        self._held = places[0] is not None
        tasks, groups = TASKS * workers(), []
        for home in set(places):
            members = [i for i, place in enumerate(places) if place == home]
            count = min(len(members), max(1, round(tasks * len(members) / len(places))))
            groups += [part.tolist() for part in np.array_split(members, count)]
        return sorted(groups)

    def _hold(self) -> list[Delayed]:
        """Let the scheduler keep the groups: blocks in its memory, or graphs that make them."""
        keys = self.X.__dask_keys__()
        graph = {} if self._held else dict(dask.optimize(self.X)[0].__dask_graph__())
        groups = []
        for members in self._members:
            rows = [self._slices[i] for i in members]
            if self._held:
                blocks = [self._blocks[i] for i in members]
                groups.append(delayed(Group, pure=False)(rows, blocks, []))
                continue
            sizes = np.cumsum([self._rows[i] for i in members]) * self.shape[1] * 8
            numbers = dict(zip(members, sizes // BATCH_BYTES, strict=True))
            batches = [[keys[i][0] for i in part] for _, part in groupby(members, numbers.get)]
            graphs = [(cull(graph, batch)[0], batch) for batch in batches]
            groups.append(delayed(Group(rows, [], graphs), traverse=False))
        return list(dask.persist(*groups, optimize_graph=False))

    def _tasks(self, task: Any, f: BlockFunction, factor: int) -> list[Delayed]:
        self._counter[0] += 1
        message = Message(f)
        lists = [self._arrays.kept(array) for array in message.lazy_rows]
        sent = delayed(message, pure=False, traverse=False)
        return [
            delayed(task, pure=False)(group, sent, self.dtype, factor, *carried)
            for group, *carried in zip(self._groups, *lists, strict=True)
        ]

    def sum_blocks(self, f: BlockFunction, factor: int = 1) -> tuple[Any, ...]:
        parts = self._tasks(total, f, factor)
        while len(parts) > 1:
            branches = [parts[i : i + BRANCHES] for i in range(0, len(parts), BRANCHES)]
            parts = [delayed(sum_up, pure=False)(branch) for branch in branches]
        # Threads of this process multiply side by side, each with one thread of BLAS.
        with one_blas_thread() if active_client() is None else nullcontext():
            return compute(parts[0])

    def map_rows(self, f: BlockFunction, columns: int | None = None) -> Array:
        width = () if columns is None else (columns,)
        return self._arrays.array(self._tasks(rows_of, f, 1), width, self.dtype)

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        """Bring each block in turn to this process."""
        for rows, block in zip(self._slices, self._blocks, strict=True):
            yield rows, as_block(compute(block), self.dtype)

    def take(self, rows: np.ndarray) -> Any:
        wanted = rows.tolist()  # as a list it stays on the host

        def within(these: slice, block: Any) -> tuple[list[Any]]:
            i, j = np.searchsorted(wanted, [these.start, these.stop])
            chosen = np.asarray(wanted[i:j], dtype=np.int64) - these.start
            return ([(these.start, take(block, chosen))] if i < j else [],)

        parts = [part for _, part in sorted(self.sum_blocks(within)[0], key=lambda pair: pair[0])]
        return sp.vstack(parts, format="csr") if self.sparse else stack(list(map(to_numpy, parts)))

    def _measure_rows(self) -> Array:
        return self.persist_rows(super()._measure_rows())[0]

    def row_vector(self, values: Any, name: str = "the vector") -> Array:
        values = counted(values) if isinstance(values, da.Array) else np.asarray(values)
        values = check_length(values, self.shape[0], name)
        if not isinstance(values, da.Array):
            values = da.from_array(values, chunks=(self._rows,))
        return self.persist_rows(values.astype(self.dtype).rechunk((self._rows,)))[0]
