"""Parquet and Arrow that pandas wrote: the index names rows and is never analysed."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from dualpca import PCA, as_operator
from dualpca.io.tables import Columns, TableError, read

pd = pytest.importorskip("pandas")

N = 20
RNG = np.random.default_rng(0)
IDS = RNG.permutation(N) * 1000 + 7  # no range, and larger than all other numbers
FRAME = pd.DataFrame(RNG.standard_normal((N, 3)), columns=list("abc"))

INDEXES = {
    "numbers": pd.Index(IDS, name="customer_id"),
    "fractions": pd.Index(IDS / 4, name="time"),
    "text": pd.Index([f"r{i}" for i in range(N)], name="who"),
    "unnamed": pd.Index(IDS),
    "days": pd.date_range("2020-01-01", periods=N, name="day"),
    "levels": pd.MultiIndex.from_arrays([IDS % 3, IDS], names=["group", "customer_id"]),
    "unnamed levels": pd.MultiIndex.from_arrays([["x", "y"] * (N // 2), IDS]),
    "categories": pd.CategoricalIndex([f"r{i}" for i in range(N)], name="who"),
    "range": pd.RangeIndex(7, 7 + 5 * N, 5, name="customer_id"),
}
PLAIN = {
    "plain": pd.RangeIndex(N),
    "unnamed range": pd.RangeIndex(5, N + 5),
    "intervals": pd.interval_range(0, N, name="bin"),  # cannot be written as text
}


def stream(table, path):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.feather": lambda frame, path: feather.write_feather(pa.Table.from_pandas(frame), path),
    "t.arrow": lambda frame, path: stream(pa.Table.from_pandas(frame), path),
}


def text(index):
    """Row names: levels joined, as pandas has them; days without the time that is all zeros."""
    if isinstance(index, pd.MultiIndex):
        return ["/".join(map(str, levels)) for levels in index]
    return [f"{value:g}" if isinstance(value, float) else str(value) for value in index]


@pytest.mark.parametrize("memory", [2**20, 0])
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", INDEXES)
def test_the_index_names_the_rows(kind, name, memory, tmp_path):
    index = INDEXES[kind]
    WRITERS[name](FRAME.set_index(index), tmp_path / name)
    table = read(tmp_path / name, memory=memory)
    assert table.names == ["a", "b", "c"]
    assert np.array_equal(np.concatenate(list(blocks(table.X))), FRAME.to_numpy())
    ids = [entry.removesuffix(" 00:00:00.000000") for entry in table.ids]
    assert ids == [entry.removesuffix(" 00:00:00") for entry in text(index)]
    if None not in index.names:
        assert table.id_columns == list(index.names)
    assert "not analysed" in table.notes[0]


def test_a_counted_index_with_the_name_of_a_column(tmp_path):
    FRAME.set_index(pd.RangeIndex(0, 3 * N, 3, name="a")).to_parquet(tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet")
    assert (table.names, table.id_columns) == (["a", "b", "c"], ["__index_level_0__"])
    assert list(table.ids) == [str(3 * i) for i in range(N)]


def blocks(X):
    return [X] if isinstance(X, np.ndarray) else (np.asarray(block) for _, block in X.blocks())


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", PLAIN)
def test_an_index_without_names(kind, name, tmp_path):
    """Rows have no names then, and the index is no data either."""
    WRITERS[name](FRAME.set_index(PLAIN[kind]), tmp_path / name)
    table = read(tmp_path / name)
    assert table.names == ["a", "b", "c"]
    assert table.ids is None
    assert np.array_equal(table.X, FRAME.to_numpy())


def objects(frame, path):
    """What can be handed to an estimator, of a frame that was written."""
    frame.to_parquet(path / "t.parquet", row_group_size=6)
    table = pa.Table.from_pandas(frame)
    feather.write_feather(table, path / "t.feather", chunksize=6)
    return [
        pq.ParquetFile(path / "t.parquet"),
        ds.dataset(path / "t.parquet"),
        table,
        table.combine_chunks().to_batches()[0],
        pa.ipc.open_file(path / "t.feather"),
    ]


@pytest.mark.parametrize("kind", INDEXES)
def test_the_index_is_no_feature(kind, tmp_path):
    """As of a data frame in memory."""
    frame = FRAME.set_index(INDEXES[kind])
    expected = PCA(2, random_state=0).fit(frame)
    for data in objects(frame, tmp_path):
        model = PCA(2, random_state=0).fit(data)
        assert list(model.feature_names_in_) == ["a", "b", "c"]
        assert model.explained_variance_ == pytest.approx(expected.explained_variance_)
        some = np.array([1, 7, 13])
        assert np.array_equal(as_operator(data).take(some), FRAME.to_numpy()[some])


def test_an_index_that_is_chosen_otherwise(tmp_path):
    frame = FRAME.assign(who=[f"r{i}" for i in range(N)])
    frame.set_index(INDEXES["levels"]).to_parquet(path := tmp_path / "t.parquet")
    kept = read(path, columns=Columns(keep=["a", "customer_id"]))
    assert kept.names == ["a", "customer_id"]  # who names it wants it
    assert kept.id_columns == ["group"]
    assert np.array_equal(np.sort(kept.X[:, 1]), np.sort(IDS))
    assert read(path, columns=Columns(keep=["*"], drop=["who"])).names == ["a", "b", "c"]
    other = read(path, columns=Columns(ids="who"))
    assert (other.names, other.id_columns) == (["a", "b", "c"], ["who"])
    none = read(path, columns=Columns(ids=()))
    assert (none.names, none.ids) == (["a", "b", "c"], None)
    labelled = read(path, columns=Columns(label="group"))
    assert (labelled.id_columns, labelled.label_column) == (["customer_id"], "group")
    model = Columns(keep=["customer_id", "b"], exact=True)
    assert np.array_equal(read(path, columns=model).X[:, 0], IDS)


@pytest.mark.parametrize(
    "entries",
    [
        b"no json",
        b"[" * 100_000,
        b"{}",
        b"[]",
        json.dumps({"index_columns": 3}).encode(),
        json.dumps({"index_columns": [3, None, ["a"], "nobody"]}).encode(),
        *(
            json.dumps({"index_columns": [{"kind": "range", "name": "n", **odd}]}).encode()
            for odd in (
                {},
                {"start": 0, "stop": 5, "step": 1},
                {"start": 0, "stop": N, "step": 0},
                {"start": 0, "stop": 10**30, "step": 10**29},
                {"start": "0", "stop": N, "step": 1},
            )
        ),
    ],
)
def test_words_that_pandas_would_not_write(entries, tmp_path):
    """They are passed over."""
    table = pa.table({"a": np.arange(float(N)), "b": np.ones(N)}, metadata={"pandas": entries})
    pq.write_table(table, tmp_path / "t.parquet")
    found = read(tmp_path / "t.parquet")
    assert (found.names, found.ids) == (["a", "b"], None)
    assert as_operator(table).shape == (N, 2)


@pytest.mark.parametrize("name", WRITERS)
def test_nested_columns_are_no_names(name, tmp_path):
    """They are left out with a note, and the first column of text after them names the rows."""
    columns = {
        "record": pa.array([{"x": 1}] * N),
        "list": pa.array([[1, 2]] * N),
        "map": pa.array([[("k", 1)]] * N, pa.map_(pa.string(), pa.int64())),
        "who": [f"r{i}" for i in range(N)],
        "a": FRAME["a"].to_numpy(),
    }
    table, path = pa.table(columns), tmp_path / name
    pq.write_table(table, path) if name == "t.parquet" else stream(table, path)
    found = read(path)
    assert (found.names, found.id_columns) == (["a"], ["who"])
    assert "left out columns of lists or records: record, list, map" in found.notes
    assert found.left_out == ["record", "list", "map"]
    assert read(path, columns=Columns(drop=["who"])).ids is None
    for choice in ({"ids": "record"}, {"label": "list"}):
        with pytest.raises(TableError, match="names no rows; choose another"):
            read(path, columns=Columns(**choice))
    with pytest.raises(TableError, match="'map' holds lists or records, not numbers"):
        read(path, columns=Columns(keep=["map", "a"]))
