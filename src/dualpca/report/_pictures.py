"""Rows and loadings as pictures."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from ._html import escape

#: At most so many are shown beside each other.
SHOWN = 12


def png(pixels: np.ndarray) -> str:
    """An 8-bit picture, grey (h, w) or coloured (h, w, 3), as a data address."""
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, -1)
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9))
    return "data:image/png;base64," + base64.b64encode(image + chunk(b"IEND", b"")).decode()


def grey(values: np.ndarray, low: float, high: float) -> str:
    """A picture of values, ``low`` black and ``high`` white."""
    scaled = (values - low) / ((high - low) or 1.0)
    return png(np.rint(255 * np.clip(np.nan_to_num(scaled), 0, 1)).astype(np.uint8))


#: Negative and positive ends of differences and loadings; white between them.
BLUE, ORANGE = np.array([0, 84, 150.0]), np.array([190, 74, 0.0])


def signed(values: np.ndarray) -> str:
    """A picture of signed values: negative blue, positive orange, 0 white."""
    if values.ndim == 3:  # of colours, their mean
        values = values.mean(axis=2)
    share = np.clip(np.nan_to_num(values / (np.nanmax(np.abs(values)) or 1.0)), -1, 1)[..., None]
    colour = 255 + np.abs(share) * (np.where(share < 0, BLUE, ORANGE) - 255)
    return png(np.rint(colour).astype(np.uint8))


def gallery(pictures: list[tuple[str, str]], words: str) -> str:
    """Pictures with their names below them."""
    items = "".join(
        f'<li><img src="{address}" alt="{escape(name)}"><span>{escape(name)}</span></li>'
        for address, name in pictures
    )
    return (
        f'<figure><ul class="gallery">{items}</ul><figcaption>{escape(words)}</figcaption></figure>'
    )
