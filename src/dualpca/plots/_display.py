"""The base of the displays: the model and the axes they take; points, legends, names beside points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.pipeline import Pipeline

from .._arguments import check_count
from .._rows import sample_rows
from ..inspect import FittedModel
from ..linalg import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue and vermilion of Okabe and Ito, which colour-blind readers tell apart.
BLUE, VERMILION = "#0072b2", "#d55e00"
GOOD: dict[str, Any] = {"color": BLUE, "marker": "o", "s": 20, "alpha": 0.7, "linewidths": 0}
FLAGGED: dict[str, Any] = {"color": VERMILION, "marker": "^", "s": 34, "linewidths": 0}

#: The most rows that are drawn of those that are not flagged, and the most characters of a name.
MAX_POINTS, NAME_LENGTH = 10_000, 48

#: Beyond this many points matplotlib's search for the best place of a legend is slow.
SLOW_LEGEND = 2_000

#: A legend with more entries is put beside the axes.
LONG_LEGEND = 6

#: Directions in which a name may lie from its anchor, and gaps between them in points.
_AROUND = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)])
_GAPS = (5.0, 16.0, 32.0, 52.0)

#: The name of some rows, which they are, and the style of their points.
Group = tuple[str, np.ndarray, dict[str, Any]]


class Display:
    """Numbers of a fitted model and their drawing; ``ax_`` and ``figure_`` hold the last one.

    ``needs`` holds what models must have: a method, and perhaps an attribute of fitted models, each
    with its name in words. ``models`` names estimators that have them.
    """

    models: ClassVar[str] = "RobustPCA or RobustKernelPCA"
    needs: ClassVar[dict[str, str]] = {"distances": "outlier distances"}
    ax_: Any
    figure_: Any

    @classmethod
    def _opened(cls, model: Any, ax: Any) -> FittedModel:
        """Return the model to draw; refuse wrong axes and models that lack what is drawn."""
        check_axes(ax)
        estimator = model.steps[-1][1] if isinstance(model, Pipeline) else model
        for attribute, words in cls.needs.items():
            if not hasattr(estimator, attribute):
                raise TypeError(
                    f"model is a {type(estimator).__name__}, which has no {words}; give "
                    f"{cls.__name__} a fitted {cls.models}"
                )
            fitted = FittedModel(model)  # an attribute may be missing because there was no fit
        return fitted

    def _axes(self, ax: Any, layout: Any = "constrained") -> Axes:
        """Return the axes given, or those of a new figure of pyplot, and remember them."""
        check_axes(ax)
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(layout=layout)
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def check_axes(ax: Any) -> None:
    """Refuse what is not axes, and say what to install if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'dualpca[plot]'") from error
    if ax is not None and not hasattr(ax, "scatter"):
        raise TypeError(f"ax is a {type(ax).__name__}; give one matplotlib Axes")


def check_rows(n: int | None, **columns: Any) -> None:
    """Refuse columns, given by name, that do not have one entry for each of n rows."""
    for name, values in columns.items():
        if n is not None and values is not None and np.shape(values) != (n,):
            raise ValueError(
                f"{name} has shape {np.shape(values)} for {n} rows; give one for each row"
            )


def checked_names(row_names: Any, n: int) -> list[str]:
    """Return the names of n rows: by default their numbers, from 0."""
    names = [str(name) for name in (range(n) if row_names is None else row_names)]
    check_rows(n, row_names=names)
    return names


def host(values: Any) -> np.ndarray:
    """Return numbers or names of any kind as a NumPy array."""
    return to_numpy(values) if is_array_api_obj(values) else np.asarray(values)


