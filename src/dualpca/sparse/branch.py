"""Branch and bound: the support of k features with the largest eigenvalue of C, and a proof."""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np

from ..linalg import Array
from ..progress import phase, report_step
from .bounds import (
    bound_above,
    forced_bound,
    largest_eigenvalue,
    threshold_bound,
    thresholded,
    upper_bound,
)

#: The gap is closed where it is below this share of the bound.
CLOSED = 1e-9


def best_support(C: Array, k: int, w: Array, max_nodes: int) -> tuple[Array, float, int]:
    """Return the k-sparse w with most variance, a bound on it, and the number of nodes.

    A node has features that supports must hold, and others that they may. It is split by the feature
    with the largest weight in the leading eigenvector of the thresholded matrix, the node with the
    largest bound first, until no bound exceeds the best support known, which is that of w at first. A
    listener may stop it. The bound is then that of the nodes that are left.
    """
    search = _Search(C, k, S := np.flatnonzero(w))
    with phase("certificate"):
        while search.open and search.nodes < max_nodes:
            search.split()
            told = {"quantity": "shortfall", "shortfall": 1 - search.level / search.upper}
            if report_step("branch and bound", np.nan, CLOSED, search.nodes, **told):
                break
    if search.S is not S:
        w = np.zeros_like(w)
        w[search.S, 0] = np.linalg.eigh(search.block(search.S))[1][:, -1]
    return w, search.upper, search.nodes


class _Search:
    """The nodes that may hold a better support than S, which has the eigenvalue ``level``."""

    def __init__(self, C: Array, k: int, S: Array) -> None:
        self.C, self.k, self.S, self.level = C, k, S, largest_eigenvalue(C[np.ix_(S, S)])
        self.nodes, self.done, self.order = 0, 0.0, count()
        self.open: list[tuple[float, int, Array, Array]] = []
        bound, features = bound_above(C, k, self.level, np.inf)
        self._add(S[:0], features, bound)

    @property
    def upper(self) -> float:
        """The largest bound of a node that was left or is open."""
        return max(self.level, self.done, -self.open[0][0] if self.open else 0.0)

    def split(self) -> None:
        """Replace the node with the largest bound by two, with and without one of its features."""
        bound, _, held, free = heapq.heappop(self.open)
        self.nodes += 1
        features = np.concatenate([held, free])
        B = self.block(features)
        weights = np.abs(np.linalg.eigh(thresholded(B, threshold_bound(B, self.k)[1]))[1][:, -1])
        ranked = free[np.argsort(-weights[len(held) :], kind="stable")]
        self._try(np.concatenate([held, ranked[: self.k - len(held)]]))
        self._add(np.append(held, ranked[0]), ranked[1:], -bound)
        self._add(held, ranked[1:], -bound)
        while self.open and self._is_done(-self.open[0][0]):
            self.done = max(self.done, -heapq.heappop(self.open)[0])

    def _add(self, held: Array, free: Array, bound: float) -> None:
        """Add the supports of k features that have all of ``held`` and others of ``free``."""
        left = self.k - len(held)
        if left == 0 or len(free) <= left:
            self._try(np.concatenate([held, free[:left]]))
            return
        bound = min(bound, upper_bound(self.block(np.concatenate([held, free])), self.k, np.inf)[0])
        if len(held):
            a, (u, _) = (
                largest_eigenvalue(self.block(held)),
                upper_bound(self.block(free), left, np.inf),
            )
            coupling = np.sort(np.hypot.reduce(self.C[np.ix_(held, free)], axis=0))[-left:]
            bound = min(bound, float(forced_bound(a, np.hypot.reduce(coupling), u)))
        if self._is_done(bound):
            self.done = max(self.done, bound)
        else:
            heapq.heappush(self.open, (-bound, next(self.order), held, free))

    def _is_done(self, bound: float) -> bool:
        return bound <= self.level * (1 + CLOSED)

    def _try(self, S: Array) -> None:
        """Keep the support S if its variance is the largest so far."""
        value = largest_eigenvalue(self.block(S))
        if value > self.level:
            self.S, self.level = S, value

    def block(self, S: Array) -> Array:
        return self.C[np.ix_(S, S)]
