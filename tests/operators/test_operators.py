"""Laws of the data as an operator, over the list of all operators."""

import functools
import hashlib
import math
from itertools import pairwise
from pathlib import Path

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from array_api_compat import array_namespace, device
from tests.loops import over

from dualpca import as_operator
from dualpca.linalg import cross, gram, inner, is_implicit, norm
from dualpca.operators import Blocks, Centered, Kernel, Matrix, Selected, Weighted, centered
from dualpca.operators import block_ops as _blocks
from dualpca.operators.centering import Shifted
from dualpca.operators.row_blocks import RowBlocked
from dualpca.operators.views import Transposed


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small arrays: torch's threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


N, D, S = 150, 70, 4  # both sides longer than the least block of 64 rows
CPU = array_api_strict.Device("CPU_DEVICE")


def to_numpy(A):
    """Any array as numpy."""
    if isinstance(A, (np.ndarray, torch.Tensor, list)):
        return np.asarray(A)
    return np.asarray(A.to_device(CPU))


def dtype_name(dtype):
    return str(dtype).rsplit(".", 1)[-1]


def eps(X):
    return float(np.finfo(dtype_name(X.dtype)).eps)


def normal(rng, dtype="float64", shape=(N, D)):
    return rng.standard_normal(shape).astype(dtype)


def longer_than_two_blocks(itemsize):
    return (2 * _blocks.block_rows(D, itemsize) + 22, D)


def sparse(rng, kind=sp.csr_array, dtype="float64", shape=(N, D), mean=0.0):
    """A sparse matrix with empty rows."""
    A = rng.standard_normal(shape) + mean
    A *= rng.random(shape) < 0.1
    A[::7] = 0
    return kind(A.astype(dtype))


def strict(A, device="CPU_DEVICE"):
    return array_api_strict.asarray(A, device=array_api_strict.Device(device))


def pieces(A, cuts=(0, 3, 70, 70, N)):
    """Row blocks of several sizes, one empty."""
    return [A[i:j] for i, j in pairwise(cuts)]


def memory_map(A, folder):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, A)
    return np.load(path, mmap_mode="r")


def of(data):
    """The operator of the data and the data as a float64 numpy array."""
    dense = data.toarray() if sp.issparse(data) else to_numpy(data)
    return as_operator(data), dense.astype(np.float64)


def blocks_of(A, convert=lambda block: block):
    return Blocks([convert(block) for block in pieces(A)]), np.asarray(A, dtype=np.float64)


def loaded(A):
    """Blocks that are functions, with their shapes told in advance."""
    parts = pieces(A)
    dense = A.toarray() if sp.issparse(A) else A
    functions = [lambda part=part: part for part in parts]
    X = Blocks(functions, shapes=[p.shape for p in parts], dtype=A.dtype)
    return X, dense.astype(np.float64)


def selected(X, dense):
    """Some of the rows: none of the first three, then about two in three."""
    keep = np.random.default_rng(0).random(len(dense)) < 0.66
    keep[:3] = False
    return Selected(X, keep), dense[keep]


