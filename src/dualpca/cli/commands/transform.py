"""``dualpca transform``: scores of rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ...io.tables import Table, Writer
from ...io.tables.table import printable
from .. import printing
from ..inputs import NotedModel, open_model, open_table, row_blocks, table_writer
from ..options import Data, Flags, Model, ReadOptions, grouped
from ..run import OK, RefusedError
from ..watch import watching


@grouped
def transform(
    model: Model,
    data: Data,
    read: ReadOptions,
    flags: Flags,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="csv, tsv, parquet, npy, or - for CSV to a pipe.")
    ] = Path("-"),
    distances: Annotated[
        bool, typer.Option("--distances", help="Robust models: distances and flags as well.")
    ] = False,
) -> int:
    """Write the scores of rows, new ones or those of the fit; columns are found by their names."""
    to_pipe = str(output) == "-"
    if flags.json and to_pipe:
        raise RefusedError("--json tells of a file that was written; give -o FILE with it")
    writer = table_writer(output, flags.force)
    fitted = open_model(model)
    if distances and not fitted.is_robust:
        raise RefusedError(f"{fitted.name} has no distances; fit with --method robust")
    with watching(flags.silent) as watch:
        table = open_table(data, read, watch, flags.silent, fitted)
    # A bar and rows on the same terminal would run into each other.
    with watching(flags.silent or to_pipe), writer:
        write_scores(writer, fitted, table, output, distances)
    n = table.X.shape[0]
    if flags.json:
        printing.as_json({"rows": n, "scores": output, "dropped_rows": table.n_dropped})
    elif not to_pipe and not flags.quiet:
        sys.stdout.write(f"scores of {n:,} rows: {printable(str(output))}\n")
    return OK


def write_scores(
    writer: Writer, fitted: NotedModel, table: Table, path: Path, distances: bool
) -> None:
    """Write scores by blocks, with the names of rows (not in npy) and distances if asked for."""
    for start, rows in row_blocks(table.X):
        columns: dict[str, Any] = {}
        if path.suffix != ".npy":
            columns = row_names(table, np.arange(start, start + rows.shape[0]))
            if table.ids is not None:
                del columns["row"]
        scores = np.asarray(fitted.model.transform(rows))
        columns |= {f"pc{j + 1}": scores[:, j] for j in range(scores.shape[1])}
        if distances:
            measured = fitted.distances(rows)
            columns |= {
                "score_distance": measured.score,
                "orthogonal_distance": measured.orthogonal,
                "outlier": measured.flagged.astype(np.int64),
            }
        writer.write(columns)


def row_names(table: Table, rows: np.ndarray) -> dict[str, Any]:
    """Return columns with the numbers of rows in their file, from 1, their ids and labels."""
    columns: dict[str, Any] = {"row": table.in_file(rows)}
    if table.ids is not None:
        columns["id"] = np.asarray(table.ids[rows], dtype=object)
    if table.labels is not None:
        columns["label"] = np.asarray(table.labels[rows], dtype=object)
    return columns
