"""``dualpca fit``, ``inspect`` and ``report``: commands about models."""

import math
import shlex
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .._arguments import check_image_shape
from ..frames import correlations
from ..inspect import FittedModel
from ..io.files import check_free
from ..io.models import read_header, save
from ..io.tables.table import listed
from ..report import write_report
from . import fitting, options, reading
from .printing import facts, print_json, print_summary, say
from .row_commands import write_scores
from .run import OK, RefusedError, stderr_line
from .trust import print_trust, trust_in
from .watch import watching

#: The notes of a model file that a report shows, and their names there.
REPORTED = {"source": "source", "ids": "ids", "label": "label"}
REPORTED |= {"left_out": "dropped", "dropped_rows": "Rows left out for missing cells"}


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
    fitting.make_estimator(model, read.missing)  # raises if the options are wrong
    path = output or Path(reading.stem(data, "model") + reading.ENDING)
    check_free(path, flags.force)
    if scores is not None and scores.resolve() == path.resolve():
        raise RefusedError(f"{path} cannot be both the model and its scores; give two names")
    writer = scores and reading.table_writer(scores, flags.force)
    fitted, table = fitting.fit_file(data, read, model, flags.silent)
    if writer:
        write_scores(writer, fitted, table, fitted.is_robust, flags.silent)
    save(fitted.model, path, notes=fitted.notes, overwrite=flags.force)
    if flags.json:
        print_json({**facts(fitted), "model": path, "scores": scores})
        return fitted.exit_code
    print_summary(fitted)
    known = facts(fitted)
    found = known.get("flagged") or known.get("flagged_cells")
    if not flags.quiet and data != "-" and found:
        words = f"{shlex.quote(str(path))} {reading.repeat_command(data, read)}"
        say(f"list them with: dualpca outliers {words}")
    say(f"model: {path}")
    if scores is not None:
        say(f"scores: {scores}")
    return fitted.exit_code


@options.grouped
def inspect(
    model: options.Model,
    read: options.ReadOptions,
    flags: options.Flags,
    data: options.Rows = None,
    loadings: Annotated[
        Path | None, typer.Option(help="Also write all loadings: csv, tsv or parquet.")
    ] = None,
    scaled: Annotated[
        bool, typer.Option("--scaled", help="Loadings as correlations of variables and scores.")
    ] = False,
    bootstrap: options.Resamples = 0,
) -> int:
    """Print what is in a model file; with DATA, how well components show columns, and how stable."""
    if scaled and loadings is None:
        raise RefusedError("--scaled is for --loadings FILE; give both")
    if bootstrap and data is None:
        raise RefusedError(f"--bootstrap {bootstrap} resamples rows; give DATA, those of the fit")
    writer = loadings and reading.table_writer(loadings, flags.force)
    fitted, header = fitting.open_model(model), read_header(model)
    if (writer or data is not None) and not fitted.is_linear:
        raise RefusedError(f"{fitted.name} has no loadings; fit with --method robust or plain")
    if writer:
        values = correlations(fitted) if scaled else fitted.loadings
        columns = {f"pc{k + 1}": row for k, row in enumerate(values)}
        with writer:
            writer.write({"variable": fitted.feature_names, **columns})
    trust: dict[str, Any] = {}
    if data is not None:
        table = reading.open_table(data, read, flags.silent, fitted)
        with watching(flags.silent):
            trust = trust_in(fitted, table.X, bootstrap)
    changed = FittedModel(fitted.estimator).changed_parameters()
    before = fitted.preprocessor and fitted.preprocessor.get_params()
    written_by = f"dualpca {header['dualpca']}"
    if flags.json:
        known = {"format_version": header["version"], "written_by": written_by}
        names = {"preprocessing": before, "feature_names": fitted.input_names}
        print_json({**facts(fitted), **known, "options": changed, **names, **trust})
        return OK
    print_summary(fitted)
    print_trust(fitted, trust)
    words = ", ".join(f"{name}={value!r}" for name, value in changed.items()) or "all defaults"
    say(f"options: {words}")
    if before:
        say(f"before it: scaling {before['scaling']}, missing cells {before['missing']}")
    if fitted.input_names:
        say(f"columns: {listed(fitted.input_names, 50)}")
    say(f"file: format {header['version']}, written by {written_by}")
    if loadings is not None:
        say(f"loadings: {loadings}")
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
    bootstrap: options.Resamples = 0,
) -> int:
    """Write one HTML page about a model or a file: interactive, self-contained, for any browser."""
    path = output or Path(reading.stem(source, "report") + ".html")
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
            fitted.model,
            path,
            **rows,
            overwrite=flags.force,
            title=title,
            feature_names=fitted.input_names,
            image_shape=shape,
            notes={
                REPORTED[key]: value
                for key, value in fitted.notes.items()
                if value and key in REPORTED
            },
            max_points=max_points,
            bootstrap=bootstrap,
        )
    if flags.json:
        print_json({**facts(fitted), "report": path})
    else:
        say(f"report: {path}")
    if table is None and not flags.silent:
        stderr_line(f"without the data the report has no rows: dualpca report {source} DATA")
    return fitted.exit_code