#: Data by name: a factory of (operator, the same matrix in float64 numpy).
PLAIN = {
    "numpy-C": lambda rng, tmp: of(normal(rng)),
    "numpy-F": lambda rng, tmp: of(np.asfortranarray(normal(rng))),
    "numpy-strided": lambda rng, tmp: of(normal(rng, shape=(2 * N, 3 * D))[::2, ::-3]),
    "numpy-read-only": lambda rng, tmp: of(np.broadcast_to(normal(rng, shape=(1, D)), (N, D))),
    "numpy-float32": lambda rng, tmp: of(normal(rng, "float32")),
    "numpy-float32-F": lambda rng, tmp: of(np.asfortranarray(normal(rng, "float32"))),
    "numpy-int": lambda rng, tmp: of(rng.integers(-5, 6, (N, D))),
    "numpy-uint8": lambda rng, tmp: of(rng.integers(0, 256, (N, D)).astype(np.uint8)),
    "numpy-bool": lambda rng, tmp: of(rng.random((N, D)) < 0.5),
    "numpy-float16": lambda rng, tmp: of(normal(rng, "float16")),
    "numpy-big-endian": lambda rng, tmp: of(normal(rng).astype(">f8")),
    "nested-lists": lambda rng, tmp: of(normal(rng).tolist()),
    "large": lambda rng, tmp: of(normal(rng, shape=longer_than_two_blocks(8))),
    "torch": lambda rng, tmp: of(torch.asarray(normal(rng))),
    "torch-float32": lambda rng, tmp: of(torch.asarray(normal(rng, "float32"))),
    "torch-int": lambda rng, tmp: of(torch.asarray(rng.integers(-5, 6, (N, D)))),
    "strict": lambda rng, tmp: of(strict(normal(rng))),
    "strict-float32": lambda rng, tmp: of(strict(normal(rng, "float32"))),
    "strict-device": lambda rng, tmp: of(strict(normal(rng), "device1")),
    "csr_array": lambda rng, tmp: of(sparse(rng)),
    "csc_array": lambda rng, tmp: of(sparse(rng, sp.csc_array)),
    "csr_matrix": lambda rng, tmp: of(sparse(rng, sp.csr_matrix)),
    "csc_matrix": lambda rng, tmp: of(sparse(rng, sp.csc_matrix)),
    "coo_array": lambda rng, tmp: of(sparse(rng, sp.coo_array)),
    "coo_matrix": lambda rng, tmp: of(sparse(rng, sp.coo_matrix)),
    "lil_matrix": lambda rng, tmp: of(sparse(rng, sp.lil_matrix)),
    "dia_array": lambda rng, tmp: of(sp.dia_array(sp.random_array((N, D), rng=rng))),
    "csr-float32": lambda rng, tmp: of(sparse(rng, sp.csr_array, "float32")),
    "csr-int": lambda rng, tmp: of(sparse(rng, sp.csr_matrix, "int64", mean=3.0)),
    "csr-duplicates": lambda rng, tmp: of(duplicated(rng)),
    "blocks": lambda rng, tmp: blocks_of(normal(rng)),
    "blocks-float32": lambda rng, tmp: blocks_of(normal(rng, "float32")),
    "blocks-int": lambda rng, tmp: blocks_of(rng.integers(-5, 6, (N, D))),
    "blocks-F": lambda rng, tmp: blocks_of(normal(rng), np.asfortranarray),
    "blocks-torch": lambda rng, tmp: blocks_of(normal(rng), torch.asarray),
    "blocks-csr": lambda rng, tmp: blocks_of(sparse(rng).toarray(), sp.csr_array),
    "blocks-csc-matrix": lambda rng, tmp: blocks_of(sparse(rng).toarray(), sp.csc_matrix),
    "blocks-coo": lambda rng, tmp: blocks_of(sparse(rng).toarray(), sp.coo_array),
    "blocks-loaded": lambda rng, tmp: loaded(normal(rng)),
    "blocks-loaded-csr": lambda rng, tmp: loaded(sparse(rng)),
    "memmap": lambda rng, tmp: of(memory_map(normal(rng), tmp)),
    "memmap-float32-large": lambda rng, tmp: of(
        memory_map(normal(rng, "float32", longer_than_two_blocks(4)), tmp)
    ),
    "memmap-int": lambda rng, tmp: of(memory_map(rng.integers(-5, 6, (N, D)), tmp)),
    "memmap-F": lambda rng, tmp: of(memory_map(np.asfortranarray(normal(rng)), tmp)),
    "selected-numpy": lambda rng, tmp: selected(*of(normal(rng))),
    "selected-float32": lambda rng, tmp: selected(*of(normal(rng, "float32"))),
    "selected-torch": lambda rng, tmp: selected(*of(torch.asarray(normal(rng)))),
    "selected-strict": lambda rng, tmp: selected(*of(strict(normal(rng), "device1"))),
    "selected-csr": lambda rng, tmp: selected(*of(sparse(rng))),
    "selected-csc": lambda rng, tmp: selected(*of(sparse(rng, sp.csc_array))),
    "selected-blocks": lambda rng, tmp: selected(*blocks_of(normal(rng))),
    "selected-memmap": lambda rng, tmp: selected(*of(memory_map(normal(rng), tmp))),
}


def duplicated(rng):
    """A CSR matrix that stores some entries in two parts, as SciPy allows."""
    A = sparse(rng).tocoo()
    twice = (np.concatenate([A.data * 0.25, A.data * 0.75]), np.tile(A.coords, 2))
    A = sp.coo_array(twice, shape=A.shape)
    order = np.argsort(A.coords[0], kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(A.coords[0], minlength=N))])
    return sp.csr_array((A.data[order], A.coords[1][order], starts), shape=A.shape)


def offset(name, mean):
    """The data of a factory with a centre of its own."""

    def make(rng, tmp):
        X, dense = PLAIN[name](rng, tmp)
        centre = mean + rng.standard_normal((dense.shape[1], 1))
        return Centered(X, X.asarray(centre)), dense - centre.T

    return make


def by_its_mean(name):
    def make(rng, tmp):
        X, dense = PLAIN[name](rng, tmp)
        return centered(X), dense - dense.mean(axis=0)

    return make


def far_from_zero(convert, dtype="float64", mean=1e4):
    """Data whose mean is large against its spread, centred."""

    def make(rng, tmp):
        A = (mean + rng.standard_normal((N, D))).astype(dtype)
        exact = A.astype(np.longdouble)
        return centered(as_operator(convert(A))), (exact - exact.mean(axis=0)).astype(np.float64)

    return make


def weighted(make):
    def weighted_make(rng, tmp):
        X, dense = make(rng, tmp)
        b = rng.standard_normal(dense.shape[0])  # signs too: b and -b are different operators
        b[0] = 0.0
        return Weighted(X, X.asarray(b)), b[:, None] * dense

    return weighted_make


