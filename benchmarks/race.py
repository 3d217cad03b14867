"""The race: time to a captured-variance shortfall, peers and us interleaved, judged from outside.

``python -m benchmarks.race [--quick] [--case NAME ...]`` prints the ratios fastest peer / ours and
writes results/race.json, race.md, an overview of all ratios and a figure for each dtype.

Every method turns its knob once from loose to tight (:mod:`benchmarks.explore`). For each target its
fastest run that meets it is the one that counts. Those within CONTENDER times the fastest peer, and
ours, are then repeated in turns, and their medians compared; of the others the one run stands. Each
matrix has an equal share of the wall-clock budget that is left: once that is used up, repeating stops
after ENOUGH rounds. First-order methods race on the matrices of --quick.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .cases import CASES, Case
from .explore import TARGETS, Explored, Trail, explore, fastest_of
from .judge import Judge, reference
from .measure import seconds_of
from .methods import COVARIANCE, FIRST_ORDER, METHODS, OURS, Method, available
from .report import row_line, summary, write_report

CONTENDER = 2
ENOUGH = 3
DTYPES = ("float32", "float64")
PEERS = ("scikit-learn", "scikit-learn-intelex", "torch", "fbpca", "primme")

Limits = dict[str, Any]

#: Seconds of the whole race, repeats of a contender, and seconds after which a knob is not tightened.
FULL: Limits = {"budget": 1500.0, "repeats": 5, "cap": 2.5}
QUICK: Limits = {"budget": 240.0, "repeats": 3, "cap": 1.5}


def first_word(solver: str | None) -> str:
    """``solver_`` may say more than the solver's name."""
    return solver.split()[0].rstrip(":,;") if solver else ""


class Matrices:
    """A case's matrix and reference, kept while the cases that follow are of the same matrix."""

    def __init__(
        self, cases: Sequence[Case], reference: Callable[[Any, int], np.ndarray] = reference
    ) -> None:
        self._cases, self._reference = cases, reference
        self._make: Callable[[], Any] | None = None
        self._made: tuple[Any, Any] = (None, None)

    def of(self, case: Case) -> tuple[Any, Any]:
        """The matrix in float64 and its optimal components, or (None, None) without the data."""
        if case.make is not self._make:
            self._make, self._made = case.make, (None, None)
            A = case.make()
            if A is not None:
                s = max(c.s for c in (*self._cases, case) if c.make is case.make)
                self._made = A, self._reference(A, s)
        A, best = self._made
        return (A, best) if A is None else (A, best[:, : case.s])


