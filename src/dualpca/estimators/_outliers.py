"""Outlier scores of rows: what a robust subspace says of training and new data."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array, namespace, to_numpy
from ..operators._blocks import dense
from ._data import check_same_kind, shifted, validated
from ._distances import scores_and_distances


def score_distances(T: Array, variances: Array) -> Array:
    """Mahalanobis distances from 0 of scores; directions without variance are left out."""
    xp = namespace(T)
    some = variances > 1e-12 * xp.max(variances)
    deviation = xp.sqrt(xp.where(some, variances, xp.ones_like(variances)))
    scaled = xp.where(some[None, :], T / deviation[None, :], xp.zeros_like(T))
    with np.errstate(over="ignore"):
        return xp.sqrt(xp.sum(scaled * scaled, axis=1))


class OutlierScoresMixin(OutlierMixin):
    """Scores and flags from the two distances of rows, the limit ``offset_`` and ``flags_by_``."""

    offset_: float
    flags_by_: str

    @abstractmethod
    def _checked(self, X: Any, method: str) -> Any:
        """X as the method may use it."""

    @abstractmethod
    def _distances(self, X: Any) -> tuple[Array, Array]:
        """Score and orthogonal distances."""

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
        return self._normality_of(*self._distances(X))

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

    def _set_offset(self, contamination: Any, limit: float, scores: Array) -> None:
        """``offset_`` from the cut-off, or from the share of rows to flag."""
        if contamination == "auto":
            self.offset_ = -limit
        else:
            offset = float(np.percentile(to_numpy(scores), 100.0 * contamination))
            # Where that is the score of a row, rounding must not decide on its flag.
            self.offset_ = offset - float(np.sqrt(np.finfo(to_numpy(scores).dtype).eps)) * abs(
                offset
            )

    def _normality_of(self, score: Array, orthogonal: Array) -> Array:
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
        rows = dense(self._checked(X, "contributions")) - self.mean_
        V = self.components_.T
        rest = rows - (rows @ V) @ V.T
        return rest * namespace(rest).abs(rest)
