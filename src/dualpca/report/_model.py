"""A fitted model as the report sees it: the estimator, what comes before it, names of variables."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..estimators import PCA, KernelPCA, RobustKernelPCA, RobustPCA, SparsePCA
from ..linalg import Array, to_numpy
from ._html import clean, counted

KINDS = (PCA, RobustPCA, KernelPCA, RobustKernelPCA, SparsePCA)

#: Equal rows differ from their mean by the rounding of its sum: up to 1e-12 of it for 10^5 rows.
ROUNDING = 1e-11


def still(estimator: Any) -> bool:
    """Whether the rows of the fit vary by no more than rounding."""
    first = float(to_numpy(estimator.explained_variance_)[0])
    mean = to_numpy(getattr(estimator, "mean_", np.zeros(1))).astype(float)
    return bool(max(first, 0.0) ** 0.5 <= ROUNDING * np.linalg.norm(mean))


@dataclass(frozen=True)
class Fitted:
    """``estimator``, the step ``before`` it or None, and a name for each variable."""

    estimator: Any
    before: Any
    variables: list[str]

    @property
    def kind(self) -> str:
        return type(self.estimator).__name__

    @property
    def robust(self) -> bool:
        return hasattr(self.estimator, "orthogonal_distances_")

    @property
    def linear(self) -> bool:
        return hasattr(self.estimator, "components_")

    @property
    def precomputed(self) -> bool:
        return getattr(self.estimator, "kernel", None) == "precomputed"

    @property
    def invertible(self) -> bool:
        """Whether rows can be made of scores."""
        return hasattr(self.estimator, "inverse_transform") and not self.precomputed

    @cached_property
    def still(self) -> bool:
        return still(self.estimator)

    @cached_property
    def shares(self) -> np.ndarray:
        """Of the variance; zeros where there is none but rounding."""
        found = to_numpy(self.estimator.explained_variance_ratio_).astype(float)
        return np.zeros_like(found) if self.still else found

    @property
    def n_components(self) -> int:
        return len(self.shares)

    @cached_property
    def loadings(self) -> np.ndarray:
        return to_numpy(self.estimator.components_).astype(float)

    @property
    def n_rows(self) -> int | None:
        """How many rows the model was fitted on, where it knows."""
        known = getattr(self.estimator, "n_samples_", None)
        rows = getattr(self.estimator, "X_fit_", None)
        return known if known is not None or rows is None else int(rows.shape[0])

    def prepared(self, X: Any) -> Any:
        """X as the estimator takes it."""
        return X if self.before is None else self.before.transform(X)

    def original(self, Z: Array) -> np.ndarray:
        """Rows of the estimator in the units of the data."""
        return to_numpy(Z if self.before is None else self.before.inverse_transform(Z))

    def changed(self) -> dict[str, str]:
        """The parameters that differ from their defaults, and their values in words."""
        found = {}
        for step in (self.before, self.estimator):
            if step is None:
                continue
            defaults = inspect.signature(type(step).__init__).parameters
            for name, value in step.get_params(deep=False).items():
                if name in defaults and not _same(value, defaults[name].default):
                    found[name] = in_words(value)
        return found


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(np.all(value == default)))


def in_words(value: Any) -> str:
    """A parameter or a note: an array by its shape, the rest as Python writes it, shortened."""
    shape = getattr(value, "shape", None)
    if shape:
        return f"array of shape {tuple(shape)}"
    if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        text = ", ".join(value) or "none"
    else:
        text = value if isinstance(value, str) else repr(value)
    return clean(text if len(text) <= 300 else text[:299] + "…")


def fitted(model: Any, feature_names: Any) -> Fitted:
    """The parts of a model, checked."""
    before, estimator = None, model
    if isinstance(model, Pipeline):
        if len(model) > 2:
            raise ValueError(
                f"model is a Pipeline of {len(model)} steps; give one of a Preprocessor and an "
                "estimator, or the estimator alone and the rows it was given"
            )
        before, estimator = (model[0] if len(model) == 2 else None), model[-1]
    if not isinstance(estimator, KINDS):
        known = ", ".join(kind.__name__ for kind in KINDS)
        raise TypeError(
            f"model is a {type(estimator).__name__}; a report is of one of {known}, fitted, or of a "
            "Pipeline of a Preprocessor and one of these"
        )
    for step in (before, estimator):
        if step is not None:
            check_is_fitted(step)
    width = int(estimator.n_features_in_)
    first = estimator if before is None else before
    if getattr(first, "n_features_in_", width) != width:
        raise ValueError(
            f"model is a Pipeline whose first step makes {width} variables of {first.n_features_in_}; "
            "give one that keeps them, such as a Preprocessor, or the estimator alone"
        )
    names: Any = (
        getattr(first, "feature_names_in_", None) if feature_names is None else feature_names
    )
    if names is None:
        names = [f"x{j}" for j in range(width)]
    if isinstance(names, str) or len(names) != width:
        raise ValueError(
            f"feature_names has length {len(names)} for {counted(width, 'variable')}; give one name "
            "for each"
        )
    return Fitted(estimator, before, [clean(name) for name in names])


def picture_shape(image_shape: Any, width: int) -> tuple[int, ...] | None:
    """(height, width) or (height, width, 3) of rows that are pictures; True stands for a square."""
    if image_shape is None or image_shape is False:
        return None
    if image_shape is True:
        side = round(width**0.5)
        if side * side != width:
            raise ValueError(
                f"image_shape=True means square pictures, and {counted(width, 'variable')} are no "
                "square; give (height, width)"
            )
        return side, side
    sizes = tuple(image_shape) if isinstance(image_shape, (list, tuple)) else ()
    whole = all(isinstance(size, Integral) and int(size) > 0 for size in sizes)
    sound = whole and len(sizes) in (2, 3) and sizes[2:] in ((), (3,))
    if not sound or int(np.prod(sizes)) != width:
        raise ValueError(
            f"image_shape={image_shape!r} does not fit {counted(width, 'variable')}; give (height, "
            "width), or (height, width, 3) for colours, whose product that is"
        )
    return tuple(int(size) for size in sizes)
