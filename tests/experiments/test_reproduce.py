"""The paper's experiments: the baseline, the iterations, the engine, the claims and the command."""

from __future__ import annotations

import csv
import itertools
import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import joblib
import numpy as np
import pytest
from benchmarks.work import Work
from experiments import data, engine, perceptron, timing, timing_tables
from experiments import reproduce as command_module
from experiments.claims import CONFIRMED, NOT, ONLY, UNDECIDED, faster, several
from experiments.engine import Context, Experiment, MissingDataError, Results, Store, read_published
from experiments.gkl import golub_kahan
from experiments.iterations import ITERATIONS
from experiments.methods import METHODS, Method, Step, Task
from experiments.report import page, section
from experiments.reproduce import NAMES, load, reproduce, stored
from experiments.timing import Mark, Prepared, Run
from experiments.tolerance import TOLERANCES, curve, gaussian_task
from made_up_results import TIMED, as_published, timings
from tests.limits import HANGS

import dualpca
from dualpca import as_operator
from dualpca.cli import main
from dualpca.formulations import FORMULATIONS, formulation, optimal_value
from dualpca.operators import Kernel
from dualpca.solvers import DCA

ROOT = Path(__file__).parents[2]


def matrix(N=60, d=40, seed=0):
    """Gaussian with columns of falling size, so that every method converges in a few hundred steps."""
    return np.random.default_rng(seed).standard_normal((N, d)) * 0.9 ** np.arange(d)


# The Golub-Kahan-Lanczos baseline.


@pytest.mark.parametrize("shape", [(300, 200), (200, 300), (40, 25), (25, 40), (31, 30)])
def test_golub_kahan_against_lapack(shape):
    A = np.random.default_rng(0).standard_normal(shape)
    U, sigma, Vt = np.linalg.svd(A, full_matrices=False)
    for count, found in enumerate(golub_kahan(A, 5, 1e-9, np.random.default_rng(1))):
        error = np.linalg.norm(A @ found.V - found.U * found.sigma, axis=0)
        np.testing.assert_allclose(found.residuals, error, atol=1e-11)
        np.testing.assert_allclose(A.T @ found.U, found.V * found.sigma, atol=1e-11)
        np.testing.assert_allclose(found.V.T @ found.V, np.eye(5), atol=1e-12)
        if found.residuals.max() < 1e-9 or count == 100:
            break
    np.testing.assert_allclose(found.sigma, sigma[:5], rtol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(found.U * U[:, :5], axis=0)), 1, atol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(found.V * Vt[:5].T, axis=0)), 1, atol=1e-8)


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_golub_kahan_ends_in_an_invariant_subspace(shape):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    found = list(golub_kahan(A, 3, 1e-9, rng))
    assert len(found) == 1
    np.testing.assert_allclose(found[0].sigma, np.linalg.svd(A, compute_uv=False)[:3])


def test_golub_kahan_keeps_converged_vectors_and_refuses_too_many():
    A = np.diag(0.8 ** np.arange(60.0))
    for count, found in enumerate(golub_kahan(A, 20, 1e-8, np.random.default_rng(0))):
        if found.residuals.max() < 1e-8:
            break
        assert count < 60
    np.testing.assert_allclose(found.sigma, 0.8 ** np.arange(20.0), rtol=1e-8)
    with pytest.raises(ValueError, match="s=31 triplets do not fit into krylovdim=30"):
        next(golub_kahan(A, 31, 1e-8, np.random.default_rng(0)))


# Algorithms 1 to 4 and the rows of Table 4 against the library's one DCA loop.

PROBLEMS = {
    "Algorithm 1": lambda X: FORMULATIONS["g"](X),
    "Algorithm 2": lambda X: FORMULATIONS["g"](X),
    "Algorithm 3": lambda X: FORMULATIONS["k"](X.T),
    "Algorithm 4": lambda X: FORMULATIONS["holder_dual"](X),
    "Iteration (l)": lambda X: FORMULATIONS["m"](X),
    "Iteration (m)": lambda X: FORMULATIONS["g"](X),
    "Iteration (n)": lambda X: FORMULATIONS["o"](X),
    "Iteration (o)": lambda X: FORMULATIONS["n"](X.T),
    "Iteration (p)": lambda X: FORMULATIONS["q"](X),
    "Iteration (q)": lambda X: FORMULATIONS["p"](X.T),
}


