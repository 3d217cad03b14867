"""Rows and loadings as pictures."""

from __future__ import annotations

import base64
import struct
import zlib
from numbers import Integral
from typing import Any

import numpy as np

from ..io.tables.table import counted
from ._html import escape

#: The most pictures that are shown beside each other.
SHOWN = 12

#: Negative and positive ends of differences and loadings; white lies between them.
BLUE, ORANGE = np.array([0, 84, 150.0]), np.array([190, 74, 0.0])


def picture_shape(image_shape: Any, width: int) -> tuple[int, ...] | None:
    """Return the (height, width) or (height, width, 3) of rows that are pictures, or None."""
    if image_shape is None or image_shape is False:
        return None
    if image_shape is True:
        side = round(width**0.5)
        if side * side != width:
            raise ValueError(
                f"image_shape=True means square pictures, and {counted(width, 'variable')} are no "
                "square; give (height, width)"
            )
        return side, side
    sizes = tuple(image_shape) if isinstance(image_shape, (list, tuple)) else ()
    whole = all(isinstance(size, Integral) and int(size) > 0 for size in sizes)
    sound = whole and len(sizes) in (2, 3) and sizes[2:] in ((), (3,))
    if not sound or int(np.prod(sizes)) != width:
        raise ValueError(
            f"image_shape={image_shape!r} does not fit {counted(width, 'variable')}; give (height, "
            "width), or (height, width, 3) for colours, whose product that is"
        )
    return tuple(int(size) for size in sizes)


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
    made = "".join(
        "<li>"
        + "".join(f'<img src="{address}" alt="{escape(text)}">' for address, text in pictures)
        + f"<span>{escape(name)}</span></li>"
        for pictures, name in items
    )
    return (
        f'<figure><ul class="{kind}">{made}</ul><figcaption>{escape(words)}</figcaption></figure>'
    )
