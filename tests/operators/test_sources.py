"""Laws of where row blocks come from, over the list of all kinds of data."""

import decimal
import hashlib
import mmap
import os
import shutil
import subprocess
import sys
import threading
import weakref
from itertools import product
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import scipy.sparse as sp
import zarr
from benchmarks import out_of_core as out_of_core_benchmark

from dualpca import PCA
from dualpca.operators.arrow import ArrowSource
from dualpca.operators.blocks import Blocks
from dualpca.operators.files import BLOCK, ahead, out_of_core, source_of

N, D = 203, 7


def table(A):
    return pa.table(list(np.ascontiguousarray(A.T)), names=[f"x{j}" for j in range(A.shape[1])])


def mapped(A, path, order="C"):
    out = np.lib.format.open_memmap(
        path, mode="w+", dtype=A.dtype, shape=A.shape, fortran_order=order == "F"
    )
    out[:] = A
    out.flush()
    return np.load(path, mmap_mode="r")


def padded(A):
    """A as every second row and a part of the columns of a larger array."""
    out = np.zeros((2 * A.shape[0] + 1, A.shape[1] + 3), dtype=A.dtype)
    out[1::2, 2:-1] = A
    return out


def stored_zarr(A, path, chunks, **options):
    return zarr.open_array(
        zarr.create_array(path, data=A, chunks=chunks, **options).store, mode="r"
    )


def stored_hdf5(A, path, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=A, **options)
    return h5py.File(path, "r")["X"]


def stored_parquet(A, path, rows):
    pa.parquet.write_table(table(A), path, row_group_size=rows)
    return path


def stored_dataset(A, path):
    """Eleven files of 20 rows, in order of their names."""
    path.mkdir()
    for i, start in enumerate(range(0, len(A), 20)):
        stored_parquet(A[start : start + 20], path / f"{i:02d}.parquet", 6)
    return pa.dataset.dataset(path)


def stored_ipc(A, path, memory_map):
    whole = table(A)
    with pa.ipc.new_file(str(path), whole.schema) as out:
        out.write_table(whole, max_chunksize=19)
    return pa.ipc.open_file(pa.memory_map(str(path)) if memory_map else pa.OSFile(str(path)))


IN_MEMORY = {
    "array": lambda A, p: A,
    "Fortran array": lambda A, p: np.asfortranarray(A),
    "strided array": lambda A, p: padded(A)[1::2, 2:-1],
    "csr": lambda A, p: sp.csr_array(A),
    "csc": lambda A, p: sp.csc_array(A),
    "coo": lambda A, p: sp.coo_array(A),
    "function": lambda A, p: lambda: A,
    "function of csr": lambda A, p: lambda: sp.csr_array(A),
}
STORED = {
    "memmap": mapped,
    "sliced memmap": lambda A, p: mapped(padded(A), p)[1::2, 2:-1],
    "transposed memmap": lambda A, p: mapped(A.T, p).T,
    "reversed memmap": lambda A, p: mapped(A[::-1], p)[::-1],
    "Fortran memmap": lambda A, p: mapped(A, p, "F"),
    "memmap as array": lambda A, p: np.asarray(mapped(A, p)),
    "zarr": lambda A, p: stored_zarr(A, p, (10, D)),
    "zarr in columns": lambda A, p: stored_zarr(A, p, (13, 3)),
    "zarr 2": lambda A, p: stored_zarr(A, p, (10, D), zarr_format=2),
    "zarr in shards": lambda A, p: stored_zarr(A, p, (5, D), shards=(20, D)),
    "hdf5": stored_hdf5,
    "chunked hdf5": lambda A, p: stored_hdf5(A, p, chunks=(13, 2), compression="gzip"),
    "arrow table": lambda A, p: table(A),
    "arrow batch": lambda A, p: table(A).to_batches()[0],
    "arrow file": lambda A, p: stored_ipc(A, p, False),
    "mapped arrow file": lambda A, p: stored_ipc(A, p, True),
    "parquet file": lambda A, p: pa.parquet.ParquetFile(stored_parquet(A, p, 17)),
    "parquet data set": stored_dataset,
}
KINDS = IN_MEMORY | STORED
SIZES = [1, 100, 560, 3000, N * D * 8, BLOCK]


