"""Tables in binary formats, against the libraries that wrote them; and the writers."""

import gzip
import io
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
import warnings

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from dualpca import PCA
from dualpca.io.tables import Columns, TableError, Writer, read, write
from dualpca.io.tables.hierarchy import check_codecs
from dualpca.operators import Blocks

N, D = 300, 6
NAMES = [f"g{j}" for j in range(D)]
IDS = [f"cell{i}" for i in range(N)]


@pytest.fixture(autouse=True)
def nothing_left(tmp_path_factory, monkeypatch):
    """Temporary files go to a folder that is empty again afterwards."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def matrix(dtype="float64"):
    return np.random.default_rng(0).standard_normal((N, D)).astype(dtype)


def counts():
    return sp.random_array((N, D), density=0.3, format="csr", rng=np.random.default_rng(1))


def frame(X):
    table = pd.DataFrame(X, columns=NAMES)
    table.insert(2, "who", IDS)
    table["kind"] = pd.Categorical(["a", "b", "c"] * (N // 3))
    table["when"] = pd.Timestamp("2020-01-01")
    table["on"] = [True, False, True] * (N // 3)
    return table


def write_h5ad(path, X, *, open_=h5py.File, raw=None):
    """A file as AnnData writes it."""
    root = open_(path, mode="w", **({} if open_ is h5py.File else {"zarr_format": 2}))
    text = {"dtype": h5py.string_dtype()} if open_ is h5py.File else {}

    def strings(group, name, values):
        if open_ is h5py.File:
            group.create_dataset(name, data=values, **text)
        else:
            group.create_array(name, data=np.array(values))

    def put(group, name, array):
        if open_ is h5py.File:
            group.create_dataset(name, data=array)
        else:
            group.create_array(name, data=array)

    def store(group, name, data):
        if not sp.issparse(data):
            return put(group, name, data)
        node = group.create_group(name)
        node.attrs["encoding-type"] = f"{data.format}_matrix"
        node.attrs["shape"] = list(data.shape)
        for part in ("data", "indices", "indptr"):
            put(node, part, getattr(data, part))

    def named(group, name, index, index_name):
        node = group.create_group(name)
        node.attrs["_index"] = index_name
        strings(node, index_name, index)
        return node

    store(root, "X", X)
    obs = named(root, "obs", IDS, "barcode")
    kind = obs.create_group("kind")
    kind.attrs["encoding-type"] = "categorical"
    put(kind, "codes", np.array([0, 1, -1] * (N // 3), dtype="int8"))
    strings(kind, "categories", ["B cell", "T cell"])
    put(obs, "batch", np.arange(N) % 2)
    named(root, "var", NAMES, "_index")
    store(root.create_group("layers"), "counts", counts())
    if raw is not None:
        group = root.create_group("raw")
        store(group, "X", raw)
        named(group, "var", [f"r{j}" for j in range(raw.shape[1])], "_index")
    if open_ is h5py.File:
        root.close()


def put_npz(path, X):
    np.savez(path, X, np.arange(4))


MAKERS = {
    "parquet": ("t.parquet", lambda path, X: pq.write_table(named(X), path, row_group_size=50)),
    "feather": ("t.feather", lambda path, X: feather.write_feather(named(X), path)),
    "arrow stream": ("t.arrow", lambda path, X: stream(named(X), path)),
    "npy": ("t.npy", lambda path, X: np.save(path, X)),
    "fortran": ("t.npy", lambda path, X: np.save(path, np.asfortranarray(X))),
    "npz": ("t.npz", put_npz),
    "packed npz": ("t.npz", lambda path, X: np.savez_compressed(path, scores=X)),
    "dense mtx": ("t.mtx", lambda path, X: scipy.io.mmwrite(path, X, precision=17)),
    "h5": ("t.h5", lambda path, X: hdf5(path, X)),
    "h5ad": ("t.h5ad", write_h5ad),
    "zarr": ("t.zarr", lambda path, X: zarr.save_array(str(path), X)),
    "zarr group": ("t.zarr", lambda path, X: write_h5ad(str(path), X, open_=zarr.open_group)),
    "csv": ("t.csv", lambda path, X: pd.DataFrame(X, columns=NAMES).to_csv(path, index=False)),
}
WITH_NAMES = {"parquet", "feather", "arrow stream", "h5ad", "zarr group", "csv"}


def named(X):
    return pa.table(dict(zip(NAMES, X.T, strict=True)))


def stream(table, path):
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=70)


def hdf5(path, X):
    with h5py.File(path, "w") as root:
        root.create_dataset("a/b", data=X, chunks=(64, D))
        root["a/line"] = np.arange(4)


def values(X):
    return X.take(np.arange(X.shape[0])) if isinstance(X, Blocks) else X


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("memory", [2**20, 1000])
def test_every_format_in_memory_and_beyond(tmp_path, maker, memory):
    name, make = MAKERS[maker]
    X = matrix()
    make(tmp_path / name, X)
    table = read(tmp_path / name, memory=memory)
    assert isinstance(table.X, Blocks if memory == 1000 else np.ndarray)
    np.testing.assert_array_equal(values(table.X), X)
    assert table.names == (NAMES if maker in WITH_NAMES else None)
    if memory == 1000:
        assert table.X.names == table.names
        model = PCA(2).fit(table.X)
        np.testing.assert_allclose(model.singular_values_, PCA(2).fit(X).singular_values_)
    chosen = read(tmp_path / name, memory=memory, columns=Columns(keep=["2", "5-6"]))
    np.testing.assert_array_equal(values(chosen.X), X[:, [1, 4, 5]])
    assert chosen.names == (["g1", "g4", "g5"] if maker in WITH_NAMES else ["x2", "x5", "x6"])
    exact = read(tmp_path / name, memory=memory, columns=Columns(keep=chosen.names, exact=True))
    np.testing.assert_array_equal(values(exact.X), X[:, [1, 4, 5]])


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("memory", [2**20, 1000])
def test_missing_cells_of_every_format(tmp_path, maker, memory):
    name, make = MAKERS[maker]
    X = matrix()
    X[[5, 5, 9], [0, 1, 1]] = np.nan
    path = tmp_path / name
    make(path, X)
    with pytest.raises(TableError, match=r"3 missing cells in 2 of 300 rows, most in '..' \(2\)"):
        read(path, memory=memory)
    kept = read(path, memory=memory, missing="keep")
    np.testing.assert_array_equal(values(kept.X), X)
    dropped = read(path, memory=memory, missing="drop")
    np.testing.assert_array_equal(values(dropped.X), X[~np.isnan(X).any(axis=1)])
    assert (kept.n_missing, dropped.n_missing, dropped.n_dropped) == (3, 3, 2)
    if kept.ids is not None:
        assert len(kept.ids) == N
        assert list(dropped.ids[4:8]) == ["cell4", "cell6", "cell7", "cell8"]


@pytest.mark.parametrize("maker", sorted(set(MAKERS) - {"dense mtx"}))
def test_infinite_cells_of_every_format(tmp_path, maker):
    name, make = MAKERS[maker]
    X = matrix()
    X[7, 3] = np.inf
    make(tmp_path / name, X)
    with pytest.raises(TableError, match=r"1 cell infinite.*(row 8|line 9), column '(g3|x4)'"):
        read(tmp_path / name, missing="keep")


@pytest.mark.parametrize("maker", ["parquet", "feather", "npy", "npz", "h5", "h5ad", "zarr"])
@pytest.mark.parametrize("memory", [2**20, 1000])
def test_float32_stays_float32(tmp_path, maker, memory):
    name, make = MAKERS[maker]
    X = matrix("float32")
    make(tmp_path / name, X)
    table = read(tmp_path / name, memory=memory)
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(values(table.X), X)
    wide = read(tmp_path / name, memory=memory, dtype="float64")
    assert wide.X.dtype == np.float64
    np.testing.assert_array_equal(values(wide.X), X.astype(float))


@pytest.mark.parametrize("memory", [2**20, 1000])
def test_parquet_with_text_dates_and_categories(tmp_path, memory):
    X, path = matrix(), tmp_path / "t.parquet"
    frame(X).to_parquet(path)
    table = read(path, memory=memory, columns=Columns(label="kind"))
    assert table.names == [*NAMES, "on"]
    np.testing.assert_array_equal(values(table.X)[:, :D], X)
    np.testing.assert_array_equal(values(table.X)[:, D], [1, 0, 1] * (N // 3))
    assert list(table.ids) == IDS
    assert list(table.labels[:4]) == ["a", "b", "c", "a"]
    assert table.left_out == ["when"]
    indexed = frame(X).set_index("who")
    indexed.index.name = None
    indexed.to_parquet(path)
    assert list(read(path).ids) == IDS


def test_nulls_and_integers_of_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1, None, 3], "b": [1.5, 2.5, 3.5], "c.d": [1, 2, 3]}), path)
    table = read(path, missing="keep")
    np.testing.assert_array_equal(table.X, [[1, 1.5, 1], [np.nan, 2.5, 2], [3, 3.5, 3]])
    pq.write_table(pa.table([[1.0], [2.0]], names=["a", "a"]), path)
    with pytest.raises(TableError, match="2 columns have the name 'a'"):
        read(path)
    pq.write_table(pa.table({"a": [1.0], "b": [[1, 2]]}), path)
    with pytest.raises(TableError, match=r"type list.*choose another for --id"):
        read(path, columns=Columns(ids="b"))


SPARSE = {
    "npz": ("t.npz", lambda path, X: sp.save_npz(path, X)),
    "csc npz": ("t.npz", lambda path, X: sp.save_npz(path, X.tocsc())),
    "parts": (
        "t.npz",
        lambda path, X: np.savez(
            path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape
        ),
    ),
    "mtx": ("t.mtx", lambda path, X: scipy.io.mmwrite(path, X, precision=17)),
    "mtx.gz": ("t.mtx.gz", lambda path, X: packed_mtx(path, X)),
    "h5ad": ("t.h5ad", write_h5ad),
    "csc h5ad": ("t.h5ad", lambda path, X: write_h5ad(path, X.tocsc())),
    "zarr": ("t.zarr", lambda path, X: write_h5ad(str(path), X, open_=zarr.open_group)),
}


def packed_mtx(path, X):
    buffer = io.BytesIO()
    scipy.io.mmwrite(buffer, X, precision=17)
    path.write_bytes(gzip.compress(buffer.getvalue()))


@pytest.mark.parametrize("maker", SPARSE)
def test_sparse_stays_sparse(tmp_path, maker):
    name, make = SPARSE[maker]
    X = counts()
    make(tmp_path / name, X)
    table = read(tmp_path / name, memory=10)
    assert isinstance(table.X, sp.csr_array)
    assert table.X.has_canonical_format
    np.testing.assert_array_equal(table.X.toarray(), X.toarray())
    chosen = read(tmp_path / name, columns=Columns(drop=["1", "3-4"]), dtype="float32")
    assert chosen.X.dtype == np.float32
    np.testing.assert_array_equal(chosen.X.toarray(), X.toarray()[:, [1, 4, 5]].astype("float32"))
    X.data[[0, 1]] = np.nan
    make(tmp_path / f"bad-{name}", X)
    rows = np.isnan(X.toarray()).any(axis=1)
    with pytest.raises(TableError, match=f"2 missing cells in {rows.sum()} of 300 rows"):
        read(tmp_path / f"bad-{name}")
    dropped = read(tmp_path / f"bad-{name}", missing="drop")
    np.testing.assert_array_equal(dropped.X.toarray(), X.toarray()[~rows])
    assert dropped.n_dropped == rows.sum()
    if dropped.ids is not None:
        assert list(dropped.ids) == [name for name, bad in zip(IDS, rows, strict=True) if not bad]


@pytest.mark.parametrize("open_", [h5py.File, zarr.open_group])
def test_anndata(tmp_path, open_):
    X, raw = matrix(), sp.csr_array(np.arange(N * 2.0).reshape(N, 2))
    path = str(tmp_path / ("a.h5ad" if open_ is h5py.File else "a.zarr"))
    write_h5ad(path, X, open_=open_, raw=raw)
    table = read(path, columns=Columns(label="kind"))
    assert (table.names, list(table.ids), table.id_columns) == (NAMES, IDS, ["barcode"])
    assert list(table.labels[:3]) == ["B cell", "T cell", ""]
    layer = read(path, key="layers/counts")
    np.testing.assert_array_equal(layer.X.toarray(), counts().toarray())
    assert layer.names == NAMES
    assert read(path, key="raw/X").names == ["r0", "r1"]
    assert list(read(path, columns=Columns(ids="batch")).ids[:3]) == ["0", "1", "0"]
    with pytest.raises(TableError, match="no column 'knd'; did you mean 'kind'"):
        read(path, columns=Columns(label="knd"))
    with pytest.raises(TableError, match="nothing under 'layers/x'; --key may be X, layers/counts"):
        read(path, key="layers/x")
    with pytest.raises(
        TableError, match="'layers' is a group, not a matrix; --key may be layers/c"
    ):
        read(path, key="layers")


def test_anndata_of_old(tmp_path):
    X = counts()
    with h5py.File(tmp_path / "old.h5ad", "w") as root:
        node = root.create_group("X")
        node.attrs["h5sparse_format"], node.attrs["h5sparse_shape"] = "csr", X.shape
        for part in ("data", "indices", "indptr"):
            node[part] = getattr(X, part)
        root["obs"] = np.array([(i.encode(), 1) for i in IDS], dtype=[("index", "S9"), ("n", "i4")])
        root["var"] = np.array([(j.encode(),) for j in NAMES], dtype=[("index", "S9")])
    table = read(tmp_path / "old.h5ad")
    np.testing.assert_array_equal(table.X.toarray(), X.toarray())
    assert (table.names, list(table.ids)) == (NAMES, IDS)


def test_keys(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, a=np.eye(2), b=2 * np.eye(3))
    np.testing.assert_array_equal(read(path, key="b").X, 2 * np.eye(3))
    with pytest.raises(TableError, match="2 matrices among a, b; choose one with --key"):
        read(path)
    with pytest.raises(TableError, match="no array 'c'; --key may be a, b"):
        read(path, key="c")
    with h5py.File(tmp_path / "t.h5", "w") as root:
        root["a"], root["b"] = np.eye(2), 3 * np.eye(2)
    np.testing.assert_array_equal(read(tmp_path / "t.h5", key="/b").X, 3 * np.eye(2))
    with pytest.raises(TableError, match="2 matrices: a, b; choose one with --key"):
        read(tmp_path / "t.h5")
    zarr.save_array(str(tmp_path / "t.zarr"), np.eye(2))
    with pytest.raises(TableError, match="one array, without --key"):
        read(tmp_path / "t.zarr", key="X")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "1 dimension"),
        (np.zeros((2, 2, 2)), "3 dimension"),
        (np.zeros((2, 2), complex), "complex128; real numbers"),
        (np.array([["a", "b"]]), "dtype <U1; real numbers"),
        (np.array([[None]], dtype=object), "dtype object; real numbers"),
        (np.zeros((0, 2)), "at least one row"),
        (np.zeros(2, dtype=[("a", float)]), "1 dimension"),
    ],
)
def test_arrays_that_are_no_tables(tmp_path, array, message):
    np.save(tmp_path / "t.npy", array)
    with pytest.raises(TableError, match=message):
        read(tmp_path / "t.npy")


@pytest.mark.parametrize("maker", ["parquet", "feather", "npy", "npz", "dense mtx", "h5ad"])
def test_through_a_pipe_and_cut_short(tmp_path, monkeypatch, maker):
    name, make = MAKERS[maker]
    make(tmp_path / name, matrix())
    content = (tmp_path / name).read_bytes()
    for memory in (2**20, 1000):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        np.testing.assert_array_equal(values(read("-", memory=memory).X), matrix())
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(TableError, match=r"cut short|cannot be read"):
        read(tmp_path / name)


MAGIC = {
    "parquet": b"PAR1",
    "feather": b"ARROW1\0\0",
    "arrow": b"",
    "npy": b"\x93NUMPY\x01\x00",
    "npz": b"PK\x03\x04",
    "mtx": b"%%MatrixMarket matrix coordinate real general\n",
    "h5": b"\x89HDF\r\n\x1a\n",
    "h5ad": b"",
}


@settings(max_examples=25)
@given(content=st.binary(min_size=1, max_size=200), magic=st.booleans())
@pytest.mark.parametrize("ending", MAGIC)
def test_any_bytes_are_read_or_refused(tmp_path, ending, content, magic):
    path = tmp_path / f"t.{ending}"
    path.write_bytes((MAGIC[ending] if magic else b"") + content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            read(path, missing="keep", memory=10**6)
        except TableError as error:
            message = str(error)
        else:
            message = ""
    assert "\n" not in message


def test_a_malformed_matrix_market_file_does_not_end_the_process(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "t.mtx"
    for _ in range(400):
        content = rng.integers(0, 256, rng.integers(1, 200)).astype(np.uint8).tobytes()
        path.write_bytes(MAGIC["mtx"] * int(rng.integers(2)) + content)
        with pytest.raises(TableError):
            read(path)


def test_bytes_that_change_in_a_parquet_file(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "t.parquet"
    pq.write_table(named(matrix()), path)
    whole = bytearray(path.read_bytes())
    for _ in range(100):
        changed = bytearray(whole)
        changed[rng.integers(len(whole) - 600, len(whole))] = rng.integers(256)
        path.write_bytes(changed)
        try:
            read(path, missing="keep")
        except TableError as error:
            message = str(error)
        else:
            message = ""
        assert "\n" not in message


def test_parquet_columns_of_unequal_rows_are_not_put_side_by_side(tmp_path):
    path, n = tmp_path / "t.parquet", 150
    X = np.arange(2.0 * n).reshape(n, 2)
    names = [f"row {i}" for i in range(n)]
    pq.write_table(pa.table({"id": names, "x": X[:, 0], "y": X[:, 1]}), path, store_schema=False)
    whole, told = path.read_bytes(), []
    for match in re.finditer(b"\xac\x02", whole):  # 150 as Thrift writes it, in every count of rows
        for other in (b"\xaa\x02", b"\xae\x02"):  # one less, one more
            path.write_bytes(whole[: match.start()] + other + whole[match.end() :])
            try:
                table = read(path, columns=Columns(ids="id"))
            except TableError as error:
                told.append(str(error))
            else:
                np.testing.assert_array_equal(table.X, X)
                assert list(table.ids) == names
    assert any(
        "its columns have different numbers of rows; write it again" in line for line in told
    )


@pytest.mark.parametrize("name", ["t.zarr", "zarr.json", ".zarray"])
def test_a_broken_zarr(tmp_path, name):
    folder = tmp_path / "z.zarr"
    folder.mkdir()
    (folder / name).write_bytes(b"{ no json")
    with pytest.raises(TableError, match=r"no zarr|cannot be read"):
        read(folder)


# Writing


@pytest.fixture
def blocks():
    X = matrix()
    return [
        {"id": IDS[start : start + 70], "n": np.arange(N)[start : start + 70]}
        | {name: X[start : start + 70, j] for j, name in enumerate(NAMES)}
        for start in range(0, N, 70)
    ]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.tsv.gz", "t.parquet"])
def test_blocks_are_one_table(tmp_path, blocks, name):
    write(tmp_path / name, iter(blocks))
    if name == "t.parquet":
        table = pd.read_parquet(tmp_path / name)
    else:
        table = pd.read_csv(tmp_path / name, sep="\t" if "tsv" in name else ",")
    np.testing.assert_array_equal(table[NAMES].to_numpy(), matrix())
    assert list(table["id"]) == IDS
    assert list(table["n"]) == list(range(N))
    assert os.listdir(tmp_path) == [name]
    again = tmp_path / f"again-{name}"
    write(again, iter(blocks))
    assert again.read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_npy(tmp_path, dtype):
    X = matrix(dtype)
    parts = ({n: X[i : i + 70, j] for j, n in enumerate(NAMES)} for i in range(0, N, 70))
    write(tmp_path / "t.npy", parts)
    found = np.load(tmp_path / "t.npy")
    assert found.dtype == X.dtype
    np.testing.assert_array_equal(found, X)


def test_digits_missing_cells_and_one_column(tmp_path):
    x = np.array([0.1, 1 / 3, np.nan, 1e300, -5e-324, 2.0])
    narrow = np.array([0.1, np.nan, 1 / 3, 1e-45, -3e38], dtype="float32")
    for columns in ({"x": x}, {"x": x, "y": x}, {"x": narrow}):
        write(tmp_path / "t.csv", columns, overwrite=True)
        table = read(tmp_path / "t.csv", missing="keep", dtype=columns["x"].dtype)
        np.testing.assert_array_equal(table.X, np.stack(list(columns.values()), axis=1))


FORMULAS = ["=1+1", "+x", "-x", "@x", "\tx", "\rx"]


def test_formulas_are_disarmed_and_numbers_are_not_changed(tmp_path):
    harmless = ["-5", "+3.5e2", "x=1", "a-b", "", "-.5"]
    text = [*FORMULAS, *harmless]
    columns = {"=name": text, "x": -np.arange(1.0, len(text) + 1)}
    for ending in ("csv", "tsv"):
        sep = "," if ending == "csv" else "\t"
        for safe in (True, False):
            path = tmp_path / f"{safe}.{ending}"
            write(path, columns, safe=safe)
            options = {
                "sep": sep,
                "keep_default_na": False,
                "dtype": {0: str},
                "lineterminator": "\n",
            }
            found = pd.read_csv(path, **options)
            first = "'" if safe else ""
            assert found.columns[0] == f"{first}=name"
            cells = [str(cell) for cell in found.iloc[:, 0]]
            assert cells == [*(first + cell for cell in FORMULAS), *harmless]
            np.testing.assert_array_equal(found["x"], columns["x"])
    write(tmp_path / "t.parquet", columns)
    assert list(pd.read_parquet(tmp_path / "t.parquet")["=name"]) == text


def test_standard_output(monkeypatch):
    for kind, expected in ((None, b"id,x\na,0.5\n"), ("tsv", b"id\tx\na\t0.5\n")):
        buffer = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer))
        write("-", {"id": ["a"], "x": [0.5]}, format=kind)
        assert buffer.getvalue() == expected
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer))
    write("-", {"id": ["a"], "x": [0.5]}, format="parquet")
    assert pq.read_table(io.BytesIO(buffer.getvalue())).to_pydict() == {"id": ["a"], "x": [0.5]}


def test_a_failure_leaves_what_was(tmp_path, blocks):
    path = tmp_path / "t.csv"
    path.write_text("old")

    def failing():
        yield blocks[0]
        raise KeyboardInterrupt

    for name in ("t.csv", "t.parquet", "t.npy", "t.csv.gz"):
        with pytest.raises(KeyboardInterrupt):
            write(
                tmp_path / name,
                ({k: v for k, v in b.items() if k != "id"} for b in failing()),
                overwrite=True,
            )
    assert os.listdir(tmp_path) == ["t.csv"]
    assert path.read_text() == "old"
    write(path, blocks, overwrite=True)
    assert len(path.read_text().splitlines()) == N + 1


def test_a_file_that_appears_meanwhile_is_kept(tmp_path, blocks):
    path = tmp_path / "t.csv"

    def slow():
        yield blocks[0]
        path.write_text("other")

    with pytest.raises(FileExistsError, match="exists; give another name"):
        write(path, slow())
    assert path.read_text() == "other"
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.skipif(os.name != "posix", reason="no such permissions")
def test_permissions_are_those_of_other_files(tmp_path, blocks):
    write(tmp_path / "t.csv", blocks)
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "t.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_mistakes_in_writing(tmp_path):
    (tmp_path / "there.csv").write_text("")
    (tmp_path / "folder.csv").mkdir()
    for name, options, message in (
        ("t.xlsx", {}, "extension 'xlsx' is not known; write csv, tsv, parquet or npy"),
        ("t", {}, "without extension is not known"),
        ("t.csv", {"format": "xlsx"}, "'xlsx' is not known"),
        ("t.parquet.gz", {}, "not written compressed"),
    ):
        with pytest.raises(TableError, match=message):
            Writer(tmp_path / name, **options)
    for name, options, message in (
        ("there.csv", {}, "exists; give another name"),
        ("folder.csv", {"overwrite": True}, "is a folder"),
        ("none/t.csv", {}, "is in no folder"),
    ):
        with pytest.raises(OSError, match=message):
            Writer(tmp_path / name, **options)
    with pytest.raises(TableError, match="npy cannot go through a pipe"):
        Writer("-", format="npy")
    path = tmp_path / "t.npy"
    for data, message in (
        ({"id": ["a"]}, "'id' is text; write csv"),
        ([{"a": [1.0]}, {"b": [1.0]}], "columns b after a"),
        ({"a": [1.0], "b": [1.0, 2.0]}, r"columns of \[1, 2\] rows"),
        ({"a": [[1.0]]}, "shape"),
        ({"a": np.array([1j])}, "complex128; give text or real numbers"),
        ([], "nothing was written"),
        ({}, "give some"),
    ):
        with pytest.raises(TableError, match=message):
            write(path, data)
    with pytest.raises(TableError, match="different types"):
        write(tmp_path / "t.parquet", [{"a": [1]}, {"a": ["x"]}])
    with pytest.raises(TableError, match="not open"):
        Writer(path).write({"a": [1.0]})
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", "there.csv"]


# files of people who mean harm


def harmful(path, words, **options):
    with pytest.raises(TableError, match=words):
        read(path, **options)


def test_numbers_of_other_files_are_not_read_through_hdf5(tmp_path):
    secret, path = tmp_path / "secret", tmp_path / "t.h5"
    secret.write_bytes(b"12345678")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"] = np.eye(3)
    with h5py.File(path, "w") as file:
        file.create_dataset("raw", (2, 4), "u1", external=[(str(secret), 0, 8)])
        file["link"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "X")
        file["soft"] = h5py.SoftLink("/link")
        layout = h5py.VirtualLayout((3, 3), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "X", (3, 3))
        file.create_virtual_dataset("virtual", layout)
    harmful(path, "in other files", key="raw")
    harmful(path, "a link to another file", key="link")
    harmful(path, "a link to another file", key="soft")
    harmful(path, "in other files", key="virtual")
    harmful(path, "0 matrices")


def test_links_within_an_hdf5_file_are_followed_and_may_go_round(tmp_path):
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file["data/X"] = np.eye(3)
        file["X"] = h5py.SoftLink("data/hop")
        file["data/hop"] = h5py.SoftLink("/data/X")
        file["round"] = h5py.SoftLink("/round")
        file["nowhere"] = h5py.SoftLink("/none")
        for number in range(30):
            file[f"data/{number}"] = file["data"]
    np.testing.assert_array_equal(read(path).X, np.eye(3))
    harmful(path, "go round", key="round")
    harmful(path, "nothing under", key="nowhere")


def test_an_hdf5_file_that_is_refused_is_closed(tmp_path):
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file["a"], file["b"] = np.eye(3), np.eye(3)
    harmful(path, "2 matrices")
    with h5py.File(path, "w"):  # an open one could not be replaced
        pass


class Bad:
    def __reduce__(self):
        return os.mkdir, ("made by a pickle",)


@pytest.mark.parametrize("kind", ["array", "column"])
def test_a_zarr_does_not_run_pickles(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    root = zarr.create_group(tmp_path / "t.zarr", zarr_format=2)
    root.create_array("X", data=np.eye(3))
    obs = root.create_group("obs", attributes={"_index": "cell"})
    obs.create_array("cell", shape=(3,), dtype=str)
    place = tmp_path / "t.zarr" / ("X" if kind == "array" else "obs/cell")
    about = json.loads((place / ".zarray").read_text())
    filters = [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}]
    about |= {"filters": filters[kind == "array" :], "compressor": None}
    (place / ".zarray").write_text(json.dumps(about))
    (place / ("0.0" if kind == "array" else "0")).write_bytes(pickle.dumps(Bad()))
    harmful(tmp_path / "t.zarr", "t.zarr: ")
    assert not (tmp_path / "made by a pickle").exists()


def test_codecs_of_zarr_that_are_not_known_are_refused():
    for codec in ({"id": "pickle"}, {"name": "numcodecs.pickle"}, {"name": "mine"}, object()):
        inner = {"name": "sharding_indexed", "configuration": {"codecs": (codec,)}}
        for tree in ({"filters": [codec]}, {"compressor": codec}, {"codecs": (inner,)}):
            with pytest.raises(TableError, match="not known to be safe"):
                check_codecs(tree)
    zstd = {"name": "zstd", "configuration": {"level": 0}}
    check_codecs({"codecs": ({"name": "bytes"}, zstd), "filters": None, "compressor": None})


def test_a_zarr_with_links_out_of_its_folder_is_refused(tmp_path):
    array = zarr.create_array(tmp_path / "t.zarr", shape=(2, 2), dtype="f8", compressors=None)
    array[:] = 1
    chunk = next(p for p in (tmp_path / "t.zarr").rglob("*") if p.is_file() and p.suffix != ".json")
    secret = tmp_path / "secret"
    chunk.rename(secret)
    chunk.symlink_to(secret)
    harmful(tmp_path / "t.zarr", "a link out of the folder")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["c/0/0", "c/1/0", "zarr.json", "other"])
def test_a_zarr_with_a_pipe_among_its_files_is_refused_and_not_waited_for(tmp_path, name):
    zarr.create_array(tmp_path / "t.zarr", data=np.eye(4), chunks=(2, 4))
    place = tmp_path / "t.zarr" / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    harmful(tmp_path / "t.zarr", f"{name} in the folder is a pipe, socket or device.*: remove it")


def test_text_of_an_arrow_file_stays_within_it(tmp_path):
    table = pa.table({"id": ["abcdefgh"] * 8, "x": np.arange(8.0)})
    offsets = np.arange(0, 72, 8, dtype="<i4").tobytes()
    for stream in (False, True):
        file = io.BytesIO()
        make = pa.ipc.new_stream if stream else pa.ipc.new_file
        with make(file, table.schema) as writer:
            writer.write_table(table)
        content = file.getvalue()
        assert content.count(offsets) == 1
        for bad in ([0, 2**30], [-8, 8], [8, 0]):
            wrong = np.frombuffer(offsets, "<i4").copy()
            wrong[1:3] = bad
            path = tmp_path / "t.arrow"
            path.write_bytes(content.replace(offsets, wrong.tobytes()))
            harmful(path, "cannot be read")


def market(path, sizes, body, kind="coordinate real general"):
    path.write_text(f"%%MatrixMarket matrix {kind}\n% words\n{sizes}\n{body}")
    return path


@pytest.mark.parametrize(
    ("sizes", "body", "kind", "words"),
    [
        ("2000000000 3 1", "1 1 1", "coordinate real general", "is its shape right"),
        ("3 2000000000 1", "1 1 1", "coordinate real general", "columns are too many"),
        ("3 3 1000000000", "1 1 1", "coordinate real general", "header tells of"),
        ("3 3 2", "1 1 1", "coordinate real general", "cut short"),
        ("3 3 1", "1 1 1\n2 2 2", "coordinate real general", "more entries"),
        ("2 2", "1 2 3 4 5", "array real general", "more entries"),
        ("3 3 1", "4 1 1", "coordinate real general", "outside of the shape, 3 by 3"),
        ("3 3 1", "0 1 1", "coordinate real general", "outside"),
        ("3 3 1", "1.5 1 1", "coordinate real general", "outside"),
        ("3 3 1", "1 1 x", "coordinate real general", "text among"),
        ("3 3 1", "1 1 1\0", "coordinate real general", "text among"),
        ("3 -3 1", "1 1 1", "coordinate real general", "line of sizes"),
        ("3 2 1", "1 1 1", "coordinate real symmetric", "its shape is 3 by 2"),
        ("3 3 1", "1 1 1 0", "coordinate complex general", "real numbers"),
    ],
)
def test_matrix_market_files_that_lie(tmp_path, sizes, body, kind, words):
    harmful(market(tmp_path / "t.mtx", sizes, body, kind), words)


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize(
    ("field", "sparse"),
    [("real", True), ("real", False), ("integer", True), ("integer", False), ("pattern", True)],
)
def test_matrix_market_agrees_with_scipy(tmp_path, symmetry, field, sparse):
    A = np.random.default_rng(0).integers(-3, 4, (5, 5))
    A = {"general": A, "symmetric": A + A.T, "skew-symmetric": A - A.T}[symmetry]
    path = tmp_path / "t.mtx"
    scipy.io.mmwrite(path, sp.coo_array(A) if sparse else A, "a\nb", field=field, symmetry=symmetry)
    expected, found = scipy.io.mmread(path), read(path).X
    assert sp.issparse(found) is sparse
    np.testing.assert_array_equal(
        found.toarray() if sparse else found, expected.toarray() if sparse else expected
    )


def test_a_sparse_npz_of_empty_rows_is_refused(tmp_path):
    parts = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.array([0, 1, 1])}
    np.savez(tmp_path / "t.npz", **parts, shape=np.array([10**9, 2]), format="csc")
    harmful(tmp_path / "t.npz", "is its shape right")


def test_arrays_far_larger_than_their_file_are_refused(tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("X", shape=(10**9, 100), dtype="f8", chunks=(1000, 100))
    harmful(tmp_path / "t.h5", "packed so tightly")
    zarr.create_array(tmp_path / "t.zarr", shape=(9, 9), chunks=(10**6, 10**5), dtype="f8")
    harmful(tmp_path / "t.zarr", "packed so tightly")
    np.savez_compressed(tmp_path / "t.npz", x=np.zeros((2**16, 2**10)))
    harmful(tmp_path / "t.npz", "packed so tightly")
    with gzip.open(tmp_path / "t.mtx.gz", "wb", 1) as file:
        file.write(b"%%MatrixMarket matrix array real general\n300000 300000\n")
    harmful(tmp_path / "t.mtx.gz", "packed so tightly")


def test_a_full_temporary_folder_is_told_before_a_member_is_unpacked(tmp_path, monkeypatch):
    np.savez(tmp_path / "t.npz", x=np.eye(3))
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr("dualpca.io.tables.limits.shutil.disk_usage", lambda folder: usage)
    harmful(tmp_path / "t.npz", "set TMPDIR to a larger disk")


def test_a_terminal_does_not_obey_names(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    write("-", {"id\x1b[2J": ["\x1b]0;title\x07", "a\u202eb", "\x9b31m"], "x": [1.0, 2.0, 3.0]})
    assert all(c.isprintable() or c == "\n" for c in shown.getvalue())
    assert "\\x1b[2J" in shown.getvalue()


def test_one_long_text_for_many_rows_of_parquet_is_refused(tmp_path):
    word = pa.array(["a" * 2**20]).dictionary_encode()
    words = pa.DictionaryArray.from_arrays(np.zeros(4096, dtype="i4"), word.dictionary)
    table = pa.table({"id": words, "x": np.arange(4096.0)}).replace_schema_metadata(None)
    schema = pa.schema([("id", pa.string()), ("x", pa.float64())])
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, store_schema=False, compression="zstd")
    assert pq.read_schema(path).equals(schema)
    assert path.stat().st_size < 10**6
    harmful(path, "choose another --id")


def test_sparse_pointers_that_go_back_are_refused_also_where_they_end_at_0(tmp_path):
    parts = {"data": np.ones(3), "indices": np.arange(3)}
    for pointers in ([0, 10**6, 0], [0, 2, 1], [5, 2, 3]):
        np.savez(tmp_path / "t.npz", **parts, indptr=np.array(pointers), shape=np.array([2, 3]))
        harmful(tmp_path / "t.npz", "cannot be read")


def test_a_damaged_heap_of_strings_does_not_hang(tmp_path, monkeypatch):
    """An object of no size, after which the HDF5 library looks for the next one at the same place."""
    path = tmp_path / "damaged.h5"
    with h5py.File(path, "w") as file:
        file["X"] = np.eye(5)
        file.attrs["made by"] = "hand"
    read(path, key="X")
    content = bytearray(path.read_bytes())
    start = content.index(b"GCOL") + 16
    content[start : start + 16] = bytes(16)
    path.write_bytes(content)
    harmful(path, "damaged: a heap of strings does not end", key="X")
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        harmful("-", "damaged: a heap of strings does not end", key="X")


def test_a_damaged_heap_behind_other_damage_does_not_hang(tmp_path):
    path = tmp_path / "damaged.h5ad"
    with h5py.File(path, "w") as file:
        file["X"] = np.eye(5)
        file["obs/cell"] = np.arange(5)
        file["obs"].attrs["_index"] = "cell"
        place = h5py.h5o.get_info(file.create_group("layers").id).addr
    read(path)
    content = bytearray(path.read_bytes())
    content[place] = 99  # no version of an object
    start = content.index(b"GCOL") + 16
    content[start : start + 16] = bytes(16)
    path.write_bytes(content)
    harmful(path, "damaged: a heap of strings does not end")


def test_text_of_parquet_that_is_no_utf_8_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": ["aeiou"] * 3, "x": [1.0, 2.0, 3.0]}), path, compression="none")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"aeiou", b"aei\xe6u"))
    harmful(path, "UTF8")


def test_zeros_at_the_end_of_text_are_written(tmp_path):
    write(tmp_path / "t.parquet", {"id": ["a\0", "b"], "x": [1.0, 2.0]})
    assert list(read(tmp_path / "t.parquet").ids) == ["a\0", "b"]


# Odd but right, and what is refused with a remedy.

SMALL = np.arange(12.0).reshape(4, 3)


def sparse_group(file, **attributes):
    """SMALL as CSR in the group "X" of an HDF5 file."""
    node, S = file.create_group("X"), sp.csr_array(SMALL)
    node["data"], node["indices"], node["indptr"] = S.data, S.indices, S.indptr
    node.attrs.update(attributes)
    return node


def test_an_npy_of_records_is_refused(tmp_path):
    path = tmp_path / "records.npy"
    records = np.zeros(3, dtype=[("größe", "f8")])
    with path.open("wb") as file:
        np.lib.format.write_array(file, records, version=(3, 0))
    with pytest.raises(TableError, match=r"version \(3, 0\) holds records; save a matrix"):
        read(path)


def test_a_sparse_npz_of_another_format_is_refused(tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.coo_array(SMALL).tobsr())
    with pytest.raises(TableError, match="the sparse matrix has format 'bsr'; save it as CSR"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize("where", ["attribute", "array"])
def test_a_sparse_group_says_its_shape(tmp_path, where):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        node = sparse_group(file, **{"encoding-type": "csr_matrix"})
        if where == "attribute":
            node.attrs["shape"] = SMALL.shape
        else:
            node["shape"] = SMALL.shape
    table = read(tmp_path / "x.h5")
    assert sp.issparse(table.X)
    np.testing.assert_array_equal(table.X.toarray(), SMALL)


def test_a_sparse_group_without_a_shape_is_refused(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        sparse_group(file, **{"encoding-type": "csr_matrix"})
    with pytest.raises(TableError, match="does not say its shape; save it with the attribute shap"):
        read(tmp_path / "x.h5")


def test_an_array_of_one_dimension_is_refused(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = np.arange(5.0)
    with pytest.raises(TableError, match=r"1 dimension\(s\), shape \(5,\); a matrix is needed"):
        read(tmp_path / "x.h5")


def test_matrices_four_groups_down_are_not_looked_for(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/b/c/seen"], file["a/b/c/d/unseen"] = SMALL, SMALL
    np.testing.assert_array_equal(read(tmp_path / "x.h5").X, SMALL)
    np.testing.assert_array_equal(read(tmp_path / "x.h5", key="a/b/c/d/unseen").X, SMALL)


def described(path, fill):
    """SMALL with the names of rows of AnnData, and a column "kind" that ``fill`` adds to them."""
    with h5py.File(path, "w") as file:
        file["X"] = SMALL
        obs = file.create_group("obs")
        obs.attrs["_index"] = "_index"
        obs["_index"] = np.array([b"p", b"q", b"r", b"s"])
        fill(obs)
    return read(path, columns=Columns(label="kind"))


def test_labels_that_may_be_missing_are_read(tmp_path):
    def fill(obs):
        obs["kind/values"] = np.array([3, 1, 2, 1])
        obs["kind/mask"] = np.zeros(4, dtype=bool)

    table = described(tmp_path / "x.h5ad", fill)
    assert list(table.ids) == ["p", "q", "r", "s"]
    assert list(table.labels) == ["3", "1", "2", "1"]


def test_labels_as_anndata_wrote_them_before_0_7_are_read(tmp_path):
    def fill(obs):
        obs["kind"] = np.array([1, 0, -1, 1], dtype=np.int8)
        obs["__categories/kind"] = np.array([b"low", b"high"])

    table = described(tmp_path / "x.h5ad", fill)
    assert list(table.labels) == ["high", "low", "", "high"]


def test_labels_of_an_unknown_kind_are_refused(tmp_path):
    with pytest.raises(TableError, match=r"column 'kind' of obs is of no kind .*; choose another"):
        described(tmp_path / "x.h5ad", lambda obs: obs.create_group("kind"))


def test_infinite_entries_of_a_sparse_matrix_are_refused_with_their_place(tmp_path):
    S = sp.csr_array(SMALL).astype(float)
    S[2, 1] = np.inf
    scipy.io.mmwrite(tmp_path / "x.mtx", S)
    with pytest.raises(TableError, match=r"infinite.*row 3"):
        read(tmp_path / "x.mtx")


def test_a_sparse_matrix_tells_how_many_rows_were_read(tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(SMALL))
    told = []
    read(tmp_path / "x.npz", on_rows=lambda *numbers: told.append(numbers))
    assert [rows for rows, *_ in told] == [4]


def test_without_h5py_it_says_what_to_install(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = SMALL
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"tables need h5py.*: pip install 'dualpca\[io\]'"):
        read(tmp_path / "x.h5")
