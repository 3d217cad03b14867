"""DC problems: descent, duality, transposes and equivariance of the iterates, for every formulation."""

from __future__ import annotations

from itertools import combinations, islice

import numpy as np
import pytest
from hypothesis import strategies as st
from laws import SLACK, close, datasets, law, quiet, turn

from dualpca import as_operator, solve
from dualpca.formulations import (
    CLASSICAL,
    block_sparse,
    formulation,
    gpower,
    optimal_value,
    robust,
    sparse,
)
from dualpca.functions import RowLoss
from dualpca.losses import LOSSES, as_loss
from dualpca.operators import Kernel
from dualpca.solvers import DCA, IRLS, Anderson, ProximalGradient

#: The letters, the degree of their objective in X, and that of their variable.
DEGREES = {
    "d": (2, 0),
    "l": (2, 0),
    "g": (2, 0),
    "m": (2, 1),
    "n": (1, 0),
    "o": (1, 0),
    "p": (2, 1),
    "q": (2, 0),
    "k": (4, 1),
    "holder_dual": (4, 2),
    "robust": (1, 0),
    "robust_dual": (1, 0),
    "sparse_l1": (2, 1),
}
PCA_LETTERS = [name for name in DEGREES if not name.startswith(("robust", "sparse"))]
ALL = [name + end for name in DEGREES for end in ("", "T")]
#: Those whose variable has a row for each column of X, before a transpose.
BY_COLUMN = ("d", "l", "n", "p", "k", "robust", "sparse_l1")

letters = st.sampled_from(ALL)
small = datasets(rows=(2, 20), columns=(2, 12))


def sparse_problem(name, X, k):
    """A sparse problem with bounds or penalties that leave something."""
    top = float(np.linalg.norm(X, axis=0).max())
    return {
        "sparse": lambda: sparse(X, k),
        "sparse positive": lambda: sparse(X, k, positive=True),
        "block": lambda: block_sparse(X, k),
        "block positive": lambda: block_sparse(X, k, positive=True),
        "gpower l1": lambda: gpower(X, 0.2 * top, "l1"),
        "gpower l0": lambda: gpower(X, 0.1 * top**2, "l0"),
        "gpower l1 positive": lambda: gpower(X, 0.2 * top, "l1", positive=True),
    }[name]()


SPARSE = (
    "sparse",
    "sparse positive",
    "block",
    "block positive",
    "gpower l1",
    "gpower l0",
    "gpower l1 positive",
)


def size_of(problem, W):
    """What the objective is a difference of.

    The robust one is in ``||x||^2 - ||y||^2``, whose rounding is that of the squares, seen through a
    square root and as much as 1e6 times larger: half of the digits of the rows.
    """
    size = abs(problem.G(W)) + abs(problem.F(problem.X @ W))
    losses = [f for f in (problem.F, problem.dual.F) if isinstance(f, RowLoss)]
    return size + sum(1e3 * abs(f(0 * f.alpha[:, None])) for f in losses)


def points(problem, W, steps, solver=None):
    """The start and the first iterates."""
    return [W, *(it.point.W for it in islice((solver or DCA())(problem, W), steps))]


def start_of(problem, s, rng):
    return problem.start(min(s, *problem.X.shape), rng)


def descends(problem, W, solver, steps=10, slack=1e-11):
    path = points(problem, W, steps, solver)
    values = np.array([problem.objective(V) for V in path])
    assert np.isfinite(values[1:]).all(), f"objectives {values}"
    sizes = max(size_of(problem, V) for V in path[1:])
    rise = np.diff(values[1:]).max(initial=0.0)
    if np.isfinite(values[0]):
        rise = max(rise, values[1] - values[0])
    assert rise <= slack * sizes, f"the objective rises by {rise / sizes:.1e} of its size: {values}"


@law("DCA descends on every formulation", few=30, many=500, data=small, name=letters)
def test_dca_never_raises_the_objective(data, name):
    problem = formulation(name, data.X)
    descends(problem, start_of(problem, data.s, data.rng), DCA())


