"""Kernel PCA at scale: seconds and extra memory of the Nystroem mode, and K at 5,000 rows beside peers.

``python -m benchmarks.kernel_scale [--rows 100000 1000000] [--exact]``
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import decomposition

from dualpca import KernelPCA

from .measure import PAUSE


def rows_of(N: int, d: int = 50, seed: int = 0) -> np.ndarray:
    """float32 rows near a 10-dimensional surface: mixtures of 20 Gaussians in a random subspace."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((20, 10)).astype(np.float32)
    mix = rng.standard_normal((10, d)).astype(np.float32) / np.sqrt(10)
    X = np.empty((N, d), dtype=np.float32)
    for start in range(0, N, 50_000):
        stop = min(start + 50_000, N)
        low = centres[rng.integers(0, 20, stop - start)]
        low = low + 0.3 * rng.standard_normal(low.shape).astype(np.float32)
        X[start:stop] = low @ mix + 0.05 * rng.standard_normal((stop - start, d))
    return X


def peak() -> float:
    """The most memory this process has had, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def nystroem(sizes: list[int], landmarks: int = 500, s: int = 20) -> None:
    """Seconds and extra memory of fit, for each number of rows."""
    print(f"Nystroem, {landmarks} landmarks, {s} components, 50 columns, float32")
    for N in sizes:
        X = rows_of(N)
        KernelPCA(s, kernel="rbf", gamma=0.05, approximation="nystroem", n_landmarks=50).fit(
            X[:2000]
        )
        before, begun = peak(), time.perf_counter()
        model = KernelPCA(
            s,
            kernel="rbf",
            gamma=0.05,
            approximation="nystroem",
            n_landmarks=landmarks,
            random_state=0,
        ).fit(X)
        seconds, extra = time.perf_counter() - begun, peak() - before
        print(
            f"{N:>9} rows: {seconds:6.1f} s, {1e6 * seconds / N:5.1f} us a row, {extra:6.0f} MB extra, "
            f"{model.n_passes_} passes, residual {model.residual_:.1e}, {model.solver_}",
            flush=True,
        )


def exact(N: int = 5000, s: int = 20, repeats: int = 5) -> None:
    """Seconds and missing variance of K itself, ours and scikit-learn's solvers, in turns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 20)) @ rng.standard_normal((20, 50)) / 5
    peers: dict[str, Callable[[], Any]] = {
        f"dualpca tol={tol:g}": lambda tol=tol: KernelPCA(s, kernel="rbf", tol=tol, random_state=0)
        for tol in (1e-3, 1e-4, 1e-6)
    }
    for name, options in {
        "arpack": {"eigen_solver": "arpack"},
        "arpack tol=1e-4": {"eigen_solver": "arpack", "tol": 1e-4},
        "randomized": {"eigen_solver": "randomized"},
        "randomized, 2 iterations": {"eigen_solver": "randomized", "iterated_power": 2},
        "default (dense)": {},
    }.items():
        peers[f"scikit-learn {name}"] = lambda options=options: decomposition.KernelPCA(
            s, kernel="rbf", random_state=0, **options
        )
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    captured: dict[str, float] = {}
    for turn in range(repeats):
        for name, make in peers.items():
            if "dense" in name and turn:
                continue
            time.sleep(PAUSE)
            begun = time.perf_counter()
            model = make().fit(X)
            seconds[name].append(time.perf_counter() - begun)
            captured[name] = float(model.eigenvalues_.sum())
    best = captured["scikit-learn default (dense)"]
    print(f"K of {N} rows, {s} components, rbf, float64")
    for name, taken in seconds.items():
        missing = max(1 - captured[name] / best, 0.0)
        print(
            f"{name:<40} {np.median(taken):6.2f} s (least {min(taken):5.2f}), missing {missing:.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--exact", action="store_true", help="K at 5,000 rows beside scikit-learn")
    asked = parser.parse_args()
    if asked.exact:
        exact()
    else:
        nystroem(asked.rows)


if __name__ == "__main__":
    main()
