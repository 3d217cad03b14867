"""The active Dask scheduler: which worker holds which block, results, and errors if it is gone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import dask
from dask.base import get_scheduler
from dask.system import CPU_COUNT

#: Seconds without a worker, or without an answer from the scheduler, after which it counts as gone.
PATIENCE = 30.0

#: Seconds between questions to the cluster while it computes.
LOOK = 5.0


def active_client() -> Any:
    """Return the client of a cluster if that is the active scheduler, else None."""
    client: Any = getattr(get_scheduler(), "__self__", None)
    if not hasattr(client, "scheduler_info"):
        return None
    if client.status == "closed":
        raise _gone(client, "is gone: its Client is closed")
    return client


def workers() -> int:
    """Return how many threads the scheduler computes with."""
    client = active_client()
    if client is None:
        return int(dask.config.get("num_workers", None) or CPU_COUNT)
    return max(1, sum(_ask(client, client.scheduler.ncores).values()))


def futures(X: Any) -> dict[Any, Any]:
    """Return the futures of a cluster that X is made of, by their keys."""
    if "distributed" not in sys.modules:
        return {}
    from distributed import futures_of

    return {future.key: future for future in futures_of(X)}


def is_held(X: Any) -> bool:
    """Return whether X is made of persisted data of a cluster."""
    graph = dict(X.__dask_graph__())
    # Keys that are not in the graph belong to futures that are arguments of tasks.
    tasks = (getattr(task, "dependencies", ()) for task in graph.values())
    return bool(futures(X)) or any(key not in graph for keys in tasks for key in keys)


def holders(X: Any) -> list[Any]:
    """Return the worker that holds each row block; None if it is yet to be computed.

    "" stands for blocks that are made of persisted data.
    """
    keys = [row[0] for row in X.__dask_keys__()]
    if not is_held(X):
        return [None] * len(keys)
    from distributed import wait

    client, held = active_client(), futures(X)
    if client is None:
        raise RuntimeError(
            "X was persisted on a Dask cluster that is gone, or is not the active scheduler; connect a "
            "Client to it, or make X anew"
        )
    if any(key not in held for key in keys):
        return [""] * len(keys)
    _until(client, lambda: wait(list(held.values()), timeout=LOOK), lambda: False)
    homes = _ask(client, client.scheduler.who_has, keys=keys)
    return [min(homes.get(key, ()), default="") for key in keys]


def compute(value: Any) -> Any:
    """Return the value of a delayed object, from the active scheduler."""
    client = active_client()
    if client is None:
        return dask.compute(value, optimize_graph=False)[0]
    future = client.compute(value, optimize_graph=False)
    return _until(client, lambda: future.result(timeout=LOOK), lambda: future.status == "error")


def _until(client: Any, result: Callable[[], Any], failed: Callable[[], bool]) -> Any:
    """Ask for the result every LOOK seconds; raise an error if the cluster is gone.

    The TimeoutError of a task that has ``failed`` is its own.
    """
    last_seen = time.monotonic()
    while True:
        try:
            return result()
        except CancelledError as error:
            raise _gone(client, "was lost while it computed") from error
        except TimeoutError:
            if failed():
                raise
        if client.status != "running":
            raise _gone(client, "does not answer")
        if _ask(client, client.scheduler.ncores):
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > PATIENCE:
            raise _gone(client, f"has had no worker for {PATIENCE:.0f} s")


def _ask(client: Any, question: Any, **what: Any) -> Any:
    """Return the scheduler's answer to a question, within PATIENCE."""
    try:
        return client.sync(question, callback_timeout=PATIENCE, **what)
    except (TimeoutError, OSError) as error:
        raise _gone(client, "does not answer") from error


def _gone(client: Any, why: str) -> RuntimeError:
    where = getattr(client.scheduler, "address", None) or "a closed connection"
    return RuntimeError(
        f"the Dask cluster at {where} {why}; start it again, connect a new Client, persist the data "
        "there and fit again"
    )
