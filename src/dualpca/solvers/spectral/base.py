"""The protocol of spectral solvers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from ...linalg import Array, on_gpu
from ...operators import Operator
from .ritz import SubspaceResult


class SpectralSolver(ABC):
    """Computes the s leading right singular vectors of an operator.

    To add one, write a class that is called like this and enter it in ``SPECTRAL``; with a cost,
    ``solver="auto"`` may choose it.
    """

    #: whether it iterates to ``tol``; else it is direct, and rounding alone limits its accuracy
    iterative: ClassVar[bool] = False

    #: whether it decomposes X as one dense array in memory
    needs_dense: ClassVar[bool] = False

    @abstractmethod
    def __call__(
        self,
        X: Operator,
        s: int,
        *,
        tol: float,
        seed: int,
        max_passes: int = 1000,
        start: Array | None = None,
        energy: float = math.inf,
    ) -> SubspaceResult:
        """Return s Ritz pairs of ``X^T X`` with a residual of at most ``tol``, and their certificate.

        ``start`` has columns near the answer, which a solver may begin from. ``energy`` is
        ``||X||_F^2``, which allows passes in less precision and makes certificates cheaper.
        """

    def cost(self, X: Operator, s: int, tol: float, energy: float) -> float:
        """Return the estimated seconds of a call; infinity where the solver is not to be chosen."""
        return math.inf

    def preference(self, X: Operator, s: int) -> str:
        """Return why this solver is best whatever the others cost; "" where costs decide."""
        return ""


def is_explicit_on_gpu(X: Operator) -> bool:
    """Whether X has explicit rows and columns on a GPU."""
    return not (X.implicit or X.T.implicit) and on_gpu(X.like)


def narrow_side(X: Operator) -> Operator:
    """Return X or X^T, whichever has fewer columns."""
    return X.T if X.shape[1] > X.shape[0] else X
