"""Closed proper convex functions: value, one subgradient, conjugate, prox.

A *norm* also knows its dual norm, from which its ball, half square and conjugates follow. A new
unitarily invariant objective is one small :class:`Norm` inside :class:`Spectral`; see
:class:`dualpca.functions.KyFan`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Any

from ..linalg import Array, inner, map_singular_values, namespace, norm, singular_values


def derived(rule: str | Callable[[Any], Any]) -> Any:
    """Return a property: another attribute such as ``"norm.one_pass"``, or a function of the object."""
    return property(attrgetter(rule) if isinstance(rule, str) else rule)


class Function(ABC):
    """A closed proper convex function on matrices."""

    #: whether f(UWV) = f(W) for all orthogonal U, V: what Proposition 3.5 asks of G
    unitarily_invariant: bool = False
    #: whether f(WV) = f(W) for all orthogonal V, so that columns matter by their span only
    rotation_invariant = derived(lambda f: f.unitarily_invariant)
    #: whether ``X^T df(XW)`` takes one pass over the rows of X
    one_pass: bool = False
    #: whether f is 0 on its domain, and so at every point that :meth:`prox` returns
    indicator: bool = False
    #: whether f is the indicator of ``||W||_{S_inf} <= 1``, whose extreme points are orthonormal
    known_by_span: bool = False
    #: the a with ``f(tW) = t^a f(W)`` for all t > 0: inf for an indicator, None if there is none
    degree: float | None = None
    #: whether :meth:`prox` has a closed form or a safe scalar iteration here
    has_prox: bool = True

    @abstractmethod
    def __call__(self, W: Array) -> float:
        """Return f(W)."""

    @abstractmethod
    def subgradient(self, W: Array) -> Array:
        """Return one element of the subdifferential at W."""

    @property
    @abstractmethod
    def conjugate(self) -> Function:
        """The convex conjugate f*."""

    def prox(self, W: Array, gamma: float) -> Array:
        """``argmin_U f(U) + ||U - W||^2 / (2 gamma)``; by Moreau's identity unless overridden."""
        if not self.has_prox:
            raise TypeError(f"{self!r} has no proximal map here; use the 'dca' solver")
        return W - gamma * self.conjugate.prox(W / gamma, 1 / gamma)

    def pullback(self, X: Any, W: Array) -> tuple[float, Array]:
        """``F(XW)`` and ``X^T dF(XW)``, in one pass over X where :attr:`one_pass` says so."""
        value, H = self.value_and_subgradient(X @ W)
        return value, X.T @ H

    def value_and_subgradient(self, W: Array) -> tuple[float, Array]:
        """Return both at once, where one decomposition serves them."""
        return self(W), self.subgradient(W)

    def __add__(self, other: Function) -> Function:
        from .sums import add

        return add(self, other) if isinstance(other, Function) else NotImplemented

    def __rmul__(self, c: float) -> Function:
        from .sums import Scaled

        return Scaled(self, c)


class Norm(Function):
    """A norm: closed under duality; its conjugate is the indicator of the dual unit ball."""

    @property
    @abstractmethod
    def dual(self) -> Norm:
        """The dual norm."""

    #: whether this is ``max |W_ij|``
    largest_entry: bool = False
    #: whether :meth:`project` is available
    has_projection: bool = False
    #: whether :meth:`half_square_prox` is available
    has_half_square_prox: bool = False

    degree = 1.0
    has_prox = derived("dual.has_projection")
    conjugate = derived(lambda norm: Ball(norm.dual))

    def project(self, W: Array) -> Array:
        """Return the nearest point of the unit ball."""
        raise TypeError(f"{self!r} has no projection onto its unit ball here")

    def half_square_prox(self, W: Array, gamma: float) -> Array:
        """``argmin_U gamma/2 ||U||^2 + 1/2 ||U - W||_F^2``."""
        raise TypeError(f"HalfSquare({self!r}) has no proximal map here; use the 'dca' solver")


@dataclass(frozen=True)
class Ball(Function):
    """The indicator of ``{W : ||W|| <= 1}`` (eq. (2) and (5)); its conjugate is the dual norm.

    Feasible means up to rounding; the subgradient is 0, an element of every normal cone.
    """

    norm: Norm

    indicator, degree = True, math.inf
    unitarily_invariant = derived("norm.unitarily_invariant")
    has_prox = derived("norm.has_projection")
    conjugate = derived(lambda f: f.norm.dual)

    def __call__(self, W: Array) -> float:
        slack = 1e-9 if "64" in str(W.dtype) else 1e-4
        return 0.0 if self.norm(W) <= 1 + slack else math.inf

    def subgradient(self, W: Array) -> Array:
        return W * 0.0

    def prox(self, W: Array, gamma: float) -> Array:
        return self.norm.project(W)


