"""Algorithms 1 to 4 and the six kernelised iterations of Table 4, line by line.

Each is an update ``H, KH -> next H, objective at H``: the decomposition that makes the next iterate also
gives the objective of its formulation, as the paper has it ("we reuse information from the SVDs/EIGs to
cheaply evaluate the objective value"). Algorithms 1 and 3 are the same with X^T X in the place of K. The
tests hold them against the library's one DCA loop, iterate by iterate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Update = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float]]


def _svd(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.linalg.svd(Y, full_matrices=False)


def _eig(H: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors and eigenvalues of ``H^T K H``; rounding may leave the latter below zero."""
    S = H.T @ Y
    lam, V = np.linalg.eigh((S + S.T) / 2)
    return V, np.maximum(lam, np.finfo(float).tiny)


def _polar(H: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, float]:
    """Algorithms 1 and 2, row (m): DCA on (g), ``-1/2 tr(H^T K H)``."""
    U, _, Vt = _svd(Y)
    return U @ Vt, -0.5 * float(np.vdot(H, Y))


def _cube_root(H: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, float]:
    """Algorithm 3: DCA on the Hoelder primal, ``1/4 ||H||_{S_4}^4 - 1/2 tr(H^T K H)``."""
    U, sigma, Vt = _svd(Y)
    value = 0.25 * float(np.linalg.norm(H.T @ H) ** 2) - 0.5 * float(np.vdot(H, Y))
    return (U * np.cbrt(sigma)) @ Vt, value


def _holder_dual(H: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, float]:
    """Algorithm 4: DCA on the Hoelder dual, ``1/2 ||H||^2 - 3/4 ||X^T H||_{4/3}^{4/3}``."""
    V, lam = _eig(H, Y)
    value = 0.5 * float(np.vdot(H, H)) - 0.75 * float(np.sum(lam ** (2 / 3)))
    return Y @ ((V * lam ** (-1 / 3)) @ V.T), value


def _row_l(H: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, float]:
    """Row (l): DCA on (m), ``1/2 ||H||^2 - ||X^T H||_{S_1}``."""
    V, lam = _eig(H, Y)
    value = 0.5 * float(np.vdot(H, H)) - float(np.sum(np.sqrt(lam)))
    return Y @ ((V * lam**-0.5) @ V.T), value


def _row_n(H: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, float]:
    """Row (n): DCA on (o), ``-||X^T H||_{S_1}`` in the unit ball of ``S_2``."""
    V, lam = _eig(H, Y)
    new = Y @ ((V * lam**-0.5) @ V.T)
    return new / np.linalg.norm(new), -float(np.sum(np.sqrt(lam)))


def _row_o(H: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, float]:
    """Row (o): DCA on the transposed (n), ``-sqrt(tr(H^T K H))`` in the unit ball of ``S_inf``."""
    root = math.sqrt(float(np.vdot(H, Y)))
    U, _, Vt = _svd(Y / root)
    return U @ Vt, -root


def _row_p(H: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, float]:
    """Row (p): DCA on (q), ``-1/2 ||X^T H||_{S_1}^2`` in the unit ball of ``S_2``."""
    V, lam = _eig(H, Y)
    trace = float(np.sum(np.sqrt(lam)))
    new = trace * Y @ ((V * lam**-0.5) @ V.T)
    return new / np.linalg.norm(new), -0.5 * trace**2


def _row_q(H: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, float]:
    """Row (q): DCA on the transposed (p), ``1/2 ||H||_{S_inf}^2 - sqrt(tr(H^T K H))``.

    All singular values of its iterates are equal, so that ``||H||_{S_inf}^2 = ||H||^2 / s``.
    """
    root = math.sqrt(float(np.vdot(H, Y)))
    U, sigma, Vt = _svd(Y)
    value = 0.5 * float(np.vdot(H, H)) / H.shape[1] - root
    return (float(np.sum(sigma)) / root * U) @ Vt, value


@dataclass(frozen=True)
class Iteration:
    """An update, the letter under which ``optimal_value`` has its optimum, whether ||H||_{S_2} = 1."""

    update: Update
    letter: str
    unit: bool = False

    def __call__(
        self, K: np.ndarray, H: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        """H, ``K H`` and the objective at H, from the start on."""
        H = H / np.linalg.norm(H) if self.unit else H
        while True:
            Y = K @ H
            following, value = self.update(H, Y)
            yield H, Y, value
            H = following


ITERATIONS = {
    "Algorithm 1": Iteration(_polar, "l"),
    "Algorithm 2": Iteration(_polar, "l"),
    "Algorithm 3": Iteration(_cube_root, "k"),
    "Algorithm 4": Iteration(_holder_dual, "k"),
    "Iteration (l)": Iteration(_row_l, "l"),
    "Iteration (m)": Iteration(_polar, "m"),
    "Iteration (n)": Iteration(_row_n, "n", unit=True),
    "Iteration (o)": Iteration(_row_o, "o"),
    "Iteration (p)": Iteration(_row_p, "p", unit=True),
    "Iteration (q)": Iteration(_row_q, "q"),
}
