"""Tables of delimited text: what is read equals what other readers read; each mistake is answered."""

import bz2
import errno
import gc
import gzip
import io
import os
import subprocess
import sys
import tempfile
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualpca import PCA
from dualpca.io.tables import NA_VALUES, Columns, Strings, TableError, read, write
from dualpca.io.tables.sniff import is_number
from dualpca.operators import Blocks

PEOPLE = "name,height,weight,city\nada,1.7,60,Ulm\nbob,1.8,81,Bonn\ncyd,1.6,55,Ulm\n"


@pytest.fixture(autouse=True)
def nothing_left(tmp_path_factory, monkeypatch):
    """Temporary files go to a folder that is empty again afterwards."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def matrix(rows=200, columns=5, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns))


def test_numbers_names_ids_and_what_is_left_out(file):
    table = read(file(PEOPLE))
    frame = pd.read_csv(io.StringIO(PEOPLE))
    np.testing.assert_array_equal(table.X, frame[["height", "weight"]].to_numpy())
    assert table.X.dtype == np.float64
    assert table.names == ["height", "weight"]
    assert list(table.ids) == ["ada", "bob", "cyd"]
    assert table.id_columns == ["name"]
    assert table.left_out == ["city"]
    assert any("left out text column: city" in note for note in table.notes)
    assert any("'name'" in note for note in table.notes)
    assert (table.n_missing, table.n_dropped, table.labels) == (0, 0, None)


def test_labels_and_ids_are_never_features(file):
    path = file("id,a,b,kind\n1,2,3,x\n4,5,6,y\n")
    table = read(path, columns=Columns(ids="id", label="kind"))
    assert table.names == ["a", "b"]
    assert (list(table.ids), list(table.labels)) == (["1", "4"], ["x", "y"])
    assert table.label_column == "kind"
    both = read(path, columns=Columns(ids=["id", "kind"]))
    assert list(both.ids) == ["1/x", "4/y"]
    none = read(path, columns=Columns(ids=()))
    assert none.ids is None
    assert none.left_out == ["kind"]
    assert list(read(path, columns=Columns(label="kind")).ids) == ["1", "4"]


@pytest.mark.parametrize(
    ("delimiter", "decimal"), [(",", "."), *product((";", "\t", "|", " "), (".", ","))]
)
@pytest.mark.parametrize("header", [True, False])
def test_delimiter_decimal_and_header_are_found(file, delimiter, decimal, header):
    X = matrix(30, 4)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    text = frame.to_csv(sep=delimiter, decimal=decimal, index=False, header=header)
    table = read(file(text, "data.txt"))
    np.testing.assert_array_equal(table.X, X)
    assert table.names == (["a", "b", "c", "d"] if header else ["x1", "x2", "x3", "x4"])
    assert any("no header" in note for note in table.notes) == (not header)
    assert any("decimal comma" in note for note in table.notes) == (decimal == ",")


def test_spaces_between_words_and_after_commas(file):
    table = read(file("who,x\nAda King,1\nBob,2\nCyd Roe,3\n"))
    assert (table.names, list(table.ids)) == (["x"], ["Ada King", "Bob", "Cyd Roe"])
    assert read(file("a, b, c\n1, 2, 3\n4, 5, 6\n")).X.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_names_that_are_numbers(file):
    X = matrix(30, 4)
    table = read(file(pd.DataFrame(X).to_csv(index=False)))
    assert table.names == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(table.X, X)
    assert any("the first row counts the columns" in note for note in table.notes)
    assert read(file("1,2,3\n4,5,6\n")).X.shape == (2, 3)


def test_what_is_given_goes_before_what_is_found(file):
    path = file("1;2\n3;4\n")
    assert read(path, header=True).names == ["1", "2"]
    assert read(path, header=True).X.shape == (1, 2)
    assert read(path, delimiter=";", header=False).X.shape == (2, 2)
    table = read(file("a;b\n1,5;2,25\n"), delimiter=";", decimal=",")
    np.testing.assert_array_equal(table.X, [[1.5, 2.25]])
    assert table.notes == []


def test_columns_aligned_by_spaces(file):
    table = read(file('  a    b  who\n  1.5  -2  "x  y"  \n 10   .5  z\n', "data.txt"))
    np.testing.assert_array_equal(table.X, [[1.5, -2], [10, 0.5]])
    assert list(table.ids) == ["x  y", "z"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines_quotes_and_blank_lines(file, end):
    rows = ["a,text,b", '1,"x, ""y""",2', "", '"3",z,4']
    table = read(file(end.join(rows)))
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    assert list(table.ids) == ['x, "y"', "z"]


