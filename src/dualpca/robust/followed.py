"""The model of a stream of rows: what it says of new rows, and how it follows their sums."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtr, exp1, gammaincc

from ..formulations import row_epsilon
from ..linalg import fix_signs
from ..linear.forgetting import Weights
from ..linear.incremental import Sums
from ..losses import Loss
from ..operators import Matrix
from ..operators.block_ops import row_norms
from ..solvers.spectral.ritz import leading_eigenpairs
from .distances import RowDistances, row_distances, score_distances
from .fit import RobustFit, RobustOptions, row_weights
from .joint import row_scales
from .scale import chi2_quantile, typical_size
from .scatter import INNER

#: Rows beyond this quantile of the squared score distance weigh less, as 1 over that.
LEVERAGE = 0.99


@dataclass(frozen=True)
class Followed:
    """The model of a stream: centre, axes, variances, mean squared orthogonal distance of good rows.

    ``limits`` are those of the score distance, of the orthogonal one, and of both together; ``cutoff`` is
    ROBPCA's of the orthogonal one.
    """

    center: np.ndarray
    V: np.ndarray
    variances: np.ndarray
    noise: float
    limits: tuple[float, float, float]
    cutoff: float
    loss: Loss
    spread: float

    def distances(self, rows: np.ndarray) -> tuple[RowDistances, np.ndarray]:
        """Return the distances of rows from the subspace, and those within it."""
        X = Matrix(rows)
        measured = row_distances(X, self.center, self.V, None, self.spread, self.directions)
        return measured, score_distances(measured.scores, self.variances)

    @property
    def directions(self) -> int:
        """The number of directions beside the subspace."""
        return max(self.V.shape[0] - self.V.shape[1], 1)

    def weights(
        self, measured: RowDistances, score: np.ndarray, rows: np.ndarray, options: RobustOptions
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of each row by its distance from the subspace, and by that within it.

        The first is 1 for good rows and 0 for others; without ``refit`` that of the loss, relative to a
        row with the typical distance, at most 1.
        """
        reach = chi2_quantile(LEVERAGE, len(self.variances))
        within = np.minimum(1.0, reach / np.maximum(score**2, 1e-300))
        if options.refit:
            return (measured.orthogonal <= self.limits[1]).astype(float), within
        norms = row_norms(rows - self.center)
        scales = row_scales(norms, self.spread) if options.normalize else None
        epsilon = row_epsilon(norms if scales is None else norms * scales, self.loss)
        typical = self.noise / (self.spread**2 if options.normalize else 1.0)
        most = self.loss.slope(np.array([max(typical + epsilon**2, 1e-300) / self.loss.c**2]))
        by_loss = row_weights(self.loss, measured, scales, epsilon) / max(float(most[0]), 1e-300)
        if scales is not None:  # the loss is one of rows that are divided by their norms
            by_loss = by_loss * (self.spread * scales) ** 2
        return np.minimum(by_loss, 1.0), within


def misfit(score: np.ndarray, orthogonal: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Return ``min(1, (score / limit)^2 + (orthogonal / limit)^2)`` of rows with these distances."""
    inside, across = (max(limit, 1e-300) for limit in limits)
    return np.minimum(1.0, (score / inside) ** 2 + (orthogonal / across) ** 2)


def weighted(near: np.ndarray, within: np.ndarray, counts: np.ndarray, ages: np.ndarray) -> Weights:
    """Return the weights of rows; rows that are not near do not age what came before them."""
    steps = ages * near * (counts > 0)
    later = steps.sum() - np.cumsum(steps)
    own = near * within * 2.0**-later
    by_row = counts * own
    return Weights(by_row, float(by_row.sum()), float(by_row @ own), float(2.0 ** -steps.sum()))


def shrinkage(s: int) -> float:
    """Return the variance of normal scores in s dimensions when far ones weigh less.

    With ``w = min(1, c / x)`` of ``x`` chi-squared with s degrees of freedom: ``E[w x] / (s E[w])``.
    """
    c = chi2_quantile(LEVERAGE, s)
    inside, beyond = float(chdtr(s, c)), 1 - float(chdtr(s, c))
    if s > 2:
        inverse = float(gammaincc(s / 2 - 1, c / 2)) / (s - 2)
    elif s == 2:
        inverse = float(exp1(c / 2)) / 2
    else:
        root = math.sqrt(c / 2)
        inverse = math.exp(-c / 2) / (root * math.sqrt(math.pi)) - float(gammaincc(0.5, c / 2))
    return (s * float(chdtr(s + 2, c)) + c * beyond) / (s * (inside + c * inverse))


def follows_center(options: RobustOptions) -> bool:
    """Whether the centre is fitted together with the subspace."""
    return isinstance(options.center, str) and options.center == "joint"


def renewed(model: Followed, sums: Sums, options: RobustOptions) -> Followed:
    """Return the model with centre and axes of the sums; after refits with their variances and noise."""
    s = len(model.variances)
    if not (sums.rows > s and sums.energy > 0):
        return model
    if sums.R is None:
        theta, V = leading_eigenpairs((sums.S + sums.S.T) / 2, s)
    else:
        _, sigma, Vt = np.linalg.svd(sums.R, full_matrices=False)
        theta, V = sigma**2, Vt.T
    theta, V = np.clip(theta[:s], 0.0, None), V[:, :s]
    center = sums.center if follows_center(options) else model.center
    model = replace(model, center=center, V=V * fix_signs(V)[None, :])
    if not options.refit:
        return model
    noise = max(sums.energy - float(theta.sum()), 0.0) / sums.rows
    return replace(model, variances=theta / (sums.rows * shrinkage(s)), noise=noise)


def followed(fit: RobustFit, options: RobustOptions) -> Followed:
    """Return the model of a fit."""
    parts = fit.components
    d, s = parts.V.shape
    noise = fit.noise / max(d - s, 1)
    score = np.asarray(parts.score_distances, dtype=float)
    limits = fit.rows.limits(score, noise, options.quantile)
    spread = typical_size(np.hypot(row_norms(fit.rows.scores), fit.rows.orthogonal))
    known = parts.center, parts.V, parts.variances, fit.noise
    return Followed(*known, limits, fit.rows.cutoff(INNER), fit.loss, spread)
