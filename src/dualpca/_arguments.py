"""Arguments that plots, reports and the command line share, checked and in their final form."""

from __future__ import annotations

import math
import operator
import warnings
from numbers import Integral
from typing import Any

import numpy as np


def group_labels(labels: Any, most: int = 10) -> tuple[list[str], np.ndarray]:
    """Return the names of at most ``most`` groups and the group of each row; rare labels share one."""
    labels = np.asarray(labels)
    if labels.dtype.kind not in "biuf":
        labels = labels.astype(str)
    values, group, count = np.unique(labels, return_inverse=True, return_counts=True)
    names = [f"{v:g}" if labels.dtype.kind == "f" else str(v) for v in values]
    if len(values) <= most:
        return names, group
    frequent = np.sort(np.argsort(-count, kind="stable")[: most - 1])
    place = np.full(len(values), most - 1)
    place[frequent] = np.arange(most - 1)
    return [*(names[i] for i in frequent), "other labels"], place[group]


def check_image_shape(image_shape: Any, n_features: int) -> tuple[int, ...]:
    """Return the shape of rows that are images, (height, width) or (height, width, 3).

    True stands for a square.
    """
    side = round(n_features**0.5)
    try:
        shape = tuple(map(operator.index, (side, side) if image_shape is True else image_shape))
    except TypeError:
        shape = ()
    right = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    if not right or min(shape) < 1 or math.prod(shape) != n_features:
        raise ValueError(
            f"image_shape={image_shape!r} does not make an image of {n_features} features; give "
            f"(height, width) or (height, width, 3) with the product {n_features}"
        )
    return shape


def is_count(value: Any, least: int = 0, most: float = math.inf) -> bool:
    """Return whether a value is an integer in a range, and no bool."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and least <= int(value) <= most


def check_count(name: str, value: Any, things: str, least: int = 0) -> int:
    """Return a number of things as an int."""
    if not is_count(value, least):
        raise ValueError(f"{name}={value!r} counts {things}; give an integer, {least} or more")
    return int(value)


def as_times(times: Any) -> np.ndarray:
    """Return times as numbers or as datetime64, from numbers, dates, or text of either."""
    given = np.asarray(times)
    if given.dtype.kind not in "iufM":
        given = given.astype(str)
        for kind in (np.float64, "datetime64[us]"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # numpy takes times of a zone as those of UTC
                    given = given.astype(kind)
                break
            except ValueError:
                continue
        else:
            raise ValueError(
                f"time holds text such as {str(given[0])!r}; give numbers, or dates such as 2026-03-31 "
                "or '2026-03-31 12:30' in every row"
            )
    missing = np.isnat(given) if given.dtype.kind == "M" else np.isnan(given)
    if missing.any():
        raise ValueError(
            f"time is missing in {int(missing.sum())} rows; give one for each row, or leave time out"
        )
    return given
