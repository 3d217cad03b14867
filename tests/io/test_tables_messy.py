"""Tables as people have them: formatted numbers, comments, sheets; each note says what was done."""

import errno
import gzip
import io
import sys
import zipfile
from decimal import Decimal

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dualpca.io.tables import Columns, TableError, read
from dualpca.io.tables import text as text_module
from dualpca.operators import Blocks

PRICES = 'price,b,c\n"12,345",1,2\n"2,345",2,1\n"7,200",3,5\n"9,100",4,4\n"1,000",5,1\n'


def told(table, *words):
    """Whether one note of the table has all of the words."""
    return any(all(word in note for word in words) for note in table.notes)


# How numbers are written.


def written(number, decimal, thousands, form, minus, places=2):
    """A number in a convention; ``form`` says where the digits are, ``minus`` the sign."""
    digits = f"{abs(number):,.{places}f}".replace(",", "T").replace(".", "D")
    cell = form.format(digits.replace("T", thousands).replace("D", decimal))
    return cell if number >= 0 else minus.format(cell)


FORMS = ("{}", "${}", "$ {}", "{} €", "EUR {}", "US${}", "{} kr", "£{}", "{}%", "{} %")
FORMS += ("{} kg", "{}mm", "{} m/s", "{} °C", "{}µm", "{} A", "{} m²", "{} kg/m3")
MINUS = ("-{}", "\u2212{}", "({})", "\u2013{}")
SIGNS = [(".", ","), (".", " "), (".", "'"), (".", "\u2019"), (".", ""), (",", "."), (",", "")]
SIGNS += [(",", " "), (",", "\u00a0"), (",", "\u202f"), (",", "'")]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(cents=[-100_000] * 3, signs=(".", ","), form="{} kg", minus="\u2212{}", na="", block=64)
@given(
    cents=st.lists(st.none() | st.integers(-(10**11), 10**11), min_size=3, max_size=60),
    signs=st.sampled_from(SIGNS),
    form=st.sampled_from(FORMS),
    minus=st.sampled_from(MINUS),
    na=st.sampled_from(["", "NA", "null"]),
    block=st.sampled_from([64, 1024, 2**20]),
)
def test_numbers_in_any_convention_are_those_of_the_plain_file(
    file, cents, signs, form, minus, na, block
):
    if all(c is None for c in cents):
        return
    values = [None if c is None else Decimal(c) / 100 for c in cents]
    cells = [na if v is None else written(v, *signs, form, minus) for v in values]
    path = file("amount;n\n" + "".join(f"{c};{i % 7}\n" for i, c in enumerate(cells)))
    scale = Decimal("0.01") if "%" in form else 1
    expected = [np.nan if v is None else float(v * scale) for v in values]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "_BLOCK", block)
        table = read(path, missing="keep")
    assert table.names == ["amount", "n"]
    assert table.ids is None
    np.testing.assert_array_equal(table.X[:, 0], expected)
    np.testing.assert_array_equal(table.X[:, 1], np.arange(len(cells)) % 7)
    plain = form == "{}" and not any(sign in "".join(cells) for sign in (signs[1] or "T", "("))
    if not plain and not any("\u2212" in c or "\u2013" in c for c in cells):
        assert told(table, "read ", ": amount")


def test_the_prices_of_the_first_column_are_numbers_and_name_no_rows(file):
    table = read(file(PRICES))
    assert table.names == ["price", "b", "c"]
    assert table.ids is None
    assert table.X[:, 0].tolist() == [12345, 2345, 7200, 9100, 1000]
    assert table.notes == ["read '12,345' as 12345 (thousands ','): price"]


