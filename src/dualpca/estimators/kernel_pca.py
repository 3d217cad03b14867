"""Kernel PCA with scikit-learn's face."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array
from ..operators import Centered, Kernel, Operator, as_operator, centered
from ..solvers import Ritz
from ._data import check_number, check_scores, seed, validated
from ._subspace import ITERATIVE, Subspace, leading_subspace

__all__ = ["KernelPCA"]

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


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Kernel principal component analysis through the dual, which needs only K.

    Parameters
    ----------
    n_components : int or None
        How many components, at most n_samples; None keeps every one with a nonzero eigenvalue.
    kernel : str or callable
        Any kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function
        of two rows.
    gamma, degree, coef0 : float
        Parameters of the kernels that have them; ``gamma=None`` is 1/n_features.
    kernel_params : dict, optional
        Keyword arguments of a callable kernel.
    center : bool
        Centre in feature space.
    solver : str or solver
        "auto", "lapack" (eigendecomposition of K), "krylov", or a solver of DC problems as in
        :class:`dualpca.PCA`.
    formulation : str, callable or None
        The formulation of the paper to solve; its dual needs only K where G is unitarily invariant.
    tol, max_iter, random_state
        As in :class:`dualpca.PCA`; the residual is that of the centred K.
    remove_zero_eig : bool
        Drop components whose eigenvalue is zero also where ``n_components`` is given.
    fit_inverse_transform : bool
        Learn the way back from scores to rows, for :meth:`inverse_transform`.
    alpha : float
        The ridge of that regression.
    n_jobs : int or None
        Threads of the kernel function.

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        Of the centred K, decreasing.
    eigenvectors_ : array of shape (n_samples, n_components)
        Orthonormal; in each the entry of largest magnitude is positive.
    explained_variance_, explained_variance_ratio_ : arrays of shape (n_components,)
        The variance of each score, and its share of the total in feature space.
    X_fit_ : array
        The training data, of which ``transform`` takes kernels (K itself where precomputed).
    gamma_ : float
    residual_, variance_shortfall_, n_iter_, n_passes_, solver_, n_features_in_
        As in :class:`dualpca.PCA`; a pass is a product with K.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualpca import KernelPCA
    >>> X = load_digits().data[:500]
    >>> kpca = KernelPCA(n_components=4, kernel="rbf", gamma=1e-3).fit(X[:400])
    >>> kpca.transform(X[400:]).shape
    (100, 4)
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions(KERNELS), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "center": ["boolean"],
        "solver": [StrOptions({"auto", "lapack", "krylov", *ITERATIVE}), callable],
        "formulation": [str, callable, None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "remove_zero_eig": ["boolean"],
        "fit_inverse_transform": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        center: bool = True,
        solver: Any = "auto",
        formulation: Any = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
        remove_zero_eig: bool = False,
        fit_inverse_transform: bool = False,
        alpha: float = 1.0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.center = center
        self.solver = solver
        self.formulation = formulation
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.remove_zero_eig = remove_zero_eig
        self.fit_inverse_transform = fit_inverse_transform
        self.alpha = alpha
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> KernelPCA:
        """Fit the model.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features), or the kernel matrix
        y : ignored

        Returns
        -------
        self
        """
        self._validate_params()
        check_number(self.n_components)
        X = self._validated(X, reset=True)
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' expects a square kernel matrix, got shape {X.shape}"
            )
        N = X.shape[0]
        s = N if self.n_components is None else min(int(self.n_components), N)
        self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        operator = self._operator(X)
        Xc = centered(operator) if self.center else operator
        total = Xc.energy()
        found = self._eigenpairs(Xc, s, total)
        self.residual_ = found.ritz.residual
        self.variance_shortfall_ = found.shortfall
        self.solver_ = found.solver
        self.n_iter_ = found.iterations
        self._set_eigenpairs(found.ritz, total)
        self.X_fit_ = X if self.kernel == "precomputed" or isinstance(X, np.memmap) else X.copy()
        if isinstance(Xc, Centered):
            image = Xc.center.image[:, 0]
            self._row_mean, self._all_mean = image, float(image.mean())
        if self.fit_inverse_transform:
            self._fit_inverse(X)
        self.n_passes_ = operator.passes
        return self

    def _validated(self, X: Any, *, reset: bool) -> Any:
        sparse = self.kernel != "precomputed"
        return validated(self, X, reset=reset, sparse=sparse, only_numpy=True)

    def _kernel(self, X: Any, Y: Any) -> np.ndarray:
        if callable(self.kernel):
            params = self.kernel_params or {}
        else:
            params = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        return pairwise_kernels(
            X, Y, metric=self.kernel, filter_params=True, n_jobs=self.n_jobs, **params
        )

    def _operator(self, X: Any) -> Operator:
        if self.kernel == "precomputed":
            return Kernel.from_matrix(X)
        if self.kernel == "linear":
            return Kernel.linear(as_operator(X))
        if X.shape[0] ** 2 * X.dtype.itemsize <= KERNEL_BYTES:
            return Kernel.from_matrix(self._kernel(X, X))
        return Kernel.from_function(self._kernel, X)

    def _eigenpairs(self, Xc: Operator, s: int, total: float) -> Subspace:
        """Ritz pairs of ``K = X X^T`` on an orthonormal H, explicit whatever the formulation."""
        # Centring is exact to this; rows that differ by less are one row.
        if total <= 100 * float(np.finfo(Xc.dtype).eps) * getattr(Xc, "X", Xc).energy():
            zeros = np.zeros(s, dtype=Xc.dtype)
            H = np.eye(Xc.shape[0], s, dtype=Xc.dtype)
            return Subspace(Ritz(H, zeros, zeros), 0.0, "none", 0)
        found = leading_subspace(
            Xc.T,
            s,
            rows=Xc,
            dense=False,
            energy=total,
            solver=self.solver,
            formulation=self.formulation,
            tol=self.tol,
            max_iter=self.max_iter,
            seed=seed(self.random_state),
        )
        # An eigendecomposition can miss by more than rounding only where eigenvalues are negative.
        limit = 5e-3 if "float32" in str(Xc.dtype) else 1e-5
        if found.solver.startswith(("lapack", "gram")) and found.ritz.residual > limit:
            warnings.warn(
                f"kernel={self.kernel!r} is not symmetric positive semidefinite on this data, and "
                "components with negative eigenvalues come out as zero; use other parameters, or "
                "ask for fewer n_components",
                stacklevel=3,
            )
        return found

    def _set_eigenpairs(self, ritz: Ritz, total: float) -> None:
        N = ritz.V.shape[0]
        ratio = 2e-7 if "float32" in str(ritz.theta.dtype) else 1e-12
        theta = np.where(ritz.theta > ratio * ritz.theta[0], ritz.theta, 0)
        keep = slice(None)
        if self.n_components is None or self.remove_zero_eig:
            keep = slice(0, max(1, int(np.count_nonzero(theta))))
        self.eigenvalues_ = theta[keep]
        self.eigenvectors_ = ritz.V[:, keep]
        self.explained_variance_ = self.eigenvalues_ / N
        self.explained_variance_ratio_ = self.eigenvalues_ / total if total > 0 else theta[keep]

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit the model and return the scores of X.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features), or the kernel matrix
        y : ignored

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        self.fit(X)
        return self.eigenvectors_ * np.sqrt(self.eigenvalues_)

    def transform(self, X: Any) -> Array:
        """The scores of new rows: Theorem 3.8, from kernels with the training rows alone.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features); for a precomputed kernel the
            kernels of new rows with the training rows, of shape (n_samples, n_training)

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        check_is_fitted(self, "eigenvalues_")
        X = self._validated(X, reset=False)
        K = X if self.kernel == "precomputed" else self._kernel(X, self.X_fit_)
        if self.center:
            K = K - K.mean(axis=1, keepdims=True) - self._row_mean + self._all_mean
        positive = self.eigenvalues_ > 0
        scale = np.where(positive, 1 / np.sqrt(np.where(positive, self.eigenvalues_, 1)), 0)
        return K @ (self.eigenvectors_ * scale)

    def _fit_inverse(self, X: Any) -> None:
        if self.kernel == "precomputed" or sp.issparse(X):
            raise ValueError(
                "fit_inverse_transform=True needs dense rows to return to, not "
                f"{'a precomputed kernel' if self.kernel == 'precomputed' else 'sparse data'}"
            )
        self.X_transformed_fit_ = self.eigenvectors_ * np.sqrt(self.eigenvalues_)
        K = np.array(self._kernel(self.X_transformed_fit_, self.X_transformed_fit_))
        K.flat[:: K.shape[0] + 1] += self.alpha
        self.dual_coef_ = scipy.linalg.solve(K, X, assume_a="pos", overwrite_a=True)

    @available_if(lambda self: self.fit_inverse_transform)
    def inverse_transform(self, X: Any) -> Array:
        """Rows whose scores are near X: kernel ridge regression of the training rows on their scores.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)

        Returns
        -------
        rows : array of shape (n_samples, n_features)
        """
        check_is_fitted(self, "dual_coef_")
        scores = check_scores(X, self.eigenvalues_.shape[0])
        return self._kernel(scores, self.X_transformed_fit_) @ self.dual_coef_

    @property
    def _n_features_out(self) -> int:
        return self.eigenvalues_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
