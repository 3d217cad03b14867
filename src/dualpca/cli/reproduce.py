"""``dualpca reproduce``: the experiments of the paper, from a checkout."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from .run import BUG, INTERRUPTED, OK, RefusedError

#: The experiments of the paper, in the order of the page.
NAMES = (
    "theory",
    "table-comp",
    "fig-scaling-s",
    "fig-scaling-d",
    "table-high-accuracy",
    "table-spectra",
    "table-mnist",
    "table-glove",
    "table-additional",
    "fig-tolerance",
    "table-robust-reconstruction",
    "table-robust-accuracy",
    "table-pcp",
)


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help=f"Experiments of the paper: {', '.join(NAMES)}; or all."
        ),
    ],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Reduced sizes, one run of at most 0.4 s where the paper has 5 s, no data sets needed.",
        ),
    ] = False,
    docs: Annotated[
        bool,
        typer.Option("--docs", help="Write the raw results and, from these, docs/reproduction.md."),
    ] = False,
    from_raw: Annotated[
        bool,
        typer.Option(
            "--from-raw", help="Write docs/reproduction.md from the raw results, without a run."
        ),
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder of data sets; DUALPCA_DATA by default.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Where results go; results/reproduce by default.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Run again what is already there.")
    ] = False,
) -> int:
    """Run experiments of the paper, published numbers beside ours.

    An interrupted run goes on where it stopped.
    """
    if docs and quick:
        raise RefusedError("--docs writes the page from full results; drop --quick")
    if data is not None and not data.is_dir():
        raise RefusedError(
            f"--data {data} is not a folder; give one with mnist.npz and glove50_100k.npz"
        )
    for name in names:
        if name not in ("all", *NAMES):
            raise RefusedError(f"no experiment {name!r}; choose from {', '.join(NAMES)}, all")
    if from_raw and (names != ["all"] or quick or fresh):
        raise RefusedError(
            "--from-raw runs nothing and writes the page of all experiments; "
            "use 'dualpca reproduce all --from-raw'"
        )
    experiments = _experiments()
    if from_raw:
        raw = experiments.ROOT / experiments.RAW
        if not raw.is_file():
            raise RefusedError(
                f"--from-raw found no {raw}; 'dualpca reproduce all --docs' writes it"
            )
        experiments.from_raw()
        return OK
    options = {"quick": quick, "docs": docs, "data": data, "results": results, "fresh": fresh}
    try:
        ok = experiments.reproduce(names, **options)
    except KeyboardInterrupt:
        raise RefusedError(
            "interrupted; the same command, without --fresh, goes on from here", INTERRUPTED
        ) from None
    return OK if ok else BUG


def _experiments() -> Any:
    """The module experiments.reproduce, from a checkout around this package or around here."""
    import dualpca

    for root in (Path(dualpca.__file__).resolve().parents[2], Path.cwd()):
        if (root / "experiments" / "reproduce.py").is_file():
            sys.path.insert(0, str(root))
            return import_module("experiments.reproduce")
    raise RefusedError(
        "the experiments are not part of the installed package; run the command in a checkout of the "
        "repository",
        BUG,
    )