@law(
    "Anderson and proximal gradient descend",
    few=20,
    many=300,
    data=small,
    name=letters,
    solver=st.sampled_from((Anderson(), ProximalGradient())),
)
def test_guarded_solvers_never_raise_the_objective(data, name, solver):
    problem = formulation(name, data.X)
    if isinstance(solver, ProximalGradient) and not problem.G.has_prox:
        return
    descends(problem, start_of(problem, data.s, data.rng), solver)


@law(
    "DCA and IRLS descend on every robust loss",
    few=25,
    many=400,
    data=small,
    loss=st.sampled_from(sorted(LOSSES)),
    solver=st.sampled_from((DCA(), IRLS(), Anderson())),
    weighted=st.booleans(),
)
def test_robust_losses_never_rise(data, loss, solver, weighted):
    X = data.X
    loss = as_loss(loss)
    loss = loss if loss.homogeneous else loss.at(float(np.abs(X).max()) or 1.0)
    mass = data.rng.integers(1, 4, data.N).astype(float) if weighted else None
    epsilon = 1e-3 * (float(np.median(np.linalg.norm(X, axis=1))) or 1.0)
    problem = robust(as_operator(X), epsilon, loss, mass)
    descends(problem, start_of(problem, data.s, data.rng), solver)


@law(
    "DCA descends on sparse problems",
    few=25,
    many=400,
    data=small,
    name=st.sampled_from(SPARSE),
    k=st.integers(1, 4),
)
def test_sparse_objectives_never_rise(data, name, k):
    X = data.X
    if not X.any():
        return
    problem = sparse_problem(name, X, min(k, data.d))
    s = 1 if name.startswith("sparse") else data.s
    descends(problem, start_of(problem, s, data.rng), DCA())


@law(
    "the gap between a point and its dual image is not negative",
    few=30,
    many=500,
    data=small,
    name=letters,
)
def test_the_duality_gap_is_not_negative(data, name):
    problem = formulation(name, data.X)
    W = start_of(problem, data.s, data.rng)
    for V in points(problem, W, 3):
        H = problem.to_dual(V)
        above, below = problem.objective(V), problem.dual.objective(H)
        slack = 1e-11 * (size_of(problem, V) + abs(below)) + 1e-300
        assert above >= below - slack, f"{above} below {below}"


@law(
    "the gap of sparse problems is not negative",
    data=small,
    name=st.sampled_from(SPARSE),
    k=st.integers(1, 4),
)
def test_the_duality_gap_of_sparse_problems_is_not_negative(data, name, k):
    X = data.X
    if not X.any():
        return
    problem = sparse_problem(name, X, min(k, data.d))
    W = start_of(problem, 1 if name.startswith("sparse") else data.s, data.rng)
    for V in points(problem, W, 3):
        above, below = problem.objective(V), problem.dual.objective(problem.to_dual(V))
        assert above >= below - 1e-11 * (size_of(problem, V) + abs(below)), f"{above} {below}"


@law(
    "DCA ends at the closed-form optimum, with a gap of 0",
    few=30,
    many=400,
    data=datasets(rows=(4, 20), columns=(2, 12), kinds=("graded", "low_rank"), offsets=(0.0,)),
    name=st.sampled_from([a + b for a in PCA_LETTERS for b in ("", "T")]),
)
def test_the_optimum_is_that_of_lapack_and_the_gap_closes(data, name):
    """Strong duality, with transposes: value, dual value and closed form agree.

    ``tol`` speaks of spans. In (k) and (p) lengths matter too, and in (k) come nearer by a third a
    step: some more steps let them.
    """
    X = data.X
    sigma, s = np.linalg.svd(X, compute_uv=False), data.s
    problem = formulation(name, X)
    best = optimal_value(name, sigma, s)
    for one in (problem, problem.dual):
        W = solve(one, s=s, tol=1e-7, max_iter=5000, random_state=data.seed).W
        W = points(one, W, 30)[-1] if name[0] in "kphq" else W
        size = size_of(one, W)
        close(one.objective(W), best, 1e-9 * size, "the value and the optimum")
        image = one.dual.objective(one.to_dual(W))
        close(image, best, 1e-9 * size, "the dual value and the optimum")


