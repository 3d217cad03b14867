"""``minimize G(W) - F(X W)`` and its Toland dual."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ._memory import ensure, itemsize
from .functions.base import Function
from .linalg import Array, orthonormalize
from .operators import Operator, Weighted

__all__ = ["DCProblem"]


@dataclass(frozen=True)
class DCProblem:
    """``minimize G(W) - F(X W)`` (P); its ``dual`` is ``F*(H) - G*(X^T H)`` (D), Proposition 2.3.

    Parameters
    ----------
    G, F : Function
        Closed proper convex functions.
    X : Operator
        The data. On a kernel operator, where W is the implicit Gamma^T A, G must be unitarily
        invariant (Proposition 3.5).

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import DCProblem, as_operator
    >>> from dualpca.functions import HalfSquare, Ball, Lp, Spectral
    >>> X = as_operator(np.diag([3.0, 2.0, 1.0]))
    >>> problem = DCProblem(Spectral(Ball(Lp(np.inf))), HalfSquare(Lp(2)), X)
    >>> problem.objective(np.eye(3)[:, :2])
    -6.5
    >>> problem.dual.objective(np.diag([3.0, 2.0, 1.0])[:, :2])
    -6.5
    """

    G: Function
    F: Function
    X: Operator
    _dual: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for letter, function, operator in (("G", self.G, self.X), ("F", self.F, self.X.T)):
            if operator.implicit and not function.unitarily_invariant:
                raise ValueError(
                    f"{letter}={function!r} is not unitarily invariant, so this problem has no kernel "
                    "version here (Proposition 3.5, kernelizability for unitarily invariant G); "
                    "write it as Spectral(...), or use the data instead of a kernel"
                )

    @cached_property
    def dual(self) -> DCProblem:
        """``minimize F*(H) - G*(X^T H)``; the dual of the dual is this problem."""
        return self._dual or DCProblem(self.F.conjugate, self.G.conjugate, self.X.T, self)

    @cached_property
    def is_dual(self) -> bool:
        """Whether the dual of this problem, not itself, is the one in the rows of the data.

        F is then no function of the rows of XW, but the F of the dual is, as for every dual of the
        catalogue. W is a dual variable: ``tol`` tests its image ``dF(XW)``, and DCA runs on the primal.
        """
        return not self.F.one_pass and self.dual.F.one_pass

    def objective(self, W: Array) -> float:
        """``G(W) - F(XW)``."""
        return self.G(W) - self.F(self.X @ W)

    def pullback(self, W: Array) -> tuple[float, Array]:
        """``F(XW)`` and ``Z = X^T dF(XW)``, in as few passes as F allows."""
        return self.F.pullback(self.X, W)

    def to_dual(self, W: Array) -> Array:
        """``H in dF(XW)``, a dual solution where W is a primal one (Proposition 2.3)."""
        return self.F.subgradient(self.X @ W)

    def to_primal(self, H: Array) -> Array:
        """``W in dG*(X^T H)``, a primal solution where H is a dual one (Proposition 2.3)."""
        return self.G.conjugate.subgradient(self.X.T @ H)

    @cached_property
    def homogeneous(self) -> bool:
        """Whether G and F are homogeneous of different degrees, so that :meth:`scaled` is defined."""
        a, b = self.G.degree, self.F.degree
        return not (a is None or b is None or a == b or math.isinf(b) or self.X.is_distributed)

    def scaled(self, c: float) -> tuple[DCProblem, float, float]:
        """Return the problem of ``cX``, t and k with ``G(tW) - F(X tW) = k (G(W) - F(cX W))``.

        So t W solves this problem where W solves that one.
        """
        a, b = self.G.degree, self.F.degree
        assert a is not None
        assert b is not None
        t = 1.0 if math.isinf(a) else c ** (b / (b - a))
        X = Weighted(self.X, self.X.asarray(np.full(self.X.shape[0], c)))
        return DCProblem(self.G, self.F, X), t, float(np.float64(t / c) ** b)

    def start(self, s: int, random_state: Any = None, *, through_data: bool = False) -> Array:
        """Return a random W with s orthonormal columns, scaled into the domain of G.

        A sparse start may hit only zero columns of X; with ``through_data`` it is multiplied by
        ``X^T X`` first.
        """
        rng = np.random.default_rng(random_state)
        rows = self.X.shape[0] if self.X.implicit else self.X.shape[1]
        what = f"3 iterates of {rows:,} x {s:,} numbers"
        beside = self.X.like
        ensure(3 * rows * s * itemsize(beside), what, "ask for fewer components", beside)
        W = self.X.asarray(rng.standard_normal((rows, s)))
        W = orthonormalize(self.X.T @ W if self.X.implicit else W)
        W = self.X.sweep(W) if through_data else W
        if self.G(W) == np.inf and self.G.has_prox:
            return self.G.prox(W, 1.0)
        while self.G(W) == np.inf:
            W = W / 2
        return W