def matrix(dtype="float64"):
    A = np.random.default_rng(0).standard_normal((N, D)) * 10
    A[3] = 0
    return A.astype(dtype)


def dense(block):
    return block.toarray() if sp.issparse(block) else block


@pytest.fixture(params=KINDS)
def made(request, tmp_path):
    """Some data, and the matrix it holds."""
    A = matrix()
    data = KINDS[request.param](A, tmp_path / "data")
    yield data, A
    if isinstance(data, h5py.Dataset):
        data.file.close()


@pytest.mark.parametrize("block_bytes", SIZES)
def test_blocks_are_the_data(made, block_bytes):
    data, A = made
    source = source_of(data)
    assert source.shape == A.shape
    assert source.dtype == A.dtype
    blocks = list(source.read(block_bytes))
    assert np.array_equal(np.concatenate([dense(block) for block in blocks]), A)
    if out_of_core(data):
        assert max(block.nbytes for block in blocks) <= max(block_bytes, D * 8)


def test_out_of_core(made, request):
    assert out_of_core(made[0]) == (request.node.callspec.params["made"] in STORED)


@pytest.mark.parametrize(
    "rows", [[0], [N - 1], [0, 1, 2, 9, 10, 40, 101, 102], range(N), [5, 5, 60], [12, 13, 26]]
)
def test_take(made, rows):
    data, A = made
    rows = np.asarray(rows)
    assert np.array_equal(dense(source_of(data).take(rows)), A[rows])


@pytest.mark.filterwarnings("ignore:a row of chunks")
@pytest.mark.parametrize("block_bytes", [100, BLOCK])
def test_products(made, block_bytes):
    data, A = made
    X = Blocks([data, A[:5], data], block_bytes=block_bytes) if _nameless(data) else Blocks([data])
    A = np.concatenate([A, A[:5], A]) if _nameless(data) else A
    W = np.random.default_rng(1).standard_normal((D, 3))
    assert X.shape == A.shape
    assert np.allclose(X @ W, A @ W)
    assert np.allclose(X.sweep(W), A.T @ (A @ W))
    assert X.passes == 2
    assert np.array_equal(dense(X.take(np.arange(0, len(A), 3))), A[::3])
    rows = [r for r, _ in X.blocks()]
    assert [r.start for r in rows] == [0, *(r.stop for r in rows[:-1])]
    assert rows[-1].stop == len(A)


def _nameless(data):
    return source_of(data).names is None and not source_of(data).sparse


@pytest.mark.parametrize("name", ["memmap", "Fortran memmap", "sliced memmap"])
def test_blocks_of_a_memory_map_are_views(name, tmp_path):
    data = STORED[name](matrix(), tmp_path / "data")
    for block in source_of(data).read(500):
        assert np.shares_memory(block, data)
        assert not block.flags.writeable


DTYPES = ("float32", "float64", "int8", "uint64", "bool")
DENSE = ("array", "memmap", "zarr", "hdf5", "arrow table")


@pytest.mark.parametrize(  # scipy has no sparse float16
    ("name", "dtype"), [*product(DENSE, [*DTYPES, "float16"]), *product(["csr"], DTYPES)]
)
def test_dtypes(name, dtype, tmp_path):
    """float32 stays float32, everything else is computed in float64."""
    A = (np.abs(matrix()) > 5).astype(dtype)
    data = KINDS[name](A, tmp_path / "data")
    expected = "float32" if dtype == "float32" else "float64"
    assert source_of(data).dtype == expected
    X = Blocks([data])
    assert X.dtype == expected
    for _, block in X.blocks():
        assert block.dtype == expected
    assert np.array_equal(dense(X.take(np.arange(N))), A)
    assert X.take([1, 2]).dtype == expected


@pytest.mark.parametrize("name", ["array", "memmap", "zarr", "hdf5"])
def test_byte_order(name, tmp_path):
    A = matrix("float32")
    X = Blocks([KINDS[name](A.astype(">f4"), tmp_path / "data")])
    assert X.dtype == np.dtype("float32")
    assert X.dtype.isnative
    assert np.array_equal(X.todense(), A)


