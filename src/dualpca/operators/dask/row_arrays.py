"""Dask arrays in chunks of whole rows, and arrays with a row for each of these, computed by groups.

Importing this module tells :mod:`dualpca.linalg` how to sum, sample and map such arrays.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import chain
from operator import getitem
from typing import Any, cast
from uuid import uuid4
from weakref import WeakValueDictionary

import dask
import dask.array as da
import numpy as np
from dask._task_spec import convert_legacy_graph
from dask.core import flatten
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.optimization import cull

from ...linalg import host_sample, map_row_blocks, over_blocks, sampled_rows, to_numpy
from ..block_ops import sum_up
from .cluster import compute, futures, is_held

#: So many arrays are kept although nobody else holds them, since expressions are made of them.
RECENT = 8

#: How the names of such arrays begin.
ROWS = "rows-of-"

#: Statistics of distributed rows are those of a sample of so many.
SAMPLE_ROWS = 100_000


def own_names(X: Any) -> Any:
    """Return the dask array with new names of its tasks; blocks that a cluster holds keep theirs.

    A scheduler knows a task by its name. Dask computes optimised graphs, in which a name may stand
    for other tasks than in the graph of the array itself. A scheduler that gets both mixes them up,
    loses tasks and then fails on whatever else it is asked for.
    """
    keys, held = list(flatten(X.__dask_keys__())), futures(X)
    if all(key in held for key in keys):
        return X
    graph, mark = cull(dict(X.__dask_graph__()), keys)[0], uuid4().hex

    def own(key: Any) -> Any:
        return (f"{key[0]}-{mark}", *key[1:]) if isinstance(key, tuple) else f"{key}-{mark}"

    names = {key: own(key) for key in graph if key not in held}
    renamed = dict(held)
    for key, node in convert_legacy_graph({k: graph[k] for k in names}, set(graph)).items():
        needed = {other: names[other] for other in (key, *node.dependencies) if other in names}
        renamed[names[key]] = node.substitute(needed, key=names[key])
    layers = HighLevelGraph.from_collections(own(X.name), renamed)
    return da.Array(layers, own(X.name), X.chunks, meta=X._meta)


def own_blocks(X: Any) -> np.ndarray:
    """Return the blocks of an array as delayed objects with new names."""
    return own_names(X).to_delayed(optimize_graph=False)


def column_names(X: Any) -> list[str] | None:
    """Return the names of the columns of a data frame of numbers, if they are strings."""
    if not hasattr(type(X), "columns"):
        return None
    others = [name for name, dtype in X.dtypes.items() if dtype.kind not in "biuf"]
    if others:
        raise ValueError(
            f"the columns {others[:5]} of X are not numbers; leave them out, X.drop(columns=[...]), or "
            "encode them as numbers"
        )
    names = list(X.columns)
    return names if all(isinstance(name, str) for name in names) else None


def whole_rows(X: Any) -> Any:
    """Return a dask array of known chunks, none empty and each with all columns."""
    if not hasattr(type(X), "ndim"):
        raise TypeError(
            f"X is a dask {type(X).__name__}; give a dask array, as of dask.array.from_delayed, or a "
            "dask data frame"
        )
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array; X.shape={X.shape}")
    X = counted(X)
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
        # Blocks in the cluster's memory are joined once, not in each pass.
        X = dask.persist(own_names(X), optimize_graph=False)[0] if is_held(X) else X
    if 0 in X.chunks[0] and X.shape[0] > 0:
        X = da.concatenate([X.blocks[i] for i, n in enumerate(X.chunks[0]) if n])
    return X


def counted(X: Any) -> Any:
    """Return a dask array of known chunks; unknown ones are found by computing the blocks once."""
    if not np.isnan(X.shape).any():
        return X
    blocks, shape = own_blocks(X), delayed(np.shape, pure=False)
    edges = [np.moveaxis(blocks, k, 0).reshape(n, -1)[:, 0] for k, n in enumerate(X.numblocks)]
    shapes = compute(delayed([[shape(block) for block in edge] for edge in edges]))
    chunks = tuple(tuple(int(s[k]) for s in edge) for k, edge in enumerate(shapes))
    return da.Array(X.dask, X.name, chunks, meta=X._meta)


def _evaluated(graph: dict[Any, Any], keys: Any, inputs: Any, *lists: list[Any]) -> list[Any]:
    """Return the blocks that a graph makes of lists of blocks with the keys ``inputs``, on a worker."""
    given = zip(chain(*inputs), chain(*lists), strict=True)
    return list(dask.get(graph | dict(given), keys))


class RowArrays:
    """Dask arrays with a chunk for each block of the data, held as one list of blocks a group.

    Arithmetic on such arrays is computed as one task for each group, however many the blocks and the
    operations.
    """

    def __init__(self, rows: tuple[int, ...], members: list[list[int]]) -> None:
        self._rows, self._members = rows, members
        self._known: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._held: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._recent: deque[Any] = deque(maxlen=RECENT)

    def array(self, lists: list[Delayed], width: tuple[int, ...], dtype: Any) -> Any:
        """Return the dask array whose blocks are in these lists."""
        name, parts = f"{ROWS}{uuid4().hex}", cast(Any, lists)
        blocks: dict[Any, Any] = {
            key: (getitem, blocks_of.key, place)
            for members, blocks_of in zip(self._members, lists, strict=True)
            for place, key in enumerate(_keys(name, members, len(width)))
        }
        graph = HighLevelGraph.from_collections(name, blocks, dependencies=parts)
        chunks = (self._rows, *((n,) for n in width))
        array: Any = da.Array(graph, name, chunks, meta=np.empty((0,) * len(chunks), dtype=dtype))
        array.lists = lists
        array.over_blocks = partial(self._over, lists)
        self._known[name] = array
        self._recent.append(array)
        return array

    def _over(self, lists: list[Delayed], f: Any) -> list[Any]:
        mapped = delayed(_mapped, pure=False)
        tasks = [mapped(f, m, blocks) for m, blocks in zip(self._members, lists, strict=True)]
        values = dict(compute(delayed(sum_up, pure=False)(tasks)))
        return [values[i] for i in range(len(values))]

    def hold(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the same arrays, computed and kept by the scheduler."""
        lists = [self._expressed(array) or self._gathered(array) for array in arrays]
        kept = zip(dask.persist(*lists, optimize_graph=False), arrays, strict=True)
        made = tuple(self.array(list(parts), a.shape[1:], a.dtype) for parts, a in kept)
        self._held.update({array.name: array for array in made})
        return made

    def kept(self, array: Any) -> list[Delayed]:
        """Return the list of blocks of each group, kept by the scheduler."""
        if array.name not in self._held:
            (self._held[array.name],) = self.hold(array)
        return self._held[array.name].lists

    def _gathered(self, array: Any) -> list[Delayed]:
        """Return lists of the blocks of any dask array."""
        chunks = (self._rows, *((n,) for n in array.shape[1:]))
        blocks = own_blocks(array.rechunk(chunks)).ravel()
        return [delayed(list, pure=False)([blocks[i] for i in m]) for m in self._members]

    def _expressed(self, array: Any) -> list[Delayed] | None:
        """Return the blocks of arithmetic on known arrays; None if it holds anything else."""
        if array.name in self._known:
            return self._known[array.name].lists
        graph, todo = array.__dask_graph__(), [array.name]
        tasks: dict[Any, Any] = {}
        inputs: dict[str, Any] = {}
        while todo:
            name = todo.pop()
            depends = graph.dependencies.get(name)
            if name in self._known:
                inputs[name] = self._known[name]
                tasks.update(dict.fromkeys(graph.layers[name]))
            elif name.startswith(ROWS) or not (depends or _is_constant(graph.layers[name])):
                return None  # forgotten, or another array
            else:
                tasks.update(graph.layers[name])
                todo += depends or ()
        lists = []
        for g, members in enumerate(self._members):
            arrays = (array, *inputs.values())
            keys, *given = (_keys(a.name, members, a.ndim - 1) for a in arrays)
            needed = cull(tasks, keys)[0]
            inner = {key: task for key, task in needed.items() if task is not None}
            if needed.keys() - inner.keys() - set(chain(*given)):
                return None  # it needs blocks of other groups
            evaluated = delayed(partial(_evaluated, inner, keys, given), pure=False, traverse=False)
            lists.append(evaluated(*(a.lists[g] for a in inputs.values())))
        return lists


