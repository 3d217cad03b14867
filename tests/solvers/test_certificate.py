"""The certificate: never below the truth, whatever repeats in the spectrum, for every solver."""

import os
import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import hadamard
from sklearn.exceptions import ConvergenceWarning

from dualpca import PCA, as_operator
from dualpca.solvers.spectral import ritz
from dualpca.solvers.spectral.certificate import Certificate, ceiling_of, leading_ceilings
from dualpca.solvers.spectral.krylov import Krylov

N, D = 700, 600
PARTS = 8
RUNS = 2000 if "TORTURE" in os.environ else 400
SOLVERS = (
    "auto",
    "krylov",
    "gram",
    "chebyshev",
    "lapack",
    "dca",
    "anderson",
    "simultaneous",
    "zerofpr",
)


@cache
def bases():
    """Orthonormal U and V; the columns of U sum to 0, so that centring changes nothing."""
    rng = np.random.default_rng(0)
    U = rng.standard_normal((N, D))
    return np.linalg.qr(U - U.mean(axis=0))[0], np.linalg.qr(rng.standard_normal((D, D)))[0]


def tied(rng):
    """Singular values that repeat 1 to 200 times, above others that follow close behind or far."""
    times = int(rng.choice([1, 2, 7, 15, 16, 17, 33, 40, 64, 100, 200]))
    gap = float(rng.choice([0.999, 0.99, 0.9, 0.5, 0.1]))
    above = int(rng.choice([0, 0, 1, 5]))
    rest = gap * np.linspace(1, 0, D - above - times) ** float(rng.choice([0.5, 1, 4]))
    if rng.random() < 0.3:  # a second tie behind the first
        rest[: rest.size // 3] = gap
    values = np.r_[np.linspace(5, 1.5, above), np.ones(times), rest]
    U, V = bases()
    return (U * np.sqrt(values)) @ V.T, times + above, values


def one_hot(rng):
    """Rows of an id, of which at most so many are kept."""
    most, full = int(rng.choice([3, 10])), int(rng.choice([20, 40, 120]))
    counts = np.r_[np.full(full, most), rng.integers(1, most, 180)]
    ids = rng.permutation(np.repeat(np.arange(counts.size), counts))
    rows = np.arange(ids.size)
    return sp.csr_array((np.ones(ids.size), (rows, ids)), shape=(ids.size, counts.size)), full, None


def block_constant(rng):
    """Groups of equal rows and columns: few distinct singular values, many of them zero."""
    group, size = int(rng.choice([10, 30, 60])), int(rng.choice([3, 5]))
    A = np.kron(np.eye(group), np.ones((size, size)))
    if rng.random() < 0.5:
        A[: group // 2] *= 0.95
    return A, group, None


KINDS = (tied, tied, tied, one_hot, block_constant)


def judged(A, components, s, center, values=None):
    """The relative shortfall in captured variance and the residual, from scratch in float64."""
    A = (A.toarray() if sp.issparse(A) else np.asarray(A)).astype(np.float64)
    A = A - A.mean(axis=0) if center else A
    values = np.linalg.eigvalsh(A.T @ A)[::-1] if values is None else values
    Q = np.linalg.qr(np.asarray(components, dtype=np.float64).T)[0]
    Z = A.T @ (A @ Q)
    residual = np.linalg.norm(Z - Q @ (Q.T @ Z)) / np.linalg.norm(Z)
    return 1 - np.linalg.norm(A @ Q) ** 2 / values[:s].sum(), residual


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, PARTS))]
)
def test_never_below_the_truth_and_right_to_tol(part):
    wrong = []
    for seed in range(part, RUNS, PARTS):
        rng = np.random.default_rng(seed)
        A, times, values = KINDS[int(rng.integers(len(KINDS)))](rng)
        dtype, center = rng.choice(["float32", "float64"]), bool(rng.random() < 0.5)
        tol = float(rng.choice([0.3, 0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-10]))
        near = [1, times // 2, times - 5, times, times + 1, times + 10, 20, 30]
        s = int(np.clip(rng.choice(near), 1, min(A.shape) - 1))
        solver = str(rng.choice(SOLVERS))
        if solver == "lapack" and sp.issparse(A):
            solver = "auto"
        first_order = solver in SOLVERS[5:]
        if first_order:  # slow where gaps are small
            tol, s = max(tol, 1e-3), min(s, 30)
        A, eps = A.astype(dtype), float(np.finfo(dtype).eps)
        model = PCA(s, solver=solver, tol=tol, center=center, max_iter=3000, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # rounding, and 3000 iterations
            model.fit(A)
        truth, residual = judged(A, model.components_, s, center, values)
        told = (seed, solver, s, times, tol, str(dtype), truth, model.variance_shortfall_)
        if truth > model.variance_shortfall_ + 20 * eps:
            wrong.append(("below the truth", *told))
        if residual > model.residual_ * 1.05 + 20 * eps:
            wrong.append(("a larger residual", *told))
        # Solvers of first order may stop beside another eigenvector, and the certificate says so.
        if truth > tol + 20 * eps and model.residual_ <= tol and not first_order:
            wrong.append(("not right to tol", *told))
    assert not wrong, wrong


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "gram", "krylov"])
@pytest.mark.parametrize("s", [20, 30, 40, 45])
def test_customers_at_a_limit(solver, s):
    """40 customers with 100 rows, others with fewer: the first 40 components have variance 100."""
    counts = np.r_[np.full(40, 100), np.random.default_rng(0).integers(1, 100, 700)]
    ids = np.repeat(np.arange(counts.size), counts)
    X = sp.csr_array((np.ones(ids.size), (np.arange(ids.size), ids)))
    model = PCA(s, center=False, solver=solver, random_state=0).fit(X)
    best = np.sort(counts)[::-1][:s]
    np.testing.assert_allclose(model.singular_values_**2, best, rtol=1e-3)
    captured = np.sum(counts * np.sum(model.components_**2, axis=0))
    assert 1 - captured / best.sum() <= model.variance_shortfall_ + 1e-14
    assert model.variance_shortfall_ <= 0.03


