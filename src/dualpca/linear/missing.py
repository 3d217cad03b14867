"""PCA of rows with holes: missing cells become what the cells that are there make likely.

The table is completed by the model, the model is the PCA of the completed table, in turns: DCA on
``kappa/2 ||L||^2 + indicator(rank L <= s) - F(L)`` with ``F(L) = kappa/2 ||L||^2 - 1/2 sum_observed
(x - l)^2``, which is convex from kappa = 1 on, as the weights of cells are 0 or 1. With least squares it
is EM for principal components; with shrunk singular values the regularised iterative PCA of Josse and
Husson (2012).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..linalg import Array, asarray_like, eigh, fix_signs, namespace, norm, to_numpy, total
from ..operators import Operator, RowMap, as_operator, from_gram
from ..operators.block_ops import GRAM_FACTOR, as_float64, dense, stack, take
from ..progress import report_step
from ..solvers.dca import Past
from ..solvers.spectral import Gram
from ..solvers.spectral.ritz import FEW_SIDE, Ritz, SubspaceResult
from .decomposition import Decomposition
from .incremental import GRAM_FEATURES
from .selection import Selection

#: Least squares of fewer cells than components take the smallest scores, by a ridge of this size.
RIDGE = 1e-10

#: The systems of rows are solved for about this many numbers at a time.
NUMBERS = 2**21

#: How many differences Anderson acceleration keeps.
MEMORY = 6


def systems(W: Array, V: Array, ridge: Array) -> Array:
    """``V^T Diag(w_i) V + Diag(ridge)`` for each row i: s x s matrices."""
    xp, (d, s) = namespace(W), V.shape
    pairs = xp.reshape(V[:, :, None] * V[:, None, :], (d, s * s))
    return xp.reshape(W @ pairs, (-1, s, s)) + asarray_like(np.diag(to_numpy(ridge)), W)


def fitted_scores(R: Array, W: Array, V: Array, ridge: Array) -> Array:
    """``argmin_b sum_j w_ij (r_ij - v_j^T b)^2 + b^T Diag(ridge) b`` for each row i."""
    xp, step, parts = namespace(R), max(1, NUMBERS // V.shape[1] ** 2), []
    for i in range(0, R.shape[0], step):
        w = W[i : i + step, :]
        right = (w * R[i : i + step, :]) @ V
        parts.append(xp.linalg.solve(systems(w, V, ridge), right[:, :, None])[:, :, 0])
    return stack(parts)


def observed_cells(block: Any, center: Array) -> tuple[Array, Array]:
    """Return ``x - c``, 0 where a cell is missing, and 1 where it is there, else 0; in float64."""
    Y = as_float64(block)
    xp = namespace(Y)
    missing = xp.isnan(Y)
    return xp.where(missing, xp.zeros_like(Y), Y - center), xp.astype(~missing, xp.float64)


@dataclass(frozen=True, eq=False)
class Completion:
    """``c + V b`` where a cell is missing, b by :func:`fitted_scores` of the cells that are there.

    With ``ridge = sigma^2 / (lambda - sigma^2)`` it is the conditional mean of the model with variances
    lambda along V and sigma^2 across (Tipping and Bishop 1999); with RIDGE, least squares.
    """

    center: np.ndarray
    V: np.ndarray
    ridge: np.ndarray

    @classmethod
    def constant(cls, values: np.ndarray) -> Completion:
        """Return the model that fills each column with one value."""
        return cls(values, np.zeros((len(values), 1)), np.ones(1))

    @classmethod
    def of(cls, center: Any, V: Any, variances: Any, noise: float, *, shrink: bool) -> Completion:
        """Return that of a model with the axes V, d x s."""
        center, V, variances = (to_numpy(a).astype(float) for a in (center, V, variances))
        ridge = np.full(len(variances), RIDGE)
        if shrink and noise > 0:
            beyond = np.clip(variances - noise, RIDGE * noise, None)
            ridge = np.clip(noise / beyond, RIDGE, None)
        return cls(center, V, ridge)

    def like(self, block: Array) -> tuple[Array, Array, Array]:
        """Return the numbers of the model as arrays of the block's kind."""
        center, V, ridge = (asarray_like(a, block) for a in (self.center, self.V, self.ridge))
        return center, V, ridge

    def __call__(self, block: Any) -> Any:
        """Return the block with its holes filled; the block itself if it has none."""
        block = dense(block)
        xp = namespace(block)
        holes = xp.isnan(block)
        rows = np.flatnonzero(to_numpy(xp.any(holes, axis=1)))
        if not len(rows):
            return block
        part = as_float64(take(block, rows))
        center, V, ridge = self.like(part)
        R, there = observed_cells(part, center)
        fit = center + fitted_scores(R, there, V, ridge) @ V.T
        filled = xp.astype(xp.where(there > 0, part, fit), block.dtype, copy=False)
        if len(rows) == block.shape[0]:
            return filled
        out = xp.asarray(block, copy=True)
        out[rows, :] = filled
        return out


