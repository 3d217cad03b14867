"""The summary of a report: the data, the model, and the accuracy of its numbers."""

from __future__ import annotations

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

#: How a robust model flags rows, by its ``flags_by_``.
FLAGS = {
    "orthogonal": "their distance from the subspace",
    "score": "their distance within the subspace",
    "density": "their density in the fitted model, from their distances from the subspace and within it",
}


def summary(fitted: FittedModel, data: Data | None, rows: Rows | None, notes: Any) -> Section:
    """Return data, estimator, parameters, notes and the certificate."""
    width = counted(fitted.n_features, "variable")
    fit = width if fitted.n_samples is None else f"{counted(fitted.n_samples, 'row')}, {width}"
    facts = [("Fitted to", fit)]
    if data is not None and data.shape[0] != fitted.n_samples:
        facts.append(("Rows of this report", counted(data.shape[0], "row")))
    facts.append(("Estimator", f"{fitted.name}, {counted(fitted.n_components, 'component')}"))
    changed = [f"{name}={in_words(v)}" for name, v in fitted.changed_parameters().items()]
    facts.append(("Parameters other than the defaults", ", ".join(changed) or "none"))
    before = fitted.preprocessor
    if before is not None:
        scaling = getattr(before, "scaling", None)
        words = type(before).__name__ + (f", scaling {scaling}" if scaling else "")
        if getattr(before, "missing", None) == "impute" and hasattr(before, "n_filled_"):
            filled = counted(int(np.sum(before.n_filled_)), "missing cell")
            words += f", {filled} filled by medians"
        facts.append(("Before it", words))
    if rows is not None and rows.flagged is not None:
        facts.append(("Outliers", flagged_words(rows)))
    for name, value in (notes or {}).items():
        if value is not None:
            facts.append((TITLES.get(name, str(name)), in_words(value)))
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    certificate = "".join(f"<li>{escape(line)}</li>" for line in _certificate(fitted))
    return Section(f"<dl>{items}</dl><h3>Certificate</h3><ul>{certificate}</ul>")


def _certificate(fitted: FittedModel) -> list[str]:
    """Return what the model knows of its own accuracy."""
    model = fitted.estimator
    residual, tol = float(model.residual_), float(model.tol)
    reached = f"within tol={number(tol)}."
    if residual > tol:
        reached = f"above tol={number(tol)}: the fit stopped early; raise max_iter and fit again."
    lines = [f"The relative residual is {number(residual)}, {reached}"]
    if fitted.name == "SparsePCA":
        lines = [
            f"The last step turned a component by {number(residual)}, {reached}",
            "Sparse components are stationary points, not certified maxima.",
        ]
    shortfall = getattr(model, "variance_shortfall_", None)
    if shortfall is not None:
        lines.append(
            "The variance that these components capture falls short of the optimum by at most "
            f"{number(float(shortfall))} of it."
        )
    n = int(model.n_passes_)
    lines.append(f"The fit took {n:,} pass{'' if n == 1 else 'es'} over the data.")
    if hasattr(model, "solver_"):
        lines.append(f"Solver: {model.solver_}.")
    if fitted.is_robust:
        share = percent(float(model.agreement_))
        doubt = "." if fitted.starts_agree else ": they may see different structures."
        words = f"The starts agree on {share} of the half of the rows nearest to the subspace"
        second = "No second fit without flagged rows was asked for."
        if model.refit:
            second = "A second fit without flagged rows was not kept; the first one stands."
        if model.refitted_:
            second = "The rows that were not flagged were fitted once more, and that fit stands."
        lines += [f"{words}{doubt}", second, f"Rows are flagged by {FLAGS[model.flags_by_]}."]
    return lines


def in_words(value: Any) -> str:
    """Return a parameter or a note as text: an array by its shape, else as Python writes it, cut."""
    if shape := getattr(value, "shape", None):
        return f"array of shape {tuple(shape)}"
    if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        value = ", ".join(value) or "none"
    text = value if isinstance(value, str) else repr(value)
    return clean(text if len(text) <= 300 else text[:299] + "…")
