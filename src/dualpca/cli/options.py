"""Options that commands share: groups of them are dataclasses, spread out in the signature."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer


class Method(StrEnum):
    """Which estimator."""

    robust = "robust"
    plain = "plain"
    kernel = "kernel"
    robust_kernel = "robust-kernel"
    sparse = "sparse"


class Scale(StrEnum):
    """What columns are divided by."""

    none = "none"
    standard = "standard"
    robust = "robust"


class Missing(StrEnum):
    """What happens to missing cells."""

    refuse = "refuse"
    drop = "drop"
    impute = "impute"


class Approximation(StrEnum):
    """Features instead of the kernel matrix."""

    none = "none"
    nystroem = "nystroem"
    rff = "rff"
    orf = "orf"


class Number(StrEnum):
    """The precision of the numbers."""

    float32 = "float32"
    float64 = "float64"


COLUMNS, FILES, MODEL = "Columns and cells", "Files", "Model"


@dataclasses.dataclass
class ReadOptions:
    """How the data is read."""

    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns to analyse: names, numbers from 1, ranges (3-10, x1:x9), patterns (pixel*);"
            " more than one with commas or by repeating.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option(help="Columns to leave out.", rich_help_panel=COLUMNS)
    ] = None
    id: Annotated[
        list[str] | None,
        typer.Option(
            help="The column that names the rows; the first column of text by default.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    label: Annotated[
        str | None, typer.Option(help="A column of labels for the rows.", rich_help_panel=COLUMNS)
    ] = None
    missing: Annotated[
        Missing,
        typer.Option(
            help="Missing cells: refuse them, drop their rows, or impute medians.",
            rich_help_panel=COLUMNS,
        ),
    ] = Missing.refuse
    na: Annotated[
        list[str] | None,
        typer.Option(
            help="Text that stands for a missing cell, besides NA and the like.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    format: Annotated[
        str | None,
        typer.Option(
            help="csv, tsv, parquet, arrow, npy, npz, mtx, h5ad, hdf5 or zarr; by default from the"
            " extension.",
            rich_help_panel=FILES,
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(help="Which array of an npz, HDF5 or zarr file.", rich_help_panel=FILES),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(help="Of a text file; found out by default.", rich_help_panel=FILES),
    ] = None
    decimal: Annotated[
        str | None, typer.Option(help="The decimal sign of a text file.", rich_help_panel=FILES)
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line has the names; found out by default.",
            rich_help_panel=FILES,
        ),
    ] = None
    memory: Annotated[
        int,
        typer.Option(
            min=1,
            help="Megabytes of numbers to hold; larger files are streamed.",
            rich_help_panel=FILES,
        ),
    ] = 256
    unpacked: Annotated[
        int,
        typer.Option(
            min=1,
            help="Megabytes that a chunk or array may unpack to, however small its file.",
            rich_help_panel=FILES,
        ),
    ] = 256
    dtype: Annotated[
        Number | None,
        typer.Option(help="The precision; by default that of the file.", rich_help_panel=FILES),
    ] = None


@dataclasses.dataclass
class FitOptions:
    """What is fitted."""

    method: Annotated[
        Method, typer.Option("--method", "-m", help="The estimator.", rich_help_panel=MODEL)
    ] = Method.robust
    components: Annotated[
        str,
        typer.Option(
            "--components",
            "-n",
            help="A number, a fraction of the variance (0.9), or auto: the fewest that hold 80 % of"
            " the robust variance, at most 10.",
            rich_help_panel=MODEL,
        ),
    ] = "auto"
    scale: Annotated[
        Scale,
        typer.Option(help="Divide columns by their spread first.", rich_help_panel=MODEL),
    ] = Scale.none
    tol: Annotated[
        float | None,
        typer.Option(min=0.0, help="The relative residual to reach.", rich_help_panel=MODEL),
    ] = None
    quantile: Annotated[
        float | None,
        typer.Option(
            help="Robust: rows beyond this quantile of the distances of good rows are flagged; 0.999"
            " by default.",
            rich_help_panel=MODEL,
        ),
    ] = None
    nonzero: Annotated[
        str | None,
        typer.Option(
            help="Sparse: nonzero loadings of a component, a number or a fraction; 0.25 by default.",
            rich_help_panel=MODEL,
        ),
    ] = None
    kernel: Annotated[
        str | None,
        typer.Option(
            help="Kernel: rbf (by default), linear, poly, laplacian, sigmoid, cosine, ...",
            rich_help_panel=MODEL,
        ),
    ] = None
    gamma: Annotated[
        str | None,
        typer.Option(help="Kernel: a number, median (by default) or scale.", rich_help_panel=MODEL),
    ] = None
    approximation: Annotated[
        Approximation | None,
        typer.Option(
            help="Kernel: landmarks or random features, for many rows.", rich_help_panel=MODEL
        ),
    ] = None
    seed: Annotated[
        int, typer.Option(min=0, help="Of all that is random.", rich_help_panel=MODEL)
    ] = 0


#: Options that single commands have in common.
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that are there.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write.")]
Source = Annotated[str, typer.Argument(metavar="DATA|MODEL", show_default=False)]


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the fields of its dataclass parameters as parameters of their own."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {
        n: kind for n, kind in hints.items() if dataclasses.is_dataclass(kind)
    }
    parameters, fields = [], {}
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name not in groups:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        kind = groups[parameter.name]
        types = get_type_hints(kind, include_extras=True)
        fields[parameter.name] = [field.name for field in dataclasses.fields(kind)]
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=types[field.name],
            )
            for field in dataclasses.fields(kind)
        ]

    @functools.wraps(command)
    def spread(**given: Any) -> Any:
        for group, names in fields.items():
            given[group] = groups[group](**{name: given.pop(name) for name in names})
        return command(**given)

    as_keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    spread.__signature__ = inspect.Signature(as_keywords)  # type: ignore[attr-defined]
    spread.__annotations__ = {p.name: p.annotation for p in as_keywords}
    del spread.__wrapped__  # type: ignore[attr-defined]
    return spread
