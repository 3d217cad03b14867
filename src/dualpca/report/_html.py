"""Text, numbers, tables and pictures as HTML; names from data stay text everywhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

#: Controls, half characters and marks that reverse the direction of text.
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")

#: Numbers in tables, which stay on one line.
_NUMBER = re.compile(r"<td>(?=[-+]?[\d.,]+(e[-+]?\d+)?( %)?</td>)")

#: Negative and positive ends of differences and loadings; white lies between them.
BLUE, ORANGE = np.array([0, 84, 150.0]), np.array([190, 74, 0.0])

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


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that scrolls by itself if it is too wide; cells are HTML already."""
    first = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for name, *cells in rows
    )
    body = _NUMBER.sub('<td class="number">', body)
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


def png(pixels: np.ndarray) -> str:
    """Return an 8-bit picture, grey (h, w) or coloured (h, w, 3), as a data address."""
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, -1)
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    header = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9))
    return "data:image/png;base64," + base64.b64encode(image + chunk(b"IEND", b"")).decode()


def _grey(values: np.ndarray, low: float, high: float) -> str:
    """Return a picture of values, ``low`` black and ``high`` white."""
    scaled = (values - low) / ((high - low) or 1.0)
    return png(np.rint(255 * np.clip(np.nan_to_num(scaled), 0, 1)).astype(np.uint8))


def signed(values: np.ndarray) -> str:
    """Return a picture of signed values: negative blue, positive orange, 0 white."""
    if values.ndim == 3:  # the mean of three colours
        values = values.mean(axis=2)
    share = np.clip(np.nan_to_num(values / (np.nanmax(np.abs(values)) or 1.0)), -1, 1)[..., None]
    colour = 255 + np.abs(share) * (np.where(share < 0, BLUE, ORANGE) - 255)
    return png(np.rint(colour).astype(np.uint8))


def row_pictures(row: np.ndarray, fit: np.ndarray | None, shape: tuple[int, ...]) -> list[str]:
    """Return a row and, if there is a fit, its reconstruction on the same scale and the difference."""
    both = row if fit is None else np.concatenate([row, fit])
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    greys = [_grey(A.reshape(shape), low, high) for A in (row, fit) if A is not None]
    return greys if fit is None else [*greys, signed((row - fit).reshape(shape))]


def gallery(kind: str, items: list[tuple[list[tuple[str, str]], str]], words: str) -> str:
    """Return a list of items: pictures with alternative texts, and a name below them."""
    entries = "".join(
        "<li>"
        + "".join(f'<img src="{address}" alt="{escape(text)}">' for address, text in pictures)
        + f"<span>{escape(name)}</span></li>"
        for pictures, name in items
    )
    return f'<figure><ul class="{kind}">{entries}</ul><figcaption>{escape(words)}</figcaption></figure>'
