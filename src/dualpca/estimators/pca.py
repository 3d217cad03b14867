"""PCA as a scikit-learn estimator."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import RealNotInt, StrOptions

from ..linalg import Array, namespace
from ..linear.decomposition import Decomposition
from ..linear.likelihood import log_likelihood
from ..linear.limits import residual_powers
from ..linear.missing import observed_likelihood
from ..linear.resampling import by_data
from ..linear.selection import BY_DATA, METHODS
from ..operators import Operator, as_operator, from_gram, in_memory
from ..operators.views import check_energy
from ..progress import convergence
from ..solvers.spectral import SPECTRAL
from ..solvers.subspace import ITERATIVE, growing_subspace, leading_subspace
from . import _base as base
from ._base import validated
from ._fit_context import reports_progress
from ._missing import MISSING, decompose_incomplete, summary_of
from ._scores import CovarianceMixin
from ._streams import BatchesMixin


@dataclass(eq=False, repr=False)
class PCA(BatchesMixin, CovarianceMixin, BaseEstimator):
    """Principal component analysis at the accuracy that was asked for.

    Parameters
    ----------
    n_components : int, float, str or None
        The number of components, the fraction of the variance to explain (0 < f < 1), a method of
        :func:`dualpca.n_components` ("parallel", "gavish-donoho", "profile", "broken-stick", "gcv",
        "cv" or "mle"), or all of them, ``min(n_samples, n_features)``.
    whiten : bool
        Divide the scores by their standard deviation.
    center : bool
        Subtract the mean of each feature. False is the uncentred problem of the paper.
    rotation : {"varimax", "quartimax", "promax"} or None
        Turn the components so that each has few large loadings: loadings times standard deviations are
        rotated as R's ``varimax`` and ``promax`` do, promax to correlated scores. Scores, components and
        variances are those after it; distances, likelihood and covariance do not depend on it.
    solver : str or solver
        "auto", "lapack" (SVD of a dense array), "gram" (the smaller Gram matrix), "krylov" (one pass
        over the data a step), "chebyshev" (filtered subspace iteration, for GPUs), a solver of DC
        problems ("dca", "anderson", "proximal_gradient", "zerofpr", "simultaneous"), or an instance
        such as ``ZeroFPR(memory=10)``.
    formulation : str, callable or None
        The formulation of the paper, by letter (see :data:`dualpca.FORMULATIONS`), or a function that
        makes a :class:`dualpca.DCProblem` of an operator. Every letter gives the same components.
    tol : float
        The relative residual ``||C V - V Theta||_F / ||C V||_F`` to reach, C being the covariance.
        1e-4 leaves 1e-8 to 1e-7 of the variance; use 1e-8 to match scores digit by digit. On a GPU the
        variances have about three digits from 1e-2 on, where all products are in TF32.
    max_iter : int
        The most iterations; a ConvergenceWarning names the residual reached if that is not enough.
    random_state : int, RandomState instance or None
        The seed of the random start of iterative solvers.
    missing : {"error", "em", "shrink"}
        What cells that are NaN are. "em" fits those that are there by least squares; "shrink" also
        shrinks the components by their noise, which predicts better where cells are few. Both need a
        number of components, fit by completing X and PCA of it in turns, until the components change by
        ``tol``, and take dense data. Rows with holes then have the scores of their conditional mean.
    verbose : int
        1 shows a line of progress on standard error, 2 a line for each iteration.
    forget : float or None
        How :meth:`partial_fit` forgets. A number above 1 is a half-life: the weight of a row halves with
        each so many rows that come after it. A number between 0 and 1 is a factor: each batch multiplies
        the weights of all rows before it. None never forgets.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Principal axes, by decreasing variance; in each the entry of largest magnitude is positive.
    explained_variance_, explained_variance_ratio_, singular_values_ : arrays of shape (n_components,)
        The variances of the scores, their shares of the total, and the lengths of the scores.
    residual_powers_ : tuple of float, set by :func:`dualpca.control.calibrate`
    rotation_ : array of shape (n_components, n_components)
        With ``rotation``: the matrix T that rotated the loadings. ``inv(T.T @ T)`` are the correlations
        of the scores, and ``cumulative_variance_ratio_`` counts what they share once.
    mean_ : array of shape (n_features,), zeros where ``center=False``
    noise_variance_ : float
        The mean variance of the directions left out (probabilistic PCA).
    n_components_, n_samples_, n_features_in_ : int
    selection_ : Selection or None
        What a method chose the number of components by.
    residual_ : float
        The relative residual reached, including what rounding may hide.
    variance_shortfall_ : float
        An upper bound on ``1 - captured/optimum``, the relative shortfall in captured variance, also
        where singular values repeat; it fails with probability 1e-6 at most.
    n_iter_, n_passes_ : int
        Iterations, and passes over the data after validation.
    drift_ : Drift, after :meth:`partial_fit`
        How far the components have turned since the last :meth:`checkpoint`.
    memory_ : float
        How many rows the model remembers: the sum of the weights that ``forget`` leaves to them.
    convergence_ : list of (int, float), the passes and the residual at each tested iteration
    solver_ : str
        The solver that ran, the precision of its passes, and why it was chosen, such as
        "krylov (float32, C kernels): estimated gram 0.35 s, krylov 0.2 s".

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
        "n_components": [base.COUNT, base.FRACTION, StrOptions(set(METHODS)), None],
        "whiten": ["boolean"],
        "center": ["boolean"],
        "rotation": base.ROTATION,
        "solver": [StrOptions({"auto", *SPECTRAL, *ITERATIVE}), callable],
        "formulation": [str, callable, None],
        "missing": [StrOptions(MISSING)],
        "forget": base.FORGET,
        **base.ITERATION_CONSTRAINTS,
    }

    n_components: int | float | str | None = None
    _: KW_ONLY
    whiten: bool = False
    center: bool = True
    rotation: str | None = None
    solver: Any = "auto"
    formulation: Any = None
    tol: float = 1e-4
    max_iter: int = 1000
    random_state: Any = None
    verbose: int = 0
    missing: str = "error"
    forget: float | None = None

    def _fit(self, X: Any, sample_weight: Any) -> Any:
        X, data = self._decompose(X, sample_weight)
        self._forget_batches()
        self._set(data)
        return self._completed(X) if self._completes else X

    @reports_progress
    def path(self, X: Any, n_components: Any, sample_weight: Any = None) -> list[PCA]:
        """Fit models with several numbers of components, for the price of the largest.

        Parameters
        ----------
        X, sample_weight
            As in :meth:`fit`.
        n_components : sequence of int

        Returns
        -------
        models : list of PCA
            A fitted model for each number, in their order; self does not change.

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
        data = largest._decompose(X, sample_weight)[1]
        steps = convergence(data.passes, data.result.ritz.residual)
        for model in models:
            vars(model).update({k: v for k, v in vars(largest).items() if k.endswith("_in_")})
            model._set(data)
            model.convergence_ = [*steps[:-1], (data.passes, model.residual_)]
        return models

    def score_samples(self, X: Any) -> Array:
        """Return the log-likelihood of each row under probabilistic PCA.

        It is -inf where the model covariance is singular; ask for fewer components then.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
        """
        if self._completes and self.noise_variance_ > 0:
            self._check_kind(X, "score_samples")
            rows = validated(self, X, reset=False, sparse=False, finite=False)
            return observed_likelihood(as_operator(rows), self._completion(), self.noise_variance_)
        operator = as_operator(self._checked(X, "score_samples", sparse=False))
        return log_likelihood(operator, self.mean_, *self._gaussian())

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of :meth:`score_samples` of the rows; y is ignored."""
        values = self.score_samples(X)
        return float(namespace(values).mean(values))

    def _decompose(self, X: Any, sample_weight: Any, **choice: Any) -> tuple[Any, Decomposition]:
        """Return the validated X and its components; ``choice`` has options of "parallel" or "cv"."""
        if self.solver == "lapack" and isinstance(X, np.memmap):
            X = np.array(X)  # a full SVD holds the data in memory in any case
        if self._completes:
            X = base.validated(self, X, reset=True, rows=2, finite=False)
            summary = summary_of(X, getattr(self, "feature_names_in_", None))
            if summary.incomplete:
                return X, decompose_incomplete(self, X, sample_weight, summary)
        # The energy, which every fit computes, is finite only if all entries are.
        finite = sample_weight is not None or not in_memory(X)
        X = base.validated(self, X, reset=True, rows=2, finite=finite)
        operator, dense = as_operator(X), not (sp.issparse(X) or isinstance(X, Operator))
        s = self._to_compute(*operator.shape)
        if self.n_components in BY_DATA:
            self._check_in_memory(X, sample_weight)
        Xc, mean, mass = base.centered_rows(operator, sample_weight, self.center)
        energy = Xc.energy()
        if not (finite or math.isfinite(energy)):
            base.validated(self, X, reset=True, rows=2)
        check_energy(energy, Xc)
        names = ("solver", "formulation", "tol", "max_iter")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        options |= {"dense": dense, "energy": energy, "seed": base.seed(self.random_state)}
        subspace = cache(partial(leading_subspace, Xc, start=vars(self).get("_start"), **options))
        selection = None
        if self.n_components in BY_DATA:
            given = X, mean, energy, lambda s: subspace(s).ritz.theta
            selection = by_data(self.n_components, *given, seed=options["seed"], **choice)
            s = int(selection.numbers[-1])
        if isinstance(self.n_components, RealNotInt):
            result = growing_subspace(Xc, float(self.n_components) * energy, **options)
        else:
            result = subspace(s)
        known = result, energy, mass, mean, Xc.shape, operator.passes
        return X, Decomposition(*known, selection=selection)

    def _check_in_memory(self, X: Any, sample_weight: Any) -> None:
        """Refuse weights, and data whose columns cannot be permuted or whose cells cannot be filled."""
        method, remedy = self.n_components, "give a number, a fraction or 'gavish-donoho'"
        if sample_weight is not None:
            raise ValueError(f"n_components={method!r} takes no sample_weight; {remedy}")
        if isinstance(X, Operator) or (method == "cv" and sp.issparse(X)):
            kind = "an array" if method == "cv" else "an array or a sparse matrix"
            raise ValueError(f"n_components={method!r} needs {kind} in memory; {remedy}")

    def _begin_from(self, fitted: PCA) -> None:
        self._start = fitted._principal[0].T

    def _calibrate(self, X: Any, sample_weight: Any) -> None:
        """Set ``residual_powers_``, which limits of the squared residual of rows depend on.

        They come from the rows of the fit; None are those of :meth:`partial_fit`, which its sums hold.
        """
        if X is None:
            sums = self._sums_held()
            if sums.basis is not None:
                raise ValueError(
                    "X=None is for models of partial_fit alone; give the rows of the fit"
                )
            Xc, mass = as_operator(sums.R) if sums.S is None else from_gram(sums.S), sums.rows
        else:
            operator = as_operator(self._checked(X, "calibrate"))
            Xc, _, mass = base.centered_rows(operator, sample_weight, self.center)
        self.residual_powers_ = residual_powers(Xc, self._principal[0].T, mass)

    def _to_compute(self, N: float, d: int) -> int:
        """Return how many components to compute: None and most methods need the whole spectrum."""
        if self.n_components == "mle" and d > N:
            raise ValueError(
                f"n_components='mle' needs n_samples >= n_features, got {N} and {d}; give a number "
                "or a fraction of the variance"
            )
        if not isinstance(self.n_components, Integral):
            return int(min(N, d))
        base.check_components(int(self.n_components), N, d)
        return int(self.n_components)

    def _set(self, data: Decomposition) -> None:
        """Set the fitted attributes, for as many components as are asked for."""
        self._state, self._mass, self._energy = data.state, data.mass, data.energy
        ritz, (N, d), chosen = data.result.ritz, data.shape, data.select(self.n_components)
        n = data.count(self.n_components) if chosen is None else chosen.at_least_one()
        variance, ratio, total = data.variances()
        xp = namespace(ritz.theta)
        self.n_samples_, self.n_components_, self.selection_ = int(N), n, chosen
        self.components_ = ritz.V[:, :n].T
        self.singular_values_ = xp.sqrt(ritz.theta[:n])
        self.explained_variance_, self.explained_variance_ratio_ = variance[:n], ratio[:n]
        noise, rank = max(total - data.captured(n) / (data.mass - 1), 0.0), min(data.mass, d)
        self.noise_variance_ = noise / (rank - n) if n < rank else 0.0
        self.mean_ = ritz.V[:, 0] * 0.0 if data.mean is None else data.mean
        self._rotate()
        self.__dict__.pop("residual_powers_", None)  # of other rows
        if self.rotation is not None:
            self.singular_values_ = xp.sqrt(self.explained_variance_ * (data.mass - 1))
        self.residual_, self.variance_shortfall_ = ritz.leading(n).residual, data.shortfall(n)
        self.solver_, self.n_iter_ = data.result.note, data.result.steps
        self.n_passes_ = data.passes
        self.convergence_ = convergence(self.n_passes_, self.residual_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.solver != "lapack"
        return tags
