"""Kernels of estimators: their parameters, K as an operator, and the features that stand for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..kernels import features, pairwise
from ..kernels.eigen import definite_by_name
from ..linalg import Array, to_numpy
from ..operators import Kernel, Operator, Selected, as_operator, in_memory, is_streamed
from ..operators.centering import shifted
from ..operators.views import check_energy
from ._base import COUNT, ITERATION_CONSTRAINTS, NOT_NEGATIVE, checked_weights, seed, validated
from ._scores import WeightedMixin

#: Up to this many bytes K is held in memory; beyond it, its blocks are computed in each pass.
KERNEL_BYTES = 2 * 2**30

#: Kernels between new and training rows are computed in blocks of about this many bytes.
CHUNK_BYTES = 2**25

#: The attributes that a model of features has of the features, and not of rows and components.
OF_FEATURES = {"components_", "mean_", "noise_variance_", "singular_values_", "n_features_in_"}

KERNEL_CONSTRAINTS: dict[str, Any] = {
    **ITERATION_CONSTRAINTS,
    "kernel": [StrOptions(set(pairwise.KERNELS)), callable],
    "gamma": [NOT_NEGATIVE, StrOptions({"median", "scale"}), None],
    "degree": [NOT_NEGATIVE],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "kernel_params": [dict, None],
    "approximation": [StrOptions({"nystroem", "rff", "orf"}), None],
    "n_landmarks": [COUNT],
    "landmarks": [StrOptions(set(features.LANDMARKS)), "array-like"],
    "n_random_features": [COUNT],
    "n_jobs": [Integral, None],
}


@dataclass(eq=False, repr=False, kw_only=True)
class KernelParameters:
    """The parameters of a kernel and of its approximations; KernelPCA describes them."""

    kernel: Any = "linear"
    gamma: Any = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    approximation: str | None = None
    n_landmarks: int = 500
    landmarks: Any = "uniform"
    n_random_features: int = 1000
    n_jobs: int | None = None


def check_pairs(X: Any, who: str) -> None:
    """Refuse rows that are not at hand for kernels between all pairs; memory maps are, as arrays."""
    if not (isinstance(X, np.ndarray) or in_memory(X)):
        raise ValueError(
            f"{who} takes kernels between all pairs of rows and needs X in memory; use "
            "approximation='nystroem', which any kernel has, or 'rff'"
        )


class KernelMixin(KernelParameters, WeightedMixin):
    """What the kernel parameters of KernelPCA and RobustKernelPCA mean."""

    center: Any
    random_state: Any
    features_: Any
    pca_: Any
    X_fit_: Any
    _offset: np.ndarray
    #: a row near the rows, which kernels subtract from them if they lie far from 0
    _kernel_shift: np.ndarray | None

    def _kernel_rows(self, X: Any, *, reset: bool, rows: int = 1) -> Any:
        """Return X checked: rows, or at ``fit`` with a precomputed kernel a square matrix."""
        precomputed, exact = self.kernel == "precomputed", self.approximation is None
        if exact:
            check_pairs(X, f"{type(self).__name__} with approximation=None")
        if precomputed and not exact:
            raise ValueError(
                f"approximation={self.approximation!r} computes kernels with some rows only; give the "
                "rows and kernel='rbf' or a function instead of kernel='precomputed'"
            )
        options = {"only_numpy": True, "sparse": not precomputed, "streamed": not exact}
        X = validated(self, X, reset=reset, rows=rows, **options)
        if precomputed and reset:
            pairwise.check_kernel_matrix(X)
        return X

    def _prepared(
        self, X: Any, sample_weight: Any
    ) -> tuple[Any, Any, np.ndarray | None, np.random.Generator]:
        """Learn from the rows where they lie, and ``gamma_``.

        Return the rows of positive weight, all weights, which rows count (None if all do), and a
        generator of random numbers.
        """
        weights = present = None
        if sample_weight is not None:
            operator = pairwise.row_operator(X)
            weights = checked_weights(sample_weight, operator)
            present = to_numpy(weights > 0)
            X, present = (X, None) if present.all() else (Selected(operator, present), present)
        rng = np.random.default_rng(seed(self.random_state))
        kernel = self.kernel if isinstance(self.kernel, str) else "a function"
        # The RBF kernel depends on differences only, and so does the linear one after centring.
        shiftable = kernel == "rbf" or (kernel == "linear" and bool(self.center))
        self._kernel_shift = pairwise.origin_near_rows(X) if shiftable else None
        if kernel in ("linear", "poly", "polynomial", "sigmoid"):
            with np.errstate(over="ignore"):
                rows = self._shifted(X)
                energy = rows.energy()
            check_energy(energy, rows)
        self.gamma_ = pairwise.bandwidth(self.gamma, X, rng)
        return X, weights, present, rng

    @property
    def _is_definite(self) -> bool:
        """Whether the kernel has no negative eigenvalue, whatever the rows."""
        return definite_by_name(self.kernel, self.degree, self.coef0, bool(self.center))

    @property
    def _weights(self) -> np.ndarray:
        """The coefficients of the axes in the training rows."""
        model: Any = self
        return model._coefficients if hasattr(model, "_coefficients") else model.axes_coef_

    def score_map(self) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
        """Return the constants of an exact ``transform``: ``k(X, X_fit_) weights - offset``.

        The kernel is that of rows less the origin. Approximations have ``features_`` and ``pca_``.

        Returns
        -------
        origin : float64 array of shape (n_features,), or None
        weights : float64 array of shape (n_training, n_components)
        offset : float64 array of shape (n_components,)
        """
        check_is_fitted(self, "X_fit_")
        return self._kernel_shift, self._weights.astype(float), self._offset

    def _checked(self, X: Any, method: str) -> Any:
        check_is_fitted(self, "explained_variance_")
        return self._kernel_rows(X, reset=False)

    def _scores(self, X: Any) -> Array:
        if self.approximation is not None:
            return self.pca_._scores(self._features(X))
        return np.concatenate([self._scores_of(K) for _, K in self._kernel_blocks(X)])

    def _scores_of(self, K: np.ndarray) -> np.ndarray:
        """Return the scores of rows from their kernels with the training rows."""
        scores = K @ self._weights
        return scores - self._offset.astype(scores.dtype)

    def _kernel_blocks(self, X: Any) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield X in parts, each with its kernels with the training rows, of about CHUNK_BYTES."""
        step = max(1, CHUNK_BYTES // (8 * max(self.X_fit_.shape[0], 1)))
        for part in (X[rows] for rows in pairwise.row_slices(X.shape[0], step)):
            known = self.kernel == "precomputed"
            yield part, part if known else self._kernel_function()(part, self.X_fit_)

    def _keep(self, X: Any) -> None:
        """Keep the training rows: a copy of an array, so that the model does not change with it."""
        self.X_fit_ = X if self.kernel == "precomputed" or is_streamed(X) else X.copy()

    def _features(self, X: Any) -> Any:
        return features.feature_operator(self.features_, X)

    def _take(self, model: Any) -> None:
        """Take over what a model of the features says of rows and components."""
        for name, value in vars(model).items():
            if name.endswith("_") and name not in OF_FEATURES:
                setattr(self, name, value)

    def _shifted(self, X: Any) -> Operator:
        origin = self._kernel_shift
        return as_operator(X) if origin is None else shifted(pairwise.row_operator(X), origin)

    def _kernel_function(self, *, shift: bool = True) -> Callable[..., np.ndarray]:
        """Return ``k(X, Y)``, which holds parameters and not the estimator with its training rows."""
        if callable(self.kernel):
            params = dict(self.kernel_params or {})
        else:
            params = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        if shift and self._kernel_shift is not None:
            params["origin"] = self._kernel_shift
        return partial(pairwise.pairwise, metric=self.kernel, n_jobs=self.n_jobs, **params)

    def _kernel_operator(self, X: Any, *, single: bool = False) -> Kernel:
        """Return K, held in memory where it is small enough; ``single`` is that of ``rbf``."""
        if self.kernel == "precomputed":
            return Kernel.from_matrix(X)
        if self.kernel == "linear":
            return Kernel.linear(self._shifted(X))
        if X.shape[0] ** 2 * X.dtype.itemsize <= KERNEL_BYTES:
            given = {"single": True} if single else {}
            return Kernel.from_matrix(self._kernel_function()(X, X, **given))
        return Kernel.from_function(self._kernel_function(), X)

    def _diagonal(self, X: Any) -> Any:
        """Return ``k(x, x)`` for each row."""
        if isinstance(self.kernel, str) and self.kernel in ("rbf", "laplacian"):
            rows = pairwise.row_operator(X)
            return rows.map_rows(lambda _, A: np.ones(A.shape[0], dtype=A.dtype))
        return pairwise.kernel_diagonal(self._kernel_function(), X)

    def _unspanned(self, X: Any, operator: Any) -> Any:
        """Return ``sqrt(k(x, x) - ||phi(x)||^2)``: the distance of a row from the landmarks' span."""
        norms = operator.row_norms()
        return np.sqrt(np.clip(self._diagonal(X) - norms**2, 0.0, None)).astype(norms.dtype)

    def _check_new_rows(self) -> bool:
        if self.kernel == "precomputed":
            raise ValueError(
                "the distances of new rows need k(x, x), which a precomputed kernel matrix does not "
                "hold; use what the fit tells of training rows, such as outliers_, or give rows and a "
                "kernel function"
            )
        return True

    def _feature_map(self, X: Any, rng: np.random.Generator) -> Any:
        """Return phi with ``phi(x)^T phi(y)`` near ``k(x, y)``."""
        if self.approximation == "nystroem":
            count, kernel = self.n_landmarks, self._kernel_function()
            Z = features.landmark_rows(pairwise.row_operator(X), self.landmarks, count, rng, kernel)
            unshifted = self._kernel_function(shift=False)
            return features.nystroem(Z, unshifted, slice(None), self._kernel_shift)
        if self.kernel != "rbf":
            raise ValueError(
                f"approximation={self.approximation!r} is for kernel='rbf', not {self.kernel!r}; use "
                "approximation='nystroem', which takes any kernel"
            )
        size, orthogonal = self.n_random_features, self.approximation == "orf"
        phi = features.random_fourier(X.shape[1], size, self.gamma_, rng, orthogonal=orthogonal)
        return replace(phi, origin=self._kernel_shift)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
