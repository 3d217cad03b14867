"""Files that change under a fit, and data that memory has no room for: errors, and in time."""

from __future__ import annotations

import mmap
import os

import numpy as np
import pytest
import scipy.sparse as sp
from faults import STREAMED, data, dice, fit, learned, made, script
from numpy.lib.stride_tricks import as_strided
from scale import LARGE

from dualpca import PCA
from dualpca.operators import Blocks, as_operator, centered
from dualpca.progress import Listener, listening

TRUNCATED = """
import os, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from faults import STREAMED, data, fit, learned, made
from dualpca.operators import Blocks
from dualpca.progress import Listener, listening

class Shorten(Listener):
    at = 0
    def step(self, step):
        self.seen += 1
        if self.seen == self.at:
            os.truncate(path, os.path.getsize(path) // 2)

path = sys.argv[2]
X = data(3000, 12)
listener, told = Shorten(), 0
for name in STREAMED if sys.argv[3] == "all" else ("PCA krylov", "RobustPCA"):
    np.save(path, X)
    listener.at, listener.seen = 0, 0
    with listening(listener):
        fresh = learned(fit(made(name), np.load(path, mmap_mode="r")))
    for at in {1, listener.seen // 2 + 1, listener.seen} if listener.seen else ():
        np.save(path, X)
        listener.at, listener.seen = at, 0
        model = made(name)
        try:
            with listening(listener):
                fit(model, np.load(path, mmap_mode="r"))
        except OSError as error:
            assert "bytes in a mapped file where there were" in str(error), error
            assert learned(model) == {}
            told += 1
        else:
            assert learned(model) == fresh  # nothing was read after it
    np.save(path, X)  # shortened before the fit
    mapped = np.load(path, mmap_mode="r")
    operator = Blocks([mapped])
    os.truncate(path, 1000)
    for given in (mapped, operator, operator.T.T):
        try:
            fit(made(name), given)
        except OSError as error:
            told += 1
        else:
            raise AssertionError(name)
    for ask in (lambda: operator.take([0, 2999]), lambda: operator @ np.ones((12, 1))):
        try:
            ask()
        except OSError as error:
            told += 1
        else:
            raise AssertionError(name)
print(told)
"""


def test_a_mapped_file_that_is_shortened_is_told(tmp_path, record_property):
    """Reading it would end the process, so that it is a process of its own."""
    which = "all" if LARGE else "few"
    (told,) = script(TRUNCATED, os.path.dirname(__file__), tmp_path / "X.npy", which)
    record_property("fault", "a memory map truncated")
    record_property("executions", int(told))
    assert int(told) >= 5 * (len(STREAMED) if LARGE else 2)


def test_a_file_shorter_than_its_header_says_is_refused(tmp_path, record_property):
    path = tmp_path / "X.npy"
    np.save(path, data())
    for size in {1, 60, 128, *(dice("npy").randrange(path.stat().st_size) for _ in range(20))}:
        os.truncate(path, size)
        with pytest.raises((ValueError, EOFError, OSError)):
            PCA(2).fit(np.load(path, mmap_mode="r"))
        np.save(path, data())
    record_property("fault", "a .npy shorter than its header says")


class Doing(Listener):
    """Does something when all rows have been read once."""

    def __init__(self, then):
        self.then = [then]

    def rows(self, done, total):
        if done == total and self.then:
            self.then.pop()()


def changing(name, X, change):
    """The error of a fit whose data changes after the first pass; the model stays as it was."""
    model = made(name)
    with listening(Doing(change)), pytest.raises((OSError, ValueError)) as caught:
        fit(model, X)
    assert learned(model) == {}
    assert str(caught.value)
    return caught.value


