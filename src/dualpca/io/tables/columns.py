"""Which columns of a table are numbers to analyse, names of rows, or labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice

from .table import LONG, TableError, counted, listed, shown


@dataclass(frozen=True)
class Columns:
    """Which columns to read, and as what.

    Columns are chosen by name, by number from 1 ("3"), by range ("3-10" or "x1:x9") and by pattern
    ("pixel*"); a name that is one of the file's is never taken for anything else.

    Parameters
    ----------
    keep : sequence of str, optional
        Read only these, in the order of the file; all columns of numbers by default.
    drop : sequence of str
        Leave these out.
    ids : str or sequence of str, optional
        The columns that name the rows, joined by "/" where there are several. By default the
        first column of text; ``()`` for none.
    likely_ids : sequence of str
        Names of columns that name the rows, such as those of an earlier file: taken where ``ids`` is
        None and the file has them.
    label : str, optional
        The column with a label for each row.
    exact : bool
        ``keep`` are the names of a model's features: read exactly these columns, in this order. A
        file without names has to have as many columns.
    """

    keep: Sequence[str] | None = None
    drop: Sequence[str] = ()
    ids: str | Sequence[str] | None = None
    likely_ids: Sequence[str] = ()
    label: str | None = None
    exact: bool = False


@dataclass
class Header:
    """The columns of a file.

    ``named``: the names come from the file. ``shown``: generated names (x1, x2, ...) are worth printing.
    ``text``, ``empty``: columns without numbers, without cells. ``opaque``: columns of ``text``, such as
    lists, that cannot name rows. ``rows``: the names of the columns that describe rows, where a file
    keeps them elsewhere. ``index``: the columns, among ``rows`` if it is set, that name the rows.
    """

    names: list[str]
    named: bool = True
    shown: bool = True
    text: frozenset[int] = frozenset()
    index: int | tuple[int, ...] | None = None
    rows: Sequence[str] | None = None
    empty: frozenset[int] = frozenset()
    opaque: frozenset[int] = frozenset()

    @property
    def levels(self) -> tuple[int, ...]:
        """The columns of the index, of which pandas may have several."""
        return (self.index,) if isinstance(self.index, int) else self.index or ()


@dataclass
class Choice:
    """Numbers of columns: features in order, and ids and label, which count in ``rows`` if it is set."""

    features: list[int]
    names: list[str] | None
    ids: list[int] = field(default_factory=list)
    label: int | None = None
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    exact: bool = False


def unnamed(number: int) -> list[str]:
    """Return names for columns that have none: x1, x2, ..."""
    return [f"x{j + 1}" for j in range(number)]


def choose(header: Header, columns: Columns) -> Choice:
    """Return the columns of the file that were asked for."""
    row_names = header.names if header.rows is None else list(header.rows)
    ids = [] if columns.ids is None else _find(_several(columns.ids), row_names)
    label = None if columns.label is None else _one(columns.label, row_names)
    dropped = set(_find(_several(columns.drop), header.names))
    reserved = set() if header.rows is not None else {*ids, *([] if label is None else [label])}
    choice = Choice([], None, ids, label)
    if columns.ids is None:
        likely = [row_names.index(name) for name in columns.likely_ids if name in row_names]
        taken = reserved | dropped | _kept_levels(header, columns)
        choice.ids = likely or _default_ids(header, taken)
        reserved |= set(choice.ids) if header.rows is None else set()
    if columns.exact and columns.keep is not None:
        choice.exact = True
        _exactly(header, list(columns.keep), reserved, choice)
    else:
        _features(header, columns, reserved, dropped, choice)
    if choice.ids and columns.ids is None and header.rows is None:
        names = [shown(header.names[j]) for j in choice.ids]
        plural = "the columns {}, which are" if len(names) > 1 else "column {}, which is"
        subject = plural.format(" and ".join(names))
        choice.notes.insert(0, f"rows are named by {subject} not analysed")
    return choice


def _kept_levels(header: Header, columns: Columns) -> set[int]:
    """Return the columns of the index that the user keeps by name, and so takes for data."""
    if header.rows is not None:
        return set()
    return {j for j in header.levels if header.names[j] in _several(columns.keep or ())}


def _default_ids(header: Header, taken: set[int]) -> list[int]:
    """Return the columns that name the rows where the user does not say."""
    if header.rows is not None:
        return list(header.levels)
    free = [j for j in header.levels if j not in taken | header.opaque]
    others = header.text - header.opaque - taken - set(header.levels)
    return free or sorted(others)[:1]


def _features(
    header: Header, columns: Columns, reserved: set[int], dropped: set[int], choice: Choice
) -> None:
    names, wanted = header.names, _several(columns.keep or ())
    where = {name: j for j, name in enumerate(names)}
    kept = list(range(len(names))) if columns.keep is None else sorted(set(_find(wanted, names)))
    index = set(header.levels) if header.rows is None else set()
    unread = reserved | dropped | (index - _kept_levels(header, columns)) | header.empty
    kept = [j for j in kept if j not in unread]
    for spec in wanted:
        hits = _match(spec, where)
        if len(hits) == 1 and hits[0] in header.text and hits[0] in kept:
            raise TableError(
                f"column {shown(names[hits[0]])} holds lists or records, not numbers; leave it out of "
                "--keep, or give a column for each of their parts"
                if hits[0] in header.opaque
                else f"column {shown(names[hits[0]])} is text, not numbers; leave it out of --keep, "
                "name it as --id or --label, or encode it as numbers"
            )
    choice.features = [j for j in kept if j not in header.text]
    choice.left_out = [names[j] for j in kept if j in header.text]
    plain = header.text - header.opaque
    for kind, odd in (("text columns", plain), ("columns of lists or records", header.opaque)):
        if left := [names[j] for j in kept if j in odd]:
            choice.notes.append(f"left out {kind}: {listed(left)}")
    if not choice.features:
        besides = f" besides text: {listed(choice.left_out)}" if choice.left_out else ""
        raise TableError(
            f"no column of numbers is left{besides}; see --keep, --drop, --delimiter and --decimal"
        )
    if header.shown or len(choice.features) < len(names):
        choice.names = [names[j] for j in choice.features]


def _exactly(header: Header, wanted: list[str], reserved: set[int], choice: Choice) -> None:
    where = {name: j for j, name in enumerate(header.names)}
    missing = [name for name in wanted if name not in where]
    choice.names = wanted
    if not missing:
        choice.features = [where[name] for name in wanted]
        text = [name for name in wanted if where[name] in header.text]
        if text:
            raise TableError(
                f"{listed(text)}: text here, numbers in the model; encode them as they were at fit"
            )
        return
    if header.named:
        close = _suggestion(missing[0], header.names)
        raise TableError(
            f"the model needs {counted(len(missing), 'column')} that the file does not have: "
            f"{listed(missing)};{close} rename or add what is missing"
        )
    numbers = [j for j in range(len(where)) if j not in reserved | header.text | header.empty]
    if len(numbers) != len(wanted):
        raise TableError(
            f"the file has {counted(len(numbers), 'column')} of numbers, without names, and the "
            f"model needs {len(wanted)}; give a file of the columns the model was fitted on"
        )
    choice.features = numbers
    choice.notes.append("the file has no names of columns; they are taken in their order")


def _several(specs: str | Sequence[str]) -> list[str]:
    return [specs] if isinstance(specs, str) else [str(spec) for spec in specs]


def _find(specs: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the numbers of the columns that the specifications choose, each once."""
    where = {name: j for j, name in enumerate(names)}
    return list(dict.fromkeys(j for spec in specs for j in _match(spec, where)))


