"""Table 12: principal component pursuit and Algorithm 5."""

from . import pursuit_problems as pursuit
from .claims import several
from .engine import Claim, Experiment
from .pursuit_problems import ALGORITHM, FACTORS, PCP, SUPPORTS, less

PROSE = """Two methods for two problems. PCP solves `minimize ||L||_* + lambda ||E||_1` with
`L + E = M`: any rank, and few bad entries anywhere. Robust PCA (Proposition 4.1) solves
`minimize sum_i ||M_i - W W^T M_i||` over orthonormal W of given rank: few bad rows. Each is given
the other's data once: single bad entries, {bad:.0%} of all, leave no row good for Algorithm 5, and
full bad rows are no sparse support for PCP.

The scale of L* decides how much the bad entries, which are signs, weigh, and the paper does not
give it. Its numbers come out with factors N(0,1), where E is small against L* (doing nothing about
it is an error of {share:.1%}). With factors N(0,1/n) E is larger than L*: PCP still recovers
single entries, and the optimum of Algorithm 5 is to fit the bad rows, which is right for its
problem and useless for L*. Means over {problems} problems, {more} with the second factors. A cost of
Proposition 4.1 needs a subspace, so the last but one column takes the row space of L for both."""


def cells(*problems, **size):
    """As many problems for each kind of factors."""
    pairs = list(zip(FACTORS, problems, strict=True))
    return [{"support": s, "factors": f, "problems": n, **size} for f, n in pairs for s in SUPPORTS]


EXPERIMENT = Experiment(
    name="table-pcp",
    title="Table 12: principal component pursuit",
    label="tab:comp_candes",
    published="table_pcp.csv",
    cells=cells(20, 5, n=500, rank=25, entries=12500),
    quick=cells(1, 1, n=100, rank=5, entries=500),
    methods=(PCP, ALGORITHM),
    prepare=pursuit.problems,
    measure=pursuit.compare,
    tables=pursuit.tables,
    prose=PROSE,
    facts=pursuit.facts,
    summary=pursuit.summary,
    remark=pursuit.remark,
    version=3,
    claims=[
        Claim(40, "PCP is better in the setting where it was proposed (error of PCP and of "
              "Algorithm 5)", 1424, less(PCP, "error", ["uniform"])),
        Claim(41, "Algorithm 5 is better in the outlier setting", 1424,
              less(ALGORITHM, "error", ["rows"])),
        Claim(42, "the primal cost is lower for Algorithm 5 in both cases", 1424,
              several(("row space of L", less(ALGORITHM, "row_space", SUPPORTS)),
                      ("M - L", less(ALGORITHM, "cost", SUPPORTS)))),
        Claim(43, "PCP is not out-of-sample applicable while Algorithm 5 is (Algorithm 5 below 0.1)",
              1417, pursuit.out_of_sample),
    ],
)  # fmt: skip