FOLLOWED = ["PCA krylov", "PCA dca", "RobustPCA"]


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_chunk_that_is_gone_from_hdf5_is_told(name, tmp_path, record_property):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "X.h5", "w") as file:
        chunks = {"chunks": (30, 12), "maxshape": (None, None)}
        X = file.create_dataset("X", data=data(), **chunks)
        error = changing(name, X, lambda: X.resize((60, 12)))
        assert "the data changed while it was read" in str(error)
        X.resize((90, 12))
        error = changing(name, X, lambda: X.resize((90, 11)))
        assert "the data changed while it was read" in str(error)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        X = file.create_dataset("X", data=data(), chunks=(30, 12), compression="gzip")
        place = X.id.get_chunk_info(2)
    with h5py.File(tmp_path / "X.h5", "r") as file:
        X = file["X"]

        def damage():
            with open(tmp_path / "X.h5", "r+b") as raw:
                raw.seek(place.byte_offset)
                raw.write(bytes(place.size))

        model = made(name)
        with listening(Doing(damage)):
            try:
                fit(model, X)
            except (OSError, ValueError):
                assert learned(model) == {}
            else:  # the library has kept the chunk
                assert np.isfinite(model.components_).all()
    record_property("fault", "an HDF5 data set shortened, a chunk damaged")


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_damaged_chunk_of_zarr_is_told(name, tmp_path, record_property):
    """A chunk that is gone is the fill value to zarr; one that is cut off is an error."""
    zarr = pytest.importorskip("zarr")
    X = zarr.create_array(str(tmp_path / "X"), data=data(), chunks=(30, 12), fill_value=np.nan)
    chunk = next(
        path for path in (tmp_path / "X").rglob("*") if path.is_file() and path.suffix == ""
    )

    def gone():
        chunk.unlink()

    def cut():
        os.truncate(chunk, chunk.stat().st_size // 2)

    kept = chunk.read_bytes()
    for damage in (gone, cut):
        chunk.write_bytes(kept)
        model = made(name)
        with listening(Doing(damage)), pytest.raises((OSError, ValueError, RuntimeError)):
            fit(model, X)
        assert learned(model) == {}
    record_property("fault", "a zarr chunk gone or cut off")


@pytest.mark.parametrize("how", ["fewer rows", "more rows", "no Parquet", "gone"])
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_parquet_file_replaced_during_the_fit_is_told(name, how, tmp_path, record_property):
    """A data set opens its files anew in each pass: never a hang, never fewer rows than were there."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    dataset = pytest.importorskip("pyarrow.dataset")
    path = tmp_path / "X.parquet"

    def put(A):
        table = pa.table({f"x{j}": column for j, column in enumerate(A.T)})
        pq.write_table(table, tmp_path / "new")
        os.replace(tmp_path / "new", path)

    change = {
        "fewer rows": lambda: put(data(60)),
        "more rows": lambda: put(data(200)),
        "no Parquet": lambda: path.write_bytes(b"nothing" * 1000),
        "gone": path.unlink,
    }[how]
    put(data())
    changing(name, dataset.dataset(path), change)
    put(data())
    expected = learned(fit(made(name), pq.ParquetFile(path)))
    if how != "no Parquet":  # an open file stays what it was where it is replaced
        with pq.ParquetFile(path) as file, listening(Doing(change)):
            assert learned(fit(made(name), file)) == expected
    record_property("fault", f"a Parquet file replaced: {how}")


def test_rows_of_data_that_changed_are_not_made_up(tmp_path, record_property):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    dataset = pytest.importorskip("pyarrow.dataset")
    path = tmp_path / "X.parquet"
    pq.write_table(pa.table({"x": np.arange(90.0)}), path)
    X = Blocks([dataset.dataset(path)])
    pq.write_table(pa.table({"x": np.arange(60.0)}), tmp_path / "new")
    os.replace(tmp_path / "new", path)
    with pytest.raises(OSError, match=r"."):  # ours, or of the library that has kept the footer
        X.take([3, 80])
    record_property("fault", "rows taken of a file that was replaced")


# memory


def huge(N, d, dtype=float):
    """A matrix of one number: all of it is one place in memory."""
    return as_strided(np.ones(1, dtype=dtype), (N, d), (0, 0), writeable=False)


def diagonal(n):
    """A few numbers in many columns and rows."""
    few = np.arange(200)
    return sp.csr_array((few + 1.0, (few * (n // 200), few)), shape=(n, n))


def mapped(N, d):
    """The same in a map: a page that all of it is."""
    return as_strided(np.frombuffer(mmap.mmap(-1, 4096)), (N, d), (0, 0), writeable=False)


NAMED = r"take [\d,]+ bytes \([\d.]+ [TGM]iB\), and [\d,]+ \([\d.e+]+ [TGMK]?i?B\) are available; "

REFUSALS = {
    "gram of 10^6 columns": lambda: PCA(3, solver="gram").fit(diagonal(10**6)),
    "the Gram matrix of an operator": lambda: as_operator(diagonal(10**6)).gram(),
    "the Gram matrix of centred rows": lambda: centered(as_operator(diagonal(10**6))).gram(),
    "the Gram matrix of a transpose": lambda: as_operator(diagonal(10**6)).T.gram(),
    "K of 10^6 rows": lambda: as_operator(diagonal(10**6)).kernel(),
    "K of blocks": lambda: Blocks([diagonal(10**6)]).kernel(),
    "all of a sparse matrix": lambda: as_operator(diagonal(10**7)).todense(),
    "all of an array": lambda: Blocks([huge(10**6, 10**6)]).todense(),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_memory_cannot_hold_is_refused_with_the_number_of_bytes(what, record_property):
    with pytest.raises(MemoryError, match=NAMED):
        REFUSALS[what]()
    record_property("fault", f"memory: {what}")


LIMITED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from dualpca import PCA, RobustPCA, as_operator
from dualpca.operators import Blocks
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, resource.RLIM_INFINITY))
X = np.random.default_rng(0).standard_normal((60, 12000))
for ask in (
    lambda: as_operator(X.T).kernel(),
    lambda: as_operator(X).gram(),
    lambda: Blocks([lambda: 1 / 0], shapes=[(20000, 12000)], dtype=float).todense(),
):
    try:
        ask()
    except MemoryError as error:
        print(error)
    else:
        raise AssertionError("not refused")
PCA(3, solver="krylov", random_state=0).fit(X)
"""


@pytest.mark.skipif(
    not (LARGE and os.path.exists("/proc/self/statm")), reason="the large run on Linux"
)
def test_a_process_with_little_memory_is_told_and_goes_on(record_property):
    told = script(LIMITED, os.path.dirname(__file__))
    assert len(told) == 3
    assert all("bytes" in line and "available" in line for line in told)
    record_property("fault", "memory: a limit of the process")
