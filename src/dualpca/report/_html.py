"""Text, numbers, tables and figures as HTML; names from data stay text everywhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

#: Controls, half characters and marks that reverse the direction of text.
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")

#: What stands for a number in a table: such cells stay on one line, at its right end.
_NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?(\u00a0%)?|missing|beyond range|")

#: In JSON within a script element these might end it, or begin a comment.
_IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}


def clean(value: Any) -> str:
    """Return a name, or whatever a user gave, as one line of text."""
    return _UNPRINTED.sub("\ufffd", str(value))


def escape(value: Any) -> str:
    """Return text for an element or an attribute."""
    return html.escape(clean(value))


def short(text: Any, length: int = 48) -> str:
    """Return a name as plotly shows it, cut; plotly reads a little HTML in its texts."""
    name = str(text)
    return html.escape(name if len(name) <= length else name[: length - 1] + "…", quote=False)


def number(value: Any) -> str:
    """Return a count in full, a measurement with four digits or up to the unit, with separators."""
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if value is None or math.isnan(value):
        return "missing"
    if not math.isfinite(value):
        return "beyond range"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def column(values: Iterable[float]) -> list[str]:
    """Return numbers with as many decimals each, so that the one in the middle has three digits."""
    values = list(values)
    sizes = sorted(abs(v) for v in values if v and math.isfinite(v))
    middle = sizes[len(sizes) // 2] if sizes else 1.0
    decimals = max(2 - math.floor(math.log10(middle)), 0)
    if decimals > 6:
        return [number(v) for v in values]
    small = 0.5 * 10.0**-decimals
    return [f"{v:,.{decimals}f}" if v == 0 or small <= abs(v) < 1e9 else number(v) for v in values]


def percent(share: float) -> str:
    """Return a share with one decimal."""
    return f"{100 * share:.1f}\u00a0%"


def joined(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def rounded(values: Any) -> Any:
    """Return nested lists of numbers with six digits, None for one that is not finite."""
    if isinstance(values, (list, tuple, np.ndarray)):
        return [rounded(v) for v in values]
    return float(f"{values:.6g}") if math.isfinite(values) else None


def embed(data: Any) -> str:
    """Return JSON that is safe within a script element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.translate(_IN_SCRIPT)


def script(text: str) -> tuple[str, str]:
    """Return JavaScript for a script element, and its hash for the security policy."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return text, f"'sha256-{digest}'"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that scrolls by itself if it is too wide; cells are HTML already."""
    body = [list(row) for row in rows]
    first = "".join(
        f'<th scope="col"{_kind(*(row[j] for row in body)) if j else ""}>{cell}</th>'
        for j, cell in enumerate(head)
    )
    lines = "".join(
        f'<tr><th scope="row">{name}</th>'
        + "".join(f"<td{_kind(cell)}>{cell}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in body
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{first}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )


def _kind(*cells: str) -> str:
    """Return the class of cells that are all numbers."""
    return ' class="number"' if all(map(_NUMBER.fullmatch, cells)) else ""


def figure(name: str, finding: str, *, controls: str = "", hint: str = "", data: str = "") -> str:
    """Return a place for a drawing, what it shows in words, and the table behind it."""
    more = f'<p class="hint">{hint}</p>' if hint else ""
    controls = f'<div class="controls">{controls}</div>' if controls else ""
    behind = f"<details><summary>Numbers of this figure</summary>{data}</details>" if data else ""
    return (
        f'<figure>{controls}<div class="plot" id="{name}" role="img" aria-label="{escape(finding)}">'
        f"</div><figcaption>{escape(finding)}</figcaption>{more}{behind}</figure>"
    )


def select(name: str, label: str, options: Sequence[str], chosen: int) -> str:
    """Return a labelled menu; its values are the positions of the options."""
    items = "".join(
        f'<option value="{i}"{" selected" if i == chosen else ""}>{escape(option)}</option>'
        for i, option in enumerate(options)
    )
    return f'<label>{label} <select id="{name}">{items}</select></label>'


def switch(name: str, label: str, ticked: bool = False) -> str:
    """Return a labelled checkbox."""
    checked = " checked" if ticked else ""
    return f'<label><input type="checkbox" id="{name}"{checked}> {label}</label>'


def gallery(kind: str, items: list[tuple[list[tuple[str, str]], str]], words: str) -> str:
    """Return a list of items: pictures with alternative texts, and a name below them."""
    entries = "".join(
        "<li>"
        + "".join(f'<img src="{address}" alt="{escape(text)}">' for address, text in pictures)
        + f"<span>{escape(name)}</span></li>"
        for pictures, name in items
    )
    return f'<figure><ul class="{kind}">{entries}</ul><figcaption>{escape(words)}</figcaption></figure>'
