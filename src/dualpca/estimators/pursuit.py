"""Principal component pursuit with scikit-learn's face."""

from __future__ import annotations

import math
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from array_api_compat import device
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from .._memory import ensure
from ..linalg import Array, fix_signs, namespace
from ..operators import Operator, as_operator
from ..progress import convergence, stopped
from ..pursuit.admm import Pursued, Shrinkage, pursue
from ..solvers.solve import user_stacklevel
from ._base import check_same_kind, check_scores, seed, validated
from ._fit_context import FitContext, reports_progress

__all__ = ["PrincipalComponentPursuit"]


class PrincipalComponentPursuit(
    FitContext, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """A low-rank matrix and a sparse one whose sum is X: PCA that single bad entries do not move.

    It solves ``min ||L||_* + lam ||S||_1 subject to L + S = X`` (Candes, Li, Ma and Wright, "Robust
    principal component analysis?", 2011). Where X is the sum of an incoherent matrix of low rank and
    one with few nonzero entries, of whatever size, both are recovered exactly. As in the source, X is
    decomposed as it is: nothing is centred, and a mean is part of L. One that is much larger than the
    rest costs many iterations; take it out first.

    Parameters
    ----------
    lam : float or None
        The weight of the sparse part; None is ``1 / sqrt(max(n_samples, n_features))``, for which the
        source proves recovery.
    mu : float or None
        The penalty of alternating directions, in units of 1/X. It moves the number of iterations and
        not the solution. A number is kept, as in the source; None starts from the source's
        ``n_samples * n_features / (4 sum |X|)`` and is adapted to the residuals.
    tol : float
        Stop when ``||X - L - S||_F <= tol ||X||_F``, as the source does, and the dual residual is at
        most ``tol`` too. Below about 1e-6 in float32, and 2e-15 in float64, rounding decides, and
        the iterations stop there; ``gap_`` tells what was reached.
    max_iter : int
        The most iterations; a ConvergenceWarning tells the gap reached.
    random_state : int, RandomState instance or None
        The seed of the random start of the singular vectors; the solution depends on it within tol.
    verbose : int
        1 shows a line of progress on standard error, 2 a line for each iteration.

    Attributes
    ----------
    low_rank_, sparse_ : arrays of shape (n_samples, n_features)
        L and S; their sum is X within ``gap_``.
    components_ : array of shape (n_components, n_features)
        Right singular vectors of L, by decreasing singular value; in each the entry of largest
        magnitude is positive.
    singular_values_ : array of shape (n_components,)
        The singular values of L.
    n_components_ : int
        The rank of L: 0 where L is 0, and scores then have no columns.
    gap_ : float
        ``||X - L - S||_F / ||X||_F``.
    dual_residual_ : float
        ``mu ||S - S'||_F / ||Y||_F``, S' being the S before: how far Y is from the subgradients of
        both norms.
    convergence_ : list of (int, float)
        Iterations, and the larger of the gap and the dual residual.
    n_iter_, n_features_in_ : int

    Notes
    -----
    Each iteration shrinks singular values. Those above the threshold are found by subspace iteration
    from the vectors of the iteration before, to an accuracy that follows the residuals, or from the
    smaller Gram matrix where they are many; at the end all eigenvalues of a Gram matrix tell that
    none was missed. Memory is about ten matrices of the size of X.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import PrincipalComponentPursuit
    >>> rng = np.random.default_rng(0)
    >>> L = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 60))
    >>> X = L + 10.0 * (rng.random(L.shape) < 0.05)
    >>> model = PrincipalComponentPursuit().fit(X)
    >>> model.n_components_
    2
    >>> bool(np.allclose(model.low_rank_, L, atol=1e-4))
    True
    >>> bool(np.allclose(model.inverse_transform(model.transform(X[:5])), L[:5], atol=1e-4))
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        "lam": [Interval(Real, 0, None, closed="neither"), None],
        "mu": [Interval(Real, 0, None, closed="neither"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        lam: float | None = None,
        mu: float | None = None,
        tol: float = 1e-7,
        max_iter: int = 1000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.lam = lam
        self.mu = mu
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @reports_progress
    def fit(self, X: Any, y: Any = None) -> PrincipalComponentPursuit:
        """Decompose X.

        Parameters
        ----------
        X : array, data frame or memory map of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        self._validate_params()
        X = self._dense(X, reset=True)
        self._set(self._pursued(X))
        return self

    def transform(self, X: Any) -> Array:
        """The scores of new rows: for each the t that minimises ``||x - components_.T @ t||_1``.

        Entries of a row that are far off do not move its scores, as long as they are few. Interior
        points find the minimum to 1e-10 of ``||x||_1``, in float64. A training row whose sparse part
        was recovered gets the scores of its row of L, ``low_rank_ @ components_.T``; where X is not of
        low rank plus sparse these differ, as the nuclear norm has shrunk L.

        Parameters
        ----------
        X : array, data frame or memory map of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        check_same_kind(X, self.components_, f"{type(self).__name__}.transform")
        X = self._dense(X, reset=False)
        xp = namespace(X)
        V = xp.astype(self.components_, xp.float64, copy=False).T
        (N, d), r = X.shape, self.n_components_
        step = max(1, BATCH // (d + r * r))
        scores = [
            l1_scores(xp.astype(X[i : min(i + step, N), :], xp.float64, copy=False), V)
            for i in range(0, N, step)
        ]
        return xp.astype(xp.concat(scores, axis=0), X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> Array:
        """Rows from scores: ``X @ components_``.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)

        Returns
        -------
        rows : array of shape (n_samples, n_features)
        """
        check_is_fitted(self, "components_")
        check_same_kind(X, self.components_, f"{type(self).__name__}.inverse_transform")
        return check_scores(X, self.n_components_) @ self.components_

    def _dense(self, X: Any, *, reset: bool) -> Array:
        if isinstance(X, (Operator, LinearOperator)):
            raise TypeError(
                f"X is a {type(X).__name__}, and {type(self).__name__} needs all of X at once; give a "
                "dense array"
            )
        shape = getattr(X, "shape", ())
        if isinstance(X, np.memmap) and reset:
            size = 5 * math.prod(shape) * X.dtype.itemsize
            ensure(size, f"X of shape {shape} and the parts of it", "give fewer rows or columns")
        return as_operator(validated(self, X, reset=reset, sparse=False)).todense()

    def _pursued(self, X: Array) -> Pursued:
        """L and S of X, in its units."""
        xp = namespace(X)
        largest = float(xp.max(xp.abs(X)))
        if largest > float(xp.finfo(X.dtype).max) / (2 * math.sqrt(math.prod(X.shape))):
            raise ValueError(
                f"X has entries so large, {largest:.1e}, that its singular values may overflow "
                f"{X.dtype}; divide X by its largest magnitude"
            )
        # A power of 2 changes no digit, and squares stay in range.
        scale = 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 1.0
        lam = self.lam if self.lam is not None else 1 / math.sqrt(max(X.shape))
        found = pursue(
            X / scale,
            lam=lam,
            mu=None if self.mu is None else self.mu * scale,
            tol=self.tol,
            max_iter=self.max_iter,
            shrink=Shrinkage(seed(self.random_state)),
        )
        if not (found.converged or stopped()):
            warnings.warn(
                f"{type(self).__name__} stopped at max_iter={self.max_iter} with a gap of "
                f"{found.gap:.1e} and a dual residual of {found.dual:.1e}, above "
                f"tol={self.tol:.1e}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=user_stacklevel(),
            )
        return found.scaled(scale)

    def _set(self, found: Pursued) -> None:
        _, self.singular_values_, V = found.triplets
        self.low_rank_, self.sparse_ = found.L, found.S
        self.components_ = (V * fix_signs(V)[None, :]).T
        self.n_components_ = int(V.shape[1])
        self.gap_, self.dual_residual_, self.n_iter_ = found.gap, found.dual, found.iterations
        self.convergence_ = convergence(None, max(self.gap_, self.dual_residual_))

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = True
        return tags


#: Rows are transformed in batches of about so many numbers.
BATCH = 2**22

#: What interior points leave of ``||x||_1``, the most of their steps, and how near a step goes to the
#: boundary.
PRECISION, ROUNDS, NEAR = 1e-10, 100, 0.9995


def l1_scores(X: Array, V: Array) -> Array:
    """``argmin_t ||x - V t||_1`` for each row x, V orthonormal: Portnoy and Koenker (1997), Section 4.

    Mehrotra's interior points for ``min sum(p + q), V t + p - q = x, p, q >= 0`` and its dual
    ``max x^T y, V^T y = 0, |y| <= 1``, all rows at once; both constraints hold from the start. A row is
    done when ``||x - V t||_1 - (x - V t)^T y``, which bounds what is missing, is small.
    """
    xp = namespace(X)
    if V.shape[1] == 0:
        return X @ V
    size = xp.mean(xp.abs(X), axis=1, keepdims=True)
    size = xp.where(size > 0, size, xp.ones_like(size))
    x, y, rows = X / size, xp.zeros_like(X), xp.arange(X.shape[0], device=device(X))
    t = x @ V
    r = x - t @ V.T
    spread = xp.mean(xp.abs(r), axis=1, keepdims=True) + PRECISION
    p, q = xp.clip(r, 0.0, None) + spread, xp.clip(-r, 0.0, None) + spread
    found: list[tuple[Array, Array]] = []
    for _ in range(ROUNDS):
        r = x - t @ V.T
        missing = xp.sum(xp.abs(r) - r * y, axis=1)
        done = missing <= PRECISION * X.shape[1]
        found.append((rows[done], t[done]))
        if bool(xp.all(done)):
            break
        x, y, t, p, q, rows = (a[~done] for a in (x, y, t, p, q, rows))
        y, t, p, q = _step(x, y, t, p, q, V)
    else:
        warnings.warn(
            f"{rows.shape[0]} of {X.shape[0]} rows were not fitted to {PRECISION:.0e} in {ROUNDS} steps; "
            "their scores are near the best",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )
        found.append((rows, t))
    order = xp.argsort(xp.concat([row for row, _ in found]))
    return xp.take(xp.concat([t for _, t in found], axis=0), order, axis=0) * size


def _step(x: Array, y: Array, t: Array, p: Array, q: Array, V: Array) -> tuple[Array, ...]:
    """One predictor and corrector step from (y, t, p, q)."""
    xp, k = namespace(x), V.shape[1]
    eps = float(xp.finfo(y.dtype).eps)
    a, b = xp.clip(1 - y, eps, None), xp.clip(1 + y, eps, None)
    W = 1 / (p / a + q / b)
    G = xp.stack([W @ (V * V[:, j : j + 1]) for j in range(k)], axis=1)
    # Where fewer than k residuals vanish the solution is not unique, and G nearly singular.
    ridge = 10 * eps * xp.linalg.trace(G) / k
    G = G + ridge[:, None, None] * xp.eye(k, dtype=G.dtype, device=device(G))[None, :, :]
    primal, dual = x - t @ V.T - p + q, y @ V

    def newton(at_p: Array, at_q: Array) -> tuple[Array, ...]:
        """dy, dt, dp, dq with ``a dp - p dy = at_p`` and ``b dq + q dy = at_q``."""
        g = primal - at_p / a + at_q / b
        dt = xp.linalg.solve(G, ((W * g) @ V + dual)[:, :, None])[:, :, 0]
        dy = W * (g - dt @ V.T)
        return dy, dt, (at_p + p * dy) / a, (at_q - q * dy) / b

    def lengths(dy: Array, dp: Array, dq: Array) -> tuple[Array, Array]:
        """How far p and q, and y, can go, at most 1."""
        ends = (xp.maximum(-dp / p, -dq / q), xp.maximum(dy / a, -dy / b))
        first, second = (NEAR / xp.clip(xp.max(e, axis=1, keepdims=True), NEAR, None) for e in ends)
        return first, second

    dy, dt, dp, dq = newton(-p * a, -q * b)
    go, turn = lengths(dy, dp, dq)
    now = xp.mean(p * a + q * b, axis=1, keepdims=True)
    then = (p + go * dp) * (a - turn * dy) + (q + go * dq) * (b + turn * dy)
    aim = now * (xp.mean(then, axis=1, keepdims=True) / now) ** 3 / 2
    dy, dt, dp, dq = newton(aim - p * a + dp * dy, aim - q * b - dq * dy)
    go, turn = lengths(dy, dp, dq)
    return y + turn * dy, t + go * dt, p + go * dp, q + go * dq
