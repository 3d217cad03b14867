"""Holes: EM and its shrunk relative against plain transcriptions, and conditional means."""

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dualpca import PCA
from dualpca.linear.missing import fit_missing, gcv
from dualpca.operators import as_operator


def table(seed=0, n=60, d=12, s=3, share=0.2, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, s)) @ rng.standard_normal((s, d)) + noise * rng.standard_normal(
        (n, d)
    )
    X += rng.standard_normal(d)
    holes = rng.random((n, d)) < share
    return np.where(holes, np.nan, X), X


def turns(X, s, shrink, weights=None, center=True, count=3000):
    """Complete by the fitted values of the last table, take the SVD of that, and again."""
    (n, d), there = X.shape, ~np.isnan(X)
    w = np.ones(n) if weights is None else weights
    mass = w.sum()
    Y = np.where(there, X, np.nanmean(X, axis=0) if center else 0.0)
    for _ in range(count):
        c = w @ Y / mass if center else np.zeros(d)
        U, sv, Vt = np.linalg.svd((Y - c) * np.sqrt(w / mass)[:, None], full_matrices=False)
        size = sv[:s].copy()
        if shrink:
            freedom = (mass - 1) * d - (mass - 1) * s - d * s + s**2
            sigma2 = min(mass * d / min(d, mass - 1) * (sv[s:] ** 2).sum() / freedom, sv[s] ** 2)
            size = (sv[:s] ** 2 - sigma2) / sv[:s]
        fit = c + (U[:, :s] * size) @ Vt[:s] * np.sqrt(mass / w)[:, None]
        Y = np.where(there, X, fit)
    return c, Vt[:s].T, sv[:s] ** 2


def same_space(V, W):
    return np.linalg.norm(V @ V.T - W @ W.T)


@pytest.mark.parametrize("shape", [(60, 12), (25, 40)])
@pytest.mark.parametrize("shrink", [False, True])
def test_turns_end_where_plain_turns_end(shape, shrink):
    X, _ = table(1, *shape)
    fit = fit_missing(as_operator(X), 3, np.nanmean(X, axis=0), shrink=shrink, tol=1e-12)
    c, V, variances = turns(X, 3, shrink)
    assert same_space(fit.model.V, V) < 1e-8
    np.testing.assert_allclose(fit.pca.center, c, atol=1e-8)
    np.testing.assert_allclose(fit.pca.variances[:3], variances, rtol=1e-8)


def test_weights_count_rows():
    X, _ = table(2)
    w = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    models = [
        PCA(3, missing="em", tol=1e-12).fit(X, sample_weight=w),
        PCA(3, missing="em", tol=1e-12).fit(np.repeat(X, w.astype(int), axis=0)),
    ]
    np.testing.assert_allclose(models[0].components_, models[1].components_, atol=1e-8)
    np.testing.assert_allclose(
        models[0].explained_variance_, models[1].explained_variance_, rtol=1e-8
    )
    assert same_space(models[0].components_.T, turns(X, 3, False, w)[1]) < 1e-8


def test_without_centring():
    X, _ = table(3)
    model = PCA(3, missing="em", center=False, tol=1e-12).fit(X)
    assert not model.mean_.any()
    assert same_space(model.components_.T, turns(X, 3, False, center=False)[1]) < 1e-8


