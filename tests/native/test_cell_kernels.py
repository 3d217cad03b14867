"""The C kernels for rows with wrong cells: scores and steps as NumPy's, and checks of buffers."""

from dataclasses import replace

import numpy as np
import pytest
from tests.loops import at

from dualpca import RobustPCA, as_operator, native
from dualpca.losses import Tanh
from dualpca.robust.cells import CellModel, improve

needs_kernels = pytest.mark.skipif(not native.native_available(), reason="built without kernels")

#: Rows, columns, components: below and beyond a panel of rows, a vector of columns, a group of pairs.
SHAPES = ((1, 1, 1), (5, 3, 1), (13, 7, 2), (40, 31, 9), (30, 40, 32), (300, 20, 3), (97, 260, 5))


def case(shape, seed, holes=0.2):
    N, d, s = shape
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) * rng.choice([1.0, 3.0, 9.0], (N, d), p=[0.7, 0.2, 0.1])
    X[rng.random((N, d)) < holes] = np.nan
    V = np.linalg.qr(rng.standard_normal((d, s)))[0]
    model = CellModel(rng.standard_normal(d), V, rng.random(d) + 0.5)
    return X, model, rng.standard_normal((N, s)), rng.random(N)


def by_numpy(model):
    """The model without the kernels."""
    other = replace(model)
    other.__dict__["constants"] = None
    return other


def well_posed(X, s):
    """Rows with so many cells that scores do not hang on the ridge."""
    return (~np.isnan(X)).sum(axis=1) >= 2 * s + 2


@needs_kernels
def test_scores_and_steps_are_those_of_numpy(instructions, monkeypatch):
    for seed, shape in enumerate(SHAPES):
        X, model, start, mass = case(shape, seed)
        for count in (1, 3):
            monkeypatch.setattr("dualpca.robust.cells.threads", lambda count=count: count)
            with at(shape=shape, threads=count):
                good = well_posed(X, shape[2])
                found, expected = model.scores_of(X)[good], by_numpy(model).scores_of(X)[good]
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
                B, C = start.copy(), start.copy()
                new, value = improve(as_operator(X), model, B, mass)
                other, same = improve(as_operator(X), by_numpy(model), C, mass)
                assert value == pytest.approx(same, rel=1e-12)
                if good.all():
                    np.testing.assert_allclose(B, C, rtol=1e-8, atol=1e-8)
                    np.testing.assert_allclose(new.V, other.V, rtol=1e-7, atol=1e-7)
                    np.testing.assert_allclose(new.center, other.center, rtol=1e-7, atol=1e-7)


@needs_kernels
def test_the_loss_is_exact_at_every_square():
    """The objective and weights of one cell, from 0 to beyond where the loss ends."""
    loss = Tanh()
    for z in [*np.linspace(0, 4.5, 400), 1.5, 4.0, 1e3, 1e100]:
        model = CellModel(np.zeros(1), np.ones((1, 1)), np.ones(1))
        _, value = improve(as_operator(np.array([[z]])), model, np.zeros((1, 1)), np.ones(1))
        c2 = loss.tuning**2 * model.usual
        t2 = loss.psi(np.array([z * z]))
        with at(z=z):
            assert value == pytest.approx(float(c2 * loss.psi(t2 / c2)[0]), rel=1e-13, abs=1e-15)


@needs_kernels
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_layouts_and_types_of_rows(dtype):
    X, model, _, _ = case((60, 12, 2), 5, holes=0.0)
    X, model = (10 * X).astype(dtype), replace(model, scales=20 * model.scales)
    expected = by_numpy(model).scores_of(X)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    for layout in (X, np.asfortranarray(X), wide, np.repeat(X, 2, axis=0)[::2], X[::-1][::-1]):
        np.testing.assert_allclose(model.scores_of(layout), expected, rtol=1e-9, atol=1e-9)


@needs_kernels
def test_rows_without_cells_stay():
    X, model, start, mass = case((30, 8, 2), 7)
    X[[0, 11, 29]] = np.nan
    assert not model.scores_of(X)[[0, 11, 29]].any()
    B = start.copy()
    new, _ = improve(as_operator(X), model, B, mass)
    fitted = B[[0, 11, 29]] @ new.V.T
    other = CellModel(new.center, new.V, new.scales)
    assert np.isfinite(fitted).all()
    assert np.isfinite(other.scores_of(X)).all()


@needs_kernels
def test_buffers_are_checked():
    X, model, B, mass = case((20, 6, 2), 3)
    sums = np.empty((6, 9))
    numbers, constants = model.numbers, model.constants
    native.kernels.cell_rows(X, *numbers, constants, mass, B, sums, 1)
    wrong = {
        "center": (X, numbers[0][:-1], *numbers[1:], constants, mass, B, sums),
        "axes": (X, numbers[0], numbers[1][:-1].copy(), numbers[2], constants, mass, B, sums),
        "scales": (X, *numbers[:2], numbers[2][:-1], constants, mass, B, sums),
        "constants": (X, *numbers, constants[:-1], mass, B, sums),
        "mass": (X, *numbers, constants, mass[:-1], B, sums),
        "scores": (X, *numbers, constants, mass, B[:-1], sums),
        "sums": (X, *numbers, constants, mass, B, sums[:, :-1].copy()),
        "columns": (np.asfortranarray(X), *numbers, constants, mass, B, sums),
        "order": (X, *numbers, constants, mass, np.asfortranarray(B), sums),
        "rows": (X[:0], *numbers, constants, mass[:0], B[:0], sums),
    }
    for name, arguments in wrong.items():
        with at(wrong=name), pytest.raises(ValueError, match="do not fit"):
            native.kernels.cell_rows(*arguments, 1)
    with pytest.raises(TypeError, match="format"):
        native.kernels.cell_rows(X, *numbers, constants, mass.astype("f4"), B, sums, 1)


@needs_kernels
def test_fits_are_those_without_kernels(monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 12))
    X += 0.1 * rng.standard_normal(X.shape)
    X[rng.random(X.shape) < 0.05] += 4
    X[rng.random(X.shape) < 0.1] = np.nan
    model = RobustPCA(2, cells=True, tol=1e-8, max_iter=500, random_state=0).fit(X)
    monkeypatch.setattr(native, "kernels", None)
    plain = RobustPCA(2, cells=True, tol=1e-8, max_iter=500, random_state=0).fit(X)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-6)
    np.testing.assert_array_equal(model.cell_outliers_, plain.cell_outliers_)
    np.testing.assert_allclose(model.impute(X), plain.impute(X), atol=1e-6)
