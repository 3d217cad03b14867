"""Rows as they are printed, block by block: columns for people, CSV, or a JSON object in each line."""

import json
import sys
from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np

from ..io.tables import Writer
from ..io.tables.table import joined, pa, pc, printable
from .options import Format

#: The most components of a line, and the most letters of the name of a row, for people.
COMPONENTS, LETTERS = 6, 24


class Emitter(AbstractContextManager["Emitter"]):
    """Print blocks of columns to standard output."""

    @abstractmethod
    def write(self, columns: dict[str, Any]) -> None:
        """Print rows: the same columns in each block, which may have no rows."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        """Do nothing: lines have no end."""


class CsvEmitter(Emitter):
    """CSV, with a header before the first block."""

    def __init__(self) -> None:
        self._writer = Writer("-")

    def __enter__(self) -> Self:
        self._writer.__enter__()
        return self

    def write(self, columns: dict[str, Any]) -> None:
        self._writer.write(columns)


class JsonEmitter(Emitter):
    """A JSON object in each line, with null for numbers that are missing."""

    def write(self, columns: dict[str, Any]) -> None:
        parts, before = [], "{"
        for name, values in columns.items():
            parts += [f"{before}{json.dumps(name)}:", _json_cells(values)]
            before = ","
        lines = joined(*parts, "}").to_pylist()
        sys.stdout.write("".join(f"{line}\n" for line in lines))


def _json_cells(values: Any) -> Any:
    if np.asarray(values).dtype.kind in "OU":
        return pa.array([json.dumps(value) for value in values], pa.large_string())
    cells = pa.array(np.ascontiguousarray(values))
    if pa.types.is_floating(cells.type):
        cells = pc.if_else(pc.is_finite(cells), cells, None)
    return pc.fill_null(cells.cast(pa.large_string()), "null")


class TextEmitter(Emitter):
    """Lines for people: names, some components, the two distances, and words about what is odd."""

    def __init__(self) -> None:
        self._width: int | None = None

    def write(self, columns: dict[str, Any]) -> None:
        ids = [printable(str(name)) for name in columns.get("id", ())]
        scores = [name for name in columns if name.startswith("pc")][:COMPONENTS]
        numbers = [*scores, "score_distance", "orthogonal_distance"]
        if self._width is None:
            self._width = min(max(map(len, ["id", *ids])), LETTERS) if "id" in columns else 0
            names = [*scores, "score dist", "orth dist"]
            head = f"{'row':>9}  {'id' if self._width else '':{self._width}}"
            sys.stdout.write(f"{head}{''.join(f'{name:>11}' for name in names)}\n")
        for i, row in enumerate(columns["row"]):
            name = ids[i] if ids else ""
            cells = "".join(f"{columns[n][i]:>11.4g}" for n in numbers).replace("nan", "  -")
            sys.stdout.write(f"{row:>9}  {name:{self._width}}{cells}{_words(columns, i)}\n")


def _words(columns: dict[str, Any], i: int) -> str:
    words = []
    if columns["outlier"][i]:
        words.append(f"outlier: {columns['variables'][i]}".removesuffix(": "))
    if columns["event"][i]:
        words.append(columns["event"][i])
    return f"  {printable('; '.join(words))}" if words else ""


EMITTERS: dict[Format, type[Emitter]] = {
    Format.text: TextEmitter,
    Format.csv: CsvEmitter,
    Format.jsonl: JsonEmitter,
}