class Completed(RowMap):
    """Rows whose holes are filled as they are read."""

    def __init__(self, X: Operator, complete: Any) -> None:
        super().__init__(X, X.shape, lambda rows, block: [(rows, complete(block))])
        self._complete = complete
        #: the names of the columns, if the data has any
        self.names = getattr(X, "names", None)

    def take(self, rows: np.ndarray) -> Any:
        return self._complete(self.X.take(rows))


@dataclass(frozen=True, eq=False)
class CompletedPCA:
    """The PCA of a completed table, of ``rows`` about its centre or of their ``scatter`` alone."""

    center: np.ndarray
    rows: Operator
    scatter: Array | None
    energy: float
    mass: float
    s: int
    seed: int

    @cached_property
    def result(self) -> SubspaceResult:
        """The s + 1 leading components with their certificate, or all."""
        # The turns decide on the accuracy; within each the components are exact.
        return Gram()(self.rows, min(self.s + 1, *self.rows.shape), tol=1e-12, seed=self.seed)

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Leading eigenvalues of the scatter, and their vectors: those of ``result``, unsigned."""
        S = self.scatter
        if S is not None and S.shape[0] <= FEW_SIDE:  # a certificate takes longer than LAPACK
            theta, V = eigh(to_numpy(S))
            return np.clip(theta[: self.s + 1], 0.0, None), V[:, : self.s + 1]
        ritz = self.result.ritz
        return to_numpy(ritz.theta).astype(float), to_numpy(ritz.V).astype(float)

    @cached_property
    def variances(self) -> np.ndarray:
        """Those of s + 1 components, or all."""
        return self._pairs[0] / self.mass

    @property
    def state(self) -> np.ndarray:
        """``[c, V Diag(lambda)^{1/2}]`` of the s components."""
        root = self._pairs[1][:, : self.s] * np.sqrt(np.clip(self.variances[: self.s], 0.0, None))
        return np.concatenate([self.center[:, None], root], axis=1)

    @property
    def left(self) -> float:
        """The variance beside the components, which EM never raises."""
        return max(self.energy / self.mass - float(self.variances[: self.s].sum()), 0.0)

    @property
    def noise(self) -> float:
        """``sigma^2`` of Josse and Husson (2012), at most the variance of the next component."""
        d, s, n = len(self.center), self.s, self.mass
        sigma2 = n * d / min(d, n - 1) * self.left / ((n - 1 - s) * (d - s))
        return min(sigma2, *self.variances[s : s + 1])


def pca_of_completed(
    X: Operator, model: Completion, weights: Array | None, s: int, center: bool, seed: int
) -> CompletedPCA:
    """Return the PCA of the rows that the model completes, in one pass where d <= N."""
    (N, d), origin = X.shape, model.center
    mass = float(N) if weights is None else total(weights)

    def part(rows: slice, block: Any) -> tuple[Any, Any]:
        Y = as_float64(model(block))
        Y = Y - asarray_like(origin, Y)
        other = Y if weights is None else Y * as_float64(weights[rows])[:, None]
        return Y.T @ other, namespace(Y).sum(other, axis=0)

    S, H = None, X
    if d <= min(N, GRAM_FEATURES):
        S, sums = X.sum_blocks(part, GRAM_FACTOR)
        shift = sums * (center / mass)
        S = S - mass * (shift[:, None] * shift[None, :])
        H, energy = from_gram(S), float(namespace(S).linalg.trace(S))
    else:
        Y = as_float64(Completed(X, model).todense())
        Y = Y - asarray_like(origin, Y)
        xp = namespace(Y)
        w = xp.ones_like(Y[:, 0]) if weights is None else as_float64(weights)
        shift = (w @ Y) * (center / mass)
        Y = (Y - shift) * xp.sqrt(w)[:, None]
        H, energy = as_operator(Y), norm(Y) ** 2
    return CompletedPCA(origin + to_numpy(shift).astype(float), H, S, energy, mass, s, seed)


@dataclass(frozen=True, eq=False)
class MissingFit:
    """The last PCA of a completed table, the model that completes rows, and the way there."""

    pca: CompletedPCA
    model: Completion
    change: float
    iterations: int

    def decomposition(
        self, X: Operator, observed: int, why: str, selection: Selection | None = None
    ) -> Decomposition:
        """Return the components as those of a PCA whose residuals are the last change.

        Completed cells have no noise: the energy beside the components is that of the ``observed``
        cells, for all cells.
        """
        pca, (N, d) = self.pca, X.shape
        ritz = pca.result.ritz.leading(pca.s)
        V, theta = to_numpy(ritz.V), to_numpy(ritz.theta)
        V = V * fix_signs(V)[None, :]
        pairs = Ritz(*(X.asarray(a) for a in (V, theta, self.change * theta)))
        result = replace(pca.result, ritz=pairs, steps=self.iterations, note=why)
        energy = float(theta.sum()) + pca.left * pca.mass * (N * d / observed)
        center = X.asarray(pca.center) if pca.center.any() else None
        known = result, energy, pca.mass, center, X.shape, X.passes
        return Decomposition(*known, selection=selection)


def fit_missing(
    X: Operator,
    s: int,
    mean: np.ndarray,
    *,
    shrink: bool,
    weights: Array | None = None,
    center: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
    seed: int = 0,
    start: Completion | None = None,
) -> MissingFit:
    """Complete the table and take its PCA in turns, until ``[c, V Lambda^{1/2}]`` changes by ``tol``.

    The turns are accelerated (:class:`dualpca.solvers.Anderson`); where EM's residual variance, or for
    ``shrink`` the change, is worse for that, the plain turn is taken. They begin with the ``mean`` in
    all holes, or with the model ``start``.
    """
    data, name = (weights, s, center, seed), "shrink" if shrink else "em"
    model = start or Completion.constant(mean)
    pca = pca_of_completed(X, model, *data)
    state, past, best, change = pca.state, Past(MEMORY), np.inf, np.inf
    plain, mixed, iteration = state, False, 0
    while iteration < max_iter:
        iteration += 1
        trial = pca_of_completed(X, _model(state, pca.noise, shrink), *data)
        image = _turned(trial.state, state)
        moved = norm(image - state) / max(norm(image[:, 1:]), 1e-300)
        merit = moved if shrink else trial.left
        if mixed and merit > best * (1 + 1e-12):
            state, past, mixed = plain, Past(MEMORY), False
            continue
        pca, change = trial, moved
        if report_step(name, change, tol, X.passes) or change <= tol:
            break
        best, plain = merit, image
        new = past.mix(state, image)
        state, mixed = (image, False) if new is None else (new, True)
    return MissingFit(pca, _model(pca.state, pca.noise, shrink), change, iteration)


def _turned(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return a state with ``V Lambda^{1/2}`` rotated as near as possible to the old one."""
    left, _, right = np.linalg.svd(new[:, 1:].T @ old[:, 1:])
    return np.concatenate([new[:, :1], new[:, 1:] @ (left @ right)], axis=1)


