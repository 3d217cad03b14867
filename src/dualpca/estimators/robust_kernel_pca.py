"""Robust kernel PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions

from ..kernels.eigen import Ends, check_definite
from ..linalg import Array
from ..progress import convergence, phase
from ..robust.distances import (
    RobustComponents,
    RowDistances,
    orthogonal_distance,
    robust_components,
    score_distances,
)
from ..robust.fit import RobustOptions, fit_robust
from ..robust.starts import STARTS
from ._kernels import KERNEL_CONSTRAINTS, KernelMixin
from ._outliers import MAP, ROBUST_CONSTRAINTS, OutlierScoresMixin
from .robust_pca import RobustPCA


@dataclass(eq=False, repr=False)
class RobustKernelPCA(KernelMixin, OutlierScoresMixin, BaseEstimator):
    """Kernel PCA that bad rows do not move, and that flags them.

    It is :class:`dualpca.RobustPCA` in feature space, by the dual DCA of the paper (Algorithm 6), from K
    alone. With a linear kernel it finds what RobustPCA finds.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params, n_jobs
        As in :class:`dualpca.KernelPCA`.
    approximation, n_landmarks, landmarks, n_random_features
        As in :class:`dualpca.KernelPCA`; the fit is RobustPCA of the features then.
    n_components, loss, normalize, refit, quantile, flag, contamination
        As in :class:`dualpca.RobustPCA`; ``n_components=None`` is for kernels of low rank.
    tol, max_iter, random_state, verbose
        As in :class:`dualpca.RobustPCA`.
    center : {"joint", "geometric_median", "mean"} or None
        The centre in feature space.
    init : str or list of str
        As in RobustPCA, by name; starts see at most 1000 rows, or 2000 with an approximation.
    solver : {"auto", "anderson", "dca"} or solver

    Attributes
    ----------
    axes_coef_ : array of shape (n_samples, n_components)
        The axes are ``Gamma^T axes_coef_``; not with an approximation.
    center_coef_ : array of shape (n_samples,)
        The centre is ``Gamma^T center_coef_``; not with an approximation.
    explained_variance_, weights_, outliers_, offset_, residual_ and the others
        As in :class:`dualpca.RobustPCA`, which has also ``components_`` and ``mean_``. The noise has
        the directions that the training rows span beside the components.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import RobustKernelPCA
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 200)
    >>> X = np.c_[np.cos(angle), np.sin(angle)] + 0.1 * rng.standard_normal((200, 2))
    >>> X[:10] = 0.1 * rng.standard_normal((10, 2))
    >>> model = RobustKernelPCA(n_components=4, kernel="rbf", gamma=2.0, random_state=0).fit(X)
    >>> int(model.outliers_[:10].sum())
    10
    """

    _of_features = True

    _parameter_constraints = {  # noqa: RUF012
        **KERNEL_CONSTRAINTS,
        **ROBUST_CONSTRAINTS,
        "center": [StrOptions({"joint", "geometric_median", "mean"}), None],
        "init": [StrOptions({"auto", *STARTS}), list, tuple],
        "solver": [StrOptions({"auto", "anderson", "dca"}), callable],
    }

    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: Any = "median"
    random_state: Any = None
    verbose: int = 0

    def _fit(self, X: Any, sample_weight: Any) -> Any:
        X = self._kernel_rows(X, reset=True, rows=2)
        rows, weights, present, rng = self._prepared(X, sample_weight)
        if self.approximation is None:
            self._fit_exact(X, weights, rng)
        else:
            self.features_ = self._feature_map(rows, rng)
            self._fit_features(X, weights, present, rng)
        return X

    def _fit_features(
        self, X: Any, weights: Any, present: np.ndarray | None, rng: np.random.Generator
    ) -> None:
        """Fit RobustPCA of the features; distances include what landmarks do not span (Pythagoras)."""
        operator = self._features(X)
        options = {field.name: getattr(self, field.name) for field in fields(RobustOptions)}
        model = RobustPCA(**options, random_state=int(rng.integers(2**31)))
        model._of_features = True
        self.pca_ = model.fit(operator, sample_weight=weights)
        steps, rows = model.convergence_, None
        if self.approximation == "nystroem":
            rows = self._row_distances(X, operator, weights, present)
            beyond = rows.orthogonal > rows.limit(self.quantile)
            mass = (1.0 if weights is None else weights) * ~beyond
            inside = model.orthogonal_distances_ <= model.limits_[1]
            new = beyond & ~model.outliers_ & inside
            new = new if weights is None else new & (weights > 0)
            if self.refit and new.any() and (mass > 0).sum() > 2 * model.n_components_:
                with phase("refit"):
                    self.pca_ = model.fit(operator, sample_weight=mass)
                rows = self._row_distances(X, operator, weights, present)
        del model._of_features  # fits ask for it, files cannot hold it
        self._take(model)
        self._noise_directions = model._noise_directions
        self.noise_variance_ = model.noise_variance_
        if rows is not None:
            self.noise_variance_ = self._noise(robust_components(rows, self.quantile, False))
            self.orthogonal_cutoff_ = rows.cutoff(MAP)
            self._flag(rows, model.score_distances_, rows.orthogonal, rows.counted)
        self.n_passes_ = operator.passes
        self.convergence_ = [*steps[:-1], (self.n_passes_, self.residual_)]

    def _row_distances(
        self, X: Any, operator: Any, weights: Array | None, present: np.ndarray | None
    ) -> RowDistances:
        """Return the distances of the training rows in feature space."""
        pca = self.pca_
        orthogonal = np.hypot(pca.orthogonal_distances_, self._unspanned(X, operator))
        T, orthogonal = operator.persist_rows(pca._scores(operator), orthogonal)
        counted = None if operator.is_distributed else present  # there a sample is on the host
        V = pca.components_.T
        given: dict[str, Any] = {"counted": counted, "directions": max(pca._noise_directions, 1)}
        return RowDistances(pca._origin, V, T, orthogonal, weights, **given)

    def _fit_exact(self, X: Any, weights: Any, rng: np.random.Generator) -> None:
        K = self._kernel_operator(X)

        def between(rows: np.ndarray) -> np.ndarray:
            if self.kernel == "precomputed":
                return X[np.ix_(rows, rows)]
            return self._kernel_function()(X[rows], X[rows])

        def check_spectrum(values: np.ndarray, s: int) -> None:
            ends = Ends(*(float(values[i]) for i in (s - 1, -1, 0)))
            check_definite(self.kernel, bool(self.center), values[:s].clip(0), ends, by_size=True)

        mass = None if weights is None else np.asarray(weights, dtype=float)
        check = None if self._is_definite else check_spectrum
        fit = fit_robust(K, self, rng, mass, between, check)
        self._set_fit(fit, K)
        parts = fit.components
        self.n_samples_, self._noise_directions = X.shape[0], fit.directions
        self.noise_variance_ = self._noise(parts)
        self._keep(X)
        self.axes_coef_, self.center_coef_ = K.asarray(parts.V), K.asarray(parts.center)
        image = np.asarray(K.rmatmul(self.center_coef_[:, None]).image, dtype=float)[:, 0]
        self._offset = image @ parts.V
        self._center_norm2 = float(image @ parts.center)
        score = K.asarray(parts.score_distances)
        self._flag(fit.rows, score, fit.rows.orthogonal, fit.rows.counted)
        self.weights_ = K.asarray(fit.weights)
        self.n_passes_ = K.passes
        self.convergence_ = convergence(self.n_passes_, self.residual_)
        self._warn_of_doubt(fit)

    def _noise(self, components: RobustComponents) -> float:
        """Return the mean variance of good rows in a direction beside the components."""
        return components.residual_variance / max(self._noise_directions, 1)

    def fit_predict(self, X: Any, y: Any = None, **params: Any) -> Array:
        """Fit the model to X, with the ``params`` of :meth:`fit`, and return +1 or -1 for each row.

        Outliers have -1. This method is there for a precomputed kernel too, unlike :meth:`predict`.
        """
        return 1 - 2 * self.fit(X, **params).outliers_.astype(np.int64)

    def _distances(self, X: Any) -> tuple[Array, Array]:
        if self.approximation is not None:
            operator = self._features(X)
            score, orthogonal = self.pca_._distances(operator)
            if self.approximation == "nystroem":
                orthogonal = np.hypot(orthogonal, self._unspanned(X, operator))
            return score, orthogonal
        self._check_new_rows()
        parts = []
        for rows, K in self._kernel_blocks(X):
            size2, T, inner = self._diagonal(rows), self._scores_of(K), K @ self.center_coef_
            squares = np.stack([size2 - 2 * inner + self._center_norm2, size2])
            norms, sizes = np.sqrt(np.clip(squares, 0.0, None)).astype(T.dtype)
            orthogonal = orthogonal_distance(norms, T, sizes)
            parts.append([score_distances(T, self.explained_variance_), orthogonal])
        score, orthogonal = map(np.concatenate, zip(*parts, strict=True))
        return score, orthogonal
