"""``dualpca transform`` and ``outliers``: commands about rows."""

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .._rows import dense_cells
from ..cells import flagged_cells
from ..frames import VARIABLES, in_words
from ..inspect import Reason
from ..io.tables import Table, Writer
from ..io.tables.table import counted
from ..operators import as_operator
from . import fitting, options, reading
from .fitting import NotedModel
from .printing import listing, print_json, print_rows, say
from .run import OK, RefusedError, stderr_line
from .watch import watching

#: The most cells that JSON lists, and that are printed; ``--cell-table`` has all.
CELLS, PRINTED = 200, 20


@options.grouped
def transform(
    model: options.Model,
    data: options.Data,
    read: options.ReadOptions,
    flags: options.Flags,
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
        raise RefusedError("--json describes a file that was written; give -o FILE with it")
    writer = reading.table_writer(output, flags.force)
    fitted = fitting.open_model(model)
    if distances and not fitted.is_robust:
        raise RefusedError(f"{fitted.name} has no distances; fit with --method robust")
    table = reading.open_table(data, read, flags.silent, fitted)
    # A bar and rows on the same terminal would run into each other.
    write_scores(writer, fitted, table, distances, flags.silent or to_pipe)
    n = table.X.shape[0]
    if flags.json:
        print_json({"rows": n, "scores": output, "dropped_rows": table.n_dropped})
    elif not to_pipe and not flags.quiet:
        say(f"scores of {counted(n, 'row')}: {output}")
    return OK


def write_scores(
    writer: Writer, fitted: NotedModel, table: Table, distances: bool, quiet: bool
) -> None:
    """Write scores by blocks, with the names of rows (not in npy) and distances if asked for."""
    with watching(quiet), writer:
        for rows, block in as_operator(table.X).read_blocks():  # type: ignore[attr-defined]
            names = row_names(table, np.arange(rows.start, rows.stop))
            if table.ids is not None:
                del names["row"]
            columns = {} if writer.format == "npy" else names
            scores = np.asarray(fitted.model.transform(block))
            columns |= {f"pc{j + 1}": scores[:, j] for j in range(scores.shape[1])}
            if distances:
                measured = fitted.distances(block)
                columns["score_distance"] = measured.score
                columns["orthogonal_distance"] = measured.orthogonal
                columns["outlier"] = measured.flagged.astype(np.int64)
            writer.write(columns)


def row_names(table: Table, rows: np.ndarray) -> dict[str, Any]:
    """Return columns with the numbers of rows in their file, from 1, their ids and labels."""
    columns: dict[str, Any] = {"row": table.in_file(rows)}
    for name, texts in (("id", table.ids), ("label", table.labels)):
        if texts is not None:
            columns[name] = np.asarray(texts[rows], dtype=object)
    return columns


@options.grouped
def outliers(
    source: options.Source,
    read: options.ReadOptions,
    model: options.FitOptions,
    flags: options.Flags,
    data: options.Rows = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="csv, tsv, parquet, or - for CSV to a pipe."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="All rows, not only flagged ones.")] = False,
    cell_table: Annotated[
        Path | None,
        typer.Option(
            help="Models with --cells: also write all flagged cells: csv, tsv or parquet."
        ),
    ] = None,
) -> int:
    """List the flagged rows, the farthest first: distances, and the variables behind them.

    Give data, to which a robust model is fitted first, or a model and data. A model of --cells lists
    single cells too: value, expected value, and how many scales of the column lie between them.
    """
    if model.method not in (options.Method.robust, options.Method.robust_kernel):
        raise RefusedError(f"--method {model.method} flags no rows; use robust or robust-kernel")
    if flags.json and output is not None:
        raise RefusedError("--json prints the rows; leave out -o, or leave out --json")
    path = Path("-") if output is None and not sys.stdout.isatty() else output
    writer = None if flags.json or path is None else reading.table_writer(path, flags.force)
    if str(cell_table) == "-" and (flags.json or str(path) == "-"):
        raise RefusedError("rows and cells would both go to the pipe; give --cell-table a file")
    cell_writer = cell_table and reading.table_writer(cell_table, flags.force)
    fitted, table = fitting.open_or_fit(source, data, read, model, flags.silent, must_flag=True)
    if cell_writer and not (fitted.has_cells and table is not None):
        raise RefusedError("--cell-table is of a model with --cells, and of its data; give both")
    if table is None and not flags.silent:
        stderr_line(f"for names and variables give the data too: dualpca outliers {source} DATA")
        if dropped := fitted.notes.get("dropped_rows"):
            stderr_line(f"rows are counted without {dropped:,} that the fit dropped")
    with watching(flags.silent):
        columns, total, flagged = list_rows(fitted, table, everything=all)
        cells = list_cells(fitted, table) if fitted.has_cells and table is not None else None
    if cells is not None and cell_writer:
        print_rows(cells, cell_writer)
    limits = fitted.limits
    if "reasons" in columns:
        named = in_words if not flags.json else with_names
        name = "variables" if not flags.json else "reasons"
        columns[name] = [named(row, fitted.feature_names) for row in columns.pop("reasons")]
    if flags.json:
        told: dict[str, Any] = {
            "rows": total,
            "flagged": flagged,
            "components": fitted.n_components,
        }
        told |= {"limits": limits, "table": listing(columns)}
        if cells is not None:
            worst = listing({name: values[:CELLS] for name, values in cells.items()})
            told |= {"single_cells": len(cells["row"]), "cells": worst}
        print_json(told)
        return fitted.exit_code
    print_rows(columns, writer)
    if not flags.quiet and str(path) != "-":
        parts = [f"{kind} distance {at:.4g}" for kind, at in limits.items() if at is not None]
        limit = "beyond the ellipse of " if len(parts) == 2 else "beyond "
        k = counted(fitted.n_components, "component")
        say(f"{flagged:,} of {total:,} rows are flagged by {k}, {limit}{' and '.join(parts)}")
        if len(columns["row"]) and (table is None or table.ids is None):
            say("rows are counted from 1, without the header of the file")
    if cells is not None and str(cell_table) != "-":
        if writer is None:
            print_rows({name: values[:PRINTED] for name, values in cells.items()}, None)
        if not flags.quiet:
            n, cutoff = len(cells["row"]), fitted.estimator.cell_cutoff_
            words = (
                f"flagged single cells: {n:,}, beyond {cutoff:.3g} scales, as 1 % of good ones are"
            )
            more = cell_table is None and n > (PRINTED if writer is None else 0)
            hint = "; --cell-table FILE writes them all" if more else ""
            (stderr_line if str(path) == "-" else say)(words + hint)
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
            reasons = fitted.reasons(block[listed], VARIABLES) if len(listed) else []
            part["reasons"] = np.fromiter(reasons, dtype=object, count=len(listed))
        if block is not None and fitted.fills_holes:
            part["filled"] = np.isnan(dense_cells(block[listed])).sum(axis=1)
        parts.append({**part, "normality": normality})
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns.pop("normality"), kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    positions = columns.pop("row")
    named = {"row": positions + 1} if table is None else row_names(table, positions)
    return {**named, **columns}, total, flagged


def list_cells(fitted: NotedModel, table: Table) -> dict[str, Any]:
    """Return columns of flagged single cells, the farthest off first, in the units of the file."""
    found = flagged_cells(fitted, table.X)
    names = np.asarray(fitted.feature_names, dtype=object)
    numbers = {"value": found.value, "expected": found.expected, "scales": found.residual}
    numbers = {name: values.astype(float) for name, values in numbers.items()}
    return {**row_names(table, found.row), "column": names[found.variable], **numbers}


def with_names(reasons: list[Reason], names: list[str]) -> list[dict[str, Any]]:
    """Return the variables behind a row, for JSON."""
    return [{**reason._asdict(), "variable": names[reason.variable]} for reason in reasons]
