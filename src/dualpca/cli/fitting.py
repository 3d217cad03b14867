"""From files and options to fitted models."""

import inspect
import re
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from .. import PCA, KernelPCA, Preprocessor, RobustKernelPCA, RobustPCA, SparsePCA, control, load
from ..inspect import ESTIMATORS, MANY_FLAGGED, FittedModel
from ..io.models import ModelFileError, read_header
from ..io.tables import Table, TableError
from ..io.tables.table import counted, shown
from ..linear.selection import METHODS as CHOICES
from ..operators import as_operator
from ..robust.sample import MOST, components_for
from .options import FitOptions, Method, Missing, ReadOptions, Scale
from .reading import ENDING, open_table, without_mostly_equal
from .run import MISSED_TOL, OK, RefusedError, in_options, stderr_line
from .watch import watching

#: The notes in model files that ``fit`` writes, and their types.
NOTES: dict[str, type] = {"source": str, "rows": int, "ids": list, "label": str}
NOTES |= {"left_out": list, "dropped_rows": int, "percent": list}

#: Flags of fewer rows than this mean little.
FEW_ROWS = 10

#: The estimator of each method.
METHODS: dict[Method, Any] = {
    Method.robust: RobustPCA,
    Method.plain: PCA,
    Method.kernel: KernelPCA,
    Method.robust_kernel: RobustKernelPCA,
    Method.sparse: SparsePCA,
}

#: Options that are parameters of some estimators, which take their own default where they are None.
OPTIONAL = ("rotation", "tol", "quantile", "flag", "kernel", "gamma", "approximation", "nonzero")


class NotedModel(FittedModel):
    """A fitted model, the notes of its file, and the exit code: whether it reached ``--tol``."""

    def __init__(self, model: Any, notes: dict[str, Any], missed_tol: bool = False) -> None:
        super().__init__(model)
        self.notes, self.exit_code = notes, MISSED_TOL if missed_tol else OK
        if self.input_names is None:  # columns of a file are counted from 1
            self.feature_names = [f"x{j + 1}" for j in range(self.n_features)]


def is_model(path: str) -> bool:
    """Return whether a file is a model rather than data."""
    if path != "-" and Path(path).is_file():
        with suppress(ModelFileError, OSError):
            return path.endswith(ENDING) or bool(read_header(path))
    return False


def open_model(path: str) -> NotedModel:
    """Return a model from its file."""
    if path == "-":
        raise RefusedError("a model cannot be read from a pipe; give its file")
    if not is_model(path):
        reason = " is no model of dualpca" if Path(path).is_file() else ": there is no such file"
        raise ModelFileError(f"{path}{reason}; `dualpca fit DATA` writes one")
    model, notes = load(path), read_header(path)["notes"]
    for name, kind in NOTES.items():
        value = notes.get(name)
        texts = not isinstance(value, list) or all(isinstance(text, str) for text in value)
        if value is not None and not (type(value) is kind and texts):
            raise ModelFileError(
                f"{path} has {name} {shown(value)} among its notes, which `dualpca fit` does not "
                "write; save the model without that note"
            )
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [None, model]
    layout = len(steps) == 2 and isinstance(steps[0], (Preprocessor, type(None)))
    fitted = hasattr(steps[-1], "explained_variance_ratio_")
    if not (layout and isinstance(steps[-1], ESTIMATORS) and fitted):
        raise ModelFileError(
            f"{path} holds a {type(model).__name__}; the command line takes fitted models of PCA, "
            "alone or behind a Preprocessor: load it in Python"
        )
    return NotedModel(model, notes)


def open_or_fit(
    source: str,
    data: str | None,
    read: ReadOptions,
    options: FitOptions,
    quiet: bool,
    must_flag: bool = False,
    pixels: bool = False,
) -> tuple[NotedModel, Table | None]:
    """Return a model from its file with the rows of DATA, if given; or fit a model to a data file."""
    make_estimator(options, read.missing)  # raises if the options are wrong
    if not is_model(source):
        if source.endswith(ENDING) or data is not None:
            open_model(source)  # raises the reason why it is no model
        return fit_file(source, read, options, quiet, pixels)
    if options != FitOptions():
        raise RefusedError(f"{source} is a model already; its options belong to `dualpca fit`")
    fitted = open_model(source)
    if must_flag and not fitted.is_robust:
        raise RefusedError(f"{source}: {fitted.name} flags no rows; fit with --method robust")
    return fitted, None if data is None else open_table(data, read, quiet, fitted)