def test_arrow_columns():
    """Mixed numbers, with nulls as NaN, under their names; the widest type of all."""
    columns = {
        "single": pa.array([1.5, None, 2], pa.float32()),
        "count": pa.array([1, None, 2**60 + 1]),
        "flag": pa.array([True, None, False]),
        "price": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("2.5")]),
        "half": pa.array(np.array([1, np.nan, 3], dtype=np.float16)),
    }
    nan = np.nan
    expected = [[1.5, 1, 1, 1.25, 1], [nan] * 5, [2, 2.0**60, 0, 2.5, 3]]
    X = Blocks([pa.table(columns)])
    assert X.names == list(columns)
    assert X.dtype == "float64"
    assert np.array_equal(X.todense(), expected, equal_nan=True)
    assert Blocks([pa.table(columns).select(["single"])]).dtype == "float32"


def test_a_chosen_part_of_a_data_set(tmp_path):
    A = matrix()
    data = stored_dataset(A, tmp_path / "data")
    some = data.replace_schema(pa.schema([data.schema.field("x4"), data.schema.field("x1")]))
    X = Blocks([some])
    assert X.names == ["x4", "x1"]
    assert np.array_equal(X.todense(), A[:, [4, 1]])


# Each part is read once.


def counting_store(path):
    """A store of zarr that counts how often each chunk was read."""
    counts = {}

    class Counting(zarr.storage.LocalStore):
        async def get(self, key, *args, **kwargs):
            counts[key] = counts.get(key, 0) + 1
            return await super().get(key, *args, **kwargs)

    return Counting(path), counts


@pytest.mark.parametrize("block_bytes", [10 * D * 8, 1000, 3000, BLOCK])
@pytest.mark.parametrize("chunks", [(10, D), (10, 3)])
def test_each_chunk_is_read_once_a_pass(chunks, block_bytes, tmp_path):
    store, counts = counting_store(tmp_path / "data")
    zarr.create_array(store, data=matrix(), chunks=chunks)
    X = Blocks([zarr.open_array(store, mode="r")], block_bytes=block_bytes)
    counts.clear()
    X.sweep(np.ones((D, 2)))
    chunk_rows, chunk_columns = -(-N // chunks[0]), -(-D // chunks[1])
    assert len(counts) == chunk_rows * chunk_columns
    assert set(counts.values()) == {1}
    counts.clear()
    X.take([11, 12, 17, 95])
    assert len(counts) == 2 * chunk_columns
    assert set(counts.values()) == {1}


def test_chunks_larger_than_a_block_are_told_of(tmp_path):
    store, counts = counting_store(tmp_path / "data")
    zarr.create_array(store, data=matrix(), chunks=(100, D))
    data = zarr.open_array(store, mode="r")
    with pytest.warns(
        UserWarning, match=r"block_bytes=1400, .* read 4 times a pass; rechunk"
    ) as found:
        X = Blocks([data], block_bytes=25 * D * 8)
    assert found[0].filename == __file__
    counts.clear()
    X.sweep(np.ones((D, 2)))  # once only: a warning here would be an error
    assert max(counts.values()) == 4
    assert max(len(block) for _, block in X.blocks()) == 25


def test_each_function_is_called_once_a_pass():
    calls = []
    A = matrix()

    def part(i):
        calls.append(i)
        return A[i * 50 : (i + 1) * 50]

    functions = [lambda i=i: part(i) for i in range(5)]
    shapes = [(50, D)] * 4 + [(3, D)]
    X = Blocks(functions, shapes=shapes, dtype=float)
    assert calls == []
    X.sweep(np.ones((D, 2)))
    assert calls == list(range(5))
    assert np.array_equal(X.take([60, 61, 202]), A[[60, 61, 202]])
    assert calls[5:] == [1, 4]
    assert Blocks(functions, shapes=shapes).dtype == "float64"  # the first is called
    assert calls[7:] == [0]


def test_each_batch_is_read_once_a_pass():
    counts = []
    whole = table(matrix()).to_batches(max_chunksize=19)

    class RecordBatchFileReader:
        schema, num_record_batches = whole[0].schema, len(whole)

        def count_rows(self):
            return N

        def get_batch(self, i):
            counts.append(i)
            return whole[i]

    RecordBatchFileReader.__module__ = "pyarrow.ipc"
    X = Blocks([RecordBatchFileReader()], block_bytes=1000)
    X.sweep(np.ones((D, 2)))
    assert counts == list(range(len(whole)))


# Reading ahead.


def test_reading_runs_ahead_of_the_caller():
    """The block after the one that is computed on is read meanwhile, and no other."""
    for taken in range(1, 5):
        read = [threading.Event() for _ in range(4)]

        def blocks(read=read):
            for i, event in enumerate(read):
                event.set()
                yield i

        reading = ahead(blocks())
        for i in range(taken):
            assert next(reading) == i
            if i + 1 < len(read):
                read[i + 1].wait()  # while this block is in the caller's hands
        reading.close()  # what was begun is brought to its end
        assert sum(event.is_set() for event in read) == min(taken + 1, len(read))


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("read-ahead")]


