"""The commands that look at rows: ``outliers`` and ``report``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..io.files import check_free
from ..io.tables import Table
from ..io.tables.table import printable
from ..report import write_report
from . import show, work
from .estimator import checked
from .flagged import flagged_rows
from .options import FitOptions, Force, Json, Method, Output, Quiet, ReadOptions, Source, grouped
from .run import OK, SHORT, RefusedError, tell
from .shared import fitted_data, writer_of
from .watch import watching


def _either(
    source: str,
    data: str | None,
    read: ReadOptions,
    model: FitOptions,
    quiet: bool,
    flags: bool = False,
) -> tuple[work.Fitted, Table | None]:
    """A model, that flags rows if asked for, and rows; or a model alone, or data that is fitted."""
    checked(model)
    if not work.is_model(source):
        if source.endswith(work.ENDING) or data is not None:
            work.open_model(source)  # says what is wrong with it
        return fitted_data(source, read, model, quiet)
    if model != FitOptions():
        raise RefusedError(
            f"{source} is a model already; options of the fit belong to `dualpca fit`"
        )
    fitted = work.open_model(source)
    if flags and not fitted.flags:
        raise RefusedError(
            f"{source} holds a {type(fitted.estimator).__name__}, which flags no rows; fit with "
            "--method robust"
        )
    if data is None:
        return fitted, None
    with watching(quiet) as watch:
        return fitted, work.open_table(data, read, watch, quiet, fitted)


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
    writer = None if json or path is None else writer_of(path, force)
    fitted, table = _either(source, data, read, model, quiet or json, flags=True)
    if table is None and not (quiet or json):
        tell(f"for names and variables give the data too: dualpca outliers {source} DATA")
        if fitted.notes.get("dropped_rows"):
            tell(f"rows are counted without {fitted.notes['dropped_rows']:,} that the fit dropped")
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
        return SHORT if fitted.short else OK
    if writer is not None:
        with writer:
            writer.write(found.columns)
    elif found.flagged or all:
        sys.stdout.write(show.aligned(list(found.columns), found.text(), indent=""))
    if not (quiet or piped or str(path) == "-"):
        sys.stdout.write(found.words())
    return SHORT if fitted.short else OK


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
    if table is not None and names is None and table.n_dropped:
        names = [f"row {i} of the file" for i in table.in_file(np.arange(table.X.shape[0]))]
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
        sys.stdout.write(f"report: {printable(str(path))}\n")
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
