"""Dask arrays from tasks whose names nobody else uses."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import dask.array as da
import numpy as np
from dask._task_spec import convert_legacy_graph
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from dask.optimization import cull

from .cluster import futures


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
