"""``dualpca report``: one HTML page about a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ...io.files import check_free
from ...io.tables.table import printable
from ...report import write_report
from .. import printing
from ..inputs import stem
from ..options import FitOptions, Flags, Output, ReadOptions, Source, grouped
from ..run import MISSED_TOL, OK, RefusedError, stderr_line
from ..watch import watching
from .outliers import open_or_fit


@grouped
def report(
    source: Source,
    read: ReadOptions,
    model: FitOptions,
    flags: Flags,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="Rows to show, with a model.")
    ] = None,
    output: Output = None,
    title: Annotated[str | None, typer.Option(help="The heading of the page.")] = None,
    image: Annotated[
        str | None, typer.Option(help="Rows are pictures of this shape: 28x28, or 32x32x3.")
    ] = None,
    max_points: Annotated[int, typer.Option(min=2, help="The most rows to draw.")] = 5000,
) -> int:
    """Write one HTML page about a model or a file: interactive, self-contained, for any browser."""
    path = output or Path(stem(source, "report") + ".html")
    check_free(path, flags.force)
    shape = _shape(image)
    fitted, table = open_or_fit(source, data, read, model, flags.silent)
    names = None if table is None or table.ids is None else list(table.ids)
    if table is not None and names is None and table.n_dropped:
        names = [f"row {i} of the file" for i in table.in_file(np.arange(table.X.shape[0]))]
    with watching(flags.silent):
        write_report(
            path,
            fitted.model,
            None if table is None else table.X,
            overwrite=flags.force,
            title=title,
            row_names=names,
            labels=None if table is None or table.labels is None else list(table.labels),
            feature_names=fitted.input_names,
            image_shape=shape,
            notes={key.replace("_", " "): value for key, value in fitted.notes.items() if value},
            max_points=max_points,
        )
    if flags.json:
        printing.as_json({**printing.facts(fitted), "report": path})
    else:
        sys.stdout.write(f"report: {printable(str(path))}\n")
    if table is None and not flags.silent:
        stderr_line(f"without the data the report has no rows: dualpca report {source} DATA")
    return MISSED_TOL if fitted.missed_tol else OK


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if not (len(parts) in (2, 3) and all(part.isdecimal() and int(part) > 0 for part in parts)):
        raise RefusedError(f"--image {text!r} is no shape; give 28x28, or 32x32x3 for colours")
    return tuple(int(part) for part in parts)
