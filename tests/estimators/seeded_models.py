"""Data without random numbers, and every estimator that draws some: two processes fit the same."""

from __future__ import annotations

import numpy as np

from dualpca import (
    PCA,
    DeepKernelPCA,
    KernelPCA,
    KernelSVD,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
)

FIRST_ORDER = ("dca", "anderson", "proximal_gradient", "zerofpr", "simultaneous")


def hashed(N, d, salt):
    """Numbers in [-1, 1) from whole-number arithmetic: no stream of random numbers is asked."""
    i = np.arange(N * d, dtype=np.uint64) + np.uint64(salt * 1_000_003)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        i = (i + np.uint64(0x9E3779B97F4A7C15)) & np.uint64(2**64 - 1)
        i = (i ^ (i >> np.uint64(shift))) * np.uint64(factor)
    return ((i >> np.uint64(32)).astype(np.float64) / 2**31 - 1).reshape(N, d)


def benign(N, d, rank=3):
    """Rows near a subspace, a twelfth of them bad, and which."""
    axes = np.linalg.qr(hashed(d, rank, 2))[0].T
    X = hashed(N, rank, 1) @ (np.arange(rank, 0, -1)[:, None] * axes) + 0.05 * hashed(N, d, 3)
    bad = np.arange(N) % 12 == 5
    X[bad] = 6 * hashed(int(bad.sum()), d, 4)
    return X + 0.5, bad


def grouped(N):
    """Three groups of four among sixteen features, each with a factor of its own."""
    loadings = np.kron(np.eye(3, 4), [[1.0, 0.9, 0.8, 0.7]]) * [[3.0], [2.0], [1.0]]
    return hashed(N, 3, 7) @ loadings + 0.05 * hashed(N, 16, 8)


def planted(N, d):
    """A matrix of rank 2 with a few large entries added, and the two."""
    L = hashed(N, 2, 5) @ hashed(2, d, 6)
    S = np.where((17 * np.arange(N)[:, None] + 11 * np.arange(d)) % 29 == 0, 5.0, 0.0)
    return L + S, L, S


#: Every estimator and solver that draws random numbers.
SEEDED = [
    *(PCA(3, solver=name) for name in ("krylov", "chebyshev", *FIRST_ORDER)),
    PCA(3, solver="dca", formulation="o"),
    KernelPCA(3, kernel="rbf", gamma="median", solver="krylov"),
    KernelPCA(3, kernel="rbf", gamma="median", solver="simultaneous"),
    KernelPCA(3, kernel="rbf", approximation="nystroem", n_landmarks=40),
    KernelPCA(3, kernel="rbf", approximation="rff", n_random_features=64),
    KernelPCA(3, kernel="rbf", approximation="orf", n_random_features=64),
    DeepKernelPCA([KernelPCA(6, kernel="rbf", gamma=0.5), KernelPCA(3, kernel="rbf")]),
    KernelSVD(3, kernel="rbf", gamma=0.1, solver="krylov"),
    RobustPCA(3),
    RobustPCA(3, init="random", loss="l1", normalize=False, refit=False),
    RobustPCA(3, solver="dca", loss="tukey"),
    RobustPCA(3, solver="dual"),
    RobustKernelPCA(3),
    RobustKernelPCA(3, approximation="nystroem", n_landmarks=40),
    *(SparsePCA(3, n_nonzero=4, method=name) for name in ("deflation", "block", "reconstruction")),
    SparsePCA(2, penalty="l1", deflation="schur"),
    PrincipalComponentPursuit(tol=1e-6),
]


def name_of(model):
    return " ".join(repr(model).split())[:80]


def rows_for(model):
    """Rows for which the model's problem has one answer."""
    if isinstance(model, PrincipalComponentPursuit):
        return planted(60, 40)[0]
    return grouped(200) if isinstance(model, SparsePCA) else benign(360, 48)[0]


def results(model, X):
    """The fitted numbers of a model, by name, and its scores of X."""
    return fitted(model.fit(X)) | {"scores": model.transform(X)}


def fitted(model):
    found = {}
    for name, value in vars(model).items():
        if not name.endswith("_") or name.startswith("_"):
            continue
        if isinstance(value, (bool, int, float, str, np.generic, np.ndarray)):
            found[name] = np.asarray(value)
        elif isinstance(value, list) and all(isinstance(x, np.ndarray) for x in value):
            found |= {f"{name}.{i}": x for i, x in enumerate(value)}
        elif isinstance(value, (list, tuple)) and name != "feature_names_in_":
            found[name] = np.asarray(value, dtype=float)
        elif hasattr(value, "components_"):
            found |= {f"{name}.{inner}": x for inner, x in fitted(value).items()}
    return found
