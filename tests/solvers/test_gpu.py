"""The solver of GPUs, on a CPU: TF32 is simulated by cutting mantissas to 10 bits."""

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from dualpca import PCA, as_operator
from dualpca.linalg import fix_signs, on_gpu, standard_normal
from dualpca.operators.gpu import Tf32, matmul_precision
from dualpca.operators.sweep_maps import split
from dualpca.operators.views import View
from dualpca.solvers.spectral.chebyshev import Chebyshev, columns
from dualpca.solvers.spectral.lanczos import Lanczos
from dualpca.solvers.spectral.ritz import block_pairs
from dualpca.solvers.spectral.sample import sampled_axes

N, D = 500, 260
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def cut(A):
    """A float32 array with the 10 bits of mantissa that TF32 keeps."""
    bits = np.asarray(A, dtype=np.float32).view(np.int32) & np.int32(-(2**13))
    return bits.view(np.float32)


class Cut(View):
    """X with both factors of every product cut."""

    precision = "tf32"

    def __init__(self, X):
        super().__init__(X)
        self.rough = as_operator(cut(X.todense()))

    def matmul(self, W):
        return self.rough.matmul(cut(W))

    def rmatmul(self, H):
        return self.rough.rmatmul(cut(H))

    def sweep(self, W, row_map=None):
        Y = self.matmul(W)
        H, sums = split(row_map(Y, slice(0, self.shape[0]))) if row_map else (Y, ())
        Z = self.rmatmul(H)
        return (Z, *sums) if sums else Z

    row_norms = gram = kernel = None


Cut.__abstractmethods__ = frozenset()


def spectra(k=D):
    """Singular values by name."""
    i = np.arange(k)
    return {
        "power": 1.0 / (1 + i),
        "slow": 500 - 400 * i / (k - 1),
        "gap": np.where(i < 10, 10 + i / k, 1.0),
        "cluster": np.where(i < 30, 5 - 1e-6 * i, 3 - 2 * i / k),
        "ties": np.where(i < 150, 5.0, 2 - i / k),
        "graded": 10.0 ** (-8 * i / (k - 1)),
        "low rank": np.where(i < 6, 3.0 - 0.3 * i, 0.0),
        "low rank and noise": np.where(i < 6, 3.0 - 0.3 * i, 0.1),
        "flat": np.ones(k),
    }


def matrices(seed):
    """Matrices of float32 by the name of their spectra."""
    rng = np.random.default_rng(seed)
    for name, sigma in spectra().items():
        U = np.linalg.qr(rng.standard_normal((N, D)))[0]
        V = np.linalg.qr(rng.standard_normal((D, D)))[0]
        yield name, ((U * sigma) @ V.T).astype(np.float32)
    yield "gaussian", rng.standard_normal((N, D)).astype(np.float32)


def judge(A, V):
    """The relative residual and the captured variance, from scratch in float64."""
    A, Q = np.asarray(A, dtype=np.float64), np.linalg.qr(np.asarray(V, dtype=np.float64))[0]
    Z = A.T @ (A @ Q)
    return np.linalg.norm(Z - Q @ (Q.T @ Z)) / np.linalg.norm(Z), np.linalg.norm(A @ Q) ** 2


@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))])
def test_what_it_says_is_never_better_than_the_truth(seed):
    ratios = []
    for name, A in matrices(seed):
        X = as_operator(A)
        rough = Cut(X)
        best = np.linalg.svd(A.astype(float), compute_uv=False) ** 2
        for s in (1, 5, 12):
            for tol in (0.3, 0.1, 1e-2, 1e-3, 1e-5):
                found = Chebyshev().eigenvectors(
                    X, s, tol=tol, seed=seed, fast=rough, max_passes=400
                )
                V = found.ritz.V[:, :s]
                residual, captured = judge(A, V)
                truth = 1 - captured / best[:s].sum()
                told = (name, s, tol, residual, found.ritz.residual, truth, found.shortfall())
                assert found.ritz.residual <= tol, told
                assert residual <= 1.001 * found.ritz.residual + 1e-7, told
                assert truth <= found.shortfall(), told
                np.testing.assert_allclose(V.T @ V, np.eye(s), atol=1e-5)
                theta = found.ritz.theta[:s].sum(dtype=float)
                # From 1e-2 on the variances are those of cut products.
                assert theta == pytest.approx(captured, rel=4e-3 if tol >= 1e-2 else 2e-6), told
                if truth > 1e-9:
                    ratios.append(found.shortfall() / truth)
    assert np.median(ratios) <= 300


