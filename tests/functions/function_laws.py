"""The laws of convex functions, each for one function, on one shape, from one seed."""

import math

import array_api_strict
import numpy as np
import pytest
import torch
from function_values import domain_points, into_domain, points, reference
from scipy.optimize import minimize

from dualpca.functions import Ball, RowLoss
from dualpca.functions.rows import RowFunction

INF = math.inf
TALL, WIDE, SQUARE, COLUMN = (7, 3), (3, 7), (4, 4), (6, 1)
SEEDS = [0, 1]
GAMMAS = [(0.1, 0), (1.0, 1), (7.5, 2)]  # with a seed each


def dot(A, B):
    return float(np.sum(A * B))


def close(a, b, tol=1e-9):
    """Equality of finite numbers relative to 1 or their size."""
    return abs(a) < INF and abs(b) < INF and abs(a - b) <= tol * (1 + abs(a) + abs(b))


def at_least(a, b, tol=1e-9):
    """``a >= b`` up to rounding relative to 1 or their size."""
    return a >= b - tol * (1 + abs(b) + (abs(a) if a < INF else 0))


# Values, subgradients, conjugates.


def value_and_domain(f, shape, seed):
    for W in domain_points(f, shape, seed):
        value = f(W)
        assert isinstance(value, float)
        assert close(value, reference(f, W))
    W = 10.0 * np.random.default_rng(seed).standard_normal(shape)
    outside = 1.01 * into_domain(f, 1e3 * W, 1.0)
    bounded = isinstance(getattr(f, "g", f), (Ball, RowLoss))
    assert (f(outside) == INF) is bounded
    assert f(0.98 * outside) < INF


def subgradient_inequality(f, shape, seed):
    targets = domain_points(f, shape, seed) + domain_points(f, shape, seed + 100)[:4]
    values = [f(V) for V in targets]
    assert max(values) < INF
    for W in domain_points(f, shape, seed):
        value, G = f(W), f.subgradient(W)
        assert G.shape == W.shape
        both = f.value_and_subgradient(W)
        assert close(both[0], value, 1e-12)
        np.testing.assert_allclose(both[1], G, rtol=1e-12, atol=1e-12)
        assert np.isfinite(G).all()
        for V, there in zip(targets, values, strict=True):
            assert at_least(there, value + dot(G, V - W))


def fenchel_young_inequality(f, shape, seed):
    conjugates = [(H, f.conjugate(H)) for H in domain_points(f.conjugate, shape, seed + 100)]
    for W in domain_points(f, shape, seed):
        value = f(W)
        for H, there in conjugates:
            assert value + there < INF
            assert at_least(value + there, dot(W, H))


def fenchel_young_equality(f, shape, seed):
    for W in domain_points(f, shape, seed):
        H = f.subgradient(W)
        assert close(f(W) + f.conjugate(H), dot(W, H), 1e-8)
    for H in domain_points(f.conjugate, shape, seed):
        W = f.conjugate.subgradient(H)
        assert close(f(W) + f.conjugate(H), dot(W, H), 1e-8)


def biconjugate(f, shape, seed):
    again = f.conjugate.conjugate
    assert again == f
    # A row function built anew from its conjugate has the same values, without the shortcut.
    if isinstance(f, RowFunction):
        again = type(f.conjugate)(f.conjugate.alpha, f.loss).conjugate
        assert again is not f
        assert type(again) is type(f)
    for W in domain_points(f, shape, seed):
        assert close(again(W), f(W), 1e-12)


def maximum(objective, seed):
    """The largest value of a concave objective on R^3, by Nelder-Mead from several points."""
    rng = np.random.default_rng(seed)
    options = {"xatol": 1e-9, "fatol": 1e-11, "maxiter": 4000, "maxfev": 4000}
    best, start = -INF, rng.standard_normal((3, 3))
    for w in start:
        for _ in range(3):  # a restart frees a simplex that collapsed on a kink
            found = minimize(lambda w: -objective(w), w, method="Nelder-Mead", options=options)
            w = found.x
        best = max(best, -float(found.fun))
    return best


# Proximal maps.


