"""Untrusted input: damaged and forged files are read or refused; nothing else happens."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scale import LARGE, SEED, count, tries

from dualpca.io.tables import Columns, TableError, read, write
from dualpca.io.tables.choose import choose
from dualpca.io.tables.columns import Header

pytest.importorskip("h5py")
pytest.importorskip("pyarrow")
pytest.importorskip("zarr")

FUZZ = Path(__file__).with_name("fuzz.py")
TARGETS = [
    *(
        f"tables.read: {ending}"
        for ending in ("csv", "tsv", "csv.gz", "csv.bz2", "parquet", "arrow")
    ),
    *(f"tables.read: {ending}" for ending in ("npy", "npz", "mtx", "h5", "zarr", "standard input")),
    *(f"dualpca fit: {ending}" for ending in ("csv", "parquet", "npy")),
    *("dualpca inspect", "dualpca.load: bytes", "dualpca.load: header, checksum right"),
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What the process that reads changed files says of each target; it has to end by itself."""
    folder = tmp_path_factory.mktemp("fuzz")
    tried = int(os.environ.get("TORTURE_FUZZ", count(12, 1500)))
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", FUZZ, str(SEED), str(tried), folder],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("target", TARGETS)
def test_changed_files_are_read_or_refused(outcomes, target, record_property):
    found = next(outcome for outcome in outcomes if outcome.get("target") == target)
    record_property("fuzz", target)
    record_property("executions", found["executions"])
    assert found["executions"] > 0 or not LARGE
    assert found["wrong"] == []
    assert found["library"] == 0  # no C library hung or ended its process


def test_changed_files_take_little_memory(outcomes):
    assert outcomes[-1]["peak"] < 2 * 2**30


LIMITED = """
import resource, sys
from pathlib import Path
import pyarrow.csv, pyarrow.compute, pyarrow.parquet, h5py, zarr
from dualpca.io.tables import TableError, read

sys.path.insert(0, sys.argv[1])
from scale import peak

pages = int(Path("/proc/self/statm").read_text().split()[0])
space = pages * resource.getpagesize() + 2**30
resource.setrlimit(resource.RLIMIT_AS, (space, space))
before = peak()
for path in sys.argv[2:]:
    try:
        print(path, read(path).X.shape)
    except TableError as error:
        print(Path(path).name, "refused:", error)
print((peak() - before) // 2**20)
"""


