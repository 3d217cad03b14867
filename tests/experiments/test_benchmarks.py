"""The race: its judges, its rules on small matrices, its report, its counts of work and its sweeps."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks import measure, passes, race_methods, report, work
from benchmarks.cases import CASES, Case, gaussian
from benchmarks.explore import TARGETS, Explored, Trail, explore
from benchmarks.install_primme import renamed
from benchmarks.judge import Judge, KernelJudge, kernel_reference, reference
from benchmarks.methods import (
    COVARIANCE,
    FIRST_ORDER,
    METHODS,
    OURS,
    Method,
    available,
    components,
)
from benchmarks.race import Matrices, _contenders, _row, finite, first_word, race, run_all
from numpy.testing import assert_allclose
from sklearn import decomposition
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer
from sklearn.utils.extmath import randomized_svd

SIGMA = np.array([8.0, 5.0, 4.0, 2.0, 1.0, 0.5])


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """Timings mean nothing here."""
    monkeypatch.setattr("benchmarks.measure.PAUSE", 0.0)
    monkeypatch.setattr("benchmarks.passes.PAUSE", 0.0)


def diagonal(N, d):
    """A matrix with the singular values SIGMA on the first coordinate axes."""
    A = np.zeros((N, d))
    A[range(6), range(6)] = SIGMA
    return A


def trail(name, runs, kind="peer"):
    """A trail of (knob, seconds, shortfall)."""
    return Trail(Method(name, lambda *_: None, kind=kind), [Explored(*r, None, {}) for r in runs])


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """A race of every method on two small matrices, and the folder of its report."""
    decaying = lambda: gaussian(200, 100)() * 0.9 ** np.arange(100)  # noqa: E731
    cases = [Case("small", 5, decaying), Case("less", 3, decaying), Case("none", 3, lambda: None)]
    folder = tmp_path_factory.mktemp("results")
    out = folder / "race.json"
    methods = [*METHODS, *FIRST_ORDER]
    found = run_all(cases, ["float32"], methods, out, budget=3, repeats=2, cap=0.2)
    assert json.loads(out.read_text()) == found
    return found, folder


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (300, 20)], ids=["square", "wide", "tall"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_judge_knows_exact_and_wrong_components(shape, make):
    A = make(diagonal(*shape))
    judge = Judge(A, reference(A, 2))
    eye = np.eye(shape[1])
    assert judge.optimum == pytest.approx(64 + 25)
    assert judge.shortfall(eye[:, :2]) == pytest.approx(0, abs=1e-14)
    assert judge.shortfall(eye[:, [0, 2]]) == pytest.approx((25 - 16) / 89)
    skew = eye[:, :2] @ np.array([[1.0, 3.0], [0.5, -2.0]])  # another basis of the same subspace
    assert judge.shortfall(skew) == pytest.approx(0, abs=1e-14)
    assert judge.shortfall(np.full((shape[1], 2), np.nan)) == np.inf


def test_reference_is_ordered_and_serves_float32():
    A = gaussian(60, 40)()
    V = reference(A, 6)
    assert_allclose(np.linalg.norm(A @ V, axis=0), np.linalg.svd(A)[1][:6], rtol=1e-10)
    rounded = A.astype(np.float32)
    exact = np.sum(np.linalg.svd(rounded.astype(float))[1][:6] ** 2)
    assert Judge(rounded, V).optimum == pytest.approx(exact, rel=1e-11)


def test_fastest_run_counts_and_not_the_loosest():
    found = trail("m", [(1, 0.3, 1e-3), (2, 0.1, 1e-5), (4, 0.2, 1e-9)])
    assert [found.fastest(target).knob for target in TARGETS] == [2, 2, 4]
    assert found.fastest(1e-12) is None


def test_contenders_are_ours_and_those_near_the_fastest_peer():
    trails = [
        trail("near", [(1, 1.9, 1e-9)]),
        trail("far", [(1, 3.5, 1e-9)]),
        trail("best", [(1, 1.0, 1e-9)]),
        trail(OURS, [(1, 9.0, 1e-9)], kind="ours"),
    ]
    assert {name for name, _ in _contenders(trails)} == {"near", "best", OURS}


def test_exploration_stops_at_the_target_at_the_limit_and_at_a_failure(monkeypatch):
    exact, far = np.eye(6)[:, :2], np.eye(6)[:, 2:4]
    clock = {"met": 1.0, "slow": 5.0, "ours": 30.0, "broken": 1.0}

    def fake(method, A, s, knob):
        if method.name == "broken":
            raise ValueError("no")
        return clock[method.name], exact if knob == 2 else far, None

    monkeypatch.setattr("benchmarks.explore.measured", fake)
    monkeypatch.setattr("benchmarks.explore.warm_up", lambda *_: None)
    knobs = (0, 1, 2, 3)
    methods = [Method(name, None, knobs) for name in ("met", "slow", "broken")]
    methods.append(Method("ours", None, knobs, kind="ours"))
    A = diagonal(6, 6)
    found = {t.method.name: t for t in explore(methods, A, 2, Judge(A, reference(A, 2)), cap=10)}
    assert [run.knob for run in found["met"].runs] == [0, 1, 2]
    assert [run.knob for run in found["slow"].runs] == [0]  # over 4 times the first one's second
    assert found["slow"].ended.startswith("stopped")
    assert [run.knob for run in found["ours"].runs] == [
        0,
        1,
        2,
    ]  # over the cap, yet allowed to go on
    assert found["broken"].ended == "failed: ValueError: no"


def test_a_direct_method_is_predicted_from_a_corner(monkeypatch):
    shapes = []

    def fake(method, A, s, knob):
        shapes.append(A.shape)
        return 0.5, None

    monkeypatch.setattr(measure, "seconds_of", fake)
    A, method = np.zeros((3000, 1000)), Method("m", None, side=min)
    assert measure.predicted(method, A, 3) == 0.5 * 4**3
    assert set(shapes) == {(750, 250)}
    assert measure.predicted(method, A[:, :400], 3) == 0
    assert len(shapes) == 2


def test_what_a_direct_method_would_take_decides_whether_it_runs(monkeypatch):
    found = Trail(Method("m", lambda A, s, knob: np.eye(6)[:, :2], side=min))
    monkeypatch.setattr("benchmarks.explore.predicted", lambda *_: 30.0)
    A = diagonal(6, 6)
    judge = Judge(A, reference(A, 2))
    found.advance(A, 2, judge, limit=1)
    assert (found.runs, found.ended) == ([], "not run: about 30 s, from a corner of the data")
    found.advance(A, 2, judge, limit=16)  # with more patience it does
    assert (len(found.runs), found.over) == (1, True)


def test_peak_memory_sees_what_a_run_allocates():
    def allocate(A, s, knob):
        return np.ones(knob * 2**17).sum()

    peak = measure.measured(Method("m", allocate), None, 1, 64)[2]
    if peak is None:
        pytest.skip("no /proc/self/clear_refs here")
    assert 60 <= peak <= 80


def test_methods_without_their_package_are_named_and_left_out():
    absent = Method("absent", None, needs="no_such_package")
    found, missing = available([METHODS[0], absent])
    assert found == METHODS[:1]
    assert missing == ["absent does not race: No module named 'no_such_package'"]


EVERY = [
    (method, make)
    for method in [*METHODS, *FIRST_ORDER]
    for make in (np.asarray, sp.csr_array)
    if method.applies(make(np.eye(2)))
]


@pytest.mark.parametrize(
    ("method", "make"), EVERY, ids=[f"{m.name}-{make.__name__}" for m, make in EVERY]
)
def test_every_method_is_exact_at_its_tightest_knob(method, make):
    if method.needs and find_spec(method.needs) is None:
        pytest.skip(f"{method.needs} is missing")
    A = make(gaussian(80, 40)() * 0.8 ** np.arange(40))
    V = components(measure.seconds_of(method, A, 3, method.knobs[-1])[1])
    assert V.shape == (40, 3)
    assert abs(Judge(A, reference(A, 3)).shortfall(V)) <= 1e-8


def named(name, methods=METHODS):
    """The method of that name."""
    return next(method for method in methods if method.name == name)


@pytest.fixture
def peers_without_their_packages(monkeypatch):
    """Stand-ins for sklearnex and primme, and what they were called with."""
    calls = []

    class PCA(decomposition.PCA):
        def __init__(self, n_components=None, *, svd_solver="auto"):
            super().__init__(n_components, svd_solver=svd_solver)
            calls.append(svd_solver)

    def svds(A, k, **options):
        calls.append((A.dtype, options["maxBlockSize"], options["tol"]))
        return [M[..., :k] if M.ndim == 1 else M for M in np.linalg.svd(A, full_matrices=False)]

    fakes = {"sklearnex": {}, "sklearnex.decomposition": {"PCA": PCA}, "primme": {"svds": svds}}
    for name, contents in fakes.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    return calls


def test_intels_pca_is_called_by_its_own_name(peers_without_their_packages):
    before, A = decomposition.PCA, gaussian(50, 20)()
    for solver in ("covariance_eigh", "full"):
        found = named(f"sklearnex {solver}").run(A, 3, None)
        assert components(found).shape == (20, 3)
        assert type(found) is not before
    assert peers_without_their_packages == ["covariance_eigh", "full"]
    assert decomposition.PCA is before
    assert not named("sklearnex covariance_eigh").applies(sp.csr_array(A))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_primme_keeps_the_dtype_and_is_told_its_block(dtype, peers_without_their_packages):
    A = gaussian(50, 20)().astype(dtype)
    for block in (1, 16):
        assert named(f"primme, block {block}").run(A, 3, 1e-2).dtype == dtype
    assert peers_without_their_packages == [(dtype, 1, 1e-2), (dtype, 16, 1e-2)]


def test_the_header_for_primme_adds_the_prefix_to_fortran_functions_alone():
    library = b"\x01\0scipy_dgemm_\0scipy_cblas_dgemm\0dgemm_batch_\0scipy_sgemv_\0scipy_dgemm_\0"
    assert renamed(library) == "#define dgemm_ scipy_dgemm_\n#define sgemv_ scipy_sgemv_\n"


@pytest.mark.parametrize(
    ("name", "solver", "same"),
    [
        *((name, "gram (float32): cheap", True) for name in COVARIANCE),
        (COVARIANCE[1], "krylov (float32): cheap", False),
        ("sklearnex full", "gram (float32): cheap", False),
        ("svds arpack", "gram (float32): cheap", False),
    ],
)
def test_same_kernel_is_that_of_peers_that_form_the_covariance(name, solver, same):
    assert named(name)
    picks = {
        OURS: Explored(1e-3, 0.1, 0.0, None, {"solver": solver}),
        name: Explored(None, 0.2, 0.0, None, {}),
    }
    times = {(OURS, 1e-3): [0.1], (name, None): [0.2]}
    row = _row(1e-2, picks, times, {name})
    assert (row["ratio"], row["same kernel"]) == (2.0, same)


def test_rows_of_the_race(raced):
    rows = raced[0]["rows"]
    assert [(row["case"], row["target"]) for row in rows] == [
        (case, target) for case in ("small", "less") for target in TARGETS
    ]
    for row in rows:
        assert row["ratio"] == row["peer"] / row["ours"]
        assert row["peer"] == row["methods"][row["fastest peer"]]["seconds"]
        assert row["fastest peer"] not in {OURS, *(m.name for m in FIRST_ORDER)}
        assert {"solver", "n_passes", "variance_shortfall"} <= set(row["methods"][OURS])
        for entry in row["methods"].values():
            assert entry["reached"] <= row["target"]
            assert entry["seconds"] > 0
            assert entry["repeats"] in (1, 2)
            assert entry["peak_mb"] is None or entry["peak_mb"] >= 0
    assert raced[0]["notes"][-1] == "none is not raced: no data; set DUALPCA_DATA"


def test_report_has_every_cell_and_draws(raced):
    found, folder = raced
    paths = report.write_report(found, folder)
    assert [path.name for path in paths] == [
        "race.md",
        "race-overview.png",
        "race-float32.png",
    ]
    assert min(path.stat().st_size for path in paths[1:]) > 10_000
    text = paths[0].read_text()
    for row in found["rows"]:
        cell = f"| {row['case']} | float32 | {row['target']:.0e} | {row['ours']:.3g} "
        assert cell in text
    assert f"| all cells | {len(found['rows'])} |" in text
    for method in found["explored"]:
        assert method["method"] in text


def test_report_of_cells_that_somebody_did_not_meet():
    row = {"case": "c", "dtype": "float32", "target": 1e-2, "same kernel": False}
    met = row | {"ours": 2.0, "peer": 1.0, "ratio": 0.5, "fastest peer": "p", "methods": {}}
    alone = met | {"peer": None, "ratio": None, "fastest peer": None}
    missed = met | {"ours": None, "ratio": None}
    double = met | {"ratio": 8.0, "same kernel": True}
    lines = report.summary([met, alone, missed, double])
    assert "| all cells | 2 | 2.00 | 0.50 |" in lines
    assert "| same kernel | 1 | 8.00 | 8.00 |" in lines
    assert lines[-1] == "Cells that no peer met: 1. Cells that ours did not meet: 1."
    assert all("-" in report.row_line(r) for r in (alone, missed))
    assert "(DCA)" in report.first_order_wins(
        [met | {"methods": {"DCA": {"seconds": 0.1}}}], ["DCA"]
    )


def test_cells_of_the_overview(tmp_path):
    row = {"case": "c", "dtype": "float32", "target": 1e-2, "same kernel": True}
    met = row | {"ours": 2.0, "ratio": 0.5}
    alone = row | {"target": 1e-4, "ours": 2.0, "ratio": None}
    missed = row | {"target": 1e-8, "ours": None, "ratio": None}
    texts = [report.cell_text(r) for r in (met, met | {"same kernel": False}, alone, missed, None)]
    assert texts == ["0.50 =", "0.50", "alone", "missed", ""]
    report.overview([met, alone, met | {"case": "d", "dtype": "float64"}], tmp_path / "o.png")
    assert (tmp_path / "o.png").stat().st_size > 10_000


def test_the_first_word_of_a_solver_and_finite_numbers():
    assert [first_word(s) for s in ("gram", "gram: small side", None)] == ["gram", "gram", ""]
    assert finite({"a": [np.inf, np.float32(1)], "b": (np.int64(2), "x")}) == {
        "a": [None, 1.0],
        "b": [2, "x"],
    }


def test_same_kernel_is_marked():
    A = gaussian(1200, 60)()
    case = Case("tall", 3, None)
    methods = [named(OURS), named("sklearn covariance_eigh")]
    rows, _ = race(case, "float64", A, reference(A, 3), methods, repeats=1, cap=1)
    solver = first_word(rows[-1]["methods"][OURS]["solver"])
    assert [row["same kernel"] for row in rows] == [solver == "gram"] * len(rows)


def test_matrices_are_made_once_for_cases_that_share_them():
    made = []

    def make():
        made.append(1)
        return gaussian(30, 20)()

    cases = [Case("a", 2, make), Case("b", 4, make)]
    matrices = Matrices(cases)
    shapes = [matrices.of(case)[1].shape for case in cases]
    assert (shapes, made) == ([(20, 2), (20, 4)], [1])


def test_cases_have_names_of_their_own_and_some_are_quick():
    assert len({case.name for case in CASES}) == len(CASES)
    assert 0 < sum(case.quick for case in CASES) < len(CASES)


class CountedArray(np.ndarray):
    """An array that counts the products taken with it."""

    total = work.Work()

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [np.asarray(x) for x in inputs]
        if ufunc is np.matmul:
            first = isinstance(inputs[0], CountedArray)
            self.total.add(inputs[1].shape[1] if first else inputs[0].shape[0])
        return getattr(ufunc, method)(*plain, **kwargs)


@pytest.mark.parametrize("n_iter", [0, 1, 3])
def test_work_of_the_randomised_svd_is_what_it_is_said_to_be(n_iter, monkeypatch):
    # Validation would make a plain array of it.
    monkeypatch.setattr("sklearn.utils.extmath.check_array", lambda M, **_: M)
    A = gaussian(90, 60)()
    CountedArray.total = work.Work()
    randomized_svd(A.view(CountedArray), 4, n_iter=n_iter, random_state=0)
    assert work.randomized(A, 4, n_iter)[1] == CountedArray.total


@pytest.mark.parametrize("shape", [(90, 60), (60, 90)])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_work_of_ours_is_its_passes(shape, make, monkeypatch):
    models = []
    original = work.dualpca.PCA

    def remember(*args, **kwargs):
        models.append(original(*args, **kwargs))
        return models[-1]

    monkeypatch.setattr(work.dualpca, "PCA", remember)
    V, counted = work.krylov(make(gaussian(*shape)()), 4, 1e-3)
    assert V.shape == (shape[1], 4)
    assert counted.readings == models[0].n_passes_
    assert counted.vectors > counted.readings


def test_work_of_lanczos_is_one_vector_a_reading():
    A = gaussian(90, 60)()
    V, counted = work.lanczos(A, 4, 0.0)
    assert abs(Judge(A, reference(A, 4)).shortfall(V)) < 1e-12
    assert 2 * 4 < counted.readings <= counted.vectors <= counted.readings + 4


def test_work_table(tmp_path, monkeypatch):
    monkeypatch.setattr(
        work, "CASES", [Case("tiny", 3, gaussian(90, 60)), Case("no", 3, lambda: None)]
    )
    work.main(["--case", "tiny", "--case", "no", "--out", str(tmp_path / "work.md")])
    lines = (tmp_path / "work.md").read_text().splitlines()
    assert [line.split(" | ")[:3] for line in lines[-3:]] == [
        ["| tiny", "3", f"{target:.0e}"] for target in TARGETS
    ]
    assert all(cell.count("/") == 1 for line in lines[-3:] for cell in line.split(" | ")[3:])


def two_clouds():
    """Rows whose kernel matrix has eigenvalues of different sizes."""
    X = gaussian(60, 5)()
    X[:30, 0] += 6
    return X / X.std()


def test_judge_of_kernels_has_the_eigenvalues_of_the_centred_kernel_matrix():
    X = two_clouds()
    K = KernelCenterer().fit_transform(rbf_kernel(X))
    values, vectors = (M[..., ::-1] for M in np.linalg.eigh(K))
    for given in (X, X.astype(np.float32)):
        judge = KernelJudge(given, kernel_reference(X, 2))
        assert judge.optimum == pytest.approx(values[:2].sum(), rel=1e-6)
        assert judge.shortfall(vectors[:, 1::-1]) == pytest.approx(0, abs=1e-6)
        expected = (values[1] - values[2]) / values[:2].sum()
        assert judge.shortfall(vectors[:, [0, 2]]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("method", race_methods.KERNEL_METHODS, ids=lambda method: method.name)
def test_every_kernel_method_is_exact_at_its_tightest_knob(method):
    X = two_clouds()
    V = components(measure.seconds_of(method, X, 3, method.knobs[-1])[1])
    assert V.shape == (60, 3)
    assert abs(KernelJudge(X, kernel_reference(X, 3)).shortfall(V)) <= 1e-8


def test_cases_of_kernels_suit_the_default_gamma_and_miss_data_quietly(monkeypatch):
    monkeypatch.delenv("DUALPCA_DATA", raising=False)
    race_methods._images.cache_clear()
    made = {case.name: case.make() for case in race_methods.KERNEL_CASES}
    assert [name for name, X in made.items() if X is None] == [
        f"kernel mnist {race_methods.ROWS}, s={s}" for s in (20, 50)
    ]
    assert all(X.std() == pytest.approx(1) for X in made.values() if X is not None)
    race_methods._images.cache_clear()


def test_race_of_methods(tmp_path, monkeypatch, capsys):
    clock = {"PCA": 0.5, "RobustPCA": 1.5}
    monkeypatch.setattr(race_methods, "seconds_of", lambda m, *_: (clock[m.name], None))
    monkeypatch.setattr(race_methods, "KERNEL_CASES", [Case("kernel small", 3, two_clouds)])
    robust = [Case("robust small", 50, gaussian(90, 60)), Case("robust none", 3, lambda: None)]
    monkeypatch.setattr(race_methods, "ROBUST_CASES", robust)
    options = ["--repeats", "1", "--budget", "1", "--out", str(tmp_path / "race.json")]
    race_methods.main([*options, "--case", "nothing"])
    assert "no case" in capsys.readouterr().out
    race_methods.main(options)
    found = json.loads((tmp_path / "race_methods.json").read_text())
    assert len(found["rows"]) == 2 * len(TARGETS)
    for row in found["rows"]:
        assert row["fastest peer"].startswith("sklearn")
        assert row["methods"][OURS]["reached"] <= row["target"]
    assert [(r["dtype"], r["ratio"], r["goal"]) for r in found["robust"]] == [
        ("float32", 3.0, 4.0),
        ("float64", 3.0, 4.0),
    ]
    text = (tmp_path / "race_methods.md").read_text()
    assert "| robust small | float32 | 0.5 | 1.5 | 3.0 | 4 |" in text
    assert "- robust none is not raced: no data; set DUALPCA_DATA" in text
    assert not (tmp_path / "race.json").exists()


def test_words_are_rows_of_norm_one_with_few_frequent_columns():
    A = passes.words(200, 1000, 8000)
    assert (A.shape, A.nnz) == ((200, 1000), 8000)
    lengths = np.sqrt((A**2).sum(axis=1))
    assert_allclose(lengths[np.diff(A.indptr) > 0], 1)
    counts = np.sort(np.bincount(A.indices, minlength=1000))
    assert counts[-100:].sum() > 4 * counts[:500].sum() / 5


@pytest.mark.parametrize("entries", [None, 300], ids=["dense", "sparse"])
@pytest.mark.parametrize(("dtype", "arithmetic"), passes.KINDS)
def test_data_of_the_sweeps(dtype, arithmetic, entries):
    data = passes.Data(60, 40, dtype, arithmetic, entries)
    X = data.make()
    assert X.shape == (60, 40)
    assert X.dtype == (arithmetic if entries is None else dtype)
    assert data.operations == 64 * (entries or 2400)


def test_lines_of_the_sweeps_with_the_native_kernels_and_without():
    data = passes.Data(1000, 1000, "float32", "float32")
    gemm = 2 * passes.SIDE**3 / 1e11
    both = passes.line(data, {"native": 0.001, "without": 0.002, "gemm": gemm})
    head = "| X^T (X W), 1000x1000 dense, float32 | float32 |"
    assert both == f"{head} 1.00 | 64 | 2.00 | 32 | 2.00 | 100 | 64 % |"
    alone = passes.line(data, {"without": 0.002, "gemm": gemm})
    assert alone == f"{head} - | - | 2.00 | 32 | - | 100 | 32 % |"
    assert {passes.HEAD.splitlines()[0].count("|"), both.count("|"), alone.count("|")} == {10}


def test_sweeps_in_processes_of_their_own(monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).parents[2])  # where the processes find benchmarks/
    monkeypatch.setattr(passes, "SIDE", 20)
    monkeypatch.setattr(passes, "DATA", [passes.Data(60, 40, *kind) for kind in passes.KINDS])
    passes.main(["--repeats", "1", "--case", "float64"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[1] for line in lines[-2:]] == ["float64", "float32"]


def test_native_kernels_may_be_unknown_to_the_package(monkeypatch):
    monkeypatch.setattr(passes, "dualpca", SimpleNamespace())
    assert passes.native() is False
    monkeypatch.setattr(passes, "dualpca", SimpleNamespace(native_available=lambda: True))
    assert passes.native() is True
