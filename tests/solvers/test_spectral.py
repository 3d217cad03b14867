"""The protocol of spectral solvers: one call, one result, one entry of SPECTRAL."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dualpca import PCA, as_operator
from dualpca.linalg import orthonormalize
from dualpca.progress import Listener, listening
from dualpca.solvers import DCA, SPECTRAL, Krylov, SpectralSolver, SubspaceResult
from dualpca.solvers.spectral.lanczos import certify
from dualpca.solvers.spectral.ritz import ritz_pairs
from dualpca.solvers.subspace import FromDC, choose, leading_subspace


class Randomised(SpectralSolver):
    """The randomised SVD of Halko, Martinsson and Tropp, as a user would add it."""

    iterative = True

    def __call__(self, X, s, *, tol, seed, max_passes=1000, start=None, energy=math.inf):
        W = np.random.default_rng(seed).standard_normal((X.shape[1], s + 10))
        for _ in range(4):
            W = orthonormalize(X.sweep(W))
        ritz, image = ritz_pairs(X, W)
        certificate = certify(X, ritz, image, s, tol=tol, energy=energy, seed=seed + 1)
        return SubspaceResult(ritz.leading(s).signed(), certificate, 4)

    def cost(self, X, s, tol, energy):
        return 0.0


def data(shape=(300, 60)):
    return np.random.default_rng(0).standard_normal(shape) * 0.8 ** np.arange(shape[1])


@pytest.mark.parametrize("shape", [(300, 60), (60, 300)])
@pytest.mark.parametrize("solver", [*SPECTRAL.values(), Krylov(block=4), FromDC(DCA())])
def test_every_solver_returns_the_same_result(solver, shape):
    A = data(shape)
    X, sigma = as_operator(A), np.linalg.svd(A, compute_uv=False)
    energy = X.energy()
    result = solver(X, 4, tol=1e-6, seed=0, energy=energy)
    assert isinstance(result, SubspaceResult)
    assert result.ritz.V.shape == (shape[1], 4)
    assert_allclose(result.ritz.theta, sigma[:4] ** 2, rtol=1e-10)
    assert result.ritz.residual <= 1e-6
    captured = np.linalg.norm(A @ result.ritz.V) ** 2
    assert np.sum(sigma[:4] ** 2) <= captured * (1 + result.shortfall()) * (1 + 1e-12)
    assert solver.cost(X, 4, 1e-6, energy) > 0


def test_a_solver_of_the_user_is_one_class_and_one_entry(monkeypatch):
    A = data()
    exact = PCA(3, solver="lapack").fit(A)
    model = PCA(3, solver=Randomised(), tol=1e-3, random_state=0).fit(A)
    assert model.solver_ == "Randomised: as asked"
    assert_allclose(model.components_, exact.components_, atol=1e-4)
    assert model.variance_shortfall_ <= 1e-3
    monkeypatch.setitem(SPECTRAL, "randomised", Randomised())
    X = as_operator(A)
    name, why = choose(X, 3, dense=False, tol=1e-3, energy=X.energy())
    assert name == "randomised"
    assert "randomised 0 s" in why
    options = {"dense": False, "energy": X.energy(), "formulation": None, "tol": 1e-3}
    result = leading_subspace(X, 3, solver="auto", max_iter=9, seed=0, **options)
    assert result.note.startswith("randomised: estimated")


def test_a_start_is_taken_up():
    X = as_operator(data((60, 300)))
    exact = SPECTRAL["lapack"](X, 4, tol=0.0, seed=0)
    cold, warm = (
        Krylov(verify=False)(X, 4, tol=1e-9, seed=0, start=start) for start in (None, exact.ritz.V)
    )
    assert warm.steps < cold.steps
    assert warm.ritz.residual <= 1e-9


def test_a_step_of_a_certificate_is_a_shortfall():
    class Log(Listener):
        def __init__(self):
            self.steps = []

        def step(self, step):
            self.steps.append(step)

    log = Log()
    with listening(log):
        PCA(5, solver="krylov", tol=1e-2, random_state=0).fit(
            np.random.default_rng(0).standard_normal((900, 400))
        )
    certificates = [step for step in log.steps if step.phase == "certificate"]
    assert certificates
    for step in log.steps:
        assert step.quantity == ("shortfall" if step in certificates else "residual")
        assert step.value > 0
        assert math.isnan(step.residual) == (step.quantity == "shortfall")
