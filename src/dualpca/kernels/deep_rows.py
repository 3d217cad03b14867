"""Hidden features of new rows in stacked kernel PCA: the stationarity conditions, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg import Array
from .deep import Expansion

#: The most steps for a row, and the differences that Anderson mixing keeps.
STEPS, MEMORY = 500, 6

#: Hidden features may be this many times as long as the longest at the start.
REACH = 10.0


@dataclass(frozen=True)
class RowEquations:
    """``f_j(u_{j-1}) + c J f_{j+1}(u_j)^T h_{j+1} - m_j = Lambda_j h_j`` for the levels of one row.

    The rows of :class:`dualpca.kernels.deep.DeepProblem` satisfy these with the means m_j of their
    left-hand sides, so that a training row has its own hidden features as a solution. Solutions are
    the stationary points of

        q(h) = sum_j c^(j-1) (<h_j, f_j(u_{j-1}) - m_j> - 1/2 <h_j, Lambda_j h_j>).

    ``above`` holds f_2, f_3, ... and ``multipliers`` the diagonals of Lambda_j.
    """

    above: list[Expansion]
    multipliers: list[Array]
    means: list[Array]
    coupling: float
    unit: float

    def at(self, first: Array, h: list[Array]) -> tuple[Array, list[Array], Array]:
        """Return q, what is left of the equations below the last level, and h of the last level.

        ``first`` is f_1 of the rows. The last level has a closed form, and counts as solved.
        """
        values = [f.phi(self.unit * u) for f, u in zip(self.above, h, strict=True)]
        images = [first, *(f.image(v) for f, v in zip(self.above, values, strict=True))]
        images = [image - mean for image, mean in zip(images, self.means, strict=True)]
        h = [*h, images[-1] / self.multipliers[-1]]
        q, left, weight = np.zeros(len(first)), [], 1.0
        for j, (image, part, size) in enumerate(zip(images, h, self.multipliers, strict=True)):
            q += weight * (np.sum(part * image, axis=1) - np.sum(part**2 * size, axis=1) / 2)
            weight *= self.coupling
            if j < len(self.above):
                pull = self.above[j].gradient(self.unit * part, values[j], h[j + 1])
                left.append(image + self.coupling * self.unit * pull - part * size)
        return q, left, h[-1]

    def solve(
        self, first: Array, start: list[Array], shift: float, limit: float
    ) -> tuple[list[Array], float]:
        """Ascend q from ``start`` for each row until what is left of its equations is below ``limit``.

        Return the hidden features of all levels and the largest length that was left. A step is
        ``h_j + left_j / (|Lambda_j| + shift)`` with Anderson mixing in each row. A row whose q would
        fall stays where it is and forgets what it mixed; if nothing was mixed, its shift is doubled.
        """
        if not start:
            return [self.at(first, [])[2]], 0.0
        widths = np.cumsum([h.shape[1] for h in start])[:-1]
        size = np.concatenate([np.abs(m) for m in self.multipliers[:-1]])
        W, N = np.concatenate(start, axis=1), len(first)
        q, left, last = self._flat(first, W, widths)
        # Polynomials have no largest q, and a row that runs away has no solution near by.
        reach = REACH * float(np.linalg.norm(W, axis=1).max(initial=0.0))
        past = _RowPast(*W.shape)
        shifts = np.full(N, max(shift, 0.1 * float(size.max(initial=0.0))))
        for _ in range(STEPS):
            moving = np.flatnonzero(np.linalg.norm(left, axis=1) > limit)
            if len(moving) == 0:
                break
            steps = left[moving] / (size + shifts[moving, None])
            plain = past.count[moving] == 0
            trial = past.mix(moving, W[moving], W[moving] + steps)
            new_q, new_left, new_last = self._flat(first[moving], trial, widths)
            better = new_q >= q[moving] - 1e-13 * (1 + np.abs(q[moving]))
            better &= np.linalg.norm(trial, axis=1) <= reach
            good = moving[better]
            W[good], q[good] = trial[better], new_q[better]
            left[good], last[good] = new_left[better], new_last[better]
            shifts[moving[plain & ~better]] *= 2
            past.forget(moving[~better])
        remaining = float(np.linalg.norm(left, axis=1).max(initial=0.0))
        return [*np.split(W, widths, axis=1), last], remaining

    def _flat(self, first: Array, W: Array, widths: Array) -> tuple[Array, Array, Array]:
        q, left, last = self.at(first, np.split(W, widths, axis=1))
        return q, np.concatenate(left, axis=1), last


class _RowPast:
    """Anderson mixing (type II; Walker and Ni 2011) in each row by itself."""

    def __init__(self, N: int, S: int) -> None:
        self.residuals, self.images = np.zeros((2, N, MEMORY, S))
        self.last = np.zeros((2, N, S))
        self.count = np.zeros(N, dtype=int)

    def forget(self, rows: Array) -> None:
        self.count[rows] = 0
        self.residuals[rows] = self.images[rows] = 0.0

    def mix(self, rows: Array, W: Array, image: Array) -> Array:
        """Return the next points of some rows at W, whose steps lead to ``image``."""
        residual, known = image - W, self.count[rows] > 0
        slot = (self.count[rows] - 1) % MEMORY
        some = rows[known]
        self.residuals[some, slot[known]] = residual[known] - self.last[0, some]
        self.images[some, slot[known]] = image[known] - self.last[1, some]
        self.last[0, rows], self.last[1, rows] = residual, image
        self.count[rows] += 1
        D = self.residuals[rows]
        gram = D @ D.transpose(0, 2, 1)
        scale = np.trace(gram, axis1=1, axis2=2)[:, None, None]
        ridge = np.where(scale > 0, 1e-10 * scale, 1.0) * np.eye(MEMORY)
        gamma = np.linalg.solve(gram + ridge, D @ residual[:, :, None])
        return image - (self.images[rows].transpose(0, 2, 1) @ gamma)[:, :, 0]
