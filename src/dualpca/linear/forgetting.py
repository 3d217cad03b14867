"""The weights of rows in a stream: how fast what came before a row is forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ..linalg import Array, asarray_like, to_numpy, total
from ..operators import Operator
from ..operators.block_ops import stack

#: Rows with holes are gathered for a first fit until there are so many for each component.
FIRST = 4

#: After MOST times as many, rows that leave columns empty or too few cells are refused.
MOST = 10


@dataclass(frozen=True)
class Weights:
    """The weight of each row of a batch, and the factor ``past`` of all weights before it.

    ``squares`` is the sum of squared weights, where a row that counts k times is k rows.
    """

    by_row: Array
    mass: float
    squares: float
    past: float = 1.0


def check_forget(forget: float | None) -> None:
    """Refuse 1, which is neither a factor of the past nor a half-life of several rows."""
    if forget == 1:
        raise ValueError(
            f"forget={forget} is neither a factor below 1 nor a half-life of more than one row; give "
            "None to forget nothing"
        )


def fading(forget: float | None, n: int) -> tuple[float, np.ndarray]:
    """Return the factor of all weights before a batch of n rows, and the weight of each of its rows.

    A half-life, more than 1, halves the weights once in so many rows: after n rows that of the j-th is
    ``2^{-(n - j) / forget}``, whatever the batches are. A factor, less than 1, multiplies all that came
    before a batch, whose rows weigh 1.
    """
    if forget is None:
        return 1.0, np.ones(n)
    if forget < 1:
        return float(forget), np.ones(n)
    return float(2.0 ** (-n / forget)), 2.0 ** (-np.arange(n - 1, -1, -1) / forget)


def halvings(forget: float | None, n: int) -> np.ndarray:
    """Return by how many halvings each row of a batch ages what came before it.

    The factor of a batch is spread evenly over its rows.
    """
    if forget is None:
        return np.zeros(n)
    return np.full(n, -np.log2(forget) / n if forget < 1 else 1 / forget)


def batch_weights(X: Operator, counts: Array | None, forget: float | None) -> Weights | None:
    """Return the weights of the rows of a batch that count ``counts`` times; None where all are 1."""
    if counts is None and forget is None:
        return None
    past, fade = fading(forget, X.shape[0])
    if counts is None:
        return Weights(X.row_vector(fade), float(fade.sum()), float(fade @ fade), past)
    if forget is None:
        return Weights(counts, total(counts), total(counts), past)
    by_row = counts * X.row_vector(fade)
    return Weights(by_row, total(by_row), total(by_row * X.row_vector(fade)), past)


@dataclass(frozen=True)
class Gathered:
    """The first rows of a stream, how often each counts, and what each does to the memory.

    ``memory`` is the weight that forgetting has left a row, for sums that go by rows; or by how many
    halvings a row ages what came before it, for those that go by good rows.
    """

    rows: Array
    counts: np.ndarray
    memory: np.ndarray

    @classmethod
    def of(cls, X: Any, counts: Any, memory: np.ndarray) -> Gathered:
        """Return those of one batch in memory."""
        ones = np.ones(X.shape[0])
        return cls(X, ones if counts is None else to_numpy(counts).astype(float), memory)

    def then(self, later: Gathered, past: float) -> Gathered:
        """Return these rows, whose weights are multiplied by ``past``, and later ones."""
        counts, memory = (self.counts, later.counts), (self.memory * past, later.memory)
        rows = stack([self.rows, later.rows])
        return Gathered(rows, np.concatenate(counts), np.concatenate(memory))

    def weights(self) -> Weights:
        """Return the weights of the rows, as those of one batch."""
        w = self.counts * self.memory
        by_row = asarray_like(w, self.rows)
        return Weights(by_row, float(w.sum()), float(w @ self.memory))

    def enough(self, s: Any) -> bool:
        """Whether s components can be fitted to the rows: or so many rows came that a fit may say no."""
        rows, s = to_numpy(self.rows)[self.counts > 0], int(s) if isinstance(s, Integral) else 1
        there, least = ~np.isnan(rows), FIRST * (s + 1)
        free = int(there.sum()) - there.shape[1] - s * (sum(there.shape) - s - 1)
        usable = bool(there.any(axis=0).all()) and free > 0
        return len(rows) >= (least if usable else MOST * least)
