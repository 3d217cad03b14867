"""PCA over batches: sums that are exact, or a sketch that says what it has lost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..estimators._base import check_number, check_same_kind, seed, validated
from ..linalg import Array, column_norms, namespace, norm, to_numpy
from ..operators import Kernel, Operator, as_operator, centered
from ..operators.centering import Shifted, shifted
from ..operators.row_blocks import RowBlocked
from ..solvers import Ritz
from ..solvers.spectral.gram import by_gram
from ..solvers.subspace import Decomposition, Subspace

#: The rounding of float64.
EPS = float(np.finfo(float).eps)

#: Rows are taken about an origin where the mean of a fit has so many times the energy of their spread.
FAR = 1e3

#: Up to so many features a batch adds to the Gram matrix, 8 bytes for each pair: 512 MB.
GRAM_FEATURES = 8192


#: The rounding of sums, and of singular value decompositions, in eps of what they are made of.
ROUNDING, SVD_ROUNDING = 4, 16


@dataclass(frozen=True)
class Sums:
    """Rows seen, their mean, and H in place of ``T = sum_i (x_i - mean)(x_i - mean)^T``.

    H is ``S``, or ``R^T R`` of few rows R. The mean is ``origin + mean``: differences from an origin
    among rows far from 0 keep their digits. What is known of T - H, for the certificates:

    - the cuts of R have left out positive semidefinite matrices: ``discarded`` bounds the sum of
      their n_components largest eigenvalues, by Ky Fan's inequality, and ``lost`` that of their norms;
    - the components of an earlier fit stand for its rows: these have the variance ``outside_energy``
      outside the span of ``basis``, and ``outside`` in any one direction there;
    - the rest, the residuals of that fit and rounding, has at most the norm ``error``. ``mean_error``
      is what the mean may be off by.

    What an older file does not tell of is bounded by the trace of T - H, which is always known.
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

    def with_batch(self, X: RowBlocked, center: bool, keep: int | None, s: int) -> Sums:
        """The sums with a batch added; R is cut to ``keep`` rows, or S is held where that is None."""
        n, total = X.shape[0], self.rows + X.shape[0]
        near = X if self.origin is None else shifted(X, self.origin)
        Xc: Operator = centered(near) if center else near
        if isinstance(Xc, Shifted) and self.origin is None and not self.rows:
            return replace(self, origin=Xc.wide).with_batch(X, center, keep, s)
        energy = Xc.energy()
        added: dict[str, Any] = {"rows": total, "energy": self.energy + energy}
        added["error"] = self.error + ROUNDING * EPS * (energy + Xc.removed_energy)
        step = None
        if center:
            mean = near.column_sums()[0] / n
            shift, part = mean - self.mean, n / total
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
        stacked = [] if self.R is None else [self.R]
        stacked += [Xc.todense()]
        if step is not None:
            stacked += [X.asarray(step[None, :])]
        R, tail, rounding = _cut(
            namespace(stacked[-1]).concat(stacked, axis=0), keep, Xc.removed_energy
        )
        added["error"] += rounding
        added["lost"] = self.lost + sum(tail[:1])
        return replace(self, R=R, discarded=self.discarded + sum(tail[:s]), **added)

    @property
    def center(self) -> Any:
        """The mean of all rows."""
        return self.mean if self.origin is None else to_numpy(self.mean) + self.origin

    def missed(self, s: int) -> float:
        """A bound on what the s leading eigenvalues of T exceed those of H by, in sum."""
        return self.discarded + min(self.outside_energy, s * self.outside) + 2 * s * self.error

    def hidden(self, V: Array) -> np.ndarray:
        """A bound on ``||(T - H) v||`` for each column v of an orthonormal V."""
        held = self.R if self.S is None else self.S
        xp = namespace(held)
        trace = xp.sum(held**2) if self.S is None else xp.sum(xp.linalg.diagonal(held))
        left = max(self.energy - float(trace), 0.0)
        bound = np.full(V.shape[1], min(self.lost, left))
        if self.basis is not None:
            B = xp.astype(self.basis, V.dtype, copy=False)
            turned = to_numpy(column_norms(V - B.T @ (B @ V))).astype(float)
            bound += min(self.outside, left) * turned
        # Once for (T - H) v, and once for what it may take away from T v, by which is divided.
        return bound + 2 * self.error


def sums_of(model: Any) -> Sums:
    """The sums that a fitted model stands for: its components, and what it says of the rest."""
    xp = namespace(model.components_)
    V = xp.astype(model.components_, xp.float64)
    mean, dtype = xp.astype(model.mean_, xp.float64), model.mean_.dtype
    theta = to_numpy(model.singular_values_).astype(float) ** 2
    R = V * xp.sqrt(xp.astype(model.singular_values_, xp.float64) ** 2)[:, None]
    captured = float(theta.sum())
    held = {"S": R.T @ R} if R.shape[1] <= GRAM_FEATURES else {"R": xp.astype(R, dtype)}
    energy = max(model._energy, captured)
    # To take the best direction outside for the last one inside gains no more than the shortfall.
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
        basis=model.components_,
        outside=outside,
        outside_energy=energy - captured,
        error=error,
        mean_error=eps_of(dtype) * norm(mean),
        **held,
    )


