"""Sweeps ``X^T (X W)`` with 16 columns and Gram matrices, beside the machine's own matrix product.

``python -m benchmarks.passes [--case NAME ...]`` prints a Markdown table: medians of milliseconds with
the native kernels and without, and of the rate of NumPy's product of two 3000 x 3000 matrices. Two
processes, one with DUALPCA_NATIVE=0, form the products of the same data in turns, and NumPy's has its
turn. A sweep counts 4 N d 16 operations, or 64 for each stored entry, and ``X^T X`` N d^2, as it is
symmetric.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import dualpca
from dualpca.operators import Matrix, Operator

from .measure import PAUSE

COLUMNS = 16
SIDE = 3000
GRAM = "X^T X"


@dataclass(frozen=True)
class Data:
    """Random data, the dtype of its products, its entries where sparse, and the product to form."""

    N: int
    d: int
    dtype: str
    arithmetic: str
    entries: int | None = None
    product: str = "X^T (X W)"

    @property
    def name(self) -> str:
        kind = "dense" if self.entries is None else f"CSR, {self.entries / 1e6:.2g} M entries"
        return f"{self.product}, {self.N}x{self.d} {kind}, {self.dtype}"

    @property
    def wide(self) -> bool:
        """Whether the transpose is swept, as by solvers: it has fewer columns."""
        return self.entries is None and self.d > self.N

    @property
    def operations(self) -> int:
        """Of one product."""
        if self.product == GRAM:
            return self.N * self.d**2
        return 4 * COLUMNS * (self.entries or self.N * self.d)

    def form(self, X: Operator, W: np.ndarray) -> None:
        """Form the product."""
        if self.product == GRAM:
            X.gram(single=self.arithmetic == "float32")
        else:
            (X.T if self.wide else X).sweep(W)

    def make(self) -> Operator:
        """The operator that sweeps."""
        rng = np.random.default_rng(0)
        if self.entries is not None:
            return Matrix(words(self.N, self.d, self.entries).astype(self.dtype))
        X = Matrix(rng.standard_normal((self.N, self.d), dtype=np.float32).astype(self.dtype))
        single = X.in_float32(1.0) if self.arithmetic != self.dtype else None
        return single or X


def words(N: int, d: int, entries: int) -> sp.csr_array:
    """Rows of norm 1 and columns of power-law frequency, as documents and words have them."""
    rng = np.random.default_rng(0)
    edges = np.cumsum((np.arange(d) + 10.0) ** -0.9)
    places = np.empty(0, dtype=np.int64)
    while len(places) < entries:
        column = np.searchsorted(edges, rng.uniform(0, edges[-1], entries), side="right")
        drawn = rng.integers(0, N, entries) * d + np.minimum(column, d - 1)
        places = np.union1d(places, drawn)
    places = rng.permutation(places)[:entries]
    shuffled = rng.permutation(d)  # frequent words are not neighbours
    A = sp.coo_array((rng.uniform(0.2, 1, entries), (places // d, shuffled[places % d])), (N, d))
    A = A.tocsr()
    A.data /= np.repeat(np.sqrt(np.maximum((A**2).sum(axis=1), 1e-300)), np.diff(A.indptr))
    return A


SHAPES = ((4000, 2000), (4500, 4500), (20_000, 784), (2000, 20_000))
GRAM_SHAPES = ((100_000, 50), (50_000, 200), (60_000, 784), (4000, 2000))
KINDS = (("float32", "float32"), ("float64", "float64"), ("float64", "float32"))
DATA = [
    *(Data(*shape, *kind) for shape in SHAPES for kind in KINDS),
    *(Data(11_314, 100_000, *kind, entries=2_700_000) for kind in KINDS[:2]),
    *(Data(*shape, *kind, product=GRAM) for shape in GRAM_SHAPES for kind in KINDS),
]


def native() -> bool:
    """Whether the native kernels are at work in this process."""
    return bool(getattr(dualpca, "native_available", lambda: False)())


def serve() -> None:
    """The other process: for a line that describes data make it, for an empty one form the product."""
    print(json.dumps(native()), flush=True)
    for line in sys.stdin:
        if line.strip():
            data = Data(**json.loads(line))
            X = data.make()
            W = np.random.default_rng(1).standard_normal((X.shape[0 if data.wide else 1], COLUMNS))
            W = W.astype(X.dtype)
            data.form(X, W)
            print(json.dumps(np.dtype(X.dtype).name), flush=True)
        else:
            with X.blas_limited():
                begun = time.perf_counter()
                data.form(X, W)
                print(json.dumps(time.perf_counter() - begun), flush=True)


class Sweeper:
    """A process that sweeps, with the native kernels or without."""

    def __init__(self, native: bool) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "DUALPCA_NATIVE"}
        environment |= {} if native else {"DUALPCA_NATIVE": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.passes", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.native: bool = self._answer()

    def __enter__(self) -> Sweeper:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def _ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        return self._answer()

    def prepare(self, data: Data) -> str:
        """Make the data; returns the arithmetic of its products."""
        return self._ask(json.dumps(asdict(data)))

    def sweep(self) -> float:
        """Seconds of one sweep."""
        time.sleep(PAUSE)
        return self._ask("")


def product_seconds(A: np.ndarray) -> float:
    """Of NumPy's product of A with itself."""
    time.sleep(PAUSE)
    begun = time.perf_counter()
    A @ A
    return time.perf_counter() - begun


