"""The weight of each training row in the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._draw import MAX_POINTS, axes, check_axes, drawn, legend, two_kinds
from ._model import ROBUST, estimator_of, host


class WeightsDisplay:
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

    def __init__(self, weights: Any, flagged: Any) -> None:
        self.weights = host(weights)
        self.flagged = host(flagged).astype(bool)
        if self.weights.ndim != 1 or self.weights.shape != self.flagged.shape:
            raise ValueError(
                f"weights has shape {self.weights.shape} and flagged {self.flagged.shape}; give one of "
                "both for each row"
            )

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None, **kwargs: Any) -> WeightsDisplay:
        """Draw the weights of the training rows.

        Parameters
        ----------
        model : RobustPCA or RobustKernelPCA, or pipeline
            Fitted.
        ax : matplotlib Axes, optional
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        display : WeightsDisplay
        """
        check_axes(ax)
        estimator = estimator_of(model, cls.__name__, "distances", "weights of rows", ROBUST)
        return cls(estimator.weights_, estimator.outliers_).plot(ax, **kwargs)

    def plot(
        self, ax: Any = None, *, max_points: int | None = MAX_POINTS, **kwargs: Any
    ) -> WeightsDisplay:
        """Draw the weights.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        max_points : int or None
            How many rows that are not flagged to draw at most, a sample of them; the legend tells.
        **kwargs
            For ``Axes.scatter`` of the rows that are not flagged.

        Returns
        -------
        self
        """
        shown = drawn(self.flagged, max_points)
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        number = np.arange(len(self.weights))
        self.points_ = two_kinds(ax, number, self.weights, self.flagged, shown, **kwargs)
        ax.set(xlabel="row", ylabel="weight in the loss")
        legend(ax, int(shown.sum()))
        return self
