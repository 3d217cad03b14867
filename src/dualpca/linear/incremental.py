"""PCA over batches: exact sums, or a sketch with a bound on what it has lost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from ..linalg import Array, column_norms, namespace, norm, to_numpy
from ..linalg import eps as eps_of
from ..operators import Operator, as_operator, centered, from_gram
from ..operators.block_ops import as_float64, stack
from ..operators.centering import Shifted, by_weights, shifted
from ..solvers.spectral import Gram
from ..solvers.spectral.ritz import Ritz
from .decomposition import Decomposition
from .forgetting import Weights

#: The rounding of float64.
EPS = float(np.finfo(float).eps)

#: Rows are taken about an origin where the mean has this many times the energy of their spread.
FAR = 1e3

#: Up to this many features a batch adds to the Gram matrix, 8 bytes for each pair: 512 MB.
GRAM_FEATURES = 8192

#: Up to this many features all eigenvalues are computed where the leading ones are not enough.
WHOLE = 1024

#: A factor below this leaves nothing.
NOTHING = 2.0**-1000

#: The rounding of sums and of singular value decompositions, in eps of their terms.
ROUNDING, SVD_ROUNDING = 4, 16


@dataclass(frozen=True)
class Sums:
    """Rows seen, their mean, and H in place of ``T = sum_i w_i (x_i - mean)(x_i - mean)^T``.

    The weights w of rows fall as rows are forgotten. ``rows`` is their sum, the mass; ``seen`` counts all
    rows ever added, ``squares`` is the sum of w^2 (a row that counts k times has it k times), ``age`` how
    often what was there first has been halved, and ``holes`` the mass of the cells that were completed.

    H is ``S``, or ``R^T R`` of few rows R. The mean is ``origin + mean``: differences from an origin
    among rows far from 0 keep their digits. The certificates know of T - H:

    - the cuts of R left out positive semidefinite matrices: ``discarded`` bounds the sum of their
      n_components largest eigenvalues, by Ky Fan's inequality, and ``lost`` the sum of their norms;
    - the components of an earlier fit stand for its rows, which have the variance ``outside_energy``
      outside the span of ``basis``, and ``outside`` in any one direction there;
    - the residuals of that fit and rounding have at most the norm ``error``, and the mean is off by at
      most ``mean_error``.

    The trace of T - H, which is always known, bounds what an older file does not store. There no weight
    was forgotten: ``seen`` and ``squares`` are ``rows`` where they are None.
    """

    rows: float = 0
    mean: Any = 0.0
    energy: float = 0.0
    S: Any = None
    R: Any = None
    discarded: float = 0.0
    lost: float = math.inf
    origin: Any = None
    basis: Any = None
    outside: float = 0.0
    outside_energy: float = 0.0
    error: float = 0.0
    mean_error: float = 0.0
    seen: float | None = None
    squares: float | None = None
    age: float = 0.0
    holes: float = 0.0

    def forgotten(self, past: float) -> Sums:
        """Return the sums with all weights multiplied by ``past``, at most 1: T and its bounds scale."""
        known = replace(self, seen=self.n_seen, squares=self.sum_of_squares * past**2)
        if past == 1:
            return known
        if past < NOTHING:
            age = self.age - math.log2(NOTHING)
            return Sums(lost=0.0, seen=self.n_seen, squares=0.0, age=age)
        names = ("rows", "energy", "discarded", "lost", "outside", "outside_energy", "holes")
        scaled: dict[str, Any] = {name: getattr(self, name) * past for name in names}
        scaled["error"] = past * self.error + EPS * scaled["energy"]
        scaled["S"] = None if self.S is None else self.S * past
        scaled["R"] = None if self.R is None else self.R * math.sqrt(past)
        return replace(known, age=self.age - math.log2(past), **scaled)

    def with_batch(
        self,
        X: Operator,
        center: bool,
        keep: int | None,
        s: int,
        weights: Weights | None = None,
        holes: float = 0.0,
    ) -> Sums:
        """Return the sums with a batch added; R is cut to ``keep`` rows, or S held where it is None."""
        n, w = X.shape[0], None if weights is None else weights.by_row
        if weights is not None and weights.past < 1:
            return self.forgotten(weights.past).with_batch(
                X, center, keep, s, replace(weights, past=1.0), holes
            )
        mass = float(n) if weights is None else weights.mass
        squares = float(n) if weights is None else weights.squares
        counted = {"seen": self.n_seen + n, "squares": self.sum_of_squares + squares}
        if not mass > 0:
            return replace(self, **counted)
        total = self.rows + mass
        relative = X if self.origin is None else shifted(X, self.origin)
        Xc: Operator = centered(relative, w) if center else relative
        if isinstance(Xc, Shifted) and self.origin is None and not self.rows:
            return replace(self, origin=Xc.wide).with_batch(X, center, keep, s, weights, holes)
        removed = Xc.removed_energy * (mass / n)
        Xc = Xc if w is None else by_weights(Xc, w)
        energy = Xc.energy()
        added: dict[str, Any] = {"rows": total, "energy": self.energy + energy, **counted}
        added["holes"] = self.holes + holes
        added["error"] = self.error + ROUNDING * EPS * (energy + removed)
        step = None
        if center:
            mean = relative.column_sums(w)[0] / mass
            shift, part = mean - self.mean, mass / total
            own = 2 * EPS * math.sqrt(n) * norm(mean)
            added["mean"] = self.mean + shift * part
            added["mean_error"] = (1 - part) * self.mean_error + part * own
            if self.rows:  # the scatter of the two means
                root = math.sqrt(self.rows * part)
                step, off = shift * root, root * (own + self.mean_error)
                size = norm(step)
                added["energy"] += size**2
                added["error"] += off * (2 * size + off) + ROUNDING * EPS * size**2
        if keep is None:
            S = Xc.gram() if self.S is None else self.S + Xc.gram()
            if step is not None:
                step = namespace(S).astype(step, S.dtype)
                S = S + step[:, None] * step[None, :]
            return replace(self, S=S, **added)
        parts = [self.R, Xc.todense(), None if step is None else X.asarray(step[None, :])]
        rows = stack([part for part in parts if part is not None])
        R, tail, rounding = _cut(rows, keep, removed)
        added["error"] += rounding
        added["lost"] = self.lost + sum(tail[:1])
        return replace(self, R=R, discarded=self.discarded + sum(tail[:s]), **added)

    @property
    def n_seen(self) -> int:
        """The number of rows ever added."""
        return int(self.rows if self.seen is None else self.seen)

    @property
    def sum_of_squares(self) -> float:
        """The sum of the squared weights."""
        return float(self.rows if self.squares is None else self.squares)

    def spectrum(self, axes: Array) -> np.ndarray:
        """Return the eigenvalues of T, decreasing, of which the orthonormal rows of axes have the first.

        With more than WHOLE features those beside the axes are equal ones with the same sum and the same
        sum of squares; what R does not hold is spread evenly.
        """
        d = axes.shape[1]
        if self.S is not None and d <= WHOLE:
            S = to_numpy(self.S)
            return np.clip(np.linalg.eigvalsh((S + S.T) / 2)[::-1], 0.0, None)
        if self.S is None:
            R = to_numpy(self.R).astype(float)
            held = np.linalg.svd(R, compute_uv=False) ** 2
            rest = max(self.energy - float(held.sum()), 0.0)
            return np.concatenate([held, np.full(d - len(held), rest / max(d - len(held), 1))])
        xp, V = namespace(self.S), as_float64(axes).T
        inside = to_numpy(xp.sum(V * (self.S @ V), axis=0))
        first = max(float(xp.linalg.trace(self.S)) - float(inside.sum()), 0.0)
        second = max(norm(self.S) ** 2 - float(inside @ inside), 0.0)
        count = min(max(round(first**2 / second), 1), d - len(inside)) if second > 0 else 0
        others = np.full(count, first / max(count, 1))
        return np.concatenate([inside, others, np.zeros(d - len(inside) - count)])

    @property
    def center(self) -> Any:
        """The mean of all rows seen."""
        return self.mean if self.origin is None else to_numpy(self.mean) + self.origin

    def missed(self, s: int) -> float:
        """Bound the sum of the s leading eigenvalues of T minus that of H."""
        return self.discarded + min(self.outside_energy, s * self.outside) + 2 * s * self.error

    def hidden(self, V: Array) -> np.ndarray:
        """Bound ``||(T - H) v||`` for each column v of an orthonormal V."""
        held = self.R if self.S is None else self.S
        xp = namespace(held)
        trace = xp.sum(held**2) if self.S is None else xp.sum(xp.linalg.diagonal(held))
        left = max(self.energy - float(trace), 0.0)
        bound = np.full(V.shape[1], min(self.lost, left))
        if self.basis is not None:
            B = xp.astype(self.basis, V.dtype, copy=False)
            turned = to_numpy(column_norms(V - B.T @ (B @ V))).astype(float)
            bound += min(self.outside, left) * turned
        # Once for (T - H) v, and once for T v, the divisor, which it may diminish.
        return bound + 2 * self.error


def sums_of(model: Any) -> Sums:
    """Return the sums that a fitted model stands for: its components, and bounds on the rest."""
    axes, variances = model._principal
    xp = namespace(axes)
    V = xp.astype(axes, xp.float64)
    mean, dtype = xp.astype(model.mean_, xp.float64), model.mean_.dtype
    squares = xp.astype(variances, xp.float64) * (model._mass - 1)
    theta, R = to_numpy(squares), V * xp.sqrt(squares)[:, None]
    captured = float(theta.sum())
    held = {"S": R.T @ R} if R.shape[1] <= GRAM_FEATURES else {"R": xp.astype(R, dtype)}
    energy = max(model._energy, captured)
    # Replacing the last direction inside by the best one outside gains no more than the shortfall.
    outside = min(energy - captured, float(theta[-1]) + captured * model.variance_shortfall_)
    size, residual = norm(theta), min(model.residual_, 1 - EPS)
    error = size * residual / math.sqrt(1 - residual**2) + ROUNDING * eps_of(dtype) * size
    far = model._mass * norm(mean) ** 2 > FAR * energy
    return Sums(
        model._mass,
        0.0 * mean if far else mean,
        energy,
        lost=0.0,
        origin=to_numpy(mean) if far else None,
        basis=axes,
        outside=outside,
        outside_energy=energy - captured,
        error=error,
        mean_error=eps_of(dtype) * norm(mean),
        **held,
    )


def _cut(R: Array, keep: int, offset: float) -> tuple[Array, list[float], float]:
    """Return ``Diag(sigma) V^T`` of the ``keep`` leading ones, sigma^2 of the others, the rounding.

    Rows off by eps of themselves, or of an ``offset`` they had, change ``R^T R`` by ``||R||`` times that.
    """
    size = norm(R)
    rounding = SVD_ROUNDING * eps_of(R.dtype) * math.hypot(size, math.sqrt(offset))
    if R.shape[0] <= keep:
        return R, [], rounding * size
    _, sigma, Vt = namespace(R).linalg.svd(R, full_matrices=False)
    wide = to_numpy(sigma).astype(float)
    return sigma[:keep, None] * Vt[:keep, :], (wide[keep:] ** 2).tolist(), rounding * wide[0]


def with_batch(
    sums: Sums,
    X: Operator,
    s: int,
    *,
    center: bool,
    n_components: Any,
    weights: Weights | None = None,
    holes: float = 0.0,
) -> Sums:
    """Return the sums with a batch added, of which s components will be asked for."""
    if X.sparse and sums.origin is not None:  # explicit differences would fill it
        sums = replace(sums, mean=sums.center, origin=None)
    return sums.with_batch(X, center, rows_to_keep(n_components, X), s, weights, holes)


def leading_components(
    sums: Sums, X: Operator, s: int, *, center: bool, tol: float, seed: int
) -> Decomposition:
    """Return the s leading components of all rows seen, as arrays of the kind of the batch X."""
    H = from_gram(sums.S) if sums.R is None else as_operator(sums.R)
    result = Gram()(H, min(s, *H.shape), tol=tol, seed=seed)
    V, theta = result.ritz.V, to_numpy(result.ritz.theta).astype(float)
    residuals = to_numpy(result.ritz.residuals).astype(float) + sums.hidden(V)
    if sums.energy > 0:
        residuals += eps_of(X.dtype) * theta[0]  # the rounding of V
    held = None if sums.R is None else sums.R.shape[0]
    why = "sums of all batches" if held is None else f"{held} rows stand for all batches"
    ritz = Ritz(*(X.asarray(a) for a in (V, theta, residuals)))
    # Completed cells have no noise: beside the components the others stand for them.
    captured, present = float(theta.sum()), 1 - sums.holes / (sums.rows * X.shape[1])
    energy = captured + (sums.energy - captured) / present if present < 1 else sums.energy
    return Decomposition(
        replace(result, ritz=ritz, note=f"gram: {why}"),
        energy,
        sums.rows,
        X.asarray(sums.center) if center else None,
        (sums.n_seen, X.shape[1]),
        X.passes,
        sums.missed(V.shape[1]),
        sums,
    )


def rows_to_keep(n_components: Any, X: Operator) -> int | None:
    """Return how many rows stand for all batches; None where their Gram matrix is held."""
    d = X.shape[1]
    if d <= GRAM_FEATURES:
        return None
    if not isinstance(n_components, Integral):
        raise ValueError(
            f"n_components={n_components!r} with more than {GRAM_FEATURES} features needs all rows; "
            "give an integer to partial_fit, or use fit"
        )
    if X.sparse:
        raise ValueError(
            f"partial_fit takes sparse batches up to {GRAM_FEATURES} features, X has {d}; "
            "use fit on scipy.sparse.vstack(batches), which stays sparse"
        )
    return 4 * int(n_components) + 64
