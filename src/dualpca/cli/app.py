"""The commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import __version__
from .._files import check_free
from ..models import save
from ..report import write_report
from ..tables import Table, TableError, Writer
from . import show, work
from .options import (
    FitOptions,
    Force,
    Json,
    Method,
    Output,
    Quiet,
    ReadOptions,
    Source,
    grouped,
)
from .outliers import flagged_rows
from .reproduce import reproduce
from .run import OK, SHORT, RefusedError, tell
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


def _examples(*lines: str) -> str:
    return "Examples:\n\n" + "\n\n".join(f"[cyan]dualpca {line}[/cyan]" for line in lines)


@app.command(
    epilog=_examples(
        "fit measurements.csv",
        "fit measurements.csv -m plain -n 0.9 --scale standard -o plain.dualpca",
        "fit cells.h5ad -m plain -n 50 --scores scores.parquet",
        "fit table.csv --id name --drop comment --missing impute",
        "zcat big.csv.gz | dualpca fit - -o big.dualpca --json",
    )
)
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
    work.checked(model)
    path = output or Path(work.stem(data, "model") + work.ENDING)
    check_free(path, force)
    if scores is not None and scores.resolve() == path.resolve():
        raise RefusedError(f"{path} cannot be both the model and its scores; give two names")
    writer = None if scores is None else _writer(scores, force)
    fitted, table = _fitted(data, read, model, quiet or json)
    if writer is not None:
        with watching(quiet or json), writer:
            work.write_scores(writer, fitted, table, Path(scores or ""), fitted.flags)
    save(fitted.model, path, notes=fitted.notes, overwrite=force)
    if json:
        show.as_json({**show.facts(fitted), "model": str(path), "scores": scores})
    else:
        sys.stdout.write(show.summary(fitted))
        if fitted.flags and not quiet and np.any(fitted.estimator.outliers_):
            sys.stdout.write(f"list them with: dualpca outliers {path} {data}\n")
        sys.stdout.write(f"model: {path}\n")
        if scores is not None:
            sys.stdout.write(f"scores: {scores}\n")
    return SHORT if fitted.short else OK


def _writer(path: Path, force: bool) -> Writer:
    """A writer of a table, refused before any work where it cannot be."""
    try:
        return Writer(path, overwrite=force)
    except TableError as error:
        raise RefusedError(str(error)) from error


def _fitted(
    data: str, read: ReadOptions, model: FitOptions, quiet: bool
) -> tuple[work.Fitted, Table]:
    with watching(quiet) as watch:
        table = work.open_table(data, read, watch, quiet)
        return work.fit(table, read, model, data), table


def _either(
    source: str, data: str | None, read: ReadOptions, model: FitOptions, quiet: bool
) -> tuple[work.Fitted, Table | None]:
    """A model and rows: both given, or a model alone, or data that is fitted."""
    work.checked(model)
    if not work.is_model(source):
        if source.endswith(work.ENDING) or data is not None:
            work.open_model(source)  # says what is wrong with it
        return _fitted(source, read, model, quiet)
    if model != FitOptions():
        raise RefusedError(
            f"{source} is a model already; options of the fit belong to `dualpca fit`"
        )
    fitted = work.open_model(source)
    if data is None:
        return fitted, None
    with watching(quiet) as watch:
        return fitted, work.open_table(data, read, watch, quiet, fitted)


@app.command(
    epilog=_examples(
        "transform iris.dualpca new.csv -o scores.csv",
        "transform iris.dualpca new.csv --distances | head",
        "transform cells.dualpca more.h5ad -o scores.npy",
    )
)
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
    writer = _writer(output, force)
    fitted = work.open_model(model)
    if distances and not fitted.flags:
        raise RefusedError(
            f"{type(fitted.estimator).__name__} has no distances; fit with --method robust"
        )
    quiet = quiet or json
    with watching(quiet) as watch:
        table = work.open_table(data, read, watch, quiet, fitted)
        with writer:
            work.write_scores(writer, fitted, table, output, distances)
    if json:
        show.as_json({"rows": table.X.shape[0], "scores": output, "dropped_rows": table.n_dropped})
    elif str(output) != "-" and not quiet:
        sys.stdout.write(f"scores of {table.X.shape[0]:,} rows: {output}\n")
    return OK


@app.command(
    epilog=_examples(
        "outliers measurements.csv",
        "outliers measurements.dualpca new.csv",
        "outliers measurements.csv --all -o distances.parquet",
    )
)
@grouped
def outliers(
    source: Source,
    read: ReadOptions,
    model: FitOptions,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="Rows to look at, with a model.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="csv, tsv, parquet, or - for CSV to a pipe."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="All rows, not only flagged ones.")] = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The rows that are flagged, the farthest first: distances, and the variables that did it.

    From data, to which a robust model is fitted first, or from a model and data.
    """
    if model.method not in (Method.robust, Method.robust_kernel):
        raise RefusedError(f"--method {model.method} flags no rows; use robust or robust-kernel")
    if json and output is not None:
        raise RefusedError("--json prints the rows; leave out -o, or leave out --json")
    piped = output is None and not sys.stdout.isatty()
    path = Path("-") if piped else output
    writer = None if json or path is None else _writer(path, force)
    fitted, table = _either(source, data, read, model, quiet or json)
    if not fitted.flags:
        raise RefusedError(
            f"{source} holds a {type(fitted.estimator).__name__}, which flags no rows; fit with "
            "--method robust"
        )
    with watching(quiet or json):
        found = flagged_rows(fitted, table, everything=all)
    if json:
        names = list(found.columns)
        rows = zip(*found.columns.values(), strict=True)
        show.as_json(
            {
                "rows": found.total,
                "flagged": found.flagged,
                "limits": {"score": found.limits[0], "orthogonal": found.limits[1]},
                "table": [dict(zip(names, row, strict=True)) for row in rows],
            }
        )
        return OK
    if writer is not None:
        with writer:
            writer.write(found.columns)
    elif found.flagged or all:
        sys.stdout.write(show.aligned(list(found.columns), found.text(), indent=""))
    if not (quiet or piped or str(path) == "-"):
        sys.stdout.write(found.words())
    return SHORT if fitted.short else OK


