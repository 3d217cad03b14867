"""Multiples of functions, and sums with a square, whose conjugate is as cheap as a prox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..linalg import Array, inner, norm
from .base import Function, HalfSquare, Power, Spectral, derived
from .entries import check_number
from .norms import Lp


class _OfFunction(Function):
    """A function made of another function f, with the same invariances."""

    f: Function

    unitarily_invariant = derived("f.unitarily_invariant")
    rotation_invariant = derived("f.rotation_invariant")


@dataclass(frozen=True)
class Scaled(_OfFunction):
    """``c f(W)``, c > 0; the conjugate is ``c f*(Z/c)``.

    With ``inside`` it is ``c f(W/c)``, whose conjugate is ``c f*(Z)``.
    """

    f: Function
    c: float
    inside: bool = False

    def __post_init__(self) -> None:
        check_number("c", self.c)

    one_pass = derived(lambda g: g.f.one_pass and not g.inside)
    indicator = derived("f.indicator")
    has_prox = derived("f.has_prox")
    conjugate = derived(lambda g: Scaled(g.f.conjugate, g.c, not g.inside))

    def __call__(self, W: Array) -> float:
        return self.c * self.f(W / self.c if self.inside else W)

    def subgradient(self, W: Array) -> Array:
        return self.f.subgradient(W / self.c) if self.inside else self.c * self.f.subgradient(W)

    def prox(self, W: Array, gamma: float) -> Array:
        if self.inside:
            return self.c * self.f.prox(W / self.c, gamma / self.c)
        return self.f.prox(W, gamma * self.c)

    def pullback(self, X: Any, W: Array) -> tuple[float, Array]:
        if self.inside:
            return super().pullback(X, W)
        value, Z = self.f.pullback(X, W)
        return self.c * value, self.c * Z


@dataclass(frozen=True)
class PlusSquare(_OfFunction):
    """``f(W) + c/2 ||W||_F^2``, c > 0; the conjugate is the Moreau envelope of f*.

    With ``Spectral(PlusSquare(Power(4), c))`` as the G of (k), c is subtracted from the eigenvalues of
    ``X^T X`` and those below c are dropped: this chooses the rank.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import DCProblem, as_operator, solve
    >>> from dualpca.functions import HalfSquare, Lp, Power, Spectral
    >>> G = Spectral(Power(4)) + 2.0 * Spectral(Power(2))
    >>> X = as_operator(np.diag([3.0, 2.0, 1.0]))
    >>> W = solve(DCProblem(G, HalfSquare(Lp(2)), X), s=3, tol=1e-8, random_state=0).W
    >>> np.abs(np.linalg.eigvalsh(W @ W.T).round(3))
    array([0., 2., 7.])
    """

    f: Function
    c: float

    conjugate = derived(lambda g: Envelope(g.f.conjugate, g.c))

    def __post_init__(self) -> None:
        check_number("c", self.c)
        if not self.f.has_prox:
            raise TypeError(
                f"{self.f!r} has no proximal map here, which the conjugate of this sum needs; use a "
                "function with has_prox"
            )

    def __call__(self, W: Array) -> float:
        return self.f(W) + 0.5 * self.c * norm(W) ** 2

    def subgradient(self, W: Array) -> Array:
        return self.f.subgradient(W) + self.c * W

    def prox(self, W: Array, gamma: float) -> Array:
        shrink = 1 / (1 + gamma * self.c)
        return self.f.prox(shrink * W, shrink * gamma)


@dataclass(frozen=True)
class Envelope(_OfFunction):
    """``min_U f(U) + ||W - U||_F^2 / (2c)``, the Moreau envelope; the conjugate of f* + c/2 ||.||^2."""

    f: Function
    c: float

    conjugate = derived(lambda g: PlusSquare(g.f.conjugate, g.c))

    def __call__(self, W: Array) -> float:
        return self.value_and_subgradient(W)[0]

    def subgradient(self, W: Array) -> Array:
        # Moreau's identity loses no digits if c is small.
        return self.f.conjugate.prox(W / self.c, 1 / self.c)

    def value_and_subgradient(self, W: Array) -> tuple[float, Array]:
        U = self.subgradient(W)
        return inner(U, W) - self.f.conjugate(U) - 0.5 * self.c * norm(U) ** 2, U

    def prox(self, W: Array, gamma: float) -> Array:
        total = self.c + gamma
        return (self.c / total) * W + (gamma / total) * self.f.prox(W, total)


def curvature(f: Function) -> float | None:
    """Return c if f is ``c/2 ||W||_F^2``, else None."""
    if isinstance(f, Scaled) and (c := curvature(f.f)) is not None:
        return c / f.c if f.inside else c * f.c
    if isinstance(f, Spectral):
        return curvature(f.g)
    return 1.0 if f in (Power(2), HalfSquare(Lp(2))) else None


def add(f: Function, g: Function) -> Function:
    """Return ``f + g`` if one of them is a multiple of the squared Frobenius norm."""
    if isinstance(f, Spectral) and isinstance(g, Spectral):
        return Spectral(add(f.g, g.g))
    for one, other in ((f, g), (g, f)):
        c = curvature(other)
        if c is not None:
            return PlusSquare(one, c)
    raise TypeError(
        f"{f!r} + {g!r} has no cheap conjugate; one of them must be a multiple of Power(2) or "
        "HalfSquare(Lp(2))"
    )