def packed(path, piece, times):
    """A gzip file of a piece many times over, made without holding it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with open(path, "wb") as file:
        for _ in range(times):
            file.write(packer.compress(piece))
        file.write(packer.flush())
    return path


def bombs(folder, size):
    """Small files that would take much memory, or no end of time."""
    import h5py
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zarr

    piece = 2**20
    for name, unit in (("zeros", b"\0"), ("spaces", b" "), ("newlines", b"\n"), ("commas", b",")):
        times = size if name == "zeros" else min(size, 2**28)
        yield packed(folder / f"{name}.csv.gz", unit * piece, times // piece)
    late = b"a,b\n" + b"1,2\n" * 2**17 + b"1" * 2**24
    yield packed(folder / "late.csv.gz", late, 5)
    comment = b"%%MatrixMarket matrix coordinate real general\n" + b"%" * piece
    yield packed(folder / "comment.mtx.gz", comment, min(size, 2**28) // piece)
    sizes = (
        "2000000000 3 1",
        "3 2000000000 1",
        "3 3 2000000000",
        "9" * 18 + " 3 1",
        "3 3 " + "9" * 40,
    )
    for number, text in enumerate(sizes):
        path = folder / f"sizes{number}.mtx"
        path.write_text(f"%%MatrixMarket matrix coordinate real general\n{text}\n1 1 1\n")
        yield path
    path = folder / "array.mtx"
    path.write_text("%%MatrixMarket matrix array real general\n300000 300000\n1\n")
    yield path
    path = folder / "sparse.npz"
    parts = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.array([0, 1, 1])}
    np.savez(path, **parts, shape=np.array([10**9, 2]), format="csc")
    yield path
    with h5py.File(folder / "unwritten.h5", "w") as file:
        file.create_dataset("X", shape=(10**9, 100), dtype="f8", chunks=(1000, 100))
    yield folder / "unwritten.h5"
    with h5py.File(folder / "round.h5", "w") as file:
        group = file.create_group("a")
        for number in range(100):
            group[str(number)] = group
    yield folder / "round.h5"
    zarr.create_array(folder / "a.zarr", shape=(10**9, 10**3), chunks=(10**3, 10**3), dtype="f8")
    yield folder / "a.zarr"
    zarr.create_array(folder / "b.zarr", shape=(10, 10), chunks=(10**6, 10**5), dtype="f8")
    yield folder / "b.zarr"
    table = pa.table({"x": pa.array(np.zeros(2**22))})
    with pq.ParquetWriter(folder / "zeros.parquet", table.schema, compression="zstd") as writer:
        for _ in range(count(16, 64)):
            writer.write_table(table)
    yield folder / "zeros.parquet"


def test_small_files_do_not_fill_the_memory(tmp_path, record_property):
    paths = list(bombs(tmp_path, count(2**27, 10**10)))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, FUZZ.parent, *paths],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    *told, megabytes = done.stdout.splitlines()
    record_property("fuzz", "small files that unpack to large ones")
    record_property("executions", len(paths))
    assert len(told) == len(paths)
    assert [line for line in told if "refused" not in line and ".parquet (" not in line] == []
    assert int(megabytes) < 900


NAMES = st.text(max_size=12) | st.sampled_from(
    ["*", "a*", "[a]", "?", "1", "1-2", "a:b", "-1", "(a+)+$", "x1", "!a", "[!a]", ".*", "\\d"]
)


def test_names_of_columns_are_never_patterns(record_property):
    executions = []

    @tries(50, 4_000)
    @given(st.lists(NAMES, min_size=1, max_size=8, unique=True), st.data())
    def law(names, data):
        executions.append(1)
        wanted = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        chosen = choose(Header(names), Columns(keep=wanted))
        assert [names[j] for j in chosen.features] == [name for name in names if name in wanted]
        exact = choose(Header(names), Columns(keep=wanted, exact=True))
        assert [names[j] for j in exact.features] == wanted
        rest = [name for name in names if name not in wanted]
        if rest:
            assert choose(Header(names), Columns(drop=wanted)).names == rest
        for name in wanted[:1]:
            if rest:
                assert choose(Header(names), Columns(ids=name)).ids == [names.index(name)]
        spec = data.draw(NAMES)
        with contextlib.suppress(TableError):
            choose(Header(names), Columns(keep=[spec], label=spec))

    law()
    record_property("fuzz", "names of columns")
    record_property("executions", len(executions))


def test_text_that_is_written_is_inert_and_comes_back(tmp_path, record_property):
    executions = []
    start = st.sampled_from(["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "'", ""])
    words = st.builds(str.__add__, start, st.text(st.characters(codec="utf-8"), max_size=20))

    @tries(60, 2_500)
    @given(
        st.lists(words, min_size=1, max_size=5), words.filter(bool), st.sampled_from([",", "\t"])
    )
    @example(["=1+1", "-1.5", "+2e3", "-x", "@a", "\t=1", "\r=1", ""], "=cmd", ",")
    def law(ids, name, delimiter):
        executions.append(1)
        path = tmp_path / ("t.csv" if delimiter == "," else "t.tsv")
        write(path, {name: ids, "x": np.arange(len(ids)) - 1.5}, overwrite=True)
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file, delimiter=delimiter))
        assert rows[0][1] == "x"
        assert [float(row[1]) for row in rows[1:]] == [i - 1.5 for i in range(len(ids))]
        for told, cell in zip([name, *ids], (row[0] for row in rows), strict=True):
            if cell[:1] and cell[0] in "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20":
                float(cell)  # only numbers begin so
            assert cell in (told, f"'{told}")

    law()
    record_property("fuzz", "text in csv and tsv")
    record_property("executions", len(executions))


def test_any_table_of_text_is_read_as_it_is(tmp_path, record_property):
    """What the csv module writes, names and ids of any characters, is read back."""
    executions = []
    text = st.text(
        st.characters(codec="utf-8", exclude_characters="\r\n\x00"), min_size=1, max_size=15
    )
    names = text.map(str.strip).filter(bool).map("x".__add__)

    @tries(40, 1_500)
    @given(
        st.lists(names, min_size=2, max_size=5, unique=True),
        st.lists(text.map("i".__add__), min_size=1, max_size=6),
        st.sampled_from([",", ";", "\t"]),
        st.booleans(),
    )
    def law(names, ids, delimiter, packed):
        executions.append(1)
        file = io.StringIO()
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(names)
        writer.writerows([i, *range(len(names) - 1)] for i in ids)
        path = tmp_path / ("t.csv.gz" if packed else "t.csv")
        content = file.getvalue().encode()
        path.write_bytes(gzip.compress(content) if packed else content)
        table = read(path, delimiter=delimiter)
        assert table.names == [name.strip() for name in names[1:]]
        assert list(table.ids) == ids
        assert table.X.tolist() == [list(range(len(names) - 1))] * len(ids)

    law()
    record_property("fuzz", "names and ids in csv")
    record_property("executions", len(executions))
