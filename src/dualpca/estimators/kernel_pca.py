"""Kernel PCA as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from types import MethodType
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .._memory import ensure
from ..kernels.distances import single_noise
from ..kernels.eigen import all_equal, in_all_rows, kernel_eigenpairs, nonzero
from ..kernels.pairwise import row_operator
from ..kernels.preimage import fixed_point
from ..linalg import Array
from ..operators import Centered, Operator, Weighted
from ..operators.block_ops import one_blas_thread
from ..progress import convergence
from ..solvers.spectral.bases import quick_basis
from ..solvers.subspace import ITERATIVE
from ._base import COUNT, FRACTION, NOT_NEGATIVE, check_scores, seed, shifted
from ._kernels import KERNEL_CONSTRAINTS, KernelMixin
from ._outliers import measures_new_rows
from ._scores import row_share
from .pca import PCA

#: The parameters that PCA of features has too.
FROM_PCA = ("center", "formulation", "tol", "max_iter")

#: From this ``tol`` and so many rows on, RBF kernels are in float32. Rounding leaves room for a smaller
#: ``tol`` of float64 rows, but eigenvalues would then have seven digits, which only a loose one says are
#: enough. With fewer rows there is little to save (400 rows of 40 numbers: 1.7 ms, 1.6 in float64).
SINGLE_TOL, SINGLE_ROWS = {"float32": 1e-4, "float64": 1e-3}, 1000

#: They are if this share of K at least is left by centring; rounding is then far below ``tol``.
SINGLE_SPREAD = 0.25

#: The kernels of so many rows tell in advance whether it is.
SAMPLED = 128

#: The way back from scores is learned from at most this many rows.
RIDGE_ROWS = 5000


class needs_inverse:  # noqa: N801
    """A method of models with ``fit_inverse_transform=True``; of others ``hasattr`` is false."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is not None and not model.fit_inverse_transform:
            raise NotFittedError(
                f"{owner.__name__} was given fit_inverse_transform=False, and has no way back from "
                "scores to rows; set fit_inverse_transform=True and fit dense rows again"
            )
        return self.method if model is None else MethodType(self.method, model)


