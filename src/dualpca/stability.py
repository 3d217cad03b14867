"""How far components move when other rows of the same kind are drawn."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ._arguments import check_count
from ._memory import ensure
from .frames import component_names, frame
from .inspect import FittedModel
from .linalg import to_numpy
from .operators import as_operator
from .progress import phase, printing, report_step

__all__ = ["Bootstrap", "bootstrap"]


@dataclass(frozen=True)
class Bootstrap:
    """The loadings of a model and of its fits to resampled rows, aligned with them.

    Attributes
    ----------
    loadings : array of shape (n_components, n_features)
        Those of the model.
    resampled : array of shape (n, n_components, n_features)
    variances : array of shape (n, n_components)
        The variances of the components of each resample.
    angles : array of shape (n, n_components)
        The principal angles between the subspace of the model and that of each resample, in degrees,
        the largest first.
    feature_names : list of str
    """

    loadings: np.ndarray
    resampled: np.ndarray
    variances: np.ndarray
    angles: np.ndarray
    feature_names: list[str]

    def intervals(self, level: float = 0.95) -> Any:
        """Return each loading between two quantiles of its resamples.

        Parameters
        ----------
        level : float
            The share of the resamples within an interval.

        Returns
        -------
        table : data frame, or a dictionary of columns where pandas is not installed
            A line for each variable; the columns "PC1", "PC1 low" and "PC1 high", and so on.
        """
        low, high = self.bounds(level)
        columns: dict[str, np.ndarray] = {}
        for k, name in enumerate(component_names(len(self.loadings))):
            columns |= {name: self.loadings[k], f"{name} low": low[k], f"{name} high": high[k]}
        return frame(columns, self.feature_names)

    def bounds(self, level: float = 0.95) -> np.ndarray:
        """Return both ends of :meth:`intervals`, of shape (2, n_components, n_features)."""
        if not 0 < level < 1:
            raise ValueError(f"level={level} must be between 0 and 1, such as 0.95")
        return np.quantile(self.resampled, [(1 - level) / 2, (1 + level) / 2], axis=0)

    def turns(self) -> np.ndarray:
        """Return the angles of components and their resamples, in degrees, (n, n_components)."""
        lengths = np.linalg.norm(self.resampled, axis=2) * np.linalg.norm(self.loadings, axis=1)
        inner = np.abs(np.einsum("nkd,kd->nk", self.resampled, self.loadings))
        cosine = np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0)
        return np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0)))


def bootstrap(
    model: Any,
    X: Any,
    n: int = 200,
    *,
    align: str = "sign",
    random_state: Any = None,
    verbose: int = 0,
) -> Bootstrap:
    """Fit a model to resampled rows, to see which loadings would be the same with other rows.

    Each resample draws as many rows as X has, with repetition, as weights, so that X is neither copied
    nor shuffled; its fit begins from the components of the model. Steps before the last one of a
    pipeline, such as scales, and the number of components stay as they are.

    Parameters
    ----------
    model : fitted PCA, RobustPCA or SparsePCA, or Pipeline that ends in one
    X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        The rows of the fit, each counted once.
    n : int
        The number of resamples.
    align : {"sign", "procrustes"}
        How resampled components are brought beside those of the model: each beside the one that it is
        most like, up to its sign; or all together by the best orthogonal matrix, which also takes out
        turns within the subspace, such as between components of nearly the same variance.
    random_state : int, RandomState instance or None
    verbose : int
        As in :class:`dualpca.PCA`. A listener (:mod:`dualpca.progress`) hears a step for each resample,
        and may stop after it; the result then has those that were fitted.

    Returns
    -------
    result : Bootstrap

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> import dualpca
    >>> X = load_wine(as_frame=True).data
    >>> model = make_pipeline(dualpca.Preprocessor("standard"), dualpca.PCA(2)).fit(X)
    >>> result = dualpca.bootstrap(model, X, n=50, random_state=0)
    >>> table = result.intervals()
    >>> table.loc[["flavanoids", "ash"], ["PC1", "PC1 low", "PC1 high"]].round(1)
                PC1  PC1 low  PC1 high
    flavanoids  0.4      0.4       0.4
    ash         0.0     -0.1       0.1
    >>> result.angles.shape
    (50, 2)
    """
    n = check_count("n", n, "resamples", 2)
    if align not in ("sign", "procrustes"):
        raise ValueError(f"align={align!r} is unknown; give 'sign' or 'procrustes'")
    fitted = FittedModel(model)
    estimator = fitted.estimator
    if not (fitted.is_linear and hasattr(estimator, "rotation")):
        raise ValueError(f"model is a {fitted.name}; give a PCA, RobustPCA or SparsePCA")
    Z, rng = fitted.prepared(X), check_random_state(random_state)
    rows, loadings = int(estimator.n_samples_), fitted.loadings
    if (given := as_operator(Z).shape[0]) != rows:
        raise ValueError(
            f"X has {given:,} rows, and the model is of {rows:,}; give the rows of its fit"
        )
    ensure(8 * n * loadings.size, f"the loadings of {n:,} resamples", "ask for fewer resamples")
    resampled, variances, angles = [], [], []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with printing("bootstrap", verbose), phase("bootstrap"):
            for i in range(n):
                counts = rng.multinomial(rows, np.full(rows, 1 / rows)).astype(float)
                again = clone(estimator).set_params(n_components=estimator.n_components_)
                again._begin_from(estimator)
                again.fit(Z, sample_weight=counts)
                components = to_numpy(again.components_).astype(float)
                place, turned = _aligned(components, loadings, align)
                resampled.append(turned)
                variances.append(to_numpy(again.explained_variance_).astype(float)[place])
                angles.append(np.degrees(subspace_angles(loadings.T, components.T)))
                left = 1 - (i + 1) / n
                if report_step("bootstrap", math.nan, 0.0, i + 1, quantity="left", left=left):
                    break
    short = sum(issubclass(w.category, ConvergenceWarning) for w in caught)
    if short:
        warnings.warn(
            f"{short} of {len(angles)} resamples ended short of tol={estimator.tol}; raise max_iter or "
            "tol of the model",
            ConvergenceWarning,
            stacklevel=2,
        )
    made = np.array(resampled), np.array(variances), np.array(angles)
    return Bootstrap(loadings, *made, fitted.feature_names)


def _aligned(B: np.ndarray, A: np.ndarray, align: str) -> tuple[np.ndarray, np.ndarray]:
    """Return which row of B stands beside each row of A, and the rows of B aligned with A."""
    likeness = A @ B.T
    place = linear_sum_assignment(-np.abs(likeness))[1]
    if align == "procrustes":
        U, _, Vt = np.linalg.svd(likeness)
        return place, U @ Vt @ B
    signs = np.where(likeness[np.arange(len(A)), place] < 0, -1.0, 1.0)
    return place, B[place] * signs[:, None]