def ink() -> Any:
    """Return the colour of text, which is visible on any background."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def drawn_rows(flagged: np.ndarray, max_points: int | None) -> np.ndarray:
    """Return a mask of the rows to draw: all flagged ones, and at most ``max_points`` others."""
    if max_points is None:
        return np.ones(len(flagged), dtype=bool)
    most = check_count("max_points", max_points, "rows to draw", 1)
    rng = np.random.default_rng(0)
    shown = np.zeros(len(flagged), dtype=bool)
    shown[sample_rows(np.flatnonzero(flagged), np.flatnonzero(~flagged), most, rng)] = True
    return shown


def scatter(
    ax: Axes, places: tuple[np.ndarray, ...], shown: np.ndarray, groups: list[Group]
) -> list[Any]:
    """Draw groups of rows at (x, y), those shown; the legend counts them."""
    points, (x, y) = [], places
    for name, rows, style in groups:
        drawn, n = rows & shown, int(rows.sum())
        label = f"{name} ({n}{'' if drawn.sum() == n else f', {drawn.sum()} drawn'})"
        points.append(ax.scatter(x[drawn], y[drawn], **{"label": label, **style}))
    return points


def by_flag(flagged: np.ndarray, kwargs: Any) -> list[Group]:
    """Return the groups of rows that are not flagged, drawn with ``kwargs``, and that are."""
    return [("not flagged", ~flagged, {**GOOD, **kwargs}), ("flagged", flagged, FLAGGED)]


def legend(ax: Axes, points: int = 0) -> None:
    """Draw a legend in small print where it hides least.

    If a layout engine makes room, a long legend goes beside the axes, and one among many points above.
    """
    options: dict[str, Any] = {"loc": "best" if points <= SLOW_LEGEND else "upper right"}
    if ax.figure.get_layout_engine() is not None:
        if len(ax.get_legend_handles_labels()[0]) > LONG_LEGEND:
            options = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        elif points > SLOW_LEGEND:
            options = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2}
    for text in ax.legend(fontsize="small", **options).get_texts():
        text.set_parse_math(False)  # names may have dollar signs
        text.set_text(short(text.get_text()))


def short(name: str) -> str:
    """Return a name, cut to NAME_LENGTH characters."""
    return name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "\u2026"


def write_names(
    ax: Axes, names: list[str], anchors: np.ndarray, obstacles: np.ndarray, outwards: bool = False
) -> list[Any]:
    """Write each name beside its anchor, clear of other names and edges, and of obstacles if possible.

    ``outwards`` prefers the side away from 0.
    """
    from matplotlib import rcParams
    from matplotlib.patheffects import withStroke
    from matplotlib.text import Text

    if not names:
        return []
    figure: Any = getattr(ax.figure, "figure", ax.figure)  # of a subfigure, the whole
    figure.draw_without_rendering()  # lays out the figure, so that places are final
    unit = 72 / figure.dpi  # all that follows is in points
    low, high = unit * ax.get_window_extent().get_points()
    points = unit * ax.transData.transform(obstacles)
    points = points[np.isfinite(points).all(axis=1)]
    centers, halves = np.empty((0, 2)), np.empty((0, 2))
    halo = [withStroke(linewidth=2, foreground=rcParams["axes.facecolor"])]
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "small"}
    style |= {"textcoords": "offset points", "annotation_clip": False, "path_effects": halo}
    style["parse_math"] = False  # names may have dollar signs
    notes = []
    for name, at in zip(names, anchors, strict=True):
        line = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.6, "shrinkB": 2}
        note: Any = ax.annotate(short(name), tuple(at), (0.0, 0.0), arrowprops=line, **style)
        half = unit * np.array(Text.get_window_extent(note).size) / 2 + 1  # without its line
        place = unit * ax.transData.transform(at)
        shifts = np.concatenate([_AROUND * (half + gap) for gap in _GAPS])
        centre = place + shifts
        free = _freedom(centre, half, centers, halves)
        edges = np.min(np.minimum(centre - low, high - centre) / half, axis=1)
        clear = np.minimum(np.minimum(free, edges), 1.0)
        uncovered = np.minimum(_freedom(centre, half, points, np.full_like(points, 3.0)), 1.0)
        ring = np.repeat(np.arange(len(_GAPS)), len(_AROUND))
        worth = 8 * clear + uncovered - 0.4 * ring
        if outwards:
            away = place - unit * ax.transData.transform((0.0, 0.0))
            worth += shifts @ away / (np.hypot(*shifts.T) * np.hypot(*away) + 1e-9)
        best = int(np.argmax(worth))
        note.set_position(tuple(shifts[best]))
        if not ring[best]:
            note.arrowprops = note.arrow_patch = None  # beside its anchor a name needs no line
        centers, halves = np.vstack([centers, centre[best]]), np.vstack([halves, half])
        notes.append(note)
    return notes


def _freedom(
    centre: np.ndarray, half: np.ndarray, others: np.ndarray, halves: np.ndarray
) -> np.ndarray:
    """Return how far boxes with these centres are from other boxes: at least 1 without overlap."""
    gaps = np.abs(centre[:, None] - others) / (halves + half)
    return gaps.max(axis=2).min(axis=1, initial=np.inf)
