"""Stacked kernel PCA as one problem: levels, their objective, its gradients and the step of DCA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..linalg import Array, fix_signs, inner, map_singular_values, norm
from ..operators.block_ops import block_rows
from .features import Nystroem, RandomFourier
from .gradients import Rows, pullback
from .pairwise import kernel_diagonal, row_slices


@dataclass(frozen=True)
class Level:
    """``f(u) = phi(u) A / t``: a level after the first as a function of the features u below it.

    ``A = Phi^T H``, so that ``f(U) = K(U) H / t`` with ``K(U) = Phi Phi^T``. The features phi are fixed
    where K is approximated; otherwise they are the kernels with the rows U, and A is H.
    """

    kernel: Any
    features: Nystroem | RandomFourier | None
    total: float
    center: bool

    def at(self, U: Array, H: Array) -> Expansion:
        """Return f for the rows U and their hidden features H."""
        if self.features is None:
            return Expansion(Rows(U, self.kernel), H, self.total)
        phi = self.features
        parts = (phi(U[rows]).T @ H[rows] for rows in blocks(U, phi.dimension))
        return Expansion(phi, sum(parts), self.total)

    def trace(self, U: Array) -> float:
        """Return the trace of the (centred) K(U): the variance times the number of rows."""
        N = len(U)
        if self.features is None:
            size = float(kernel_diagonal(self.kernel, U).sum())
            mean = sum(float(self.kernel(U[r], U).sum()) for r in blocks(U, N)) / N
        else:
            size, total = 0.0, np.zeros(self.features.dimension)
            for rows in blocks(U, self.features.dimension):
                Phi = self.features(U[rows])
                size, total = size + norm(Phi) ** 2, total + Phi.sum(axis=0)
            mean = norm(total) ** 2 / N
        return max(size - mean, 0.0) if self.center else size

    def turned(self, T: Array) -> Level:
        """Return the level whose features of ``U T`` are those of U here, T orthogonal."""
        phi = self.features
        if phi is None:
            return self
        origin = None if phi.origin is None else phi.origin @ T
        if isinstance(phi, Nystroem):
            return replace(self, features=replace(phi, landmarks=phi.landmarks @ T, origin=origin))
        return replace(
            self, features=replace(phi, frequencies=T.T @ phi.frequencies, origin=origin)
        )


def blocks(U: Array, width: int) -> Iterator[slice]:
    """Yield slices of rows whose kernels with ``width`` others, in float64, fit into a block."""
    yield from row_slices(len(U), block_rows(width, 8, 4))


@dataclass(frozen=True)
class Expansion:
    """``f(u) = phi(u) A / t`` of a block of rows u, and the gradient of ``<h, f(u)>`` by u."""

    phi: Rows | Nystroem | RandomFourier
    A: Array
    total: float

    def image(self, values: Array) -> Array:
        """Return f(u) from ``values``, which are phi(u)."""
        return values @ self.A / self.total

    def gradient(self, U: Array, values: Array, h: Array) -> Array:
        return pullback(self.phi, U, h @ self.A.T, values) / self.total


@dataclass(frozen=True)
class DeepProblem:
    """``maximize J(H) = sum_j c^(j-1) tr(H_j^T K_j(H_{j-1}) H_j) / (2 t_j)``, ``H_j^T H_j = I``.

    Tonin, Tao, Patrinos and Suykens (2024): the objectives of kernel PCA at all levels, in the hidden
    features H_j that conjugate feature duality gives to a level, coupled because level j takes its
    kernel of those below it. K_1 is that of the data. The rows that level j sees are those of
    ``sqrt(N-1) H_{j-1}``, of unit variance, and t_j is the trace of K_j at the start. Where a level is
    centred, ``1^T H_j = 0``. H is stationary if ``c^(1-j) dJ/dH_j = H_j Lambda_j`` (centred) with
    symmetric Lambda_j:

        K_j(H_{j-1}) H_j / t_j + c d/dH_j tr(H_{j+1}^T K_{j+1}(H_j) H_{j+1}) / (2 t_{j+1}) = H_j Lambda_j.

    The first term comes from below, the second one from above; c is ``coupling``. ``first`` is the
    product ``K_1 H / t_1``, and ``total`` is t_1.
    """

    first: Callable[[Array], Array]
    total: float
    centered: bool
    levels: tuple[Level, ...]
    coupling: float
    unit: float

    @property
    def weights(self) -> list[float]:
        """The factor of each level in J."""
        return [self.coupling**j for j in range(len(self.levels) + 1)]

    @property
    def centers(self) -> list[bool]:
        """Whether each level is centred."""
        return [self.centered, *(level.center for level in self.levels)]

    def at(self, H: list[Array]) -> State:
        """Return the objective, its gradients and the residual at the hidden features H."""
        images, above, expansions = [self.first(H[0])], [], []
        for level, below, h in zip(self.levels, H[:-1], H[1:], strict=True):
            U = self.unit * below
            f, image, pull = level.at(U, h), np.empty_like(h), np.zeros_like(U)
            for rows in blocks(U, f.phi.dimension):
                values = f.phi(U[rows])
                image[rows] = f.image(values)
                if self.coupling > 0:
                    pull[rows] = self.unit * f.gradient(U[rows], values, h[rows])
            expansions.append(f)
            images.append(image)
            above.append(self.coupling * pull)
        terms = zip(self.weights, H, images, strict=True)
        objective = sum(weight * inner(h, image) / 2 for weight, h, image in terms)
        gradients = [*(a + b for a, b in zip(images, above, strict=False)), images[-1]]
        means = [Z.mean(axis=0) * center for Z, center in zip(gradients, self.centers, strict=True)]
        return State(H, images, gradients, means, objective, expansions)


class State:
    """Hidden features H, what the problem says of them, and the centred gradients Z."""

    def __init__(
        self,
        H: list[Array],
        images: list[Array],
        gradients: list[Array],
        means: list[Array],
        objective: float,
        expansions: list[Expansion],
    ) -> None:
        self.H, self.images, self.means = H, images, means
        self.objective, self.expansions = objective, expansions
        self.Z = [Z - mean for Z, mean in zip(gradients, means, strict=True)]
        crosses = [h.T @ Z for h, Z in zip(H, self.Z, strict=True)]
        self.Lambda = [(S + S.T) / 2 for S in crosses]

    @property
    def residual(self) -> float:
        """``max_j ||Z_j - H_j Lambda_j|| / ||Z_j||``, Z_j being the gradient by H_j."""
        parts = zip(self.H, self.Z, self.Lambda, strict=True)
        return max(norm(Z - h @ S) / (norm(Z) or 1.0) for h, Z, S in parts)

    def step(self, shift: float) -> list[Array]:
        """``H_j = argmax <H, Z_j + shift H_j>``, the polar factor: a step of DCA on all levels.

        It is DCA on ``J(H) + sum_j shift ||H_j||^2 / 2``, which differs from J by a constant. Where the
        shift makes it convex, the step ascends.
        """
        return [polar(Z + shift * h) for h, Z in zip(self.H, self.Z, strict=True)]


def polar(Z: Array) -> Array:
    """Return the nearest matrix with orthonormal columns."""
    return map_singular_values(Z, np.ones_like)[0]


def ordered(problem: DeepProblem, state: State) -> tuple[DeepProblem, State]:
    """Turn each H_j so that Lambda_j is diagonal and decreasing; the objective stays.

    In each column of H_j the entry of largest magnitude becomes positive. A kernel that depends on
    inner products is the same for the turned rows, and features of such a kernel are turned with them.
    """
    H, levels = [], list(problem.levels)
    for j, (h, S) in enumerate(zip(state.H, state.Lambda, strict=True)):
        T = np.linalg.eigh(S)[1][:, ::-1]
        T = T * fix_signs(h @ T)
        H.append(h @ T)
        if j < len(levels):
            levels[j] = levels[j].turned(T)
    problem = replace(problem, levels=tuple(levels))
    return problem, problem.at(H)