@pytest.mark.parametrize("name", ITERATIONS)
def test_iterations_are_dca_and_tell_their_objective(name):
    X = matrix(30, 18)
    K, s = X @ X.T, 4
    H0 = np.linalg.qr(np.random.default_rng(0).standard_normal((30, s)))[0]
    stream = ITERATIONS[name](K, H0)
    H, Y, _ = next(stream)
    np.testing.assert_allclose(Y, K @ H)
    library = DCA()(PROBLEMS[name](Kernel.from_matrix(K)), H)
    explicit = PROBLEMS[name](as_operator(X))
    for _, (H, _, value), iterate in zip(range(8), stream, library, strict=False):
        np.testing.assert_allclose(H, iterate.point.W, atol=1e-10 * np.abs(H).max())
        assert value == pytest.approx(explicit.objective(H * (1 - 1e-12)), rel=1e-9)
    for H, _, value in itertools.islice(stream, 600):  # noqa: B007
        pass
    sigma = np.linalg.svd(X, compute_uv=False)
    assert value == pytest.approx(optimal_value(ITERATIONS[name].letter, sigma, s), rel=1e-8)


# The registry.


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_every_method_reaches_the_optimum(name, shape):
    method, prepared = METHODS[name], Prepared.of(matrix(*shape), 4)
    task = prepared.task(0)
    steps = itertools.islice(method.steps(task, 1e-9), min(method.max_iter, 3000))
    first = step = next(steps)
    for step in steps:
        if step.quantity < 1e-9:
            break
    assert abs(prepared.shortfall(method, step)) < 1e-7
    assert prepared.shortfall(method, step) <= prepared.shortfall(method, first) + 1e-12
    assert step.variable.shape == (shape[0] if method.left else shape[1], 4)
    assert task.work.readings > 0


def test_svds_gets_the_tolerance_of_arpack(monkeypatch):
    asked = {}

    def fake(A, k, tol, maxiter, rng):
        asked.update(tol=tol)
        return None, None, np.eye(k, A.shape[1])

    monkeypatch.setattr("experiments.methods.svds", fake)
    task = Task(matrix(), 2, 0, np.ones(3))
    next(METHODS["svds"].steps(task, 1e-6))
    assert asked["tol"] == pytest.approx(1e-3)  # SciPy squares it


# Measuring.


def towards(prepared, rate=0.7):
    """A method whose shortfall falls at every step, and the list of these shortfalls."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(prepared.best.shape)
    told = []

    def steps(task, tol):
        for k in itertools.count():
            task.work.add(7)
            step = Step(prepared.best + rate**k * noise, rate**k)
            told.append(prepared.right.shortfall(step.variable))
            yield step

    return Method("synthetic", steps), told


def test_equal_accuracy_is_the_first_iterate_that_meets_it(monkeypatch):
    prepared = Prepared.of(matrix(), 3)
    method, told = towards(prepared)
    monkeypatch.setattr(timing, "FURTHER", 3.0)  # few judgements, so that bisection has work to do
    run = Run(method, prepared, 1e-3, 0, HANGS)
    targets = run.to_targets()
    for target, cost in targets.items():
        first = next(i for i, missing in enumerate(told, start=1) if missing <= float(target))
        assert cost["iterations"] == cost["readings"] == first
        assert cost["columns"] == 7 * first
    assert run.stopped.iteration == next(k for k in itertools.count() if 0.7**k <= 1e-3) + 1
    assert targets["0.01"]["seconds"] <= targets["1e-08"]["seconds"]


class Clock:
    """A clock that stands still; work sets it forward."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(timing, "time", Clock())
    return timing.time


def test_a_run_over_the_cap_has_not_stopped(clock):
    prepared = Prepared.of(matrix(), 3)

    def slow(task, tol):
        while True:
            clock.sleep(HANGS / 4)  # the work of one iteration
            yield Step(prepared.best, 1.0)

    run = Run(Method("slow", slow), prepared, 1e-3, 0, HANGS).to_its_test()
    assert run.stopped is None
    assert (run.last.iteration, run.last.seconds) == (4, HANGS)


def test_the_cap_breaks_an_iteration_off():
    prepared = Prepared.of(matrix(), 3)

    def stuck(task, tol):
        time.sleep(HANGS)
        yield Step(prepared.best, 0.0)

    assert Run(Method("stuck", stuck), prepared, 1e-3, 0, 0.1).to_its_test().last is None


