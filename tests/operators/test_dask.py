"""The engine on Dask: what a pass costs, and what happens when parts of the cluster are gone."""

import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from tests.limits import HANGS

from dualpca import PCA, RobustPCA, as_operator
from dualpca.operators.dask import cluster as cluster_module
from dualpca.progress import Listener, listening

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

N, D, S = 600, 10, 3


@pytest.fixture(autouse=True)
def _scheduler_as_before():
    """A client whose scheduler died leaves itself behind as the scheduler of all that follows."""
    yield
    dask.config.config.pop("scheduler", None)


def data():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((N, S)) * [6, 4, 2.5] @ np.linalg.qr(rng.standard_normal((D, S)))[0].T
    return A + 0.1 * rng.standard_normal((N, D)) + rng.standard_normal(D)


def factor(d=D, s=S):
    return np.linalg.qr(np.random.default_rng(1).standard_normal((d, s)))[0]


class Started(distributed.SchedulerPlugin):
    """The keys of the tasks that were computed, by their kind."""

    name = "started"

    def __init__(self):
        self.kinds = []

    def transition(self, key, start, finish, *args, **kwargs):
        if start == "processing" and finish == "memory":
            self.kinds.append(str(key).split("-")[0].lstrip("('"))


@pytest.fixture
def tasks(cluster, client):
    """What the scheduler, which lives in this process, has computed since the list was cleared."""
    plugin = Started()
    cluster.scheduler.add_plugin(plugin)
    yield plugin.kinds
    cluster.scheduler.remove_plugin(name=Started.name)