@app.command(epilog=_examples("inspect iris.dualpca", "inspect iris.dualpca --json"))
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
        "written_by": f"dualpca {header['dualpca']}",
        "options": options,
        "preprocessing": fitted.preprocessor and fitted.preprocessor.get_params(),
        "feature_names": fitted.names,
    }
    if json:
        show.as_json({**show.facts(fitted), **known})
        return OK
    sys.stdout.write(show.summary(fitted))
    told = ", ".join(f"{name}={value!r}" for name, value in options.items()) or "all defaults"
    sys.stdout.write(f"options: {told}\n")
    if known["preprocessing"]:
        words = known["preprocessing"]
        sys.stdout.write(
            f"before it: scaling {words['scaling']}, missing cells {words['missing']}\n"
        )
    if fitted.names:
        sys.stdout.write(f"columns: {', '.join(fitted.names)}\n")
    sys.stdout.write(f"file: format {header['version']}, written by {known['written_by']}\n")
    return OK


@app.command(
    epilog=_examples(
        "report measurements.csv",
        "report measurements.dualpca measurements.csv -o report.html",
        "report digits.npy -n 10 --image 8x8",
    )
)
@grouped
def report(
    source: Source,
    read: ReadOptions,
    model: FitOptions,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="Rows to show, with a model.")
    ] = None,
    output: Output = None,
    title: Annotated[str | None, typer.Option(help="The heading of the page.")] = None,
    image: Annotated[
        str | None, typer.Option(help="Rows are pictures of this shape: 28x28, or 32x32x3.")
    ] = None,
    max_points: Annotated[int, typer.Option(min=2, help="The most rows to draw.")] = 5000,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """One HTML page about a model or a file: interactive, self-contained, for any browser."""
    path = output or Path(work.stem(source, "report") + ".html")
    check_free(path, force)
    shape = _shape(image)
    fitted, table = _either(source, data, read, model, quiet or json)
    names = None if table is None or table.ids is None else list(table.ids)
    if table is not None and names is None:
        names = [str(i) for i in range(1, table.X.shape[0] + 1)]
    notes = {key.replace("_", " "): value for key, value in fitted.notes.items() if value}
    with watching(quiet or json):
        write_report(
            path,
            fitted.model,
            None if table is None else table.X,
            overwrite=force,
            title=title,
            row_names=names,
            labels=None if table is None or table.labels is None else list(table.labels),
            feature_names=fitted.names,
            image_shape=shape,
            notes=notes,
            max_points=max_points,
        )
    if json:
        show.as_json({**show.facts(fitted), "report": path})
    else:
        sys.stdout.write(f"report: {path}\n")
    if table is None and not (quiet or json):
        tell(f"without the data the report has no rows: dualpca report {source} DATA")
    return SHORT if fitted.short else OK


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if not (len(parts) in (2, 3) and all(part.isdecimal() and int(part) > 0 for part in parts)):
        raise RefusedError(f"--image {text!r} is no shape; give 28x28, or 32x32x3 for colours")
    return tuple(int(part) for part in parts)


@app.command(epilog=_examples("demo", "demo -o results --force"))
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder of the report.")
    ] = Path(),
    force: Force = False,
) -> int:
    """Handwritten digits with ruined rows: plain PCA against robust, a table and a report."""
    from .demo import demonstrate

    return demonstrate(output, force)


app.command(epilog=_examples("reproduce table-comp", "reproduce all --quick"))(reproduce)

__all__ = ["app"]