CENTRED = {
    **{
        f"centre-{name}": offset(name, 0.3)
        for name in (
            "numpy-C",
            "numpy-float32",
            "torch",
            "strict",
            "strict-device",
            "csr_array",
            "csr_matrix",
            "csr-float32",
            "blocks",
            "blocks-csr",
            "memmap",
        )
    },
    **{
        f"mean-{name}": by_its_mean(name)
        for name in PLAIN
        if name not in ("numpy-read-only", "large", "memmap-float32-large", "nested-lists")
    },
}
SHIFTED = {
    "shifted-numpy": far_from_zero(lambda A: A),
    "shifted-float32": far_from_zero(lambda A: A, "float32"),
    "shifted-torch": far_from_zero(torch.asarray),
    "shifted-torch-float32": far_from_zero(torch.asarray, "float32"),
    "shifted-strict": far_from_zero(strict),
    "shifted-strict-float32": far_from_zero(strict, "float32"),
    "shifted-strict-device": far_from_zero(lambda A: strict(A, "device1"), "float32"),
    "shifted-blocks": far_from_zero(pieces),
    "shifted-blocks-float32": far_from_zero(pieces, "float32"),
}
WEIGHTED = {
    f"weighted-{name}": weighted(make)
    for name, make in {**PLAIN, **CENTRED, **SHIFTED}.items()
    if name
    in {
        "numpy-C",
        "numpy-float32",
        "torch",
        "strict-device",
        "csr_array",
        "csc_matrix",
        "blocks",
        "blocks-csr",
        "memmap",
        "centre-numpy-C",
        "centre-csr_matrix",
        "mean-blocks",
        "mean-torch",
        "shifted-numpy",
        "shifted-float32",
    }
}


def transposed(make):
    def transposed_make(rng, tmp):
        X, dense = make(rng, tmp)
        return X.T, dense.T

    return transposed_make


UPRIGHT = {**PLAIN, **CENTRED, **SHIFTED, **WEIGHTED}
OPERATORS = {**UPRIGHT, **{f"{name}-T": transposed(make) for name, make in UPRIGHT.items()}}


def by_source(names):
    """The names of operators by the data that they are views of."""
    sources = {}
    for name in names:
        source = name.removesuffix("-T").removeprefix("weighted-")
        source = source.removeprefix("centre-").removeprefix("mean-")
        sources.setdefault(source, []).append(name)
    return sources


VIEWS = by_source(OPERATORS)


def every_operator(law):
    """The law for all views of the data, one case for each source."""
    return pytest.mark.parametrize("source", VIEWS)(over("name", VIEWS, by="source")(law))


def every_block_size(law):
    """The law with blocks of 4 MB and, on other numbers, with the least: all data has several."""

    @functools.wraps(law)
    def in_blocks(seed, **given):
        with pytest.MonkeyPatch.context() as patch:
            if seed == 1:
                patch.setattr(_blocks, "BLOCK_BYTES", 1)
            law(seed=seed, **given)

    return over("seed", [0, 1])(in_blocks)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("maps")


def make(name, seed, folder):
    rng = np.random.default_rng(seed)
    X, dense = OPERATORS[name](rng, folder)
    assert X.shape == dense.shape
    return X, dense, rng


def agree(X, actual, expected, size=None, dtype=None):
    """Equal up to the rounding of the operator's dtype, relative to the size of the terms summed."""
    assert dtype_name(actual.dtype) == (dtype or dtype_name(X.dtype))
    assert tuple(actual.shape) == expected.shape
    size = np.abs(expected).max() if size is None else size
    np.testing.assert_allclose(to_numpy(actual), expected, rtol=0, atol=200 * eps(X) * size)


def scale(name, X, dense):
    """The size of an entry that the operator may round: implicit centring rounds uncentred ones."""
    size = np.abs(dense).max()
    if "centre" in name or "mean" in name:
        size += 1.0
    if "shifted" in name:  # the mean itself is known in float64
        size += 1e4 * float(np.finfo(np.float64).eps) / eps(X)
    return size


def row_map(Y, part):
    """Nonlinear, with a weight of its own for each row: 1/(1 + index) Y / sqrt(1 + ||Y_i||^2)."""
    xp = array_namespace(Y)
    index = xp.arange(part.start, part.stop, dtype=Y.dtype, device=device(Y))
    return Y / ((1 + index) * xp.sqrt(1 + xp.sum(Y * Y, axis=1)))[:, None]


def row_map_with_sums(Y, part):
    """H, the number of rows and <Y, H>."""
    H = row_map(Y, part)
    return H, part.stop - part.start, array_namespace(Y).sum(Y * H)


# The laws.


@every_operator
@every_block_size
def test_products(name, seed, folder):
    """X W and X^T H are the dense products, and <XW, H> = <W, X^T H>."""
    X, dense, rng = make(name, seed, folder)
    W, H = rng.standard_normal((X.shape[1], S)), rng.standard_normal((X.shape[0], S))
    size = scale(name, X, dense)
    Y, Z = X @ X.asarray(W), X.T @ X.asarray(H)
    agree(X, Y, dense @ W, size * math.sqrt(X.shape[1]))
    agree(X, Z, dense.T @ H, size * math.sqrt(X.shape[0]))
    rounding = 100 * eps(X) * size * math.sqrt(max(X.shape)) * np.linalg.norm(W) * np.linalg.norm(H)
    assert inner(Y, X.asarray(H)) == pytest.approx(inner(X.asarray(W), Z), abs=rounding)


