"""What memory has no room for is refused before any work, with the number of bytes."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.lib.stride_tricks import as_strided

from dualpca import PCA, KernelPCA, PrincipalComponentPursuit, RobustPCA, as_operator
from dualpca import _memory as memory
from dualpca.formulations import formulation
from dualpca.kernels.features import nystroem, random_fourier
from dualpca.operators import Blocks, centered
from dualpca.solvers import IRLS
from dualpca.solvers.spectral.chebyshev import Chebyshev
from dualpca.solvers.spectral.krylov import Krylov

N = 10**6


def rows(n=N):
    """A few numbers in many rows and columns."""
    few = np.arange(50)
    return sp.csr_array((few + 1.0, (few, few)), shape=(n, n))


def unread():
    raise AssertionError("it was read before it was refused")


SQUARE = (
    r"a Gram matrix of 1,000,000 x 1,000,000 and its eigenvectors take 16,000,000,000,000 bytes "
    r"\(14\.6 TiB\), and [\d,]+ \(.*\) are available; take a solver that needs none, such as 'krylov'"
)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: as_operator(rows()).gram(),
        lambda: as_operator(rows()).kernel(),
        lambda: as_operator(rows()).T.gram(),
        lambda: centered(as_operator(rows())).gram(),
        lambda: Blocks([unread], shapes=[(N, N)], dtype=float).gram(),
        lambda: Blocks([unread], shapes=[(N, 3)], dtype=float).kernel(),
        lambda: PCA(2, solver="gram").fit(rows()),
    ],
)
def test_squares_that_fit_no_memory_are_refused(ask):
    with pytest.raises(MemoryError, match=SQUARE):
        ask()


@pytest.mark.parametrize(("dtype", "total"), [(np.float64, "8,0"), (np.float32, "4,0")])
def test_dense_copies_that_fit_no_memory_are_refused(dtype, total):
    everything = as_strided(np.ones(1, dtype=dtype), (N, N), (0, 0), writeable=False)
    for X in (as_operator(everything), Blocks([everything])):
        with pytest.raises(
            MemoryError, match=rf"in one dense array take {total}00,000,000,000 bytes"
        ):
            X.todense()


def test_what_is_available_is_asked_of_the_system_and_nothing_less_is_refused(monkeypatch):
    left = memory.available()
    assert left is None or left > 2**20
    monkeypatch.setattr(memory, "available", lambda: 2**30)
    memory.ensure(2**30, "numbers", "")
    with pytest.raises(MemoryError, match=r"numbers take 1,073,741,825 bytes \(1 GiB\), and 1,073"):
        memory.ensure(2**30 + 1, "numbers", "take fewer")
    monkeypatch.setattr(memory, "available", lambda: None)  # a system that does not tell
    memory.ensure(2**60, "numbers", "")


def test_the_smallest_of_the_limits_counts(monkeypatch):
    resource = pytest.importorskip("resource")
    used = memory.available()
    if used is None:
        pytest.skip("the system does not tell")
    monkeypatch.setattr(
        resource, "getrlimit", lambda which: (2**62, 2**62) if which == resource.RLIMIT_AS else None
    )
    assert memory.available() <= 2**62
    monkeypatch.setattr(memory, "_limits", lambda: iter([5, -3, 7]))
    assert memory.available() == 0


@pytest.mark.parametrize("solver", ["chebyshev", "krylov"])
def test_more_components_than_memory_has_room_for_are_refused(solver):
    model = PCA(10**5, solver=solver, random_state=0)
    with pytest.raises(
        MemoryError,
        match=r"take [\d,]+ bytes \([\d.e+]+ [TG]iB\), and .*; ask for fewer components",
    ):
        model.fit(rows())
    assert not hasattr(model, "components_")


@pytest.mark.parametrize(
    "ask",
    [
        lambda X: Krylov()(X, 300, tol=1e-6, seed=0),
        lambda X: Chebyshev()(X, 300, tol=1e-6, seed=0),
        lambda X: formulation("l", X).start(300),
        lambda X: nystroem(np.ones((10**4, 1)), "rbf", slice(None), gamma=1.0),
        lambda X: random_fourier(10**5, 10**4, 1.0, np.random.default_rng(0)),
        lambda X: RobustPCA(2, solver="irls").fit(np.broadcast_to(1.0, (10**4, 10**4))),
        lambda X: RobustPCA(2, solver=IRLS()).fit(np.broadcast_to(1.0, (10**4, 10**4))),
    ],
)
def test_blocks_that_do_not_fit_are_refused_before_a_row_is_read(ask, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 2**30)
    X = Blocks([unread], shapes=[(N, N)], dtype=float)
    with pytest.raises(MemoryError, match=r" take [\d,]+ bytes .* available; (ask|take)"):
        ask(X)


@pytest.mark.parametrize("room", [1, 60, 10**9])
def test_a_basis_shrinks_to_the_memory_there_is_and_the_digits_stay(room, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.standard_normal((400, 300)))[0] * 0.98 ** np.arange(300)
    vectors = []
    zeros = np.zeros

    def counted(shape, **options):
        vectors.append(shape[0])
        return zeros(shape, **options)

    monkeypatch.setattr("dualpca.solvers.spectral.run.SMALL", 0)
    monkeypatch.setattr("dualpca.solvers.spectral.run.available", lambda: 2 * room * 300 * 8)
    monkeypatch.setattr("array_api_compat.numpy.zeros", counted)
    found = Krylov(block=4)(as_operator(X), 5, tol=1e-10, seed=0)
    np.testing.assert_allclose(np.sqrt(found.ritz.theta), 0.98 ** np.arange(5), rtol=1e-12)
    assert max(vectors) <= max(room, 5 + 4 * 4) + 2 * 4


def test_what_numpy_does_not_say_is_left_as_it_is():
    assert memory.refusal(MemoryError("something else")) is None


def test_kernel_axes_and_pursuit_that_do_not_fit_are_refused_before_any_work(tmp_path):
    X = np.broadcast_to(np.float64(1.0), (10**6, 2))
    for options in ({"n_components": 2, "solver": "lapack"}, {"n_components": None}):
        with pytest.raises(
            MemoryError, match=r"kernel matrix and its axes take 16,.* available; give"
        ):
            KernelPCA(kernel="rbf", **options).fit(X)
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, "w+", float, (10**5, 10**5))  # a hole, on most file systems
    with pytest.raises(MemoryError, match=r"X of shape .* available; give fewer rows or columns"):
        PrincipalComponentPursuit().fit(np.load(path, mmap_mode="r"))


MIB = 2**20
MEMINFO = f"MemAvailable: {2**20} kB\nSwapFree: 0 kB\n"  # 1 GiB


def group(root, path, version, most, used, idle):
    """A folder of a control group, as the kernel shows it."""
    folder = root / "sys/fs/cgroup" / ("memory" if version == 1 else "") / path
    folder.mkdir(parents=True, exist_ok=True)
    limit, usage, stat = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }[version]
    (folder / limit).write_text(f"{most}\n")
    (folder / usage).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"cache 5\n{stat} {idle}\n")


V1 = "5:cpu,cpuacct:/job\n4:memory:/docker/abc\n"
UNLIMITED = 9223372036854771712  # how version 1 writes that there is no limit


@pytest.mark.parametrize(
    ("lines", "groups", "expected"),
    [
        pytest.param(V1, [("docker/abc", 1, 300 * MIB, 200 * MIB, 50 * MIB)], 150, id="v1"),
        pytest.param(V1, [("", 1, 300 * MIB, 200 * MIB, 50 * MIB)], 150, id="v1 in a container"),
        pytest.param(V1, [("docker/abc", 1, UNLIMITED, 9 * MIB, 0)], 1024, id="v1 unlimited"),
        pytest.param(
            V1,
            [("docker/abc", 1, UNLIMITED, 9, 0), ("docker", 1, 100 * MIB, 36 * MIB, 0)],
            64,
            id="v1 limited above",
        ),
        pytest.param("0::/a\n", [("a", 2, 300 * MIB, 200 * MIB, 50 * MIB)], 150, id="v2"),
        pytest.param("0::/a\n", [("a", 2, "max", 200 * MIB, 0)], 1024, id="v2 unlimited"),
        pytest.param(
            "0::/a/b\n",
            [("a/b", 2, "max", 9, 0), ("a", 2, 100 * MIB, 36 * MIB, 0)],
            64,
            id="v2 limited above",
        ),
        pytest.param(
            f"{V1}0::/\n", [("docker/abc", 1, 300 * MIB, 200 * MIB, 0)], 100, id="both versions"
        ),
        pytest.param("", [], 1024, id="no groups"),
    ],
)
def test_the_limits_of_control_groups_are_seen(tmp_path, monkeypatch, lines, groups, expected):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(MEMINFO)
    (tmp_path / "proc/self/cgroup").write_text(lines)
    for told in groups:
        group(tmp_path, *told)
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    monkeypatch.setattr("os.sysconf", lambda name: 2**20)  # 2^40 bytes
    assert memory.available() == expected * MIB
    with pytest.raises(MemoryError, match="are available; take fewer"):
        memory.ensure(max(expected * MIB, memory.SMALL) + 1, "numbers", "take fewer")