def eps_of(dtype: Any) -> float:
    return float(np.finfo("float32" if "float32" in str(dtype) else "float64").eps)


def _cut(R: Array, keep: int, offset: float) -> tuple[Array, list[float], float]:
    """``Diag(sigma) V^T`` of the ``keep`` leading singular values, sigma^2 of the others, rounding.

    Rows off by eps of themselves, or of an ``offset`` they had, are off in ``R^T R`` by ``||R||`` times.
    """
    size = norm(R)
    rounding = SVD_ROUNDING * eps_of(R.dtype) * math.hypot(size, math.sqrt(offset))
    if R.shape[0] <= keep:
        return R, [], rounding * size
    _, sigma, Vt = namespace(R).linalg.svd(R, full_matrices=False)
    wide = to_numpy(sigma).astype(float)
    return sigma[:keep, None] * Vt[:keep, :], (wide[keep:] ** 2).tolist(), rounding * wide[0]


class PartialFitMixin:
    """``partial_fit`` for PCA."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Go on fitting with a batch of rows.

        Up to 8192 features the sums of the batches are exact, and the result is that of :meth:`fit`
        on all rows. With more features, ``4 n_components + 64`` rows stand for all that was seen. After
        :meth:`fit` its components stand for the rows it has seen, and the variance outside them is lost.

        ``residual_`` and ``variance_shortfall_`` speak of all rows seen. Where something was lost they
        are upper bounds: the residual of what is held, and the most that the lost part could add to it.
        They may then be above ``tol`` without a warning.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Sparse up to 8192 features only.
        y : ignored

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from dualpca import PCA
        >>> X = load_digits().data
        >>> pca = PCA(3)
        >>> for batch in np.array_split(X, 10):
        ...     pca = pca.partial_fit(batch)
        >>> bool(np.allclose(pca.components_, PCA(3).fit(X).components_))
        True
        """
        self._validate_params()  # type: ignore[attr-defined]
        check_number(self.n_components)  # type: ignore[attr-defined]
        fitted = hasattr(self, "components_")
        X = validated(self, X, reset=not fitted, rows=1 if fitted else 2)
        if fitted:
            check_same_kind(X, self.components_, "PCA.partial_fit")
        operator = as_operator(X)
        assert isinstance(operator, RowBlocked)
        sums = Sums(lost=0.0) if not fitted else self._state or sums_of(self)
        if operator.sparse and sums.origin is not None:  # explicit differences would fill it
            sums = replace(sums, mean=sums.center, origin=None)
        shape = (sums.rows + operator.shape[0], operator.shape[1])
        s = self._to_compute(*shape)  # type: ignore[attr-defined]
        keep = None
        if operator.shape[1] > GRAM_FEATURES:
            keep = self._rows_to_keep(X)
        sums = sums.with_batch(operator, self.center, keep, s)  # type: ignore[attr-defined]
        held = Kernel.from_matrix(sums.S).T if keep is None else as_operator(sums.R)
        random = seed(self.random_state)  # type: ignore[attr-defined]
        found = by_gram(held, min(s, *held.shape), tol=self.tol, seed=random)  # type: ignore[attr-defined]
        ritz = self._certified(found.ritz, sums, operator)
        why = "sums of all batches" if keep is None else f"{keep} rows stand for all batches"
        subspace = Subspace(ritz, found.certificate, f"gram: {why}", 1)
        self._set(  # type: ignore[attr-defined]
            Decomposition(
                subspace,
                sums.energy,
                sums.rows,
                operator.asarray(sums.center) if self.center else None,  # type: ignore[attr-defined]
                shape,
                operator.passes,
                sums.missed(ritz.V.shape[1]),
                sums,
            )
        )
        return self

    def _certified(self, ritz: Ritz, sums: Sums, X: Operator) -> Ritz:
        """Ritz pairs of H in the type of the data, with residuals that hold of all rows seen."""
        theta = to_numpy(ritz.theta).astype(float)
        residuals = to_numpy(ritz.residuals).astype(float) + sums.hidden(ritz.V)
        if sums.energy > 0:
            residuals += eps_of(X.dtype) * theta[0]  # the rounding of V
        return Ritz(*(X.asarray(a) for a in (ritz.V, theta, residuals)))

    def _rows_to_keep(self, X: Any) -> int:
        n = self.n_components  # type: ignore[attr-defined]
        if not isinstance(n, Integral):
            raise ValueError(
                f"n_components={n!r} with more than {GRAM_FEATURES} features needs all rows; give an "
                "integer to partial_fit, or use fit"
            )
        if sp.issparse(X):
            raise ValueError(
                f"partial_fit takes sparse batches up to {GRAM_FEATURES} features, X has {X.shape[1]}; "
                "use fit on scipy.sparse.vstack(batches), which stays sparse"
            )
        return 4 * int(n) + 64

    components_: Array
    _state: Sums | None
