"""Shared test set-up."""

import os

# Before SciPy is imported anywhere: scikit-learn's array-API checks are skipped without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import pytest


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
