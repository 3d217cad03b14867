"""Robust PCA as a scikit-learn estimator."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import StrOptions

from ..linalg import Array, host_sample, to_numpy
from ..linear.selection import METHODS
from ..operators import Operator, Selected, as_operator
from ..progress import convergence
from ..robust.cell_fit import fit_cells, fit_holes
from ..robust.doubts import doubt_of_symmetry, doubt_of_tail
from ..robust.fit import RobustFit, fit_robust
from ..robust.sample import scree, take_sample
from ..robust.scale import CENTERS, repeated
from ..robust.starts import STARTS
from . import _base as base
from ._base import COUNT, FORGET, FRACTION, ROTATION, checked_weights, seed
from ._missing import MISSING, CellsMixin, summary_of
from ._outliers import ROBUST_CONSTRAINTS, OutlierScoresMixin
from ._robust_streams import RobustBatchesMixin
from ._scores import CovarianceMixin

#: The methods that choose a number of components; "mle" is about all rows.
CHOICES = set(METHODS) - {"mle"}


@dataclass(eq=False, repr=False)
class RobustPCA(RobustBatchesMixin, CellsMixin, CovarianceMixin, OutlierScoresMixin, BaseEstimator):
    """PCA that bad rows do not move, and that flags them.

    It minimises ``sum_i rho(||(I - W W^T)(x_i - c)||)`` over an orthonormal W and a centre c, the robust
    problem of the paper (Proposition 4.1) with any loss ``rho(r) = psi(r^2)``, psi concave, by DCA from a
    robust start. Then it fits the rows that are near once more, and flags rows by their density in the
    robust Gaussian model.

    Parameters
    ----------
    n_components : int, float, str or None
        A number; the fraction of the robust variance to explain (0 < f < 1); "auto", for a picture, the
        fewest components that hold 80 % of it, at most 10; "outliers", to detect them, a fit of the
        fewest that hold 99 %, at most a fifth of the rows and one less than n_features, of which the
        fewest stay that hold 95 %; a method of :func:`dualpca.n_components` other than "mle"; or None,
        all n_features, which needs more than twice as many rows. The robust variance, and what methods
        see, is that of the least outlying half of the rows, as in :meth:`scree`.
    loss : str or Loss
        "l1" (the paper's), "lp", "huber", "log", "cauchy", "geman_mcclure", "welsch", "tukey", or an
        instance such as ``Huber(scale=0.1)``. The default scale comes from the residuals of the good
        rows at the start.
    normalize : bool
        Divide each row by its distance from the centre, so that its loss does not depend on its norm.
    center : {"joint", "geometric_median", "median", "mean"}, None or array of shape (n_features,)
        "joint" fits the centre together with the subspace. The others are computed first and stay;
        None is no centring, as in the paper.
    init : str, array of shape (n_components, n_features), or list of those
        "stahel_donoho" (the least outlying half of the rows, over directions through pairs of rows),
        "spherical" (PCA of normalised rows), "pca", "random" or components. Several starts, or
        "stahel_donoho" alone, are candidates together with what concentration on their nearest rows
        makes of them, and with starts without rows on a line or in a second group; the one is taken
        near which most rows lie that vary along most axes, and fitted to its good rows. "auto" is the
        first two. Starts see a sample of at most 2000 rows.
    refit : bool
        Take centre and subspace of the rows that are not far from the subspace, unless most rows fit
        that clearly worse or it ends short of ``tol``.
    solver : {"auto", "anderson", "dca", "irls", "dual"} or solver
        DCA with Anderson acceleration, DCA (Algorithm 5), IRLS, or DCA on the dual (Algorithm 6), which
        finds the same subspace. "auto" is IRLS for at most twice as many features as components, else
        Anderson.
    quantile : float
        Rows beyond this quantile of good rows are flagged. It is estimated from the bulk of the rows and
        from how fast their number falls beyond it, so that heavy tails are not taken for outliers.
    flag : {"density", "orthogonal", "score"}
        By what rows are flagged: both distances together, through the density of the robust Gaussian
        model; the distance from the subspace alone; or that within it.
    contamination : "auto" or float
        The share of the training rows to flag, instead of by ``quantile``.
    rotation : {"varimax", "quartimax", "promax"} or None
        As in :class:`dualpca.PCA`; distances and flags do not depend on it.
    tol : float
        The relative residual of DCA, and of the centre, to reach; statistical errors are larger.
    missing : {"error", "em", "shrink"}
        What cells that are NaN are: as in :class:`dualpca.PCA`, with the robust fit of the completed
        rows in place of PCA.
    cells : bool
        Whether single cells may be wrong, or missing. Centre, subspace and scores then minimise a loss
        of cells within a loss of rows (cellPCA), from starts on a sample of at most 2000 rows in which
        cells that the correlated columns contradict are replaced. Rows are flagged, scored and explained
        with the fit in place of their holes and flagged cells; a row with more than about 40 % of them is
        bad as a whole and stays as it is. ``loss``, ``normalize``, ``init``, ``refit``, ``solver`` and
        ``missing`` are not used; a number of components that is not given is at most a third of the
        features. On dask data the sample alone is fitted.
    max_iter, random_state, verbose
        As in :class:`dualpca.PCA`; the seed is also that of the sample and of the directions.
    forget : float or None
        How :meth:`partial_fit` forgets. A number above 1 is a half-life: the weight of a row halves with
        each so many good rows that come after it. A number between 0 and 1 is a factor: a batch of good
        rows multiplies the weights of all rows before it. Bad rows age nothing. None never forgets.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Axes by decreasing robust variance; in each the entry of largest magnitude is positive.
    explained_variance_, explained_variance_ratio_ : arrays of shape (n_components,)
        Variances of the scores of good rows, consistent for normal data.
    mean_ : array of shape (n_features,)
        The robust centre; zeros for ``center=None``.
    noise_variance_ : float
        The mean variance of good rows in the directions left out; at least what counts as none beside
        the largest variance.
    weights_ : array of shape (n_samples,)
        The weight of each training row in the loss before the refit; the largest is 1.
    score_distances_, orthogonal_distances_ : arrays of shape (n_samples,)
        The two distances of the training rows.
    score_cutoff_, orthogonal_cutoff_ : float
        ROBPCA's cut-offs of both, at the quantile 0.975.
    limits_ : tuple of float
        The score and the orthogonal distance at ``quantile``.
    row_kinds_ : array of str of shape (n_samples,)
        "regular", "good leverage", "orthogonal outlier" or "bad leverage", by both distances.
    flags_by_ : str
        ``flag``, or "score" where no row has an orthogonal distance.
    offset_ : float
        Rows with ``score_samples(X) < offset_`` are flagged.
    outliers_ : bool array of shape (n_samples,)
        The training rows that are flagged.
    refitted_ : bool
        Whether the refit stood.
    start_ : str
        The start that was taken.
    cell_residuals_, cell_outliers_ : arrays of shape (n_samples, n_features), for ``cells=True``
        ``(x - expected) / cell_scales_`` of the training cells, NaN where they are missing, and which
        are flagged; sparse, with flagged cells alone, beyond 10 million cells.
    cell_scales_ : array of shape (n_features,), for ``cells=True``
        The robust scale of each column's residuals.
    agreement_ : float
        The share of the nearest half of the rows that the starts have in common.
    loss_ : Loss
        The loss with its scale.
    drift_ : Drift, after :meth:`partial_fit`
        How far the components have turned since the last :meth:`checkpoint`, and new regimes.
    memory_ : float
        How many rows the model remembers: the sum of the weights that ``forget`` leaves to them.
    until_renewal_ : int
        How many rows :meth:`partial_fit` takes before it renews the model.
    n_components_, selection_, n_samples_, n_features_in_, residual_, n_iter_, n_passes_, convergence_
        As in :class:`dualpca.PCA`; the residual is that of DCA.

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
    (40, 1)
    >>> model.transform(X).shape
    (200, 2)
    """

    _parameter_constraints = {  # noqa: RUF012
        **ROBUST_CONSTRAINTS,
        "rotation": ROTATION,
        "n_components": [COUNT, FRACTION, StrOptions({"auto", "outliers", *CHOICES}), None],
        "center": [StrOptions({"joint", *CENTERS}), "array-like", None],
        "init": [StrOptions({"auto", *STARTS}), "array-like", list, tuple],
        "solver": [StrOptions({"auto", "anderson", "dca", "irls", "dual"}), callable],
        "missing": [StrOptions(MISSING)],
        "cells": ["boolean"],
        "forget": FORGET,
    }

    _: KW_ONLY
    rotation: str | None = None
    random_state: Any = None
    verbose: int = 0
    missing: str = "error"
    cells: bool = False
    forget: float | None = None

    @property
    def _origin(self) -> Array:
        # The float32 centre of rows far from 0 may be rounded by more than the spread of the rows.
        return to_numpy(self.mean_).astype(float) + to_numpy(self._mean_rest)

    def _fit(self, X: Any, sample_weight: Any) -> Any:
        whole, weights, present = self._checked_rows(X, sample_weight)
        self._forget_batches()
        rows = whole if present is None else Selected(whole, present)
        fit = self._fit_rows(rows, weights)
        self._set_fit(fit, rows)
        parts, (d, s) = fit.components, fit.components.V.shape
        self.components_ = rows.asarray(np.ascontiguousarray(parts.V.T))
        self._rotate()
        self._noise_directions, self.selection_ = d - s, fit.selection
        self.noise_variance_ = fit.noise / (d - s) if d > s else 0.0
        self.mean_ = rows.asarray(parts.center)
        self._mean_rest = rows.asarray(parts.center - to_numpy(self.mean_))
        if self.cells:
            self._set_cells(whole, fit.cells if present is None else None)
        whole = self._completed(whole) if self._completes else whole
        by_row = fit.weights
        if present is None:
            score, orthogonal = rows.row_vector(parts.score_distances), fit.rows.orthogonal
        else:
            score, orthogonal = self._distances(whole)
            by_row = np.zeros(len(present))
            by_row[present] = fit.weights
        self._flag(fit.rows, score, orthogonal, present)
        self.weights_, self.outliers_ = whole.persist_rows(whole.row_vector(by_row), self.outliers_)
        self.n_samples_, self.n_passes_ = whole.shape[0], whole.passes
        self.convergence_ = convergence(self.n_passes_, self.residual_)
        self._warn_of_doubt(fit)
        return whole

    def _doubt_of_model(self, fit: RobustFit) -> str | None:
        if self.flags_by_ != "density" or self._of_features:
            return None
        _, orthogonal, weights = fit.rows.on_host
        limit = max(2 * (self._log_peak - self.offset_), 0.0) ** 0.5
        if not limit > 0:  # most rows are equal
            return None
        with np.errstate(over="ignore"):
            inside = host_sample(fit.components.score_distances).astype(float)
            ratios = np.hypot(inside, orthogonal / self.noise_variance_**0.5) / limit
        skewed = None
        if isinstance(self.center, str):  # rows need not be symmetric about a given point
            skewed = doubt_of_symmetry(fit, ratios, self.quantile)
        return skewed or doubt_of_tail(repeated(ratios, weights), len(fit.rows.V))

    def _fit_rows(self, X: Operator, weights: Any) -> RobustFit:
        """Return the fit of rows as they are, of completed rows, or of cells."""
        start, incomplete = seed(self.random_state), False
        if self._completes:
            incomplete = summary_of(X, getattr(self, "feature_names_in_", None)).incomplete > 0
        if self.cells:
            if not (isinstance(self.center, str) and self.center == "joint"):
                raise ValueError(
                    f"center={self.center!r} stays; cells=True fits it, as 'joint' does"
                )
            if X.sparse:
                raise ValueError(
                    "cells=True replaces cells, which would fill sparse X; give an array"
                )
            fit, model = fit_cells(X, self, np.random.default_rng(start), weights)
            self.cell_scales_ = model.scales
            return fit
        if incomplete:
            return fit_holes(X, self, start, weights, shrink=self.missing == "shrink")
        # Threads of BLAS spin after a product, and would take the cores from those of the kernels.
        with X.blas_limited() if X.uses_kernels else nullcontext():
            return fit_robust(X, self, np.random.default_rng(start), weights)

    def _begin_from(self, fitted: RobustPCA) -> None:
        self.init = to_numpy(fitted._principal[0]).astype(float)

    def _checked_rows(
        self, X: Any, sample_weight: Any
    ) -> tuple[Operator, Array | None, np.ndarray | None]:
        """Return the rows, the weights of those that count, and which do, None if all.

        Rows of weight 0 that are on a cluster count.
        """
        if self._completes:
            rows = as_operator(base.validated(self, X, reset=True, rows=2, finite=False))
        else:
            rows = base.rows_with_norms(self, X)
        if rows.is_distributed and isinstance(self.solver, str) and self.solver == "dual":
            raise ValueError(
                "solver='dual' iterates on a row for each row of X, which dask data keeps on the "
                "cluster; use 'auto', 'anderson' or 'dca', which find the same subspace"
            )
        weights = checked_weights(sample_weight, rows)
        if weights is None or rows.is_distributed:
            return rows, weights, None
        weights = to_numpy(weights).astype(float)
        present = weights > 0
        return rows, weights[present], None if present.all() else present

    def scree(self, X: Any, sample_weight: Any = None) -> np.ndarray:
        """Return robust variances along all axes, to choose ``n_components`` from, without a fit.

        Parameters
        ----------
        X, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        variances : array, decreasing
            Those of the least outlying half of the rows (of a sample of at most 2000), in their
            principal axes.
        """
        self._validate_params()
        whole, weights, present = clone(self)._checked_rows(X, sample_weight)
        rows = whole if present is None else Selected(whole, present)
        rng = np.random.default_rng(seed(self.random_state))
        sample = take_sample(rows, self.center, weights, rng)
        return scree(sample.rows, sample.relative_center, rng)

    def contributions(self, X: Any) -> Any:
        """Return what each variable adds to the squared distance of a row.

        The variable whose replacement by its :meth:`expected` value would take most off the square comes
        first, then the next one without it, and so on; what is left is split in proportion.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows to explain, such as outliers: the answer is dense, a data frame for a data frame.

        Returns
        -------
        contributions : array of shape (n_samples, n_features)
            Nonnegative. A row sums to the square that flags it: the squared score distance and the
            squared orthogonal distance over ``noise_variance_``, or one of them alone as it is.
        """
        return self._blamed(X, "contributions", self.flags_by_)[0]

    def expected(self, X: Any) -> Any:
        """Return the value of each variable that the others make likely.

        Variables that stand out (see :meth:`contributions`) are left out of the others.

        Parameters
        ----------
        X : rows, as in :meth:`contributions`

        Returns
        -------
        expected : array of shape (n_samples, n_features)
        """
        return self._blamed(X, "expected", self.flags_by_)[1]
