"""The paper's table of test accuracies: a small perceptron on features of MNIST, clean and contaminated.

``python -m experiments.mnist_accuracy [--components 50 100 150] [--settings 1 6] [--out results]``
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from dualpca import PCA, KernelPCA, RobustKernelPCA, RobustPCA

from .robust_catalogue import ALGORITHM_5
from .robust_data import PIXEL_NOISE, data_folder

PUBLISHED = Path(__file__).with_name("paper") / "accuracy.csv"

#: Kernel features as in the paper: RBF with gamma = 0.01 by 500 landmarks.
KERNEL: dict[str, Any] = {
    "kernel": "rbf",
    "gamma": 0.01,
    "approximation": "nystroem",
    "n_landmarks": 500,
}

#: Setting: (name, whether the training rows are contaminated, the features).
SETTINGS: dict[int, tuple[str, bool, Callable[[int], Any]]] = {
    1: ("Linear PCA", False, lambda s: PCA(s, center=False, random_state=0)),
    2: ("Linear PCA", True, lambda s: PCA(s, center=False, random_state=0)),
    3: ("Robust PCA, Algorithm 5", True, lambda s: RobustPCA(s, random_state=0, **ALGORITHM_5)),
    4: (
        "Robust PCA, linear kernel, Algorithm 6",
        True,
        lambda s: RobustPCA(s, random_state=0, **{**ALGORITHM_5, "solver": "dual"}),
    ),
    5: ("Robust PCA, Algorithm 5", False, lambda s: RobustPCA(s, random_state=0, **ALGORITHM_5)),
    6: (
        "Robust PCA, RBF kernel, Algorithm 6",
        True,
        lambda s: RobustKernelPCA(s, random_state=0, **KERNEL, **ALGORITHM_5),
    ),
    7: ("Kernel PCA, RBF kernel", True, lambda s: KernelPCA(s, random_state=0, **KERNEL)),
    8: ("RobustPCA, its defaults", True, lambda s: RobustPCA(s, random_state=0)),
    9: (
        "RobustKernelPCA, its defaults, RBF kernel",
        True,
        lambda s: RobustKernelPCA(s, random_state=0, **KERNEL),
    ),
}


def mnist(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows clean and contaminated, their labels, test rows and labels; pixels in [0, 1]."""
    folder = data_folder()
    if folder is None or not (folder / "mnist.npz").exists():
        raise SystemExit(
            "set DUALPCA_DATA to a folder with mnist.npz (x_train, y_train, x_test, y_test)"
        )
    with np.load(folder / "mnist.npz") as file:
        X = np.concatenate([file["x_train"], file["x_test"]]).reshape(70000, -1)
        y = np.concatenate([file["y_train"], file["y_test"]])
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    X, y = X[order].astype(np.float32) / 255, y[order]
    cut = round(0.8 * len(X))
    bad = X[:cut].copy()
    rows = rng.choice(cut, round(0.15 * cut), replace=False)
    bad[rows] += PIXEL_NOISE * rng.standard_normal((len(rows), X.shape[1])).astype(np.float32)
    return X[:cut], bad, y[:cut], X[cut:], y[cut:]


def accuracy(train: np.ndarray, y: np.ndarray, test: np.ndarray, y_test: np.ndarray) -> float:
    """Test accuracy, in percent, of one hidden layer of 20 neurons.

    Features are divided by one number, the root mean square of the test features, which the step size of
    Adam would otherwise depend on.
    """
    scale = float(np.sqrt(np.mean(test**2)))
    network = MLPClassifier((20,), learning_rate_init=3e-3, random_state=0, max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(train / scale, y)
    return 100 * network.score(test / scale, y_test)


def published() -> dict[int, dict[str, str]]:
    """The paper's numbers by setting."""
    with PUBLISHED.open() as file:
        return {int(row["setting"]): row for row in csv.DictReader(file)}


def table(found: dict[int, dict[int, float]], sizes: list[int]) -> str:
    """Ours and the published numbers side by side."""
    theirs = published()
    lines = [
        "| setting | " + " | ".join(f"{s} | published" for s in sizes) + " |",
        "| --- |" + " --- | --- |" * len(sizes),
    ]
    for setting, row in found.items():
        name, contaminated, _ = SETTINGS[setting]
        cells = []
        for s in sizes:
            cells += [f"{row[s]:.2f}", theirs.get(setting, {}).get(str(s), "")]
        kind = "contaminated" if contaminated else "clean"
        lines.append(f"| {setting}. {name} ({kind}) | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Run the settings that are asked for and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--components", type=int, nargs="+", default=[50, 100, 150])
    parser.add_argument("--settings", type=int, nargs="+", default=list(SETTINGS))
    parser.add_argument("--out", type=Path, default=Path("results"))
    asked = parser.parse_args(arguments)
    clean, bad, y, test, y_test = mnist()
    found: dict[int, dict[int, float]] = {}
    for setting in asked.settings:
        name, contaminated, make = SETTINGS[setting]
        for s in asked.components:
            begun = time.perf_counter()
            rows = bad if contaminated else clean
            model = make(s).fit(rows)
            fitted = time.perf_counter() - begun
            value = accuracy(model.transform(rows), y, model.transform(test), y_test)
            found.setdefault(setting, {})[s] = value
            total = time.perf_counter() - begun
            sys.stderr.write(
                f"{setting}. {name}, {s} components: {value:.2f} % "
                f"({fitted:.1f} s to fit, {total:.0f} s in all)\n"
            )
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "mnist_accuracy.md").write_text(table(found, asked.components))
    print(table(found, asked.components))


if __name__ == "__main__":
    main()
