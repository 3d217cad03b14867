"""The steps of sparse PCA are those of DCA on the formulations, on data known by a Gram matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dualpca import as_operator
from dualpca.solvers import DCA
from dualpca.sparse.deflation import DeflatedGram, column_targets, polar_targets, unit
from dualpca.sparse.options import SparseOptions

OPTIONS = SparseOptions(
    (3, 4),
    method="deflation",
    deflation="projection",
    penalty="cardinality",
    alpha=0.2,
    positive=False,
    n_starts=None,
    tol=1e-6,
    max_iter=100,
    certify=False,
    max_nodes=1,
    seed=0,
)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("penalty", ["cardinality", "l0", "l1"])
@pytest.mark.parametrize("together", [False, True])
def test_a_step_is_one_of_dca(penalty, positive, together):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 8))
    C = DeflatedGram(as_operator(X))
    options = replace(OPTIONS, penalty=penalty, positive=positive)
    W = rng.standard_normal((8, 2 if together else 1))
    target = polar_targets if together else column_targets
    Z = target(W, C @ W)
    for data in (C.data, as_operator(X)):
        problem = options.objective(data, None if together else 1, C.longest)
        expected = next(DCA()(problem, W)).point.W
        assert np.count_nonzero(expected) > 0
        assert_allclose(unit(problem.G.conjugate.subgradient(Z)), unit(expected), atol=1e-12)


@pytest.mark.parametrize("formed", [True, False])
@pytest.mark.parametrize("rule", ["projection", "orthogonal", "schur"])
def test_deflation_is_that_of_the_data(rule, formed):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 6))
    C, left, basis = DeflatedGram(as_operator(X), formed), X, np.zeros((6, 0))
    for _ in range(3):
        w = unit(rng.standard_normal((6, 1)))
        assert C.remove(w, C @ w, rule)
        if rule == "schur":
            u = unit(left @ w)
            left = left - u @ (u.T @ left)
        else:
            if rule == "orthogonal":
                w = unit(w - basis @ (basis.T @ w))
                basis = np.hstack([basis, w])
            left = left - (left @ w) @ w.T
        expected, S = left.T @ left, np.array([0, 2, 5])
        assert_allclose(C @ np.eye(6), expected, atol=1e-12)
        assert_allclose(C.variances, np.diag(expected), atol=1e-12)
        assert_allclose(C.block(S), expected[np.ix_(S, S)], atol=1e-12)
    assert_allclose(C.undeflated() @ np.eye(6), X.T @ X, atol=1e-12)
    assert not C.remove(np.zeros((6, 1)), np.zeros((6, 1)), rule)
