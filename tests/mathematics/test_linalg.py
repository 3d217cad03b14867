"""Laws of thin factors, explicit and implicit, against LAPACK."""

import importlib
import math
import sys
from types import SimpleNamespace

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
import torch
from tests.loops import over

from dualpca import as_operator
from dualpca.functions import Lp, Spectral
from dualpca.linalg import (
    asarray_like,
    at_least,
    column_norms,
    cross,
    eigh,
    eps,
    finfo,
    fix_signs,
    gram,
    host_sample,
    inner,
    is_implicit,
    is_single,
    largest,
    map_row_blocks,
    map_singular_values,
    max_abs,
    namespace,
    norm,
    on_gpu,
    orthonormalize,
    over_blocks,
    residual,
    right_singular,
    sampled_rows,
    singular_values,
    solve_lower,
    standard_normal,
    to_numpy,
    total,
)
from dualpca.operators import Kernel, centered

SEEDS = [0, 1, 2]
SHAPES = [(30, 5), (30, 1), (5, 5), (4, 9)]

KINDS = {
    "numpy": np.asarray,
    "torch": torch.asarray,
    "strict": array_api_strict.asarray,
    "device": lambda A: array_api_strict.asarray(A, device=array_api_strict.Device("device1")),
}


def back(A):
    """Any array as numpy."""
    if isinstance(A, (np.ndarray, torch.Tensor)):
        return np.asarray(A)
    return np.asarray(A.to_device(array_api_strict.Device("CPU_DEVICE")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_entries_below_a_limit_become_it(kind, dtype):
    A = np.array([[-1.0, 0.5], [2.0, np.inf]], dtype=dtype)
    found = at_least(KINDS[kind](A), 0.25)
    assert type(found) is type(KINDS[kind](A))
    assert is_single(found) == (dtype == "float32")
    np.testing.assert_array_equal(back(found), np.clip(A, 0.25, None))


def with_singular_values(rng, shape, sigma):
    U = np.linalg.qr(rng.standard_normal((shape[0], len(sigma))))[0]
    V = np.linalg.qr(rng.standard_normal((shape[1], len(sigma))))[0]
    return (U * sigma) @ V.T


class Implicit:
    """Thin factors W = Phi^T A whose entries are known to the test only."""

    def __init__(self, rng, dtype="float64", centre=False):
        Phi = rng.standard_normal((40, 30)).astype(dtype)
        X = as_operator(Phi)
        self.X = Kernel.linear(centered(X) if centre else X)
        self.Phi = Phi.astype(np.float64)
        if centre:
            self.Phi -= self.Phi.mean(axis=0)

    def factor(self, W):
        """The implicit factor whose entries are W, which must lie in the span of the features."""
        A = np.linalg.lstsq(self.Phi.T, W, rcond=None)[0]
        return self.X.T @ A.astype(str(self.X.dtype))

    def entries(self, W):
        return self.Phi.T @ W.coefficients


every_seed = over("seed", SEEDS)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_shape = over("shape", SHAPES)


# Singular values and maps of them.


@every_seed
@every_kind
@every_shape
def test_right_singular(shape, kind, seed):
    Y = np.random.default_rng(seed).standard_normal(shape)
    sigma, V = (back(a) for a in right_singular(KINDS[kind](Y)))
    expected = np.linalg.svd(Y, compute_uv=False)
    np.testing.assert_allclose(sigma, expected, rtol=1e-12)
    np.testing.assert_allclose(back(singular_values(KINDS[kind](Y))), expected, rtol=1e-12)
    np.testing.assert_allclose(V.T @ V, np.eye(len(sigma)), atol=1e-13)
    np.testing.assert_allclose(Y.T @ (Y @ V), V * sigma**2, atol=1e-12 * sigma[0] ** 2)


@every_seed
@over("centre", [False, True])
def test_right_singular_of_implicit_factors(centre, seed):
    rng = np.random.default_rng(seed)
    space = Implicit(rng, centre=centre)
    Y = space.X.T @ rng.standard_normal((40, 5))
    explicit = space.entries(Y)
    sigma, V = right_singular(Y)
    np.testing.assert_allclose(sigma, np.linalg.svd(explicit, compute_uv=False), rtol=1e-10)
    np.testing.assert_allclose(V.T @ V, np.eye(5), atol=1e-13)
    np.testing.assert_allclose(
        explicit.T @ (explicit @ V), V * sigma**2, atol=1e-10 * sigma[0] ** 2
    )


@every_seed
def test_small_singular_values_keep_their_digits(seed):
    """The R of a QR resolves what the Gram matrix squares away; the Gram matrix answers 0 there."""
    rng = np.random.default_rng(seed)
    exact = np.array([1.0, 1e-3, 1e-9, 1e-12])
    Y = with_singular_values(rng, (30, 4), exact)
    np.testing.assert_allclose(singular_values(Y), exact, rtol=0, atol=1e-15)
    implicit = singular_values(Implicit(rng).factor(Y))
    np.testing.assert_allclose(implicit[:2], exact[:2], rtol=1e-6)
    np.testing.assert_array_equal(implicit[2:] < 1e-6, True)


class KnownGram:
    """An implicit factor of which nothing is known but its Gram matrix."""

    def __init__(self, gram):
        self.coefficients = self.gram = gram

    def cross(self, other):
        return self.gram

    def inner(self, other):
        return float(np.trace(self.gram))


@every_kind
@over("scale", [1e-150, 1e-3, 1.0, 1e3, 1e150])
@over("dtype", ["float64", "float32"])
def test_a_gram_matrix_is_read_down_to_its_rounding(dtype, scale, kind):
    """Of eigenvalues relative to the first: above n eps kept, below eps or negative zero."""
    eps = float(np.finfo(dtype).eps)
    scale = scale if dtype == "float64" else scale**0.1
    lam = scale**2 * np.array([1.0, 0.1, 40 * eps, 0.5 * eps, -0.5 * eps])
    sigma = back(right_singular(KnownGram(KINDS[kind](np.diag(lam).astype(dtype))))[0])
    assert sigma.dtype == dtype
    np.testing.assert_allclose(sigma[:3] / scale, [1, 0.1**0.5, (40 * eps) ** 0.5], rtol=1e-5)
    np.testing.assert_array_equal(sigma[3:], 0)
    for nothing in (np.zeros((3, 3)), -np.eye(3)):
        sigma = right_singular(KnownGram(KINDS[kind](nothing.astype(dtype))))[0]
        np.testing.assert_array_equal(back(sigma), 0)


MAPS = {
    "identity": lambda sigma: sigma,
    "polar": lambda sigma: sigma * 0 + 1,
    "cube": lambda sigma: sigma**3,
    "affine": lambda sigma: 2 * sigma + 1,
}
every_map = over("f", MAPS.values())


@every_seed
@every_map
@every_kind
@every_shape
def test_map_singular_values(shape, kind, f, seed):
    Y = np.random.default_rng(seed).standard_normal(shape)
    U, s, Vt = np.linalg.svd(Y, full_matrices=False)
    Z, sigma = map_singular_values(KINDS[kind](Y), f)
    np.testing.assert_allclose(back(sigma), s, rtol=1e-12)
    np.testing.assert_allclose(back(Z), (U * f(s)) @ Vt, atol=1e-11 * f(s).max())


@every_seed
@over("centre", [False, True])
@over("size", [1e-3, 1.0])
@every_map
def test_map_singular_values_of_implicit_factors(f, size, centre, seed):
    rng = np.random.default_rng(seed)
    space = Implicit(rng, centre=centre)
    Y = space.X.T @ (size * rng.standard_normal((40, 5)))
    U, s, Vt = np.linalg.svd(space.entries(Y), full_matrices=False)
    Z, sigma = map_singular_values(Y, f)
    assert is_implicit(Z)
    np.testing.assert_allclose(sigma, s, rtol=1e-10)
    np.testing.assert_allclose(space.entries(Z), (U * f(s)) @ Vt, atol=1e-9 * f(s).max())
    np.testing.assert_allclose(space.X @ Z, space.Phi @ ((U * f(s)) @ Vt), atol=1e-7 * f(s).max())


@every_seed
def test_polar_factor_of_rank_deficient_input(seed):
    """Completed to orthonormal columns where Y has entries; zero on the null space where implicit."""
    rng = np.random.default_rng(seed)
    Y = with_singular_values(rng, (30, 5), np.array([3.0, 2.0]))
    U, _, Vt = np.linalg.svd(Y, full_matrices=False)
    Z = map_singular_values(Y, MAPS["polar"])[0]
    np.testing.assert_allclose(Z.T @ Z, np.eye(5), atol=1e-13)
    np.testing.assert_allclose(np.sum(Z * Y), 5.0, rtol=1e-12)
    space = Implicit(rng)
    Z = map_singular_values(space.factor(Y), MAPS["polar"])[0]
    np.testing.assert_allclose(space.entries(Z), U[:, :2] @ Vt[:2], atol=1e-10)


@every_seed
def test_zero_input(seed):
    for Y in (np.zeros((30, 3)), Implicit(np.random.default_rng(seed)).factor(np.zeros((30, 3)))):
        np.testing.assert_array_equal(singular_values(Y), 0)
        assert norm(Y) == 0
        assert residual(Y, Y) == 0
        H = Spectral(Lp(1)).subgradient(Y)
        assert np.isfinite(gram(H)).all()
        assert norm(H) == pytest.approx(0 if is_implicit(Y) else math.sqrt(3))
        Q = orthonormalize(Y)
        columns = 0 if is_implicit(Y) else 3
        np.testing.assert_allclose(gram(Q), np.eye(columns), atol=1e-13)


@every_seed
def test_null_coefficients_of_implicit_factors_vanish(seed):
    """0/0 is 0: coefficients that the features do not see are dropped, not kept at some scale."""
    rng = np.random.default_rng(seed)
    space = Implicit(rng)
    unseen = np.linalg.svd(space.Phi)[0][:, 30:31]  # Phi^T unseen = 0
    A = np.hstack([rng.standard_normal((40, 2)), unseen])
    for f in MAPS.values():
        Z, sigma = map_singular_values(space.X.T @ A, f)
        assert sigma[2] == 0
        np.testing.assert_allclose(Z.coefficients[:, 2], 0, atol=1e-6 * f(sigma)[0])


# Orthonormal bases.


SPECTRA = {
    "full": np.array([3.0, 2.5, 2.0, 1.5, 1.0]),
    "graded": 10.0 ** -np.arange(0, 10, 2),
    "deficient": np.array([3.0, 2.0, 1.0, 0.0, 0.0]),
    "large": 1e150 * np.array([3.0, 2.5, 2.0, 1.5, 1.0]),
    "small": 1e-150 * np.array([3.0, 2.5, 2.0, 1.5, 1.0]),
}


@every_seed
@every_kind
@over("spectrum", SPECTRA)
def test_orthonormalize(spectrum, kind, seed):
    Y = with_singular_values(np.random.default_rng(seed), (30, 5), SPECTRA[spectrum])
    Q = back(orthonormalize(KINDS[kind](Y)))
    np.testing.assert_allclose(Q.T @ Q, np.eye(5), atol=1e-13)
    size = np.abs(Y).max()
    np.testing.assert_allclose(Q @ (Q.T @ (Y / size)), Y / size, atol=1e-13)


@every_seed
@over("condition", [1.0, 1e2, 1e4, 1e6])
def test_orthonormalize_implicit_factors(condition, seed):
    """Orthonormal whatever the condition, as far as the Gram matrix sees the columns at all."""
    rng = np.random.default_rng(seed)
    space = Implicit(rng)
    Y = with_singular_values(rng, (30, 5), np.geomspace(1, 1 / condition, 5))
    Q = orthonormalize(space.factor(Y))
    assert Q.shape[1] == 5
    Q = space.entries(Q)
    np.testing.assert_allclose(Q.T @ Q, np.eye(5), atol=1e-13 * (10 + condition))
    np.testing.assert_allclose(Q @ (Q.T @ Y), Y, atol=1e-12)


@every_seed
def test_orthonormalize_drops_the_null_columns_of_implicit_factors(seed):
    rng = np.random.default_rng(seed)
    space = Implicit(rng)
    Y = with_singular_values(rng, (30, 5), np.array([3.0, 2.0, 1.0]))
    W = orthonormalize(space.factor(Y))
    assert W.coefficients.shape == (40, 3)
    Q = space.entries(W)
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(Q @ (Q.T @ Y), Y, atol=1e-12)
    np.testing.assert_allclose(gram(W), np.eye(3), atol=1e-12)


@every_seed
@every_kind
def test_eigh_is_decreasing(kind, seed):
    A = np.random.default_rng(seed).standard_normal((6, 6))
    values, vectors = (back(a) for a in eigh(KINDS[kind](A)))  # its symmetric part
    assert (np.diff(values) <= 0).all()
    symmetric = (A + A.T) / 2
    np.testing.assert_allclose(values, np.linalg.eigvalsh(symmetric)[::-1], atol=1e-13)
    np.testing.assert_allclose(symmetric @ vectors, vectors * values, atol=1e-13)


# Residuals.


@every_seed
@every_kind
def test_residual_is_the_formula_for_orthonormal_w(kind, seed):
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.standard_normal((30, 4)))[0]
    Z = rng.standard_normal((30, 4))
    expected = np.linalg.norm(Z - W @ (W.T @ Z)) / np.linalg.norm(Z)
    assert residual(KINDS[kind](W), KINDS[kind](Z)) == pytest.approx(expected, rel=1e-12)
    space = Implicit(rng)
    assert residual(space.factor(W), space.factor(Z)) == pytest.approx(expected, rel=1e-8)


@every_seed
@over("condition", [1.0, 1e1, 1e3])
def test_residual_does_not_depend_on_the_basis(condition, seed):
    """For Z = X^T X W: the same for W and for W times any invertible matrix."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 30))
    W = rng.standard_normal((30, 4))
    Q = np.linalg.qr(W)[0]
    Z = X.T @ (X @ Q)
    expected = np.linalg.norm(Z - Q @ (Q.T @ Z)) / np.linalg.norm(Z)
    T = with_singular_values(rng, (4, 4), np.geomspace(1, 1 / condition, 4))
    space = Implicit(rng)
    for M in (np.eye(4), T, -3e7 * T, 1e-9 * T):
        V = W @ M
        found = residual(V, X.T @ (X @ V))
        assert found == pytest.approx(expected, rel=1e-11 * condition)
        implicit = residual(space.factor(V), space.factor(X.T @ (X @ V)))
        assert implicit == pytest.approx(expected, rel=1e-11 * condition**2 + 1e-8)
    # W of deficient rank: the residual of the space it spans, not of a space with more columns.
    wide = np.hstack([W, W @ T[:, :2]])
    assert residual(wide, X.T @ (X @ wide)) == pytest.approx(expected, rel=1e-6)


@every_seed
def test_residual_vanishes_on_invariant_spaces(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 30))
    V = np.linalg.svd(X)[2].T[:, [0, 2, 5]]
    W = V @ rng.standard_normal((3, 3))
    assert residual(W, X.T @ (X @ W)) < 1e-13
    U = V + 1e-6 * rng.standard_normal(V.shape)
    assert 1e-8 < residual(U, X.T @ (X @ U)) < 1e-4


@every_kind
def test_nothing_spans_nothing(kind):
    """W without columns, or zero: right where Z vanishes too, wrong altogether elsewhere."""
    for columns in (0, 2):
        W, Z = KINDS[kind](np.zeros((30, columns))), KINDS[kind](np.ones((30, 2)))
        assert residual(W, W) == 0
        assert residual(W, Z) == 1


@every_kind
@over("size", [1.0, 3.0])
def test_residual_of_zero_and_of_nan(size, kind):
    """Z = 0 is in every span; a Z that is not a number must not pass for converged."""
    W = size * np.linalg.qr(np.random.default_rng(0).standard_normal((30, 4)))[0]
    assert residual(KINDS[kind](W), KINDS[kind](np.zeros((30, 4)))) == 0
    assert math.isnan(residual(KINDS[kind](W), KINDS[kind](np.full((30, 4), math.nan))))


def test_implicit_factors_without_columns():
    """What is left of the zero factor, from the features of a constant kernel, say."""
    space = Implicit(np.random.default_rng(0))
    W = orthonormalize(space.factor(np.zeros((30, 2))))
    assert W.shape[1] == 0
    assert singular_values(W).shape == (0,)
    assert orthonormalize(W).shape == W.shape
    assert residual(W, W) == 0
    assert residual(W, space.factor(np.ones((30, 2)))) == 1


@every_seed
def test_residual_at_other_scales(seed):
    rng = np.random.default_rng(seed)
    W, Z = rng.standard_normal((30, 4)), rng.standard_normal((30, 4))
    for a, b in ((1e100, 1.0), (1.0, 1e100), (1e-100, 1e-100), (1e120, 1e-120)):
        assert residual(a * W, b * Z) == pytest.approx(residual(W, Z), rel=1e-10)


# Signs.


@every_seed
@every_kind
@over("dtype", ["float64", "float32"])
def test_signs(dtype, kind, seed):
    """The entry of largest magnitude becomes positive, whatever the signs of the input."""
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((9, 6)).astype(dtype)
    signs = fix_signs(KINDS[kind](V))
    assert signs.dtype == KINDS[kind](V).dtype
    signs = back(signs)
    assert set(np.abs(signs)) == {1.0}
    fixed = V * signs
    assert (fixed[np.abs(V).argmax(axis=0), np.arange(6)] > 0).all()
    flips = rng.choice([-1.0, 1.0], 6).astype(dtype)
    np.testing.assert_array_equal(V * flips * back(fix_signs(KINDS[kind](V * flips))), fixed)
    np.testing.assert_array_equal(back(fix_signs(KINDS[kind](fixed))), 1)


@every_kind
@over("dtype", ["float64", "float32"])
def test_ties_of_signs_go_to_the_first(dtype, kind):
    """Exactly tied, or tied but for rounding on either side: the first of the tied entries decides."""
    eps = np.finfo(dtype).eps
    for a, b in ((1, 1), (1, 1 + 4 * eps), (1 + 4 * eps, 1)):
        V = np.array([[0.2, -0.2], [-a, a], [b, -b], [0.1, 0.1]], dtype=dtype)
        np.testing.assert_array_equal(back(fix_signs(KINDS[kind](V))), [-1, 1])
    apart = np.array([[-1.0], [1.001]], dtype=dtype)
    np.testing.assert_array_equal(back(fix_signs(KINDS[kind](apart))), [1])
    np.testing.assert_array_equal(back(fix_signs(KINDS[kind](np.zeros((3, 2), dtype)))), [1, 1])


# Norms and products.


@every_seed
@every_kind
@every_shape
def test_products_and_norms(shape, kind, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal(shape), rng.standard_normal(shape)
    a, b = KINDS[kind](A), KINDS[kind](B)
    np.testing.assert_allclose(back(cross(a, b)), A.T @ B, atol=1e-12)
    np.testing.assert_allclose(back(gram(a)), A.T @ A, atol=1e-12)
    assert inner(a, b) == pytest.approx(np.sum(A * B), abs=1e-12)
    assert norm(a) == pytest.approx(np.linalg.norm(A), rel=1e-14)
    assert max_abs(a) == np.abs(A).max()
    assert {type(inner(a, b)), type(norm(a)), type(max_abs(a))} == {float}


@every_seed
@every_kind
@over("scale", [1e-300, 1e-200, 1e-16, 1.0, 1e16, 1e200, 1e300])
def test_norm_neither_overflows_nor_vanishes(scale, kind, seed):
    A = np.random.default_rng(seed).standard_normal((30, 4))
    assert norm(KINDS[kind](scale * A)) / scale == pytest.approx(np.linalg.norm(A), rel=1e-13)


@every_seed
@over("scale", [1e-36, 1e-20, 1.0, 1e20, 1e36])
def test_norm_in_float32(scale, seed):
    A = np.random.default_rng(seed).standard_normal((30, 4)).astype(np.float32)
    scaled = A * np.float32(scale)
    assert norm(scaled) == pytest.approx(np.linalg.norm(scaled.astype(np.float64)), rel=1e-6)


def test_norm_of_special_values():
    assert norm(np.zeros((3, 2))) == 0
    assert norm(np.zeros((0, 2))) == 0
    assert max_abs(np.zeros((0, 2))) == 0
    assert norm(np.full((3, 2), math.inf)) == math.inf
    assert math.isnan(norm(np.array([[1.0, math.nan]])))
    assert norm(np.full((1, 4), 5e-324)) == 1e-323


@every_seed
def test_norms_of_implicit_factors(seed):
    rng = np.random.default_rng(seed)
    space = Implicit(rng)
    W, V = space.X.T @ rng.standard_normal((40, 5)), space.X.T @ rng.standard_normal((40, 3))
    w, v = space.entries(W), space.entries(V)
    np.testing.assert_allclose(cross(W, V), w.T @ v, atol=1e-10)
    np.testing.assert_allclose(gram(W), w.T @ w, atol=1e-10)
    assert inner(W, W @ np.eye(5)) == pytest.approx(np.sum(w * w), rel=1e-12)
    assert norm(W) == pytest.approx(np.linalg.norm(w), rel=1e-12)
    assert max_abs(W) == norm(W)
    assert norm(W - W) == 0
    rounding = KnownGram(np.array([[-1e-20]]))  # of a difference of nearly equal factors
    assert norm(rounding) == 0


def test_entries_of_implicit_factors_are_refused():
    W = Implicit(np.random.default_rng(0)).factor(np.ones((30, 2)))
    assert is_implicit(W)
    assert not is_implicit(np.ones((30, 2)))
    with pytest.raises(TypeError, match="implicit W"):
        namespace(W)
    with pytest.raises(TypeError, match="Spectral"):
        Lp(1)(W)


@every_kind
@over("dtype", ["float64", "float32"])
def test_asarray_like(dtype, kind):
    like = KINDS[kind](np.ones((2, 2), dtype))
    made = asarray_like([[1.0, 2.0]], like)
    assert type(made) is type(like)
    assert made.dtype == like.dtype
    assert made.device == like.device
    np.testing.assert_array_equal(back(made), [[1.0, 2.0]])


@every_seed
@every_kind
@over("scale", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_column_norms_neither_overflow_nor_vanish(scale, kind, seed):
    A = np.random.default_rng(seed).standard_normal((30, 4)) * [1.0, 1e-3, 0.0, 1e3]
    sizes = back(column_norms(KINDS[kind](scale * A)))
    np.testing.assert_allclose(sizes / scale, np.linalg.norm(A, axis=0), rtol=1e-13)


@every_seed
@every_kind
@over("scale", [1e-36, 1e-20, 1.0, 1e20, 1e36])
def test_column_norms_in_float32(scale, kind, seed):
    """However far apart: the small columns are not lost beside the large ones."""
    A = np.random.default_rng(seed).standard_normal((30, 3)).astype(np.float32)
    A[:, 1] *= np.float32(scale)
    sizes = column_norms(KINDS[kind](A))
    assert sizes.dtype == KINDS[kind](A).dtype
    exact = np.linalg.norm(A.astype(np.float64), axis=0)
    np.testing.assert_allclose(back(sizes), exact, rtol=1e-6)


@every_kind
@over("dtype", ["float64", "float32"])
def test_column_norms_of_nothing(dtype, kind):
    for shape, columns in (((0, 3), 3), ((3, 0), 0), ((5, 2), 2)):
        sizes = column_norms(KINDS[kind](np.zeros(shape, dtype)))
        np.testing.assert_array_equal(back(sizes), np.zeros(columns))
        assert sizes.dtype == KINDS[kind](np.zeros(shape, dtype)).dtype


@every_seed
@every_kind
def test_lower_triangular_system(kind, seed):
    rng = np.random.default_rng(seed)
    L, B = np.tril(rng.standard_normal((6, 6))) + 3 * np.eye(6), rng.standard_normal((6, 9))
    np.testing.assert_allclose(L @ back(solve_lower(KINDS[kind](L), KINDS[kind](B))), B, atol=1e-13)
    inverse = back(solve_lower(KINDS[kind](L), KINDS[kind](np.eye(6))))
    np.testing.assert_allclose(np.triu(inverse, 1), 0, atol=1e-14)


# Arrays elsewhere.


@every_kind
@over("dtype", ["float64", "float32"])
@over("shape", [(3, 2), (4,), (), (0, 2)])
def test_to_numpy(shape, dtype, kind):
    A = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    made = to_numpy(KINDS[kind](A))
    assert isinstance(made, np.ndarray)
    np.testing.assert_array_equal(made, A)


def test_to_numpy_of_lazy_arrays_and_of_a_gpu():
    da = pytest.importorskip("dask.array")
    A = np.arange(12.0).reshape(6, 2)
    np.testing.assert_array_equal(to_numpy(da.from_array(A, chunks=(2, 2)) + 1), A + 1)
    np.testing.assert_array_equal(to_numpy(SimpleNamespace(get=lambda: A)), A)  # as of cupy


@every_kind
@over("dtype", ["float64", "float32"])
def test_standard_normal(dtype, kind):
    """Of that kind, dtype and device; on the host the same numbers for every kind."""
    like = KINDS[kind](np.ones((1, 1), dtype))
    made = standard_normal((2000, 3), like, 5)
    assert type(made) is type(like)
    assert (made.dtype, made.device) == (like.dtype, like.device)
    entries = back(made)
    np.testing.assert_allclose(entries.mean(axis=0), 0, atol=5 / math.sqrt(2000))
    np.testing.assert_allclose(entries.T @ entries / 2000, np.eye(3), atol=5 * math.sqrt(2 / 2000))
    np.testing.assert_array_equal(entries, back(standard_normal((2000, 3), like, 5)))
    np.testing.assert_array_equal(entries, standard_normal((2000, 3), np.ones(1, dtype), 5))
    assert not np.isclose(entries, back(standard_normal((2000, 3), like, 6))).any(axis=1).all()


@every_kind
def test_arrays_of_the_host_are_not_on_a_gpu(kind):
    assert on_gpu(KINDS[kind](np.ones(2))) is False


def test_other_devices_of_torch_count_as_gpus():
    assert on_gpu(torch.empty(2, device="meta")) is True


@pytest.fixture
def cupy(monkeypatch):
    """Arrays of numpy taken for cupy's, whose modules mirror those of numpy and scipy."""
    random = SimpleNamespace(Generator=np.random.Generator, XORWOW=np.random.PCG64)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(random=random))
    for name in ("cupyx", "cupyx.scipy"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupyx.scipy.linalg", scipy.linalg)
    is_numpy = lambda A: isinstance(A, np.ndarray)  # noqa: E731
    monkeypatch.setattr("dualpca.linalg.is_cupy_array", is_numpy)


@pytest.mark.usefixtures("cupy")
@over("dtype", ["float64", "float32"])
def test_cupy_draws_and_solves_by_itself(dtype):
    like = np.ones(1, dtype)
    assert on_gpu(like) is True
    assert on_gpu(torch.ones(1)) is False
    draw = np.random.Generator(np.random.PCG64(4)).standard_normal((5, 2), dtype=dtype)
    np.testing.assert_array_equal(standard_normal((5, 2), like, 4), draw)
    assert standard_normal((5, 2), like, 4).dtype == like.dtype
    assert type(standard_normal((5, 2), torch.ones(1), 4)) is torch.Tensor
    full = np.random.default_rng(0).standard_normal((4, 4)) + 3 * np.eye(4)
    inverse = solve_lower(full, np.eye(4))  # what is above the diagonal is not read
    np.testing.assert_allclose(np.tril(full) @ inverse, np.eye(4), atol=1e-13)


# Rows that are spread over a cluster.


class Spread:
    """Blocks of rows, apart from each other."""

    def __init__(self, *blocks):
        self.blocks = blocks

    def over_blocks(self, f):
        return [f(i, block) for i, block in enumerate(self.blocks)]


over_blocks.register(Spread, Spread.over_blocks)


def test_blocks_are_numbered_and_a_whole_array_is_one():
    a, b = np.ones(2), np.zeros(3)
    assert [(i, len(block)) for i, block in over_blocks(Spread(a, b), lambda *x: x)] == [
        (0, 2),
        (1, 3),
    ]
    ((i, block),) = over_blocks(a, lambda *x: x)
    assert i == 0
    assert block is a


@every_kind
def test_total_and_largest_of_spread_rows_are_those_of_all_rows(kind):
    A = np.random.default_rng(0).standard_normal((9, 3)) - 10
    whole = KINDS[kind](A)
    spread = Spread(*(KINDS[kind](A[part]) for part in (slice(0, 2), slice(2, 3), slice(3, 9))))
    for array in (whole, spread):
        assert total(array) == pytest.approx(math.fsum(A.ravel()), rel=1e-14)
        assert largest(array) == A.max()
        assert {type(total(array)), type(largest(array))} == {float}


@every_kind
def test_total_of_float32_does_not_round_to_float32(kind):
    A = np.array([2.0**25, 1.0, 1.0, 1.0, -(2.0**25)], dtype=np.float32)
    assert total(KINDS[kind](A)) == 3


@pytest.mark.parametrize("spread", [False, True], ids=["lazy", "spread"])
@pytest.mark.parametrize("shape", [(40,), (40, 3)], ids=str)
def test_seen_is_a_sample_of_lazy_rows_only(shape, spread, monkeypatch):
    """All rows of a host array or of few; else so many different ones in order, the same each time."""
    da = pytest.importorskip("dask.array")
    A = np.random.default_rng(3).standard_normal(shape)
    rows = (7, 0, 1, 20, 12)
    lazy = da.from_array(A, chunks=(rows, *((n,) for n in shape[1:])))
    importlib.import_module("dualpca.operators.dask")  # as an operator of such data does
    if spread:
        lazy.over_blocks = Spread(*np.split(A, np.cumsum(rows)[:-1])).over_blocks
    np.testing.assert_array_equal(sampled_rows(lazy), np.arange(40))
    np.testing.assert_array_equal(host_sample(lazy), A)
    for least, count in ((40, 40), (39, 39), (11, 11), (1, 1)):
        monkeypatch.setattr("dualpca.operators.dask.row_arrays.SAMPLE_ROWS", least)
        np.testing.assert_array_equal(sampled_rows(A), np.arange(40))
        np.testing.assert_array_equal(host_sample(A), A)
        some = sampled_rows(lazy)
        assert len(some) == count
        assert (np.diff(some) > 0).all()
        assert set(some) <= set(range(40))
        np.testing.assert_array_equal(sampled_rows(lazy), some)
        np.testing.assert_array_equal(host_sample(lazy), A[some])
    monkeypatch.setattr("dualpca.operators.dask.row_arrays.SAMPLE_ROWS", 11)
    assert set(sampled_rows(lazy)) & set(range(20, 40))  # not the first ones


@every_kind
def test_precision_is_told_by_arrays_operators_and_types(kind):
    for dtype in ("float32", "float64"):
        A = KINDS[kind](np.ones((3, 2), dtype=dtype))
        for given in (A, A.dtype, as_operator(A)):
            assert is_single(given) == (dtype == "float32")
            assert eps(given) == np.finfo(dtype).eps
            assert finfo(given).max == np.finfo(dtype).max


def test_rows_are_mapped_where_they_are():
    da = pytest.importorskip("dask.array")
    importlib.import_module("dualpca.operators.dask")
    A = np.random.default_rng(0).standard_normal((9, 3))
    sums = map_row_blocks(da.from_array(A, chunks=(4, 3)), lambda block: block.sum(axis=1))
    assert not isinstance(sums, np.ndarray)
    np.testing.assert_array_equal(to_numpy(sums), map_row_blocks(A, lambda B: B.sum(axis=1)))
