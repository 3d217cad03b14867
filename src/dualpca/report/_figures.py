"""Figures of the report as plotly has them, in dictionaries.

Colours are names of CSS variables, such as "--good", which the page replaces by those of its theme.
Points of rows have the positions of their rows as ``customdata``; the page adds their hover texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._drawn_rows import Rows
from ._html import number, rounded, short

SYMBOLS = (
    *("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon"),
    *("triangle-down", "hourglass"),
)
FONT = {"color": "--ink", "size": 13}
LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": FONT}
HOVER = {"bgcolor": "--paper", "bordercolor": "--ink", "font": {"color": "--ink"}, "align": "left"}
LINES = dict.fromkeys(("gridcolor", "linecolor", "zerolinecolor"), "--line")
#: A logarithmic axis; without a format plotly would show the tick of 30 as 3.
LOGARITHMIC = {"type": "log", "tickformat": ".4~g"}
#: The empty part of an axis beyond its last point or line, on each side.
PADDING = 0.06
AXIS = {"color": "--ink", "automargin": True, "exponentformat": "power", **LINES}


def figure(traces: list[Any], x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a figure with these traces and axes, a text for their title among the options."""
    axes = [{**AXIS, **axis, "title": {"text": axis.get("title", "")}} for axis in (x, y)]
    layout = {
        **{"autosize": True, "hovermode": "closest", "font": FONT, "legend": LEGEND},
        **{"paper_bgcolor": "--paper", "plot_bgcolor": "--paper", "hoverlabel": HOVER},
        "margin": {"l": 50, "r": 12, "t": 12, "b": 45},
    }
    return {"data": traces, "layout": {**layout, "xaxis": axes[0], "yaxis": axes[1], **more}}


def _trace(kind: str, hover: str, extra: str = "", **options: Any) -> dict[str, Any]:
    """Return a trace with the text that is shown at its points, and an extra beside it."""
    return {"type": kind, "hovertemplate": f"{hover}<extra>{extra}</extra>", **options}


def padded(values: Any, log: bool = False) -> list[float] | None:
    """Return the range of an axis that shows finite values clear of the frame; None if there are none."""
    numbers = np.asarray([v for v in values if v is not None], dtype=float)
    numbers = numbers[np.isfinite(numbers) & ((numbers > 0) | (not log))]
    if len(numbers) == 0:
        return None
    low, high = np.log10([numbers.min(), numbers.max()]) if log else (numbers.min(), numbers.max())
    room = PADDING * (high - low) or 0.5
    return [rounded(low - room), rounded(high + room)]


def log_axis(title: str, values: Any) -> dict[str, Any]:
    """Return a logarithmic axis; ticks within few powers of ten would be 1 to 9, too close to read."""
    limits = padded(values, log=True)
    few = limits is not None and limits[1] - limits[0] < 2
    return {"title": title, "range": limits, "nticks": 4 if few else 6, **LOGARITHMIC}


def scree(
    series: list[tuple[str, np.ndarray, np.ndarray]],
    more: np.ndarray | None = None,
    limits: np.ndarray | None = None,
) -> dict[str, Any]:
    """Return bars of shares and lines of cumulative shares, for each (name, shares, cumulative).

    ``more`` are the shares of components that were not fitted, in pale bars after the others, ``limits``
    those that components had to exceed, a line.
    """
    traces: list[dict[str, Any]] = []
    for second, (name, shares, cumulative) in enumerate(series):
        at, name = list(range(1, len(shares) + 1)), short(name)
        colour = "--bad" if second else "--good"
        bars = {"color": colour, "pattern": {"shape": "/" if second else ""}}
        line = {"color": colour, "dash": "dash" if second else "solid"}
        alone = _trace("bar", "component %{x}: %{y:.1%}", name, y=rounded(shares), marker=bars)
        alone["offsetgroup"] = str(second)
        together = _trace("scatter", "first %{x}: %{y:.1%}", name, y=rounded(cumulative), line=line)
        together |= {"mode": "lines+markers", "showlegend": False}
        together["marker"] = {"symbol": "diamond" if second else "circle", "color": colour}
        traces += [{**trace, "name": name, "x": at} for trace in (alone, together)]
    n = len(series[0][1])
    if more is not None:
        places = list(range(n + 1, n + len(more) + 1))
        pale = _trace("bar", "component %{x}: %{y:.1%}", "not fitted", x=places, y=rounded(more))
        pale |= {"name": "not fitted", "marker": {"color": "--good"}, "opacity": 0.4}
        traces.append({**pale, "offsetgroup": "0"})
        n += len(more)
    if limits is not None:
        at = list(range(1, len(limits) + 1))
        line = _trace("scatter", "threshold %{x}: %{y:.1%}", "threshold", x=at, y=rounded(limits))
        traces.append({**line, "name": "threshold", "mode": "lines"})
        traces[-1]["line"] = {"color": "--ink", "dash": "dot"}
    ticks = {"dtick": 1} if n <= 15 else {}
    shares_axis = {"title": "share of variance", "tickformat": ".0%", "range": [0, 1.05]}
    return figure(traces, {"title": "component", **ticks}, shares_axis, barmode="group")


