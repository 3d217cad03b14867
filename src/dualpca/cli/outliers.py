"""``dualpca outliers``: flagged rows, and the variables behind them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..io.tables import Table
from ..operators import as_operator
from .commands import row_names
from .fitting import open_or_fit
from .inputs import NotedModel, table_writer
from .options import FitOptions, Flags, Method, ReadOptions, Rows, Source, grouped
from .printing import print_json, say, text_table
from .run import RefusedError, stderr_line
from .watch import watching

#: The most variables that are named for a row.
VARIABLES = 3


@grouped
def outliers(
    source: Source,
    read: ReadOptions,
    model: FitOptions,
    flags: Flags,
    data: Rows = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="csv, tsv, parquet, or - for CSV to a pipe."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="All rows, not only flagged ones.")] = False,
) -> int:
    """List the flagged rows, the farthest first: distances, and the variables behind them.

    Give data, to which a robust model is fitted first, or a model and data.
    """
    if model.method not in (Method.robust, Method.robust_kernel):
        raise RefusedError(f"--method {model.method} flags no rows; use robust or robust-kernel")
    if flags.json and output is not None:
        raise RefusedError("--json prints the rows; leave out -o, or leave out --json")
    piped = output is None and not sys.stdout.isatty()
    path = Path("-") if piped else output
    writer = None if flags.json or path is None else table_writer(path, flags.force)
    fitted, table = open_or_fit(source, data, read, model, flags.silent, must_flag=True)
    if table is None and not flags.silent:
        stderr_line(f"for names and variables give the data too: dualpca outliers {source} DATA")
        if dropped := fitted.notes.get("dropped_rows"):
            stderr_line(f"rows are counted without {dropped:,} that the fit dropped")
    with watching(flags.silent):
        columns, total, flagged = list_rows(fitted, table, everything=all)
    score, orthogonal = fitted.estimator.limits_
    rows = list(zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True))
    if flags.json:
        print_json(
            {
                "rows": total,
                "flagged": flagged,
                "limits": {"score": score, "orthogonal": orthogonal},
                "table": [dict(zip(columns, row, strict=True)) for row in rows],
            }
        )
        return fitted.exit_code
    if writer is not None:
        with writer:
            writer.write(columns)
    elif rows:
        cells = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
        sys.stdout.write(text_table(list(columns), cells, indent=0))
    if not flags.quiet and str(path) != "-":
        say(
            f"{flagged:,} of {total:,} rows are flagged; limits: score distance {score:.4g}, "
            f"orthogonal distance {orthogonal:.4g}"
        )
    return fitted.exit_code


def list_rows(
    fitted: NotedModel, table: Table | None, *, everything: bool
) -> tuple[dict[str, Any], int, int]:
    """Return columns of listed rows, the farthest first, and the numbers of all and flagged rows.

    The rows are those of the table, or the training rows.
    """
    blocks: Any = [(slice(0, None), None)]
    if table is not None:
        blocks = as_operator(table.X).read_blocks()  # type: ignore[attr-defined]
    parts, total, flagged = [], 0, 0
    for rows, block in blocks:
        measured = fitted.distances(block)
        listed = np.flatnonzero(measured.flagged | everything)
        total, flagged = total + len(measured.flagged), flagged + int(measured.flagged.sum())
        score, orthogonal, normality = (a[listed].astype(float) for a in measured[:3])
        part = {"row": rows.start + listed}
        part |= {"score_distance": score, "orthogonal_distance": orthogonal}
        if everything:
            part["outlier"] = measured.flagged[listed].astype(np.int64)
        if block is not None and hasattr(fitted.estimator, "contributions"):
            part["variables"] = _variables(fitted, block[listed], measured.flagged[listed])
        parts.append({**part, "normality": normality})
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns.pop("normality"), kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    positions = columns.pop("row")
    named = {"row": positions + 1} if table is None else row_names(table, positions)
    return {**named, **columns}, total, flagged


def _variables(fitted: NotedModel, rows: Any, flagged: np.ndarray) -> np.ndarray:
    """Return the variables behind the distances of flagged rows: "height (+62%), weight (-20%)"."""
    texts = np.full(len(flagged), "", dtype=object)
    if not flagged.any():
        return texts
    contributions = fitted.estimator.contributions(fitted.prepared(rows[flagged]))
    for i, row in zip(np.flatnonzero(flagged), np.asarray(contributions), strict=True):
        shares = 100 * row / (float(np.abs(row).sum()) or 1.0)
        largest = np.argsort(-np.abs(row), kind="stable")[:VARIABLES]
        named = [f"{fitted.feature_names[j]} ({shares[j]:+.2g}%)" for j in largest if row[j]]
        texts[i] = ", ".join(named)
    return texts
