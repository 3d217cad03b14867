"""Results told: Markdown, CSV, JSON and figures of one experiment, and the page of all of them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .answer import answer
from .claims import VERDICTS, Judgement, judge
from .engine import CAP, Experiment, Results, Table

#: Tables of more rows are folded behind their titles.
LONG = 6

INTRODUCTION = """# The paper, reproduced

*Rethinking PCA Through Duality* (Quan, Suykens, Patrinos, NeurIPS 2025): every table and figure of
its experiments and the claims of its theory, published numbers beside ours.

**The short answer.** {answer}

Written by `dualpca reproduce all --docs` (or `make reproduce ARGS=--docs`), which puts in every number
and verdict and keeps the raw results in `experiments/raw.jsonl.gz`; `dualpca reproduce all --from-raw`
writes the page again from these, without a run. Line numbers are those of the paper's source.

Absolute times differ by machine and language (theirs: Julia on an AMD Ryzen 7 Pro 5850U), so ratios
to svds, orderings and products with the data are compared. The paper's protocol is its tolerance
with each method's own stopping test, the mean (deviation) over up to {repeats} random starts after
a warm-up, "/" over {cap:g} s. These tests differ by orders of magnitude in the accuracy at which they
stop, so that every timing has a second column at equal accuracy: the time until a given share of the
captured variance of the best s components is missing, `1 - ||XW||^2 / sum sigma_i^2` with W
orthonormal (H on X^T for the duals), read along one run of at most {cap:g} s with the clock stopped
while it is judged. ARPACK and ours have no iterates to look at; they turn their tolerance instead, and
the fastest run that meets the target counts.

Choices where the paper leaves one open: no centring; PG and ZeroFPR with the first step, the line
search and the stopping test of ProximalAlgorithms.jl 0.7; Algorithms 1 to 4 and the kernelised
iterations are given X, so that forming X^T X or K is in their time, and Algorithms 1 to 4, for
which no test is given, stop as the iterations do, at a relative error of their objective; "svds"
is ARPACK with the tolerance as Arpack.jl passes it on; "KrylovKit" is our transcription of its
Golub-Kahan-Lanczos method (Krylov dimension 30, thick restart, absolute residual). Products are
readings of the data or of the matrix formed from it; in parentheses the columns that were
multiplied. "DCA (l), ours", "krylov" and "auto" are this library's.

**The start** is another such choice. All methods start from random numbers; here W is orthonormal. The
first step of PG and ZeroFPR on (n) and (o), and with it their stopping test, depends on the size of W:
the gradient has the same size everywhere, so that a larger W makes the estimate of its change smaller,
the step longer and the test easier. They run from two other starts as well, `randn(d, s)` with N(0,1)
and `rand(d, s)` with uniform entries, until their own test has passed and 1e-2 of the captured variance
is missing; times to 1e-4 and 1e-8 are then those of the orthonormal start, unless they were met on the
way. Their time is that from the orthonormal start in proportion to the products with the data, so that
nothing but the start differs. Every claim is judged from each start; where the verdicts differ, it
depends on the start. On (l) and (q) the gradient grows with W, so that the first step does not.

"In print" says whether a claim holds on the published numbers, by the same check; it is empty where
these are not enough for it. A claim is confirmed in part where it holds in one of two settings that the
paper leaves open, and undecided where no run ended in time.

