"""What robust estimators share: their parameters, attributes, and outlier scores of rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.metaestimators import available_if

from ..linalg import Array, namespace
from ..losses import LOSSES, Loss
from ..operators import Operator
from ..robust.distances import RowDistances
from ..robust.fit import RobustFit, RobustOptions
from ..robust.flags import flag_rows, normality
from ..robust.scale import chi2_quantile
from ..solvers.subspace import warn_above
from ._base import ITERATION_CONSTRAINTS

#: The quantile of the cut-offs on the outlier map, as in ROBPCA.
MAP = 0.975

#: The parameters that robust estimators share.
ROBUST_CONSTRAINTS: dict[str, Any] = {
    "n_components": [
        Interval(Integral, 1, None, closed="left"),
        Interval(RealNotInt, 0, 1, closed="neither"),
        StrOptions({"auto"}),
        None,
    ],
    "loss": [StrOptions(set(LOSSES)), Loss],
    "normalize": ["boolean"],
    "refit": ["boolean"],
    "quantile": [Interval(Real, 0, 1, closed="neither")],
    "flag": [StrOptions({"orthogonal", "both"})],
    "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
    **ITERATION_CONSTRAINTS,
}


def score_distances(T: Array, variances: Array) -> Array:
    """Return Mahalanobis distances from 0 of scores, without directions of variance 0."""
    xp = namespace(T)
    varying = variances > 1e-12 * xp.max(variances)
    deviation = xp.sqrt(xp.where(varying, variances, xp.ones_like(variances)))
    scaled = xp.where(varying[None, :], T / deviation[None, :], xp.zeros_like(T))
    with np.errstate(over="ignore"):
        return xp.sqrt(xp.sum(scaled * scaled, axis=1))


def _measures_new_rows(model: Any) -> bool:
    """Raise where the model cannot: it then lacks the methods that scikit-learn looks for."""
    model._check_new_rows()
    return True


class OutlierScoresMixin(OutlierMixin):
    """Scores and flags from the two distances of rows, the limit ``offset_`` and ``flags_by_``."""

    tol: float
    max_iter: int
    flags_by_: str
    limits_: tuple[float, float]

    @abstractmethod
    def _checked(self, X: Any, method: str) -> Any:
        """Return X as the method may use it."""

    @abstractmethod
    def _distances(self, X: Any) -> tuple[Array, Array]:
        """Return score and orthogonal distances."""

    def _check_new_rows(self) -> None:
        """Raise where nothing can be said of new rows."""

    def distances(self, X: Any) -> tuple[Array, Array]:
        """Return the two distances of the outlier map.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        score_distances : array of shape (n_samples,)
            Mahalanobis distances from the centre within the subspace.
        orthogonal_distances : array of shape (n_samples,)
            Euclidean distances from the subspace.
        """
        return self._distances(self._checked(X, "distances"))

    def normality(self, score_distances: Array, orthogonal_distances: Array) -> Array:
        """Return ``score_samples`` of rows with these distances.

        Parameters
        ----------
        score_distances, orthogonal_distances : arrays of shape (n_samples,)

        Returns
        -------
        scores : array of shape (n_samples,)
            Rows below ``offset_`` are outliers.
        """
        return normality(score_distances, orthogonal_distances, self.flags_by_, self.limits_)

    @available_if(_measures_new_rows)
    def score_samples(self, X: Any) -> Array:
        """Return minus the distance that flags rows, so that higher is more normal.

        It is minus the orthogonal distance; minus the larger of the two distances over their limits
        where ``flag="both"``; minus the score distance where no row leaves the subspace.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,)
        """
        return self.normality(*self._distances(self._checked(X, "score_samples")))

    @available_if(_measures_new_rows)
    def decision_function(self, X: Any) -> Array:
        """Return ``score_samples(X) - offset_``, which is negative for outliers.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        decision : array of shape (n_samples,)
        """
        X = self._checked(X, "decision_function")
        return self.normality(*self._distances(X)) - self.offset_

    @available_if(_measures_new_rows)
    def predict(self, X: Any) -> Array:
        """Return +1 for good rows, -1 for outliers.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        labels : integer array of shape (n_samples,)
        """
        scores = self.normality(*self._distances(self._checked(X, "predict")))
        xp = namespace(scores)
        return 1 - 2 * xp.astype(scores < self.offset_, xp.int64)

    def _options(self) -> RobustOptions:
        return RobustOptions(**{f.name: getattr(self, f.name) for f in fields(RobustOptions)})

    def _set_fit(self, fit: RobustFit, X: Operator) -> None:
        """Set the attributes that do not depend on how axes are held."""
        parts = fit.components
        self.n_components_ = parts.V.shape[1]
        self.explained_variance_ = X.asarray(parts.variances)
        total = float(parts.variances.sum()) + parts.residual_variance
        self.explained_variance_ratio_ = X.asarray(parts.variances / (total or 1.0))
        self.start_, self.agreement_ = fit.start.name, fit.start.agreement
        self.residual_, self.n_iter_ = fit.residual, fit.iterations
        self.loss_, self.refitted_ = fit.loss, fit.refitted
        warn_above(self.residual_, self.tol, type(self).__name__, self.max_iter)
        self.score_cutoff_ = chi2_quantile(MAP, self.n_components_) ** 0.5
        self.orthogonal_cutoff_ = fit.rows.cutoff(MAP)

    def _flag(
        self, rows: RowDistances, score: Array, orthogonal: Array, counted: Any = None
    ) -> None:
        """Set the distances of the training rows, their limits, and the rows that are flagged."""
        flags = flag_rows(rows, score, orthogonal, self._options(), counted)
        self.flags_by_, self.limits_, self.offset_ = flags
        self.score_distances_, self.orthogonal_distances_ = score, orthogonal
        self.outliers_ = self.normality(score, orthogonal) < self.offset_
