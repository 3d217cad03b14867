"""Which rows are outliers: limits on their two distances, and doubts about the answer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..linalg import Array, host_sample, namespace
from ..solvers.solve import user_stacklevel
from .distances import RowDistances
from .fit import RobustOptions
from .scale import chi2_quantile
from .starts import Start

#: Starts disagree where their nearest halves share less than this of the rows.
DISAGREE = 0.6


def normality(score: Array, orthogonal: Array, by: str, limits: tuple[float, float]) -> Array:
    """Return minus the distance that flags rows; for "both" minus the larger one over its limit."""
    if by == "both":
        a, b = score / limits[0], orthogonal / limits[1]
        return -namespace(a).where(a > b, a, b)
    return -(orthogonal if by == "orthogonal" else score)


def flag_rows(
    rows: RowDistances, score: Array, orthogonal: Array, options: RobustOptions, counted: Any = None
) -> tuple[str, tuple[float, float], float]:
    """Return which distances flag rows, their limits at ``quantile``, and the offset of normality.

    ``contamination`` is "auto", or the share of the ``counted`` rows to flag instead.
    """
    q, contamination = options.quantile, options.contamination
    limits = chi2_quantile(q, rows.V.shape[1]) ** 0.5, rows.cutoff(q)
    by = "score" if rows.flat else options.flag
    if contamination == "auto":
        return by, limits, -{"score": limits[0], "orthogonal": limits[1]}.get(by, 1.0)
    scores = host_sample(normality(score, orthogonal, by, limits))
    scores = scores if counted is None else scores[counted]
    offset = float(np.percentile(scores, 100.0 * contamination))
    # Where that is the score of a row, rounding must not decide on its flag.
    return by, limits, offset - float(np.sqrt(np.finfo(scores.dtype).eps)) * abs(offset)


def warn_of_doubt(outliers: Array, contamination: Any, start: Start) -> None:
    """Warn where the fit may not be of the data: most rows are flagged, or the starts disagree."""
    share = float(host_sample(outliers).mean())
    if share > 0.5 and contamination == "auto":
        warnings.warn(
            f"{share:.0%} of the rows are flagged: more than half, so that the flagged rows may be the "
            "data; look at the outlier map, or try another n_components",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
    if start.agreement < DISAGREE and start.nearness > 0.9:
        warnings.warn(
            "two starts found subspaces that fit about equally well, each another half of the rows "
            f"({start.agreement:.0%} in common); try another n_components, or compare the fits of "
            "init='stahel_donoho' and init='spherical'",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