@every_operator
@every_block_size
def test_sweep_is_two_products(name, seed, folder):
    X, dense, rng = make(name, seed, folder)
    W = rng.standard_normal((X.shape[1], S)) / math.sqrt(X.shape[1])
    Y = dense @ W
    H = row_map(Y, slice(0, X.shape[0]))
    size = scale(name, X, dense) * math.sqrt(X.shape[0])
    agree(X, X.sweep(X.asarray(W)), dense.T @ Y, size * (1 + np.abs(Y).max()))
    agree(X, X.sweep(X.asarray(W), row_map), dense.T @ H, size)
    Z, count, total = X.sweep(X.asarray(W), row_map_with_sums)
    agree(X, Z, dense.T @ H, size)
    assert float(count) == X.shape[0]
    assert abs(float(total) - np.sum(Y * H)) <= 200 * eps(X) * size


@every_operator
@every_block_size
def test_row_norms_and_energy(name, seed, folder):
    X, dense, _ = make(name, seed, folder)
    expected = np.linalg.norm(dense, axis=1)
    norms = X.row_norms()
    assert (to_numpy(norms) >= 0).all()
    agree(X, norms**2, expected**2, (scale(name, X, dense) ** 2) * X.shape[1])
    energy = X.energy()
    assert isinstance(energy, float)
    rounding = 100 * eps(X) * scale(name, X, dense) / np.abs(dense).max()
    assert energy == pytest.approx((expected**2).sum(), rel=rounding)


@every_operator
@every_block_size
def test_gram_and_kernel(name, seed, folder):
    X, dense, rng = make(name, seed, folder)
    size = scale(name, X, dense) ** 2 * math.sqrt(max(X.shape))
    if X.shape[1] <= N:
        agree(X, X.gram(), dense.T @ dense, size, dtype="float64")
        weights = rng.random(X.shape[0])
        expected = dense.T @ (weights[:, None] * dense)
        agree(X, X.gram(X.asarray(weights)), expected, size, dtype="float64")
    if X.shape[0] <= N:
        agree(X, X.kernel(), dense @ dense.T, size, dtype="float64")


@every_operator
def test_transpose_is_an_involution(name, folder):
    X, _, _ = make(name, 0, folder)
    assert X.T.T is X
    assert X.T is X.T
    assert X.T.shape == X.shape[::-1]
    assert X.T.dtype == X.dtype
    assert X.T.T.T is X.T


@every_operator
@every_block_size
def test_passes(name, seed, folder):
    """One pass for a product or a sweep; two for a sweep of X.T where X is read by rows only."""
    X, _, rng = make(name, seed, folder)
    W = X.asarray(rng.standard_normal((X.shape[1], S)))
    H = X.asarray(rng.standard_normal((X.shape[0], S)))

    def cost(action):
        before = X.passes
        assert X.T.passes == before
        action()
        assert X.T.passes == X.passes
        return X.passes - before

    sweep = 2 if isinstance(X, Transposed) else 1
    assert cost(lambda: X @ W) == 1
    assert cost(lambda: X.T @ H) == 1
    assert cost(lambda: X.matmul(W)) == 1
    assert cost(lambda: X.rmatmul(H)) == 1
    assert cost(lambda: X.sweep(W)) == sweep
    assert cost(lambda: X.sweep(W, row_map)) == sweep
    assert cost(lambda: X.sweep(W, row_map_with_sums)) == sweep
    if isinstance(X, RowBlocked) and X.shape[1] <= N:
        assert cost(X.gram) == 1
        assert cost(X.row_norms) == 1
        assert cost(X.energy) == 1


@every_operator
def test_small_things_are_of_the_datas_kind(name, folder):
    X, dense, rng = make(name, 0, folder)
    values = rng.standard_normal((3, 2))
    small = X.asarray(values)
    assert dtype_name(small.dtype) == dtype_name(X.dtype) in ("float32", "float64")
    np.testing.assert_array_equal(to_numpy(small), values.astype(dtype_name(X.dtype)))
    again = X.asarray(small)
    assert type(again) is type(small)
    np.testing.assert_array_equal(to_numpy(again), to_numpy(small))
    assert type(X @ X.asarray(rng.standard_normal((X.shape[1], 1)))) is type(small)
    assert not X.implicit
    assert f"{dense.shape[0]}, {dense.shape[1]}" in repr(X)


@pytest.mark.parametrize("source", VIEWS)
@over("name", by_source({**PLAIN, **CENTRED, **SHIFTED}), by="source")
@every_block_size
def test_todense(name, seed, folder):
    X, dense, _ = make(name, seed, folder)
    agree(X, X.todense(), dense, scale(name, X, dense))


