"""Rows and loadings as pictures, in PNG within the page."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

#: Negative and positive ends of differences and loadings; white lies between them.
BLUE, ORANGE = np.array([0, 84, 150.0]), np.array([190, 74, 0.0])


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
