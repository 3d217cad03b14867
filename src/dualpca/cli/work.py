"""What commands do with data and models, apart from showing it."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from .. import PCA, KernelPCA, Preprocessor, RobustKernelPCA, RobustPCA, SparsePCA, load
from ..io.models import ModelFileError, read_header
from ..io.tables import NA_VALUES, Columns, Table, Writer, read
from ..io.tables.read import EXTENSIONS
from ..io.tables.table import TableError, shown
from .estimator import checked, sized
from .options import FitOptions, Missing, ReadOptions
from .run import RefusedError, tell
from .watch import Watch

#: The ending of model files that ``fit`` writes.
ENDING = ".dualpca"

#: What ``fit`` fits.
MODELS = (PCA, KernelPCA, RobustPCA, RobustKernelPCA, SparsePCA)

#: Rows are transformed in blocks of about so many numbers.
BLOCK = 2**20


#: The notes that ``fit`` writes into a model file.
NOTES = {
    "source": str,
    "rows": int,
    "ids": list,
    "label": str,
    "left_out": list,
    "dropped_rows": int,
}


@dataclass
class Fitted:
    """A model, what is known of it beside it, and whether it fell short of ``--tol``."""

    model: Any
    notes: dict[str, Any] = field(default_factory=dict)
    short: bool = False

    @property
    def estimator(self) -> Any:
        """The model without its preprocessing."""
        return self.model[-1] if isinstance(self.model, Pipeline) else self.model

    @property
    def names(self) -> list[str] | None:
        names = getattr(self.model, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    @property
    def preprocessor(self) -> Any:
        """What comes before the estimator, or None."""
        return self.model[0] if isinstance(self.model, Pipeline) else None

    @property
    def imputes(self) -> bool:
        return self.preprocessor is not None and self.preprocessor.fill_ is not None

    @property
    def flags(self) -> bool:
        return hasattr(self.estimator, "outliers_")

    def prepared(self, X: Any) -> Any:
        """Rows as the estimator sees them."""
        return X if self.preprocessor is None else self.preprocessor.transform(X)


def is_model(path: str) -> bool:
    """Whether a file is a model rather than data."""
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


def open_model(path: str) -> Fitted:
    """A model from its file."""
    if path == "-":
        raise RefusedError("a model cannot be read from a pipe; give its file")
    if not Path(path).is_file():
        raise ModelFileError(f"{path}: there is no such file; `dualpca fit DATA` writes one")
    if not is_model(path):
        raise ModelFileError(f"{path} is no model of dualpca; `dualpca fit DATA` writes one")
    fitted = Fitted(load(path), read_header(path)["notes"])
    for name, kind in NOTES.items():
        value = fitted.notes.get(name)
        texts = not isinstance(value, list) or all(isinstance(text, str) for text in value)
        if value is not None and not (type(value) is kind and texts):
            raise ModelFileError(
                f"{path} has {name} {shown(value)} among its notes, which `dualpca fit` writes as "
                f"{kind.__name__}; save the model without that note"
            )
    steps = [step for _, step in fitted.model.steps] if fitted.preprocessor is not None else []
    layout = not steps or (len(steps) == 2 and isinstance(steps[0], Preprocessor))
    model = fitted.estimator
    if not (layout and isinstance(model, MODELS) and hasattr(model, "explained_variance_ratio_")):
        raise ModelFileError(
            f"{path} holds a {_described(fitted.model)}; the command line takes fitted models of PCA, "
            "alone or behind a Preprocessor: load it in Python"
        )
    return fitted


def _described(model: Any) -> str:
    if isinstance(model, Pipeline):
        return f"pipeline of {', '.join(type(step).__name__ for _, step in model.steps)}"
    fitted = any(name.endswith("_") for name in vars(model))
    return f"{'' if fitted else 'not fitted '}{type(model).__name__}"


def open_table(
    path: str, options: ReadOptions, watch: Watch | None, quiet: bool, model: Fitted | None = None
) -> Table:
    """The rows of a file; of a model's features where there is one."""
    keep, drop = _several(options.keep), _several(options.drop)
    ids: Any = _several(options.id)
    names = None if model is None else model.names
    if model is not None and (keep or drop):
        raise RefusedError(
            "--keep and --drop belong to fit; the model takes the columns it was fitted on"
        )
    if model is not None and names is not None:
        keep = names
    columns = Columns(
        keep=keep,
        drop=drop or (),
        ids=ids,
        likely_ids=() if model is None else model.notes.get("ids", ()),
        label=options.label,
        exact=names is not None,
    )
    impute = options.missing is Missing.impute or (model is not None and model.imputes)
    if options.missing is Missing.impute and model is not None and not model.imputes:
        raise RefusedError(
            "the model was fitted without --missing impute; drop the rows, or fit it so"
        )
    drops = options.missing is Missing.drop
    table = read(
        path,
        format=options.format,
        key=options.key,
        columns=columns,
        missing="drop" if drops else "keep" if impute else "refuse",
        delimiter=_unescaped(options.delimiter),
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
        tell(note)
    return table


def again(path: str, options: ReadOptions) -> str:
    """The file and the options that it is read with, for a command line."""
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


def _several(given: list[str] | None) -> list[str] | None:
    """Names that were given apart or with commas between them."""
    return None if not given else [name for text in given for name in text.split(",") if name]


def _unescaped(delimiter: str | None) -> str | None:
    return "\t" if delimiter in ("\\t", "tab") else delimiter


def fit(table: Table, read_options: ReadOptions, options: FitOptions, source: str) -> Fitted:
    """The model of a table, with the notes that go into its file."""
    X = table.X
    if X.shape[0] < 2:
        raise TableError(f"{source} has one row of numbers; components need two at least")
    prepare = None
    impute = read_options.missing is Missing.impute
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if impute or options.scale != "none":
            prepare = Preprocessor(str(options.scale), "impute" if impute else "refuse").fit(X)
            X = prepare.transform(X)
        estimator = sized(checked(options), X).fit(X)
    for warning in caught:
        tell(f"warning: {warning.message}")
    model = estimator
    if prepare is not None:
        model = Pipeline([("preprocessor", prepare), ("model", estimator)])
    if table.names is not None:
        first = prepare if prepare is not None else estimator
        first.feature_names_in_ = np.asarray(table.names, dtype=object)
    notes = {
        "source": "standard input" if source == "-" else Path(source).name,
        "rows": int(table.X.shape[0]),
        "ids": list(table.id_columns),
        "label": table.label_column,
        "left_out": list(table.left_out),
        "dropped_rows": int(table.n_dropped),
    }
    short = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    return Fitted(model, notes, short)


def stem(path: str, otherwise: str) -> str:
    """The name of a file without the endings that tell its format."""
    if path == "-":
        return otherwise
    name = Path(path).name
    while (place := Path(name)).suffix.lower()[1:] in {*EXTENSIONS, "gz", "bz2", ENDING[1:]}:
        name = place.stem
    return name


def blocks_of(X: Any) -> Iterator[tuple[int, Any]]:
    """The first row and the rows of each block, one after the other."""
    if hasattr(X, "blocks"):
        for rows, block in X.read_blocks():
            yield rows.start, block
        return
    step = max(1, BLOCK // X.shape[1])
    for start in range(0, X.shape[0], step):
        yield start, X[start : start + step]


def write_scores(writer: Writer, fitted: Fitted, table: Table, path: Path, distances: bool) -> None:
    """Scores block by block, with what names the rows (not in npy), and distances if asked for."""
    named = path.suffix != ".npy"
    for start, rows in blocks_of(table.X):
        found = _row_columns(table, start, rows.shape[0]) if named else {}
        scores = np.asarray(fitted.model.transform(rows))
        found |= {f"pc{j + 1}": scores[:, j] for j in range(scores.shape[1])}
        if distances:
            found |= measured(fitted, rows)
        writer.write(found)


def _row_columns(table: Table, start: int, count: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if table.ids is None:
        found["row"] = table.in_file(np.arange(start, start + count))
    else:
        found["id"] = table.ids[start : start + count]
    if table.labels is not None:
        found["label"] = table.labels[start : start + count]
    return found


def measured(fitted: Fitted, rows: Any) -> dict[str, Any]:
    """Both distances of rows, and whether they are flagged."""
    score, orthogonal = fitted.estimator.distances(fitted.prepared(rows))
    flagged = fitted.estimator._normality_of(score, orthogonal) < fitted.estimator.offset_
    return {
        "score_distance": np.asarray(score),
        "orthogonal_distance": np.asarray(orthogonal),
        "outlier": np.asarray(flagged).astype(np.int64),
    }
