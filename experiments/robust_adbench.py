"""Outlier scores on the labelled sets of ADBench: the area under the ROC curve of each method.

``python -m experiments.robust_adbench [--jobs 2] [--out results]`` reads adbench.npz in the folder of
DUALPCA_DATA and writes robust_adbench.md. Two protocols: fit and score all rows; or fit half of the
normal rows, and score all others. Columns are standardised. PyOD's methods run where it is installed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.covariance import MinCovDet
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from dualpca import RobustPCA

from .robust_data import data_folder

Score = Callable[[np.ndarray, np.ndarray], np.ndarray]

#: MCD needs more rows than columns, and minutes where there are many of these.
MOST_COLUMNS = 400

#: PyOD's KPCA decomposes the kernel matrix of this many rows at most.
KERNEL_ROWS = 1000


def _robust(n_components: str, flag: str = "density") -> Score:
    def score(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        model = RobustPCA(n_components, flag=flag, random_state=0)
        return -np.asarray(model.fit(train).score_samples(test))

    return score


def _forest(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return -IsolationForest(random_state=0).fit(train).score_samples(test)


def _mcd(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    if train.shape[1] > MOST_COLUMNS:
        raise ValueError("too many columns")
    return MinCovDet(random_state=0).fit(train).mahalanobis(test)


def _pyod(module: str, name: str, **options: Any) -> Score:
    def score(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        from importlib import import_module

        detector = getattr(import_module(f"pyod.models.{module}"), name)(**options)
        return detector.fit(train).decision_function(test)

    return score


def _kernel(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """KPCA of at most KERNEL_ROWS rows, whose kernel matrix it decomposes."""
    sampling = len(train) > KERNEL_ROWS
    options = {"sampling": sampling, "subset_size": KERNEL_ROWS, "random_state": 0}
    return _pyod("kpca", "KPCA", **options)(train, test)


METHODS: dict[str, Score] = {
    "RobustPCA, outliers": _robust("outliers"),
    "RobustPCA": _robust("auto"),
    "IsolationForest": _forest,
    "MinCovDet": _mcd,
    "PyOD PCA": _pyod("pca", "PCA", random_state=0),
    "PyOD KPCA": _kernel,
    "ECOD": _pyod("ecod", "ECOD"),
    "COPOD": _pyod("copod", "COPOD"),
    "LOF": _pyod("lof", "LOF"),
}


def sets(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Name, standardised rows and which are anomalies."""
    found = {}
    with np.load(path) as file:
        for key in file.files:
            if key.endswith("/X"):
                name = key[:-2]
                X, y = file[key].astype(float), file[f"{name}/y"].ravel() > 0
                X = X[:, X.std(axis=0) > 0]
                found[name] = (X - X.mean(axis=0)) / X.std(axis=0), y
    return found


def parts(X: np.ndarray, y: np.ndarray, half: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to fit, rows to score, and which of these are anomalies."""
    if not half:
        return X, X, y
    normal = np.random.default_rng(0).permutation(np.flatnonzero(~y))
    train = normal[: len(normal) // 2]
    test = np.setdiff1d(np.arange(len(y)), train)
    varying = X[train].std(axis=0) > 0
    return X[train][:, varying], X[test][:, varying], y[test]


def attempt(task: tuple[str, str, np.ndarray, np.ndarray, bool]) -> tuple[str, str, bool, float]:
    """The area under the curve of one method on one set; NaN where it cannot run."""
    name, method, X, y, half = task
    train, test, labels = parts(X, y, half)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            scores = np.nan_to_num(METHODS[method](train, test), posinf=1e300)
            return name, method, half, float(roc_auc_score(labels, scores))
        except Exception:  # a method that is missing or fails has no figure
            return name, method, half, np.nan


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--method", action="append", choices=list(METHODS))
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args(arguments)
    folder = data_folder()
    if folder is None or not (folder / "adbench.npz").exists():
        raise SystemExit("DUALPCA_DATA does not name a folder with adbench.npz")
    data = sets(folder / "adbench.npz")
    chosen = args.method or list(METHODS)
    tasks = [
        (name, m, *rows, half) for name, rows in data.items() for m in chosen for half in (0, 1)
    ]
    with ProcessPoolExecutor(args.jobs) as pool:
        records = list(pool.map(attempt, tasks))
    lines = []
    for half, title in enumerate(("all rows", "fitted to half of the normal rows")):
        found = {(n, m): auc for n, m, h, auc in records if h == half}
        ran = [m for m in chosen if np.isfinite([found[n, m] for n in data]).any()]
        lines += [f"| {title} | " + " | ".join(ran) + " |", "|---" * (len(ran) + 1) + "|"]
        for n in data:
            cells = ("" if np.isnan(found[n, m]) else f"{found[n, m]:.3f}" for m in ran)
            lines.append(f"| {n} | " + " | ".join(cells) + " |")
        common = [n for n in data if np.isfinite([found[n, m] for m in ran]).all()]
        means = (f"{np.mean([found[n, m] for n in common]):.4f}" for m in ran)
        lines += [f"| mean of {len(common)} | " + " | ".join(means) + " |", ""]
    print("\n".join(lines))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "robust_adbench.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
