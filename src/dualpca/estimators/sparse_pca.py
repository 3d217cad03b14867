"""Sparse PCA as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from ..linalg import Array, fix_signs, namespace, orthonormalize, to_numpy
from ..linear.rotation import rotated
from ..operators import Operator, as_operator
from ..operators.views import check_energy
from ..progress import convergence
from ..solvers.base import TINY
from ..solvers.solve import user_stacklevel
from ..solvers.subspace import warn_above
from ..sparse.active import ALL, ActiveColumns
from ..sparse.branch import CLOSED
from ..sparse.deflation import adjusted_variances, cumulative_variances
from ..sparse.options import SparseOptions
from . import _base as base
from ._fit_context import reports_progress
from ._scores import ScoresMixin, row_share


@dataclass(eq=False, repr=False)
class SparsePCA(ScoresMixin, BaseEstimator):
    """Principal component analysis whose components use few features each.

    Parameters
    ----------
    n_components : int or None
        The number of components; None is ``min(n_samples, n_features)``.
    n_nonzero : int, float or sequence of these
        The most nonzero loadings of a component, for ``penalty="cardinality"``: a number, a fraction of
        the features (0 < f <= 1), or one of these for each component.
    method : {"deflation", "block", "reconstruction"}
        "deflation" finds one component after the other, each in what ``deflation`` leaves of the data.
        "block" finds all together, with orthonormal scores (the generalised power method).
        "reconstruction" continues from both and lowers ``||X - T W^T||`` over scores T and sparse
        loadings W, for the largest ``cumulative_variance_ratio_``.
    deflation : {"projection", "orthogonal", "schur"}
        How a component w is removed from the covariance C: ``(I - w w^T) C (I - w w^T)``; the same with
        w orthogonalised against the components before it; or ``C - C w w^T C / w^T C w``, which leaves
        what its scores do not explain.
    penalty : {"cardinality", "l0", "l1"}
        "cardinality" bounds the number of nonzeros by ``n_nonzero``. "l0" and "l1" penalise them by
        ``alpha`` (GPower), and loadings are fitted again on the support.
    alpha : float
        The penalty of "l0" and "l1", relative to the least one that leaves no feature: 0 <= alpha < 1.
        With many features, after the first component, that is the least for the features searched.
    positive : bool
        Whether loadings must not be negative.
    center : bool
        Whether to subtract the mean of each feature.
    rotation : {"varimax", "quartimax", "promax"} or None
        As in :class:`dualpca.PCA`. Afterwards a loading is 0 only where it was in all components.
    n_starts : int or None
        The number of starts, of which the best is kept: by deflation, for each component, leading
        eigenvectors, single features and random vectors; else principal axes and random rotations of
        these. None takes nothing random: four eigenvectors and every feature (the 256 most promising)
        by deflation, else the axes.
    certify : bool
        Whether to prove that each component is the best with its number of nonzeros, by branch and
        bound, which replaces it by a better one if there is one. It needs ``method="deflation"``,
        ``penalty="cardinality"``, ``positive=False`` and at most 1,500 features.
    max_nodes : int
        The most nodes of branch and bound for a component; ``gap_`` tells what was left open.
    tol : float
        Stop when a step turns a component by at most this angle. With deflation and
        ``penalty="cardinality"`` components are then fixed points to rounding.
    max_iter : int
        The most steps from a start; a ConvergenceWarning has the residual reached.
    random_state
        As in :class:`dualpca.PCA`, for the random ones of ``n_starts``. The default has none.
    verbose
        As in :class:`dualpca.PCA`.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Loadings of length 1; the entry of largest magnitude in each is positive. A row is zero if no
        variance was left for it.
    explained_variance_, explained_variance_ratio_ : arrays of shape (n_components,)
        What each component adds to those before it, since sparse components are correlated: adjusted
        variance (Zou, Hastie and Tibshirani 2006).
    cumulative_variance_ratio_ : array of shape (n_components,)
        The share of the variance that ``inverse_transform(transform(X))`` keeps with the first
        components (Shen and Huang 2008).
    n_nonzero_ : array of shape (n_components,)
        The number of nonzero loadings of each component.
    upper_bound_ : array of shape (n_components,)
        What no unit vector with as many nonzeros as asked for (with a penalty: as the component has)
        exceeds in variance, in what ``deflation`` by the components before it leaves of the data. The
        first one bounds ``explained_variance_[0]``.
    gap_ : array of shape (n_components,)
        The most that a component may be short of the best one, as a share of the bound: 1 less its
        variance, in what those before it leave, over ``upper_bound_``.
    n_nodes_ : int
        The nodes of branch and bound, over all components; 0 without ``certify``.
    mean_ : array of shape (n_features,)
    n_components_, n_samples_, n_features_in_ : int
    residual_ : float
        The last step of the component that moved most: 0 at a fixed point of DCA.
    n_iter_, n_passes_ : int
        Steps from the best start in the last round, and passes over the data after validation,
        including those for the models before it in a path.
    convergence_ : list of (int, float)
        The number of each step, over all starts and components, and its length.

    Notes
    -----
    Components are fixed points of DCA, by deflation on ``minimize delta_C(w) - 1/2 ||X w||^2`` with the
    hull C of the k-sparse unit vectors (:func:`dualpca.formulations.sparse`), by "block" on
    :func:`dualpca.formulations.block_sparse`, and with "l0" and "l1", before they are fitted again, on
    :func:`dualpca.formulations.gpower`; by "reconstruction", of alternating least squares. By deflation
    with "cardinality" no exchange of a feature for another is better, among the features searched.
    Maxima are NP-hard to find: ``gap_`` tells how near these are, and ``certify`` closes it where it can.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualpca import SparsePCA
    >>> X = load_digits().data
    >>> spca = SparsePCA(3, n_nonzero=10, random_state=0).fit(X)
    >>> spca.n_nonzero_.tolist()
    [10, 10, 10]
    >>> bool(0 < spca.gap_[0] < 0.2)
    True
    >>> proven = SparsePCA(1, n_nonzero=5, certify=True).fit(X)
    >>> bool(proven.gap_[0] < 1e-8)
    True
    >>> spca.transform(X).shape
    (1797, 3)
    >>> wide, narrow = SparsePCA(3, random_state=0).path(X, [20, 5])
    >>> bool(wide.explained_variance_.sum() > narrow.explained_variance_.sum())
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_components": [base.COUNT, None],
        "n_nonzero": [base.COUNT, Interval(RealNotInt, 0, 1, closed="right"), "array-like"],
        "method": [StrOptions({"deflation", "block", "reconstruction"})],
        "deflation": [StrOptions({"projection", "orthogonal", "schur"})],
        "penalty": [StrOptions({"cardinality", "l0", "l1"})],
        "alpha": [Interval(Real, 0, 1, closed="left")],
        "positive": ["boolean"],
        "center": ["boolean"],
        "rotation": base.ROTATION,
        "n_starts": [base.COUNT, None],
        "certify": ["boolean"],
        "max_nodes": [base.COUNT],
        **base.ITERATION_CONSTRAINTS,
    }

    n_components: int | None = None
    _: KW_ONLY
    n_nonzero: Any = 0.25
    method: str = "deflation"
    deflation: str = "projection"
    penalty: str = "cardinality"
    alpha: float = 0.1
    positive: bool = False
    center: bool = True
    rotation: str | None = None
    n_starts: int | None = None
    certify: bool = False
    max_nodes: int = 10_000
    tol: float = 1e-3
    max_iter: int = 1000
    random_state: Any = None
    verbose: int = 0

    def _fit(self, X: Any, sample_weight: Any) -> Any:
        return self._fit_path([self], X, sample_weight)

    @reports_progress
    def path(self, X: Any, n_nonzero: Sequence[Any], sample_weight: Any = None) -> list[SparsePCA]:
        """Fit models with several numbers of nonzeros, each started from the one before it.

        Parameters
        ----------
        X, sample_weight
            As in :meth:`fit`.
        n_nonzero : sequence
            Values of the parameter ``n_nonzero``.

        Returns
        -------
        models : list of SparsePCA
            A fitted model for each value, in their order; self does not change.
        """
        if self.penalty != "cardinality" or not isinstance(n_nonzero, (Sequence, np.ndarray)):
            raise ValueError(
                f"path(n_nonzero={n_nonzero!r}) needs a sequence such as [5, 10, 20] and "
                f"penalty='cardinality', got penalty={self.penalty!r}"
            )
        models = [clone(self).set_params(n_nonzero=k) for k in n_nonzero]
        if not models:
            raise ValueError("n_nonzero=[] is empty; give at least one number of nonzeros")
        for model in models:
            model._validate_params()
        self._fit_path(models, X, sample_weight)
        return models

    def _fit_path(self, models: list[SparsePCA], X: Any, sample_weight: Any) -> Any:
        """Fit the models one after the other; return the validated X."""
        bounded = self.penalty == "cardinality"
        if self.method == "reconstruction" and not bounded:
            raise ValueError(
                f"method='reconstruction' bounds the number of nonzeros and takes no "
                f"penalty={self.penalty!r}; use penalty='cardinality', or method='block'"
            )
        if self.certify and (self.method != "deflation" or not bounded or self.positive):
            raise ValueError(
                f"certify=True proves components of method='deflation' with penalty='cardinality' and "
                f"positive=False, got method={self.method!r}, penalty={self.penalty!r} and "
                f"positive={self.positive!r}; change these, or leave certify=False and see gap_"
            )
        first = models[0]
        X = base.validated(first, X, reset=True, rows=2)
        operator = as_operator(X)
        N, d = operator.shape
        s = min(N, d) if self.n_components is None else int(self.n_components)
        base.check_components(s, N, d)
        if self.certify and d > ALL:
            raise ValueError(
                f"certify=True needs at most {ALL:,} features, got {d:,}; choose the features of largest "
                "variance first, or leave certify=False and see gap_"
            )
        sizes = [base.nonzeros(model.n_nonzero, s, d) if bounded else (d,) * s for model in models]
        Xc, mean, mass = base.centered_rows(operator, sample_weight, self.center)
        with Xc.blas_limited():
            columns, W = ActiveColumns(Xc), vars(self).get("_start")
            energy = float(columns.C.variances.sum())
            check_energy(energy, Xc)
            names = [field.name for field in fields(SparseOptions)][1:-1]
            options = {name: getattr(self, name) for name in names}
            options["seed"] = base.seed(self.random_state)
            for model, k in zip(models, sizes, strict=True):
                model.__dict__.update({n: v for n, v in vars(first).items() if n.endswith("_in_")})
                chosen = SparseOptions(k, **options)
                result, CW = columns.solve(chosen, W)
                W, (values, bounds) = result.W, columns.bounds(chosen, result, CW)
                model.n_components_, model.n_samples_, model.n_passes_ = s, N, Xc.passes
                model.residual_, model.n_iter_ = result.residual, result.iterations
                model.convergence_ = convergence(None, result.residual)
                model.mean_ = Xc.asarray(np.zeros(d)) if mean is None else mean
                model.upper_bound_ = Xc.asarray(bounds / (mass - 1))
                left = bounds > columns.C.floor
                model.gap_ = Xc.asarray(
                    np.where(left, 1 - values / np.where(left, bounds, 1.0), 0.0)
                )
                model.n_nodes_ = result.nodes
                model._set_components(W, CW, energy, mass, Xc)
        return X

    def _begin_from(self, fitted: SparsePCA) -> None:
        if fitted.rotation is None:  # else the sparse components are not known any more
            self._start = to_numpy(fitted.components_.T).astype(float)

    def _set_components(
        self, W: np.ndarray, CW: np.ndarray, energy: float, mass: float, X: Operator
    ) -> None:
        self.__dict__.pop("rotation_", None)
        if self.rotation is not None:
            M, T, _ = rotated(W, adjusted_variances(W, CW), self.rotation)
            self.rotation_, W, CW = X.asarray(T), W @ M, CW @ M
        signs = fix_signs(W)[None, :]
        W, CW, total = W * signs + 0.0, CW * signs, max(energy, TINY)  # no -0
        adjusted = adjusted_variances(W, CW)
        self.components_ = X.asarray(np.ascontiguousarray(W.T))
        self.explained_variance_ = X.asarray(adjusted / (mass - 1))
        self.explained_variance_ratio_ = X.asarray(adjusted / total)
        self.cumulative_variance_ratio_ = X.asarray(cumulative_variances(W, CW) / total)
        xp = namespace(self.components_)
        self.n_nonzero_ = xp.sum(xp.astype(self.components_ != 0, xp.int64), axis=1)
        empty = int((~W.any(axis=0)).sum())
        if empty:
            warnings.warn(
                f"no variance was left for {empty} of n_components={W.shape[1]} components, which are "
                f"zero; ask for fewer{', or lower alpha' if self.penalty != 'cardinality' else ''}",
                UserWarning,
                stacklevel=user_stacklevel(),
            )
        warn_above(self.residual_, self.tol, self.method, self.max_iter)
        gap = float(max(self.gap_))
        if gap > 2 * CLOSED and self.n_nodes_ >= self.max_nodes:  # else a listener stopped it
            warnings.warn(
                f"certify=True left a gap_ of {gap:.1e} after max_nodes={self.max_nodes} nodes; raise "
                "max_nodes, or change n_nonzero",
                ConvergenceWarning,
                stacklevel=user_stacklevel(),
            )

    def _score_weights(self, components: Array, scale: Array) -> Array:
        return namespace(components).linalg.pinv(components)  # loadings are not orthogonal

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of the variance of rows about ``mean_`` that the components hold.

        It is at most 1, and what reconstructions leave out is the rest. y is ignored.
        """
        rows = as_operator(self._checked(X, "score"))
        rows = base.shifted(rows, self._origin) if self._is_centered else rows
        Q = orthonormalize(self.components_.T)
        return row_share(rows @ Q, rows.row_norms())
