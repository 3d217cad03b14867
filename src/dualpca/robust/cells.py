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
from functools import cached_property
from typing import Any

import numpy as np

from ..linalg import asarray_like, to_numpy
from ..linear.missing import RIDGE, fitted_scores, split
from ..losses import LOSSES, Loss
from ..operators import Operator
from ..operators.block_ops import dense
from ..progress import report_step
from .scale import chi2_quantile

#: A cell is flagged beyond this quantile of normal residuals (cellPCA).
CELL = 0.99

#: Scores are fitted with scales larger by these factors, one after the other, so that wrong cells lose
#: their weight before they have pulled the fit; None is what the residuals of the row ask for.
GRADUAL = (None, None, 2.0, 1.0)

#: ``E |z|^{1/2}`` of a standard normal z. Its square over that of a row is a factor that M times larger
#: cells, a share e of all, raise by ``e^2 M`` only: below half of them they are beyond 4 such scales.
ROOT = 0.8221789586623885

#: A row is bad where its cells lose as if more than this share of them were wrong.
BAD_CELLS = 0.4


@dataclass(frozen=True, eq=False)
class CellModel:
    """c, V (d x s) and the scales sigma of the columns' residuals, with both losses."""

    center: np.ndarray
    V: np.ndarray
    scales: np.ndarray
    cell_loss: Loss = LOSSES["tanh"]
    row_loss: Loss = LOSSES["tanh"]
    #: the precision of residuals and weights; moves of c, V and B are added to them in float64
    kind: Any = np.float64

    def split(self, block: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return ``x - c``, 0 where a cell is missing, and 1 where it is there, else 0."""
        R, there = split(to_numpy(dense(block)), self.center)
        return R.astype(self.kind, copy=False), there.astype(self.kind, copy=False)

    @cached_property
    def axes(self) -> np.ndarray:
        """V in the precision of the residuals."""
        return self.V.astype(self.kind)

    @cached_property
    def usual(self) -> float:
        """``E psi_1(z^2)`` of a standard normal z."""
        z, weights = np.polynomial.hermite_e.hermegauss(100)
        return float(weights @ self.cell_loss.psi(z * z) / weights.sum())

    def squares(self, R: np.ndarray) -> np.ndarray:
        """``r_ij^2 / sigma_j^2``."""
        v = R * (1 / self.scales).astype(self.kind)
        v *= v
        return v

    def losses(self, v: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``t_i^2`` from the :meth:`squares`, 0 where cells are missing, and what is usual."""
        squares = (self.scales**2).astype(self.kind)
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
        B = np.zeros((len(R), self.V.shape[1]), dtype=self.kind)
        for factor in GRADUAL:
            left = R - B @ self.axes.T
            left *= there
            v = self.squares(left)
            if factor is None:
                size = np.sqrt(np.sqrt(v)).sum(axis=1) / np.maximum(there.sum(axis=1), 1.0)
                v /= np.maximum((size / ROOT) ** 4, 1.0)[:, None]
            else:
                v /= factor**2
            W = self.cell_loss.slope(v)
            W *= there
            B += self.move(left, W)
        return B

    def move(self, R: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return by how much scores move to fit residuals R with weights W."""
        ridge = np.full(self.V.shape[1], max(RIDGE, float(np.finfo(self.kind).eps)))
        return fitted_scores(R, W, self.axes, ridge)

    def scores_of(self, block: Any) -> np.ndarray:
        """Return robust scores of a block of rows."""
        return self.scores(*self.split(block))

    def residuals(self, block: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the fit ``c + V b``, the residuals, NaN where cells are missing, and bad rows."""
        given = to_numpy(dense(block)).astype(float, copy=False)
        R, there = split(given, self.center)
        fit = self.center + self.scores(R, there) @ self.V.T
        t2, usual = self.losses(self.squares(there * (R + self.center - fit)), there)
        # A bounded loss says how many cells are wrong.
        most = float(self.cell_loss.psi(np.full(1, 1e200))[0]) / self.usual
        return fit, given - fit, t2 > usual * (1 + BAD_CELLS * (most - 1))

    def __call__(self, block: Any) -> Any:
        """Return rows with the fit in holes and, unless the row is bad as a whole, in flagged cells."""
        block = dense(block)
        fit, R, bad = self.residuals(block)
        change = np.isnan(R) | (self.flagged(R) & ~bad[:, None])
        if not change.any():
            return block
        return asarray_like(np.where(change, fit, to_numpy(block)), block)

    def flagged(self, R: np.ndarray) -> np.ndarray:
        """Return which residuals are beyond the quantile CELL."""
        return np.abs(R) > chi2_quantile(CELL, 1) ** 0.5 * self.scales


def improve(
    X: Operator, model: CellModel, B: np.ndarray, mass: np.ndarray
) -> tuple[CellModel, float]:
    """Take one step from ``(c, V, B)``; return the model and the objective before, in one pass.

    B, N x s, is changed in place. The steps are proximal, with a weight of rounding: a column or row
    without weight stays as it was.
    """
    s = model.V.shape[1]

    def part(rows: slice, block: Any) -> tuple[Any, Any, float]:
        R, there = model.split(block)
        R -= B[rows].astype(model.kind) @ model.axes.T
        R *= there
        v = model.squares(R)
        t2, usual = model.losses(v, there)
        value = model.objective(t2, usual, mass[rows] * there.sum(axis=1))
        W = model.cell_loss.slope(v)
        W *= there
        move = model.move(R, W)
        B[rows] += move
        R -= there * (move @ model.axes.T)
        W *= (mass[rows] * model.row_weights(t2, usual)).astype(model.kind)[:, None]
        H = np.concatenate([np.ones((len(R), 1)), B[rows]], axis=1).astype(model.kind)
        pairs = (H[:, :, None] * H[:, None, :]).reshape(len(H), -1)
        A, right = W.T @ pairs, (W * R).T @ H
        return A.astype(float), right.astype(float), value

    A, right, value = X.sum_blocks(part)
    size = np.concatenate([[len(B)], np.einsum("ij,ij->j", B, B)])
    A = A.reshape(-1, s + 1, s + 1) + RIDGE * np.diag(np.maximum(size, 1e-300))
    G = np.linalg.solve(A, right[:, :, None])[:, :, 0]
    V, root = np.linalg.qr(model.V + G[:, 1:])
    B[:] = B @ root.T
    return replace(model, center=model.center + G[:, 0], V=V), value


def converge(
    X: Operator, model: CellModel, B: np.ndarray, mass: np.ndarray, tol: float, steps: int
) -> tuple[CellModel, float, int]:
    """Improve until centre and subspace move by less than ``tol``; return the last move, and steps."""
    spread, move = float(np.sqrt((B * B).mean())) or 1.0, np.inf
    step = 0
    while step < steps:
        step += 1
        new, _ = improve(X, model, B, mass)
        turned = new.V - model.V @ (model.V.T @ new.V)
        shift = new.center - model.center
        shift = shift - new.V @ (new.V.T @ shift)
        move = float(np.linalg.norm(turned, 2) + np.linalg.norm(shift) / spread)
        model = new
        if report_step("cells", move, tol, X.passes) or move <= tol:
            break
    return model, move, step