def _points(name: str, members: np.ndarray, marker: dict[str, Any]) -> dict[str, Any]:
    looks: dict[str, Any] = {
        "mode": "markers",
        "name": f"{name} ({len(members)})",
        "marker": marker,
    }
    return _trace("scatter", "%{text}", customdata=members.tolist(), **looks)


def _by_flag(rows: Rows) -> list[dict[str, Any]]:
    """Return the points of rows that are not flagged, and of those that are."""
    if rows.flagged is None:
        return [_points("rows", np.arange(len(rows.index)), {"color": "--good", "size": 7})]
    good, bad = np.flatnonzero(~rows.flagged), np.flatnonzero(rows.flagged)
    return [
        _points("not flagged", good, {"color": "--good", "size": 7, "opacity": 0.75}),
        _points("flagged", bad, {"color": "--bad", "size": 10, "symbol": "triangle-up"}),
    ]


def scores(rows: Rows) -> dict[str, Any]:
    """Return points by flag or by label; the page places them by the components of its menus."""
    traces = _by_flag(rows)
    if rows.groups is not None:
        names, group = rows.groups
        flagged = traces[1:]
        traces = [
            _points(
                short(name, 24),
                np.flatnonzero(group == g),
                {"color": f"--group-{g}", "symbol": SYMBOLS[g], "size": 8, "opacity": 0.85},
            )
            for g, name in enumerate(names)
        ]
        ring = {"color": "--ink", "symbol": "circle-open", "size": 14, "line": {"width": 1.5}}
        quiet = {"hoverinfo": "skip", "hovertemplate": None}
        traces += [{**trace, "marker": ring, **quiet} for trace in flagged]
    if rows.scores is not None and rows.scores.shape[1] == 1:
        for trace in traces:
            trace["y"] = (rows.index[trace["customdata"]] + 1).tolist()
    return figure(traces, {"title": "component 1"}, {"title": "row"})


def outlier_map(rows: Rows, limits: dict[str, Any], dividers: Sequence[float], log: bool) -> Any:
    """Return points by their two distances, dashed lines between kinds of rows, and the limit of flags.

    A logarithmic axis has no 0: rows at 0 stand below all others and below the lines.
    """
    assert rows.distances is not None
    traces, shapes, axes = _by_flag(rows), [], []
    together = None not in limits.values()
    solid, dashed = ({"color": c, "width": 1.5} for c in ("--bad", "--soft"))
    for k, (kind, limit) in enumerate(limits.items()):
        distances = rows.distances[:, k].copy()
        lines = [(dividers[k], {**dashed, "dash": "dash"}), (None if together else limit, solid)]
        if limit is not None and not together and np.isclose(limit, dividers[k]):
            lines = lines[1:]
        x, y = "xy" if k == 0 else "yx"
        for at, style in lines:
            if at is not None and np.isfinite(at) and (at > 0 or not log):
                along = {f"{y}0": 0, f"{y}1": 1, f"{y}ref": "paper", f"{x}0": at, f"{x}1": at}
                shapes.append({"type": "line", "line": style, **along})
        if log:
            sizes = [d for d in [*distances, *(at for at, _ in lines)] if d is not None and d > 0]
            distances[distances == 0] = min(sizes) / 2 if sizes else 1.0
        seen = [*distances[np.isfinite(distances)], *(at for at, _ in lines if at is not None)]
        if together and limit < 2 * max(
            seen
        ):  # else the curve leaves the picture, as no row is near
            seen.append(limit)
        title = f"{kind} distance"
        linear = {"title": title, "type": "linear", "range": padded([0.0, *seen])}
        axes.append(log_axis(title, seen) if log else linear)
        for trace in traces:
            trace[x] = rounded(distances[trace["customdata"]])
    if together:
        # A quarter of an ellipse, which leaves a logarithmic picture at its edges.
        angle = np.linspace(1e-3, np.pi / 2 - 1e-3, 60)
        x, y = (limits["score"] * np.cos(angle), limits["orthogonal"] * np.sin(angle))
        curve = {"type": "scatter", "mode": "lines", "line": solid, "hoverinfo": "skip"}
        traces.append({**curve, "x": rounded(x), "y": rounded(y), "showlegend": False})
    return figure(traces, *axes, shapes=shapes)


