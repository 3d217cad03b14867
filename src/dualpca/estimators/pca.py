"""PCA with scikit-learn's face."""

from __future__ import annotations

from contextlib import nullcontext
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from ..linalg import Array, namespace
from ..linear.dimension import minka_dimension
from ..linear.incremental import PartialFitMixin
from ..linear.likelihood import ProbabilisticMixin
from ..operators import Operator, as_operator
from ..progress import convergence
from ..solvers.subspace import (
    DIRECT,
    ITERATIVE,
    TINY,
    Decomposition,
    growing_subspace,
    leading_subspace,
)
from ._base import (
    centered_rows,
    check_components,
    check_energy,
    check_number,
    is_dense_in_memory,
    seed,
    validated,
)
from ._fit_context import FitContext, reports_progress
from ._scores import ScoresMixin

__all__ = ["PCA"]


class PCA(FitContext, ProbabilisticMixin, PartialFitMixin, ScoresMixin, BaseEstimator):
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
        Krylov, one pass over the data a step), "chebyshev" (filtered subspace iteration, for GPUs),
        or a solver of DC problems: "dca", "proximal_gradient", "zerofpr", "simultaneous", or one
        with options of your own such as ``ZeroFPR(memory=10)``.
    formulation : str, callable or None
        The formulation of the paper to solve, by letter (see :data:`dualpca.FORMULATIONS`), or a
        function that makes a :class:`dualpca.DCProblem` of an operator. Every letter of PCA gives the
        same components, as only the span of its solution is used; None leaves the choice to the solver.
    tol : float
        The relative residual ``||C V - V Theta||_F / ||C V||_F`` to reach, C being the covariance:
        the same for every solver and formulation. 1e-4 leaves 1e-8 to 1e-7 of the variance; single
        axes err by the residual over their gap, so use 1e-8 to match scores digit by digit.
    max_iter : int
        The most iterations; a ConvergenceWarning tells the residual reached.
    random_state : int, RandomState instance or None
        The seed of the random start of iterative solvers.
    verbose : int
        1 shows a line of progress on standard error, 2 a line for each iteration.

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
        The relative residual that was reached, with what rounding may hide included; after
        :meth:`partial_fit` that of all rows seen, or an upper bound on it.
    variance_shortfall_ : float
        An upper bound on the relative shortfall in captured variance, ``1 - captured/optimum``, also
        where singular values repeat; it fails with probability 1e-6 at most (see
        :class:`dualpca.solvers.certificate.Certificate`).
    n_iter_, n_passes_ : int
        Iterations, and readings of the data after validation.
    convergence_ : list of (int, float)
        Passes over the data and the residual, at each iteration that was tested.
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
        "verbose": ["verbose"],
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
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.center = center
        self.solver = solver
        self.formulation = formulation
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @reports_progress
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PCA:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How often each row counts: a weight of 2 is the row twice, 0 leaves it out.

        Returns
        -------
        self
        """
        self._set(self._decompose(X, sample_weight)[1])
        return self

    @reports_progress
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit the model and return the scores of X.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        y : ignored
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        X, found = self._decompose(X, sample_weight)
        self._set(found)
        return self._scores(X)

    @reports_progress
    def path(self, X: Any, n_components: Any, sample_weight: Any = None) -> list[PCA]:
        """Models with several numbers of components, for the price of the largest.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        n_components : sequence of int
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        models : list of PCA
            One for each number, in their order, fitted; self is left as it is.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> models = PCA().path(load_digits().data, [5, 10, 20])
        >>> [round(float(m.explained_variance_ratio_.sum()), 2) for m in models]
        [0.54, 0.74, 0.89]
        """
        sizes = list(n_components)
        if not sizes or not all(isinstance(n, Integral) for n in sizes):
            raise ValueError(
                f"n_components={n_components!r} must be a sequence of integers, such as [5, 10, 20]"
            )
        models = [clone(self).set_params(n_components=n) for n in sizes]
        for model in models:
            model._validate_params()
        largest = clone(self).set_params(n_components=max(sizes))
        _, found = largest._decompose(X, sample_weight)
        steps = convergence(found.passes, found.subspace.ritz.residual)
        for model in models:
            model.n_features_in_ = largest.n_features_in_
            if hasattr(largest, "feature_names_in_"):
                model.feature_names_in_ = largest.feature_names_in_
            model._set(found)
            model.convergence_ = [*steps[:-1], (found.passes, model.residual_)]
        return models

    def _decompose(self, X: Any, sample_weight: Any) -> tuple[Any, Decomposition]:
        self._validate_params()
        check_number(self.n_components)
        if self.solver == "lapack" and isinstance(X, np.memmap):
            X = np.array(X)  # a full SVD holds the data in memory in any case
        X = validated(self, X, reset=True, rows=2)
        operator = as_operator(X)
        dense = is_dense_in_memory(X)
        with operator.blas_limited() if dense else nullcontext():
            return X, self._found(operator, sample_weight, dense=dense)

    def _found(self, operator: Operator, sample_weight: Any, *, dense: bool) -> Decomposition:
        limit = self._to_compute(*operator.shape)
        Xc, mean, mass = centered_rows(operator, sample_weight, self.center)
        energy = Xc.energy()
        check_energy(energy, Xc)
        options = {
            "dense": dense,
            "energy": energy,
            "solver": self.solver,
            "formulation": self.formulation,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "seed": seed(self.random_state),
        }
        if isinstance(self.n_components, Real) and not isinstance(self.n_components, Integral):
            found = growing_subspace(Xc, float(self.n_components) * energy, **options)
        else:
            found = leading_subspace(Xc, limit, **options)
        return Decomposition(found, energy, mass, mean, Xc.shape, operator.passes)

    def _to_compute(self, N: int, d: int) -> int:
        """How many components to compute: "mle" and None need the whole spectrum."""
        n, limit = self.n_components, min(N, d)
        if n == "mle" and d > N:
            raise ValueError(
                f"n_components='mle' needs n_samples >= n_features, got {N} and {d}; give a number "
                "or a fraction of the variance"
            )
        if not isinstance(n, Integral):
            return limit
        check_components(int(n), N, d)
        return int(n)

    def _set(self, found: Decomposition) -> None:
        """The fitted attributes, for as many components as are asked for."""
        self._state, self._mass, self._energy = found.state, found.mass, found.energy
        ritz = found.subspace.ritz
        N, d = found.shape
        xp = namespace(ritz.theta)
        variance = ritz.theta / (found.mass - 1)
        total = found.energy / (found.mass - 1)
        ratio = variance / total if total > 0 else variance
        n = ritz.theta.shape[0]
        if self.n_components == "mle":
            n = minka_dimension(np.array([float(v) for v in variance]), round(found.mass))
        elif isinstance(self.n_components, Integral):
            n = int(self.n_components)
        elif self.n_components is not None:
            reached = xp.cumulative_sum(ratio) <= self.n_components
            n = min(n, int(xp.sum(xp.astype(reached, xp.int64))) + 1)
        self.n_samples_, self.n_components_ = int(N), n
        self.components_ = ritz.V[:, :n].T
        self.singular_values_ = xp.sqrt(ritz.theta[:n])
        self.explained_variance_ = variance[:n]
        self.explained_variance_ratio_ = ratio[:n]
        rest = max(total - float(xp.sum(self.explained_variance_)), 0.0)
        rank: float = min(found.mass, d)
        self.noise_variance_ = rest / (rank - n) if n < rank else 0.0
        self.mean_ = ritz.V[:, 0] * 0.0 if found.mean is None else found.mean
        self.residual_ = ritz.leading(n).residual
        self.variance_shortfall_ = found.subspace.shortfall(n)
        self.variance_shortfall_ += found.discarded / max(float(xp.sum(ritz.theta[:n])), TINY)
        self.solver_ = found.subspace.solver
        self.n_iter_ = found.subspace.iterations
        self.n_passes_ = found.passes
        self.convergence_ = convergence(self.n_passes_, self.residual_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.solver != "lapack"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = True
        return tags