def test_shortfall_of_the_dual_is_judged_on_the_transpose():
    A = matrix()
    prepared = Prepared.of(A, 3)
    U = np.linalg.svd(A)[0][:, :3]
    assert prepared.shortfall(METHODS["PG (o)"], Step(U, 0)) == pytest.approx(0, abs=1e-12)
    assert prepared.shortfall(METHODS["PG (o)"], Step(np.eye(60)[:, :3], 0)) > 0.01
    mark = Mark(1.0, Work(2, 3), Step(U, 0), 4)
    assert mark.cost() == {"seconds": 1.0, "readings": 2, "columns": 3, "iterations": 4}


def test_tolerance_curve_reads_one_run_at_every_tolerance():
    cell = {"N": 50, "d": 50, "s": 10, "matrix": 0}
    task = gaussian_task(cell, Context(True))
    found = curve(task, cell, "ZeroFPR (n)", Context(True))
    errors = found["errors"]
    assert found["limited"] == []
    assert list(map(float, errors)) == list(TOLERANCES)
    for tol in (1e-1, 1e-4):
        problem = formulation("n", task.A)
        found = dualpca.solve(
            problem, "zerofpr", s=10, tol=tol, stop="paper", random_state=task.seed
        )
        best = optimal_value("n", task.sigma, 10)
        assert errors[str(tol)] == pytest.approx(abs(found.objective / best - 1), abs=1e-12)


# The engine.


def counting(calls, fail_at=None):
    """An experiment of four measurements that notes what it measures, and may be interrupted."""

    def measure(prepared, cell, method, context):
        if len(calls) == fail_at:
            raise KeyboardInterrupt
        calls.append((cell["n"], method))
        return {"value": cell["n"] * prepared}

    return Experiment(
        name="counting",
        title="Counting",
        label="tab:none",
        cells=[{"n": 1}, {"n": 2}],
        quick=[{"n": 1}, {"n": 2}],
        methods=("a", "b"),
        prepare=lambda cell, context: calls.append(cell["n"]) or 10,
        measure=measure,
        tables=lambda results: [],
        prose="",
        claims=[],
    )


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    calls = []
    broken = counting(calls, fail_at=4)  # after the first cell and the preparation of the second
    with pytest.raises(KeyboardInterrupt):
        list(engine.run(broken, Store.open(tmp_path, broken, True), Context(True)))
    assert calls == [1, (1, "a"), (1, "b"), 2]
    path = tmp_path / "counting" / "quick" / "cells.jsonl"
    with path.open("a") as file:
        file.write('{"version": 1, "cell": {"n"')  # cut short
    again = []
    whole = counting(again)
    store = Store.open(tmp_path, whole, True)
    assert len(store.records) == 2
    list(engine.run(whole, store, Context(True)))
    assert again == [2, (2, "a"), (2, "b")]
    results = Results(whole, True, Store.open(tmp_path, whole, True).records)
    assert results.complete
    assert [results(m, c)["value"] for c in whole.quick for m in "ab"] == [10, 10, 20, 20]
    assert not Store.open(tmp_path, whole, False).records  # full results are kept apart
    assert not Store.open(tmp_path, whole, True, fresh=True).records


def test_numbers_of_another_version_do_not_count(tmp_path):
    whole = counting([])
    store = Store.open(tmp_path, whole, True)
    list(engine.run(whole, store, Context(True)))
    store.path.write_text(store.path.read_text().replace('"version": 1', '"version": 0'))
    assert not Store.open(tmp_path, whole, True).records


def test_the_page_is_written_from_full_results(tmp_path, monkeypatch):
    experiment = counting([])
    monkeypatch.setattr(command_module, "NAMES", ("counting",))
    monkeypatch.setattr(command_module, "ROOT", tmp_path)
    monkeypatch.setattr(command_module, "load", lambda name: experiment)
    assert reproduce(["all"], quick=True)
    assert stored("counting", tmp_path / "results" / "reproduce", False) is None
    assert reproduce(["all"], docs=True)
    assert "## Counting" in (tmp_path / "docs" / "reproduction.md").read_text()


# Published numbers and experiments.


@pytest.mark.parametrize("name", NAMES)
def test_experiments_are_short_declarations(name):
    path = ROOT / "experiments" / f"{name.replace('-', '_')}.py"
    assert len(path.read_text().splitlines()) < 60
    experiment = load(name)
    assert experiment.name == name
    assert experiment.claims
    assert len(experiment.quick) <= len(experiment.cells)
    assert {key for cell in experiment.quick for key in cell} <= set(experiment.cells[0])


