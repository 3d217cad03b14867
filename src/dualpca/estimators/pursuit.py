"""Principal component pursuit as a scikit-learn estimator."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from .._memory import ensure
from ..linalg import Array, fix_signs, max_abs, namespace
from ..operators import Operator, as_operator
from ..progress import convergence, stopped
from ..pursuit.admm import Shrinkage, pursue
from ..pursuit.l1_fit import l1_scores
from ..solvers.solve import user_stacklevel
from ._base import ITERATION_CONSTRAINTS, seed, validated
from ._fit_context import reports_progress
from ._scores import AxesMixin


@dataclass(eq=False, repr=False)
class PrincipalComponentPursuit(AxesMixin, BaseEstimator):
    """Split X into a low-rank and a sparse matrix: PCA that single bad entries do not move.

    It solves ``min ||L||_* + lam ||S||_1 subject to L + S = X`` (Candes, Li, Ma and Wright, "Robust
    principal component analysis?", 2011). If X is the sum of an incoherent matrix of low rank and one
    with few nonzero entries of any size, both are recovered exactly. X is not centred, as in the
    source: a mean is part of L, and one that is much larger than the rest costs many iterations.

    Parameters
    ----------
    lam : float or None
        The weight of the sparse part; None is ``1 / sqrt(max(n_samples, n_features))``, for which the
        source proves recovery.
    mu : float or None
        The penalty of alternating directions, in units of 1/X. It affects the number of iterations,
        not the solution. A number is kept, as in the source; None starts from the source's
        ``n_samples * n_features / (4 sum |X|)`` and adapts to the residuals.
    tol : float
        Stop when ``||X - L - S||_F <= tol ||X||_F``, as the source does, and the dual residual is at
        most ``tol`` too. Rounding ends the iterations at about 1e-6 in float32 and 2e-15 in float64;
        ``residual_`` has what was reached.
    max_iter, random_state, verbose
        As in :class:`dualpca.PCA`; the solution depends on the seed within ``tol`` only.

    Attributes
    ----------
    low_rank_, sparse_ : arrays of shape (n_samples, n_features)
        L and S; their sum is X within ``gap_``.
    components_ : array of shape (n_components, n_features)
        Right singular vectors of L, by decreasing singular value; the entry of largest magnitude in
        each is positive.
    singular_values_ : array of shape (n_components,)
        The singular values of L.
    n_components_ : int
        The rank of L: 0 if L is 0, and scores then have no columns.
    gap_, dual_residual_, residual_ : float
        ``||X - L - S||_F / ||X||_F``; ``mu ||S - S'||_F / ||Y||_F``, where S' is the S before, which
        bounds the distance of Y to the subgradients of both norms; and the larger of the two.
    n_samples_, n_features_in_, n_iter_, n_passes_, convergence_
        As in :class:`dualpca.PCA`; each iteration is a pass over X.

    Notes
    -----
    Each iteration shrinks singular values. Those above the threshold come from subspace iteration,
    started from the vectors of the iteration before and as accurate as the residuals require, or from
    the smaller Gram matrix if they are many. At the end all eigenvalues of a Gram matrix show that
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
        **ITERATION_CONSTRAINTS,
    }

    _: KW_ONLY
    lam: float | None = None
    mu: float | None = None
    tol: float = 1e-7
    max_iter: int = 1000
    random_state: Any = None
    verbose: int = 0

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
        X = self._dense(X, reset=True)
        options = {name: getattr(self, name) for name in ("lam", "mu", "tol", "max_iter")}
        result = pursue(X, Shrinkage(seed(self.random_state)), **options)
        if not (result.converged or stopped()):
            warnings.warn(
                f"{type(self).__name__} stopped at max_iter={self.max_iter} with a gap of "
                f"{result.gap:.1e} and a dual residual of {result.dual_residual:.1e}, above "
                f"tol={self.tol:.1e}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=user_stacklevel(),
            )
        _, self.singular_values_, V = result.triplets
        self.low_rank_, self.sparse_ = result.L, result.S
        self.components_ = (V * fix_signs(V)[None, :]).T
        self.n_components_, self.n_samples_ = int(V.shape[1]), int(X.shape[0])
        self.gap_, self.dual_residual_ = result.gap, result.dual_residual
        self.residual_ = max(self.gap_, self.dual_residual_)
        self.n_iter_ = self.n_passes_ = result.iterations
        self.convergence_ = convergence(None, self.residual_)
        return self

    def transform(self, X: Any) -> Array:
        """Return the scores of new rows: the t that minimises ``||x - components_.T @ t||_1``.

        A few entries of a row that are far off do not move its scores. The minimum is found to 1e-10
        of ``||x||_1``, in float64. A training row whose sparse part was recovered gets the scores of
        its row of L, ``low_rank_ @ components_.T``; if X is not of low rank plus sparse these differ,
        since the nuclear norm has shrunk L.

        Parameters
        ----------
        X : array, data frame or memory map of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples, n_components)
        """
        self._check_kind(X, "transform")
        return l1_scores(self._dense(X, reset=False), self.components_.T)

    def _dense(self, X: Any, *, reset: bool) -> Array:
        if isinstance(X, (Operator, LinearOperator)):
            raise TypeError(
                f"X is a {type(X).__name__}, but {type(self).__name__} needs all of X at once; give a "
                "dense array"
            )
        shape = getattr(X, "shape", ())
        if isinstance(X, np.memmap) and reset:
            size = 5 * math.prod(shape) * X.dtype.itemsize
            ensure(size, f"X of shape {shape} and the parts of it", "give fewer rows or columns")
        X = as_operator(validated(self, X, reset=reset, sparse=False)).todense()
        largest, most = max_abs(X), float(namespace(X).finfo(X.dtype).max)
        if reset and largest > most / (2 * math.sqrt(math.prod(X.shape))):
            raise ValueError(
                f"X has entries so large, {largest:.1e}, that its singular values may overflow "
                f"{X.dtype}; divide X by its largest magnitude"
            )
        return X
