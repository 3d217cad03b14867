"""The command line: ``dualpca reproduce NAME``; it needs ``pip install 'dualpca[cli]'``."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line with these arguments, by default those of the process."""
    try:
        app = _app()
    except ImportError as error:
        sys.exit(f"dualpca: {error.name} is missing; pip install 'dualpca[cli]'")
    app(arguments, prog_name="dualpca")


def _app() -> Any:
    """The typer application, made here so that ``import dualpca.cli`` needs no typer."""
    import rich  # noqa: F401
    import typer

    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

    @app.callback()
    def dualpca() -> None:
        """Principal component analysis through difference-of-convex duality."""

    @app.command()
    def reproduce(
        names: Annotated[
            list[str], typer.Argument(metavar="NAME...", help="Experiments of the paper, or all.")
        ],
        quick: Annotated[
            bool, typer.Option("--quick", help="Reduced sizes, no data sets needed.")
        ] = False,
        docs: Annotated[bool, typer.Option("--docs", help="Write docs/reproduction.md.")] = False,
        data: Annotated[
            Path | None, typer.Option(help="Folder of data sets; DUALPCA_DATA by default.")
        ] = None,
        results: Annotated[
            Path | None, typer.Option(help="Where results go; results/reproduce by default.")
        ] = None,
        fresh: Annotated[
            bool, typer.Option("--fresh", help="Run again what is already there.")
        ] = False,
    ) -> None:
        """Run experiments of the paper, published numbers beside ours.

        An interrupted run goes on where it stopped.
        """
        if docs and quick:
            _fail("--docs writes the page from full results; drop --quick")
        if data is not None and not data.is_dir():
            _fail(f"--data {data} is not a folder; give one with mnist.npz and glove50_100k.npz")
        experiments = _experiments()
        for name in names:
            if name not in ("all", *experiments.NAMES):
                _fail(f"no experiment {name!r}; choose from {', '.join(experiments.NAMES)}, all")
        options = {"quick": quick, "docs": docs, "data": data, "results": results, "fresh": fresh}
        try:
            ok = experiments.reproduce(names, **options)
        except KeyboardInterrupt:
            sys.stderr.write(
                "\ninterrupted; the same command, without --fresh, goes on from here\n"
            )
            raise typer.Exit(130) from None
        raise typer.Exit(0 if ok else 1)

    def _fail(message: str) -> None:
        sys.stderr.write(f"dualpca: {message}\n")
        raise typer.Exit(2)

    return app


def _experiments() -> Any:
    """The module experiments.reproduce, from a checkout around this package or around here."""
    import dualpca

    for root in (Path(dualpca.__file__).resolve().parents[2], Path.cwd()):
        if (root / "experiments" / "reproduce.py").is_file():
            sys.path.insert(0, str(root))
            return import_module("experiments.reproduce")
    sys.exit(
        "dualpca: the experiments are not part of the installed package; "
        "run the command in a checkout of the repository"
    )
