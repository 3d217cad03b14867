"""Dask collections as arrays in chunks of whole rows, from tasks whose names nobody else uses."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask._task_spec import convert_legacy_graph
from dask.core import flatten
from dask.delayed import delayed
from dask.highlevelgraph import HighLevelGraph
from dask.optimization import cull

from .cluster import compute, futures, is_held


def own_names(X: Any) -> Any:
    """The same dask array from tasks with names of its own; blocks that a cluster holds keep theirs.

    A scheduler knows a task by its name. Dask computes optimised graphs, in which a name may stand
    for other tasks than in the graph of the array itself. A scheduler that gets both mixes them up,
    loses tasks and then fails on whatever else it is asked for.
    """
    keys, held = list(flatten(X.__dask_keys__())), futures(X)
    if all(key in held for key in keys):
        return X
    graph = cull(dict(X.__dask_graph__()), keys)[0]
    mark = uuid4().hex
    names = {key: _own(key, mark) for key in graph if key not in held}
    nodes = convert_legacy_graph({key: graph[key] for key in names}, set(graph))
    renamed = dict(held)
    for key, node in nodes.items():
        needed = {other: names[other] for other in (key, *node.dependencies) if other in names}
        renamed[names[key]] = node.substitute(needed, key=names[key])
    name = _own(X.name, mark)
    layers = HighLevelGraph.from_collections(name, renamed)
    return da.Array(layers, name, X.chunks, meta=X._meta)


def own_blocks(X: Any) -> np.ndarray:
    """The blocks of an array, each a delayed object, under names of their own."""
    return own_names(X).to_delayed(optimize_graph=False)


def _own(key: Any, mark: str) -> Any:
    return (f"{key[0]}-{mark}", *key[1:]) if isinstance(key, tuple) else f"{key}-{mark}"


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a data frame of numbers, if they are strings."""
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
    """A dask array of known chunks, none empty and each with all columns; X is left as it is."""
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
    """A dask array of known chunks; unknown ones are found by computing the blocks once."""
    if not np.isnan(X.shape).any():
        return X
    blocks = own_blocks(X)
    sizes = []
    for axis, n in enumerate(X.chunks):
        first = np.moveaxis(blocks, axis, 0).reshape(len(n), -1)[:, 0]
        sizes.append([delayed(size, pure=False)(block, axis) for block in first])
    chunks = compute(delayed(sizes, pure=False))
    return da.Array(X.dask, X.name, tuple(map(tuple, chunks)), meta=X._meta)


def size(block: Any, axis: int) -> int:
    """How long a block is along an axis."""
    return int(block.shape[axis])
