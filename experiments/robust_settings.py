"""The settings of the paper's robust experiments, by their names in the published tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualpca import PCA, KernelPCA, RobustKernelPCA, RobustPCA

from .engine import Results, Table
from .robust_catalogue import ALGORITHM_5

CLEAN = "Linear PCA (noncontaminated)"
PLAIN = "Linear PCA (contaminated)"
PRIMAL = "Robust PCA (contaminated), Algorithm 5"
DUAL = "Robust PCA (contaminated), linear kernel, Algorithm 6"
ROBUST_CLEAN = "Robust PCA (noncontaminated), Algorithm 5"
RBF = "Robust PCA (contaminated), RBF kernel, Algorithm 6"
KERNEL = "Kernel PCA (contaminated), RBF kernel"
OURS = "RobustPCA, its defaults (contaminated)"

#: Kernel features as in the paper: RBF with gamma = 0.01 by 500 landmarks.
RBF_KERNEL: dict[str, Any] = {
    "kernel": "rbf",
    "gamma": 0.01,
    "approximation": "nystroem",
    "n_landmarks": 500,
}

#: Algorithm 6 runs the dual.
ALGORITHM_6 = {**ALGORITHM_5, "solver": "dual"}

MODELS: dict[str, Callable[[int], Any]] = {
    CLEAN: lambda s: PCA(s, center=False, random_state=0),
    PLAIN: lambda s: PCA(s, center=False, random_state=0),
    PRIMAL: lambda s: RobustPCA(s, random_state=0, **ALGORITHM_5),
    DUAL: lambda s: RobustPCA(s, random_state=0, **ALGORITHM_6),
    ROBUST_CLEAN: lambda s: RobustPCA(s, random_state=0, **ALGORITHM_5),
    RBF: lambda s: RobustKernelPCA(s, random_state=0, **RBF_KERNEL, **ALGORITHM_5),
    KERNEL: lambda s: KernelPCA(s, random_state=0, **RBF_KERNEL),
    OURS: lambda s: RobustPCA(s, random_state=0),
}


def beside(title: str, methods: Sequence[str], form: str) -> Callable[[Results], list[Table]]:
    """A table of one value for each method and number of components, published beside ours."""

    def tables(results: Results) -> list[Table]:
        header = ["setting"]
        for cell in results.cells:
            header += [f"s={cell['s']}: published", f"s={cell['s']}: ours"]
        rows = [[method] for method in methods]
        for row in rows:
            for cell in results.cells:
                printed = results.published(row[0], cell)
                found = results(row[0], cell)
                told = format(found["value"], form)
                row += [printed[0] if printed else "", told + _deviation(found, form)]
        return [Table(title, header, rows)]

    return tables


def _deviation(found: dict[str, Any], form: str) -> str:
    return f" ({format(found['std'], form)})" if found.get("std") is not None else ""


def off(results: Results, methods: Sequence[str]) -> float:
    """The largest relative difference between a published value and ours."""
    found = []
    for cell in results.cells:
        for method in methods:
            printed = results.published(method, cell)
            if printed is not None:
                found.append(abs(results(method, cell)["value"] / float(printed[0]) - 1))
    return float(np.max(found))


def summary(method: str, form: str, why: str) -> Callable[[Results], tuple[str, str, str]]:
    """The values of one setting, published and ours, and how many of all agree to the digits printed."""

    def told(results: Results) -> tuple[str, str, str]:
        printed = [results.published(method, cell) for cell in results.cells]
        ours = listed([results(method, cell)["value"] for cell in results.cells], form)
        agree, total = within_print(results)
        theirs = ", ".join(p[0] if p else "" for p in printed)
        return f"{method}: {theirs}", ours, f"{agree} of {total} agree to the digits printed; {why}"

    return told


def within_print(results: Results) -> tuple[int, int]:
    """Published values that ours round or are cut off to, and all of them."""
    found = []
    for cell in results.cells:
        for method in results.experiment.methods:
            printed = results.published(method, cell)
            if printed is not None:
                digits = len(printed[0].partition(".")[2])
                found.append(
                    abs(results(method, cell)["value"] - float(printed[0])) < 10.0**-digits
                )
    return sum(found), len(found)


def pairs(results: Results, a: str, b: str) -> list[tuple[float, float]]:
    """The values of two settings for each number of components."""
    return [(results(a, cell)["value"], results(b, cell)["value"]) for cell in results.cells]


def ratios(results: Results, a: str, b: str) -> list[float]:
    """The values of one setting over those of another."""
    return [x / y for x, y in pairs(results, a, b)]


def differences(results: Results, a: str, b: str) -> list[float]:
    """The values of one setting less those of another."""
    return [x - y for x, y in pairs(results, a, b)]


def listed(values: Sequence[float], form: str = ".3g") -> str:
    """Numbers behind each other."""
    return ", ".join(format(value, form) for value in values)


def rises(values: Sequence[float]) -> bool:
    """Whether each is above the one before."""
    return all(a < b for a, b in itertools.pairwise(values))
