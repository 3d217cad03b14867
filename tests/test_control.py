"""Control charts: textbook limits, statistics by definition, and flags that new rows do not change."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.pipeline import make_pipeline

from dualpca import PCA, KernelPCA, Preprocessor, RobustKernelPCA, RobustPCA, SparsePCA, load
from dualpca.control import calibrate, contributions, limits, out_of_control, statistics
from dualpca.frames import quality
from dualpca.linear import limits as bounds
from tests.loops import over

REFERENCE = json.loads((Path(__file__).parent / "data/reference.json").read_text())


def rows(seed=0, n=300, d=8, s=3):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(np.random.default_rng(99).standard_normal((d, s)))[0]
    noise = rng.standard_normal((n, d)) * np.linspace(0.3, 1.0, d)
    return rng.standard_normal((n, s)) * [9, 6, 4] @ axes.T + noise + 5


def calibrated(X, s=3, **options):
    return calibrate(PCA(s, **options).fit(X), X)


def test_t2_limit_of_a_textbook():
    """Tables of F: F_{0.95}(2, 10) = 4.10, F_{0.99}(3, 20) = 4.94."""
    assert_allclose(bounds.t2_limit(0.95, 2, 12), 2 * 143 / (12 * 10) * 4.10, rtol=1e-3)
    assert_allclose(bounds.t2_limit(0.99, 3, 23), 3 * 528 / (23 * 20) * 4.94, rtol=1e-3)
    assert_allclose(bounds.t2_limit(0.99, 4, 10**9), stats.chi2.ppf(0.99, 4), rtol=1e-6)
    assert bounds.t2_limit(0.99, 4, 4) == np.inf


def test_limits_of_r():
    """``qf``, ``qnorm`` and ``qchisq`` in the published formulas (tests/data/reference.R)."""
    known = REFERENCE["limits"]
    theta = tuple(float((np.array(known["left"]) ** i).sum()) for i in (1, 2, 3))
    X = np.array(REFERENCE["cars"]["data"])
    model = calibrated((X - X.mean(axis=0)) / X.std(axis=0, ddof=1), 3, tol=1e-9)
    assert_allclose(model.residual_powers_, theta, rtol=1e-6)
    for i, level in enumerate(known["levels"]):
        assert_allclose(bounds.t2_limit(level, 3, 32), known["t2"][i], rtol=1e-9)
        assert_allclose(bounds.jackson_mudholkar(level, theta), known["jackson"][i], rtol=1e-8)
        assert_allclose(bounds.box(level, theta), known["box"][i], rtol=1e-8)
        assert_allclose(limits(model, quantile=level), (known["t2"][i], known["jackson"][i]), 1e-6)


@over("m", [1, 2, 10, 200])
def test_spe_limits_of_equal_variances(m):
    """SPE is sigma^2 chi2_m there: Box is exact, and Jackson-Mudholkar is Wilson and Hilferty's cube."""
    sigma2 = 1.7
    theta = tuple(m * sigma2**i for i in (1, 2, 3))
    z = stats.norm.ppf(0.99)
    cube = m * (1 - 2 / (9 * m) + z * np.sqrt(2 / (9 * m))) ** 3
    assert_allclose(bounds.box(0.99, theta), sigma2 * stats.chi2.ppf(0.99, m))
    assert_allclose(bounds.jackson_mudholkar(0.99, theta), sigma2 * cube)


@over("seed", range(4))
def test_spe_limits_are_quantiles(seed):
    """The share of normal rows with unequal variances that lie within the limits."""
    rng = np.random.default_rng(seed)
    variances = rng.uniform(0.2, 3.0, 12) ** 2
    q = (rng.standard_normal((200_000, 12)) ** 2) @ variances
    theta = tuple(float((variances**i).sum()) for i in (1, 2, 3))
    for limit in (bounds.jackson_mudholkar, bounds.box):
        assert_allclose((q <= limit(0.99, theta)).mean(), 0.99, atol=2.5e-3)


