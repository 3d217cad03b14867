"""RobustPCA: laws, independent oracles, hard rows, and every kind of data."""

from __future__ import annotations

import csv
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import hilbert, pascal, subspace_angles
from scipy.stats import chi2, multivariate_normal
from sklearn import decomposition
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from dualpca import Preprocessor, RobustKernelPCA, RobustPCA, as_operator, solve
from dualpca.formulations import robust
from dualpca.losses import LOSSES, Huber
from dualpca.operators import Blocks, Kernel, Matrix
from dualpca.robust.distances import row_distances
from dualpca.robust.sample import by_weight
from dualpca.robust.scale import (
    bulk,
    cutoff,
    half,
    location_scale,
    repeated,
    spatial_median,
)
from dualpca.robust.starts import concentrate, make_start
from dualpca.solvers import DCA, IRLS, Anderson

DOUBT = pytest.mark.filterwarnings(
    "ignore:(two starts found|.* of the rows are flagged):UserWarning"
)
every_loss = pytest.mark.parametrize("loss", LOSSES)
PAPER = {
    "loss": "l1",
    "normalize": False,
    "center": None,
    "init": "random",
    "refit": False,
    "solver": "dca",
}


def sine(V, W):
    """The sine of the largest angle between the spans of the rows."""
    return float(np.sin(subspace_angles(np.asarray(V).T, np.asarray(W).T).max()))


def haystack(kind, share, seed=0, *, N=500, d=40, s=5, noise=0.1, offset=0.0, size=1.0):
    """Inliers in a subspace, outliers of a kind; the subspace and which rows are outliers."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((d, s)))[0].T
    bad = np.arange(N) < round(share * N)
    X = rng.standard_normal((N, s)) / np.sqrt(s) @ V
    u = rng.standard_normal((1, d))
    u /= np.linalg.norm(u)
    n = int(bad.sum())
    X[bad] = (
        size
        * {
            "isotropic": lambda: rng.standard_normal((n, d)) / np.sqrt(d),
            "line": lambda: rng.standard_normal((n, 1)) * u,
            "cluster": lambda: u + 0.05 * rng.standard_normal((n, d)) / np.sqrt(d),
            "subspace": lambda: (
                rng.standard_normal((n, s))
                / np.sqrt(s)
                @ np.linalg.qr(rng.standard_normal((d, s)))[0].T
            ),
        }[kind]()
    )
    X += noise * rng.standard_normal((N, d)) / np.sqrt(d)
    center = rng.standard_normal(d)
    return X + offset * center / np.linalg.norm(center), V, bad


def bad_rows(N=300, d=20, s=3, bad=60, noise=0.05, seed=0):
    """Rows near a subspace, the first ones thrown out of it."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((d, s)))[0].T
    X = 3 * rng.standard_normal((N, s)) @ V + noise * rng.standard_normal((N, d))
    X[:bad] += 3 * rng.standard_normal((bad, d))
    return X


def fitted(X, n=3, **options):
    return RobustPCA(n, **{"random_state": 0, **options}).fit(X)


# The problem: descent, duality, the paper's algorithms.


@every_loss
@pytest.mark.parametrize("solver", [DCA(), Anderson(), Anderson(memory=2)], ids=str)
@pytest.mark.parametrize("dual", [False, True])
def test_the_objective_never_rises(loss, solver, dual):
    X = as_operator(bad_rows(60, 8, 2, 15))
    problem = robust(Kernel.linear(X) if dual else X, loss=_scaled(loss))
    values = [
        r.objective for r in solve(problem, solver, s=2, tol=1e-7, random_state=1, trace=True).trace
    ]
    assert len(values) > 2
    assert all(b <= a + 1e-12 * abs(a) for a, b in itertools.pairwise(values))


def _scaled(loss):
    return LOSSES[loss] if LOSSES[loss].homogeneous else LOSSES[loss].at(1.0)


@every_loss
def test_solvers_and_the_kernel_dual_agree(loss):
    X = as_operator(bad_rows(80, 10, 2, 16))
    start = np.linalg.svd(X.data[20:])[2][:2].T
    problem = robust(X, loss=_scaled(loss))
    plain = solve(problem, "dca", start, tol=1e-10, max_iter=5000).W
    for solver in (Anderson(), IRLS()):
        assert sine(solve(problem, solver, start, tol=1e-10, max_iter=5000).W.T, plain.T) < 1e-7
    K = Kernel.linear(X)
    dual = solve(
        robust(K, loss=_scaled(loss)), "dca", K.rmatmul(X @ start), tol=1e-10, max_iter=5000
    )
    assert sine((X.T @ dual.W.coefficients).T, plain.T) < 1e-7


def test_anderson_takes_fewer_passes_where_dca_is_slow():
    X = as_operator(np.random.default_rng(0).standard_normal((300, 100)))
    slow, fast = (
        solve(robust(X), solver, s=5, tol=1e-4, max_iter=5000, random_state=0)
        for solver in (DCA(), Anderson())
    )
    assert fast.converged
    assert fast.passes < 0.5 * slow.passes
    assert fast.objective <= slow.objective * (1 + 1e-3)


