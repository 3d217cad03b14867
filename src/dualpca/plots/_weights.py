"""The weight of each training row in the loss."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ._display import Display, check_columns, host
from ._draw import MAX_POINTS, drawn_rows, legend, scatter_flagged


class WeightsDisplay(Display):
    """The weight of each training row in the loss, the largest being 1, with flagged rows marked.

    Parameters
    ----------
    weights : array of shape (n_samples,)
    flagged : bool array of shape (n_samples,)

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    points_ : list of matplotlib PathCollection
        The rows that are not flagged, and those that are.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualpca import RobustPCA
    >>> from dualpca.plots import WeightsDisplay
    >>> model = RobustPCA(n_components=2, random_state=0).fit(load_iris().data)
    >>> display = WeightsDisplay.from_estimator(model)
    >>> sum(len(rows.get_offsets()) for rows in display.points_)
    150
    """

    needs: ClassVar = {"distances": "weights of rows"}

    def __init__(self, weights: Any, flagged: Any) -> None:
        self.weights = host(weights)
        self.flagged = host(flagged).astype(bool)
        check_columns(self.weights.size, weights=self.weights, flagged=self.flagged)

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None, **kwargs: Any) -> WeightsDisplay:
        """Draw the weights of a fitted RobustPCA, RobustKernelPCA or pipeline; see :meth:`plot`."""
        estimator = cls._opened(model, ax).estimator
        return cls(estimator.weights_, estimator.outliers_).plot(ax, **kwargs)

    def plot(
        self, ax: Any = None, *, max_points: int | None = MAX_POINTS, **kwargs: Any
    ) -> WeightsDisplay:
        """Draw the weights.

        Of the rows that are not flagged, ``max_points`` are drawn at most, a random sample, and with
        ``kwargs`` as options of ``Axes.scatter``.
        """
        shown = drawn_rows(self.flagged, max_points)
        ax = self._axes(ax)
        number = np.arange(len(self.weights))
        self.points_ = scatter_flagged(ax, number, self.weights, self.flagged, shown, **kwargs)
        ax.set(xlabel="row", ylabel="weight in the loss")
        legend(ax, int(shown.sum()))
        return self