def test_exceptions_pass_on():
    def blocks():
        yield 1
        raise OSError("the disk is gone")

    blocks_ahead = ahead(blocks())
    assert next(blocks_ahead) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(blocks_ahead)
    assert not threads()
    assert list(ahead(iter([]))) == []

    def broken():
        raise OSError("the server is gone")

    X = Blocks([lambda: np.ones((2, 3)), broken], shapes=[(2, 3)] * 2, dtype=float)
    with pytest.raises(OSError, match="the server is gone"):
        X.sweep(np.ones((3, 1)))
    assert not threads()


def test_an_abandoned_pass_leaves_no_thread(tmp_path):
    X = Blocks([mapped(matrix(), tmp_path / "data")], block_bytes=500)
    walk = X.blocks()
    next(walk)
    assert len(threads()) == 1
    del walk
    assert not threads()

    def stop(Y, rows):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        X.sweep(np.ones((D, 1)), stop)
    assert not threads()


def test_errstate_reaches_the_thread():
    def overflow():
        return np.full((2, 3), 1e308) * 10

    X = Blocks([overflow], shapes=[(2, 3)], dtype=float)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        list(X.blocks())
    with np.errstate(over="ignore"):
        assert np.isinf(next(iter(X.blocks()))[1]).all()


def test_blocks_are_let_go(tmp_path):
    """No more than the block in the caller's hands, the next one, and the one before."""
    data = stored_hdf5(matrix(), tmp_path / "data")
    alive = []
    source = source_of(data)

    def watched():
        for block in source.read(500):
            alive.append(weakref.ref(block))
            yield block

    for _ in ahead(watched()):
        assert sum(ref() is not None for ref in alive) <= 3
    data.file.close()


# Files stay as they are, and memory is bounded.


@pytest.mark.parametrize("name", ["memmap", "hdf5", "zarr", "arrow file", "parquet data set"])
def test_read_only_files_stay_untouched(name, tmp_path):
    A = matrix()
    data = STORED[name](A, tmp_path / "data")
    files = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    for file in files:
        os.chmod(file, 0o444)

    def state():
        return [(f, f.stat().st_mtime_ns, hashlib.sha256(f.read_bytes()).digest()) for f in files]

    before = state()
    X = Blocks([data], block_bytes=2000)
    X.sweep(np.ones((D, 2)))
    X.gram()
    X.column_sums()
    X.take([1, 5])
    assert state() == before
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == files


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
from benchmarks.out_of_core import opened
from dualpca.operators.blocks import Blocks
kind, path, extra = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
X = Blocks([opened(kind, path)], block_bytes=2**22)
W = np.ones((X.shape[1], 4), dtype=np.float32)
next(iter(X.blocks()))[1] @ W  # threads and buffers of the libraries
with open("/proc/self/status") as status:
    used = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (used + extra, used + extra))
try:
    np.ones(2 * extra, dtype=np.uint8)