def test_algorithms_5_and_6_are_parameter_choices():
    """Raw rows, l1, no centre, no refit: what solve does, and the dual finds the same subspace."""
    X = bad_rows(120, 12, 3, 20)
    five = fitted(X, tol=1e-9, max_iter=3000, **PAPER)
    six = fitted(X, tol=1e-9, max_iter=3000, **{**PAPER, "solver": "dual"})
    problem = robust(as_operator(X))
    oracle = solve(problem, "dca", five.components_.T, tol=1e-12, max_iter=100)
    assert sine(five.components_, oracle.W.T) < 1e-7
    assert sine(five.components_, six.components_) < 1e-7
    assert_allclose(five.mean_, 0)
    residuals = np.linalg.norm(X - X @ five.components_.T @ five.components_, axis=1)
    weights = 1 / residuals
    assert_allclose(five.weights_, weights / weights.max(), rtol=1e-3)
    assert not five.refitted_


@pytest.mark.parametrize("solver", ["anderson", "dca", "irls", "dual", IRLS()])
def test_every_solver_of_the_estimator_finds_the_same(solver):
    X = bad_rows()
    model = fitted(X, solver=solver, tol=1e-8, max_iter=2000)
    assert sine(model.components_, fitted(X, tol=1e-8).components_) < 1e-6


def test_the_joint_centre_is_the_weighted_mean():
    """At the end, mu is the mean of the rows by their weights, up to the subspace; the mean is not."""
    X = bad_rows() + 5
    X[:60] += 2
    model = fitted(X, normalize=False, refit=False, tol=1e-9, max_iter=2000)
    V, w = model.components_, model.weights_
    for center, limit in ((model.mean_, (0, 1e-6)), (X.mean(axis=0), (0.1, np.inf))):
        shift = w @ (X - center) / w.sum()
        assert limit[0] <= np.linalg.norm(shift - V.T @ (V @ shift)) < limit[1]


# Recovery.


CELLS = [
    *(("isotropic", share, size) for share in (0.1, 0.3, 0.45) for size in (1, 10)),
    *(("line", share, 10) for share in (0.1, 0.3, 0.45)),
    ("line", 0.1, 1),
    ("line", 0.3, 1),
    *(("cluster", share, 10) for share in (0.1, 0.3, 0.45)),
    ("cluster", 0.1, 1),
    ("cluster", 0.3, 1),
    *(("subspace", share, 1) for share in (0.1, 0.3, 0.45)),
    ("isotropic", 0.7, 1),
]


@DOUBT
@pytest.mark.parametrize(("kind", "share", "size"), CELLS)
@pytest.mark.parametrize(("noise", "offset"), [(0.1, 0), (0, 0), (0.1, 10)])
def test_haystacks(kind, share, size, noise, offset):
    """As good as PCA of the good rows alone, whatever the bad ones are; they are flagged."""
    X, V, bad = haystack(kind, share, size=size, noise=noise, offset=offset)
    model = fitted(X, 5)
    oracle = decomposition.PCA(5).fit(X[~bad]).components_
    assert sine(model.components_, V) <= 1.05 * sine(oracle, V) + 1e-6
    assert model.outliers_[bad].mean() > (0.9 if kind == "line" else 0.99)
    assert model.outliers_[~bad].mean() <= 0.02
    assert model.refitted_


def test_clean_data_is_pca_but_for_the_tail():
    """Nothing is lost on normal data: the same axes, variances within sampling error, few flags."""
    rng = np.random.default_rng(0)
    scales = np.array([5.0, 3.0, 2.0, *[0.5] * 12])
    X = rng.standard_normal((4000, 15)) * scales + 2
    model, reference = fitted(X, 3), decomposition.PCA(3).fit(X)
    assert sine(model.components_, reference.components_) < 0.02
    assert_allclose(model.explained_variance_, scales[:3] ** 2, rtol=0.08)
    assert_allclose(model.explained_variance_ratio_.sum(), 38 / 41, atol=0.01)
    assert_allclose(model.noise_variance_, 0.25, rtol=0.03)
    assert_allclose(model.mean_, 2, atol=0.3)
    assert model.outliers_.mean() < 0.005
    assert_allclose(model.get_covariance(), np.diag(scales**2), atol=1.5)


@every_loss
@pytest.mark.parametrize("normalize", [True, False])
def test_every_loss_flags_the_bad_rows(loss, normalize):
    X = bad_rows()
    model = fitted(X, loss=loss, normalize=normalize)
    assert_array_equal(np.nonzero(model.outliers_)[0], np.arange(60))
    assert model.loss_.scale is None or model.loss_.scale > 0


