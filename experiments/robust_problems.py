"""The parts of the comparison, each a series of problems: rows, a number of components and a judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from .robust_data import (
    OUTLIERS,
    Pictures,
    classics,
    contaminated,
    digits,
    haystack,
    mnist,
    outlier_sets,
    sine,
)
from .robust_methods import Fit

FRACTIONS = (0.10, 0.30, 0.45, 0.70)

#: Variants of the haystack: the noise's norm, and the centre's, for inliers of norm 1.
VARIANTS = {"no noise": (0.0, 0.0), "noise 0.1": (0.1, 0.0), "noise 0.1, centre 10": (0.1, 10.0)}

FULL_SIZE = {"N": 1000, "d": 100, "s": 10}
QUICK_SIZE = {"N": 400, "d": 40, "s": 5}

#: Training rows of the smaller MNIST problem, which rrcov can take too.
FEW_ROWS = 5600


@dataclass(frozen=True)
class Problem:
    """Rows to fit and a judge of the fit.

    ``clean`` are the rows for the reference, PCA of clean rows. A method that runs over the limit is
    not tried again in the same ``group``.
    """

    part: str
    cell: dict[str, Any]
    seed: int
    X: np.ndarray
    k: int
    judge: Callable[[Fit], dict[str, Any]]
    group: str
    clean: np.ndarray | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The cell in words."""
        return ", ".join(str(value) for value in self.cell.values())


def haystack_problems(seeds: int, quick: bool) -> Iterator[Problem]:
    """Part 1: the sine of the largest angle between the inliers' subspace and the one found."""
    size = QUICK_SIZE if quick else FULL_SIZE
    for variant, (noise, offset) in VARIANTS.items():
        if quick and not noise:
            continue
        for kind in OUTLIERS:
            for fraction in FRACTIONS:
                cell = {"outliers": kind, "share": f"{fraction:.0%}", "variant": variant}
                for seed in range(seeds):
                    data = haystack(kind, fraction, seed, noise=noise, offset=offset, **size)
                    judge = partial(_judge_subspace, data.basis, data.outlier)
                    clean = data.X[~data.outlier]
                    group = f"{kind} {fraction} {variant}"
                    yield Problem(
                        "haystack", cell, seed, data.X, size["s"], judge, group, clean,
                        {"fraction": fraction},
                    )  # fmt: skip


def digits_problems(seeds: int) -> Iterator[Problem]:
    """Part 2a: mean squared error per pixel of clean digits after a contaminated fit."""
    for seed in range(seeds):
        pictures = contaminated(digits(), seed)
        yield from _picture_problems("digits", "digits", pictures, seed, (5, 10, 20))


def mnist_problems(folder: Path, quick: bool) -> Iterator[Problem]:
    """Part 2b: the same of MNIST, one split, with few training rows and with all."""
    X = mnist(folder)
    if X is None:
        return
    few = contaminated(X, 0, FEW_ROWS // 4 if quick else FEW_ROWS)
    yield from _picture_problems("mnist", f"MNIST, {len(few.X)} rows", few, 0, (50,))
    if not quick:
        every = contaminated(X, 0)
        name = f"MNIST, {len(every.X)} rows"
        yield from _picture_problems("mnist", name, every, 0, (50, 100, 150))


def _picture_problems(
    part: str, name: str, pictures: Pictures, seed: int, ks: Sequence[int]
) -> Iterator[Problem]:
    judge = partial(_judge_pictures, pictures)
    for k in ks:
        cell = {"data": name, "components": f"k = {k}"}
        yield Problem(part, cell, seed, pictures.X, k, judge, name, pictures.clean)


def classics_problems(folder: Path, seeds: int) -> Iterator[Problem]:
    """Part 3: which rows are flagged."""
    for data in classics(folder):
        for k in data.ks:
            cell = {"data": data.name, "components": f"k = {k}"}
            judge = partial(_judge_flags, data.outlier)
            known = [] if data.outlier is None else _numbers(data.outlier)
            for seed in range(seeds):
                facts = {"rows": len(data.X), "outliers": known}
                yield Problem("classics", cell, seed, data.X, k, judge, data.name, facts=facts)


def outlier_problems(folder: Path, seeds: int, quick: bool) -> Iterator[Problem]:
    """Part 4: area under the ROC curve of the outlier score; half the columns, 2 to 10, as k."""
    for name, X, y in outlier_sets(folder):
        if quick and X.size > 200_000:
            continue
        k = int(np.clip(X.shape[1] // 2, 2, 10))
        shape = f"{X.shape[0]} x {X.shape[1]}"
        cell = {
            "data": name,
            "size": shape,
            "anomalies": f"{y.mean():.1%}",
            "components": f"k = {k}",
        }
        for seed in range(seeds):
            yield Problem("outliers", cell, seed, X, k, partial(_judge_scores, y), name)


def _judge_subspace(basis: np.ndarray, outlier: np.ndarray, fit: Fit) -> dict[str, Any]:
    assert fit.components is not None
    return {"error": sine(basis, fit.components)} | _rates(outlier, fit)


def _judge_pictures(pictures: Pictures, fit: Fit) -> dict[str, Any]:
    error = float(np.mean((pictures.test - fit.reconstruct(pictures.test)) ** 2))
    return {"error": error} | _rates(pictures.outlier, fit)


def _judge_flags(outlier: np.ndarray | None, fit: Fit) -> dict[str, Any]:
    if fit.flags is None:
        return {}
    rates = {} if outlier is None else _rates(outlier, fit)
    return {"flagged": _numbers(fit.flags), "share": float(fit.flags.mean())} | rates


def _judge_scores(y: np.ndarray, fit: Fit) -> dict[str, Any]:
    return {"auc": float(roc_auc_score(y, fit.scores))}


def _rates(outlier: np.ndarray, fit: Fit) -> dict[str, float]:
    """Share of the outliers and of the other rows that are flagged, where the method flags."""
    if fit.flags is None:
        return {}
    return {
        "recall": float(fit.flags[outlier].mean()),
        "false positives": float(fit.flags[~outlier].mean()),
    }


def _numbers(flags: np.ndarray) -> list[int]:
    """Numbers of the rows that are True, counted from 1."""
    return (np.flatnonzero(flags) + 1).tolist()
