"""The problems of Table 12: a low-rank matrix plus sparse signs, on single entries or on full rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dualpca import PrincipalComponentPursuit, RobustPCA

from .claims import Check, verdict
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
    off the span of the leading right singular vectors of L, a cost of Proposition 4.1 for both.
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
    """Whether a method has less, with the paper's factors; numbers of both, with either factors."""

    def run(results: Results) -> tuple[str, str]:
        cells = [cell for cell in results.cells if cell["support"] in supports]
        found = [(cell, *(results(m, cell)[key] for m in (PCP, ALGORITHM))) for cell in cells]
        holds = ((a < b) == (better == PCP) for c, a, b in found if c["factors"] == FACTORS[0])
        told = (f"{c['factors']}, {c['support']}: {a:.3g} and {b:.3g}" for c, a, b in found)
        return verdict(all(holds)), "; ".join(told)

    return run


def out_of_sample(method: str, holds: bool) -> Check:
    """Whether rows left out of a fit are found again, to 0.1, as the claim ``holds`` or denies."""

    def run(results: Results) -> tuple[str, str]:
        error = results(method, results.cells[0])["left_out"]
        return verdict((error < 0.1) == holds), f"error {error:.2g} on rows left out of the fit"

    return run


def summary(results: Results) -> tuple[str, str, str]:
    """Errors of L, PCP and Algorithm 5, for both supports."""
    cells = results.cells[: len(SUPPORTS)]
    theirs, ours = [], []
    for cell in cells:
        printed = [results.published(m, cell, quantity="error") for m in (PCP, ALGORITHM)]
        theirs.append(f"{cell['support']} " + " / ".join(p[0] if p else "" for p in printed))
        errors = [results(m, cell)["error"] for m in (PCP, ALGORITHM)]
        ours.append(f"{cell['support']} " + " / ".join(f"{error:.2g}" for error in errors))
    why = "random problems, and a PCP solved further on full rows, which are not its problem"
    return "; ".join(theirs), "; ".join(ours), why


def facts(results: Results) -> dict[str, Any]:
    """Problems, the share of bad entries, and ||E|| / ||L*|| with unit factors, in expectation."""
    cell = results.cells[0]
    share = (cell["entries"] / cell["rank"]) ** 0.5 / cell["n"]
    counts = {"problems": cell["problems"], "more": results.cells[-1]["problems"]}
    return counts | {"share": share, "bad": cell["entries"] / cell["n"] ** 2}