@pytest.mark.parametrize("center", ["joint", "geometric_median", "median", "mean", None, "vector"])
@pytest.mark.parametrize("init", ["auto", "stahel_donoho", "spherical", "pca", "random", "array"])
def test_every_centre_and_start(center, init):
    X = bad_rows()
    center = np.zeros(20) if isinstance(center, str) and center == "vector" else center
    given = np.linalg.svd(X[60:])[2][:3] if init == "array" else init
    model = fitted(X, center=center, init=given)
    oracle = decomposition.PCA(3).fit(X[60:])
    assert sine(model.components_, oracle.components_) < 0.05
    assert model.outliers_[:60].all()


def test_a_start_is_found_in_whatever_order_they_are_given():
    X, V, _ = haystack("line", 0.3)
    for init in (["spherical", "stahel_donoho"], ("pca", "stahel_donoho", "spherical")):
        model = fitted(X, 5, init=init)
        assert "stahel_donoho" in model.start_ or "peeled" in model.start_
        assert sine(model.components_, V) < 0.05
        assert model.agreement_ < 0.6


def test_a_refit_that_most_rows_do_not_fit_is_refused(monkeypatch):
    X = bad_rows()
    wrong = np.eye(20)[:, :3]
    name = "dualpca.robust.fit.refit"
    monkeypatch.setattr(name, lambda X, *a: row_distances(X, np.zeros(20), wrong, None, 1.0, 17))
    model = fitted(X)
    assert not model.refitted_
    assert sine(model.components_, wrong.T) > 0.5
    assert model.outliers_[:60].all()


# Hard rows.


BOUNDED = [(loss, True) for loss in LOSSES] + [
    (loss, False) for loss in ("log", "cauchy", "geman_mcclure", "welsch", "tukey")
]


@pytest.mark.parametrize(("loss", "normalize"), BOUNDED)
def test_a_row_of_norm_1e150_moves_nothing(loss, normalize):
    """Of raw rows, l1, lp and Huber are moved by any large one: the reason to normalise."""
    X = bad_rows()
    direction = np.random.default_rng(1).standard_normal(20)
    models = []
    for size in (1e3, 1e150):
        X[0] = size * direction / np.linalg.norm(direction)
        models.append(fitted(X, loss=loss, normalize=normalize))
    assert_allclose(models[0].components_, models[1].components_, atol=1e-6)
    assert_allclose(models[0].mean_, models[1].mean_, atol=1e-6)
    assert np.isfinite(models[1].orthogonal_distances_).all()


HARD = {
    "rows of norm 1e-150": lambda X: _row(X, 60, 1e-150),
    "rows of norm 1e150": lambda X: _row(X, 5, 1e150),
    "zero rows": lambda X: np.vstack([X, np.zeros((100, 20))]),
    "duplicated rows": lambda X: np.repeat(X, 3, axis=0),
    "most rows equal": lambda X: np.vstack([X[:80], np.tile(X[80], (120, 1))]),
    "all rows equal": lambda X: np.tile(X[:1], (30, 1)),
    "zeros": lambda X: np.zeros((30, 20)),
    "constant columns": lambda X: np.hstack([X, np.full((300, 2), 7.0), np.zeros((300, 1))]),
    "exact": lambda X: bad_rows(noise=0.0),
    "tiny": lambda X: 1e-150 * X,
    "huge": lambda X: 1e100 * X,
    "wide": lambda X: bad_rows(30, 2000, 3, 5),
    "tall": lambda X: bad_rows(20000, 4, 3, 1000),
    "five rows": lambda X: X[:5],
    "float32 far away": lambda X: (X + 1e5).astype(np.float32),
    "float32 with a row of norm 1e30": lambda X: _row(X.astype(np.float32), 0, 1e30),
}


def _row(X, i, size):
    X = X.copy()
    X[i] = X[i] / np.linalg.norm(X[i]) * X.dtype.type(size)
    return X


@DOUBT
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("center", ["joint", None])
@pytest.mark.parametrize("loss", ["geman_mcclure", "l1", "log", "tukey"])
@pytest.mark.parametrize("kind", HARD)
def test_hard_rows(kind, loss, center, normalize):
    """No NaN and no warning from the arithmetic (warnings are errors here)."""
    if kind == "float32 with a row of norm 1e30" and not normalize:
        pytest.skip("squares of raw rows overflow float32: see the docs")
    X = HARD[kind](bad_rows())
    model = fitted(X, loss=loss, center=center, normalize=normalize)
    for name in (
        "components_",
        "mean_",
        "explained_variance_",
        "explained_variance_ratio_",
        "weights_",
        "orthogonal_distances_",
        "noise_variance_",
        "offset_",
    ):
        assert np.isfinite(getattr(model, name)).all(), name
    V = model.components_.astype(float)
    assert_allclose(V @ V.T, np.eye(3), atol=1e-5 if X.dtype == np.float32 else 1e-10)
    assert model.components_.dtype == X.dtype
    assert np.isfinite(model.transform(X)).all()
    assert set(np.unique(model.predict(X))) <= {-1, 1}


