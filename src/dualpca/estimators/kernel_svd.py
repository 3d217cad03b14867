"""The singular value decomposition of an asymmetric kernel as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_array, check_is_fitted

from ..kernels import pairwise
from ..kernels.asymmetric import both_centered, cross_kernel, exponential, singular_triplets
from ..linalg import Array
from ..operators import Matrix, Operator
from ..operators.block_ops import as_float, dense
from ..preprocessing.columns import is_finite
from ..progress import convergence
from ._base import COUNT, seed, validated
from ._fit_context import FitContext, reports_progress
from ._kernels import CHUNK_BYTES, KERNEL_BYTES, KERNEL_CONSTRAINTS

#: The parameters of kernels that this estimator has too.
SHARED = ("gamma", "degree", "coef0", "kernel_params", "n_jobs", "tol", "max_iter", "random_state")


@dataclass(eq=False, repr=False)
class KernelSVD(FitContext, BaseEstimator):
    """Singular vectors of a kernel between two sets of rows: left and right scores.

    ``K_ij = k(x_i, z_j)`` of left rows X and right rows Z need not be symmetric, nor square. Its
    singular vectors satisfy Lanczos' shifted eigenvalue problem

        K A = B Diag(sigma), K^T B = A Diag(sigma), A^T A = B^T B = I,

    which Suykens (2016, "SVD revisited") derives as kernel PCA of two data sources, and by which Chen
    et al. (2023, "Primal-Attention") describe self-attention, ``k(x, z) = exp(<x W_q, z W_k>)``. In the
    terms of this package A solves ``minimize -||K A||_S1 over ||A||_S_inf <= 1``, a DC problem whose
    Toland dual is the same problem of K^T, and B is the dual variable: the left vectors are the dual of
    the right ones.

    Parameters
    ----------
    n_components : int or None
        Up to min(n_left, n_right), which is what None takes.
    kernel : str or callable
        "exp", which is ``exp(gamma <x, z>)``; a name of
        :func:`sklearn.metrics.pairwise.pairwise_kernels`; a function of a left and a right row, whose
        keyword arguments are ``kernel_params``; or "precomputed": X is K itself.
    gamma : float, "median", "scale" or None
        As in :class:`dualpca.KernelPCA`, of the left rows. None is 1 over the number of columns that
        the kernel sees, and for "exp" 1 over its square root, as in attention.
    degree, coef0, kernel_params, n_jobs
        As in :class:`dualpca.KernelPCA`.
    left_map, right_map : array of shape (n_features, n_mapped) or None
        The kernel is taken of ``X left_map`` and ``Z right_map``, as attention does with W_q and W_k.
    center : bool
        Whether to centre both feature maps: ``K`` less the means of its columns, and of its rows.
    solver : {"auto", "lapack", "gram", "krylov"}
    tol : float
        A bound on ``||K^T B - A Diag(sigma)|| / ||sigma||``; ``K A = B Diag(sigma)`` to rounding.
    max_iter, random_state, verbose
        As in :class:`dualpca.PCA`.

    Attributes
    ----------
    singular_values_ : array of shape (n_components,)
    left_vectors_ : array of shape (n_left, n_components)
        B; in each column the entry of largest magnitude is positive.
    right_vectors_ : array of shape (n_right, n_components)
        A.
    energy_ratio_ : array of shape (n_components,)
        ``sigma^2`` over ``||K||_F^2``: the share of the squares of K.
    left_rows_, right_rows_ : arrays
        The left and the right rows, mapped; None if precomputed.
    gamma_ : float
    residual_, variance_shortfall_, n_components_, n_samples_, n_features_in_, n_iter_, n_passes_, solver_
        As in :class:`dualpca.PCA`, with K in place of X.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import KernelSVD
    >>> rng = np.random.default_rng(0)
    >>> X, W_q, W_k = rng.normal(size=(60, 8)), rng.normal(size=(8, 4)), rng.normal(size=(8, 4))
    >>> attention = KernelSVD(5, kernel="exp", left_map=W_q, right_map=W_k, gamma=0.1, center=False)
    >>> left = attention.fit_transform(X)
    >>> K = np.exp(0.1 * X @ W_q @ W_k.T @ X.T)
    >>> near = left @ attention.transform_right(X).T
    >>> bool(np.isclose(np.sum((K - near) ** 2), np.sum(np.linalg.svd(K)[1][5:] ** 2)))
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **{name: KERNEL_CONSTRAINTS[name] for name in (*SHARED, "verbose")},
        "n_components": [COUNT, None],
        "kernel": [StrOptions({"exp", *pairwise.KERNELS}), callable],
        "left_map": ["array-like", None],
        "right_map": ["array-like", None],
        "center": ["boolean"],
        "solver": [StrOptions({"auto", "lapack", "gram", "krylov"})],
    }

    n_components: int | None = None
    _: KW_ONLY
    kernel: Any = "linear"
    gamma: Any = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    left_map: Any = None
    right_map: Any = None
    center: bool = True
    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 1000
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    @reports_progress
    def fit(self, X: Any, y: Any = None, *, Z: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_left, n_features)
            The left rows, or K itself, of shape (n_left, n_right), if precomputed.
        y : ignored
        Z : array or sparse matrix of shape (n_right, n_features), optional
            The right rows; those of X where it is not given.

        Returns
        -------
        self
        """
        self._fit(X, Z)
        return self

    @reports_progress
    def fit_transform(self, X: Any, y: Any = None, *, Z: Any = None) -> Array:
        """Fit the model and return the left scores of X.

        Parameters
        ----------
        X, y, Z
            As in :meth:`fit`.

        Returns
        -------
        scores : array of shape (n_left, n_components)
        """
        self._fit(X, Z)
        return self.left_vectors_ * np.sqrt(self.singular_values_)

    def _fit(self, X: Any, Z: Any) -> None:
        X = self._left_rows(X, reset=True)
        rng = np.random.default_rng(seed(self.random_state))
        if self.kernel == "precomputed":
            if Z is not None or self.left_map is not None or self.right_map is not None:
                raise ValueError(
                    "kernel='precomputed' takes K as X, and no Z, left_map or right_map; give the rows "
                    "and a kernel instead, or leave these out"
                )
            self.left_rows_ = self.right_rows_ = None
            K: Operator = Matrix(X)
        else:
            Z = X if Z is None else self._right_rows(Z)
            left, right = self._mapped(X, "left_map"), self._mapped(Z, "right_map")
            if left.shape[1] != right.shape[1]:
                raise ValueError(
                    f"the kernel is given left rows with {left.shape[1]} columns and right rows with "
                    f"{right.shape[1]}; give a left_map and a right_map with as many columns each"
                )
            self.gamma_ = self._bandwidth(left, rng)
            self.left_rows_, self.right_rows_ = left.copy(), right.copy()
            K = cross_kernel(self._kernel_function(), left, right, KERNEL_BYTES)
        N, M = K.shape
        s = min(N, M) if self.n_components is None else self.n_components
        if s > min(N, M):
            raise ValueError(
                f"n_components={s} must be between 1 and min(n_left, n_right)={min(N, M)}; ask for fewer"
            )
        centred = both_centered(K) if self.center else K
        options: dict[str, Any] = {
            "tol": self.tol,
            "max_iter": self.max_iter,
            "solver": self.solver,
        }
        found = singular_triplets(centred, s, seed=int(rng.integers(2**31)), **options)
        self.singular_values_, self.residual_ = found.sigma, found.residual
        self.left_vectors_, self.right_vectors_ = found.left, found.right
        self.energy_ratio_ = found.sigma**2 / (centred.energy() or 1.0)
        self.n_components_, self.n_samples_ = s, N
        self._set_scores(K)
        result = found.result
        self.variance_shortfall_, self.solver_ = result.shortfall(), result.note
        self.n_iter_, self.n_passes_ = max(result.steps, 1), centred.passes
        self.convergence_ = convergence(self.n_passes_, self.residual_)

    def _set_scores(self, K: Operator) -> None:
        """Set what scores of new rows need: ``k(x, Z) right - offset``, and the same of z."""
        sigma = self.singular_values_
        positive = sigma > 1e-12 * sigma[:1]
        scale = np.where(positive, 1 / np.sqrt(np.where(positive, sigma, 1)), 0).astype(K.dtype)
        # Singular vectors of a centred K are centred, but for rounding and where sigma is 0.
        self._right, self._left = self.right_vectors_ * scale, self.left_vectors_ * scale
        self._left_offset = self._right_offset = np.zeros(len(sigma), dtype=K.dtype)
        if self.center:
            self._right = self._right - self._right.mean(axis=0)
            self._left = self._left - self._left.mean(axis=0)
            self._left_offset = K.matmul(self._right).mean(axis=0)
            self._right_offset = K.rmatmul(self._left).mean(axis=0)

    def _left_rows(self, X: Any, *, reset: bool) -> Any:
        sparse = self.kernel != "precomputed"
        return validated(self, X, reset=reset, sparse=sparse, only_numpy=True, streamed=False)

    def _right_rows(self, Z: Any) -> Any:
        Z = check_array(
            Z, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], input_name="Z"
        )
        return Z

    def _mapped(self, X: Any, side: str) -> Any:
        """Return the rows that the kernel sees on one side."""
        given = getattr(self, side)
        if given is None:
            return pairwise.row_array(X)
        W = as_float(np.asarray(given))
        if W.ndim != 2 or W.shape[0] != X.shape[1] or not is_finite(W):
            raise ValueError(
                f"{side} has shape {W.shape} where the rows have {X.shape[1]} columns; give a finite "
                f"matrix of shape ({X.shape[1]}, n_mapped)"
            )
        return dense(X @ W.astype(X.dtype, copy=False))

    def _bandwidth(self, X: Any, rng: np.random.Generator) -> float:
        if self.kernel == "exp" and self.gamma is None:
            return float(1 / np.sqrt(X.shape[1]))
        return pairwise.bandwidth(self.gamma, X, rng)

    def _kernel_function(self) -> Any:
        if self.kernel == "exp":
            return partial(exponential, gamma=self.gamma_)
        if callable(self.kernel):
            params = dict(self.kernel_params or {})
        else:
            params = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        return partial(pairwise.pairwise, metric=self.kernel, n_jobs=self.n_jobs, **params)

    def transform(self, X: Any) -> Array:
        """Return the left scores of new rows: ``k(x, Z) A Diag(sigma)^{-1/2}``, centred as the fit was.

        Left and right scores are in the same units: the product of those of training rows is the best
        approximation of K by a matrix of rank n_components.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            If precomputed, the kernels of new left rows with the right rows, (n_samples, n_right).

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        check_is_fitted(self, "singular_values_")
        X = self._left_rows(X, reset=False)
        if self.kernel == "precomputed":
            return X @ self._right - self._left_offset
        parts = self._blocks(self._mapped(X, "left_map"), self.right_rows_)
        kernel = self._kernel_function()
        scores = [kernel(rows, self.right_rows_) @ self._right for rows in parts]
        return np.concatenate(scores) - self._left_offset

    def transform_right(self, Z: Any) -> Array:
        """Return the right scores of new rows: ``k(X, z)^T B Diag(sigma)^{-1/2}``, centred.

        Parameters
        ----------
        Z : array or sparse matrix of shape (n_samples, n_features)
            If precomputed, the kernels of the left rows with new right rows, transposed: of shape
            (n_samples, n_left).

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        check_is_fitted(self, "singular_values_")
        Z = self._right_rows(Z)
        if self.kernel == "precomputed":
            if Z.shape[1] != self.n_samples_:
                raise ValueError(
                    f"Z has {Z.shape[1]} columns; give the kernels with the {self.n_samples_} left rows "
                    "as a row for each new right row"
                )
            return Z @ self._left - self._right_offset
        parts = self._blocks(self._mapped(Z, "right_map"), self.left_rows_)
        kernel = self._kernel_function()
        scores = [kernel(self.left_rows_, rows).T @ self._left for rows in parts]
        return np.concatenate(scores) - self._right_offset

    @staticmethod
    def _blocks(rows: Any, others: Any) -> Iterator[Any]:
        """Yield parts of rows whose kernels with the others take about CHUNK_BYTES."""
        if rows.shape[1] != others.shape[1]:
            raise ValueError(
                f"the rows have {rows.shape[1]} columns for a kernel with rows of {others.shape[1]}"
            )
        step = max(1, CHUNK_BYTES // (8 * max(others.shape[0], 1)))
        yield from (rows[part] for part in pairwise.row_slices(rows.shape[0], step))

    def summary(self) -> Any:
        """Refuse: a kernel between two sets of rows has no variances."""
        raise TypeError(
            "KernelSVD has singular values and no variances, so that there is no summary of them; see "
            "singular_values_ and energy_ratio_"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags
