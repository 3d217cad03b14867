"""Pictures of the experiments, made without pyplot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.explore import TARGETS

from .engine import Results
from .timing_tables import PAPER, seconds, timed


def panels(count: int) -> tuple[Any, Any]:
    """A figure with that many panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * count, 4), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def scaling(key: str) -> Callable[[Results], Any]:
    """Milliseconds over a setting: the paper's protocol at the left, equal accuracy beside it."""

    def draw(results: Results) -> Any:
        places = (PAPER, str(TARGETS[1]), str(TARGETS[2]))
        titles = (
            "the paper's protocol",
            *(f"{t:.0e} of the variance missing" for t in TARGETS[1:]),
        )
        figure, axes = panels(len(places))
        x = [cell[key] for cell in results.cells]
        methods = timed(results)
        for ax, at, title in zip(axes, places, titles, strict=True):
            for method in methods:
                times = 1000 * np.array([seconds(results, method, c, at) for c in results.cells])
                shown = np.where(np.isfinite(times), times, np.nan)
                (line,) = ax.plot(x, shown, marker="o", label=method)
                if at == PAPER:
                    std = [1000 * (results(method, c)["std"] or 0.0) for c in results.cells]
                    low = np.maximum(shown - std, shown / 10)  # a logarithm has no room below zero
                    ax.fill_between(x, low, shown + std, alpha=0.2, color=line.get_color())
            ax.set(xlabel=key, ylabel="ms", yscale="log", title=title)
        axes[0].legend()
        return figure

    return draw