@pytest.mark.parametrize(
    "kind", ["duplicated rows", "constant columns", "huge", "tiny", "rows of norm 1e150"]
)
def test_hard_rows_change_no_answer(kind):
    X = bad_rows()
    model, plain = fitted(HARD[kind](X)), fitted(X)
    V = model.components_[:, :20]
    assert sine(V, plain.components_) < 1e-6
    assert_allclose(np.abs(np.diag(V @ plain.components_.T)), 1, atol=1e-3)


def test_float32_far_from_the_origin_has_the_flags_of_float64():
    X = (bad_rows() + 1e5).astype(np.float32)
    narrow, wide = fitted(X), fitted(X.astype(np.float64))
    assert sine(narrow.components_, wide.components_) < 1e-5
    assert_array_equal(narrow.outliers_, wide.outliers_)
    assert_array_equal(narrow.predict(X), wide.predict(X.astype(np.float64)))
    assert narrow.transform(X).dtype == np.float32


# Kinds of data.


def test_sparse_data_is_as_dense():
    S = sp.random_array((400, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    S = sp.csr_array(S + sp.csr_array(np.vstack([5 * np.ones((10, 30)), np.zeros((390, 30))])))
    a, b = fitted(S, tol=1e-7), fitted(S.toarray(), tol=1e-7)
    assert sine(a.components_, b.components_) < 1e-5
    assert_array_equal(a.outliers_, b.outliers_)
    assert_allclose(a.orthogonal_distances_, b.orthogonal_distances_, atol=1e-6)
    assert_array_equal(a.predict(sp.csc_array(S)), b.predict(S.toarray()))


def test_memory_map_and_blocks_are_as_the_array(tmp_path):
    X = bad_rows()
    np.save(tmp_path / "x.npy", X)
    plain = fitted(X)
    mapped = fitted(np.load(tmp_path / "x.npy", mmap_mode="r"))
    parts = fitted(Blocks([X[:100], X[100:110], X[110:]]))
    for other in (mapped, parts):
        assert_allclose(other.components_, plain.components_, atol=1e-8)
        assert_array_equal(other.outliers_, plain.outliers_)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_torch_in_torch_out(dtype):
    X = bad_rows().astype(dtype)
    plain, there = fitted(X), fitted(torch.asarray(X))
    assert isinstance(there.components_, torch.Tensor)
    assert_allclose(there.components_.numpy(), plain.components_, atol=1e-4)
    assert_array_equal(there.predict(torch.asarray(X)).numpy(), plain.predict(X))
    assert_array_equal(there.outliers_.numpy(), plain.outliers_)


def test_one_pass_an_iteration():
    X = bad_rows(2000, 30, 3, 300)
    few = fitted(X, **{**PAPER, "max_iter": 1000, "tol": 1e-3})
    many = fitted(X, **{**PAPER, "max_iter": 1000, "tol": 1e-10})
    assert many.n_iter_ > few.n_iter_ + 3
    assert many.n_passes_ - few.n_passes_ == many.n_iter_ - few.n_iter_


# Weights, new rows, choice of components.


def test_a_weight_of_two_is_the_row_twice():
    X = bad_rows()
    weights = np.random.default_rng(0).integers(0, 4, 300).astype(float)
    a = fitted(X, tol=1e-9, max_iter=3000).fit(X, sample_weight=weights)
    b = fitted(np.repeat(X, weights.astype(int), axis=0), tol=1e-9, max_iter=3000)
    assert_allclose(a.components_, b.components_, atol=1e-5)
    assert_allclose(a.mean_, b.mean_, atol=1e-5)
    assert_allclose(a.explained_variance_, b.explained_variance_, rtol=1e-5)
    assert a.offset_ == pytest.approx(b.offset_, rel=1e-4)
    assert_array_equal(a.weights_ == 0, weights == 0)
    assert len(a.orthogonal_distances_) == 300


def test_distances_and_scores_by_the_textbook():
    X = bad_rows()
    model = fitted(X)
    centred = X - model.mean_
    scores = centred @ model.components_.T
    rest = centred - scores @ model.components_
    score, orthogonal = model.distances(X)
    assert_allclose(orthogonal, np.linalg.norm(rest, axis=1), rtol=1e-8)
    assert_allclose(score, np.sqrt((scores**2 / model.explained_variance_).sum(axis=1)), rtol=1e-8)
    assert_allclose(model.score_distances_, score, rtol=1e-6)
    assert_allclose(model.orthogonal_distances_, orthogonal, rtol=1e-6)
    assert_allclose(model.transform(X), scores, atol=1e-12)
    assert_allclose(model.score_cutoff_**2, chi2.ppf(0.975, 3), rtol=1e-12)
    law = multivariate_normal(model.mean_, model.get_covariance())
    assert_allclose(model.score_samples(X), law.logpdf(X), rtol=1e-8)
    assert_allclose(model.decision_function(X), model.score_samples(X) - model.offset_)
    assert_allclose(model.inverse_transform(scores), model.mean_ + scores @ model.components_)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("load", [load_wine, load_breast_cancer, load_digits])
@pytest.mark.filterwarnings("ignore:.*(two starts|in groups|are skewed)")
def test_a_share_of_the_variance_is_held(load, share):
    """The scree of half of the rows promises it; the fit keeps it, for every seed."""
    X = Preprocessor("robust").fit_transform(load().data)
    for seed in range(2):
        model = RobustPCA(share, random_state=seed).fit(X)
        assert model.explained_variance_ratio_.sum() >= share - 1e-9
        fewer = model.explained_variance_ratio_[:-1].sum()
        assert fewer < share + 0.05  # and with few more than it takes


def test_new_rows_are_flagged_as_training_rows_are():
    X = bad_rows(600, seed=0)
    model = fitted(X[:450])
    assert_array_equal(model.predict(X[:450]) == -1, model.outliers_)
    assert_array_equal(fitted(X[:450]).fit_predict(X[:450]), model.predict(X[:450]))
    assert (model.predict(X[450:]) == 1).mean() > 0.98
    far = X[450:] + 3 * np.random.default_rng(1).standard_normal((150, 20))
    assert (model.predict(far) == -1).all()


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_contamination_is_the_share_of_flags(share):
    X = bad_rows()
    model = fitted(X, contamination=share)
    assert model.outliers_.mean() == pytest.approx(share, abs=1 / 300)


def test_a_subspace_that_is_everything_flags_by_score_distance():
    X = np.random.default_rng(0).standard_normal((200, 3))
    X[:10] += 20
    model = fitted(X, 3)
    assert model.flags_by_ == "score"
    assert_array_equal(np.nonzero(model.outliers_)[0][:10], np.arange(10))
    assert model.outliers_[10:].mean() < 0.03
    assert_allclose(model.score_samples(X), -model.distances(X)[0])


def test_density_sees_rows_far_out_within_the_subspace():
    X = bad_rows()
    X[60:65] = 20 * (X[60:65] @ fitted(X).components_.T) @ fitted(X).components_
    one, both, inner = (fitted(X, flag=flag) for flag in ("orthogonal", "density", "score"))
    assert not one.outliers_[60:65].any()
    assert both.outliers_[:65].all()
    assert both.outliers_[65:].mean() < 0.05
    assert inner.outliers_[60:65].all()
    assert_array_equal(both.predict(X) == -1, both.outliers_)
    assert_allclose(both.components_, one.components_)
    share = fitted(X, contamination=0.3)
    assert share.outliers_.mean() == pytest.approx(0.3, abs=1 / 300)


def test_the_score_is_the_log_density_of_the_gaussian_model():
    X = bad_rows()
    model = fitted(X)
    law = multivariate_normal(model.mean_, model.get_covariance())
    assert_allclose(model.score_samples(X), law.logpdf(X), rtol=1e-9)


def test_kinds_of_rows_follow_from_both_distances():
    X = bad_rows()
    X[60:65] = 20 * (X[60:65] @ fitted(X).components_.T) @ fitted(X).components_
    model = fitted(X)
    kinds = model.row_kinds_
    assert set(kinds[60:65]) == {"good leverage"}
    assert set(kinds[:60]) <= {"orthogonal outlier", "bad leverage"}
    assert (kinds[~model.outliers_] == "regular").mean() > 0.95
    assert (kinds[model.outliers_] != "regular").all()


CLEAN = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "t5": lambda rng, shape: rng.standard_t(5, shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "poisson": lambda rng, shape: rng.poisson(4, shape).astype(float),
}


@pytest.mark.parametrize("kind", CLEAN)
@pytest.mark.parametrize("flag", ["density", "orthogonal", "score"])
def test_few_new_rows_of_clean_data_are_flagged(kind, flag):
    rng = np.random.default_rng(3)
    mixing = rng.standard_normal((30, 30)) * 0.8 ** np.arange(30)
    X = CLEAN[kind](rng, (5000, 30)) @ mixing
    model = fitted(X[:1500], 5, flag=flag)
    share = (model.predict(X[1500:]) == -1).mean()
    assert share <= (0.005 if kind in ("gaussian", "uniform") else 0.01)


def test_new_rows_among_more_columns_than_rows():
    shares = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((700, 3)) @ rng.standard_normal((3, 400))
        X += 0.1 * rng.standard_normal(X.shape)
        shares.append((fitted(X[:100], 3).predict(X[100:]) == -1).mean())
    assert np.mean(shares) <= 0.01


def test_components_for_outliers_hold_95_percent_of_a_fit_that_leaves_a_direction():
    X = np.random.default_rng(0).standard_normal((300, 8)) * [9, 8, 7, 6, 5, 4, 3, 0.01]
    model = fitted(X, "outliers")
    assert model.n_components_ == 6
    assert fitted(X, "outliers", random_state=5).n_components_ == 6
    assert fitted(X[:20], "outliers").n_components_ == 4  # a fifth of the rows
    held = np.cumsum(fitted(X, 7).explained_variance_ratio_)
    assert held[4] < 0.95 <= held[5]


def test_components_for_outliers_are_the_leading_ones_of_a_fit_of_more():
    """The others are noise: variances, distances and densities are those of probabilistic PCA."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6)) * [9, 8, 7, 2, 1.5, 1]
    X[:20] += 60 * rng.standard_normal((20, 6))
    few, more = fitted(X, "outliers"), fitted(X, 5)
    s = few.n_components_
    assert s < 5
    assert_allclose(few.components_, more.components_[:s])
    assert_allclose(few.explained_variance_, more.explained_variance_[:s])
    assert_allclose(few.mean_, more.mean_)
    left = more.explained_variance_[s:].sum() + more.noise_variance_
    assert few.noise_variance_ == pytest.approx(left / (6 - s))
    T = more.transform(X)
    orthogonal = np.hypot(more.orthogonal_distances_, np.linalg.norm(T[:, s:], axis=1))
    assert_allclose(few.orthogonal_distances_, orthogonal)
    assert_allclose(few.distances(X)[0], few.score_distances_)
    assert few.outliers_[:20].all()
    assert few.outliers_[20:].mean() < 0.02


def test_rows_far_out_on_a_plane_without_noise_are_flagged():
    """Rows off the plane come first, then those far out on it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 5))
    X[0] *= 100
    X[1] += rng.standard_normal(5)
    model = fitted(X, 2)
    assert model.flags_by_ == "density"
    assert model.outliers_[:2].all()
    assert model.outliers_[2:].mean() < 0.02
    assert_array_equal(np.argsort(model.score_samples(X))[:2], [1, 0])