def test_rough_passes_do_most_of_the_work():
    A = dict(matrices(0))["power"]
    X, rough = as_operator(A), Cut(as_operator(A))
    found = Chebyshev().eigenvectors(X, 5, tol=1e-3, seed=0, fast=rough)
    assert found.steps == rough.rough.passes // 2 + X.passes
    assert X.passes <= 5  # one measures, the others certify


def test_more_equal_singular_values_than_columns():
    A = dict(matrices(1))["ties"]
    assert columns(12, D) < 150
    found = Chebyshev()(as_operator(A), 12, tol=1e-5, seed=0, max_passes=100)
    np.testing.assert_allclose(found.ritz.theta[:12], 25.0, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("side", ["tall", "wide"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_same_components_as_lapack(dtype, side, center, weighted):
    A = dict(matrices(2))["gap"].astype(dtype) + 0.5
    A = A if side == "tall" else A.T
    weights = np.random.default_rng(0).uniform(0.5, 2, len(A)) if weighted else None
    tol, s = 1e-5 if dtype == "float32" else 1e-9, 10 if center else 11  # up to the gap
    options = {"center": center, "tol": tol, "random_state": 0}
    ours = PCA(s, solver="chebyshev", **options).fit(A, sample_weight=weights)
    exact = PCA(s, solver="lapack", **options).fit(A.astype(float), sample_weight=weights)
    assert ours.residual_ <= tol
    assert ours.components_.dtype == dtype
    rtol = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(ours.explained_variance_, exact.explained_variance_, rtol=rtol)
    overlap = np.linalg.svd(ours.components_ @ exact.components_.T, compute_uv=False)
    np.testing.assert_allclose(overlap, 1, rtol=rtol)


@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
def test_every_namespace_gets_its_own_arrays(backend):
    xp = pytest.importorskip(backend)
    A = dict(matrices(3))["power"]
    options = {"solver": "chebyshev", "tol": 1e-5, "random_state": 0}
    found = PCA(4, **options).fit(xp.asarray(A))
    assert type(found.components_) is type(xp.asarray(A))
    expected = PCA(4, **options).fit(A).components_
    np.testing.assert_allclose(np.asarray(found.components_), expected, atol=1e-4)


def test_nothing_to_find():
    found = Chebyshev()(as_operator(np.zeros((40, 30), dtype=np.float32)), 3, tol=1e-3, seed=0)
    assert found.shortfall() == 0
    assert not found.ritz.theta.any()
    assert found.ritz.V.shape[1] >= 3


def test_all_components_and_giving_up():
    A = dict(matrices(4))["gaussian"][:60, :20]
    full = Chebyshev()(as_operator(A), 20, tol=1e-5, seed=0)
    np.testing.assert_allclose(full.ritz.theta, np.linalg.svd(A)[1] ** 2, rtol=1e-4)
    X = as_operator(dict(matrices(4))["slow"])
    some = Chebyshev().eigenvectors(X, 12, tol=1e-6, seed=0, max_passes=5, fast=Cut(X))
    residual, _ = judge(X.data, some.ritz.V[:, :12])
    assert some.steps <= 6
    assert 1e-6 < residual <= 1.001 * some.ritz.residual


def test_flags_of_the_user_are_as_before_also_after_an_error():
    flags, like = torch.backends.cuda.matmul, torch.zeros(1)
    before = flags.allow_tf32
    try:
        for wish in (True, False):
            flags.allow_tf32 = wish
            with matmul_precision(like, "ieee"), matmul_precision(like, "tf32"):
                assert getattr(flags, "fp32_precision", "tf32") == "tf32"
            assert flags.allow_tf32 is wish
            with pytest.raises(ZeroDivisionError), matmul_precision(like, "tf32"):
                _ = 1 / 0
            assert flags.allow_tf32 is wish
    finally:
        flags.allow_tf32 = before


def test_the_view_is_x_where_there_is_no_tf32():
    A = torch.asarray(dict(matrices(5))["gaussian"])
    X = as_operator(A)
    view, W = Tf32(X), torch.ones(D, 2)
    for Y, Z in (
        (view @ W, X @ W),
        (view.sweep(W), X.sweep(W)),
        (view.T @ (view @ W), X.T @ (X @ W)),
    ):
        assert torch.equal(Y, Z)


def test_start_vectors_and_signs():
    like = torch.zeros(1, dtype=torch.float32)
    assert not on_gpu(like)
    first, again = (standard_normal((50, 3), like, 7) for _ in range(2))
    assert torch.equal(first, again)
    np.testing.assert_array_equal(first, standard_normal((50, 3), np.zeros(1, "f"), 7))
    V = np.array([[-2.0, 1.0, 0.0], [2.0, -3.0, 0.0]])
    np.testing.assert_array_equal(fix_signs(V), [-1, -1, 1])


@CUDA
@pytest.mark.parametrize("tol", [0.1, 1e-3, 1e-5])
def test_on_a_gpu_what_it_says_holds(tol):
    for name, A in matrices(0):
        best = np.linalg.svd(A.astype(float), compute_uv=False) ** 2
        model = PCA(12, center=False, solver="chebyshev", tol=tol, random_state=0)
        model.fit(torch.asarray(A, device="cuda"))
        assert on_gpu(model.components_)
        residual, captured = judge(A, model.components_.cpu().numpy().T)
        assert residual <= 1.001 * model.residual_ + 1e-7, name
        assert 1 - captured / best[:12].sum() <= model.variance_shortfall_, name


class Waits(TorchFunctionMode):
    """Counts how often the host would wait for a device: numbers and small arrays that it asks for."""

    count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += getattr(func, "__name__", "") in (
            "cpu", "item", "tolist", "__float__", "__int__", "__bool__", "__index__"
        )  # fmt: skip
        return func(*args, **(kwargs or {}))


def test_the_host_waits_once_for_a_step():
    """None for a start from a sample, one for a Rayleigh-Ritz step, one for a step of the look."""
    rng = np.random.default_rng(0)
    A = (rng.standard_normal((4000, 300)) / np.arange(1, 301)).astype("f")
    X = as_operator(torch.asarray(A))
    with Waits() as waits:
        P = sampled_axes(X, 64, 0)
    assert waits.count == 0
    with Waits() as waits:
        block = block_pairs(X, P)
    assert waits.count == 1
    basis = Lanczos(X, block.ritz.V, 200, rng)
    basis.begin_with_ritz(block)
    basis.turn_to_complement(16)
    for _ in range(3):
        with Waits() as waits:
            basis.expand()
        assert waits.count == 1


def test_a_fit_waits_for_what_it_measures_alone():
    """For the energy and a Rayleigh-Ritz step; of centred rows also for their mean and a warning."""
    rng = np.random.default_rng(0)
    A = torch.asarray((rng.standard_normal((4000, 300)) / np.arange(1, 301)).astype("f"))
    for center, most in ((False, 2), (True, 5)):
        with Waits() as waits:
            model = PCA(10, center=center, solver="chebyshev", tol=1e-2, random_state=0).fit(A)
        assert model.n_passes_ == 2
        assert waits.count <= most, (center, waits.count)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("power", [0, 2, 6])
@pytest.mark.parametrize("xp", [np, torch])
def test_ritz_pairs_of_a_block_of_any_condition(dtype, power, xp):
    """Columns that differ in size and direction by up to ``20^-6``: as those of an orthonormal basis."""
    rng = np.random.default_rng(0)
    A = dict(matrices(6))["power"].astype(dtype)
    P = rng.standard_normal((D, 20)) @ np.diag(np.arange(1.0, 21) ** -power)
    P = (P @ np.linalg.qr(rng.standard_normal((20, 20)))[0]).astype(dtype)
    X = as_operator(xp.asarray(A))
    block = block_pairs(X, xp.asarray(P))
    found, image = block.ritz, block.image
    V, theta = np.asarray(found.V, dtype=float), np.asarray(found.theta, dtype=float)
    unit = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(V.T @ V, np.eye(20), atol=unit)
    exact = A.astype(float).T @ (A.astype(float) @ V)
    np.testing.assert_allclose(np.asarray(image), exact, atol=unit * theta[0])
    np.testing.assert_allclose(V.T @ exact, np.diag(theta), atol=unit * theta[0])
    Q = np.linalg.qr(P.astype(float))[0]
    if power < 6 or dtype == "float64":  # else rounding of P itself has lost directions
        overlap = np.linalg.svd(Q.T @ V, compute_uv=False)
        np.testing.assert_allclose(overlap, 1, atol=1e-3 if dtype == "float32" else 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_sketch_of_tall_data_certifies_without_a_look(seed):
    """Singular values 1/i: the energy that 128 columns leave is below ``tol``, that of 64 is not."""
    rng = np.random.default_rng(seed)
    A = (rng.standard_normal((4000, 400)) / np.arange(1, 401)).astype("f")
    options = {"center": False, "solver": "chebyshev", "random_state": seed}
    told = {}
    for tol in (1e-2, 5e-2):
        model = PCA(50, tol=tol, **options).fit(torch.asarray(A))
        residual, captured = judge(A, np.asarray(model.components_).T)
        best = np.linalg.svd(A.astype(float), compute_uv=False)[:50] ** 2
        assert 1 - captured / best.sum() <= model.variance_shortfall_ <= tol
        assert residual <= 1.001 * model.residual_ + 1e-7
        assert model.n_passes_ == 2  # the energy, and one that measures
        told[tol] = model.variance_shortfall_
    assert told[5e-2] > 1e-2
