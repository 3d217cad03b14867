"""Sparse PCA beside published optima, with bounds and proofs: ``python -m experiments.sparse_optima``.

The matrices are correlations: the pit props (Jeffers 1967, in DUALPCA_DATA), and wine and breast cancer
from scikit-learn. Published are optima that the literature on exact sparse PCA reports for k = 5 and 10
(such as Berk and Bertsimas 2019; Bertsimas, Cory-Wright and Pauphilet 2022). A second table has the
share of the bounds in the time of a fit with many features.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine

from dualpca import SparsePCA, as_operator
from dualpca.sparse import active

from .pitprops import root
from .robust_data import data_folder

PUBLISHED = {
    ("pit props", 5): 3.40615,
    ("pit props", 10): 4.17264,
    ("wine", 5): 3.43978,
    ("wine", 10): 4.59429,
}

#: Numbers of nonzeros in the table.
COUNTS = (2, 3, 4, 5, 7, 10, 20)


def correlations() -> Iterator[tuple[str, np.ndarray]]:
    """The name of each data set, and X with ``X^T X`` its correlation matrix."""
    folder = data_folder()
    path = None if folder is None else folder / "classic" / "elasticnet_pitprops.csv"
    if path is None or not path.exists():
        print("no pit props: set DUALPCA_DATA to a folder with classic/elasticnet_pitprops.csv")
    else:
        yield "pit props", root(path)
    for name, load in (("wine", load_wine), ("breast cancer", load_breast_cancer)):
        X = load().data
        X = X - X.mean(axis=0)
        yield name, X / np.linalg.norm(X, axis=0)


def fitted(X: np.ndarray, k: int, certify: bool = False) -> tuple[SparsePCA, float, float, float]:
    """The model of one component, its variance, the bound, and the seconds of the fit."""
    begun = time.perf_counter()
    model = SparsePCA(1, n_nonzero=k, center=False, certify=certify).fit(X)
    seconds = time.perf_counter() - begun
    scale = len(X) - 1
    variance, bound = model.explained_variance_[0] * scale, model.upper_bound_[0] * scale
    return model, float(variance), float(bound), seconds


def row(name: str, X: np.ndarray, k: int) -> str:
    """A line of the table."""
    model, variance, bound, seconds = fitted(X, k)
    proof, best, _, more = fitted(X, k, certify=True)
    published = PUBLISHED.get((name, k))
    cells = [name, str(k), "" if published is None else f"{published:.5f}", f"{variance:.5f}"]
    cells += [f"{bound:.5f}", f"{model.gap_[0]:.2%}", f"{seconds:.3f}"]
    cells += [f"{best:.5f}", f"{proof.gap_[0]:.0e}", str(proof.n_nodes_), f"{more:.2f}"]
    return "| " + " | ".join(cells) + " |"


def share_of_bound(d: int, k: int, s: int, repeats: int = 5) -> tuple[float, float]:
    """The least seconds of a fit of 1,000 rows with d features, and of its bounds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, d))
    X[:, :k] += 2 * rng.standard_normal((1000, 1))
    times, spent = [], []
    whole = active.ActiveColumns.bounds

    def timed(*args: object) -> object:
        begun = time.perf_counter()
        answer = whole(*args)  # type: ignore[arg-type]
        spent.append(time.perf_counter() - begun)
        return answer

    active.ActiveColumns.bounds = timed  # type: ignore[assignment,method-assign]
    try:
        for _ in range(repeats):
            begun = time.perf_counter()
            SparsePCA(s, n_nonzero=k).fit(as_operator(X))
            times.append(time.perf_counter() - begun)
    finally:
        active.ActiveColumns.bounds = whole  # type: ignore[method-assign]
    return min(times), min(spent)


def main() -> None:
    print("| data | k | published | ours | bound | gap | s | proven | gap | nodes | s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, X in correlations():
        for k in COUNTS:
            if k < X.shape[1]:
                print(row(name, X, k), flush=True)
    print("\n| features | components | nonzeros | fit, s | bounds, s | share |")
    print("|---|---|---|---|---|---|")
    for s in (1, 5):
        fit, bounds = share_of_bound(10_000, 20, s)
        print(f"| 10,000 | {s} | 20 | {fit:.2f} | {bounds:.4f} | {bounds / fit:.1%} |", flush=True)


if __name__ == "__main__":
    main()
