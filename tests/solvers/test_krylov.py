"""Block Krylov: exactness on every spectrum, and a certificate that is never below the truth."""

import numpy as np
import pytest
from spectra import gaussian, matrix, spectra

from dualpca import as_operator
from dualpca.operators import Blocks, Kernel, Matrix
from dualpca.solvers.spectral.krylov import Krylov
from dualpca.solvers.spectral.lanczos import Lanczos


def run(A, s, tol, seed=0, max_passes=1000, **options):
    X = as_operator(A)
    X = X if X.shape[1] <= X.shape[0] else X.T
    return Krylov(**options).eigenvectors(X, s, tol=tol, seed=seed, max_passes=max_passes)


def judge(A, V):
    """The relative residual and the captured variance, from scratch in float64."""
    A = np.asarray(A, dtype=np.float64)
    A = A if A.shape[1] == V.shape[0] else A.T
    Q = np.linalg.qr(np.asarray(V, dtype=np.float64))[0]
    Z = A.T @ (A @ Q)
    return np.linalg.norm(Z - Q @ (Q.T @ Z)) / np.linalg.norm(Z), np.linalg.norm(A @ Q) ** 2


@pytest.mark.parametrize("name", [*spectra(), "gaussian"])
@pytest.mark.parametrize("s", [1, 7, 20])
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("side", ["tall", "wide"])
def test_reaches_what_was_asked(name, s, tol, side):
    A = gaussian(3) if name == "gaussian" else matrix(spectra()[name], 3)
    A = A if side == "tall" else A.T
    sigma = np.linalg.svd(A, compute_uv=False)
    result = run(A, s, tol)
    residual, captured = judge(A, result.ritz.V)
    assert result.converged
    assert residual <= tol + 1e-12
    assert residual == pytest.approx(result.ritz.residual, abs=1e-12, rel=1e-3)
    total = np.sum(sigma[:s] ** 2)
    assert total - captured <= result.shortfall() * total + 1e-13 * total
    np.testing.assert_allclose(result.ritz.theta.sum(), captured, rtol=1e-12)
    np.testing.assert_allclose(result.ritz.V.T @ result.ritz.V, np.eye(s), atol=1e-12)


@pytest.mark.slow
def test_certificate_on_many_matrices():
    # 9 spectra and Gaussians, 4 seeds, 4 sizes of s, 4 tolerances: 640 runs, stopped early and late.
    ratios, below, count = [], [], 0
    for seed in range(4):
        cases = {name: matrix(sigma, 10 * seed + 7) for name, sigma in spectra().items()}
        cases["gaussian"] = gaussian(seed)
        for name, A in cases.items():
            sigma2 = np.linalg.svd(A, compute_uv=False) ** 2
            for s in (1, 5, 12, 20):
                total = sigma2[:s].sum()
                for tol in (1e-1, 1e-2, 1e-4, 1e-7):
                    result = run(A, s, tol, seed=seed, block=4 if seed % 2 else 8)
                    _, captured = judge(A, result.ritz.V)
                    truth = (total - captured) / total
                    count += 1
                    if truth > result.shortfall() + 1e-13:
                        below.append((name, seed, s, tol, truth, result.shortfall()))
                    if truth > 1e-12:
                        ratios.append(result.shortfall() / truth)
    assert count >= 500
    assert not below
    assert len(ratios) > 100
    assert np.median(ratios) <= 100


@pytest.mark.parametrize("block", [1, 2, 8])
def test_multiplicity_above_the_block_is_found(block):
    A = matrix(spectra(300)["ties"], 0, (400, 300))
    assert run(A, 20, 1e-6, block=block).ritz.theta == pytest.approx(np.full(20, 25.0))
    assert run(A, 20, 1e-2, block=block).ritz.theta.sum() >= (1 - 1e-3) * 500
    blind = run(A, 20, 1e-2, block=block, verify=False)
    assert blind.ritz.theta.sum() < 0.9 * 500  # without the remedy most of it is missed


