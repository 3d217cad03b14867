"""Sparse components of X from ``X^T X``: all of it, or on the columns that may be active."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..linalg import to_numpy
from ..operators import Operator
from .bounds import component_bounds
from .components import SparseResult, fixed_point_target, refitted, sparse_components
from .deflation import DeflatedGram, gaussian, lengths, unit
from .options import SparseOptions

#: The largest number of features for which X^T X is formed, and of active ones otherwise.
ALL, ACTIVE = 1500, 4000

#: Candidates for each nonzero that is asked for.
SPARE = 3

#: The most rounds of a search among the active features and a check on all of them.
ROUNDS = 20


class ActiveColumns:
    """The columns of X, of which few are active at a time, and sparse components of X.

    With many features, components are sought among *active* ones: the largest in rough principal axes
    and those of largest variance. One pass over the data then takes a DCA step with all features. If
    it stays among the active ones, the components are fixed points of DCA on all of X; otherwise the
    features that it reached become active, and the search continues from there. If too many features
    would be active, each step is a pass over the data. Penalties after the first component are
    relative to the longest active column.
    """

    def __init__(self, X: Operator) -> None:
        self.X = X
        with np.errstate(over="ignore", invalid="ignore"):  # callers check for infinite variances
            self.C = DeflatedGram(X, formed=X.shape[1] <= ALL)
        self._products: tuple[np.ndarray, np.ndarray] | None = None

    def solve(
        self, options: SparseOptions, warm: np.ndarray | None = None
    ) -> tuple[SparseResult, np.ndarray]:
        """Return components of length 1, and ``X^T X W``."""
        d, s = self.X.shape[1], len(options.n_nonzero)
        widest = 0 if options.shrinks else max(options.n_nonzero)
        count = max(SPARE * widest, ALL // (s + 1))
        is_small = d <= ALL
        keep_all = is_small or count > ACTIVE
        active = np.arange(d) if keep_all else self._candidates(s, count)
        if warm is not None:
            active = np.union1d(active, np.flatnonzero(warm.any(axis=1)))
        for _ in range(0 if is_small else ROUNDS):
            if len(active) > ACTIVE:
                break
            part = DeflatedGram(self.X.take_columns(active))
            result = sparse_components(part, options, None if warm is None else warm[active])
            warm = np.zeros((d, s))
            warm[active] = result.W
            scores = part.X @ self.X.asarray(result.W)
            CW = to_numpy(self.X.rmatmul(scores)).astype(float, copy=False)
            Z = fixed_point_target(self.C, options, warm, CW)
            reached = np.flatnonzero(result.step(Z).any(axis=1))
            if np.isin(reached, active).all():
                W = np.zeros((d, s))
                W[active] = unit(refitted(part, options, result.W))
                return replace(result, W=W), self.C @ W if options.shrinks else CW / lengths(warm)
            active = np.union1d(active, np.union1d(reached, _largest(Z, max(1, widest))))
        result = sparse_components(self.C, options, warm)
        W = unit(refitted(self.C, options, result.W))
        return replace(result, W=W), self.C @ W

    def bounds(
        self, options: SparseOptions, result: SparseResult, CW: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the variance of each component in what those before it leave, and a bound on it.

        The bound holds for as many nonzeros as were asked for, or as a penalty left.
        """
        W, counts = result.W, options.n_nonzero
        if options.shrinks:
            counts = tuple(np.maximum(np.count_nonzero(W, axis=0), 1).tolist())
        sketch = self._sketch(len(counts))
        values, bounds = component_bounds(self.C, counts, options.deflation, W, CW, sketch)
        bounds = bounds if result.bounds is None else np.minimum(bounds, result.bounds)
        return values, np.maximum(values, bounds)

    def _sketch(self, s: int) -> tuple[np.ndarray, np.ndarray]:
        """Return random vectors, and the product of C with them, which costs one pass once."""
        if self._products is None:
            V = gaussian(self.X.shape[1], s)
            self._products = V, self.C @ V
        return self._products

    def _candidates(self, s: int, count: int) -> np.ndarray:
        """Return the largest features in rough principal axes, and those of largest variance."""
        Z = self._sketch(s)[1]
        axes = Z @ np.linalg.svd(Z, full_matrices=False)[2].T
        return _largest(np.column_stack([axes[:, :s], self.C.variances]), count)


def _largest(Z: np.ndarray, count: int) -> np.ndarray:
    """Return the features with the ``count`` largest magnitudes in any column."""
    if count >= len(Z):
        return np.arange(len(Z))
    return np.unique(np.argpartition(np.abs(Z), len(Z) - count, axis=0)[len(Z) - count :])
