"""Rows that come line by line are those of the whole file, whatever lines come together."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tests.loops import over

from dualpca.io.tables import Columns, TableError, read
from dualpca.io.tables.lines import FEW, LineReader

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)).round(3) * [1, 100, 1e4, 10]
NAMES = ["flow", "level", "speed", "load"]


def cell(value, decimal, thousands):
    text = f"{value:,.3f}"
    return text.replace(",", "t").replace(".", decimal).replace("t", thousands)


def delimited(sign=",", decimal=".", thousands="", quote="", ids=True):
    rows = []
    for i, row in enumerate(X):
        name = [f"{quote}pump {i}{quote}"] if ids else []
        rows.append(sign.join([*name, *(cell(v, decimal, thousands) for v in row)]))
    return [line.encode() for line in [sign.join([*(["name"] if ids else []), *NAMES]), *rows]]


def objects():
    return [
        json.dumps({"name": f"pump {i}", **dict(zip(NAMES, row, strict=True))}).encode()
        for i, row in enumerate(X)
    ]


FILES = {
    "csv": delimited(),
    "semicolons": delimited(";", ",", "."),
    "quoted": delimited(quote='"'),
    "tabs": delimited("\t", thousands=","),
    "spaces": delimited(" ", ids=False),
    "jsonl": objects(),
}


def by_pieces(reader, lines, sizes):
    parts, start = [], 0
    while start < len(lines):
        stop = min(start + int(next(sizes)), len(lines))
        parts.append(reader.rows(range(start + 1, stop + 1), lines[start:stop]))
        start = stop
    return parts


@pytest.mark.parametrize("name", FILES)
@over("most", [1, FEW // 2, 3 * FEW, 1000])
def test_rows_of_lines_are_those_of_the_file(tmp_path, name, most):
    lines = FILES[name]
    path = tmp_path / f"data.{'jsonl' if name == 'jsonl' else 'csv'}"
    path.write_bytes(b"\n".join(lines) + b"\n")
    table = read(path)
    reader = LineReader(lines[:60])
    assert reader.names == table.names
    sizes = iter(np.random.default_rng(most).integers(1, most + 1, 1000))
    parts = by_pieces(reader, lines, sizes)
    assert_array_equal(np.concatenate([part.X for part in parts]), table.X)
    if table.ids is not None:
        assert [i for part in parts for i in part.ids or ()] == list(table.ids)
    assert not any(part.broken for part in parts)
    numbers = np.concatenate([part.numbers for part in parts])
    assert_array_equal(numbers, np.arange(len(X)) + 1 + (name != "jsonl"))


@pytest.mark.parametrize("name", FILES)
@over("seed", range(5))
def test_broken_lines_are_named_and_the_others_read(name, seed):
    lines = FILES[name]
    reader = LineReader(lines[:60])
    whole = reader.rows(range(1, len(lines) + 1), lines)
    if name == "jsonl":
        bad = [b'{"flow": ', b"[1, 2]", b'{"flow": "far", "level": 1}', b'{"speed": 1e999}']
    else:
        sign = b"\t" if name == "tabs" else lines[0][4:5]
        width = lines[0].count(sign)
        bad = [b"oops", sign * (width + 3), b"x" + b"y".join([sign] * (width + 1)), b'"' + lines[4]]
        bad.append(lines[5].rsplit(sign, 1)[0] + sign + b"inf")
        bad.append(lines[6].rsplit(sign, 1)[0] + sign + b"no number")
    rng = np.random.default_rng(seed)
    mixed = [(line, True) for line in lines[1:]]
    for line in bad:
        mixed.insert(int(rng.integers(len(mixed))), (line, False))
    mixed.insert(0, (lines[0], True))
    good = [number for number, (_, is_good) in enumerate(mixed, 1) if is_good]
    rows = reader.rows(range(1, len(mixed) + 1), [line for line, _ in mixed])
    assert_array_equal(rows.X, whole.X)
    assert rows.ids == whole.ids
    assert_array_equal(rows.numbers, good if name == "jsonl" else good[1:])
    assert sorted([*rows.numbers, *(number for number, _ in rows.broken)]) == sorted(
        set(range(1, len(mixed) + 1)) - (set() if name == "jsonl" else {1})
    )
    assert all(reason for _, reason in rows.broken)


@over("count", [1, FEW + 1])
def test_missing_cells_are_nan_and_keys_may_come_and_go(count):
    csv = LineReader([b"a,b,c", b"1,2,3", b"4,NA,6"])
    assert_array_equal(csv.rows([7], [b"7,,9"]).X, [[7, np.nan, 9]])
    jsonl = LineReader([b'{"a": 1, "b": 2}', b'{"a": 3}'])
    rows = jsonl.rows(range(count), [b'{"b": 5, "new": 1}'] * count)
    assert_array_equal(rows.X, [[np.nan, 5]] * count)
    assert_array_equal(
        LineReader([b"a,b", b"1,2"], na_values=["-999"]).rows([1], [b"-999.0,4"]).X, [[np.nan, 4]]
    )


def test_the_header_may_come_again():
    lines = [b"a,b", b"1,2", b"a,b", b"3,4"]
    rows = LineReader(lines).rows([1, 2, 3, 4], lines)
    assert_array_equal(rows.X, [[1, 2], [3, 4]])
    assert rows.numbers.tolist() == [2, 4]
    assert rows.broken == []


def test_a_later_reader_knows_how_numbers_are_written():
    first = LineReader([b"a;b", b"1,5;2", b"1,25;3"])
    memory = json.loads(json.dumps(first.memory()))
    columns = Columns(keep=["a", "b"], exact=True)
    head = [b"a;b", b"1,234;5"]
    assert LineReader(head, columns).rows([1], head[1:]).X[0, 0] == 1234
    assert LineReader(head, columns, memory).rows([1], head[1:]).X[0, 0] == 1.234


def test_letters_that_are_not_utf_8_are_latin_1():
    lines = [b"name,a,b", *(f"Zürich {i},1,{i}".encode("latin-1") for i in range(3))]
    assert LineReader(lines).rows([2], lines[1:2]).ids == ["Zürich 0"]


@over("count", [1, 100])
def test_selected_columns_keep_their_places(count):
    lines = FILES["csv"]
    reader, some = LineReader(lines), lines[1 : count + 1]
    whole = reader.rows(range(count), some).X
    reader.select(["load", "level"])
    assert_array_equal(reader.rows(range(count), some).X, whole[:, [3, 1]])


def test_a_head_without_numbers_is_refused():
    with pytest.raises(TableError, match="no column of numbers"):
        LineReader([b"a,b", b"x,y"])
