"""The distances and the weights of rows in a robust model."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .._arguments import check_count
from . import _display as base


class OutlierMapDisplay(base.Display):
    """Each row by its distance within the subspace and its distance from it.

    In this outlier map of Hubert, Rousseeuw and Vanden Branden, good rows lie at the lower left. Good
    leverage points, which fit the subspace, lie to the right of the vertical dashed line, orthogonal
    outliers above the horizontal one, and bad leverage points beyond both. Rows beyond the solid line
    are flagged.

    Parameters
    ----------
    score_distances, orthogonal_distances : arrays of shape (n_samples,)
    flagged : bool array of shape (n_samples,)
    kind_limits : pair of float
        The score and the orthogonal distance that divide rows into four kinds.
    limits : pair of float or None
        The distances beyond which rows are flagged; None for a distance that flags no row. Where both
        are given, rows are flagged beyond the ellipse with these half-axes.
    row_names : sequence of length n_samples, optional
        By default the numbers of the rows, from 0.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Use ``ax_.set_yscale("log")`` if far rows leave no room for the others.
    points_ : list of matplotlib PathCollection
        The rows that are not flagged, and those that are.
    kind_limits_, limits_ : list of matplotlib Line2D
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
    ['not flagged (159)', 'flagged (41)', 'kinds of rows', 'flagging limit']
    """

    def __init__(
        self,
        score_distances: Any,
        orthogonal_distances: Any,
        flagged: Any,
        *,
        kind_limits: tuple[float, float],
        limits: tuple[float | None, float | None],
        row_names: Any = None,
    ) -> None:
        self.score_distances = base.host(score_distances)
        self.orthogonal_distances = base.host(orthogonal_distances)
        self.flagged = base.host(flagged).astype(bool)
        n, orthogonal = self.score_distances.size, self.orthogonal_distances
        base.check_rows(n, orthogonal_distances=orthogonal, flagged=self.flagged)
        self.kind_limits, self.limits = tuple(kind_limits), tuple(limits)
        if len(self.kind_limits) != 2 or len(self.limits) != 2 or set(self.limits) == {None}:
            raise ValueError(
                f"kind_limits={self.kind_limits} and limits={self.limits} are pairs, for score and "
                "orthogonal distances; give one limit at least"
            )
        self.row_names = base.checked_names(row_names, len(self.flagged))

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any = None, *, row_names: Any = None, ax: Any = None, **kwargs: Any
    ) -> OutlierMapDisplay:
        """Draw the outlier map of a fitted RobustPCA, RobustKernelPCA or pipeline; see :meth:`plot`.

        Parameters
        ----------
        model : RobustPCA or RobustKernelPCA, or pipeline
        X : array, sparse matrix, data frame, file or dask array, optional
            Rows to draw instead of the training rows.
        row_names : sequence of length n_samples, optional
            By default the numbers of the rows, from 0.
        ax, **kwargs
            For :meth:`plot`.
        """
        fitted = cls._opened(model, ax)
        rows, limits = fitted.distances(X), fitted.limits
        pairs: Any = {"kind_limits": fitted.kind_limits, "limits": tuple(limits.values())}
        display = cls(rows.score, rows.orthogonal, rows.flagged, row_names=row_names, **pairs)
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        annotate: int = 0,
        max_points: int | None = base.MAX_POINTS,
        **kwargs: Any,
    ) -> OutlierMapDisplay:
        """Draw the map; rows whose distance overflows are counted in the legend only.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        annotate : int
            How many flagged rows to name, the farthest ones.
        max_points : int or None
            The most rows to draw, at random, of those that are not flagged.
        **kwargs
            For ``Axes.scatter`` of the rows that are not flagged.
        """
        named = self._farthest(check_count("annotate", annotate, "rows to name"))
        shown = base.drawn_rows(self.flagged, max_points)
        ax = self._axes(ax)
        x, y = self.score_distances, self.orthogonal_distances
        self.points_ = base.scatter(ax, (x, y), shown, base.by_flag(self.flagged, kwargs))
        dashed: dict[str, Any] = {"color": "0.5", "linestyle": "--", "linewidth": 1}
        solid: dict[str, Any] = {"color": base.VERMILION, "linewidth": 1}
        self.kind_limits_ = self._lines(self.kind_limits, "kinds of rows", dashed)
        self.limits_ = self._limit("flagging limit", solid)
        ax.set(xlabel="score distance", ylabel="orthogonal distance")
        base.legend(ax, int(shown.sum()))
        places = np.column_stack([x, y])
        names = [self.row_names[i] for i in named]
        self.names_ = base.write_names(ax, names, places[named], places[shown])
        return self

    def _limit(self, name: str, style: dict[str, Any]) -> list[Any]:
        """Draw the limit of one distance as a line, and that of both as a quarter of an ellipse."""
        if None in self.limits:
            return self._lines(self.limits, name, style)
        angle = np.linspace(0, np.pi / 2, 100)
        x, y = self.limits[0] * np.cos(angle), self.limits[1] * np.sin(angle)
        return list(self.ax_.plot(x, y, label=name, **style))

    def _lines(self, at: tuple[Any, ...], name: str, style: dict[str, Any]) -> list[Any]:
        """Draw a vertical and a horizontal line at the numbers that are not None."""
        lines: list[Any] = []
        for place, line in zip(at, (self.ax_.axvline, self.ax_.axhline), strict=True):
            if place is not None:
                lines.append(line(place, label="_" if lines else name, **style))
        return lines

    def _farthest(self, count: int) -> np.ndarray:
        """Return the farthest flagged rows by the distances that flag."""
        pairs = zip(self.limits, (self.score_distances, self.orthogonal_distances), strict=True)
        flagging = [(limit, distance) for limit, distance in pairs if limit is not None]
        size = flagging[0][1]
        if len(flagging) == 2:
            size = np.hypot(*(distance / limit for limit, distance in flagging))
        finite = np.isfinite(self.score_distances) & np.isfinite(self.orthogonal_distances)
        farthest = np.argsort(-size, kind="stable")
        return farthest[(self.flagged & finite)[farthest]][:count]


class WeightsDisplay(base.Display):
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
        self.weights = base.host(weights)
        self.flagged = base.host(flagged).astype(bool)
        base.check_rows(self.weights.size, weights=self.weights, flagged=self.flagged)

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None, **kwargs: Any) -> WeightsDisplay:
        """Draw the weights of a fitted RobustPCA, RobustKernelPCA or pipeline; see :meth:`plot`."""
        estimator = cls._opened(model, ax).estimator
        return cls(estimator.weights_, estimator.outliers_).plot(ax, **kwargs)

    def plot(
        self, ax: Any = None, *, max_points: int | None = base.MAX_POINTS, **kwargs: Any
    ) -> WeightsDisplay:
        """Draw the weights.

        Of the rows that are not flagged, ``max_points`` are drawn at most, a random sample, and with
        ``kwargs`` as options of ``Axes.scatter``.
        """
        shown = base.drawn_rows(self.flagged, max_points)
        ax = self._axes(ax)
        number = np.arange(len(self.weights))
        groups = base.by_flag(self.flagged, kwargs)
        self.points_ = base.scatter(ax, (number, self.weights), shown, groups)
        ax.set(xlabel="row", ylabel="weight in the loss")
        base.legend(ax, int(shown.sum()))
        return self
