"""The cells of a table by how far they are from what is expected."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from .._arguments import check_count
from ..cells import CellMap, cell_map
from . import _display as base

#: Colours are full from so many cut-offs on, missing cells have this grey, and marks at most so many
#: lines and columns.
FULL, HOLE, MARKED = 3, "0.72", 60


class CellMapDisplay(base.Display):
    """Rows by columns, coloured by how far each cell is from what is expected, the worst rows first.

    Cells above what is expected are orange and those below blue; flagged ones of single rows have a plus
    or a minus, and missing cells are grey. The rows come by the root mean square of their residuals.
    Of more rows than lines the worst have lines of their own, half of them, and the others share the
    rest, each cell being the one farthest off of its block; so do columns.

    Parameters
    ----------
    cells : CellMap
        That of :func:`dualpca.cells.cell_map`.
    cutoff : float
        The residual from which cells are flagged, ``cell_cutoff_`` of a model.
    row_names : sequence of length n_samples, optional
        By default the numbers of the rows, from 0.
    names : sequence of length n_features, optional
        The names of the columns; by default x0, x1 and so on.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    image_ : matplotlib QuadMesh
    marks_ : list of matplotlib PathCollection
        The pluses and the minuses.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import RobustPCA
    >>> from dualpca.plots import CellMapDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 10))
    >>> X += 0.1 * rng.standard_normal(X.shape)
    >>> X[7, 3] += 20
    >>> model = RobustPCA(n_components=2, cells=True, random_state=0).fit(X)
    >>> display = CellMapDisplay.from_estimator(model, names=list("abcdefghij"))
    >>> display.ax_.get_yticklabels()[0].get_text()
    '7'
    """

    models: ClassVar = "RobustPCA with cells=True"
    needs: ClassVar = {"cell_residuals_": "residuals of cells"}

    def __init__(
        self, cells: CellMap, cutoff: float, *, row_names: Any = None, names: Any = None
    ) -> None:
        self.cells, self.cutoff = cells, float(cutoff)
        self.row_names = base.checked_names(row_names, len(cells.order))
        d = int(cells.groups[-1])
        self.names = [f"x{j}" for j in range(d)] if names is None else [str(n) for n in names]
        if len(self.names) != d:
            raise ValueError(
                f"names has length {len(self.names)} for {d} columns; give one for each"
            )

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any = None,
        *,
        names: Any = None,
        row_names: Any = None,
        lines: int = 60,
        columns: int = 60,
        ax: Any = None,
        **kwargs: Any,
    ) -> CellMapDisplay:
        """Draw the cell map of a fitted RobustPCA with ``cells=True``, or pipeline; see :meth:`plot`.

        Parameters
        ----------
        model : RobustPCA, or pipeline
        X : array, data frame, file or dask array, optional
            Rows to draw instead of the training rows.
        names, row_names
            As in the class; by default the columns have the names of the fit.
        lines, columns : int
            The most lines and columns of the map; from two on.
        ax, **kwargs
            For :meth:`plot`.
        """
        lines = check_count("lines", lines, "lines of the map", 2)
        columns = check_count("columns", columns, "columns of the map", 1)
        fitted = cls._opened(model, ax)
        names = fitted.feature_names if names is None else names
        drawn, cutoff = cell_map(fitted, X, lines, columns), fitted.estimator.cell_cutoff_
        return cls(drawn, cutoff, row_names=row_names, names=names).plot(ax, **kwargs)

    def line_names(self) -> list[str]:
        """Return the name of each line: that of its row, or how many rows it stands for."""
        order, edges = self.cells.order, self.cells.edges
        return [
            base.short(self.row_names[order[i]]) if j == i + 1 else f"{j - i:,} rows"
            for i, j in pairwise(edges)
        ]

    def group_names(self) -> list[str]:
        """Return the name of each group of columns: its own, or the first and the last."""
        return [
            base.short(self.names[i] if j == i + 1 else f"{self.names[i]} to {self.names[j - 1]}")
            for i, j in pairwise(self.cells.groups)
        ]

    def plot(self, ax: Any = None, **kwargs: Any) -> CellMapDisplay:
        """Draw the map, with ``kwargs`` as options of ``Axes.pcolormesh``."""
        from matplotlib.colors import LinearSegmentedColormap

        Z = self.cells.cells.residual
        n, d = Z.shape
        ax = self._axes(ax)
        limit = FULL * self.cutoff
        colours = LinearSegmentedColormap.from_list("cells", [base.BLUE, "white", base.VERMILION])
        ax.set_facecolor(HOLE)
        style: dict[str, Any] = {"cmap": colours, "vmin": -limit, "vmax": limit, **kwargs}
        self.image_ = ax.pcolormesh(np.ma.masked_invalid(Z), **style)
        self.marks_ = []
        if max(n, d) <= MARKED:
            room = 72 * min(ax.get_position().size * ax.figure.get_size_inches() / (d, n))
            alone = (
                np.diff(self.cells.edges)[:, None] == 1
            )  # of many rows nearly every block has one
            for sign, mark in ((1, "+"), (-1, "_")):
                y, x = np.nonzero((sign * np.nan_to_num(Z) > self.cutoff) & alone)
                size = {"s": (0.7 * room) ** 2, "linewidths": 0.8, "color": "black"}
                self.marks_.append(ax.scatter(x + 0.5, y + 0.5, marker=mark, **size))
        shared = np.flatnonzero(np.diff(self.cells.edges) > 1)[:1]
        ax.hlines(shared, 0, d, colors=base.ink(), linewidth=0.8)
        ax.set(xlim=(0, d), ylim=(n, 0))
        for axis, names in ((ax.xaxis, self.group_names()), (ax.yaxis, self.line_names())):
            step = -(-len(names) // 30)  # as many names as can be read
            axis.set_ticks(
                np.arange(0, len(names), step) + 0.5,
                names[::step],
                fontsize="small",
                parse_math=False,
            )
        ax.tick_params(length=0)
        ax.tick_params(axis="x", rotation=90)
        bar = self.figure_.colorbar(self.image_, ax=ax, extend="both")
        bar.set_label("residual in scales; grey is missing")
        return self
