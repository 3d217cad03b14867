"""From options and a table to a fitted model."""

from __future__ import annotations

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
from .inputs import NotedModel, open_table
from .options import Approximation, FitOptions, Method, Missing, ReadOptions, Scale
from .run import RefusedError, stderr_line
from .watch import watching


def fit_file(
    path: str, read: ReadOptions, options: FitOptions, quiet: bool
) -> tuple[NotedModel, Table]:
    """Return the model of a file, with progress on a terminal, and the rows of the file."""
    with watching(quiet) as watch:
        table = open_table(path, read, watch, quiet)
        return fit_table(table, read, options, path), table


def fit_table(table: Table, read: ReadOptions, options: FitOptions, source: str) -> NotedModel:
    """Return the model of a table, with the notes that go into its file."""
    X = table.X
    if X.shape[0] < 2:
        raise TableError(f"{source} has one row of numbers; components need two at least")
    preprocessor, impute = None, read.missing is Missing.impute
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if impute or options.scale != Scale.none:
            missing = "impute" if impute else "refuse"
            preprocessor = Preprocessor(str(options.scale), missing).fit(X)
            X = preprocessor.transform(X)
        estimator = sized(checked_estimator(options), X).fit(X)
    for warning in caught:
        stderr_line(f"warning: {warning.message}")
    model = estimator
    if preprocessor is not None:
        model = Pipeline([("preprocessor", preprocessor), ("model", estimator)])
    if table.names is not None:
        first = estimator if preprocessor is None else preprocessor
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


def checked_estimator(options: FitOptions) -> Any:
    """Return the estimator of the options; refuse parameters out of range or of other methods."""
    estimator = _estimator(options)
    estimator._validate_params()  # scikit-learn's own check, before any data is read
    return estimator


def _estimator(options: FitOptions) -> Any:
    method, n = options.method, _components(options.components)
    given: dict[str, Any] = {"n_components": n, "random_state": options.seed}
    if options.tol is not None:
        given["tol"] = options.tol
    kernels = {Method.kernel, Method.robust_kernel}
    methods_of = dict.fromkeys(("kernel", "gamma", "approximation"), kernels)
    methods_of |= {"quantile": {Method.robust, Method.robust_kernel}, "nonzero": {Method.sparse}}
    for name, methods in methods_of.items():
        if getattr(options, name) is not None and method not in methods:
            right = " or ".join(sorted(methods))
            raise RefusedError(f"--{name} is for --method {right}; --method is {method}")
    if options.quantile is not None:
        given["quantile"] = options.quantile
    if n is None and method in (Method.robust, Method.robust_kernel):
        given["n_components"] = "auto"
    if method is Method.robust:
        return RobustPCA(**given)
    if method is Method.plain:
        return PCA(**given)
    if method is Method.sparse:
        if isinstance(n, float):
            raise RefusedError(f"--components {n}: sparse components are counted; give 5")
        k = "0.25" if options.nonzero is None else options.nonzero
        return SparsePCA(**given, n_nonzero=_number("--nonzero", k, "12 or 0.25"))
    given["kernel"] = options.kernel or "rbf"
    gamma = options.gamma or "median"
    words = ("median", "scale")
    given["gamma"] = gamma if gamma in words else _number("--gamma", gamma, "0.1, median or scale")
    if options.approximation not in (None, Approximation.none):
        given["approximation"] = str(options.approximation)
    if method is Method.robust_kernel:
        return RobustKernelPCA(**given)
    given["n_components"] = MOST if n is None else n
    return KernelPCA(**given)


def sized(model: Any, X: Any) -> Any:
    """Set the parameters that depend on the data: components from the robust scree, landmarks."""
    if getattr(model, "approximation", None) == "nystroem":
        model.n_landmarks = min(model.n_landmarks, X.shape[0])
    if model.n_components is None and isinstance(model, (PCA, SparsePCA)):
        variances = RobustPCA(random_state=model.random_state).scree(X)
        model.n_components = components_for(variances, "auto", min(X.shape))
    return model


def _components(text: str) -> int | float | None:
    if text == "auto":
        return None
    n = _number("--components", text, "5, 0.9 or auto")
    if not (n >= 1 if isinstance(n, int) else 0 < n < 1):
        raise RefusedError(f"--components {text} is out of range; give 5, 0.9 or auto")
    return n


def _number(option: str, text: str, such_as: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise RefusedError(f"{option} {text!r} is no number; give {such_as}") from None