def test_choice_of_components_by_the_robust_scree():
    X, _, _ = haystack("isotropic", 0.3, size=20)
    variances = RobustPCA(random_state=0).scree(X)
    assert (np.diff(variances) <= 0).all()
    assert variances[4] > 10 * variances[5]  # five directions, though the bad rows have forty
    assert np.linalg.eigvalsh(np.cov(X.T))[::-1][5] > 0.1 * np.linalg.eigvalsh(np.cov(X.T))[-1]
    assert fitted(X, "auto").n_components_ <= 5
    assert fitted(X, 0.97).n_components_ == 5
    assert fitted(X, 0.3).n_components_ < 4


@every_loss
def test_weights_are_largest_where_residuals_are_smallest(loss):
    X = bad_rows()
    model = fitted(X, loss=loss, normalize=False, refit=False)
    order = np.argsort(model.orthogonal_distances_)
    assert (np.diff(model.weights_[order]) <= 1e-2).all()
    assert model.weights_.max() == pytest.approx(1)


def test_warnings_of_doubt():
    X, _, _ = haystack("isotropic", 0.7)
    with pytest.warns(UserWarning, match="70% of the rows are flagged: more than half"):
        fitted(X, 5)
    X, _, _ = haystack("subspace", 0.5, seed=1)
    with pytest.warns(UserWarning, match="two starts found .* another half of the rows"):
        fitted(X, 5)


