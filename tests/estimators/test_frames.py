"""Data frames about models, scores for a grid search, and errors that say what to do."""

import builtins
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from dualpca import PCA, KernelPCA, Preprocessor, RobustKernelPCA, RobustPCA, SparsePCA, save
from dualpca.frames import in_words, loadings, number, outlier_report, quality, summary
from dualpca.inspect import Reason


def wine():
    X = load_wine(as_frame=True).data
    X.loc[7, "ash"] = 40
    X.loc[20, ["hue", "proline"]] = 9, 56_000
    X.index = [f"bottle {i}" for i in range(len(X))]
    return X


@pytest.fixture(scope="module")
def fitted():
    return make_pipeline(Preprocessor("robust"), RobustPCA(5, random_state=0)).fit(wine())


def test_frames_of_a_pipeline(fitted):
    table = loadings(fitted)
    assert list(table.index) == list(wine().columns)
    assert list(table.columns) == ["PC1", "PC2", "PC3", "PC4", "PC5"]
    assert_allclose(table.to_numpy(), fitted[-1].components_.T)
    pd.testing.assert_frame_equal(
        fitted[-1].loadings().reset_index(drop=True), table.reset_index(drop=True)
    )
    shares = summary(fitted)
    assert_allclose(shares["variance"], fitted[-1].explained_variance_)
    assert_allclose(shares["cumulative"], np.cumsum(fitted[-1].explained_variance_ratio_))


def test_outlier_report(fitted):
    X = wine()
    table = outlier_report(fitted, X)
    model, Z = fitted[-1], fitted[0].transform(X)
    assert set(table.index) == set(X.index[model.outliers_])
    assert (np.diff(model.score_samples(Z)[[X.index.get_loc(i) for i in table.index]]) >= 0).all()
    assert list(table.index[:2]) == ["bottle 20", "bottle 7"]
    assert list(table["variable"][:2]) == ["proline", "ash"]
    assert table.loc["bottle 7", "value"] == 40
    assert 1.5 < table.loc["bottle 7", "expected"] < 3.5
    assert "hue 9 instead of" in table.loc["bottle 20", "words"]
    kinds = pd.Series(model.row_kinds_, X.index)
    assert (table["kind"] == kinds[table.index]).all()
    plain = outlier_report(RobustPCA(5, random_state=0).fit(Z), np.asarray(Z))
    assert list(plain.index) == [X.index.get_loc(i) for i in table.index]
    assert outlier_report(fitted, X[~model.outliers_]).empty
    rows = (
        RobustKernelPCA(3, gamma=0.05, random_state=0, flag="orthogonal").fit(Z).outlier_report(Z)
    )
    assert list(rows.columns) == ["score_distance", "orthogonal_distance", "kind"]


def test_without_pandas(fitted, monkeypatch):
    imported = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert summary(fitted)["name"] == ["PC1", "PC2", "PC3", "PC4", "PC5"]


def test_what_cannot_be_told():
    X = load_digits().data[:80]
    with pytest.raises(ValueError, match="KernelPCA, whose components lie in the feature space"):
        KernelPCA(2).fit(X).loadings()
    with pytest.raises(ValueError, match="PCA, which flags no rows; use RobustPCA"):
        outlier_report(PCA(2).fit(X), X)


def test_words():
    reasons = [Reason(0, 1.14e6, 72.349, 0.5), Reason(1, np.nan, 1.0, 0.4), Reason(0, 1, 2, 0.004)]
    assert in_words(reasons, ["weight", "height"]) == (
        "weight 1,140,000 instead of 72.35 (50%); height missing (40%)"
    )
    assert [number(x) for x in (0.5, 1234.5, 123456789.0, -1e20, 1e-9)] == [
        "0.5", "1,234.5", "123,456,789", "-1e+20", "1e-09",
    ]  # fmt: skip