@pytest.mark.parametrize("seed", range(5))
def test_em_never_fits_worse(seed):
    X, _ = table(seed, share=0.35)
    operator, mean = as_operator(X), np.nanmean(X, axis=0)
    values = [
        fit_missing(operator, 3, mean, shrink=False, tol=0, max_iter=k).pca.left
        for k in range(1, 12)
    ]
    assert all(b <= a * (1 + 1e-10) for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("missing", ["em", "shrink"])
def test_new_rows_by_the_gaussian_model(missing):
    """Imputed cells are conditional means, scores theirs, and scores of samples marginal densities."""
    X, _ = table(4)
    model = PCA(3, missing=missing).fit(X)
    C, mean, filled = model.get_covariance(), model.mean_, model.impute(X)
    density = model.score_samples(X)
    for i, row in enumerate(X):
        o = ~np.isnan(row)
        given = np.linalg.solve(C[np.ix_(o, o)], row[o] - mean[o])
        np.testing.assert_allclose(filled[i, ~o], mean[~o] + C[np.ix_(~o, o)] @ given, rtol=1e-8)
        expected = multivariate_normal(mean[o], C[np.ix_(o, o)]).logpdf(row[o])
        assert density[i] == pytest.approx(expected, rel=1e-9)
    assert np.array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    scores = (filled - mean) @ model.components_.T
    np.testing.assert_allclose(model.transform(X), scores, atol=1e-10)
    np.testing.assert_allclose(PCA(3, missing=missing).fit_transform(X), scores, atol=1e-10)
    assert not np.isnan(model.inverse_transform(model.transform(X))).any()


@pytest.mark.parametrize("missing", ["em", "shrink"])
def test_complete_rows_are_those_of_pca(missing):
    _, X = table(5)
    model, plain = PCA(3, missing=missing).fit(X), PCA(3).fit(X)
    np.testing.assert_array_equal(model.components_, plain.components_)
    np.testing.assert_array_equal(model.explained_variance_, plain.explained_variance_)
    assert model.noise_variance_ == plain.noise_variance_
    np.testing.assert_allclose(model.score_samples(X), plain.score_samples(X), rtol=1e-9)


def test_densities_without_noise_are_those_of_pca():
    _, X = table(5, n=60, d=4)
    np.testing.assert_allclose(
        PCA(4, missing="em").fit(X).score_samples(X), PCA(4).fit(X).score_samples(X)
    )


def test_shrinking_predicts_better_than_least_squares_where_cells_are_few():
    errors = {"em": [], "shrink": []}
    for seed in range(10):
        X, complete = table(seed, n=40, share=0.4, noise=1.0)
        for missing, found in errors.items():
            filled = fit_missing(
                as_operator(X), 3, np.nanmean(X, axis=0), shrink=missing == "shrink"
            ).model(X)
            found.append(np.sqrt(((filled - complete)[np.isnan(X)] ** 2).mean()))
    assert np.median(errors["shrink"]) < 0.9 * np.median(errors["em"])


def test_noise_is_that_of_the_complete_table():
    X, complete = table(6, n=2000, share=0.2)
    model, plain = PCA(3, missing="em").fit(X), PCA(3).fit(complete)
    assert model.noise_variance_ == pytest.approx(plain.noise_variance_, rel=0.1)
    np.testing.assert_allclose(model.explained_variance_, plain.explained_variance_, rtol=0.1)


def test_gcv_is_its_formula_and_finds_the_rank():
    X, _ = table(7, n=200, share=0.1)
    operator, mean, observed = as_operator(X), np.nanmean(X, axis=0), int((~np.isnan(X)).sum())
    chosen, best = gcv(operator, mean, observed, shrink=True, tol=1e-8)
    values = chosen.statistic
    assert chosen.n_components == best.pca.s == 3
    model = PCA("gcv", missing="shrink").fit(X)
    assert model.n_components_ == model.selection_.n_components == 3
    (n, d), q = X.shape, 3
    fit = fit_missing(operator, q, mean, shrink=True, tol=1e-10)
    c, V, _ = turns(X, q, True)
    there = ~np.isnan(X)
    residuals = []
    for row, o in zip(X, there, strict=True):
        G = V[o].T @ V[o] + np.diag(fit.model.ridge)
        # the ridge belongs to the axes of the fit, in their order
        W = fit.model.V
        b = np.linalg.solve(W[o].T @ W[o] + np.diag(fit.model.ridge), W[o].T @ (row - c)[o])
        residuals.append((row - c)[o] - W[o] @ b)
        assert G.shape == (q, q)
    x = np.concatenate(residuals)
    scale = (n * d - (~there).sum()) / ((n - 1) * d - (~there).sum() - q * (n + d - q - 1))
    assert values[q] == pytest.approx(np.mean((scale * x) ** 2), rel=1e-4)


def test_kinds_of_data(tmp_path):
    import dask.array as da

    X, _ = table(8, n=300)
    expected = PCA(3, missing="shrink").fit(X)
    path = tmp_path / "x.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    for data in (mapped, da.from_array(X, chunks=(70, 12)), as_operator([X[:100], X[100:]])):
        model = PCA(3, missing="shrink").fit(data)
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-10)
        np.testing.assert_allclose(np.asarray(model.impute(data)), expected.impute(X), atol=1e-10)
        np.testing.assert_allclose(
            np.asarray(model.transform(data)), expected.transform(X), atol=1e-9
        )
    single = PCA(3, missing="shrink").fit(X.astype(np.float32))
    assert single.components_.dtype == single.impute(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.components_, expected.components_, atol=1e-5)