@dataclass(frozen=True)
class HalfSquare(Function):
    """``1/2 ||W||^2`` (eq. (1) and (7)); its conjugate is half the square of the dual norm."""

    norm: Norm

    degree = 2.0
    unitarily_invariant = derived("norm.unitarily_invariant")
    one_pass = derived("norm.one_pass")
    has_prox = derived("norm.has_half_square_prox")
    conjugate = derived(lambda f: HalfSquare(f.norm.dual))

    def __call__(self, W: Array) -> float:
        return 0.5 * self.norm(W) ** 2

    def subgradient(self, W: Array) -> Array:
        if self.norm.one_pass:
            return W
        value, H = self.norm.value_and_subgradient(W)
        return value * H

    def prox(self, W: Array, gamma: float) -> Array:
        return self.norm.half_square_prox(W, gamma)

    def pullback(self, X: Any, W: Array) -> tuple[float, Array]:
        if not self.one_pass:
            return super().pullback(X, W)
        Z = X.sweep(W)
        return 0.5 * max(inner(W, Z), 0.0), Z


@dataclass(frozen=True)
class Spectral(Function):
    """``g(sigma(W))`` for an absolutely symmetric g: Fact A.4 and Proposition 3.10 (Lewis).

    The conjugate is ``g* o sigma`` (Fact A.5). At a zero singular value the subgradient of g is taken
    as the limit from above, so that a rank-deficient W is completed instead of staying so.
    """

    g: Function

    unitarily_invariant = True
    indicator = derived("g.indicator")
    known_by_span = derived(lambda f: isinstance(f.g, Ball) and f.g.norm.largest_entry)
    degree = derived("g.degree")
    has_prox = derived("g.has_prox")
    conjugate = derived(lambda f: Spectral(f.g.conjugate))

    def __call__(self, W: Array) -> float:
        return self.g(singular_values(W))

    def _outer_subgradient(self, sigma: Array) -> Array:
        xp = namespace(sigma)
        tiny = float(xp.finfo(sigma.dtype).smallest_normal)
        return self.g.subgradient(xp.clip(sigma, tiny, None))

    def subgradient(self, W: Array) -> Array:
        return map_singular_values(W, self._outer_subgradient)[0]

    def prox(self, W: Array, gamma: float) -> Array:
        return map_singular_values(W, lambda sigma: self.g.prox(sigma, gamma))[0]

    def value_and_subgradient(self, W: Array) -> tuple[float, Array]:
        H, sigma = map_singular_values(W, self._outer_subgradient)
        return self.g(sigma), H


def conjugate_exponent(p: Fraction | float) -> Fraction | float:
    """Return q with 1/p + 1/q = 1, exactly."""
    if p == 1:
        return math.inf
    return Fraction(1) if p == math.inf else p / (p - 1)


def exponent(p: Any) -> Fraction | float:
    """Return p as an exact fraction, or as an infinite float."""
    if p in (math.inf, -math.inf):
        return float(p)
    try:
        return Fraction(p)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise TypeError(
            f"p={p!r} is not an exponent; give a number such as 4, '4/3' or inf"
        ) from error


@dataclass(frozen=True)
class Power(Function):
    """``1/p ||W||_p^p``, p > 1 (eq. (3) and (8)); its conjugate is Power(q), 1/p + 1/q = 1 exactly."""

    p: Any = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", exponent(self.p))
        if not 1 < self.p < math.inf:
            raise ValueError(f"p={self.p} is outside (1, inf); use Lp or Ball for the end points")

    unitarily_invariant = derived(lambda f: f.p == 2)
    degree = derived(lambda f: float(f.p))
    conjugate = derived(lambda f: Power(conjugate_exponent(f.p)))

    def __call__(self, W: Array) -> float:
        if self.p == 2:
            return 0.5 * norm(W) ** 2
        xp = namespace(W)
        return float(xp.sum(xp.abs(W) ** float(self.p))) / float(self.p)

    def subgradient(self, W: Array) -> Array:
        if self.p == 2:
            return W
        xp = namespace(W)
        return xp.sign(W) * xp.abs(W) ** float(self.p - 1)

    def prox(self, W: Array, gamma: float) -> Array:
        if self.p == 2:
            return W / (1 + gamma)
        if self.p < 2:  # the gradient is steep at 0; the conjugate's is not
            return super().prox(W, gamma)
        xp = namespace(W)
        v, q = xp.abs(W), float(self.p - 1)
        # t + gamma t^q = v is convex: Newton descends to the root from any point above it.
        start = xp.minimum(v, (v / gamma) ** (1 / q))
        t = newton(start, lambda t: t + gamma * t**q - v, lambda t: 1 + gamma * q * t ** (q - 1))
        return xp.sign(W) * t


def newton(t: Array, f: Callable[[Array], Array], slope: Callable[[Array], Array]) -> Array:
    """Find a root for each entry by Newton, from the side where a monotone f cannot overshoot."""
    xp = namespace(t)
    for _ in range(100):
        step = f(t) / slope(t)
        t = xp.clip(t - step, 0.0, None)
        if float(xp.max(xp.abs(step))) <= 4 * xp.finfo(t.dtype).eps * float(xp.max(t)):
            break
    return t
