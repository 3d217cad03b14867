"""Fits side by side, in threads and processes, and workers that die: as fits in turn, or an error.

With one thread of BLAS, as here, they are equal bit for bit. With more, BLAS sums in another order
while a fit beside it multiplies in threads of its own, and they are equal to the certificate.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from faults import MODELS, STREAMED, data, dice, learned, made, marks, script
from scale import LARGE, count
from sklearn.model_selection import GridSearchCV, cross_val_score
from threadpoolctl import threadpool_limits

from dualpca import PCA, RobustPCA
from dualpca.operators import Blocks
from dualpca.progress import Listener, listening

LEAST = ["PCA krylov", "PCA gram", "RobustPCA", "SparsePCA", "KernelPCA", "RobustKernelPCA"]
NAMES = [name for name in (MODELS if LARGE else LEAST) if name != "PCA zerofpr"]


def quiet_fit(name, X):
    """Fitted; warnings are left to the filters, which threads share."""
    return learned(made(name).fit(X))


@pytest.mark.filterwarnings("ignore")
def test_fits_in_threads_are_fits_in_turn(record_property):
    """Of every estimator, on the same array, an operator and a sparse matrix that they share."""
    X = data(200, 12)
    shared = {"array": X, "operator": Blocks([X[:90], X[90:]]), "sparse": sp.csr_array(X)}
    tasks = [("array", name) for name in NAMES]
    tasks += [("operator", name) for name in NAMES if name in STREAMED]
    tasks += [("sparse", name) for name in NAMES if name.startswith("PCA") and "lapack" not in name]
    with threadpool_limits(1, user_api="blas"):
        before = marks()
        in_turn = [quiet_fit(name, shared[kind]) for kind, name in tasks]
        for _ in range(count(1, 5)):
            with ThreadPoolExecutor(count(3, 6)) as pool:
                at_once = list(pool.map(lambda task: quiet_fit(task[1], shared[task[0]]), tasks))
            for task, one, other in zip(tasks, in_turn, at_once, strict=True):
                if task[0] == "operator":  # its passes are counted together
                    one.pop("n_passes_", None)
                    other.pop("n_passes_", None)
                    one.pop("convergence_", None)
                    other.pop("convergence_", None)
                assert one == other, task
        after = marks()
    assert {k: v for k, v in after.items() if k != "warnings"} == {
        k: v for k, v in before.items() if k != "warnings"
    }
    record_property("fault", "fits at once in threads")
    record_property("executions", len(tasks) * count(1, 5))


@pytest.mark.filterwarnings("ignore")
def test_one_model_transforms_in_many_threads(record_property):
    X = data(300, 12)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(4) as pool:
        for name in NAMES:
            model = made(name).fit(X)
            expected = np.asarray(model.transform(X)).tobytes()
            found = pool.map(lambda _, m=model: np.asarray(m.transform(X)).tobytes(), range(8))
            assert all(one == expected for one in found), name
    record_property("fault", "one model in many threads")


class Own(Listener):
    """Notes which thread told it."""

    def __init__(self):
        self.heard = set()

    def step(self, step):
        self.heard.add(threading.get_ident())


def test_a_listener_hears_its_own_thread_alone(record_property):
    X = data()

    def alone(_):
        listener = Own()
        with listening(listener):
            PCA(3, solver="krylov", tol=1e-8, random_state=0).fit(X)
        return listener.heard == {threading.get_ident()}

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(alone, range(12)))
    record_property("fault", "listeners of several threads")


THREADS = """
import os, sys
os.environ.update(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2", MKL_NUM_THREADS="2")
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from threadpoolctl import threadpool_info
from dualpca import PCA

def blas():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

X = np.random.default_rng(0).standard_normal((20000, 100))  # summed by threads of our own
before = blas()
assert set(before) == {2}
with ThreadPoolExecutor(4) as pool:
    for _ in range(int(sys.argv[1])):
        list(pool.map(lambda _: PCA(3, solver="gram").fit(X), range(8)))
        assert blas() == before, (before, blas())
"""


@pytest.mark.skipif(not LARGE, reason="tests/operators/test_threads.py is the short run")
def test_fits_at_once_leave_blas_its_threads(record_property):
    script(THREADS, 10)
    record_property("fault", "threads of BLAS limited by fits at once")


FORKS = """
import multiprocessing, os, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from faults import data, fit, learned, made

def task(name):
    return learned(fit(made(name), data()))

if __name__ == "__main__":
    names = eval(sys.argv[2])
    here = [task(name) for name in names]  # BLAS and OpenMP have run in the parent
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        for name, one, other in zip(names, here, pool.map(task, names)):
            assert one == other, name
    assert [task(name) for name in names] == here  # and the parent goes on
    print(len(names))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of POSIX")
def test_fits_after_a_fork_are_those_of_the_parent(record_property):
    (done,) = script(FORKS, os.path.dirname(__file__), NAMES)
    assert int(done) == len(NAMES)
    record_property("fault", "a fork after a fit")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "backend", ["threading", "loky", "multiprocessing"] if LARGE else ["threading"]
)
def test_joblib_and_searches_give_what_one_process_gives(backend, record_property):
    X = data(120)
    jobs = [PCA(k, random_state=0) for k in (1, 2, 3)]
    with threadpool_limits(1, user_api="blas"):
        here = [learned(job.fit(X)) for job in jobs]
        grid = {"n_components": [1, 2, 4]}
        with joblib.parallel_config(backend=backend):
            there = joblib.Parallel(n_jobs=2)(joblib.delayed(job.fit)(X) for job in jobs)
            search = GridSearchCV(PCA(random_state=0), grid, cv=3, n_jobs=2).fit(X)
            scores = cross_val_score(PCA(2, random_state=0), X, cv=3, n_jobs=2)
        alone = GridSearchCV(PCA(random_state=0), grid, cv=3).fit(X)
        assert scores == pytest.approx(cross_val_score(PCA(2, random_state=0), X, cv=3), rel=1e-12)
    for one, other in zip(here, map(learned, there), strict=True):
        assert one["components_"] == other["components_"]
    mean = "mean_test_score"
    assert search.cv_results_[mean] == pytest.approx(alone.cv_results_[mean], rel=1e-12)
    record_property("fault", f"joblib {backend}")


