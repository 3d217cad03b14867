"""Robust PCA in feature space, of which only K is known: the dual DCA of Algorithm 6.

Vectors there are ``Gamma^T a``; a centre, a basis or a move of the centre is its coefficients a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..linalg import eigh
from ..operators import Centered, Kernel, Matrix, Operator, Weighted
from ._distances import Measured, between
from ._start import spatial_median
from ._subspace import leading_subspace
from ._univariate import bulk

#: Rows of the sample that starts see: its kernel matrix is decomposed.
ROWS = 1000


@dataclass(frozen=True)
class Sample:
    """Coordinates of some rows about ``Gamma^T share``, and the way back to coefficients."""

    T: Matrix
    chosen: np.ndarray
    back: np.ndarray
    share: np.ndarray

    def coefficients(self, v: np.ndarray) -> np.ndarray:
        """Of the vectors with these coordinates."""
        b = self.back @ v
        A = np.zeros((len(self.share), b.shape[1]))
        A[self.chosen] = b
        return A - np.outer(self.share, b.sum(axis=0))


def fixed_share(center: Any, K: Kernel, mass: np.ndarray) -> np.ndarray | None:
    """Coefficients of a centre that is given; None where it is fitted."""
    if center == "joint":
        return None
    if center is None:
        return np.zeros(K.shape[0])
    if center == "mean":
        return mass / mass.sum()
    return spatial_median(K, K.asarray(mass)).coefficients[:, 0].astype(float)


def take_coordinates(
    K: Kernel, block: Any, mass: np.ndarray, share: np.ndarray | None, rng: np.random.Generator
) -> Sample:
    """The rows of a sample in an orthonormal basis of their span, by an eigendecomposition.

    ``block(rows)`` is K between those rows. Inner products are all that matters to the start, so that it
    is the same as on the rows themselves, whatever the basis.
    """
    N = K.shape[0]
    count = min(ROWS, int((mass > 0).sum()))
    chosen = np.sort(rng.choice(N, count, replace=False, p=mass / mass.sum()))
    if share is None:
        share = np.zeros(N)
        share[chosen] = 1 / count
    image = np.asarray(K.rmatmul(K.asarray(share[:, None])).image, dtype=float)[:, 0]
    S = np.asarray(block(chosen), dtype=float)
    S = S - image[chosen] - image[chosen][:, None] + float(image @ share)
    values, U = eigh(S)
    some = values > count * np.finfo(K.dtype).eps * max(float(values[0]), np.finfo(float).tiny)
    root = np.sqrt(values[some])
    return Sample(Matrix(U[:, some] * root), chosen, U[:, some] / root, share)


def about(K: Kernel, a: np.ndarray) -> Centered:
    """``Gamma - 1 c^T`` with ``c = Gamma^T a``."""
    return Centered(K, K.rmatmul(K.asarray(a[:, None])))


def measure_kernel(
    K: Kernel, a: np.ndarray, A: np.ndarray, weights: np.ndarray | None, spread: float
) -> Measured:
    """Scores and distances of all rows about ``Gamma^T a`` beside the span of ``Gamma^T A``."""
    view = about(K, a)
    scores = view @ K.rmatmul(K.asarray(A))
    orthogonal = between(view.row_norms(), scores)
    location, scale = bulk(np.asarray(orthogonal, dtype=float), A.shape[1], weights)
    # Squared distances are differences of squares: exact to eps of those.
    floor = 8 * float(np.sqrt(np.finfo(K.dtype).eps)) * spread
    return Measured(a, A, scores, orthogonal, location, scale, floor)


def refit_kernel(
    K: Kernel,
    mass: np.ndarray,
    s: int,
    *,
    share: np.ndarray | None,
    tol: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Centre and principal subspace of the rows of positive mass, as coefficients."""
    a = mass / mass.sum() if share is None else share
    rows: Operator = Weighted(about(K, a), K.asarray(np.sqrt(mass)))
    ritz = leading_subspace(
        rows.T,
        s,
        rows=rows,
        dense=False,
        energy=rows.energy(),
        solver="auto",
        formulation=None,
        tol=tol,
        max_iter=1000,
        seed=seed,
    ).ritz
    theta = np.asarray(ritz.theta, dtype=float)
    some = theta > 1e-12 * theta[0]
    scale = np.where(some, 1 / np.sqrt(np.where(some, theta, 1.0)), 0.0)
    b = np.sqrt(mass)[:, None] * np.asarray(ritz.V, dtype=float) * scale
    return a, b - np.outer(a, b.sum(axis=0))
