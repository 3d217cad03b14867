"""On a cluster: what a pass costs beside plain numpy, and ours beside dask-ml and svd_compressed.

``python -m benchmarks.cluster`` starts a LocalCluster of two workers with one thread each and prints
two Markdown tables. Every method climbs a ladder of its own accuracy; the time of the first rung that
meets the target counts, the median of three runs, the methods in turn. Needs ``dask-ml`` for its rows.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

from dualpca import PCA
from dualpca.operators import Blocks
from dualpca.operators.dask.distributed import Distributed

#: Seconds after which a method is not asked for more.
PATIENCE = 20.0

Method = Callable[[Any, int, float], np.ndarray]


def gaussian(N: int, d: int, rows: int) -> Any:
    """Standard normal entries."""
    return da.random.default_rng(0).standard_normal((N, d), chunks=(rows, d)).persist()


def decaying(N: int, d: int, rows: int) -> Any:
    """Float32 rows whose singular values fall like 1/i."""
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]
    mix = (Q / np.arange(1, d + 1)[:, None]).astype(np.float32)
    X = da.random.default_rng(0).standard_normal((N, d), chunks=(rows, d), dtype=np.float32)
    return (X @ da.from_array(mix, chunks=-1)).persist()


def seconds(f: Callable[[], Any]) -> tuple[Any, float]:
    """What f returns, and how long it took."""
    begun = time.perf_counter()
    found = f()
    return found, time.perf_counter() - begun


def overhead(total: int, d: int, counts: list[int], s: int = 50, repeats: int = 7) -> Iterator[str]:
    """A sweep of float32 data in so many blocks, on the cluster and in process on the same blocks."""
    W = np.random.default_rng(0).standard_normal((d, s)).astype(np.float32)
    N = total // (4 * d)
    for count in counts:
        X = da.random.default_rng(0).standard_normal(
            (N, d), chunks=(-(-N // count), d), dtype=np.float32
        )
        X = X.persist()
        wait(X)
        local = [np.asarray(X.blocks[i]) for i in range(X.numblocks[0])]
        operator = Distributed(X)
        work: list[Callable[[], Any]] = [
            partial(by_numpy, local, W),
            partial(Blocks(local).sweep, W),
            partial(operator.sweep, W),
        ]
        times: list[list[float]] = [[], [], []]
        for _ in range(repeats + 1):
            for f, took in zip(work, times, strict=True):
                took.append(seconds(f)[1])
        plain, ours, spread = (statistics.median(t[1:]) for t in times)
        yield (
            f"| {count} | {total / count / 2**20:.0f} MB | {plain:.2f} | {ours:.2f} | {spread:.2f} | "
            f"{100 * (spread / min(plain, ours) - 1):+.0f} % |"
        )
        del X, operator, local, work


def by_numpy(blocks: list[np.ndarray], W: np.ndarray) -> np.ndarray:
    return sum(block.T @ (block @ W) for block in blocks)  # type: ignore[return-value]


def ours(X: Any, s: int, tol: float) -> np.ndarray:
    return PCA(s, tol=tol, random_state=0).fit(X).components_


def compressed(X: Any, s: int, steps: float) -> np.ndarray:
    centred = X - X.mean(axis=0)
    return da.linalg.svd_compressed(centred, s, n_power_iter=int(steps), seed=0)[2].compute()


def dask_ml(X: Any, s: int, steps: float) -> np.ndarray:
    from dask_ml import decomposition

    kind = {"svd_solver": "tsqr"} if steps < 0 else {"svd_solver": "randomized"}
    power = {} if steps < 0 else {"iterated_power": int(steps)}
    return np.asarray(decomposition.PCA(s, random_state=0, **kind, **power).fit(X).components_)


LADDERS: dict[str, tuple[Method, tuple[float, ...]]] = {
    "ours": (ours, (0.3, 0.1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)),
    "dask svd_compressed": (compressed, (0, 1, 2, 4, 8, 16, 32)),
    "dask-ml PCA, randomized": (dask_ml, (0, 1, 2, 4, 8, 16, 32)),
    "dask-ml PCA, tsqr": (dask_ml, (-1,)),
}


def covariance(X: Any) -> np.ndarray:
    """The float64 scatter matrix about the mean, block by block."""
    total, C = 0.0, 0.0
    for i in range(X.numblocks[0]):
        block = np.asarray(X.blocks[i]).astype(np.float64)
        total, C = total + block.sum(axis=0), C + block.T @ block
    return C - np.outer(total, total) / X.shape[0]


def race(name: str, X: Any, s: int, targets: list[float]) -> Iterator[str]:
    """The first rung of each method that meets each target, then all of these in turn.

    Runs longer than PATIENCE are not repeated, and no higher rung is tried.
    """
    C = covariance(X)
    best = float(np.linalg.eigvalsh(C)[-s:].sum())
    met: dict[tuple[float, str], tuple[float, float]] = {}
    times: dict[tuple[float, str], list[float]] = {}
    for method, (f, rungs) in LADDERS.items():
        left = list(targets)
        for rung in rungs:
            try:
                V, took = seconds(lambda f=f, rung=rung: f(X, s, rung))
            except np.linalg.LinAlgError:  # power iterations that are not orthonormalised
                break
            Q = np.linalg.qr(V.T.astype(np.float64))[0]
            shortfall = 1 - float(np.trace(Q.T @ C @ Q)) / best
            while left and shortfall <= left[0]:
                times[left[0], method] = [took] if took > PATIENCE else []
                met[left.pop(0), method] = rung, shortfall
            if not left or took > PATIENCE:
                break
    for _ in range(3):
        for (target, method), (rung, _) in met.items():
            f, taken = LADDERS[method][0], times[target, method]
            if not taken or taken[0] <= PATIENCE:
                taken.append(seconds(lambda f=f, rung=rung: f(X, s, rung))[1])
    for (target, method), (rung, shortfall) in sorted(met.items(), key=lambda item: -item[0][0]):
        took = statistics.median(times[target, method])
        first = statistics.median(times[target, "ours"])
        yield (
            f"| {name} {X.shape} | {target:g} | {method} | {rung:g} | {shortfall:.1e} | {took:.2f} | "
            f"{took / first:.1f} |"
        )


def main() -> None:
    """Both tables, or small versions of them to try the code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="shrink the numbers of rows")
    parser.add_argument("--only", default="overhead,gaussian,decaying", help="%(default)s")
    options = parser.parse_args()
    chosen = options.only.split(",")

    def rows(n: int) -> int:
        return max(400, int(n * options.scale))

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster):
        if "overhead" in chosen:
            print("| blocks | of | numpy, s | in process, s | Dask, s | overhead over the better |")
            print("|---|---|---|---|---|---|")
            for line in overhead(4000 * rows(500_000), 1000, [10, 30, 100, 1000]):
                print(line, flush=True)
        print("\n| data | shortfall | method | rung | reached | seconds | over ours |")
        print("|---|---|---|---|---|---|---|")
        targets = [1e-2, 1e-4, 1e-8]
        if "gaussian" in chosen:
            for line in race("Gaussian", gaussian(4000, 2000, 1000), 20, targets):
                print(line, flush=True)
        if "decaying" in chosen:
            X = decaying(rows(500_000), 1000, rows(16_000))
            for line in race("decaying", X, 20, targets):
                print(line, flush=True)


if __name__ == "__main__":
    main()
