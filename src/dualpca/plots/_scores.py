"""The scores of rows on two components."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from ..inspect import FittedModel
from ._display import Display, check_columns, check_rows, host
from ._draw import FLAGGED, GOOD, MAX_POINTS, drawn_rows, ink, legend, legend_entry, scatter_flagged

#: Petroff's ten colours, which colour-blind readers tell apart; rare classes share the last one.
COLOURS: tuple[str, ...] = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#a96b59"),
    *("#e76300", "#b9ac70", "#717581", "#92dadd", "#94a4a2"),
)
MARKERS = "osDvP*XhpH"


class ScoresDisplay(Display):
    """The scores of rows on two components, coloured by labels, with flagged rows marked.

    Parameters
    ----------
    scores : array of shape (n_samples, 2)
    labels : sequence of length n_samples, optional
        Classes, of which ten have colours of their own (nine if there are more), or more than ten
        different floating-point numbers, drawn on a colour scale.
    flagged : bool array of shape (n_samples,), optional
    axis_names : pair of str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    points_ : list of matplotlib PathCollection
        The rows not flagged and flagged, or those of each class and rings around flagged ones.

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

    models: ClassVar = "PCA, RobustPCA, KernelPCA, RobustKernelPCA or SparsePCA"
    needs: ClassVar = {"transform": "scores"}

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
        self.labels = None if labels is None else host(labels)
        self.flagged = None if flagged is None else host(flagged).astype(bool)
        check_columns(len(self.scores), labels=self.labels, flagged=self.flagged)
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
        """Draw the scores of rows, and mark those that a robust model flags.

        Parameters
        ----------
        model : fitted estimator or pipeline with two components at least
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
            The rows. With a precomputed kernel, flags are drawn for the training matrix only.
        components : pair of int
            The components to draw, from 0.
        labels : sequence of length n_samples, optional
            Classes or numbers to colour the rows by.
        ax, **kwargs
            For :meth:`plot`.
        """
        fitted = cls._opened(model, ax)
        check_rows("labels", labels, X)
        whole = isinstance(components, Sequence) and all(
            isinstance(c, Integral) and not isinstance(c, bool) for c in components
        )
        if not whole or len(components) != 2 or len(set(components)) != 2:
            raise ValueError(
                f"components={components!r} is not two different numbers; give (0, 1) say"
            )
        if not all(0 <= c < fitted.n_components for c in components):
            raise ValueError(
                f"components={components!r} are numbered from 0, and model has {fitted.n_components}; "
                "choose among these, or fit more n_components"
            )
        return cls(**cls._parts(fitted, list(components), X), labels=labels).plot(ax, **kwargs)

    @classmethod
    def _parts(cls, fitted: FittedModel, pair: list[int], X: Any) -> dict[str, Any]:
        """Return the scores of rows on two components, their flags, and the names of the axes."""
        names = [f"component {i + 1}" for i in pair]
        if hasattr(fitted.estimator, "explained_variance_ratio_"):
            names = [f"component {i + 1} ({fitted.shares[i]:.1%} of variance)" for i in pair]
        unknown = fitted.is_precomputed and not fitted.is_training_kernel(X)
        flagged = fitted.distances(X).flagged if fitted.is_robust and not unknown else None
        scores = fitted.scores(X)[:, pair]
        return {"scores": scores, "flagged": flagged, "axis_names": tuple(names)}

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
            The most rows to draw, at random, of those that are not flagged.
        **kwargs
            For ``Axes.scatter`` of the rows that are not flagged; of all rows if there are labels.
        """
        everything = np.ones(len(self.scores), dtype=bool)
        flagged = ~everything if self.flagged is None else self.flagged
        self._shown = shown = drawn_rows(flagged, max_points)
        ax = self._axes(ax)
        x, y = self.scores.T
        entry = legend_entry("rows", everything, shown)
        if self.labels is not None:
            if self.labels.dtype.kind == "f" and len(np.unique(self.labels)) > len(COLOURS):
                self._scatter_numbers(x, y, shown, {"label": entry, **kwargs})
            else:
                self._scatter_classes(x, y, shown, kwargs)
            if self.flagged is not None:
                self._ring(x[flagged], y[flagged])
        elif self.flagged is not None:
            self.points_ = scatter_flagged(ax, x, y, flagged, shown, **kwargs)
        else:
            self.points_ = [ax.scatter(x[shown], y[shown], **{**GOOD, "label": entry, **kwargs})]
        ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        if equal_aspect:
            ax.set_aspect("equal", adjustable="datalim")
        legend(ax, int(shown.sum()))
        return self

    def _scatter_classes(
        self, x: np.ndarray, y: np.ndarray, shown: np.ndarray, options: Any
    ) -> None:
        """Draw the rows of each class in a colour and a shape of its own."""
        self.points_ = []
        classes = zip(_classes(host(self.labels)), COLOURS, MARKERS, strict=False)
        for (name, rows), colour, marker in classes:
            style = {**GOOD, "color": colour, "marker": marker}
            style |= {"label": legend_entry(name, rows, shown), **options}
            self.points_.append(self.ax_.scatter(x[rows & shown], y[rows & shown], **style))

    def _scatter_numbers(
        self, x: np.ndarray, y: np.ndarray, shown: np.ndarray, options: Any
    ) -> None:
        """Draw the rows on a colour scale, grey if their label is not a finite number."""
        from matplotlib import colormaps

        style: dict[str, Any] = {key: GOOD[key] for key in ("marker", "s", "linewidths")}
        style |= {"cmap": colormaps["viridis"].with_extremes(bad="0.7"), "plotnonfinite": True}
        values = np.ma.masked_invalid(host(self.labels)[shown])
        points = self.ax_.scatter(x[shown], y[shown], c=values, **style | options)
        self.figure_.colorbar(points, ax=self.ax_, label="label")
        self.points_ = [points]

    def _ring(self, x: np.ndarray, y: np.ndarray) -> None:
        """Draw rings around flagged rows, whose colours are those of their labels."""
        style = {"s": 2.5 * FLAGGED["s"], "marker": "o", "facecolors": "none", "linewidths": 1}
        label = f"flagged ({len(x)})"
        self.points_.append(self.ax_.scatter(x, y, edgecolors=ink(), label=label, **style))


def _classes(labels: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return the name and the rows of each class; of many classes the rare ones form the last."""
    if labels.dtype.kind not in "biuf":
        labels = labels.astype(str)
    classes, kind, count = np.unique(labels, return_inverse=True, return_counts=True)
    names = [f"{c:g}" if labels.dtype.kind == "f" else str(c) for c in classes]
    if len(classes) <= len(COLOURS):
        return [(name, kind == i) for i, name in enumerate(names)]
    often = np.sort(np.argsort(-count, kind="stable")[: len(COLOURS) - 1])
    rare = f"{len(classes) - len(often)} other", ~np.isin(kind, often)
    return [*((names[i], kind == i) for i in often), rare]
