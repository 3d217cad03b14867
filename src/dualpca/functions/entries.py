"""Thresholds of entries, and checks of the parameters of functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from array_api_compat import device

from ..linalg import Array, namespace


def soft_threshold(W: Array, threshold: Any) -> Array:
    """``sign(w) [|w| - threshold]_+``."""
    xp = namespace(W)
    return xp.sign(W) * xp.clip(xp.abs(W) - threshold, 0.0, None)


def soft_threshold_and_shrink(W: Array, threshold: Any, gamma: float) -> Array:
    """``sign(w) min([|w| - threshold]_+, |w|/(1 + gamma))``."""
    xp = namespace(W)
    size = xp.abs(W)
    return xp.sign(W) * xp.clip(xp.minimum(size - threshold, size / (1 + gamma)), 0.0, None)


def positive_part(W: Array, positive: bool) -> Array:
    """Return the positive part of W if ``positive``, else W."""
    return namespace(W).clip(W, 0.0, None) if positive else W


def leaves_orthant(W: Array, positive: bool) -> bool:
    """Return whether ``positive`` is true and an entry of W is negative."""
    return positive and bool(namespace(W).any(W < 0))


def check_count(name: str, value: Any) -> int:
    """Return an integer >= 1."""
    if not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} is not a count; give an integer {name} >= 1")
    if value < 1:
        raise ValueError(f"{name}={value} counts entries; choose {name} >= 1")
    return int(value)


def check_number(name: str, value: Any, sign: str = "<") -> float:
    """Return a number with ``0 < value < inf``, or ``0 <= value < inf`` if the sign is "<="."""
    if not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is not a number; give 0 {sign} {name} < inf")
    number = float(value)
    if not (0 < number < math.inf or (sign == "<=" and number == 0)):
        raise ValueError(f"{name}={value} is out of range; choose 0 {sign} {name} < inf")
    return number


def check_each(name: str, value: Any, check: Callable[..., Any], *options: Any) -> Any:
    """Check a parameter of all columns, or those of each column, which become a tuple."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(check(name, one, *options) for one in value)
    return check(name, value, *options)


def per_column(name: str, value: Any, W: Array) -> Any:
    """Return a parameter as it is, or as an array if it is a tuple with one for each column of W."""
    if not isinstance(value, tuple):
        return value
    columns = W.shape[1] if W.ndim == 2 else 1
    if len(value) != columns:
        raise ValueError(
            f"{name}={value} has {len(value)} entries where the matrix has {columns} columns; "
            "give one number for all columns, or one for each"
        )
    xp = namespace(W)
    kind = xp.int64 if isinstance(value[0], int) else W.dtype
    return xp.asarray(value, dtype=kind, device=device(W))
