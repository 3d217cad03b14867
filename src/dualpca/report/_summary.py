"""What was fitted to what, and how far the numbers can be trusted, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..robust.flags import DISAGREE
from ._html import counted, escape, number, percent
from ._model import Fitted, in_words
from ._rows import Data, Rows
from ._sections import Section, flagged_words

#: What notes that the command line keeps are called.
CALLED = {
    "source": "Source",
    "ids": "Rows are named by",
    "label": "Column of labels",
    "dropped": "Left out",
}


#: Why a solver ran that the user chose.
ASKED = "as asked"


def summary(fitted: Fitted, data: Data | None, rows: Rows | None, notes: Any) -> Section:
    """Data, estimator, parameters and notes."""
    model = fitted.estimator
    width = counted(int(model.n_features_in_), "variable")
    fit = width if fitted.n_rows is None else f"{counted(fitted.n_rows, 'row')}, {width}"
    facts = [("Fitted to", fit)]
    if data is not None and data.shape[0] != fitted.n_rows:
        facts.append(("Rows of this report", counted(data.shape[0], "row")))
    facts.append(("Estimator", f"{fitted.kind}, {counted(fitted.n_components, 'component')}"))
    changed = ", ".join(f"{name}={value}" for name, value in fitted.changed().items())
    facts.append(("Parameters other than the defaults", changed or "none"))
    if fitted.before is not None:
        facts.append(("Before it", _preparation(fitted.before)))
    if rows is not None and rows.flagged is not None:
        facts.append(("Outliers", flagged_words(rows)))
    for name, value in (notes or {}).items():
        if value is not None:
            facts.append((CALLED.get(name, str(name)), in_words(value)))
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    certificate = "".join(f"<li>{escape(line)}</li>" for line in certified(fitted))
    body = f"<dl>{items}</dl><h3>Certificate</h3><ul>{certificate}</ul>{_reason(model)}"
    return Section("summary", "Summary", body)


def _preparation(step: Any) -> str:
    scaling = getattr(step, "scaling", None)
    words = type(step).__name__ + (f", scaling {scaling}" if scaling else "")
    filled = getattr(step, "n_filled_", None)
    if filled is not None and getattr(step, "missing", None) == "impute":
        words += f", {counted(int(np.sum(filled)), 'missing cell')} filled by medians"
    return words


def check_notes(notes: Any) -> None:
    """Refuse notes that are not names and values."""
    if notes is not None and not isinstance(notes, Mapping):
        raise TypeError(
            f"notes is a {type(notes).__name__}; give a dictionary of names and texts, such as "
            '{"source": "data.csv"}'
        )


def certified(fitted: Fitted) -> list[str]:
    """What the model knows of its own accuracy."""
    model = fitted.estimator
    residual, tol = float(model.residual_), float(model.tol)
    reached = f"within tol={number(tol)}."
    if residual > tol:
        reached = f"above tol={number(tol)}: the fit stopped early; raise max_iter and fit again."
    if fitted.kind == "SparsePCA":
        lines = [
            f"The last step turned a component by {number(residual)}, {reached}",
            "Sparse components are stationary points, not certified maxima.",
        ]
    else:
        lines = [f"The relative residual is {number(residual)}, {reached}"]
    shortfall = getattr(model, "variance_shortfall_", None)
    if shortfall is not None:
        lines.append(
            "The variance that these components capture falls short of the optimum by at most "
            f"{number(float(shortfall))} of it."
        )
    passes = counted(int(model.n_passes_), "pass", "passes")
    lines.append(f"The fit took {passes} over the data.")
    name, why = _solver(model)
    if name != "none":
        by = "by estimated cost" if why.startswith("estimated") else "automatically"
        told = why if why in ("", ASKED) else f"chosen {by}"
        lines.append(f"Solver: {name}{', ' if told else ''}{told}.")
    if fitted.robust:
        lines += _robustness(model)
    return lines


def _solver(model: Any) -> tuple[str, str]:
    """The solver that ran, "none" where none is known, and why this one."""
    name, _, why = getattr(model, "solver_", "none").partition(": ")
    return name, why


def _reason(model: Any) -> str:
    name, why = _solver(model)
    if why in ("", ASKED):
        return ""
    return (
        f"<details><summary>Why this solver</summary><p>{escape(f'{name}: {why}')}.</p></details>"
    )


def _robustness(model: Any) -> list[str]:
    agreement = float(model.agreement_)
    words = (
        f"The starts agree on {percent(agreement)} of the half of the rows nearest to the subspace"
    )
    doubt = ": they may see different structures." if agreement < DISAGREE else "."
    lines = [f"{words}{doubt}"]
    if model.refitted_:
        lines.append("The rows that were not flagged were fitted once more, and that fit stands.")
    elif model.refit:
        lines.append("A second fit without flagged rows was not kept; the first one stands.")
    else:
        lines.append("No second fit without flagged rows was asked for.")
    by = {
        "orthogonal": "their distance from the subspace",
        "score": "their distance within the subspace, as no row leaves it",
        "both": "the larger of their distances from the subspace and within it",
    }[model.flags_by_]
    lines.append(f"Rows are flagged by {by}.")
    return lines
