"""One HTML file that shows a fitted model; it needs plotly, ``pip install 'dualpca[report]'``."""

from __future__ import annotations

from importlib import resources
from numbers import Integral
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ..estimators._base import seed
from ..io.files import check_free, written
from ._html import clean, embed, escape, rounded, script
from ._model import fitted, picture_shape
from ._outlier_map import outliers
from ._reconstructions import reconstructions
from ._rows import Data, Rows, collect
from ._sections import convergence, loadings, scores, scree
from ._summary import check_notes, summary

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
    random_state: Any = 0,
) -> str:
    """A self-contained, interactive HTML page about a fitted model.

    It holds the summary and the certificate, scree, scores, loadings, the outlier map with the
    variables behind each row, reconstructions of pictures, and the convergence. It opens in any
    browser without a network.

    Parameters
    ----------
    model : PCA, RobustPCA, KernelPCA, RobustKernelPCA, SparsePCA, or Pipeline
        Fitted; of a Pipeline of a Preprocessor and one of these, values are shown as in X.
    X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features), optional
        The rows to show, those of the fit or others; for a precomputed kernel the matrix of the fit.
        Files are read block by block: once for the distances, once for the rows drawn, and as often
        as a plain PCA needs. Without X the page shows what the model itself knows.
    title : str, optional
    row_names, labels : sequences of length n_samples, optional
        What to call the rows, and the groups to tell apart. Rows without names have the index of a
        data frame; where that only counts, and in other data, they are "row 1", "row 2" and so on.
    feature_names : sequence of length n_features, optional
        By default those seen in ``fit``, or x0, x1 and so on.
    image_shape : tuple of int or bool, optional
        (height, width), or (height, width, 3), where rows are pictures; True for square ones.
    notes : dict, optional
        Names and values for the summary, such as ``{"source": "data.csv", "dropped": ["id"]}``.
    max_points : int
        The most rows to draw: flagged ones first, up to half of them, then others at random.
    random_state : int, RandomState instance or None
        The seed of that choice.

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
    plotly = _plotly()
    if not isinstance(max_points, Integral) or isinstance(max_points, bool) or max_points < 2:
        raise ValueError(
            f"max_points={max_points!r} counts rows to draw; give an integer from 2 on"
        )
    check_notes(notes)
    known = fitted(model, feature_names)
    shape = picture_shape(image_shape, int(known.estimator.n_features_in_))
    data = None if X is None else Data(X, known.precomputed)
    rng = np.random.default_rng(seed(random_state))
    rows = collect(known, data, row_names, labels, shape, int(max_points), rng)
    sections = [
        summary(known, data, rows, notes),
        scree(known, data),
        scores(known, rows),
        outliers(known, rows),
        loadings(known, shape),
        reconstructions(known, rows, shape),
        convergence(known),
    ]
    found = [section for section in sections if section is not None]
    numbers: dict[str, Any] = {
        "rows": None if rows is None else _row_numbers(rows, known.variables)
    }
    for section in found:
        numbers |= section.data
    if title is None:
        title = known.kind + (f" of {notes['source']}" if notes and notes.get("source") else "")
    library, library_hash = script(plotly)
    code, code_hash = script(_file("report.js"))
    return Template(_file("template.html")).substitute(
        title=escape(title),
        hashes=f"{library_hash} {code_hash}",
        style=_file("report.css"),
        links="".join(f'<li><a href="#{s.name}">{s.title}</a></li>' for s in found),
        sections="".join(
            f'<section id="{s.name}" aria-labelledby="{s.name}-title">'
            f'<h2 id="{s.name}-title">{s.title}</h2>{s.body}</section>'
            for s in found
        ),
        data=embed(numbers),
        plotly=library,
        code=code,
    )


def write_report(
    path: Any, model: Any, X: Any = None, *, overwrite: bool = False, **options: Any
) -> Path:
    """Write :func:`report` to a file, whole or not at all.

    Parameters
    ----------
    path : str or path
    model, X
        As in :func:`report`.
    overwrite : bool
        Whether a file that is there may be replaced.
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
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = PCA(2).fit(load_iris().data)
    ...     path = write_report(f"{folder}/iris.html", model, load_iris().data)
    ...     path.name
    'iris.html'
    """
    check_free(path, overwrite)
    page = report(model, X, **options)
    with written(path, overwrite=overwrite) as file:
        file.write(page.encode())
    return Path(path)


def _row_numbers(rows: Rows, variables: list[str]) -> dict[str, Any]:
    """The rows drawn, as the page needs them."""
    found: dict[str, Any] = {"index": rows.index.tolist(), "name": rows.names, "named": rows.named}
    found["label"], groups = rows.labels, rows.groups
    found |= {"groups": groups and groups[0], "group": groups and groups[1]}
    if rows.distances is not None and rows.flagged is not None:
        found["distances"] = rounded(rows.distances.T)
        found["flagged"] = rows.flagged.tolist()
    if rows.details is not None:
        used = sorted({detail[0] for row in rows.details for detail in row})
        place = {j: i for i, j in enumerate(used)}
        found["variables"] = [clean(variables[j]) for j in used]
        found["details"] = [
            [[place[j], *(None if v is None else rounded(v) for v in rest)] for j, *rest in row]
            for row in rows.details
        ]
        found["pictures"] = rows.pictures or None
    return found


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("reports need plotly: pip install 'dualpca[report]'") from error
    return get_plotlyjs()
