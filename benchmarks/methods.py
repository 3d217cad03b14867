"""Who races: each method with its own accuracy knob, over a documented list from loose to tight.

Peers whose package is missing (torch, fbpca, sklearnex, primme) are named and left out. Randomised
methods turn their number of iterations, ARPACK, PROPACK and PRIMME their tolerance, LOBPCG its
iterations, and ours ``tol``; the direct solvers of scikit-learn and of Intel's extension of it have
no knob. PRIMME with a block of 1 is a single-vector method; 16 columns are the block of ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
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
LOBPCG_ITERATIONS = (5, 10, 20, 40, 80)

#: Of the residual, relative to the largest singular value; float32 does not reach 1e-6 everywhere.
PRIMME_TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-4, 3e-5, 1e-5)
PRIMME_PRODUCTS = 10_000

#: covariance_eigh makes a d x d matrix and all its eigenvectors.
COVARIANCE_COLUMNS = 5000

OURS = "dualpca auto"

#: The peers that form the covariance, as our "gram" does; sklearnex "full" decomposes the data itself.
COVARIANCE = ("sklearn covariance_eigh", "sklearnex covariance_eigh")

Run = Callable[[Any, int, Any], Any]


@dataclass(frozen=True)
class Method:
    """One runner.

    Parameters
    ----------
    name : str
    run : callable
        ``run(A, s, knob)`` returns components as columns, or a fitted model that has them as rows.
    knobs : sequence
        From loose to tight; ``(None,)`` where there is none.
    dense, sparse : bool
        What it is raced on.
    kind : {"peer", "ours", "first-order"}
        Ratios are of peers and ours; first-order methods are shown beside them.
    side : callable, optional
        For a direct method, of cubic cost in the sides: which side of a shape its time hangs on. A
        corner of A then predicts that time.
    columns : int
        The most columns it is raced on.
    needs : str, optional
        The package it is imported from, where that may be missing.
    """

    name: str
    run: Run
    knobs: Sequence[Any] = (None,)
    dense: bool = True
    sparse: bool = False
    kind: str = "peer"
    side: Callable[[tuple[int, int]], int] | None = None
    columns: int = 10**9
    needs: str | None = None

    def applies(self, A: Any) -> bool:
        """Whether it races on A."""
        return (self.sparse if sp.issparse(A) else self.dense) and A.shape[1] <= self.columns


def components(found: Any) -> np.ndarray:
    """The components as columns, of what ``run`` returned; of kernel PCA the eigenvectors of K."""
    if hasattr(found, "eigenvectors_"):
        return np.asarray(found.eigenvectors_)
    return np.asarray(found.components_).T if hasattr(found, "components_") else found


def facts(found: Any) -> dict[str, Any]:
    """What a model of ours tells of its fit: the solver, its passes, its certificate."""
    names = ("solver", "n_passes", "variance_shortfall")
    return {name: getattr(found, f"{name}_") for name in names if hasattr(found, f"{name}_")}


def available(methods: Sequence[Method]) -> tuple[list[Method], list[str]]:
    """The methods whose packages import, which happens here, and a line for each other one."""
    found, missing = [], []
    for method in methods:
        try:
            if method.needs:
                import_module(method.needs)
        except ImportError as error:
            missing.append(f"{method.name} does not race: {error}")
        else:
            found.append(method)
    return found, missing


def _sklearn(solver: str, knob_name: str | None = None) -> Run:
    def run(A: Any, s: int, knob: Any) -> Any:
        options = {} if knob_name is None else {knob_name: knob}
        return decomposition.PCA(s, svd_solver=solver, random_state=0, **options).fit(A)

    return run


def _sklearnex(solver: str) -> Run:
    """Intel's PCA by its own name: scikit-learn's stays what it is."""

    def run(A: Any, s: int, knob: Any) -> Any:
        from sklearnex.decomposition import PCA

        return PCA(s, svd_solver=solver).fit(A)

    return run


def _truncated(A: Any, s: int, knob: Any) -> Any:
    return decomposition.TruncatedSVD(s, n_iter=knob, random_state=0).fit(A)


def _svds(solver: str) -> Run:
    def run(A: Any, s: int, knob: Any) -> np.ndarray:
        options = {"maxiter": knob, "tol": 1e-12} if solver == "lobpcg" else {"tol": knob}
        return svds(A, k=s, solver=solver, rng=np.random.default_rng(0), **options)[2].T

    return run


def _primme(block: int) -> Run:
    def run(A: Any, s: int, knob: Any) -> np.ndarray:
        import primme

        # Bounded, because it has no limit of its own where rounding keeps it from its tolerance.
        options = {"maxiter": PRIMME_PRODUCTS, "raise_for_unconverged": False}
        return primme.svds(A, s, tol=knob, maxBlockSize=block, **options)[2].T

    return run


def _randomized_svd(A: Any, s: int, knob: Any) -> np.ndarray:
    return randomized_svd(A, s, n_iter=knob, random_state=0)[2].T


def _torch(A: Any, s: int, knob: Any) -> np.ndarray:
    import torch

    torch.manual_seed(0)
    q = min(s + 10, *A.shape)
    return torch.pca_lowrank(torch.from_numpy(A), q=q, niter=knob)[2][:, :s].numpy()


def _fbpca(A: Any, s: int, knob: Any) -> np.ndarray:
    import fbpca

    np.random.seed(0)  # noqa: NPY002 - fbpca draws from the global generator
    return fbpca.pca(A, k=s, raw=True, n_iter=knob, l=s + 10)[2].T


def _ours(A: Any, s: int, knob: Any) -> Any:
    return dualpca.PCA(s, tol=knob, center=not sp.issparse(A), random_state=0).fit(A)


def _first_order(solver: str) -> Run:
    def run(A: Any, s: int, knob: Any) -> np.ndarray:
        problem = dualpca.formulations.formulation("n", A)
        return dualpca.solve(problem, solver, s=s, tol=knob, max_iter=300, random_state=0).W

    return run


def _columns(shape: tuple[int, int]) -> int:
    return shape[1]


def quietly(method: Method, A: Any, s: int, knob: Any) -> Any:
    """``method.run`` without its warnings: the judge says what a loose knob left undone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.run(A, s, knob)