def test_views_share_one_counter():
    rng = np.random.default_rng(0)
    for make_data in (normal, sparse, lambda rng: pieces(normal(rng))):
        X = as_operator(make_data(rng))
        c = Centered(X, rng.standard_normal((D, 1)))
        w = Weighted(c, rng.standard_normal(N))
        mean = centered(X)
        views = [X, X.T, c, c.T, w, w.T, mean, mean.T, Shifted(X, rng.standard_normal((D, 1)))]
        W, H = rng.standard_normal((D, S)), rng.standard_normal((N, S))
        count = X.passes
        for view in views[:-1]:
            view @ (W if view.shape == (N, D) else H)
            count += 1
            assert {v.passes for v in views} == {count}


# Centring.


@pytest.mark.parametrize(
    "convert",
    [lambda A: A, torch.asarray, strict, pieces],
    ids=["numpy", "torch", "strict", "blocks"],
)
@over("mean", [1e2, 1e4])
@over("dtype", ["float32", "float64"])
@every_block_size
def test_centring_keeps_the_digits_of_the_data(convert, dtype, mean, seed):
    """Every product within a few roundings of the one with the data centred in higher precision."""
    rng = np.random.default_rng(seed)
    A = (mean * (1 + rng.random(D)) + rng.standard_normal((N, D))).astype(dtype)
    exact = A.astype(np.longdouble)
    exact = exact - exact.mean(axis=0)
    X = centered(as_operator(convert(A)))
    W, H = rng.standard_normal((D, S)), rng.standard_normal((N, S))
    # In float64 the mean itself, of size 1e4, has only so many digits; in float32 it has more.
    tol = 20 * eps(X) + 4 * np.finfo(np.float64).eps * mean
    for actual, expected in (
        (X @ X.asarray(W), exact @ as_seen(X, W)),
        (X.T @ X.asarray(H), exact.T @ as_seen(X, H)),
        (X.gram(), exact.T @ exact),
    ):
        error = np.linalg.norm(to_numpy(actual) - expected.astype(float))
        assert error <= tol * np.linalg.norm(expected.astype(float))
    assert X.energy() == pytest.approx(float((exact**2).sum()), rel=tol)


def as_seen(X, W):
    """W as the operator sees it, in higher precision."""
    return to_numpy(X.asarray(W)).astype(np.longdouble)


@over("name", [name for name in CENTRED if name.startswith("mean-")])
def test_centred_columns_sum_to_zero(name, folder):
    X, _, _ = make(name, 0, folder)
    ones = X.asarray(np.ones((X.shape[0], 1)))
    raw = OPERATORS[name.removeprefix("mean-")](np.random.default_rng(0), folder)[1]
    sums = to_numpy(X.T @ ones)
    assert np.abs(sums).max() <= 20 * eps(X) * np.abs(raw).sum(axis=0).max()


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix])
def test_sparse_data_with_a_large_mean_stays_sparse(kind, loaded):
    rng = np.random.default_rng(0)
    A = 1e4 + normal(rng)
    parts = [kind(part) for part in pieces(A)]
    shapes = [part.shape for part in parts]
    functions = [lambda part=part: part for part in parts]
    X = Blocks(functions, shapes=shapes, dtype=A.dtype) if loaded else Blocks(parts)
    Xc = centered(X)
    assert isinstance(centered(Blocks(pieces(A))), Shifted)
    assert isinstance(Xc, Centered)
    W = rng.standard_normal((D, S))
    np.testing.assert_allclose(Xc @ W, (A - A.mean(axis=0)) @ W, rtol=0, atol=1e-8)


# What must not happen to the data.

SPARSE = [name for name in UPRIGHT if any(k in name for k in ("csr", "csc", "coo", "lil", "dia"))]


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_data_is_never_densified(name, folder, monkeypatch):
    """Only products may become dense arrays; the data, its blocks and their transposes may not."""
    X, _, rng = make(name, 0, folder)
    W, H = rng.standard_normal((D, S)), rng.standard_normal((X.shape[0], S))

    def guard(method):
        def guarded(self, *args, **kwargs):
            assert D not in self.shape or self.shape == (D, D), f"densified {self.shape}"
            return method(self, *args, **kwargs)

        return guarded

    for kind in (sp.csr_array, sp.csc_array, sp.coo_array, sp.dia_array, sp.lil_array):
        for flavour in (kind, getattr(sp, kind.__name__.replace("array", "matrix"))):
            for method in ("toarray", "todense"):
                monkeypatch.setattr(flavour, method, guard(getattr(flavour, method)))
    with pytest.raises(AssertionError, match="densified"):
        sp.csr_array((3, D)).toarray()
    Xc = centered(X)
    for Y in (X, Xc, Weighted(Xc, X.asarray(rng.random(X.shape[0])))):
        for result in (Y @ W, Y.T @ H, Y.sweep(W), Y.sweep(W, row_map), Y.T.sweep(H)):
            assert isinstance(result, np.ndarray)
        assert isinstance(Y.row_norms(), np.ndarray)
        assert isinstance(Y.gram(), np.ndarray)
        assert isinstance(Y.gram(rng.random(X.shape[0])), np.ndarray)
        assert isinstance(Y.kernel(), np.ndarray)
        assert Y.energy() > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@every_block_size
