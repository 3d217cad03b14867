"""The experiments of stacked kernel PCA and KernelSVD, reduced: what is measured is what is said."""

import numpy as np
from experiments import deep_kernel, kernel_svd
from experiments.data import pictures
from experiments.engine import Context
from numpy.testing import assert_allclose


def test_levels_beside_kernel_pca_on_digits():
    X, y = pictures(Context.of(quick=True))
    found = dict(deep_kernel.compare(X, y, 150, 0, (6, 3)))
    assert len(found) == 2 + 2 * len(deep_kernel.COUPLINGS)
    one, both = found["one level, 3 features"], found["one level, 9 features"]
    assert both[0] > one[0] > 20  # ten classes
    for name, (accuracy, first, level, last) in found.items():
        assert 0 < accuracy <= 100, name
        assert 0 < first <= level <= 100, name
        assert 0 < last <= 100, name
        assert first <= both[1] + 1e-6, name  # kernel PCA holds the most
    for seeds, landmarks in ((2, None), (1, 30)):
        text = deep_kernel.table(X, y, 100, seeds, (4, 2), landmarks)
        assert text.count("\n") == 1 + len(found)
        assert ("(" in text) == (seeds > 1)


def test_draws_of_rows_do_not_overlap():
    X = np.arange(5000.0)[:, None]
    train, y, test, _ = deep_kernel.split(X, X[:, 0], 500, 1)
    assert len(train) == 500
    assert len(test) == deep_kernel.TEST_ROWS
    assert not set(train[:, 0]) & set(test[:, 0])
    assert_allclose(train[:, 0], y)


def test_attention_is_approximated_best_by_the_singular_vectors():
    X = kernel_svd.words(200, 0, quick=True)
    assert_allclose(X.mean(axis=1), 0, atol=1e-12)
    found = kernel_svd.attention_errors(X, 10, 0)
    inside = {name: errors[0] for name, errors in found.items()}
    assert min(inside, key=inside.get) == "KernelSVD"
    everything = kernel_svd.attention_errors(X, 100, 0)
    assert everything["KernelSVD"][0] < 1e-3
    assert everything["kernel PCA of either side"][0] < 1


def test_groups_of_a_directed_graph():
    A, sends, receives = kernel_svd.directed_graph(400, 0)
    assert A.shape == (400, 400)
    assert np.abs(A - A.T).max() == 1
    assert len(set(sends)) == len(set(receives)) == kernel_svd.GROUPS
    found = kernel_svd.recovered(400, 0)
    assert min(found["KernelSVD"]) > max(found["eigenvectors of A + A^T"])
    assert "0.50 (0.00)" in kernel_svd.told("t", ("a", "b"), [{"m": (0.5, 1.0)}] * 2)
