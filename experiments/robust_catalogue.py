"""The methods compared: ours, rrcov, RobPy, PyOD, scikit-learn and the plain NumPy ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import chi2
from sklearn.covariance import MinCovDet
from sklearn.decomposition import PCA

from . import robust_numpy
from .robust_methods import Fit, Method, RMethod
from .robust_r import Rrcov

OURS = "RobustPCA"
RIVAL = "PcaHubert 0.5"
CLEAN = "PCA of clean rows"


def _fit_ours(X: np.ndarray, k: int, seed: int) -> Any:
    from dualpca import RobustPCA

    return RobustPCA(n_components=k, random_state=seed).fit(X)


#: The paper's Algorithm 5, raw rows: what its tables are made with. Algorithm 6 is solver="dual".
ALGORITHM_5: dict[str, Any] = {
    "loss": "l1",
    "normalize": False,
    "center": None,
    "init": "random",
    "refit": False,
    "solver": "dca",
}


def _fit_orthogonal(X: np.ndarray, k: int, seed: int) -> Any:
    from dualpca import RobustPCA

    return RobustPCA(n_components=k, flag="orthogonal", random_state=seed).fit(X)


def _fit_algorithm_5(X: np.ndarray, k: int, seed: int) -> Any:
    from dualpca import RobustPCA

    return RobustPCA(n_components=k, random_state=seed, **ALGORITHM_5).fit(X)


def _load_ours() -> None:
    from dualpca import RobustPCA  # noqa: F401


def _read_ours(model: Any, X: np.ndarray, k: int) -> dict[str, Any]:
    labels = model.predict(X) if hasattr(model, "predict") else model.fit_predict(X)
    return {
        "components": model.components_,
        "mean": model.mean_,
        "flags": np.asarray(labels) < 0,
        "scores": -model.score_samples(X),
    }


def _subspace(
    find: Callable[[np.ndarray, int], robust_numpy.Subspace], X: np.ndarray, k: int, seed: int
) -> robust_numpy.Subspace:
    return find(X, k)


def _fit_pca(X: np.ndarray, k: int, seed: int) -> robust_numpy.Subspace:
    model = PCA(k, random_state=seed).fit(X)
    return model.components_, model.mean_


def _read_subspace(model: robust_numpy.Subspace, X: np.ndarray, k: int) -> dict[str, Any]:
    """The score is the orthogonal distance; there are no flags."""
    components, mean = model
    Z = X - mean
    scores = np.linalg.norm(Z - Z @ components.T @ components, axis=1)
    return {"components": components, "mean": mean, "scores": scores}


def _fit_mcd(X: np.ndarray, k: int, seed: int) -> MinCovDet:
    return MinCovDet(random_state=seed).fit(X)


def _read_mcd(model: MinCovDet, X: np.ndarray, k: int) -> dict[str, Any]:
    """Score: the Mahalanobis distance; flags: its chi-squared quantile 0.975."""
    squared = model.mahalanobis(X)
    return {
        "components": np.linalg.eigh(model.covariance_)[1].T[::-1][:k],
        "mean": model.location_,
        "flags": squared > chi2.ppf(0.975, X.shape[1]),
        "scores": squared,
    }


def _mcd_unfit(N: int, d: int) -> str:
    if 2 * d >= N:
        return "needs N > 2 d"
    return "more than 200 columns" if d > 200 else ""


def _pcp_unfit(N: int, d: int) -> str:
    return "more than 1,000,000 entries" if N * d > 1_000_000 else ""


def _load_robpy() -> None:
    """robpy 0.0.6 calls a method of BaseEstimator which scikit-learn 1.7 dropped: put it back."""
    from robpy.covariance.base import RobustCovariance

    if not hasattr(RobustCovariance, "_validate_data"):
        from sklearn.utils.validation import validate_data

        RobustCovariance._validate_data = validate_data


def _fit_robpy(X: np.ndarray, k: int, seed: int) -> Any:
    """alpha = 0.5; a generator as seed, since with a number robpy draws one direction 250 times."""
    from robpy.pca import ROBPCA

    rng: Any = np.random.default_rng(seed)
    return ROBPCA(n_components=k, alpha=0.5, random_seed=rng, verbosity=40).fit(X)


def _read_robpy(model: Any, X: np.ndarray, k: int) -> dict[str, Any]:
    """Flags and scores from the two distances of its outlier map."""
    from robpy.pca.base import get_od_cutoff

    T = model.transform(X)
    od = np.linalg.norm(X - model.location_ - model.project(X), axis=1)
    sd = np.sqrt(np.sum(T**2 / model.explained_variance_[: T.shape[1]], axis=1))
    scores = np.maximum(sd / np.sqrt(chi2.ppf(0.975, T.shape[1])), od / get_od_cutoff(od))
    return {
        "components": model.components_.T,
        "mean": model.location_,
        "flags": scores > 1,
        "scores": scores,
    }


def _load_pyod() -> None:
    import pyod.models.kpca
    import pyod.models.pca  # noqa: F401


def _fit_pyod_pca(X: np.ndarray, k: int, seed: int) -> Any:
    import pyod.models.pca as detectors

    return detectors.PCA(random_state=seed).fit(X)


def _fit_pyod_kpca(X: np.ndarray, k: int, seed: int) -> Any:
    from pyod.models.kpca import KPCA

    return KPCA(n_components=k, random_state=seed).fit(X)


def _read_pyod(model: Any, X: np.ndarray, k: int) -> dict[str, Any]:
    return {"scores": model.decision_scores_}


def _kernel_unfit(N: int, d: int) -> str:
    return "more than 7000 rows" if N > 7000 else ""


def methods(R: Rrcov) -> list[Method | RMethod]:
    """Ours first, then the peers."""
    found: list[Method | RMethod] = [
        Method(OURS, _fit_ours, _read_ours, load=_load_ours),
        Method(
            "RobustPCA, orthogonal",
            _fit_orthogonal,
            _read_ours,
            load=_load_ours,
            parts=("classics", "outliers"),
        ),
        Method("Algorithm 5", _fit_algorithm_5, _read_ours, load=_load_ours),
        RMethod(RIVAL, R),
        RMethod("PcaHubert", R, entries=1e7),
        RMethod("PcaLocantore", R, entries=1e7),
        RMethod("PcaGrid", R, entries=1e6, slow=True),
        Method("RobPy", _fit_robpy, _read_robpy, load=_load_robpy),
        Method("MinCovDet", _fit_mcd, _read_mcd, unfit=_mcd_unfit, slow=True),
        Method("PCA", _fit_pca, _read_subspace),
    ]
    for name, find in (
        ("spherical PCA", robust_numpy.spherical),
        ("FMS", robust_numpy.fms),
        ("Tyler", robust_numpy.tyler),
    ):
        found.append(Method(name, partial(_subspace, find), _read_subspace))
    pcp = partial(_subspace, robust_numpy.pcp)
    found.append(Method("PCP", pcp, _read_subspace, unfit=_pcp_unfit, slow=True))
    for name, fit in (("PyOD PCA", _fit_pyod_pca), ("PyOD KPCA", _fit_pyod_kpca)):
        found.append(
            Method(name, fit, _read_pyod, _kernel_unfit, load=_load_pyod, parts=("outliers",))
        )
    return found


def clean_pca(clean: np.ndarray, k: int) -> Fit:
    """The reference: PCA that is told which rows are clean; neither timed nor flagged."""
    components, mean = _fit_pca(clean, k, 0)
    return Fit(float("nan"), components, mean)
