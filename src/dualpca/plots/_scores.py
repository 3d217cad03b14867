"""The scores of rows on two components."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from ._draw import (
    FLAGGED,
    GOOD,
    MAX_POINTS,
    axes,
    check_axes,
    counted,
    drawn,
    ink,
    legend,
    two_kinds,
)
from ._model import check_rows, estimator_of, flags, host, prepared

#: Petroff's ten colours, told apart by colour-blind readers; the last is for what has none of its own.
COLOURS: tuple[str, ...] = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#a96b59"),
    *("#e76300", "#b9ac70", "#717581", "#92dadd", "#94a4a2"),
)
MARKERS = "osDvP*XhpH"


class ScoresDisplay:
    """The scores of rows on two components, coloured by labels, with flagged rows marked.

    Parameters
    ----------
    scores : array of shape (n_samples, 2)
    labels : sequence of length n_samples, optional
        Classes, up to ten with colours of their own (the nine most frequent where there are more), or
        more than ten different floating-point numbers, drawn on a colour scale.
    flagged : bool array of shape (n_samples,), optional
    axis_names : pair of str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    points_ : list of matplotlib PathCollection
        As in the legend: the rows not flagged and flagged, or those of each class and rings around
        flagged ones.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualpca import PCA
    >>> from dualpca.plots import ScoresDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = ScoresDisplay.from_estimator(PCA(2).fit(X), X, labels=load_iris().target_names[y])
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['setosa (50)', 'versicolor (50)', 'virginica (50)']
    """

    def __init__(
        self,
        scores: Any,
        *,
        labels: Any = None,
        flagged: Any = None,
        axis_names: tuple[str, str] = ("component 1", "component 2"),
    ) -> None:
        self.scores = host(scores)
        if self.scores.ndim != 2 or self.scores.shape[1] != 2:
            raise ValueError(
                f"scores has shape {self.scores.shape}; give two columns, one for each axis of the "
                "picture"
            )
        n = len(self.scores)
        self.labels = None if labels is None else host(labels)
        self.flagged = None if flagged is None else host(flagged).astype(bool)
        for name, values in (("labels", self.labels), ("flagged", self.flagged)):
            if values is not None and values.shape != (n,):
                raise ValueError(
                    f"{name} has shape {values.shape} for {n} rows; give one for each row"
                )
        self.axis_names = axis_names

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        components: tuple[int, int] = (0, 1),
        labels: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ScoresDisplay:
        """Draw the scores of rows; of robust models with those rows marked that they flag.

        Parameters
        ----------
        model : estimator or pipeline
            Fitted, with two components at least.
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
            The rows. Of a precomputed kernel only the training matrix has rows that are flagged.
        components : pair of int
            Which components to draw, from 0.
        labels : sequence of length n_samples, optional
            Classes or numbers to colour the rows by.
        ax : matplotlib Axes, optional
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        display : ScoresDisplay
        """
        check_axes(ax)
        check_rows("labels", labels, X)
        give = "PCA, RobustPCA, KernelPCA, RobustKernelPCA or SparsePCA"
        estimator = estimator_of(model, cls.__name__, "transform", "scores", give)
        numbers = check_components(components, estimator)
        display = cls(**scores_of(estimator, numbers, prepared(model, X)), labels=labels)
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        equal_aspect: bool = False,
        max_points: int | None = MAX_POINTS,
        **kwargs: Any,
    ) -> ScoresDisplay:
        """Draw the scores.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        equal_aspect : bool
            Whether both axes have the same unit of length.
        max_points : int or None
            How many rows that are not flagged to draw at most, a sample of them; the legend tells.
        **kwargs
            For ``Axes.scatter`` of the rows that are not flagged; of all where there are labels.

        Returns
        -------
        self
        """
        flagged = np.zeros(len(self.scores), dtype=bool) if self.flagged is None else self.flagged
        self._shown = shown = drawn(flagged, max_points)
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        x, y = self.scores.T
        everything = np.ones(len(x), dtype=bool)
        if self.labels is not None:
            colour = self._numbers if _is_continuous(self.labels) else self._classes
            self.points_ = colour(x, y, shown, kwargs)
            self._rings(x, y, flagged)
        elif self.flagged is not None:
            self.points_ = two_kinds(ax, x, y, flagged, shown, **kwargs)
        else:
            style = {**GOOD, "label": counted("rows", everything, shown), **kwargs}
            self.points_ = [ax.scatter(x[shown], y[shown], **style)]
        ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        if equal_aspect:
            ax.set_aspect("equal", adjustable="datalim")
        legend(ax, int(shown.sum()))
        return self

    def _classes(
        self, x: np.ndarray, y: np.ndarray, shown: np.ndarray, kwargs: dict[str, Any]
    ) -> list[Any]:
        """The rows of each class, in a colour and a shape of its own."""
        found = []
        for (name, rows), colour, marker in zip(
            _kinds(host(self.labels)), COLOURS, MARKERS, strict=False
        ):
            here = rows & shown
            style = {**GOOD, "color": colour, "marker": marker, "label": counted(name, rows, shown)}
            found.append(self.ax_.scatter(x[here], y[here], **{**style, **kwargs}))
        return found

    def _numbers(
        self, x: np.ndarray, y: np.ndarray, shown: np.ndarray, kwargs: dict[str, Any]
    ) -> list[Any]:
        """The rows on a colour scale; grey where their label is not a finite number."""
        from matplotlib import colormaps

        everything = np.ones(len(x), dtype=bool)
        style: dict[str, Any] = {key: GOOD[key] for key in ("marker", "s", "linewidths")}
        style |= {"cmap": colormaps["viridis"].with_extremes(bad="0.7"), "plotnonfinite": True}
        style |= {"label": counted("rows", everything, shown), **kwargs}
        values = np.ma.masked_invalid(host(self.labels)[shown])
        points = self.ax_.scatter(x[shown], y[shown], c=values, **style)
        self.figure_.colorbar(points, ax=self.ax_, label="label")
        return [points]

    def _rings(self, x: np.ndarray, y: np.ndarray, flagged: np.ndarray) -> None:
        """Rings around the flagged rows, whose colours are those of their labels."""
        if self.flagged is None:
            return
        style = {"s": 2.5 * FLAGGED["s"], "marker": "o", "facecolors": "none", "linewidths": 1}
        label = f"flagged ({flagged.sum()})"
        rings = self.ax_.scatter(x[flagged], y[flagged], edgecolors=ink(), label=label, **style)
        self.points_.append(rings)


def _is_continuous(labels: np.ndarray) -> bool:
    return labels.dtype.kind == "f" and len(np.unique(labels)) > len(COLOURS)


def _kinds(labels: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The rows of each class by its name, in the order of classes; rare ones together as the last."""
    if labels.dtype.kind not in "biuf":
        labels = labels.astype(str)
    classes, kind, count = np.unique(labels, return_inverse=True, return_counts=True)
    names = [f"{c:g}" if labels.dtype.kind == "f" else str(c) for c in classes]
    if len(classes) <= len(COLOURS):
        return [(name, kind == i) for i, name in enumerate(names)]
    often = np.sort(np.argsort(-count, kind="stable")[: len(COLOURS) - 1])
    rare = ~np.isin(kind, often)
    found = [(names[i], kind == i) for i in often]
    return [*found, (f"{len(classes) - len(often)} other", rare)]


