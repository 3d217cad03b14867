"""Robust kernel PCA with scikit-learn's face."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..features import feature_operator
from ..linalg import Array
from ..losses import LOSSES, Loss, as_loss
from ..operators import Centered
from ._data import check_number, checked_weights, seed
from ._distances import Measured, between, ordered
from ._kernels import KERNEL_CONSTRAINTS, KernelMixin
from ._outliers import OutlierScoresMixin, score_distances
from ._robust import GUARD, fit_rows, robust_solver, row_scales, scaled_loss, warn_of_doubt
from ._robust_kernel import (
    about,
    fixed_share,
    measure_kernel,
    refit_kernel,
    take_coordinates,
)
from ._start import STARTS, as_starts, best_start, number_of_components, typical_size
from ._subspace import warn_above
from ._univariate import chi2_quantile
from .robust_pca import MAP, RobustPCA

__all__ = ["RobustKernelPCA"]

#: What an approximate fit takes over from RobustPCA on the features.
TAKEN = (
    "explained_variance_",
    "explained_variance_ratio_",
    "weights_",
    "score_distances_",
    "orthogonal_distances_",
    "score_cutoff_",
    "orthogonal_cutoff_",
    "offset_",
    "outliers_",
    "flags_by_",
    "refitted_",
    "start_",
    "agreement_",
    "loss_",
    "n_components_",
    "n_samples_",
    "n_iter_",
    "n_passes_",
    "residual_",
)


class RobustKernelPCA(
    KernelMixin,
    OutlierScoresMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Kernel PCA that bad rows do not move, and that says which rows are bad.

    :class:`dualpca.RobustPCA` in feature space: the dual DCA of the paper (Algorithm 6) for every loss of
    the family, from K alone, with a robust start, a guarded refit, and distances, scores and flags for
    training and new rows. With a linear kernel it finds what RobustPCA finds.

    Parameters
    ----------
    n_components : int, float or None
        As in :class:`dualpca.RobustPCA`.
    kernel, gamma, degree, coef0, kernel_params, n_jobs
        As in :class:`dualpca.KernelPCA`.
    approximation, n_landmarks, landmarks, n_random_features
        As in :class:`dualpca.KernelPCA`; RobustPCA of the features then.
    loss, normalize, refit, quantile, contamination, tol, max_iter, random_state
        As in :class:`dualpca.RobustPCA`.
    center : {"joint", "geometric_median", "mean"} or None
        The centre in feature space.
    init : str or list of str
        "stahel_donoho", "spherical", "pca", "random", several of them, or "auto", the first two. Starts
        see a sample of at most 1000 rows, or 2000 with an approximation.
    solver : {"auto", "anderson", "dca"} or solver

    Attributes
    ----------
    dual_coef_ : array of shape (n_samples, n_components)
        The axes are ``Gamma^T dual_coef_``; not with an approximation.
    center_coef_ : array of shape (n_samples,)
        The centre is ``Gamma^T center_coef_``; not with an approximation.
    explained_variance_, explained_variance_ratio_ : arrays of shape (n_components,)
    weights_, score_distances_, orthogonal_distances_, outliers_ : arrays of shape (n_samples,)
    score_cutoff_, orthogonal_cutoff_, offset_, agreement_, residual_ : float
    flags_by_, start_ : str
    refitted_ : bool
    loss_ : Loss
    n_components_, n_samples_, n_features_in_, n_iter_, n_passes_ : int
        As in :class:`dualpca.RobustPCA`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import RobustKernelPCA
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 200)
    >>> X = np.c_[np.cos(angle), np.sin(angle)] + 0.05 * rng.standard_normal((200, 2))
    >>> X[:10] = 0.1 * rng.standard_normal((10, 2))
    >>> model = RobustKernelPCA(n_components=6, kernel="rbf", gamma=1.0, random_state=0).fit(X)
    >>> int(model.outliers_[:10].sum())
    10
    """

    _parameter_constraints = {  # noqa: RUF012
        **KERNEL_CONSTRAINTS,
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            None,
        ],
        "loss": [StrOptions(set(LOSSES)), Loss],
        "normalize": ["boolean"],
        "center": [StrOptions({"joint", "geometric_median", "mean"}), None],
        "init": [StrOptions({"auto", *STARTS}), list, tuple],
        "refit": ["boolean"],
        "solver": [StrOptions({"auto", "anderson", "dca"}), callable],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
        "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        kernel: Any = "rbf",
        gamma: Any = "median",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        approximation: str | None = None,
        n_landmarks: int = 500,
        landmarks: Any = "uniform",
        n_random_features: int = 1000,
        loss: Any = "geman_mcclure",
        normalize: bool = True,
        center: str | None = "joint",
        init: Any = "auto",
        refit: bool = True,
        solver: Any = "auto",
        quantile: float = 0.999,
        contamination: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.n_random_features = n_random_features
        self.loss = loss
        self.normalize = normalize
        self.center = center
        self.init = init
        self.refit = refit
        self.solver = solver
        self.quantile = quantile
        self.contamination = contamination
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> RobustKernelPCA:
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
        X = self._kernel_rows(X, reset=True, rows=2)
        rng = np.random.default_rng(seed(self.random_state))
        self._set_gamma(X, rng)
        if self.approximation is None:
            self._fit_exact(X, sample_weight, rng)
        else:
            self._fit_features(X, sample_weight, rng)
        return self

    def _fit_features(self, X: Any, sample_weight: Any, rng: np.random.Generator) -> None:
        self.features_ = self._feature_map(X, rng)
        names = ("n_components", "loss", "normalize", "center", "init", "refit", "solver")
        more = ("quantile", "contamination", "tol", "max_iter")
        options = {name: getattr(self, name) for name in (*names, *more)}
        model = RobustPCA(**options, random_state=int(rng.integers(2**31)))
        self.pca_ = model.fit(feature_operator(self.features_, X), sample_weight=sample_weight)
        for name in TAKEN:
            setattr(self, name, getattr(model, name))

    def _fit_exact(self, X: Any, sample_weight: Any, rng: np.random.Generator) -> None:
        K = self._kernel_operator(X)
        weights = checked_weights(sample_weight, K)
        N = X.shape[0]
        mass = np.ones(N) if weights is None else np.asarray(weights, dtype=float)
        share = fixed_share(self.center, K, mass)
        sample = take_coordinates(K, lambda rows: self._between(X, rows), mass, share, rng)
        T, fixed = sample.T, None if share is None else np.zeros(sample.T.shape[1])
        s = number_of_components(self.n_components, T, fixed, rng)
        start, self.agreement_, nearness = best_start(
            T, as_starts(self.init, s, T.shape[1]), s, fixed, rng
        )
        self.start_ = start.name
        self.loss_ = scaled_loss(as_loss(self.loss), T, start, self.normalize)
        spread = typical_size(Centered(T, start.center[:, None]).row_norms())
        center = sample.share + sample.coefficients(start.center[:, None])[:, 0]
        base = about(K, center)
        fit = fit_rows(
            base,
            K.rmatmul(K.asarray(sample.coefficients(start.W))),
            loss=self.loss_,
            normalize=self.normalize,
            joint=share is None,
            solver=robust_solver("anderson" if self.solver == "auto" else self.solver, s, N)[0],
            dual=False,
            mass=None if weights is None else K.asarray(np.maximum(mass, 1e-300)),
            tol=self.tol,
            max_iter=self.max_iter,
            spread=spread,
        )
        warn_above(fit.residual, self.tol, type(self).__name__, self.max_iter)
        counted = None if weights is None else mass
        norms = np.asarray(base.row_norms(), dtype=float)
        if fit.delta is not None:
            center = center + np.asarray(fit.delta.coefficients, dtype=float)[:, 0]
        found = measure_kernel(
            K, center, np.asarray(fit.W.coefficients, dtype=float), counted, spread
        )
        self.refitted_ = False
        good = np.asarray(found.orthogonal) <= found.cutoff(self.quantile)
        if self.refit and not found.flat and (good & (mass > 0)).sum() > 2 * s:
            new = measure_kernel(
                K,
                *refit_kernel(
                    K,
                    mass * good,
                    s,
                    share=share,
                    tol=min(self.tol, 1e-4),
                    seed=int(rng.integers(2**31)),
                ),
                counted,
                spread,
            )
            before, after = (self._mean_loss(m, norms, mass, spread) for m in (found, new))
            self.refitted_ = bool(after <= before + GUARD * abs(before))
            found = new if self.refitted_ else found
        self.residual_, self.n_iter_ = fit.residual, fit.iterations
        self.X_fit_ = X if self.kernel == "precomputed" or isinstance(X, np.memmap) else X.copy()
        self._set(found, K, counted, share is not None)
        self.weights_ = fit.weights / np.maximum(mass, 1e-300)
        self.weights_ = np.where(mass > 0, self.weights_ / max(self.weights_.max(), 1e-300), 0.0)
        self.n_samples_, self.n_passes_ = N, K.passes
        warn_of_doubt(self, nearness)

    def _between(self, X: Any, rows: np.ndarray) -> np.ndarray:
        """K between some of the training rows."""
        return (
            X[np.ix_(rows, rows)]
            if self.kernel == "precomputed"
            else self._kernel(X[rows], X[rows])
        )

    def _mean_loss(
        self, found: Measured, norms: np.ndarray, mass: np.ndarray, spread: float
    ) -> float:
        """The loss of all rows, on average; ``norms`` are those they were divided by."""
        residuals = np.asarray(found.orthogonal, dtype=float)
        scales = row_scales(norms, self.normalize, spread)
        residuals = residuals if scales is None else residuals * scales
        typical = 1.0 if self.normalize else spread
        epsilon = 1e-3 * typical if self.loss_.singular else 0.0
        values = self.loss_.psi((residuals**2 + epsilon**2) / self.loss_.c**2)
        return float(np.average(values, weights=mass))

    def _set(self, found: Measured, K: Any, weights: np.ndarray | None, fixed: bool) -> None:
        parts = ordered(found, self.quantile, weights, fixed)
        total = float(parts.variances.sum()) + parts.rest
        s = parts.V.shape[1]
        dtype = np.dtype(K.dtype)
        self.n_components_ = s
        self.dual_coef_, self.center_coef_ = parts.V.astype(dtype), parts.center.astype(dtype)
        self.explained_variance_ = parts.variances.astype(dtype)
        self.explained_variance_ratio_ = (parts.variances / (total or 1.0)).astype(dtype)
        image = np.asarray(K.rmatmul(K.asarray(parts.center[:, None])).image, dtype=float)[:, 0]
        self._offset = image @ parts.V
        self._center_norm2 = float(image @ parts.center)
        self.score_cutoff_ = chi2_quantile(MAP, s) ** 0.5
        self.orthogonal_cutoff_ = found.cutoff(MAP)
        self.flags_by_ = "score" if found.flat else "orthogonal"
        self.score_distances_ = parts.score_distances.astype(dtype)
        self.orthogonal_distances_ = found.orthogonal
        limit = (
            chi2_quantile(self.quantile, s) ** 0.5 if found.flat else found.cutoff(self.quantile)
        )
        scores = self._normality_of(self.score_distances_, self.orthogonal_distances_)
        self._set_offset(self.contamination, limit, scores)
        self.outliers_ = scores < self.offset_

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
        X = self._checked(X, "transform")
        if self.approximation is not None:
            return self.pca_._scores(feature_operator(self.features_, X))
        return np.concatenate([self._image(X[rows])[0] for rows in self._chunks(X)])

    def _checked(self, X: Any, method: str) -> Any:
        check_is_fitted(self, "explained_variance_")
        return self._kernel_rows(X, reset=False)

    def _chunks(self, X: Any) -> list[slice]:
        return self._in_chunks(X, self.X_fit_.shape[0])

    def _image(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scores of rows, and their inner products with the centre."""
        K = X if self.kernel == "precomputed" else self._kernel(X, self.X_fit_)
        return K @ self.dual_coef_ - self._offset.astype(
            self.dual_coef_.dtype
        ), K @ self.center_coef_

    def _distances(self, X: Any) -> tuple[Array, Array]:
        if self.approximation is not None:
            return self.pca_._distances(feature_operator(self.features_, X))
        if self.kernel == "precomputed":
            raise ValueError(
                "the distances of new rows need k(x, x), which a precomputed kernel matrix does not "
                "hold; use orthogonal_distances_ and outliers_ for training rows, or give rows and a "
                "kernel function"
            )
        parts = []
        for rows in self._chunks(X):
            T, inner = self._image(X[rows])
            size2 = self._diagonal(X[rows]) - 2 * inner + self._center_norm2
            size = np.sqrt(np.clip(size2, 0.0, None)).astype(T.dtype)
            parts.append((score_distances(T, self.explained_variance_), between(size, T)))
        score, orthogonal = zip(*parts, strict=True)
        return np.concatenate(score), np.concatenate(orthogonal)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
