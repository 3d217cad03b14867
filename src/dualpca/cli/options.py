"""Options that commands share; a group of them is a dataclass."""

# ruff: noqa: RUF009 - the defaults are fields, which `option` makes

import dataclasses
import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..io.tables import NA_VALUES

Scale = StrEnum("Scale", ["auto", "none", "standard", "robust"])
Rotation = StrEnum("Rotation", ["varimax", "quartimax", "promax"])
Flag = StrEnum("Flag", ["density", "orthogonal", "score"])
Missing = StrEnum("Missing", ["refuse", "drop", "impute", "em", "shrink"])
Approximation = StrEnum("Approximation", ["none", "nystroem", "rff", "orf"])
Precision = StrEnum("Precision", ["float32", "float64"])
BadLines = StrEnum("BadLines", ["error", "skip"])
Format = StrEnum("Format", ["text", "csv", "jsonl"])

#: Rows for the first fit of a stream: so many, or so many for each column and one more, if that is more.
FIRST, FIRST_EACH = 100, 5


class Method(StrEnum):
    """The estimator of ``fit``."""

    robust = "robust"
    plain = "plain"
    kernel = "kernel"
    robust_kernel = "robust-kernel"
    sparse = "sparse"


def option(default: Any, help: str, *names: str, **more: Any) -> Any:
    """Return a field of a group of options; ``grouped`` makes an option of it."""
    metadata = {"option": typer.Option(*names, help=help, **more)}
    return dataclasses.field(default=default, metadata=metadata)


_column = functools.partial(option, rich_help_panel="Columns and cells")
_file = functools.partial(option, rich_help_panel="Files")
_model = functools.partial(option, rich_help_panel="Model")


@dataclasses.dataclass
class LineOptions:
    """Which columns rows of text have, and how they are written."""

    keep: list[str] | None = _column(
        None,
        "Columns to analyse: names, numbers from 1, ranges (3-10, x1:x9), patterns (pixel*);"
        " give several with commas between them, or repeat the option.",
    )
    drop: list[str] | None = _column(None, "Columns to leave out.")
    id: list[str] | None = _column(
        None,
        "The column that names the rows, or none; by default the first column of text, or one of"
        " integers that number the rows.",
    )
    na: list[str] | None = _column(None, "Text that is a missing cell, besides NA and the like.")
    delimiter: str | None = _file(None, "The delimiter of a text file; detected by default.")
    decimal: str | None = _file(None, "The decimal sign of a text file; detected by default.")
    thousands: str | None = _file(
        None, "The sign between groups of three digits; detected by default."
    )
    comment: str | None = _file(None, "Leave out lines that begin with this text.")
    skip: int = _file(0, "Leave out so many lines before the header.", min=0)
    header: bool | None = _file(
        None, "Whether the first line has the names; detected by default.", "--header/--no-header"
    )

    def of_text(self) -> dict[str, Any]:
        """Return how cells are written, as readers of tables take it."""
        return {
            "delimiter": "\t" if self.delimiter in ("\\t", "tab") else self.delimiter,
            "decimal": self.decimal,
            "thousands": self.thousands,
            "na_values": [*NA_VALUES, *(self.na or ())],
            "header": "auto" if self.header is None else self.header,
        }


@dataclasses.dataclass
class ReadOptions(LineOptions):
    """How the data is read."""

    label: str | None = _column(None, "A column of labels for the rows.")
    missing: Missing = _column(
        Missing.refuse,
        "Missing cells: refuse them, drop their rows, impute medians, or, plain and robust, complete"
        " them by the model: em, or shrink, which is steadier.",
    )
    format: str | None = _file(
        None,
        "csv, tsv, xlsx, jsonl, parquet, arrow, npy, npz, mtx, h5ad, hdf5 or zarr; by default from the"
        " extension.",
    )
    key: str | None = _file(None, "The array of an npz, HDF5 or zarr file, the sheet of an xlsx.")
    bad_lines: BadLines = _file(
        BadLines.error, "Lines with too many or too few cells: an error, or left out."
    )
    memory: int = _file(256, "Megabytes of numbers to hold; larger files are streamed.", min=1)
    unpacked: int = _file(256, "Megabytes that a chunk or array may unpack to in any case.", min=1)
    dtype: Precision | None = _file(None, "The precision of numbers; by default that of the file.")


