"""What commands begin with."""

from __future__ import annotations

from pathlib import Path

from ..io.tables import Table, TableError, Writer
from . import work
from .options import FitOptions, ReadOptions
from .run import RefusedError
from .watch import watching


def writer_of(path: Path, force: bool) -> Writer:
    """A writer of a table, refused before any work where it cannot be."""
    try:
        return Writer(path, overwrite=force)
    except TableError as error:
        raise RefusedError(str(error)) from error


def fitted_data(
    data: str, read: ReadOptions, model: FitOptions, quiet: bool
) -> tuple[work.Fitted, Table]:
    with watching(quiet) as watch:
        table = work.open_table(data, read, watch, quiet)
        return work.fit(table, read, model, data), table