def test_a_group_of_good_rows_that_is_flagged_is_told_of():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 12))
    X[:, :3] += 6 * rng.standard_normal((3, 3))[rng.integers(3, size=600)]
    with pytest.warns(UserWarning, match="near the subspace.*flag='orthogonal'"):
        model = fitted(X, 4)
    assert model.outliers_.mean() > 0.15
    assert fitted(X, 4, flag="orthogonal").outliers_.mean() < 0.02


def test_the_same_seed_gives_the_same_model():
    X = bad_rows(3000)
    assert_array_equal(fitted(X).components_, fitted(X).components_)
    assert sine(fitted(X, random_state=1).components_, fitted(X).components_) < 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 21}, r"n_components=21 must be between 1 and 20"),
        ({"n_components": True}, r"n_components=True is a bool"),
        ({"n_components": 0}, r"n_components.* int in the range \[1, inf\)"),
        ({"loss": "l3"}, r"'loss' parameter .* must be .*'l1'"),
        ({"center": np.zeros(3)}, r"center has shape \(3,\); give 20 finite numbers"),
        ({"init": np.zeros((2, 20))}, r"init has shape \(2, 20\); give finite components of shape"),
        ({"init": ["pca", "best"]}, r"init='best' is unknown; choose among stahel_donoho"),
        ({"quantile": 1.0}, r"'quantile' parameter"),
        ({"contamination": 0.7}, r"'contamination' parameter"),
        ({"solver": "krylov"}, r"'solver' parameter"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        RobustPCA(**{"n_components": 3, **options}).fit(bad_rows())


def test_a_loss_of_ones_own():
    model = fitted(bad_rows(), loss=Huber(scale=0.02))
    assert model.loss_ == Huber(scale=0.02)
    assert model.outliers_[:60].all()


# Its parts.


def naive_location_scale(z, h):
    """Every window of h sorted values in turn; then what lies within the 0.975 quantile."""
    z = np.sort(z)
    windows = [z[i : i + h] for i in range(len(z) - h + 1)]
    location = min(windows, key=np.var).mean()
    raw = np.sort(np.abs(z - location))[h - 1] / np.sqrt(chi2.ppf(h / len(z), 1))
    inside = z[np.abs(z - location) <= np.sqrt(chi2.ppf(0.975, 1)) * raw]
    factor = 0.975 / chi2.cdf(chi2.ppf(0.975, 1), 3)
    return inside.mean(), np.sqrt(factor * inside.var())


@pytest.mark.parametrize("seed", range(5))
def test_location_and_scale_against_the_definition(seed):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((4, 61)) * 3 + 7
    Z[:, :20] += 30
    location, scale = location_scale(Z, 31)
    for z, m, c in zip(Z, location, scale, strict=True):
        assert_allclose((m, c), naive_location_scale(z, 31), rtol=1e-9)
    shifted = location_scale(5 * Z - 2, 31)
    assert_allclose(shifted[0], 5 * location - 2)
    assert_allclose(shifted[1], 5 * scale)


def test_location_and_scale_of_normal_data_and_of_huge_values():
    z = np.random.default_rng(0).standard_normal((1, 20000))
    location, scale = location_scale(z, 10001)
    assert abs(location[0]) < 0.03
    assert abs(scale[0] - 1) < 0.03
    z[0, :8000] = -1e150
    assert location_scale(z, 10001)[1][0] < 2
    assert_allclose(location_scale(np.full((1, 9), 4.0), 5), [[4.0], [0.0]])


def test_bulk_is_the_lower_group_where_most_rows_are_far():
    rng = np.random.default_rng(0)
    good = np.linalg.norm(rng.standard_normal((300, 30)), axis=1)
    far = 10 + np.linalg.norm(rng.standard_normal((700, 30)), axis=1)
    spread, point = rng.standard_normal((1000, 3)), np.ones((300, 3))
    alone = bulk(good, 10 * spread[:300], 30)
    among = bulk(np.concatenate([far, good]), 10 * spread, 30)
    assert_allclose(among, alone, rtol=0.05)
    # Rows that are one point of the subspace are no better for being near it.
    clustered = bulk(np.concatenate([far, good]), np.concatenate([spread[:700], point]), 30)
    assert clustered[0] > 1.5 * alone[0]
    limit = cutoff(*alone, 0.999)
    assert 0 <= (good > limit).mean() < 0.01
    assert limit == pytest.approx(np.sqrt(chi2.ppf(0.999, 30)), rel=0.05)


def test_repeated_values():
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([2.0, 1.0, 3.0])
    assert_array_equal(np.sort(repeated(values, weights)), [1, 2, 2, 2, 3, 3])
    assert_array_equal(repeated(values, None), values)


def test_concentration_never_raises_the_trimmed_objective():
    X = Matrix(bad_rows())
    rng = np.random.default_rng(0)
    start = make_start(X, "random", 3, np.zeros(20), False, rng)
    h = half(300, 3)

    def trimmed(center, W):
        A = X.data - center
        return np.sort(((A - A @ W @ W.T) ** 2).sum(axis=1))[:h].mean()

    before = trimmed(start.center, start.W)
    after = concentrate(X, start, h, False)
    assert trimmed(after.center, after.W) <= before


def test_geometric_median_is_stationary():
    X = bad_rows() + 3
    c = spatial_median(Matrix(X), tol=1e-12)[:, 0]
    units = (X - c) / np.linalg.norm(X - c, axis=1)[:, None]
    assert np.linalg.norm(units.sum(axis=0)) < 1e-4
    weights = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    again = spatial_median(Matrix(np.repeat(X, weights.astype(int), axis=0)), tol=1e-12)
    assert_allclose(spatial_median(Matrix(X), weights, tol=1e-12), again, atol=1e-6)


# Published data.


def classic(name, drop):
    path = Path(os.environ.get("DUALPCA_DATA", "")) / "classic" / name
    if "DUALPCA_DATA" not in os.environ or not path.exists():
        pytest.skip("DUALPCA_DATA names no folder with this data")
    with path.open() as file:
        return np.array([[float(v) for v in row[drop:]] for row in list(csv.reader(file))[1:]])


@pytest.mark.parametrize("seed", range(3))
def test_octane(seed):
    model = fitted(classic("rrcov_octane.csv", 2), 2, random_state=seed)
    assert_array_equal(np.nonzero(model.outliers_)[0] + 1, [25, 26, 36, 37, 38, 39])


@pytest.mark.parametrize("seed", range(3))
def test_hbk(seed):
    model = fitted(classic("robustbase_hbk.csv", 1), 3, random_state=seed)
    assert_array_equal(np.nonzero(model.outliers_)[0] + 1, np.arange(1, 15))


# Numbers at the end of their range


@DOUBT
def test_irls_asks_for_no_square_of_fifty_thousand_columns():
    X = np.random.default_rng(0).standard_normal((14, 50_000)).astype(np.float32)
    X[:, :2] *= 300
    model, other = (
        RobustPCA(2, solver=solver, random_state=0).fit(X) for solver in ("irls", "dca")
    )
    assert sine(model.components_, other.components_) < 0.05
    assert not np.isnan(model.components_).any()


@pytest.mark.parametrize("scale", [1e-22, 1e18, 1e37])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("options", [{}, PAPER, {"solver": "irls"}])
def test_float32_rows_whose_squares_leave_its_range_are_refused(scale, kind, options):
    X = np.random.default_rng(0).standard_normal((60, 12)) * scale
    with pytest.raises(ValueError, match=r"X has entries so (large|small)"):
        RobustPCA(2, random_state=0, **options).fit(kind(X.astype(np.float32)))


@pytest.mark.parametrize("kind", [np.asarray, lambda X: as_operator([X[:20], X[20:]])])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_rows_whose_medians_overflow_are_refused(kind, real):
    half = float(np.finfo(real).max) * 0.9
    X = np.where(np.arange(60)[:, None] % 3 < 2, half, half / 2) * np.ones((60, 4))
    X[:, ::2] *= np.where(np.arange(60) % 2, 1, -1)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):  # the sums of columns are not finite
        data = kind(X.astype(real))
        with pytest.raises(ValueError, match=r"X has entries so large"):
            RobustPCA(2, random_state=0).fit(data)