def test_groups_of_three_are_thousands_unless_a_cell_says_otherwise(file):
    path = file('a,b\n"1,234",1\n"5,678",2\n')
    assert read(path).X[:, 0].tolist() == [1234, 5678]
    assert read(path, decimal=",").X[:, 0].tolist() == [1.234, 5.678]
    path = file('a,b\n"1,234",1\n"5,67",2\n')
    assert read(path).X[:, 0].tolist() == [1.234, 5.67]
    path = file('a,b\n"0,234",1\n"5,678",2\n')  # no group begins with a zero
    assert read(path).X[:, 0].tolist() == [0.234, 5.678]
    path = file("a;b\n1.234;1,5\n5.678;2,5\n")  # another column has a decimal comma
    assert read(path).X.tolist() == [[1234, 1.5], [5678, 2.5]]
    assert read(path, thousands="").X[:, 1].tolist() == [1.5, 2.5]
    path = file("a;b\n1.234;1\n5.678;2\n")
    assert read(path).X[:, 0].tolist() == [1.234, 5.678]
    assert read(path, thousands=".").X[:, 0].tolist() == [1234, 5678]


def test_columns_with_conventions_of_their_own(file):
    table = read(file("a;b;c\n1.5;1,25;$ 3\n2.25;3,5;(4)\n"))
    np.testing.assert_array_equal(table.X, [[1.5, 1.25, 3], [2.25, 3.5, -4]])
    assert told(table, "read '1,25' as 1.25 (decimal comma): b")
    assert told(table, ": c")


def test_numbers_with_signs_in_the_first_row_are_no_header(file):
    table = read(file('"1,234",5%\n"2,345",6%\n'))
    np.testing.assert_array_equal(table.X, [[1234, 0.05], [2345, 0.06]])
    assert told(table, "no header")


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        (["$ 5", "$ 6", "€ 7"], "€ 7"),
        (["5%", "6%", "7"], "7"),
        (["1,234", "abc", "2,345"], "abc"),
        (["1 234", "2 345", "12 34"], "12 34"),
        (["(5)", "$ 6", "$ seven"], "$ seven"),
        (["12 kg", "7 kg", "900 g"], "900 g"),
        (["12 kg", "7kg", "-", "<5 kg"], "<5 kg"),
        (["5k", "1.2k", "900"], "900"),
    ],
)
def test_a_column_that_does_not_agree_with_itself_is_text_and_names_no_rows(file, cells, odd):
    path = file("amount\tn\n" + "".join(f"{cell}\t{i * i}\n" for i, cell in enumerate(cells)))
    table = read(path)
    assert table.names == ["n"]
    assert table.ids is None
    assert table.left_out == ["amount"]
    line = cells.index(odd) + 2
    assert told(table, "'amount'", f"{odd!r} (line {line}) is no number")


def test_text_that_only_looks_like_numbers_stays_text(file):
    text = (
        "flight\tip\tphone\tseat\troom\tcode\tlarge\tn\n"
        "LH 1234\t10.0.0.1\t030 12345\t12A\t101 b\t007x\t1.5 e5\t1\n"
        "BA 5678\t10.0.0.2\t040 54321\t14A\t101 c\t008x\t1.7 e5\t2\n"
    )
    table = read(file(text))
    assert table.names == ["n"]
    assert table.left_out == ["ip", "phone", "seat", "room", "code", "large"]
    assert list(table.ids) == ["LH 1234", "BA 5678"]


def test_numbers_with_a_unit_are_numbers_and_name_no_rows(file):
    table = read(file("weight,n\n12 kg,1\n7kg,2\n-1.5 kg,4\n"))
    assert table.names == ["weight", "n"]
    assert table.ids is None
    assert table.X[:, 0].tolist() == [12, 7, -1.5]
    assert table.notes == ["read '-1.5 kg' as -1.5: weight"]
    for unit in "nft":  # letters of inf and true
        text = f"a,b\n3 {unit},1\n5{unit},2\ntrue,3\n7 {unit},2\n"
        assert read(file(text)).X[:, 0].tolist() == [3, 5, 1, 7]
        with pytest.raises(TableError, match="infinite or too large, the first in line 6"):
            read(file(text + "inf,3\n"))


@pytest.fixture
def _judged_by_its_beginning(monkeypatch):
    """Kinds and conventions of columns are judged by the first 4 kB instead of the first megabyte."""
    monkeypatch.setattr(text_module, "HEAD", 2**12)


