"""Robust PCA with scikit-learn's face."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import StrOptions

from ..linalg import Array, largest, to_numpy
from ..losses import as_loss
from ..operators import Centered
from ..operators.row_blocks import RowBlocked
from ..progress import convergence, phase
from ..robust.center import CENTERS
from ..robust.data import prepare
from ..robust.distances import Measured, measure, ordered
from ..robust.fit import (
    GUARD,
    ROBUST_CONSTRAINTS,
    ensure_room,
    fit_rows,
    mean_loss,
    recentred,
    refit,
    robust_solver,
    scaled_loss,
    warn_of_doubt,
)
from ..robust.scale import chi2_quantile
from ..robust.starts import (
    STARTS,
    as_starts,
    best_start,
    number_of_components,
    scree,
    typical_size,
)
from ..solvers.subspace import warn_above
from ._fit_context import FitContext, reports_progress
from ._outliers import LinearOutliersMixin
from ._scores import CovarianceMixin, ScoresMixin

__all__ = ["RobustPCA"]

#: The quantile of the cut-offs on the outlier map, as in ROBPCA.
MAP = 0.975


class RobustPCA(FitContext, LinearOutliersMixin, CovarianceMixin, ScoresMixin, BaseEstimator):
    """PCA that bad rows do not move, and that says which rows are bad.

    It minimises ``sum_i rho(||(I - W W^T)(x_i - c)||)`` over an orthonormal W and a centre c, the robust
    problem of the paper (Proposition 4.1) with any loss ``rho(r) = psi(r^2)``, psi concave, by DCA from a
    robust start; then flags the rows that are far from the subspace and fits the others once more.

    Parameters
    ----------
    n_components : int, float or None
        How many components: a number; the fraction of the robust variance to explain (0 < f < 1); or
        None, the fewest that hold 80 % of it, at most 10: of the variance of the least outlying half
        of the rows (see :meth:`scree`), of which the fit may hold a little more or less.
    loss : str or Loss
        "l1" (the paper's), "lp", "huber", "log", "cauchy", "geman_mcclure", "welsch", "tukey", or an
        instance such as ``Huber(scale=0.1)``. Scales that are not given are set from the residuals of
        the good rows at the start.
    normalize : bool
        Divide each row by its distance from the centre ("spherized" rows), so that its loss does not
        depend on its norm.
    center : {"joint", "geometric_median", "median", "mean"}, None or array of shape (n_features,)
        "joint" fits the centre together with the subspace; the others are computed first and stay; None
        is no centring, as in the paper.
    init : str, array of shape (n_components, n_features), or list of those
        "stahel_donoho" (the least outlying half of the rows, over directions through pairs of rows),
        "spherical" (PCA of spherized rows), "pca", "random" or components. Of several, each is
        concentrated on its nearest half of the rows, and the first is taken that fits them as well
        as the best, or within 10 % of it; "auto" is the first two.
        Starts see a sample of at most 2000 rows.
    refit : bool
        Flag the rows far from the subspace and replace centre and subspace by those of the others,
        unless that raises the loss by more than 5 % or ends short of ``tol``.
    solver : {"auto", "anderson", "dca", "irls", "dual"} or solver
        DCA with Anderson acceleration, DCA (Algorithm 5), IRLS, or DCA on the dual (Algorithm 6), which
        finds the same subspace. "auto" is IRLS where there are at most twice as many features as
        components, else Anderson.
    quantile : float
        Rows are flagged beyond this quantile of the distances of good rows.
    flag : {"orthogonal", "both"}
        Whether rows far out within the subspace are flagged too, by their score distance.
    contamination : "auto" or float
        The share of the training rows to flag, instead of by ``quantile``.
    tol : float
        The relative residual of DCA to reach, and of the centre; statistical errors are larger.
    max_iter : int
        The most iterations; a ConvergenceWarning tells the residual reached.
    random_state : int, RandomState instance or None
        The seed of the sample and of the directions.
    verbose : int
        1 shows a line of progress on standard error, 2 a line for each iteration.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Axes by decreasing robust variance; in each the entry of largest magnitude is positive.
    explained_variance_, explained_variance_ratio_ : arrays of shape (n_components,)
        Variances of the scores of good rows, consistent for normal data.
    mean_ : array of shape (n_features,)
        The robust centre; zeros where ``center=None``.
    noise_variance_ : float
        The mean variance of good rows in the directions left out.
    weights_ : array of shape (n_samples,)
        The weight of each training row in the loss before the refit, the largest being 1.
    score_distances_, orthogonal_distances_ : arrays of shape (n_samples,)
        The two distances of the training rows.
    score_cutoff_, orthogonal_cutoff_ : float
        ROBPCA's cut-offs of both at 0.975, for the outlier map.
    offset_ : float
        Rows with ``score_samples(X) < offset_`` are flagged.
    outliers_ : bool array of shape (n_samples,)
        The training rows that are flagged.
    flags_by_ : str
        ``flag``, or "score" where no row has an orthogonal distance.
    limits_ : tuple of float
        The score and the orthogonal distance at ``quantile``.
    refitted_ : bool
        Whether the refit stood.
    start_ : str
        The start that was taken.
    agreement_ : float
        The share of the nearest half of the rows that the starts have in common: 1 where they agree.
    loss_ : Loss
        The loss with its scale.
    n_components_, n_samples_, n_features_in_, n_iter_, n_passes_ : int
    residual_ : float
        The relative residual that DCA reached.
    convergence_ : list of (int, float)
        Passes over the data and the residual, at each iteration that was tested.

    Notes
    -----
    The paper's Algorithm 5 is ``RobustPCA(k, loss="l1", normalize=False, center=None, init="random",
    refit=False, solver="dca")``, and Algorithm 6 the same with ``solver="dual"``.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 10))
    >>> X += 0.1 * rng.standard_normal(X.shape)
    >>> X[:40] += 5 * rng.standard_normal((40, 10))
    >>> model = RobustPCA(n_components=2, random_state=0).fit(X)
    >>> int(model.outliers_[:40].sum()), int(model.outliers_[40:].sum())
    (40, 0)
    >>> model.transform(X).shape
    (200, 2)
    """

    _parameter_constraints = {  # noqa: RUF012
        **ROBUST_CONSTRAINTS,
        "center": [StrOptions({"joint", *CENTERS}), "array-like", None],
        "init": [StrOptions({"auto", *STARTS}), "array-like", list, tuple],
        "solver": [StrOptions({"auto", "anderson", "dca", "irls", "dual"}), callable],
    }

    whiten = False

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        loss: Any = "geman_mcclure",
        normalize: bool = True,
        center: Any = "joint",
        init: Any = "auto",
        refit: bool = True,
        solver: Any = "auto",
        quantile: float = 0.999,
        flag: str = "orthogonal",
        contamination: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 300,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.normalize = normalize
        self.center = center
        self.init = init
        self.refit = refit
        self.solver = solver
        self.quantile = quantile
        self.flag = flag
        self.contamination = contamination
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _is_centered(self) -> bool:
        return self.center is not None

    @property
    def _origin(self) -> Array:
        # In float64: that of float32 rows far from 0 is rounded by more than their spread may be.
        return to_numpy(self.mean_).astype(float) + to_numpy(self._mean_rest)

    @reports_progress
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> RobustPCA:
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
        data = prepare(self, X, sample_weight)
        rows, weights, sample, rng = data.rows, data.weights, data.sample, data.rng
        ensure_room(self.solver, rows)
        with phase("start"):
            s = number_of_components(self.n_components, sample, data.about, rng)
            starts = as_starts(self.init, s, rows.shape[1])
            start, self.agreement_, nearness = best_start(sample, starts, s, data.about, rng)
        self.loss_ = scaled_loss(as_loss(self.loss), sample, start, self.normalize)
        self.start_ = start.name
        spread = typical_size(Centered(sample, start.center[:, None]).row_norms())
        solver, dual = robust_solver(self.solver, s, rows.shape[1])
        center = start.center + data.origin
        base = recentred(rows, center, spread)
        fit = fit_rows(
            base,
            base.asarray(start.W),
            loss=self.loss_,
            normalize=self.normalize,
            joint=data.fixed is None,
            solver=solver,
            dual=dual,
            mass=None if weights is None else rows.row_vector(weights),
            tol=self.tol,
            max_iter=self.max_iter,
            spread=spread,
        )
        if fit.delta is not None:
            center = center + to_numpy(fit.delta)[:, 0].astype(float)
        warn_above(fit.residual, self.tol, type(self).__name__, self.max_iter)

        def measured(center: np.ndarray, V: Array) -> Measured:
            return measure(rows, center, V, weights, spread)

        def loss(center: np.ndarray, V: Array) -> float:
            W = to_numpy(V).astype(float)
            return mean_loss(sample, self.loss_, start, center - data.origin, W, self.normalize)

        found = measured(center, fit.W)
        cut = found.cutoff(self.quantile)
        good = found.orthogonal <= cut
        good = good if rows.is_distributed else to_numpy(good)
        share = float((found.some_orthogonal <= cut).mean())
        self.refitted_ = False
        if self.refit and not found.flat and share * rows.shape[0] > 2 * s:
            new = refit(
                rows,
                good,
                s,
                center=data.fixed,
                weights=weights,
                spread=spread,
                tol=min(self.tol, 1e-4),
                seed=int(rng.integers(2**31)),
            )
            before = loss(center, fit.W)
            if new is not None and loss(*new) <= before + GUARD * abs(before):
                self.refitted_, found = True, measured(*new)
        self.residual_, self.n_iter_ = fit.residual, fit.iterations
        self._set(found, rows, weights, data.fixed is not None)
        tiny = float(np.finfo(np.float32).tiny)  # weights on a cluster may be float32
        by_row = fit.weights if weights is None else fit.weights / weights.clip(tiny, None)
        self._describe(data.whole, found, data.present, by_row)
        warn_of_doubt(self, nearness)
        return self

    def scree(self, X: Any, sample_weight: Any = None) -> np.ndarray:
        """Robust variances along all axes, to choose ``n_components`` from; nothing is fitted.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        variances : array, decreasing
            Of the least outlying half of the rows (of a sample of at most 2000), in their principal
            axes.
        """
        data = prepare(clone(self), X, sample_weight)
        return scree(data.sample, data.about, data.rng)

    def _set(self, found: Measured, rows: RowBlocked, weights: Array | None, fixed: bool) -> None:
        """Components in order of their robust variances, and the variance around them."""
        parts = ordered(found, self.quantile, weights, fixed)
        total = float(parts.variances.sum()) + parts.rest
        d, s = parts.V.shape
        self.n_components_ = s
        self.components_ = rows.asarray(np.ascontiguousarray(parts.V.T))
        self.explained_variance_ = rows.asarray(parts.variances)
        self.explained_variance_ratio_ = rows.asarray(parts.variances / (total or 1.0))
        self.noise_variance_ = parts.rest / (d - s) if d > s else 0.0
        self.mean_ = rows.asarray(parts.center)
        self._mean_rest = rows.asarray(parts.center - to_numpy(self.mean_))
        self.orthogonal_cutoff_ = found.cutoff(MAP)
        self.score_cutoff_ = chi2_quantile(MAP, s) ** 0.5
        self._flag(found, rows.row_vector(parts.score_distances), found.orthogonal)

    def _describe(
        self, whole: RowBlocked, found: Measured, present: np.ndarray | None, weights: Array
    ) -> None:
        """What there is to say of each training row, those of weight 0 included."""
        self.n_samples_ = whole.shape[0]
        by_row = weights / max(largest(weights), 1e-300)
        if present is not None:
            by_row, some = np.zeros(self.n_samples_), by_row
            by_row[present] = some
            self._flag(found, *self._distances(whole), present)
        self.weights_, self.outliers_ = whole.persist_rows(whole.row_vector(by_row), self.outliers_)
        self.n_passes_ = whole.passes
        self.convergence_ = convergence(self.n_passes_, self.residual_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = True
        return tags
