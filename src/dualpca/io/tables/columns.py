"""The columns of an open file, and which of them are numbers to analyse, names of rows, or labels."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

import numpy as np

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
    index: tuple[int, ...] = ()
    rows: list[str] | None = None
    empty: frozenset[int] = frozenset()
    opaque: frozenset[int] = frozenset()


class Source(ABC):
    """A file that is open: its ``header``, its number of ``rows`` if known, ``notes`` for the user."""

    header: Header
    rows: int | None = None
    dtype: np.dtype = np.dtype("float64")
    notes: list[str]

    @abstractmethod
    def blocks(self, features: list[int], texts: list[int]) -> Iterator[tuple[Any, list[Any]]]:
        """Yield blocks of rows: numbers of the features, and Arrow arrays of strings of the texts.

        The numbers are an array, or the whole of a sparse matrix as CSR.
        """

    def float_type(self, features: list[int]) -> np.dtype:
        """Return the type of a matrix of these features."""
        return self.dtype

    def in_place(self, features: list[int]) -> Any:
        """Return what an operator can read these features from, pass by pass, or None."""
        return None

    def place(self, row: int) -> str:
        """Return where a row is, for the user."""
        return f"row {row + 1}"

    def progress(self, done: int) -> tuple[int, int]:
        """Return the bytes read after so many rows, and the bytes in all."""
        size = len(self.header.names) * self.dtype.itemsize
        return done * size, (self.rows or 0) * size

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Let go of what was opened."""


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
    names, row_names = header.names, header.names if header.rows is None else header.rows
    choice = Choice([], None, _find(() if columns.ids is None else columns.ids, row_names))
    if columns.label is not None:
        choice.label, *others = _find([columns.label], row_names)
        if others:
            count = len(others) + 1
            raise TableError(f"{columns.label!r} stands for {count} columns as --label; name one")
    unread, index = set(_find(columns.drop, names)) | header.empty, set[int]()
    if header.rows is None:
        unread |= {*choice.ids, *([] if choice.label is None else [choice.label])}
        # A column of the index that is kept by name is data.
        index = {j for j in header.index if names[j] not in _as_list(columns.keep or ())}
    if columns.ids is None:
        choice.ids = [row_names.index(name) for name in columns.likely_ids if name in row_names]
        if not choice.ids and header.rows is not None:
            choice.ids = list(header.index)
        elif not choice.ids:
            levels = [j for j in header.index if j in index - unread - header.opaque]
            text = header.text - header.opaque - unread - set(header.index)
            choice.ids = levels or sorted(text)[:1]
    if choice.ids and header.rows is None:
        unread |= {*choice.ids}
        id_names = " and ".join(shown(names[j]) for j in choice.ids)
        form = "the columns {}, which are" if len(choice.ids) > 1 else "column {}, which is"
        if columns.ids is None:
            choice.notes.append(f"rows are named by {form.format(id_names)} not analysed")
    if columns.exact and columns.keep is not None:
        choice.exact = True
        _choose_exactly(header, list(columns.keep), unread, choice)
    else:
        _choose_features(header, columns.keep, unread | index, choice)
    return choice


def _choose_features(
    header: Header, keep: Sequence[str] | None, unread: set[int], choice: Choice
) -> None:
    names = header.names
    kept = range(len(names)) if keep is None else sorted(_find(keep, names))
    kept = [j for j in kept if j not in unread]
    for spec in _as_list(keep or ()):
        hits = _find([spec], names)
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
        options = "--keep, --drop, --delimiter and --decimal"
        raise TableError(f"no column of numbers is left{besides}; see {options}")
    if header.shown or len(choice.features) < len(names):
        choice.names = [names[j] for j in choice.features]


def _choose_exactly(header: Header, wanted: list[str], unread: set[int], choice: Choice) -> None:
    where = {name: j for j, name in enumerate(header.names)}
    missing = [name for name in wanted if name not in where]
    choice.names = wanted
    if not missing:
        choice.features = [where[name] for name in wanted]
        if text := [name for name in wanted if where[name] in header.text]:
            raise TableError(f"{listed(text)}: text here, numbers in the model; encode as at fit")
        return
    if header.named:
        raise TableError(
            f"the model needs {counted(len(missing), 'column')} that the file does not have: "
            f"{listed(missing)};{_suggestion(missing[0], where)} rename or add what is missing"
        )
    choice.features = [j for j in range(len(where)) if j not in unread | header.text]
    if len(choice.features) != len(wanted):
        raise TableError(
            f"the file has {counted(len(choice.features), 'column')} of numbers, without names, and "
            f"the model needs {len(wanted)}; give a file of the columns the model was fitted on"
        )
    choice.notes.append("the file has no names of columns; they are taken in their order")


def _as_list(specs: str | Sequence[str]) -> list[str]:
    return [specs] if isinstance(specs, str) else [str(spec) for spec in specs]


def _find(specs: str | Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the numbers of the columns that the specifications choose, each once."""
    where = {name: j for j, name in enumerate(names)}
    return list(dict.fromkeys(j for spec in _as_list(specs) for j in _match(spec, where)))


def _match(spec: str, where: dict[str, int]) -> list[int]:
    """Return the columns that one specification chooses."""
    if spec in where:
        return [where[spec]]
    numbers = re.fullmatch(r"(\d+)(?:-(\d+))?", spec, re.ASCII)
    if numbers:
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if not 1 <= first <= last <= len(where):
            number = counted(len(where), "column")
            raise TableError(f"there is no column {spec}; there are {number}, counted from 1")
        return list(range(first - 1, last))
    for cut in (at for at, sign in enumerate(spec) if sign == ":"):
        ends = spec[:cut], spec[cut + 1 :]
        if ends[0] in where and ends[1] in where:
            first, last = (where[end] for end in ends)
            if first > last:
                raise TableError(f"{spec!r} is an empty range; {ends[1]!r} is before {ends[0]!r}")
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