@pytest.mark.parametrize("name", [name for name in NAMES if load(name).published])
def test_published_numbers_belong_to_the_cells(name):
    experiment = load(name)
    results = Results(experiment, False, {})
    rows = read_published(experiment.published)
    more = {"quantity": "error"} if name == "table-pcp" else {}
    for row in rows:
        assert row["method"] in experiment.methods
        assert row["value"] == "/" or float(row["value"]) > 0
        assert not row["std"] or float(row["std"]) > 0
    found = [results.published(m, c, **more) for c in experiment.cells for m in experiment.methods]
    assert sum(value is not None for value in found) >= len(rows) / 2
    if not more:
        assert sum(value is not None for value in found) == len(rows)
    quick = Results(experiment, True, {})
    method = rows[0]["method"]
    first = quick.published(method, experiment.quick[0], **more)
    assert first == results.published(method, experiment.cells[0], **more)


def test_every_claim_of_the_experiments_is_there():
    numbers = {claim.number for name in NAMES for claim in load(name).claims}
    assert numbers == set(range(1, 51))


# Rendering, from results that are made up.


@pytest.mark.parametrize("name", TIMED)
def test_published_numbers_as_ours_agree_in_every_ordering(name):
    results = timings(name, as_published)
    methods = [m for m in results.experiment.methods if results.published(m, results.cells[0])]
    found = [verdict for *_, verdict in timing_tables.verdicts(results, methods)]
    assert "differ" not in found
    if methods:
        assert set(found) == {"agree", "undecided"}
        turned = timings(name, lambda *key: 10 / as_published(*key))
        swapped = [verdict for *_, verdict in timing_tables.verdicts(turned, methods)]
        assert "agree" not in swapped
        assert swapped.count("undecided") == found.count("undecided")
    text = section(results, "figure.png")
    assert results.experiment.title in text
    for method in methods:
        assert f"| {method} |" in text
    for table in results.experiment.tables(results):
        assert {len(row) for row in table.rows} == {len(table.header)}


def test_claims_under_the_protocol_and_at_equal_accuracy():
    check = faster(("PG (n)",), ("svds",))
    fast = timings("table-mnist", lambda r, m, c: 1.0 if m == "PG (n)" else 2.0)
    slow = timings("table-mnist", lambda r, m, c: np.inf if m == "PG (n)" else 2.0)
    only = timings(
        "table-mnist",
        lambda r, m, c: 1.0 if m == "PG (n)" else 2.0,
        lambda r, m, c: 4.0 if m == "PG (n)" else 2.0,
    )
    assert [check(r)[0] for r in (fast, slow, only)] == [CONFIRMED, NOT, ONLY]
    assert check(only)[1].startswith("its test: 2, 2, 2, 2; 1e-02: 0.5, 0.5")


def test_what_did_not_end_counts_neither_way():
    check = faster(("PG (n)",), ("svds",))

    def none_in_the_last(results, method, cell):
        last = cell == results.cells[-1]
        return np.inf if last else 1.0 if method == "PG (n)" else 2.0

    verdict, told = check(timings("table-mnist", none_in_the_last))
    assert verdict == CONFIRMED
    assert told.startswith("its test: 2, 2, 2, -;")
    nobody = timings("table-mnist", lambda *key: np.inf)
    assert check(nobody)[0] == UNDECIDED
    assert several(("a part", check), ("another", check))(nobody)[0] == UNDECIDED


def test_two_methods_over_the_cap_are_not_called_close():
    results = timings("table-comp", lambda *key: np.inf)
    methods = [m for m in results.experiment.methods if results.published(m, results.cells[0])]
    found = {verdict for *_, verdict in timing_tables.verdicts(results, methods)}
    assert found == {"undecided", "both over the cap"}


