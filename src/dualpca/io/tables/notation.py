"""How the cells of a column write numbers: 1,234.5 or 1.234,5, $ 5, 12 kg, 9.9%, (12) for -12."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .table import pa, pc, shown

#: Between groups of three digits; an empty one where digits are not grouped.
THOUSANDS = ("", ",", ".", " ", "'")

_CODES = (
    "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|ISK|PLN|CZK|HUF|RON|BGN|RUB|UAH|TRY|ILS|ZAR"
    "|BRL|MXN|ARS|CLP|COP|KRW|SGD|HKD|TWD|THB|IDR|MYR|PHP|VND|AED|SAR|EGP|NGN|kr|zł|Kč|Ft"
)
_MONEY = f"(?:[A-Z]{{0,3}}[$\u00a2-\u00a5\u20a0-\u20cf]|{_CODES})"
_CURRENCY = re.compile(rf"{_MONEY}(?![A-Za-z])")

#: A number with a unit behind it, such as 12 kg, 3.5m/s, 20 °C or 7 m2.
_WITH_UNIT = re.compile(
    r"(?:[+-] ?)?(?:[1-9](?:[0-9.,' ]*[0-9.,])?|0|0?[.,][0-9]+)"
    r"(?![A-Z]$) ?(?![eE][23]?$)(°|°?[^\W\d_](?:[^\W\d_]|[°%/.·-]){0,11}[23]?)"
)

#: What is written in several ways, and the one that is taken for all.
_ALIKE = (
    ("[\u2212\u2013\ufe63\uff0d]", "-"),
    ("[\u00a0\u2007\u2009\u202f]", " "),
    ("[\u2018\u2019]", "'"),
)

_WORDS = r"[iI]nf(?:inity)?|INF(?:INITY)?|[nN]a[nN]|NAN"
#: A number in some notation, but not in parentheses; and what stands in parentheses.
_GROUPS = "|".join(f"(?:{re.escape(sign)}[0-9]{{3}})+" for sign in THOUSANDS[1:])
_NUMERIC = (
    rf"^(?:[+-] ?)?(?:{_MONEY} ?)?(?:[+-] ?)?"
    rf"(?:(?:[1-9][0-9]{{0,2}}(?:{_GROUPS})|[0-9]+)(?:[.,][0-9]*)?|[.,][0-9]+)"
    rf"(?:[eE][+-]?[0-9]+| ?%)?(?: ?{_MONEY})?$"
)
_IS_NUMERIC = re.compile(_NUMERIC)
BRACKETS = r"^\(.*[0-9].*\)$"

_TRUTH = r"^(?:[tT]rue|TRUE|[fF]alse|FALSE)$"


@dataclass(frozen=True)
class Notation:
    """The convention of a column; ``brackets`` where some negative numbers stand in parentheses.

    ``unit`` is a currency, before or after numbers or left out, or what else stands after each.
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    percent: bool = False
    brackets: bool = False

    @property
    def plain(self) -> bool:
        """Whether all there is to know is the decimal sign."""
        return self == Notation(self.decimal)

    @property
    def marked(self) -> bool:
        """Whether a number without its sign, percent or a unit that is no currency, is none."""
        return self.percent or (self.unit != "" and not _CURRENCY.fullmatch(self.unit))

    def pattern(self) -> str:
        """Return what a cell matches, for Python and for RE2 alike."""
        point, group = re.escape(self.decimal), re.escape(self.thousands)
        whole = f"(?:[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+|[0-9]+)" if group else "[0-9]+"
        number = f"(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)"
        number += " ?%" if self.percent else "(?:[eE][+-]?[0-9]+)?"
        sign, before, after = "(?:[+-] ?)?", "", ""
        if self.unit:
            unit = re.escape(self.unit)
            before, after = f"(?:{unit} ?)?", f"(?: ?{unit})?"
            sign = f"(?:[+-] ?|{unit} ?[+-] ?)?"
            if self.marked and not self.percent:
                sign, before, after = "(?:[+-] ?)?", "", f" ?{unit}"
        pattern = f"^{sign}{before}{number}{after}$|^[+-]?(?:{_WORDS})$|{_TRUTH}"
        return pattern + (rf"|^\( ?{before}{number}{after} ?\)$" if self.brackets else "")

    def numbers(self, cells: Any, na: Collection[str]) -> tuple[np.ndarray | None, int]:
        """Return numbers, NaN where one is missing; or None and the place of a cell that is none."""
        if not self.marked:
            try:
                return self._cast(cells).to_numpy(zero_copy_only=False), -1
            except pa.ArrowInvalid:  # missing cells, spaces, truth values, signs, or text
                pass
        cells = _without(cells, na)
        bad = pc.index(self._misfits(cells), True)
        if bad.as_py() >= 0:
            return None, bad.as_py()
        lower = pc.utf8_lower(cells)
        for word, digit in (("true", "1"), ("false", "0")):
            cells = pc.if_else(pc.equal(lower, word), digit, cells)
        if self.unit:  # a letter of inf is none
            alone = rf"(^|[^A-Za-z]){re.escape(self.unit)}($|[^A-Za-z])"
            cells = pc.replace_substring_regex(cells, alone, r"\1\2")
        # 9.9% is 9.9e-2, the number next to 0.099, which 9.9 / 100 need not be.
        signs = {" ": "", "+": "", self.thousands: "", self.decimal: "."}
        signs |= {"%": "e-2"} if self.percent else {}
        signs |= {"(": "-", ")": ""} if self.brackets else {}
        for sign, digits in signs.items():
            if sign and sign != digits:
                cells = pc.replace_substring(cells, sign, digits)
        return cells.cast(pa.float64()).to_numpy(zero_copy_only=False), -1

    def misfits(self, cells: Any, na: Collection[str]) -> Any:
        """Return which cells are neither numbers nor missing."""
        return self._misfits(_without(cells, na))

    def _misfits(self, cells: Any) -> Any:
        return pc.invert(pc.fill_null(pc.match_substring_regex(cells, self.pattern()), True))

    def _cast(self, cells: Any) -> Any:
        """Return the numbers of cells that have digits, a decimal sign and an exponent only."""
        if self.decimal != ".":
            if pc.any(pc.match_substring(cells, ".")).as_py():
                raise pa.ArrowInvalid("a point is no decimal sign here")
            cells = pc.replace_substring(cells, self.decimal, ".")
        return cells.cast(pa.float64())

    def words(self) -> str:
        """Return the signs of the notation, for a sentence; nothing where it is plain."""
        parts = [f"thousands {self.thousands!r}"] if self.thousands else []
        parts += ["decimal comma"] if self.decimal == "," else []
        return f" ({', '.join(parts)})" if parts else ""

    def told(self, cell: str) -> str:
        """Return how a cell is read, for the user."""
        values, _ = self.numbers(pa.array([cell], pa.string()), ())
        number = 0.0 if values is None else values[0]
        return f"read {shown(cell)} as {number:.15g}{self.words()}"


