"""Kernels of estimators: their parameters, K as an operator, and the features that stand for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..kernels.features import choose_landmarks, median_gamma, nystroem, random_fourier, scale_gamma
from ..kernels.pairwise import far_origin, pairwise
from ..linalg import to_numpy
from ..operators import Kernel, Operator, Selected, as_operator, is_streamed
from ..operators.block_ops import as_float, block_rows
from ..operators.centering import shifted
from ..operators.row_blocks import RowBlocked
from ._base import check_energy, checked_weights, validated
from ._fit_context import FitContext

KERNELS = {
    "linear",
    "poly",
    "polynomial",
    "rbf",
    "laplacian",
    "sigmoid",
    "cosine",
    "chi2",
    "additive_chi2",
    "precomputed",
}

#: Up to this many bytes K is held in memory; beyond it, its blocks are computed in each pass.
KERNEL_BYTES = 2 * 2**30

#: Kernels between new and training rows are computed in blocks of about this many bytes.
CHUNK_BYTES = 2**25

#: How landmarks may be chosen.
LANDMARKS = ("uniform", "kmeans++", "leverage")

KERNEL_CONSTRAINTS: dict[str, Any] = {
    "kernel": [StrOptions(KERNELS), callable],
    "gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"median", "scale"}), None],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "kernel_params": [dict, None],
    "approximation": [StrOptions({"nystroem", "rff", "orf"}), None],
    "n_landmarks": [Interval(Integral, 1, None, closed="left")],
    "landmarks": [StrOptions(set(LANDMARKS)), "array-like"],
    "n_random_features": [Interval(Integral, 1, None, closed="left")],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}


class KernelMixin(FitContext):
    """What the kernel parameters of an estimator mean."""

    kernel: Any
    gamma: Any
    degree: float
    coef0: float
    kernel_params: dict[str, Any] | None
    approximation: str | None
    n_landmarks: int
    landmarks: Any
    n_random_features: int
    n_jobs: int | None
    center: Any
    gamma_: float
    #: what is subtracted from rows far from 0, as in :func:`far_origin`
    _origin: np.ndarray | None

    def _kernel_rows(self, X: Any, *, reset: bool, rows: int = 1) -> Any:
        """X checked; for a precomputed kernel a square matrix at ``fit``."""
        precomputed = self.kernel == "precomputed"
        mapped = isinstance(X, np.ndarray)  # memory maps are sliced by rows as arrays are
        streamed = isinstance(X, RowBlocked) or (is_streamed(X) and not mapped)
        if streamed and self.approximation is None:
            raise ValueError(
                f"{type(self).__name__} with approximation=None takes kernels between all pairs of rows "
                "and needs X in memory; use approximation='nystroem', which any kernel has, or 'rff'"
            )
        options: dict[str, Any] = {"sparse": not precomputed, "rows": rows, "only_numpy": True}
        with np.errstate(over="ignore", invalid="ignore"):  # sums of the largest numbers
            X = validated(self, X, reset=reset, streamed=self.approximation is not None, **options)
        if precomputed and reset and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' expects a square kernel matrix, got shape {X.shape}"
            )
        if precomputed and reset:
            _check_symmetric(X)
        if precomputed and self.approximation is not None:
            raise ValueError(
                f"approximation={self.approximation!r} computes kernels with some rows only; give the "
                "rows and kernel='rbf' or a function instead of kernel='precomputed'"
            )
        return X

    def _counted(self, X: Any, sample_weight: Any) -> tuple[Any, Any, np.ndarray | None]:
        """The rows of positive weight; the weights of all; and which rows count, None where all do."""
        operator = as_operator(X)
        assert isinstance(operator, RowBlocked)
        weights = checked_weights(sample_weight, operator)
        present = None if weights is None else to_numpy(weights > 0)
        if present is None or present.all():
            return X, weights, None
        return Selected(operator, present), weights, present

    def _kernel(self, X: Any, Y: Any) -> np.ndarray:
        """``k(X, Y)`` of rows, about their origin."""
        return self._kernel_about_origin()(X, Y)

    def _kernel_about_origin(self) -> Callable[..., np.ndarray]:
        """The same function without the estimator, whose fitted rows stay where they are."""
        origin = getattr(self, "_origin", None)
        return partial(self._kernel_function(), **({} if origin is None else {"origin": origin}))

    def _kernel_function(self) -> Callable[..., np.ndarray]:
        """``k(X, Y)``, which holds the parameters and nothing that was fitted."""
        if callable(self.kernel):
            params = self.kernel_params or {}
        else:
            params = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        return partial(pairwise, metric=self.kernel, n_jobs=self.n_jobs, **params)

    def score_map(self) -> tuple[np.ndarray | None, np.ndarray, np.ndarray | None]:
        """Return the constants of an exact ``transform``: ``k(X, X_fit_) weights - offset``.

        The kernel is taken of rows less the origin. Approximations have ``features_`` and ``pca_``.

        Returns
        -------
        origin : float64 array of shape (n_features,), or None
        weights : float64 array of shape (n_training, n_components)
        offset : float64 array of shape (n_components,), or None without centring
        """
        check_is_fitted(self, "X_fit_")
        model: Any = self
        origin = getattr(model, "_origin", None)  # older model files have none
        if hasattr(model, "_offset"):  # robust axes hold their own centre
            return origin, model.dual_coef_.astype(float), model._offset
        weights = model._coefficients.astype(float)
        if not model.center:
            return origin, weights, None
        total = weights.sum(axis=0)
        offset = model._row_mean @ weights - model._all_mean * total
        return origin, weights - model._share[:, None] * total, offset

    def _look_at(self, X: Any, rng: np.random.Generator) -> None:
        """What the kernel needs to know of the rows: where they lie, and ``gamma_``."""
        kernel = self.kernel if isinstance(self.kernel, str) else "a function"
        # Centring takes away what a shift changes in the linear kernel; in that of differences nothing.
        still = kernel == "rbf" or (kernel == "linear" and bool(self.center))
        self._origin = far_origin(X) if still else None
        if kernel in ("linear", "poly", "polynomial", "sigmoid"):
            with np.errstate(over="ignore"):
                rows = self._linear_operator(X)
                energy = rows.energy()
            check_energy(energy, rows)
        self._set_gamma(X, rng)

    def _linear_operator(self, X: Any) -> Operator:
        operator = as_operator(X)
        assert isinstance(operator, RowBlocked)
        return operator if self._origin is None else shifted(operator, self._origin)

    def _set_gamma(self, X: Any, rng: np.random.Generator) -> None:
        if self.gamma is None:
            self.gamma_ = 1 / X.shape[1]
        elif isinstance(self.gamma, str):
            self.gamma_ = median_gamma(X, rng) if self.gamma == "median" else scale_gamma(X)
        else:
            self.gamma_ = self.gamma

    def _kernel_operator(self, X: Any) -> Kernel:
        if self.kernel == "precomputed":
            return Kernel.from_matrix(X)
        if self.kernel == "linear":
            return Kernel.linear(self._linear_operator(X))
        if X.shape[0] ** 2 * X.dtype.itemsize <= KERNEL_BYTES:
            return Kernel.from_matrix(self._kernel(X, X))
        return Kernel.from_function(self._kernel, X)

    def _diagonal(self, X: Any) -> np.ndarray:
        """``k(x, x)`` for each row."""
        kernel = self._kernel_about_origin()
        one = isinstance(self.kernel, str) and self.kernel in ("rbf", "laplacian")

        def diagonal(rows: slice, X: Any) -> np.ndarray:
            if one:
                return np.ones(X.shape[0], dtype=X.dtype)
            chunks = (X[i : i + 64] for i in range(0, X.shape[0], 64))
            return np.concatenate([np.diagonal(kernel(some, some)) for some in chunks])

        return X.map_rows(diagonal) if isinstance(X, RowBlocked) else diagonal(slice(None), X)

    def _in_chunks(self, X: Any, columns: int) -> list[slice]:
        """Slices of X whose kernels with ``columns`` rows take about CHUNK_BYTES."""
        step = max(1, CHUNK_BYTES // (8 * max(columns, 1)))
        return [slice(i, min(i + step, X.shape[0])) for i in range(0, X.shape[0], step)]

    def _feature_map(self, X: Any, rng: np.random.Generator) -> Any:
        """phi with ``phi(x)^T phi(y)`` near ``k(x, y)``."""
        if self.approximation == "nystroem":
            rows = self._landmark_rows(X, rng)
            some = np.arange(rows.shape[0])
            return nystroem(rows, self._kernel_function(), some, self._origin)
        if self.kernel != "rbf":
            raise ValueError(
                f"approximation={self.approximation!r} is for kernel='rbf', not {self.kernel!r}; use "
                "approximation='nystroem', which takes any kernel"
            )
        orthogonal = self.approximation == "orf"
        phi = random_fourier(
            X.shape[1], self.n_random_features, self.gamma_, rng, orthogonal=orthogonal
        )
        return replace(phi, origin=self._origin)

    def _landmark_rows(self, X: Any, rng: np.random.Generator) -> Any:
        if not isinstance(self.landmarks, str):
            dtype = X.dtype if isinstance(X, RowBlocked) else as_float(X[:0]).dtype
            given = np.asarray(self.landmarks, dtype=dtype)
            if given.ndim != 2 or given.shape[1] != X.shape[1] or not np.isfinite(given).all():
                raise ValueError(
                    f"landmarks has shape {given.shape}; give finite rows with {X.shape[1]} features, or "
                    f"one of {', '.join(map(repr, LANDMARKS))}"
                )
            return given
        chosen = choose_landmarks(X, self.n_landmarks, self.landmarks, rng, kernel=self._kernel)
        return X.take(chosen) if isinstance(X, RowBlocked) else X[chosen]


def _check_symmetric(K: np.ndarray) -> None:
    """Refuse a kernel matrix that differs from its transpose by more than rounding, by blocks."""
    step = block_rows(K.shape[0], K.itemsize)
    blocks = [slice(i, i + step) for i in range(0, K.shape[0], step)]
    apart = max(float(np.abs(K[r] - K[:, r].T).max()) for r in blocks)
    size = max(float(np.abs(K[r]).max()) for r in blocks)
    if apart > (1e-3 if K.dtype == np.float32 else 1e-6) * size:
        raise ValueError(
            f"kernel='precomputed' expects a symmetric matrix, and X differs from X.T by {apart:.1e}; "
            "give (X + X.T) / 2, or the rows and a kernel"
        )