@pytest.mark.parametrize("held", [True, False])
def test_tasks_a_pass_do_not_grow(held, tasks):
    """Neither from pass to pass nor with the number of blocks: some for each thread of the workers."""
    counts = {}
    for blocks in (10, 100, 1000):
        A = np.random.default_rng(0).standard_normal((2000, 4))
        X = da.from_array(A, chunks=(len(A) // blocks, 4))
        X = X.persist() if held else X
        operator = as_operator(X)
        operator.sweep(factor(4, 2))  # the groups are made
        counts[blocks] = []
        for _ in range(4):
            tasks.clear()
            assert operator.sweep(factor(4, 2)) == pytest.approx(A.T @ (A @ factor(4, 2)))
            counts[blocks].append(len(tasks))
    # A task for each of four groups a thread, the message to all, the sum.
    assert counts == {blocks: [8 + 2] * 4 for blocks in counts}


@pytest.mark.parametrize("estimator", [PCA(S, solver="dca"), RobustPCA(S)])
def test_graphs_do_not_grow_with_the_iteration(estimator, monkeypatch):
    sizes = []
    one = cluster_module.compute

    def counted(value):
        sizes.append(len(dict(value.__dask_graph__())))
        return one(value)

    monkeypatch.setattr("dualpca.operators.dask.distributed.compute", counted)
    X = da.from_array(data(), chunks=(50, D))
    estimator.set_params(tol=1e-9, random_state=0, max_iter=1000).fit(X)
    assert len(sizes) >= 7
    # Steps are alike; the sample of rows that starts the refit takes a larger graph, once.
    assert max(sizes[4:]) <= 2 * max(sizes[4:6])
    assert np.median(sizes[4:]) <= max(sizes[4:6])


def test_no_block_travels(client):
    """Workers multiply the blocks that they hold; only thin factors and sums are sent."""
    X = da.random.default_rng(0).standard_normal((8000, 100), chunks=(500, 100)).persist()
    distributed.wait(X)
    assert len(set().union(*client.who_has(X).values())) == 2
    operator = as_operator(X)
    W = factor(100, 2)
    for _ in range(3):  # until the scheduler knows how long tasks take, idle workers steal some
        operator.sweep(W)

    def sent(dask_worker):
        return sum(entry["total"] for entry in dask_worker.transfer_outgoing_log)

    def places():
        return {key: set(where) for key, where in client.who_has([X, *operator._groups]).items()}

    homes, before = places(), sum(client.run(sent).values())
    for _ in range(5):
        operator.sweep(W)
    block = 500 * 100 * 8
    assert sum(client.run(sent).values()) - before < 5 * 8 * 4 * W.nbytes < block
    assert places() == homes


def test_groups_say_how_large_they_are(client):
    """Else the scheduler would take them for small, and move them to idle workers."""
    X = da.from_array(np.ones((800, 100)), chunks=(100, 100)).persist()
    groups = as_operator(X)._groups
    distributed.wait(groups)
    sizes = client.nbytes([group.key for group in groups], summary=False)
    assert X.nbytes <= sum(sizes.values()) <= 1.1 * X.nbytes


def test_schedulers_agree(cluster):
    A = data()
    X = da.from_array(A, chunks=(70, 4))
    found = []
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            model = PCA(S, solver="krylov", random_state=0).fit(X)
            found.append((model.components_, np.asarray(model.transform(X)), model.n_passes_))
    with distributed.Client(cluster):
        model = PCA(S, solver="krylov", random_state=0).fit(X)
        found.append((model.components_, np.asarray(model.transform(X)), model.n_passes_))
    for components, scores, passes in found:  # the groups differ, and so the order of sums
        assert components == pytest.approx(found[0][0], abs=1e-12)
        assert scores == pytest.approx(found[0][1], abs=1e-12 * np.abs(scores).max())
        assert passes == found[0][2]


@pytest.mark.parametrize(
    "estimator", [PCA(S, solver="krylov"), PCA(S, solver="gram"), RobustPCA(S)]
)
def test_passes_are_counted(estimator, monkeypatch):
    """Each pass makes each block once; one block is made first, to see what it is."""
    made = []

    def source(block):
        made.append(len(block))
        return block

    X = da.from_array(data(), chunks=(100, D)).map_blocks(
        source, dtype=float, meta=np.empty((0, 0))
    )
    with dask.config.set(scheduler="synchronous"):
        model = estimator.set_params(random_state=0).fit(X)
    assert sum(made) == model.n_passes_ * N + 100


def test_two_fits_and_their_results(client, caplog):
    """One name stands for one task: of two fits, of what they keep and of scores made later."""
    X = da.from_array(data(), chunks=(150, D)).persist()
    with caplog.at_level(logging.WARNING, logger="distributed.scheduler"):
        models = [RobustPCA(S, random_state=seed).fit(X) for seed in (0, 1)]
        scores = [model.transform(X) for model in models]
        assert [np.asarray(T).shape for T in scores] == [(N, S)] * 2
        for model in models:
            kept = model.outliers_, model.weights_, model.orthogonal_distances_
            assert [len(array) for array in dask.compute(*kept)] == [N] * 3
    assert "run_spec" not in caplog.text


# --- faults: clusters of their own, which are harmed ---------------------------------------------


@pytest.fixture
def own_cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client


def kill_first(path):
    """On a worker: at the first call of all, end the process that computes, as a crash would."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_dies_in_the_middle_of_a_fit(own_cluster, tmp_path):
    """Its blocks are made again elsewhere, and nothing else changes."""
    A = data()
    X = da.from_array(A, chunks=(60, D)).map_blocks(lambda b: b * 1.0, dtype=float).persist()
    estimator = PCA(S, formulation="o", tol=1e-8, random_state=0)
    whole = estimator.fit(X)
    expected = whole.components_, whole.explained_variance_, whole.n_passes_
    flag, operator = str(tmp_path / "killed"), as_operator(X)
    passes = []
    plain = operator.sum_blocks

    def deadly(f, factor=1):
        passes.append(1)
        if len(passes) != 4:
            return plain(f, factor)

        def dies(rows, block):
            kill_first(flag)
            return f(rows, block)

        return plain(dies, factor)

    operator.sum_blocks = deadly
    model = estimator.fit(operator)
    assert os.path.exists(flag)
    assert len(passes) > 4
    assert model.components_ == pytest.approx(expected[0], abs=1e-12)
    assert model.explained_variance_ == pytest.approx(expected[1], rel=1e-12)


class Killer(Listener):
    """Ends a process at the first step of a fit."""

    def __init__(self, pid):
        self.pid, self.steps = pid, 0

    def step(self, step):
        self.steps += 1
        if self.steps == 1:
            os.kill(self.pid, signal.SIGKILL)


def test_a_worker_is_killed_from_outside(own_cluster):
    """Between two passes, with its memory: robust PCA too, whose rows have weights on the workers."""
    _, client = own_cluster
    X = da.from_array(data(), chunks=(200, D)).persist()
    estimator = RobustPCA(S, random_state=0)
    expected = estimator.fit(X)
    components, distances = expected.components_, np.asarray(expected.orthogonal_distances_)
    pid = client.run(os.getpid)[min(client.scheduler_info()["workers"])]
    with listening(killer := Killer(pid)):
        model = estimator.fit(X)
    assert killer.steps > 1
    assert model.components_ == pytest.approx(components, abs=1e-10)
    assert np.asarray(model.orthogonal_distances_) == pytest.approx(distances, abs=1e-8)


class Processes:
    """A scheduler and a worker, each a process of the command line."""

    def __init__(self, path):
        file = str(path / "scheduler.json")
        command = [sys.executable, "-m", "dask"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        place = ["--scheduler-file", file, "--no-dashboard"]
        self.scheduler = subprocess.Popen([*command, "scheduler", "--port", "0", *place], **quiet)
        self.worker = subprocess.Popen(
            [*command, "worker", "--nthreads", "1", "--no-nanny", *place], **quiet
        )
        # It looks for a lost scheduler to the end of the test: once it gives up, Dask computes here.
        self.client = distributed.Client(scheduler_file=file, timeout=HANGS)
        self.client.wait_for_workers(1)

    def close(self):
        for process in (self.scheduler, self.worker):
            process.kill()
            process.wait()
        self.client.close()


@pytest.fixture
def processes(tmp_path):
    found = Processes(tmp_path)
    yield found
    found.close()


class Halt:
    """Data whose reading halts at a certain block: by default in the second of several passes."""

    def __init__(self, folder, at=10):
        self.reached, readings = folder / "reached", folder / "readings"
        os.mkfifo(self.reached)

        def read(block, reached=self.reached):  # pickled whole: workers do not have this file
            with open(readings, "ab") as file:
                file.write(b".")
                count = file.tell()
            if count == at:
                open(reached, "w").close()  # this waits for a reader, as the reader waits for it
                threading.Event().wait()
            return block

        self.X = da.from_array(data(), chunks=(100, D)).map_blocks(
            read, dtype=float, meta=np.empty((0, 0))
        )

    def wait(self):
        """Until the reading halts."""
        open(self.reached).close()

    def kill(self, process):
        """Kill a process once the reading halts, while the caller goes on."""

        def kill():
            self.wait()
            process.kill()

        threading.Thread(target=kill, daemon=True).start()


def lazy_data():
    return da.from_array(data(), chunks=(100, D))


@pytest.fixture
def no_patience(monkeypatch):
    """The first look that finds no worker is the last: the clock leaps between any two looks.

    A scheduler that is slow to answer is waited for.
    """
    clock = SimpleNamespace(monotonic=itertools.count(0, 2 * HANGS).__next__)
    monkeypatch.setattr(cluster_module, "time", clock)
    monkeypatch.setattr(cluster_module, "PATIENCE", HANGS)
    monkeypatch.setattr(cluster_module, "LOOK", 0.1)


NO_WORKER = f"the Dask cluster at .* has had no worker for {HANGS} s; start it again"


def fails(X, match):
    with pytest.raises(RuntimeError, match=match):
        PCA(S, solver="krylov", tol=1e-12, random_state=0).fit(X)


def test_the_scheduler_dies_during_a_fit(processes, tmp_path):
    """With the patience that users have."""
    halt = Halt(tmp_path)
    halt.kill(processes.scheduler)
    fails(halt.X, "the Dask cluster at .* (does not answer|was lost while it computed); start it")


def test_the_scheduler_died_before_the_fit(processes, monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE", 1.0)  # nobody is there to answer
    X = lazy_data().persist()
    processes.scheduler.kill()
    processes.scheduler.wait()
    fails(X, "the Dask cluster at .*; start it again|persisted on a Dask cluster that is gone")
    fails(lazy_data(), "the Dask cluster at .*; start it again")


def test_all_workers_are_gone(processes, no_patience):
    processes.worker.kill()
    processes.worker.wait()
    fails(lazy_data(), NO_WORKER)


def test_all_workers_are_gone_with_what_they_held(processes, tmp_path, no_patience):
    halt = Halt(tmp_path, at=3)
    X = halt.X.persist()  # still being computed
    halt.wait()
    processes.worker.kill()
    processes.worker.wait()
    with pytest.raises(RuntimeError, match=NO_WORKER):
        cluster_module.holders(X)  # what a fit asks for once it has seen a block


def test_all_workers_go_during_a_fit(processes, tmp_path, no_patience):
    halt = Halt(tmp_path)
    halt.kill(processes.worker)
    fails(halt.X, NO_WORKER)


def test_data_of_a_cluster_that_was_closed(own_cluster):
    _, client = own_cluster
    X = da.from_array(data(), chunks=(100, D)).persist()
    client.close()
    with pytest.raises(RuntimeError, match=r"Dask cluster .* gone"):
        PCA(S).fit(X)


def test_an_error_of_a_block_is_told(client):
    def fails(block):
        raise ZeroDivisionError("of the user")

    X = da.from_array(data(), chunks=(100, D))
    X = da.concatenate([X[:500], X[500:].map_blocks(fails, dtype=float, meta=np.empty((0, 0)))])
    with pytest.raises(ZeroDivisionError, match="of the user"):
        PCA(S).fit(X)
