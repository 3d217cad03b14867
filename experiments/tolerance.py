"""The error of the objective along a run, read at each tolerance."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from dualpca.formulations import formulation, optimal_value

from .engine import STARTS, Cell, Context, Results, Table
from .figures import hollow, panels, short
from .methods import METHODS as REGISTRY
from .methods import Step, Task

#: 1e-1 down to 1e-9, two a decade.
TOLERANCES = tuple(float(f"{10**-exponent:.3g}") for exponent in np.arange(1, 9.1, 0.5))

ZEROFPR = tuple(f"ZeroFPR ({letter})" for letter in "lnoq")
PG = tuple(f"PG ({letter})" for letter in "lnoq")
KRYLOV = ("svds", "KrylovKit")
METHODS = (*KRYLOV, *ZEROFPR, *PG, "krylov")
LOOSE = tuple(f"{name} ({letter})" for name in ("ZeroFPR", "PG") for letter in "no")
TIGHT = tuple(m for m in METHODS if m not in (*LOOSE, "krylov"))


def gaussian_task(cell: Cell, context: Context) -> Task:
    """A Gaussian matrix of its own seed."""
    A = np.random.default_rng(cell["matrix"]).standard_normal((cell["N"], cell["d"]))
    return Task(A, cell["s"], cell["matrix"], np.linalg.svd(A, compute_uv=False))


def curve(task: Task, cell: Cell, name: str, context: Context) -> dict[str, Any]:
    """The curve of a method; those from the other starts besides, where its first step depends on it."""
    found = _errors(task, name)
    if REGISTRY[name].scaled:
        others = {start: _errors(replace(task, start=start), name) for start in STARTS[1:]}
        found |= {"starts": others}
    return found


def _errors(task: Task, name: str) -> dict[str, Any]:
    """The relative error on (n), of H on (o), where the method's own test stops it at each tolerance.

    One run serves all tolerances; a method without iterates runs once for each. ``limited`` are the
    tolerances that the limit of iterations came before.
    """
    method = REGISTRY[name]
    problem = formulation("o" if method.left else "n", task.A)
    best = optimal_value("n", task.sigma, task.s)

    def error(step: Step) -> float:
        return abs(problem.objective(_inside(step.variable, method.left)) - best) / abs(best)

    errors: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method.knobs:
            for tol in TOLERANCES:
                errors[str(tol)] = error(next(method.steps(task, tol)))
            return {"errors": errors, "limited": []}
        left = list(TOLERANCES)
        for count, step in enumerate(method.steps(task, TOLERANCES[-1]), start=1):
            while left and step.quantity <= left[0]:
                errors[str(left.pop(0))] = error(step)
            if not left or count >= method.max_iter:
                break
    return {"errors": errors | {str(tol): error(step) for tol in left}, "limited": left}


def _inside(W: np.ndarray, left: bool) -> np.ndarray:
    """W as returned, but for rounding that puts it outside of the unit ball."""
    size = np.linalg.norm(W) if left else np.linalg.norm(W, 2)
    return W / size if 1 < size < 1 + 1e-8 else W


def mean_errors(results: Results, method: str) -> dict[float, float]:
    """The mean over the matrices, for each tolerance, from the start that the results are seen from."""
    every = (results(method, cell) for cell in results.cells)
    found = [one.get("starts", {}).get(results.start, one)["errors"] for one in every]
    return {tol: float(np.mean([errors[str(tol)] for errors in found])) for tol in TOLERANCES}


def tables(results: Results) -> list[Table]:
    """The mean errors at every second decade, and those from the other starts."""
    shown = TOLERANCES[::4]
    rows = []
    for method in METHODS:
        for start in STARTS if method in LOOSE else STARTS[:1]:
            errors = mean_errors(results.from_start(start), method)
            named = method if start == STARTS[0] else f"{method} from {start}"
            rows.append([named, *(f"{errors[tol]:.1e}" for tol in shown)])
    return [Table("Mean relative error of the objective", ["method", *map(str, shown)], rows)]


def figure(results: Results) -> Any:
    """Krylov methods and ZeroFPR at the left, PG at the right; axes as in the paper.

    Hollow where the limit of iterations came first for some matrix.
    """
    drawing, axes = panels(2)
    for ax, methods in zip(axes, ((*KRYLOV, *ZEROFPR, "krylov"), PG), strict=True):
        for method in methods:
            errors = np.maximum(list(mean_errors(results, method).values()), 1e-17)
            (line,) = ax.loglog(TOLERANCES, errors, "o-", label=short(method))
            limited = {tol for cell in results.cells for tol in results(method, cell)["limited"]}
            at = [i for i, tol in enumerate(TOLERANCES) if tol in limited]
            hollow(ax, np.array(TOLERANCES)[at], errors[at], line.get_color())
        ax.invert_xaxis()
        ax.set(xlabel=r"$\varepsilon$", ylabel=r"$|f - f^\star| / |f^\star|$", ylim=(1e-17, 1))
        ax.set_yticks([1e-16, 1e-8, 1e-1])
        ax.legend(fontsize="small", ncols=2)
    return drawing


def extremes(results: Results, tol: float = 1e-3) -> tuple[float, float]:
    """The least and the largest error of the paper's methods."""
    found = [mean_errors(results, method)[tol] for method in METHODS if method != "krylov"]
    return min(found), max(found)


def loosest(results: Results) -> tuple[int, int]:
    """Tolerances where each of PG and ZeroFPR on (n), (o) errs more than all others; of how many.

    Those where some error is above 1e-13, ten times what rounding leaves.
    """
    errors = {method: mean_errors(results, method) for method in METHODS}
    seen = [t for t in TOLERANCES if max(errors[m][t] for m in LOOSE) > 1e-13]
    worse = (min(errors[m][t] for m in LOOSE) > max(errors[m][t] for m in TIGHT) for t in seen)
    return sum(worse), len(seen)