# workers that die

needs_large = pytest.mark.skipif(
    not LARGE, reason="tests/operators/test_dask.py kills workers in the short run"
)


@pytest.fixture
def dask_client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@needs_large
@pytest.mark.parametrize("which", ["one", "all"])
@pytest.mark.parametrize(
    "model",
    [PCA(3, solver="krylov", tol=1e-8, random_state=0), RobustPCA(3, random_state=0)],
    ids=["PCA", "RobustPCA"],
)
def test_killed_workers_give_the_right_model_or_an_error(
    model, which, dask_client, record_property
):
    import dask.array as da

    X = da.from_array(data(3000), chunks=(300, 12))
    begun = time.monotonic()
    expected = np.asarray(model.fit(X).components_)
    seconds, rolled = time.monotonic() - begun, dice(f"{model} {which}")
    pids = [nanny.pid for nanny in dask_client.cluster.workers.values()]
    timers = [
        threading.Timer(rolled.uniform(0, seconds), os.kill, (pid, signal.SIGKILL))
        for pid in (pids if which == "all" else pids[:1])
    ]
    for timer in timers:
        timer.start()
    try:
        found = model.fit(X).components_
    except Exception as error:
        found = error
    for timer in timers:
        timer.join()
    if isinstance(found, Exception):
        assert isinstance(found, RuntimeError) or "Killed" in type(found).__name__, found
        assert str(found)
    else:
        assert np.abs(np.asarray(found)) == pytest.approx(np.abs(expected), abs=1e-6)
    record_property("fault", f"SIGKILL to {which} of two Dask workers")