def _is_constant(layer: Any) -> bool:
    """Return whether a source is one chunk, which is not on a cluster."""
    values = list(dict(layer).values())
    return len(values) == 1 and not type(values[0]).__module__.startswith("distributed")


def _mapped(f: Any, members: list[int], blocks: list[Any]) -> list[Any]:
    """Return ``f(i, block)`` for each block of a group, with its number, on a worker."""
    return [(i, f(i, block)) for i, block in zip(members, blocks, strict=True)]


def _keys(name: str, members: list[int], more: int) -> list[tuple[Any, ...]]:
    return [(name, i, *(0,) * more) for i in members]


@to_numpy.register(da.Array)
def _(A: Any) -> np.ndarray:
    return to_numpy(A.compute())


@over_blocks.register(da.Array)
def _(A: Any, f: Any) -> list[Any]:
    return A.over_blocks(f) if hasattr(A, "over_blocks") else [f(0, A)]


@map_row_blocks.register(da.Array)
def _(A: Any, f: Any) -> Any:
    return A.map_blocks(f, dtype=float, drop_axis=list(range(1, A.ndim)))


@sampled_rows.register(da.Array)
def _(A: Any) -> np.ndarray:
    count = min(A.shape[0], SAMPLE_ROWS)
    return np.sort(np.random.default_rng(0).choice(A.shape[0], count, replace=False))


@host_sample.register(da.Array)
def _(A: Any) -> np.ndarray:
    rows = sampled_rows(A)
    if not hasattr(A, "over_blocks"):
        return to_numpy(A[rows] if len(rows) < A.shape[0] else A)
    starts = np.cumsum([0, *A.chunks[0]])

    def sampled(i: int, block: Any) -> np.ndarray:
        first, last = np.searchsorted(rows, starts[i : i + 2])
        return to_numpy(block)[rows[first:last] - starts[i]]

    return np.concatenate(over_blocks(A, sampled))