def _one(spec: str, names: Sequence[str]) -> int:
    hits = _find([spec], names)
    if len(hits) != 1:
        raise TableError(f"{spec!r} stands for {len(hits)} columns as --label; name one")
    return hits[0]


def _match(spec: str, where: dict[str, int]) -> list[int]:
    """Return the columns that one specification chooses."""
    if spec in where:
        return [where[spec]]
    d = len(where)
    numbers = re.fullmatch(r"(\d+)(?:-(\d+))?", spec, re.ASCII)
    if numbers:
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if not 1 <= first <= last <= d:
            raise TableError(
                f"there is no column {spec}; there are {counted(d, 'column')}, counted from 1"
            )
        return list(range(first - 1, last))
    for cut in (at for at, sign in enumerate(spec) if sign == ":"):
        ends = spec[:cut], spec[cut + 1 :]
        if ends[0] in where and ends[1] in where:
            first, last = (where[end] for end in ends)
            if first > last:
                raise TableError(
                    f"{spec!r} is an empty range; {ends[1]!r} comes before {ends[0]!r}"
                )
            return list(range(first, last + 1))
    matches = [j for name, j in where.items() if fnmatchcase(name, spec)]
    if not matches:
        raise TableError(
            f"there is no column {spec!r};{_suggestion(spec, where)} the columns are {listed(where)}"
        )
    return matches


def _suggestion(name: str, names: Iterable[str]) -> str:
    if len(name) > LONG:  # comparing takes the product of the lengths
        return ""
    lower = {other.lower(): other for other in islice(names, 10_000) if len(other) <= LONG}
    close = [lower[other] for other in get_close_matches(name.lower(), list(lower), 3)]
    return f" did you mean {' or '.join(repr(other) for other in close)}?" if close else ""


def unique(names: Sequence[str], notes: list[str]) -> list[str]:
    """Fill in empty names and number repeated ones; notes say which."""
    taken, result, odd = set(names), dict[str, None](), []
    counts: dict[str, int] = {}
    for j, name in enumerate(names):
        base = new = name or f"x{j + 1}"
        while new in result or (new != name and new in taken):
            counts[base] = counts.get(base, 1) + 1
            new = f"{base}_{counts[base]}"
        if new != name:
            odd.append(f"{shown(name)} (column {j + 1}) is called {shown(new)}")
        result[new] = None
    if odd:
        notes.append(f"column names that were empty or repeated: {listed(odd, 4)}")
    return list(result)
