"""Peak memory of ``PCA.fit`` on a read-only memory map: ``python -m benchmarks.memory [--gb 2]``.

Counted is anonymous memory, sampled every 5 ms: what a process allocates. Pages of the map that the
system keeps in its cache are not, as it takes them back when it needs them.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import dualpca

COLUMNS = 1000
ROWS_AT_A_TIME = 20_000


def write_matrix(path: Path, gigabytes: float) -> None:
    """A float32 .npy file of about that size, with variances that fall by 1 % a column."""
    rows = int(gigabytes * 2**30) // (4 * COLUMNS)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, COLUMNS))
    rng = np.random.default_rng(0)
    scale = (0.995 ** np.arange(COLUMNS)).astype(np.float32)
    for start in range(0, rows, ROWS_AT_A_TIME):
        block = out[start : start + ROWS_AT_A_TIME]
        block[:] = rng.standard_normal(block.shape, dtype=np.float32) * scale
    out.flush()


def anonymous() -> float:
    """Anonymous resident memory, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024


class Peak:
    """The most anonymous memory above that at the start, in MB, while the context lasts."""

    def __enter__(self) -> Peak:
        self.start = self.most = anonymous()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.most = max(self.most, anonymous())

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def extra(self) -> float:
        return self.most - self.start


def measure(path: Path, s: int, **options: object) -> str:
    """One fit, in words."""
    X = np.load(path, mmap_mode="r")
    with Peak() as peak:
        begun = time.perf_counter()
        model = dualpca.PCA(s, random_state=0, **options).fit(X)
        seconds = time.perf_counter() - begun
    return (
        f"{X.nbytes / 1e9:.2f} GB, {X.shape[0]} x {X.shape[1]}: {peak.extra:.0f} MB extra, "
        f"{seconds:.1f} s, {model.n_passes_} passes, {model.solver_}, residual {model.residual_:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gb", type=float, default=2.0, help="size of the matrix")
    parser.add_argument("--folder", help="where to write it; a temporary folder by default")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "matrix.npy"
        write_matrix(path, args.gb)
        path.chmod(0o444)
        before = path.stat()
        for options in ({}, {"solver": "krylov", "tol": 1e-3}):
            print(measure(path, 20, **options), flush=True)
        after = path.stat()
        same = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
        print("the file is unchanged" if same else "THE FILE HAS CHANGED")


if __name__ == "__main__":
    main()
