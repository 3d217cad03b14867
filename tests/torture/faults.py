"""Estimators, data and marks of the process that the tests of faults share."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import warnings

import numpy as np
from scale import SEED
from sklearn.base import clone
from threadpoolctl import threadpool_info

from dualpca import (
    PCA,
    KernelPCA,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
    progress,
)

#: Every way to fit that reads its data by blocks.
STREAMED = {
    "PCA gram": PCA(3, solver="gram"),
    "PCA krylov": PCA(3, solver="krylov", tol=1e-8),
    "PCA chebyshev": PCA(3, solver="chebyshev", tol=1e-6),
    "PCA dca": PCA(3, solver="dca", tol=1e-3),
    "PCA zerofpr": PCA(3, solver="zerofpr", formulation="n", tol=1e-3),
    "RobustPCA": RobustPCA(3, tol=1e-5),
    "RobustPCA irls": RobustPCA(3, solver="irls", tol=1e-3),
    "RobustPCA dual": RobustPCA(3, solver="dual", tol=1e-2),
    "SparsePCA": SparsePCA(2, n_nonzero=4),
    "SparsePCA block": SparsePCA(2, n_nonzero=4, method="block"),
    "KernelPCA nystroem": KernelPCA(
        3, kernel="rbf", gamma=0.05, approximation="nystroem", n_landmarks=30
    ),
    "KernelPCA rff": KernelPCA(
        3, kernel="rbf", gamma=0.05, approximation="rff", n_random_features=40
    ),
    "RobustKernelPCA nystroem": RobustKernelPCA(
        3, gamma=0.05, approximation="nystroem", n_landmarks=30, tol=1e-4
    ),
}

#: Every way to fit, those included that hold all of the data.
MODELS = {
    **STREAMED,
    "PCA lapack": PCA(3, solver="lapack"),
    "PCA auto": PCA(0.9),
    "KernelPCA": KernelPCA(3, kernel="rbf", gamma=0.05, solver="krylov"),
    "RobustKernelPCA": RobustKernelPCA(3, gamma=0.05, tol=1e-4),
    "PrincipalComponentPursuit": PrincipalComponentPursuit(tol=1e-4),
    "Preprocessor": Preprocessor("robust"),
}


def made(name):
    """A new estimator, with a seed where it has one."""
    model = clone(MODELS[name])
    return model.set_params(random_state=0) if hasattr(model, "random_state") else model


def data(N=90, d=12, seed=0):
    """Rows with a decaying spectrum, and three that lie far off."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) * 0.8 ** np.arange(d) + 0.3
    X[:3] += 10 * rng.standard_normal((3, d))
    return X


def fit(model, X):
    """Fitted, without a word about accuracy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


def learned(model):
    """What a fit has left: the attributes whose names end in an underscore, as bytes."""
    found = {k: v for k, v in vars(model).items() if k.endswith("_") and not k.startswith("_")}
    return {k: _bytes(v) for k, v in found.items()}


def _bytes(value):
    plain = isinstance(value, np.ndarray) and value.dtype != object
    return (value.shape, value.dtype, value.tobytes()) if plain else repr(value)


def marks():
    """What of the process a fit must leave as it was."""
    kind, keys, place, *more = np.random.get_state()  # noqa: NPY002 (that it is not touched)
    return {
        "listeners": progress._RUN.get(),
        "errstate": np.geterr(),
        "warnings": list(warnings.filters),
        "random": (kind, keys.tobytes(), place, more),
        "blas": [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"],
        "threads": sorted(t.name for t in threading.enumerate() if "read-ahead" in t.name),
    }


def dice(name):
    """Random numbers of one test."""
    return random.Random(f"{SEED} {name}")


def script(code, *arguments):
    """What a new process prints, line by line; it must end well."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout.splitlines()