A claim about times is confirmed where it holds under the protocol and at all three accuracies, and
confirmed only under its stopping test where it does not hold at some of these. Its numbers are
ratios, above 1 where it holds unless it says otherwise, cell by cell in the order of the tables:
under "its test", and until 1e-2, 1e-4 and 1e-8 of the captured variance are missing. "∞" is a ratio
whose slower side did not end in time, 0 one whose faster side did not, "-" one where neither did,
which counts neither way.
"""


def write(results: Results, folder: Path) -> Path:
    """report.md, a CSV for each table, results.json and figure.png in the experiment's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, table in enumerate(results.experiment.tables(results), start=1):
        with (folder / f"table-{i}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([table.header, *table.rows])
    claims = [
        {"claim": j.claim.number, "verdict": j.verdict, "in print": j.in_print, "number": j.number}
        for j in judgements(results)
    ]
    told = {"experiment": results.experiment.name, "quick": results.quick, "claims": claims}
    told["records"] = results.declared
    (folder / "results.json").write_text(json.dumps(told, indent=1))
    picture = draw(results, folder / "figure.png")
    path = folder / "report.md"
    path.write_text(section(results, picture.name if picture else None))
    return path


def draw(results: Results, path: Path) -> Path | None:
    """The figure, where the experiment has one."""
    if results.experiment.figure is None:
        return None
    results.experiment.figure(results).savefig(path, dpi=120, bbox_inches="tight")
    return path


def judgements(results: Results) -> list[Judgement]:
    """Each claim with its verdict and number."""
    return [judge(claim, results) for claim in results.experiment.claims]


def section(results: Results, picture: str | None) -> str:
    """One experiment: what it is, the paragraph, the tables, the figure, the claims."""
    experiment = results.experiment
    parts = [
        f"## {experiment.title}",
        f"`dualpca reproduce {experiment.name}`, the paper's `{experiment.label}`; "
        f"{results.seconds / 60:.1f} minutes.",
    ]
    if results.quick:
        parts.append(
            f"A reduced run: smaller sizes, at most {results.cap:g} s a run, digits in the place of "
            f"MNIST and GloVe. The published numbers are those of the full sizes and {CAP:g} s."
        )
    parts.append(experiment.prose.format(**experiment.facts(results)))
    parts += [remark] if (remark := experiment.remark(results)) else []
    if picture:
        parts.append(f"![{experiment.title}]({picture})")
    parts += [folded(table) for table in experiment.tables(results)]
    rows = [
        [
            str(j.claim.number),
            f"{j.claim.text} ({j.claim.line})",
            j.verdict,
            _IN_PRINT[j.in_print],
            j.number.replace("|", "/"),
        ]
        for j in judgements(results)
    ]
    if rows:
        header = ["", "claim (line)", "verdict", "in print", "number"]
        parts.append(Table("Claims", header, rows).markdown())
    return "\n\n".join(parts) + "\n"


def folded(table: Table) -> str:
    """A long table behind its title."""
    if len(table.rows) <= LONG:
        return table.markdown()
    title, _, body = table.markdown().partition("\n\n")
    return f"<details><summary>{title.strip('*')}</summary>\n\n{body}\n\n</details>"


Experiments = Sequence[tuple[Experiment, Results | None]]


def page(experiments: Experiments, docs: Path, repeats: int) -> Path:
    """docs/reproduction.md, with its figures beside it."""
    docs.mkdir(parents=True, exist_ok=True)
    for _, results in experiments:
        if results is not None:
            draw(results, docs / _picture(results))
    path = docs / "reproduction.md"
    path.write_text(told(experiments, repeats))
    return path


def told(experiments: Experiments, repeats: int) -> str:
    """The page, without its figures; says which experiments have not been run."""
    there = [results for _, results in experiments if results is not None]
    judged = [(results, judgements(results)) for results in there]
    parts = [INTRODUCTION.format(answer=answer(judged), repeats=repeats, cap=CAP)]
    names = [f"[{r.experiment.title}](#{_anchor(r.experiment.title)})" for r in there]
    summaries = [[name, *r.experiment.summary(r)] for name, r in zip(names, there, strict=True)]
    header = ["experiment", "published", "ours", "why they differ"]
    parts.append(Table("Published and ours", header, summaries).markdown())
    rows = [
        [name, *_counts(found), _minutes([results])]
        for name, (results, found) in zip(names, judged, strict=True)
    ]
    rows.append(["all", *_counts([j for _, found in judged for j in found]), _minutes(there)])
    header = ["experiment", *VERDICTS, "do not hold in print", "minutes"]
    parts.append(Table("Claims and minutes", header, rows).markdown())
    missing = [experiment.name for experiment, results in experiments if results is None]
    if missing:
        parts.append(f"Not run (no complete results, or no data): {', '.join(missing)}.")
    machines = {record["machine"] for results in there for record in results.declared}
    if machines:
        parts.append("Run on " + "; ".join(sorted(machines)) + ".")
    for results in there:
        drawn = results.experiment.figure is not None
        parts.append(section(results, _picture(results) if drawn else None))
    return "\n\n".join(part.strip() for part in parts) + "\n"


_IN_PRINT = {True: "yes", False: "no", None: ""}


def _picture(results: Results) -> str:
    return f"reproduction-{results.experiment.name}.png"


def _counts(found: Sequence[Judgement]) -> list[str]:
    """How often each verdict was given, and how many do not hold in print."""
    count = Counter(judgement.verdict for judgement in found)
    failing = sum(judgement.in_print is False for judgement in found)
    return [*(str(count[kind]) for kind in VERDICTS), str(failing)]


def _minutes(there: Sequence[Results]) -> str:
    return f"{sum(results.seconds for results in there) / 60:.1f}"


def _anchor(title: str) -> str:
    """As GitHub makes anchors of headings."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")
