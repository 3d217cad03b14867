"""Work counted, not timed: products with the data to a target, for three ways of choosing subspaces.

``python -m benchmarks.work [--case NAME ...]`` writes results/work.md. Two counts are told. Readings
of the data: a product with X or X^T is one, and so is our fused X^T (X W), which reads each row once.
Vector products: the columns multiplied by X or by X^T. Centring and measuring count too.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.utils.extmath import randomized_svd

import dualpca
from dualpca.operators import Matrix
from dualpca.operators.views import View

from .cases import CASES, Case
from .explore import TARGETS
from .judge import Judge, reference
from .methods import ITERATIONS, OUR_TOLERANCES, TOLERANCES

#: One of each kind; the Gaussian spectrum is flat, the other decays.
DEFAULT = ("gaussian 4000x2000", "decay 3500", "single cell")

#: scikit-learn's randomized_svd draws so many vectors beyond s.
OVERSAMPLES = 10


@dataclass
class Work:
    """Readings of the data, and columns multiplied by X or X^T."""

    readings: int = 0
    vectors: int = 0

    def add(self, vectors: int) -> None:
        """One reading."""
        self.readings += 1
        self.vectors += vectors


class _Counting:
    """Products that are counted outside of the operator's own count of passes."""

    work: Work

    def _count(self, product: Any, vectors: int, *args: Any) -> Any:
        before = self.work.readings, self.work.vectors
        found = product(*args)
        # A sweep may call the other products: it is one reading all the same.
        self.work.readings, self.work.vectors = before[0] + 1, before[1] + vectors
        return found

    def matmul(self, W: Any) -> Any:
        return self._count(super().matmul, W.shape[1], W)  # type: ignore[misc]

    def rmatmul(self, H: Any) -> Any:
        return self._count(super().rmatmul, H.shape[1], H)  # type: ignore[misc]

    def sweep(self, W: Any, row_map: Any = None) -> Any:
        return self._count(super().sweep, 2 * W.shape[1], W, row_map)  # type: ignore[misc]


class CountedMatrix(_Counting, Matrix):
    """The operator of our solvers."""

    def __init__(self, data: Any, work: Work, *args: Any) -> None:
        super().__init__(data, *args)
        self.work = work

    @property
    def T(self) -> CountedMatrix:
        if self._transpose is None:
            self._transpose = CountedMatrix(self.data.T, self.work, self._counter, self)
        return self._transpose

    def column_sums(self, *args: Any, **options: Any) -> Any:
        before = self.passes
        found = super().column_sums(*args, **options)
        if self.passes > before:  # else they were kept
            self.work.add(1)
        return found

    def in_float32(self, *args: Any, **options: Any) -> Any:
        """X with products in float32, which are counted too."""
        single = super().in_float32(*args, **options)
        return None if single is None else CountedView(single, self.work)


class _Products(View):
    """The products of another operator."""

    def matmul(self, W: Any) -> Any:
        return self.X.matmul(W)

    def rmatmul(self, H: Any) -> Any:
        return self.X.rmatmul(H)

    def sweep(self, W: Any, row_map: Any = None) -> Any:
        return self.X.sweep(W, row_map)


class CountedView(_Counting, _Products):
    """Another operator, with its products counted."""

    def __init__(self, X: Any, work: Work) -> None:
        super().__init__(X)
        self.work = work


class CountedOperator(LinearOperator):
    """The operator of SciPy's solvers."""

    def __init__(self, A: Any, work: Work) -> None:
        super().__init__(A.dtype, A.shape)
        self.A, self.work = A, work

    def _matmat(self, W: Any) -> Any:
        self.work.add(W.shape[1])
        return self.A @ W

    def _rmatmat(self, H: Any) -> Any:
        self.work.add(H.shape[1])
        return self.A.T @ H

    def _matvec(self, w: Any) -> Any:
        return self._matmat(w.reshape(-1, 1))[:, 0]

    def _rmatvec(self, h: Any) -> Any:
        return self._rmatmat(h.reshape(-1, 1))[:, 0]


def krylov(A: Any, s: int, tol: float) -> tuple[np.ndarray, Work]:
    """Ours, by ``solver="krylov"``."""
    work = Work()
    model = dualpca.PCA(s, solver="krylov", tol=tol, center=not sp.issparse(A), random_state=0)
    model.fit(CountedMatrix(A, work))
    return np.asarray(model.components_).T, work


def lanczos(A: Any, s: int, tol: float) -> tuple[np.ndarray, Work]:
    """Single-vector Lanczos with implicit restarts: ARPACK behind SciPy's svds."""
    work = Work()
    operator = CountedOperator(A, work)
    return svds(operator, k=s, tol=tol, rng=np.random.default_rng(0))[2].T, work


def randomized(A: Any, s: int, n_iter: int) -> tuple[np.ndarray, Work]:
    """Randomised SVD, ``2 n_iter + 2`` products with s + 10 vectors."""
    readings = 2 * n_iter + 2
    V = randomized_svd(A, s, n_iter=n_iter, n_oversamples=OVERSAMPLES, random_state=0)[2].T
    return V, Work(readings, readings * (s + OVERSAMPLES))


METHODS: dict[str, tuple[Callable[..., tuple[np.ndarray, Work]], Sequence[Any]]] = {
    "ours, krylov": (krylov, OUR_TOLERANCES),
    "single-vector Lanczos": (lanczos, TOLERANCES),
    "randomised SVD": (randomized, ITERATIONS),
}


def least_work(A: Any, s: int, judge: Judge) -> dict[str, dict[float, Work | None]]:
    """For each method and target the least work, in vector products, of the knobs that meet it."""
    found: dict[str, dict[float, Work | None]] = {}
    for name, (run, knobs) in METHODS.items():
        runs = []
        for knob in knobs:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                V, work = run(A, s, knob)
            runs.append((judge.shortfall(V), work))
            if runs[-1][0] <= TARGETS[-1]:
                break
        found[name] = {
            target: min(
                (work for shortfall, work in runs if shortfall <= target),
                key=lambda work: work.vectors,
                default=None,
            )
            for target in TARGETS
        }
    return found


def table(cases: Sequence[Case]) -> list[str]:
    """A Markdown table of readings and vector products."""
    lines = [
        "| case | s | target | " + " | ".join(METHODS) + " |",
        "|---" * (3 + len(METHODS)) + "|",
    ]
    for case in cases:
        A = case.make()
        if A is None:
            print(f"{case.name}: no data; set DUALPCA_DATA", flush=True)
            continue
        found = least_work(A, case.s, Judge(A, reference(A, case.s)))
        for target in TARGETS:
            works = [found[name][target] for name in METHODS]
            cells = [f"{w.readings} / {w.vectors}" if w else "-" for w in works]
            head = [case.name, str(case.s), f"{target:.0e}"]
            lines.append("| " + " | ".join(head + cells) + " |")
            print(lines[-1], flush=True)
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", help="cases whose name contains this")
    parser.add_argument("--out", default="results/work.md", type=Path)
    args = parser.parse_args(arguments)
    cases = [c for c in CASES if any(part in c.name for part in args.case or DEFAULT)]
    note = "Readings of the data / vector products to a relative shortfall in captured variance."
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join(["# Work", "", note, "", *table(cases)]) + "\n")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
