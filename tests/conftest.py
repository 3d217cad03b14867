"""Shared test set-up."""

import os
import signal
import sys

# Before SciPy is imported anywhere: scikit-learn's array-API checks are skipped without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# Figures are drawn in memory, whatever screen there is.
os.environ["MPLBACKEND"] = "agg"

import pytest
from hypothesis import HealthCheck, settings

from tests.limits import HANGS

pytest.register_assert_rewrite("function_laws")

# How long an example takes is the machine's affair.
settings.register_profile(
    "dualpca",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("dualpca")

# What a shell starts in the background ignores this signal, as do the programs that tests start then.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: Folders whose tests have a marker of the same name.
MARKED_FOLDERS = {"experiments", "torture"}
#: Fixtures that start a Dask cluster of several processes.
CLUSTERS = {"cluster", "client", "own_cluster", "processes"}


def pytest_collection_modifyitems(items):
    """Mark what `make test` leaves out and what no file says of itself."""
    for item in items:
        folder = item.path.parent.name
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
        if not CLUSTERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("cluster")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """A test that hangs fails, so that the tests themselves may wait for events without a limit."""
    if not hasattr(signal, "SIGALRM") or item.config.getoption("usepdb"):
        return (yield)
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"it hangs: {HANGS} s have gone"))
    signal.setitimer(signal.ITIMER_REAL, HANGS, HANGS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def cluster():
    """Two workers, each a process with one thread."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """The cluster as the active scheduler."""
    from distributed import Client

    with Client(cluster) as client:
        yield client


def pytest_sessionfinish(session):
    """Coverage of a worker is kept before it is told to go: it may be killed where that takes long."""
    coverage = sys.modules.get("coverage")
    measured = coverage and coverage.Coverage.current()
    if measured and hasattr(session.config, "workerinput"):
        measured.stop()
        measured.save()
