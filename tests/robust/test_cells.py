"""Wrong cells, holes and bad rows: descent, special cases with other oracles, and planted errors."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from dualpca import PCA, RobustPCA, load
from dualpca.formulations import robust
from dualpca.linear.missing import fit_missing
from dualpca.losses import LOSSES, Square, Tanh
from dualpca.operators import as_operator
from dualpca.robust.cells import CellModel, converge, improve
from dualpca.solvers import solve

BOUNDED = {name: loss for name, loss in LOSSES.items() if not loss.singular} | {"square": Square()}


def planted(seed=0, n=400, d=30, s=3, cells=0.05, holes=0.1, rows=20, size=6.0):
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((d, s)))[0]
    good = (
        rng.standard_normal((n, s)) * [6.0, 4.0, 3.0] @ V.T + 0.3 * rng.standard_normal((n, d)) + 2
    )
    X, wrong = good.copy(), rng.random((n, d)) < cells
    wrong[:rows] = False
    X[wrong] += size * rng.choice([-1, 1], wrong.sum())
    X[:rows] += 5 * rng.standard_normal((rows, d))
    X[rng.random((n, d)) < holes] = np.nan
    return X, good, V, wrong & ~np.isnan(X)


def degrees(V, W):
    return np.rad2deg(subspace_angles(V, W)[0])


def start(X, s, seed, **losses):
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((X.shape[1], s)))[0]
    model = CellModel(np.nanmean(X, axis=0), V, np.maximum(np.nanstd(X, axis=0) / 2, 0.1), **losses)
    return model, rng.standard_normal((len(X), s))


@pytest.mark.parametrize("rows", BOUNDED)
@pytest.mark.parametrize("cells", BOUNDED)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**16), share=st.floats(0, 0.6))
def test_the_objective_never_rises(cells, rows, seed, share):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((15, 6)) * rng.choice([1.0, 20.0], (15, 6), p=[0.8, 0.2])
    X[rng.random(X.shape) < share] = np.nan
    X[0] = rng.standard_normal(6)  # a column has a cell
    model, B = start(X, 2, seed, cell_loss=BOUNDED[cells], row_loss=BOUNDED[rows])
    mass, operator, values = rng.random(15), as_operator(X), []
    for _ in range(6):
        model, value = improve(operator, model, B, mass)
        values.append(value)
    assert all(b <= a * (1 + 1e-9) + 1e-12 for a, b in itertools.pairwise(values))


def test_squares_are_pca_and_em():
    X, good, _, _ = planted(1, n=80, d=10, rows=0, cells=0)
    for data, mean in ((good, good.mean(axis=0)), (X, np.nanmean(X, axis=0))):
        model, B = start(data, 3, 0, cell_loss=Square(), row_loss=Square())
        model, move, _ = converge(as_operator(data), model, B, np.ones(80), 1e-13, 3000)
        em = fit_missing(as_operator(data), 3, mean, shrink=False, tol=1e-13)
        assert move < 1e-9
        assert degrees(model.V, em.model.V) < 1e-6
        along = em.model.V @ (em.model.V.T @ (model.center - em.pca.center))
        np.testing.assert_allclose(model.center - along, em.pca.center, atol=1e-8)
    assert degrees(em.model.V, PCA(3, missing="em", tol=1e-12).fit(X).components_.T) < 1e-6


@pytest.mark.parametrize("loss", ["huber", "cauchy", "geman_mcclure", "tanh"])
def test_squares_of_cells_are_the_robust_problem_of_rows(loss):
    """DCA on the paper's problem does not move from where the steps of cells end."""
    _, X, _, _ = planted(2, n=100, d=8, rows=0)
    X[:10] += 3 * np.random.default_rng(0).standard_normal((10, 8))
    model, _ = start(X, 3, 0, cell_loss=Square(), row_loss=LOSSES[loss])
    pca = PCA(3).fit(X)
    model = CellModel(pca.mean_, pca.components_.T, model.scales, Square(), LOSSES[loss])
    model, _, _ = converge(
        as_operator(X), model, (X - pca.mean_) @ model.V, np.ones(100), 1e-13, 5000
    )
    assert model.usual == pytest.approx(1)
    c2 = 8 * model.row_loss.tuning**2 * (model.scales**2).mean()
    problem = robust(as_operator(X - model.center), 0.0, LOSSES[loss].at(c2**0.5))
    result = solve(problem, "dca", W0=model.V, tol=1e-12, max_iter=2000)
    assert degrees(np.asarray(result.W), model.V) < 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_planted_errors_are_found(seed):
    X, good, V, wrong = planted(seed)
    model = RobustPCA(3, cells=True, random_state=seed).fit(X)
    assert degrees(model.components_.T, V) < 1.5 * degrees(PCA(3).fit(good).components_.T, V)
    assert model.outliers_[:20].all()
    assert model.outliers_[20:].mean() < 0.02
    assert np.array_equal(model.predict(X) == -1, model.outliers_)
    flagged = model.cell_outliers_
    assert flagged[20:][wrong[20:]].mean() > 0.99
    assert flagged[20:][~wrong[20:]].mean() < 0.03
    assert np.array_equal(np.isnan(model.cell_residuals_), np.isnan(X))
    filled = model.impute(X)[20:]
    changed = wrong[20:] | np.isnan(X[20:])
    assert np.sqrt(((filled - good[20:])[changed] ** 2).mean()) < 0.5
    usual = ~(flagged | np.isnan(X))[20:]
    assert np.array_equal(filled[usual], X[20:][usual])


