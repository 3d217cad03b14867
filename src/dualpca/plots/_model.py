"""What the displays ask of models: estimators, and pipelines that end in one."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..linalg import to_numpy

ROBUST = "RobustPCA or RobustKernelPCA"


def estimator_of(model: Any, display: str, method: str, has: str, give: str) -> Any:
    """The fitted estimator that a model is or ends in, which must have the method."""
    estimator = model.steps[-1][1] if isinstance(model, Pipeline) else model
    name = type(estimator).__name__
    if not hasattr(estimator, method):
        raise TypeError(f"model is a {name}, which has no {has}; give {display} a fitted {give}")
    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise NotFittedError(
            f"model, a {name}, is not fitted; call fit(X) before {display}"
        ) from error
    return estimator


def is_robust(estimator: Any) -> bool:
    """Whether the estimator flags rows."""
    return hasattr(estimator, "distances")


def prepared(model: Any, X: Any) -> Any:
    """X as the estimator at the end of the model sees it."""
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        return model[:-1].transform(X)
    return X


def host(values: Any) -> np.ndarray:
    """Numbers or names of any kind as a numpy array."""
    if is_array_api_obj(values):
        return to_numpy(values)
    return np.asarray(values)


def flags(estimator: Any, rows: Any) -> np.ndarray | None:
    """Which rows are flagged, or None where the estimator does not tell."""
    if not is_robust(estimator):
        return None
    if getattr(estimator, "kernel", None) == "precomputed":  # of other rows k(x, x) is not known
        K = host(rows)
        same = K.shape == estimator.X_fit_.shape and np.array_equal(K, estimator.X_fit_)
        return host(estimator.outliers_) if same else None
    return host(estimator.predict(rows)) == -1


def feature_names(model: Any, estimator: Any) -> list[str]:
    """The names of the features that the estimator sees, x0, x1, ... where it knows none."""
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        return [str(name) for name in model[:-1].get_feature_names_out()]
    unknown = [f"x{i}" for i in range(estimator.n_features_in_)]
    return [str(name) for name in getattr(estimator, "feature_names_in_", unknown)]


def check_rows(name: str, values: Any, X: Any) -> None:
    """Refuse values that are not one a row, where X says at once how many rows it has."""
    rows = getattr(X, "shape", (None,))[0]
    if hasattr(values, "__len__") and isinstance(rows, int) and len(values) != rows:
        raise ValueError(
            f"{name} has length {len(values)} for {rows} rows; give one for each row of X"
        )


def names_of_rows(row_names: Any, n: int) -> list[str]:
    """What to call the rows: their numbers, from 0, where no names are given."""
    names = [str(name) for name in (range(n) if row_names is None else row_names)]
    if len(names) != n:
        raise ValueError(f"row_names has length {len(names)} for {n} rows; give one for each row")
    return names
