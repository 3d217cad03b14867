"""Streams with bad rows, that turn and that jump: partial_fit beside plain references, means over seeds.

``python -m benchmarks.stream_race [--seeds 5] [--out results]`` writes stream_race.md and .json.
Parameters of the references are the best of a grid on a stream of each kind with a seed of its own.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import IncrementalPCA

from dualpca import PCA, RobustPCA

from .cell_race import log, sine

#: Columns, components, rows, rows of the first batch and of each later one, the first row judged.
D, S, N, FIRST, BATCH, JUDGED = 30, 3, 4000, 200, 100, 2000

#: Standard deviations along the axes and of the noise.
SCALE, NOISE = np.array([5.0, 4.0, 3.0]), 0.5

#: Half-lives of ours, and windows of the oracle.
HALF_LIFE, WINDOWS = 1000, (250, 500, 1000, 1500, 2000)

#: The seed of the streams that parameters are chosen on.
TUNING = 1000

OURS = ("RobustPCA", "RobustPCA, forget=1000", "PCA", "PCA, forget=1000")


class Stream(NamedTuple):
    """Rows, which of them are good, and the true axes at each row by a function."""

    X: np.ndarray
    good: np.ndarray
    axes: Callable[[int], np.ndarray]


def stream(kind: str, seed: int) -> Stream:
    """A stream of one of KINDS."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((D, 2 * S)))[0]
    angle = np.zeros(N)
    if "turning" in kind:
        angle = np.deg2rad(np.arange(N) / 1000)
    elif "jump" in kind:
        angle = np.where(np.arange(N) < JUDGED, 0.0, np.pi / 2)
    scores = rng.standard_normal((N, S)) * SCALE
    X = (np.cos(angle)[:, None] * scores) @ Q[:, :S].T + (np.sin(angle)[:, None] * scores) @ Q[
        :, S:
    ].T
    X += NOISE * rng.standard_normal((N, D))
    bad = rng.random(N) < (0.0 if "clean" in kind or "cells" in kind else 0.2)
    far = 8 * rng.standard_normal((int(bad.sum()), D))
    X[bad] = 10 * Q[:, 0] + 10 * Q[:, -1] + 0.05 * far if "cluster" in kind else X[bad] + far
    if "cells" in kind:
        wrong = rng.random((N, D)) < 0.05
        X[wrong] += 10 * rng.standard_normal(int(wrong.sum()))
    return Stream(X, ~bad, lambda t: np.cos(angle[t]) * Q[:, :S] + np.sin(angle[t]) * Q[:, S:])


KINDS = (
    "clean",
    "20 % bad rows, spread",
    "20 % bad rows, a cluster",
    "5 % wrong cells",
    "turning, clean",
    "turning, 20 % bad rows",
    "a jump, 20 % bad rows",
)


class Orpca:
    """Online robust PCA by stochastic optimisation (Feng, Xu and Yan 2013), with forgetting."""

    def __init__(self, ridge: float, sparse: float, keep: float) -> None:
        self.ridge, self.sparse, self.keep = ridge, sparse, keep
        self.L = np.zeros((0, 0))

    def partial_fit(self, X: np.ndarray) -> None:
        if not self.L.size:
            self.L = np.random.default_rng(0).standard_normal((X.shape[1], S))
            self.A, self.B = np.zeros((S, S)), np.zeros((X.shape[1], S))
        for x in X:
            L, e = self.L, np.zeros(len(x))
            solve = np.linalg.inv(L.T @ L + self.ridge * np.eye(S)) @ L.T
            for _ in range(50):
                r = solve @ (x - e)
                left = x - L @ r
                new = np.sign(left) * np.maximum(np.abs(left) - self.sparse, 0.0)
                moved, e = np.abs(new - e).max(), new
                if moved < 1e-4:
                    break
            self.A = self.keep * self.A + np.outer(r, r)
            self.B = self.keep * self.B + np.outer(x - e, r)
            A = self.A + self.ridge * np.eye(S)
            for j in range(S):
                L[:, j] += (self.B[:, j] - L @ A[:, j]) / A[j, j]

    @property
    def axes(self) -> np.ndarray:
        return self.L


class Grasta:
    """Steps on the Grassmannian along the gradient of an l1 fit (He, Balzano and Szlam 2012)."""

    def __init__(self, rho: float, step: float, falls: bool) -> None:
        self.rho, self.step, self.falls, self.count = rho, step, falls, 0
        self.axes = np.zeros((0, 0))

    def partial_fit(self, X: np.ndarray) -> None:
        if not self.axes.size:
            start = np.random.default_rng(0).standard_normal((X.shape[1], S))
            self.axes = np.linalg.qr(start)[0]
        for x in X:
            U, s, y = self.axes, np.zeros(len(x)), np.zeros(len(x))
            for _ in range(20):
                w = U.T @ (x - s - y / self.rho)
                left = x - U @ w - y / self.rho
                s = np.sign(left) * np.maximum(np.abs(left) - 1 / self.rho, 0.0)
                gap = U @ w + s - x
                y = y + self.rho * gap
                if np.abs(gap).max() < 1e-4:
                    break
            gradient = y - U @ (U.T @ y)
            size, length = np.linalg.norm(gradient), np.linalg.norm(w)
            self.count += 1
            if size * length == 0:
                continue
            turn = self.step / (1 + self.count / 100 if self.falls else 1.0) / length * size
            along = (np.cos(turn) - 1) * (U @ w) / length - np.sin(turn) * gradient / size
            self.axes = np.linalg.qr(U + np.outer(along, w / length))[0]