@pytest.mark.parametrize("tol", [0.1, 1e-4])
def test_products_of_which_one_is_frequent(tol):
    counts = np.full(20_000, 3)
    counts[7] = 15
    ids = np.repeat(np.arange(counts.size), counts)
    X = sp.csr_array((np.ones(ids.size), (np.arange(ids.size), ids)))
    model = PCA(5, center=False, tol=tol, random_state=0).fit(X)
    captured = np.sum(counts * np.sum(model.components_**2, axis=0))
    truth = 1 - captured / 27
    assert truth <= min(tol, model.variance_shortfall_ + 1e-14)


@pytest.mark.parametrize("solver", ["auto", "krylov"])
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("A", [np.eye(1024), hadamard(512).astype(float)], ids=["eye", "hadamard"])
def test_a_flat_spectrum_is_noticed(A, solver, tol, center):
    model = PCA(5, tol=tol, solver=solver, center=center, random_state=0).fit(A)
    assert model.n_passes_ <= 12
    assert model.residual_ <= tol
    assert model.variance_shortfall_ <= max(tol, 1e-5)
    assert judged(A, model.components_, 5, center)[0] <= model.variance_shortfall_


def test_fractions_and_paths_are_certified_for_as_many_as_they_keep():
    A, _, _ = tied(np.random.default_rng(4))
    for model in PCA(center=False, solver="krylov", random_state=0).path(A, [3, 10, 25]):
        s = model.n_components_
        assert judged(A, model.components_, s, False)[0] <= model.variance_shortfall_ + 1e-14
    model = PCA(0.3, center=False, solver="krylov", random_state=0).fit(A)
    truth, _ = judged(A, model.components_, model.n_components_, False)
    assert truth <= model.variance_shortfall_ + 1e-14


def test_a_run_that_cannot_tell_says_so():
    """With too few passes for a look at the complement, all that is left may be missing."""
    A = np.random.default_rng(0).standard_normal((N, D))
    energy = np.linalg.norm(A) ** 2
    found = Krylov().eigenvectors(as_operator(A), 8, tol=0.3, seed=0, max_passes=2, energy=energy)
    theta = found.certificate.theta
    assert found.shortfall() == pytest.approx((energy - theta.sum()) / theta[:8].sum(), rel=1e-6)
    blind = Krylov(verify=False)(as_operator(A), 8, tol=0.3, seed=0)
    assert blind.shortfall() == np.inf


def test_shortfall_by_hand():
    """s = 1: the larger eigenvalue of [[4, r], [r, mu]], or all of the energy that is left."""
    theta, r = np.array([4.0]), np.array([[0.1]])

    def larger(mu):
        return (4 + mu) / 2 + np.hypot((4 - mu) / 2, 0.1)

    for mu in (1.0, 3.9, 4.0, 4.5):
        expected = (larger(mu) - 4) / 4
        assert Certificate(theta, r, mu).shortfall(1) == pytest.approx(expected)
        assert Certificate.of_norms(theta, [0.1], ceiling=mu).shortfall(1) == pytest.approx(
            expected
        )
    assert Certificate(theta, r, np.inf, 4.001).shortfall(1) == pytest.approx(0.001 / 4)
    assert Certificate(theta, r).shortfall(1) == np.inf
    assert Certificate(theta, r, 1.0, floor=0.5).shortfall(1) == 0.5
    assert Certificate(0 * theta, r).shortfall(1) == 0
    assert Certificate(theta, 0 * r, 4.0).with_rounding(0.1).shortfall(1) == pytest.approx(
        (larger(4.1) - 4) / 4
    )


