"""One robust fit for rows and for their kernel."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import subspace_angles

import dualpca
from dualpca import RobustKernelPCA, RobustPCA
from dualpca.formulations import robust
from dualpca.losses import LOSSES
from dualpca.operators import Centered, Kernel, Matrix, Weighted
from dualpca.robust.fit import RobustOptions, fit_robust
from dualpca.robust.joint import JointLoss


def bad_rows(n=150, d=12):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + 1
    X += 0.1 * rng.standard_normal((n, d))
    X[: n // 5] += 5 * rng.standard_normal((n // 5, d))
    return X


@pytest.mark.parametrize("center", ["joint", "mean", "geometric_median", None])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_and_their_linear_kernel_have_the_same_fit(center, weighted):
    X = bad_rows()
    weights = np.random.default_rng(1).integers(1, 3, len(X)).astype(float) if weighted else None
    options = RobustOptions(3, center=center, tol=1e-10, max_iter=2000)
    rows = fit_robust(Matrix(X), options, np.random.default_rng(0), weights)
    K = Kernel.linear(Matrix(X))
    rng = np.random.default_rng(0)
    implicit = fit_robust(K, options, rng, weights, lambda chosen: X[chosen] @ X[chosen].T)
    assert rows.refitted
    assert implicit.refitted
    assert subspace_angles(X.T @ implicit.components.V, rows.components.V).max() < 1e-5
    assert_allclose(X.T @ implicit.components.center, rows.components.center, atol=1e-4)
    assert_allclose(implicit.rows.orthogonal, rows.rows.orthogonal, atol=1e-4)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_centre_and_subspace_move_together_and_lower_the_loss(loss, normalized):
    """The centre by the weighted mean, the subspace by a step of DCA about it; one pass for both."""
    rng = np.random.default_rng(3)
    for seed in range(5):
        X = bad_rows() + rng.standard_normal(12)
        c = X[0] if seed == 4 else np.median(X, axis=0)
        W = np.linalg.qr(rng.standard_normal((12, 3)))[0]
        a = 1 / np.linalg.norm(X - c, axis=1).clip(1.0) if normalized else np.ones(len(X))
        view = Centered(Matrix(X), c[:, None])
        problem = robust(Weighted(view, a), 0.1, LOSSES[loss].at(1.0))
        F = JointLoss(problem.F.alpha, problem.F.loss, scales=a)
        problem, before = replace(problem, F=F), view.passes
        move, new = F.mean(problem.X, W), F.step(problem, W)
        assert view.passes - before == 1
        weights = F.weights(problem.X @ W) * a**2
        assert_allclose(move[:, 0], weights @ (X - c) / weights.sum(), atol=1e-12)
        assert_allclose(new.T @ new, np.eye(3), atol=1e-12)

        def total(center, V, X=X, a=a):
            residuals = a[:, None] * (X - center) @ (np.eye(12) - V @ V.T)
            return LOSSES[loss].psi((residuals**2).sum(axis=1) + 0.01).sum()

        values = [total(c, W), total(c + move[:, 0], W), total(c + move[:, 0], new)]
        assert values == sorted(values, reverse=True)


@pytest.mark.filterwarnings("ignore:two starts found")
def test_n_components_none_is_all_of_them():
    X = bad_rows()
    model = RobustPCA(None, random_state=0).fit(X)
    assert model.n_components_ == X.shape[1]
    assert model.flags_by_ == "score"
    kernel = RobustKernelPCA(None, kernel="linear", random_state=0).fit(X)
    assert kernel.n_components_ == X.shape[1]


@pytest.mark.parametrize("model", [RobustPCA(None), RobustKernelPCA(None)], ids=lambda m: str(m))
def test_all_components_of_few_rows_are_refused(model):
    with pytest.raises(ValueError, match=r"n_components=None asks for all .* 'auto'"):
        model.fit(bad_rows(20))


def test_auto_is_the_default_number_of_components():
    X = bad_rows()
    model = RobustPCA(random_state=0).fit(X)
    assert model.n_components == "auto"
    variances = model.scree(X)
    share = np.cumsum(variances) / variances.sum()
    assert model.n_components_ == np.searchsorted(share, 0.8) + 1


@pytest.mark.parametrize("flag", ["orthogonal", "score", "density"])
def test_normality_is_the_score_of_distances(flag):
    X = bad_rows()
    model = RobustPCA(3, flag=flag, random_state=0).fit(X)
    assert_allclose(model.normality(*model.distances(X)), model.score_samples(X))
    assert_array_equal(
        model.normality(model.score_distances_, model.orthogonal_distances_) < model.offset_,
        model.outliers_,
    )


def test_the_largest_weight_of_a_row_that_counts_is_1():
    X = bad_rows()
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    for model in (RobustPCA(3), RobustKernelPCA(3, kernel="linear")):
        found = model.set_params(random_state=0).fit(X, sample_weight=weights).weights_
        assert found.max() == 1
        assert (found[weights == 0] == 0).all()


def test_the_method_imports_no_estimator():
    for path in (Path(dualpca.__file__).parent / "robust").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = getattr(node, "module", None) or ""
            assert "estimators" not in module
            assert not module.startswith(("sklearn.base", "sklearn.utils"))
