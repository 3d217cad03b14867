"""Limits of distances: beyond them a row is no longer like the good ones, whatever tail these have."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import fdtri, ndtri, polygamma

from .scale import DENSEST, cutoff, location_scale, repeated, repeated_rows

#: Shares of normal numbers between 1 and 2, and between 2 and 3 standard deviations. A tail is estimated
#: as if PRIOR more numbers, from a normal tail, were in the first; it falls by SLOWEST or faster.
NEAR_TAIL, FAR_TAIL, PRIOR, SLOWEST = 0.1359051, 0.0214002, 20, 0.4

#: No row has more than LEVERAGE times the mean leverage (a usual rule in regression), nor more than half;
#: else a far group of good rows would seem further. Rows have scales of their own where their two
#: distances agree by more than ERRORS standard errors. (Clean rows, eight sizes from 60 x 20 to 1000 x
#: 30, eight seeds, new rows that are flagged: multivariate t with 5 degrees of freedom 0.2 to 1.4 %;
#: without the scales 0.5 to 3.6 %, without leaving rows out either 0.5 to 5.1 %. Of 484 cells of
#: experiments.robust_grid 97.8, 97.9 and 97.9 % of the bad rows are flagged.)
LEVERAGE, ERRORS = 3.0, 1.0

#: Degrees of freedom beyond this are no different from infinitely many.
MANY = 1e6


def tail_quantile(z: np.ndarray, q: float) -> float:
    """Return the q-quantile of standardised distances z, most of which are those of good rows.

    It is the normal one, unless the counts between 1 and 2 and between 2 and 3 fall more slowly than
    those of normal numbers. Then the tail goes on as slowly, by the same factor for each unit. Rows
    beyond 3, among them far outliers, have no say in it.
    """
    near, far = ((z > k) & (z <= k + 1) for k in (1, 2))
    mass = len(z) + PRIOR / NEAR_TAIL
    factor = min((far.sum() + PRIOR * FAR_TAIL / NEAR_TAIL) / (near.sum() + PRIOR), SLOWEST)
    share = (far.sum() + PRIOR * FAR_TAIL / NEAR_TAIL) / mass

    def place(share: float, factor: float) -> float:
        """Return where an exponential tail with this share between 2 and 3 has ``1 - q`` left."""
        return 2 + math.log((1 - q) * (1 - factor) / share) / math.log(factor)

    later = place(share, factor) - place(FAR_TAIL, FAR_TAIL / NEAR_TAIL)
    return float(ndtri(q)) + max(later, 0.0)


def distance_limit(
    distances: np.ndarray, location: float, scale: float, q: float, weights: np.ndarray | None
) -> float:
    """Return the q-quantile of the distances of good rows, whatever their tail is.

    ``location`` and ``scale`` are those of ``distance^(2/3)`` of the good rows.
    """
    if not scale > 0:
        return cutoff(location, scale, q)
    t = np.cbrt(repeated(distances, weights)) ** 2
    z = tail_quantile((t - location) / scale, q)
    return max(location + z * scale, 0.0) ** 1.5


def limits_of_good(
    score: np.ndarray,
    orthogonal: np.ndarray,
    noise: float,
    s: int,
    q: float,
    weights: np.ndarray | None,
    floor: float = 0.0,
) -> tuple[float, float, float]:
    """Return the q-quantiles of score distances, of orthogonal ones, and of both, of rows near s axes.

    Both together are ``sqrt(score^2 + orthogonal^2 / noise)``, infinite without noise. Where the rows
    within that quantile have scales of their own, the quantiles are those of a multivariate t at least.
    Orthogonal distances up to ``floor`` may be rounding, which grows with rows and has no say in this.
    """
    both = np.hypot(score, orthogonal / noise**0.5) if noise > 0 else score
    kinds = score, orthogonal, both
    bulks = _bulks(kinds, weights)
    pairs = zip(kinds, bulks, strict=True)
    inside, beside, joint = (distance_limit(kind, *bulk, q, weights) for kind, bulk in pairs)
    limits = inside, beside, joint if noise > 0 else math.inf
    if not noise > 0:
        return limits
    regular = (both <= limits[2]) & (orthogonal > floor)
    if 2 * regular.sum() < len(regular):
        return limits
    mass = None if weights is None else weights[regular]
    nu, m = scale_freedom(score[regular], orthogonal[regular], s, mass)
    if not nu < MANY:
        return limits

    def limit(i: int, directions: float) -> float:
        ratio = float(fdtri(directions, nu, q) / fdtri(directions, nu, 0.5))
        return max(bulks[i][0] ** 1.5 * ratio**0.5, limits[i])

    return limit(0, s), limit(1, m), limit(2, s + m)


def _bulks(kinds: Sequence[np.ndarray], weights: np.ndarray | None) -> list[tuple[float, float]]:
    """Return location and scale of ``distance^(2/3)`` of the densest part of the rows, for each kind."""
    t = np.cbrt(np.stack([repeated(distances, weights) for distances in kinds])) ** 2
    location, scale = location_scale(t, int(DENSEST * t.shape[1]) + 1)
    return list(zip(location.tolist(), scale.tolist(), strict=True))


def left_out(
    score: np.ndarray, orthogonal: np.ndarray, s: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the two distances that rows would have from s axes that were fitted to the other ones.

    One of n rows has the share ``h = (1 + score^2) / n`` in the fit of a centre and of the axes, its
    leverage, (s + 1) / n on average. To first order, leaving it out divides the squared score distance
    by 1 - h and the squared orthogonal one by (1 - h)^2, as in a regression (Allen's PRESS). So a new
    row far out is also far from the subspace, by up to d / n times its squared score distance in units
    of the noise.
    """
    reach = 1 + np.minimum(score, 1e100) ** 2
    mass = float(len(score) if weights is None else weights.sum())
    rest = 1 - np.minimum(np.minimum(reach, LEVERAGE * (s + 1)) / mass, 0.5)
    return score / np.sqrt(rest), orthogonal / rest


