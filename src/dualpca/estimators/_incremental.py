"""PCA over batches: sums that are exact, or a sketch that says what it has lost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import scipy.sparse as sp

from ..linalg import Array, namespace
from ..operators import Kernel, Operator, as_operator, centered
from ..solvers.direct import by_gram
from ._data import check_number, check_same_kind, seed, validated
from ._subspace import Decomposition, Subspace

#: Up to so many features a batch adds to the Gram matrix, 8 bytes for each pair: 512 MB.
GRAM_FEATURES = 8192


@dataclass(frozen=True)
class Sums:
    """Rows seen, their mean, and ``S = sum_i (x_i - mean)(x_i - mean)^T``, or a root R of it.

    Either ``S`` is held, or few rows R with ``R^T R`` below S; ``discarded`` then bounds what the
    n_components leading eigenvalues of S exceed those of ``R^T R`` by, in sum: by Ky Fan's
    inequality the sum, over the truncations, of as many of the largest eigenvalues left out.
    """

    rows: float = 0
    mean: Any = 0.0
    energy: float = 0.0
    S: Any = None
    R: Any = None
    discarded: float = 0.0

    def with_batch(self, X: Operator, center: bool, keep: int | None, s: int) -> Sums:
        """The sums with a batch added; R is cut to ``keep`` rows, or S is held where that is None."""
        n, total = X.shape[0], self.rows + X.shape[0]
        Xc = centered(X) if center else X
        mean = X.column_sums()[0] / n if center else 0.0  # type: ignore[attr-defined]
        shift = mean - self.mean
        root = math.sqrt(self.rows * n / total)  # the scatter of the two means
        added = {
            "rows": total,
            "mean": self.mean + shift * (n / total),
            "energy": self.energy + Xc.energy(),
        }
        if center and self.rows:
            xp = namespace(shift)
            added["energy"] += root**2 * float(xp.sum(shift * shift))
        if keep is None:
            S = Xc.gram() if self.S is None else self.S + Xc.gram()
            if center and self.rows:
                step = namespace(S).astype(shift, S.dtype) * root
                S = S + step[:, None] * step[None, :]
            return replace(self, S=S, **added)
        stacked = [] if self.R is None else [self.R]
        stacked += [Xc.todense()]
        if center and self.rows:
            stacked += [X.asarray(root * shift[None, :])]
        xp = namespace(stacked[-1])
        R, lost = _cut(xp.concat(stacked, axis=0), keep, s)
        return replace(self, R=R, discarded=self.discarded + lost, **added)


def sums_of(model: Any) -> Sums:
    """The sums that a fitted model stands for: its components, and the rest as discarded."""
    xp = namespace(model.components_)
    theta = xp.astype(model.singular_values_, xp.float64) ** 2
    R = xp.astype(model.components_, xp.float64) * xp.sqrt(theta)[:, None]
    captured = float(xp.sum(theta))
    held = {"S": R.T @ R} if R.shape[1] <= GRAM_FEATURES else {"R": xp.astype(R, model.mean_.dtype)}
    energy = max(model._energy, captured)
    return Sums(
        model._mass, xp.astype(model.mean_, xp.float64), energy, discarded=energy - captured, **held
    )


def _cut(R: Array, keep: int, s: int) -> tuple[Array, float]:
    """``Diag(sigma) V^T`` of the ``keep`` leading singular values, and the sum of the s next sigma^2."""
    if R.shape[0] <= keep:
        return R, 0.0
    xp = namespace(R)
    _, sigma, Vt = xp.linalg.svd(R, full_matrices=False)
    last = min(keep + s, sigma.shape[0])
    wide = xp.astype(sigma[keep:last], xp.float64, copy=False)
    return sigma[:keep, None] * Vt[:keep, :], float(xp.sum(wide**2))


class PartialFitMixin:
    """``partial_fit`` for PCA."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Go on fitting with a batch of rows.

        Up to 8192 features the sums of the batches are exact, and the result is that of :meth:`fit`
        on all rows. With more features, ``4 n_components + 64`` rows stand for all that was seen, and
        ``variance_shortfall_`` includes a bound on the variance that this has lost. After :meth:`fit`
        its components stand for the rows it has seen, and the variance outside them counts as lost.

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
        sums = Sums() if not fitted else self._state or sums_of(self)
        shape = (sums.rows + operator.shape[0], operator.shape[1])
        s = self._to_compute(*shape)  # type: ignore[attr-defined]
        keep = None
        if operator.shape[1] > GRAM_FEATURES:
            keep = self._rows_to_keep(X)
        sums = sums.with_batch(operator, self.center, keep, s)  # type: ignore[attr-defined]
        held = Kernel.from_matrix(sums.S).T if keep is None else as_operator(sums.R)
        random = seed(self.random_state)  # type: ignore[attr-defined]
        found = by_gram(held, min(s, *held.shape), tol=self.tol, seed=random)  # type: ignore[attr-defined]
        ritz = found.ritz
        dtype = operator.dtype
        if ritz.V.dtype != dtype:
            cast = (operator.asarray(a) for a in (ritz.V, ritz.theta, ritz.residuals))
            ritz = type(ritz)(*cast)
        why = "sums of all batches" if keep is None else f"{keep} rows stand for all batches"
        subspace = Subspace(ritz, found.certificate, f"gram: {why}", 1)
        mean = operator.asarray(sums.mean) if self.center else None  # type: ignore[attr-defined]
        self._set(  # type: ignore[attr-defined]
            Decomposition(
                subspace,
                sums.energy,
                sums.rows,
                mean,
                shape,
                operator.passes,
                sums.discarded,
                sums,
            )
        )
        return self

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
