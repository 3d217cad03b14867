"""How many components: every method against its definition, written out with loops and LAPACK."""

import json
from collections import Counter
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.decomposition import PCA as Oracle  # noqa: N811
from tests.loops import over

import dualpca
from dualpca import PCA, RobustPCA
from dualpca.linear import resampling
from dualpca.linear.selection import (
    METHODS,
    Spectrum,
    broken_stick,
    gavish_donoho,
    marchenko_pastur_median,
)
from dualpca.solvers import Krylov

SHAPES = [(60, 8), (25, 25), (12, 40)]


def spiked(shape, seed, strength=2.0, k=2, mean=0.0):
    """Rows with k directions of large variance in unit noise, about a mean."""
    rng = np.random.default_rng(seed)
    X = strength * rng.standard_normal((shape[0], k)) @ rng.standard_normal((k, shape[1]))
    return X + rng.standard_normal(shape) + mean


def values(X, center):
    """The eigenvalues of X^T X that centring leaves, by LAPACK."""
    Y = X - X.mean(axis=0) if center else X
    theta = np.linalg.svd(Y, compute_uv=False) ** 2
    return theta[: min(len(X) - center, X.shape[1])]


def cases():
    names = ["shape", "seed", "center", "mean"]
    return over(names, list(product(SHAPES, range(3), (True, False), (0.0, 3.0))))


@cases()
def test_broken_stick(shape, seed, center, mean):
    X = spiked(shape, seed, mean=mean)
    v = values(X, center) / (len(X) - 1)
    p, n = len(v), 0
    sticks = [sum(1 / i for i in range(k, p + 1)) / p * sum(v) for k in range(1, p + 1)]
    while n < p and v[n] > sticks[n]:
        n += 1
    found = dualpca.n_components(X, "broken-stick", center=center)
    assert found.n_components == n
    assert_allclose(found.statistic, v, rtol=1e-6, atol=1e-9 * v[0])
    assert_allclose(found.threshold, sticks)


def test_a_broken_stick_of_a_table():
    """Shares of five pieces in per cent, as printed in tables of the broken stick."""
    spectrum = Spectrum(np.array([5.0, 4.0, 3.0, 2.0, 1.0]), 100.0, 99.0, 5)
    shares = broken_stick(spectrum).threshold / (spectrum.variances.sum())
    assert_allclose(100 * shares, [45.67, 25.67, 15.67, 9.0, 4.0], atol=5e-3)


@cases()
def test_profile_likelihood(shape, seed, center, mean):
    X = spiked(shape, seed, mean=mean)
    v = values(X, center) / (len(X) - 1)
    likelihood = []
    for q in range(1, len(v)):
        one, two = v[:q], v[q:]
        s2 = (sum((one - one.mean()) ** 2) + sum((two - two.mean()) ** 2)) / (len(v) - 2)
        parts = [norm.logpdf(group, group.mean(), s2**0.5).sum() for group in (one, two)]
        likelihood.append(sum(parts))
    found = dualpca.n_components(X, "profile", center=center)
    assert found.n_components == int(np.argmax(likelihood)) + 1
    assert_allclose(found.statistic, likelihood, rtol=1e-6)
    assert found.threshold is None


@cases()
def test_generalised_cross_validation(shape, seed, center, mean):
    """The formula of missMDA's ``estim_ncpPCA`` for complete tables, from residuals of cells."""
    X = spiked(shape, seed, mean=mean)
    (n, p), Y = shape, X - X.mean(axis=0) if center else X
    U, s, Vt = np.linalg.svd(Y, full_matrices=False)
    criterion = []
    for q in range(min(n - center, p)):
        E = Y - (U[:, :q] * s[:q]) @ Vt[:q]
        free = (n - 1) * p - q * (n + p - q - 1) if center else n * p - q * (n + p - q)
        criterion.append(np.mean((n * p * E / free) ** 2))
    rises = np.flatnonzero(np.diff(criterion) > 0)
    found = dualpca.n_components(X, "gcv", center=center)
    assert found.n_components == (rises[0] if len(rises) else len(criterion) - 1)
    assert_allclose(found.statistic, criterion, rtol=1e-6)
    short = dualpca.n_components(X, "gcv", center=center, max_components=3)
    assert_allclose(short.statistic, criterion[:4], rtol=1e-6)


