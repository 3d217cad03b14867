"""Table 1: PG, ZeroFPR, Algorithms 1 to 4 and the Krylov methods on Gaussian matrices."""

from .claims import above, check, faster, prefers, several, spread, values
from .data import gaussian
from .engine import Claim, read_published
from .facts import compared, over_the_cap, rayleigh_ritz_of
from .timing import ABOUT, timing
from .timing_tables import OUR_DCA

PROSE = """Gaussian matrices, {s} components, tolerance 1e-3. Where the first-order methods on (n)
and (o) are fast under their own test, max|W - prox|/gamma, it lets them stop early: the third
table says what is then missing, the fourth how long the rest takes. The published times of
Algorithms 1 and 2 grow with d^2 and N^2, so that the paper seems to form X^T X and K; so do ours.
Their test is not given; ours is that of Table 9, the relative error of the objective."""

SHAPES = ((4000, 2000), (2000, 4000), (4500, 4500))
ZEROFPR, PG = (tuple(f"{name} ({x})" for x in "lnoq") for name in ("ZeroFPR", "PG"))
FIRST_ORDER = (*ZEROFPR, *PG)
DCA = tuple(f"Algorithm {i}" for i in range(1, 5))
KRYLOV = ("svds", "KrylovKit")
NEW = ("ZeroFPR (n)", "ZeroFPR (o)", "PG (n)", "PG (o)")
CLASSICAL = ("ZeroFPR (l)", "PG (l)", "ZeroFPR (q)", "PG (q)")
PAIRS = (("ZeroFPR (n)", "ZeroFPR (o)"), ("PG (n)", "PG (o)"), DCA[:2], DCA[2:])


EXPERIMENT = timing(
    name="table-comp",
    title="Table 1: formulations and solvers",
    label="tab:comp",
    published="table_comp.csv",
    cells=[{"N": N, "d": d, "s": 20, "tol": 1e-3} for N, d in SHAPES],
    quick=[{"N": N // 10, "d": d // 10, "s": 5, "tol": 1e-3} for N, d in SHAPES],
    methods=(*FIRST_ORDER, *DCA, *KRYLOV, OUR_DCA),
    matrix=gaussian,
    about=rayleigh_ritz_of,
    prose=PROSE,
    facts=lambda r: {"s": r.cells[0]["s"]},
    claims=[
        Claim(1, "new algorithms are compared with state-of-the-art methods", 105, compared(DCA, KRYLOV)),
        Claim(2, "simple gradient methods are compared with existing solvers", 119,
              compared(FIRST_ORDER, KRYLOV)),
        Claim(3, "for the correct formulation, first-order methods can outperform state-of-the-art "
              "solvers, depending on the accuracy: here at 1e-3", 676, faster(NEW, KRYLOV, best=True)),
        Claim(4, "the eigenbasis can be recovered in a postprocessing step", 673,
              check(lambda r: max(values(r, ABOUT, "vector_error")) < 1e-6,
                    lambda r: f"vectors to {max(values(r, ABOUT, 'vector_error')):.0e}, in "
                    f"{max(values(r, ABOUT, 'ritz_passes')):.1f} passes")),
        Claim(6, "performance varies depending on the formulation (a factor above 2)", 665,
              several(("ZeroFPR", spread(ZEROFPR, above(2))), ("PG", spread(PG, above(2))))),
        Claim(7, "state-of-the-art performance with (n) and (o): each below svds and KrylovKit", 665,
              faster(NEW, KRYLOV)),
        Claim(8, "depending on the shape, the primal or the dual is preferred", 665,
              several(*((f"{a} / {b}", prefers(a, b)) for a, b in PAIRS))),
        Claim(9, "for classical variance-based formulations these first-order methods do not perform "
              "well: (l) and (q) above svds", 665, faster(("svds",), CLASSICAL)),
        Claim(10, "timings longer than 5 s are not displayed", 562,
              over_the_cap(read_published("table_comp.csv"))),
    ],
)  # fmt: skip
