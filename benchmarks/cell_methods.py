"""Methods of the cell race: fitted values, the completed table and axes of a table with holes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import decomposition
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from dualpca import PCA, RobustPCA

SCRIPT = Path(__file__).with_name("cell_peers.R")

#: Seconds that one fit in R may take.
LIMIT = 300.0


@dataclass(frozen=True)
class Found:
    """Fitted values of all cells, the table with its holes filled, and axes, p x k."""

    fitted: np.ndarray
    full: np.ndarray
    axes: np.ndarray


Method = Callable[[np.ndarray, int], Found]


def projected(model: Any, full: np.ndarray) -> Found:
    """A fitted model's projections of a table without holes."""
    return Found(model.inverse_transform(model.transform(full)), full, model.components_.T)


def filled(imputer: Any, model: Any) -> Method:
    """An imputer, then a model of what it returns."""

    def method(X: np.ndarray, k: int) -> Found:
        full = imputer().fit_transform(X)
        return projected(model(k).fit(full), full)

    return method


def missing(how: str) -> Method:
    """``PCA(missing=...)``."""

    def method(X: np.ndarray, k: int) -> Found:
        model = PCA(k, missing=how, random_state=0).fit(X)
        return projected(model, model.impute(X))

    return method


def cells(X: np.ndarray, k: int) -> Found:
    """``RobustPCA(cells=True)``; fitted values are those that its residuals are measured from."""
    model = RobustPCA(k, cells=True, random_state=0).fit(X)
    full = np.where(np.isnan(X), model.impute(X), X)
    expected = X - model.cell_residuals_ * model.cell_scales_
    return Found(np.where(np.isnan(X), full, expected), full, model.components_.T)


def robustcov(X: np.ndarray, k: int) -> Found:
    """CellPCA of the package robustcov."""
    import robustcov as rc

    model = rc.CellPCA(n_components=k).fit(X)
    found = projected(model, model.imputed_data_)
    return Found(found.fitted, np.where(np.isnan(X), model.imputed_data_, X), found.axes)


def in_r(name: str) -> Method:
    """A method of cell_peers.R; R starts anew for each table."""

    def method(X: np.ndarray, k: int) -> Found:
        n, p = X.shape
        with tempfile.TemporaryDirectory() as folder:
            given, found = Path(folder, "X.bin"), Path(folder, "fit.bin")
            X.T.tofile(given)  # column by column
            _rscript(name, k, n, p, given, found)
            fitted, full, axes = np.split(np.fromfile(found), np.cumsum([n * p, n * p]))
        return Found(fitted.reshape(p, n).T, full.reshape(p, n).T, axes.reshape(k, p).T)

    return method


def _rscript(*words: Any) -> str:
    program = shutil.which("Rscript")
    if program is None:
        raise RuntimeError("Rscript is not on the path")
    command = [program, "--vanilla", str(SCRIPT), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise RuntimeError("R failed: " + " ".join(done.stderr.split())[-200:])
    return done.stdout.strip()


def why_not(name: str) -> str:
    """Return why a method cannot be run here, or nothing."""
    if name == "robustcov":
        try:
            from robustcov import CellPCA  # noqa: F401
        except ImportError as problem:
            return str(problem)
    if name in R_METHODS:
        try:
            said = _rscript(name, "check")
        except (RuntimeError, subprocess.TimeoutExpired) as problem:
            return str(problem)
        return "" if said == "ok" else said or "R ended without an answer"
    return ""


R_METHODS = ("MacroPCA", "cellPCA", "missMDA")
OURS = "RobustPCA(cells=True)"
SHRINK = 'PCA(missing="shrink")'


def _robust(k: int) -> RobustPCA:
    return RobustPCA(k, random_state=0)


def _median() -> SimpleImputer:
    return SimpleImputer(strategy="median", keep_empty_features=True)


#: For tables with wrong cells and bad rows.
SETTINGS: dict[str, Method] = {
    OURS: cells,
    "medians, RobustPCA": filled(_median, _robust),
    "medians, PCA": filled(_median, decomposition.PCA),
    SHRINK: missing("shrink"),
    **{name: in_r(name) for name in R_METHODS[:2]},
    "robustcov": robustcov,
}

#: For tables with holes alone. The imputers have their defaults, but for the seed.
HOLES: dict[str, Method] = {
    SHRINK: missing("shrink"),
    'PCA(missing="em")': missing("em"),
    "IterativeImputer, PCA": filled(lambda: IterativeImputer(random_state=0), decomposition.PCA),
    "KNNImputer, PCA": filled(KNNImputer, decomposition.PCA),
    "means, PCA": filled(SimpleImputer, decomposition.PCA),
    R_METHODS[2]: in_r(R_METHODS[2]),
}
