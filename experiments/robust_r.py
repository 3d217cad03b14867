"""Robust PCA of the R package rrcov: one R process that answers requests (rrcov.R)."""

from __future__ import annotations

import select
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).with_name("rrcov.R")

#: Seconds that R may take to start and to load rrcov.
START = 60.0


class RError(RuntimeError):
    """R is missing, cannot load rrcov, or a fit failed."""


@dataclass(frozen=True)
class RFit:
    """What rrcov found; ``flags`` are True at the outliers."""

    seconds: float
    components: np.ndarray
    mean: np.ndarray
    flags: np.ndarray
    od: np.ndarray
    sd: np.ndarray
    cutoff_od: float
    cutoff_sd: float


class Rrcov:
    """An R process with rrcov loaded; it is started again after a fit that ran over its limit."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.version = ""

    def start(self) -> None:
        """Start R unless it runs; raises RError where R or rrcov is missing."""
        if self._process is not None and self._process.poll() is None:
            return
        program = shutil.which("Rscript")
        if program is None:
            raise RError("Rscript is not on the path")
        self._process = subprocess.Popen(
            [program, "--vanilla", str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self.version = self._line(START)
        if not self.version:
            raise RError("R does not load the package rrcov")

    def fit(
        self, method: str, X: np.ndarray, k: int, seed: int, limit: float, times: int = 3
    ) -> RFit:
        """Fit ``method`` of rrcov.R, ``times`` times where it is short, for the median of seconds.

        TimeoutError after ``limit`` seconds, which include reading X.
        """
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        N, d = X.shape
        with tempfile.TemporaryDirectory() as folder:
            given, found = Path(folder, "X.bin"), Path(folder, "fit.bin")
            np.asarray(X, dtype=float).T.tofile(given)  # column by column
            words = [method, k, seed, N, d, given, found, times]
            self._process.stdin.write("\t".join(map(str, words)) + "\n")
            self._process.stdin.flush()
            said = self._line(limit)
            if said != "ok":
                raise RError(said or "R ended without an answer")
            return _read(np.fromfile(found), N, d)

    def close(self) -> None:
        """End R."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _line(self, limit: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        begun = time.perf_counter()
        if not select.select([self._process.stdout], [], [], limit)[0]:
            self.close()
            raise TimeoutError(f"over {time.perf_counter() - begun:.0f} s")
        return self._process.stdout.readline().strip()


def _read(numbers: np.ndarray, N: int, d: int) -> RFit:
    seconds, k, cutoff_sd, cutoff_od = numbers[:4].tolist()
    mean, loadings, flags, od, sd = np.split(numbers[4:], np.cumsum([d, d * int(k), N, N]))
    return RFit(
        seconds=seconds,
        components=loadings.reshape(int(k), d),
        mean=mean,
        flags=flags > 0.5,
        od=od,
        sd=sd,
        cutoff_od=cutoff_od,
        cutoff_sd=cutoff_sd,
    )