def test_generalised_cross_validation_of_r():
    """``FactoMineR::estim_ncp(mtcars, method = "GCV")``, which begins with one component."""
    cars = json.loads((Path(__file__).parents[1] / "data/reference.json").read_text())["cars"]
    X = np.array(cars["data"])
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    found = dualpca.n_components(X, "gcv", max_components=9)
    assert found.n_components == cars["gcv_ncp"][0]
    assert_allclose(found.statistic[1:], cars["gcv"][1:], rtol=1e-6)
    spectrum = dualpca.n_components(X, "broken-stick")
    assert_allclose(spectrum.statistic, cars["eigenvalues"], rtol=1e-6)


# Gavish and Donoho (2014), Table IV.
OMEGA = {0.05: 1.5194, 0.25: 1.8371, 0.5: 2.1711, 0.75: 2.5011, 1.0: 2.8582}


@over("beta", [*OMEGA, 0.01, 0.33])
def test_median_of_marchenko_pastur(beta):
    low, high = (1 - beta**0.5) ** 2, (1 + beta**0.5) ** 2

    def density(x):
        return np.sqrt((high - x) * (x - low)) / (2 * np.pi * beta * x)

    median = brentq(lambda m: quad(density, low, m, limit=200)[0] - 0.5, low + 1e-9, high)
    assert_allclose(marchenko_pastur_median(beta), median, rtol=1e-5)
    if beta in OMEGA:
        spectrum = Spectrum(np.array([1.0]), 2.0, 1000.0 * beta, 1000)
        assert_allclose(gavish_donoho(spectrum).threshold[0] ** 0.5, OMEGA[beta], rtol=2e-3)


@cases()
def test_gavish_donoho(shape, seed, center, mean):
    X = spiked(shape, seed, mean=mean)
    sigma, n = np.sqrt(values(X, center)), shape[0] - center
    small, large = sorted((n, shape[1]))
    beta = small / large
    lam = np.sqrt(2 * (beta + 1) + 8 * beta / ((beta + 1) + np.sqrt(beta**2 + 14 * beta + 1)))
    unknown = lam / np.sqrt(marchenko_pastur_median(beta)) * np.median(sigma)
    for limit, noise in ((unknown, None), (lam * np.sqrt(large) * 1.5, 1.5)):
        found = dualpca.n_components(X, "gavish-donoho", center=center, noise=noise)
        assert found.n_components == (sigma > limit).sum()
        assert_allclose(found.threshold, limit**2 / (shape[0] - 1), rtol=1e-6)


@over(["seed", "shape"], list(product(range(3), SHAPES[:2])))
def test_minka(seed, shape):
    X = spiked(shape, seed)
    found = dualpca.n_components(X, "mle")
    assert found.n_components == Oracle("mle", svd_solver="full").fit(X).n_components_
    assert found.numbers[np.argmax(found.statistic)] == found.n_components


@over(["seed", "shape", "center"], list(product(range(2), SHAPES, (True, False))))
def test_parallel_analysis(seed, shape, center):
    """Thresholds are quantiles of LAPACK's values of other permutations, up to their errors."""
    X = spiked(shape, seed)
    rng, null = np.random.default_rng(seed), []
    for _ in range(150):
        null.append(values(np.stack([rng.permutation(x) for x in X.T], axis=1), center))
    null = np.array(null) / (len(X) - 1)
    found = dualpca.n_components(X, "parallel", center=center, n_permutations=150, random_state=0)
    k = len(found.numbers)
    expected, spread = np.quantile(null, 0.95, axis=0)[:k], null.std(axis=0)[:k]
    # An estimated 95 % quantile of 150 normal values has a standard error of 0.17 of their spread.
    assert (np.abs(found.threshold - expected) < 4 * 0.17 * 2**0.5 * spread + 1e-4).all()
    observed = values(X, center)[:k] / (len(X) - 1)
    assert_allclose(found.statistic, observed, rtol=1e-5, atol=1e-9)
    count = next((i for i in range(k) if observed[i] <= found.threshold[i]), k)
    assert found.n_components == count


