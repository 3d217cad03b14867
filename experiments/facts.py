"""What some claims need besides the timings, measured once for each matrix."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from benchmarks.measure import PAUSE

from dualpca import as_operator
from dualpca.linalg import residual
from dualpca.solvers import rayleigh_ritz

from .claims import UNCHECKED, Check, values, verdict
from .engine import CAP, STARTS, Cell, Results
from .iterations import ITERATIONS
from .methods import METHODS
from .timing import ABOUT, Prepared
from .timing_tables import seconds


def _clock(f: Any, repeats: int = 3) -> float:
    """The least seconds of a few calls."""
    found = []
    for _ in range(repeats):
        time.sleep(PAUSE)
        begun = time.perf_counter()
        f()
        found.append(time.perf_counter() - begun)
    return min(found)


def rayleigh_ritz_of(prepared: Prepared, cell: Cell) -> dict[str, Any]:
    """Singular vectors from a rotated optimal basis: their error, and the time in passes."""
    X, s = as_operator(prepared.A), prepared.s
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((s, s)))[0]
    W = prepared.best @ rotation
    found = rayleigh_ritz(X, W).V
    error = float(np.max(1 - np.abs(np.sum(found * prepared.best, axis=0))))
    one = _clock(lambda: X.sweep(W))
    return {"vector_error": error, "ritz_passes": _clock(lambda: rayleigh_ritz(X, W)) / one}


def compared(ours: Sequence[str], theirs: Sequence[str]) -> Check:
    """A statement of what was done, which is here as well: nothing to confirm."""
    return lambda results: (UNCHECKED, f"{len(ours)} methods beside {len(theirs)}")


def over_the_cap(rows: list[dict[str, str]]) -> Check:
    """Whether every published time is within the 5 s of the caption."""
    shown = [float(row["value"]) for row in rows if row["value"] != "/"]
    above = [value for value in shown if value > 1000 * CAP]
    told = f"{len(above)} of {len(shown)} published times above 5 s"
    told += f": {', '.join(f'{value:.1f} ms' for value in above)}" if above else ""
    return lambda results: (verdict(not above), told)


def passes(methods: Sequence[str]) -> Callable[[Results], dict[str, Any]]:
    """How many timings pass their own test from each start, and the products from the last start."""

    def run(results: Results) -> dict[str, Any]:
        pairs = [(method, cell) for cell in results.cells for method in methods]
        views = {start: results.from_start(start) for start in STARTS}
        found: dict[str, Any] = {
            start: sum(math.isfinite(seconds(view, *pair)) for pair in pairs)
            for start, view in views.items()
        }
        cell = results.cells[0]
        ends = (results(method, cell)["starts"][STARTS[-1]]["paper"] for method in methods)
        found["products"] = " and ".join(str(end["readings"]) if end else "/" for end in ends)
        return found | {"all": len(pairs), "s": cell["s"], "cap": results.cap}

    return run


def share_of_the_test(prepared: Prepared, cell: Cell) -> dict[str, Any]:
    """Of an iteration of Algorithm 1: the share of its time that goes into the residual."""
    K = prepared.A.T @ prepared.A
    H = np.linalg.qr(np.random.default_rng(0).standard_normal((len(K), prepared.s)))[0]
    Y = K @ H
    step = _clock(lambda: ITERATIONS["Algorithm 1"].update(H, K @ H))
    test = _clock(lambda: residual(H, Y))
    return {"test_share": test / (step + test)}


def linear_rate(prepared: Prepared, cell: Cell) -> dict[str, Any]:
    """Algorithm 1 from three starts: the factor by which the sine shrinks, and what it misses at last.

    The sine is that of the largest angle to the optimal subspace; the factor is taken between sines of
    1e-3 and 1e-6, or over the last steps of a run of 300. Nothing where the gap asks for longer runs.
    """
    rates: list[float] = []
    missing: list[float] = []
    if prepared.sigma[-2] < 1.05 * prepared.sigma[-1]:
        return {"rates": rates, "missing": missing}
    for seed in range(3):
        sines = []
        for _, step in zip(
            range(300), METHODS["Algorithm 1"].steps(prepared.task(seed), 0), strict=False
        ):
            W, V = step.variable, prepared.best
            sines.append(float(np.linalg.norm(V - W @ (W.T @ V), 2)))
            if sines[-1] < 1e-6:
                break
        start = next((i for i, sine in enumerate(sines) if sine < 1e-3), len(sines) - 11)
        rates.append((sines[-1] / sines[start]) ** (1 / (len(sines) - 1 - start)))
        missing.append(prepared.shortfall(METHODS["Algorithm 1"], step))
    return {"rates": rates, "missing": missing}


def same_subspaces(prepared: Prepared, cell: Cell) -> dict[str, Any]:
    """The sine of the largest angle between iterates of the six iterations, ten steps from one start."""
    K = prepared.A @ prepared.A.T
    H = np.linalg.qr(np.random.default_rng(0).standard_normal((len(K), prepared.s)))[0]
    streams = [ITERATIONS[f"Iteration ({letter})"](K, H) for letter in "lmnopq"]
    worst = 0.0
    for _ in range(10):
        first, *others = (np.linalg.qr(next(stream)[0])[0] for stream in streams)
        sines = [float(np.linalg.norm(Q - first @ (first.T @ Q), 2)) for Q in others]
        worst = max(worst, *sines)
    return {"sine": worst, "form_K": _clock(lambda: prepared.A @ prepared.A.T, 1)}


def equal_spaces(results: Results) -> tuple[str, str]:
    """Whether the six iterations have gone through the same spaces."""
    sine = max(values(results, ABOUT, "sine"))
    return verdict(sine < 1e-6), f"largest sine {sine:.0e}"
