"""Scores of rows with the loadings of features."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..inspect import FittedModel
from ._display import check_count, host
from ._draw import ink, write_names
from ._scores import ScoresDisplay


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
        self.loadings = host(loadings)
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
            loadings = loadings * np.sqrt(host(fitted.estimator.explained_variance_)[pair])
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
        tips = self.loadings[longest] * self._scale(longest)
        style = {"arrowstyle": "-|>", "color": ink(), "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
        arrow: dict[str, Any] = {"arrowprops": style, "annotation_clip": False}
        self.arrows_ = [ax.annotate("", tuple(tip), (0.0, 0.0), **arrow) for tip in tips]
        ax.update_datalim(1.1 * tips)
        ax.autoscale_view()
        along = np.concatenate([t * tips for t in np.linspace(0.1, 1.0, 10)])
        obstacles = np.concatenate([self.scores[self._shown], along])
        names = [self.feature_names[i] for i in longest]
        self.names_ = write_names(ax, names, tips, obstacles, outwards=True)
        return self

    def _scale(self, longest: np.ndarray) -> float:
        """Return the largest scale that keeps the arrows within the range of the scores."""
        self.scale_ = 1.0
        reach = np.abs(self.scores[self._shown]).max(axis=0)
        widest = np.abs(self.loadings[longest]).max(axis=0, initial=0.0)
        ratios = reach[widest > 0] / widest[widest > 0]
        if len(ratios) and 0 < ratios.min() < np.inf:
            self.scale_ = 0.85 * float(ratios.min())
        return self.scale_
