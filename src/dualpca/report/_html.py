"""Text, numbers and tables as HTML; names from data stay text everywhere."""

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

#: In JSON within a script element these might end it, or begin a comment.
_IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}


def clean(value: Any) -> str:
    """Return a name, or whatever a user gave, as one line of text."""
    return _UNPRINTED.sub("\ufffd", str(value))


def escape(value: Any) -> str:
    """Return text for an element or an attribute."""
    return html.escape(clean(value))


def number(value: Any) -> str:
    """Return a count in full, a measurement with four digits."""
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if value is None or math.isnan(value):
        return "missing"
    return f"{value:.4g}" if math.isfinite(value) else "beyond range"


def percent(share: float) -> str:
    """Return a share with one decimal."""
    return f"{100 * share:.1f} %"


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


#: Numbers in tables, which stay on one line.
_NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( %)?")


def _cell(cell: str) -> str:
    kind = ' class="number"' if _NUMBER.fullmatch(cell) else ""
    return f"<td{kind}>{cell}</td>"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that scrolls by itself if it is too wide; cells are HTML already."""
    first = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(map(_cell, row[1:]))}</tr>' for row in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{first}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


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
