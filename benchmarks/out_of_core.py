"""A pass over files: ``python -m benchmarks.out_of_core [--gb 5] [--kinds npy,hdf5,...]``.

For each kind of file one sweep with s = 50 is timed beside reading the same file once, cold (its pages
dropped from the system's cache) and warm, interleaved, medians. Then PCA is fitted to each file by a
process whose memory is limited to a quarter of the file.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import dualpca

from .memory import COLUMNS, Peak, write_matrix

S = 50
CHUNK = 16 * 2**20 // (4 * COLUMNS)  # rows of 16 MB
ROW_GROUP = 2 * CHUNK


def _tables(X: np.ndarray, rows: int) -> Iterator[Any]:
    import pyarrow as pa

    names = [f"x{j}" for j in range(X.shape[1])]
    for start in range(0, len(X), rows):
        yield pa.table(list(np.ascontiguousarray(X[start : start + rows].T)), names=names)


def _hdf5(X: np.ndarray, path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        out = file.create_dataset("X", shape=X.shape, dtype=X.dtype)
        for start in range(0, len(X), CHUNK):
            out[start : start + CHUNK] = X[start : start + CHUNK]


def _zarr(X: np.ndarray, path: Path) -> None:
    import zarr

    out = zarr.create_array(
        path, shape=X.shape, chunks=(CHUNK, X.shape[1]), dtype=X.dtype, compressors=None
    )
    for start in range(0, len(X), CHUNK):
        out[start : start + CHUNK] = X[start : start + CHUNK]


def _parquet(X: np.ndarray, path: Path) -> None:
    import pyarrow.parquet as pq

    tables = _tables(X, ROW_GROUP)
    first = next(tables)
    with pq.ParquetWriter(path, first.schema) as out:
        out.write_table(first)
        for table in tables:
            out.write_table(table)


def _arrow(X: np.ndarray, path: Path) -> None:
    import pyarrow as pa

    tables = _tables(X, CHUNK)
    first = next(tables)
    with pa.ipc.new_file(str(path), first.schema) as out:
        out.write_table(first)
        for table in tables:
            out.write_table(table)


WRITERS: dict[str, Callable[[np.ndarray, Path], None]] = {
    "hdf5": _hdf5,
    "zarr": _zarr,
    "parquet": _parquet,
    "arrow": _arrow,
}
KINDS = ["npy", *WRITERS]


def opened(kind: str, path: Path) -> Any:
    """The data in the file, as its library opens it for reading."""
    if kind == "npy":
        return np.load(path, mmap_mode="r")
    if kind == "hdf5":
        import h5py

        return h5py.File(path, "r")["X"]
    if kind == "zarr":
        import zarr

        return zarr.open_array(path, mode="r")
    if kind == "parquet":
        import pyarrow.dataset as ds

        return ds.dataset(path)
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(str(path)))


def files(path: Path) -> list[Path]:
    """The file, or those below a folder, in order."""
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def drop(path: Path) -> None:
    """Drops the pages of the file from the system's cache; nothing may have it mapped."""
    gc.collect()
    for file in files(path):
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def read(kind: str, path: Path) -> None:
    """Reads the bytes once, in order, into one buffer."""
    buffer = bytearray(8 * 2**20)
    for file in files(path):
        with open(file, "rb", buffering=0) as handle:
            while handle.readinto(buffer):
                pass


def sweep(kind: str, path: Path) -> None:
    """One pass with s = 50."""
    W = np.random.default_rng(0).standard_normal((COLUMNS, S)).astype(np.float32)
    dualpca.as_operator(opened(kind, path)).sweep(W)


def seconds(f: Callable[[str, Path], None], kind: str, path: Path) -> float:
    begun = time.perf_counter()
    f(kind, path)
    return time.perf_counter() - begun


def row(kind: str, path: Path, repeats: int) -> str:
    """A row of the table."""
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(repeats):
        for f in (read, sweep):
            drop(path)
            for state in ("cold", "warm"):
                times.setdefault((f.__name__, state), []).append(seconds(f, kind, path))
    size = sum(file.stat().st_size for file in files(path)) / 1e9
    cells = [kind, f"{size:.2f}"]
    for state in ("cold", "warm"):
        once, swept = median(times["read", state]), median(times["sweep", state])
        cells += [f"{once:.2f}", f"{swept:.2f}", f"{swept / once:.2f}"]
    return "| " + " | ".join(cells) + " |"


def computing(path: Path) -> float:
    """Seconds of a sweep over as many numbers in memory: those of the first gigabyte, scaled."""
    X = np.load(path, mmap_mode="r")
    part = np.array(X[: 2**30 // (4 * COLUMNS)])
    operator = dualpca.as_operator(part)
    W = np.ones((COLUMNS, S), dtype=np.float32)
    times = []
    for _ in range(4):
        begun = time.perf_counter()
        operator.sweep(W)
        times.append(time.perf_counter() - begun)
    return median(times[1:]) * len(X) / len(part)


def fit(kind: str, path: Path, limit: int) -> None:
    """Fits PCA with so many bytes of memory, and says how it went."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    X = opened(kind, path)
    with Peak() as peak:
        begun = time.perf_counter()
        model = dualpca.PCA(S, solver="krylov", tol=1e-3, random_state=0).fit(X)
        took = time.perf_counter() - begun
    print(
        f"{kind}: {took:.1f} s, {model.n_passes_} passes, {took / model.n_passes_:.2f} s a pass, "
        f"residual {model.residual_:.1e}, {peak.extra:.0f} MB above the start, "
        f"limit {limit / 2**20:.0f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gb", type=float, default=5.0, help="size of the matrix")
    parser.add_argument("--kinds", default=",".join(KINDS), help="which kinds, by commas")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", help="where to write; a temporary folder by default")
    parser.add_argument("--fit", nargs=3, metavar=("KIND", "PATH", "LIMIT"), help="one fit")
    args = parser.parse_args()
    if args.fit:
        kind, path, limit = args.fit
        return fit(kind, Path(path), int(limit))
    kinds = args.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"--kinds has {sorted(unknown)}; choose among {', '.join(KINDS)}")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        base = Path(folder) / "npy"
        write_matrix(base, args.gb)
        print(f"{args.gb:g} GB, {COLUMNS} columns of float32, s = {S}; seconds.", end=" ")
        print(f"The products alone, in memory: {computing(base):.2f}.\n")
        print("| file | GB | read, cold | pass | ratio | read, warm | pass | ratio |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
        fits = []
        for kind in kinds:
            path = Path(folder) / kind
            if kind != "npy":
                WRITERS[kind](np.load(base, mmap_mode="r"), path)
            print(row(kind, path, args.repeats), flush=True)
            limit = str(int(args.gb * 2**30 / 4))
            command = [sys.executable, "-m", "benchmarks.out_of_core", "--fit", kind, path, limit]
            # The default pool of Arrow reserves a gigabyte of addresses, which count as memory here.
            environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            fits.append(done.stdout.strip() or f"{kind}: failed\n{done.stderr}")
            for file in files(path) if kind != "npy" else ():
                file.unlink()
        print("\nPCA with 50 components, memory limited to a quarter of the matrix:\n")
        print("\n".join(f"- {line}" for line in fits))


if __name__ == "__main__":
    main()
