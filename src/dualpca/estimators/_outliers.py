"""Outlier scores of rows: what a robust subspace says of training and new data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array, namespace, to_numpy
from ..operators._blocks import dense
from ._data import check_same_kind, shifted, validated
from ._distances import scores_and_distances


class OutlierScoresMixin(OutlierMixin):
    """Distances, scores and flags from ``components_``, ``mean_``, variances and ``offset_``."""

    components_: Array
    explained_variance_: Array
    _origin: Any
    mean_: Array
    offset_: float
    flags_by_: str

    def distances(self, X: Any) -> tuple[Array, Array]:
        """The two distances of the outlier map.

        Parameters
        ----------
        X : array, sparse matrix, data frame or memory map of shape (n_samples, n_features)

        Returns
        -------
        score_distances : array of shape (n_samples,)
            Mahalanobis distances from the centre within the subspace.
        orthogonal_distances : array of shape (n_samples,)
            Euclidean distances from the subspace.
        """
        return self._distances(self._checked(X, "distances"))

    def _checked(self, X: Any, method: str) -> Any:
        check_is_fitted(self, "components_")
        check_same_kind(X, self.components_, f"{type(self).__name__}.{method}")
        return validated(self, X, reset=False)

    def _distances(self, X: Any) -> tuple[Array, Array]:
        T, orthogonal = scores_and_distances(shifted(X, self._origin), self.components_.T)
        xp = namespace(T)
        variance = self.explained_variance_
        some = variance > 1e-12 * xp.max(variance)
        deviation = xp.sqrt(xp.where(some, variance, xp.ones_like(variance)))
        scaled = xp.where(some[None, :], T / deviation[None, :], xp.zeros_like(T))
        with np.errstate(over="ignore"):
            return xp.sqrt(xp.sum(scaled * scaled, axis=1)), orthogonal

    def score_samples(self, X: Any) -> Array:
        """Minus the distance that flags rows, so that higher is more normal.

        Minus the orthogonal distance; minus the score distance where the subspace is all there is.

        Parameters
        ----------
        X : array, sparse matrix, data frame or memory map of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,)
        """
        return self._normality(self._checked(X, "score_samples"))

    def _normality(self, X: Any) -> Array:
        score, orthogonal = self._distances(X)
        return -(orthogonal if self.flags_by_ == "orthogonal" else score)

    def decision_function(self, X: Any) -> Array:
        """``score_samples(X) - offset_``: negative for outliers.

        Parameters
        ----------
        X : array, sparse matrix, data frame or memory map of shape (n_samples, n_features)

        Returns
        -------
        decision : array of shape (n_samples,)
        """
        return self._normality(self._checked(X, "decision_function")) - self.offset_

    def predict(self, X: Any) -> Array:
        """+1 for good rows, -1 for outliers.

        Parameters
        ----------
        X : array, sparse matrix, data frame or memory map of shape (n_samples, n_features)

        Returns
        -------
        labels : integer array of shape (n_samples,)
        """
        scores = self._normality(self._checked(X, "predict"))
        xp = namespace(scores)
        return 1 - 2 * xp.astype(scores < self.offset_, xp.int64)

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
        rows = dense(self._checked(X, "contributions")) - self.mean_
        V = self.components_.T
        rest = rows - (rows @ V) @ V.T
        return rest * namespace(rest).abs(rest)

    def _set_offset(self, contamination: Any, limit: float, scores: Array) -> None:
        """``offset_`` from the cut-off, or from the share of rows to flag."""
        if contamination == "auto":
            self.offset_ = -limit
        else:
            self.offset_ = float(np.percentile(to_numpy(scores), 100.0 * contamination))