@law("no feasible point is below the optimum", few=30, many=400, data=small, name=letters)
def test_no_point_is_below_the_optimum(data, name):
    if name.startswith(("robust", "sparse")):
        return
    X = data.X
    problem = formulation(name, X)
    s = min(data.s, *X.shape)
    best = optimal_value(name, np.linalg.svd(X, compute_uv=False), s)
    for W in points(problem, start_of(problem, s, data.rng), 4):
        assert problem.objective(W) >= best - 1e-11 * (size_of(problem, W) + abs(best))


@law("the dual of the dual is the problem", data=small, name=letters)
def test_the_dual_of_the_dual_has_the_same_values(data, name):
    problem = formulation(name, data.X)
    W = start_of(problem, data.s, data.rng)
    again = type(problem)(problem.G.conjugate.conjugate, problem.F.conjugate.conjugate, problem.X)
    close(again.objective(W), problem.objective(W), 1e-11 * size_of(problem, W))
    assert problem.dual.dual is problem


@law(
    "DCA commutes with rotations and permutations",
    few=30,
    many=500,
    data=small,
    name=letters,
    how=st.sampled_from(("columns", "rows", "order of rows")),
)
def test_dca_commutes_with_rotations(data, name, how):
    """Objectives of the iterates from starts that correspond; robust rows may only be permuted.

    The entrywise l1 norm of "sparse_l1" knows its coordinates, so that these may only be permuted.
    """
    X, (N, d) = data.X, (data.N, data.d)
    transposed, bare = name.endswith("T"), name.removesuffix("T")
    side = d if how == "columns" else N
    row_side = (how == "columns") == transposed  # whether this side has the rows of the problem
    fixed = (bare.startswith("robust") and row_side) or (bare == "sparse_l1" and not row_side)
    if fixed or how == "order of rows":
        Q = np.eye(side)[data.rng.permutation(side)]
    else:
        Q = turn(data.rng, side)
    other = X @ Q if how == "columns" else Q.T @ X
    problem, turned = formulation(name, X), formulation(name, other)
    W = start_of(problem, data.s, data.rng)
    on_columns = (bare in BY_COLUMN) != transposed
    W2 = Q.T @ W if on_columns == (how == "columns") else W
    for V, V2 in zip(points(problem, W, 5), points(turned, W2, 5), strict=True):
        slack = 1e-8 * (size_of(problem, V) + size_of(turned, V2)) + 1e-300
        close(problem.objective(V), turned.objective(V2), slack, "objectives")


@law("DCA scales with X", few=30, many=500, data=small, name=letters, power=st.integers(-20, 20))
def test_dca_scales_with_the_data(data, name, power):
    X, c = data.X, 2.0**power
    value, variable = DEGREES[name.removesuffix("T")]
    problem, scaled = formulation(name, X), formulation(name, c * X)
    W = start_of(problem, data.s, data.rng)
    for V, V2 in zip(points(problem, W, 5), points(scaled, c**variable * W, 5), strict=True):
        slack = 1e-9 * size_of(problem, V) + 1e-300
        close(problem.objective(V), scaled.objective(V2) / c**value, slack, "objectives")


@law(
    "DCA on K alone is DCA on X",
    few=20,
    many=200,
    data=datasets(rows=(2, 20), columns=(2, 8), kinds=("graded", "low_rank")),
    name=st.sampled_from([a for a in BY_COLUMN if a != "sparse_l1"]),
)
def test_kernelised_dca_is_dca(data, name):
    """From the axes of X, turned: K has the square of the condition of X, and its rounding."""
    X = data.X
    U, sigma, _ = np.linalg.svd(X, full_matrices=False)
    r = max(1, min(data.s, int((sigma > 0.05 * sigma[0]).sum())))
    K = Kernel.from_matrix(X @ X.T)
    A = U[:, :r] / sigma[:r] @ turn(data.rng, r) * 0.9
    problem, kernel = formulation(name, X), formulation(name, K)
    pairs = zip(points(problem, X.T @ A, 4), points(kernel, K.rmatmul(A), 4), strict=True)
    for V, V2 in pairs:
        slack = 1e-6 * size_of(problem, V) + 1e-300
        close(problem.objective(V), kernel.objective(V2), slack, "objectives")