@DOUBT
def test_a_covariance_larger_than_memory_is_refused_with_its_bytes():
    model = RobustPCA(1, random_state=0).fit(haystack("line", 0.1)[0])
    model.components_ = np.ones((1, 2_000_000), dtype=np.float32)
    for method in (model.get_covariance, model.get_precision):
        with pytest.raises(MemoryError, match=r"48,000,000,000,000 bytes"):
            method()


@DOUBT
@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("loss", ["geman_mcclure", "log"])
@pytest.mark.parametrize("name", ["lotkin", "pascal"])
def test_components_of_ill_conditioned_scores_are_orthonormal(name, loss, kind, real):
    X = pascal(15).astype(float) if name == "pascal" else hilbert(25)
    if name == "lotkin":
        X[0] = 1
    V = RobustPCA(3, loss=loss, random_state=0).fit(kind(X.astype(real))).components_.astype(float)
    assert np.abs(V @ V.T - np.eye(3)).max() <= 100 * np.finfo(real).eps


@DOUBT
@pytest.mark.parametrize("seed", range(3))
def test_a_refit_that_rounding_keeps_from_tol_does_not_stand(seed):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(rng.standard_normal((60, 20)) * np.linspace(3, 1, 20) + 1e8)
    model = RobustPCA(3, center="median", random_state=seed).fit(X)  # no ConvergenceWarning
    assert not model.refitted_


