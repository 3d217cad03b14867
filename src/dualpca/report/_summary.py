"""The summary of a report: the data, the model, and the accuracy of its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..inspect import FittedModel
from ..io.tables.table import counted
from ._html import clean, escape, number, percent
from ._rows import Data, Rows
from ._sections import Section, flagged_words

#: The titles of notes that the command line keeps.
TITLES = {
    "source": "Source",
    "ids": "Rows are named by",
    "label": "Column of labels",
    "dropped": "Left out",
}

#: The reason of a solver that the user chose.
ASKED = "as asked"


def summary(fitted: FittedModel, data: Data | None, rows: Rows | None, notes: Any) -> Section:
    """Return data, estimator, parameters, notes and the certificate."""
    model = fitted.estimator
    width = counted(fitted.n_features, "variable")
    fit = width if fitted.n_samples is None else f"{counted(fitted.n_samples, 'row')}, {width}"
    facts = [("Fitted to", fit)]
    if data is not None and data.shape[0] != fitted.n_samples:
        facts.append(("Rows of this report", counted(data.shape[0], "row")))
    facts.append(("Estimator", f"{fitted.name}, {counted(fitted.n_components, 'component')}"))
    changed = ", ".join(
        f"{name}={in_words(value)}" for name, value in fitted.changed_parameters().items()
    )
    facts.append(("Parameters other than the defaults", changed or "none"))
    if fitted.preprocessor is not None:
        facts.append(("Before it", _preparation(fitted.preprocessor)))
    if rows is not None and rows.flagged is not None:
        facts.append(("Outliers", flagged_words(rows)))
    for name, value in (notes or {}).items():
        if value is not None:
            facts.append((TITLES.get(name, str(name)), in_words(value)))
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
    """Refuse notes that are no mapping of names to values."""
    if notes is not None and not isinstance(notes, Mapping):
        raise TypeError(
            f"notes is a {type(notes).__name__}; give a dictionary of names and texts, such as "
            '{"source": "data.csv"}'
        )


def certified(fitted: FittedModel) -> list[str]:
    """Return what the model knows of its own accuracy."""
    model = fitted.estimator
    residual, tol = float(model.residual_), float(model.tol)
    reached = f"within tol={number(tol)}."
    if residual > tol:
        reached = f"above tol={number(tol)}: the fit stopped early; raise max_iter and fit again."
    if fitted.name == "SparsePCA":
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
    n = int(model.n_passes_)
    lines.append(f"The fit took {n:,} pass{'' if n == 1 else 'es'} over the data.")
    name, why = _solver(model)
    if name != "none":
        by = "by estimated cost" if why.startswith("estimated") else "automatically"
        told = why if why in ("", ASKED) else f"chosen {by}"
        lines.append(f"Solver: {name}{', ' if told else ''}{told}.")
    if fitted.is_robust:
        lines += _robustness(fitted)
    return lines


def _solver(model: Any) -> tuple[str, str]:
    """Return the solver that ran, "none" if unknown, and the reason for it."""
    name, _, why = getattr(model, "solver_", "none").partition(": ")
    return name, why


def _reason(model: Any) -> str:
    name, why = _solver(model)
    if why in ("", ASKED):
        return ""
    return (
        f"<details><summary>Why this solver</summary><p>{escape(f'{name}: {why}')}.</p></details>"
    )


def _robustness(fitted: FittedModel) -> list[str]:
    model = fitted.estimator
    share = percent(float(model.agreement_))
    words = f"The starts agree on {share} of the half of the rows nearest to the subspace"
    doubt = "." if fitted.starts_agree else ": they may see different structures."
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


def in_words(value: Any) -> str:
    """Return a parameter or a note as text: an array by its shape, else as Python writes it, cut."""
    shape = getattr(value, "shape", None)
    if shape:
        return f"array of shape {tuple(shape)}"
    if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        text = ", ".join(value) or "none"
    else:
        text = value if isinstance(value, str) else repr(value)
    return clean(text if len(text) <= 300 else text[:299] + "…")
