"""A fitted model as plots, reports, files and the command line see it."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils._pprint import _changed_params
from sklearn.utils.validation import check_is_fitted

from ._rows import dense_cells, on_host, sample_rows, take_rows
from .estimators import PCA, KernelPCA, RobustKernelPCA, RobustPCA, SparsePCA
from .kernels.features import feature_operator
from .linalg import to_numpy
from .operators import as_operator
from .robust.starts import DISAGREE

__all__ = ["CellFit", "FittedModel", "Reason", "RowDistances", "sample_rows", "take_rows"]

#: The estimators whose models have components, variances and scores.
ESTIMATORS = (PCA, RobustPCA, KernelPCA, RobustKernelPCA, SparsePCA)

#: Flagged rows above this share may be a group of their own.
MANY_FLAGGED = 0.2

#: Equal rows differ from their mean by the rounding of its sum: up to 1e-12 of it for 10^5 rows.
ROUNDING = 1e-11


class RowDistances(NamedTuple):
    """The distances of rows; rows whose ``normality`` is below a model's limit are ``flagged``."""

    score: np.ndarray
    orthogonal: np.ndarray
    normality: np.ndarray
    flagged: np.ndarray


class Reason(NamedTuple):
    """A variable of a row, and its share of the squared distance of the row.

    Its value, and the value that the others make likely, are in the units of the data.
    """

    variable: int
    value: float
    expected: float
    share: float


class CellFit(NamedTuple):
    """What a model with ``cells=True`` makes of rows: of each cell, and of the rows as a whole.

    ``residuals`` are in scales, NaN where a cell is missing, ``expected`` in the units of the data.
    ``bad`` are rows too many of whose cells are wrong.
    """

    residuals: np.ndarray
    expected: np.ndarray
    bad: np.ndarray


