"""The summary of a report: the headline, the data and the model, and the accuracy of its numbers."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from ..inspect import FittedModel
from ..io.tables.table import counted
from ._drawn_rows import Data, Rows
from ._headline import headline
from ._html import clean, escape, percent
from ._section import Section
from ._words import FLAGS, flagged_words, passes

#: The titles of notes that the command line keeps.
TITLES = {
    "source": "Source",
    "ids": "Rows are named by",
    "label": "Column of labels",
    "dropped": "Left out",
}

#: The parameters of kernels, by name.
KERNELS = {
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "chi2": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "poly": ("gamma", "degree", "coef0"),
    "polynomial": ("gamma", "degree", "coef0"),
}


def summary(fitted: FittedModel, data: Data | None, rows: Rows | None, notes: Any) -> Section:
    """Return headline, data, estimator, parameters, notes and the accuracy."""
    width = counted(fitted.n_features, "variable")
    fit = width if fitted.n_samples is None else f"{counted(fitted.n_samples, 'row')}, {width}"
    facts = [("Fitted to", fit)]
    if data is not None and data.shape[0] != fitted.n_samples:
        facts.append(("Rows of this report", counted(data.shape[0], "row")))
    facts.append(("Estimator", f"{fitted.name}, {counted(fitted.n_components, 'component')}"))
    if (selection := getattr(fitted.estimator, "selection_", None)) is not None:
        n = counted(selection.n_components, "component") if selection.n_components else "none"
        facts.append(("Number of components", f"{n} by {selection.method}"))
    if hasattr(fitted.estimator, "kernel"):
        facts.append(("Kernel", _kernel(fitted.estimator)))
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
    facts += [("Seed", _seed(fitted.estimator)), ("Written", written_by())]
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    accuracy = "".join(f"<li>{escape(line)}</li>" for line in _accuracy(fitted))
    return Section(
        f"{headline(fitted, rows)}<h3>The fit</h3><dl>{items}</dl>"
        f"<h3>How sure the numbers are</h3><ul>{accuracy}</ul>"
    )


def written_by() -> str:
    """Return the date, which SOURCE_DATE_EPOCH may set, and the version of the package."""
    from .. import __version__

    given = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        seconds = time.time() if given is None else int(given)
    except ValueError:
        raise ValueError(
            f"SOURCE_DATE_EPOCH={given!r} is no number of seconds since 1970; give an integer, or "
            "unset it"
        ) from None
    return f"{time.strftime('%Y-%m-%d', time.gmtime(seconds))} by dualpca {__version__}"


def _seed(model: Any) -> str:
    """Return the seed of the fit in words."""
    seed = getattr(model, "random_state", None)
    if seed is None:
        return "none was given; another fit may differ within its accuracy"
    known = isinstance(seed, int | np.integer)
    return f"random_state={seed}" if known else "a generator, whose state is not kept"


def _kernel(model: Any) -> str:
    """Return the kernel with its parameters, and its approximation."""
    name = model.kernel if isinstance(model.kernel, str) else "a function of two rows"
    parts = [name]
    for parameter in KERNELS.get(name, ()):
        value = getattr(model, f"{parameter}_", getattr(model, parameter))
        rule = getattr(model, parameter)
        chosen = f" ({rule})" if isinstance(rule, str) else ""
        parts.append(f"{parameter} = {in_words(value)}{chosen}")
    if model.approximation == "nystroem":
        parts.append(f"approximated by {model.n_landmarks:,} landmarks (nystroem)")
    elif model.approximation is not None:
        features = f"{model.n_random_features:,} random features"
        parts.append(f"approximated by {features} ({model.approximation})")
    return ", ".join(parts)


def _accuracy(fitted: FittedModel) -> list[str]:
    """Return what the model knows of its own accuracy, in plain words."""
    model = fitted.estimator
    residual, tol = float(model.residual_), float(model.tol)
    lines = [
        f"The fit has converged: its relative residual is {residual:.2g}; {tol:g} (tol) was asked."
    ]
    if residual > tol:
        lines = [
            f"The fit stopped early: its relative residual is {residual:.2g}, above the {tol:g} (tol) "
            "that was asked; raise max_iter and fit again."
        ]
    if fitted.name == "SparsePCA":
        lines.append(
            "No step changes a component any more, but other starts may lead to components with more "
            "variance."
        )
        if hasattr(model, "gap_"):
            lines[-1] = (
                "Of the most variance that a component of as few variables can have, in what those "
                f"before it leave, each one misses at most {percent(float(max(model.gap_)))}: a bound "
                "that was computed, not an estimate."
            )
    shortfall = getattr(model, "variance_shortfall_", None)
    if shortfall is not None:
        lines.append(
            "The variance that these components hold falls short of the most that as many can hold by at "
            f"most {float(shortfall):.2g} of it: a bound that was computed, not an estimate."
        )
    lines.append(f"The fit took {passes(int(model.n_passes_))}.")
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
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else repr(value)
    return clean(text if len(text) <= 300 else text[:299] + "…")
