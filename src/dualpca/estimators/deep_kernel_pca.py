"""Stacked kernel PCA as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from ..kernels.deep import DeepProblem, Expansion, State, ordered
from ..kernels.deep_rows import RowEquations
from ..kernels.deep_solver import DeepFit, maximize
from ..kernels.gradients import Rows
from ..kernels.pairwise import row_slices
from ..linalg import Array, eps, is_single, norm
from ..operators import Operator
from ..progress import convergence
from ..solvers.solve import user_stacklevel
from ..solvers.subspace import warn_above
from ._base import ITERATION_CONSTRAINTS, NOT_NEGATIVE, seed, validated
from ._fit_context import FitContext, reports_progress
from ._kernels import CHUNK_BYTES, check_pairs
from ._levels import level_models, stacked
from .kernel_pca import KernelPCA


@dataclass(eq=False, repr=False)
class DeepKernelPCA(FitContext, BaseEstimator):
    """Stacked kernel PCA: each level is a kernel PCA of the hidden features of the level below.

    All levels are fitted together (Tonin, Tao, Patrinos and Suykens 2024, "Deep kernel principal
    component analysis for multi-level feature learning"): they

        maximize sum_j coupling^(j-1) tr(H_j^T K_j(H_{j-1}) H_j) / (2 t_j), H_j^T H_j = I,

    K_1 being the centred kernel of X, K_j that of the rows of ``sqrt(n_samples - 1) H_{j-1}``, and t_j
    the trace of K_j where the levels are fitted one after another, which is the start. Level j is moved
    by the levels below it, through its kernel, and by the level above it, through the gradient of that
    level's term. The solver is DCA on all levels at once, then Newton; the objective never falls, and
    the end is a stationary point, not always the global maximum.

    Parameters
    ----------
    levels : list of KernelPCA or of dict, or None
        One kernel PCA for each level, from the data upwards: an unfitted :class:`dualpca.KernelPCA`,
        or its parameters. The first may have any kernel; those above it have "rbf", "poly", "sigmoid"
        or "linear", whose derivatives the level below needs. ``n_components``, ``gamma`` and features
        of an approximation are settled at the start. None is two RBF levels, of 20 and 10 components.
    coupling : float
        The weight of a level relative to the one below it; 0 fits the levels one after another.
    tol : float
        Stop when ``||Z_j - H_j Lambda_j|| <= tol ||Z_j||`` at all levels, Z_j being the gradient by
        H_j (centred) and ``Lambda_j = H_j^T Z_j``.
    max_iter : int
        Give up, with a ConvergenceWarning, after about so many evaluations of the objective.
    random_state, verbose
        As in :class:`dualpca.PCA`.

    Attributes
    ----------
    hidden_features_ : list of arrays of shape (n_samples, n_components of the level)
        ``sqrt(n_samples - 1) H_j``: columns of unit variance that do not correlate, in the order of
        ``multipliers_``.
    multipliers_ : list of arrays
        The diagonals of Lambda_j, decreasing. At the last level they are eigenvalues of K_j over t_j.
    level_variance_ratios_ : list of arrays
        For each level the share of the variance of its K_j that each column of H_j holds.
    eigenvalues_, explained_variance_, explained_variance_ratio_ : arrays of shape (n_components,)
        Of the last level, as in :class:`dualpca.KernelPCA`.
    objective_ : float
    objectives_ : array
        The objective of each iterate; it does not fall.
    residual_ : float
    n_components_, n_samples_, n_features_in_, n_iter_
        As in :class:`dualpca.PCA`; an iteration is an evaluation of the objective.

    Notes
    -----
    The hidden features of a new row solve the stationarity conditions of that row, with those of the
    training rows fixed. The solver starts at the training row with the nearest scores at level 1, so
    that training rows come out as they were. Where the coupling is strong, these conditions may have
    several solutions.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualpca import DeepKernelPCA, KernelPCA
    >>> X = load_digits().data[:200]
    >>> levels = [KernelPCA(8, kernel="rbf", gamma="median"), KernelPCA(3, kernel="rbf")]
    >>> model = DeepKernelPCA(levels, random_state=0).fit(X[:150])
    >>> model.transform(X[150:]).shape
    (50, 3)
    >>> [ratios.shape for ratios in model.level_variance_ratios_]
    [(8,), (3,)]
    >>> bool(model.residual_ <= 1e-6)
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **ITERATION_CONSTRAINTS,
        "levels": [list, tuple, None],
        "coupling": [NOT_NEGATIVE],
    }

    levels: Any = None
    _: KW_ONLY
    coupling: float = 0.1
    tol: float = 1e-6
    max_iter: int = 2000
    random_state: Any = None
    verbose: int = 0

    @reports_progress
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit all levels.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Files too where the first level has an approximation, and the kernel matrix where its kernel
            is "precomputed".
        y : ignored

        Returns
        -------
        self
        """
        self._fit(X)
        return self

    @reports_progress
    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit all levels and return the scores of X at the last one.

        Parameters
        ----------
        X, y
            As in :meth:`fit`.

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        self._fit(X)
        return self._scores(self.hidden_features_[-1])

    def _fit(self, X: Any) -> None:
        models = level_models(self.levels)
        X = self._checked(X, models[0], reset=True)
        self._is_single = is_single(X)
        rows = X if isinstance(X, Operator) else X.astype(np.float64, copy=False)
        self._first = models[0]
        problem, H = stacked(models, rows, self.coupling, self.tol, seed(self.random_state))
        # Rounding of float32 features leaves a residual.
        tol = max(self.tol, 100 * eps(rows))
        if self.coupling > 0 and len(models) > 1:
            fit = maximize(problem, H, tol=tol, max_iter=self.max_iter)
        else:
            state = problem.at(H)
            fit = DeepFit(state, 0.0, [state.objective], 1)
        problem, state = ordered(problem, fit.state)
        self.residual_, self.n_iter_ = state.residual, fit.evaluations
        warn_above(self.residual_, tol, "DeepKernelPCA", self.max_iter)
        self._set(problem, state, rows)
        self.objectives_ = np.array(fit.objectives)
        self.convergence_ = convergence(self.n_iter_, self.residual_)
        self._shift = fit.shift

    def _checked(self, X: Any, first: KernelPCA, *, reset: bool) -> Any:
        """Return X checked for the first level."""
        exact = first.approximation is None
        if exact:
            check_pairs(X, "DeepKernelPCA with approximation=None at level 1")
        options = {"sparse": first.kernel != "precomputed", "streamed": not exact}
        X = validated(self, X, reset=reset, rows=2 if reset else 1, only_numpy=True, **options)
        if getattr(X, "is_distributed", False):
            raise ValueError(
                "DeepKernelPCA keeps a hidden row for each row of X in memory, and takes no data on a "
                "cluster; give an array, a file, or a sample of the rows"
            )
        return X

    def _set(self, problem: DeepProblem, state: State, X: Any) -> None:
        """Set the attributes of the levels, and what new rows need."""
        N, levels = X.shape[0], problem.levels
        self.n_samples_, self.objective_ = N, state.objective
        self.hidden_features_ = [problem.unit * h for h in state.H]
        self.multipliers_ = [np.diag(S).copy() for S in state.Lambda]
        totals = [problem.total, *(level.total for level in levels)]
        below = zip(levels, self.hidden_features_, strict=False)
        traces = [problem.total, *(level.trace(U) for level, U in below)]
        held = [
            np.clip(np.sum(h * image, axis=0) * total, 0.0, None)
            for h, image, total in zip(state.H, state.images, totals, strict=True)
        ]
        self.level_variance_ratios_ = [v / t for v, t in zip(held, traces, strict=True)]
        self.eigenvalues_, self.explained_variance_ = held[-1], held[-1] / (N - 1)
        self.explained_variance_ratio_ = self.level_variance_ratios_[-1]
        self.n_components_ = len(held[-1])
        self._totals, self._means, self._first_scores = totals, state.means, state.images[0]
        # New rows are solved to what the fit has left in the worst training row.
        parts = zip(state.H[:-1], state.Z, self.multipliers_, strict=False)
        left2 = sum((np.sum((Z - h * size) ** 2, axis=1) for h, Z, size in parts), np.zeros(N))
        size = self.tol * norm(state.Z[0]) / np.sqrt(N)
        self._row_limit = 1.001 * float(np.sqrt(left2.max())) + size
        self._above = [(level.kernel, level.features) for level in levels]
        coefficients = state.H[0]
        if self._first.approximation is not None:
            Phi = self._first._features(X)
            coefficients = np.asarray(Phi.rmatmul(Phi.asarray(coefficients)), dtype=float)
        self._coefficients = [coefficients, *(f.A for f in state.expansions)]

    def transform(self, X: Any) -> Array:
        """Return the scores of new rows at the last level.

        Parameters
        ----------
        X : array, sparse matrix, data frame or file of shape (n_samples, n_features)
            For a precomputed kernel the kernels of new rows with the training rows.

        Returns
        -------
        scores : array of shape (n_samples, n_components)
            As those of :class:`dualpca.KernelPCA`: their variances over the training rows are
            ``explained_variance_``.
        """
        return self._scores(self._levels_of(X)[-1])

    def transform_levels(self, X: Any) -> list[Array]:
        """Return the hidden features of new rows at all levels, from the first to the last.

        Parameters
        ----------
        X
            As in :meth:`transform`.

        Returns
        -------
        features : list of arrays of shape (n_samples, n_components of the level)
            In the units of ``hidden_features_``; those of the last level times the standard deviations
            ``sqrt(explained_variance_)`` are the scores.
        """
        return [self._as_given(h) for h in self._levels_of(X)]

    def _as_given(self, values: Array) -> Array:
        """Return the values in the precision of the training rows; the fit is in float64."""
        return values.astype(np.float32 if self._is_single else np.float64)

    def _scores(self, hidden: Array) -> Array:
        return self._as_given(hidden * np.sqrt(self.explained_variance_))

    def _equations(self) -> RowEquations:
        below = self.hidden_features_[:-1]
        parts = zip(self._above, self._coefficients[1:], self._totals[1:], below, strict=True)
        above = [
            Expansion(Rows(U, kernel) if features is None else features, A, total)
            for (kernel, features), A, total, U in parts
        ]
        unit = float(np.sqrt(self.n_samples_ - 1))
        return RowEquations(above, self.multipliers_, self._means, self.coupling, unit)

    def _levels_of(self, X: Any) -> list[Array]:
        check_is_fitted(self, "hidden_features_")
        X = self._checked(X, self._first, reset=False)
        equations, parts, left = self._equations(), [], 0.0
        limit = self._row_limit
        for first in self._first_level(X):
            nearest = pairwise_distances_argmin(first, self._first_scores)
            start = [U[nearest] / equations.unit for U in self.hidden_features_[:-1]]
            hidden, remaining = equations.solve(first, start, self._shift, limit)
            parts.append([equations.unit * h for h in hidden])
            left = max(left, remaining)
        if left > limit:
            warnings.warn(
                f"the equations of some new rows are left with {left:.1e}, where those of training rows "
                f"have at most {limit:.1e}; a smaller coupling makes them easier to solve",
                ConvergenceWarning,
                stacklevel=user_stacklevel(),
            )
        return [np.concatenate(level) for level in zip(*parts, strict=True)]

    def _first_level(self, X: Any) -> Iterator[Array]:
        """Yield ``K_1(X, training rows) H_1 / t_1`` by blocks of rows."""
        A, total = self._coefficients[0], self._totals[0]
        if self._first.approximation is not None:
            Phi = self._first._features(X)
            widest = max(len(A), *(len(a) for a in self._coefficients))
            scores = np.asarray(Phi.matmul(Phi.asarray(A)), dtype=float) / total
            step = max(1, CHUNK_BYTES // (8 * widest))
            yield from (scores[rows] for rows in row_slices(len(scores), step))
            return
        rows = X.astype(np.float64, copy=False)
        for _, K in self._first._kernel_blocks(rows):
            yield K @ A / total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        first = self.levels[0] if self.levels else None
        kernel = first.get("kernel") if isinstance(first, dict) else getattr(first, "kernel", None)
        tags.input_tags.sparse = kernel != "precomputed"
        tags.input_tags.pairwise = kernel == "precomputed"
        return tags