@pytest.mark.parametrize("d", [6, 8, 12, 30])
def test_good_cells_are_flagged_as_often_as_they_should(d):
    """However many columns there are: residuals are judged by their noise, not by how small they are."""
    shares = []
    for seed in range(5):
        X, _, _, _ = planted(seed, n=300, d=d, cells=0, rows=0, holes=0.05)
        shares.append(RobustPCA(3, cells=True, random_state=0).fit(X).cell_outliers_.mean())
    assert 0.003 < np.median(shares) < 0.03


def test_rows_alone_fail_where_cells_do_not():
    X, _, V, _ = planted(4, d=50, cells=0.08, holes=0.0, rows=0)
    by_cells = RobustPCA(3, cells=True, random_state=0).fit(X)
    by_rows = RobustPCA(3, random_state=0).fit(X)
    assert degrees(by_cells.components_.T, V) < 0.5 * degrees(by_rows.components_.T, V)


def test_new_rows():
    X, good, _, _ = planted(5)
    model = RobustPCA(3, cells=True, random_state=0).fit(X)
    rows, clean = X[20:60], good[20:60]
    np.testing.assert_allclose(
        model.transform(rows), (clean - model.mean_) @ model.components_.T, atol=1.0
    )
    assert (model.predict(rows) == 1).mean() > 0.9
    assert (model.predict(X[:20]) == -1).all()
    one = clean[:1].copy()
    one[0, 7] += 50.0
    residuals = model.cell_residuals(one)[0]
    assert np.argmax(np.abs(residuals)) == 7
    assert abs(residuals[7] - 50 / model.cell_scales_[7]) < 5
    assert model.predict(one)[0] == 1


def test_a_saved_model_does_the_same(tmp_path):
    X, _, _, _ = planted(6)
    model = RobustPCA(3, cells=True, random_state=0).fit(X)
    model.save(tmp_path / "m.dualpca")
    again = load(tmp_path / "m.dualpca")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.cell_residuals(X), model.cell_residuals(X))
    np.testing.assert_allclose(again.cell_residuals(X), model.cell_residuals_, atol=1e-9)


