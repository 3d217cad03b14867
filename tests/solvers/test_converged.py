"""``converged`` speaks of the objective: of the scale of W as well as of its span."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dualpca import FORMULATIONS, DCProblem, as_operator, solve
from dualpca.formulations import formulation, optimal_value
from dualpca.functions import HalfSquare, KyFan, Lp, Power, Spectral

LETTERS = [name for name in FORMULATIONS if not name.startswith(("robust", "sparse"))]
SOLVERS = ("dca", "anderson", "proximal_gradient", "zerofpr")

#: An objective is within this many times ``tol`` of the optimum, relative to it.
BOUND = 5.0


def data(shape, seed=0):
    return 5 * np.random.default_rng(seed).standard_normal(shape)


def checked(problem, solver, s, tol, optimum):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = solve(problem, solver, s=s, tol=tol, max_iter=2000, random_state=0)
    error = (result.objective - optimum) / max(abs(optimum), 1e-300)
    assert error >= -1e-9
    if result.converged:
        assert error <= BOUND * tol + 1e-13, (s, tol, error)
    return result.converged


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("letter", [*LETTERS, "nT", "pT", "kT", "holder_dualT"])
def test_converged_means_near_the_optimum(letter, solver):
    converged = []
    for shape in ((50, 9), (9, 50), (60, 20)):
        A = data(shape)
        sigma = np.linalg.svd(A, compute_uv=False)
        for s in (1, 3, 9):
            for tol in (1e-2, 1e-4, 1e-8):
                problem, optimum = formulation(letter, A), optimal_value(letter, sigma, s)
                converged.append(checked(problem, solver, s, tol, optimum))
    # Proximal gradient on the duals of (k) is slow.
    assert np.mean(converged) >= (0.5 if solver == "proximal_gradient" else 0.9)


def test_all_columns_of_k_are_not_solved_by_their_span():
    A = data((50, 9))
    optimum = -0.25 * np.sum(np.linalg.svd(A, compute_uv=False) ** 4)
    for letter in ("k", "holder_dual"):
        result = solve(formulation(letter, A), s=9, tol=1e-8, random_state=0)
        assert result.converged
        assert result.objective == pytest.approx(optimum, rel=1e-8)


def soft_threshold(gamma):
    """``t^4/4 + gamma t^2/2`` of the singular values."""
    return Spectral(Power(4)) + gamma * Spectral(Power(2))


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dual", [False, True])
def test_a_soft_threshold_of_eigenvalues_chooses_the_rank(solver, dual):
    """The minimiser has ``W W^T = V (Lambda - gamma)_+ V^T``."""
    A = data((40, 12), seed=3)
    values = np.linalg.svd(A, compute_uv=False) ** 2
    for gamma in (1e-3, 0.5 * (values[3] + values[4]), 0.5 * (values[0] + values[1])):
        problem = DCProblem(soft_threshold(gamma), HalfSquare(Lp(2)), as_operator(A))
        for s in (2, 6):
            kept = np.clip(values[:s] - gamma, 0.0, None)
            optimum = -0.25 * float(np.sum(kept**2))
            for tol in (1e-2, 1e-4, 1e-6):
                checked(problem.dual if dual else problem, solver, s, tol, optimum)
    if not dual:
        result = solve(problem, solver, s=6, tol=1e-6, max_iter=20_000, random_state=0)
        assert result.converged
        np.testing.assert_allclose(
            np.linalg.svd(result.W, compute_uv=False)[:6] ** 2, kept, atol=1e-3 * kept[0]
        )


def test_a_threshold_above_all_eigenvalues_leaves_nothing():
    A = data((40, 12))
    gamma = 2 * np.linalg.norm(A, 2) ** 2
    problem = DCProblem(soft_threshold(gamma), HalfSquare(Lp(2)), as_operator(A))
    for solver in SOLVERS:
        result = solve(problem, solver, s=3, tol=1e-4, max_iter=3000, random_state=0)
        assert np.abs(result.W).max() < 1e-8


@pytest.mark.parametrize("letter", ["k", "p", "m"])
def test_simultaneous_iteration_refuses_a_scale_it_cannot_find(letter):
    with pytest.raises(ValueError, match=r"SimultaneousIteration\(\) finds a span.*solver='dca'"):
        solve(formulation(letter, data((20, 5))), "simultaneous", s=2)


def test_sums_without_a_cheap_conjugate_are_refused():
    with pytest.raises(TypeError, match=r"no cheap conjugate.*Power\(2\)"):
        Spectral(Power(4)) + Spectral(Power(3))
    with pytest.raises(TypeError):
        Power(4) + 1
    with pytest.raises(ValueError, match=r"c=-1.0 is out of range"):
        -1.0 * Power(4)
    with pytest.raises(TypeError, match="no proximal map"):
        HalfSquare(KyFan(2)) + Power(2)
