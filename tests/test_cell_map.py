"""Single cells as fronts see them: in units of the data, and in maps that lose no cell."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from dualpca import Preprocessor, RobustPCA
from dualpca.cells import cell_map, flagged_cells
from dualpca.inspect import FittedModel

UNITS, SHIFT = 10.0 ** np.arange(-4, 6), np.linspace(-50, 50, 10)


def messy(n=150):
    """Ten columns of one plane, with holes, a wrong cell and a row that is bad as a whole."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 10))
    X += 0.2 * rng.standard_normal(X.shape)
    right = X.copy()
    X[rng.random(X.shape) < 0.05] = np.nan
    X[8, 4] = right[8, 4] + 15
    X[20] = 8 * rng.standard_normal(10)
    return X * UNITS + SHIFT, right * UNITS + SHIFT


@pytest.fixture(scope="module")
def model():
    pipeline = make_pipeline(
        Preprocessor("robust", missing="keep"), RobustPCA(2, cells=True, random_state=0)
    )
    return FittedModel(pipeline.fit(messy()[0]))


def test_cells_are_in_units_of_the_data(model):
    X, right = messy()
    fit = model.cells(X)
    scales = model.preprocessor.scale_ * model.estimator.cell_scales_
    there = ~np.isnan(X)
    assert_array_equal(np.isnan(fit.residuals), ~there)
    assert_allclose((fit.expected + fit.residuals * scales)[there], X[there], rtol=1e-8)
    assert_allclose(fit.residuals, model.estimator.cell_residuals_, atol=1e-9)
    assert abs(fit.expected[8, 4] - right[8, 4]) < 1.0 * UNITS[4]
    good = np.delete(np.arange(len(X)), 20)
    off = (np.abs(fit.expected - right) / scales)[good][~there[good]]
    assert np.median(off) < 3
    assert_array_equal(np.flatnonzero(fit.bad), [20])


def test_flagged_cells_are_those_of_the_model_but_for_bad_rows_and_holes(model):
    X, _ = messy()
    found = flagged_cells(model, X)
    assert (found.row[0], found.variable[0]) == (8, 4)
    assert found.value[0] == X[8, 4]
    assert np.all(np.diff(np.abs(found.residual)) <= 0)
    assert not np.isnan(found.value).any()
    flags = np.zeros(X.shape, dtype=bool)
    flags[found.row, found.variable] = True
    expected = model.estimator.cell_outliers_.copy()
    expected[20] = False
    assert model.estimator.outliers_[20]
    assert_array_equal(flags, expected)


def test_a_map_of_few_rows_is_the_residuals_in_another_order(model):
    X, _ = messy()
    drawn = cell_map(model, X, lines=len(X), columns=10)
    kept = model.estimator.cell_residuals_[drawn.order]
    assert_allclose(drawn.cells.residual, kept, atol=1e-9)
    assert_array_equal(drawn.cells.row, np.repeat(drawn.order[:, None], 10, axis=1))
    assert set(drawn.order[:2]) == {8, 20}
    size = np.sqrt(np.nanmean(drawn.cells.residual**2, axis=1))
    assert np.all(np.diff(size) <= 1e-12)


@pytest.mark.parametrize(("lines", "columns"), [(20, 10), (7, 4), (2, 1)])
@pytest.mark.parametrize("given", [True, False])
def test_a_block_is_its_cell_farthest_off(model, lines, columns, given):
    X, _ = messy()
    X[:, 3] = np.where(np.arange(len(X)) < 148, X[:, 3], np.nan)
    residuals = model.cells(X).residuals if given else model.estimator.cell_residuals_
    drawn = cell_map(model, X if given else None, lines, columns)
    assert drawn.cells.residual.shape == (lines, columns)
    assert_array_equal(np.sort(drawn.order), np.arange(len(X)))
    assert_array_equal(np.diff(drawn.edges)[: lines // 2], 1)
    for i in range(lines):
        rows = drawn.order[drawn.edges[i] : drawn.edges[i + 1]]
        for j in range(columns):
            block = residuals[np.ix_(rows, np.arange(drawn.groups[j], drawn.groups[j + 1]))]
            cell = [column[i, j] for column in drawn.cells]
            assert cell[0] in rows
            assert drawn.groups[j] <= cell[1] < drawn.groups[j + 1]
            if np.isnan(block).all():
                assert np.isnan(cell[4])
                continue
            assert abs(cell[4]) == np.nanmax(np.abs(block))
            assert cell[4] == residuals[cell[0], cell[1]]
            if given:
                assert cell[2] == X[cell[0], cell[1]]


def test_flagged_cells_alone_make_a_map(monkeypatch):
    """Beyond many cells a model keeps the residuals of flagged ones."""
    X, _ = messy()
    estimator = RobustPCA(2, cells=True, random_state=0)
    whole = cell_map(estimator.fit(X / UNITS), lines=12, columns=5).cells
    monkeypatch.setattr("dualpca.robust.cells.KEPT_CELLS", 100)
    kept = cell_map(estimator.fit(X / UNITS), lines=12, columns=5).cells
    flagged = np.abs(whole.residual[:6]) > estimator.cell_cutoff_
    assert flagged[:2].any()
    assert_array_equal(kept.row[:2], whole.row[:2])
    assert_allclose(kept.residual[:2][flagged[:2]], whole.residual[:2][flagged[:2]], rtol=1e-5)


def test_models_of_rows_have_no_cells():
    X = messy()[1]
    with pytest.raises(ValueError, match="judges rows alone"):
        flagged_cells(RobustPCA(2, random_state=0).fit(X), X)


def test_holes_stay_for_the_estimator():
    X, _ = messy()
    for scaling in ("none", "standard", "robust"):
        kept = Preprocessor(scaling, missing="keep").fit(X)
        Z = kept.transform(X)
        assert_array_equal(np.isnan(Z), np.isnan(X))
        filled = Preprocessor(scaling, missing="impute").fit(X)
        assert_array_equal(Z[~np.isnan(X)], filled.transform(X)[~np.isnan(X)])
        assert_allclose(kept.inverse_transform(Z), X)
        assert kept.fill_ is None
        assert kept.n_filled_ == np.isnan(X).sum()
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinite"):
        Preprocessor(missing="keep").fit(X)
    with pytest.raises(ValueError, match="infinite"):
        kept.transform(X)
