"""Models and tables that commands open."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from .. import Preprocessor, load
from ..inspect import ESTIMATORS, FittedModel
from ..io.models import ModelFileError, read_header
from ..io.tables import NA_VALUES, Columns, Table, Writer, read
from ..io.tables.read import EXTENSIONS
from ..io.tables.table import TableError, shown
from .options import Missing, ReadOptions
from .run import MISSED_TOL, OK, RefusedError, stderr_line
from .watch import Watch

#: The ending of model files that ``fit`` writes.
ENDING = ".dualpca"

#: The notes that ``fit`` writes into a model file.
NOTES = {
    **{"source": str, "rows": int, "ids": list, "label": str},
    **{"left_out": list, "dropped_rows": int},
}


class NotedModel(FittedModel):
    """A fitted model, the notes of its file, and the exit code: whether it reached ``--tol``."""

    def __init__(self, model: Any, notes: dict[str, Any], missed_tol: bool = False) -> None:
        super().__init__(model)
        self.notes, self.exit_code = notes, MISSED_TOL if missed_tol else OK
        if self.input_names is None:  # columns of a file are counted from 1
            self.feature_names = [f"x{j + 1}" for j in range(self.n_features)]

    @property
    def imputes(self) -> bool:
        """Whether missing cells are filled before the estimator."""
        return self.preprocessor is not None and self.preprocessor.fill_ is not None


def is_model(path: str) -> bool:
    """Return whether a file is a model rather than data."""
    if path == "-" or not Path(path).is_file():
        return False
    if path.endswith(ENDING):
        return True
    try:
        read_header(path)
    except (ModelFileError, OSError):
        return False
    return True


def open_model(path: str) -> NotedModel:
    """Return a model from its file."""
    if path == "-":
        raise RefusedError("a model cannot be read from a pipe; give its file")
    if not is_model(path):
        reason = " is no model of dualpca" if Path(path).is_file() else ": there is no such file"
        raise ModelFileError(f"{path}{reason}; `dualpca fit DATA` writes one")
    model, notes = load(path), read_header(path)["notes"]
    for name, kind in NOTES.items():
        value = notes.get(name)
        texts = not isinstance(value, list) or all(isinstance(text, str) for text in value)
        if value is not None and not (type(value) is kind and texts):
            raise ModelFileError(
                f"{path} has {name} {shown(value)} among its notes, which `dualpca fit` does not "
                "write; save the model without that note"
            )
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [None, model]
    layout = len(steps) == 2 and isinstance(steps[0], (Preprocessor, type(None)))
    fitted = hasattr(steps[-1], "explained_variance_ratio_")
    if not (layout and isinstance(steps[-1], ESTIMATORS) and fitted):
        raise ModelFileError(
            f"{path} holds a {type(model).__name__}; the command line takes fitted models of PCA, "
            "alone or behind a Preprocessor: load it in Python"
        )
    return NotedModel(model, notes)


def open_table(
    path: str,
    options: ReadOptions,
    watch: Watch | None,
    quiet: bool,
    model: NotedModel | None = None,
) -> Table:
    """Return the rows of a file, with the columns of the model if there is one."""
    keep, drop = _split(options.keep), _split(options.drop)
    names = None if model is None else model.input_names
    impute = options.missing is Missing.impute
    if model is not None:
        if keep or drop:
            raise RefusedError(
                "--keep and --drop belong to fit; the model takes the columns it was fitted on"
            )
        if impute and not model.imputes:
            raise RefusedError(
                "the model was fitted without --missing impute; drop the rows, or fit it so"
            )
        impute = model.imputes
    columns = Columns(
        keep=keep if names is None else names,
        drop=drop or (),
        ids=_split(options.id),  # type: ignore[arg-type]
        likely_ids=() if model is None else model.notes.get("ids", ()),
        label=options.label,
        exact=names is not None,
    )
    drops = options.missing is Missing.drop
    table = read(
        path,
        format=options.format,
        key=options.key,
        columns=columns,
        missing="drop" if drops else "keep" if impute else "refuse",
        delimiter="\t" if options.delimiter in ("\\t", "tab") else options.delimiter,
        decimal=options.decimal,
        na_values=[*NA_VALUES, *(options.na or ())],
        header="auto" if options.header is None else options.header,
        memory=options.memory * 2**20,
        unpacked=options.unpacked * 2**20,
        dtype=None if options.dtype is None else str(options.dtype),
        on_rows=None if watch is None else watch.reading,
    )
    if watch is not None:
        watch.phase("fitting" if model is None else "working")
    notes = list(table.notes)
    if impute and table.n_missing:
        notes.append(f"{table.n_missing:,} missing cells are filled with medians of their columns")
    if model is not None and names is None:
        width = model.model.n_features_in_
        if table.X.shape[1] != width:
            raise TableError(
                f"{path} has {table.X.shape[1]} columns of numbers where the model has {width} "
                "features without names; give a file with the columns of the fit"
            )
        if table.names is not None:
            notes.append(
                "the model has no names of columns; those of the file are taken in their order"
            )
    for note in [] if quiet else notes:
        stderr_line(note)
    return table


def _split(given: list[str] | None) -> list[str] | None:
    """Return names that were given one by one or with commas between them."""
    return None if not given else [name for text in given for name in text.split(",") if name]


def repeat_command(path: str, options: ReadOptions) -> str:
    """Return the words of a command line that read the same rows again for a model."""
    words = [path]
    for field in fields(options):
        given = getattr(options, field.name)
        of_fit = field.name in ("keep", "drop", "id", "label") or given is Missing.impute
        if given == field.default or of_fit:
            continue
        if isinstance(given, bool):
            words.append(f"--{field.name}" if given else f"--no-{field.name}")
        else:
            for value in given if isinstance(given, list) else [given]:
                words += [f"--{field.name}", str(value)]
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