def test_spe_limits_at_the_edges():
    assert bounds.jackson_mudholkar(0.99, (0.0, 0.0, 0.0)) == bounds.box(0.99, (0.0, 0.0, 0.0)) == 0
    steep = (1.0 + 50 * 0.02, 1.0 + 50 * 0.02**2, 1.0 + 50 * 0.02**3)
    assert 1 - 2 * steep[0] * steep[2] / (3 * steep[1] ** 2) < 0
    assert bounds.jackson_mudholkar(0.99, steep) == bounds.box(0.99, steep)


@pytest.mark.parametrize("kind", ["dense", "sparse", "float32", "weighted", "uncentred"])
def test_what_is_learned_are_the_variances_left_out(kind):
    X = rows()
    weights = None if kind != "weighted" else np.random.default_rng(0).integers(0, 3, len(X))
    given = {"sparse": sp.csr_array(X), "float32": X.astype(np.float32)}.get(kind, X)
    model = PCA(3, center=kind != "uncentred").fit(given, sample_weight=weights)
    calibrate(model, given, weights)
    repeated = X if weights is None else np.repeat(X, weights, axis=0)
    C = np.cov(repeated.T) if model.center else X.T @ X / (len(X) - 1)
    left = np.linalg.eigvalsh(C)[:-3]
    expected = [(left**i).sum() for i in (1, 2, 3)]
    assert_allclose(model.residual_powers_, expected, rtol=1e-4 if kind == "float32" else 1e-6)


def test_many_columns_by_random_vectors(monkeypatch):
    X = rows(n=400, d=150)
    exact = calibrated(X).residual_powers_
    monkeypatch.setattr(bounds, "FORMED", 10)
    assert_allclose(calibrated(X).residual_powers_, exact, rtol=0.1)


@pytest.mark.parametrize("rotation", [None, "promax"])
def test_statistics_by_definition(rotation):
    X, new = rows(), rows(1, 50)
    model, plain = calibrated(X, rotation=rotation), PCA(3).fit(X)
    t2, spe = statistics(model, new)
    scores = plain.transform(new)
    assert_allclose(t2, (scores**2 / plain.explained_variance_).sum(axis=1), rtol=1e-9)
    left = new - plain.inverse_transform(scores)
    assert_allclose(spe, (left**2).sum(axis=1), rtol=1e-9)
    assert_allclose(contributions(model, new, "T2").sum(axis=1), t2)
    assert_allclose(contributions(model, new, "SPE").sum(axis=1), spe)
    assert limits(model)[0] == bounds.t2_limit(0.99, 3, 300)
    assert limits(model, quantile=0.9)[1] < limits(model)[1]
    assert limits(model, spe="box")[1] == bounds.box(0.99, model.residual_powers_)


def test_new_rows_of_the_same_kind_are_mostly_in_control():
    model, new = calibrated(rows(0, 5000)), rows(1, 20_000)
    for values, limit in zip(statistics(model, new), limits(model), strict=True):
        assert_allclose((values > limit).mean(), 0.01, atol=3e-3)


def pipelines():
    plain = make_pipeline(Preprocessor("standard"), PCA(3))
    robust = make_pipeline(Preprocessor("robust"), RobustPCA(3, random_state=0))
    X = pd.DataFrame(rows(), columns=[f"v{j}" for j in range(8)])
    return X, [calibrate(plain.fit(X), X), robust.fit(X)]


def test_the_variable_that_did_it():
    X, models = pipelines()
    new = pd.DataFrame(rows(1, 40), columns=X.columns, index=[f"day {i}" for i in range(40)])
    new.loc["day 7", "v5"] += 30
    new.loc["day 9", :] += 20 * (X.iloc[0] - X.mean())
    for model in models:
        table = out_of_control(model, new)
        assert {"day 7", "day 9"} <= set(table.index)
        assert table.loc["day 7", "words"].startswith("v5 ")
        assert "SPE" in table.loc["day 7", "beyond"]
        assert "T2" in table.loc["day 9", "beyond"]
        assert contributions(model, new.loc[["day 7"]])[0].argmax() == 5
        assert out_of_control(model, new.drop(index=table.index)).empty


