"""The values of all functions by numpy alone, and points inside their domains."""

import itertools
import math

import numpy as np
from scipy.optimize import minimize_scalar

from dualpca.functions import (
    Ball,
    ElasticNet,
    HalfSquare,
    HardSquare,
    KyFan,
    KyFanDual,
    Lp,
    Norm,
    Power,
    ReversedHuber,
    RowLoss,
    RowLossConjugate,
    SoftSquare,
    Spectral,
)
from dualpca.functions.rows import RowFunction
from dualpca.functions.sparse import KSupport, TopK
from dualpca.functions.sums import Envelope, PlusSquare, Scaled

INF = math.inf
COLUMNWISE = (TopK, KSupport, SoftSquare, ElasticNet, HardSquare, ReversedHuber)
ONE_SIDED = (KSupport, ElasticNet, ReversedHuber)  # where positive, infinite at negative entries


def reference(f, W):
    """``f(W)``, one line for each class."""
    if isinstance(f, Spectral):
        return reference(f.g, np.linalg.svd(W, compute_uv=False))
    if isinstance(f, Ball):
        return 0.0 if reference(f.norm, W) <= 1 else INF
    if isinstance(f, HalfSquare):
        return reference(f.norm, W) ** 2 / 2
    if isinstance(f, COLUMNWISE):
        return by_columns(f, W)
    if isinstance(f, RowFunction):
        return by_rows(f, np.linalg.norm(W, axis=1))
    w = np.sort(np.abs(np.ravel(W)))[::-1]
    if isinstance(f, Scaled):
        return f.c * reference(f.f, W / f.c if f.inside else W)
    if isinstance(f, PlusSquare):
        return reference(f.f, W) + f.c / 2 * (w**2).sum()
    if isinstance(f, Envelope):
        return sum(least(f, t) for t in w)
    if isinstance(f, Lp):
        return w.max() if f.p == INF else (w ** float(f.p)).sum() ** float(1 / f.p)
    if isinstance(f, KyFan):
        return w[: f.k].sum()
    if isinstance(f, KyFanDual):
        return max(w[0], w.sum() / f.k)
    assert isinstance(f, Power), f"{f!r} has no reference"
    return (w ** float(f.p)).sum() / float(f.p)


# Sums: the envelope by a search for each entry.


def least(f, t):
    """``min_u f(u) + (t - u)^2 / (2c)`` for one entry, between 0 and t; the functions are sums."""
    one = f.f.norm if isinstance(f.f, Ball) else None
    top = min(t, 1.0) if one == Lp(math.inf) else t

    def value(u):
        return (0.0 if one else reference(f.f, np.array([u]))) + (t - u) ** 2 / (2 * f.c)

    found = minimize_scalar(value, bounds=(0.0, top), method="bounded", options={"xatol": 1e-13})
    return min(found.fun, value(0.0), value(top))


# Row functions.


def tanh_loss(z):
    """rho of cellPCA, with b = 1.5 and c = 4."""
    far = 3.7622127 - 1.540793 / 0.8622731 * np.log(np.cosh(0.8622731 * (4 - z)))
    return np.where(z <= 1.5, z**2 / 2, np.where(z <= 4, far, 3.7622127))


RHO = {
    "L1": lambda r, c: r,
    "PowerLoss": lambda r, c: np.sqrt(r),  # p = 1/2
    "Huber": lambda r, c: np.where(r <= c, r**2, 2 * c * r - c**2),
    "Log": lambda r, c: 2 * np.log(r),
    "Cauchy": lambda r, c: c**2 * np.log(1 + (r / c) ** 2),
    "GemanMcClure": lambda r, c: c**2 * r**2 / (c**2 + r**2),
    "Welsch": lambda r, c: c**2 * (1 - np.exp(-((r / c) ** 2))),
    "Tukey": lambda r, c: c**2 / 3 * (1 - (1 - np.minimum(r / c, 1) ** 2) ** 3),
    "Tanh": lambda r, c: 2 * c**2 * tanh_loss(r / c),
}


def rho(loss, r):
    """The losses as their papers write them."""
    return RHO[type(loss).__name__](r, loss.scale)


def by_rows(f, size):
    if isinstance(f, RowLossConjugate):
        return supremum_over_rows(f, size).sum()
    inside = (size <= f.alpha).all()
    return -rho(f.loss, np.sqrt(f.alpha**2 - size**2)).sum() if inside else INF


