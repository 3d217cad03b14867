"""Pictures of fitted models; they need matplotlib, ``pip install 'dualpca[plot]'``.

Every function draws on the axes it is given, those of ``plt.subplots()`` say, or on a new figure that
pyplot knows nothing of; ``outlier_map(model).figure.savefig("map.png")`` writes it to a file.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.exceptions import NotFittedError

from .linalg import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["outlier_map", "scree", "weights"]

GOOD: dict[str, Any] = {"c": "tab:blue", "marker": "o", "s": 20, "alpha": 0.7, "linewidths": 0}
FLAGGED: dict[str, Any] = {"c": "tab:red", "marker": "^", "s": 34, "linewidths": 0}
BESIDE: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "small"}
BESIDE["textcoords"] = "offset points"

#: Negative variances of at most this share of the largest are rounding, in single precision.
ROUNDING = 1e-6


def outlier_map(
    model: Any, X: Any = None, *, labels: Any = None, annotate: int = 0, ax: Axes | None = None
) -> Axes:
    """Each row by its distance within the subspace and its distance from it.

    Good rows lie at the lower left; to the right of the vertical cut-off are good leverage points,
    which fit the subspace, above the horizontal one orthogonal outliers, and beyond both bad leverage
    points. The solid line is the limit beyond which ``model`` flags rows. Rows whose distance
    overflows are counted in the legend but lie outside of any axes.

    Parameters
    ----------
    model : RobustPCA
        Fitted.
    X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features), optional
        Other rows to draw instead of the training rows.
    labels : sequence of length n_samples, optional
        What to call the rows; their numbers, from 0, where it is not given.
    annotate : int
        How many flagged rows to name, those of largest distance.
    ax : matplotlib Axes, optional

    Returns
    -------
    ax : matplotlib Axes
        Use ``ax.set_yscale("log")`` where far rows leave no room for the others.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import RobustPCA
    >>> from dualpca.plots import outlier_map
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 10))
    >>> X += 0.1 * rng.standard_normal(X.shape)
    >>> X[:40] += 5 * rng.standard_normal((40, 10))
    >>> ax = outlier_map(RobustPCA(n_components=2, random_state=0).fit(X), annotate=3)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['not flagged (160)', 'flagged (40)', 'cut-offs at 0.975', 'flagging limit']
    """
    _check_robust(model, "outlier_map")
    score, orthogonal = model.score_distances_, model.orthogonal_distances_
    if X is not None:
        score, orthogonal = model.distances(X)
    # compared in the precision of the data, as predict does
    normality = model._normality_of(score, orthogonal)
    flagged = to_numpy(normality < model.offset_)
    x, y = to_numpy(score), to_numpy(orthogonal)
    named, names = _named(-to_numpy(normality), flagged, annotate), _names(labels, len(x))
    ax = _axes(ax)
    _two_kinds(ax, x, y, flagged)
    dashed: dict[str, Any] = {"color": "0.35", "linestyle": "--", "linewidth": 1}
    ax.axhline(model.orthogonal_cutoff_, label="cut-offs at 0.975", **dashed)
    ax.axvline(model.score_cutoff_, **dashed)
    solid: dict[str, Any] = {"color": "tab:red", "linewidth": 1, "label": "flagging limit"}
    share = -model.offset_ if model.flags_by_ == "both" else 1.0
    at = {
        "score": (-model.offset_, None),
        "orthogonal": (None, -model.offset_),
        "both": (share * model.limits_[0], share * model.limits_[1]),
    }[model.flags_by_]
    for place, line in zip(at, (ax.axvline, ax.axhline), strict=True):
        if place is not None:
            line(place, **solid)
            solid.pop("label", None)  # once in the legend
    _write(ax, x, y, named, names)
    ax.set_xlabel("score distance")
    ax.set_ylabel("orthogonal distance")
    ax.legend(loc="best", fontsize="small")
    return ax


def scree(variances: Any, *, ax: Axes | None = None) -> Axes:
    """The share of each component in the variance, and of the first k together.

    Parameters
    ----------
    variances : array of shape (n_components,), or fitted model with ``explained_variance_ratio_``
        Of an array, such as ``RobustPCA().scree(X)``, the shares are those in its sum; of a model,
        those in the variance of the data, so that they reach 1 only where no direction is left out.
    ax : matplotlib Axes, optional

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from dualpca.plots import scree
    >>> ax = scree([6.0, 3.0, 1.0])
    >>> [round(float(bar.get_height()), 2) for bar in ax.patches]
    [0.6, 0.3, 0.1]
    >>> ax.lines[0].get_ydata().round(2).tolist()
    [0.6, 0.9, 1.0]
    """
    shares = _shares(variances)
    ax = _axes(ax)
    from matplotlib.ticker import MaxNLocator

    number = np.arange(1, len(shares) + 1)
    ax.bar(number, shares, color="tab:blue", alpha=0.7, label="each component")
    ax.plot(number, np.cumsum(shares), color="black", marker=".", label="cumulative")
    ax.set_xlabel("component")
    ax.set_ylabel("share of variance")
    ax.set_ylim(0, 1.05)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="best", fontsize="small")
    return ax


def weights(model: Any, *, ax: Axes | None = None) -> Axes:
    """The weight of each training row in the loss, the largest being 1, with flagged rows marked.

    Parameters
    ----------
    model : RobustPCA
        Fitted.
    ax : matplotlib Axes, optional

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualpca import RobustPCA
    >>> from dualpca.plots import weights
    >>> ax = weights(RobustPCA(n_components=2, random_state=0).fit(load_iris().data))
    >>> sum(len(rows.get_offsets()) for rows in ax.collections)
    150
    """
    _check_robust(model, "weights")
    by_row = to_numpy(model.weights_)
    ax = _axes(ax)
    _two_kinds(ax, np.arange(len(by_row)), by_row, to_numpy(model.outliers_))
    ax.set_xlabel("row")
    ax.set_ylabel("weight in the loss")
    ax.legend(loc="best", fontsize="small")
    return ax


def _check_robust(model: Any, function: str) -> None:
    if hasattr(model, "orthogonal_distances_") and hasattr(model, "outliers_"):
        return
    name = type(model).__name__
    if hasattr(model, "distances"):
        raise NotFittedError(f"model, a {name}, is not fitted; call fit(X) before plots.{function}")
    raise TypeError(
        f"model is a {name}, which has no outlier distances; give plots.{function} a fitted RobustPCA"
    )


def _axes(ax: Any) -> Axes:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'dualpca[plot]'") from error
    if ax is None:
        return Figure(layout="constrained").subplots()
    if not hasattr(ax, "scatter"):
        raise TypeError(f"ax is a {type(ax).__name__}; give one matplotlib Axes")
    return ax


def _two_kinds(ax: Axes, x: np.ndarray, y: np.ndarray, flagged: np.ndarray) -> None:
    for rows, style, label in ((~flagged, GOOD, "not flagged"), (flagged, FLAGGED, "flagged")):
        ax.scatter(x[rows], y[rows], label=f"{label} ({rows.sum()})", **style)


def _named(distance: np.ndarray, flagged: np.ndarray, annotate: Any) -> np.ndarray:
    """The flagged rows of largest distance, as many as are asked for."""
    if not isinstance(annotate, Integral) or isinstance(annotate, bool) or annotate < 0:
        raise ValueError(f"annotate={annotate!r} counts rows to name; give an integer, 0 for none")
    farthest = np.argsort(-distance, kind="stable")
    return farthest[flagged[farthest]][: int(annotate)]


def _write(ax: Axes, x: np.ndarray, y: np.ndarray, named: np.ndarray, names: list[str]) -> None:
    """Each name beside its point, on the side where it is freest of points, names and edges."""
    unit = 72 / ax.figure.dpi
    low, high = unit * ax.get_window_extent().get_points()
    taken = np.nan_to_num(unit * ax.transData.transform(np.column_stack([x, y])))
    # half the sizes of points, and of small print by the number of its letters, in 1/72 inch
    halves = np.full(taken.shape, 3.0)
    for i in named:
        half = np.array([3.0 * len(names[i]), 5.0])
        shifts = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)]) * (half + 5)
        centers = taken[i] + shifts
        gaps = np.max(np.abs(centers[:, None] - taken) / (halves + half), axis=2)
        edges = np.min(np.minimum(centers - low, high - centers) / half, axis=1)
        best = np.argmax(np.minimum(np.minimum(gaps.min(axis=1), edges), 1.0))
        ax.annotate(names[i], (x[i], y[i]), tuple(shifts[best]), **BESIDE)
        taken, halves = np.vstack([taken, centers[best]]), np.vstack([halves, half])


def _names(labels: Any, n: int) -> list[str]:
    names = [str(label) for label in (range(n) if labels is None else labels)]
    if len(names) != n:
        raise ValueError(f"labels has length {len(names)} for {n} rows; give one label for each")
    return names


def _shares(variances: Any) -> np.ndarray:
    if hasattr(variances, "explained_variance_ratio_"):
        return to_numpy(variances.explained_variance_ratio_).astype(float)
    if hasattr(variances, "fit"):
        raise NotFittedError(
            f"variances is a {type(variances).__name__} without explained_variance_ratio_; call "
            "fit(X) before plots.scree, or give an array of variances"
        )
    try:
        found = to_numpy(variances) if is_array_api_obj(variances) else variances
        values = np.asarray(found, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"variances is a {type(variances).__name__}; give an array of variances, such as "
            "RobustPCA().scree(X), or a fitted model"
        ) from error
    right = values.ndim == 1 and values.size > 0 and np.isfinite(values).all()
    if not right or values.min() < -ROUNDING * values.max():
        raise ValueError(
            f"variances, of shape {values.shape}, must be a sequence of finite numbers that are not "
            "negative; to draw those of data X give RobustPCA().scree(X)"
        )
    values = np.maximum(values, 0.0)
    return values / (values.sum() or 1.0)
