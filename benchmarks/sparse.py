"""Sparse PCA beside scikit-learn's at equal cardinality: ``python -m benchmarks.sparse``.

Each peer is fitted first; ours is then asked for exactly as many nonzeros in each component as the peer
has. Explained variance is measured the same way for both: the share of the variance of the projection
on the loadings, and the adjusted variance of the components.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import MiniBatchSparsePCA
from sklearn.decomposition import SparsePCA as PeerSparsePCA
from sklearn.exceptions import ConvergenceWarning

from dualpca import SparsePCA
from dualpca.sparse.deflation import adjusted_variances, cumulative_variances


def planted(N: int, d: int, k: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Five components with k nonzeros each, on disjoint features, and standard normal noise."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    W = np.zeros((d, 5))
    for j in range(5):
        W[order[j * k : (j + 1) * k], j] = rng.choice([-1.0, 1.0], k) / k**0.5
    scores = rng.standard_normal((N, 5)) * np.array([20.0, 17.0, 14.5, 12.5, 10.5])
    return scores @ W.T + rng.standard_normal((N, d)), W


def mnist() -> np.ndarray | None:
    """10,000 rows of MNIST, pixels from 0 to 1, where DUALPCA_DATA has it."""
    from experiments.robust_data import data_folder
    from experiments.robust_data import mnist as load

    folder = data_folder()
    X = None if folder is None else load(folder)
    return None if X is None else X[:10000]


def variances(X: np.ndarray, components: np.ndarray) -> tuple[float, float]:
    """The share of the variance in the span of the loadings, and the adjusted variance."""
    W = components.T / np.maximum(np.linalg.norm(components, axis=1), 1e-300)
    CW, total = X.T @ (X @ W), float((X**2).sum())
    return cumulative_variances(W, CW)[-1] / total, adjusted_variances(W, CW).sum() / total


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    """What ``fit`` returns, and the seconds it took."""
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit()
    return model, time.perf_counter() - begun


def recovered(components: np.ndarray, W: np.ndarray) -> float:
    """The share of the planted support that the closest component has."""
    hits = (components != 0).astype(float) @ (W != 0)
    return float((hits.max(axis=0) / (W != 0).sum(axis=0)).mean())


def compare(
    name: str, X: np.ndarray, s: int, peer: Any, repeats: int, W: np.ndarray | None = None
) -> Iterator[list[str]]:
    """A row for the peer and one for each of our methods, timed in turn with it."""
    X = X - X.mean(axis=0)
    model, first = timed(lambda: peer.fit(X))
    k = np.maximum((model.components_ != 0).sum(axis=1), 1)
    ours = {
        method: SparsePCA(s, n_nonzero=k, method=method, random_state=0)
        for method in ("deflation", "block", "reconstruction")
    }
    seconds: dict[str, list[float]] = {"peer": [first], **{method: [] for method in ours}}
    for repeat in range(repeats):
        if repeat and first < 30:
            seconds["peer"].append(timed(lambda: peer.fit(X))[1])
        for method, estimator in ours.items():
            seconds[method].append(timed(lambda e=estimator: e.fit(X))[1])  # type: ignore[misc]
    slow = float(np.median(seconds["peer"]))
    told = f"{type(peer).__name__} alpha={peer.alpha:g}"
    for label, estimator in {"peer": model, **ours}.items():
        share, adjusted = variances(X, estimator.components_)
        median = float(np.median(seconds[label]))
        yield [
            name,
            told if label == "peer" else f"ours, {label}",
            f"{k.mean():.0f}",
            f"{share:.4f}",
            f"{adjusted:.4f}",
            "" if W is None else f"{recovered(estimator.components_, W):.2f}",
            f"{median:.3g}",
            f"{slow / median:.1f}",
        ]


HEAD = "data | method | nonzeros | variance in the span | adjusted | support | seconds | ratio"


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="digits, and 200 x 2,000 planted")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"| {HEAD} |\n|{'---|' * 8}", flush=True)
    peers: list[Any] = [PeerSparsePCA, MiniBatchSparsePCA]
    X, W = planted(200, 2000) if options.quick else planted(2000, 20000)
    cases = [
        ("digits", load_digits().data, 10, (1.0, 10.0), peers, None),
        ("planted", X, 5, (20.0 if options.quick else 60.0,), peers[:1], W),
        ("planted", X, 5, (3.0,), peers[1:], W),
    ]
    pictures = None if options.quick else mnist()
    if pictures is not None:
        cases.insert(1, ("MNIST", pictures, 10, (1.0, 10.0), peers[1:], None))
        cases.insert(2, ("MNIST", pictures, 10, (10.0,), peers[:1], None))
    for name, data, s, alphas, kinds, truth in cases:
        for kind in kinds:
            for alpha in alphas:
                peer = kind(s, alpha=alpha, random_state=0)
                for row in compare(name, data, s, peer, options.repeats, truth):
                    print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
