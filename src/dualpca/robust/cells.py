"""Robust PCA of cells: holes, wrong cells and bad rows in one objective (cellPCA).

``sum_i a_i m_i c_i^2 psi_2(t_i^2 / c_i^2)``, ``t_i^2 = 1/m_i sum_j sigma_j^2 psi_1(r_ij^2/sigma_j^2)``
over the m_i cells of row i that are there, of the residuals ``R = X - 1 c^T - B V^T`` (Centofanti, Hubert
and Rousseeuw 2026). psi_1 and psi_2 are concave, so it is a concave function of the squares of R, and
``kappa/2 ||L||^2`` minus it is convex in ``L = 1 c^T + B V^T`` from kappa = 1 on: DCA would take the PCA
of ``L + W * (X - L)``, W being the weights ``psi_2' psi_1'``. The steps here minimise the same majorant,
``sum W * R^2``, exactly over B, then over c and V; they go further, and lower the objective too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import native
from ..linalg import Array, asarray_like, to_numpy
from ..linear.missing import RIDGE, fitted_scores, observed_cells
from ..losses import LOSSES, Loss, Tanh
from ..operators import Operator
from ..operators.block_ops import dense, threads
from ..progress import report_step
from .scale import chi2_quantile

#: A cell is flagged beyond this quantile of normal residuals (cellPCA).
CELL = 0.99

#: Scores are fitted with scales larger by these factors, one after the other, so that wrong cells lose
#: their weight before they have pulled the fit; 0 is what the residuals of the row ask for.
GRADUAL = (0.0, 0.0, 2.0, 1.0)

#: ``E |z|^{1/2}`` of a standard normal z. Its square over that of a row is a factor that M times larger
#: cells, a share e of all, raise by ``e^2 M`` only: below half of them they are beyond 4 such scales.
ROOT = 0.8221789586623885

#: Steps go beyond the minimum of the majorant by this factor. Below 2 they lower it all the same, and 1.3
#: takes half as many of them (30,000 x 200, 10 % holes, 5 % wrong cells: 2 steps are as near as 4).
RELAX = 1.3

#: A row is bad where more than this share of its cells is flagged.
BAD_CELLS = 0.4


#: Up to so many cells their residuals are kept, beyond it those of flagged cells alone.
KEPT_CELLS = 10**7


class Judged(NamedTuple):
    """Robust scores and residuals of rows, NaN in holes; flagged cells, bad rows, cells to be replaced.

    To be replaced are holes and, unless the row is bad as a whole, flagged cells.
    """

    scores: np.ndarray
    residuals: np.ndarray
    flagged: np.ndarray
    bad: np.ndarray
    replaced: np.ndarray


@cache
def usual_loss(loss: Loss) -> float:
    """``E psi(z^2)`` of a standard normal z."""
    z, weights = np.polynomial.hermite_e.hermegauss(100)
    return float(weights @ loss.psi(z * z) / weights.sum())


@dataclass(frozen=True, eq=False)
class CellModel:
    """c, V (d x s) and the scales sigma of the columns' residuals, with both losses."""

    center: np.ndarray
    V: np.ndarray
    scales: np.ndarray
    cell_loss: Loss = LOSSES["tanh"]
    row_loss: Loss = LOSSES["tanh"]

    @cached_property
    def constants(self) -> np.ndarray | None:
        """What the C kernels need to know, or None where they do not apply."""
        cells, rows = self.cell_loss, self.row_loss
        few = self.V.shape[1] <= native.CELL_COMPONENTS
        if not (native.kernels and few and type(cells) is type(rows) is Tanh):
            return None
        return np.array([*cells.constants, RIDGE, self.usual * rows.tuning**2, ROOT, RELAX])

    @property
    def usual(self) -> float:
        """``E psi_1(z^2)`` of a standard normal z."""
        return usual_loss(self.cell_loss)

    def squares(self, R: np.ndarray) -> np.ndarray:
        """``r_ij^2 / sigma_j^2``."""
        v = R * (1 / self.scales)
        v *= v
        return v

    def losses(self, v: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``t_i^2`` from the :meth:`squares`, 0 where cells are missing, and what is usual."""
        squares = self.scales**2
        count = np.maximum(there.sum(axis=1), 1.0)
        usual = self.usual * np.maximum(there @ squares, squares.min()) / count
        return self.cell_loss.psi(v) @ squares / count, usual

    def row_weights(self, t2: np.ndarray, usual: np.ndarray) -> np.ndarray:
        """``psi_2'(t_i^2 / c_i^2)``, c_i in proportion to the root of the usual t_i^2."""
        return self.row_loss.slope(t2 / (self.row_loss.tuning**2 * usual))

    def objective(self, t2: np.ndarray, usual: np.ndarray, counts: np.ndarray) -> float:
        """Return the objective of rows with these losses, ``counts`` being ``a_i m_i``."""
        c2 = self.row_loss.tuning**2 * usual
        return float(np.sum(counts * c2 * self.row_loss.psi(t2 / c2)))

    def scores(self, R: np.ndarray, there: np.ndarray) -> np.ndarray:
        """Return robust scores of rows ``R = x - c``, 0 where cells are missing."""
        B = np.zeros((len(R), self.V.shape[1]))
        for factor in GRADUAL:
            left = R - B @ self.V.T
            left *= there
            v = self.squares(left)
            if factor:
                v /= factor**2
            else:
                size = np.sqrt(np.sqrt(v)).sum(axis=1) / np.maximum(there.sum(axis=1), 1.0)
                v /= np.maximum((size / ROOT) ** 4, 1.0)[:, None]
            W = self.cell_loss.slope(v)
            W *= there
            B += self.move(left, W)
        return B

    def move(self, R: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return by how much scores move to fit residuals R with weights W."""
        return fitted_scores(R, W, self.V, np.full(self.V.shape[1], RIDGE))

    def scores_of(self, block: Any) -> np.ndarray:
        """Return robust scores of a block of rows."""
        block = to_numpy(dense(block))
        if self.constants is None:
            return self.scores(*observed_cells(block, self.center))
        B = np.empty((len(block), self.V.shape[1]))
        native.cell_rows(block, self.numbers, self.constants, np.array(GRADUAL), B, threads())
        return B

    @property
    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """c, V and the scales."""
        return self.center, self.V, self.scales

    def fitted(self, B: np.ndarray) -> np.ndarray:
        """``c + V b`` of each row of scores."""
        return self.center + B @ self.V.T

    def judged(self, block: Any) -> Judged:
        """Return what the model makes of a block of rows."""
        given = to_numpy(dense(block)).astype(float, copy=False)
        B = self.scores_of(given)
        R = given - self.fitted(B)
        flagged = np.abs(R) > chi2_quantile(CELL, 1) ** 0.5 * self.scales  # a hole, NaN, is not
        holes = np.isnan(R)
        there = R.shape[1] - np.count_nonzero(holes, axis=1)
        bad = np.count_nonzero(flagged, axis=1) > BAD_CELLS * there
        return Judged(B, R, flagged, bad, holes | (flagged & ~bad[:, None]))

    def __call__(self, block: Any) -> Any:
        """Return rows with the fit in the cells that are to be replaced."""
        block = dense(block)
        found = self.judged(block)
        if not found.replaced.any():
            return block
        return asarray_like(
            np.where(found.replaced, self.fitted(found.scores), to_numpy(block)), block
        )

    def kept(self, found: Judged, whole: bool) -> Any:
        """Return the standardised residuals, of the ``whole`` table or of flagged cells, then sparse."""
        if whole:
            return found.residuals / self.scales
        d = len(self.scales)
        places = np.flatnonzero(found.flagged)  # of two-dimensional arrays it takes twice as long
        values = found.residuals.ravel()[places] / self.scales[places % d]
        starts = np.searchsorted(places, d * np.arange(len(found.residuals) + 1))
        parts = values.astype(np.float32), places % d, starts
        return sp.csr_array(parts, shape=found.residuals.shape)


def judged_rows(X: Operator, model: CellModel) -> tuple[Array, Array, Any]:
    """Return scores and orthogonal distances of completed rows, and residuals of cells, in one pass.

    A completed row is ``c + V b + e``, e being the residuals of the cells that stay. Of more than
    KEPT_CELLS the residuals of flagged cells alone are kept.
    """
    whole = X.shape[0] * X.shape[1] <= KEPT_CELLS

    def part(rows: slice, block: Any) -> tuple[list[Any], ...]:
        found = model.judged(block)
        E = np.where(found.replaced, 0.0, found.residuals)
        along = E @ model.V
        square = np.einsum("ij,ij->i", E, E) - np.einsum("ij,ij->i", along, along)
        return (
            [found.scores + along],
            [np.sqrt(np.clip(square, 0, None))],
            [model.kept(found, whole)],
        )

    scores, distances, cells = X.sum_blocks(part)
    cells = X.asarray(np.concatenate(cells)) if whole else sp.vstack(cells, format="csr")
    return X.asarray(np.concatenate(scores)), X.asarray(np.concatenate(distances)), cells


def improve(
    X: Operator, model: CellModel, B: np.ndarray, mass: np.ndarray
) -> tuple[CellModel, float]:
    """Take one step from ``(c, V, B)``; return the model and the objective before, in one pass.

    B, N x s, is changed in place. The steps are proximal, with a weight of rounding: a column or row
    without weight stays as it was.
    """
    h = model.V.shape[1] + 1
    upper = np.triu_indices(h)

    def part(rows: slice, block: Any) -> tuple[np.ndarray, float]:
        block = to_numpy(dense(block))
        if model.constants is not None:
            sums, known = (
                np.empty((len(model.V), h * (h + 3) // 2)),
                (model.numbers, model.constants),
            )
            return sums, native.cell_rows(block, *known, mass[rows], B[rows], threads(), sums)
        R, there = observed_cells(block, model.center)
        R -= B[rows] @ model.V.T
        R *= there
        v = model.squares(R)
        t2, usual = model.losses(v, there)
        value = model.objective(t2, usual, mass[rows] * there.sum(axis=1))
        W = model.cell_loss.slope(v)
        W *= there
        move = RELAX * model.move(R, W)
        B[rows] += move
        R -= there * (move @ model.V.T)
        W *= (mass[rows] * model.row_weights(t2, usual))[:, None]
        H = np.concatenate([np.ones((len(R), 1)), B[rows]], axis=1)
        pairs = H[:, upper[0]] * H[:, upper[1]]
        return np.concatenate([W.T @ pairs, (W * R).T @ H], axis=1), value

    sums, value = X.sum_blocks(part)
    A = np.empty((len(model.V), h, h))
    A[:, upper[0], upper[1]] = A[:, upper[1], upper[0]] = sums[:, :-h]
    size = np.concatenate([[len(B)], np.einsum("ij,ij->j", B, B)])
    A += RIDGE * np.diag(np.maximum(size, 1e-300))
    right = sums[:, -h:]
    G = RELAX * np.linalg.solve(A, right[:, :, None])[:, :, 0]
    V, root = np.linalg.qr(model.V + G[:, 1:])
    B[:] = B @ root.T
    return replace(model, center=model.center + G[:, 0], V=V), value


def chance_turn(model: CellModel, B: np.ndarray) -> float:
    """``(sigma^2 / (N lambda_s))^{1/2} (d^{1/2} + s^{1/2})``: by which angle axes of N rows are off."""
    (N, s), noise = B.shape, float((model.scales**2).mean())
    least = float(np.linalg.eigvalsh(np.atleast_2d(np.cov(B, rowvar=False)))[0])
    return min(1.0, (noise / max(N * least, 1e-300)) ** 0.5 * (len(model.V) ** 0.5 + s**0.5))


def converge(
    X: Operator,
    model: CellModel,
    B: np.ndarray,
    mass: np.ndarray,
    tol: float,
    steps: int,
    unit: float = 1.0,
) -> tuple[CellModel, float, int]:
    """Improve until centre and axes move by ``tol`` units at most; return the last move, and steps."""
    spread, move = float(np.sqrt((B * B).mean())) or 1.0, np.inf
    step = 0
    while step < steps:
        step += 1
        new, _ = improve(X, model, B, mass)
        turned = new.V - model.V @ (model.V.T @ new.V)
        shift = new.center - model.center
        shift = shift - new.V @ (new.V.T @ shift)
        move = float(np.linalg.norm(turned, 2) + np.linalg.norm(shift) / spread) / unit
        model = new
        if report_step("cells", move, tol, X.passes) or move <= tol:
            break
    return model, move, step
