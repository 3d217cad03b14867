"""Kernel PCA with scikit-learn's face."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._memory import ensure
from ..kernels.eigen import all_equal, in_all_rows, kernel_eigenpairs, nonzero
from ..kernels.features import feature_operator
from ..kernels.pairwise import row_operator
from ..kernels.preimage import fit_ridge, fixed_point
from ..linalg import Array
from ..operators import Centered, Operator, Weighted, is_streamed
from ..progress import convergence
from ..solvers.subspace import ITERATIVE
from ._base import check_number, check_scores, seed
from ._fit_context import reports_progress
from ._kernels import KERNEL_CONSTRAINTS, KernelMixin, check_inverse, needs_inverse, truncated
from .pca import PCA

__all__ = ["KernelPCA"]

#: The parameters that PCA of features has too.
FROM_PCA = ("center", "formulation", "tol", "max_iter")

#: The way back from scores is learned from at most this many rows.
RIDGE_ROWS = 5000


class KernelPCA(KernelMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Kernel principal component analysis through the dual, which needs only K.

    Parameters
    ----------
    n_components : int, float or None
        How many, at most n_samples; the fraction of the variance to explain; or None, every one with a
        nonzero eigenvalue.
    kernel : str or callable
        A name of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function of two
        rows, whose keyword arguments are ``kernel_params``.
    gamma : float, "median", "scale" or None
        A number; 1 over the median squared distance of two rows; 1 over n_features and the variance
        of X; or None, 1/n_features.
    degree, coef0 : float
        Parameters of the kernels that have them.
    kernel_params : dict, optional
    center : bool
        Centre in feature space.
    approximation : {"nystroem", "rff", "orf"} or None
        None works with K itself, "nystroem" with kernels of landmarks, "rff" and "orf" with random
        and orthogonal random Fourier features; docs/kernel.md tells which for what.
    landmarks : {"uniform", "kmeans++", "leverage"} or array of shape (n_landmarks, n_features)
    n_landmarks, n_random_features : int
    solver : str or solver
        "auto", "lapack" (eigendecomposition of K), "krylov", or a solver of DC problems as in
        :class:`dualpca.PCA`.
    formulation : str, callable or None
        The formulation of the paper to solve; its dual needs only K where G is unitarily invariant.
        Only the span of its solution is used: scores and eigenvalues are those of plain kernel PCA.
    tol, max_iter, random_state, verbose
        As in :class:`dualpca.PCA`; the residual is that of the centred K.
    remove_zero_eig : bool
        Drop components with eigenvalue zero also if ``n_components`` is given; one always stays.
    fit_inverse_transform : bool
        Whether there is a way back from scores to rows.
    inverse : {"ridge", "fixed_point"}
        By kernel ridge regression on the scores, with the ridge ``alpha``, or by the fixed-point
        iteration of the RBF kernel.
    alpha : float
    n_jobs : int or None
        Threads of the kernel function.

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        Of the centred K, decreasing.
    eigenvectors_ : array of shape (n_samples, n_components)
        Orthonormal; in each the entry of largest magnitude is positive, and those of rows of weight 0
        are 0. Not with an approximation.
    explained_variance_, explained_variance_ratio_ : arrays of shape (n_components,)
        The variance of each score, ``eigenvalues_ / (n_samples - 1)``, and its share of the total in
        feature space. With a linear kernel they are those of :class:`dualpca.PCA`.
    X_fit_ : array
        The training data, of which ``transform`` takes kernels (K itself if precomputed).
    gamma_ : float
    n_components_, n_samples_, n_features_in_, residual_, variance_shortfall_, n_iter_, n_passes_, solver_
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
        **KERNEL_CONSTRAINTS,
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            None,
        ],
        **{name: PCA._parameter_constraints[name] for name in (*FROM_PCA, "random_state")},
        "solver": [StrOptions({"auto", "lapack", "krylov", *ITERATIVE}), callable],
        "remove_zero_eig": ["boolean"],
        "fit_inverse_transform": ["boolean"],
        "inverse": [StrOptions({"ridge", "fixed_point"})],
        "alpha": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        kernel: Any = "linear",
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        center: bool = True,
        approximation: str | None = None,
        n_landmarks: int = 500,
        landmarks: Any = "uniform",
        n_random_features: int = 1000,
        solver: Any = "auto",
        formulation: Any = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
        remove_zero_eig: bool = False,
        fit_inverse_transform: bool = False,
        inverse: str = "ridge",
        alpha: float = 1.0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.center = center
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.n_random_features = n_random_features
        self.solver = solver
        self.formulation = formulation
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.remove_zero_eig = remove_zero_eig
        self.fit_inverse_transform = fit_inverse_transform
        self.inverse = inverse
        self.alpha = alpha
        self.n_jobs = n_jobs
        self.verbose = verbose

    @reports_progress
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelPCA:
        """Fit the model.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features), or the kernel matrix
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How often each row counts: a weight of 2 is the row twice, 0 leaves it out.

        Returns
        -------
        self
        """
        check_number(self.n_components)
        X = self._kernel_rows(X, reset=True, rows=1 if self.approximation is None else 2)
        check_inverse(self, X)
        rows, weights, present = self._counted(X, sample_weight)
        rng = np.random.default_rng(seed(self.random_state))
        self._fit_kernel_parameters(rows, rng)
        if self.approximation is None:
            self._fit_exact(X, weights, present)
        else:
            self._fit_features(X, rows, weights, present, rng)
        self.n_samples_ = X.shape[0]
        if self.fit_inverse_transform:
            self._fit_inverse(row_operator(rows), rng)
        return self

    def _fit_exact(self, X: Any, weights: Any, present: np.ndarray | None) -> None:
        if self.solver == "lapack" or not isinstance(self.n_components, Integral):
            remedy = "give n_components, or approximation='nystroem'"
            ensure(2 * X.shape[0] ** 2 * X.dtype.itemsize, "the kernel matrix and its axes", remedy)
        K = self._kernel_operator(X)
        counted = slice(None) if present is None else present
        K = K if present is None else K.among(present)
        weight = np.ones(K.shape[0], dtype=K.dtype) if weights is None else weights[counted]
        share = (weight / weight.sum()).astype(K.dtype)
        rows: Operator = K
        if self.center:
            center = K.rmatmul(share[:, None])
            rows = Centered(K, center, center * float(len(weight)) if weights is None else None)
        root = np.sqrt(weight)
        rows = rows if weights is None else Weighted(rows, root)
        total = rows.energy()
        start = seed(self.random_state)
        result = kernel_eigenpairs(self, rows, K, total, start, lambda: all_equal(X[counted]))
        ritz = result.ritz
        theta = np.where(nonzero(ritz.theta), ritz.theta, 0)
        ratio, n = theta / total if total > 0 else theta, len(theta)
        if self.n_components is None or self.remove_zero_eig:
            n = max(1, int(np.count_nonzero(theta)))
        elif not isinstance(self.n_components, Integral):
            n = min(n, int((np.cumsum(ratio) <= self.n_components).sum()) + 1)
        theta, V = theta[:n], ritz.V[:, :n]
        self.n_components_, self.eigenvalues_ = n, theta
        self.explained_variance_ = theta / (float(weight.sum()) - 1 or 1.0)  # of one row, theta
        self.explained_variance_ratio_ = ratio[:n]
        scale = np.where(theta > 0, 1 / np.sqrt(np.where(theta > 0, theta, 1)), 0)
        A, self._offset = (root[:, None] * V) * scale, np.zeros_like(theta)
        if self.center:
            A = A - share[:, None] * A.sum(axis=0)
            self._offset = center.image[:, 0] @ A
        self._coefficients, self._share, self.eigenvectors_ = (
            in_all_rows(values, present) for values in (A, share, V)
        )
        self.X_fit_ = X if self.kernel == "precomputed" or is_streamed(X) else X.copy()
        self.residual_, self.variance_shortfall_ = ritz.residual, result.shortfall()
        self.solver_, self.n_iter_, self.n_passes_ = result.note, result.steps, K.passes
        self.convergence_ = convergence(self.n_passes_, self.residual_)

    def _fit_features(
        self, X: Any, rows: Any, weights: Any, present: np.ndarray | None, rng: np.random.Generator
    ) -> None:
        """Fit PCA to features whose inner products are nearly K."""
        self.features_ = self._feature_map(rows, rng)
        if present is not None and not rows.is_distributed:
            X, weights = rows, weights[present]
        operator, n = feature_operator(self.features_, X), self.n_components
        options = {name: getattr(self, name) for name in FROM_PCA}
        options["n_components"] = min(int(n), *operator.shape) if isinstance(n, Integral) else n
        options["solver"] = "gram" if self.solver == "lapack" else self.solver
        pca = PCA(**options, random_state=int(rng.integers(2**31)))
        pca.fit(operator, sample_weight=weights)
        if n is None or self.remove_zero_eig:
            pca = truncated(pca, max(1, int(nonzero(pca.singular_values_**2).sum())))
        self.pca_, self.n_components_ = pca, pca.n_components_
        self.eigenvalues_ = pca.singular_values_**2
        self.explained_variance_ = pca.explained_variance_
        self.explained_variance_ratio_ = pca.explained_variance_ratio_
        self.residual_, self.variance_shortfall_ = pca.residual_, pca.variance_shortfall_
        self.solver_, self.n_iter_, self.n_passes_ = pca.solver_, pca.n_iter_, pca.n_passes_
        self.convergence_ = pca.convergence_

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit the model and return the scores of X.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features), or the kernel matrix
        y : ignored
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        self.fit(X, sample_weight=sample_weight)
        if self.approximation is None and sample_weight is None:
            return self.eigenvectors_ * np.sqrt(self.eigenvalues_)
        return self.transform(X)

    def transform(self, X: Any) -> Array:
        """Return the scores of new rows: Theorem 3.8, from kernels with the training rows alone.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features); for a precomputed kernel the
            kernels of new rows with the training rows, of shape (n_samples, n_training)

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        check_is_fitted(self, "eigenvalues_")
        return self._scores(self._kernel_rows(X, reset=False))

    def _scores(self, X: Any) -> Array:
        if self.approximation is not None:
            return self.pca_._scores(feature_operator(self.features_, X))
        chunks = self._in_chunks(X, self.X_fit_.shape[0])
        return np.concatenate([self._scores_of(X[rows]) for rows in chunks])

    def _scores_of(self, X: Any) -> np.ndarray:
        K = X if self.kernel == "precomputed" else self._kernel(X, self.X_fit_)
        return K @ self._coefficients - self._offset

    def _fit_inverse(self, rows: Any, rng: np.random.Generator) -> None:
        N = rows.shape[0]
        sample = rows.take(np.sort(rng.choice(N, min(N, RIDGE_ROWS), replace=False)))
        scores = self.X_transformed_fit_ = self._scores(sample)
        if self.inverse == "ridge":
            kernel = self._kernel_function(shift=False)
            self.dual_coef_ = fit_ridge(kernel, scores, sample, self.alpha)
        else:
            self._start_rows = sample

    @needs_inverse
    def inverse_transform(self, X: Any) -> Array:
        """Return rows whose scores are near X, by the way back that ``inverse`` names.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)

        Returns
        -------
        rows : array of shape (n_samples, n_features)
        """
        check_is_fitted(self, "X_transformed_fit_")
        scores = row_operator(check_scores(X, self.n_components_))
        return scores.map_rows(lambda rows, T: self._preimages(T), self.n_features_in_)

    def _preimages(self, scores: Any) -> np.ndarray:
        kernel = self._kernel_function(shift=False)
        if self.inverse == "ridge":
            return kernel(scores, self.X_transformed_fit_) @ self.dual_coef_
        # The iteration starts from the training rows with the nearest scores.
        start = self._start_rows[pairwise_distances_argmin(scores, self.X_transformed_fit_)]
        if self.approximation == "nystroem":
            rows = self.features_.landmarks
            G = self.features_.root @ self.pca_.inverse_transform(scores).T
        else:
            rows, G = self.X_fit_, self._coefficients @ scores.T
            G = G + self._share[:, None] if self.center else G
        return fixed_point(kernel, G, rows, start, self._kernel_shift)