def test_memory_maps_are_neither_written_nor_copied(dtype, seed, folder):
    shape = longer_than_two_blocks(np.dtype(dtype).itemsize)
    rng = np.random.default_rng(seed)
    A = memory_map(normal(rng, dtype, shape), folder)
    path = Path(A.filename)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    X = as_operator(A)
    assert isinstance(X, Blocks)
    assert not A.flags.writeable
    covered = 0
    for part, block in X.blocks():
        assert np.shares_memory(block, A)
        assert not block.flags.writeable
        assert block.dtype == A.dtype
        assert part.start == covered
        covered = part.stop
    assert covered == shape[0]
    W, H = X.asarray(rng.standard_normal((D, S))), X.asarray(rng.standard_normal((shape[0], S)))
    Xc = centered(X)
    for Y in (X, Xc, Shifted(X, X.asarray(np.ones((D, 1)))), Weighted(Xc, X.asarray(H[:, 0]))):
        Y @ W, Y.T @ H, Y.sweep(W), Y.sweep(W, row_map), Y.gram(), Y.row_norms(), Y.energy()
    A.flush()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


@over("name", ["numpy-C", "numpy-F", "numpy-strided", "numpy-float32", "large"])
@every_block_size
def test_dense_blocks_are_views(name, seed, folder):
    X, _, _ = make(name, seed, folder)
    assert all(np.shares_memory(block, X.data) for _, block in X.blocks())
    assert np.shares_memory(X.T.data, X.data)


@every_operator
def test_the_data_is_left_alone(name, folder):
    """The same products before and after every other method ran."""
    X, _, rng = make(name, 0, folder)
    W = X.asarray(rng.standard_normal((X.shape[1], S)))
    before = to_numpy(X @ W).copy()
    kept = to_numpy(W).copy()
    X.sweep(W)
    X.sweep(W, row_map)
    centered(X)
    X.energy()
    X.T @ (X @ W)
    np.testing.assert_array_equal(to_numpy(W), kept)
    np.testing.assert_array_equal(to_numpy(X @ W), before)


def test_large_data_has_several_blocks(folder):
    for name in ("large", "memmap-float32-large"):
        X, _, _ = make(name, 0, folder)
        sizes = [block.nbytes for _, block in X.blocks()]
        assert len(sizes) > 1
        assert max(sizes) <= 4 * 2**20


def test_each_block_is_loaded_once_a_pass():
    A = normal(np.random.default_rng(0))
    calls = []

    def load(i, block):
        calls.append(i)
        return block

    parts = pieces(A)
    X = Blocks(
        [lambda i=i, p=p: load(i, p) for i, p in enumerate(parts)],
        shapes=[p.shape for p in parts],
        dtype=A.dtype,
    )
    assert calls == []
    for action in (
        lambda: X @ np.ones((D, 1)),
        lambda: X.T @ np.ones((N, 1)),
        lambda: X.sweep(np.ones((D, 1)), row_map),
        X.gram,
        X.row_norms,
        X.energy,
    ):
        calls.clear()
        action()
        assert calls == list(range(len(parts)))


def test_blocks_take_the_widest_dtype():
    """A float64 block behind a float32 one keeps its digits."""
    A = normal(np.random.default_rng(0))
    X = Blocks([A[:50].astype(np.float32), A[50:]])
    assert X.dtype == np.float64
    np.testing.assert_allclose((X @ np.eye(D))[50:], A[50:], rtol=1e-14)


# Kernels: W = Gamma^T A is implicit; Phi holds the features explicitly.

M = 9


def features(rng, dtype="float64"):
    return rng.standard_normal((N, M)).astype(dtype)


def matrix_kernel(Phi, convert=lambda K: K):
    wide = Phi.astype(np.float64)
    return Kernel.from_matrix(convert((wide @ wide.T).astype(Phi.dtype))), wide


def linear_kernel(convert, dtype="float64"):
    def make(rng):
        Phi = features(rng, dtype)
        return Kernel.linear(as_operator(convert(Phi))), Phi.astype(np.float64)

    return make


def linear_kernel_of_centred(rng):
    Phi = features(rng)
    return Kernel.linear(centered(as_operator(Phi))), Phi - Phi.mean(axis=0)


def function_kernel(dtype="float64"):
    def make(rng):
        Phi = features(rng, dtype)
        return Kernel.from_function(lambda A, B: A @ B.T, Phi), Phi.astype(np.float64)

    return make


def polynomial_kernel(rng):
    """(x.y + 1)^2 with its features written out: x_i x_j, sqrt(2) x_i and 1."""
    A = rng.standard_normal((N, 3))
    outer = (A[:, :, None] * A[:, None, :]).reshape(N, -1)
    Phi = np.hstack([outer, math.sqrt(2) * A, np.ones((N, 1))])
    return Kernel.from_function(lambda A, B: (A @ B.T + 1) ** 2, A), Phi


def mean_of_kernel(make):
    def centred_make(rng):
        X, Phi = make(rng)
        return centered(X), Phi - Phi.mean(axis=0)

    return centred_make


