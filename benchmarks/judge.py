"""The judges: the variance that components capture, in float64 and outside every method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.metrics.pairwise import rbf_kernel


def reference(A: Any, s: int) -> np.ndarray:
    """The s leading right singular vectors of A, by decreasing singular value, in float64.

    From LAPACK's leading eigenvectors of the smaller Gram matrix, or from ARPACK where that matrix
    would be large. Captured variance errs by the square of what the vectors err, so squaring A
    costs nothing here; for the same reason one reference serves A rounded to float32.
    """
    A = A.astype(np.float64)
    if min(A.shape) > 6000:
        found = svds(A, k=s, ncv=4 * s + 20, tol=1e-8, rng=np.random.default_rng(0))
        return found[2][np.argsort(-found[1])].T
    wide = A.shape[1] > A.shape[0]
    K = A @ A.T if wide else A.T @ A
    K = K.toarray() if sp.issparse(K) else K
    n = K.shape[0]
    vectors = scipy.linalg.eigh(K, subset_by_index=[n - s, n - 1], overwrite_a=True)[1][:, ::-1]
    return np.linalg.qr(A.T @ vectors)[0] if wide else vectors


class Judge:
    """What components miss of the variance that the reference captures, relative.

    Parameters
    ----------
    A : array or sparse matrix
        The data as the methods get it, so in float32 where they race in float32.
    best : array of shape (d, s)
        The optimal components, as columns.
    """

    def __init__(self, A: Any, best: np.ndarray) -> None:
        self._A = A.astype(np.float64)
        self._gram = None
        if A.shape[0] > 10 * A.shape[1]:  # a tall matrix is read once, not at every judgement
            K = self._A.T @ self._A
            self._A, self._gram = None, K.toarray() if sp.issparse(K) else K
        self.optimum = self.captured(best)

    def captured(self, V: np.ndarray) -> float:
        """``||A Q||_F^2`` with Q an orthonormal basis of V's columns."""
        Q = np.linalg.qr(np.asarray(V, dtype=np.float64))[0]
        if self._gram is not None:
            return float(np.sum(Q * (self._gram @ Q)))
        return float(np.linalg.norm(self._A @ Q) ** 2)

    def shortfall(self, V: np.ndarray) -> float:
        """``1 - captured/optimum``; infinite where V is not finite."""
        if not np.all(np.isfinite(V)):
            return math.inf
        return 1 - self.captured(V) / self.optimum


def centred_kernel(X: Any) -> np.ndarray:
    """The RBF kernel of the rows with gamma 1/n_features, centred in feature space, in float64."""
    K = rbf_kernel(X.astype(np.float64))
    means = K.mean(axis=0)
    return K - means - means[:, None] + means.mean()


def kernel_reference(X: Any, s: int) -> np.ndarray:
    """The s leading eigenvectors of the centred kernel matrix, by LAPACK."""
    K, n = centred_kernel(X), len(X)
    return scipy.linalg.eigh(K, subset_by_index=[n - s, n - 1], overwrite_a=True)[1][:, ::-1]


class KernelJudge(Judge):
    """What vectors miss of the eigenvalues of the centred kernel matrix of X, relative.

    Parameters
    ----------
    X : array of shape (N, n_features)
        The data as the methods get it.
    best : array of shape (N, s)
        The leading eigenvectors, as columns.
    """

    def __init__(self, X: Any, best: np.ndarray) -> None:
        self._A, self._gram = None, centred_kernel(X)
        self.optimum = self.captured(best)
