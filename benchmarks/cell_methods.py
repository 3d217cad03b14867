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

from .cellpca import cellpca

SCRIPT = Path(__file__).with_name("cell_peers.R")


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


def missing(how: str, number: str | None = None) -> Method:
    """``PCA(missing=...)``, with k components; fillings are those of another ``number`` of them."""

    def method(X: np.ndarray, k: int) -> Found:
        model = PCA(number or k, missing=how, random_state=0).fit(X)
        full = model.impute(X)
        return projected(PCA(k, random_state=0).fit(full) if number else model, full)

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


class Peer:
    """A method of cell_peers.R, in a process that is started once."""

    def __init__(self, name: str) -> None:
        self.name, self.process = name, None

    def __call__(self, X: np.ndarray, k: int) -> Found:
        n, p = X.shape
        with tempfile.TemporaryDirectory() as folder:
            given, found = Path(folder, "X.bin"), Path(folder, "fit.bin")
            X.T.tofile(given)  # column by column
            said = self.asked(f"{k} {n} {p} {given} {found}")
            if said != "done":
                raise RuntimeError(said or "R ended without an answer")
            fitted, full, axes = np.split(np.fromfile(found), np.cumsum([n * p, n * p]))
        return Found(fitted.reshape(p, n).T, full.reshape(p, n).T, axes.reshape(k, p).T)

    def asked(self, line: str) -> str:
        """Send a line, and return the answer; other words of R before it are skipped."""
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(_command(self.name), text=True, stdin=pipe, stdout=pipe)
        print(line, file=self.process.stdin, flush=True)
        said = (word.strip() for word in iter(self.process.stdout.readline, ""))
        return next((word for word in said if word.startswith(("done", "failed:"))), "")


def _command(*words: str) -> list[str]:
    program = shutil.which("Rscript")
    if program is None:
        raise RuntimeError("Rscript is not on the path")
    return [program, "--vanilla", str(SCRIPT), *words]


def transcribed(start: Method) -> Method:
    """The transcription of cellPCA, from the fit of another method."""

    def method(X: np.ndarray, k: int) -> Found:
        found = start(X, k)
        V = np.linalg.qr(found.axes)[0]
        center = found.fitted.mean(axis=0)
        center, U, V = cellpca(X, center, (found.fitted - center) @ V, V)
        fitted = center + U @ V.T
        return Found(fitted, np.where(np.isnan(X), fitted, X), V)

    return method


def why_not(name: str) -> str:
    """Return why a method cannot be run here, or nothing."""
    if name == "robustcov":
        try:
            from robustcov import CellPCA  # noqa: F401
        except ImportError as problem:
            return str(problem)
    if name in R_METHODS:
        try:
            command = _command(R_METHODS[name], "check")
        except RuntimeError as problem:
            return str(problem)
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        return "" if said == "ok" else said or "R ended without an answer"
    return ""


#: Methods that need R, and what they need there.
R_METHODS = {"MacroPCA": "MacroPCA", "cellPCA (transcribed)": "MacroPCA", "missMDA": "missMDA"}
MACRO, CELL, MISSMDA = R_METHODS
OURS = "RobustPCA(cells=True)"
SHRINK = 'PCA(missing="shrink")'
BY_GCV = 'PCA("gcv", missing="shrink")'


def _robust(k: int) -> RobustPCA:
    return RobustPCA(k, random_state=0)


def _median() -> SimpleImputer:
    return SimpleImputer(strategy="median", keep_empty_features=True)


#: For tables with wrong cells and bad rows; missMDA for those with holes.
SETTINGS: dict[str, Method] = {
    OURS: cells,
    "medians, RobustPCA": filled(_median, _robust),
    "medians, PCA": filled(_median, decomposition.PCA),
    SHRINK: missing("shrink"),
    MACRO: (macro := Peer(MACRO)),
    CELL: transcribed(macro),
    MISSMDA: (miss_mda := Peer(MISSMDA)),
    "robustcov": robustcov,
}

#: For tables with holes alone. The imputers have their defaults, but for the seed.
HOLES: dict[str, Method] = {
    SHRINK: missing("shrink"),
    BY_GCV: missing("shrink", "gcv"),
    'PCA(missing="em")': missing("em"),
    "IterativeImputer, PCA": filled(lambda: IterativeImputer(random_state=0), decomposition.PCA),
    "KNNImputer, PCA": filled(KNNImputer, decomposition.PCA),
    "means, PCA": filled(SimpleImputer, decomposition.PCA),
    MISSMDA: miss_mda,
}