def centre_of_kernel(make):
    def centred_make(rng):
        X, Phi = make(rng)
        a = rng.standard_normal((N, 1)) / N
        return Centered(X, X.T @ X.asarray(a)), Phi - (Phi.T @ a).T

    return centred_make


def weights_of_kernel(make):
    def weighted_make(rng):
        X, Phi = make(rng)
        b = rng.standard_normal(N)
        return Weighted(X, X.asarray(b)), b[:, None] * Phi

    return weighted_make


PLAIN_KERNELS = {
    "matrix": lambda rng: matrix_kernel(features(rng)),
    "matrix-float32": lambda rng: matrix_kernel(features(rng, "float32")),
    "matrix-torch": lambda rng: matrix_kernel(features(rng), torch.asarray),
    "matrix-strict": lambda rng: matrix_kernel(features(rng), strict),
    "matrix-device": lambda rng: matrix_kernel(features(rng), lambda K: strict(K, "device1")),
    "matrix-csr": lambda rng: matrix_kernel(features(rng), sp.csr_array),
    "function": function_kernel(),
    "function-float32": function_kernel("float32"),
    "function-polynomial": polynomial_kernel,
    "linear": linear_kernel(lambda Phi: Phi),
    "linear-float32": linear_kernel(lambda Phi: Phi, "float32"),
    "linear-torch": linear_kernel(torch.asarray),
    "linear-strict": linear_kernel(strict),
    "linear-csr": linear_kernel(sp.csr_array),
    "linear-blocks": linear_kernel(pieces),
    "linear-centred": linear_kernel_of_centred,
}
KERNELS = {
    **PLAIN_KERNELS,
    **{f"mean-{name}": mean_of_kernel(make) for name, make in PLAIN_KERNELS.items()},
    **{
        f"centre-{name}": centre_of_kernel(make)
        for name, make in PLAIN_KERNELS.items()
        if name in ("matrix", "function", "linear", "matrix-torch")
    },
    **{
        f"weighted-{name}": weights_of_kernel(make)
        for name, make in PLAIN_KERNELS.items()
        if name in ("matrix", "function", "linear-blocks", "matrix-strict")
    },
}
KERNEL_VIEWS = by_source(KERNELS)


def every_kernel(law):
    """The law for all views of the kernels, one case for each of these."""
    return pytest.mark.parametrize("source", KERNEL_VIEWS)(
        over("name", KERNEL_VIEWS, by="source")(law)
    )


def make_kernel(name, seed):
    rng = np.random.default_rng(seed)
    X, Phi = KERNELS[name](rng)
    return X, Phi, rng


@every_kernel
@every_block_size
def test_kernel_products(name, seed):
    """X (X^T A) = K A, the dot test, and the sweep as two products."""
    X, Phi, rng = make_kernel(name, seed)
    K = Phi @ Phi.T
    A, B = rng.standard_normal((N, S)) / N, rng.standard_normal((N, S)) / N
    W = X.T @ X.asarray(A)
    size = np.abs(K).max()
    assert X.implicit
    assert is_implicit(W)
    assert X.shape == (N, N)
    agree(X, X @ W, K @ A, size)
    assert inner(X @ W, X.asarray(B)) == pytest.approx(
        inner(W, X.T @ X.asarray(B)), abs=100 * eps(X) * size
    )
    agree(X, X @ X.sweep(W), K @ (K @ A), N * size**2)
    H = row_map(K @ A, slice(0, N))
    Z, count, total = X.sweep(W, row_map_with_sums)
    assert is_implicit(Z)
    agree(X, X @ Z, K @ H, N * size)
    assert float(count) == N
    assert float(total) == pytest.approx(np.sum(H * (K @ A)), abs=100 * eps(X) * N * size)
    agree(X, X @ X.sweep(W, row_map), K @ H, N * size)


@every_kernel
@every_block_size
def test_implicit_factors(name, seed):
    """Inner products of W = Gamma^T A and of its linear maps are those of the explicit Phi^T A."""
    X, Phi, rng = make_kernel(name, seed)
    A, B = rng.standard_normal((N, S)) / N, rng.standard_normal((N, S)) / N
    T = rng.standard_normal((S, 2))
    W, V = X.T @ X.asarray(A), X.T @ X.asarray(B)
    w, v = Phi.T @ A, Phi.T @ B
    size = np.abs(Phi @ Phi.T).max()

    def same(implicit, explicit):
        agree(X, cross(implicit, W), explicit.T @ w, size)  # before its own image is known
        agree(X, gram(implicit), explicit.T @ explicit, size)
        agree(X, cross(W, implicit), w.T @ explicit, size)
        agree(X, X @ implicit, Phi @ explicit, N * size)
        assert norm(implicit) == pytest.approx(
            np.linalg.norm(explicit), abs=100 * eps(X) * size / np.linalg.norm(explicit)
        )
        assert implicit.shape[1] == explicit.shape[1]
        assert implicit.dtype == X.dtype

    same(W, w)
    assert inner(W, V) == pytest.approx(np.sum(w * v), abs=100 * eps(X) * size)
    assert inner(V, W) == pytest.approx(inner(W, V), abs=100 * eps(X) * size)
    same(W @ X.asarray(T), w @ T)
    same(W + V, w + v)
    same(W - V, w - v)
    same(-W, -w)
    same(W * 2.5, w * 2.5)
    same(2.5 * W, 2.5 * w)
    same(W / 2.5, w / 2.5)
    same((W - V @ X.asarray(T @ T.T)) / 3.0, (w - v @ (T @ T.T)) / 3.0)