def test_knobs_are_turned_until_the_tightest_target_and_know_the_protocol(clock):
    prepared = Prepared.of(matrix(), 3)
    noise = np.random.default_rng(0).standard_normal(prepared.best.shape)
    asked = []

    def steps(task, tol):
        asked.append(tol)
        clock.sleep(1 if tol == 1e-3 else 5)
        yield Step(prepared.best + tol * noise, 0.0)

    method = Method("a solver", steps, knobs=(1e-1, 1e-2, 1e-6, 1e-9))
    runs = [Run(method, prepared, 1e-3, 0, HANGS).to_its_test()]
    found = timing.turn_knobs(method, prepared, HANGS, runs)
    assert asked == [1e-3, 1e-1, 1e-2, 1e-6]  # 1e-9 is not needed
    for target in ("0.01", "0.0001"):  # the protocol's run is the quickest that meets them
        assert found[target]["knob"] == 1e-3
    assert found["1e-08"]["knob"] == 1e-6


def test_ours_are_in_every_timing_table():
    for name in TIMED:
        assert set(timing_tables.OURS) <= set(load(name).methods)


def test_the_papers_own_numbers_decide_its_claims():
    results = timings("table-comp", as_published)
    verdicts = {c.number: c.check(results)[0] for c in results.experiment.claims}
    assert verdicts[7] == CONFIRMED  # each of (n), (o) below svds and KrylovKit
    assert verdicts[9] == CONFIRMED
    assert verdicts[10] == NOT  # 8719.1 ms is displayed
    assert verdicts[8] == NOT  # PG and ZeroFPR prefer (n) for both shapes


def test_the_page_tells_what_is_there_and_what_is_not(tmp_path):
    there = [timings(name, as_published) for name in TIMED[:2]]
    told = [(results.experiment, results) for results in there]
    path = page([*told, (load("table-pcp"), None)], tmp_path, 3)
    text = path.read_text()
    assert path.name == "reproduction.md"
    assert "Not run (no complete results, or no data): table-pcp." in text
    assert "over up to 3 random starts" in text
    for results in there:
        assert f"## {results.experiment.title}" in text
        for claim in results.experiment.claims:
            assert claim.text in text
    assert (tmp_path / "reproduction-fig-scaling-s.png").exists()
    assert f"| all | {sum(v == CONFIRMED for r in there for v in verdicts_of(r))} |" in text


def verdicts_of(results):
    return [claim.check(results)[0] for claim in results.experiment.claims]


# Data.


def test_missing_data_say_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("DUALPCA_DATA", raising=False)

    def offline(*args, **options):
        raise OSError("no network")

    monkeypatch.setattr(data, "fetch_openml", offline)
    data._mnist.cache_clear()
    with pytest.raises(MissingDataError, match=r"set DUALPCA_DATA .* mnist.npz .* no network"):
        data.pictures(Context())
    with pytest.raises(MissingDataError, match="glove50_100k"):
        data.glove({"d": 50}, Context(data=tmp_path))
    assert reproduce(["table-glove"], data=tmp_path, results=tmp_path) is False


def test_files_are_found_by_path_and_by_the_variable(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8), np.arange(20) % 10
    np.savez(tmp_path / "mnist.npz", x_train=X[:16], y_train=y[:16], x_test=X[16:], y_test=y[16:])
    np.savez(tmp_path / "glove50_100k.npz", vectors=rng.standard_normal((30, 50)))
    data._mnist.cache_clear()
    found, labels = data.pictures(Context(data=tmp_path))
    np.testing.assert_allclose(found, X.reshape(20, -1) / 255)
    np.testing.assert_array_equal(labels, y)
    monkeypatch.setenv("DUALPCA_DATA", str(tmp_path))
    assert data.glove({"d": 50}, Context()).shape == (30, 50)
    data._mnist.cache_clear()


def test_labels_follow_the_split():
    pictures, y, y_test = data.contaminated_pictures(Context(True))
    X, labels = data.pictures(Context(True))
    where = {row.tobytes(): label for row, label in zip(X, labels, strict=True)}
    assert all(where[row.tobytes()] == label for row, label in zip(pictures.clean, y, strict=True))
    assert all(where[r.tobytes()] == label for r, label in zip(pictures.test, y_test, strict=True))


@pytest.mark.parametrize("name", data.SPECTRA)
def test_spectra_are_what_they_say(name):
    A = data.spectrum({"N": 40, "spectrum": name}, Context())
    wanted = data.SPECTRA[name](np.arange(1, 41), 40)
    np.testing.assert_allclose(np.linalg.svd(A, compute_uv=False), wanted, rtol=1e-6, atol=1e-7)


# The command.


