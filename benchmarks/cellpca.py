"""cellPCA as its paper describes it (Centofanti, Hubert and Rousseeuw 2026, arXiv 2408.13596).

A plain transcription of the formulas, not the authors' program: hyperbolic tangents for cells and rows,
M-scales of the residuals of a start (MacroPCA's), then iteratively reweighted least squares over
loadings, scores and centre with these scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

#: The M-scale is the s at which rho of ``z / (CONSISTENT s)`` has the mean DELTA.
DELTA, CONSISTENT = 1.8811, 0.34308


@dataclass(frozen=True)
class Tanh:
    """``z^2 / 2`` up to b, constant from c on (Hampel, Rousseeuw and Ronchetti 1981)."""

    b: float = 1.5
    c: float = 4.0
    q1: float = 1.540793
    q2: float = 0.8622731

    def rho(self, z: np.ndarray) -> np.ndarray:
        top = self.b**2 / 2 + self.q1 / self.q2 * np.log(np.cosh(self.q2 * (self.c - self.b)))
        a = np.minimum(np.abs(z), self.c)
        return np.where(
            a <= self.b,
            z * z / 2,
            top - self.q1 / self.q2 * np.log(np.cosh(self.q2 * (self.c - a))),
        )

    def weight(self, z: np.ndarray) -> np.ndarray:
        a = np.clip(np.abs(z), self.b, self.c)
        return np.where(np.abs(z) <= self.b, 1.0, self.q1 * np.tanh(self.q2 * (self.c - a)) / a)


def tanh_of(b: float, c: float) -> Tanh:
    """The constants q1 and q2 of given b and c, at which psi is optimal and continuous."""
    A = B = 2 * norm.cdf(c) - 1
    for _ in range(500):
        found, before = _continuous(b, c, A, B), (A, B)
        A = 2 * quad(lambda z, f=found: f.weight(z) ** 2 * z * z * norm.pdf(z), 0, c, points=[b])[0]
        B = 2 * quad(lambda z, f=found: f.weight(z) * z * z * norm.pdf(z), 0, c, points=[b])[0]
        if abs(A - before[0]) + abs(B - before[1]) < 1e-10:
            break
    return found


def _continuous(b: float, c: float, A: float, B: float) -> Tanh:
    """``q1 = (A (k - 1))^{1/2}``, ``q2 = B/2 ((k - 1)/A)^{1/2}``, continuous at the right k."""

    def loss(k: float) -> Tanh:
        return Tanh(b, c, np.sqrt(A * (k - 1)), 0.5 * B * np.sqrt((k - 1) / A))

    def jump(k: float) -> float:
        return loss(k).q1 * np.tanh(loss(k).q2 * (c - b)) - b

    return loss(brentq(jump, 1 + 1e-12, 1e6))


def m_scale(Z: np.ndarray) -> np.ndarray:
    """The M-scale about 0 of each column, without its missing cells."""
    s = np.nanmedian(np.abs(Z), axis=0) / 0.6745
    for _ in range(100):
        before = s
        s = s * np.sqrt(np.nanmean(Tanh().rho(Z / (CONSISTENT * s)), axis=0) / DELTA)
        if (np.abs(s - before) <= 1e-6 * before).all():
            break
    return s


def deviations(R: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """``t_i``, the root mean of ``sigma_j^2 rho_1(r_ij / sigma_j)`` over the cells that are there."""
    return np.sqrt(np.nanmean(scales**2 * Tanh().rho(R / scales), axis=1))


@lru_cache
def row_loss(p: int) -> Tanh:
    """rho_2: b and c are quantiles, 0.7 and 0.99, of the deviations of normal residuals."""
    R = np.random.default_rng(10).standard_normal((10_000, int(np.ceil(min(p / 2, 10)))))
    t = deviations(R, m_scale(R))
    t /= m_scale(t[:, None])
    return tanh_of(*np.quantile(t, [0.7, 0.99]))


def cellpca(
    X: np.ndarray,
    center: np.ndarray,
    U: np.ndarray,
    V: np.ndarray,
    steps: int = 1000,
    tol: float = 1e-6,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return centre, scores and orthonormal loadings of X, NaN where cells are missing, from a start."""
    there = ~np.isnan(X)
    Y = np.where(there, X, 0.0)
    scales = m_scale(X - center - U @ V.T)
    of_rows = row_loss(X.shape[1])
    row_scale = m_scale(deviations(X - center - U @ V.T, scales)[:, None])[0]
    fit = U @ V.T
    for _ in range(steps):
        R = X - center - fit
        w = np.where(there, Tanh().weight(np.nan_to_num(R) / scales), 0.0)
        W = w * of_rows.weight(deviations(R, scales) / row_scale)[:, None]
        V = _solved(W.T, U, (W * (Y - center)).T @ U)
        U = _solved(w, V, (w * (Y - center)) @ V)
        left, sigma, right = np.linalg.svd(V, full_matrices=False)
        V, U = left, U @ (right.T * sigma)
        mass = np.maximum(W.sum(axis=0), 1e-300)
        best = (W * (Y - U @ V.T)).sum(axis=0) / mass
        shift = V.T @ ((W * Y).sum(axis=0) / mass - best)
        center, U = best + V @ shift, U - shift
        fit, before = U @ V.T, fit
        if np.linalg.norm(fit - before) <= tol * np.linalg.norm(before):
            break
    return center, U, V


def _solved(W: np.ndarray, H: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The minimisers of ``sum_j w_ij (y_ij - h_j^T b)^2`` of all rows i."""
    systems = np.einsum("ij,jk,jl->ikl", W, H, H, optimize=True)
    return np.einsum("ikl,il->ik", np.linalg.pinv(systems, rcond=1.5e-8, hermitian=True), right)