@pytest.mark.usefixtures("_judged_by_its_beginning")
@pytest.mark.parametrize("late", ["1,234", "$ 7", "5%", "abc", "(3)"])
def test_a_late_cell_of_another_convention_is_named_with_a_remedy(file, late):
    rows = ["a\tb"] + [f"{i % 9}.5\t{i}" for i in range(3000)]
    rows[2000] = f"{late}\t1"
    with pytest.raises(TableError) as error:
        read(file("\n".join(rows), "data.tsv"))
    message = str(error.value)
    assert f"line 2001, column 'a': {late!r} is no number" in message
    assert "--na" in message
    assert ("--thousands" in message) == (late in ("1,234", "$ 7", "5%"))
    if late == "1,234":
        table = read(file("\n".join(rows), "data.tsv"), thousands=",")
        assert table.X[1999].tolist() == [1234, 1]


@pytest.mark.usefixtures("_judged_by_its_beginning")
def test_a_late_cell_that_contradicts_thousands_is_named(file):
    rows = ["a;b"] + ["1,234;5"] * 2000 + ["1,23;6"]
    with pytest.raises(
        TableError, match=r"line 2002, column 'a': '1,23' is no number \(thousands ','\)"
    ):
        read(file("\n".join(rows)))


@pytest.mark.usefixtures("_judged_by_its_beginning")
def test_a_late_point_is_no_decimal_sign_where_a_comma_is(file):
    rows = ["a;b"] + ["1,5;5"] * 3000 + ["1.25;6"]
    with pytest.raises(TableError, match=r"line 3002, column 'a': '1\.25'.*\(decimal comma\)"):
        read(file("\n".join(rows)))


def test_wide_rows_have_conventions_too(file):
    d = 17_000
    names = ";".join(f"c{j}" for j in range(d))
    rows = (";".join(["1.234,5", "7%", *["2"] * (d - 2)]) for _ in range(3))
    table = read(file("\n".join([names, *rows])), delimiter=";")
    np.testing.assert_array_equal(table.X, [[1234.5, 0.07, *[2] * (d - 2)]] * 3)


def test_the_columns_of_a_model_may_be_formatted(file):
    columns = Columns(keep=["c", "price"], exact=True)
    assert read(file(PRICES), columns=columns).X[0].tolist() == [2, 12345]


# Truth values, dates, numbers of rows, in text and in Parquet alike.


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_truth_values_and_dates_are_announced(tmp_path, ending):
    days = pd.date_range("2020-01-30", periods=4)
    frame = pd.DataFrame({"who": list("abcd"), "on": [True, False, True, True], "day": days})
    frame["x"] = [1.5, 2.5, 0.5, 0.25]
    path = tmp_path / f"t.{ending}"
    save(frame, path)
    table = read(path)
    np.testing.assert_array_equal(table.X, frame[["on", "x"]].to_numpy(float))
    assert told(table, "read true as 1 and false as 0: on")
    assert told(table, "left out date column: day")
    save(frame.drop(columns="who"), path)
    assert told(read(path), "rows are named by column 'day', of dates")


def save(frame, path):
    ending = path.suffix
    if ending == ".parquet":
        frame.to_parquet(path)
    elif ending == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif ending == ".xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.to_csv(path, index=False)


@pytest.mark.parametrize(
    "day",
    ["2020-01-31", "31.01.2020", "1/31/20", "31 Jan 2020", "Jan 31, 2020", "2020-01-31T10:30Z"],
)
def test_dates_in_several_forms(file, day):
    path = file(f"w\tday\tx\na\t{day}\t1\nb\t{day}\t2\n", "d.tsv")
    assert told(read(path), "left out date column: day")


