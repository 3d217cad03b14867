"""Chunks of zarr and HDF5: few are read at a time, and it is told where they are not there."""

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from dualpca import PCA, RobustPCA
from dualpca.cli import main
from dualpca.io.tables import read
from dualpca.operators import files as grid


class Recorded:
    """An array in chunks that tells how many chunks each read touches."""

    def __init__(self, data, chunks):
        self.data, self.chunks, self.shape, self.dtype = data, chunks, data.shape, data.dtype
        self.touched = []

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        index += (slice(None),) * (len(self.shape) - len(index))
        count = 1
        for part, n, size in zip(index, self.shape, self.chunks, strict=True):
            start, stop, _ = part.indices(n)
            count *= (stop - 1) // size - start // size + 1
        self.touched.append(count)
        return self.data[index]


@settings(max_examples=80)
@given(st.data())
def test_rows_are_read_in_few_chunks_at_a_time(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=2)))
    chunks = tuple(data.draw(st.integers(1, 35)) for _ in shape)
    start = data.draw(st.integers(0, shape[0] - 1))
    stop = data.draw(st.integers(start + 1, shape[0]))
    large, many = data.draw(st.sampled_from([0, 10**9])), data.draw(st.integers(1, 40))
    whole = np.arange(np.prod(shape)).reshape(shape)
    array = Recorded(whole, chunks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "LARGE", large)
        patch.setattr(grid, "MANY", many)
        np.testing.assert_array_equal(grid.rows_of(array, start, stop), whole[start:stop])
    assert max(array.touched) <= (1 if large == 0 else many)


def with_gaps(kind, folder):
    """An array of five chunks (of zarr: or shards) without the second and the fourth; and its path."""
    X = np.random.default_rng(0).standard_normal((50, 6))
    path = folder / ("t.h5" if kind == "h5" else "t.zarr")
    if kind == "h5":
        file = h5py.File(path, "w")
        made = file.create_dataset("X", X.shape, "f8", chunks=(10, 6), fillvalue=7.0)
    else:
        form, shards = int(kind[5]), {"shards": (10, 6)} if "shards" in kind else {}
        high = 5 if shards else 10
        made = zarr.create_array(
            path,
            shape=X.shape,
            chunks=(high, 6),
            dtype="f8",
            fill_value=7,
            zarr_format=form,
            **shards,
        )
    for start in (0, 20, 40):
        made[start : start + 10] = X[start : start + 10]
    X[10:20] = X[30:40] = 7
    if kind == "h5":
        file.flush()
    return made, X, path


GAPS = r"2 of 5 chunks are not in the file and are read as 7\.0"


@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3", "zarr 3 in shards", "h5"])
@pytest.mark.filterwarnings("ignore:.*good rows may be in groups")
@pytest.mark.parametrize("make", [lambda: PCA(2), lambda: RobustPCA(2, random_state=0)])
def test_chunks_that_are_not_there_are_told_once(kind, make, tmp_path):
    made, X, _ = with_gaps(kind, tmp_path)
    with pytest.warns(UserWarning, match=GAPS) as said:
        model = make().fit(made)
    assert sum("chunks are not in" in str(warning.message) for warning in said) == 1
    assert model.n_features_in_ == 6
    np.testing.assert_allclose(model.mean_, make().fit(X).mean_, atol=1e-6)


@pytest.mark.parametrize("memory", [1, 2**20])
@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3", "zarr 3 in shards", "h5"])
def test_a_table_notes_chunks_that_are_not_there(kind, memory, tmp_path):
    made, X, path = with_gaps(kind, tmp_path)
    if kind == "h5":
        made.file.close()
    table = read(path, memory=memory)
    assert [note for note in table.notes if "chunks" in note] == table.notes
    (note,) = table.notes
    assert note.startswith("2 of 5 chunks are not in the file and are read as 7.0")
    found = table.X.todense() if hasattr(table.X, "todense") else table.X
    np.testing.assert_array_equal(found, X)


def test_the_command_line_tells_of_chunks_once(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, X, _ = with_gaps("zarr 3", tmp_path)
    with pytest.raises(SystemExit) as exit:
        main(["fit", "t.zarr", "-m", "plain", "-n", "2", "--memory", "1"])
    assert exit.value.code == 0
    assert capsys.readouterr().err.count("2 of 5 chunks are not in the file") == 1
    assert len(X) == 50


def test_nothing_is_said_of_arrays_that_are_complete(tmp_path):
    for number, options in enumerate(({"zarr_format": 2}, {}, {"shards": (20, 6)})):
        path = tmp_path / f"{number}.zarr"
        zarr.create_array(path, data=np.eye(40, 6) + 1, chunks=(10, 3), **options)
        assert grid.gaps(zarr.open_array(path, mode="r")) is None
        assert read(path).notes == []
    held = zarr.create_array({}, shape=(40, 6), chunks=(10, 3), dtype="f8")
    assert grid.gaps(held).startswith("8 of 8 chunks")