@law(
    "a robust row of mass m is the row m times",
    data=small,
    loss=st.sampled_from(sorted(LOSSES)),
)
def test_mass_is_repetition_in_the_robust_objective(data, loss):
    X = data.X
    loss = as_loss(loss)
    loss = loss if loss.homogeneous else loss.at(float(np.abs(X).max()) or 1.0)
    m = data.rng.integers(1, 4, data.N)
    epsilon = 1e-3 * (float(np.abs(X).max()) or 1.0)
    one = robust(as_operator(X), epsilon, loss, m.astype(float))
    many = robust(as_operator(np.repeat(X, m, axis=0)), epsilon, loss)
    W = start_of(one, data.s, data.rng)
    for _ in range(3):
        (F, Z), (F2, Z2) = one.pullback(W), many.pullback(W)
        close(F, F2, 1e-10 * abs(F2) + 1e-300, "values")
        close(Z, Z2, 1e-9 * np.abs(Z2).max() + 1e-300, "pullbacks")
        W = one.G.conjugate.subgradient(Z)


WITHOUT_EMPTY_COLUMNS = ("gaussian", "graded", "pairs", "heavy", "low_rank", "unlike_columns")


def test_sparse_dca_leaves_a_start_that_sees_nothing():
    X = np.zeros((3, 6))
    X[:, 1] = 1.0, -1.0, 2.0
    found = [solve(sparse(X, 1), s=1, random_state=seed) for seed in range(10)]
    assert all(result.objective < 0 for result in found if result.converged)


@law(
    "k-sparse DCA: k nonzeros, not below the best support",
    few=20,
    many=300,
    data=datasets(rows=(3, 20), columns=(2, 7), kinds=WITHOUT_EMPTY_COLUMNS),
    k=st.integers(1, 4),
)
def test_sparse_dca_is_not_below_the_best_support(data, k):
    X = data.X - data.X.mean(axis=0)
    k = min(k, data.d)
    C = X.T @ X
    if not C.any():
        return
    best = max(np.linalg.eigvalsh(C[np.ix_(S, S)])[-1] for S in combinations(range(data.d), k))
    with quiet("DCA stopped"):
        result = solve(sparse(X, k), s=1, tol=1e-9, max_iter=300, random_state=data.seed)
    assert np.count_nonzero(result.W) <= k
    assert result.objective >= -0.5 * best * (1 + 1e-10)
    # A unit vector with these nonzeros holds no more than the leading one of its support.
    S = np.flatnonzero(result.W[:, 0])
    top = np.linalg.eigvalsh(C[np.ix_(S, S)])[-1]
    assert result.objective >= -0.5 * top * (1 + 1e-10) - 1e-300
    if result.converged and result.residual == 0:
        w = result.W[:, 0]
        close(C @ w * (w != 0), (w @ C @ w) * w, 1e-6 * best, "fixed points")


@pytest.mark.parametrize("letter", sorted(CLASSICAL))
@law(
    "no feasible point is below a classical minimiser",
    few=6,
    many=60,
    data=datasets(rows=(3, 15), columns=(2, 10), offsets=(0.0,)),
)
def test_the_classical_boxes_have_the_minimisers_they_name(letter, data):
    """And turning the minimiser's factors by one rotation leaves the value, where there are factors."""
    X, s, box = data.X, data.s, CLASSICAL[letter]
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    best = box.minimizer(U[:, :s], sigma[:s], Vt[:s].T)
    value = box.objective(X, *best)
    size = max(sigma[0] ** (2 if letter in "abcef" else 4), 1e-300) * len(sigma)
    for step in (1e-3, 0.3, 3.0):
        moved = [v + step * np.abs(v).max() * data.rng.standard_normal(v.shape) for v in best]
        if box.constraint.startswith("rank"):
            P, sv, Qt = np.linalg.svd(moved[0], full_matrices=False)
            moved = [(P[:, :s] * sv[:s]) @ Qt[:s]]
        elif box.constraint != "none":
            which = 0 if box.constraint.startswith("H") else len(moved) - 1
            moved[which] = np.linalg.qr(moved[which])[0]
        assert box.objective(X, *moved) >= value - SLACK * 1e-15 * size
