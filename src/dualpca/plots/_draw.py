"""Points, legends, and names beside points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..inspect import sample_rows
from ._display import check_count

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


def legend_entry(name: str, rows: np.ndarray, shown: np.ndarray) -> str:
    """Return a name with the number of rows, and the number drawn if not all are."""
    n_drawn, n = int((rows & shown).sum()), int(rows.sum())
    return f"{name} ({n}{'' if n_drawn == n else f', {n_drawn} drawn'})"


def scatter_flagged(
    ax: Axes, x: np.ndarray, y: np.ndarray, flagged: np.ndarray, shown: np.ndarray, **kwargs: Any
) -> list[Any]:
    """Draw the rows that are not flagged, with ``kwargs``, and those that are."""
    points = []
    kinds = ((~flagged, {**GOOD, **kwargs}, "not flagged"), (flagged, FLAGGED, "flagged"))
    for rows, style, name in kinds:
        label = legend_entry(name, rows, shown)
        points.append(ax.scatter(x[rows & shown], y[rows & shown], label=label, **style))
    return points


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
        half = unit * _size(note) / 2 + 1
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


#: Directions in which a name may lie from its anchor, and gaps between them in points.
_AROUND = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)])
_GAPS = (5.0, 16.0, 32.0, 52.0)


def _size(note: Any) -> np.ndarray:
    """Return width and height on the screen of a text, without its line."""
    from matplotlib.text import Text

    return np.array(Text.get_window_extent(note).size)


def _freedom(
    centre: np.ndarray, half: np.ndarray, others: np.ndarray, halves: np.ndarray
) -> np.ndarray:
    """Return how far boxes with these centres are from other boxes: at least 1 without overlap."""
    if not len(others):
        return np.full(len(centre), np.inf)
    return np.max(np.abs(centre[:, None] - others) / (halves + half), axis=2).min(axis=1)
