"""Figure 3, left: time over the number of components."""

from .claims import faster
from .data import gaussian
from .engine import Claim
from .figures import scaling
from .timing import timing

PROSE = """Square Gaussian matrices, tolerance 1e-3. The data behind the figure and its values of
s are not in the paper's source; ours are {sizes}, and only the shape can be compared."""

METHODS = ("ZeroFPR (n)", "PG (n)", "svds")


EXPERIMENT = timing(
    name="fig-scaling-s",
    title="Figure 3, left: the number of components",
    label="fig:scaling_comp",
    cells=[{"N": 2000, "d": 2000, "s": s, "tol": 1e-3} for s in (10, 20, 40, 80)],
    quick=[{"N": 300, "d": 300, "s": s, "tol": 1e-3} for s in (3, 6, 12, 20)],
    methods=METHODS,
    matrix=gaussian,
    figure=scaling("s"),
    prose=PROSE,
    facts=lambda r: {"sizes": ", ".join(str(cell["s"]) for cell in r.cells)},
    claims=[
        Claim(
            11,
            "the first-order methods consistently outperform the classical methods for varying s",
            667,
            faster(METHODS[:2], ("svds",)),
        ),
    ],
)
