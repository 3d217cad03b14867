"""Who races: each method with its own accuracy knob, over a documented list from loose to tight."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn import decomposition
from sklearn.utils.extmath import randomized_svd

import dualpca

ITERATIONS = (0, 1, 2, 4, 8, 16, 32, 64)
TOLERANCES = (1e-1, 1e-2, 1e-4, 0.0)
OUR_TOLERANCES = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)


@dataclass(frozen=True)
class Method:
    """``run(A, s, knob)`` returns components as columns; ``knobs`` go from loose to tight."""

    name: str
    run: Callable[[Any, int, Any], np.ndarray]
    knobs: Sequence[Any] = (None,)
    dense: bool = True
    sparse: bool = False
    largest_side: int = 10**9
    ours: bool = False


def _sklearn(solver: str, knob_name: str | None = None) -> Callable[[Any, int, Any], np.ndarray]:
    def run(A: Any, s: int, knob: Any) -> np.ndarray:
        options = {} if knob_name is None else {knob_name: knob}
        model = decomposition.PCA(s, svd_solver=solver, random_state=0, **options)
        return model.fit(A).components_.T

    return run


def _truncated(algorithm: str) -> Callable[[Any, int, Any], np.ndarray]:
    def run(A: Any, s: int, knob: Any) -> np.ndarray:
        options = {"n_iter": knob} if algorithm == "randomized" else {"tol": knob}
        model = decomposition.TruncatedSVD(s, algorithm=algorithm, random_state=0, **options)
        return model.fit(A).components_.T

    return run


def _svds(solver: str) -> Callable[[Any, int, Any], np.ndarray]:
    def run(A: Any, s: int, knob: Any) -> np.ndarray:
        options: dict[str, Any] = (
            {"maxiter": knob, "tol": 1e-12} if solver == "lobpcg" else {"tol": knob}
        )
        options["rng"] = np.random.default_rng(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return svds(A, k=s, solver=solver, **options)[2].T

    return run


def _randomized_svd(A: Any, s: int, knob: Any) -> np.ndarray:
    return randomized_svd(A, s, n_iter=knob, random_state=0)[2].T


def _torch(A: Any, s: int, knob: Any) -> np.ndarray:
    import torch

    torch.manual_seed(0)
    return torch.pca_lowrank(torch.from_numpy(A), q=s + 10, center=True, niter=knob)[2][
        :, :s
    ].numpy()


def _fbpca(A: Any, s: int, knob: Any) -> np.ndarray:
    import fbpca

    np.random.seed(0)  # noqa: NPY002 - fbpca draws from the global generator
    return fbpca.pca(A, k=s, raw=True, n_iter=knob, l=s + 10)[2].T


def _dualpca(**options: Any) -> Callable[[Any, int, Any], np.ndarray]:
    def run(A: Any, s: int, knob: Any) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = dualpca.PCA(s, tol=knob, center=not sp.issparse(A), random_state=0, **options)
            return np.asarray(model.fit(A).components_).T

    return run


METHODS = [
    Method("dualpca auto", _dualpca(), OUR_TOLERANCES, sparse=True, ours=True),
    Method("sklearn full", _sklearn("full"), largest_side=5000),
    Method("sklearn covariance_eigh", _sklearn("covariance_eigh"), largest_side=10**6),
    Method("sklearn arpack", _sklearn("arpack", "tol"), TOLERANCES),
    Method("sklearn randomized", _sklearn("randomized", "iterated_power"), ITERATIONS),
    Method("randomized_svd", _randomized_svd, ITERATIONS, sparse=True),
    Method("svds arpack", _svds("arpack"), TOLERANCES, sparse=True),
    Method("svds lobpcg", _svds("lobpcg"), (5, 10, 20, 40, 80), sparse=True),
    Method("svds propack", _svds("propack"), TOLERANCES, sparse=True),
    Method("torch.pca_lowrank", _torch, ITERATIONS),
    Method("fbpca", _fbpca, ITERATIONS, sparse=True),
    Method(
        "sklearn TruncatedSVD", _truncated("randomized"), ITERATIONS[1:], dense=False, sparse=True
    ),
]
FIRST_ORDER = [
    Method("DCA (n)", _dualpca(solver="dca", formulation="n", max_iter=300), OUR_TOLERANCES),
    Method(
        "PG (n)",
        _dualpca(solver="proximal_gradient", formulation="n", max_iter=300),
        OUR_TOLERANCES,
    ),
    Method(
        "ZeroFPR (n)", _dualpca(solver="zerofpr", formulation="n", max_iter=300), OUR_TOLERANCES
    ),
]
