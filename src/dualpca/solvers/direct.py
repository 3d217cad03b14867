"""Direct solvers: LAPACK's SVD of a dense matrix, and the smaller Gram matrix of any operator."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from array_api_compat import is_numpy_array

from ..linalg import Array, column_norms, eigh, fix_signs, namespace
from ..operators import Operator
from .ritz import Ritz, rayleigh_ritz

__all__ = ["gram_ritz", "lapack_ritz", "leading_eigenvectors"]


def leading_eigenvectors(S: Array, s: int) -> Array:
    """Eigenvectors of a symmetric matrix for its s largest eigenvalues, in decreasing order."""
    if not is_numpy_array(S):
        return eigh(S)[1][:, :s]
    n = S.shape[0]
    if s == n:
        return np.flip(scipy.linalg.eigh(S, driver="evd")[1], axis=1)
    return np.flip(scipy.linalg.eigh(S, subset_by_index=[n - s, n - 1])[1], axis=1)


def lapack_ritz(X: Operator, s: int) -> Ritz:
    """The s leading right singular vectors by LAPACK's SVD of the dense X."""
    data = X.todense()
    _, sigma, Vt = namespace(data).linalg.svd(data, full_matrices=False)
    V, theta = Vt[:s, :].T, sigma[:s] ** 2  # the singular values keep digits that X^T X has not
    return Ritz(V * fix_signs(V)[None, :], theta, column_norms(X.sweep(V) - V * theta[None, :]))


def gram_ritz(X: Operator, s: int) -> Ritz:
    """The s leading right singular vectors from ``X^T X`` or ``X X^T``, whichever is smaller.

    Exact to ``eps (sigma_1 / sigma_s)^2``: squaring loses the singular values below ``sqrt(eps)``
    of the largest, of which the residual then speaks.
    """
    N, d = X.shape
    if d <= N:
        V = leading_eigenvectors(X.gram(), s)
    else:
        U = leading_eigenvectors(X.kernel(), s)
        V = X.rmatmul(X.asarray(U))
    return rayleigh_ritz(X, X.asarray(V))
