"""The problems of Table 12: a low-rank matrix plus sparse signs, on single entries or on full rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dualpca import PrincipalComponentPursuit, RobustPCA

from .claims import CONFIRMED, NOT, PART, Check, verdict
from .engine import Cell, Context, Results, Table
from .robust_catalogue import ALGORITHM_5

PCP = "PCP"
ALGORITHM = "Algorithm 5"

#: The paper's numbers come out with the first.
FACTORS = ("N(0,1)", "N(0,1/n)")
SUPPORTS = ("uniform", "rows")

QUANTITIES = {"error": "relative error of L", "cost": "sum of row norms of M - L"}
EXTRA = {"row_space": "cost of the row space of L", "rank": "rank of L"}


def problem(cell: Cell, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """``L*``, a product of two Gaussian factors, and ``L* + E``, E of signs on its support."""
    rng = np.random.default_rng(seed)
    n, rank = cell["n"], cell["rank"]
    scale = 1.0 if cell["factors"] == FACTORS[0] else n**-0.5
    low = scale**2 * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n))
    E = np.zeros((n, n))
    if cell["support"] == "rows":
        rows = rng.choice(n, cell["entries"] // n, replace=False)
        E[rows] = rng.choice([-1.0, 1.0], (len(rows), n))
    else:
        places = rng.choice(n * n, cell["entries"], replace=False)
        E.flat[places] = rng.choice([-1.0, 1.0], len(places))
    return low, low + E


def problems(cell: Cell, context: Context) -> list[tuple[np.ndarray, np.ndarray]]:
    """As many as the cell says."""
    return [problem(cell, seed) for seed in range(cell["problems"])]


def fitted(method: str, M: np.ndarray, rank: int) -> Any:
    """The model that a method makes of M."""
    if method == ALGORITHM:
        return RobustPCA(rank, random_state=0, tol=1e-8, **ALGORITHM_5).fit(M)
    with warnings.catch_warnings():  # on full rows, not its problem, it may not converge
        warnings.simplefilter("ignore", ConvergenceWarning)
        return PrincipalComponentPursuit(random_state=0).fit(M)


def low_rank(method: str, M: np.ndarray, rank: int) -> np.ndarray:
    """The low-rank part that a method finds: ``M W W^T`` for Algorithm 5."""
    model = fitted(method, M, rank)
    if method == PCP:
        return model.low_rank_
    W = model.components_.T
    return M @ W @ W.T


def left_out(method: str, low: np.ndarray, M: np.ndarray, rank: int) -> float:
    """The relative error of L on every other row, after a fit to the rest."""
    model = fitted(method, M[1::2], rank)
    again = model.inverse_transform(model.transform(M[::2]))
    return float(np.linalg.norm(again - low[::2]) / np.linalg.norm(low[::2]))


def compare(
    found: list[tuple[np.ndarray, np.ndarray]], cell: Cell, method: str, context: Context
) -> dict[str, Any]:
    """Means over the problems: relative error of L, and two readings of the paper's primal cost.

    ``cost`` is the sum of the row norms of ``M - L``; ``row_space`` is that of the rows of M projected
    off the span of the leading right singular vectors of L, a cost of Proposition 4.1 for both. Two
    bounds go with them: the error of ``L = M``, and the cost of ``L = L*``.
    """
    errors, costs, spaces, ranks = [], [], [], []
    for low, M in found:
        L = low_rank(method, M, cell["rank"])
        sigma, Vt = np.linalg.svd(L)[1:]
        W = Vt[: cell["rank"]].T
        errors.append(np.linalg.norm(L - low) / np.linalg.norm(low))
        costs.append(np.sum(np.linalg.norm(M - L, axis=1)))
        spaces.append(np.sum(np.linalg.norm(M - M @ W @ W.T, axis=1)))
        ranks.append(np.sum(sigma > 1e-6 * sigma[0]))
    named = {"error": errors, "cost": costs, "row_space": spaces, "rank": ranks}
    named["error_of_M"] = [np.linalg.norm(M - low) / np.linalg.norm(low) for low, M in found]
    named["cost_of_truth"] = [np.sum(np.linalg.norm(M - low, axis=1)) for low, M in found]
    means = {name: float(np.mean(values)) for name, values in named.items()}
    return means | {"left_out": left_out(method, *found[0], cell["rank"])}


def tables(results: Results) -> list[Table]:
    """A row for each problem and method; published numbers beside the factors that give them."""
    header = ["factors", "support", "method"]
    header += [f"{name}: {kind}" for name in QUANTITIES.values() for kind in ("published", "ours")]
    rows = []
    for cell in results.cells:
        for method in (PCP, ALGORITHM):
            found, row = results(method, cell), [cell["factors"], cell["support"], method]
            for key in QUANTITIES:
                printed = results.published(method, cell, quantity=key)
                shown = printed if cell["factors"] == FACTORS[0] else None
                row += [shown[0] if shown else "", f"{found[key]:.4g}"]
            rows.append(row + [f"{found[key]:.4g}" for key in EXTRA])
    return [Table("Means over the problems", [*header, *EXTRA.values()], rows)]


def less(better: str, key: str, supports: Sequence[str]) -> Check:
    """Whether a method has less, with either factors, or with one of them only; numbers of both."""

    def run(results: Results) -> tuple[str, str]:
        cells = [cell for cell in results.cells if cell["support"] in supports]
        found = [(cell, *(results(m, cell)[key] for m in (PCP, ALGORITHM))) for cell in cells]
        holds = dict.fromkeys(FACTORS, True)
        for cell, a, b in found:
            holds[cell["factors"]] &= (a < b) == (better == PCP)
        told = "; ".join(
            f"{c['factors']}, {c['support']}: {a:.3g} and {b:.3g}" for c, a, b in found
        )
        if len(set(holds.values())) == 1:
            return verdict(all(holds.values())), told
        only = next(factors for factors in FACTORS if holds[factors])
        return PART, f"holds for factors {only} only; {told}"

    return run


def out_of_sample(results: Results) -> tuple[str, str]:
    """Whether Algorithm 5 finds rows again, to 0.1, that it was not fitted to.

    Candes' PCP has no map for new rows, which no run can show; the number of our extension is told.
    """
    ours, extended = (results(m, results.cells[0])["left_out"] for m in (ALGORITHM, PCP))
    told = (
        f"error {ours:.2g} of Algorithm 5 on rows left out of the fit; PCP itself has no map for them "
        f"(an extension of this library, an l1 fit on the row space of L, errs by {extended:.1g})"
    )
    return (CONFIRMED if ours < 0.1 else NOT), told


def summary(results: Results) -> tuple[str, str, str]:
    """Errors of L, PCP and Algorithm 5, for both supports."""
    cells = results.cells[: len(SUPPORTS)]
    theirs, ours = [], []
    for cell in cells:
        printed = [results.published(m, cell, quantity="error") for m in (PCP, ALGORITHM)]
        theirs.append(f"{cell['support']} " + " / ".join(p[0] if p else "" for p in printed))
        errors = [results(m, cell)["error"] for m in (PCP, ALGORITHM)]
        ours.append(f"{cell['support']} " + " / ".join(f"{error:.2g}" for error in errors))
    why = "random problems; the published pair of PCP on full rows cannot come from one L"
    return "; ".join(theirs), "; ".join(ours), why if two_matrices(results) else "random problems"


def two_matrices(results: Results) -> bool:
    """Whether PCP's published error on full rows is that of L = M, and its cost that of L = L*.

    To the digits printed. One L cannot be both: the cost of L = M is 0, and so is the error of L*.
    """
    cell = next(cell for cell in results.cells if cell["support"] == "rows")
    found, pairs = results(PCP, cell), (("error", "error_of_M"), ("cost", "cost_of_truth"))
    for key, bound in pairs:
        value, _ = results.published(PCP, cell, quantity=key) or ("nan", "")
        digits = len(value.partition(".")[2])
        if not abs(found[bound] - float(value)) <= 0.5 * 10.0**-digits:
            return False
    return True


def remark(results: Results) -> str:
    """What the published numbers of PCP on full rows are."""
    if not two_matrices(results):
        return ""
    cell = next(cell for cell in results.cells if cell["support"] == "rows")
    found = results(PCP, cell)
    error, cost = (results.published(PCP, cell, quantity=key) for key in ("error", "cost"))
    assert error
    assert cost
    return (
        f"The published row of PCP on full rows, {error[0]} and {cost[0]}, cannot come from one L: "
        f"{found['error_of_M']:.3f} is ||E|| / ||L*||, the error of L = M, whose cost is 0, and "
        f"{found['cost_of_truth']:.0f} is the sum of the row norms of E, the cost of L = L*, whose error "
        f"is 0. PCP's own L has an error of {found['error']:.2g} and a cost of {found['cost']:.0f} here."
    )


def facts(results: Results) -> dict[str, Any]:
    """Problems, the share of bad entries, and ||E|| / ||L*|| with unit factors."""
    cell = results.cells[0]
    share = results(PCP, cell)["error_of_M"]
    counts = {"problems": cell["problems"], "more": results.cells[-1]["problems"]}
    return counts | {"share": share, "bad": cell["entries"] / cell["n"] ** 2}