NUMBERED = {
    "counting": ("k", [1, 2, 3, 4], True),
    "from 0": ("k", [0, 1, 2, 3], True),
    "two rows": ("k", [1, 2], False),
    "not by one": ("k", [1, 3, 5, 7], False),
    "by name": ("customer_id", [70, 30, 20, 90], True),
    "in camels": ("orderId", [70, 30, 20, 90], True),
    "re-saved": ("Unnamed: 0", [4, 2, 3, 7], True),
    "not unique": ("id", [7, 7, 8, 9], False),
    "paid is no id": ("paid", [70, 30, 20, 90], False),
}


@pytest.mark.parametrize("case", NUMBERED)
@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx", "jsonl"])
def test_integers_that_number_the_rows_name_them(tmp_path, case, ending):
    name, values, names_rows = NUMBERED[case]
    noise = np.random.default_rng(0).normal(size=(2, len(values))).round(7)
    frame = pd.DataFrame({name: values, "a": noise[0], "b": noise[1]})
    path = tmp_path / f"t.{ending}"
    save(frame, path)
    table = read(path)
    assert table.names == (["a", "b"] if names_rows else [name, "a", "b"])
    assert table.id_columns == ([name] if names_rows else [])
    assert told(table, "rows are named by", "--id none analyses it") == names_rows
    everything = read(path, columns=Columns(ids=()))
    np.testing.assert_array_equal(everything.X, frame.to_numpy(float))
    assert read(path, columns=Columns(keep=[name, "a"])).names == [name, "a"]
    exact = read(path, columns=Columns(keep=["b", name], exact=True))
    np.testing.assert_array_equal(exact.X, frame[["b", name]].to_numpy(float))
    assert exact.ids is None
    unnamed = read(path, columns=Columns(exact=True))  # for a model without names
    np.testing.assert_array_equal(unnamed.X, frame.to_numpy(float))


def test_text_goes_before_numbers_of_rows_which_are_then_announced(file):
    table = read(file("who,id,x\nada,7,1.5\nbob,9,2.5\n"))
    assert (table.names, table.id_columns) == (["id", "x"], ["who"])
    assert told(table, "column 'id' seems to number the rows", "--drop id")


def test_the_only_column_of_numbers_is_data(file):
    assert read(file("id\n1\n2\n3\n4\n")).names == ["id"]


# Constant columns.


@pytest.mark.parametrize("memory", [10**9, 10**4])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("missing", ["refuse", "drop", "keep"])
def test_constant_columns_are_left_out_in_memory_and_beyond(tmp_path, memory, ending, missing):
    n = 5000
    a, b = np.random.default_rng(0).normal(size=(2, n))
    frame = pd.DataFrame({"a": a, "one": np.ones(n), "b": b, "late": np.zeros(n), "empty": np.nan})
    frame.loc[n - 1, "late"] = 1
    frame.loc[::3, "one"] = np.nan
    if missing != "refuse":
        frame.loc[7, "a"] = np.nan
    path = tmp_path / f"t.{ending}"
    save(frame, path)
    table = read(path, columns=Columns(varying=True), memory=memory, missing=missing)
    assert isinstance(table.X, Blocks) == (memory < 10**9)
    assert table.names == ["a", "b", "late"]
    assert table.left_out == ["one", "empty"]
    assert told(table, "left out constant columns: one, empty")
    expected = frame[table.names]
    expected = (expected.dropna() if missing == "drop" else expected).to_numpy()
    X = table.X.take(np.arange(len(expected))) if memory < 10**9 else table.X
    np.testing.assert_array_equal(X, expected)
    assert table.n_missing == (missing != "refuse")


def test_constant_columns_are_taken_out_of_what_was_read_without_a_second_pass(file, monkeypatch):
    n, passes = 20_000, []
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(n, 4)), columns=list("abcd"))
    frame["b"] = 7
    path = file(frame.to_csv(index=False))
    blocks = text_module.TextSource.blocks

    def counted(self, *arguments):
        passes.append(self)
        return blocks(self, *arguments)

    monkeypatch.setattr(text_module.TextSource, "blocks", counted)
    for memory in (10**9, 10**4):
        table = read(path, columns=Columns(varying=True), memory=memory)
        X = table.X if memory == 10**9 else table.X.take(np.arange(n))
        np.testing.assert_array_equal(X, frame[["a", "c", "d"]].to_numpy())
    assert len(passes) == 2


