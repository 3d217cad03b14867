"""Duality, closed-form optima and the catalogue, over every formulation of the paper."""

import math

import numpy as np
import pytest

from dualpca import FORMULATIONS, DCProblem, as_operator, solve
from dualpca.formulations import CLASSICAL, formulation, optimal_value, robust
from dualpca.functions import Ball, HalfSquare, KyFan, Lp, Power, Spectral
from dualpca.operators import Kernel
from dualpca.solvers import DCA

PCA_LETTERS = [name for name in FORMULATIONS if not name.startswith(("robust", "sparse"))]
LETTERS = list(FORMULATIONS)
ALL = LETTERS + [name + "T" for name in LETTERS]
# The residual of solve is that of singular vectors; test_sparse_functions has the sparse problem's.
SOLVED = [name for name in ALL if not name.startswith("sparse")]


def data(seed=0, N=40, d=25):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, d)) * 0.8 ** np.arange(d)


def point(problem, s, seed):
    """A point of the domain of G that is no stationary point."""
    return problem.start(s, seed) * 0.9


@pytest.mark.parametrize("name", SOLVED)
@pytest.mark.parametrize("s", [1, 3])
def test_weak_duality_and_equality_at_mapped_solutions(name, s):
    problem = formulation(name, as_operator(data()))
    H = problem.to_dual(point(problem, s, 1))
    W = problem.to_primal(H)
    # Each map descends: G(W+) - F(XW+) <= F*(H) - G*(X^T H) <= G(W) - F(XW).
    upper = problem.objective(point(problem, s, 1))
    middle = problem.dual.objective(H)
    lower = problem.objective(W)
    slack = 1e-10 * (1 + abs(upper))
    assert lower <= middle + slack
    assert middle <= upper + slack
    solution = solve(problem, s=s, tol=1e-9, max_iter=20000, random_state=0).W
    primal, dual = problem.objective(solution), problem.dual.objective(problem.to_dual(solution))
    # A robust solution fits some rows exactly, where dF is as large as 1/epsilon.
    accuracy = 1e-8 if "robust" in name else 1e-10
    assert dual == pytest.approx(primal, rel=accuracy)
    back = problem.objective(problem.to_primal(problem.to_dual(solution)))
    assert back == pytest.approx(primal, rel=accuracy)


@pytest.mark.parametrize("name", ALL)
def test_dual_of_dual_is_the_original(name):
    problem = formulation(name, as_operator(data()))
    again = problem.dual.dual
    assert again is problem
    fresh = DCProblem(problem.dual.F.conjugate, problem.dual.G.conjugate, problem.dual.X.T)
    assert fresh.X is problem.X
    W = point(problem, 3, 0)
    assert fresh.objective(W) == pytest.approx(problem.objective(W), rel=1e-12)


@pytest.mark.parametrize("name", PCA_LETTERS + [n + "T" for n in PCA_LETTERS])
@pytest.mark.parametrize("shape", [(40, 25), (25, 40), (30, 30)])
def test_dca_reaches_the_closed_form_optimum(name, shape):
    A = data(2, *shape)
    sigma = np.linalg.svd(A, compute_uv=False)
    s = 4
    expected = optimal_value(name, sigma, s)
    problem = formulation(name, as_operator(A))
    result = solve(problem, s=s, tol=1e-7, max_iter=20000, random_state=3)
    assert result.objective == pytest.approx(expected, rel=1e-10)
    dual = solve(problem.dual, s=s, tol=1e-7, max_iter=20000, random_state=3)
    assert dual.objective == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["m", "o", "q", "holder_dual", "mT", "oT", "qT", "holder_dualT"])
def test_the_literal_dual_loop_reaches_it_too(name):
    # solve() runs DCA on a dual as its primal; here the dual iterates themselves.
    A = data(2)
    problem = formulation(name, as_operator(A))
    iterates = DCA()(problem, problem.start(4, 3))
    value = [next(iterates).point.objective for _ in range(400)][-1]
    expected = optimal_value(name, np.linalg.svd(A, compute_uv=False), 4)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", PCA_LETTERS)
def test_no_point_is_below_the_closed_form_optimum(name):
    A = data(5)
    problem = formulation(name, as_operator(A))
    optimum = optimal_value(name, np.linalg.svd(A, compute_uv=False), 3)
    for seed in range(20):
        W = problem.start(3, seed) * np.random.default_rng(seed).uniform(0.1, 1.0)
        assert problem.objective(W) >= optimum * (1 + 1e-12)


@pytest.mark.parametrize("name", ALL)
def test_dca_descends(name):
    problem = formulation(name, as_operator(data(7)))
    values = [problem.objective(W0 := problem.start(3, 7))]
    for _, iterate in zip(range(15), DCA()(problem, W0), strict=False):
        values.append(iterate.point.objective)
    # The conjugate of a row loss is a square root near its end, where half of the digits are lost.
    rounding = 1e-8 if name.startswith("robust_dual") else 1e-11
    assert np.all(np.diff(values) <= rounding * np.abs(values[1:]))


@pytest.mark.parametrize("name", PCA_LETTERS)
def test_kernel_version_has_the_same_optimum_from_K_alone(name):
    A = data(4)
    sigma = np.linalg.svd(A, compute_uv=False)
    for name_ in (name, name + "T"):
        problem = formulation(name_, Kernel.from_matrix(A @ A.T))
        result = solve(problem, s=3, tol=1e-6, random_state=0, max_iter=20000)
        assert result.objective == pytest.approx(optimal_value(name_, sigma, 3), rel=1e-10)


