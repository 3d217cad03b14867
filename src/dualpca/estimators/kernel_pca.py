"""Kernel PCA with scikit-learn's face."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._memory import ensure
from ..kernels.eigen import all_equal, filled_up, kernel_eigenpairs
from ..kernels.features import feature_operator
from ..kernels.preimage import PreimageMixin
from ..linalg import Array
from ..operators import Centered, Operator, Weighted, is_streamed
from ..progress import convergence
from ..solvers import Ritz
from ..solvers.subspace import ITERATIVE
from ._base import check_number, seed
from ._fit_context import reports_progress
from ._kernels import KERNEL_CONSTRAINTS, KernelMixin
from .pca import PCA

__all__ = ["KernelPCA"]

#: What an approximate fit takes over from PCA of the features.
TAKEN = (
    "explained_variance_ratio_ residual_ variance_shortfall_ solver_ n_iter_ n_passes_ convergence_"
)


class KernelPCA(
    KernelMixin, PreimageMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Kernel principal component analysis through the dual, which needs only K.

    Parameters
    ----------
    n_components : int, float or None
        How many components, at most n_samples; the fraction of the variance to explain; or None,
        every one with a nonzero eigenvalue.
    kernel : str or callable
        Any kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function
        of two rows.
    gamma : float, "median", "scale" or None
        A number; 1 over the median squared distance of two rows; 1 over n_features and the variance
        of X; or None, 1/n_features.
    degree, coef0 : float
        Parameters of the kernels that have them.
    kernel_params : dict, optional
        Keyword arguments of a callable kernel.
    center : bool
        Centre in feature space.
    approximation : {"nystroem", "rff", "orf"} or None
        None works with K itself, "nystroem" with kernels of landmarks, "rff" and "orf" with random
        and orthogonal random Fourier features; docs/kernel.md tells which for what.
    n_landmarks : int
    landmarks : {"uniform", "kmeans++", "leverage"} or array of shape (n_landmarks, n_features)
    n_random_features : int
    solver : str or solver
        "auto", "lapack" (eigendecomposition of K), "krylov", or a solver of DC problems as in
        :class:`dualpca.PCA`.
    formulation : str, callable or None
        The formulation of the paper to solve; its dual needs only K where G is unitarily invariant.
        Only the span of its solution is used: scores and eigenvalues are those of plain kernel PCA.
    tol, max_iter, random_state, verbose
        As in :class:`dualpca.PCA`; the residual is that of the centred K.
    remove_zero_eig : bool
        Drop components whose eigenvalue is zero also where ``n_components`` is given; one is kept
        where all are.
    fit_inverse_transform : bool
        Whether there is a way back from scores to rows.
    inverse : {"ridge", "fixed_point"}
        By kernel ridge regression on the scores, or the fixed-point iteration of the RBF kernel.
    alpha : float
        The ridge of that regression.
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
        **KERNEL_CONSTRAINTS,
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            None,
        ],
        "center": ["boolean"],
        "solver": [StrOptions({"auto", "lapack", "krylov", *ITERATIVE}), callable],
        "formulation": [str, callable, None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
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
        self._validate_params()
        check_number(self.n_components)
        X = self._kernel_rows(X, reset=True, rows=1 if self.approximation is None else 2)
        self._check_inverse(X)
        rows, weights, present = self._counted(X, sample_weight)
        rng = np.random.default_rng(seed(self.random_state))
        self._look_at(rows, rng)
        if self.approximation is None:
            self._fit_exact(X, weights, present)
        else:
            self._fit_features(X, rows, weights, present, rng)
        if self.fit_inverse_transform:
            self._fit_inverse(rows, rng)
        return self

    def _fit_exact(self, X: Any, weights: Any, present: np.ndarray | None) -> None:
        if self.solver == "lapack" or not isinstance(self.n_components, Integral):
            remedy = "give n_components, or approximation='nystroem'"
            ensure(2 * X.shape[0] ** 2 * X.dtype.itemsize, "the kernel matrix and its axes", remedy)
        operator = self._kernel_operator(X)
        counted = np.ones(X.shape[0], dtype=bool) if present is None else present
        mass = np.ones(X.shape[0], dtype=operator.dtype) if weights is None else weights[counted]
        operator = operator if present is None else operator.among(present)
        share = (mass / mass.sum()).astype(operator.dtype)
        Xc: Operator = operator
        if self.center:
            center = operator.rmatmul(share[:, None])
            Xc = Centered(operator, center, center * float(len(mass)) if weights is None else None)
            row_mean = center.image[:, 0]
            self._row_mean = filled_up(row_mean, counted)
            self._all_mean = float(row_mean @ share)
        self._share = filled_up(share, counted)
        root = np.sqrt(mass)
        rows = Xc if weights is None else Weighted(Xc, root)
        total = rows.energy()
        found = kernel_eigenpairs(self, rows, operator, total, lambda: all_equal(X, counted))
        self.residual_, self.variance_shortfall_ = found.ritz.residual, found.shortfall()
        self.solver_, self.n_iter_ = found.note, found.steps
        self._set_eigenpairs(found.ritz, total, float(mass.sum()))
        positive = self.eigenvalues_ > 0
        scale = np.where(positive, 1 / np.sqrt(np.where(positive, self.eigenvalues_, 1)), 0)
        self._coefficients = filled_up((root[:, None] * self.eigenvectors_) * scale, counted)
        self.eigenvectors_ = filled_up(self.eigenvectors_, counted)
        self.X_fit_ = X if self.kernel == "precomputed" or is_streamed(X) else X.copy()
        self.n_passes_ = operator.passes
        self.convergence_ = convergence(self.n_passes_, self.residual_)

    def _fit_features(
        self, X: Any, rows: Any, weights: Any, present: np.ndarray | None, rng: np.random.Generator
    ) -> None:
        """PCA of the features, of which K is made approximately."""
        self.features_ = self._feature_map(rows, rng)
        if present is not None and not rows.is_distributed:
            X, weights = rows, weights[present]
        operator = feature_operator(self.features_, X)
        n = self.n_components
        n = min(int(n), *operator.shape) if isinstance(n, Integral) else n
        self.pca_ = PCA(
            n,
            center=self.center,
            solver="gram" if self.solver == "lapack" else self.solver,
            formulation=self.formulation,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=int(rng.integers(2**31)),
        ).fit(operator, sample_weight=weights)
        pca = self.pca_
        self.eigenvalues_ = pca.singular_values_**2
        if self.n_components is None or self.remove_zero_eig:
            ratio = 2e-7 if "float32" in str(operator.dtype) else 1e-12
            keep = max(1, int((self.eigenvalues_ > ratio * self.eigenvalues_[0]).sum()))
            self.eigenvalues_ = self.eigenvalues_[:keep]
            for name in ("components_", "explained_variance_", "explained_variance_ratio_"):
                setattr(pca, name, getattr(pca, name)[:keep])
            pca.n_components_ = keep
        self.explained_variance_ = self.eigenvalues_ / pca._mass
        for name in TAKEN.split():
            setattr(self, name, getattr(pca, name))

    def _set_eigenpairs(self, ritz: Ritz, total: float, mass: float) -> None:
        ratio = 2e-7 if "float32" in str(ritz.theta.dtype) else 1e-12
        theta = np.where(ritz.theta > ratio * ritz.theta[0], ritz.theta, 0)
        share = theta / total if total > 0 else theta
        keep = len(theta)
        if self.n_components is None or self.remove_zero_eig:
            keep = max(1, int(np.count_nonzero(theta)))
        elif not isinstance(self.n_components, Integral):
            keep = min(keep, int((np.cumsum(share) <= self.n_components).sum()) + 1)
        self.eigenvalues_, self.eigenvectors_ = theta[:keep], ritz.V[:, :keep]
        self.explained_variance_ = self.eigenvalues_ / mass
        self.explained_variance_ratio_ = share[:keep]

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
        return self._scores(self._kernel_rows(X, reset=False))

    def _scores(self, X: Any) -> Array:
        if self.approximation is not None:
            return self.pca_._scores(feature_operator(self.features_, X))
        chunks = self._in_chunks(X, self.X_fit_.shape[0])
        return np.concatenate([self._scores_of(X[rows]) for rows in chunks])

    def _scores_of(self, X: Any) -> np.ndarray:
        K = X if self.kernel == "precomputed" else self._kernel(X, self.X_fit_)
        scores = K @ self._coefficients
        if not self.center:
            return scores
        total = self._coefficients.sum(axis=0)
        offset = self._row_mean @ self._coefficients - self._all_mean * total
        return scores - (K @ self._share)[:, None] * total - offset

    @property
    def _n_features_out(self) -> int:
        return self.eigenvalues_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