def _model(state: np.ndarray, noise: float, shrink: bool) -> Completion:
    """Return the model of a centre and of ``V Lambda^{1/2}`` in any rotation."""
    V, sigma, _ = np.linalg.svd(state[:, 1:], full_matrices=False)
    return Completion.of(state[:, 0], V, sigma**2, noise, shrink=shrink)


def observed_residual(X: Operator, model: Completion, weights: Array | None = None) -> float:
    """``sum_observed (x - c - V b)^2``, the misfit of the cells that are there."""

    def part(rows: slice, block: Any) -> tuple[float]:
        block = as_float64(dense(block))
        xp = namespace(block)
        center, V, ridge = model.like(block)
        R, there = observed_cells(block, center)
        R = there * (R - fitted_scores(R, there, V, ridge) @ V.T)
        squares = xp.sum(R * R, axis=1)
        return (float(xp.sum(squares if weights is None else squares * as_float64(weights[rows]))),)

    return float(X.sum_blocks(part, GRAM_FACTOR)[0])


def gcv(
    X: Operator, mean: np.ndarray, observed: int, **options: Any
) -> tuple[Selection, MissingFit]:
    """``n sum_observed (x - fit)^2 / (n - d - q (N + d - q - 1))^2`` of n cells, at its first minimum.

    The generalised cross-validation of the cells that are there (Josse and Husson 2012), by the number q
    of components. Also return the fit of the best number, or of one component if that is none.
    """
    (N, d), values = X.shape, list[float]()
    fits: list[Any] = [None]
    model = Completion.constant(mean)
    for q in range(min(N - 2, d - 1) + 1):
        freedom = observed - d - q * (N + d - q - 1)
        if q > 1 and (freedom <= 0 or values[-1] >= values[-2]):
            break
        if q:
            fits.append(fit_missing(X, q, mean, start=model, **options))
            model = fits[-1].model
        left = observed_residual(X, model, options.get("weights"))
        values.append(observed * left / freedom**2 if freedom > 0 else np.inf)
    best = int(np.argmin(values))
    chosen = Selection("gcv", best, np.arange(len(values)), np.array(values))
    return chosen, fits[max(best, 1)]


def observed_likelihood(X: Operator, model: Completion, noise: float) -> Array:
    """``log N(x_o; c_o, C_oo)`` of the cells o of each row that are there, by the inversion lemma."""
    logs = float(np.log(model.ridge).sum())

    def part(rows: slice, block: Any) -> Array:
        block = dense(block)
        wide = as_float64(block)
        xp, (center, V, ridge) = namespace(wide), model.like(wide)
        R, there = observed_cells(wide, center)
        inside = (R @ V) * fitted_scores(R, there, V, ridge)
        determinant = xp.linalg.slogdet(systems(there, V, ridge))[1] - logs
        constant = xp.sum(there, axis=1) * float(np.log(2 * np.pi * noise))
        square = (xp.sum(R * R, axis=1) - xp.sum(inside, axis=1)) / noise
        return xp.astype(-0.5 * (square + determinant + constant), block.dtype)

    return X.map_rows(part)