def scale_freedom(
    score: np.ndarray, orthogonal: np.ndarray, s: int, weights: np.ndarray | None = None
) -> tuple[float, float]:
    """Return the degrees of freedom of rows that have scales of their own, and those beside the axes.

    The rows of a multivariate t are normal ones over ``sqrt(chi2_nu / nu)``. Their two distances share
    that factor: ``cov(log score^2, log orthogonal^2) = psi'(nu/2)``, while each alone varies by
    ``psi'(s/2)`` or ``psi'(m/2)`` more. The correlation is that of signs about the medians, which
    normal rows do not have and few outliers hardly change. Every row has a say in it; few rows say
    little by their tails.

    Returns
    -------
    nu, m : float
        Infinite where the correlation is below ERRORS standard errors.
    """
    rows = repeated_rows(orthogonal, weights)
    u, v = score[rows], orthogonal[rows]
    if not (len(rows) > 2 and s and np.median(u) > 0 and v.min() > 0):
        return math.inf, math.inf
    agreement = float(np.mean(np.sign(u - np.median(u)) * np.sign(v - np.median(v))))
    correlation = math.sin(math.pi / 2 * max(agreement - ERRORS / math.sqrt(len(rows)), 0.0))
    spread = float(location_scale(2 * np.log(v)[None, :], len(v) // 2 + 1)[1][0])
    if not (correlation > 0 and spread > 0):
        return math.inf, math.inf
    c = (correlation * spread) ** 2  # common^2 = c (psi'(s/2) + common)
    common = min((c + math.sqrt(c * c + 4 * c * float(polygamma(1, s / 2)))) / 2, spread**2)
    return _freedom_of(common), _freedom_of(spread**2 - common)


def _freedom_of(variance: float) -> float:
    """Return the k with ``psi'(k/2)`` equal to the variance of the logarithm, by Newton's method."""
    if variance <= 2 / MANY:
        return MANY
    x = 0.5 + 1 / variance  # below the root, from where the steps are monotone
    for _ in range(50):
        value = float(polygamma(1, x))
        step = value * (1 - value / variance) / float(polygamma(2, x))
        x += step
        if -step < 1e-10 * x:
            break
    return 2 * x
