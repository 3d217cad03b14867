"""Laws of feature maps, of the choice of landmarks and of gamma, beside exact kernels."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem as SklearnNystroem
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from dualpca.kernels import features as module
from dualpca.kernels import pairwise as _pairwise
from dualpca.kernels.features import (
    Nystroem,
    RandomFourier,
    choose_landmarks,
    feature_operator,
    nystroem,
    pairwise,
    random_fourier,
)
from dualpca.kernels.pairwise import median_gamma, scale_gamma
from dualpca.operators import Matrix
from dualpca.operators import block_ops as _blocks
from dualpca.operators.row_blocks import Mapped

N, D, M = 90, 6, 25
GAMMA = 0.2


def rows(seed=0, dtype="float64", shape=(N, D)):
    """Nonnegative, so that chi2 takes them, and a third of them zero."""
    rng = np.random.default_rng(seed)
    return (rng.random(shape) * (rng.random(shape) < 0.66)).astype(dtype)


def memory_map(A, folder):
    np.save(folder / "rows.npy", A)
    return np.load(folder / "rows.npy", mmap_mode="r")


#: Data by name: a function of dense rows and a folder.
KINDS = {
    "dense": lambda A, tmp: A,
    "fortran": lambda A, tmp: np.asfortranarray(A),
    "memmap": memory_map,
    "csr_array": lambda A, tmp: sp.csr_array(A),
    "csr_matrix": lambda A, tmp: sp.csr_matrix(A),
    "csc_array": lambda A, tmp: sp.csc_array(A),
    "coo_array": lambda A, tmp: sp.coo_array(A),
}

#: Positive semidefinite kernels of scikit-learn and their parameters.
KERNELS = {
    "linear": {},
    "poly": {"gamma": 0.5, "degree": 3, "coef0": 1},
    "rbf": {"gamma": GAMMA},
    "laplacian": {"gamma": GAMMA},
    "cosine": {},
    "chi2": {"gamma": GAMMA},
}

MAPS = {
    "nystroem": lambda X: nystroem(X, "rbf", np.arange(0, N, 3), gamma=GAMMA),
    "fourier": lambda X: random_fourier(D, 40, GAMMA, np.random.default_rng(0)),
    "fourier-odd": lambda X: random_fourier(D, 7, GAMMA, np.random.default_rng(0)),
    "orthogonal": lambda X: random_fourier(D, 41, GAMMA, np.random.default_rng(0), True),
}


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    return lambda A: KINDS[request.param](A, tmp_path)


# Nystroem


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_nystroem_is_exact_on_the_landmarks(kernel, dtype, kind):
    A = rows(dtype=dtype)
    X, chosen = kind(A), np.arange(1, N, 4)
    phi = nystroem(X, kernel, chosen, **KERNELS[kernel])
    exact = pairwise_kernels(A.astype(float), metric=kernel, filter_params=True, **KERNELS[kernel])
    got = phi(X).astype(float)
    assert phi(X).dtype == dtype
    assert got.shape == (N, phi.dimension) == (N, len(chosen))
    # Dropping eigenvalues below m eps theta_max costs at most their square root between rows.
    eps = np.finfo(dtype).eps
    scale = np.linalg.norm(exact, 2)
    atol = 10 * (len(chosen) * eps) ** 0.5 * scale
    assert np.allclose(got @ got[chosen].T, exact[:, chosen], rtol=0, atol=atol)
    inner = got[chosen] @ got[chosen].T
    assert np.allclose(inner, exact[np.ix_(chosen, chosen)], rtol=0, atol=100 * eps * scale)


def test_well_conditioned_landmarks_lose_no_digits():
    X = np.random.default_rng(0).standard_normal((N, D))
    phi = nystroem(X, "rbf", np.arange(M), gamma=0.5)
    got = phi(X)
    assert np.allclose(got @ got[:M].T, pairwise(X, X[:M], gamma=0.5), rtol=0, atol=1e-12)
    assert np.all(np.sum(got**2, axis=1) <= 1 + 1e-12)  # a projection in feature space


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
def test_nystroem_agrees_with_sklearn(kernel):
    X = np.random.default_rng(1).standard_normal((N, D))
    params = KERNELS[kernel]
    peer = SklearnNystroem(kernel=kernel, n_components=M, random_state=0, **params).fit(X)
    got = nystroem(X, kernel, peer.component_indices_, **params)(X)
    want = peer.transform(X)
    assert np.allclose(got @ got.T, want @ want.T, rtol=1e-8, atol=1e-8)


def test_all_rows_as_landmarks_give_the_kernel():
    X = np.random.default_rng(2).standard_normal((40, D))
    phi = nystroem(X, "rbf", slice(None), gamma=GAMMA)
    assert np.allclose(phi(X) @ phi(X).T, pairwise(X, X, gamma=GAMMA), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_equal_and_zero_landmarks(kernel, dtype):
    X = np.repeat(np.eye(5, D), 4, axis=0).astype(dtype)
    X[-4:] = 0
    phi = nystroem(X, kernel, np.arange(20))
    tol = 100 * np.finfo(dtype).eps
    assert np.all(np.isfinite(phi.root))
    assert np.allclose(phi(X) @ phi(X).T, pairwise_kernels(X, metric=kernel), rtol=0, atol=tol)
    assert np.array_equal(nystroem(0 * X, "linear", [0, 1])(X), np.zeros((20, 2)))


def negative(X, Y):
    return -pairwise_kernels(X, Y, metric="linear")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("additive_chi2", "'additive_chi2'"),
        ("sigmoid", "'sigmoid'"),
        (negative, "'negative'"),
        (partial(pairwise, metric="sigmoid", gamma=0.1, coef0=-2.0), "'sigmoid'"),
        (lambda X, Y: np.triu(np.ones((X.shape[0], Y.shape[0]))), "'<lambda>'"),
    ],
)
def test_an_indefinite_kernel_is_named(kernel, name, dtype):
    X = 5 * rows(dtype=dtype)
    params = {"coef0": -2.0, "gamma": 0.1} if kernel == "sigmoid" else {}
    with pytest.raises(ValueError, match=f"kernel={name} is not symmetric .*use a kernel that is"):
        nystroem(X, kernel, np.arange(M), **params)


def test_kernel_functions_see_row_blocks_of_sparse_data():
    X = sp.csr_array(rows(shape=(300, D)))
    seen = []

    def kernel(A, B):
        seen.append((sp.issparse(A), A.shape[0]))
        return pairwise(A, B, gamma=GAMMA)

    phi = nystroem(X, kernel, np.arange(M))
    feature_operator(phi, X, limit=0).todense()
    assert all(sparse for sparse, _ in seen)


def test_chi2_makes_sparse_rows_dense_by_blocks(monkeypatch):
    A = rows(shape=(300, D))
    want = pairwise_kernels(A, A[:5], metric="chi2", gamma=GAMMA)
    heights = []

    def dense(block):
        heights.append(block.shape[0])
        return block.toarray()

    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(_pairwise, "dense", dense)
    got = pairwise(sp.csr_array(A), sp.csr_array(A[:5]), "chi2", gamma=GAMMA)
    assert np.allclose(got, want)
    assert max(heights) <= 64


# Random Fourier features


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize(("d", "width"), [(1, 1), (3, 1), (3, 2), (3, 7), (4, 8), (4, 20), (5, 31)])
def test_fourier_features_are_unbiased(d, width, orthogonal):
    """The mean over the draws is k within five standard errors, for every pair."""
    rng = np.random.default_rng([d, width])
    X = rng.standard_normal((4, d))
    draws = []
    for _ in range(3000):
        phi = random_fourier(d, width, GAMMA, rng, orthogonal)
        F = phi(X)
        assert F.shape == (4, phi.dimension) == (4, width)
        if width % 2 == 0:
            assert np.allclose(np.sum(F**2, axis=1), 1, rtol=0, atol=1e-14)
        draws.append(F @ F.T)
    error = np.abs(np.mean(draws, axis=0) - pairwise(X, X, gamma=GAMMA))
    assert np.all(error <= 5 * np.std(draws, axis=0) / 3000**0.5 + 1e-14)


def test_variances_of_fourier_features():
    """Paired: (1 - k^2)^2 / D; orthogonal columns have less, summed over distances."""
    rng = np.random.default_rng(0)
    d, width, count = 8, 16, 4000
    X = np.zeros((6, d))
    X[:, 0] = np.arange(6) / 2
    k = np.exp(-GAMMA * X[:, 0] ** 2)

    def variance(orthogonal):
        maps = (random_fourier(d, width, GAMMA, rng, orthogonal) for _ in range(count))
        return np.var([phi(X) @ phi(X[:1])[0] for phi in maps], axis=0)

    plain = variance(False)
    assert np.allclose(plain[1:], (1 - k[1:] ** 2) ** 2 / width, rtol=0.15)
    assert np.all(plain[1:] < 1.05 * (1 + k[1:] ** 4 / 2 - k[1:] ** 2) / width)
    assert variance(True).sum() < 0.9 * plain.sum()


@pytest.mark.parametrize(("d", "width"), [(6, 4), (6, 12), (6, 13), (6, 40)])
def test_orthogonal_frequencies(d, width):
    phi = random_fourier(d, width, 0.5, np.random.default_rng(0), orthogonal=True)
    for start in range(0, phi.frequencies.shape[1], d):
        G = phi.frequencies[:, start : start + d]
        gram = G.T @ G
        assert np.allclose(gram, np.diag(np.diag(gram)), rtol=0, atol=1e-12)


def test_norms_of_frequencies_are_chi_distributed():
    """E ||omega||^2 = 2 gamma d and its variance 8 gamma^2 d, orthogonal or not."""
    for orthogonal in (False, True):
        phi = random_fourier(5, 40000, 0.3, np.random.default_rng(1), orthogonal)
        squares = np.sum(phi.frequencies**2, axis=0)
        assert squares.mean() == pytest.approx(2 * 0.3 * 5, rel=0.03)
        assert squares.var() == pytest.approx(8 * 0.3**2 * 5, rel=0.08)


# Both kinds of maps


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MAPS)
def test_features_do_not_depend_on_how_the_rows_are_stored(name, dtype, kind):
    A = rows(dtype=dtype)
    phi = MAPS[name](A)
    got = phi(kind(A))
    assert type(got) is np.ndarray
    assert got.dtype == dtype
    tol = 1e-12 if dtype == "float64" else 2e-4  # K_ZZ^{-1/2} magnifies the rounding of k(x, Z)
    assert np.allclose(got, phi(A), rtol=0, atol=tol)
    assert phi(A[:1].astype("float64")).dtype == np.float64
    assert phi(A[:1].astype("float32")).dtype == np.float32


@pytest.mark.parametrize("name", MAPS)
def test_integer_rows_become_float64(name):
    A = np.random.default_rng(0).integers(0, 3, (N, D))
    phi = MAPS[name](A.astype(float))
    assert np.array_equal(phi(A), phi(A.astype(float)))


@pytest.mark.parametrize("name", MAPS)
def test_maps_are_frozen(name):
    phi = MAPS[name](rows())
    assert isinstance(phi, (Nystroem, RandomFourier))
    with pytest.raises(AttributeError):
        phi.root = None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MAPS)
def test_feature_operator(name, dtype, kind):
    """Stored or recomputed, the operator has the products of phi(X)."""
    A = rows(dtype=dtype, shape=(N, D))
    X, phi = kind(A), MAPS[name](A)
    Phi = phi(A).astype(float)
    W = np.random.default_rng(1).standard_normal((phi.dimension, 2)).astype(dtype)
    nbytes = Phi.shape[0] * Phi.shape[1] * np.dtype(dtype).itemsize
    for limit, type_ in ((nbytes, Matrix), (nbytes - 1, Mapped)):
        operator = feature_operator(phi, X, limit)
        assert type(operator) is type_
        assert operator.shape == Phi.shape
        assert operator.dtype == dtype
        assert not operator.sparse
        tol = 1e-11 if dtype == "float64" else 5e-3
        assert np.allclose(operator @ W, Phi @ W, rtol=0, atol=tol)
        assert np.allclose(operator.T @ (Phi @ W).astype(dtype), Phi.T @ (Phi @ W), atol=N * tol)
        assert np.allclose(operator.gram(), Phi.T @ Phi, rtol=0, atol=N * tol)


def test_large_features_are_recomputed_in_blocks_of_bounded_size(monkeypatch):
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 40 * 8 * 100 // _blocks.GRAM_FACTOR)
    A = rows(shape=(250, D))
    heights = []

    class Counted(RandomFourier):
        def __call__(self, X):
            heights.append(X.shape[0])
            return super().__call__(X)

    plain = random_fourier(D, 40, GAMMA, np.random.default_rng(0))
    phi = Counted(plain.frequencies)
    operator = feature_operator(phi, A, limit=0)
    assert heights == []
    Phi = plain(A)
    W = np.ones((40, 1))
    assert np.allclose(operator @ W, Phi @ W)
    assert np.allclose(operator.sweep(W), Phi.T @ (Phi @ W))
    assert max(heights) <= 100
    assert sum(heights) == 2 * 250
    assert operator.passes == 2


def test_memory_maps_are_not_written(tmp_path):
    X = memory_map(rows(), tmp_path)
    before = X.copy()
    rng = np.random.default_rng(0)
    for how in ("uniform", "kmeans++", "leverage"):
        phi = nystroem(X, "rbf", choose_landmarks(X, 5, how, rng))
        feature_operator(phi, X, limit=0).gram()
    median_gamma(X, rng), scale_gamma(X)
    assert np.array_equal(X, before)


# Landmarks


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("how", ["uniform", "kmeans++", "leverage"])
def test_landmarks_are_sorted_distinct_rows(how, dtype, kind):
    X = kind(rows(dtype=dtype))
    for count in (1, 3, M, N - 1, N):
        chosen = choose_landmarks(X, count, how, np.random.default_rng(count))
        again = choose_landmarks(X, count, how, np.random.default_rng(count))
        assert len(chosen) == count
        assert np.all(np.diff(chosen) > 0)
        assert chosen[0] >= 0
        assert chosen[-1] < N
        assert np.array_equal(chosen, again)


@pytest.mark.parametrize("how", ["kmeans++", "leverage"])
@pytest.mark.parametrize("value", [0.0, 0.1])
def test_landmarks_among_equal_rows(how, value):
    X = np.full((50, 3), value)
    chosen = choose_landmarks(X, 10, how, np.random.default_rng(0), kernel="linear")
    assert len(np.unique(chosen)) == 10


@pytest.mark.parametrize("how", ["uniform", "kmeans++", "leverage"])
def test_too_many_landmarks(how):
    message = "n_landmarks=500 exceeds the 100 rows of X; ask for at most 100"
    with pytest.raises(ValueError, match=message):
        choose_landmarks(np.ones((100, 2)), 500, how, np.random.default_rng(0))


def test_unknown_choice_of_landmarks():
    with pytest.raises(ValueError, match="how='best' is unknown; use 'uniform'"):
        choose_landmarks(np.ones((100, 2)), 5, "best", np.random.default_rng(0))


def test_uniform_landmarks_are_uniform():
    rng = np.random.default_rng(0)
    counts = sum(
        np.bincount(choose_landmarks(np.ones((10, 1)), 3, "uniform", rng), minlength=10)
        for _ in range(3000)
    )
    assert np.all(np.abs(counts - 900) < 5 * (3000 * 0.3 * 0.7) ** 0.5)


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 100.0])
def test_leverage_scores_with_all_rows_are_exact(ridge):
    X = np.random.default_rng(0).standard_normal((40, 3))
    K = pairwise(X, X, gamma=GAMMA)
    phi = nystroem(X, "rbf", slice(None), gamma=GAMMA)
    exact = np.diag(np.linalg.solve(K + ridge * np.eye(40), K))
    assert np.allclose(module._leverage(phi, X, ridge), exact, rtol=0, atol=1e-8)


def test_leverage_scores_do_not_depend_on_the_scale_of_the_kernel():
    X = np.random.default_rng(0).standard_normal((60, 3))
    scores = [
        module._leverage(nystroem(X, lambda A, B, c=c: c * pairwise(A, B), np.arange(10)), X)
        for c in (1.0, 1e6)
    ]
    assert np.allclose(*scores, rtol=1e-6)


def lopsided(seed):
    """A large cluster, and a few rows far away and far apart."""
    rng = np.random.default_rng(seed)
    return np.concatenate([0.1 * rng.standard_normal((285, 4)), 3 * rng.standard_normal((15, 4))])


@pytest.mark.parametrize("how", ["kmeans++", "leverage"])
def test_chosen_landmarks_beat_uniform_ones_on_lopsided_data(how):
    """The error of Nystroem in the trace norm, in the mean of ten draws."""

    def error(how, seed):
        X, rng = lopsided(seed), np.random.default_rng(seed)
        chosen = choose_landmarks(X, 20, how, rng, kernel=partial(pairwise, gamma=0.5))
        F = nystroem(X, "rbf", chosen, gamma=0.5)(X)
        return len(X) - np.sum(F**2)

    means = {h: np.mean([error(h, seed) for seed in range(10)]) for h in ("uniform", how)}
    assert means[how] < 0.5 * means["uniform"]


def test_names_of_kernels_and_functions_choose_alike():
    X = lopsided(0)
    chosen = [
        choose_landmarks(X, 20, "leverage", np.random.default_rng(0), kernel, gamma)
        for kernel, gamma in ((None, 0.5), ("rbf", 0.5), (partial(pairwise, gamma=0.5), None))
    ]
    assert np.array_equal(chosen[0], chosen[1])
    assert np.array_equal(chosen[0], chosen[2])


# Gamma


def brute_median(A):
    A = A.astype(float)
    pairs = [np.sum((A[i] - A[j]) ** 2) for i in range(len(A)) for j in range(i)]
    return 1 / np.median([p for p in pairs if p > 0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_median_gamma(dtype, kind):
    A = rows(dtype=dtype)
    A[10:40] = A[9]  # equal rows do not count
    rng = np.random.default_rng(0)
    assert median_gamma(kind(A), rng) == pytest.approx(brute_median(A), rel=1e-9)
    assert median_gamma(kind(A[9:40]), rng) == 1.0
    assert median_gamma(kind(0 * A), rng) == 1.0
    assert median_gamma(kind(A[:1]), rng) == 1.0


def test_median_gamma_does_not_move_with_the_data():
    A = rows()
    got = median_gamma(A + 1e6, np.random.default_rng(0))
    assert got == pytest.approx(brute_median(A), rel=1e-6)


def test_median_gamma_of_a_sample():
    A = np.random.default_rng(0).standard_normal((5000, 4))
    got = median_gamma(A, np.random.default_rng(0))
    assert got == pytest.approx(1 / (2 * 3.357), rel=0.05)  # the median of chi2 with 4 degrees


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scale_gamma(dtype, kind):
    A = rows(dtype=dtype)
    assert scale_gamma(kind(A)) == pytest.approx(1 / (D * A.astype(float).var()), rel=1e-5)
    peer = SVC(gamma="scale").fit(A, np.arange(N) % 2)
    assert scale_gamma(kind(A)) == pytest.approx(peer._gamma, rel=1e-5)
    for value in (0.0, 0.1, 1e5):
        assert scale_gamma(kind(np.full((N, D), value, dtype))) == 1.0


def test_scale_gamma_with_a_large_mean_integers_and_repeated_entries():
    A = rows()
    assert scale_gamma(A + 1e6) == pytest.approx(1 / (D * A.var()), rel=1e-6)
    B = np.random.default_rng(0).integers(0, 9, (N, D))
    assert scale_gamma(B) == pytest.approx(1 / (D * B.var()))
    twice = sp.coo_array((np.ones(4), ([0, 0, 1, 2], [1, 1, 0, 2])), shape=(3, 3)).tocsr()
    assert scale_gamma(twice) == pytest.approx(1 / (3 * twice.toarray().var()))