def loadings(k: int, names: list[str], values: np.ndarray) -> dict[str, Any]:
    """Return bars of the largest loadings of component k, with a sentence about them."""
    at, texts = list(range(len(names))), [short(name, 28) for name in names]
    bars = _trace("bar", "%{text}: %{x:.4f}", x=rounded(values), y=at, text=texts)
    bars |= {"orientation": "h", "textposition": "none"}
    shapes = {"shape": ["/" if v < 0 else "" for v in values]}
    colours = ["--negative" if v < 0 else "--positive" for v in values]
    bars["marker"] = {"color": colours, "pattern": shapes}
    listed = {"autorange": "reversed", "tickvals": at, "ticktext": texts, "showgrid": False}
    listed["zeroline"] = False
    title = {"title": f"loading on component {k + 1}"}
    return figure([bars], title, listed, showlegend=False, meta=_largest(k, names, values))


def loadings_line(
    k: int, at: np.ndarray, values: np.ndarray, names: list[str], top: tuple[list[str], np.ndarray]
) -> dict[str, Any]:
    """Return the loadings of component k on variables in order, and a sentence about the largest."""
    line = _trace("scatter", "%{text}: %{y:.4f}", x=rounded(at), y=rounded(values), mode="lines")
    line |= {"text": [short(name, 28) for name in names], "line": {"color": "--ink", "width": 1.5}}
    sides = [
        {
            **{"type": "scatter", "mode": "none", "fill": "tozeroy", "fillcolor": colour},
            **{"x": line["x"], "y": rounded(side), "hoverinfo": "skip"},
        }
        for colour, side in (
            ("--positive", np.maximum(values, 0.0)),
            ("--negative", np.minimum(values, 0.0)),
        )
    ]
    axes = {"title": "variable", "range": padded(at)}, {"title": f"loading on component {k + 1}"}
    return figure([*sides, line], *axes, showlegend=False, meta=_largest(k, *top))


def _largest(k: int, names: list[str], values: np.ndarray) -> str:
    """Return a sentence about the loadings of a component; that of the first stands on the page."""
    pairs = zip(names[:3], values[:3], strict=True)
    largest = ", ".join(f"{name} {number(float(v))}" for name, v in pairs)
    return f"The largest loadings on component {k + 1}: {largest}." if k else ""


def cell_map(
    lines: list[str], groups: list[str], alone: int, limit: float, cutoff: float
) -> dict[str, Any]:
    """Return a map without its numbers, which the page adds; the first lines are single rows."""
    scale = [[0, "--negative"], [0.5, "--paper"], [1, "--positive"]]
    bar = {"title": {"text": "scales", "side": "right"}, "thickness": 12, "tickcolor": "--ink"}
    bar |= {"outlinecolor": "--line", "tickvals": rounded([-limit, -cutoff, 0.0, cutoff, limit])}
    bar["ticktext"] = [f"≤ {-limit:.2g}", f"{-cutoff:.2g}", "0", f"{cutoff:.2g}", f"≥ {limit:.2g}"]
    trace = _trace("heatmap", "%{hovertext}", colorscale=scale, zmin=-limit, zmax=limit)
    trace |= {"colorbar": bar, "texttemplate": "%{text}", "hoverongaps": True}
    axes = []
    for names in (groups, lines):
        step = -(-len(names) // 30)  # as many as can be read
        at = list(range(0, len(names), step))
        axis = {"tickvals": at, "ticktext": [short(names[i], 18) for i in at], "ticks": ""}
        axes.append({**axis, "showgrid": False, "zeroline": False})
    axes[0] |= {"tickangle": 90, "range": [-0.5, len(groups) - 0.5]}
    axes[1] |= {"range": [len(lines) - 0.5, -0.5]}
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": alone - 0.5, "y1": alone - 0.5}
    shapes = [{**line, "line": {"color": "--ink", "width": 1}}] if alone < len(lines) else []
    return figure([trace], *axes, shapes=shapes, plot_bgcolor="--hole")


def convergence(count: np.ndarray, residual: np.ndarray, tol: float, unit: str) -> dict[str, Any]:
    """Return the residual by passes or steps, and a dashed line at ``tol``."""
    line = _trace("scatter", f"{unit}: %{{x}}<br>residual: %{{y:.3g}}", x=rounded(count))
    line |= {"y": rounded(residual), "name": "residual", "mode": "lines+markers"}
    line |= {"line": {"color": "--good"}, "marker": {"color": "--good"}}
    goal = {
        **{"type": "scatter", "mode": "lines", "name": "tol", "hoverinfo": "skip"},
        **{"x": [0, float(count[-1])], "y": [rounded(tol)] * 2},
        "line": {"color": "--bad", "dash": "dash"},
    }
    axis = {"title": unit, "range": padded([0.0, *count])}
    return figure([line, goal], axis, log_axis("residual", [tol, *residual]))
