"""How well components show columns, and how far other rows move them: for ``dualpca inspect``."""

import sys
from typing import Any

import numpy as np

from ..frames import shown_shares
from ..stability import bootstrap
from .fitting import NotedModel
from .printing import LOADINGS, say, text_table

#: The most columns of which cos2 is printed.
COLUMNS = 30


def trust_in(fitted: NotedModel, X: Any, resamples: int) -> dict[str, Any]:
    """Return cos2 of the columns of X, and how far n resamples of its rows move components."""
    known: dict[str, Any] = {"cos2": shown_shares(fitted, X)}
    if resamples:
        found = bootstrap(fitted.model, X, resamples, random_state=0)
        turn, far = np.quantile(found.angles[:, 0], [0.5, 0.95])
        low, high = found.bounds()
        known["bootstrap"] = {
            **{"resamples": len(found.angles), "angle_median": turn, "angle_95": far},
            **{"loadings": found.loadings, "low": low, "high": high},
        }
    return known


def print_trust(fitted: NotedModel, known: dict[str, Any]) -> None:
    """Print a line for each column: cos2, and the interval of its loading, in the first components."""
    if not known:
        return
    intervals, kept = known.get("bootstrap"), range(min(fitted.n_components, LOADINGS))
    head = ["column", *(f"cos2 {k + 1}" for k in kept)]
    rows = [
        [name, *(f"{share:.1%}" for share in known["cos2"][: len(kept), j])]
        for j, name in enumerate(fitted.feature_names[:COLUMNS])
    ]
    if intervals is not None:
        head += [f"loading {k + 1}, 95 %" for k in kept]
        for j, row in enumerate(rows):
            ends = ((intervals["low"][k, j], intervals["high"][k, j]) for k in kept)
            row += [f"{low:+.2f} to {high:+.2f}" for low, high in ends]
    sys.stdout.write(text_table(head, rows))
    if len(rows) < fitted.n_features:
        say(f"  and {fitted.n_features - len(rows):,} more columns; --json has all")
    if intervals is not None:
        say(
            f"in {intervals['resamples']} resamples the components turned by "
            f"{intervals['angle_median']:.1f} degrees in the median, {intervals['angle_95']:.1f} or less "
            "in 95 %"
        )
