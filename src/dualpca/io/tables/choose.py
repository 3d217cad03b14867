"""Which columns of a file are numbers to analyse, names of rows, or labels."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice

from .columns import Columns, Header, seems_id
from .table import LONG, TableError, counted, listed, shown


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
    varying: bool = False


def choose(header: Header, columns: Columns) -> Choice:
    """Return the columns of the file that were asked for."""
    names, row_names = header.names, header.names if header.rows is None else header.rows
    choice = Choice([], None, _find(() if columns.ids is None else columns.ids, row_names))
    choice.varying = columns.varying
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
            text = header.text - header.opaque - header.repeated
            text = text - unread - set(header.index) - set(header.remarks)
            choice.ids = levels or sorted(text)[:1] or _row_numbers(header, columns, unread)
    if choice.ids and header.rows is None:
        unread |= {*choice.ids}
        if columns.ids is None:
            choice.notes.append(_named_by(header, choice.ids, columns.exact))
    if columns.exact and columns.keep is not None:
        choice.exact = True
        _choose_exactly(header, list(columns.keep), unread, choice)
    else:
        _choose_features(header, columns.keep, unread | index, choice)
        if columns.ids is None and columns.keep is None:
            choice.notes += [
                f"column {shown(names[j])} seems to number the rows, and is analysed; leave it out with "
                f"--drop {names[j] if len(names[j]) <= LONG else j + 1}"
                for j in header.numbered
                if j in choice.features and seems_id(names[j])
            ]
    remarks: dict[str, list[str]] = {}
    for j in choice.features:
        if j in header.remarks:
            remarks.setdefault(header.remarks[j], []).append(names[j])
    choice.notes += [f"{remark}: {listed(which)}" for remark, which in remarks.items()]
    return choice


def _row_numbers(header: Header, columns: Columns, unread: set[int]) -> list[int]:
    """Return the first column of integers that seems to number the rows, unless it is to be analysed."""
    others = set(range(len(header.names))) - unread - header.text
    named = set(_as_list(columns.keep or ()))
    likely = [j for j in header.numbered if j in others and header.names[j] not in named]
    return [] if columns.exact or len(others) < 2 else likely[:1]


def _named_by(header: Header, ids: list[int], exact: bool) -> str:
    """Return a note that tells which columns name the rows."""
    names = " and ".join(shown(header.names[j]) for j in ids)
    form = "the columns {}, which are" if len(ids) > 1 else "column {}, which is"
    if len(ids) == 1 and ids[0] in header.dates:
        form = "column {}, of dates, which is"
    note = f"rows are named by {form.format(names)} not analysed"
    numbers = set(ids) <= set(header.numbered) - set(header.index)
    return f"{note}; --id none analyses it" if numbers and not exact else note


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
    kinds = (
        ("text column", plain - header.dates - set(header.remarks)),
        ("date column", header.dates),
        ("column of lists or records", header.opaque),
    )
    for kind, odd in kinds:
        if left := [names[j] for j in kept if j in odd]:
            kind = kind if len(left) == 1 else kind.replace("column", "columns")
            choice.notes.append(f"left out {kind}: {listed(left)}")
    mixed = [j for j in kept if j in header.text and j in header.remarks]
    choice.notes += [f"left out column {shown(names[j])}: {header.remarks[j]}" for j in mixed[:3]]
    if len(mixed) > 3:
        more = counted(len(mixed) - 3, "column")
        choice.notes.append(f"left out {more} more whose cells are numbers for the most part only")
    if not choice.features:
        besides = f" besides text: {listed(choice.left_out)}" if choice.left_out else ""
        options = ", ".join(["--keep", "--drop", *header.settings])
        why = "".join(f" ({names[j]} {header.remarks[j]})" for j in mixed[:1])
        raise TableError(f"no column of numbers is left{besides}{why}; see {options}")
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