def test_tensors():
    torch = pytest.importorskip("torch")
    X, _ = table(9)
    model = PCA(3, missing="shrink").fit(torch.asarray(X))
    expected = PCA(3, missing="shrink").fit(X)
    np.testing.assert_allclose(model.components_.numpy(), expected.components_, atol=1e-10)
    filled = model.impute(torch.asarray(X))
    assert isinstance(filled, torch.Tensor)
    np.testing.assert_allclose(filled.numpy(), expected.impute(X), atol=1e-10)


def test_frames_stay_frames():
    pd = pytest.importorskip("pandas")
    X, _ = table(10)
    frame = pd.DataFrame(X, columns=[f"v{j}" for j in range(X.shape[1])], index=range(5, 65))
    filled = PCA(3, missing="em").fit(frame).impute(frame)
    assert list(filled.columns) == list(frame.columns)
    assert list(filled.index) == list(frame.index)
    assert not filled.isna().any().any()


def test_rows_and_columns_at_the_edge():
    X, _ = table(11)
    X[4] = np.nan
    model = PCA(3, missing="em").fit(X)
    np.testing.assert_allclose(model.transform(X[4:5]), 0, atol=1e-10)
    np.testing.assert_allclose(model.impute(X[4:5])[0], model.mean_)
    X[:, 2] = 7.0
    assert np.isfinite(PCA(3, missing="shrink").fit(X).components_).all()


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda X: X[:, 3].fill(np.nan), {}, "column 3; drop them"),
        (lambda X: X[5].fill(np.inf), {}, "infinite"),
        (lambda X: None, {"n_components": 0.9}, "n_components=0.9 needs a complete table"),
        (lambda X: None, {"n_components": 12}, "between 1 and 11"),
        (lambda X: None, {"solver": "krylov"}, "solver='krylov'"),
        (lambda X: X[:, 1:].__setitem__(slice(5, None), np.nan), {"missing": "em"}, "'shrink'"),
        (lambda X: None, {"missing": "error"}, "NaN"),
    ],
)
def test_what_cannot_be_done_is_said(change, options, words):
    X, _ = table(12)
    change(X)
    with pytest.raises(ValueError, match=words):
        PCA(**{"n_components": 3, "missing": "shrink", **options}).fit(X)


def test_numbers_that_vanish_are_refused():
    X, _ = table(13)
    with pytest.raises(ValueError, match="underflow"):
        PCA(3, missing="em").fit(X * 1e-200)


def test_impute_needs_a_fit_for_holes():
    _, X = table(14)
    with pytest.raises(ValueError, match="missing='shrink'"):
        PCA(3).fit(X).impute(X)
    with pytest.raises(ValueError, match="infinity"):
        PCA(3, missing="em").fit(X).transform(np.full((2, 12), np.inf))


def test_a_listener_stops_the_turns():
    from dualpca.progress import Listener, listening

    class Enough(Listener):
        def step(self, step):
            return step.passes >= 4

    X, _ = table(15)
    with listening(Enough()):
        model = PCA(3, missing="em", tol=1e-14).fit(X)
    assert model.residual_ > 1e-14
    assert model.n_iter_ <= 4