def test_constant_columns_stay_in_matrices_in_single_rows_and_unless_asked(tmp_path, file):
    X = np.array([[1.0, 2.0], [1.0, 3.0]])
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(read(tmp_path / "x.npy", columns=Columns(varying=True)).X, X)
    assert read(file("a,b\n1,2\n1,3\n")).names == ["a", "b"]
    assert read(file("a,b\n1,2\n"), columns=Columns(varying=True)).names == ["a", "b"]
    with pytest.raises(TableError, match="all cells of 2 columns of numbers are equal"):
        read(file("a,b\n1,2\n1,2\n"), columns=Columns(varying=True))


# Lines.


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("piece", [3, 2**20])
def test_comments_and_skipped_lines_leave_the_rest_and_its_numbers(file, end, piece, monkeypatch):
    monkeypatch.setattr("dualpca.io.tables.feed.PIECE", piece)
    lines = ['My "table', "of 2020", "# a comment", "t,x", '"two', '# lines",1', '# "no', "b,2"]
    path = file(end.join([*lines, "c,oops", "d,4", "e,5"]))
    with pytest.raises(TableError, match="line 9, column 'x': 'oops'"):
        read(path, skip=2, comment="#")
    table = read(path, skip=2, comment="#", na_values=["oops"], missing="keep")
    assert [" ".join(name.split()) for name in table.ids] == ["two # lines", "b", "c", "d", "e"]
    np.testing.assert_array_equal(table.X[:, 0], [1, 2, np.nan, 4, 5])


def test_a_comment_of_several_letters_and_a_file_of_comments(file):
    table = read(file("// x\na,b\n1,2\n//3,4\n5,6\n"), comment="//")
    assert (table.names, table.X.tolist()) == (["a", "b"], [[1, 2], [5, 6]])
    with pytest.raises(TableError, match="nothing is left without the lines of --skip"):
        read(file("#a\n#b\n"), comment="#")
    with pytest.raises(TableError, match="nothing is left"):
        read(file("a\nb\n"), skip=5)


@pytest.mark.parametrize("wide", [0, 17_000])
def test_lines_of_another_length_are_skipped_on_request(file, wide):
    more = ";0" * wide
    rows = [f"a;b{''.join(f';c{j}' for j in range(wide))}"]
    rows += [f"{i};{i}{more}" if i % 10 else f"{i};{i}{more};7" for i in range(1, 41)]
    rows[15] = "3"
    path = file("\n".join(rows))
    with pytest.raises(TableError, match=r"line 11 has .* cells where .* --bad-lines skip"):
        read(path, columns=Columns(ids=()))
    table = read(path, bad_lines="skip", columns=Columns(ids=()))
    assert table.X[:, 0].tolist() == [i for i in range(1, 41) if i % 10 and i != 15]
    assert told(table, "left out 5 lines with too many or too few cells, the first '10;10")
    rows[30] = rows[30].replace("30", "oops", 1).removesuffix(";7")
    with pytest.raises(TableError, match="line 31, column 'a': 'oops'"):
        read(file("\n".join(rows)), bad_lines="skip")


def test_arguments_are_checked(file):
    path = file(PRICES)
    for options, words in (
        ({"thousands": "x"}, "thousands 'x' cannot be used"),
        ({"thousands": ",", "decimal": ","}, "another sign than --decimal"),
        ({"comment": ""}, "give a text such as '#'"),
    ):
        with pytest.raises(TableError, match=words):
            read(path, **options)
    with pytest.raises(ValueError, match="bad_lines='warn' is not known; give one of error, skip"):
        read(path, bad_lines="warn")
    with pytest.raises(ValueError, match="skip=-1 is no number of lines"):
        read(path, skip=-1)


# Sheets and JSON lines.


def book(**sheets):
    """The bytes of an Excel file with these sheets, each a list of rows."""
    workbook, content = openpyxl.Workbook(), io.BytesIO()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        page = workbook.create_sheet(name)
        for row in rows:
            page.append(row)
    workbook.save(content)
    return content.getvalue()


