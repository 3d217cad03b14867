"""Figure 3, right: time over the number of columns."""

from .claims import CONFIRMED, NOT, ONLY
from .data import gaussian
from .engine import Claim
from .figures import scaling
from .timing import timing
from .timing_tables import PAPER, WHERE, seconds

PROSE = """{N} rows, {s} components, tolerance 1e-3. The data behind the figure and its values of
d are not in the paper's source; only the shape can be compared."""

METHODS = ("ZeroFPR (n)", "PG (n)", "svds")


def first_size(results, at):
    """The least d from which on ZeroFPR (n) and PG (n) are below svds, None where there is none."""
    best = None
    for cell in reversed(results.cells):
        *first_order, svds = (seconds(results, method, cell, at) for method in METHODS)
        if max(first_order) >= svds:
            break
        best = cell["d"]
    return best


def large_enough(results):
    """They win from some d on: under their test, and at each accuracy."""
    found = {at: first_size(results, at) for at in WHERE}
    told = ", ".join(
        f"{'its test' if at == PAPER else format(float(at), '.0e')}: {d or 'none'}"
        for at, d in found.items()
    )
    if found[PAPER] is None:
        return NOT, f"faster from d on: {told}"
    return (CONFIRMED if all(found.values()) else ONLY), f"faster from d on: {told}"


EXPERIMENT = timing(
    name="fig-scaling-d",
    title="Figure 3, right: the number of columns",
    label="fig:scaling_comp",
    cells=[{"N": 2000, "d": d, "s": 30, "tol": 1e-3} for d in (250, 500, 1000, 2000, 4000)],
    quick=[{"N": 300, "d": d, "s": 10, "tol": 1e-3} for d in (50, 150, 300, 600)],
    methods=METHODS,
    matrix=gaussian,
    figure=scaling("d"),
    prose=PROSE,
    facts=lambda r: r.cells[0],
    claims=[
        Claim(12, "provided that the dimensions are sufficiently large", 667, large_enough),
    ],
)
