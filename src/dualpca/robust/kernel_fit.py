"""Robust PCA in feature space, of which only K is known: the dual DCA of Algorithm 6.

Vectors there are ``Gamma^T a``; a centre, a basis or a move of the centre is its coefficients a.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..kernels.definite import Ends, check_definite, definite_by_name
from ..linalg import eigh
from ..losses import Loss, as_loss
from ..operators import Centered, Kernel, Matrix, Operator, Weighted
from ..progress import phase
from ..solvers.solve import as_solver
from ..solvers.subspace import principal_axes, warn_above
from .distances import Measured, between
from .fit import GUARD, average_loss, fit_rows, row_scales, scaled_loss
from .starts import (
    as_starts,
    best_start,
    by_weight,
    number_of_components,
    spatial_median,
    typical_size,
)

#: Rows of the sample that starts see: its kernel matrix is decomposed.
ROWS = 1000


@dataclass(frozen=True)
class Sample:
    """Coordinates of some rows about ``Gamma^T share``, and the way back to coefficients.

    ``spectrum`` is that of their kernel matrix, where this may be indefinite.
    """

    T: Matrix
    chosen: np.ndarray
    back: np.ndarray
    share: np.ndarray
    spectrum: np.ndarray | None

    def coefficients(self, v: np.ndarray) -> np.ndarray:
        """Of the vectors with these coordinates."""
        b = self.back @ v
        A = np.zeros((len(self.share), b.shape[1]))
        np.add.at(A, self.chosen, b)  # a row may be there several times
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
    model: Any,
    K: Kernel,
    block: Any,
    mass: np.ndarray,
    share: np.ndarray | None,
    rng: np.random.Generator,
) -> Sample:
    """The rows of a sample in an orthonormal basis of their span, by an eigendecomposition.

    ``block(rows)`` is K between those rows. Inner products are all that matters to the start, so that it
    is the same as on the rows themselves, whatever the basis.
    """
    N = K.shape[0]
    some = mass[mass > 0]
    if some.min() == some.max():  # each row once
        p = mass / mass.sum()
        chosen = np.sort(rng.choice(N, min(ROWS, len(some)), replace=False, p=p))
    else:
        chosen = by_weight(mass, ROWS, rng)
    count = len(chosen)
    if share is None:
        share = np.bincount(chosen, minlength=N) / count
    image = np.asarray(K.rmatmul(K.asarray(share[:, None])).image, dtype=float)[:, 0]
    S = np.asarray(block(chosen), dtype=float)
    rounding = 100 * float(np.finfo(K.dtype).eps) * float(np.abs(np.diagonal(S)).max())
    S = S - image[chosen] - image[chosen][:, None] + float(image @ share)
    spectrum = None if definite_by_name(model) else _spectrum(S, rounding, K.dtype)
    if np.diagonal(S).max() <= rounding:
        check_sample(model, spectrum, 1)
        raise ValueError(
            "the rows of X are all equal in feature space, so that there is no subspace to fit; check X "
            "and the parameters of the kernel, such as gamma"
        )
    # Rows of norm 1 first: beside one huge row the others would be rounding.
    norms = np.sqrt(np.clip(np.diagonal(S), 0.0, None))
    norms = np.where(norms > 0, norms, 1.0)[:, None]
    values, U = eigh(S / norms / norms.T)
    some = values > count * np.finfo(K.dtype).eps * float(values[0])
    root = np.sqrt(values[some])
    T = Matrix(norms * U[:, some] * root)
    return Sample(T, chosen, U[:, some] / root / norms, share, spectrum)


def _spectrum(S: np.ndarray, rounding: float, dtype: Any) -> np.ndarray:
    """The eigenvalues of S, decreasing; 0 where they may be the rounding of its entries."""
    values = np.linalg.eigvalsh((S + S.T) / 2)[::-1]
    return np.where(np.abs(values) > rounding * np.sqrt(len(S)), values, 0.0).astype(dtype)


def check_sample(model: Any, spectrum: np.ndarray | None, s: int) -> None:
    """Refuse negative eigenvalues of a sample, or tell of them, beside s components."""
    if spectrum is not None:
        ends = Ends(*(float(spectrum[i]) for i in (s - 1, -1, 0)))
        check_definite(model, spectrum[:s].clip(0), ends, by_size=True)


def about(K: Kernel, a: np.ndarray) -> Centered:
    """``Gamma - 1 c^T`` with ``c = Gamma^T a``."""
    return Centered(K, K.rmatmul(K.asarray(a[:, None])))


def measure_kernel(
    K: Kernel, a: np.ndarray, A: np.ndarray, weights: np.ndarray | None, spread: float
) -> Measured:
    """Scores and distances of all rows about ``Gamma^T a`` beside the span of ``Gamma^T A``."""
    view = about(K, a)
    scores = view @ K.rmatmul(K.asarray(A))
    orthogonal = apart(view.row_norms(), scores, K.row_norms())
    floor = 8 * float(np.sqrt(np.finfo(K.dtype).eps)) * spread
    counted = None if weights is None else weights > 0
    return Measured.of(a, A, scores, orthogonal, weights, floor, counted)


def apart(norms: np.ndarray, scores: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Distances from the subspace; 0 where the difference of squares is their rounding.

    ``norms`` are those about the centre, differences themselves of the squares of ``sizes``.
    """
    least = np.sqrt(np.finfo(norms.dtype).eps) * np.maximum(8 * norms, 4 * sizes)
    distances = between(norms, scores)
    return np.where(distances > least, distances, 0)


