"""Kernels of estimators: their parameters, K as an operator, and the features that stand for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions

from ..features import (
    choose_landmarks,
    median_gamma,
    nystroem,
    pairwise,
    random_fourier,
    scale_gamma,
)
from ..operators import Kernel, Operator, as_operator, is_streamed
from ..operators._blocks import as_float
from ..operators.rows import RowBlocked
from ..solvers import Ritz
from ..solvers.solve import outside
from ._data import seed, validated
from ._followed import FollowedMixin
from ._subspace import Subspace, growing_subspace, leading_subspace

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


class KernelMixin(FollowedMixin):
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
    gamma_: float

    def _kernel_rows(self, X: Any, *, reset: bool, rows: int = 1) -> Any:
        """X checked; for a precomputed kernel a square matrix at ``fit``."""
        precomputed = self.kernel == "precomputed"
        streamed = isinstance(X, RowBlocked) or (is_streamed(X) and not isinstance(X, np.memmap))
        if streamed and self.approximation is None:
            raise ValueError(
                f"{type(self).__name__} with approximation=None takes kernels between all pairs of rows "
                "and needs X in memory; use approximation='nystroem', which any kernel has, or 'rff'"
            )
        X = validated(
            self,
            X,
            reset=reset,
            sparse=not precomputed,
            rows=rows,
            only_numpy=True,
            streamed=self.approximation is not None,
        )
        if precomputed and reset and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' expects a square kernel matrix, got shape {X.shape}"
            )
        if precomputed and self.approximation is not None:
            raise ValueError(
                f"approximation={self.approximation!r} computes kernels with some rows only; give the "
                "rows and kernel='rbf' or a function instead of kernel='precomputed'"
            )
        return X

    def _kernel(self, X: Any, Y: Any) -> np.ndarray:
        return self._kernel_function()(X, Y)

    def _kernel_function(self) -> Callable[[Any, Any], np.ndarray]:
        """``k(X, Y)``, which holds the parameters and nothing that was fitted."""
        if callable(self.kernel):
            params = self.kernel_params or {}
            return partial(pairwise_kernels, metric=self.kernel, n_jobs=self.n_jobs, **params)
        params = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        return partial(pairwise, metric=self.kernel, n_jobs=self.n_jobs, **params)

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
            return Kernel.linear(as_operator(X))
        if X.shape[0] ** 2 * X.dtype.itemsize <= KERNEL_BYTES:
            return Kernel.from_matrix(self._kernel(X, X))
        return Kernel.from_function(self._kernel, X)

    def _diagonal(self, X: Any) -> np.ndarray:
        """``k(x, x)`` for each row."""
        kernel = self._kernel_function()
        one = isinstance(self.kernel, str) and self.kernel in ("rbf", "laplacian")

        def diagonal(rows: slice, X: Any) -> np.ndarray:
            if one:
                return np.ones(X.shape[0], dtype=X.dtype)
            chunks = (X[i : i + 64] for i in range(0, X.shape[0], 64))
            return np.concatenate([np.diagonal(kernel(some, some)) for some in chunks])

        return X._stack(diagonal) if isinstance(X, RowBlocked) else diagonal(slice(None), X)

    def _in_chunks(self, X: Any, columns: int) -> list[slice]:
        """Slices of X whose kernels with ``columns`` rows take about CHUNK_BYTES."""
        step = max(1, CHUNK_BYTES // (8 * max(columns, 1)))
        return [slice(i, min(i + step, X.shape[0])) for i in range(0, X.shape[0], step)]

    def _feature_map(self, X: Any, rng: np.random.Generator) -> Any:
        """phi with ``phi(x)^T phi(y)`` near ``k(x, y)``."""
        if self.approximation == "nystroem":
            rows = self._landmark_rows(X, rng)
            return nystroem(rows, self._kernel_function(), np.arange(rows.shape[0]))
        if self.kernel != "rbf":
            raise ValueError(
                f"approximation={self.approximation!r} is for kernel='rbf', not {self.kernel!r}; use "
                "approximation='nystroem', which takes any kernel"
            )
        return random_fourier(
            X.shape[1],
            self.n_random_features,
            self.gamma_,
            rng,
            orthogonal=self.approximation == "orf",
        )

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


def kernel_eigenpairs(model: Any, rows: Operator, K: Operator, total: float) -> Subspace:
    """Ritz pairs of ``K = X X^T`` on an orthonormal H, explicit whatever the formulation."""
    N, n = rows.shape[0], model.n_components
    fraction = n is not None and not isinstance(n, Integral)
    s = min(int(n), N) if isinstance(n, Integral) else N
    # Centring is exact to this; rows that differ by less are one row.
    if total <= 100 * float(np.finfo(rows.dtype).eps) * K.energy():
        zeros = np.zeros(1 if fraction else s, dtype=rows.dtype)
        H = np.eye(N, len(zeros), dtype=rows.dtype)
        return Subspace(Ritz(H, zeros, zeros), 0.0, "none", 0)
    options = {
        "rows": rows,
        "dense": False,
        "energy": total,
        "solver": model.solver,
        "formulation": model.formulation,
        "tol": model.tol,
        "max_iter": model.max_iter,
        "seed": seed(model.random_state),
    }
    if fraction:
        found = growing_subspace(rows.T, float(n) * total, **options)
    else:
        found = leading_subspace(rows.T, s, **options)
    # An eigendecomposition can miss by more than rounding only where eigenvalues are negative.
    limit = 5e-3 if "float32" in str(rows.dtype) else 1e-5
    if found.solver.startswith(("lapack", "gram")) and found.ritz.residual > limit:
        warnings.warn(
            f"kernel={model.kernel!r} is not symmetric positive semidefinite on this data, and "
            "components with negative eigenvalues come out as zero; use other parameters, or "
            "ask for fewer n_components",
            stacklevel=outside(),
        )
    return found
