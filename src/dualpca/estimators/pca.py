"""PCA with scikit-learn's face."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array, namespace
from ..operators import Operator, as_operator, centered
from ..solvers import Ritz
from ._data import (
    check_number,
    check_same_kind,
    check_scores,
    is_dense_in_memory,
    seed,
    shifted,
    validated,
)
from ._likelihood import ProbabilisticMixin
from ._mle import minka_dimension
from ._subspace import DIRECT, ITERATIVE, leading_subspace, shortfall_of

__all__ = ["PCA"]


class PCA(ProbabilisticMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal component analysis at the accuracy that was asked for.

    Parameters
    ----------
    n_components : int, float, "mle" or None
        How many components: a number, the fraction of the variance to explain (0 < f < 1), Minka's
        maximum likelihood estimate, or all, ``min(n_samples, n_features)``.
    whiten : bool
        Divide the scores by their standard deviation.
    center : bool
        Subtract the mean of each feature. False is the uncentred problem of the paper.
    solver : str or solver
        "auto", "lapack" (full SVD of a dense array), "gram" (the smaller Gram matrix), "krylov" (block
        Krylov, one pass over the data a step), or a solver of DC problems: "dca",
        "proximal_gradient", "zerofpr", "simultaneous", or one with options of your own such as
        ``ZeroFPR(memory=10)``.
    formulation : str, callable or None
        The formulation of the paper to solve, by letter (see :data:`dualpca.FORMULATIONS`), or a
        function that makes a :class:`dualpca.DCProblem` of an operator. Every letter of PCA gives the
        same components; None leaves the choice to the solver.
    tol : float
        The relative residual ``||C V - V Theta||_F / ||C V||_F`` to reach, C being the covariance:
        the same for every solver and formulation. 1e-4 leaves 1e-8 to 1e-7 of the variance; single
        axes err by the residual over their gap, so use 1e-8 to match scores digit by digit.
    max_iter : int
        The most iterations; a ConvergenceWarning tells the residual reached.
    random_state : int, RandomState instance or None
        The seed of the random start of iterative solvers.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Principal axes, by decreasing variance; in each the entry of largest magnitude is positive.
    explained_variance_, explained_variance_ratio_, singular_values_ : arrays of shape (n_components,)
    mean_ : array of shape (n_features,)
        Zeros where ``center=False``.
    noise_variance_ : float
        The mean variance of the directions left out (probabilistic PCA).
    n_components_, n_samples_, n_features_in_ : int
    residual_ : float
        The relative residual that was reached, measured in one pass after the fit.
    variance_shortfall_ : float
        An upper bound on the relative shortfall in captured variance, ``1 - captured/optimum``, from
        the residuals and the Ritz values beyond ``n_components`` (see
        :func:`dualpca.solvers.krylov.shortfall_bound` for the theorem and what it assumes).
    n_iter_, n_passes_ : int
        Iterations, and readings of the data after validation.
    solver_ : str
        The solver that ran, the precision of its passes where it had a choice, and why this one, as
        in "krylov (float32): estimated gram 0.35 s, krylov 0.2 s".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualpca import PCA
    >>> X = load_digits().data
    >>> pca = PCA(n_components=3).fit(X)
    >>> pca.transform(X).shape
    (1797, 3)
    >>> pca.explained_variance_ratio_.round(3).tolist()
    [0.149, 0.136, 0.118]
    >>> PCA(n_components=3, formulation="o", random_state=0).fit(X).residual_ <= 1e-4
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            StrOptions({"mle"}),
            None,
        ],
        "whiten": ["boolean"],
        "center": ["boolean"],
        "solver": [StrOptions({"auto", *DIRECT, *ITERATIVE}), callable],
        "formulation": [str, callable, None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        whiten: bool = False,
        center: bool = True,
        solver: Any = "auto",
        formulation: Any = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.center = center
        self.solver = solver
        self.formulation = formulation
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> PCA:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame or memory map of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit the model and return the scores of X.

        Parameters
        ----------
        X : array, sparse matrix, data frame or memory map of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        return self._scores(self._fit(X))

    def _fit(self, X: Any) -> Any:
        self._validate_params()
        check_number(self.n_components)
        X = validated(self, X, reset=True, rows=2)
        if self.solver == "lapack" and isinstance(X, np.memmap):
            X = np.asarray(X)  # a full SVD holds the data in memory in any case
        operator = as_operator(X)
        s = self._to_compute(*operator.shape)
        Xc = centered(operator) if self.center else operator
        energy = Xc.energy()
        if not math.isfinite(energy):
            raise ValueError(
                f"X has entries so large that their squares overflow {Xc.dtype}; divide X by its "
                "largest magnitude"
            )
        found = leading_subspace(
            Xc,
            s,
            dense=is_dense_in_memory(X),
            energy=energy,
            solver=self.solver,
            formulation=self.formulation,
            tol=self.tol,
            max_iter=self.max_iter,
            seed=seed(self.random_state),
        )
        self._set_components(Xc, found.ritz, energy)
        n = self.n_components_
        self.residual_ = found.ritz.leading(n).residual
        self.variance_shortfall_ = found.shortfall if n == s else shortfall_of(found.ritz, n)
        self.solver_ = found.solver
        self.n_iter_ = found.iterations
        self.n_passes_ = operator.passes
        return X

    def _to_compute(self, N: int, d: int) -> int:
        """How many components to compute: a fraction, "mle" and None need the whole spectrum."""
        n, limit = self.n_components, min(N, d)
        if n == "mle" and d > N:
            raise ValueError(
                f"n_components='mle' needs n_samples >= n_features, got {N} and {d}; give a number "
                "or a fraction of the variance"
            )
        if not isinstance(n, Integral):
            return limit
        if n > limit:
            raise ValueError(
                f"n_components={n} must be between 1 and min(n_samples, n_features)={limit}; "
                "ask for fewer components"
            )
        return int(n)

    def _set_components(self, Xc: Operator, ritz: Ritz, energy: float) -> None:
        N, d = Xc.shape
        xp = namespace(ritz.theta)
        variance = ritz.theta / (N - 1)
        total = energy / (N - 1)
        ratio = variance / total if total > 0 else variance
        n = ritz.theta.shape[0]
        if self.n_components == "mle":
            n = minka_dimension(np.array([float(v) for v in variance]), N)
        elif self.n_components is not None and not isinstance(self.n_components, Integral):
            reached = xp.cumulative_sum(ratio) <= self.n_components
            n = min(n, int(xp.sum(xp.astype(reached, xp.int64))) + 1)
        self.n_samples_, self.n_components_ = N, n
        self.components_ = ritz.V[:, :n].T
        self.singular_values_ = xp.sqrt(ritz.theta[:n])
        self.explained_variance_ = variance[:n]
        self.explained_variance_ratio_ = ratio[:n]
        rest = max(total - float(xp.sum(self.explained_variance_)), 0.0)
        self.noise_variance_ = rest / (min(N, d) - n) if n < min(N, d) else 0.0
        centre = Xc.center if self.center else ritz.V * 0.0  # type: ignore[attr-defined]
        self.mean_ = centre[:, 0]

    def transform(self, X: Any) -> Array:
        """The scores of new rows.

        Parameters
        ----------
        X : array, sparse matrix, data frame or memory map of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        check_same_kind(X, self.components_, f"{type(self).__name__}.transform")
        return self._scores(validated(self, X, reset=False))

    def _scores(self, X: Any) -> Array:
        operator = shifted(X, self.mean_) if self.center else as_operator(X)
        return operator @ (self.components_ / self._scale()).T

    def _scale(self) -> Array:
        """What the axes are divided by: standard deviations where whitening, else 1."""
        xp = namespace(self.explained_variance_)
        one = xp.ones_like(self.explained_variance_)
        if not self.whiten:
            return one[:, None]
        # A direction without variance has no scale but the largest: its scores stay 0, not 0/0.
        deviation = xp.sqrt(self.explained_variance_)
        top = float(deviation[0])
        size = max(self.n_samples_, self.n_features_in_)
        # Variances are eigenvalues of a float64 Gram matrix, rounded at eps of the largest.
        rounding = math.sqrt(float(np.finfo(np.float64).eps) * size)
        floor = max(float(xp.finfo(deviation.dtype).eps) * size, rounding) * top
        return xp.where(deviation > floor, deviation, one * (top if top > 0 else 1.0))[:, None]

    def inverse_transform(self, X: Any) -> Array:
        """Rows from scores: the nearest points of the principal subspace, in the data's units.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)

        Returns
        -------
        rows : array of shape (n_samples, n_features)
        """
        check_is_fitted(self, "components_")
        check_same_kind(X, self.components_, f"{type(self).__name__}.inverse_transform")
        scores = check_scores(X, self.n_components_)
        return scores @ (self.components_ * self._scale()) + self.mean_

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.solver != "lapack"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = True
        return tags