def command(*arguments, code=None, **options):
    """The real entry point, in a process of its own."""
    start = ["-c", code] if code else ["-m", "dualpca"]
    environment = {k: v for k, v in os.environ.items() if k != "DUALPCA_DATA"}
    return subprocess.run(
        [sys.executable, *start, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        **options,
    )


def refused(found, status):
    """One line on standard error, no traceback."""
    assert found.returncode == status
    assert "Traceback" not in found.stderr + found.stdout
    (line,) = found.stderr.strip().splitlines()
    return line


def test_the_command_names_what_it_does_not_know():
    line = refused(command("reproduce", "table-nine", "--quick"), 2)
    assert line.startswith("dualpca: no experiment 'table-nine'; choose from theory, table-comp, ")
    assert all(name in line for name in NAMES)


def test_the_command_without_its_extra():
    code = "import sys; sys.modules['typer'] = None; from dualpca.cli import main; main()"
    assert "pip install 'dualpca[cli]'" in refused(command("reproduce", "all", code=code), 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--docs", "--quick"], "--docs writes the page from full results; drop --quick"),
        (["--data", "/nowhere/at/all"], "--data /nowhere/at/all is not a folder"),
    ],
)
def test_the_command_refuses(arguments, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "all", *arguments])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_an_interrupted_command_says_how_to_go_on(monkeypatch, capsys):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(command_module, "reproduce", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "table-pcp"])
    assert ended.value.code == 130
    assert "without --fresh, goes on from here" in capsys.readouterr().err


def test_the_command_outside_of_a_checkout(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(dualpca, "__file__", str(tmp_path / "a" / "b" / "c" / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "table-pcp"])
    assert ended.value.code == 1
    assert "run the command in a checkout" in capsys.readouterr().err
    monkeypatch.chdir(ROOT)  # the working directory is looked at as well
    monkeypatch.setattr(command_module, "reproduce", lambda *args, **options: True)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "table-pcp"])
    assert ended.value.code == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_reduced_run_from_end_to_end(name, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("DUALPCA_DATA", raising=False)
    monkeypatch.setattr(timing, "PAUSE", 0.0)
    monkeypatch.setattr(perceptron, "EPOCHS", 5)
    # An alarm goes off anywhere, even in a destructor; here the cap is looked at after each step.
    monkeypatch.setattr(timing, "time_limit", nullcontext)
    monkeypatch.setattr(Context, "of", lambda quick, data=None: Context(quick, data, 0.05, 1))
    with pytest.raises(SystemExit) as ended, joblib.parallel_config(backend="sequential"):
        main(["reproduce", name, "--quick", "--results", str(tmp_path)])
    assert ended.value.code == 0
    folder = tmp_path / name / "quick"
    assert f"{name}: " in capsys.readouterr().out
    told = json.loads((folder / "results.json").read_text())
    experiment = load(name)
    assert len(told["records"]) == len(experiment.quick) * len(experiment.methods)
    assert [claim["claim"] for claim in told["claims"]] == [c.number for c in experiment.claims]
    with (folder / "table-1.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert len({len(row) for row in rows}) == 1
    assert experiment.title in (folder / "report.md").read_text()
    if name == "table-pcp":
        results = stored(name, tmp_path, True)
        assert results("PCP", experiment.quick[0])["error"] < 1e-5


#: The command, which says that it has three cells, and halts.
HALTED = """
import time
from dualpca.cli import main
from experiments.engine import Store

add = Store.add

def halting(self, *cell):
    add(self, *cell)
    if len(self.records) == 3:
        print("three cells", flush=True)
        while True:
            time.sleep(1)

Store.add = halting
main()
"""


def test_a_killed_command_goes_on_where_it_was(tmp_path):
    arguments = ["reproduce", "fig-tolerance", "--quick", "--results", str(tmp_path)]
    path = tmp_path / "fig-tolerance" / "quick" / "cells.jsonl"
    start = [sys.executable, "-c", HALTED, *arguments]
    with subprocess.Popen(start, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert "three cells\n" in iter(process.stdout.readline, "")
        process.kill()
    before = path.read_text().splitlines(keepends=True)
    assert len(before) == 3
    assert command(*arguments, cwd=ROOT).returncode == 0
    lines = path.read_text().splitlines(keepends=True)
    assert lines[: len(before)] == before
    records = [json.loads(line) for line in lines if line.endswith("}\n")]
    assert len({json.dumps([r["cell"], r["method"]]) for r in records}) == len(records) == 22
    assert (path.parent / "figure.png").exists()