def refit_kernel(
    K: Kernel,
    mass: np.ndarray,
    s: int,
    *,
    share: np.ndarray | None,
    tol: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Centre and principal subspace of the rows of positive mass, as coefficients.

    Equal rows have no axes.
    """
    a = mass / mass.sum() if share is None else share
    rows: Operator = Weighted(about(K, a), K.asarray(np.sqrt(mass)))
    if rows.energy() <= 100 * float(np.finfo(K.dtype).eps) * float(mass @ K.row_norms() ** 2):
        return a, np.zeros((K.shape[0], 0))
    # Rounding may keep it from tol; the loss of the rows tells what it is worth.
    with phase("refit"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ritz = principal_axes(rows.T, s, tol=tol, seed=seed)
    theta = np.asarray(ritz.theta, dtype=float)
    some = theta > 1e-12 * theta[0]  # rows of a lower rank have fewer axes
    b = np.sqrt(mass)[:, None] * np.asarray(ritz.V, dtype=float)[:, some] / np.sqrt(theta[some])
    return a, b - np.outer(a, b.sum(axis=0))


@dataclass(frozen=True)
class KernelFit:
    """The rows beside the subspace that was found, and how it was found."""

    found: Measured
    weights: np.ndarray
    loss: Loss
    start: str
    agreement: float
    nearness: float
    refitted: bool
    residual: float
    iterations: int


def fit_kernel(
    model: Any,
    K: Kernel,
    block: Callable[[np.ndarray], np.ndarray],
    mass: np.ndarray,
    plain: bool,
    rng: np.random.Generator,
) -> KernelFit:
    """Start, dual DCA and guarded refit by the parameters of ``model``; ``plain`` where mass is 1."""
    share = fixed_share(model.center, K, mass)
    with phase("start"):
        sample = take_coordinates(model, K, block, mass, share, rng)
    T, fixed = sample.T, None if share is None else np.zeros(sample.T.shape[1])
    n = model.n_components
    if isinstance(n, Integral) and int(n) <= T.shape[0]:
        n = min(int(n), T.shape[1])  # no more axes than the rows span
    with phase("start"):
        s = number_of_components(n, T, fixed, rng)
        check_sample(model, sample.spectrum, s)
        starts = as_starts(model.init, s, T.shape[1])
        start, agreement, nearness = best_start(T, starts, s, fixed, rng)
    loss = scaled_loss(as_loss(model.loss), T, start, model.normalize)
    spread = typical_size(Centered(T, start.center[:, None]).row_norms())
    center = sample.share + sample.coefficients(start.center[:, None])[:, 0]
    base = about(K, center)
    name = "anderson" if model.solver == "auto" else model.solver
    fit = fit_rows(
        base,
        K.rmatmul(K.asarray(sample.coefficients(start.W))),
        loss=loss,
        normalize=model.normalize,
        joint=share is None,
        solver=as_solver(name),
        dual=False,
        mass=None if plain else K.asarray(np.maximum(mass, 1e-300)),
        tol=model.tol,
        max_iter=model.max_iter,
        spread=spread,
    )
    warn_above(fit.residual, model.tol, type(model).__name__, model.max_iter)
    weights = None if plain else mass
    if fit.delta is not None:
        center = center + np.asarray(fit.delta.coefficients, dtype=float)[:, 0]
    # Where all rows that count are the centre any subspace fits them, and an implicit W has no columns.
    A = fit.W.coefficients if fit.W.shape[1] else sample.coefficients(start.W)
    found = measure_kernel(K, center, np.asarray(A, dtype=float), weights, spread)
    good = np.asarray(found.orthogonal) <= found.cutoff(model.quantile)
    refitted = False
    if model.refit and not found.flat and (good & (mass > 0)).sum() > 2 * s:
        seed, tol = int(rng.integers(2**31)), min(model.tol, 1e-4)
        a, A = refit_kernel(K, mass * good, s, share=share, tol=tol, seed=seed)
        new = measure_kernel(K, a, A, weights, spread) if A.shape[1] else found
        scales = row_scales(np.asarray(base.row_norms(), dtype=float), model.normalize, spread)
        typical = 1.0 if model.normalize else spread
        before, after = (
            average_loss(loss, np.asarray(m.orthogonal, dtype=float), scales, typical, mass)
            for m in (found, new)
        )
        refitted = new is not found and bool(after <= before + GUARD * abs(before))
        found = new if refitted else found
    return KernelFit(
        found,
        fit.weights,
        loss,
        start.name,
        agreement,
        nearness,
        refitted,
        fit.residual,
        fit.iterations,
    )
