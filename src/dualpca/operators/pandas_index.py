"""The index of a pandas data frame in Arrow or Parquet: it names rows and is no data."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

#: So pandas names the columns of an index that has no name.
UNNAMED = "__index_level_"


class Counted(NamedTuple):
    """An index that counts, of which pandas writes start and step only."""

    name: str
    values: range


def index_of(schema: Any, rows: int | None = None) -> tuple[list[str], Counted | None]:
    """The columns that are levels of the index; a counted index, where it has a name.

    What is not as pandas writes it, or does not fit the columns and rows, is passed over.
    """
    names = set(schema.names)
    try:
        entries = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        levels = [entry for entry in entries if isinstance(entry, str) and entry in names]
        counted = _counted(entries[0], rows) if len(entries) == 1 and not levels else None
    except (ValueError, TypeError, LookupError, RecursionError):
        levels, counted = [], None
    others = (name for name in schema.names if name.startswith(UNNAMED))
    levels = list(dict.fromkeys([*levels, *others]))
    return levels, None if levels else counted


def _counted(entry: dict[str, Any], rows: int | None) -> Counted | None:
    start, stop, step = (entry[key] for key in ("start", "stop", "step"))
    if any(type(n) is not int or abs(n) >= 2**62 for n in (start, stop, step)):
        return None
    values, name = range(start, stop, step), entry["name"]
    return None if name is None or len(values) != rows else Counted(str(name), values)
