"""Models and tables that commands open."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from .. import PCA, KernelPCA, Preprocessor, RobustKernelPCA, RobustPCA, SparsePCA, load
from ..inspect import FittedModel
from ..io.models import ModelFileError, read_header
from ..io.tables import NA_VALUES, Columns, Table, Writer, read
from ..io.tables.read import EXTENSIONS
from ..io.tables.table import TableError, shown
from .options import Missing, ReadOptions
from .run import RefusedError, stderr_line
from .watch import Watch

#: The ending of model files that ``fit`` writes.
ENDING = ".dualpca"

#: The estimators that ``fit`` fits.
ESTIMATORS = (PCA, KernelPCA, RobustPCA, RobustKernelPCA, SparsePCA)

#: Rows are transformed in blocks of about so many numbers.
BLOCK = 2**20

#: The notes that ``fit`` writes into a model file.
NOTES = {
    **{"source": str, "rows": int, "ids": list, "label": str},
    **{"left_out": list, "dropped_rows": int},
}


class NotedModel(FittedModel):
    """A fitted model, the notes of its file, and whether it missed ``--tol``."""

    def __init__(self, model: Any, notes: dict[str, Any], missed_tol: bool = False) -> None:
        super().__init__(model)
        self.notes, self.missed_tol = notes, missed_tol
        if self.input_names is None:  # columns of a file are counted from 1
            self.feature_names = [f"x{j + 1}" for j in range(self.n_features)]

    @property
    def imputes(self) -> bool:
        """Whether missing cells are filled before the estimator."""
        return self.preprocessor is not None and self.preprocessor.fill_ is not None


def is_model(path: str) -> bool:
    """Return whether a file is a model rather than data."""
    place = Path(path)
    if path == "-" or not place.is_file():
        return False
    if place.suffix == ENDING:
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
    if not Path(path).is_file():
        raise ModelFileError(f"{path}: there is no such file; `dualpca fit DATA` writes one")
    if not is_model(path):
        raise ModelFileError(f"{path} is no model of dualpca; `dualpca fit DATA` writes one")
    model, notes = load(path), read_header(path)["notes"]
    for name, kind in NOTES.items():
        value = notes.get(name)
        texts = not isinstance(value, list) or all(isinstance(text, str) for text in value)
        if value is not None and not (type(value) is kind and texts):
            raise ModelFileError(
                f"{path} has {name} {shown(value)} among its notes, which `dualpca fit` writes as "
                f"{kind.__name__}; save the model without that note"
            )
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [None, model]
    layout = len(steps) == 2 and isinstance(steps[0], (Preprocessor, type(None)))
    fitted = hasattr(steps[-1], "explained_variance_ratio_")
    if not (layout and isinstance(steps[-1], ESTIMATORS) and fitted):
        raise ModelFileError(
            f"{path} holds a {_described(model)}; the command line takes fitted models of PCA, "
            "alone or behind a Preprocessor: load it in Python"
        )
    return NotedModel(model, notes)


def _described(model: Any) -> str:
    if isinstance(model, Pipeline):
        return f"pipeline of {', '.join(type(step).__name__ for _, step in model.steps)}"
    fitted = any(name.endswith("_") for name in vars(model))
    return f"{'' if fitted else 'not fitted '}{type(model).__name__}"


def open_table(
    path: str,
    options: ReadOptions,
    watch: Watch | None,
    quiet: bool,
    model: NotedModel | None = None,
) -> Table:
    """Return the rows of a file, with the columns of the model if there is one."""
    keep, drop = _several(options.keep), _several(options.drop)
    names = None if model is None else model.input_names
    asked = options.missing is Missing.impute
    if model is not None and (keep or drop):
        raise RefusedError(
            "--keep and --drop belong to fit; the model takes the columns it was fitted on"
        )
    if asked and model is not None and not model.imputes:
        raise RefusedError(
            "the model was fitted without --missing impute; drop the rows, or fit it so"
        )
    columns = Columns(
        keep=keep if names is None else names,
        drop=drop or (),
        ids=_several(options.id),  # type: ignore[arg-type]
        likely_ids=() if model is None else model.notes.get("ids", ()),
        label=options.label,
        exact=names is not None,
    )
    impute = asked or (model is not None and model.imputes)
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
    width = None if model is None else model.model.n_features_in_
    if width is not None and table.X.shape[1] != width:
        raise TableError(
            f"{path} has {table.X.shape[1]} columns of numbers where the model has {width} features "
            "without names; give a file with the columns of the fit"
        )
    notes = list(table.notes)
    if impute and table.n_missing:
        notes.append(f"{table.n_missing:,} missing cells are filled with medians of their columns")
    if model is not None and names is None and table.names is not None:
        notes.append(
            "the model has no names of columns; those of the file are taken in their order"
        )
    for note in [] if quiet else notes:
        stderr_line(note)
    return table


def _several(given: list[str] | None) -> list[str] | None:
    """Return names that were given one by one or with commas between them."""
    return None if not given else [name for text in given for name in text.split(",") if name]


def repeat_command(path: str, options: ReadOptions) -> str:
    """Return the words of a command line that read the same rows again."""
    words = [path]
    for name in ("format", "key", "delimiter", "decimal", "na"):
        given = getattr(options, name)
        for value in given if isinstance(given, list) else [given]:
            words += [] if value is None else [f"--{name}", value]
    if options.missing is Missing.drop:
        words += ["--missing", "drop"]
    if options.unpacked != ReadOptions.unpacked:
        words += ["--unpacked", str(options.unpacked)]
    if options.header is not None:
        words.append("--header" if options.header else "--no-header")
    return shlex.join(words)


def stem(path: str, otherwise: str) -> str:
    """Return the name of a file without the endings that tell its format."""
    name = otherwise if path == "-" else Path(path).name
    while (place := Path(name)).suffix.lower()[1:] in {*EXTENSIONS, "gz", "bz2", ENDING[1:]}:
        name = place.stem
    return name


def row_blocks(X: Any) -> Iterator[tuple[int, Any]]:
    """Yield the first row number and the rows of each block."""
    if hasattr(X, "read_blocks"):
        for rows, block in X.read_blocks():
            yield rows.start, block
        return
    step = max(1, BLOCK // X.shape[1])
    for start in range(0, X.shape[0], step):
        yield start, X[start : start + step]


def table_writer(path: Path, force: bool) -> Writer:
    """Return a writer of a table; refuse a path that it cannot write before any work is done."""
    try:
        return Writer(path, overwrite=force)
    except TableError as error:
        raise RefusedError(str(error)) from error
