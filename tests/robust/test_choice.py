"""The choice between subspaces: lines, clusters and second groups do not win over most rows."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.linalg import subspace_angles

from dualpca.operators import Matrix
from dualpca.robust.choice import (
    Measured,
    choose,
    clearly_better,
    freedom,
    measure,
    narrow_rows,
    standings,
    start_stands,
)
from dualpca.robust.scale import half
from dualpca.robust.starts import (
    Start,
    are_alike,
    best_start,
    concentrate,
    peeled,
    reweighted,
    split,
)

N, D, S, BAD = 400, 30, 4, 160


def rows(kind, seed=0):
    """Return rows, the good ones last, the basis of these, and a subspace through the bad ones."""
    rng = np.random.default_rng(seed)
    V, rest = np.split(np.linalg.qr(rng.standard_normal((D, D)))[0], [S], axis=1)
    X = rng.standard_normal((N, S)) @ V.T / 2
    away = rest[:, :1]
    bad = {
        "line": lambda: 5 * rng.standard_normal((BAD, 1)) * away.T,
        "cluster": lambda: 2 * away.T + 0 * X[:BAD],
        "beside": lambda: X[:BAD] + away.T,
        "subspace": lambda: rng.standard_normal((BAD, S)) @ rest[:, :S].T / 2,
    }[kind]()
    X[:BAD] = bad
    X += 0.02 * rng.standard_normal(X.shape)
    wrong = rest[:, :S] if kind == "subspace" else np.hstack([V[:, 1:], away])
    return Matrix(X), V, wrong


def sine(V, W):
    return float(np.sin(subspace_angles(V, W).max()))


@pytest.mark.parametrize("kind", ["line", "cluster", "beside", "subspace"])
def test_the_good_subspace_is_chosen_in_either_order(kind):
    X, V, wrong = rows(kind)
    true, false = (measure(X, np.zeros(D), W) for W in (V, wrong))
    df = freedom(X, S)
    assert choose([false, true], df)[0] == 1
    assert choose([true, false], df)[0] == 0
    assert clearly_better(true, false, df)
    assert not clearly_better(false, true, df)
    assert not clearly_better(true, true, df)


@pytest.mark.parametrize("kind", ["line", "cluster", "beside", "subspace"])
@pytest.mark.parametrize("fixed", [None, np.zeros(D)])
@pytest.mark.parametrize("seed", range(3))
def test_a_start_is_near_the_good_subspace(kind, fixed, seed):
    X, V, _ = rows(kind, seed)
    start = best_start(X, "auto", S, fixed, np.random.default_rng(seed))
    assert start.compared
    again = reweighted(X, start, fixed)
    oracle = np.linalg.svd(X.data[BAD:] - X.data[BAD:].mean(axis=0))[2][:S].T
    assert sine(again.W, V) <= 2 * sine(oracle, V) + 0.01
    assert fixed is None or (again.center == fixed).all()


def test_measured_distances_are_those_of_the_rows():
    X, V, _ = rows("line")
    center = X.data.mean(axis=0)
    found = measure(X, center, V)
    A = X.data - center
    np.testing.assert_allclose(found.residuals, np.linalg.norm(A - A @ V @ V.T, axis=1), atol=1e-7)
    np.testing.assert_allclose(found.scores, A @ V)
    np.testing.assert_allclose(found.sizes, np.linalg.norm(A, axis=1))
    assert_array_equal(np.sort(found.nearest(10)), np.sort(np.argsort(found.residuals)[:10]))
    assert found.level(7) == np.sort(found.residuals)[6]


def test_rows_on_a_line_are_narrow_and_others_are_not():
    X, _, wrong = rows("line")
    narrow = narrow_rows(measure(X, np.zeros(D), wrong), half(N, S), freedom(X, S))
    assert narrow[:BAD].mean() > 0.9
    assert narrow[BAD:].mean() < 0.1


def test_peeling_finds_what_the_line_hides():
    X, V, wrong = rows("line")
    rng, center = np.random.default_rng(0), np.zeros(D)
    start = peeled(X, Start("wrong", center, wrong), measure(X, center, wrong), None, rng)
    assert start.name == "wrong, peeled"
    assert sine(start.W, V) < 0.1
    clean = Matrix(X.data[BAD:])
    assert peeled(clean, Start("right", center, V), measure(clean, center, V), None, rng) is None


@pytest.mark.parametrize("fixed", [False, True])
def test_a_concentrated_start_has_the_rows_beside_it(fixed):
    X, V, wrong = rows("subspace")
    h, center = half(N, S), np.full(D, 0.01)
    near = [concentrate(X, Start("a", center, W), h, fixed).measured(X) for W in (V, wrong)]
    for start in near:
        again = measure(X, start.center, start.W)
        np.testing.assert_allclose(start.rows.residuals, again.residuals, atol=1e-7)
        assert not fixed or (start.center == center).all()
        turned = start.W @ np.linalg.qr(np.random.default_rng(0).standard_normal((S, S)))[0]
        assert are_alike(X, start, Start("b", start.center, turned), h)
    assert not are_alike(X, *near, h)


def test_splitting_finds_one_of_two_groups():
    X, V, wrong = rows("beside")
    center = X.data.mean(axis=0)
    start = split(X, Start("wrong", center, wrong), measure(X, center, wrong), None)
    assert start.name == "wrong, split"
    assert sine(start.W, V) < 0.1
    clean = Matrix(X.data[BAD:])
    right = Start("right", np.zeros(D), V)
    assert split(clean, right, measure(clean, right.center, V), None) is None


def test_what_a_sharp_subspace_does_not_hold_are_outliers():
    """A subspace through a cluster that looks wide holds nearly all rows, at a larger distance."""
    rng = np.random.default_rng(0)
    scores, place = rng.standard_normal((200, 4)), np.arange(200)
    true = Measured(np.where(place < 150, rng.uniform(0.8, 1.2, 200), 30.0), scores, 30 + 0 * place)
    false = Measured(rng.uniform(0.8, 1.8, 200), scores, 30 + 0 * place)
    right, wrong = standings([true, false], 40)
    assert right.sharp
    assert not wrong.sharp
    assert wrong.held > 1.2 * right.held
    assert wrong.reach < 1.4 * right.reach
    assert choose([false, true], 40)[0] == 1
    assert choose([true, false], 40)[0] == 0
    # Without the gap the one that holds more rows is taken.
    gradual = Measured(np.where(place < 140, true.residuals, 1.6), scores, true.sizes)
    gradual.residuals[190:] = 30.0
    assert not standings([gradual, false], 40)[0].sharp


def test_a_start_stands_where_dca_is_worse_and_where_rows_are_in_doubt():
    rng = np.random.default_rng(0)
    scores, place = rng.standard_normal((200, 4)), np.arange(200)
    near = Measured(np.where(place < 150, 1.0, 30.0), scores, 30 + 0 * place)
    far = Measured(np.where(place < 150, 3.0, 30.0), scores, 30 + 0 * place)
    for doubtful in (False, True):
        assert start_stands(near, far, doubtful, 40)
        assert not start_stands(far, near, doubtful, 40)
        assert start_stands(near, near, doubtful, 40) == doubtful


def test_where_scores_are_noise_the_subspace_that_holds_more_rows_is_taken():
    rng = np.random.default_rng(0)
    noise = 1e-3 * rng.standard_normal((50, 2))
    all_rows = Measured(np.full(50, 1.1), noise, np.ones(50))
    some = Measured(np.where(np.arange(50) < 30, 1.0, 9.0), noise, np.ones(50))
    assert choose([some, all_rows], 10)[0] == 1
    assert choose([all_rows, some], 10)[0] == 0
