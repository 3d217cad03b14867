"""What estimators share: fit and transform, scores from a mean and axes, and their Gaussian model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array, asarray_like, namespace, to_numpy, total
from ..linear.likelihood import covariance, precision
from ..linear.rotation import rotated
from ..operators import as_operator
from ..operators.block_ops import dense
from ..robust.distances import score_distances, scores_and_distances
from ..robust.reasons import blame
from ..solvers.solve import user_stacklevel
from ._base import as_given, check_same_kind, check_scores, shifted, validated
from ._fit_context import FitContext, reports_progress
from ._missing import HolesMixin

#: A column with more of the variance than this has a spread of ten times all others together.
DOMINANT = 0.99


def row_share(scores: Array, norms: Array) -> float:
    """Return the share of the squares of rows with these norms that their scores hold."""
    whole = total(norms * norms)
    return total(scores * scores) / whole if whole > 0 else 1.0


class WeightedMixin(FitContext):
    """Estimators that ``_fit`` weighted rows, and whose ``_scores`` are those of ``_checked`` rows."""

    #: sets the fitted attributes from X and the weights, and returns the validated X
    _fit: Callable[[Any, Any], Any]
    #: returns new rows validated, by the name of the method that they are for
    _checked: Callable[..., Any]
    _scores: Callable[[Any], Array]

    @reports_progress
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
            For ``kernel="precomputed"`` the kernel matrix of shape (n_samples, n_samples).
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How often each row counts: a weight of 2 is the row twice, 0 leaves it out.

        Returns
        -------
        self
        """
        self._fit(X, sample_weight)
        self._warn_of_units()
        return self

    @reports_progress
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit the model and return the scores of X.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        X = self._fit(X, sample_weight)
        self._warn_of_units()
        return self._training_scores(X, sample_weight)

    def _warn_of_units(self) -> None:
        """Warn where one column is nearly all of the variance; kernels have no columns."""

    def _training_scores(self, X: Any, sample_weight: Any) -> Array:
        return self._scores(X)

    def transform(self, X: Any) -> Array:
        """Return the scores of new rows.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
            For a precomputed kernel the kernels of new rows with the training rows, of shape
            (n_samples, n_training). Kernels of files and dask arrays need an approximation.

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        return self._scores(self._checked(X, "transform"))


class AxesMixin(FitContext):
    """Estimators whose ``components_`` are axes of the rows: there is a way back from scores."""

    components_: Array

    def _check_kind(self, X: Any, method: str) -> None:
        """Refuse X before a fit, and X of another kind than the rows of the fit."""
        check_is_fitted(self, "components_")
        check_same_kind(X, self.components_, f"{type(self).__name__}.{method}")

    def inverse_transform(self, X: Any) -> Array:
        """Return rows from scores: the nearest points of the principal subspace, in the data's units.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)

        Returns
        -------
        rows : array of shape (n_samples, n_features)
        """
        self._check_kind(X, "inverse_transform")
        return self._rows(check_scores(X, self.n_components_))

    def _rows(self, scores: Any) -> Array:
        return scores @ self.components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


class ScoresMixin(WeightedMixin, AxesMixin):
    """Transform by ``components_``, ``mean_`` and ``explained_variance_``."""

    center: Any
    whiten = False
    explained_variance_: Array
    explained_variance_ratio_: Array
    mean_: Array
    n_features_in_: int
    n_samples_: int

    def _checked(self, X: Any, method: str, *, sparse: bool = True) -> Any:
        self._check_kind(X, method)
        return validated(self, X, reset=False, sparse=sparse)

    def _scores(self, X: Any) -> Array:
        operator = shifted(X, self._origin) if self._is_centered else as_operator(X)
        return operator @ self._score_weights(self.components_, self._scale())

    def _score_weights(self, components: Array, scale: Array) -> Array:
        if hasattr(self, "rotation_"):  # rotated components are not orthogonal
            return namespace(components).linalg.pinv(components) / scale.T
        return (components / scale).T

    @property
    def _principal(self) -> tuple[Array, Array]:
        """The principal axes and their variances, whatever ``rotation`` made of them."""
        return vars(self).get("_unrotated") or (self.components_, self.explained_variance_)

    def _warn_of_units(self) -> None:
        if self.n_features_in_ < 2 or not self._is_centered:
            return
        axes, variances = self._principal
        known = variances[:1], self.explained_variance_[:1], self.explained_variance_ratio_[:1]
        sent = to_numpy(namespace(axes).concat([axes[0, :], *known])).astype(float)  # at once
        largest, (variance, explained, ratio) = np.abs(sent[:-3]), sent[-3:]
        j = int(largest.argmax())
        share = ratio * largest[j] ** 2 * (variance / (explained or 1.0))
        if share > DOMINANT:
            names = getattr(self, "feature_names_in_", None)
            name = j if names is None else repr(str(names[j]))
            warnings.warn(
                f"column {name} holds {share:.1%} of the variance, so that the first component is nearly "
                "that column alone; if columns have different units, scale them first, as with "
                "make_pipeline(Preprocessor('robust'), ...)",
                UserWarning,
                stacklevel=user_stacklevel(),
            )

    def score_map(self) -> tuple[np.ndarray | None, np.ndarray, np.ndarray | None]:
        """Return the constants of ``transform``: ``scores = (X - origin) weights``.

        Returns
        -------
        origin : float64 array of shape (n_features,), or None without centring
        weights : float64 array of shape (n_features, n_components)
        offset : None
            Kernel estimators subtract one; linear estimators do not.
        """
        check_is_fitted(self, "components_")
        origin = to_numpy(self._origin).astype(float) if self._is_centered else None
        components = to_numpy(self.components_).astype(float)
        return origin, self._score_weights(components, to_numpy(self._scale())), None

    @property
    def _is_centered(self) -> bool:
        return bool(np.ndim(self.center) or self.center)

    @property
    def _origin(self) -> Array:
        """``mean_`` with all the digits that it was computed to."""
        return self.mean_

    def _scale(self) -> Array:
        """Return the divisor of the axes: standard deviations where whitening, else 1."""
        xp = namespace(self.explained_variance_)
        one = xp.ones_like(self.explained_variance_)
        if not self.whiten:
            return one[:, None]
        # A direction without variance has no scale but the largest: its scores stay 0, not 0/0.
        deviation = xp.sqrt(self.explained_variance_)
        top = float(deviation[0])
        size = max(self.n_samples_, self.n_features_in_)
        # Variances are eigenvalues of a float64 Gram matrix, rounded at eps of the largest.
        rounding = math.sqrt(float(np.finfo(np.float64).eps) * size)
        floor = max(float(xp.finfo(deviation.dtype).eps) * size, rounding) * top
        return xp.where(deviation > floor, deviation, one * (top if top > 0 else 1.0))[:, None]

    def _rows(self, scores: Any) -> Array:
        return scores @ (self.components_ * self._scale()) + self.mean_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class CovarianceMixin(HolesMixin, ScoresMixin):
    """The covariance of components, their variances and noise around them; it completes rows."""

    rotation: str | None

    def _checked(self, X: Any, method: str, *, sparse: bool = True) -> Any:
        if not self._completes:
            return super()._checked(X, method, sparse=sparse)
        self._check_kind(X, method)
        return self._completed(validated(self, X, reset=False, sparse=sparse, finite=False))

    def _rotate(self) -> None:
        """Turn the components by ``rotation``; all but scores goes by the principal axes."""
        for name in ("_unrotated", "rotation_", "cumulative_variance_ratio_"):
            self.__dict__.pop(name, None)
        if self.rotation is None:
            return
        axes, variances = self._unrotated = self.components_, self.explained_variance_
        V, values = to_numpy(axes.T).astype(float), to_numpy(variances).astype(float)
        M, T, length = rotated(V, values, self.rotation)
        # What each component adds to those before it: the correlations of scores are (T^T T)^{-1}.
        added = ((V @ M * length) @ np.linalg.cholesky(np.linalg.inv(T.T @ T))) ** 2
        share = float(total(self.explained_variance_ratio_)) / (values.sum() or 1.0)
        self.rotation_, self.components_ = asarray_like(T, axes), asarray_like((V @ M).T, axes)
        self.explained_variance_ = asarray_like(length**2, variances)
        self.explained_variance_ratio_ = asarray_like(share * length**2, variances)
        cumulative = share * np.cumsum(added.sum(axis=0))
        self.cumulative_variance_ratio_ = asarray_like(cumulative, variances)

    @property
    def _variances(self) -> Array:
        return self._principal[1]

    def _distances(self, X: Any) -> tuple[Array, Array]:
        """Return score and orthogonal distances of validated rows."""
        axes, variances = self._principal
        rows = shifted(X, self._origin) if self._is_centered else as_operator(X)
        T, orthogonal = scores_and_distances(rows, axes.T)
        return score_distances(T, variances), orthogonal

    def _blamed(self, X: Any, method: str, by: str) -> list[Any]:
        """Return contributions to a square and expected values.

        The square is that of the score distance, of the orthogonal one, or by density of both. By
        "spread" it is that of the score distance again, ``||S r||^2 = r^T V Diag(1/variances) V^T r``
        with a symmetric S, split by the entries of ``S r``, and what is expected is the centre.
        """
        operator: Any = as_operator(self._checked(X, method))
        d, origin = operator.shape[1], to_numpy(self._origin).astype(float)
        V, variances = (
            to_numpy(a).astype(float) for a in (self._principal[0].T, self._principal[1])
        )
        varying = variances > 1e-12 * variances.max()
        inside = np.where(varying, 1 / np.where(varying, variances, 1.0), 0.0)
        beside, unit = 0.0, 1.0
        if by == "density":
            beside = 1 / self.noise_variance_
        elif by == "orthogonal":
            inside, beside, unit = np.zeros(len(inside)), 1.0, self.noise_variance_

        def part(rows: slice, block: Any) -> Array:
            cells = dense(block)
            R = to_numpy(cells).astype(float) - origin
            if by == "spread":
                parts, expected = (R @ V * np.sqrt(inside) @ V.T) ** 2, np.zeros_like(R)
            else:
                parts, expected = blame(R, V, inside, beside, unit)
            return asarray_like(np.concatenate([parts, expected + origin], axis=1), cells)

        both = operator.map_rows(part, 2 * d)
        return [as_given(half, X) for half in (both[:, :d], both[:, d:])]

    def get_covariance(self) -> Array:
        """Return the covariance ``V^T Diag(variance - noise) V + noise I`` of probabilistic PCA.

        It has the shape (n_features, n_features), and does not depend on ``whiten``, which scales
        scores only; scikit-learn's does.
        """
        check_is_fitted(self, "components_")
        return covariance(*self._gaussian())

    def get_precision(self) -> Array:
        """Return the inverse of :meth:`get_covariance`, by the inversion lemma where it has noise."""
        check_is_fitted(self, "components_")
        return precision(*self._gaussian())

    def _gaussian(self) -> tuple[Array, Array, float]:
        return *self._principal, self.noise_variance_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self._completes)
        return tags
