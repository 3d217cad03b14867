"""``X^T X`` as far as sparse components need it: all of it, or on the features that may be active."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..linalg import to_numpy
from ..operators import Operator
from .components import Found, Rule, images, refitted, sparse_components
from .images import lengths, unit
from .quadratic import Quadratic

#: Up to so many features the whole matrix is formed; beyond, up to so many active ones.
ALL, ACTIVE = 1500, 4000

#: Candidates kept for each nonzero asked for.
SPARE = 3

#: Rounds of solving on the active features and looking at all of them.
ROUNDS = 20


class Features:
    """The products of the features of X with one another, and sparse components of them.

    With many features, components are sought among *active* ones, the largest in rough principal
    axes and those of largest variance. One pass over the data then takes a DCA step with all
    features: where it stays among the active ones, the components are fixed points of DCA on all of
    X; else what it reached joins them, and the search goes on from there. Where too many features
    would be active, each step is a pass over the data. With penalties, the longest feature that the
    thresholds after the first component are relative to is that of the active ones.
    """

    def __init__(self, X: Operator) -> None:
        self.X, d = X, X.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):  # whoever asked sees infinite variances
            whole = to_numpy(X.gram()) if d <= ALL else None
            self._whole = whole
            self.variances = X.column_squares() if whole is None else np.diag(whole)

    def times(self, V: np.ndarray) -> np.ndarray:
        """``X^T X V``."""
        if self._whole is not None:
            return self._whole @ V
        return to_numpy(self.X.sweep(self.X.asarray(V))).astype(float, copy=False)

    def solve(
        self, rule: Rule, widest: int, warm: np.ndarray | None = None
    ) -> tuple[Found, np.ndarray]:
        """Components of length 1 by the rule, and ``X^T X W``.

        They have at most ``widest`` nonzeros each, where that is not 0.
        """
        whole = self._whole
        if whole is not None:
            return self._directly(lambda: Quadratic.of(whole), rule, warm)
        d, s = self.X.shape[1], rule.n_components
        count = max(SPARE * widest, ALL // (s + 1))
        active = self._candidates(s, count, rule.seed) if count <= ACTIVE else np.arange(d)
        if warm is not None:
            active = np.union1d(active, np.flatnonzero(warm.any(axis=1)))
        for _ in range(ROUNDS):
            if len(active) > ACTIVE:
                break
            part = self.X.take_columns(active)
            C = to_numpy(part.gram())
            found = sparse_components(Quadratic.of(C), rule, None if warm is None else warm[active])
            warm = np.zeros((d, s))
            warm[active] = found.W
            CW = to_numpy(self.X.rmatmul(part @ self.X.asarray(found.W))).astype(float, copy=False)
            Z = images(rule, warm, CW)
            wanted = np.flatnonzero(found.step(Z).any(axis=1))
            if np.isin(wanted, active).all():
                W = np.zeros((d, s))
                W[active] = unit(refitted(Quadratic.of(C), rule, found.W))
                return replace(found, W=W), self.times(W) if rule.refit else CW / lengths(warm)
            active = np.union1d(active, np.union1d(wanted, _largest(Z, max(1, widest))))
        return self._directly(self._implicit, rule, warm)

    def _directly(
        self, make: Callable[[], Quadratic], rule: Rule, warm: np.ndarray | None
    ) -> tuple[Found, np.ndarray]:
        found = sparse_components(make(), rule, warm)
        W = unit(refitted(make(), rule, found.W))
        return replace(found, W=W), self.times(W)

    def _candidates(self, s: int, count: int, seed: int) -> np.ndarray:
        """The largest features in rough principal axes, and those of largest variance."""
        Z = self.times(np.random.default_rng(seed).standard_normal((self.X.shape[1], s + 4)))
        axes = Z @ np.linalg.svd(Z, full_matrices=False)[2].T
        return _largest(np.column_stack([axes[:, :s], self.variances]), count)

    def _implicit(self) -> Quadratic:
        def block(S: np.ndarray) -> np.ndarray:
            return to_numpy(self.X.take_columns(S).gram())

        return Quadratic(self.times, block, self.variances)


def _largest(Z: np.ndarray, count: int) -> np.ndarray:
    """The features with the ``count`` largest magnitudes in any column."""
    if count >= len(Z):
        return np.arange(len(Z))
    return np.unique(np.argpartition(np.abs(Z), len(Z) - count, axis=0)[len(Z) - count :])
