"""``dualpca fit``: a model of a file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...io.files import check_free
from ...io.models import save
from ...io.tables.table import printable
from .. import printing
from ..fitting import checked_estimator, fit_file
from ..inputs import ENDING, repeat_command, stem, table_writer
from ..options import Data, FitOptions, Flags, Output, ReadOptions, grouped
from ..run import MISSED_TOL, OK, RefusedError
from ..watch import watching
from .transform import write_scores


@grouped
def fit(
    data: Data,
    read: ReadOptions,
    model: FitOptions,
    flags: Flags,
    output: Output = None,
    scores: Annotated[
        Path | None, typer.Option(help="Also write the scores of the rows: csv, parquet or npy.")
    ] = None,
) -> int:
    """Fit a model to the rows of DATA and write it to a file.

    The default is robust PCA; the model file has the name of DATA with the ending .dualpca and lies
    in the current folder.
    """
    checked_estimator(model)
    path = output or Path(stem(data, "model") + ENDING)
    check_free(path, flags.force)
    if scores is not None and scores.resolve() == path.resolve():
        raise RefusedError(f"{path} cannot be both the model and its scores; give two names")
    writer = None if scores is None else table_writer(scores, flags.force)
    fitted, table = fit_file(data, read, model, flags.silent)
    if writer is not None and scores is not None:
        with watching(flags.silent), writer:
            write_scores(writer, fitted, table, scores, fitted.is_robust)
    save(fitted.model, path, notes=fitted.notes, overwrite=flags.force)
    code = MISSED_TOL if fitted.missed_tol else OK
    if flags.json:
        printing.as_json({**printing.facts(fitted), "model": str(path), "scores": scores})
        return code
    sys.stdout.write(printing.summary(fitted))
    if not flags.quiet and data != "-" and fitted.is_robust and fitted.estimator.outliers_.any():
        words = f"{shlex.quote(str(path))} {repeat_command(data, read)}"
        sys.stdout.write(f"list them with: dualpca outliers {printable(words)}\n")
    sys.stdout.write(f"model: {printable(str(path))}\n")
    if scores is not None:
        sys.stdout.write(f"scores: {printable(str(scores))}\n")
    return code
