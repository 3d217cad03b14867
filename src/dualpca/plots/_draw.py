"""What the displays share: axes, points, legends, and names beside points."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue and vermilion of Okabe and Ito, which colour-blind readers tell apart.
BLUE, VERMILION = "#0072b2", "#d55e00"
GOOD: dict[str, Any] = {"color": BLUE, "marker": "o", "s": 20, "alpha": 0.7, "linewidths": 0}
FLAGGED: dict[str, Any] = {"color": VERMILION, "marker": "^", "s": 34, "linewidths": 0}

#: How many rows are drawn of those that are not flagged.
MAX_POINTS = 10_000

#: The most characters of a name.
NAME = 48

#: With more points than this, matplotlib's search for the best place of a legend is slow.
BEST = 2_000

#: A legend with more entries is long.
LONG = 6


def check_axes(ax: Any) -> None:
    """Refuse what is not axes, and say what to install where there is no matplotlib."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'dualpca[plot]'") from error
    if ax is not None and not hasattr(ax, "scatter"):
        raise TypeError(f"ax is a {type(ax).__name__}; give one matplotlib Axes")


def axes(ax: Any, layout: Any = "constrained") -> Axes:
    """The axes given, or those of a new figure."""
    check_axes(ax)
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(layout=layout).subplots()


def ink() -> Any:
    """The colour of text, which is seen on any background."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def check_count(name: str, value: Any, what: str, least: int = 0) -> int:
    """A number of things as an int."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} counts {what}; give an integer, {least} or more")
    return int(value)


def drawn(flagged: np.ndarray, max_points: int | None) -> np.ndarray:
    """Which rows to draw: all that are flagged, and at most ``max_points`` of the others."""
    shown = np.ones(len(flagged), dtype=bool)
    if max_points is None:
        return shown
    most = check_count("max_points", max_points, "rows to draw", 1)
    others = np.flatnonzero(~flagged)
    if len(others) > most:
        shown = flagged.copy()
        shown[np.random.default_rng(0).choice(others, most, replace=False)] = True
    return shown


def counted(name: str, rows: np.ndarray, shown: np.ndarray) -> str:
    """An entry of the legend: how many rows there are, and how many of them are drawn if not all."""
    here, all_of_them = int((rows & shown).sum()), int(rows.sum())
    return f"{name} ({all_of_them}{'' if here == all_of_them else f', {here} drawn'})"


def two_kinds(
    ax: Axes,
    x: np.ndarray,
    y: np.ndarray,
    flagged: np.ndarray,
    shown: np.ndarray,
    **kwargs: Any,
) -> list[Any]:
    """The rows that are not flagged, drawn with ``kwargs``, and those that are."""
    found = []
    kinds = ((~flagged, {**GOOD, **kwargs}, "not flagged"), (flagged, FLAGGED, "flagged"))
    for rows, style, name in kinds:
        here = rows & shown
        found.append(ax.scatter(x[here], y[here], label=counted(name, rows, shown), **style))
    return found


def legend(ax: Axes, points: int = 0) -> None:
    """A legend in small print, where it hides least if that is soon found.

    Where a layout engine makes room for it, one among many points is above the axes, a long one beside.
    """
    options: dict[str, Any] = {"loc": "best" if points <= BEST else "upper right"}
    if ax.figure.get_layout_engine() is not None:
        if len(ax.get_legend_handles_labels()[0]) > LONG:
            options = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        elif points > BEST:
            options = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2}
    for text in ax.legend(fontsize="small", **options).get_texts():
        text.set_parse_math(False)  # names may have dollar signs
        text.set_text(short(text.get_text()))


def short(name: str) -> str:
    """A name, cut where it would take the place of the axes."""
    return name if len(name) <= NAME else name[: NAME - 1] + "\u2026"


def write(
    ax: Axes,
    names: list[str],
    anchors: np.ndarray,
    obstacles: np.ndarray,
    *,
    outwards: bool = False,
) -> list[Any]:
    """Each name beside its anchor, where it is free of names and edges, and of obstacles if it can be.

    ``outwards`` prefers the side that is away from 0.
    """
    from matplotlib import rcParams
    from matplotlib.patheffects import withStroke

    if not names:
        return []
    figure: Any = getattr(ax.figure, "figure", ax.figure)  # of a subfigure, the whole
    figure.draw_without_rendering()  # lays the figure out, so that places are final
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
        half = unit * _size(note) / 2 + 1
        place = unit * ax.transData.transform(at)
        shifts = np.concatenate([_AROUND * (half + gap) for gap in _GAPS])
        there = place + shifts
        names_free = _freedom(there, half, centers, halves)
        edges = np.min(np.minimum(there - low, high - there) / half, axis=1)
        clear = np.minimum(np.minimum(names_free, edges), 1.0)
        open_ = np.minimum(_freedom(there, half, points, np.full_like(points, 3.0)), 1.0)
        near = np.repeat(np.arange(len(_GAPS)), len(_AROUND))
        worth = 8 * clear + open_ - 0.4 * near
        if outwards:
            away = place - unit * ax.transData.transform((0.0, 0.0))
            worth += shifts @ away / (np.hypot(*shifts.T) * np.hypot(*away) + 1e-9)
        best = int(np.argmax(worth))
        note.set_position(tuple(shifts[best]))
        if not near[best]:
            note.arrowprops = note.arrow_patch = None  # the name is where it belongs without a line
        centers, halves = np.vstack([centers, there[best]]), np.vstack([halves, half])
        notes.append(note)
    return notes


#: Directions in which a name may lie from its anchor, and gaps between them in points.
_AROUND = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)])
_GAPS = (5.0, 16.0, 32.0, 52.0)


def _size(note: Any) -> np.ndarray:
    """Width and height on the screen of a text, without its line."""
    from matplotlib.text import Text

    return np.array(Text.get_window_extent(note).size)


def _freedom(
    there: np.ndarray, half: np.ndarray, others: np.ndarray, halves: np.ndarray
) -> np.ndarray:
    """How far boxes with these centres are from other boxes: 1 and more where they do not overlap."""
    if not len(others):
        return np.full(len(there), np.inf)
    return np.max(np.abs(there[:, None] - others) / (halves + half), axis=2).min(axis=1)