def test_newlines_in_quotes_also_in_the_header(file):
    text = '"a\nb",who,c\n1,"two\nlines",2\n3,one,4\n'
    table = read(file(text))
    assert table.names == ["a\nb", "c"]
    assert list(table.ids) == ["two\nlines", "one"]
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_encodings(file, encoding):
    table = read(file("straße,x\nMünchen,1\nKöln,2\n".encode(encoding)))
    assert table.id_columns == ["straße"]
    assert list(table.ids) == ["München", "Köln"]
    assert any("latin-1" in note for note in table.notes) == (encoding == "latin-1")


def test_latin_1_that_shows_late(file):
    lines = "".join(f"name{i},{i}\n" for i in range(200_000)).encode()
    seen = []
    table = read(file(b"n,x\n" + lines + b"M\xfcller,7\n"), on_rows=lambda *a: seen.append(a))
    assert table.ids[-1] == "Müller"
    assert table.X.shape == (200_001, 1)
    assert sum("latin-1" in note for note in table.notes) == 1


def test_a_byte_order_mark_does_not_hide_a_name(file):
    assert read(file("\ufeffa,b\n1,2\n".encode())).names == ["a", "b"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_compressed(file, pack):
    X = matrix()
    text = pd.DataFrame(X).to_csv(index=False).encode()
    half = len(text) // 2
    name = "data.csv.gz" if pack is gzip.compress else "data.tsv.bz2"
    seen = []
    path = file(pack(text[:half]) + pack(text[half:]), name)  # two members, as appended files have
    np.testing.assert_array_equal(read(path, on_rows=lambda *a: seen.append(a)).X, X)
    assert seen[-1] == (200, path.stat().st_size, path.stat().st_size)


def test_truth_values_signs_spaces_and_dates(file):
    table = read(file("on,plus,day\nTrue, +1.5,2020-01-01\nfalse,-2 ,2020-01-02\nTRUE,+3e2,x\n"))
    np.testing.assert_array_equal(table.X, [[1, 1.5], [0, -2], [1, 300]])
    assert table.id_columns == ["day"]


def test_empty_and_repeated_names(file):
    table = read(file("a,,a,a_2,b\n1,2,3,4,5\n"))
    assert len(set(table.names)) == 5
    assert table.names[0] == "a"
    assert {"a_2", "b", "x2"} < set(table.names)
    assert any("empty or repeated" in note for note in table.notes)


def test_row_names_as_pandas_and_r_write_them(file):
    frame = pd.DataFrame(matrix(4, 2), columns=["a", "b"], index=[10, 11, 12, 13])
    table = read(file(frame.to_csv()))
    np.testing.assert_array_equal(table.X, frame.to_numpy())
    assert list(table.ids) == ["10", "11", "12", "13"]
    table = read(file('"a" "b"\n"r1" 1 2\n"r2" 3 4\n', "r.txt"))
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    assert list(table.ids) == ["r1", "r2"]
    table = read(file("a,b\n1,2,\n3,4,\n"))  # trailing delimiters
    assert table.names == ["a", "b"]
    assert table.ids is None


def test_agrees_with_pandas_on_odd_but_valid_numbers(file):
    text = "a,b\n1.,1e-300\n.5,-0\n1E+5,123456789012345678\n-7,0.1\n4.9e-324,NaN\n"
    table = read(file(text), missing="keep")
    expected = pd.read_csv(io.StringIO(text)).to_numpy(float)
    np.testing.assert_array_equal(table.X, expected)


@pytest.mark.parametrize("na", NA_VALUES)
def test_missing_cells(file, na):
    path = file(f"n,a,b\nx,1,2\ny,{na},4\nz,5,6\n")
    with pytest.raises(
        TableError, match=r"1 missing cell in 1 of 3 rows.*'a' \(1\).*--missing drop"
    ):
        read(path)
    table = read(path, missing="drop")
    np.testing.assert_array_equal(table.X, [[1, 2], [5, 6]])
    assert list(table.ids) == ["x", "z"]
    assert (table.n_missing, table.n_dropped) == (1, 1)
    table = read(path, missing="keep")
    np.testing.assert_array_equal(table.X, [[1, 2], [np.nan, 4], [5, 6]])
    assert (table.n_missing, table.n_dropped) == (1, 0)


def test_values_that_stand_for_missing(file):
    path = file("a,b\n-999,2\n-999.0,2\n-9,inf\n3,4\n")
    table = read(path, na_values=[*NA_VALUES, "-999", "inf"], missing="drop")
    np.testing.assert_array_equal(table.X, [[3, 4]])
    assert list(read(file("c,a\nNA,1\nDE,2\n")).ids) == ["NA", "DE"]  # Namibia


CHOICES = {
    "by name": (Columns(keep=["b", "x10"]), ["b", "x10"]),
    "order of the file": (Columns(keep=["x10", "b"]), ["b", "x10"]),
    "by number": (Columns(keep=["2"]), ["b"]),
    "by range of numbers": (Columns(keep=["2-3"]), ["b", "x9"]),
    "by range of names": (Columns(keep=["b:x10"]), ["b", "x9", "x10"]),
    "by pattern": (Columns(keep=["x*"]), ["x9", "x10"]),
    "drop": (Columns(drop=["x?", "1"]), ["b", "x10"]),
    "keep and drop": (Columns(keep=["1-4"], drop=["b"]), ["a", "x9", "x10"]),
    "exact": (Columns(keep=["x10", "a"], exact=True), ["x10", "a"]),
}


@pytest.mark.parametrize("case", CHOICES)
def test_choice_of_columns(file, case):
    columns, names = CHOICES[case]
    text = "a,b,x9,x10,t\n1,2,3,4,u\n5,6,7,8,v\n"
    table = read(file(text), columns=columns)
    assert table.names == names
    np.testing.assert_array_equal(table.X, pd.read_csv(io.StringIO(text))[names].to_numpy())


def test_a_name_goes_before_a_number_and_a_pattern(file):
    assert read(file("2,b,a*,ab\n1,2,3,4\n", "a.csv"), header=True).names[0] == "2"
    table = read(file("2,b,a*,ab\n1,2,3,4\n"), columns=Columns(keep=["2", "a*"]))
    assert table.names == ["2", "a*"]


def test_the_columns_of_a_model(file):
    path = file("extra,b,who,a\n9,2,r,1\n9,4,s,3\n")
    table = read(path, columns=Columns(keep=["a", "b"], exact=True))
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    assert list(table.ids) == ["r", "s"]
    assert table.left_out == []
    bare = read(file("1,2\n3,4\n"), columns=Columns(keep=["a", "b"], exact=True))
    assert bare.names == ["a", "b"]
    third = read(file("1,2,3\n4,5,6\n"), columns=Columns(keep=["x1", "x3"], exact=True))
    np.testing.assert_array_equal(third.X, [[1, 3], [4, 6]])


MISTAKES = {
    "unknown column": (PEOPLE, {"columns": Columns(keep=["hieght"])}, "did you mean 'height'"),
    "unknown number": (PEOPLE, {"columns": Columns(drop=["9"])}, "there are 4 columns"),
    "unknown pattern": (PEOPLE, {"columns": Columns(keep=["q*"])}, "no column 'q\\*'"),
    "backward range": (PEOPLE, {"columns": Columns(keep=["weight:height"])}, "empty range"),
    "unknown id": (PEOPLE, {"columns": Columns(ids="nam")}, "did you mean 'name'"),
    "several labels": (PEOPLE, {"columns": Columns(label="*")}, "4 columns as --label"),
    "text kept": (PEOPLE, {"columns": Columns(keep=["city", "height"])}, "'city' is text"),
    "nothing left": (PEOPLE, {"columns": Columns(drop=["*eight"])}, "no column of numbers"),
    "only text": ("a,b\nx,y\nz,u\n", {}, "no column of numbers"),
    "model": (PEOPLE, {"columns": Columns(keep=["height", "age"], exact=True)}, "needs.*: age"),
    "model text": (PEOPLE, {"columns": Columns(keep=["city"], exact=True)}, "city: text here"),
    "model count": (
        "1,2\n3,4\n",
        {"columns": Columns(keep=["a"], exact=True)},
        "2 columns.*needs 1",
    ),
    "empty": ("", {}, "file is empty"),
    "blank": ("\n\n", {}, "file is empty"),
    "no rows": ("a,b\n", {}, "header but no rows"),
    "short row": ("a,b\n1,2\n3\n", {}, "line 3 has 1 cell where 2"),
    "long row": ("a,b\n1,2\n\n3,4,5\n", {}, "line 4 has 3 cells where 2"),
    "infinite": ("a,b\n1,2\n3,inf\n-inf,4\n", {}, "2 cells infinite.*line 3, column 'b'"),
    "overflow": ("a,b\n1,2\n3,1e999\n", {}, "1 cell infinite.*line 3"),
    "narrow": ("a,b\n1,2\n3,1e39\n", {"dtype": "float32"}, "1 cell infinite.*line 3"),
    "all missing": ("a,b\n1,NA\nNA,4\n", {"missing": "drop"}, "all of 2 rows have missing"),
    "delimiter": (PEOPLE, {"delimiter": ",,"}, "not one character"),
    "decimal": (PEOPLE, {"decimal": "x"}, "give '.' or ','"),
    "format": (PEOPLE, {"format": "xls"}, "'xls' is not known; give one of csv"),
    "key": (PEOPLE, {"key": "X"}, "leave it out"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_answered(file, case):
    text, options, message = MISTAKES[case]
    path = file(text)
    with pytest.raises(TableError, match=message) as error:
        read(path, **options)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_arguments_of_python(file):
    with pytest.raises(ValueError, match="missing='impute' is not known; give one of refuse"):
        read(file(PEOPLE), missing="impute")
    with pytest.raises(ValueError, match="dtype='int8' is not known"):
        read(file(PEOPLE), dtype="int8")


@pytest.mark.slow
@pytest.mark.parametrize("row", [5, 150_000])
def test_a_late_cell_that_is_no_number_is_named(file, row):
    lines = ["n,a,b", '"two\nlines",1,2'] + [f"r{i},{i},2.5" for i in range(200_000)]
    lines[row] = "bad,oops,1"
    with pytest.raises(TableError, match=f"line {row + 2}, column 'a': 'oops' is no number.*--na"):
        read(file("\n".join(lines)))


def test_files_that_are_none(tmp_path, file):
    for path, message in (
        (tmp_path / "none.csv", "No such file"),
        (tmp_path, "a folder, and no zarr"),
        (file(PEOPLE, "data.xls"), "extension '.xls' is not known; give --format"),
        (file(PEOPLE, "data"), "extension '' is not known"),
    ):
        with pytest.raises(TableError, match=message):
            read(path)
    assert read(file(PEOPLE, "data.xls"), format="csv").X.shape == (3, 2)


def test_float32_on_request(file):
    X = matrix()
    table = read(file(pd.DataFrame(X).to_csv(index=False)), dtype="float32")
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(table.X, X.astype(np.float32))


@pytest.mark.parametrize("missing", ["keep", "drop"])
def test_beyond_memory_it_lies_in_a_file(file, missing):
    X = matrix(20_000, 8)
    X[::7, 3] = np.nan
    path = file(pd.DataFrame(X, columns=list("abcdefgh")).to_csv(index=False))
    held, mapped = (read(path, memory=size, missing=missing) for size in (10**9, 10**5))
    assert isinstance(held.X, np.ndarray)
    assert isinstance(mapped.X, Blocks)
    assert mapped.X.names == mapped.names == list("abcdefgh")
    expected = X if missing == "keep" else X[~np.isnan(X).any(axis=1)]
    np.testing.assert_array_equal(held.X, expected)
    np.testing.assert_array_equal(mapped.X.take(np.arange(len(expected))), expected)
    assert held.n_missing == mapped.n_missing == np.isnan(X).sum()
    if missing == "drop":
        model = PCA(2).fit(mapped.X)
        assert list(model.feature_names_in_) == list("abcdefgh")
        oracle = PCA(2).fit(expected)
        np.testing.assert_allclose(model.explained_variance_, oracle.explained_variance_)


def open_files():
    """The tables and temporary files, which have no name, that this process has open."""
    gc.collect()
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    files = (os.readlink(link) for link in links if os.path.lexists(link))
    return sorted(name for name in files if name.endswith((".csv", "(deleted)")))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of open files here")
def test_nothing_stays_after_errors_and_interrupts(file):
    path = file(pd.DataFrame(matrix(100_000, 4)).to_csv(index=False) + "1,2,3,oops\n")

    def interrupt(*_):
        raise KeyboardInterrupt

    before = open_files()
    with pytest.raises(TableError, match="line 100002, column '3': 'oops'"):
        read(path, memory=1000)
    assert open_files() == before
    with pytest.raises(KeyboardInterrupt):
        read(path, memory=1000, on_rows=interrupt)
    assert open_files() == before
    table = read(file(PEOPLE), memory=10)
    assert len(open_files()) == len(before) + 1  # the temporary file
    np.testing.assert_array_equal(table.X.take([0]), [[1.7, 60]])
    del table
    assert open_files() == before


def test_progress(file):
    seen = []
    path = file(pd.DataFrame(matrix(100_000, 4)).to_csv(index=False))
    read(path, on_rows=lambda *a: seen.append(a))
    rows, done, total = zip(*seen, strict=True)
    assert len(seen) > 1
    assert list(rows) == sorted(rows)
    assert list(done) == sorted(done)
    assert rows[-1] == 100_000
    assert done[-1] == total[-1] == path.stat().st_size


@pytest.fixture
def pipe(monkeypatch):
    def put(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put


def test_standard_input(pipe):
    pipe(PEOPLE.encode())
    assert read("-").names == ["height", "weight"]
    pipe(gzip.compress(b"a\tb\n1\t2\n"))
    np.testing.assert_array_equal(read("-").X, [[1, 2]])
    pipe(b"")
    with pytest.raises(TableError, match="standard input: there is nothing to read"):
        read("-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    code = f"open({str(path)!r}, 'w').write('a,b\\n1,2\\n')"
    with subprocess.Popen([sys.executable, "-c", code]):
        np.testing.assert_array_equal(read(path).X, [[1, 2]])


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices here")
@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "-"])
def test_a_device_is_refused_before_a_byte_is_copied(name, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.copyfileobj", None)
    os.symlink("/dev/zero", tmp_path / "zeros.csv")
    with open("/dev/zero") as zeros:
        monkeypatch.setattr(sys, "stdin", zeros)
        for path in (name, tmp_path / "zeros.csv"):
            with pytest.raises(
                TableError, match="is a device, whose bytes may have no end; give a"
            ):
                read(path)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="no descriptors by name here")
def test_a_pipe_by_its_descriptor_and_a_terminal_are_read(monkeypatch):
    ours, theirs = os.pipe()
    os.write(theirs, b"a,b\n1,2\n")
    os.close(theirs)
    np.testing.assert_array_equal(read(f"/dev/fd/{ours}").X, [[1, 2]])
    os.close(ours)
    parent, child = os.openpty()
    os.write(parent, b"a,b\n1,2\n\x04\x04")  # as a typed text ends
    with open(child) as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        np.testing.assert_array_equal(read("-").X, [[1, 2]])
    os.close(parent)


#: The peak of this process alone: getrusage counts that of its parent too.
MEASURE = """
import sys
import pyarrow, pyarrow.csv, pyarrow.compute, numpy as np
from dualpca.io.tables import read

def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

read(sys.argv[2])
before = peak()
table = read(sys.argv[1], memory=int(sys.argv[3]))
print((peak() - before) // 1000, type(table.X).__name__, *table.X.shape)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is not told")
def test_memory_does_not_grow_with_the_file(file):
    """200,000 x 50, 80 MB of numbers and 180 MB of text, with 16 MB of it allowed in memory."""
    block = pd.DataFrame(matrix(10_000, 50)).to_csv(index=False, header=False).encode()
    path, small = file(block * 20), file(PEOPLE, "small.csv")
    grown = {}
    for memory, kind in ((2**24, "Blocks"), (2**28, "ndarray")):
        command = [sys.executable, "-c", MEASURE, str(path), str(small), str(memory)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        megabytes, *found = output.split()
        assert found == [kind, "200000", "50"]
        grown[memory] = int(megabytes)
    # The parser's own blocks, and the numbers: those allowed in memory, or all 80 MB.
    assert grown[2**24] < 150
    assert 80 <= grown[2**28] < 230
    assert grown[2**24] < grown[2**28]


def test_strings():
    words = ["a", "", "ü", "long" * 20]
    strings = Strings(words)
    assert list(strings) == words
    assert strings[2] == strings[-2] == "ü"
    assert list(strings[1:3]) == words[1:3]
    assert list(strings[np.array([True, False, True, False])]) == ["a", "ü"]
    assert np.asarray(strings).tolist() == words
    assert "ü" in strings
    assert repr(Strings(["a", "b"])) == "<2 strings: a, b>"
    assert len(Strings([])) == 0
    with pytest.raises(IndexError):
        strings[4]


SLOW = settings(max_examples=60)
TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff"), min_size=1
)


@SLOW
@given(
    rows=st.lists(
        st.tuples(
            TEXT.filter(lambda s: s.strip()),
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(-(2**53), 2**53),
        ),
        min_size=1,
    ),
    name=st.sampled_from(["t.csv", "t.tsv", "t.csv.gz", "t.parquet"]),
)
def test_what_is_written_is_read(tmp_path, rows, name):
    ids, x, n = zip(*rows, strict=True)
    path = tmp_path / name
    write(path, {"id": ids, "x": x, "n": n}, overwrite=True, safe=False)
    table = read(path, columns=Columns(ids="id"))
    assert list(table.ids) == list(ids)
    np.testing.assert_array_equal(table.X[:, 0], x)
    np.testing.assert_array_equal(table.X[:, 1], n)


@SLOW
@given(content=st.binary(min_size=1, max_size=300), head=st.sampled_from(["", "a,b\n1,2\n"]))
def test_any_bytes_are_read_or_refused(file, content, head):
    for ending in ("csv", "csv.gz"):
        data = head.encode() + content
        path = file(data if ending == "csv" else gzip.compress(data)[: len(data)], f"d.{ending}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                table = read(path, missing="keep")
            except TableError:
                pass
            else:
                assert table.X.shape[1] == len(table.names)


def test_path_objects_and_strings(file):
    path = file(PEOPLE)
    assert isinstance(path, Path)
    assert read(str(path)).names == read(path).names


@pytest.mark.parametrize("dropped", [[], [0], [3], [0, 1, 5], [2, 3, 4, 9]])
def test_rows_in_the_file(file, dropped):
    lines = ["" if i in dropped else str(i) for i in range(10)]
    path = file("a,b\n" + "".join(f"{cell},1\n" for cell in lines))
    table = read(path, missing="drop", columns=Columns(ids=()))
    assert table.dropped.tolist() == dropped
    rows = table.in_file(np.arange(len(table.X)))
    np.testing.assert_array_equal(rows, table.X[:, 0] + 1)


# files of people who mean harm


def test_a_compressed_file_without_an_end_of_line_is_refused(file):
    content = gzip.compress(bytes(70 * 2**20), 1)
    for delimiter in (None, ","):
        with pytest.raises(TableError, match="larger than field limit"):
            read(file(content, "zeros.csv.gz"), delimiter=delimiter)


@pytest.mark.slow
def test_a_late_line_without_an_end_is_refused(file):
    rows = b"a,b\n" + b"1,2\n" * 300_000
    content = gzip.compress(rows + b"1" * (70 * 2**20), 1)
    with pytest.raises(TableError, match="longer than 64 MB"):
        read(file(content, "late.csv.gz"))


@pytest.mark.slow
def test_a_million_blank_lines_are_refused(file):
    with pytest.raises(TableError, match="blank lines"):
        read(file(b"\n" * 2**21 + b"1,2\n", "blank.csv"))


def test_a_long_row_of_digits_is_judged_in_one_pass(file):
    cell = "1" * 131_000 + "x"  # a pattern that goes back for each digit would take minutes
    assert not is_number(cell)
    with pytest.raises(TableError, match=r"line 2, column 'a': '1{57}\.\.\.' is no number"):
        read(file(f"a,b\n{cell},2\n1,2\n3,4\n", "digits.csv"))


def test_more_columns_than_names_fit_memory_are_refused(file):
    with pytest.raises(TableError, match="columns are too many"):
        read(file(b"," * 5_000_000 + b"\n", "wide.csv"))


@pytest.mark.parametrize("bad", [None, "x", "short"])
def test_wide_rows_are_read_one_by_one_to_the_same_numbers(file, bad):
    d = 20_000
    cells = [["TRUE", "+1", " 2 ", "1e3", *map(str, range(d - 4))] for _ in range(3)]
    if bad == "x":
        cells[2][7] = "x"
    elif bad == "short":
        cells[2].pop()
    names = [f"c{j}" for j in range(d)]
    lines = [",".join(["id", *names]), *(",".join([f"r{i}", *row]) for i, row in enumerate(cells))]
    path = file("\n".join(lines), "wide.csv")
    if bad is not None:
        words = "line 4, column 'c7': 'x'" if bad == "x" else "line 4 has 20,000 cells where 20,001"
        with pytest.raises(TableError, match=words):
            read(path, delimiter=",")
        return
    table = read(path)
    assert table.names == names
    assert list(table.ids) == ["r0", "r1", "r2"]
    assert table.X.tolist() == [[1, 1, 2, 1000, *range(d - 4)]] * 3


def test_names_of_any_length_make_short_errors(file):
    long = "n" * 100_000
    path = file(f"{long}a,{long}b,id\n1,2,x\n", "long.csv")
    for options in (
        Columns(keep=["c"]),
        Columns(keep=[f"{long}c"], exact=True),
        Columns(keep=["id"]),
    ):
        with pytest.raises(TableError) as error:
            read(path, columns=options)
        assert len(str(error.value)) < 2000
    assert max(map(len, read(file(f"{long},{long}\n1,2\n", "same.csv")).notes)) < 500


def test_names_and_labels_beyond_memory_are_refused(file, monkeypatch):
    monkeypatch.setattr("dualpca.io.tables.limits.TEXT", 1000)
    path = file("id,x\n" + "".join(f"{'a' * 50}{i},1\n" for i in range(100)), "ids.csv")
    with pytest.raises(TableError, match="choose another --id"):
        read(path, memory=10)
    assert len(read(path, memory=10**6).ids) == 100


# Odd but right, and what is refused with a remedy.


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

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(TableError, match="Permission denied; check its permissions"):
        read(tmp_path / "x.csv")


def test_a_range_of_columns_whose_names_have_colons(tmp_path):
    (tmp_path / "x.csv").write_text("a:b,c,d:e\n1,2,3\n4,5,6\n")
    table = read(tmp_path / "x.csv", columns=Columns(keep=["a:b:c"]))
    assert table.names == ["a:b", "c"]
    table = read(tmp_path / "x.csv", columns=Columns(keep=["c:d:e"]))
    assert table.names == ["c", "d:e"]
