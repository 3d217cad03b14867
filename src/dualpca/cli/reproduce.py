"""``dualpca reproduce``: the experiments of the paper, from a checkout."""

# ruff: noqa: RUF009 - the defaults are fields, which `option` makes

import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import grouped, option
from .run import BUG, INTERRUPTED, OK, RefusedError

#: The experiments of the paper, in the order of the page.
NAMES = (
    *("theory", "table-comp", "fig-scaling-s", "fig-scaling-d", "table-high-accuracy"),
    *("table-spectra", "table-mnist", "table-glove", "table-additional", "fig-tolerance"),
    *("table-robust-reconstruction", "table-robust-accuracy", "table-pcp"),
)


@dataclass
class ReproduceOptions:
    """How the experiments run."""

    quick: bool = option(
        False,
        "Reduced sizes, one run of at most 0.4 s where the paper has 5 s, no data sets needed.",
        "--quick",
    )
    docs: bool = option(False, "Write the raw results and docs/reproduction.md.", "--docs")
    from_raw: bool = option(False, "Write docs/reproduction.md from raw results.", "--from-raw")
    data: Path | None = option(None, "Folder of data sets; DUALPCA_DATA by default.")
    results: Path | None = option(None, "Where results go; results/reproduce by default.")
    fresh: bool = option(False, "Run again what is already there.", "--fresh")


@grouped
def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help=f"Experiments of the paper: {', '.join(NAMES)}; or all."
        ),
    ],
    options: ReproduceOptions,
) -> int:
    """Run experiments of the paper, published numbers beside ours.

    An interrupted run goes on where it stopped.
    """
    if options.docs and options.quick:
        raise RefusedError("--docs writes the page from full results; drop --quick")
    if options.data is not None and not options.data.is_dir():
        raise RefusedError(
            f"--data {options.data} is not a folder; give one with mnist.npz and glove50_100k.npz"
        )
    for name in names:
        if name not in ("all", *NAMES):
            raise RefusedError(f"no experiment {name!r}; choose from {', '.join(NAMES)}, all")
    if options.from_raw and (names != ["all"] or options.quick or options.fresh):
        raise RefusedError("--from-raw is for all; use 'dualpca reproduce all --from-raw'")
    experiments = _experiments()
    if options.from_raw:
        raw = experiments.ROOT / experiments.RAW
        if not raw.is_file():
            raise RefusedError(f"there is no {raw}; 'dualpca reproduce all --docs' writes it")
        experiments.from_raw()
        return OK
    given = asdict(options)
    del given["from_raw"]
    try:
        return OK if experiments.reproduce(names, **given) else BUG
    except KeyboardInterrupt:
        raise RefusedError(
            "interrupted; the same command, without --fresh, goes on from here", INTERRUPTED
        ) from None


def _experiments() -> Any:
    """Return the module experiments.reproduce of a checkout around this package or this folder."""
    import dualpca

    for root in (Path(dualpca.__file__).resolve().parents[2], Path.cwd()):
        if (root / "experiments" / "reproduce.py").is_file():
            sys.path.insert(0, str(root))
            return import_module("experiments.reproduce")
    raise RefusedError("the package has no experiments; run the command in a checkout", BUG)