def test_all_rows_are_fitted_beyond_the_sample(tmp_path):
    X, good, V, _ = planted(7, n=6000, d=20, rows=100)
    path = tmp_path / "x.npy"
    np.save(path, X)
    model = RobustPCA(3, cells=True, random_state=0).fit(X)
    mapped = RobustPCA(3, cells=True, random_state=0).fit(np.load(path, mmap_mode="r"))
    np.testing.assert_allclose(mapped.components_, model.components_, atol=1e-5)
    assert degrees(model.components_.T, V) < 1.5 * degrees(PCA(3).fit(good).components_.T, V)


def test_dask_fits_a_sample():
    import dask.array as da

    X, _, V, _ = planted(8, n=3000, d=20)
    model = RobustPCA(3, cells=True, random_state=0).fit(da.from_array(X, chunks=(500, 20)))
    assert degrees(model.components_.T, V) < 2
    assert np.asarray(model.outliers_)[:20].mean() > 0.9


def test_flagged_cells_of_large_tables_are_sparse(monkeypatch):
    from dualpca.robust import cells

    X, _, _, _ = planted(9)
    dense = RobustPCA(3, cells=True, random_state=0).fit(X)
    monkeypatch.setattr(cells, "KEPT_CELLS", 100)
    sparse = RobustPCA(3, cells=True, random_state=0).fit(X)
    assert np.array_equal(sparse.cell_outliers_.toarray(), dense.cell_outliers_)
    kept = np.where(dense.cell_outliers_, dense.cell_residuals_, 0)
    np.testing.assert_allclose(sparse.cell_residuals_.toarray(), kept, rtol=1e-6)


@pytest.mark.parametrize("missing", ["em", "shrink"])
def test_robust_rows_with_holes(missing):
    X, good, V, _ = planted(10, cells=0.0, rows=60)
    model = RobustPCA(3, missing=missing, random_state=0).fit(X)
    assert degrees(model.components_.T, V) < 2 * degrees(PCA(3).fit(good).components_.T, V)
    assert model.outliers_[:60].all()
    assert model.outliers_[60:].mean() < 0.02
    holes = np.isnan(X[60:])
    assert np.sqrt(((model.impute(X)[60:] - good[60:])[holes] ** 2).mean()) < 0.4
    complete = RobustPCA(3, missing=missing, random_state=0).fit(good)
    np.testing.assert_array_equal(
        complete.components_, RobustPCA(3, random_state=0).fit(good).components_
    )


def test_edges():
    X, _, _, _ = planted(11)
    X[30] = np.nan
    X[:, 4] = 7.0
    model = RobustPCA(3, cells=True, random_state=0).fit(X)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.transform(X)).all()
    np.testing.assert_allclose(model.impute(X[30:31])[0], model.mean_, atol=1e-8)
    X[:, 5] = 1e3 * np.random.default_rng(0).standard_normal(len(X))
    with pytest.warns(UserWarning, match="column 5 holds"):
        assert np.isfinite(RobustPCA(3, cells=True, random_state=0).fit(X).components_).all()
    X[:, 6] = np.nan
    with pytest.raises(ValueError, match="column 6; drop"):
        RobustPCA(3, cells=True).fit(X)


def test_errors():
    X, _, _, _ = planted(12)
    with pytest.raises(ValueError, match="center='median'"):
        RobustPCA(3, cells=True, center="median").fit(X)
    with pytest.raises(ValueError, match="cells=True"):
        RobustPCA(3, missing="em", random_state=0).fit(X).cell_residuals(X)


def test_tanh_is_smooth_with_the_published_constants():
    loss, v = Tanh(), np.linspace(0.01, 20, 4001)
    slopes = np.gradient(loss.psi(v), v)
    np.testing.assert_allclose(loss.slope(v)[2:-2], slopes[2:-2], atol=2e-3)
    assert (np.diff(loss.slope(v)) <= 1e-12).all()
    assert loss.psi(np.array([2.25]))[0] == pytest.approx(2.25)
    assert loss.psi(np.array([2.25 + 1e-9]))[0] == pytest.approx(2.25, abs=1e-6)
    assert loss.psi(np.array([1e9]))[0] == pytest.approx(2 * 3.7622127)
