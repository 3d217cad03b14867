"""Pictures of the experiments, made without pyplot; axes as in the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.explore import TARGETS

from .engine import Results
from .timing_tables import OURS, PAPER, seconds, timed

#: The paper's marks, and those of methods that it does not have.
MARKS = {"ZeroFPR (n)": "o", "PG (n)": "s", "svds": "^", **dict(zip(OURS, "Dv", strict=True))}


def panels(count: int) -> tuple[Any, Any]:
    """A figure with that many panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * count, 4), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def short(method: str) -> str:
    """The name in the paper's legends."""
    return method.replace("ZeroFPR", "ZF")


def hollow(ax: Any, x: Any, y: Any, color: Any, mark: str = "o") -> None:
    """Points that a limit has set, not a stopping test."""
    ax.plot(x, y, mark, color=color, markerfacecolor="white", zorder=3)


def scaling(key: str) -> Callable[[Results], Any]:
    """Milliseconds over a setting: the paper's protocol at the left, equal accuracy beside it.

    A method over the cap is hollow, on the dashed line of the cap or, beside others, above it.
    """

    def draw(results: Results) -> Any:
        places = (PAPER, *map(str, TARGETS[1:]))
        missing = (f"{target:.0e} of the variance missing" for target in TARGETS[1:])
        figure, axes = panels(len(places))
        x = np.array([cell[key] for cell in results.cells])
        limit = 1000 * results.cap
        for ax, at, title in zip(axes, places, ("the paper's protocol", *missing), strict=True):
            level = limit
            for method in timed(results):
                times = 1000 * np.array([seconds(results, method, c, at) for c in results.cells])
                over = ~np.isfinite(times)
                shown, mark = np.where(over, level, times), MARKS[method]
                level *= 1.15 if over.any() else 1.0  # so that the marks of two do not coincide
                (line,) = ax.plot(x, shown, marker=mark, label=short(method))
                hollow(ax, x[over], shown[over], line.get_color(), mark)
                if at == PAPER:
                    std = [1000 * (results(method, c)["std"] or 0.0) for c in results.cells]
                    low = np.maximum(shown - std, shown / 10)  # a logarithm has no room below zero
                    ax.fill_between(x, low, shown + std, alpha=0.25, color=line.get_color())
            ax.axhline(limit, color="gray", linestyle="--", linewidth=1)
            ax.set(xlabel=f"${key}$", ylabel="Time (ms)", yscale="log", title=title)
            ax.grid()
        axes[0].plot([], [], "o", color="gray", markerfacecolor="white", label="over the cap")
        axes[0].legend(fontsize="small")
        return figure

    return draw