@pytest.mark.parametrize("ending", ["xlsx", "jsonl"])
@pytest.mark.parametrize("memory", [10**9, 1000])
def test_sheets_and_json_lines_hold_what_the_csv_holds(tmp_path, ending, memory):
    X = (
        np.random.default_rng(0).normal(size=(300, 3)).round(7)
    )  # writers of sheets round to 16 digits
    frame = pd.DataFrame(X, columns=["a", "b", "c d"])
    frame.insert(1, "who", [f'name "{i}", é' for i in range(300)])
    frame.loc[5, "b"] = np.nan
    for path in (tmp_path / "t.csv", tmp_path / f"t.{ending}"):
        save(frame, path)
    read_csv, read_other = (
        read(tmp_path / f"t.{kind}", missing="keep", memory=memory) for kind in ("csv", ending)
    )
    a, b = (t.X if memory > 1000 else t.X.take(np.arange(300)) for t in (read_csv, read_other))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, frame[["a", "b", "c d"]].to_numpy())
    assert list(read_csv.ids) == list(read_other.ids)
    assert (read_csv.names, read_csv.notes) == (read_other.names, read_other.notes)


def test_a_sheet_is_chosen_by_its_name(file):
    rows = [["x", "y"], [1, 2.5], [3, 4]]
    path = file(book(first=rows, second=[["u"], [7], [9]]), "t.xlsx")
    table = read(path)
    np.testing.assert_array_equal(table.X, [[1, 2.5], [3, 4]])
    assert told(table, "read the sheet 'first'", "--key", "second")
    assert read(path, key="second").X.tolist() == [[7], [9]]
    with pytest.raises(TableError, match="no sheet 'third'; --key may be first, second"):
        read(path, key="third")


def test_titles_blank_rows_short_rows_and_errors_of_a_sheet(file):
    rows = [
        ["A title"],
        [],
        ["x", "y", "z"],
        [1, 2, 3],
        [],
        [4, None, 5],
        [6, "#DIV/0!", None],
        ["#", 1, 1],
    ]
    path = file(book(s=rows), "t.xlsx")
    table = read(path, skip=1, comment="#", missing="keep")
    nan = np.nan
    np.testing.assert_array_equal(table.X, [[1, 2, 3], [4, nan, 5], [6, nan, nan]])
    rows[5][1] = "oops"
    with pytest.raises(TableError, match="sheet row 6, column 'y': 'oops' is no number"):
        read(file(book(s=[*rows[:6], [1, 2, 3], [4, 5, 6]]), "t.xlsx"), skip=1)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([["a", "b"], ["x", "y"], ["z", "w"]], "no column of numbers"),
        ([["a", "b"], [1, 2], [3, 4, 5]], "sheet row 3 has 3 cells where 2 are expected"),
        ([["a", "b"], [1, 2], [1, 2]], "are equal: there is nothing to analyse"),
    ],
)
def test_errors_about_a_sheet_name_no_options_of_text(file, rows, error):
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    paths = file(book(s=rows), "t.xlsx"), file(text, "t.csv")
    for path, delimited in zip(paths, (False, True), strict=True):
        with pytest.raises(TableError) as caught:
            read(path, columns=Columns(varying=True))
        message = str(caught.value)
        assert error.replace("sheet row", "line" if delimited else "sheet row") in message
        assert ("--delimiter" in message) == delimited
        assert "--decimal" not in message or delimited
        assert "--skip" in message


def test_numbers_of_a_sheet_are_no_text_of_another_convention(file):
    path = file(book(s=[["a", "b"], [15.024, "3,5"], [1.2, "2,5"]]), "t.xlsx")
    assert read(path).X[:, 0].tolist() == [15.024, 1.2]


