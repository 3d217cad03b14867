"""Outlier scores of rows: what a robust subspace says of training and new data."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array, host_sample, namespace
from ..operators import as_operator
from ..operators.block_ops import dense
from ..operators.row_blocks import RowBlocked
from ..robust.distances import Measured, scores_and_distances
from ..robust.scale import chi2_quantile
from ._base import check_same_kind, shifted, validated


def score_distances(T: Array, variances: Array) -> Array:
    """Mahalanobis distances from 0 of scores; directions without variance are left out."""
    xp = namespace(T)
    some = variances > 1e-12 * xp.max(variances)
    deviation = xp.sqrt(xp.where(some, variances, xp.ones_like(variances)))
    scaled = xp.where(some[None, :], T / deviation[None, :], xp.zeros_like(T))
    with np.errstate(over="ignore"):
        return xp.sqrt(xp.sum(scaled * scaled, axis=1))


def _measures_new_rows(model: Any) -> bool:
    """Whether the model can: where not, it lacks the methods that scikit-learn gives a meaning."""
    model._check_new_rows()
    return True


class OutlierScoresMixin(OutlierMixin):
    """Scores and flags from the two distances of rows, the limit ``offset_`` and ``flags_by_``."""

    quantile: float
    contamination: Any
    flag: str
    offset_: float
    flags_by_: str
    limits_: tuple[float, float]

    @abstractmethod
    def _checked(self, X: Any, method: str) -> Any:
        """X as the method may use it."""

    @abstractmethod
    def _distances(self, X: Any) -> tuple[Array, Array]:
        """Score and orthogonal distances."""

    def _check_new_rows(self) -> None:
        """Raise where nothing can be said of new rows."""

    def distances(self, X: Any) -> tuple[Array, Array]:
        """The two distances of the outlier map.

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

    @available_if(_measures_new_rows)
    def score_samples(self, X: Any) -> Array:
        """Minus the distance that flags rows, so that higher is more normal.

        Minus the orthogonal distance; minus the larger of the two distances over their limits where
        ``flag="both"``; minus the score distance where the subspace is all there is.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,)
        """
        return self._normality(self._checked(X, "score_samples"))

    def _normality(self, X: Any) -> Array:
        return self._normality_of(*self._distances(X))

    @available_if(_measures_new_rows)
    def decision_function(self, X: Any) -> Array:
        """``score_samples(X) - offset_``: negative for outliers.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        decision : array of shape (n_samples,)
        """
        return self._normality(self._checked(X, "decision_function")) - self.offset_

    @available_if(_measures_new_rows)
    def predict(self, X: Any) -> Array:
        """+1 for good rows, -1 for outliers.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        labels : integer array of shape (n_samples,)
        """
        scores = self._normality(self._checked(X, "predict"))
        xp = namespace(scores)
        return 1 - 2 * xp.astype(scores < self.offset_, xp.int64)

    def _flag(
        self, found: Measured, score: Array, orthogonal: Array, counted: np.ndarray | None = None
    ) -> None:
        """The training rows' distances, the limits of both, and who is beyond them.

        A share of the rows is one of those that count.
        """
        self.score_distances_, self.orthogonal_distances_ = score, orthogonal
        components = int(found.scores.shape[1])
        self.limits_ = (
            chi2_quantile(self.quantile, components) ** 0.5,
            found.cutoff(self.quantile),
        )
        self.flags_by_ = "score" if found.flat else self.flag
        scores = self._normality_of(score, orthogonal)
        if self.contamination == "auto":
            self.offset_ = -{"score": self.limits_[0], "orthogonal": self.limits_[1]}.get(
                self.flags_by_, 1.0
            )
        else:
            numbers = host_sample(scores) if counted is None else host_sample(scores)[counted]
            offset = float(np.percentile(numbers, 100.0 * self.contamination))
            # Where that is the score of a row, rounding must not decide on its flag.
            self.offset_ = offset - float(np.sqrt(np.finfo(numbers.dtype).eps)) * abs(offset)
        self.outliers_ = scores < self.offset_

    def _normality_of(self, score: Array, orthogonal: Array) -> Array:
        if self.flags_by_ == "both":
            a, b = (d / limit for d, limit in zip((score, orthogonal), self.limits_, strict=True))
            return -namespace(a).where(a > b, a, b)
        return -(orthogonal if self.flags_by_ == "orthogonal" else score)


class LinearOutliersMixin(OutlierScoresMixin):
    """Distances from ``components_``, the centre and ``explained_variance_``."""

    components_: Array
    explained_variance_: Array
    mean_: Array
    _origin: Any

    def _checked(self, X: Any, method: str) -> Any:
        check_is_fitted(self, "components_")
        check_same_kind(X, self.components_, f"{type(self).__name__}.{method}")
        return validated(self, X, reset=False)

    def _distances(self, X: Any) -> tuple[Array, Array]:
        T, orthogonal = scores_and_distances(shifted(X, self._origin), self.components_.T)
        return score_distances(T, self.explained_variance_), orthogonal

    def contributions(self, X: Any) -> Array:
        """What each variable adds to the squared orthogonal distance of a row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows to explain, some outliers say: the answer is a dense array of the same shape.

        Returns
        -------
        contributions : array of shape (n_samples, n_features)
            Squared residuals, with the sign of the residual; their magnitudes sum over a row to the
            squared orthogonal distance.
        """
        operator = as_operator(self._checked(X, "contributions"))
        assert isinstance(operator, RowBlocked)
        mean, V = self.mean_, self.components_.T

        def part(rows: slice, block: Any) -> Array:
            centred = dense(block) - mean
            rest = centred - (centred @ V) @ V.T
            return rest * namespace(rest).abs(rest)

        return operator.map_rows(part, operator.shape[1])
