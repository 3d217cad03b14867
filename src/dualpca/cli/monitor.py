"""``dualpca monitor``: which new rows leave a model, when, and by which variables."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import control
from .._arguments import as_times
from ..frames import in_words
from ..io.files import check_free, written
from ..io.tables import TableError
from ..operators import as_operator
from ..plots import ControlChartDisplay
from ..plots._display import check_axes
from . import fitting, options, reading
from .printing import listing, print_json, print_rows, say
from .row_commands import row_names, with_names
from .run import OK, RefusedError
from .watch import watching

#: The endings of pictures.
PICTURES = (".png", ".svg", ".pdf")


@options.grouped
def monitor(
    model: options.Model,
    data: options.Data,
    read: options.ReadOptions,
    flags: options.Flags,
    time: Annotated[
        str | None, typer.Option(help="The column of times or dates: rows are in its order.")
    ] = None,
    quantile: Annotated[
        float | None,
        typer.Option(help="Plain: the share of good rows within each limit; 0.99 by default."),
    ] = None,
    draw: Annotated[
        Path | None, typer.Option(help="Draw the chart to a file: png, svg or pdf.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="csv, tsv, parquet, or - for CSV to a pipe."),
    ] = None,
) -> int:
    """List the rows of DATA that are out of control: T2, SPE, and the variables that did it.

    The limits are those of the fit, so that later rows change nothing for earlier ones.
    """
    if flags.json and output is not None:
        raise RefusedError("--json prints the rows; leave out -o, or leave out --json")
    if time is not None and read.label is not None:
        raise RefusedError("--label and --time both name a column beside the rows; give one")
    if draw is not None and draw.suffix.lower() not in PICTURES:
        raise RefusedError(f"--draw {draw} has no ending of a picture; give a png, svg or pdf")
    if draw is not None:
        check_axes(None)  # says what to install
        check_free(draw, flags.force)
    path = Path("-") if output is None and not sys.stdout.isatty() else output
    writer = None if flags.json or path is None else reading.table_writer(path, flags.force)
    fitted = fitting.open_model(model)
    if not fitted.is_robust and not hasattr(fitted.estimator, "residual_powers_"):
        raise RefusedError(
            f"{model}: this {fitted.name} has no limits of T2 and SPE; fit with --method robust or plain"
        )
    limits = control.limits(fitted, quantile=quantile)
    wanted = read if time is None else replace(read, label=time)
    table = reading.open_table(data, wanted, flags.silent, fitted)
    times = None
    if table.labels is not None and time is not None:
        try:
            times = as_times(np.asarray(table.labels))
        except ValueError as error:
            raise TableError(f"column {time}: {error}") from error
    explains = hasattr(fitted.estimator, "_blamed")
    values, found = [], list[Any]()
    with watching(flags.silent):
        for _, block in as_operator(table.X).read_blocks():  # type: ignore[attr-defined]
            part = np.stack(control.statistics(fitted, block), axis=1)
            out = np.flatnonzero((part > limits).any(axis=1))
            if explains:
                found += control.reasons(fitted, block[out], part[out], limits) if len(out) else []
            values.append(part)
    both = np.concatenate(values)
    rows = np.flatnonzero((both > limits).any(axis=1))
    order = np.arange(len(rows)) if times is None else np.argsort(times[rows], kind="stable")
    columns = row_names(table, rows[order])
    if time is not None:
        columns[time] = columns.pop("label")
        if table.id_columns == [time]:
            del columns["id"]
    columns |= dict(zip(control.PARTS, both[rows[order]].T, strict=True))
    columns["beyond"] = control.beyond(both[rows[order]], limits)
    if explains:
        named, word = (with_names, "reasons") if flags.json else (in_words, "variables")
        columns[word] = [named(found[i], fitted.feature_names) for i in order]
    if draw is not None:
        _draw(draw, flags.force, both, limits, times, table.ids, time)
    if flags.json:
        told = {"rows": len(both), "out_of_control": len(rows), "chart": draw}
        at = dict(zip(control.PARTS, limits, strict=True))
        print_json({**told, "limits": at, "table": listing(columns)})
        return OK
    print_rows(columns, writer)
    if not flags.quiet and str(path) != "-":
        limit = " or ".join(f"{k} {v:.4g}" for k, v in zip(control.PARTS, limits, strict=True))
        say(f"{len(rows):,} of {len(both):,} rows are out of control, beyond {limit}")
        if draw is not None:
            say(f"chart: {draw}")
    return OK


def _draw(
    path: Path, force: bool, both: np.ndarray, limits: Any, times: Any, ids: Any, name: str | None
) -> None:
    """Draw the chart of T2 and SPE to a file, with the names of the farthest rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    names = np.arange(1, len(both) + 1) if ids is None else list(ids)
    display = ControlChartDisplay(both[:, 0], both[:, 1], limits, time=times, row_names=names)
    display.plot(figure.subplots(), annotate=5)
    if name is not None:
        display.ax_.set_xlabel(name, parse_math=False)
    with written(path, overwrite=force) as file:
        figure.savefig(file, format=path.suffix[1:].lower())
