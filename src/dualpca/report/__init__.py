"""One HTML file that shows a fitted model; reports need ``pip install 'dualpca[report]'``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from .._arguments import check_count, check_image_shape
from ..inspect import ESTIMATORS, FittedModel
from ..io.files import check_free, written
from ._cells import cells
from ._drawn_rows import Data, collect, row_numbers
from ._html import clean, embed, escape, script
from ._row_sections import outliers, scores
from ._scree import scree
from ._sections import convergence, loadings, reconstructions
from ._stability import quality, stability
from ._summary import summary, written_by

__all__ = ["report", "write_report"]


def report(
    model: Any,
    X: Any = None,
    *,
    title: str | None = None,
    row_names: Any = None,
    labels: Any = None,
    feature_names: Any = None,
    image_shape: Any = None,
    notes: dict[str, Any] | None = None,
    max_points: int = 5000,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> str:
    """Return a self-contained, interactive HTML page about a fitted model.

    It begins with what was found, the worst rows and why, and what to do next. Then it shows scree,
    scores, the outlier map with the variables behind each row, the map of cells for ``cells=True``,
    loadings and how well components show variables, reconstructions of pictures, and the convergence.
    Any browser opens it without a network.

    The page names the date; the environment variable SOURCE_DATE_EPOCH, in seconds since 1970, sets it.
    All else is the same for the same model and data.

    Parameters
    ----------
    model : PCA, RobustPCA, KernelPCA, RobustKernelPCA, SparsePCA, or Pipeline
        A fitted model. A Pipeline has a Preprocessor before one of these; values are shown as in X.
    X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features), optional
        The rows to show, those of the fit or others; for a precomputed kernel the matrix of the fit.
        Files are read block by block: for the distances, for the rows drawn, and for plain PCA.
        Without X the page shows what the model itself knows.
    title : str, optional
    row_names, labels : sequences of length n_samples, optional
        The names of the rows, by default those in the index of a data frame, or "row 1", "row 2" and
        so on if it only counts; and the groups to tell apart.
    feature_names : sequence of length n_features, optional
        By default those seen in ``fit``, or x0, x1 and so on.
    image_shape : tuple of int or bool, optional
        (height, width) or (height, width, 3) of rows that are pictures; True for square ones.
    notes : dict, optional
        Names and values for the summary, such as ``{"source": "data.csv", "dropped": ["id"]}``.
    max_points : int
        The most rows to draw: flagged ones, at most half, and others at random.
    bootstrap : int
        How many times to resample the rows, those of the fit, and to fit the model to them, to see how
        stable components are (:func:`dualpca.bootstrap`); such as 200. 0 leaves it out.
    random_state : int, RandomState instance or None
        The seed of that choice, and of resamples.

    Returns
    -------
    page : str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualpca import RobustPCA
    >>> from dualpca.report import report
    >>> iris = load_iris(as_frame=True)
    >>> model = RobustPCA(n_components=2, random_state=0).fit(iris.data)
    >>> page = report(model, iris.data, labels=iris.target_names[iris.target])
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("reports need plotly: pip install 'dualpca[report]'") from error
    max_points = check_count("max_points", max_points, "rows to draw", 2)
    bootstrap = check_count("bootstrap", bootstrap, "resamples", 0)
    if notes is not None and not isinstance(notes, Mapping):
        raise TypeError(
            f"notes is a {type(notes).__name__}; give a dictionary of names and texts, such as "
            '{"source": "data.csv"}'
        )
    fitted = _checked(model, feature_names)
    shape = None
    if image_shape is not None and image_shape is not False:
        shape = check_image_shape(image_shape, fitted.n_features)
    data = None if X is None else Data(X)
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    rng = np.random.default_rng(seed)
    rows = collect(fitted, data, row_names, labels, shape, max_points, rng)
    sections = {
        "summary": summary(fitted, data, rows, notes),
        "scree": scree(fitted, data, rows),
        "scores": scores(fitted, rows),
        "outliers": outliers(fitted, rows),
        **({"cells": cells(fitted, data, rows)} if fitted.has_cells else {}),
        "loadings": loadings(fitted, shape),
        **({} if shape or not (seen := quality(fitted, data)) else {"quality": seen}),
        **({"stability": stability(fitted, data, bootstrap, seed)} if bootstrap else {}),
        **({} if shape is None else {"reconstructions": reconstructions(fitted, rows)}),
        "convergence": convergence(fitted),
    }
    numbers: dict[str, Any] = {"rows": rows and row_numbers(rows, fitted.feature_names)}
    numbers["figures"] = {k: v for section in sections.values() for k, v in section.figures.items()}
    for section in sections.values():
        numbers |= section.data
    titles = {name: name.capitalize() for name in sections} | {
        "outliers": "Outlier map",
        "cells": "Cell map",
        "quality": "How well variables are shown",
        "stability": "How stable",
    }
    if title is None:
        title = fitted.name + (f" of {notes['source']}" if notes and notes.get("source") else "")
    library, library_hash = script(get_plotlyjs())
    code, code_hash = script(_file("report.js"))
    return Template(_file("template.html")).substitute(
        title=escape(title),
        hashes=f"{library_hash} {code_hash}",
        style=_file("report.css"),
        links="".join(f'<li><a href="#{name}">{titles[name]}</a></li>' for name in sections),
        sections="".join(
            f'<section id="{name}" aria-labelledby="{name}-title">'
            f'<h2 id="{name}-title">{titles[name]}</h2>{section.body}</section>'
            for name, section in sections.items()
        ),
        written=escape(written_by()),
        data=embed(numbers),
        plotly=library,
        code=code,
    )


def write_report(
    model: Any, path: Any, X: Any = None, *, overwrite: bool = False, **options: Any
) -> Path:
    """Write :func:`report` to a file, whole or not at all.

    Parameters
    ----------
    model
        As in :func:`report`.
    path : str or path
    X
        As in :func:`report`.
    overwrite : bool
        Whether to replace an existing file.
    **options
        The other parameters of :func:`report`.

    Returns
    -------
    path : pathlib.Path

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from dualpca import PCA
    >>> from dualpca.report import write_report
    >>> X = load_iris().data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(PCA(2).fit(X), f"{folder}/iris.html", X).name
    'iris.html'
    """
    check_free(path, overwrite)
    page = report(model, X, **options)
    with written(path, overwrite=overwrite) as file:
        file.write(page.encode())
    return Path(path)


def _checked(model: Any, feature_names: Any) -> FittedModel:
    """Return the model, if a report can show it."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    if len(steps) > 2:
        raise ValueError(
            f"model is a Pipeline of {len(steps)} steps; give one of a Preprocessor and an estimator, "
            "or the estimator alone and the rows it was given"
        )
    if not isinstance(steps[-1], ESTIMATORS):
        known = ", ".join(kind.__name__ for kind in ESTIMATORS)
        raise TypeError(
            f"model is a {type(steps[-1]).__name__}; give one of {known}, fitted, or a Pipeline of a "
            "Preprocessor and one of these"
        )
    fitted = FittedModel(model, feature_names)
    width, before = fitted.n_features, getattr(steps[0], "n_features_in_", fitted.n_features)
    if width != before:
        raise ValueError(
            f"model is a Pipeline whose first step makes {width} variables of {before}; give one that "
            "keeps them, such as a Preprocessor, or the estimator alone"
        )
    fitted.feature_names = [clean(name) for name in fitted.feature_names]
    return fitted


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
