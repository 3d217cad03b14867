"""The solver of stacked kernel PCA: DCA on all levels at once, then Newton steps for the last digits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..linalg import Array, inner, norm
from ..progress import report_step
from ..solvers.dca import Past
from .deep import DeepProblem, State, polar

#: The first shift that is tried where a plain step of DCA does not ascend, and the last.
FIRST_SHIFT, LAST_SHIFT = 1e-2, 1e4

#: The differences that Anderson mixing keeps, and the residual at which Newton steps take over.
MEMORY, SWITCH = 8, 1e-2

#: The objective is known to this many units of rounding.
ROUNDING = 64 * float(np.finfo(float).eps)

#: The first and the least radius of the region in which the quadratic model is trusted; the columns of
#: H have length 1.
RADIUS, LEAST = 0.5, 1e-12

#: The length of the difference that stands for a derivative of the gradient: half of the digits.
DIFFERENCE = 1e-5

#: The most products with the Hessian in a step.
PRODUCTS = 100


def ascends(old: State, new: State) -> bool:
    """Return whether the objective does not fall, but for its rounding."""
    return new.objective >= old.objective - ROUNDING * abs(old.objective)


class Tangent:
    """The quadratic model of the objective J at a state, on the tangent space of the constraints.

    ``m(V) = <g, V> + 1/2 <V, B V>`` for ``V^T H + H^T V = 0`` in each level (and ``1^T V = 0`` where it
    is centred); B V is the difference of two gradients, for one evaluation of the problem.
    """

    def __init__(self, problem: DeepProblem, state: State) -> None:
        self.problem, self.state, self.evaluations = problem, state, 0
        self.widths = np.cumsum([h.shape[1] for h in state.H])[:-1]
        self.axes = [np.linalg.eigh(S) for S in state.Lambda]
        self.gradient = self._gradient(state)

    def _gradient(self, state: State) -> Array:
        """Return the tangential part of dJ/dH at another state, projected to this tangent space."""
        parts = zip(self.problem.weights, state.H, state.Z, state.Lambda, strict=True)
        return self._projected([weight * (Z - h @ S) for weight, h, Z, S in parts])

    def _projected(self, V: list[Array]) -> Array:
        out = []
        for h, v, center in zip(self.state.H, V, self.problem.centers, strict=True):
            v = v - v.mean(axis=0) if center else v
            S = h.T @ v
            out.append(v - h @ ((S + S.T) / 2))
        return np.concatenate(out, axis=1)

    def split(self, V: Array) -> list[Array]:
        return np.split(V, self.widths, axis=1)

    def moved(self, V: Array) -> State:
        """Return the state at the polar factors of ``H + V``."""
        self.evaluations += 1
        parts = zip(self.state.H, self.split(V), strict=True)
        return self.problem.at([polar(h + v) for h, v in parts])

    def curvature(self, V: Array) -> Array:
        """Return ``-B V``."""
        step = DIFFERENCE / norm(V)
        return (self.gradient - self._gradient(self.moved(step * V))) / step

    def scaled(self, V: Array) -> Array:
        """Divide V by Lambda, as a step of DCA does: the preconditioner of the conjugate gradients."""
        out = []
        for weight, (values, T), v in zip(
            self.problem.weights, self.axes, self.split(V), strict=False
        ):
            size = np.abs(values)
            out.append((v @ T / (weight * np.maximum(size, 1e-3 * size.max()))) @ T.T)
        return self._projected(out)

    def step(self, radius: float, tol: float, products: int) -> Array:
        """Maximise the model within the radius by conjugate gradients (Steihaug 1983)."""
        x, R = np.zeros_like(self.gradient), self.gradient
        z = self.scaled(R)
        d, rz = z, inner(R, z)
        for _ in range(products):
            Bd = self.curvature(d)
            bend = inner(d, Bd)
            alpha = rz / bend if bend > 0 else math.inf
            if bend <= 0 or norm(x + alpha * d) > radius:
                a, b = inner(x, d), inner(d, d)
                return x + (math.sqrt(a * a + b * (radius**2 - norm(x) ** 2)) - a) / b * d
            x, R = x + alpha * d, R - alpha * Bd
            if norm(R) <= tol * norm(self.gradient):
                break
            z = self.scaled(R)
            new = inner(R, z)
            d, rz = z + new / rz * d, new
        return x


def newton(problem: DeepProblem, state: State, budget: int) -> Iterator[tuple[State, int]]:
    """Yield states that ascend, and the evaluations so far, until ``budget`` or rounding ends them."""
    radius, used = RADIUS, 0
    while used < budget and radius > LEAST:
        model = Tangent(problem, state)
        if norm(model.gradient) == 0:
            return
        V = model.step(radius, min(0.1, math.sqrt(state.residual)), min(PRODUCTS, budget - used))
        new = model.moved(V)
        used += model.evaluations
        length = norm(V)
        if ascends(state, new):
            state, radius = new, 2 * radius if length > 0.9 * radius else radius
            yield state, used
        else:
            radius = length / 4


@dataclass(frozen=True)
class DeepFit:
    """The last state, the shift that let DCA ascend, the objective of each iterate, and evaluations."""

    state: State
    shift: float
    objectives: list[float]
    evaluations: int


def maximize(problem: DeepProblem, H: list[Array], *, tol: float, max_iter: int) -> DeepFit:
    """Ascend from H to a residual of ``tol``, in at most about ``max_iter`` evaluations.

    Steps of DCA with Anderson mixing come first. A mixed point that lowers the objective gives way to
    the plain step, and where that lowers it too, the shift is doubled. Newton steps find the last
    digits. The objective never falls by more than its rounding.
    """
    state, past, shift, evaluations = problem.at(H), Past(MEMORY), 0.0, 1
    objectives = [state.objective]
    widths = np.cumsum([h.shape[1] for h in H])[:-1]

    def ends(name: str) -> bool:
        residual, value = state.residual, -state.objective
        told = report_step(name, residual, tol, evaluations, objective=value)
        return told or residual <= tol or evaluations >= max_iter

    done = ends("dca")
    while not done and state.residual > SWITCH and shift <= LAST_SHIFT:
        plain = state.step(shift)
        mixed = past.mix(np.concatenate(state.H, axis=1), np.concatenate(plain, axis=1))
        parts = plain if mixed is None else [polar(h) for h in np.split(mixed, widths, axis=1)]
        new = problem.at(parts)
        evaluations += 1
        if ascends(state, new):
            state = new
            objectives.append(state.objective)
            done = ends("dca")
        else:
            past = Past(MEMORY)
            shift = shift if mixed is not None else max(2 * shift, FIRST_SHIFT)
    if not done:
        before = evaluations
        for state, used in newton(problem, state, max_iter - evaluations):  # noqa: B020
            evaluations = before + used
            objectives.append(state.objective)
            if ends("newton"):
                break
    return DeepFit(state, shift, objectives, evaluations)