def test_rows_without_noise_have_reasons():
    """Most rows are equal in one column, so that the model has no noise there."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((100, 2)), (rng.random(100) < 0.7).astype(float)])
    model = RobustPCA(2, random_state=0).fit(X)
    assert model.noise_variance_ == pytest.approx(1e-12 * model.explained_variance_[0])
    table = model.outlier_report(X)
    assert set(table["variable"]) == {"x2"}
    assert (table["share"] > 0.9).all()


def test_report_and_save(fitted, tmp_path):
    assert fitted[-1].report(tmp_path / "wine.html").stat().st_size > 1e5
    for model in (PCA(2), make_pipeline(Preprocessor(), PCA(2))):
        with pytest.raises(NotFittedError):
            save(model, tmp_path / "model.dualpca")
    assert not (tmp_path / "model.dualpca").exists()


# scores of models


@pytest.mark.filterwarnings("ignore:two starts")
def test_scores_for_a_grid_search():
    X = load_digits().data[:300]
    grids = [
        (SparsePCA(3), {"n_nonzero": [4, 30]}, {"n_nonzero": 30}),
        (KernelPCA(kernel="rbf", gamma=1e-3), {"n_components": [2, 6]}, {"n_components": 6}),
        (
            RobustPCA(random_state=0, flag="orthogonal"),
            {"n_components": [1, 8]},
            {"n_components": 8},
        ),
    ]
    for model, grid, best in grids:
        assert GridSearchCV(model, grid, cv=3).fit(X).best_params_ == best


def test_shares_of_the_variance_of_the_training_rows():
    X = load_digits().data[:200]
    for kernel in ("linear", "rbf"):
        model = KernelPCA(5, kernel=kernel, gamma=1e-3, tol=1e-10).fit(X)
        assert model.score(X) == pytest.approx(model.explained_variance_ratio_.sum(), rel=1e-9)
    for approximation in ("nystroem", "rff"):
        few = KernelPCA(
            5,
            kernel="rbf",
            gamma=1e-3,
            approximation=approximation,
            n_landmarks=200,
            random_state=0,
            tol=1e-8,
        ).fit(X)
        assert few.score(X) == pytest.approx(few.explained_variance_ratio_.sum(), rel=1e-6)
    sparse = SparsePCA(4, n_nonzero=10, random_state=0).fit(X)
    back = sparse.inverse_transform(sparse.transform(X))
    lost = ((X - back) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
    assert sparse.score(X) == pytest.approx(1 - lost)
    assert not hasattr(KernelPCA(2, kernel="precomputed").fit(X @ X.T), "score")


def test_bad_rows_do_not_move_the_score_of_robust_pca():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 8)) + 0.3 * rng.standard_normal(
        (300, 8)
    )
    model = RobustPCA(3, random_state=0).fit(X)
    law = multivariate_normal(model.mean_, model.get_covariance())
    assert model.score(X) == pytest.approx(np.median(law.logpdf(X)), rel=1e-8)
    wild = X.copy()
    wild[:60] = 1e6
    assert model.score(wild) > model.score(X) - 1.5


# units, and errors


@pytest.mark.parametrize("Model", [PCA, RobustPCA, SparsePCA])
def test_a_column_in_large_units_is_told(Model):
    X = np.random.default_rng(0).standard_normal((200, 4))
    X[:, 2] *= 1000
    with pytest.warns(UserWarning, match=r"column 2 holds 100.0% of the variance.*Preprocessor"):
        Model(2, random_state=0).fit(X)
    with pytest.warns(UserWarning, match=r"column 'c' holds"):
        Model(2, random_state=0).fit_transform(pd.DataFrame(X, columns=list("abcd")))
    make_pipeline(Preprocessor("robust"), Model(2, random_state=0)).fit(X)
    Model(1, random_state=0).fit(X[:, [2]])


def test_names_of_scikit_learn():
    with pytest.raises(TypeError, match="PCA has no svd_solver=; here it is solver="):
        PCA(2, svd_solver="full")
    with pytest.raises(TypeError, match="KernelPCA has no eigen_solver=; here it is solver="):
        KernelPCA(2, eigen_solver="dense")
    with pytest.raises(TypeError, match="copy=; here it is not needed"):
        PCA(2, copy=False)


def test_errors_name_the_columns_and_the_remedy():
    X = pd.DataFrame({"a": [1.0, 2, 3], "city": ["x", "y", "z"], "b": [2.0, 1, 4]})
    with pytest.raises(ValueError, match=r"X holds text; .*: city$"):
        PCA(1).fit(X)
    X["city"] = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"])
    with pytest.raises(ValueError, match="in column 'city'"):
        PCA(1).fit(X)
    with pytest.raises(ValueError, match=r"contains NaN.\nPut an imputer.*Preprocessor"):
        RobustPCA(1).fit([[1.0, np.nan], [2.0, 1.0], [0.0, 3.0]])


def standard(n_components=None, kind=PCA, **options):
    X = load_wine(as_frame=True).data
    return X, make_pipeline(Preprocessor("standard"), kind(n_components, **options)).fit(X)


def correlations_of(model, X):
    both = np.corrcoef(np.asarray(X).T, np.asarray(model.transform(X)).T)
    d = X.shape[1]
    return both[:d, d:]


@pytest.mark.parametrize("rotation", [None, "varimax", "promax"])
@pytest.mark.parametrize("whiten", [False, True])
def test_scaled_loadings_are_correlations(rotation, whiten):
    X, model = standard(4, rotation=rotation, whiten=whiten)
    assert_allclose(loadings(model, scaled=True, X=X), correlations_of(model, X), atol=1e-10)
    X, whole = standard(rotation=rotation, whiten=whiten)
    expected = correlations_of(whole, X)
    assert_allclose(loadings(whole, scaled=True), expected, atol=1e-10)
    assert_allclose(whole[-1].loadings(scaled=True), expected, atol=1e-10)
    few = X.to_numpy()[:, :4]
    sparse = PCA(3, rotation=rotation, whiten=whiten).fit(sp.csr_array(few))
    assert_allclose(
        loadings(sparse, True, sp.csr_array(few)), correlations_of(sparse, few), atol=1e-8
    )


def test_correlations_of_robust_and_sparse_models():
    X, model = standard(3, RobustPCA, random_state=0)
    good = X[~model[-1].outliers_]
    assert_allclose(loadings(model, True, X), correlations_of(model, good), atol=1e-10)
    assert np.abs(loadings(model, True) - loadings(model, True, X)).to_numpy().max() < 0.25
    X, model = standard(3, SparsePCA, n_nonzero=5, random_state=0)
    assert_allclose(loadings(model, True, X), correlations_of(model, X), atol=1e-10)
    with pytest.raises(ValueError, match=r"SparsePCA does not know the variances.*give X"):
        loadings(model, scaled=True)


def test_quality_of_rows_and_variables():
    """Over all components cos2 sums to 1, over all rows or variables ctr does."""
    X, model = standard()
    scores, d = np.asarray(model.transform(X)), X.shape[1]
    rows, variables = quality(model, X), quality(model, X, "variables")
    assert list(rows.columns[[0, d]]) == ["cos2 PC1", "ctr PC1"]
    assert_allclose(rows.iloc[:, d:], scores**2 / (scores**2).sum(axis=0))
    assert_allclose(rows.iloc[:, :d], scores**2 / (scores**2).sum(axis=1, keepdims=True))
    assert_allclose(variables.iloc[:, :d], correlations_of(model, X) ** 2, atol=1e-10)
    assert_allclose(variables.iloc[:, d:], loadings(model) ** 2)
    for table in (rows, variables):
        assert_allclose(table.iloc[:, :d].sum(axis=1), 1.0)
        assert_allclose(table.iloc[:, d:].sum(axis=0), 1.0)
    assert list(variables.index) == list(X.columns)


def test_quality_of_r():
    """``FactoMineR::PCA(mtcars)``: cos2 and contrib of rows and variables (tests/data/reference.R)."""
    cars = json.loads((Path(__file__).parents[1] / "data/reference.json").read_text())["cars"]
    X = np.array(cars["data"])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = PCA(3, tol=1e-9).fit(X)
    for of, name in (("rows", "row"), ("variables", "variable")):
        expected = np.hstack([cars[f"{name}_cos2"], cars[f"{name}_ctr"]])
        assert_allclose(quality(model, X, of), expected, atol=1e-6)


@pytest.mark.parametrize("kind", [PCA, RobustPCA, SparsePCA])
def test_quality_of_components_that_are_not_orthogonal(kind):
    X, model = standard(3, kind, rotation="promax", random_state=0)
    Z = np.asarray(model[0].transform(X))
    R, C = Z - model[-1].mean_, model[-1].components_
    cosine = (R @ C.T) / np.outer(np.linalg.norm(R, axis=1), np.linalg.norm(C, axis=1))
    assert_allclose(quality(model, X).iloc[:, :3], cosine**2, atol=1e-10)
    with pytest.raises(ValueError, match="of='columns' of a"):
        quality(model, X, "columns")


def test_summary_tells_what_was_reached():
    model = PCA(3).fit(load_digits().data)
    assert model.summary().attrs["residual"] == model.residual_
    assert model.summary().attrs["variance_shortfall"] == model.variance_shortfall_
