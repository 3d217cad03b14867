"""The application: its commands, and examples of their use."""

import sys
from typing import Annotated, Any

import typer

from .. import __version__
from .commands import fit, inspect, report
from .demo import demo
from .follow import follow
from .monitor import monitor
from .reproduce import reproduce
from .row_commands import outliers, transform

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Principal component analysis of a file: plain, robust to bad rows, kernel, sparse.",
    epilog="Exit codes: 0 done, 2 wrong options, 3 unusable data, 4 unusable model, 5 output not"
    " written, 6 done but short of --tol, 1 a bug, 130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"dualpca {__version__}\n")
        raise typer.Exit


@app.callback()
def dualpca(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere in the line.")
    ] = False,
) -> None:
    """Options of all commands."""


EXAMPLES: dict[Any, tuple[str, ...]] = {
    fit: (
        "dualpca fit measurements.csv",
        "dualpca fit measurements.csv -m plain -n 0.9 --scale standard -o plain.dualpca",
        "dualpca fit cells.h5ad -m plain -n 50 --scores scores.parquet",
        "dualpca fit table.csv --id name --drop comment --missing impute",
        "zcat big.csv.gz | dualpca fit - -o big.dualpca --json",
    ),
    transform: (
        "dualpca transform iris.dualpca new.csv -o scores.csv",
        "dualpca transform iris.dualpca new.csv --distances | head",
        "dualpca transform cells.dualpca more.h5ad -o scores.npy",
    ),
    outliers: (
        "dualpca outliers measurements.csv",
        "dualpca outliers measurements.dualpca new.csv",
        "dualpca outliers measurements.csv --all -o distances.parquet",
    ),
    monitor: (
        "dualpca monitor process.dualpca today.csv",
        "dualpca monitor process.dualpca march.csv --time date --draw march.png",
        "dualpca monitor process.dualpca today.csv --json",
    ),
    follow: (
        "sensor | dualpca follow --model sensor.dualpca --forget 10000",
        "dualpca follow log.csv --model sensor.dualpca --format jsonl > scores.jsonl",
        "dualpca follow log.csv --until-end --flagged",
    ),
    report: (
        "dualpca report measurements.csv",
        "dualpca report measurements.dualpca measurements.csv -o report.html",
        "dualpca report digits.npy -n 10 --image 8x8",
    ),
    inspect: (
        "dualpca inspect iris.dualpca",
        "dualpca inspect iris.dualpca --loadings loadings.csv",
        "dualpca inspect iris.dualpca --json",
    ),
    demo: ("dualpca demo", "dualpca demo -o results --force"),
    reproduce: ("dualpca reproduce table-comp", "dualpca reproduce all --quick"),
}

for command, examples in EXAMPLES.items():
    lines = (f"[cyan]{line}[/cyan]" for line in examples)
    app.command(epilog="\n\n".join(["Examples:", *lines]))(command)
