"""``dualpca fit``, ``transform``, ``outliers``, ``inspect`` and ``report``."""

import math
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..inspect import FittedModel, check_image_shape
from ..io.files import check_free
from ..io.models import read_header, save
from ..io.tables import Table, Writer
from ..io.tables.table import counted, listed
from ..operators import as_operator
from ..report import write_report
from . import fitting, options
from .fitting import NotedModel
from .printing import facts, print_json, print_summary, say, text_table
from .run import OK, RefusedError, stderr_line
from .watch import watching

#: The most variables that ``outliers`` names for a row.
VARIABLES = 3


@options.grouped
def fit(
    data: options.Data,
    read: options.ReadOptions,
    model: options.FitOptions,
    flags: options.Flags,
    output: options.Output = None,
    scores: Annotated[
        Path | None, typer.Option(help="Also write the scores of the rows: csv, parquet or npy.")
    ] = None,
) -> int:
    """Fit a model to the rows of DATA and write it to a file.

    The default is robust PCA; the model file has the name of DATA with the ending .dualpca and lies
    in the current folder.
    """
    fitting.make_estimator(model)  # raises if the options are wrong
    path = output or Path(fitting.stem(data, "model") + fitting.ENDING)
    check_free(path, flags.force)
    if scores is not None and scores.resolve() == path.resolve():
        raise RefusedError(f"{path} cannot be both the model and its scores; give two names")
    writer = scores and fitting.table_writer(scores, flags.force)
    fitted, table = fitting.fit_file(data, read, model, flags.silent)
    if writer:
        write_scores(writer, fitted, table, fitted.is_robust, flags.silent)
    save(fitted.model, path, notes=fitted.notes, overwrite=flags.force)
    if flags.json:
        print_json({**facts(fitted), "model": path, "scores": scores})
        return fitted.exit_code
    print_summary(fitted)
    if not flags.quiet and data != "-" and fitted.is_robust and fitted.estimator.outliers_.any():
        words = f"{shlex.quote(str(path))} {fitting.repeat_command(data, read)}"
        say(f"list them with: dualpca outliers {words}")
    say(f"model: {path}")
    if scores is not None:
        say(f"scores: {scores}")
    return fitted.exit_code


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
    writer = fitting.table_writer(output, flags.force)
    fitted = fitting.open_model(model)
    if distances and not fitted.is_robust:
        raise RefusedError(f"{fitted.name} has no distances; fit with --method robust")
    table = fitting.open_table(data, read, flags.silent, fitted)
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
) -> int:
    """List the flagged rows, the farthest first: distances, and the variables behind them.

    Give data, to which a robust model is fitted first, or a model and data.
    """
    if model.method not in (options.Method.robust, options.Method.robust_kernel):
        raise RefusedError(f"--method {model.method} flags no rows; use robust or robust-kernel")
    if flags.json and output is not None:
        raise RefusedError("--json prints the rows; leave out -o, or leave out --json")
    path = Path("-") if output is None and not sys.stdout.isatty() else output
    writer = None if flags.json or path is None else fitting.table_writer(path, flags.force)
    fitted, table = fitting.open_or_fit(source, data, read, model, flags.silent, must_flag=True)
    if table is None and not flags.silent:
        stderr_line(f"for names and variables give the data too: dualpca outliers {source} DATA")
        if dropped := fitted.notes.get("dropped_rows"):
            stderr_line(f"rows are counted without {dropped:,} that the fit dropped")
    with watching(flags.silent):
        columns, total, flagged = list_rows(fitted, table, everything=all)
    limits = fitted.limits
    rows = list(zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True))
    if flags.json:
        listing = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({"rows": total, "flagged": flagged, "limits": limits, "table": listing})
        return fitted.exit_code
    if writer is not None:
        with writer:
            writer.write(columns)
    elif rows:
        cells = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
        sys.stdout.write(text_table(list(columns), cells, indent=0))
    if not flags.quiet and str(path) != "-":
        parts = [f"{kind} distance {at:.4g}" for kind, at in limits.items() if at is not None]
        limit = "beyond the ellipse of " if len(parts) == 2 else "beyond "
        say(f"{flagged:,} of {total:,} rows are flagged, {limit}{' and '.join(parts)}")
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


def inspect(model: options.Model, json: options.Json = False) -> int:
    """Print what is in a model file: estimator, options, components, accuracy, columns."""
    fitted, header = fitting.open_model(model), read_header(model)
    changed = FittedModel(fitted.estimator).changed_parameters()
    before = fitted.preprocessor and fitted.preprocessor.get_params()
    written_by = f"dualpca {header['dualpca']}"
    if json:
        known = {"format_version": header["version"], "written_by": written_by}
        names = {"preprocessing": before, "feature_names": fitted.input_names}
        print_json({**facts(fitted), **known, "options": changed, **names})
        return OK
    print_summary(fitted)
    words = ", ".join(f"{name}={value!r}" for name, value in changed.items()) or "all defaults"
    say(f"options: {words}")
    if before:
        say(f"before it: scaling {before['scaling']}, missing cells {before['missing']}")
    if fitted.input_names:
        say(f"columns: {listed(fitted.input_names, 50)}")
    say(f"file: format {header['version']}, written by {written_by}")
    return OK


@options.grouped
def report(
    source: options.Source,
    read: options.ReadOptions,
    model: options.FitOptions,
    flags: options.Flags,
    data: options.Rows = None,
    output: options.Output = None,
    title: Annotated[str | None, typer.Option(help="The heading of the page.")] = None,
    image: Annotated[
        str | None, typer.Option(help="Rows are pictures of this shape: 28x28, or 32x32x3.")
    ] = None,
    max_points: Annotated[int, typer.Option(min=2, help="The most rows to draw.")] = 5000,
) -> int:
    """Write one HTML page about a model or a file: interactive, self-contained, for any browser."""
    path = output or Path(fitting.stem(source, "report") + ".html")
    check_free(path, flags.force)
    try:
        shape = None if image is None else tuple(map(int, image.lower().split("x")))
        if shape is not None:
            check_image_shape(shape, math.prod(shape))
    except ValueError:
        raise RefusedError(f"--image {image!r} is no shape; give 28x28, or 32x32x3") from None
    fitted, table = fitting.open_or_fit(
        source, data, read, model, flags.silent, pixels=image is not None
    )
    left, known = fitted.notes.get("left_out") or [], fitted.n_features
    if shape is not None and known < math.prod(shape) <= known + len(left):
        raise RefusedError(
            f"--image {image} has {math.prod(shape):,} numbers, the model {known:,}; "
            f"it was fitted without {listed(left)}: --keep '*' at fit keeps constant columns"
        )
    rows: dict[str, Any] = {}
    if table is not None:
        rows = {"X": table.X, "row_names": table.ids, "labels": table.labels}
        if table.ids is None and table.n_dropped:
            numbers = table.in_file(np.arange(table.X.shape[0]))
            rows["row_names"] = [f"data row {i} of the file" for i in numbers]
    with watching(flags.silent):
        write_report(
            path,
            fitted.model,
            **rows,
            overwrite=flags.force,
            title=title,
            feature_names=fitted.input_names,
            image_shape=shape,
            notes={key.replace("_", " "): value for key, value in fitted.notes.items() if value},
            max_points=max_points,
        )
    if flags.json:
        print_json({**facts(fitted), "report": path})
    else:
        say(f"report: {path}")
    if table is None and not flags.silent:
        stderr_line(f"without the data the report has no rows: dualpca report {source} DATA")
    return fitted.exit_code