def measure(data: Data, sweepers: dict[str, Sweeper], repeats: int) -> dict[str, float]:
    """Median seconds of a sweep of each process and of the product, all in turns."""
    for sweeper in sweepers.values():
        found = sweeper.prepare(data)  # without the kernels float64 rows are not converted
        assert found in (data.arithmetic, data.dtype), f"{data} was swept in {found}"
    A = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
    A = A.astype(data.arithmetic)
    times: dict[str, list[float]] = {name: [] for name in (*sweepers, "gemm")}
    for _ in range(repeats + 1):
        for name, sweeper in sweepers.items():
            times[name].append(sweeper.sweep())
        times["gemm"].append(product_seconds(A))
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


HEAD = (
    "| data | arithmetic | native (ms) | GFLOP/s | without (ms) | GFLOP/s | without / native "
    "| gemm GFLOP/s | best of gemm |\n" + "|---" * 9 + "|"
)


def line(data: Data, seconds: dict[str, float]) -> str:
    """A line of the table; ``seconds`` has no "native" where those kernels are not available."""
    cells = [data.name, data.arithmetic]
    for name in ("native", "without"):
        t = seconds.get(name)
        cells += ["-", "-"] if t is None else [f"{1e3 * t:.2f}", f"{data.operations / t / 1e9:.3g}"]
    fast = seconds.get("native")
    gemm = 2 * SIDE**3 / seconds["gemm"]
    best = data.operations / min(t for name, t in seconds.items() if name != "gemm")
    cells.append("-" if fast is None else f"{seconds['without'] / fast:.2f}")
    cells += [f"{gemm / 1e9:.0f}", f"{100 * best / gemm:.0f} %"]
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """The table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", help="data whose name contains this")
    parser.add_argument("--repeats", type=int, default=9, help="turns of each")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.serve:
        serve()
        return
    with ExitStack() as stack:
        sweepers = {
            name: stack.enter_context(Sweeper(name == "native")) for name in ("native", "without")
        }
        if not sweepers["native"].native:
            print("The native kernels are not available.\n")
            del sweepers["native"]
        print(HEAD, flush=True)
        for data in DATA:
            if not args.case or any(part in data.name for part in args.case):
                print(line(data, measure(data, sweepers, args.repeats)), flush=True)


if __name__ == "__main__":
    main()