class Estimator:
    """An estimator with ``partial_fit``."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def partial_fit(self, X: np.ndarray) -> None:
        self.model.partial_fit(X)

    @property
    def axes(self) -> np.ndarray:
        return self.model.components_.T


def makers() -> dict[str, list[Callable[[], Any]]]:
    """The methods, each with the parameters to choose from."""
    robust = {"random_state": 0}
    orpca = product((0.1, 1.0), (1.0, 2.0), (1.0, 0.999))
    grasta = product((1.0,), (0.03, 0.1), (False, True))
    return {
        "RobustPCA": [lambda: Estimator(RobustPCA(S, **robust))],
        "RobustPCA, forget=1000": [lambda: Estimator(RobustPCA(S, forget=HALF_LIFE, **robust))],
        "PCA": [lambda: Estimator(PCA(S))],
        "PCA, forget=1000": [lambda: Estimator(PCA(S, forget=HALF_LIFE))],
        "IncrementalPCA": [lambda: Estimator(IncrementalPCA(S))],
        "ORPCA": [lambda g=g: Orpca(*g) for g in orpca],  # type: ignore[misc]
        "GRASTA": [lambda g=g: Grasta(*g) for g in grasta],  # type: ignore[misc]
    }


def error_of(method: Any, data: Stream, rows: int = N) -> tuple[float, float]:
    """The mean sine of the largest angle from the first judged row on, and the process time a row."""
    ends = [FIRST, *range(FIRST + BATCH, rows + 1, BATCH)]
    errors, begun = [], time.process_time()
    for start, end in zip([0, *ends], ends, strict=False):
        method.partial_fit(data.X[start:end])
        if end > min(JUDGED, rows // 2):
            errors.append(sine(method.axes, data.axes(end - 1)))
    return float(np.mean(errors)), (time.process_time() - begun) / rows


def best_window(data: Stream) -> float:
    """The error of PCA of the good rows in the last L rows, for the best L."""
    found = []
    for length in WINDOWS:
        errors = []
        for end in range(JUDGED + 5 * BATCH, N + 1, 5 * BATCH):
            part = slice(max(end - length, 0), end)
            errors.append(
                sine(PCA(S).fit(data.X[part][data.good[part]]).components_.T, data.axes(end - 1))
            )
        found.append(float(np.mean(errors)))
    return min(found)


def at_once(data: Stream) -> float:
    """The error of RobustPCA of all rows at once."""
    return sine(RobustPCA(S, random_state=0).fit(data.X).components_.T, data.axes(N - 1))


def chosen(kind: str) -> dict[str, Callable[[], Any]]:
    """The best parameters of each method on a stream of this kind, on most of its rows."""
    data, best = stream(kind, TUNING), {}
    for name, options in makers().items():
        errors = (
            [error_of(make(), data, 3 * N // 4)[0] for make in options] if options[1:] else [0.0]
        )
        best[name] = options[int(np.argmin(errors))]
    return best


def records(seeds: int) -> Iterator[dict[str, Any]]:
    """Every method on every kind of stream."""
    for kind in KINDS:
        methods = chosen(kind)
        for seed in range(seeds):
            data = stream(kind, seed)
            head = {"kind": kind, "seed": seed}
            for name, make in methods.items():
                error, seconds = error_of(make(), data)
                yield head | {"method": name, "error": error, "seconds": seconds}
            yield head | {"method": "best window", "error": best_window(data)}
            if "turning" not in kind and "jump" not in kind:
                yield head | {"method": "RobustPCA at once", "error": at_once(data)}
        log(kind)


def table(found: Sequence[dict[str, Any]], quantity: str) -> list[str]:
    """Means over seeds: a line a kind, a column a method; the least of the streaming ones in bold."""
    methods = list(dict.fromkeys(r["method"] for r in found if quantity in r))
    rows = ["| stream | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    for kind in dict.fromkeys(r["kind"] for r in found):
        means = {}
        for name in methods:
            values = [
                r[quantity]
                for r in found
                if (r["kind"], r["method"]) == (kind, name) and quantity in r
            ]
            means[name] = float(np.mean(values)) if values else np.nan
        streaming = [v for n, v in means.items() if n not in ("best window", "RobustPCA at once")]
        shown = [
            "" if v != v else f"**{v:.3f}**" if v == min(streaming) else f"{v:.3f}"
            for v in means.values()
        ]
        rows.append(f"| {kind} | " + " | ".join(shown) + " |")
    return rows


def times(found: Sequence[dict[str, Any]]) -> list[str]:
    """Process times of a row over those of IncrementalPCA."""
    seconds: dict[str, list[float]] = {}
    for r in found:
        if "seconds" in r:
            seconds.setdefault(r["method"], []).append(r["seconds"])
    unit = float(np.median(seconds["IncrementalPCA"]))
    return [f"- {name}: {float(np.median(s)) / unit:.2g}" for name, s in seconds.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the race and write the two files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder to write to")
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(records(asked.seeds))
    (asked.out / "stream_race.json").write_text(json.dumps(found, indent=1) + "\n")
    text = ["# Streams", "", f"Sine of the largest angle, means over {asked.seeds} seeds.", ""]
    text += [*table(found, "error"), "", "Process time of a row, IncrementalPCA = 1:", ""]
    (asked.out / "stream_race.md").write_text("\n".join([*text, *times(found)]) + "\n")
    log(f"wrote {asked.out / 'stream_race.md'}")


if __name__ == "__main__":
    main()
