"""What robust estimators share: their parameters, attributes, and outlier scores of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if

from ..linalg import Array, eps, host_sample, namespace
from ..losses import LOSSES, Loss
from ..operators import Operator
from ..robust.distances import RowDistances
from ..robust.fit import RobustFit, RobustOptions
from ..robust.scale import chi2_quantile
from ..solvers.subspace import warn_above
from ._base import COUNT, FRACTION, ITERATION_CONSTRAINTS

#: The quantile of the cut-offs on the outlier map, as in ROBPCA.
MAP = 0.975

#: The parameters that robust estimators share.
ROBUST_CONSTRAINTS: dict[str, Any] = {
    "n_components": [COUNT, FRACTION, StrOptions({"auto"}), None],
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


#: A method of models that can measure new rows; others lack it for scikit-learn, which looks for it.
measures_new_rows = available_if(lambda model: model._check_new_rows())


class OutlierScoresMixin(RobustOptions, OutlierMixin):
    """Scores and flags from the two distances of rows, the limit ``offset_`` and ``flags_by_``."""

    flags_by_: str
    limits_: tuple[float, float]

    #: returns new rows validated, by the name of the method that they are for
    _checked: Callable[..., Any]

    @abstractmethod
    def _distances(self, X: Any) -> tuple[Array, Array]:
        """Return score and orthogonal distances of validated rows."""

    def _check_new_rows(self) -> bool:
        """Return True; raise an error where nothing can be said of new rows."""
        return True

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
        """Return ``score_samples`` of rows with these two distances, arrays of shape (n_samples,)."""
        if self.flags_by_ == "both":
            a, b = score_distances / self.limits_[0], orthogonal_distances / self.limits_[1]
            return -namespace(a).where(a > b, a, b)
        return -(orthogonal_distances if self.flags_by_ == "orthogonal" else score_distances)

    @measures_new_rows
    def score_samples(self, X: Any) -> Array:
        """Return minus the distance that flags rows, so that higher is more normal.

        It is minus the orthogonal distance; minus the larger of the two distances over their limits
        where ``flag="both"``; minus the score distance where no row leaves the subspace.

        Parameters
        ----------
        X : rows, as in :meth:`distances`

        Returns
        -------
        scores : array of shape (n_samples,)
        """
        return self._normality(X, "score_samples")

    def _normality(self, X: Any, method: str) -> Array:
        return self.normality(*self._distances(self._checked(X, method)))

    @measures_new_rows
    def decision_function(self, X: Any) -> Array:
        """Return ``score_samples(X) - offset_`` of shape (n_samples,), which is negative for outliers."""
        return self._normality(X, "decision_function") - self.offset_

    @measures_new_rows
    def predict(self, X: Any) -> Array:
        """Return +1 for each good row of X and -1 for each outlier, integers of shape (n_samples,)."""
        scores = self._normality(X, "predict")
        xp = namespace(scores)
        return 1 - 2 * xp.astype(scores < self.offset_, xp.int64)

    def _set_fit(self, fit: RobustFit, X: Operator) -> None:
        """Set the attributes that do not depend on the form of the axes."""
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
        q = self.quantile
        limits = self.limits_ = chi2_quantile(q, self.n_components_) ** 0.5, rows.cutoff(q)
        self.flags_by_ = "score" if rows.flat else self.flag
        self.score_distances_, self.orthogonal_distances_ = score, orthogonal
        scores = self.normality(score, orthogonal)
        if self.contamination == "auto":
            self.offset_ = -{"score": limits[0], "orthogonal": limits[1]}.get(self.flags_by_, 1.0)
        else:
            sample = host_sample(scores) if counted is None else host_sample(scores)[counted]
            offset = float(np.percentile(sample, 100.0 * self.contamination))
            # Where that is the score of a row, rounding must not decide on its flag.
            self.offset_ = offset - eps(sample) ** 0.5 * abs(offset)
        self.outliers_ = scores < self.offset_