def test_parallel_analysis_of_many_components():
    """Where the first values all stand out, more are computed."""
    Z = np.random.default_rng(0).standard_normal((400, 20))
    X = np.hstack([Z, Z]) + 0.05 * np.random.default_rng(1).standard_normal((400, 40))
    found = dualpca.n_components(X, n_permutations=20, random_state=0)
    assert found.n_components == 20
    assert_array_equal(found.numbers, np.arange(1, 33))


def tables(X, center, count, seed=0):
    """So many permuted tables, dense; each is read before the next overwrites it."""
    made = resampling.permuted(X, center, 1.0, np.random.default_rng(seed))
    return [Y.todense().copy() for Y in islice(made, count)]


def test_permuted_tables_keep_their_columns():
    X = spiked((30, 6), 0, mean=2.0)
    S = sp.random_array((30, 6), density=0.3, rng=np.random.default_rng(0), format="csr")
    for data, center in ((X, X.mean(axis=0)), (X, None), (S, None), (S, S.mean(axis=0))):
        plain = data.toarray() if sp.issparse(data) else data
        expected = np.sort(plain - (0 if center is None else center), axis=0)
        seen = tables(data, center, 2 * resampling.FRESH + 1)
        for Y in seen:
            assert_allclose(np.sort(Y, axis=0), expected, atol=1e-5)
        assert len({Y.tobytes() for Y in seen}) == len(seen)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_permutations_of_two_columns_are_uniform(kind):
    """All six ways to pair three rows are as frequent, in shifted tables too."""
    X, n = kind(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])), 3000
    counts = Counter()
    for rows in tables(X, None, n, seed=1):
        counts[tuple(rows[np.argsort(rows[:, 0]), 1])] += 1
    assert len(counts) == 6
    # Ten tables share a permutation up to shifts, an odd or an even one: of such ten, the count of a way
    # has the variance E var + var E = 10/9 + 25/9.
    assert max(abs(c - n / 6) for c in counts.values()) < 4 * (n / 10 * 35 / 9) ** 0.5