METHODS = [
    Method(OURS, _ours, OUR_TOLERANCES, sparse=True, kind="ours"),
    Method("svds arpack", _svds("arpack"), TOLERANCES, sparse=True),
    Method("svds propack", _svds("propack"), TOLERANCES, sparse=True),
    Method("randomized_svd", _randomized_svd, ITERATIONS, sparse=True),
    *(
        Method(name, run, side=_columns, columns=COVARIANCE_COLUMNS, needs=needs)
        for name, run, needs in (
            (COVARIANCE[0], _sklearn("covariance_eigh"), None),
            (COVARIANCE[1], _sklearnex("covariance_eigh"), "sklearnex"),
        )
    ),
    Method("sklearn arpack", _sklearn("arpack", "tol"), TOLERANCES),
    Method("sklearn randomized", _sklearn("randomized", "iterated_power"), ITERATIONS),
    Method("sklearn TruncatedSVD", _truncated, ITERATIONS[1:], dense=False, sparse=True),
    Method("fbpca", _fbpca, ITERATIONS, sparse=True, needs="fbpca"),
    Method("torch.pca_lowrank", _torch, ITERATIONS, needs="torch"),
    *(
        Method(f"primme, block {b}", _primme(b), PRIMME_TOLERANCES, sparse=True, needs="primme")
        for b in (1, 16)
    ),
    Method("svds lobpcg", _svds("lobpcg"), LOBPCG_ITERATIONS, sparse=True),
    Method("sklearn full", _sklearn("full"), side=min),
    Method("sklearnex full", _sklearnex("full"), side=min, needs="sklearnex"),
]
FIRST_ORDER = [
    Method(f"{name} (n)", _first_order(solver), OUR_TOLERANCES, kind="first-order")
    for name, solver in (("DCA", "dca"), ("PG", "proximal_gradient"), ("ZeroFPR", "zerofpr"))
]
