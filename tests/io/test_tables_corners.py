"""Tables that are odd but right, and those that are refused with a remedy."""

import errno
import io
import pathlib
import sys

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from dualpca.io.tables import Columns, TableError, read

X = np.arange(12.0).reshape(4, 3)


def sparse_group(file, **attributes):
    """X as CSR in the group "X" of an HDF5 file."""
    node, S = file.create_group("X"), sp.csr_array(X)
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
    sp.save_npz(tmp_path / "x.npz", sp.coo_array(X).tobsr())
    with pytest.raises(TableError, match="the sparse matrix has format 'bsr'; save it as CSR"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize("where", ["attribute", "array"])
def test_a_sparse_group_says_its_shape(tmp_path, where):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        node = sparse_group(file, **{"encoding-type": "csr_matrix"})
        if where == "attribute":
            node.attrs["shape"] = X.shape
        else:
            node["shape"] = X.shape
    table = read(tmp_path / "x.h5")
    assert sp.issparse(table.X)
    np.testing.assert_array_equal(table.X.toarray(), X)


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
        file["a/b/c/seen"], file["a/b/c/d/unseen"] = X, X
    np.testing.assert_array_equal(read(tmp_path / "x.h5").X, X)
    np.testing.assert_array_equal(read(tmp_path / "x.h5", key="a/b/c/d/unseen").X, X)


def described(path, fill):
    """X with the names of rows of AnnData, and a column "kind" that ``fill`` adds to them."""
    with h5py.File(path, "w") as file:
        file["X"] = X
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


def test_names_longer_than_the_first_look_are_read_whole(tmp_path):
    names = [f"{'n' * 9000}{j}" for j in range(12)]
    rows = "\n".join(",".join(str(12 * i + j) for j in range(12)) for i in range(3))
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + rows + "\n")
    table = read(tmp_path / "wide.csv")
    assert table.names == names
    np.testing.assert_array_equal(table.X, np.arange(36.0).reshape(3, 12))


@pytest.mark.parametrize("delimiter", [",", None])
def test_a_cell_that_never_ends_is_refused_with_its_line(tmp_path, delimiter):
    text = "a,b\n1,2\n3,4\n" + '"' + "5" * 200_000 + ",6\n7,8\n"
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(TableError, match=r"line 4 cannot be read .*; give the right --delim"):
        read(tmp_path / "x.csv", delimiter=delimiter)


def test_infinite_entries_of_a_sparse_matrix_are_refused_with_their_place(tmp_path):
    S = sp.csr_array(X).astype(float)
    S[2, 1] = np.inf
    scipy.io.mmwrite(tmp_path / "x.mtx", S)
    with pytest.raises(TableError, match=r"infinite.*row 3"):
        read(tmp_path / "x.mtx")


def test_a_sparse_matrix_tells_how_many_rows_were_read(tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(X))
    told = []
    read(tmp_path / "x.npz", on_rows=lambda *numbers: told.append(numbers))
    assert [rows for rows, *_ in told] == [4]


def test_a_closed_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TableError, match="it is closed; give a file, or the output of a command"):
        read("-")


def test_a_zarr_through_a_pipe_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1,2\n3,4\n")))
    with pytest.raises(TableError, match="zarr cannot come through a pipe; give its path"):
        read("-", format="zarr")


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")

    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "open", refused)
    with pytest.raises(TableError, match="Permission denied; check its permissions"):
        read(tmp_path / "x.csv")


def test_without_h5py_it_says_what_to_install(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"tables need h5py.*: pip install 'dualpca\[io\]'"):
        read(tmp_path / "x.h5")


def test_a_range_of_columns_whose_names_have_colons(tmp_path):
    (tmp_path / "x.csv").write_text("a:b,c,d:e\n1,2,3\n4,5,6\n")
    table = read(tmp_path / "x.csv", columns=Columns(keep=["a:b:c"]))
    assert table.names == ["a:b", "c"]
    table = read(tmp_path / "x.csv", columns=Columns(keep=["c:d:e"]))
    assert table.names == ["c", "d:e"]