def test_flags_of_old_rows_do_not_change(tmp_path):
    """Statistics and limits are of the fit: later rows, and a file in between, change nothing."""
    X, models = pipelines()
    old = rows(1, 60)
    old[3] *= 4
    for model in models:
        model[-1].save(tmp_path / "model", overwrite=True)
        again = load(tmp_path / "model")
        assert limits(again) == limits(model)
        old_frame = pd.DataFrame(old, columns=X.columns)
        before = out_of_control(model, old_frame)
        later = pd.concat([old_frame, 1e3 * pd.DataFrame(rows(2, 30), columns=X.columns)])
        later.index = range(len(later))
        after = out_of_control(model, later)
        assert_array_equal(before.index, [i for i in after.index if i < 60])
        assert len(after) >= len(before) + 30
        pd.testing.assert_frame_equal(after.loc[before.index], before)


def test_robust_limits_are_those_of_the_fit():
    X = rows()
    X[:30] += 40 * np.random.default_rng(3).standard_normal((30, 8))
    for model in (RobustPCA(3, random_state=0).fit(X), RobustKernelPCA(3, random_state=0).fit(X)):
        t2, spe = statistics(model)
        assert_allclose(t2, model.score_distances_**2)
        assert_allclose(spe, model.orthogonal_distances_**2)
        assert_allclose(np.sqrt(limits(model)), model.limits_)
    table = out_of_control(model, X)
    assert "words" not in table


@pytest.mark.parametrize("kind", ["list", "sparse", "torch", "dask"])
def test_every_kind_of_rows(kind):
    X = rows()
    X[7, 2] += 30
    given = {"list": X.tolist, "sparse": lambda: sp.csr_array(X)}.get(kind)
    if kind == "torch":
        given = lambda: pytest.importorskip("torch").tensor(X)  # noqa: E731
    if kind == "dask":
        given = lambda: pytest.importorskip("dask.array").from_array(X, chunks=(100, 8))  # noqa: E731
    data, expected = given(), out_of_control(calibrated(X), X)
    model = calibrated(data)
    table = out_of_control(model, data)
    assert 7 in table.index
    assert_allclose(limits(model), limits(calibrated(X)), rtol=1e-6)
    pd.testing.assert_frame_equal(table, expected, rtol=1e-6)
    assert_allclose(quality(model, data), quality(PCA(3).fit(X), X), rtol=1e-5, atol=1e-9)


def test_a_refit_forgets_the_limits():
    X = rows()
    model = calibrated(X)
    with pytest.raises(ValueError, match=r"no limit of SPE yet; call dualpca.control.calibrate"):
        limits(model.fit(X))


def test_all_variance_within_the_subspace():
    X = rows()
    X[:, -1] = X[:, 0] - X[:, 1]
    model = calibrated(X, 7)
    new = rows(1)
    new[:, -1] = new[:, 0] - new[:, 1]
    assert not (statistics(model, new)[1] > limits(model)[1]).any()
    new[0, 2] += 1e-3
    new[0, -1] += 1e-3
    assert_array_equal(np.flatnonzero(statistics(model, new)[1] > limits(model)[1]), [0])


def test_bad_arguments():
    X = rows()
    model, robust = calibrated(X), RobustPCA(3, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"quantile=1.5 must be between 0 and 1"):
        limits(model, quantile=1.5)
    with pytest.raises(ValueError, match="spe='spe' is unknown; give 'jackson' or 'box'"):
        limits(model, spe="spe")
    with pytest.raises(ValueError, match=r"fit RobustPCA\(quantile=0.9\)"):
        limits(robust, quantile=0.9)
    with pytest.raises(ValueError, match="RobustPCA, which is not calibrated"):
        calibrate(robust, X)
    with pytest.raises(ValueError, match="to='Q'"):
        contributions(model, X, "Q")
    for other in (SparsePCA(2), KernelPCA(2)):
        with pytest.raises(ValueError, match="has no T2 and SPE; use PCA or a robust model"):
            statistics(other.fit(X), X)
