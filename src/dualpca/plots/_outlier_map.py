"""The outlier map of Hubert, Rousseeuw and Vanden Branden."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg import to_numpy
from ._draw import (
    MAX_POINTS,
    VERMILION,
    axes,
    check_axes,
    check_count,
    drawn,
    legend,
    two_kinds,
    write,
)
from ._model import ROBUST, check_rows, estimator_of, host, names_of_rows, prepared


class OutlierMapDisplay:
    """Each row by its distance within the subspace and its distance from it.

    Good rows lie at the lower left; to the right of the vertical cut-off are good leverage points,
    which fit the subspace, above the horizontal one orthogonal outliers, and beyond both bad leverage
    points. The solid line is the limit beyond which rows are flagged.

    Parameters
    ----------
    score_distances, orthogonal_distances : arrays of shape (n_samples,)
    flagged : bool array of shape (n_samples,)
    cutoffs : pair of float
        Of the score and the orthogonal distances, at 0.975.
    limits : pair of float or None
        Of the score and the orthogonal distances, beyond which rows are flagged; None where that
        distance flags no row.
    row_names : sequence of length n_samples, optional
        What to call the rows; their numbers, from 0, where it is not given.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Use ``ax_.set_yscale("log")`` where far rows leave no room for the others.
    points_ : list of matplotlib PathCollection
        The rows that are not flagged, and those that are.
    cutoffs_, limits_ : list of matplotlib Line2D
    names_ : list of matplotlib Annotation

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import RobustPCA
    >>> from dualpca.plots import OutlierMapDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 10))
    >>> X += 0.1 * rng.standard_normal(X.shape)
    >>> X[:40] += 5 * rng.standard_normal((40, 10))
    >>> model = RobustPCA(n_components=2, random_state=0).fit(X)
    >>> display = OutlierMapDisplay.from_estimator(model, annotate=3)
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['not flagged (160)', 'flagged (40)', 'cut-offs at 0.975', 'flagging limit']
    """

    def __init__(
        self,
        score_distances: Any,
        orthogonal_distances: Any,
        flagged: Any,
        *,
        cutoffs: tuple[float, float],
        limits: tuple[float | None, float | None],
        row_names: Any = None,
    ) -> None:
        self.score_distances = host(score_distances)
        self.orthogonal_distances = host(orthogonal_distances)
        self.flagged = host(flagged).astype(bool)
        shapes = [self.score_distances.shape, self.orthogonal_distances.shape, self.flagged.shape]
        if len(set(shapes)) > 1 or len(shapes[0]) != 1:
            raise ValueError(
                "score_distances, orthogonal_distances and flagged have shapes "
                f"{', '.join(map(str, shapes))}; give one of each for each row"
            )
        self.cutoffs, self.limits = tuple(cutoffs), tuple(limits)
        if len(self.cutoffs) != 2 or len(self.limits) != 2 or set(self.limits) == {None}:
            raise ValueError(
                f"cutoffs={self.cutoffs} and limits={self.limits} are pairs, for score and orthogonal "
                "distances; give one limit at least"
            )
        self.row_names = names_of_rows(row_names, len(self.flagged))

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any = None, *, row_names: Any = None, ax: Any = None, **kwargs: Any
    ) -> OutlierMapDisplay:
        """Draw the outlier map of a fitted robust model.

        Parameters
        ----------
        model : RobustPCA or RobustKernelPCA, or pipeline
            Fitted.
        X : array, sparse matrix, data frame, file or dask array, optional
            Other rows, of shape (n_samples, n_features), to draw instead of the training rows.
        row_names : sequence of length n_samples, optional
            What to call the rows; their numbers, from 0, where it is not given.
        ax : matplotlib Axes, optional
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        display : OutlierMapDisplay
        """
        check_axes(ax)
        estimator = estimator_of(model, cls.__name__, "distances", "outlier distances", ROBUST)
        check_rows("row_names", row_names, X)
        score, orthogonal = estimator.score_distances_, estimator.orthogonal_distances_
        if X is not None:
            score, orthogonal = estimator.distances(prepared(model, X))
        # compared in the precision of the data, as predict does
        flagged = to_numpy(estimator._normality_of(score, orthogonal) < estimator.offset_)
        offset, by = -estimator.offset_, estimator.flags_by_
        limits = {
            "score": (offset, None),
            "orthogonal": (None, offset),
            "both": tuple(offset * limit for limit in estimator.limits_),
        }[by]
        display = cls(
            score,
            orthogonal,
            flagged,
            cutoffs=(estimator.score_cutoff_, estimator.orthogonal_cutoff_),
            limits=limits,
            row_names=row_names,
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        annotate: int = 0,
        max_points: int | None = MAX_POINTS,
        **kwargs: Any,
    ) -> OutlierMapDisplay:
        """Draw the map; rows whose distance overflows are counted in the legend only.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        annotate : int
            How many flagged rows to name, those of largest distance.
        max_points : int or None
            How many rows that are not flagged to draw at most, a sample of them; the legend tells.
        **kwargs
            For ``Axes.scatter`` of the rows that are not flagged.

        Returns
        -------
        self
        """
        named = self._farthest(check_count("annotate", annotate, "rows to name"))
        shown = drawn(self.flagged, max_points)
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        x, y = self.score_distances, self.orthogonal_distances
        self.points_ = two_kinds(ax, x, y, self.flagged, shown, **kwargs)
        dashed: dict[str, Any] = {"color": "0.5", "linestyle": "--", "linewidth": 1}
        solid: dict[str, Any] = {"color": VERMILION, "linewidth": 1}
        self.cutoffs_ = self._lines(self.cutoffs, "cut-offs at 0.975", dashed)
        self.limits_ = self._lines(self.limits, "flagging limit", solid)
        ax.set(xlabel="score distance", ylabel="orthogonal distance")
        legend(ax, int(shown.sum()))
        places = np.column_stack([x, y])
        names = [self.row_names[i] for i in named]
        self.names_ = write(ax, names, places[named], places[shown])
        return self

    def _lines(self, at: tuple[Any, ...], name: str, style: dict[str, Any]) -> list[Any]:
        """A vertical and a horizontal line, where there are numbers for them; one in the legend."""
        lines: list[Any] = []
        for place, line in zip(at, (self.ax_.axvline, self.ax_.axhline), strict=True):
            if place is not None:
                lines.append(line(place, label="_" if lines else name, **style))
        return lines

    def _farthest(self, count: int) -> np.ndarray:
        """The flagged rows of largest distance by that which flags them, as many as are asked for."""
        pairs = zip(self.limits, (self.score_distances, self.orthogonal_distances), strict=True)
        flagging = [(limit, distance) for limit, distance in pairs if limit is not None]
        size = flagging[0][1]
        if len(flagging) == 2:
            size = np.maximum(*(distance / limit for limit, distance in flagging))
        seen = np.isfinite(self.score_distances) & np.isfinite(self.orthogonal_distances)
        farthest = np.argsort(-size, kind="stable")
        return farthest[(self.flagged & seen)[farthest]][:count]