class FittedModel:
    """What a fitted estimator, alone or at the end of a pipeline, says about itself and about rows.

    Every array it returns is a NumPy array, whatever the library of the training data.

    Parameters
    ----------
    model : PCA, RobustPCA, KernelPCA, RobustKernelPCA or SparsePCA, or Pipeline that ends in one
        A fitted model. Other estimators with the same attributes, such as scikit-learn's PCA, have
        the properties whose attributes they have.
    feature_names : sequence of str, optional
        Names of the columns; by default those of ``fit``, or x0, x1 and so on.

    Attributes
    ----------
    model : the model that was given
    estimator : the last step
    preprocessor : the step before it, or a Pipeline of several steps, or None
    name : str
        The name of the class of the estimator.
    n_samples : int or None
        The number of training rows, or None where the model does not store it.
    input_names : list of str or None
        The names of the columns that the model was fitted on, or None if they had none.
    is_robust, is_linear, is_precomputed, is_invertible, has_cells, fills_holes : bool
        Whether the model measures and flags rows; whether components are directions of the features,
        with loadings; whether columns are kernels with the training rows instead of features; whether
        rows can be reconstructed from scores; whether it judges single cells; and whether it takes rows
        with missing cells.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from dualpca import Preprocessor, RobustPCA
    >>> from dualpca.inspect import FittedModel
    >>> X = load_wine(as_frame=True).data
    >>> pipeline = make_pipeline(Preprocessor("robust"), RobustPCA(2, random_state=0)).fit(X)
    >>> model = FittedModel(pipeline)
    >>> model.name, model.n_components, model.n_features
    ('RobustPCA', 2, 13)
    >>> [(name, round(loading, 2)) for name, loading in model.leading(0, 2)]
    [('malic_acid', 0.48), ('od280/od315_of_diluted_wines', -0.33)]
    >>> rows = model.distances(X)
    >>> size = (rows.score / model.limits["score"]) ** 2
    >>> size += (rows.orthogonal / model.limits["orthogonal"]) ** 2
    >>> bool((rows.flagged == (size > 1)).all())
    True
    >>> model.reconstruct(X).shape
    (178, 13)
    """

    def __init__(self, model: Any, feature_names: Any = None) -> None:
        steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
        self.model, self.estimator = model, steps[-1]
        self.preprocessor = model[:-1] if len(steps) > 2 else steps[0] if len(steps) == 2 else None
        self.name = type(self.estimator).__name__
        for step in (self.preprocessor, self.estimator):
            if step is not None:
                check_is_fitted(step)
        self.n_samples: int | None = getattr(self.estimator, "n_samples_", None)
        names = getattr(model, "feature_names_in_", None)
        self.input_names = None if names is None else [str(name) for name in names]
        self.is_robust = hasattr(self.estimator, "distances")
        self.is_linear = hasattr(self.estimator, "components_")
        self.is_precomputed = getattr(self.estimator, "kernel", None) == "precomputed"
        self.is_invertible = hasattr(steps[-1], "inverse_transform") and not self.is_precomputed
        self.has_cells = bool(getattr(self.estimator, "cells", False))
        filled = getattr(self.preprocessor, "fill_", None) is not None
        self.fills_holes = filled or bool(getattr(self.estimator, "_completes", ""))
        if feature_names is not None:
            self.feature_names = [str(name) for name in feature_names]  # in place of those of fit
            width, n = self.n_features, len(self.feature_names)
            if isinstance(feature_names, str) or n != width:
                variables = "1 variable" if width == 1 else f"{width} variables"
                raise ValueError(
                    f"feature_names has length {n} for {variables}; give one name for each"
                )

    @cached_property
    def has_no_variance(self) -> bool:
        """Whether the training rows, or most of them, vary by no more than rounding."""
        variances = getattr(self.estimator, "explained_variance_", np.ones(1))
        mean = to_numpy(getattr(self.estimator, "mean_", np.zeros(1))).astype(float)
        deviation = max(float(to_numpy(variances)[0]), 0.0) ** 0.5
        return bool(deviation <= ROUNDING * np.linalg.norm(mean))

    @property
    def starts_agree(self) -> bool:
        """Whether the starts of a robust fit chose nearly the same rows as the good half."""
        return bool(self.estimator.agreement_ >= DISAGREE)

    @property
    def n_features(self) -> int:
        """The number of features that the estimator was fitted on."""
        return int(self.estimator.n_features_in_)

    @property
    def n_components(self) -> int:
        """The number of components."""
        return len(self.estimator.get_feature_names_out())

    @cached_property
    def feature_names(self) -> list[str]:
        """The names of the features that the estimator sees."""
        names: Any = self.input_names
        if self.preprocessor is not None and hasattr(self.preprocessor, "get_feature_names_out"):
            names = self.preprocessor.get_feature_names_out()
        unknown = names is None or len(names) != self.n_features
        return [f"x{j}" for j in range(self.n_features)] if unknown else [str(n) for n in names]

    def changed_parameters(self) -> dict[str, Any]:
        """Return the parameters of all steps that differ from their defaults."""
        steps = (step for step in (self.preprocessor, self.estimator) if step is not None)
        return {name: value for step in steps for name, value in _changed_params(step).items()}

    @cached_property
    def shares(self) -> np.ndarray:
        """The share of each component in the variance; zeros if there is only rounding."""
        shares = to_numpy(self.estimator.explained_variance_ratio_).astype(float)
        return np.zeros_like(shares) if self.has_no_variance else shares

    @cached_property
    def cumulative_shares(self) -> np.ndarray:
        """The share of the first k components together; sparse components may overlap."""
        known = getattr(self.estimator, "cumulative_variance_ratio_", None)
        if known is None or self.has_no_variance:
            return np.cumsum(self.shares)
        return to_numpy(known).astype(float)

    @cached_property
    def loadings(self) -> np.ndarray:
        """The loadings, of shape (n_components, n_features)."""
        return to_numpy(self.estimator.components_).astype(float)

    def leading(self, component: int, count: int) -> list[tuple[str, float]]:
        """Return the names and the loadings of the largest nonzero loadings of a component."""
        row = self.loadings[component]
        largest = np.argsort(-np.abs(row), kind="stable")[:count]
        return [(self.feature_names[j], float(row[j])) for j in largest if row[j]]

    def plain_shares(self, X: Any) -> np.ndarray:
        """Return the shares of plain PCA, in the same feature space, of the rows X."""
        model, Z = self.estimator, self.prepared(X)
        centred = getattr(model, "center", None) is not None
        options: dict[str, Any] = {"center": centred, "random_state": 0}
        n = min(self.n_components, Z.shape[0] if hasattr(Z, "shape") else len(Z))
        holes = bool(getattr(model, "_completes", ""))
        plain: Any = PCA(n, missing="em" if holes else "error", **options)
        if getattr(model, "approximation", None) is not None:
            Z = feature_operator(model.features_, as_operator(on_host(Z)))
        elif hasattr(model, "kernel"):
            names = ("kernel", "degree", "coef0", "kernel_params", "n_jobs")
            options |= {name: getattr(model, name) for name in names}
            plain = KernelPCA(n, gamma=model.gamma_, **options)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "column .* holds")  # outliers may be in one column
            return FittedModel(plain.fit(Z)).shares

    def prepared(self, X: Any) -> Any:
        """Return X as the estimator takes it."""
        return X if self.preprocessor is None else self.preprocessor.transform(X)

    def scores(self, X: Any) -> np.ndarray:
        """Return the scores of rows."""
        return to_numpy(self.estimator.transform(self.prepared(X)))

    def original(self, Z: Any) -> np.ndarray:
        """Return rows of the estimator in the units of the data."""
        return to_numpy(Z if self.preprocessor is None else self.preprocessor.inverse_transform(Z))

    def reconstruct(self, X: Any) -> np.ndarray:
        """Return the rows that the model makes of the scores of X, in the units of X."""
        with warnings.catch_warnings():
            # Rows that were taken from a file have lost the names of its columns.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            scores = self.estimator.transform(self.prepared(X))
        return self.original(self.estimator.inverse_transform(scores))

    def distances(self, X: Any = None) -> RowDistances:
        """Return the distances of rows, by default those of the training rows, and their flags.

        For a precomputed kernel X must be the matrix of the fit: of other rows k(x, x) is unknown.
        """
        model = self.estimator
        if X is None or (self.is_precomputed and self.is_training_kernel(X)):
            score, orthogonal = model.score_distances_, model.orthogonal_distances_
        elif self.is_precomputed:
            raise ValueError(
                f"X has shape {np.shape(X)}; with a precomputed kernel give the matrix of the fit, of "
                f"shape {model.X_fit_.shape}, or none"
            )
        else:
            score, orthogonal = model.distances(self.prepared(X))
        normality = model.normality(score, orthogonal)
        flagged = normality < model.offset_  # in the precision of the data, as predict compares
        return RowDistances(*(to_numpy(a) for a in (score, orthogonal, normality, flagged)))

    @property
    def kind_limits(self) -> tuple[float, float]:
        """The score and orthogonal distance that divide rows into four kinds."""
        return self.estimator._kind_limits

    def kinds(self, rows: RowDistances) -> np.ndarray:
        """Return the kinds of rows with these distances; see ``RobustPCA.row_kinds_``."""
        return self.estimator._kinds(rows.score, rows.orthogonal, rows.flagged)

    def reasons(self, X: Any, most: int = 8, by: str | None = None) -> list[list[Reason]]:
        """Return the variables that put each row where it is, those with the largest shares first.

        Variables without a share are left out. The shares of all variables of a row sum to 1; see
        :meth:`dualpca.RobustPCA.contributions`. ``by`` is what flags rows, or another way to blame
        variables. A missing cell that was filled has the value NaN.
        """
        Z, by = self.prepared(X), by or self.estimator.flags_by_
        parts, expected = (on_host(a) for a in self.estimator._blamed(Z, "reasons", by))
        parts, expected = (to_numpy(a).astype(float) for a in (parts, expected))
        values, expected = dense_cells(X), self.original(expected)
        largest = parts.max(axis=1, keepdims=True)  # scaled by it, sums do not overflow
        parts = parts / np.where(largest > 0, largest, 1.0)
        shares = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1.0)
        top = np.argsort(-shares, axis=1, kind="stable")[:, :most]
        return [
            [
                Reason(int(j), float(values[i, j]), float(expected[i, j]), float(shares[i, j]))
                for j in row
                if shares[i, j] > 0
            ]
            for i, row in enumerate(top)
        ]

    def cells(self, X: Any) -> CellFit:
        """Return how far the cells of rows are from what is expected, and what is."""
        Z = dense_cells(self.prepared(X))
        model = self.estimator._completion()
        found = model.judged(Z)
        # In the precision of the data, in which cells are flagged.
        residuals = (found.residuals / model.scales).astype(Z.dtype)
        return CellFit(residuals, self.original(model.fitted(found.scores)), found.bad)

    def is_training_kernel(self, X: Any) -> bool:
        """Whether X is the kernel matrix that the model was fitted on."""
        K = self.estimator.X_fit_
        return np.shape(X) == K.shape and bool(np.array_equal(on_host(X), K))

    @property
    def limits(self) -> dict[str, float | None]:
        """The distances beyond which rows are flagged; None for a distance that flags none.

        For flags by density, a row is flagged where the sum of the squares of its distances over these
        is above 1.
        """
        model, by = self.estimator, self.estimator.flags_by_
        if by != "density":
            limit = -float(model.offset_)
            return {kind: limit if kind == by else None for kind in ("score", "orthogonal")}
        squares = 2 * max(float(model._log_peak) - float(model.offset_), 0.0)
        return {"score": squares**0.5, "orthogonal": (squares * model.noise_variance_) ** 0.5}