def test_a_coupling_too_small_to_matter_is_bounded_without_an_eigenproblem():
    """That bound is above the eigenvalues', and only one below the floor takes their place."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        theta = np.sort(rng.uniform(1, 2, 6))[::-1]
        K = 10.0 ** rng.uniform(-6, 0) * rng.standard_normal((4, 6))
        known = {"theta": theta, "coupling": K, "ceiling": float(rng.uniform(0, 0.99))}
        exact = Certificate(**known).shortfall(6)
        for floor in (1e-14, 1e-8, 1e-3, 1e3):
            bound = Certificate(**known, floor=floor).shortfall(6)
            assert exact * (1 - 1e-9) - 1e-14 <= bound <= max(exact * (1 + 1e-9), floor) + 1e-14


def test_eigenvalues_are_below_those_of_the_certificate():
    """For any split of a matrix: Weyl's inequality, sum by sum."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        k, m = rng.integers(1, 8, size=2)
        C = rng.standard_normal((k + m, k + m))
        C = C @ C.T
        theta, S = np.linalg.eigh(C[:k, :k])
        theta, S = theta[::-1], S[:, ::-1]
        known = Certificate(
            theta, C[k:, :k] @ S, np.linalg.eigvalsh(C[k:, k:])[-1] + 1e-12, np.trace(C)
        )
        values = np.linalg.eigvalsh(C)[::-1]
        for s in range(1, k + 1):
            missing = (values[:s].sum() - theta[:s].sum()) / theta[:s].sum()
            assert missing <= known.shortfall(s) * (1 + 1e-9) + 1e-12


def lanczos(values, rng, columns, steps):
    """Block Lanczos on Diag(values) from Gaussian vectors: T, R and the Gaussian matrix."""
    omega = rng.standard_normal((values.size, columns))
    U, R = np.linalg.qr(omega)
    basis = Q = U
    for _ in range(steps - 1):
        Z = values[:, None] * Q
        for _ in range(2):
            Z = Z - basis @ (basis.T @ Z)
        Q = np.linalg.qr(Z)[0]
        basis = np.hstack([basis, Q])
    return basis.T @ (values[:, None] * basis), R, omega


@pytest.mark.parametrize("failure", [0.5, 0.1, 1e-3])
def test_a_ceiling_fails_no_more_often_than_it_may(failure):
    """Over spectra of many kinds: the share of ceilings below the largest eigenvalue."""
    below, tight, count = 0, [], 400
    for seed in range(count):
        rng = np.random.default_rng(seed)
        columns, steps = int(rng.integers(1, 5)), int(rng.integers(3, 12))
        values = np.sort(rng.uniform(0, 1, 120) ** int(rng.choice([1, 4, 16])))
        if seed % 3 == 0:  # one eigenvalue stands out a little: the hardest to see
            values[-1] *= 1.2
        T, R, _ = lanczos(values, rng, columns, steps)
        xi, S = np.linalg.eigh(T)
        ceiling = ceiling_of(xi, S, R, columns, failure)
        below += ceiling < values[-1]
        tight.append(ceiling / values[-1])
    assert below <= count * failure + 4 * np.sqrt(count * failure * (1 - failure))
    assert np.median(tight) < 2


def test_a_ceiling_holds_wherever_the_gaussian_vectors_see_the_eigenvector():
    """Not by chance: it is exact mathematics once ``||v^T Omega||^2`` is at least the quantile."""
    from scipy.stats import chi2

    for seed in range(300):
        rng = np.random.default_rng(seed)
        columns, steps = int(rng.integers(1, 5)), int(rng.integers(2, 14))
        values = np.sort(rng.uniform(0, 1, 90) ** int(rng.choice([1, 4])))
        T, R, omega = lanczos(values, rng, columns, steps)
        xi, S = np.linalg.eigh(T)
        seen = float(omega[-1] @ omega[-1])
        failure = float(chi2.cdf(0.999 * seen, columns))
        assert ceiling_of(xi, S, R, columns, failure) >= values[-1] * (1 - 1e-12)