def test_s_above_the_rank_gives_an_orthonormal_basis():
    A = matrix(np.array([3.0, 2.0, 1.0]), 0)
    result = run(A, 8, 1e-8)
    np.testing.assert_allclose(result.ritz.theta, [9, 4, 1, 0, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(result.ritz.V.T @ result.ritz.V, np.eye(8), atol=1e-12)
    zero = run(np.zeros((20, 10)), 3, 1e-8)
    np.testing.assert_array_equal(zero.ritz.theta, 0)
    assert zero.shortfall() == 0


def test_s_up_to_the_full_dimension():
    A = gaussian(0, (30, 20))
    result = run(A, 20, 1e-10)
    np.testing.assert_allclose(
        result.ritz.theta, np.linalg.svd(A, compute_uv=False) ** 2, rtol=1e-10
    )


def test_thick_restart_bounds_the_basis_and_still_converges():
    A = gaussian(1, (400, 300))
    sigma = np.linalg.svd(A, compute_uv=False)
    small = run(A, 5, 1e-8, basis=40)
    large = run(A, 5, 1e-8, basis=300)
    np.testing.assert_allclose(small.ritz.theta, sigma[:5] ** 2, rtol=1e-12)
    assert small.steps > large.steps


def test_one_pass_a_step_on_every_operator():
    A = gaussian(2)
    K = Kernel.from_matrix(A @ A.T)
    for X in (as_operator(A), Blocks([A[:50], A[50:]]), K.T):
        before = X.passes
        result = Krylov().eigenvectors(X, 4, tol=1e-6, seed=0)
        assert X.passes - before == result.steps
        np.testing.assert_allclose(
            result.ritz.theta, np.linalg.svd(A, compute_uv=False)[:4] ** 2, rtol=1e-9
        )


def test_giving_up_is_said():
    result = run(gaussian(0), 10, 1e-12, max_passes=4)
    assert not result.converged
    residual, captured = judge(gaussian(0), result.ritz.V)
    assert residual == pytest.approx(result.ritz.residual, rel=1e-6)
    assert captured == pytest.approx(result.ritz.theta.sum())


@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_backends(backend, dtype):
    module = pytest.importorskip(backend)
    A = matrix(spectra()["decay"], 1).astype(dtype)
    tol = 1e-8 if dtype == "float64" else 1e-4
    result = run(module.asarray(A.copy()), 6, tol)
    assert str(result.ritz.V.dtype).endswith(dtype)
    residual, captured = judge(A, result.ritz.V)
    assert residual <= 1.1 * tol
    assert captured == pytest.approx(np.sum(spectra()["decay"][:6] ** 2), rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_the_residual_tells_what_a_block_without_room_leaves(dtype, tol):
    """40 columns take two blocks of 16, and half of a third; the numerical rank is less."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, 40)))[0] for n in (50, 40))
    A = ((U * 10.0 ** -(np.linspace(0, 12, 40) ** 0.6)) @ V.T).astype(dtype)
    C = A.astype(float).T @ A.astype(float)
    for seed in range(60):
        found = Krylov().eigenvectors(as_operator(A), 3, tol=tol, seed=seed)
        W = found.ritz.V.astype(float)
        true = np.linalg.norm(C @ W - W * found.ritz.theta, axis=0)
        assert (
            true <= 1.02 * found.ritz.residuals + 8 * np.finfo(dtype).eps * found.ritz.theta[0]
        ).all()
        Q, R = found.remainder
        assert Q.shape[1] == R.shape[0]


def test_half_step_stays_below_the_gram_matrix():
    """N <= C in the order of matrices, and the trace of N rises with every step."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((60, 40)) * 0.8 ** np.arange(40)
    basis = Lanczos(Matrix(A), np.zeros((40, 1)), 30, rng)
    basis.begin(rng.standard_normal((40, 5)))
    C, before = A.T @ A, 0.0
    for _ in range(4):
        basis.expand()
        N, rounding = basis.half_step(float(np.linalg.norm(C, 2)))
        V = np.hstack([basis.V[:, : basis.m], basis.Q])
        excess = np.linalg.eigvalsh(C - V @ N @ V.T)
        assert excess[0] >= -1e-12 * np.trace(C)
        assert 0 <= rounding <= 1e-6 * np.trace(C)
        assert np.trace(N) >= before
        before = np.trace(N)
    assert before == pytest.approx(np.trace(C), rel=1e-3)


@pytest.mark.parametrize("shape", [(900, 300), (300, 900)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_a_fast_spectrum_is_certified_by_its_sketch(shape, dtype, seed):
    """No look at the complement: the energy that the sketch leaves bounds what is missed."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, 300)))[0] for n in shape)
    sigma = 100 * 0.7 ** np.arange(300)
    X = Matrix(((U * sigma) @ V.T).astype(dtype))
    result = Krylov()(X, 10, tol=5e-2, seed=seed, energy=float((sigma**2).sum()))
    W, best = result.ritz.V.astype(float), float((sigma[:10] ** 2).sum())
    captured = float(np.linalg.norm(X.data.astype(float) @ W) ** 2)
    assert result.certificate.coupling is None
    assert result.steps == 1
    assert 1 - captured / best <= result.shortfall() <= 5e-2
    assert float(result.ritz.theta.sum()) == pytest.approx(captured, rel=1e-5)
    R = X.data.T.astype(float) @ (X.data.astype(float) @ W) - W * result.ritz.theta
    assert np.linalg.norm(R) <= 1.01 * np.linalg.norm(result.ritz.residuals)


@pytest.mark.parametrize("seed", range(3))
def test_no_look_is_begun_in_vain(seed):
    """Beside a large first singular value the residual is small before the others are certified."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, 800)))[0] for n in (1000, 800))
    sigma = np.r_[30.0, np.arange(1, 800) ** -0.25]
    X, energy = Matrix((U * sigma) @ V.T), float((sigma**2).sum())
    results = {
        tol: Krylov()(X, 30, tol=tol, seed=seed, energy=energy) for tol in (1e-3, 1e-4, 1e-5)
    }
    for tol, result in results.items():
        assert result.shortfall() <= tol
        assert result.steps <= 20


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_verify_no_pass_is_made_for_the_certificate(dtype):
    A = np.random.default_rng(0).standard_normal((400, 300)).astype(dtype)
    energy = float((A.astype(float) ** 2).sum())
    with_look, without = (
        Krylov(verify=verify)(Matrix(A), 5, tol=1e-2, seed=0, energy=energy)
        for verify in (True, False)
    )
    assert without.steps < with_look.steps
    assert without.ritz.residual <= 1e-2
    assert without.shortfall(5) > with_look.shortfall(5)
