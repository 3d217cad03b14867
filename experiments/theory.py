"""The theorems, each as a computation."""

from .engine import Claim, Experiment
from .theory_checks import CHECKS, STEPS, measure, problem, summary, tables, to_rounding

PROSE = """The paper's theorems on {count} random matrices of {N} x {d} with singular values that fall by
a fifth each, {s} components: the formulas of the paper written out with NumPy beside the library's
functions, solutions by {steps} steps of DCA from random starts. An error is relative to the optimum,
or the sine of an angle between subspaces."""

EXPERIMENT = Experiment(
    name="theory",
    title="Theory: duality, kernels, new rows, steps",
    label="thm:pca_dual_pairs",
    cells=[{"N": 60, "d": 40, "s": 5, "problem": i} for i in range(20)],
    quick=[{"N": 30, "d": 20, "s": 3, "problem": i} for i in range(2)],
    methods=tuple(CHECKS),
    prepare=problem,
    measure=measure,
    tables=tables,
    prose=PROSE,
    facts=lambda r: {"count": len(r.cells), "steps": STEPS, **r.cells[0]},
    summary=summary,
    claims=[
        Claim(44, "strong duality: the pairs (l)-(m), (n)-(o), (p)-(q) and the Hoelder pair have equal "
              "optima, and solutions map to solutions", 299, to_rounding("duality")),
        Claim(45, "(l) and (n) share their minimisers, as do (o) and (q)", 301,
              to_rounding("shared minimisers")),
        Claim(46, "kernelisation: the duals of unitarily invariant G need K alone", 383,
              to_rounding("kernelisation")),
        Claim(47, "out of sample: new rows are mapped from K and X x alone (Theorem 3.8)", 399,
              to_rounding("out of sample")),
        Claim(48, "Algorithms 1 and 2 are simultaneous iteration, up to rotation (Theorem 3.11)", 457,
              to_rounding("simultaneous iteration")),
        Claim(49, "proximal gradient on (l) is simultaneous iteration on a shifted matrix", 462,
              to_rounding("shifted matrix")),
        Claim(50, "arbitrarily large steps on (n) and (o): the objective falls, to the optimum", 663,
              to_rounding("large steps")),
    ],
)  # fmt: skip