def test_the_axes_of_a_table_start_the_next(monkeypatch):
    """With starts, permuted tables take fewer passes than one by one, and fewer than PCA does each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 250)) * 0.97 ** np.arange(250)
    pca = PCA(16, solver="krylov", random_state=0).fit(X)
    monkeypatch.setattr(resampling, "choose", lambda *args, **kwargs: ("krylov", ""))
    energy = float(((X - X.mean(axis=0)) ** 2).sum())

    def each():
        return islice(resampling.permuted(X, X.mean(axis=0), 1.0, np.random.default_rng(0)), 10)

    warm, passes = zip(*resampling.leading_values(each(), 16, energy, 0), strict=True)
    cold = [next(resampling.leading_values(iter([Y]), 16, energy, 0))[1] for Y in each()]
    assert sum(passes) < sum(cold)
    assert sum(passes) < 10 * pca.n_passes_
    exact = [np.linalg.svd(Y.todense(), compute_uv=False)[:16] ** 2 for Y in each()]
    assert_allclose(warm, exact, rtol=5e-4)
    found = dualpca.n_components(X, n_permutations=10, random_state=0)
    assert 0 < found.n_passes < 10 * pca.n_passes_


@over(["shape", "center"], list(product([(30, 6), (8, 20)], (True, False))))
def test_cross_validation_of_cells(shape, center):
    X = spiked(shape, 1, mean=1.0)
    N, d = shape
    given = {"n_folds": 5, "max_components": 2, "random_state": 0}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(resampling, "EM_TOL", 1e-9)
        found = dualpca.n_components(X, "cv", center=center, **given)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    folds = np.add.outer(np.arange(N), np.arange(d)) % 5
    folds = np.random.default_rng(seed).permuted(folds, axis=0)
    for column in folds.T:
        assert max(Counter(column).values()) <= -(-N // 5)
    errors = np.zeros(3)
    for fold in range(5):
        mask, Y = folds == fold, X.copy()
        for j in range(d):
            Y[mask[:, j], j] = X[~mask[:, j], j].mean() if center else 0.0
        for q in range(3):
            Y = filled(Y, mask, q, center)
            errors[q] += float(((Y - X)[mask] ** 2).sum())
    # Beyond the one component that there is, EM has several ends.
    assert_allclose(found.statistic[:2], errors[:2] / (N * d), rtol=1e-5)
    assert found.n_components == int(np.argmin(errors))


def filled(Y, mask, q, center):
    """Masked cells by q components of LAPACK, again and again until they stand still."""
    Y, spread = Y.copy(), np.sqrt(np.mean((Y - Y.mean(axis=0)) ** 2))
    for _ in range(5000 if q else 0):
        mean = Y.mean(axis=0) if center else np.zeros(Y.shape[1])
        U, s, Vt = np.linalg.svd(Y - mean, full_matrices=False)
        moved = (mean + (U[:, :q] * s[:q]) @ Vt[:q] - Y)[mask]
        Y[mask] += moved
        if np.sqrt(np.mean(moved**2)) <= 1e-10 * spread:
            break
    return Y


SLOW_CV = pytest.param("cv", marks=pytest.mark.slow)


@pytest.mark.parametrize("method", [*sorted(set(METHODS) - {"cv"}), SLOW_CV])
def test_names_of_estimators(method, tmp_path):
    X = spiked((60, 7), 0, strength=3.0)
    model = PCA(method, random_state=0).fit(X)
    chosen = dualpca.n_components(X, method, random_state=0)
    assert model.n_components_ == len(model.components_) == chosen.n_components
    assert_array_equal(model.selection_.statistic, chosen.statistic)
    model.save(tmp_path / "model")
    assert_array_equal(dualpca.load(tmp_path / "model").selection_.numbers, chosen.numbers)
    oracle = Oracle(chosen.n_components).fit(X)
    assert_allclose(model.explained_variance_, oracle.explained_variance_, rtol=1e-6)
    if method != "mle":
        X[:9] = 40 + np.random.default_rng(1).standard_normal((9, 7))
        robust = RobustPCA(method, random_state=0).fit(X)
        assert robust.selection_.method == method
        assert robust.n_components_ == robust.selection_.n_components
        assert robust.n_components_ == RobustPCA(method, random_state=7).fit(X).n_components_
        assert PCA(3).fit(X).selection_ is RobustPCA(3, random_state=0).fit(X).selection_ is None


@pytest.mark.parametrize("method", ["parallel", "gavish-donoho", SLOW_CV])
def test_robust_numbers_ignore_bad_rows(method):
    """The number of the rows without outliers is found with them; plain methods count them too."""
    X = spiked((120, 8), 3, strength=2.0)
    X[:20] = 30 + np.random.default_rng(1).standard_normal((20, 8))
    assert RobustPCA(method, random_state=0).fit(X).n_components_ == 2
    assert dualpca.n_components(X, method, random_state=0).n_components != 2


def test_no_component_stands_out():
    found = []
    for seed in range(40):
        X = np.random.default_rng(seed).standard_normal((50, 6))
        found.append(dualpca.n_components(X, n_permutations=50, random_state=seed).n_components)
    assert 0 < np.count_nonzero(found) <= 7  # 2 are expected at the level 0.05
    X = np.random.default_rng(found.index(0)).standard_normal((50, 6))
    for model in (PCA("parallel", random_state=0), RobustPCA("parallel", random_state=0)):
        with pytest.warns(UserWarning, match="no component stands out"):
            model.fit(X)
        assert model.n_components_ == 1
        assert model.selection_.n_components == 0
    one = dualpca.n_components(X[:, :1], random_state=0)  # every permutation has its variance
    assert one.n_components == 0
    assert dualpca.n_components(np.ones((9, 4)), random_state=0).n_components == 0


#: Options of quick permutations.
FEW = {"n_permutations": 20, "random_state": 0}


def test_kinds_of_data():
    X = spiked((80, 12), 0, strength=2.0)
    X[np.abs(X) < 1.5] = 0.0
    dense = dualpca.n_components(X, **FEW)
    stored = dualpca.n_components(sp.csr_array(X), **FEW)
    assert dense.n_components == stored.n_components
    assert_allclose(dense.threshold[:3], stored.threshold[:3], rtol=0.2)  # of other permutations
    for scale in (1e-12, 1e12):
        assert_allclose(
            dualpca.n_components(scale * X, **FEW).threshold,
            scale**2 * dense.threshold,
            rtol=1e-4,
        )
    single = dualpca.n_components(X.astype(np.float32), **FEW)
    assert_allclose(single.threshold, dense.threshold, rtol=1e-4)
    frame = pytest.importorskip("pandas").DataFrame(X)
    assert_array_equal(dualpca.n_components(frame, **FEW).threshold, dense.threshold)
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X)
    for method in METHODS:
        columns = 4 if method == "cv" else 12
        other = dualpca.n_components(tensor[:, :columns], method, random_state=0)
        same = dualpca.n_components(X[:, :columns], method, random_state=0)
        assert_allclose(other.statistic, same.statistic, rtol=1e-6)
        assert other.n_components == same.n_components


def test_batches_take_methods_of_spectra():
    X = spiked((90, 8), 0)
    pca = PCA("gavish-donoho")
    for batch in np.array_split(X, 3):
        pca.partial_fit(batch)
    whole = PCA("gavish-donoho").fit(X)
    assert pca.n_components_ == whole.n_components_
    assert_allclose(pca.selection_.statistic, whole.selection_.statistic, rtol=1e-6)
    with pytest.raises(ValueError, match="'parallel' needs all rows at once; call fit"):
        PCA("parallel").partial_fit(X)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"method": "paralel"}, ValueError, "method='paralel' is unknown; give one of parallel"),
        ({"noise": 1.0}, TypeError, "noise=1.0 is no option of method='parallel'; it takes n_perm"),
        ({"n_permutations": 0}, ValueError, "n_permutations=0 must be an int"),
        ({"quantile": 1.5}, ValueError, "quantile=1.5 must be a float"),
        ({"method": "cv", "n_folds": 1}, ValueError, "n_folds=1 must be"),
        ({"method": "cv", "max_components": True}, ValueError, "max_components=True must be"),
        ({"method": "gavish-donoho", "noise": 0.0}, ValueError, "noise=0.0 must be"),
    ],
)
def test_wrong_arguments(given, error, words):
    with pytest.raises(error, match=words):
        dualpca.n_components(spiked((20, 5), 0), **given)


def test_data_that_methods_cannot_take(tmp_path):
    X = spiked((20, 5), 0)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="needs an array or a sparse matrix in memory"):
        dualpca.n_components(dualpca.as_operator(mapped))
    with pytest.raises(ValueError, match="'cv' needs an array in memory"):
        dualpca.n_components(sp.csr_array(X), "cv")
    with pytest.raises(ValueError, match="'cv' needs dense rows"):
        RobustPCA("cv").fit(sp.csr_array(X))
    with pytest.raises(ValueError, match="takes no sample_weight"):
        PCA("parallel").fit(X, sample_weight=np.ones(20))
    with pytest.raises(ValueError, match="it needs 3 at least"):
        dualpca.n_components(X[:, :2], "profile")
    with pytest.raises(ValueError, match="none to leave out"):
        dualpca.n_components(X[:, :1], "gcv")
    found = dualpca.n_components(dualpca.as_operator(mapped), "gavish-donoho")
    assert_allclose(found.threshold, dualpca.n_components(X, "gavish-donoho").threshold)


def test_krylov_takes_starts():
    """A start near the answer saves passes, which parallel analysis counts on."""
    rows = np.random.default_rng(0).standard_normal((800, 200)) * 0.9 ** np.arange(200)
    X = dualpca.as_operator(rows)
    cold = Krylov()(X, 8, tol=1e-3, seed=0)
    before = X.passes
    Krylov()(X, 8, tol=1e-3, seed=0, start=cold.ritz.V)
    assert X.passes - before < before
