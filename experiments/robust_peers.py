"""Robust PCA beside its peers, in one run: methods in turns, seeds repeated, medians reported.

``python -m experiments.robust_peers [--quick] [--only PART ...] [--method NAME ...] [--seeds 5]
[--limit 600] [--out results]`` writes robust_peers.md and robust_peers.json. Parts: haystack, digits,
mnist, classics, outliers. The last three read the folder of the environment variable DUALPCA_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.race import finite
from threadpoolctl import threadpool_limits

from .robust_catalogue import CLEAN, clean_pca, methods
from .robust_data import data_folder
from .robust_methods import PARTS, Fit, Method, RMethod
from .robust_problems import (
    Problem,
    classics_problems,
    digits_problems,
    haystack_problems,
    mnist_problems,
    outlier_problems,
)
from .robust_r import Rrcov
from .robust_report import report

#: Seeds at most where the data are fixed and only the methods are random.
FIXED_SEEDS = 3

#: Seconds that the small fit before the comparison may take.
WARM_UP = 30.0

Record = dict[str, Any]


def log(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


def problems(parts: Sequence[str], seeds: int, quick: bool, notes: list[str]) -> Iterator[Problem]:
    """The problems of these parts; a part whose data are missing leaves a note instead."""
    if "haystack" in parts:
        yield from haystack_problems(seeds, quick)
    if "digits" in parts:
        yield from digits_problems(seeds)
    folder = data_folder()
    fixed = min(seeds, FIXED_SEEDS)
    for part in ("mnist", "classics", "outliers"):
        if part not in parts:
            continue
        if folder is None:
            notes.append(f"{part}: skipped, DUALPCA_DATA does not name a folder.")
            continue
        series = {
            "mnist": lambda: mnist_problems(folder, quick),
            "classics": lambda: classics_problems(folder, fixed),
            "outliers": lambda: outlier_problems(folder, fixed, quick),
        }[part]()
        count = 0
        for count, problem in enumerate(series, start=1):  # noqa: B007
            yield problem
        if not count:
            notes.append(f"{part}: skipped, its files are not in the folder of DUALPCA_DATA.")


def available(chosen: Iterable[Method | RMethod], notes: list[str]) -> list[Method | RMethod]:
    """The methods whose package or program is there; the others leave a note."""
    found = []
    for method in chosen:
        try:
            method.load()
        except (ImportError, RuntimeError, TimeoutError) as problem:
            notes.append(f"{method.name}: skipped, {problem}.")
        else:
            found.append(method)
    return found


def warm_up(chosen: Iterable[Method | RMethod]) -> None:
    """A small fit of each method: lazy imports and R's compiler start outside the comparison."""
    X = np.random.default_rng(0).normal(size=(100, 15))
    for method in chosen:
        with suppress(Exception):  # the comparison itself reports failures
            method.run(X, 2, 0, WARM_UP)


def run(
    chosen: Sequence[Method | RMethod], series: Iterable[Problem], limit: float
) -> Iterator[Record]:
    """Every method on every problem, in turns; one record each."""
    slow: dict[tuple[str, str], str] = {}
    for problem in series:
        said = []
        if problem.clean is not None:
            yield _record(problem, CLEAN, problem.judge(clean_pca(problem.clean, problem.k)))
        for method in chosen:
            if problem.part not in method.parts or (method.slow and problem.seed > 0):
                continue
            note = method.unfit(*problem.X.shape) or slow.get((problem.group, method.name), "")
            found: Record = {"note": note}
            if not note:
                found = _attempt(method, problem, limit)
                if found.get("note", "").startswith("over"):
                    slow[problem.group, method.name] = found["note"]
            said.append(f"{method.name} {_brief(found)}")
            yield _record(problem, method.name, found)
        log(f"{problem.part}: {problem.name}, seed {problem.seed}: " + "; ".join(said))


def _attempt(method: Method | RMethod, problem: Problem, limit: float) -> Record:
    """What the judge says and the seconds, or a note of why there is nothing."""
    try:
        fit: Fit = method.run(problem.X, problem.k, problem.seed, limit)
        return problem.judge(fit) | {"seconds": fit.seconds}
    except TimeoutError as late:
        return {"note": str(late)}
    except Exception as failure:  # a peer's failure is a result
        return {"note": f"failed: {type(failure).__name__}: {failure}"[:200]}


def _record(problem: Problem, method: str, found: Record) -> Record:
    head = {"part": problem.part, "cell": problem.cell, "seed": problem.seed, "k": problem.k}
    return head | problem.facts | {"method": method} | found


def _brief(found: Record) -> str:
    value = found.get("error", found.get("auc", found.get("share")))
    if "note" in found:
        return found["note"]
    shown = "" if value is None else f"{value:.3g} "
    return f"{shown}({found['seconds']:.3g} s)"


def machine(R: Rrcov) -> Record:
    """Cores, and the versions of what was compared."""
    versions = {"python": platform.python_version()}
    for package in ("dualpca", "numpy", "scipy", "scikit-learn", "robpy", "pyod"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "missing"
    return {
        "cores": os.cpu_count(),
        "threads": 1,
        "versions": versions,
        "R": R.version or "missing",
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts that are asked for and write the two files."""
    parser = argparse.ArgumentParser(description="Robust PCA beside its peers.")
    parser.add_argument("--quick", action="store_true", help="small sizes, 2 seeds, no full MNIST")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run")
    parser.add_argument("--method", nargs="+", help="methods to run, by their names; default: all")
    parser.add_argument("--seeds", type=int, help="seeds; default 5, with --quick 2")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that one fit may take")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder to write to")
    asked = parser.parse_args(arguments)
    seeds = asked.seeds or (2 if asked.quick else 5)
    settings = {"quick": asked.quick, "seeds": seeds, "limit": asked.limit}
    R = Rrcov()
    notes: list[str] = []
    records: list[Record] = []
    begun = time.perf_counter()

    def write() -> None:
        minutes = round((time.perf_counter() - begun) / 60, 1)
        facts = machine(R) | settings | {"minutes": minutes}
        found = {"machine": facts, "notes": notes, "records": records}
        (asked.out / "robust_peers.json").write_text(json.dumps(found, indent=1) + "\n")
        (asked.out / "robust_peers.md").write_text(report(found))
        log(f"{minutes} minutes; wrote {asked.out / 'robust_peers.md'}")

    asked.out.mkdir(parents=True, exist_ok=True)
    try:
        every = [m for m in methods(R) if not asked.method or m.name in asked.method]
        chosen = available(every, notes)
        log("\n".join(notes) or "every method is available")
        with threadpool_limits(1):
            warm_up(chosen)
            series = problems(asked.only, seeds, asked.quick, notes)
            for record in run(chosen, series, asked.limit):
                if records and record["part"] != records[-1]["part"]:
                    write()  # so that what was run is never lost
                records.append(finite(record))
        write()
    finally:
        R.close()


if __name__ == "__main__":
    main()