except MemoryError:
    print(float(X.sweep(W)[0, 0]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
@pytest.mark.parametrize("kind", ["npy", "hdf5", "zarr", "arrow", "parquet"])
def test_a_file_larger_than_memory(kind, tmp_path, monkeypatch):
    """A pass over 320 MB with 128 MB to allocate, of which threads that zarr starts take 8 each."""
    rows, columns = 160_000, 500
    for name, value in {"CHUNK": 4000, "ROW_GROUP": 2000}.items():
        monkeypatch.setattr(out_of_core_benchmark, name, value)
    path = tmp_path / "npy"
    out = np.lib.format.open_memmap(path, mode="w+", dtype="float32", shape=(rows, columns))
    out[:] = (
        np.random.default_rng(0)
        .standard_normal((1000, columns), dtype="float32")
        .repeat(rows // 1000, axis=0)
    )
    out.flush()
    expected = float(out[:, 0].astype(float) @ out.sum(axis=1, dtype=float))
    if kind != "npy":
        path = tmp_path / kind
        out_of_core_benchmark.WRITERS[kind](out, path)
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    arrow = {"ARROW_DEFAULT_MEMORY_POOL": "system"}  # the default one reserves a gigabyte
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, kind, str(path), str(2**27)],
        capture_output=True,
        text=True,
        env={**os.environ, **alone, **arrow},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(expected, rel=1e-3)
    shutil.rmtree(tmp_path)  # pytest would keep it


# Errors.


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda p: mapped(np.ones((3, 2, 2)), p), "3 dimension"),
        (lambda p: stored_hdf5(np.ones(3), p), "1 dimension"),
        (lambda p: stored_zarr(np.ones(3), p, (2,)), "1 dimension"),
        (lambda p: np.ones((2, 2), dtype=complex), "dtype complex128; real numbers"),
        (lambda p: np.array([["a"]]), "dtype <U1; real numbers"),
        (lambda p: mapped(np.ones((3, 2), dtype="complex64"), p), "dtype complex64"),
        (lambda p: sp.csr_array(np.ones((2, 2), dtype=complex)), "dtype complex128"),
        (lambda p: stored_hdf5(np.array([[b"a"]]), p), "dtype |S1"),
        (lambda p: np.ones((0, 3)), r"shape \(0, 3\); give at least one row"),
        (lambda p: np.ones((3, 0)), r"shape \(3, 0\); give at least one row"),
        (lambda p: stored_hdf5(np.ones((0, 3)), p), r"shape \(0, 3\)"),
        (lambda p: table(np.ones((2, 2))).slice(0, 0), r"shape \(0, 2\)"),
        (
            lambda p: pa.table({"a": [1.0], "city": ["Rome"]}),
            "column 'city' has type string.*select",
        ),
        (lambda p: pa.table({}), r"shape \(0, 0\)"),
        (lambda p: lambda: np.ones(3), "1 dimension"),
    ],
)
def test_refused(make, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        Blocks([make(tmp_path / "data")])


def test_refused_arguments():
    with pytest.raises(ValueError, match="dtype complex128"):
        Blocks([np.eye(2)], dtype=complex)
    with pytest.raises(ValueError, match=r"named \['a'\] and \['b'\]"):
        Blocks([pa.table({"a": [1.0]}), pa.table({"b": [1.0]})])
    with pytest.raises(ValueError, match=r"shapes has \(3, 2\) for a block of shape \(2, 2\)"):
        Blocks([np.eye(2)], shapes=[(3, 2)])
    X = Blocks([lambda: np.eye(2)], shapes=[(3, 2)], dtype=float)
    with pytest.raises(ValueError, match=r"shape \(2, 2\) where \(3, 2\) was expected"):
        X @ np.eye(2)
    for rows in ([], [2, 1], [-1], [3]):
        with pytest.raises(ValueError, match="not sorted indices from 0 to 2"):
            Blocks([np.eye(3)]).take(rows)


def test_what_is_no_source():
    for data in ([[1, 2]], "path.npy", None, 3):
        assert not out_of_core(data)


@pytest.mark.slow
def test_nothing_is_imported_for_it():
    code = (
        "import sys, numpy, sklearn.utils; before = set(sys.modules); import dualpca; "
        "dualpca.operators.Blocks([numpy.eye(2)]).sweep(numpy.eye(2)); new = set(sys.modules) - before; "
        "print([m for m in ('zarr', 'h5py', 'pyarrow', 'pyarrow.dataset', 'dask') if m in new])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_mapped_file_that_was_shortened_is_told_before_it_is_read(tmp_path):
    """Reading behind the end would end the process."""
    path = tmp_path / "X.bin"
    A = np.arange(60000.0).reshape(6000, 10)

    def put():
        path.write_bytes(bytes(80) + A.tobytes())
        return np.memmap(path, dtype=float, mode="r", offset=80, shape=A.shape)

    for part in (slice(None), slice(3000, 5000), slice(None, None, -1)):
        X = Blocks([put()[part]], block_bytes=2**15)
        blocks = X.blocks()
        np.testing.assert_array_equal(next(blocks)[1], A[part][: next(X.blocks())[1].shape[0]])
        # A file that ends where the map ends is whole, one byte less is not.
        needed = 80 + 80 * 6000
        os.truncate(path, needed)
        X @ np.ones((10, 1))
        os.truncate(path, needed - 1)
        told = pytest.raises(OSError, match=r"[\d,]+ bytes in a mapped file where there were")
        with told:
            X @ np.ones((10, 1))
        with told:
            X.take([0])
        with told:
            list(blocks)
    anonymous = np.frombuffer(mmap.mmap(-1, 8000)).reshape(100, 10)
    assert not np.any(Blocks([anonymous]) @ np.ones((10, 1)))


class Batches:
    """A data set that has other rows when it is read again."""

    def __init__(self, *tables):
        self.tables, self.schema, self.num_rows = list(tables), tables[0].schema, len(tables[0])

    def to_batches(self):
        return (self.tables.pop(0) if len(self.tables) > 1 else self.tables[0]).to_batches()


def grown(first, then):
    tables = [pa.table({"x": np.arange(float(n))}) for n in (first, then)]
    return Blocks([ArrowSource(Batches(*tables))], block_bytes=80)


@pytest.mark.parametrize("then", [0, 29, 31, 100])
def test_a_table_of_other_rows_in_a_later_pass_is_told_and_never_read_for_ever(then):
    X, ones = grown(30, then), np.ones((1, 1))
    assert (X @ ones).shape == (30, 1)
    with pytest.raises(OSError, match="the data changed while it was read: there are"):
        X @ ones


def test_rows_that_are_gone_are_not_made_up():
    X = grown(30, 20)
    assert X.take([2, 25])[:, 0].tolist() == [2.0, 25.0]
    with pytest.raises(OSError, match="the data changed while it was read: there are 0 of 2 rows"):
        X.take([2, 25])


def test_a_data_set_that_is_resized_is_told(tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        A = np.arange(60.0).reshape(20, 3)
        data = file.create_dataset("X", data=A, maxshape=(None, None), chunks=(5, 3))
        X = Blocks([data], block_bytes=120)
        for shape in ((18, 3), (20, 2)):
            data.resize(shape)
            for ask in (lambda: X.rmatmul(np.ones((20, 1))), lambda: X.take([1, 19])):
                with pytest.raises(OSError, match="the data changed while it was read"):
                    ask()
            data.resize((20, 3))


@pytest.mark.parametrize("solver", ["krylov", "chebyshev", "gram", "dca"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_in_a_later_pass_is_told(solver, bad):
    """Chebyshev iterations ended with components of NaN."""
    A = np.random.default_rng(0).standard_normal((300, 30)) * 0.8 ** np.arange(30)
    B = A.copy()
    B[5, 3] = bad
    for readings in (1,) if solver == "gram" else (1, 2):
        left = [A] * readings
        X = Blocks([lambda left=left: left.pop() if left else B], shapes=[A.shape], dtype=float)
        model = PCA(3, solver=solver, random_state=0)
        kinds, words = (ValueError, FloatingPointError), "by its largest magnitude"
        with pytest.raises(kinds, match=words), np.errstate(invalid="ignore"):
            model.fit(X)
        assert not hasattr(model, "components_")


def test_a_generator_of_blocks_is_refused():
    with pytest.raises(TypeError, match="generator"):
        Blocks(np.ones((2, 2)) for _ in range(2))