def _without(cells: Any, na: Collection[str]) -> Any:
    """Return cells, made ``alike``, null where one is missing."""
    missing = pc.is_in(pc.utf8_trim_whitespace(cells), pa.array(sorted(na), pa.string()))
    return alike(pc.if_else(missing, None, cells))


def alike(cells: Any) -> Any:
    """Return cells without spaces around them, and with one kind of minus, space and apostrophe."""
    cells = pc.utf8_trim_whitespace(cells)
    if not pc.all(pc.string_is_ascii(cells)).as_py():
        for signs, sign in _ALIKE:
            cells = pc.replace_substring_regex(cells, signs, sign)
    return cells


def _alike(cell: str) -> str:
    """Return one cell as ``alike`` returns many."""
    cell = cell.strip()
    if not cell.isascii():
        for signs, sign in _ALIKE:
            cell = re.sub(signs, sign, cell)
    return cell


def matching(cells: Any, pattern: str = _NUMERIC) -> int:
    """Return how many cells, made ``alike``, match; by default, are numbers in some notation."""
    return pc.sum(pc.match_substring_regex(cells, pattern)).as_py() or 0


def unit_of(cell: str) -> str:
    """Return the unit behind a number; nothing where a cell is not that.

    A capital right behind the digits (101A), an e (1e) and an exponent (1 e5) are no units.
    """
    match = _WITH_UNIT.fullmatch(_alike(cell).strip("() "))
    return match[1] if match else ""


def _unit(cells: Any) -> tuple[str, int]:
    """Return the unit that most cells, made ``alike``, have behind a number, and how many have it."""
    units = Counter(filter(None, map(unit_of, cells.to_pylist()))).most_common(1)
    return units[0] if units and 2 * units[0][1] > len(cells) else ("", 0)


def numeric(cells: Any) -> int:
    """Return how many cells, made ``alike``, may be numbers by one notation of the column."""
    return matching(cells) + matching(cells, BRACKETS) + _unit(cells)[1]


def is_numeric(cell: str) -> bool:
    """Return whether a cell is a number in some notation, but not in parentheses."""
    return _IS_NUMERIC.match(_alike(cell)) is not None


def _candidates(
    cells: Any, decimals: Sequence[str], thousands: Sequence[str]
) -> Iterator[Notation]:
    """Yield the notations that the cells may have, the likely ones first."""
    others = cells.filter(pc.match_substring_regex(cells, "[^0-9., '+%()-]"))
    signs = Counter(_CURRENCY.findall("\n".join(others.to_pylist())))
    common = Notation(
        unit=_unit(cells)[0] or (signs.most_common(1)[0][0] if signs else ""),
        percent=2 * matching(cells, "%") > len(cells),
        brackets=matching(cells, BRACKETS) > 0,
    )
    for decimal in decimals:
        for group in thousands:
            if group != decimal:
                yield replace(common, decimal=decimal, thousands=group)


def notation_of(
    cells: Any, decimals: Sequence[str], thousands: Sequence[str] = THOUSANDS
) -> tuple[Notation, int]:
    """Return the first notation that most cells, made ``alike``, have, and how many have it.

    Groups of three digits, all of them, are thousands: 1,234 is no decimal comma unless another cell,
    such as 1,23, says so.
    """
    best, most = Notation(decimals[0]), -1
    for notation in _candidates(cells, decimals, thousands):
        count = matching(cells, notation.pattern())
        if count > most:
            best, most = notation, count
        if most == len(cells):
            break
    return best, most