@every_kernel
@every_block_size
def test_kernel_matrix_and_row_norms(name, seed):
    X, Phi, _ = make_kernel(name, seed)
    K = Phi @ Phi.T
    size = 2 * np.abs(K).max()
    assert tuple(X.kernel().shape) == (N, N)
    np.testing.assert_allclose(to_numpy(X.kernel()), K, rtol=0, atol=100 * eps(X) * size)
    agree(X, X.row_norms() ** 2, np.diagonal(K), size)
    assert X.energy() == pytest.approx(np.trace(K), rel=100 * eps(X))
    agree(X, X.T.gram(), K, size, dtype=dtype_name(X.kernel().dtype))
    with pytest.raises(TypeError, match="feature space"):
        X.gram()


@every_kernel
@every_block_size
def test_kernel_passes(name, seed):
    """One product with K a step, none for X.T @ H, none for linear maps of known factors."""
    X, _, rng = make_kernel(name, seed)
    once = 2 if "blocks" in name or "linear-centred" in name else 1  # X X^T by rows is two passes
    A = X.asarray(rng.standard_normal((N, S)))
    T = X.asarray(rng.standard_normal((S, S)))
    if isinstance(X, Centered):
        X @ (X.T @ A)  # the image of the centre is found once
    start = X.passes
    W = X.T @ A
    assert X.passes == start
    for step in range(1, 4):
        Z = X.sweep(W, row_map)
        inner(W, Z), gram(W), X @ W, X @ (W @ T), gram(2.0 * W - W @ T)
        assert X.passes == start + step * once
        W = (Z + W) @ T
    assert X.T.passes == X.passes


def test_kernel_of_a_function_is_never_stored(monkeypatch):
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 1)
    Phi = features(np.random.default_rng(0))
    largest = []

    def kernel(A, B):
        largest.append(A.shape[0] * B.shape[0])
        return A @ B.T

    X = Kernel.from_function(kernel, Phi)
    X @ (X.T @ np.ones((N, 1)))
    X.row_norms()
    assert max(largest) == 64 * N


# Bad input.


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: as_operator(np.ones(3)), "X has 1 dimension"),
        (lambda: as_operator([1.0, 2.0]), "X has 1 dimension"),
        (lambda: as_operator(np.ones((2, 3, 4))), "X has 3 dimension"),
        (lambda: as_operator(torch.ones(3)), "X has 1 dimension"),
        (lambda: Matrix(strict(np.ones(3))), "X has 1 dimension"),
        (lambda: Matrix(sp.coo_array(np.ones(3))), "X has 1 dimension"),
        (lambda: as_operator([]), "X has 1 dimension"),
        (lambda: Blocks([]), "blocks is empty"),
        (lambda: Blocks([np.ones(3)]), "1 dimension"),
        (lambda: Blocks([np.ones((2, 3)), np.ones(3)]), "1 dimension"),
        (lambda: Blocks([np.ones((2, 3)), np.ones((2, 4))]), r"\[3, 4\] columns"),
        (lambda: as_operator([np.ones((2, 3)), np.ones((2, 4))]), r"\[3, 4\] columns"),
        (
            lambda: Blocks([lambda: 0] * 2, shapes=[(2, 3), (2, 4)], dtype=float),
            r"\[3, 4\] columns",
        ),
        (lambda: Blocks([np.ones((2, 3))], shapes=[(2, 3), (2, 3)]), "one for each block"),
        (lambda: Kernel.from_matrix(np.ones((3, 2))), r"K has shape \(3, 2\)"),
        (lambda: Kernel.from_matrix(np.ones(3)), "1 dimension"),
        (lambda: Kernel(Matrix(np.ones((2, 5))), lambda: 0), r"K has shape \(2, 5\)"),
    ],
)
def test_bad_input(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_operators_pass_through():
    for X in (as_operator(np.eye(3)), Kernel.from_matrix(np.eye(3)), Blocks([np.eye(3)])):
        assert as_operator(X) is X


@pytest.mark.parametrize(("kind", "size"), [(np.float32, 1e-40), (np.float64, 1e-310)])
def test_row_norms_of_subnormal_rows(kind, size):
    """Their largest entry has no finite inverse."""
    norms = as_operator(np.array([[3 * size, 4 * size], [3.0, 4.0]], dtype=kind)).row_norms()
    np.testing.assert_allclose(norms, [5 * size, 5], rtol=1e-3)


def test_what_an_operator_does_not_offer_is_refused():
    K = Kernel.from_matrix(np.eye(3))
    with pytest.raises(TypeError, match=r"has implicit columns and is no array"):
        K.todense()
