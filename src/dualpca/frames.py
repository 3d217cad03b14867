"""What a fitted model says, as data frames: loadings, components, and the rows that stand out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._rows import take_rows
from .inspect import FittedModel, Reason
from .linalg import to_numpy
from .operators import as_operator, centered, in_memory
from .operators.centering import minus_center

__all__ = ["loadings", "outlier_report", "quality", "summary"]

#: The most variables that explain a row, and the least share of one that is named.
VARIABLES, LEAST = 3, 0.01


def loadings(model: Any, scaled: bool = False, X: Any = None) -> Any:
    """Return the loadings of a model: a line for each variable, a column for each component.

    Parameters
    ----------
    model : fitted estimator with components, or Pipeline that ends in one
    scaled : bool
        Return the correlations of the variables with the scores instead.
    X : array, sparse matrix, data frame or file of shape (n_samples, n_features), optional
        The rows to compute correlations from, those that are not flagged if the model is robust. Without
        X they are those of the Gaussian model (``get_covariance``), which has the same noise beside all
        components: they are exact if no component is left out.

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
    values = correlations(fitted, X) if scaled else fitted.loadings
    columns = dict(zip(component_names(len(values)), values, strict=True))
    return frame(columns, fitted.feature_names)


def correlations(fitted: FittedModel, X: Any = None) -> np.ndarray:
    """Return the correlations of scores with variables, of shape (n_components, n_features)."""
    model = fitted.estimator
    if X is None and not hasattr(model, "get_covariance"):
        raise ValueError(
            f"a {fitted.name} does not know the variances of its variables; give X, its rows"
        )
    if X is None:
        V, variances = (to_numpy(a).astype(float) for a in model._principal)
        W, noise = model.score_map()[1], float(model.noise_variance_)
        joint = (V.T * variances) @ (V @ W)
        spread = np.einsum("jk,jk->k", W, joint)
        squares = noise + np.clip(variances - noise, 0.0, None) @ V**2
    else:
        if fitted.is_robust:
            X = take_rows(X, np.flatnonzero(~fitted.distances(X).flagged))
        rows = centered(as_operator(fitted.prepared(X)))
        scores = fitted.scores(X).astype(float)
        scores = scores - scores.mean(axis=0)
        joint = to_numpy(rows.rmatmul(rows.asarray(scores))).astype(float)
        spread, squares = (scores**2).sum(axis=0), rows.column_squares()
    size = np.sqrt(np.outer(spread, squares))
    return np.clip(np.divide(joint.T, size, out=np.zeros_like(size), where=size > 0), -1.0, 1.0)


def shown_shares(fitted: FittedModel, X: Any = None) -> np.ndarray:
    """Return cos2 of variables for every model: by rows in memory without holes, else by the model."""
    by_rows = in_memory(X) and not getattr(fitted.estimator, "_completes", "")
    return correlations(fitted, X if by_rows else None) ** 2


def quality(model: Any, X: Any, of: str = "rows") -> Any:
    """Return how well components show rows or variables (cos2), and how much each contributes (ctr).

    These are the numbers beside the coordinates in correspondence analysis and in its relatives. Why a
    row is flagged is another question, for :func:`outlier_report`.

    Parameters
    ----------
    model : fitted PCA, RobustPCA or SparsePCA, or Pipeline that ends in one
    X : array, sparse matrix, data frame or file of shape (n_samples, n_features)
    of : {"rows", "variables"}

    Returns
    -------
    table : data frame, or a dictionary of columns where pandas is not installed
        A line for each row or variable. "cos2 PC1": of a row, the squared cosine of the angle between it,
        from the centre, and the component; of a variable, its squared correlation with the scores. Over
        all components of a PCA these sum to 1. "ctr PC1": of a row, its share of the sum of squared
        scores; of a variable, that of squared loadings. Over all rows or variables these sum to 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualpca import PCA
    >>> from dualpca.frames import quality
    >>> X = load_iris(as_frame=True).data
    >>> quality(PCA(2).fit(X), X, "variables").round(2)
                       cos2 PC1  cos2 PC2  ctr PC1  ctr PC2
    sepal length (cm)      0.81      0.15     0.13     0.43
    sepal width (cm)       0.16      0.68     0.01     0.53
    petal length (cm)      1.00      0.00     0.73     0.03
    petal width (cm)       0.93      0.00     0.13     0.01
    """
    fitted = FittedModel(model)
    if of not in ("rows", "variables") or not hasattr(fitted.estimator, "rotation"):
        raise ValueError(
            f"of={of!r} of a {fitted.name} is unknown; give 'rows' or 'variables' of a PCA, RobustPCA or "
            "SparsePCA"
        )
    if of == "variables":
        cos2, squares = correlations(fitted, X) ** 2, fitted.loadings**2
        index: Any = fitted.feature_names
    else:
        estimator, Z = fitted.estimator, fitted.prepared(X)
        operator: Any = as_operator(Z)
        origin = estimator.score_map()[0]
        operator = operator if origin is None else minus_center(operator, operator.asarray(origin))
        along, lengths = operator @ estimator.components_.T, operator.row_norms()
        along, lengths = (to_numpy(a).astype(float) for a in (along, lengths))
        lengths = np.outer(np.linalg.norm(fitted.loadings, axis=1), lengths)
        cos2 = np.divide(along.T, lengths, out=np.zeros_like(lengths), where=lengths > 0) ** 2
        squares = fitted.scores(X).astype(float).T ** 2
        index = index_of(X, np.arange(len(along)))
    sums = squares.sum(axis=1, keepdims=True)
    ctr = squares / np.where(sums > 0, sums, 1.0)
    columns: dict[str, Any] = {}
    for word, values in (("cos2", cos2), ("ctr", ctr)):
        names = (f"{word} {name}" for name in component_names(len(values)))
        columns |= dict(zip(names, values, strict=True))
    return frame(columns, index)


def summary(model: Any) -> Any:
    """Return the variance of each component, its share, and the share of all up to it.

    Parameters
    ----------
    model : fitted estimator, or Pipeline that ends in one

    Returns
    -------
    table : data frame, or a dictionary of columns where pandas is not installed
        ``table.attrs`` has what was reached: "residual" and "tol", of PCA also "variance_shortfall".

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
    table, estimator = frame(columns, component_names(fitted.n_components)), fitted.estimator
    if hasattr(table, "attrs"):
        names = ("residual_", "tol", "variance_shortfall_", "n_passes_")
        table.attrs |= {k.strip("_"): getattr(estimator, k) for k in names if hasattr(estimator, k)}
    return table


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
    return frame(columns, index_of(X, rows))


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


def component_names(count: int) -> list[str]:
    """Return "PC1", "PC2" and so on."""
    return [f"PC{k + 1}" for k in range(count)]


def index_of(X: Any, rows: np.ndarray) -> Any:
    """Return the names of some rows in the index of a data frame, or their numbers."""
    # Lists and tensors have a method of the name index.
    return np.asarray(X.index)[rows] if hasattr(X, "iloc") else rows


def frame(columns: dict[str, Any], index: Any) -> Any:
    """Return a data frame, or a dictionary where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        return {"name": list(index), **columns}
    return pd.DataFrame(columns, index=index)