def moreau(f, shape, gamma, seed):
    assert f.conjugate.has_prox
    for W in points(shape, seed):
        P = f.prox(W, gamma)
        Q = gamma * f.conjugate.prox(W / gamma, 1 / gamma)
        assert P.shape == W.shape
        np.testing.assert_allclose(P + Q, W, rtol=0, atol=1e-9 * (1 + abs(W).max()))


def prox_optimality(f, shape, gamma, seed):
    """(W - P)/gamma is a subgradient at P, and no point near P or far from it does better."""
    rng = np.random.default_rng(seed + 50)
    others = [(V, f(V)) for V in domain_points(f, shape, seed + 100)]
    for W in points(shape, seed):
        P = f.prox(W, gamma)
        value, G = f(P), (W - P) / gamma
        assert value < INF
        for V, there in others:
            assert at_least(there, value + dot(G, V - P), 1e-8)
        best = value + dot(P - W, P - W) / (2 * gamma)
        for step in (1.0, 1e-1, 1e-2, 1e-3):
            V = into_domain(f, P + step * rng.standard_normal(shape), 1.0 - 1e-12)
            assert at_least(f(V) + dot(V - W, V - W) / (2 * gamma), best, 1e-8)


def projection_is_idempotent_and_leaves_the_ball_alone(f, seed):
    for W in points(TALL, seed):
        P = f.prox(W, 1.0)
        assert reference(f.norm, P) <= 1 + 1e-12
        np.testing.assert_allclose(f.prox(P, 3.0), P, rtol=0, atol=1e-12)
        inside = into_domain(f, W, 0.99)
        np.testing.assert_allclose(f.prox(inside, 1.0), inside, rtol=0, atol=1e-14)


# Other arrays.


def strict(array, dtype, device="CPU_DEVICE"):
    xp = array_api_strict
    return xp.asarray(array, dtype=getattr(xp, dtype), device=xp.Device(device))


def to_numpy(array):
    if isinstance(array, (np.ndarray, torch.Tensor)):
        return np.asarray(array)
    return np.asarray(array.to_device(array_api_strict.Device("CPU_DEVICE")))


KINDS = {
    "numpy": lambda array, dtype: np.asarray(array, dtype=dtype),
    "torch": lambda array, dtype: torch.asarray(array, dtype=getattr(torch, dtype)),
    "strict": strict,
    # A device that numpy cannot read: as a GPU.
    "device": lambda array, dtype: strict(array, dtype, "device1"),
}


def same_on_other_arrays(f, shape, kind, dtype, seed):
    """Value, subgradient and prox there are numpy's in float64, and of that kind and dtype."""
    tol = 1e-11 if dtype == "float64" else 2e-5
    W = into_domain(f, np.random.default_rng(seed).standard_normal(shape))
    move = KINDS[kind]
    g = type(f)(move(f.alpha, dtype), f.loss) if isinstance(f, RowFunction) else f
    moved = move(W, dtype)

    def same(actual, expected):
        assert type(actual) is type(moved)
        assert actual.dtype == moved.dtype
        assert actual.shape == moved.shape
        size = 1 + abs(expected).max()
        np.testing.assert_allclose(to_numpy(actual), expected, rtol=tol, atol=tol * size)

    value = g(moved)
    assert isinstance(value, float)
    assert close(value, f(W), tol)
    same(g.subgradient(moved), f.subgradient(W))
    if f.has_prox:
        same(g.prox(moved, 0.7), f.prox(W, 0.7))


def homogeneity_at_extreme_scales(f, dtype):
    """Positive homogeneity far beyond the square roots of the largest and smallest numbers."""
    W = np.random.default_rng(0).standard_normal(TALL).astype(dtype)
    tol = 20 * float(np.finfo(dtype).eps)
    for scale in (1e200, 1e-200) if dtype == "float64" else (1e30, 1e-30):
        assert f(W * W.dtype.type(scale)) / scale == pytest.approx(f(W), rel=tol)
        np.testing.assert_allclose(
            f.subgradient(W * W.dtype.type(scale)), f.subgradient(W), rtol=tol, atol=tol
        )
