"""What a fitted model says, as data frames: loadings, components, and the rows that stand out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .inspect import FittedModel, Reason, take_rows
from .linalg import to_numpy

__all__ = ["loadings", "outlier_report", "summary"]

#: The most variables that explain a row, and the least share of one that is named.
VARIABLES, LEAST = 3, 0.01


def loadings(model: Any) -> Any:
    """Return the loadings of a model: a line for each variable, a column for each component.

    Parameters
    ----------
    model : fitted estimator with components, or Pipeline that ends in one

    Returns
    -------
    table : data frame, or a dictionary of columns where pandas is not installed

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from dualpca import PCA, Preprocessor
    >>> from dualpca.frames import loadings
    >>> X = load_wine(as_frame=True).data
    >>> pipeline = make_pipeline(Preprocessor("standard"), PCA(2)).fit(X)
    >>> loadings(pipeline).loc[["alcohol", "hue"]].round(2)
              PC1   PC2
    alcohol  0.14  0.48
    hue      0.30 -0.28
    """
    fitted = FittedModel(model)
    if not fitted.is_linear:
        raise ValueError(
            f"model is a {fitted.name}, whose components lie in the feature space of its kernel and have "
            "no loadings; use PCA, RobustPCA or SparsePCA for loadings"
        )
    columns = dict(zip(_names(fitted), fitted.loadings, strict=True))
    return frame(columns, fitted.feature_names)


def summary(model: Any) -> Any:
    """Return the variance of each component, its share, and the share of all up to it.

    Parameters
    ----------
    model : fitted estimator, or Pipeline that ends in one

    Returns
    -------
    table : data frame, or a dictionary of columns where pandas is not installed

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualpca import PCA
    >>> PCA(3).fit(load_digits().data).summary().round(2)
         variance  share  cumulative
    PC1    179.01   0.15        0.15
    PC2    163.72   0.14        0.29
    PC3    141.79   0.12        0.40
    """
    fitted = FittedModel(model)
    columns = {
        "variance": to_numpy(fitted.estimator.explained_variance_).astype(float),
        "share": fitted.shares,
        "cumulative": fitted.cumulative_shares,
    }
    return frame(columns, _names(fitted))


def outlier_report(model: Any, X: Any) -> Any:
    """Return the rows that are flagged, the farthest first, and why.

    Parameters
    ----------
    model : fitted RobustPCA or RobustKernelPCA, or Pipeline that ends in one
    X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        The rows to judge, those of the fit or others.

    Returns
    -------
    table : data frame, or a dictionary of columns where pandas is not installed
        A line for each flagged row, named as in the index of X, or counted from 0: its two distances;
        its ``kind`` (see ``RobustPCA.row_kinds_``); the ``variable`` that stands out most, its
        ``value``, the value ``expected`` from the others, and its ``share`` of the squared distance; and
        up to three of them in ``words``. Kernel models name no variables.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from dualpca import Preprocessor, RobustPCA
    >>> from dualpca.frames import outlier_report
    >>> X = load_wine(as_frame=True).data
    >>> X.loc[7, "ash"] = 40  # a slip of the decimal point
    >>> pipeline = make_pipeline(Preprocessor("robust"), RobustPCA(5, random_state=0)).fit(X)
    >>> outlier_report(pipeline, X)["words"].iloc[0]
    'ash 40 instead of 2.566 (100%)'
    """
    fitted = FittedModel(model)
    if not fitted.is_robust:
        raise ValueError(f"model is a {fitted.name}, which flags no rows; use RobustPCA")
    measured = fitted.distances(X)
    score, orthogonal, normality, flagged = measured
    rows = np.flatnonzero(flagged)
    rows = rows[np.argsort(normality[rows], kind="stable")]
    columns: dict[str, Any] = {
        "score_distance": score[rows].astype(float),
        "orthogonal_distance": orthogonal[rows].astype(float),
        "kind": fitted.kinds(measured)[rows],
    }
    if hasattr(fitted.estimator, "contributions"):
        found = fitted.reasons(take_rows(X, rows), VARIABLES) if len(rows) else []
        names = fitted.feature_names
        first = [row[0] if row else None for row in found]
        columns["variable"] = ["" if r is None else names[r.variable] for r in first]
        for name in ("value", "expected", "share"):
            columns[name] = [math.nan if r is None else getattr(r, name) for r in first]
        columns["words"] = [in_words(row, names) for row in found]
    index = getattr(X, "index", None)
    return frame(columns, rows if index is None else np.asarray(index)[rows])


def in_words(reasons: list[Reason], names: list[str]) -> str:
    """Return the variables behind a row: "weight 1,140 instead of 72 (98%); height missing (1%)"."""
    words: list[str] = []
    for j, value, expected, share in reasons[:VARIABLES]:
        told = f"{number(value)} instead of {number(expected, 4)}"
        if share >= LEAST or not words:
            told = "missing" if math.isnan(value) else told
            words.append(f"{names[j]} {told} ({f'{share:.0%}' if share >= LEAST else '<1%'})")
    if reasons and reasons[0].share < LEAST:
        words.append("and smaller shares of many others")
    return "; ".join(words)


def number(value: float, digits: int = 6) -> str:
    """Return a number with so many digits, or all those before the point, in thousands."""
    large = 10**digits <= abs(value) < 1e15
    return f"{value:,.0f}" if large else f"{value:,.{digits}g}"


def _names(fitted: FittedModel) -> list[str]:
    return [f"PC{k + 1}" for k in range(fitted.n_components)]


def frame(columns: dict[str, Any], index: Any) -> Any:
    """Return a data frame, or a dictionary where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        return {"name": list(index), **columns}
    return pd.DataFrame(columns, index=index)