def supremum_over_rows(f, h):
    """``max_t h t + rho(sqrt(alpha^2 - t^2))``, concave in t: by golden sections of an angle."""
    low, high, golden = np.zeros_like(h), np.full_like(h, np.pi / 2), (math.sqrt(5) - 1) / 2

    def value(angle):
        return h * f.alpha * np.sin(angle) + rho(f.loss, f.alpha * np.cos(angle))

    for _ in range(100):
        a, b = high - golden * (high - low), low + golden * (high - low)
        left = value(a) >= value(b)
        low, high = np.where(left, low, a), np.where(left, b, high)
    return value(low)


# Sparse functions: TopK over all supports, KSupport by its weights theta, entries by loops.


def parameter(f):
    f = getattr(f, "norm", f)
    return f.k if isinstance(f, Norm) else f.gamma


def each(value, n):
    return value if isinstance(value, tuple) else (value,) * n


def combinations(d, k):
    return itertools.combinations(range(d), k)


def top_k(z, k):
    """The largest norm of a part of z with k entries, over all of them."""
    k = min(k, len(z))
    return max(math.sqrt(sum(z[i] ** 2 for i in part)) for part in combinations(len(z), k))


def k_support(w, k):
    """``min_theta (sum_i w_i^2/theta_i)^{1/2}``, 0 <= theta <= 1, sum theta <= k: theta by bisection."""
    w = np.abs(w)
    w = w[w > 0] / max(w.max(), 1e-300)
    if len(w) <= k:
        return np.linalg.norm(w)
    low, high = 0.0, 1 / w.min()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * w, 1).sum() < k else (low, middle)
    return math.sqrt((w**2 / np.minimum(high * w, 1)).sum())


def entry(f, h, gamma):
    h = abs(h)
    if isinstance(f, SoftSquare):
        return max(h - gamma, 0) ** 2 / 2
    if isinstance(f, HardSquare):
        return max(h**2 - gamma, 0) / 2
    if isinstance(f, ElasticNet):
        return h**2 / 2 + gamma * h
    root = math.sqrt(gamma)
    return root * h if h <= root else (h**2 + gamma) / 2


def by_columns(f, W):
    columns = W.reshape(len(W), -1).T
    if f.positive and isinstance(f, ONE_SIDED) and (W < 0).any():
        return INF
    if f.positive:
        columns = np.maximum(columns, 0)
    values = each(parameter(f), len(columns))
    if isinstance(f, TopK):
        return np.linalg.norm([top_k(z, k) for z, k in zip(columns, values, strict=True)])
    if isinstance(f, KSupport):
        scale = abs(columns).max(axis=1)
        return np.linalg.norm(
            [t * k_support(w, k) for t, w, k in zip(scale, columns, values, strict=True)]
        )
    return sum(entry(f, h, g) for z, g in zip(columns, values, strict=True) for h in z)


# Points.


def into_domain(f, W, radius=0.95):
    """W pulled towards 0 until it lies in ``radius`` times the domain of f."""
    if isinstance(f, RowLoss):
        size = np.linalg.norm(W, axis=1)
        return W * np.minimum(1, radius * f.alpha / np.where(size > 0, size, 1))[:, None]
    ball = f.g if isinstance(f, Spectral) else f
    gauge = getattr(ball, "norm", ball)
    if isinstance(gauge, ONE_SIDED) and gauge.positive:
        W = np.maximum(W, 0)
    if not isinstance(ball, Ball):
        return W
    size = reference(Spectral(gauge) if isinstance(f, Spectral) else gauge, W)
    return W * min(1.0, radius / size) if size > 0 else W


def points(shape, seed):
    """Generic points and degenerate ones: ties, zeros, deficient rank, the origin, other scales."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(shape)
    return [
        normal,
        0.1 * rng.standard_normal(shape),
        10.0 * rng.standard_normal(shape),
        rng.integers(-1, 2, shape).astype(float),
        rng.standard_normal((shape[0], 1)) @ rng.standard_normal((1, shape[1])),
        normal * (rng.random(shape) < 0.5),
        np.eye(*shape),
        np.zeros(shape),
    ]


def domain_points(f, shape, seed):
    return [into_domain(f, W) for W in points(shape, seed)]