def race(
    case: Case,
    dtype: str,
    A: Any,
    best: np.ndarray,
    methods: Sequence[Method],
    *,
    repeats: int,
    cap: float,
    share: float = math.inf,
    judged: type[Judge] = Judge,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One row a target, and every run of the exploration.

    ``share`` is how many seconds this may take, exploration included, and ``judged`` by whom.
    """
    begun = time.perf_counter()
    A = A.astype(dtype) if sp.issparse(A) else np.ascontiguousarray(A, dtype=dtype)
    judge = judged(A, best)
    chosen = [m for m in methods if m.applies(A) and (case.quick or m.kind != "first-order")]
    trails = explore(chosen, A, case.s, judge, cap=cap)
    picks = {target: {t.method.name: t.fastest(target) for t in trails} for target in TARGETS}
    contenders = _contenders(trails)
    times: dict[tuple[str, Any], list[float]] = {key: [] for key in contenders}
    for done in range(repeats):
        used = (time.perf_counter() - begun) / share
        if done >= ENOUGH and used > 1:
            break
        for (name, knob), method in contenders.items():
            times[name, knob].append(seconds_of(method, A, case.s, knob)[0])
    head = {"case": case.name, "dtype": dtype, "s": case.s, "shape": list(A.shape)}
    peers = {t.method.name for t in trails if t.method.kind == "peer"}
    rows = [head | _row(target, picks[target], times, peers) for target in TARGETS]
    explored = [head | _explored(trail) for trail in trails]
    return rows, explored


def _contenders(trails: Sequence[Trail]) -> dict[tuple[str, Any], Method]:
    """The methods worth repeating, each with the knob of every target that makes it so."""
    found = {}
    for target in TARGETS:
        limit = CONTENDER * fastest_of(trails, target)
        for trail in trails:
            run = trail.fastest(target)
            if run and (run.seconds <= limit or trail.method.kind == "ours"):
                found[trail.method.name, run.knob] = trail.method
    return found


def _row(
    target: float,
    picks: dict[str, Explored | None],
    times: dict[tuple[str, Any], list[float]],
    peers: set[str],
) -> dict[str, Any]:
    entries = {}
    for name, run in picks.items():
        if run is None:
            continue
        repeated = times.get((name, run.knob))
        entries[name] = {
            "seconds": float(np.median(repeated)) if repeated else run.seconds,
            "repeats": len(repeated) if repeated else 1,
            "knob": run.knob,
            "reached": run.shortfall,
            "peak_mb": run.peak_mb,
            **run.facts,
        }
    # A single run of the exploration is no median: the fastest peer is one of the contenders.
    known = [n for n in entries if n in peers and (n, entries[n]["knob"]) in times]
    fastest = min(known, key=lambda name: entries[name]["seconds"]) if known else None
    ours = entries[OURS]["seconds"] if OURS in entries else None
    peer = entries[fastest]["seconds"] if fastest else None
    solver = first_word(entries.get(OURS, {}).get("solver"))
    return {
        "target": target,
        "ours": ours,
        "fastest peer": fastest,
        "peer": peer,
        "ratio": peer / ours if ours and peer else None,
        "same kernel": fastest in COVARIANCE and solver == "gram",
        "methods": entries,
    }


def _explored(trail: Trail) -> dict[str, Any]:
    return {
        "method": trail.method.name,
        "kind": trail.method.kind,
        "ended": trail.ended,
        "runs": [
            {"knob": r.knob, "seconds": r.seconds, "shortfall": r.shortfall, "peak_mb": r.peak_mb}
            for r in trail.runs
        ],
    }


def machine() -> dict[str, Any]:
    """Cores, the limit on threads and the versions of what raced."""
    versions = {"python": platform.python_version()}
    for package in ("dualpca", "numpy", "scipy", *PEERS):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "missing"
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    return {"cores": os.cpu_count(), "OMP_NUM_THREADS": threads, "versions": versions}


def finite(value: Any) -> Any:
    """Infinite and undefined numbers as None, which JSON knows; numpy's numbers as Python's."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def run_all(
    cases: Sequence[Case],
    dtypes: Sequence[str],
    methods: Sequence[Method],
    out: Path,
    *,
    budget: float,
    repeats: int,
    cap: float,
    judged: tuple[Callable[[Any, int], np.ndarray], type[Judge]] = (reference, Judge),
) -> dict[str, Any]:
    """Race every case; ``out`` is written after each, so that what was raced is never lost.

    ``judged`` has the function that finds the optimal components, and the judge.
    """
    methods, missing = available(methods)
    print("\n".join(missing), end="\n" if missing else "", flush=True)
    found: dict[str, Any] = {"machine": machine(), "notes": missing, "rows": [], "explored": []}
    out.parent.mkdir(parents=True, exist_ok=True)
    matrices = Matrices(cases, judged[0])
    end = time.perf_counter() + budget
    for i, case in enumerate(cases):
        share = max((end - time.perf_counter()) / ((len(cases) - i) * len(dtypes)), 3.0)
        A, best = matrices.of(case)
        if A is None:
            found["notes"].append(f"{case.name} is not raced: no data; set DUALPCA_DATA")
            out.write_text(json.dumps(found, indent=1))
            print(found["notes"][-1], flush=True)
            continue
        for dtype in dtypes:
            limits = {"repeats": repeats, "cap": cap, "share": share}
            rows, explored = race(case, dtype, A, best, methods, **limits, judged=judged[1])
            found["rows"] += finite(rows)
            found["explored"] += finite(explored)
            out.write_text(json.dumps(found, indent=1))
            print("\n".join(map(row_line, rows)), flush=True)
    return found


def options_of(description: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few cases, float32, 3 repeats")
    parser.add_argument("--case", action="append", help="cases whose name contains this")
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--repeats", type=int, help="times each contender is run")
    parser.add_argument("--budget", type=float, help="seconds that the race should take")
    parser.add_argument("--out", default="results/race.json", type=Path)
    args = parser.parse_args(arguments)
    args.dtype = args.dtype or (DTYPES[:1] if args.quick else DTYPES)
    return args


def selected(cases: Sequence[Case], args: argparse.Namespace) -> list[Case]:
    """The cases that the command line asks for."""
    if args.case:
        return [c for c in cases if any(part in c.name for part in args.case)]
    return [c for c in cases if c.quick or not args.quick]


def limits_of(args: argparse.Namespace, full: Limits, quick: Limits) -> Limits:
    """The limits of the race, those given on the command line first."""
    given = {"repeats": args.repeats, "budget": args.budget}
    return (quick if args.quick else full) | {key: value for key, value in given.items() if value}


def main(arguments: Sequence[str] | None = None) -> None:
    args = options_of(__doc__, arguments)
    methods = METHODS if args.quick else [*METHODS, *FIRST_ORDER]
    limits = limits_of(args, FULL, QUICK)
    found = run_all(selected(CASES, args), args.dtype, methods, args.out, **limits)
    print()
    print("\n".join(summary(found["rows"])))
    for path in write_report(found, args.out.parent):
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
