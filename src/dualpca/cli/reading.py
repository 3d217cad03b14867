"""From options to tables that are read, and names of files that are written."""

import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..io.tables import Columns, Table, TableError, Writer, read
from ..io.tables.read import EXTENSIONS
from ..io.tables.table import counted, listed
from .options import Missing, ReadOptions
from .run import RefusedError, stderr_line
from .watch import watching

#: The ending of model files that ``fit`` writes.
ENDING = ".dualpca"


def open_table(
    path: str,
    options: ReadOptions,
    quiet: bool,
    model: Any = None,
    pixels: bool = False,
    completes: bool = False,
) -> Table:
    """Return the rows of a file, with the columns of the model, a NotedModel, if there is one.

    Without a model, constant columns are left out, unless --keep chose the columns or they are
    ``pixels`` of pictures; ``completes`` says that what will be fitted takes missing cells.
    """
    keep, drop, names = split(options.keep), split(options.drop), None
    missing, impute = options.missing, options.missing is Missing.impute
    if model is not None:
        impute = getattr(model.preprocessor, "fill_", None) is not None
        completes = model.fills_holes and not impute
        ways = {"impute"} if impute else {getattr(model.estimator, "missing", "error")}
        if keep or drop:
            raise RefusedError("--keep and --drop belong to fit; the model takes its own columns")
        if missing not in (Missing.refuse, Missing.drop) and missing not in ways:
            raise RefusedError(
                f"the model was fitted without --missing {missing}; drop the rows, or fit it so"
            )
        names = model.input_names
    columns = Columns(
        keep=keep if names is None else names,
        drop=drop or (),
        ids=() if options.id == ["none"] else split(options.id),
        likely_ids=(model and model.notes.get("ids")) or (),
        label=options.label,
        exact=model is not None,
        varying=model is None and not keep and not pixels,
    )
    drops = missing is Missing.drop
    with watching(quiet) as watch:
        table = read(
            path,
            format=options.format,
            key=options.key,
            columns=columns,
            missing="drop" if drops else "keep" if impute or completes else "refuse",
            **options.of_text(),
            comment=options.comment,
            skip=options.skip,
            bad_lines=str(options.bad_lines),
            memory=options.memory * 2**20,
            unpacked=options.unpacked * 2**20,
            dtype=None if options.dtype is None else str(options.dtype),
            on_rows=None if watch is None else watch.reading,
        )
    notes = list(table.notes)
    if (impute or completes) and table.n_missing and not drops:
        cells = "cell is" if table.n_missing == 1 else "cells are"
        how = "filled with medians of the columns" if impute else "completed by the model"
        notes.append(f"{table.n_missing:,} missing {cells} {how}")
    if model is not None and names is None:
        width = model.model.n_features_in_
        if table.X.shape[1] != width:
            raise TableError(
                f"{path} has {counted(table.X.shape[1], 'column')} of numbers where the model has "
                f"{counted(width, 'feature')} without names; give a file with the columns of the fit"
            )
        if table.names is not None:
            notes.append("the model has no names; the columns of the file are taken in their order")
    if model is not None:
        other = sorted(set(model.notes.get("percent") or ()) ^ set(table.percent))
        if other and names is not None:
            stderr_line(
                f"warning: {listed(other)}: percents, read as shares of 1 (8.5% as 0.085), in one of "
                "this file and that of the fit, and numbers in the other; bring them to one unit"
            )
    for note in [] if quiet else notes:
        stderr_line(note)
    return table


def split(given: list[str] | None) -> list[str] | None:
    """Return names that were given one by one or with commas between them."""
    return None if not given else [name for text in given for name in text.split(",") if name]


def without_mostly_equal(table: Table, quiet: bool, completes: bool) -> Table:
    """Leave out columns of a table in memory most of whose cells are one value.

    Missing cells are the median, unless the model ``completes`` them. Most rows would have no variance
    there, so that a robust model would flag all others.
    """
    X, names = table.X, table.names
    if not isinstance(X, np.ndarray) or names is None:
        return table
    hole, same = np.isnan(X), np.equal(X, np.nanmedian(X, axis=0))
    same |= hole & (not completes)
    few = same.sum(axis=0) > 0.5 * (len(X) - hole.sum(axis=0) * completes)
    if not few.any() or few.sum() > X.shape[1] - 2:
        return table
    left = [name for name, gone in zip(names, few, strict=True) if gone]
    if not quiet:
        stderr_line(
            f"left out {listed(left)}, since most of the cells there are one value, so that all "
            "others would be outliers; --keep analyses columns as they are"
        )
    kept = [name for name, gone in zip(names, few, strict=True) if not gone]
    X = np.ascontiguousarray(X[:, ~few])
    return replace(table, X=X, names=kept, left_out=[*table.left_out, *left])


def repeat_command(path: str, options: ReadOptions) -> str:
    """Return the words of a command line that read the same rows again for a model."""
    words = [path]
    for field in fields(options):
        given = getattr(options, field.name)
        of_fit = field.name in ("keep", "drop", "id", "label")
        of_fit |= field.name == "missing" and given is not Missing.drop
        if given == field.default or of_fit:
            continue
        name = field.name.replace("_", "-")
        if isinstance(given, bool):
            words.append(f"--{name}" if given else f"--no-{name}")
        else:
            for value in given if isinstance(given, list) else [given]:
                words += [f"--{name}", str(value)]
    return shlex.join(words)


def stem(path: str, otherwise: str) -> str:
    """Return the name of a file without the endings that tell its format."""
    name = otherwise if path == "-" else Path(path).name
    while (place := Path(name)).suffix.lower()[1:] in {*EXTENSIONS, "gz", "bz2", ENDING[1:]}:
        name = place.stem
    return name


def table_writer(path: Path, force: bool) -> Writer:
    """Return a writer of a table; refuse a path that it cannot write before any work is done."""
    try:
        return Writer(path, overwrite=force)
    except TableError as error:
        raise RefusedError(str(error)) from error
