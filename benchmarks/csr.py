"""A pass over a CSR matrix on all cores, beside scipy's products.

``python -m benchmarks.csr`` prints a Markdown table: medians of seven, the two in turn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualpca import as_operator
from dualpca.operators import centered


def seconds(f: Callable[[], Any]) -> float:
    """How long f takes."""
    begun = time.perf_counter()
    f()
    return time.perf_counter() - begun


def race(N: int, d: int, density: float, s: int, dtype: str, form: str) -> str:
    """A line of the table."""
    rng = np.random.default_rng(0)
    A = sp.random_array((N, d), density=density, format=form, dtype=dtype, random_state=rng)
    W = rng.standard_normal((d, s)).astype(dtype)
    X = as_operator(A)
    Xc = centered(X)
    work: dict[str, Callable[[], Any]] = {
        "scipy": lambda: A.T @ (A @ W),
        "ours": lambda: X.sweep(W),
        "centred": lambda: Xc.sweep(W),
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    with X.blas_limited():
        for _ in range(8):
            for name, f in work.items():
                times[name].append(seconds(f))
    ms = {name: 1e3 * statistics.median(t[1:]) for name, t in times.items()}
    return (
        f"| {N} x {d}, {100 * density:g} % | {form} | {dtype} | {s} | {ms['scipy']:.0f} | "
        f"{ms['ours']:.0f} | {ms['centred']:.0f} | {ms['scipy'] / ms['ours']:.2f} |"
    )


def main() -> None:
    """The table."""
    print("| matrix | format | dtype | columns | scipy, ms | ours | ours, centred | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for form in ("csr", "csc"):
        for dtype in ("float64", "float32"):
            for s in (16, 50):
                print(race(100_000, 20_000, 0.005, s, dtype, form), flush=True)


if __name__ == "__main__":
    main()
