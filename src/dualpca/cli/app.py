"""The commands."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import __version__
from ..io.files import check_free
from ..io.models import save
from ..io.tables.table import listed, printable
from . import show, work
from .estimator import checked
from .looking import outliers, report
from .options import (
    FitOptions,
    Force,
    Json,
    Output,
    Quiet,
    ReadOptions,
    grouped,
)
from .reproduce import reproduce
from .run import OK, SHORT, RefusedError
from .shared import fitted_data, writer_of
from .watch import watching

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


@grouped
def fit(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file, or - for standard input.")],
    read: ReadOptions,
    model: FitOptions,
    output: Output = None,
    scores: Annotated[
        Path | None, typer.Option(help="Also write the scores of the rows: csv, parquet or npy.")
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Fit a model to the rows of DATA and write it to a file.

    By default robust PCA; the model goes to the name of DATA with the ending .dualpca, here.
    """
    checked(model)
    path = output or Path(work.stem(data, "model") + work.ENDING)
    check_free(path, force)
    if scores is not None and scores.resolve() == path.resolve():
        raise RefusedError(f"{path} cannot be both the model and its scores; give two names")
    writer = None if scores is None else writer_of(scores, force)
    fitted, table = fitted_data(data, read, model, quiet or json)
    if writer is not None:
        with watching(quiet or json), writer:
            work.write_scores(writer, fitted, table, Path(scores or ""), fitted.flags)
    save(fitted.model, path, notes=fitted.notes, overwrite=force)
    if json:
        show.as_json({**show.facts(fitted), "model": str(path), "scores": scores})
    else:
        sys.stdout.write(show.summary(fitted))
        if fitted.flags and not quiet and data != "-" and np.any(fitted.estimator.outliers_):
            words = f"{shlex.quote(str(path))} {work.again(data, read)}"
            sys.stdout.write(f"list them with: dualpca outliers {printable(words)}\n")
        sys.stdout.write(f"model: {printable(str(path))}\n")
        if scores is not None:
            sys.stdout.write(f"scores: {printable(str(scores))}\n")
    return SHORT if fitted.short else OK


@grouped
def transform(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="What `dualpca fit` wrote.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file, or - for standard input.")],
    read: ReadOptions,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="csv, tsv, parquet, npy, or - for CSV to a pipe.")
    ] = Path("-"),
    distances: Annotated[
        bool, typer.Option("--distances", help="Robust models: distances and flags as well.")
    ] = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Scores of rows, new ones or those of the fit; columns are found by their names."""
    if json and str(output) == "-":
        raise RefusedError("--json tells of a file that was written; give -o FILE with it")
    writer = writer_of(output, force)
    fitted = work.open_model(model)
    if distances and not fitted.flags:
        raise RefusedError(
            f"{type(fitted.estimator).__name__} has no distances; fit with --method robust"
        )
    quiet = quiet or json
    with watching(quiet) as watch:
        table = work.open_table(data, read, watch, quiet, fitted)
    # A bar and rows on the same terminal would run into each other.
    with watching(quiet or str(output) == "-"), writer:
        work.write_scores(writer, fitted, table, output, distances)
    if json:
        show.as_json({"rows": table.X.shape[0], "scores": output, "dropped_rows": table.n_dropped})
    elif str(output) != "-" and not quiet:
        sys.stdout.write(f"scores of {table.X.shape[0]:,} rows: {printable(str(output))}\n")
    return OK


def inspect(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="What `dualpca fit` wrote.")],
    json: Json = False,
) -> int:
    """What is in a model file: estimator, options, components, accuracy, columns."""
    fitted = work.open_model(model)
    estimator = fitted.estimator
    default = type(estimator)().get_params()
    options = {k: v for k, v in estimator.get_params().items() if repr(v) != repr(default[k])}
    header: dict[str, Any] = work.read_header(model)
    known = {
        "format_version": header["version"],
        "written_by": f"dualpca {printable(header['dualpca'])}",
        "options": options,
        "preprocessing": fitted.preprocessor and fitted.preprocessor.get_params(),
        "feature_names": fitted.names,
    }
    if json:
        show.as_json({**show.facts(fitted), **known})
        return OK
    sys.stdout.write(show.summary(fitted))
    told = ", ".join(f"{name}={value!r}" for name, value in options.items()) or "all defaults"
    sys.stdout.write(f"options: {printable(told)}\n")
    if known["preprocessing"]:
        words = known["preprocessing"]
        sys.stdout.write(
            f"before it: scaling {words['scaling']}, missing cells {words['missing']}\n"
        )
    if fitted.names:
        sys.stdout.write(f"columns: {printable(listed(fitted.names, 50))}\n")
    sys.stdout.write(f"file: format {header['version']}, written by {known['written_by']}\n")
    return OK


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder of the report.")
    ] = Path(),
    force: Force = False,
) -> int:
    """Handwritten digits with ruined rows: plain PCA against robust, a table and a report."""
    from .demo import demonstrate

    return demonstrate(output, force)


EXAMPLES: dict[Any, tuple[str, ...]] = {
    fit: (
        "fit measurements.csv",
        "fit measurements.csv -m plain -n 0.9 --scale standard -o plain.dualpca",
        "fit cells.h5ad -m plain -n 50 --scores scores.parquet",
        "fit table.csv --id name --drop comment --missing impute",
        "zcat big.csv.gz | dualpca fit - -o big.dualpca --json",
    ),
    transform: (
        "transform iris.dualpca new.csv -o scores.csv",
        "transform iris.dualpca new.csv --distances | head",
        "transform cells.dualpca more.h5ad -o scores.npy",
    ),
    outliers: (
        "outliers measurements.csv",
        "outliers measurements.dualpca new.csv",
        "outliers measurements.csv --all -o distances.parquet",
    ),
    report: (
        "report measurements.csv",
        "report measurements.dualpca measurements.csv -o report.html",
        "report digits.npy -n 10 --image 8x8",
    ),
    inspect: ("inspect iris.dualpca", "inspect iris.dualpca --json"),
    demo: ("demo", "demo -o results --force"),
    reproduce: ("reproduce table-comp", "reproduce all --quick"),
}

for command, examples in EXAMPLES.items():
    lines = (f"[cyan]{'' if '|' in line else 'dualpca '}{line}[/cyan]" for line in examples)
    app.command(epilog="\n\n".join(["Examples:", *lines]))(command)

__all__ = ["app"]
