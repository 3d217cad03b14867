"""Sweeps by weights of rows: the C kernels beside NumPy, for every loss that they know."""

import math

import numpy as np
import pytest
from tests.loops import at

from dualpca import as_operator, native
from dualpca.functions import RowLoss
from dualpca.losses import (
    KERNELS,
    L1,
    LOSSES,
    Cauchy,
    GemanMcClure,
    Huber,
    Log,
    PowerLoss,
    Square,
    Tukey,
    Welsch,
)
from dualpca.operators import matrix
from dualpca.operators.sweep_maps import Reweighting

needs_kernels = pytest.mark.skipif(not native.native_available(), reason="built without kernels")

#: Residuals of the cases are on both sides of these scales.
CASES = [
    L1(0.7),
    PowerLoss(0.7, p=0.5),
    PowerLoss(p=1.5),
    Huber(0.7),
    Log(0.7),
    Cauchy(0.7),
    GemanMcClure(0.7),
    Welsch(0.7),
    Tukey(0.8),
    Square(),
]

#: Rows, columns, components: below and beyond a panel of rows, a vector and a pair of vectors.
SHAPES = ((1, 3, 1), (100, 40, 3), (1001, 60, 16), (301, 300, 33))


def case(shape, dtype, seed):
    """Rows about a centre, an orthonormal W, and what stands beside the rows."""
    N, d, s = shape
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) + 0.3
    W = np.linalg.qr(rng.standard_normal((d, s)))[0]
    c = np.full(d, 0.3)
    b = 1 / np.linalg.norm(X - c, axis=1)
    alpha = b * np.linalg.norm(X - c, axis=1) * np.where(rng.random(N) < 0.1, 1.0, 1.2)
    arrays = X, W, (c @ W)[None, :], b, alpha, rng.random(N), rng.random(N)
    return [a.astype(dtype) for a in arrays]


def by_numpy(X, W, row_map):
    """The sweep in extended precision, but for the weights, and what its rounding is relative to."""
    wide = X.astype(np.longdouble)
    H, *sums = row_map(wide @ W.astype(np.longdouble), slice(0, len(X)))
    return (wide.T @ H, *sums), (np.abs(wide).T @ np.abs(H), np.abs(H).sum(axis=0))


@needs_kernels
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_loss_that_the_kernels_know(dtype, instructions, monkeypatch):
    monkeypatch.setattr(native, "LEAST", 0)
    assert {type(loss) for loss in CASES} == set(KERNELS)
    for seed, shape in enumerate(SHAPES):
        X, W, shift, b, alpha, mass, beside = case(shape, dtype, seed)
        for i, loss in enumerate(CASES):
            known = RowLoss(alpha, loss, mass if i % 2 else None)
            for scales, numbers in ((None, None), (b, beside), (b, None), (None, beside)):
                row_map = Reweighting(known, numbers, scales, shift)
                with at(
                    shape=shape, loss=loss, scales=scales is not None, beside=numbers is not None
                ):
                    *found, total = matrix.reweighed(X, W, row_map)
                    (*expected, sums), (size, sizes) = by_numpy(X, W, row_map)
                    # The weight of a row in the subspace is as wrong as its residual.
                    unit = 2e3 * float(np.finfo(dtype).eps)
                    assert np.all(np.abs(found[0] - expected[0]) <= unit * (size + size.max()))
                    assert np.all(np.abs(total - sums) <= unit * sizes)
                    for one, other in zip(found[1:], expected[1:], strict=True):
                        assert one == pytest.approx(float(other), rel=unit)


