"""A model that follows rows: it measures them as they come, and then learns from them."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .. import Preprocessor, RobustPCA, control
from ..frames import VARIABLES, in_words
from ..inspect import FittedModel
from ..io.models import ModelFileError
from ..io.tables import Table, TableError
from ..io.tables.table import counted, listed
from ..linear.forgetting import FIRST
from ..robust.online import BLOCK, EACH, LEAST
from ..robust.sample import components_for
from .fitting import NotedModel, make_estimator
from .options import FitOptions, Method, Missing, Scale
from .reading import without_mostly_equal
from .run import in_options, stderr_line

#: Ways to take missing cells by which the model completes them.
COMPLETES = (Missing.em, Missing.shrink)

#: Components have turned where chance alone does so with a smaller probability: it is asked often.
CHANCE = 1e-6

#: The most rows that are measured at once, as a share of those that the model remembers.
FEW = 0.25


@dataclass(frozen=True)
class Known:
    """What the file of a model knows of a stream, among its notes.

    Its options, how the lines write numbers (``LineReader.memory``), and the place in a file.
    """

    made_with: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] | None = None
    place: dict[str, Any] | None = None

    @classmethod
    def of(cls, notes: dict[str, Any], path: Any) -> "Known":
        """Return it from notes, which may be anything."""
        try:
            known = cls(**(notes.get("follow") or {}))
            sound = isinstance(known.made_with, dict)
            if known.written is not None:
                sound &= known.written["delimiter"] is None or len(known.written["delimiter"]) == 1
                for parts in known.written["notations"].values():
                    sound &= list(map(type, parts)) == [str, str, str, bool, bool]
            if known.place is not None:
                offset, line, start = (known.place[name] for name in ("offset", "line", "start"))
                sound &= list(map(type, (offset, line, start))) == [int, int, str]
                sound &= min(offset, line) >= 0
        except (AttributeError, KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise ModelFileError(
                f"{path} has a note 'follow' that `dualpca follow` does not write; save the model "
                "without that note"
            )
        return known


class Live:
    """A fitted model, and how many rows it has seen.

    Rows with missing cells are left out where ``skips``: they are neither measured nor learned. Where
    components have turned by ``drift`` degrees, and not by chance, that is said.
    """

    def __init__(self, fitted: NotedModel, rows: int, skips: bool, drift: float) -> None:
        self.fitted, self.rows, self.skips, self.drift = fitted, rows, skips, drift
        self._estimator = FittedModel(fitted.estimator)

    def take(self, rows: int, most: int) -> int:
        """Return how many of the rows that have come one state of the model measures, ``most`` or fewer.

        They are few beside those that the model remembers. A robust model is renewed as ``partial_fit``
        does it, unless more rows are measured at once.
        """
        model = self.fitted.estimator
        size = min(rows, most, max(int(model.memory_ * FEW), 1))
        if self._estimator.is_robust and size <= BLOCK:
            return min(rows, most, model.until_renewal_)
        return size

    def step(
        self, X: np.ndarray, why: bool, learn: bool = True
    ) -> tuple[dict[str, np.ndarray], list[str]]:
        """Return columns about rows, by the model before it learns from them, and what that changes."""
        complete = ~np.isnan(X).any(axis=1) if self.skips else np.ones(len(X), dtype=bool)
        self.rows += len(X) if learn else 0
        if not complete.any():
            return self._spread(None, complete, why), []
        rows = X if complete.all() else X[complete]
        Z = self.fitted.prepared(rows)
        columns = self._spread(self._measured(rows, Z, why), complete, why)
        return columns, self._learn(Z) if learn else []

    def _measured(self, X: np.ndarray, Z: Any, why: bool) -> dict[str, np.ndarray]:
        fitted, model = self.fitted, self._estimator
        scores = model.scores(Z)
        columns = {f"pc{k + 1}": scores[:, k] for k in range(scores.shape[1])}
        limits = control.limits(model)
        if model.is_robust:
            score, orthogonal, _, flagged = model.distances(Z)
        else:
            score, orthogonal = (np.sqrt(part) for part in control.statistics(model, Z))
            flagged = (score**2 > limits[0]) | (orthogonal**2 > limits[1])
        columns |= {"score_distance": score, "orthogonal_distance": orthogonal}
        columns["outlier"] = flagged.astype(np.int64)
        if why:
            words = np.full(len(X), "", dtype=object)
            if len(rows := np.flatnonzero(flagged)):
                values = np.stack([score, orthogonal], axis=1)[rows] ** 2
                found = (
                    fitted.reasons(X[rows], VARIABLES)
                    if model.is_robust
                    else control.reasons(fitted, X[rows], values, limits)
                )
                words[rows] = [in_words(row, fitted.feature_names) for row in found]
            columns["variables"] = words
        return columns

    def _spread(
        self, found: dict[str, np.ndarray] | None, complete: np.ndarray, why: bool
    ) -> dict[str, np.ndarray]:
        """Return columns about all rows from those about complete ones: the others have no numbers."""
        if found is not None and complete.all():
            return found
        names = [f"pc{k + 1}" for k in range(self.fitted.n_components)]
        columns: dict[str, np.ndarray] = {}
        for name in [*names, "score_distance", "orthogonal_distance"]:
            columns[name] = np.full(len(complete), np.nan)
        columns["outlier"] = np.zeros(len(complete), dtype=np.int64)
        if why:
            columns["variables"] = np.full(len(complete), "", dtype=object)
        for name, column in columns.items():
            if found is not None:
                column[complete] = found[name]
        return columns

    def _learn(self, Z: Any) -> list[str]:
        model = self.fitted.estimator
        before = vars(model).get("residual_powers_")
        if self._estimator.is_robust:
            model.partial_fit(Z, at_once=True)
        else:
            model.partial_fit(Z)
            try:
                control.calibrate(model)
            except ValueError:  # after a fit, whose rows are gone: its limits stay
                model.residual_powers_ = before
        return self._events(model.drift_)

    def _events(self, drift: Any) -> list[str]:
        """Return whether a new regime has begun, or the components have turned."""
        largest = float(drift.angles[0])
        if drift.changed:
            event = f"new regime {drift.regime}"
        elif largest >= self.drift and drift.significance < CHANCE:
            event = f"drift of {largest:.0f} degrees in {counted(drift.rows, 'row')}"
        else:
            return []
        self.fitted.estimator.checkpoint()
        return [event]


def first_fit(
    X: np.ndarray, names: list[str], fit: FitOptions, missing: Missing, forget: Any, quiet: bool
) -> tuple[Any, list[str]]:
    """Return a model of the first rows, and the names of the columns that it takes.

    The scales of the columns and the number of components come from these rows and stay.
    """
    estimator = make_estimator(fit, missing).set_params(forget=forget)
    completes, impute = missing in COMPLETES, missing is Missing.impute
    table = Table(X, names)
    if fit.method is Method.robust:
        table = without_mostly_equal(table, quiet, completes)
    X, names = table.X, table.names or names
    if missing is Missing.drop:
        X = X[~np.isnan(X).any(axis=1)]
    check_rows(len(X), fit.method, missing)
    scale = Scale.robust if fit.scale is Scale.auto else fit.scale
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = Preprocessor(str(scale), "impute" if impute else "keep" if completes else "refuse")
        Z = first.fit_transform(X)
        estimator.n_components = _count(estimator, Z)
        check_rows(len(X), fit.method, missing, estimator.n_components)
        estimator.partial_fit(Z)
        if not hasattr(estimator, "components_"):
            raise TableError(
                f"too many cells of {counted(len(X), 'row')} are missing for a first fit; give more rows "
                "and raise --first"
            )
        if fit.method is Method.plain:
            control.calibrate(estimator)
    for warning in caught:
        stderr_line(f"warning: {in_options(warning.message)}")
    first.feature_names_in_ = np.asarray(names, dtype=object)
    return Pipeline([("preprocessor", first), ("model", estimator)]), names


def check_rows(rows: int, method: Method, missing: Missing, s: int = 1) -> None:
    """Refuse fewer rows than ``partial_fit`` takes for its first fit of s components."""
    if method is Method.robust:
        least = max(LEAST, EACH * (s + 1))
    else:
        least = FIRST * (s + 1) if missing in COMPLETES else max(s, 2)
    if rows < least:
        raise TableError(
            f"{counted(rows, 'row')} {'is' if rows == 1 else 'are'} too few: a first fit of "
            f"{counted(s, 'component')} by --method {method} needs {least}; give as many, and no smaller "
            "--first"
        )


def _count(estimator: Any, Z: np.ndarray) -> int:
    """Return the number of components that is asked for, or that rows choose."""
    wanted = estimator.n_components
    if isinstance(wanted, int):
        return wanted
    filled = Preprocessor(missing="impute").fit_transform(Z)
    if wanted is None:
        variances = RobustPCA(random_state=estimator.random_state).scree(filled)
        return components_for(variances, "auto", min(Z.shape), len(Z))
    return int(clone(estimator).fit(filled).n_components_)


def varying(X: np.ndarray, names: list[str], quiet: bool) -> list[str]:
    """Return the names of the columns that are not constant."""
    constant = ~(np.fmin.reduce(X, axis=0) < np.fmax.reduce(X, axis=0))
    if constant.all():
        raise TableError("all cells of the first rows are equal: there is nothing to analyse")
    left = [name for name, gone in zip(names, constant, strict=True) if gone]
    if left and not quiet:
        stderr_line(f"left out {listed(left)}, constant in the first rows; --keep analyses them")
    return [name for name in names if name not in left]
