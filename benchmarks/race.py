"""The race: time to a captured-variance shortfall, peers and us interleaved, judged from outside.

``python -m benchmarks.race [--quick] [--case NAME ...]`` prints a table of ratios fastest peer / ours
and writes results/race.json.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from .cases import CASES, Case
from .methods import FIRST_ORDER, METHODS, Method

TARGETS = (1e-2, 1e-4, 1e-8)


def optimum(A: Any, s: int) -> float:
    """The variance that the best s components capture, in float64."""
    A = A.astype(np.float64)
    if min(A.shape) > 6000:
        return float(np.sum(svds(A, k=s, tol=0, rng=np.random.default_rng(0))[1] ** 2))
    K = A.T @ A if A.shape[1] <= A.shape[0] else A @ A.T
    K = K.toarray() if sp.issparse(K) else K
    return float(np.linalg.eigvalsh(K)[-s:].sum())


def shortfall(A: Any, V: np.ndarray, best: float) -> float:
    """What V misses of it, relative: V is made orthonormal and judged in float64."""
    Q = np.linalg.qr(np.asarray(V, dtype=np.float64))[0]
    return 1 - float(np.linalg.norm(A.astype(np.float64) @ Q) ** 2) / best


def applies(method: Method, A: Any) -> bool:
    if sp.issparse(A):
        return method.sparse
    if method.name == "sklearn covariance_eigh" and A.shape[1] > 5000:
        return False
    return method.dense and min(A.shape) <= method.largest_side


def explore(
    method: Method, A: Any, s: int, best: float, cap: float
) -> list[tuple[Any, float, float]]:
    """``(knob, seconds, shortfall)`` from loose to tight, until 1e-8 is met or the cap is passed."""
    found = []
    for knob in method.knobs:
        begun = time.perf_counter()
        try:
            V = method.run(A, s, knob)
        except Exception as error:  # a peer that fails is out of this case, and said to be
            print(
                f"    {method.name} failed: {type(error).__name__}: {str(error)[:80]}", flush=True
            )
            break
        seconds = time.perf_counter() - begun
        found.append((knob, seconds, shortfall(A, V, best)))
        if found[-1][2] <= TARGETS[-1] or seconds > cap:
            break
    return found


def race(case: Case, dtype: str, *, repeats: int, cap: float, quick: bool) -> list[dict[str, Any]]:
    """One row a target: the median seconds of every method that reaches it."""
    A = case.make()
    if A is None:
        print(f"{case.name}: no data; set DUALPCA_DATA", flush=True)
        return []
    A = A.astype(dtype)
    best = optimum(A, case.s)
    every = METHODS if quick else [*METHODS, *FIRST_ORDER]
    methods = [m for m in every if applies(m, A)]
    explored = {m.name: explore(m, A, case.s, best, cap) for m in methods}
    chosen: dict[tuple[str, Any], list[float]] = {}
    picks: dict[float, dict[str, tuple[Any, float]]] = {}
    for target in TARGETS:
        picks[target] = {}
        for m in methods:
            meets = [(t, k, e) for k, t, e in explored[m.name] if e <= target]
            if meets:
                _, knob, error = min(meets, key=lambda x: x[0])
                picks[target][m.name] = (knob, error)
                chosen.setdefault((m.name, knob), [])
    by_name = {m.name: m for m in methods}
    for _ in range(repeats):
        for (name, knob), times in chosen.items():
            begun = time.perf_counter()
            by_name[name].run(A, case.s, knob)
            times.append(time.perf_counter() - begun)
    rows = []
    for target in TARGETS:
        seconds = {n: float(np.median(chosen[n, k])) for n, (k, _) in picks[target].items()}
        ours = seconds.get("dualpca auto", math.inf)
        first_order = {m.name for m in FIRST_ORDER}
        peers = {n: t for n, t in seconds.items() if n != "dualpca auto" and n not in first_order}
        fastest = min(peers, key=peers.get) if peers else None  # type: ignore[arg-type]
        ratio = peers[fastest] / ours if fastest else math.inf
        rows.append(
            {
                "case": case.name,
                "dtype": dtype,
                "s": case.s,
                "target": target,
                "ours": ours,
                "fastest peer": fastest,
                "peer": peers.get(fastest) if fastest else None,
                "ratio": ratio,
                "seconds": seconds,
                "knobs": {n: str(k) for n, (k, _) in picks[target].items()},
                "reached": {n: e for n, (_, e) in picks[target].items()},
            }
        )
        print(
            f"{case.name:26s} {dtype:8s} {target:.0e}  ours {ours * 1e3:8.1f} ms  "
            f"{fastest!s:24s} {peers.get(fastest, math.nan) * 1e3:8.1f} ms  ratio {ratio:6.2f}",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cases, float32 only, 3 repeats")
    parser.add_argument("--case", action="append", help="cases whose name contains this")
    parser.add_argument("--dtype", action="append", choices=["float32", "float64"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", default="results/race.json")
    args = parser.parse_args()
    cases = [c for c in CASES if not args.quick or c.quick]
    if args.case:
        cases = [c for c in CASES if any(part in c.name for part in args.case)]
    dtypes = args.dtype or (["float32"] if args.quick else ["float32", "float64"])
    repeats, cap = (3, 1.5) if args.quick else (args.repeats, 5.0)
    rows: list[dict[str, Any]] = []
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    for case in cases:
        for dtype in dtypes:
            rows += race(case, dtype, repeats=repeats, cap=cap, quick=args.quick)
            Path(args.out).write_text(json.dumps(rows, indent=1))
    ratios = [row["ratio"] for row in rows if math.isfinite(row["ratio"]) and row["ratio"] > 0]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\n{len(ratios)} cells: geometric mean {mean:.2f}, minimum {min(ratios):.2f}")


if __name__ == "__main__":
    main()
