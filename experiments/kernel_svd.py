"""KernelSVD beside symmetric decompositions: ``python -m experiments.kernel_svd``.

*Attention*: ``K = exp(<x W_q, z W_k> / sqrt(p))`` of word vectors (GloVe from DUALPCA_DATA, random
numbers for a reduced run) with random W_q and W_k. The tables have ``||K - approximation|| / ||K||`` in
percent, for the training rows and for new rows on both sides. The symmetric alternatives: the leading
eigenvectors of (K + K^T)/2, and the projection of K on the kernel PCA of the left rows and of the right
rows, whose kernels exp(<q, q'>) and exp(<k, k'>) are symmetric.

*Directed graph*: nodes send as one of four groups and receive as another one of four, independently. The
table has the adjusted Rand index of k-means on left and right vectors against the two partitions,
beside k-means on the eigenvectors of A + A^T.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from dualpca import KernelPCA, KernelSVD

from .robust_data import data_folder

RANKS = (5, 20, 50)
GROUPS = 4


def words(n: int, seed: int, quick: bool = False) -> np.ndarray:
    """Return n word vectors, or random ones for a reduced run, each of mean 0 and variance 1.

    This is the layer normalisation that attention has before it.
    """
    rng, folder = np.random.default_rng(seed), data_folder()
    if quick or folder is None:
        X = rng.standard_normal((n, 50))
    else:
        with np.load(folder / "glove50_100k.npz") as file:
            X = next(file[name] for name in file.files if file[name].ndim == 2)
        X = X[np.sort(rng.choice(len(X), n, replace=False))].astype(float)
    X = X - X.mean(axis=1, keepdims=True)
    return X / X.std(axis=1, keepdims=True)


def relative(K: np.ndarray, near: np.ndarray) -> float:
    """Return ``||K - near|| / ||K||`` in percent."""
    return 100 * float(np.linalg.norm(K - near) / np.linalg.norm(K))


def attention_errors(
    X: np.ndarray, rank: int, seed: int, p: int = 16
) -> dict[str, tuple[float, float]]:
    """Return the errors of each method on training rows and on new rows, one half each."""
    rng, d = np.random.default_rng(seed), X.shape[1]
    Q, W = (X @ (rng.standard_normal((d, p)) / np.sqrt(d)) for _ in range(2))
    n, gamma = len(X) // 2, 1 / np.sqrt(p)
    K = np.exp(gamma * Q @ W.T)
    inside, outside = K[:n, :n], K[n:, n:]
    found = {}
    model = KernelSVD(rank, kernel="precomputed", center=False, random_state=seed).fit(inside)
    left, right = model.transform(K[n:, :n]), model.transform_right(K[:n, n:].T)
    near = (model.left_vectors_ * model.singular_values_) @ model.right_vectors_.T
    found["KernelSVD"] = relative(inside, near), relative(outside, left @ right.T)
    S = (inside + inside.T) / 2
    theta, V = np.linalg.eigh(S)
    top = np.argsort(-np.abs(theta))[:rank]
    V, theta = V[:, top], theta[top]
    scores = [K[n:, :n] @ V / theta, K[:n, n:].T @ V / theta]
    near = (V * theta) @ V.T
    found["eigenvectors of (K + K^T)/2"] = (
        relative(inside, near),
        relative(outside, (scores[0] * theta) @ scores[1].T),
    )
    sides = []
    for rows in (Q, W):
        kernel = np.exp(gamma * rows @ rows.T)
        pca = KernelPCA(rank, kernel="precomputed", center=False, tol=1e-8, random_state=seed)
        scores_in = pca.fit_transform(kernel[:n, :n]) / np.sqrt(pca.eigenvalues_)
        sides.append((scores_in, pca.transform(kernel[n:, :n]) / np.sqrt(pca.eigenvalues_)))
    (B, B_new), (A, A_new) = sides
    core = B.T @ inside @ A
    found["kernel PCA of either side"] = (
        relative(inside, B @ core @ A.T),
        relative(outside, B_new @ core @ A_new.T),
    )
    return found


def directed_graph(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return an adjacency matrix, and the groups in which nodes send and receive."""
    rng = np.random.default_rng(seed)
    sends, receives = rng.integers(GROUPS, size=(2, n))
    rates = 0.02 + 0.06 * np.eye(GROUPS)[rng.permutation(GROUPS)]
    return (rng.random((n, n)) < rates[sends][:, receives]).astype(float), sends, receives


def recovered(n: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return the adjusted Rand index of each method for the groups that send and that receive."""
    A, sends, receives = directed_graph(n, seed)

    def index(vectors: np.ndarray, truth: np.ndarray) -> float:
        labels = KMeans(GROUPS, n_init=10, random_state=seed).fit_predict(vectors)
        return float(adjusted_rand_score(truth, labels))

    model = KernelSVD(GROUPS, kernel="precomputed", center=False, random_state=seed).fit(A)
    theta, V = np.linalg.eigh(A + A.T)
    V = V[:, np.argsort(-np.abs(theta))[:GROUPS]]
    return {
        "KernelSVD": (index(model.left_vectors_, sends), index(model.right_vectors_, receives)),
        "eigenvectors of A + A^T": (index(V, sends), index(V, receives)),
    }


def told(title: str, columns: tuple[str, str], runs: list[dict[str, tuple[float, float]]]) -> str:
    """Return means and standard deviations over runs as Markdown."""
    lines = [f"| {title} | {' | '.join(columns)} |", "|---|---|---|"]
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        means, deviations = values.mean(axis=0), values.std(axis=0, ddof=1)
        cells = (f"{m:.2f} ({d:.2f})" for m, d in zip(means, deviations, strict=True))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    for rank in RANKS:
        runs = [
            attention_errors(words(options.rows, seed), rank, seed) for seed in range(options.seeds)
        ]
        print(told(f"attention, rank {rank}", ("training rows", "new rows"), runs), end="\n\n")
    runs = [recovered(options.rows, seed) for seed in range(options.seeds)]
    print(told("directed graph", ("sends", "receives"), runs), flush=True)


if __name__ == "__main__":
    main()
