"""The scores of rows on two components, alone and with the loadings of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .._arguments import check_count, group_labels, is_count
from ..inspect import FittedModel
from . import _display as base

#: Petroff's ten colours, which colour-blind readers tell apart; rare classes share the last one.
COLOURS: tuple[str, ...] = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#a96b59"),
    *("#e76300", "#b9ac70", "#717581", "#92dadd", "#94a4a2"),
)
MARKERS = "osDvP*XhpH"


class ScoresDisplay(base.Display):
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
        self.scores = base.host(scores)
        if self.scores.ndim != 2 or self.scores.shape[1] != 2:
            raise ValueError(
                f"scores has shape {self.scores.shape}; give two columns, one for each axis of the "
                "picture"
            )
        self.labels = None if labels is None else base.host(labels)
        self.flagged = None if flagged is None else base.host(flagged).astype(bool)
        base.check_rows(len(self.scores), labels=self.labels, flagged=self.flagged)
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
        base.check_rows(getattr(X, "shape", (None,))[0], labels=labels)
        k, given = fitted.n_components, components if isinstance(components, Sequence) else ()
        if len(given) != 2 or len({c for c in given if is_count(c, 0, k - 1)}) != 2:
            raise ValueError(
                f"components={components!r} must be two different numbers from 0, and model has {k}; "
                "give (0, 1) say, or fit more n_components"
            )
        return cls(**cls._parts(fitted, list(components), X), labels=labels).plot(ax, **kwargs)

    @classmethod
    def _parts(cls, fitted: FittedModel, pair: list[int], X: Any) -> dict[str, Any]:
        """Return the scores of rows on two components, their flags, and the names of the axes."""
        names = [f"component {i + 1}" for i in pair]
        if hasattr(fitted.estimator, "explained_variance_ratio_"):
            names = [f"component {i + 1} ({fitted.shares[i]:.1%} of variance)" for i in pair]
        Z, last = fitted.prepared(X), FittedModel(fitted.estimator)
        unknown = fitted.is_precomputed and not fitted.is_training_kernel(Z)
        flagged = last.distances(Z).flagged if fitted.is_robust and not unknown else None
        return {"scores": last.scores(Z)[:, pair], "flagged": flagged, "axis_names": tuple(names)}

    def plot(
        self,
        ax: Any = None,
        *,
        equal_aspect: bool = False,
        max_points: int | None = base.MAX_POINTS,
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
        self._shown = shown = base.drawn_rows(flagged, max_points)
        ax = self._axes(ax)
        groups: list[Any] = [("rows", everything, {**base.GOOD, **kwargs})]
        numeric = False
        if self.labels is not None:
            numeric = self.labels.dtype.kind == "f" and len(np.unique(self.labels)) > len(COLOURS)
            if numeric:
                groups = [("rows", everything, self._colour_scale() | kwargs)]
            else:
                names, group = group_labels(self.labels, len(COLOURS))
                looks = zip(names, COLOURS, MARKERS, strict=False)
                groups = [
                    (name, group == i, {**base.GOOD, "color": colour, "marker": marker, **kwargs})
                    for i, (name, colour, marker) in enumerate(looks)
                ]
            if self.flagged is not None:  # rings, as colours are those of the labels
                ring = {"s": 2.5 * base.FLAGGED["s"], "facecolors": "none", "linewidths": 1}
                groups.append(("flagged", flagged, {**ring, "edgecolors": base.ink()}))
        elif self.flagged is not None:
            groups = base.by_flag(flagged, kwargs)
        self.points_ = base.scatter(ax, tuple(self.scores.T), shown, groups)
        if numeric:
            self.figure_.colorbar(self.points_[0], ax=ax, label="label")
        ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        if equal_aspect:
            ax.set_aspect("equal", adjustable="datalim")
        base.legend(ax, int(shown.sum()))
        return self

    def _colour_scale(self) -> dict[str, Any]:
        """Return the style of labels that are numbers; one that is not finite is grey."""
        from matplotlib import colormaps

        values = np.ma.masked_invalid(base.host(self.labels)[self._shown])
        style = {key: base.GOOD[key] for key in ("marker", "s", "linewidths")}
        cmap = colormaps["viridis"].with_extremes(bad="0.7")
        return {**style, "c": values, "cmap": cmap, "plotnonfinite": True}


class BiplotDisplay(ScoresDisplay):
    """The scores of rows on two components, with the loadings of the features as arrows.

    An arrow points where a feature grows; the projections of rows onto it show what the two components
    say about the feature. One scale makes all arrows fill the picture.

    Parameters
    ----------
    scores : array of shape (n_samples, 2)
    loadings : array of shape (n_features, 2)
    feature_names : sequence of length n_features
    labels, flagged, axis_names
        As in :class:`ScoresDisplay`.

    Attributes
    ----------
    ax_, figure_, points_
        As in :class:`ScoresDisplay`.
    arrows_ : list of matplotlib Annotation
        The longest first.
    names_ : list of matplotlib Annotation
    scale_ : float
        The factor of the loadings.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from dualpca import PCA
    >>> from dualpca.plots import BiplotDisplay
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    >>> display = BiplotDisplay.from_estimator(model, X, labels=y, n_arrows=3)
    >>> [name.get_text() for name in display.names_]
    ['color_intensity', 'alcohol', 'proline']
    """

    models: ClassVar = "PCA, RobustPCA or SparsePCA"
    needs: ClassVar = {"transform": "scores", "components_": "loadings of features"}

    def __init__(self, scores: Any, loadings: Any, feature_names: Any, **rows: Any) -> None:
        super().__init__(scores, **rows)
        self.loadings = base.host(loadings)
        self.feature_names = [str(name) for name in feature_names]
        if self.loadings.shape != (len(self.feature_names), 2):
            raise ValueError(
                f"loadings has shape {self.loadings.shape} for {len(self.feature_names)} feature_names; "
                "give two columns and one row for each name"
            )

    @classmethod
    def _parts(cls, fitted: FittedModel, pair: list[int], X: Any) -> dict[str, Any]:
        loadings = fitted.loadings[pair].T
        if getattr(fitted.estimator, "whiten", False):  # rows are scores times these
            loadings = loadings * np.sqrt(base.host(fitted.estimator.explained_variance_)[pair])
        parts = super()._parts(fitted, pair, X)
        return {**parts, "loadings": loadings, "feature_names": fitted.feature_names}

    def plot(
        self, ax: Any = None, *, n_arrows: int = 10, equal_aspect: bool = True, **kwargs: Any
    ) -> BiplotDisplay:
        """Draw the scores and the arrows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        n_arrows : int
            The most features to draw and to name, those with the longest arrows.
        equal_aspect : bool
            Whether both axes have the same unit of length, without which angles mean nothing.
        **kwargs
            For :meth:`ScoresDisplay.plot`.
        """
        size = np.hypot(*self.loadings.T)
        longest = np.argsort(-size, kind="stable")
        count = check_count("n_arrows", n_arrows, "features to draw")
        longest = longest[size[longest] > 0][:count]
        super().plot(ax, equal_aspect=equal_aspect, **kwargs)
        ax = self.ax_
        # The largest scale that keeps the arrows within the range of the scores.
        reach = np.abs(self.scores[self._shown]).max(axis=0)
        widest = np.abs(self.loadings[longest]).max(axis=0, initial=0.0)
        scale = 0.85 * np.min(reach[widest > 0] / widest[widest > 0], initial=np.inf)
        self.scale_ = float(scale) if 0 < scale < np.inf else 1.0
        tips = self.loadings[longest] * self.scale_
        style = {
            "arrowstyle": "-|>",
            "color": base.ink(),
            "linewidth": 1.2,
            "shrinkA": 0,
            "shrinkB": 0,
        }
        arrow: dict[str, Any] = {"arrowprops": style, "annotation_clip": False}
        self.arrows_ = [ax.annotate("", tuple(tip), (0.0, 0.0), **arrow) for tip in tips]
        ax.update_datalim(1.1 * tips)
        ax.autoscale_view()
        along = np.concatenate([t * tips for t in np.linspace(0.1, 1.0, 10)])
        obstacles = np.concatenate([self.scores[self._shown], along])
        names = [self.feature_names[i] for i in longest]
        self.names_ = base.write_names(ax, names, tips, obstacles, outwards=True)
        return self
