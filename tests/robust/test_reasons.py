"""Which variables put a row where it is: against Gaussian conditioning, and planted errors."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.pipeline import make_pipeline

from dualpca import Preprocessor, RobustPCA
from dualpca.inspect import FittedModel
from dualpca.robust import reasons
from dualpca.robust.reasons import blame


def model_of(d=8, s=3, noise=0.2, seed=0):
    """Return V, the variances within the subspace, and the covariance of a Gaussian model."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((d, s)))[0]
    variances = np.geomspace(9.0, 1.0, s)
    return V, variances, V @ np.diag(variances - noise) @ V.T + noise * np.eye(d)


def conditioned(r, C, out):
    """Return what the variables besides ``out`` make of those in ``out``, and the squared distance."""
    rest = np.setdiff1d(np.arange(len(r)), out)
    solved = np.linalg.solve(C[np.ix_(rest, rest)], r[rest])
    return C[np.ix_(out, rest)] @ solved, r[rest] @ solved


def greedy(r, C):
    """Return the parts and the expected values by conditioning alone."""
    d, out, left = len(r), [], conditioned(r, C, [])[1]
    parts = np.zeros(d)
    while len(out) < reasons.MOST:
        after = {j: conditioned(r, C, [*out, j])[1] for j in range(d) if j not in out}
        j = min(after, key=after.get)
        if left - after[j] <= 10.8276:  # chi-squared at 0.999
            break
        parts[j], left = left - after[j], after[j]
        out.append(j)
    others = [j for j in range(d) if j not in out]
    falls = np.array([left - conditioned(r, C, [*out, j])[1] for j in others])
    parts[others] = left * falls / falls.sum()
    expected = np.zeros(d)
    expected[out] = conditioned(r, C, out)[0]
    for j in others:
        expected[j] = conditioned(r, C, [j, *out])[0][0]
    return parts, expected


@pytest.mark.parametrize("changed", [0, 1, 2, 4])
@pytest.mark.parametrize("noise", [0.2, 1e-4])
def test_it_is_gaussian_conditioning(noise, changed):
    V, variances, C = model_of(noise=noise)
    rng = np.random.default_rng(changed)
    R = rng.multivariate_normal(np.zeros(8), C, 20)
    for row in R:
        row[rng.choice(8, changed, replace=False)] += rng.uniform(4, 9, changed)
    parts, expected = blame(R, V, 1 / variances, 1 / noise)
    for r, p, e in zip(R, parts, expected, strict=True):
        q, f = greedy(r, C)
        assert_allclose(p, q, rtol=1e-5, atol=1e-6 * q.sum())
        assert_allclose(e, f, rtol=1e-5, atol=1e-6)


def test_a_row_sums_to_its_square_and_chunks_do_not_matter(monkeypatch):
    V, variances, C = model_of()
    R = np.random.default_rng(0).standard_normal((50, 8)) * np.geomspace(1, 1e8, 50)[:, None]
    both = blame(R, V, 1 / variances, 5.0)
    assert (both[0] >= 0).all()
    squares = np.einsum("ij,ij->i", R, np.linalg.solve(C, R.T).T)
    assert_allclose(both[0].sum(axis=1), squares, rtol=1e-9)
    monkeypatch.setattr(reasons, "ENTRIES", 30)
    for whole, chunked in zip(both, blame(R, V, 1 / variances, 5.0), strict=True):
        assert_allclose(chunked, whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", [1e-3, 1e2, 1e200])
def test_the_one_variable_that_was_changed_is_first(size):
    """By Cauchy and Schwarz; its own deviation is expected to be 0 then."""
    V, variances, _ = model_of(d=12, s=5)
    parts, expected = blame(size * np.eye(12), V, 1 / variances, 5.0)
    if size < 1e100:  # else all parts that are not 0 are infinite
        assert (parts.argmax(axis=1) == np.arange(12)).all()
    if size > 1:  # else nothing stands out, and the others are expected by it
        assert_allclose(expected, 0, atol=1e-9 * size)
    V[:, 0] = 0
    V[3, 0] = 1  # variable 3 is a component by itself
    V[3, 1:] = 0
    V = np.linalg.qr(V)[0]
    parts, _ = blame(100 * np.eye(12), V, 1 / variances, 5.0)
    assert (parts.argmax(axis=1) == np.arange(12)).all()


def rows(kind, rng):
    if kind == "wine":
        X = load_wine().data
    elif kind == "cancer":
        X = load_breast_cancer().data
    else:
        noise = np.geomspace(0.1, 1, 20) if kind == "uneven noise" else 0.5
        X = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 20))
        X += noise * rng.standard_normal((300, 20))
        if kind == "large units":  # two variables are components by themselves
            X[:, :2] *= 20
    return X.copy()