def check_components(components: Any, estimator: Any) -> list[int]:
    """Two different components that the estimator has."""
    have = int(estimator._n_features_out)
    whole = isinstance(components, Sequence) and all(
        isinstance(c, Integral) and not isinstance(c, bool) for c in components
    )
    if not whole or len(components) != 2 or len(set(components)) != 2:
        raise ValueError(f"components={components!r} is not two different numbers; give (0, 1) say")
    if not all(0 <= c < have for c in components):
        raise ValueError(
            f"components={components!r} are numbered from 0, and model has {have}; choose among these, "
            "or fit more n_components"
        )
    return [int(c) for c in components]


def scores_of(estimator: Any, numbers: list[int], rows: Any) -> dict[str, Any]:
    """Scores of rows, which of them are flagged, and what to call the axes."""
    scores = estimator.transform(rows)
    names = [f"component {i + 1}" for i in numbers]
    if hasattr(estimator, "explained_variance_ratio_"):
        shares = host(estimator.explained_variance_ratio_)
        names = [
            f"{name} ({shares[i]:.1%} of variance)" for name, i in zip(names, numbers, strict=True)
        ]
    return {
        "scores": np.column_stack([host(scores[:, i]) for i in numbers]),
        "flagged": flags(estimator, rows),
        "axis_names": tuple(names),
    }