@pytest.mark.parametrize("letter", sorted(CLASSICAL))
@pytest.mark.parametrize("transpose", [False, True])
def test_classical_boxes(letter, transpose):
    A = data(1, 12, 8)
    A = A.T if transpose else A
    s = 3
    box = CLASSICAL[letter]
    U, sigma, Vt = np.linalg.svd(A, full_matrices=False)
    variables = box.minimizer(U[:, :s], sigma[:s], Vt[:s].T)
    best = box.objective(A, *variables)
    tail = {"h": np.sum(sigma[s:] ** 4), "i": np.sum(sigma[s:] ** 4)}
    expected = tail.get(letter, np.sum(sigma[s:] ** 2))
    if letter == "j":
        expected = -0.5 * np.sum(sigma[:s] ** 4)
    assert best == pytest.approx(expected, rel=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(30):
        other = [_feasible(box.constraint, i, v, rng, s) for i, v in enumerate(variables)]
        assert box.objective(A, *other) >= best * (1 - 1e-12) - 1e-12
    for name, variable in zip("WH", variables[::-1], strict=False):
        if box.constraint == f"{name}^T {name} = I":
            np.testing.assert_allclose(variable.T @ variable, np.eye(s), atol=1e-12)


def _feasible(constraint, index, variable, rng, s):
    noise = variable + 0.3 * rng.standard_normal(variable.shape)
    if constraint.startswith("rank"):
        U, sigma, Vt = np.linalg.svd(noise, full_matrices=False)
        return (U[:, :s] * sigma[:s]) @ Vt[:s]
    orthonormal = {"W^T W = I": -1, "H^T H = I": 0}.get(constraint)
    if orthonormal is not None and variable.shape[1] == s and _is_orthonormal(variable):
        return np.linalg.qr(noise)[0]
    return noise


def _is_orthonormal(V):
    return np.allclose(V.T @ V, np.eye(V.shape[1]))


def test_j_is_twice_k():
    A = data(0, 12, 8)
    W = np.random.default_rng(0).standard_normal((8, 3))
    k = formulation("k", A).objective(W)
    assert CLASSICAL["j"].objective(A, W) == pytest.approx(2 * k, rel=1e-12)


def test_robust_objective_is_the_sum_of_reconstruction_errors_where_W_is_orthonormal():
    A = data(3)
    problem = robust(as_operator(A), epsilon=0.0)
    W = np.linalg.qr(np.random.default_rng(0).standard_normal((25, 3)))[0]
    expected = np.sum(np.linalg.norm(A - A @ W @ W.T, axis=1))
    assert problem.objective(W) == pytest.approx(expected, rel=1e-10)
    H = np.random.default_rng(1).standard_normal((40, 3))
    dual = np.sum(np.linalg.norm(A, axis=1) * np.sqrt(1 + np.sum(H**2, axis=1)))
    dual -= np.linalg.svd(A.T @ H, compute_uv=False).sum()
    assert problem.dual.objective(H) == pytest.approx(dual, rel=1e-10)


def test_a_new_unitarily_invariant_objective_gets_everything():
    # Ky Fan: maximise ||XW||_F over the ball of the dual Ky Fan norm; k = s is the spectral ball.
    A, s = data(6), 3
    X = as_operator(A)
    problem = DCProblem(Spectral(Ball(KyFan(s).dual)), HalfSquare(Lp(2)), X)
    sigma = np.linalg.svd(A, compute_uv=False)
    expected = -0.5 * np.sum(sigma[:s] ** 2)
    assert solve(problem, s=s, tol=1e-7, random_state=0).objective == pytest.approx(expected)
    kernel = DCProblem(problem.G, problem.F, Kernel.from_matrix(A @ A.T))
    assert solve(kernel, s=s, tol=1e-6, random_state=0).objective == pytest.approx(expected)
    # With k = 2 < s the ball is smaller: at most two unit singular values.
    small = DCProblem(Spectral(Ball(KyFan(2).dual)), HalfSquare(Lp(2)), X)
    value = solve(small, s=s, tol=1e-7, random_state=0).objective
    assert value == pytest.approx(-0.5 * np.sum(sigma[:2] ** 2), rel=1e-8)


@pytest.mark.parametrize("G", [Ball(Lp(1)), Lp(1), HalfSquare(Lp(math.inf)), Power(4)])
def test_kernel_version_of_what_is_not_invariant_cites_the_proposition(G):
    K = Kernel.from_matrix(np.eye(5))
    with pytest.raises(ValueError, match=r"not unitarily invariant.*Proposition 3\.5"):
        DCProblem(G, HalfSquare(Lp(2)), K)
    with pytest.raises(ValueError, match=r"Proposition 3\.5"):
        DCProblem(HalfSquare(Lp(2)), G, K.T)


@pytest.mark.parametrize("name", ["z", "TT", "", "L", 3, None])
def test_unknown_letter(name):
    with pytest.raises(ValueError, match=r"formulation=.* is not in the catalogue; choose one of"):
        formulation(name, np.eye(3))


def test_optimal_value_has_none_for_the_robust_problems():
    with pytest.raises(ValueError, match="no closed-form optimum"):
        optimal_value("robust", np.ones(3), 2)
