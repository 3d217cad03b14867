"""Table 7: MNIST."""

from .claims import faster, several
from .data import mnist
from .engine import Claim
from .facts import passes
from .timing import timing

PROSE = """The 60000 training pictures, pixels in [0, 1], not centred: the paper gives neither scale nor
centring, and the first-order test depends on the scale. Of {all} timings of PG and ZeroFPR on (n)
{orthonormal} pass it within {cap:g} s from an orthonormal start, {randn} from randn and {rand} from
rand, the last with {products} products with the data for s = {s}; the published times leave room for
a few. svds multiplies one vector at a time, which a matrix this tall makes a matter of memory; for so few
columns the Gram matrix is a short way, which `auto` may take."""

METHODS = ("ZeroFPR (n)", "PG (n)", "svds")


EXPERIMENT = timing(
    name="table-mnist",
    title="Table 7: MNIST",
    label="tab:mnist_pca",
    published="table_mnist.csv",
    cells=[{"N": 60000, "d": 784, "s": s, "tol": 1e-3} for s in (30, 50, 100, 150)],
    quick=[{"N": 1500, "d": 64, "s": s, "tol": 1e-3} for s in (3, 5, 10, 15)],
    methods=METHODS,
    matrix=mnist,
    prose=PROSE,
    facts=passes(METHODS[:2]),
    claims=[
        Claim(
            22,
            "the generic first-order methods are faster than the classical eigensolvers (svds)",
            1262,
            faster(METHODS[:2], ("svds",)),
        ),
        Claim(
            23,
            "the same behaviour as in the synthetic experiments: PG (n), ZeroFPR (n), svds in order",
            1262,
            several(
                ("ZeroFPR (n) / PG (n)", faster(("PG (n)",), ("ZeroFPR (n)",))),
                ("svds / ZeroFPR (n)", faster(("ZeroFPR (n)",), ("svds",))),
            ),
        ),
    ],
)
