"""LAPACK's SVD of a dense array, or its eigenvectors of a kernel matrix."""

from __future__ import annotations

import math
from typing import Any

from ...linalg import column_norms, namespace, to_numpy
from ...operators import Operator
from .base import SpectralSolver, eigh_seconds
from .certificate import Certificate, eps_of, rounding_floor
from .gram import Gram
from .ritz import Ritz, SubspaceResult

__all__ = ["Lapack"]

#: With at most this many rows or columns a full SVD takes no time worth saving.
SMALL = 200


class Lapack(SpectralSolver):
    """The full SVD of a dense X; where only ``K = X^T X`` is known, the eigenvectors of K."""

    needs_dense = True

    def __call__(self, X: Operator, s: int, **options: Any) -> SubspaceResult:
        if X.T.implicit:
            return Gram()(X, s, **{**options, "tol": 0.0})
        data = X.todense()
        _, sigma, Vt = namespace(data).linalg.svd(data, full_matrices=False)
        more = min(s + 1, sigma.shape[0])  # one vector beyond s tells the gap
        V, theta = Vt[:more, :].T, sigma[:more] ** 2  # sigma keeps digits that X^T X has not
        ritz = Ritz(V, theta, column_norms(X.sweep(V) - V * theta[None, :])).signed()
        values, residuals = (to_numpy(a).astype(float) for a in (theta, ritz.residuals))
        rounding = eps_of(X.dtype) * values[0]
        certificate = Certificate.of_leading(values, residuals, s, rounding)
        return SubspaceResult(ritz.leading(s), certificate.at_least(rounding_floor(V.dtype)))

    def cost(self, X: Operator, s: int, tol: float, energy: float) -> float:
        return eigh_seconds(X.shape[1], s) if X.T.implicit else math.inf

    def preference(self, X: Operator, s: int) -> str:
        n, large = min(X.shape), max(X.shape)
        if X.T.implicit or large > 20 * n:
            return ""
        if s > n / 2:
            return f"n_components={s} is most of {n}, and squaring X would lose the smallest"
        return f"a full SVD is quick with {n} on the smaller side" if n <= SMALL else ""
