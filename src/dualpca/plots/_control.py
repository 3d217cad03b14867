"""T2 and SPE of rows over time."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .. import control
from .._arguments import as_times, check_count
from . import _display as base

#: The style of the points of each statistic.
STYLES = {
    "T2": {"color": base.BLUE, "marker": "o"},
    "SPE": {"color": base.VERMILION, "marker": "^"},
}


class ControlChartDisplay(base.Display):
    """Hotelling's T2 and the squared prediction error of rows, each divided by its limit, over time.

    Rows above the line at 1 are out of control: T2 says that a row is far out within the subspace, SPE
    that it is far from it.

    Parameters
    ----------
    t2, spe : arrays of shape (n_samples,)
    limits : pair of float
        The limits of both, from the fit of the model.
    time : sequence of length n_samples, optional
        Numbers or dates; by default the numbers of the rows, from 0.
    row_names : sequence of length n_samples, optional
        By default the numbers of the rows, from 0.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    out : bool array of shape (n_samples,)
        The rows that are beyond a limit.
    points_ : list of matplotlib PathCollection
        Those of T2 and of SPE.
    names_ : list of matplotlib Annotation

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from dualpca import RobustPCA
    >>> from dualpca.plots import ControlChartDisplay
    >>> X = load_wine().data[:, :5]
    >>> model = RobustPCA(2, random_state=0).fit(X[:100])
    >>> display = ControlChartDisplay.from_estimator(model, X[100:], annotate=2)
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['T2 (78)', 'SPE (78)', 'limit']
    """

    models: ClassVar = "PCA, RobustPCA or RobustKernelPCA"
    needs: ClassVar = {"_distances": "T2 and SPE"}

    def __init__(
        self,
        t2: Any,
        spe: Any,
        limits: tuple[float, float],
        *,
        time: Any = None,
        row_names: Any = None,
    ) -> None:
        self.t2, self.spe, self.limits = base.host(t2), base.host(spe), tuple(limits)
        self.time = None if time is None else as_times(time)
        base.check_rows(self.t2.size, t2=self.t2, spe=self.spe, time=self.time)
        self.row_names = base.checked_names(row_names, len(self.t2))
        if len(self.limits) != 2:
            raise ValueError(f"limits={self.limits} must be a pair, for T2 and SPE")
        self.out = (self.t2 > self.limits[0]) | (self.spe > self.limits[1])

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any = None,
        *,
        quantile: float | None = None,
        spe: str = "jackson",
        time: Any = None,
        row_names: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ControlChartDisplay:
        """Draw the chart of rows; see :meth:`plot`.

        Parameters
        ----------
        model : RobustPCA, RobustKernelPCA, or PCA that :func:`dualpca.control.calibrate` has seen, or
            pipeline
        X : array, sparse matrix, data frame, file or dask array
            The rows; None are the training rows of a robust model.
        quantile, spe
            As in :func:`dualpca.control.limits`.
        time, row_names
            As in the class.
        ax, **kwargs
            For :meth:`plot`.
        """
        fitted = cls._opened(model, ax)
        limits = control.limits(fitted, quantile=quantile, spe=spe)
        values = control.statistics(fitted, X)
        return cls(*values, limits, time=time, row_names=row_names).plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        annotate: int = 0,
        max_points: int | None = base.MAX_POINTS,
        **kwargs: Any,
    ) -> ControlChartDisplay:
        """Draw both statistics over their limits, on a logarithmic axis.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        annotate : int
            How many rows that are out of control to name, the farthest ones.
        max_points : int or None
            The most rows to draw, at random, of those that are in control.
        **kwargs
            For ``Axes.scatter``.
        """
        count = check_count("annotate", annotate, "rows to name")
        shown = base.drawn_rows(self.out, max_points)
        ax = self._axes(ax)
        x = np.arange(len(self.t2)) if self.time is None else self.time
        if x.dtype.kind == "M":
            from matplotlib.dates import date2num

            x = date2num(x)
            ax.xaxis_date()
        with np.errstate(divide="ignore", invalid="ignore"):
            pair = zip((self.t2, self.spe), self.limits, strict=True)
            ratios = [np.nan_to_num(values / limit, posinf=np.inf) for values, limit in pair]
        self.points_ = []
        for (name, style), ratio in zip(STYLES.items(), ratios, strict=True):
            group = (name, np.ones(len(x), dtype=bool), {**base.GOOD, **style, **kwargs})
            self.points_ += base.scatter(ax, (x, ratio), shown, [group])
        ax.axhline(1.0, color=base.ink(), linewidth=1, label="limit")
        ax.set_yscale("log")
        ax.set(xlabel="row" if self.time is None else "time", ylabel="statistic / limit")
        base.legend(ax, 2 * int(shown.sum()))
        size = np.maximum(*ratios)
        far = np.argsort(-size, kind="stable")
        far = far[(self.out & np.isfinite(size))[far]][:count]
        places = np.column_stack([x, size])
        names = [self.row_names[i] for i in far]
        self.names_ = base.write_names(ax, names, places[far], places[shown])
        return self