@dataclasses.dataclass
class FitOptions:
    """What is fitted."""

    method: Method = _model(Method.robust, "The estimator.", "--method", "-m")
    components: str | None = _model(
        None,
        "A number, a fraction of the variance (0.9), auto: the fewest that hold 80 % of the robust"
        " variance, at most 10, outliers: as many as help to detect them, 95 %, which is the default of"
        " the robust methods, or a way to choose, plain and robust: parallel, gavish-donoho, profile,"
        " broken-stick, gcv, cv, and plain: mle.",
        *("--components", "-n"),
    )
    scale: Scale = _model(
        Scale.auto,
        "Divide columns by their spread first; auto is robust, and none for sparse data and pictures.",
    )
    rotation: Rotation | None = _model(
        None, "Plain, robust, sparse: turn the components, so that each has few large loadings."
    )
    cells: bool = _model(
        False,
        "Robust: single cells may be wrong or missing, and rows keep the others; `outliers` lists them."
        " Components are auto by default.",
        "--cells",
    )
    tol: float | None = _model(None, "The relative residual to reach.", min=0.0)
    quantile: float | None = _model(
        None,
        "Robust: rows beyond this quantile of the distances of good rows are flagged; 0.999 by default.",
    )
    flag: Flag | None = _model(
        None,
        "Robust: flag rows by their density (by default), or by their distance from the subspace"
        " (orthogonal) or within it (score) alone.",
    )
    nonzero: str | None = _model(
        None, "Sparse: nonzero loadings of a component, a number or a fraction; 0.25 by default."
    )
    kernel: str | None = _model(
        None, "Kernel: rbf (by default), linear, poly, laplacian, sigmoid, cosine, ..."
    )
    gamma: str | None = _model(None, "Kernel: a number, median (by default) or scale.")
    approximation: Approximation | None = _model(
        None, "Kernel: landmarks or random features, for many rows."
    )
    seed: int = _model(0, "The seed of all random choices.", min=0)


@dataclasses.dataclass
class FollowOptions:
    """What is fitted, printed and saved."""

    model: Path | None = option(
        None, "The file of the model: one that exists is continued. It is saved there.", "--model"
    )
    method: Method | None = option(None, "robust (by default) or plain.", "--method", "-m")
    components: str | None = option(
        None,
        "A number, a fraction of the variance, or a way to choose by the first rows; auto by default.",
        *("--components", "-n"),
    )
    forget: float | None = option(
        None, "A row counts half after so many others; by default none is forgotten."
    )
    scale: Scale | None = option(
        None, "Divide columns by their spread in the first rows: robust by default, standard, none."
    )
    missing: Missing | None = option(
        None,
        "Missing cells: complete them by the model, em (by default) or shrink, impute the medians of the"
        " first rows, or drop: measure and learn only rows without.",
    )
    quantile: float | None = option(
        None, "Robust: rows beyond this quantile of good rows are flagged; 0.999 by default."
    )
    first: int | None = option(
        None,
        f"Rows for the first fit; by default {FIRST}, or {FIRST_EACH} for each column and one more.",
        min=2,
    )
    batch: int = option(
        2000,
        "The most rows that one state of the model measures, if many wait: at most a quarter of those"
        " that it remembers.",
        min=1,
    )
    save_every: int = option(1000, "Save the model after so many rows, at the next pause.", min=1)
    until_end: bool = option(
        False, "End with the file, instead of waiting for more of it.", "--until-end", "--once"
    )
    format: Format | None = option(
        None,
        "text (by default on a terminal), csv (into a pipe) or jsonl, a JSON object in a line.",
    )
    flagged: bool = option(False, "Print only rows that are flagged or have an event.", "--flagged")
    why: bool = option(False, "Name the variables behind flags; text always does.", "--why")
    drift: float = option(
        10.0,
        "Announce that the components have turned by so many degrees, if chance does not.",
        min=0.0,
    )
    reports: int = option(20, "Report so many broken lines; others are counted.", min=0)
    seed: int = option(0, "The seed of all random choices.", min=0)
    quiet: bool = option(False, "Show no notes, but warnings and events.", "--quiet", "-q")

    def fit_options(self) -> FitOptions:
        """Return the options of a first fit."""
        return FitOptions(
            method=self.method or Method.robust,
            components=self.components or "auto",
            scale=self.scale or Scale.auto,
            quantile=self.quantile,
            seed=self.seed,
        )


@dataclasses.dataclass
class Flags:
    """How a command writes."""

    force: bool = option(False, "Replace existing files.", "--force", "-f")
    json: bool = option(False, "Print one JSON object, for machines.", "--json")
    quiet: bool = option(False, "Show neither progress nor notes.", "--quiet", "-q")

    @property
    def silent(self) -> bool:
        """Whether neither progress nor notes are shown."""
        return self.quiet or self.json


Force = Annotated[bool, typer.Option("--force", "-f", help="Replace existing files.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="The file to write.")]
Data = Annotated[str, typer.Argument(metavar="DATA", help="A file, or - for standard input.")]
Rows = Annotated[str | None, typer.Argument(metavar="[DATA]", help="Rows for the model.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A file that `dualpca fit` wrote.")]
Resamples = Annotated[
    int, typer.Option(min=0, help="Fit so many resamples of the rows, to see how stable it is.")
]
Source = Annotated[str, typer.Argument(metavar="DATA|MODEL", show_default=False)]


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the fields of its dataclass parameters as options of their own."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        parameter = parameter.replace(kind=parameter.KEYWORD_ONLY)
        if not dataclasses.is_dataclass(group):
            parameters.append(parameter)
            continue
        groups[parameter.name] = group
        for field in dataclasses.fields(group):
            kind: Any = Annotated[field.type, field.metadata["option"]]  # type: ignore[name-defined]
            single = parameter.replace(name=field.name, default=field.default, annotation=kind)
            parameters.append(single)

    def regrouped(**given: Any) -> Any:
        for name, kind in groups.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in dataclasses.fields(kind)})
        return command(**given)

    regrouped.__name__, regrouped.__doc__ = command.__name__, command.__doc__
    regrouped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    regrouped.__annotations__ = {p.name: p.annotation for p in parameters}
    return regrouped
