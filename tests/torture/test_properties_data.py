"""PCA: weights, batches, forms of the data, and the number of components."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import strategies as st
from laws import (
    DIRECT,
    SLACK,
    SOLVERS,
    Truth,
    close,
    datasets,
    eps_of,
    fitted,
    law,
    quiet,
    same_model,
    same_subspace,
    same_values,
)

from dualpca import PCA, as_operator

solvers = st.sampled_from(SOLVERS)
centred = st.booleans()


@law(
    "a weight of m is the row m times, 0 is its removal",
    few=20,
    many=300,
    data=datasets(),
    solver=solvers,
    center=centred,
    single=st.booleans(),
)
def test_whole_weights_are_repeated_rows(data, solver, center, single):
    X = data.X.astype(np.float32 if single else np.float64)
    w = data.rng.integers(0, 4, data.N)
    w[data.rng.integers(data.N)] += data.s + 1
    repeated = np.repeat(X, w, axis=0)
    tol = 1e-5 if single else 1e-10
    one = fitted(X, data.s, w, solver=solver, center=center, tol=tol)
    other = fitted(repeated, min(data.s, len(repeated)), solver=solver, center=center, tol=tol)
    truth = Truth(X, center, w)
    same_model(one, other, truth)
    assert one._mass == w.sum()
    close(one.mean_, other.mean_, SLACK * eps_of(X) * np.abs(X).max(), "means")
    total = truth.values.sum() / (w.sum() - 1)
    slack = truth.rounding(eps_of(X)) + max(one.residual_, other.residual_) * truth.values[0]
    close(
        one.noise_variance_, other.noise_variance_, data.s * slack + 1e-6 * total, "noise variances"
    )


@law("all weights doubled: the same components", data=datasets(), solver=solvers, center=centred)
def test_a_common_factor_of_the_weights_changes_no_component(data, solver, center):
    X, w = data.X, data.rng.uniform(0.1, 3, data.N) + 1
    one, other = (fitted(X, data.s, c * w, solver=solver, center=center) for c in (1, 5))
    truth = Truth(X, center, w)
    same_subspace(one.components_, other.components_, truth, eps_of(X), one, other)
    ours, theirs = (m.explained_variance_ * (m._mass - 1) / c for m, c in ((one, 1), (other, 5)))
    same_values(ours, theirs, truth, eps_of(X), one, other)


@law(
    "partial_fit in pieces is fit in whole",
    data=datasets(rows=(4, 40)),
    center=centred,
    single=st.booleans(),
)
def test_batches_are_the_whole(data, center, single):
    X = data.X.astype(np.float32 if single else np.float64)
    cuts = [0, *sorted(set(data.rng.integers(2, data.N - 1, 3)) - {0}), data.N]
    first = cuts[1]
    s = min(data.s, first)
    model = PCA(s, center=center, random_state=0)
    for a, b in pairwise(cuts):
        model.partial_fit(X[a:b])
    whole, truth = fitted(X, s, center=center), Truth(X, center)
    # A Gram matrix that is added up keeps half of the digits of what is far from zero.
    truth.size = max(truth.size, np.linalg.norm(X))
    same_model(whole, model, truth)
    close(model.mean_, whole.mean_, SLACK * eps_of(X) * np.abs(X).max(), "means")
    assert model.n_samples_ == data.N


def forms(X, path):
    """The same rows as each kind of data."""
    np.save(path, X)
    cuts = sorted({0, len(X) // 3, len(X) // 2, len(X)})
    yield "csr", sp.csr_array(X)
    yield "csc", sp.csc_array(X)
    yield "blocked", as_operator([X[a:b] for a, b in pairwise(cuts)])
    yield "sparse blocks", as_operator([sp.csr_array(X[a:b]) for a, b in pairwise(cuts)])
    yield "memory map", np.load(path, mmap_mode="r")
    yield "Fortran order", np.asfortranarray(X)
    yield "strided", np.repeat(X, 2, axis=1)[:, ::2]


@pytest.mark.parametrize("single", [False, True])
@law(
    "dense, CSR, blocks and memory map: the same subspace",
    few=8,
    many=60,
    data=datasets(offsets=(0.0, 1.0)),
    solver=st.sampled_from(("auto", "gram", "krylov", "dca")),
    center=centred,
)
def test_every_form_of_the_data_gives_the_same_subspace(
    single, tmp_path_factory, data, solver, center
):
    X = data.X.astype(np.float32 if single else np.float64)
    tol = 1e-5 if single else 1e-10
    one, truth = fitted(X, data.s, solver=solver, center=center, tol=tol), Truth(X, center)
    truth.size = max(truth.size, np.linalg.norm(X))
    path = tmp_path_factory.mktemp("form") / "X.npy"
    new, slack = data.rng.permutation(X), SLACK * eps_of(X) * np.abs(X).max() * data.d
    for name, form in forms(X, path):
        other = fitted(form, data.s, solver=solver, center=center, tol=tol)
        try:
            same_model(one, other, truth)
            close(other.transform(new), (new - other.mean_) @ other.components_.T, slack, "scores")
            close(other.transform(form), other.transform(X), slack, "scores")
        except AssertionError as error:
            error.add_note(name)
            raise


@law("a path is the fits one by one", data=datasets(), solver=st.sampled_from(DIRECT))
def test_a_path_is_the_fits_one_by_one(data, solver):
    X, sizes = data.X, sorted({1, data.s, max(1, data.s // 2)})
    with quiet():
        path = PCA(solver=solver, tol=1e-10, max_iter=300, random_state=0).path(X, sizes)
    for s, model in zip(sizes, path, strict=True):
        same_model(fitted(X, s, solver=solver), model, Truth(X))
        assert model.n_components_ == s


@law(
    "a fraction asks for the fewest components that hold more",
    data=datasets(),
    fraction=st.floats(0.05, 0.99),
    solver=st.sampled_from(DIRECT),
)
def test_a_fraction_takes_the_fewest_components_that_hold_it(data, fraction, solver):
    X = data.X
    truth = Truth(X)
    model = fitted(X, fraction, solver=solver)
    n, total = model.n_components_, truth.values.sum()
    slack = 2 * data.d * (truth.rounding(eps_of(X)) + model.residual_ * truth.values[0])
    held = truth.values[:n].sum()
    assert held >= fraction * total - slack
    assert n == 1 or truth.values[: n - 1].sum() <= fraction * total + slack
