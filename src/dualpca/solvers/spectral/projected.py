"""The projected eigenproblem: eigenpairs of a small symmetric matrix, a few first and more if wanted."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, eigh_tridiagonal
from scipy.linalg.lapack import dormqr, dsytrd, dsytrd_lwork

#: LAPACK computes all eigenvectors at once of matrices with no more rows than ALL, or if more than this
#: share of them is wanted (milliseconds of one core, all and few of them: 128 rows, 30 vectors 1.3 and
#: 1.4; 192, 74: 3.1 and 4.5; 256, 74: 6.7 and 5.9; 384, 40: 16 and 8; 576, 104: 37 and 25).
ALL, SHARE = 128, 0.3

#: Eigenvectors of a tridiagonal matrix are kept where their inner products are below this; a Newton step
#: then leaves rounding. They were below 4e-13 for up to 576 rows.
ORTHOGONAL = 1e-9


class Eigenpairs:
    """Eigenvalues, decreasing, and eigenvectors of a symmetric T, in float64.

    Most tests of a run need as many as components, and only the last one needs more. T is reduced to
    tridiagonal form once, and eigenvectors are computed when they are first asked for.
    """

    def __init__(self, T: np.ndarray) -> None:
        self.n, self._T = T.shape[0], T
        self._theta, self._Z, self._S = np.zeros(0), np.zeros((self.n, 0)), np.zeros((self.n, 0))
        self._reduced: tuple[np.ndarray, ...] | None = None

    def leading(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ``count`` leading eigenvalues and eigenvectors; all where ``count`` is larger."""
        count = min(count, self.n)
        if count > len(self._theta):
            few = self.n > ALL and (self._reduced is not None or count <= SHARE * self.n)
            if not (few and self._extend(count)):
                theta, S = np.linalg.eigh(self._T)
                self._theta, self._S = theta[::-1].copy(), S[:, ::-1]
        return self._theta[:count], self._S[:, :count]

    def _extend(self, count: int) -> bool:
        """Compute some more eigenvectors of the tridiagonal matrix; tell whether they can be used."""
        n, known = self.n, len(self._theta)
        if self._reduced is None:
            work = int(dsytrd_lwork(n, lower=1)[0])
            self._reduced = dsytrd(self._T, lower=1, lwork=work)[:4]
        A, diagonal, beside, tau = self._reduced
        for first in dict.fromkeys((known, 0)):  # anew where those of a cluster were computed apart
            try:
                theta, Z = eigh_tridiagonal(
                    diagonal,
                    beside,
                    select="i",
                    select_range=(n - count, n - 1 - first),
                    lapack_driver="stemr",
                )
            except LinAlgError:
                continue
            Z = np.concatenate([self._Z[:, :first], Z[:, ::-1]], axis=1)
            if Z.shape[1] != count:
                continue
            excess = Z.T @ Z - np.eye(count)
            if np.abs(excess).max() <= ORTHOGONAL:
                self._theta = np.concatenate([self._theta[:first], theta[::-1]])
                self._Z = Z - Z @ (excess / 2)
                # T = P (tridiagonal) P^T, and P has Householder vectors below the first row of A.
                turned = dormqr("L", "N", A[1:, : n - 1], tau, self._Z[1:], 64 * n)[0]
                self._S = np.concatenate([self._Z[:1], turned])
                return True
        return False
