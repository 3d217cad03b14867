"""Proximal gradient and ZeroFPR on ``f + G`` with ``f(W) = -F(XW)``, gradient ``-Z``.

They behave as the reference implementation that the paper used (ProximalAlgorithms.jl 0.7): the same
first step, the same adaptive halving, the same line search and the same stopping quantity.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from ..linalg import Array, eps, inner, is_implicit, max_abs, namespace, norm
from ..problem import DCProblem
from .base import TINY, Iterate, Point, first

#: After so many halvings of the first shift, F is taken to be infinite everywhere.
HALVINGS = 64


def _start(problem: DCProblem, W: Array) -> Point:
    if not problem.G.has_prox:
        raise TypeError(f"{problem.G!r} has no proximal map here; use the 'dca' solver")
    point = first(problem, W)
    if math.inf == point.F:  # W may lie outside the domain of a row function
        point = first(problem, problem.G.prox(W, 1.0))
    return point


def _first_step(point: Point) -> float:
    """Return 1/L0, ``L0 = ||grad f(W + 1) - grad f(W)||_F / ||1||_F``; 1 is added to every entry."""
    W = point.W
    if is_implicit(W):  # it has no entries to add 1 to; the shift is as long as W, along Z
        ones = point.Z * (norm(W) / max(norm(point.Z), 1e-300))
    else:
        ones = namespace(W).ones_like(W)
    for _ in range(HALVINGS):
        shifted = Point(point.problem, W + ones)
        if math.inf != shifted.F:
            break
        ones = ones / 2  # W + ones lay outside the domain of a row function
    else:
        raise OverflowError("F(XW) at the start is infinite")
    size = norm(ones)
    L0 = norm(shifted.Z - point.Z) / size if size > 0 else 0.0
    return 1 / L0 if L0 > 0 else 1.0


class _Step:
    """A forward-backward step of length gamma from ``point`` to ``bar``, the prox point."""

    def __init__(self, point: Point, gamma: float, alpha: float) -> None:
        self.point, self.gamma, self.alpha = point, gamma, alpha
        problem = point.problem
        self.bar = Point(problem, problem.G.prox(point.W + gamma * point.Z, gamma))
        self.gap = point.W - self.bar.W

    @property
    def fixed_point(self) -> float:
        return max_abs(self.gap) / self.gamma

    @property
    def model(self) -> float:
        """``f(W) + <grad f(W), bar - W> + alpha/(2 gamma) ||bar - W||^2``."""
        quadratic = self.alpha / (2 * self.gamma) * norm(self.gap) ** 2
        return -self.point.F + inner(self.point.Z, self.gap) + quadratic

    @property
    def envelope(self) -> float:
        """The forward-backward envelope at W."""
        G = self.point.problem.G
        return self.model if G.indicator else self.model + G(self.bar.W)

    def backtrack(self, minimum: float) -> _Step:
        """Halve gamma until f(bar) is below the model."""
        step = self
        while step.gamma >= minimum:
            rounding = 10 * eps(step.point.W) * (1 + abs(step.bar.F))
            if not step.model + rounding < -step.bar.F:
                break
            step = _Step(step.point, step.gamma / 2, step.alpha)
        return step


@dataclass(frozen=True)
class ProximalGradient:
    """``W = prox_{gamma G}(W + gamma X^T dF(XW))`` (Section 5; forward-backward splitting).

    Parameters
    ----------
    gamma : float, optional
        The step, kept fixed; by default 1/L0 of the first point, halved where descent fails. The
        concave f of the paper's formulations never asks for a halving.
    minimum_gamma : float
        No halving below this.
    """

    gamma: float | None = None
    minimum_gamma: float = 1e-7

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]:
        point = _start(problem, W)
        gamma = _first_step(point) if self.gamma is None else self.gamma
        while True:
            step = _Step(point, gamma, 1.0)
            yield Iterate(step.bar, step.fixed_point)
            if self.gamma is None:
                step = step.backtrack(self.minimum_gamma)
            point, gamma = step.bar, step.gamma


@dataclass(frozen=True)
class ZeroFPR:
    """Quasi-Newton steps on the forward-backward envelope (Themelis, Stella, Patrinos 2018).

    Parameters
    ----------
    gamma : float, optional
        The step, kept fixed; by default alpha/L0, halved where descent fails.
    alpha, beta : float
        Safety factor of the step, and of the decrease that the line search asks for.
    memory : int
        How many pairs with ``<s, y> > 0`` the L-BFGS direction keeps.
    max_backtracks : int
        Halvings of the line search; the last try is the plain proximal-gradient point.
    minimum_gamma : float
        No halving of gamma below this.
    """

    gamma: float | None = None
    alpha: float = 0.95
    beta: float = 0.5
    memory: int = 5
    max_backtracks: int = 20
    minimum_gamma: float = 1e-7

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]:
        point = _start(problem, W)
        gamma = self.alpha * _first_step(point) if self.gamma is None else self.gamma
        step = _Step(point, gamma, self.alpha)
        pairs: deque[tuple[Array, Array]] = deque(maxlen=self.memory)
        previous: tuple[Array, Array] | None = None
        while True:
            yield Iterate(step.bar, step.fixed_point)
            if self.gamma is None:
                shorter = step.backtrack(self.minimum_gamma)
                if shorter.gamma != step.gamma:
                    pairs.clear()
                step = shorter
            gap = _Step(step.bar, step.gamma, self.alpha).gap
            if previous is not None:
                s, y = step.bar.W - previous[0], gap - previous[1]
                if inner(s, y) > TINY:
                    pairs.append((s, y))
            previous = (step.bar.W, gap)
            step = self._line_search(step, -_lbfgs(pairs, gap))

    def _line_search(self, step: _Step, direction: Array) -> _Step:
        envelope = step.envelope
        decrease = self.beta * (0.5 / step.gamma) * (1 - self.alpha) * norm(step.gap) ** 2
        threshold = envelope - decrease + 10 * eps(step.point.W) * (1 + abs(envelope))
        bar = step.bar
        for tau in (*(0.5**k for k in range(self.max_backtracks - 1)), 0.0):
            point = Point(bar.problem, bar.W + tau * direction) if tau else bar
            if point.finite:
                trial = _Step(point, step.gamma, self.alpha)
                if -math.inf < trial.envelope <= threshold:
                    break
        return trial


def _lbfgs(pairs: deque[tuple[Array, Array]], v: Array) -> Array:
    """Multiply v by the inverse Hessian of L-BFGS, by the two-loop recursion."""
    coefficients = []
    for s, y in reversed(pairs):
        a = inner(s, v) / inner(s, y)
        coefficients.append(a)
        v = v - a * y
    if pairs:
        s, y = pairs[-1]
        v = (inner(s, y) / inner(y, y)) * v
    for (s, y), a in zip(pairs, reversed(coefficients), strict=True):
        v = v + (a - inner(y, v) / inner(s, y)) * s
    return v
