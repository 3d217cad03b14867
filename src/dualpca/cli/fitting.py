"""From options and a table to a fitted model."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from .. import PCA, KernelPCA, Preprocessor, RobustKernelPCA, RobustPCA, SparsePCA
from ..io.tables import Table
from ..io.tables.table import TableError
from ..robust.starts import MOST, components_for
from .inputs import ENDING, NotedModel, is_model, open_model, open_table
from .options import FitOptions, Method, Missing, ReadOptions, Scale
from .run import RefusedError, stderr_line
from .watch import watching

#: The estimator of each method.
ESTIMATORS: dict[Method, Any] = {
    Method.robust: RobustPCA,
    Method.plain: PCA,
    Method.kernel: KernelPCA,
    Method.robust_kernel: RobustKernelPCA,
    Method.sparse: SparsePCA,
}


def open_or_fit(
    source: str,
    data: str | None,
    read: ReadOptions,
    options: FitOptions,
    quiet: bool,
    must_flag: bool = False,
) -> tuple[NotedModel, Table | None]:
    """Return a model from its file with the rows of DATA, if given; or fit a model to a data file."""
    make_estimator(options)  # raises if the options are wrong
    if not is_model(source):
        if source.endswith(ENDING) or data is not None:
            open_model(source)  # raises the reason why it is no model
        return fit_file(source, read, options, quiet)
    if options != FitOptions():
        raise RefusedError(
            f"{source} is a model already; options of the fit belong to `dualpca fit`"
        )
    fitted = open_model(source)
    if must_flag and not fitted.is_robust:
        raise RefusedError(
            f"{source} holds a {fitted.name}, which flags no rows; fit with --method robust"
        )
    if data is None:
        return fitted, None
    with watching(quiet) as watch:
        return fitted, open_table(data, read, watch, quiet, fitted)


def fit_file(
    path: str, read: ReadOptions, options: FitOptions, quiet: bool
) -> tuple[NotedModel, Table]:
    """Return the model of a file, with progress on a terminal, and the rows of the file."""
    with watching(quiet) as watch:
        table = open_table(path, read, watch, quiet)
        return fit_table(table, read, options, path), table


def fit_table(table: Table, read: ReadOptions, options: FitOptions, source: str) -> NotedModel:
    """Return the model of a table, with the notes that go into its file."""
    X, impute = table.X, read.missing is Missing.impute
    if X.shape[0] < 2:
        raise TableError(f"{source} has one row of numbers; components need two at least")
    estimator = make_estimator(options)
    model = first = estimator
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if impute or options.scale != Scale.none:
            missing = "impute" if impute else "refuse"
            first = Preprocessor(str(options.scale), missing).fit(X)
            model = Pipeline([("preprocessor", first), ("model", estimator)])
            X = first.transform(X)
        if getattr(estimator, "approximation", None) == "nystroem":
            estimator.n_landmarks = min(estimator.n_landmarks, X.shape[0])
        if estimator.n_components is None:
            variances = RobustPCA(random_state=options.seed).scree(X)
            estimator.n_components = components_for(variances, "auto", min(X.shape))
        estimator.fit(X)
    for warning in caught:
        stderr_line(f"warning: {warning.message}")
    if table.names is not None:
        first.feature_names_in_ = np.asarray(table.names, dtype=object)
    notes = {
        "source": "standard input" if source == "-" else Path(source).name,
        "rows": int(table.X.shape[0]),
        "ids": list(table.id_columns),
        "label": table.label_column,
        "left_out": list(table.left_out),
        "dropped_rows": int(table.n_dropped),
    }
    missed_tol = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    return NotedModel(model, notes, missed_tol)


def make_estimator(options: FitOptions) -> Any:
    """Return the estimator of the options; refuse parameters out of range or of other methods.

    PCA and SparsePCA get their number of components later, if it is "auto".
    """
    method = options.method
    given: dict[str, Any] = {"n_components": _components(options), "random_state": options.seed}
    if method is Method.kernel:
        given |= {"kernel": "rbf", "gamma": "median"}
    for name in ("tol", "quantile", "kernel", "gamma", "approximation", "nonzero"):
        value = getattr(options, name)
        parameter = "n_nonzero" if name == "nonzero" else name
        takers = [m for m, e in ESTIMATORS.items() if parameter in inspect.signature(e).parameters]
        if value is not None and method not in takers:
            right = " or ".join(takers)
            raise RefusedError(f"--{name} is for --method {right}; --method is {method}")
        if name == "nonzero" and value is not None:
            value = _number("--nonzero", value, "12 or 0.25")
        elif name == "gamma" and value not in (None, "median", "scale"):
            value = _number("--gamma", value, "0.1, median or scale")
        if value not in (None, "none"):
            given[parameter] = value if isinstance(value, (int, float)) else str(value)
    estimator = ESTIMATORS[method](**given)
    estimator._validate_params()  # scikit-learn's own check, before any data is read
    return estimator


def _components(options: FitOptions) -> int | float | str | None:
    text, method = options.components, options.method
    if text == "auto":
        return {Method.plain: None, Method.sparse: None, Method.kernel: MOST}.get(method, "auto")
    n = _number("--components", text, "5, 0.9 or auto")
    if not (n >= 1 if isinstance(n, int) else 0 < n < 1):
        raise RefusedError(f"--components {text} is out of range; give 5, 0.9 or auto")
    if method is Method.sparse and isinstance(n, float):
        raise RefusedError(f"--components {n}: sparse components are counted; give 5")
    return n


def _number(option: str, text: str, such_as: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise RefusedError(f"{option} {text!r} is no number; give {such_as}")