def ceilings_from_start(values, rng, s, columns, steps, failure_of):
    """``leading_ceilings`` of Diag(values); ``failure_of`` gets the least singular value."""
    omega = rng.standard_normal((values.size, columns))
    basis = np.linalg.qr(np.hstack([values[:, None] ** k * omega for k in range(steps)]))[0]
    T = basis.T @ (values[:, None] * basis)
    K = np.linalg.qr(values[:, None] * basis - basis @ T)[1]
    R = basis[:, :columns].T @ omega
    theta, S = np.linalg.eigh(T)
    given = {"steps": steps, "failure": failure_of(np.linalg.norm(omega[-s:], -2)), "rounding": 0.0}
    return leading_ceilings(T, K, R, theta[::-1][:s], S[:, ::-1][:, :s], **given)


def test_ceilings_hold_wherever_the_start_sees_all_leading_eigenvectors():
    """Not by chance: exact mathematics once the least singular value is at least its quantile."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        s, steps = int(rng.integers(2, 9)), int(rng.integers(1, 6))
        columns = s + int(rng.integers(4, 9))
        values = rng.uniform(0, 1, 150) ** int(rng.choice([1, 4]))
        values[: int(rng.choice([0, 3, 20]))] = 1.0 + 0.1 * (seed % 3)  # a tie at the top
        values = np.sort(values)
        excess = columns - s + 1

        def failure_of(least, excess=excess, columns=columns):
            return (0.999 * least * np.e * np.sqrt(columns) / excess) ** excess

        found = ceilings_from_start(values, rng, s, columns, steps, failure_of)
        assert np.all(found >= values[::-1][:s] * (1 - 1e-7)), (seed, found, values[::-1][:s])


@pytest.mark.parametrize("failure", [0.5, 0.1, 1e-2])
def test_ceilings_fail_no_more_often_than_they_may_and_say_something(failure):
    below, tight, count = 0, [], 200
    for seed in range(count):
        rng = np.random.default_rng(seed)
        values = np.sort(rng.uniform(0, 1, 200))
        found = ceilings_from_start(values, rng, 5, 10, 5, lambda least: failure)
        below += bool(np.any(found < values[::-1][:5] * (1 - 1e-9)))
        tight.append(found.sum() / values[-5:].sum())
    assert below <= count * failure + 4 * np.sqrt(count * failure * (1 - failure))
    assert np.median(tight) < 1.5


def test_ceilings_that_rounding_hides_are_none():
    values = np.r_[np.linspace(0, 1, 190), 1e4 ** np.linspace(0.5, 1, 10)]
    rng = np.random.default_rng(0)
    T, R, _ = lanczos(values, rng, 16, 4)
    theta, S = np.linalg.eigh(T)
    given = {"steps": 4, "failure": 1e-6, "rounding": 1e-6 * theta[-1]}
    args = T, np.zeros((16, len(T))), R, theta[::-1][:12], S[:, ::-1][:, :12]
    assert leading_ceilings(*args, **given) is None
    assert leading_ceilings(*args[:3], 0 * theta[:3], S[:, :3], **given) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_loose_run_certifies_itself_on_a_spectrum_without_a_gap(dtype):
    """Without a look at the complement: the bound is far from the truth, and 9 passes are enough."""
    A = np.random.default_rng(0).standard_normal((900, 600)).astype(dtype)
    model = PCA(20, tol=0.3, solver="krylov", center=False, random_state=0).fit(A)
    assert model.n_passes_ <= 9
    truth = judged(A, model.components_, 20, False)[0]
    assert truth <= model.variance_shortfall_ <= 0.3


def test_a_ceiling_at_the_largest_value_itself():
    """Nothing above it is possible, down to rounding: the search ends before it divides by zero."""
    for top in np.linspace(1, 16, 61):
        xi, S, R = np.array([0.0, top]), np.eye(2), np.ones((1, 1))
        assert top < ceiling_of(xi, S, R, 1, 1e-6) <= top * (1 + 1e-14)


def test_fewer_eigenvalues_than_asked_for_are_noticed(monkeypatch):
    """As LAPACK does where many are tied at the end of the range (seed 403 of the law above)."""
    eigh = ritz.scipy.linalg.eigh

    def fewer(C, **options):
        theta, S = eigh(C, **options)
        return theta[1:], S[:, 1:]

    monkeypatch.setattr(ritz.scipy.linalg, "eigh", fewer)
    C = np.diag(np.arange(300.0))
    theta, S = ritz.leading_eigenpairs(C, 20)
    np.testing.assert_allclose(theta[:20], np.arange(299, 279, -1))
    np.testing.assert_allclose(C @ S[:, :20], S[:, :20] * theta[:20], atol=1e-10)
