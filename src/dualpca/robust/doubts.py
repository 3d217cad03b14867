"""What a robust fit says of itself where it may not be of the data, or the data not of its model."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtrc

from ..operators.block_ops import multiply
from .fit import RobustFit
from .starts import DISAGREE, Start

#: More flagged rows than this share that are near the subspace are no outliers but a group.
GROUPED = 0.15

#: Where this share of the rows is near the subspace, it matters little which half of them starts held.
NEARLY_ALL = 0.95

#: Rows beyond the limit count as close up to WITHIN times it.
WITHIN = 1.5

#: Good rows are skewed where their one-sidedness is above ONE_SIDED, with this p-value or less, and where
#: more rows are flagged and close than EXPECTED times what the quantile says: outliers far off are no
#: harm of skewness. (None of 640 Gaussian, uniform, Laplace, t5 and Poisson tables and of 40 of digits,
#: in eight sizes from 60 x 20 to 1000 x 30, is called skewed, even without the last condition; of 64
#: tables of lognormal scores 52 are, 30 of the 32 with more than 100 rows.)
ONE_SIDED, P_VALUE, EXPECTED = 0.45, 1e-3, 5

#: Flagged rows are a tail of the others where they are more than TAIL of all, the share CLOSE of them and
#: LEAST or more are close, and no fewer rows are just below the limit than just above it. (None of the
#: same tables. With at least as many columns as rows and more than TAIL flagged, 7 of 7 tables of
#: lognormal scores, 8 of 19 of lognormal columns, 13 of 15 of counts with lognormal rates; 2 of 99 cells
#: of experiments.robust_grid and 24 of 96 tables with faint outliers, where nobody can tell.)
TAIL, CLOSE, LEAST = 0.05, 0.3, 3


def one_sidedness(scores: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Return how far the outer half of rows lies on one side of the centre, and the p-value of that.

    ``scores`` are whitened. The direction from the centre to a row has mean 0 and covariance ``I/s`` if
    rows are distributed symmetrically, however heavy their tails are; so ``s n ||mean||^2`` is nearly
    chi-squared with s degrees of freedom. The first number is ``sqrt(s) ||mean||``.
    """
    s = scores.shape[1]
    mass = np.ones(len(scores)) if weights is None else weights
    distance = np.linalg.norm(scores, axis=1)
    order = np.argsort(distance)
    middle = order[np.searchsorted(np.cumsum(mass[order]), mass.sum() / 2)]
    outer = distance > distance[middle]
    total = float(mass[outer].sum())
    if not total > 0:
        return 0.0, 1.0
    mean = mass[outer] @ (scores[outer] / distance[outer, None]) / total
    square = s * float(mean @ mean)
    return math.sqrt(square), float(chdtrc(s, total * square))


def whitened_scores(fit: RobustFit) -> np.ndarray:
    """Return the scores of the rows on the host along the components, in units of their deviations."""
    rows, parts = fit.rows, fit.components
    varying = parts.variances > 1e-12 * parts.variances.max()
    P = (rows.V.T @ parts.V[:, varying]) / np.sqrt(parts.variances[varying])
    shift = (parts.center - rows.center) @ rows.V
    scores = rows.on_host[0]
    return multiply(scores, P.astype(scores.dtype)) - shift @ P


def doubt_of_half(share: float) -> str | None:
    """Return what to say where most rows are flagged."""
    if share <= 0.5:
        return None
    return (
        f"{share:.0%} of the rows are flagged: more than half, so that the flagged rows may be the "
        "data; look at the outlier map, or try another n_components"
    )


def doubt_of_groups(inside: float) -> str | None:
    """Return what to say where this share of the rows is flagged near the subspace."""
    if inside <= GROUPED:
        return None
    return (
        f"{inside:.0%} of the rows are flagged although they are near the subspace, as they are far "
        "out within it: good rows may be in groups, which no Gaussian model fits; with "
        "flag='orthogonal' they are not flagged"
    )


def doubt_of_symmetry(fit: RobustFit, ratios: np.ndarray, quantile: float) -> str | None:
    """Return what to say where good rows are skewed, by the distances of rows over their limit."""
    weights = fit.rows.on_host[2]
    mass = np.ones(len(ratios)) if weights is None else weights
    share, close = (float(mass @ beyond / mass.sum()) for beyond in (ratios > 1, _close(ratios)))
    if close <= EXPECTED * (1 - quantile):
        return None
    length, p_value = one_sidedness(whitened_scores(fit)[ratios <= 1], mass[ratios <= 1])
    if length <= ONE_SIDED or p_value > P_VALUE:
        return None
    return (
        f"{share:.1%} of the rows are flagged, and of the others those far out lie on one side of the "
        "centre: good rows are skewed, which no Gaussian model fits, so that some of them are flagged; "
        "take logarithms or roots of skewed columns first, or give the share of bad rows as contamination"
    )


def _close(ratios: np.ndarray) -> np.ndarray:
    return (ratios > 1) & (ratios <= WITHIN)


def doubt_of_tail(ratios: np.ndarray, columns: int) -> str | None:
    """Return what to say where flagged rows follow on the others, by distances over their limit.

    With more rows than columns nothing is said: outliers of all sizes look the same.
    """
    beyond, rows = ratios[ratios > 1], len(ratios)
    close = _close(ratios).sum()
    if rows > columns or len(beyond) <= TAIL * rows or close < max(CLOSE * len(beyond), LEAST):
        return None
    step = WITHIN**0.5
    if ((ratios > 1 / step) & (ratios <= 1)).sum() < (beyond <= step).sum():
        return None
    return (
        f"{len(beyond) / rows:.0%} of the rows are flagged, and they follow on the others without a gap: "
        f"they may be the tail of the good rows, which {rows} rows of {columns} columns do not show; fit "
        "more rows, transform skewed columns, or give the share of bad rows as contamination"
    )


def doubt_of_start(start: Start, near: float) -> str | None:
    """Return what to say where two starts disagree, and not NEARLY_ALL rows are near the subspace."""
    if start.agreement >= DISAGREE or start.nearness <= 0.9 or near >= NEARLY_ALL:
        return None
    return (
        "two starts found subspaces that fit about equally well, each another half of the rows "
        f"({start.agreement:.0%} in common); try another n_components, or compare the fits of "
        "init='stahel_donoho' and init='spherical'"
    )
