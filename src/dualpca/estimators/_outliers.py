"""What robust estimators share: their parameters, attributes, and outlier scores of rows."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if

from ..linalg import Array, eps, host_sample, namespace, to_numpy
from ..losses import LOSSES, Loss
from ..operators import Operator
from ..robust.distances import KINDS, RowDistances
from ..robust.doubts import doubt_of_groups, doubt_of_half, doubt_of_start
from ..robust.fit import RobustFit, RobustOptions
from ..robust.scale import chi2_quantile
from ..solvers.solve import user_stacklevel
from ..solvers.subspace import warn_above
from ._base import COUNT, FRACTION, ITERATION_CONSTRAINTS

#: The quantile of the cut-offs of the two distances, as in ROBPCA.
MAP = 0.975

#: The parameters that robust estimators share.
ROBUST_CONSTRAINTS: dict[str, Any] = {
    "n_components": [COUNT, FRACTION, StrOptions({"auto", "outliers"}), None],
    "loss": [StrOptions(set(LOSSES)), Loss],
    "normalize": ["boolean"],
    "refit": ["boolean"],
    "quantile": [Interval(Real, 0, 1, closed="neither")],
    "flag": [StrOptions({"density", "orthogonal", "score"})],
    "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
    **ITERATION_CONSTRAINTS,
}


#: A method of models that can measure new rows; others lack it for scikit-learn, which looks for it.
measures_new_rows = available_if(lambda model: model._check_new_rows())


class OutlierScoresMixin(RobustOptions, OutlierMixin):
    """Scores and flags from the two distances of rows, the limit ``offset_`` and ``flags_by_``."""

    flags_by_: str
    limits_: tuple[float, float]
    noise_variance_: float

    #: how many directions there are beside the components
    _noise_directions: int

    #: whether rows are in the feature space of a kernel, where they have no symmetry and no scales
    _of_features = False

    #: returns new rows validated, by the name of the method that they are for
    _checked: Callable[..., Any]

    @abstractmethod
    def _distances(self, X: Any) -> tuple[Array, Array]:
        """Return score and orthogonal distances of validated rows."""

    def _check_new_rows(self) -> bool:
        """Return True; raise an error where nothing can be said of new rows."""
        return True

    def distances(self, X: Any) -> tuple[Array, Array]:
        """Return the two distances of the outlier map.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        score_distances : array of shape (n_samples,)
            Mahalanobis distances from the centre within the subspace.
        orthogonal_distances : array of shape (n_samples,)
            Euclidean distances from the subspace.
        """
        return self._distances(self._checked(X, "distances"))

    def normality(self, score_distances: Array, orthogonal_distances: Array) -> Array:
        """Return ``score_samples`` of rows with these two distances, arrays of shape (n_samples,)."""
        if self.flags_by_ != "density":
            return -(orthogonal_distances if self.flags_by_ == "orthogonal" else score_distances)
        return self._log_density(score_distances, orthogonal_distances)

    def _log_density(self, score_distances: Array, orthogonal_distances: Array) -> Array:
        with np.errstate(over="ignore"):
            squares = score_distances**2 + orthogonal_distances**2 / self.noise_variance_
        return self._log_peak - 0.5 * squares

    @property
    def _variances(self) -> Array:
        """The variances along the principal axes."""
        return self.explained_variance_

    @property
    def _log_peak(self) -> float:
        """The log density at the centre."""
        variances = to_numpy(self._variances).astype(float)
        variances = variances[variances > 1e-12 * variances.max()]
        noise = self._noise_directions * np.log(2 * np.pi * self.noise_variance_)
        return -0.5 * float(np.log(2 * np.pi * variances).sum() + noise)

    @property
    def row_kinds_(self) -> np.ndarray:
        """The kind of each training row, by its two distances and ``limits_``.

        "regular"; "good leverage", far out within the subspace; "orthogonal outlier", far from the
        subspace; "bad leverage", both. A flagged row that is beyond neither limit is named by the
        distance that is nearer to its limit.
        """
        score, orthogonal = to_numpy(self.score_distances_), to_numpy(self.orthogonal_distances_)
        return self._kinds(score, orthogonal, to_numpy(self.outliers_).astype(bool))

    @property
    def _kind_limits(self) -> tuple[float, float]:
        # Models of old files have cut-offs only.
        return getattr(self, "limits_", (self.score_cutoff_, self.orthogonal_cutoff_))

    def _kinds(self, score: np.ndarray, orthogonal: np.ndarray, flagged: np.ndarray) -> np.ndarray:
        """Return the kinds of rows by their distances and flags."""
        pairs = zip((score, orthogonal), self._kind_limits, strict=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.stack([np.nan_to_num(d / limit) for d, limit in pairs])
        beyond = ratios > 1
        within = flagged & ~beyond.any(axis=0)
        beyond[:, within] = (ratios == ratios.max(axis=0))[:, within]
        return np.array(KINDS)[beyond[0] + 2 * beyond[1]]

    @measures_new_rows
    def score_samples(self, X: Any) -> Array:
        """Return the log density of rows, so that higher is more normal.

        The density is that of the robust Gaussian model: minus half the squared score distance, minus
        half the squared orthogonal distance over ``noise_variance_``, and a constant. For
        ``flag="orthogonal"`` and "score" it is minus that distance, and minus the score distance where
        no row leaves the subspace.

        Parameters
        ----------
        X : rows, as in :meth:`distances`

        Returns
        -------
        scores : array of shape (n_samples,)
        """
        return self._normality(X, "score_samples")

    @measures_new_rows
    def score(self, X: Any, y: Any = None) -> float:
        """Return the median log density of the rows, which bad ones do not move; y is ignored.

        It is that of the robust Gaussian model, whatever flags rows, or the median of
        :meth:`score_samples` where good rows have no noise.
        """
        measured = self._distances(self._checked(X, "score"))
        noisy = self.noise_variance_ > 0
        return float(
            np.median(host_sample((self._log_density if noisy else self.normality)(*measured)))
        )

    def outlier_report(self, X: Any) -> Any:
        """Return flagged rows and why as a data frame, as :func:`dualpca.frames.outlier_report` does."""
        from ..frames import outlier_report

        return outlier_report(self, X)

    def _normality(self, X: Any, method: str) -> Array:
        return self.normality(*self._distances(self._checked(X, method)))

    @measures_new_rows
    def decision_function(self, X: Any) -> Array:
        """Return ``score_samples(X) - offset_`` of shape (n_samples,), which is negative for outliers."""
        return self._normality(X, "decision_function") - self.offset_

    @measures_new_rows
    def predict(self, X: Any) -> Array:
        """Return +1 for each good row of X and -1 for each outlier, integers of shape (n_samples,)."""
        scores = self._normality(X, "predict")
        xp = namespace(scores)
        return 1 - 2 * xp.astype(scores < self.offset_, xp.int64)

    def _set_fit(self, fit: RobustFit, X: Operator) -> None:
        """Set the attributes that do not depend on the form of the axes."""
        parts = fit.components
        self.n_components_ = parts.V.shape[1]
        self.explained_variance_ = X.asarray(parts.variances)
        total = float(parts.variances.sum()) + parts.residual_variance
        self.explained_variance_ratio_ = X.asarray(parts.variances / (total or 1.0))
        self.start_, self.agreement_ = fit.start.name, fit.start.agreement
        self.residual_, self.n_iter_ = fit.residual, fit.iterations
        self.loss_, self.refitted_ = fit.loss, fit.refitted
        warn_above(self.residual_, self.tol, type(self).__name__, self.max_iter)
        self.score_cutoff_ = chi2_quantile(MAP, self.n_components_) ** 0.5
        self.orthogonal_cutoff_ = fit.rows.cutoff(MAP)

    def _flag(
        self, rows: RowDistances, score: Array, orthogonal: Array, counted: Any = None
    ) -> None:
        """Set the distances of the training rows, their limits, and the rows that are flagged."""
        self.flags_by_ = "score" if rows.flat else self.flag
        if self.flags_by_ == "density" and not self.noise_variance_ > 0:
            self.flags_by_ = "orthogonal"  # good rows have no noise
        self.score_distances_, self.orthogonal_distances_ = score, orthogonal
        inside = host_sample(score).astype(float)
        if len(inside) > len(rows.on_host[1]):  # rows of weight 0 are not among those
            inside = inside[counted]
        scores = self.normality(score, orthogonal)
        sample = host_sample(scores) if counted is None else host_sample(scores)[counted]
        given = inside, self.noise_variance_, self.quantile
        self._set_limits(rows.limits(*given, scales=not self._of_features), sample)
        self.outliers_ = scores < self.offset_

    def _set_limits(self, limits: tuple[float, float, float], scores: np.ndarray) -> None:
        """Set the limit that flags rows; ``contamination`` asks for a quantile of the scores."""
        self.limits_ = limits[:2]
        if self.contamination != "auto":
            offset = float(np.percentile(scores, 100.0 * self.contamination))
            # Where that is the score of a row, rounding must not decide on its flag.
            self.offset_ = offset - eps(scores) ** 0.5 * abs(offset)
        elif self.flags_by_ == "density":
            self.offset_ = self._log_peak - 0.5 * limits[2] ** 2
        else:
            self.offset_ = -limits[0 if self.flags_by_ == "score" else 1]

    def _warn_of_doubt(self, fit: RobustFit) -> None:
        """Warn where the fit may not be of the data, or the data not of the model."""
        flagged = host_sample(self.outliers_).astype(bool)
        near = host_sample(self.orthogonal_distances_) <= self.limits_[1]
        doubts = [doubt_of_start(fit.start, float(near.mean()))]
        if self.contamination == "auto":
            share = float(flagged.mean())
            inside = float((flagged & near).mean()) if self.flags_by_ == "density" else 0.0
            many = doubt_of_half(share) or doubt_of_groups(inside)
            doubts = [many or self._doubt_of_model(fit), *doubts]
        for doubt in filter(None, doubts):
            warnings.warn(doubt, UserWarning, stacklevel=user_stacklevel())

    def _doubt_of_model(self, fit: RobustFit) -> str | None:
        """Return what to say where good rows are not as the model has them."""
        return None
