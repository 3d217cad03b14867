"""The parameters of sparse PCA, and the DC problem that they say."""

from __future__ import annotations

from dataclasses import dataclass

from ..formulations import block_sparse, gpower, sparse
from ..operators import Operator
from ..problem import DCProblem


@dataclass(frozen=True)
class SparseOptions:
    """The parameters of :class:`dualpca.SparsePCA`; ``n_nonzero`` has a number for each component."""

    n_nonzero: tuple[int, ...]
    method: str
    deflation: str
    penalty: str
    alpha: float
    positive: bool
    n_starts: int | None
    tol: float
    max_iter: int
    certify: bool
    max_nodes: int
    seed: int

    @property
    def shrinks(self) -> bool:
        """Whether a penalty shrinks the loadings, which are then refitted on their support."""
        return self.penalty != "cardinality"

    def objective(self, X: Operator, j: int | None, longest: float) -> DCProblem:
        """Return the problem of component j, or of all components together if j is None.

        ``longest`` is the largest length of a column of X, which penalties are relative to.
        """
        if self.shrinks:
            gamma = self.alpha * (longest if self.penalty == "l1" else longest**2)
            return gpower(X, gamma, self.penalty, self.positive).dual
        if j is None:
            return block_sparse(X, self.n_nonzero, self.positive).dual
        return sparse(X, self.n_nonzero[j], self.positive)