def test_without_openpyxl_the_remedy_is_told(file, monkeypatch):
    path = file(book(s=[["a"], [1]]), "t.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"tables need openpyxl.*pip install 'dualpca\[io\]'"):
        read(path)


def test_sheets_that_unpack_without_end_are_refused(file):
    content = book(s=[["a"], [1]])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
        with archive.open("xl/sharedStrings2.xml", "w") as member:
            for _ in range(300):
                member.write(bytes(2**20))
    with pytest.raises(TableError, match=r"packed so tightly is refused.*--unpacked"):
        read(file(bomb.getvalue(), "bomb.xlsx"))
    # A cell far to the right in each of many rows makes rows of many cells.
    sheet = parts["xl/worksheets/sheet1.xml"].decode()
    start, rest = sheet[: sheet.index("<sheetData>") + 11], sheet[sheet.index("</sheetData>") :]
    far = "".join(f'<row r="{i}"><c r="XFD{i}"><v>1</v></c></row>' for i in range(1, 2000))
    parts["xl/worksheets/sheet1.xml"] = (start + far + rest).encode()
    wide = io.BytesIO()
    with zipfile.ZipFile(wide, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    with pytest.raises(TableError, match="is refused"):
        read(file(wide.getvalue(), "wide.xlsx"), unpacked=2**16)


def test_json_lines_with_keys_that_come_and_go(file):
    lines = ['{"a": 1, "who": "x"}', "", '{"b": 2.5, "a": null, "c": {"d": 1}}', '{"b": true}']
    table = read(file("\n".join(lines), "t.ndjson"), missing="keep")
    nan = np.nan
    np.testing.assert_array_equal(table.X, [[1, nan], [nan, 2.5], [nan, 1]])
    assert table.names == ["a", "b"]
    assert list(table.ids) == ["x", "", ""]
    assert told(table, "left out column of lists or records: c")


@pytest.mark.parametrize("bad", ["[1, 2]", "{'a': 1}", "7", "{" * 10_000, '{"a":'])
def test_lines_that_are_no_json_objects(file, bad):
    path = file(f'{{"a": 1, "b": 2}}\n{bad}\n{{"a": 3, "b": 5}}\n', "t.jsonl")
    with pytest.raises(TableError, match=r"line 2 is no JSON object.*--bad-lines skip"):
        read(path)
    table = read(path, bad_lines="skip")
    assert table.X.tolist() == [[1, 2], [3, 5]]
    assert told(table, "left out 1 line that is no JSON object")


def test_errors_in_json_lines_name_the_line(file):
    lines = ['{"a": 1}', "", '{"a": 2}', '{"a": "oops"}', '{"a": 3}']
    with pytest.raises(TableError, match="line 4, column 'a': 'oops' is no number"):
        read(file("\n".join(lines), "t.jsonl"))
    with pytest.raises(TableError, match="no JSON objects with names"):
        read(file("{}\n{}\n", "t.jsonl"))


def test_many_keys_in_many_lines_are_refused(file):
    lines = "\n".join(f'{{"k{i}": 1}}' for i in range(6000))
    with pytest.raises(TableError, match="is refused"):
        read(file(gzip.compress(lines.encode()), "t.jsonl.gz"), unpacked=2**16)


@pytest.mark.parametrize("kind", ["xlsx", "jsonl"])
def test_sheets_and_json_lines_through_a_pipe(monkeypatch, kind):
    content = book(s=[["a", "b"], [1, 2], [3, 5]])
    if kind == "jsonl":
        content = b'{"a": 1, "b": 2}\n{"a": 3, "b": 5}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read("-").X.tolist() == [[1, 2], [3, 5]]


def test_a_full_temporary_folder_is_told(file, monkeypatch):
    path = file('{"a": 1}\n{"a": 2}\n', "t.jsonl")
    monkeypatch.setattr("dualpca.io.tables.convert.csv.writer", lambda *_, **__: Full())
    with pytest.raises(TableError, match=r"temporary folder .* is full .*; set TMPDIR"):
        read(path)


class Full:
    """A writer to a full disk."""

    def writerow(self, row):
        raise OSError(errno.ENOSPC, "No space left on device")