@dataclass(eq=False, repr=False)
class KernelPCA(KernelMixin, BaseEstimator):
    """Kernel principal component analysis through the dual, which needs only K.

    Parameters
    ----------
    n_components : int, float or None
        A number up to n_samples; the fraction of the variance to explain; or None, all that have a
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
        Whether to centre in feature space.
    approximation : {"nystroem", "rff", "orf"} or None
        None works with K itself, "nystroem" with kernels of landmarks, "rff" and "orf" with random
        and orthogonal random Fourier features; docs/kernel.md compares them.
    landmarks : {"uniform", "kmeans++", "leverage"} or array of shape (n_landmarks, n_features)
    n_landmarks, n_random_features : int
    solver : str or solver
        "auto", "lapack" (eigendecomposition of K), "krylov", or a solver of DC problems as in
        :class:`dualpca.PCA`.
    formulation : str, callable or None
        The formulation of the paper to solve; its dual needs only K where G is unitarily invariant.
        Scores and eigenvalues are those of plain kernel PCA whatever it is.
    tol, max_iter, random_state, verbose
        As in :class:`dualpca.PCA`; the residual is that of the centred K.
    remove_zero_eig : bool
        Whether to drop components with eigenvalue zero also if ``n_components`` is given.
    fit_inverse_transform : bool
        Whether there is a way back from scores to rows.
    inverse : {"ridge", "fixed_point"}
        Kernel ridge regression on the scores, with the ridge ``alpha``, or the fixed-point iteration
        of the RBF kernel.
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
        The training data, with which ``transform`` takes kernels (K itself if precomputed).
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
        "n_components": [COUNT, FRACTION, None],
        "center": ["boolean"],
        "formulation": [str, callable, None],
        "solver": [StrOptions({"auto", "lapack", "krylov", *ITERATIVE}), callable],
        "remove_zero_eig": ["boolean"],
        "fit_inverse_transform": ["boolean"],
        "inverse": [StrOptions({"ridge", "fixed_point"})],
        "alpha": [NOT_NEGATIVE],
    }

    n_components: int | float | None = None
    _: KW_ONLY
    center: bool = True
    solver: Any = "auto"
    formulation: Any = None
    tol: float = 1e-4
    max_iter: int = 1000
    random_state: Any = None
    remove_zero_eig: bool = False
    fit_inverse_transform: bool = False
    inverse: str = "ridge"
    alpha: float = 1.0
    verbose: int = 0

    def _fit(self, X: Any, sample_weight: Any) -> Any:
        X = self._kernel_rows(X, reset=True, rows=1 if self.approximation is None else 2)
        self._check_inverse(X)
        rows, weights, present, rng = self._prepared(X, sample_weight)
        if self.approximation is None:
            single = self._takes_single(X, weights)
            self._fit_exact(X, weights, present, single=single)
        else:
            self._fit_features(X, rows, weights, present, rng)
        self.n_samples_ = X.shape[0]
        if self.fit_inverse_transform:
            self._fit_inverse(row_operator(rows), rng)
        return X

    def _check_inverse(self, X: Any) -> None:
        """Refuse data and parameters from whose scores there is no way back."""
        if not self.fit_inverse_transform:
            return
        if self.kernel == "precomputed" or sp.issparse(X) or getattr(X, "sparse", False):
            kind = "a precomputed kernel" if self.kernel == "precomputed" else "sparse data"
            raise ValueError(
                f"fit_inverse_transform=True needs dense rows to return to, not {kind}"
            )
        exact = self.approximation in (None, "nystroem")
        if self.inverse == "fixed_point" and not (self.kernel == "rbf" and exact):
            raise ValueError(
                "inverse='fixed_point' is for kernel='rbf', exact or by 'nystroem'; use inverse='ridge' "
                f"with kernel={self.kernel!r} and approximation={self.approximation!r}"
            )

    def _takes_single(self, X: Any, weights: Any) -> bool:
        """Whether kernels in float32 serve this fit."""
        direct = self.solver in ("auto", "krylov") and self.formulation is None
        known = self.kernel == "rbf" and direct and weights is None
        few = isinstance(self.n_components, Integral) and X.shape[0] >= SINGLE_ROWS
        if not (known and few and not sp.issparse(X) and self.tol >= SINGLE_TOL[X.dtype.name]):
            return False
        sample = X[np.linspace(0, X.shape[0] - 1, SAMPLED).astype(int)]
        with one_blas_thread():  # threads of BLAS would spin beside those that compute K
            K = self._kernel_function()(sample, sample)
        return 1.0 - float(K.mean(dtype=float)) >= SINGLE_SPREAD

    def _fit_exact(self, X: Any, weights: Any, present: np.ndarray | None, *, single: bool) -> None:
        if self.solver == "lapack" or not isinstance(self.n_components, Integral):
            remedy = "give n_components, or approximation='nystroem'"
            ensure(2 * X.shape[0] ** 2 * X.dtype.itemsize, "the kernel matrix and its axes", remedy)
        K = self._kernel_operator(X, single=single)
        single = single and K.dtype == np.float32
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
        if single and total < SINGLE_SPREAD * K.shape[0]:
            return self._fit_exact(X, weights, present, single=False)
        names = ("solver", "formulation", "tol", "max_iter")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        options |= {"definite": self._is_definite, "centered": self.center}
        options |= {"seed": seed(self.random_state), "equal": lambda: all_equal(X[counted])}
        options["noise"] = single_noise(K.shape[0]) if single else 0.0
        result = kernel_eigenpairs(rows, K, total, self.n_components, self.kernel, **options)
        ritz = result.ritz
        theta = np.where(nonzero(ritz.theta), ritz.theta, 0)
        if single:
            theta, share = theta.astype(X.dtype), share.astype(X.dtype)
            ritz = replace(ritz, V=quick_basis(ritz.V.astype(X.dtype)))
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
        self._keep(X)
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
        operator, n = self._features(X), self.n_components
        options = {name: getattr(self, name) for name in FROM_PCA}
        options["n_components"] = min(int(n), *operator.shape) if isinstance(n, Integral) else n
        options["solver"] = "gram" if self.solver == "lapack" else self.solver
        pca = PCA(**options, random_state=int(rng.integers(2**31)))
        pca.fit(operator, sample_weight=weights)
        if n is None or self.remove_zero_eig:
            last = max(1, int(nonzero(pca.singular_values_**2).sum()))
            pca.n_components_, pca.components_ = last, pca.components_[:last]
            for name in ("singular_values_", "explained_variance_", "explained_variance_ratio_"):
                setattr(pca, name, getattr(pca, name)[:last])
        self.pca_, self.eigenvalues_ = pca, pca.singular_values_**2
        self._take(pca)

    def _training_scores(self, X: Any, sample_weight: Any) -> Array:
        if self.approximation is None and sample_weight is None:
            return self.eigenvectors_ * np.sqrt(self.eigenvalues_)
        return self._scores(X)

    @measures_new_rows
    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of the variance of rows in feature space that the components hold.

        The variance is that about the mean of the fit. The share is at most 1; y is ignored. Kernels of
        different width are different spaces, whose shares say little about each other.
        """
        X = self._checked(X, "score")
        if self.approximation is not None:
            rows = self._features(X)
            centred = shifted(rows, self.pca_._origin) if self.center else rows
            norms = centred.row_norms()
            if self.approximation == "nystroem":
                norms = np.hypot(norms, self._unspanned(X, rows))
            return row_share(self.pca_._scores(rows), norms)
        share = self._share if self.center else np.zeros(self.X_fit_.shape[0])
        parts = [K @ share for _, K in self._kernel_blocks(self.X_fit_)] if self.center else [share]
        size2 = float(share @ np.concatenate(parts))
        scores, norms = [], []
        for rows, K in self._kernel_blocks(X):
            scores.append(self._scores_of(K))
            norms.append(np.sqrt(np.clip(self._diagonal(rows) - 2 * K @ share + size2, 0.0, None)))
        return row_share(np.concatenate(scores), np.concatenate(norms))

    def _fit_inverse(self, rows: Any, rng: np.random.Generator) -> None:
        N = rows.shape[0]
        sample = rows.take(np.sort(rng.choice(N, min(N, RIDGE_ROWS), replace=False)))
        scores = self.X_transformed_fit_ = self._scores(sample)
        if self.inverse == "ridge":
            K = np.array(self._kernel_function(shift=False)(scores, scores))
            K.flat[:: K.shape[0] + 1] += self.alpha  # ridge regression (Bakir et al. 2004)
            self.dual_coef_ = scipy.linalg.solve(K, sample, assume_a="pos", overwrite_a=True)
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