def fit_file(
    path: str, read: ReadOptions, options: FitOptions, quiet: bool, pixels: bool = False
) -> tuple[NotedModel, Table]:
    """Return the model of a file, with the notes that go into its own, and the rows of the file."""
    model = first = estimator = make_estimator(options, read.missing)
    completes = bool(getattr(estimator, "_completes", ""))
    table = open_table(path, read, quiet, pixels=pixels, completes=completes)
    if options.method in (Method.robust, Method.robust_kernel) and not (read.keep or pixels):
        table = without_mostly_equal(table, quiet, completes)
    X, impute = table.X, read.missing is Missing.impute
    if X.shape[0] < 2:
        raise TableError(f"{path} has one row of numbers; components need two at least")
    with watching(quiet), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scale = options.scale
        if scale is Scale.auto:
            scale = Scale.none if pixels or as_operator(X).sparse else Scale.robust
        if impute or scale != Scale.none:
            missing = "impute" if impute else "keep" if completes else "refuse"
            first = Preprocessor(str(scale), missing).fit(X)
            model = Pipeline([("preprocessor", first), ("model", estimator)])
            X = first.transform(X)
        if getattr(estimator, "approximation", None) == "nystroem":
            estimator.n_landmarks = min(estimator.n_landmarks, X.shape[0])
        if estimator.n_components is None:
            filled = Preprocessor(missing="impute").fit_transform(X) if completes else X
            variances = RobustPCA(random_state=options.seed).scree(filled)
            estimator.n_components = components_for(variances, "auto", min(X.shape), X.shape[0])
        estimator.fit(X)
        if options.method is Method.plain:  # limits for `dualpca monitor`
            control.calibrate(estimator, X)
    flagged = getattr(estimator, "outliers_", None)
    if flagged is not None and not quiet:
        share = float(flagged.mean())
        if X.shape[0] < FEW_ROWS:
            stderr_line(f"{counted(X.shape[0], 'row')} are too few to tell good rows from bad ones")
        elif share > MANY_FLAGGED:
            stderr_line(
                f"{share:.0%} of the rows are flagged: perhaps they are a group of their own, or columns "
                "are skewed; look at the report before you believe it"
            )
    names = table.names or [f"x{j + 1}" for j in range(X.shape[1])]
    for warning in caught:
        words = in_options(warning.message)
        if place := re.match(r"column (\d+)", words):
            words = f"column {shown(names[int(place[1])])}{words[place.end() :]}"
        stderr_line(f"warning: {words}")
    if scale != options.scale and scale is Scale.robust and not quiet:
        stderr_line("columns were divided by their robust spread; --scale none keeps their units")
    if table.names is not None:
        first.feature_names_in_ = np.asarray(table.names, dtype=object)
    notes = {
        "source": "standard input" if path == "-" else Path(path).name,
        "rows": int(table.X.shape[0]),
        "ids": list(table.id_columns),
        "label": table.label_column,
        "left_out": list(table.left_out),
        "dropped_rows": int(table.n_dropped),
        "percent": [name for name in table.percent if name in (table.names or ())],
    }
    missed_tol = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    return NotedModel(model, notes, missed_tol), table


def make_estimator(options: FitOptions, missing: Missing) -> Any:
    """Return the estimator of the options; refuse parameters out of range or of other methods.

    PCA and SparsePCA get their number of components later, if it is "auto".
    """
    method = options.method
    given: dict[str, Any] = {"n_components": _components(options), "random_state": options.seed}
    if method is Method.kernel:
        given |= {"kernel": "rbf", "gamma": "median"}
    completes = missing in (Missing.em, Missing.shrink)
    if options.cells and (completes or missing is Missing.impute):
        raise RefusedError(
            f"--missing {missing} fills cells that --cells completes itself; leave it out, or give drop"
        )
    asked = {name: getattr(options, name) for name in OPTIONAL}
    asked |= {"cells": options.cells or None, "missing": missing if completes else None}
    for name, value in asked.items():
        parameter = "n_nonzero" if name == "nonzero" else name
        takers = [m for m, e in METHODS.items() if parameter in inspect.signature(e).parameters]
        if value is not None and method not in takers:
            right = " or ".join(takers)
            words = f"--missing {missing}" if name == "missing" else f"--{name}"
            raise RefusedError(f"{words} is for --method {right}; --method is {method}")
        if name == "nonzero" and value is not None:
            value = _number("--nonzero", value, "12 or 0.25")
        elif name == "gamma" and value not in (None, "median", "scale"):
            value = _number("--gamma", value, "0.1, median or scale")
        if value not in (None, "none"):
            given[parameter] = value if isinstance(value, (int, float)) else str(value)
    estimator = METHODS[method](**given)
    estimator._validate_params()  # scikit-learn's own check, before any data is read
    return estimator


def _components(options: FitOptions) -> int | float | str | None:
    text, method = options.components, options.method
    robust = method in (Method.robust, Method.robust_kernel)
    if text is None:
        text = "outliers" if robust and not options.cells else "auto"
    if text == "auto":
        return {Method.plain: None, Method.sparse: None, Method.kernel: MOST}.get(method, "auto")
    if text == "outliers" and robust:
        return text
    if text in CHOICES:
        takers = [Method.plain] if text == "mle" else [Method.plain, Method.robust]
        if method in takers:
            return text
        raise RefusedError(
            f"--components {text} is for --method {' or '.join(takers)}; --method is {method}"
        )
    n = _number("--components", text, "5, 0.9, auto or parallel")
    if not (n >= 1 if isinstance(n, int) else 0 < n < 1):
        raise RefusedError(f"--components {text} is out of range; give 5, 0.9, auto or parallel")
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