@pytest.mark.filterwarnings("ignore:two starts", "ignore:.*far out lie on one side")  # wine, cancer
@pytest.mark.parametrize("cells", [1, 3])
@pytest.mark.parametrize("kind", ["factors", "uneven noise", "large units", "wine", "cancer"])
def test_planted_errors_are_found(kind, cells):
    """In each flagged row that has wrong cells one of them is first, and nearly all are blamed."""
    first, all_of_them = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rows(kind, rng)
        spread, d = X.std(axis=0), X.shape[1]
        bad = rng.choice(len(X), 20, replace=False)
        wrong = [rng.choice(d, cells, replace=False) for _ in bad]
        for i, cell in zip(bad, wrong, strict=True):
            X[i, cell] += rng.choice([-1, 1], cells) * spread[cell] * rng.uniform(5, 20, cells)
        scaling = "robust" if kind in ("wine", "cancer") else "none"
        s = 0.9 if scaling == "robust" else 4
        model = make_pipeline(Preprocessor(scaling), RobustPCA(s, random_state=0)).fit(X)
        flagged = model[-1].outliers_[bad]
        assert flagged.mean() >= 0.8
        found = FittedModel(model).reasons(X[bad], cells)
        for reasons_of_row, cell, is_flagged in zip(found, wrong, flagged, strict=True):
            if is_flagged:
                first.append(reasons_of_row[0].variable in cell)
                all_of_them.append(np.isin(cell, [r.variable for r in reasons_of_row]).mean())
    assert np.mean(first) >= 0.95
    assert np.mean(all_of_them) >= 0.95


@pytest.mark.parametrize("flag", ["density", "orthogonal", "score"])
def test_contributions_sum_to_what_flags(flag):
    X = rows("factors", np.random.default_rng(0))
    X[:30] += 5 * np.random.default_rng(1).standard_normal((30, 20))
    model = RobustPCA(4, flag=flag, random_state=0).fit(X)
    score, orthogonal = model.distances(X)
    squares = {
        "density": score**2 + orthogonal**2 / model.noise_variance_,
        "orthogonal": orthogonal**2,
        "score": score**2,
    }
    assert_allclose(model.contributions(X).sum(axis=1), squares[flag], rtol=1e-8)


def test_rows_without_noise():
    """Of rows on a plane, a variable that is off it is expected to be on it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 6))
    true = X[5, 3]
    X[5, 3] += 10
    model = RobustPCA(2, random_state=0).fit(X)
    assert model.contributions(X[[5]])[0].argmax() == 3
    assert model.expected(X[[5]])[0, 3] == pytest.approx(true, abs=1e-6)


def test_all_kinds_of_rows():
    X = rows("factors", np.random.default_rng(0))
    X[:5, 3] += 30
    model = RobustPCA(4, random_state=0).fit(X)
    parts, expected = model.contributions(X[:9]), model.expected(X[:9])
    frame = pd.DataFrame(X[:9], columns=[f"v{j}" for j in range(20)], index=list("abcdefghi"))
    named = RobustPCA(4, random_state=0).fit(pd.DataFrame(X, columns=frame.columns))
    for method, array in (("contributions", parts), ("expected", expected)):
        table = getattr(named, method)(frame)
        assert list(table.columns) == list(frame.columns)
        assert list(table.index) == list("abcdefghi")
        assert_allclose(table.to_numpy(), array, rtol=1e-9)
        assert_allclose(getattr(model, method)(sp.csr_array(X[:9])), array, rtol=1e-9)
    single = RobustPCA(4, random_state=0).fit(X.astype(np.float32))
    assert single.contributions(X[:9].astype(np.float32)).dtype == np.float32
    assert_allclose(expected[:5, 3], X[:5, 3] - 30, atol=3)


def test_reasons_are_in_the_units_of_the_data():
    X = rows("wine", np.random.default_rng(0))
    X[7, 4] = 1500.0
    X[8, 2] = np.nan
    model = make_pipeline(Preprocessor("robust", "impute"), RobustPCA(4, random_state=0)).fit(X)
    found = FittedModel(model).reasons(X[[7, 8]], 13)
    assert found[0][0].variable == 4
    assert found[0][0].value == 1500.0
    assert 70 < found[0][0].expected < 170
    assert sum(reason.share for reason in found[0]) == pytest.approx(1)
    assert [np.isnan(reason.value) for reason in found[1] if reason.variable == 2] == [True]