@needs_kernels
def test_rows_of_length_zero_and_rows_beyond_the_domain(monkeypatch):
    monkeypatch.setattr(native, "LEAST", 0)
    X, W, shift, b, alpha, _, beside = case((40, 30, 3), np.float64, 0)
    alpha[3], b[3] = 0.0, 0.0
    for loss in CASES:
        row_map = Reweighting(RowLoss(alpha, loss), beside, b, shift)
        found, expected = matrix.reweighed(X, W, row_map), by_numpy(X, W, row_map)[0]
        np.testing.assert_allclose(found[0], expected[0].astype(float), atol=1e-10)
        assert math.isfinite(found[1])
    alpha[5] /= 10
    row_map = Reweighting(RowLoss(alpha, Cauchy(0.7)), beside, b, shift)
    assert matrix.reweighed(X, W, row_map)[1] == by_numpy(X, W, row_map)[0][1] == math.inf


@needs_kernels
def test_other_losses_are_left_to_numpy():
    class Own(Cauchy):
        def slope(self, v):
            return 1 / (2 + v)

    X, W, *_ = case((400, 300, 20), np.float64, 1)
    alpha = np.full(400, 30.0)
    for loss in (Own(2.0), LOSSES["tanh"].at(2.0)):
        assert loss.for_kernels is None
        assert matrix.reweighed(X, W, Reweighting(RowLoss(alpha, loss))) is None
        value, Z = RowLoss(alpha, loss).pullback(as_operator(X), W)
        Y = X @ W
        assert value == pytest.approx(RowLoss(alpha, loss)(Y))
        np.testing.assert_allclose(Z, X.T @ RowLoss(alpha, loss).subgradient(Y), atol=1e-9)


@needs_kernels
def test_one_number_of_threads_gives_one_answer(monkeypatch):
    X, W, shift, b, alpha, mass, beside = case((3001, 200, 20), np.float32, 2)
    row_map = Reweighting(RowLoss(alpha, GemanMcClure(0.7), mass), beside, b, shift)
    for count in (1, 2, 3):
        monkeypatch.setattr(matrix, "threads", lambda count=count: count)
        first, again = (matrix.reweighed(X, W, row_map) for _ in range(2))
        for one, other in zip(first, again, strict=True):
            assert np.array_equal(one, other)


@needs_kernels
def test_buffers_are_checked():
    X, W, shift, b, alpha, mass, beside = (
        np.ascontiguousarray(a) for a in case((20, 6, 2), float, 3)
    )
    out, sums, loss = np.empty((6, 3)), np.zeros(5), (4, 1.0, 1.0, 1e-16)
    rows = (alpha, mass, b, beside)
    native.kernels.reweigh(X, W, out, None, 1.0, shift, sums, rows, loss, 1)
    wrong = {
        "W": (X, W[:-1].copy(), out, None, 1.0, shift, sums, rows),
        "out": (X, W, out[:, :-1].copy(), None, 1.0, shift, sums, rows),
        "no column": (X, W, out, None, 1.0, shift, sums, (*rows[:3], None)),
        "center": (X, W, out, np.zeros(5), 1.0, shift, sums, rows),
        "shift": (X, W, out, None, 1.0, shift[:, :1].copy(), sums, rows),
        "sums": (X, W, out, None, 1.0, shift, sums[:-1].copy(), rows),
        "alpha": (X, W, out, None, 1.0, shift, sums, (None, *rows[1:])),
        "mass": (X, W, out, None, 1.0, shift, sums, (alpha, mass[:-1].copy(), *rows[2:])),
        "beside": (X, W, out, None, 1.0, shift, sums, (*rows[:3], np.repeat(beside, 2)[::2])),
        "type": (X, W, out.astype("f4"), None, 1.0, shift, sums, rows),
        "order": (np.asfortranarray(X), W, out, None, 1.0, shift, sums, rows),
    }
    for name, arguments in wrong.items():
        with at(wrong=name), pytest.raises(ValueError, match=r"fit|one for each"):
            native.kernels.reweigh(*arguments, loss, 1)
    with pytest.raises(TypeError, match="format"):
        native.kernels.reweigh(
            X, W, out, None, 1.0, shift, sums, (alpha.astype("f4"), *rows[1:]), loss, 1
        )