@DOUBT
def test_a_start_of_a_flat_spectrum_tells_of_no_tolerance_of_its_own():
    X = np.random.default_rng(0).standard_normal((340, 330))
    RobustPCA(20, random_state=0, tol=0.5).fit(X)  # no ConvergenceWarning


def test_a_sample_takes_rows_as_often_as_they_weigh():
    rng = np.random.default_rng(0)
    w = rng.integers(0, 5, 60)
    assert_array_equal(by_weight(w.astype(float), 1000, rng), np.repeat(np.arange(60), w))
    assert_array_equal(by_weight(np.where(w > 0, 0.3, 0), 1000, rng), np.flatnonzero(w))
    few = np.bincount(by_weight(w.astype(float), 20, rng), minlength=60)
    assert few.sum() == 20
    assert (np.abs(few - 20 * w / w.sum()) <= 1).all()


@pytest.mark.filterwarnings("ignore:(70% of the rows are flagged|column 0 holds)")
@pytest.mark.parametrize("kernel", [False, True])
def test_rows_of_large_weight_outvote_the_others(kernel):
    rng = np.random.default_rng(0)
    X = 0.1 * rng.standard_normal((100, 4))
    X[:30, 0] += 3 * rng.standard_normal(30)
    X[30:, 1] += 3 * rng.standard_normal(70)
    X[30:, 2:] += 8.0
    w = np.where(np.arange(100) < 30, 20, 1)
    model = RobustKernelPCA(1, kernel="linear") if kernel else RobustPCA(1)
    model.set_params(random_state=0)
    repeated = clone(model).fit(np.repeat(X, w, axis=0)).outliers_[np.cumsum(w) - w]
    assert repeated[30:].all()
    assert_array_equal(model.fit(X, sample_weight=w).outliers_, repeated)
