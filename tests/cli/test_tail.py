"""Lines as they come: from a pipe, and from a file that grows, is cut or replaced."""

import os
import signal
import threading

import pytest

from dualpca.cli.tail import Interrupts, Tail
from dualpca.io.tables import TableError


class Pipe:
    """Standard input that a test writes to."""

    def __init__(self, monkeypatch):
        self._read, self._write = os.pipe()
        monkeypatch.setattr("sys.stdin", self)

    def fileno(self):
        return self._read

    def write(self, content):
        os.write(self._write, content)

    def close(self):
        os.close(self._write)


def test_lines_of_a_pipe_come_when_they_are_whole(monkeypatch):
    pipe = Pipe(monkeypatch)
    pieces = iter(Tail("-", Interrupts()))
    pipe.write(b"\xef\xbb\xbfa,b\r\n1,2\n3")
    assert next(pieces) == (1, [b"a,b", b"1,2"])
    pipe.write(b",4\n\n5,6\n7,")
    assert next(pieces) == (3, [b"3,4", b"", b"5,6"])
    pipe.write(b"8")
    pipe.close()
    assert next(pieces) == (6, [b"7,8"])
    assert next(pieces, None) is None


def test_a_file_that_grows_is_cut_or_replaced(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"a\n1\n2")
    tail = Tail(str(path), Interrupts())
    pieces = iter(tail)
    assert next(pieces) == (1, [b"a", b"1"])
    with path.open("ab") as file:
        file.write(b"2\n3\n")
    assert next(pieces) == (3, [b"22", b"3"])
    path.write_bytes(b"a\n4\n")
    assert next(pieces) == (1, [b"a", b"4"])
    (tmp_path / "new.csv").write_bytes(b"a\n5\n6\n7\n")
    os.replace(tmp_path / "new.csv", path)
    assert next(pieces) == (1, [b"a", b"5", b"6", b"7"])
    path.unlink()
    threading.Timer(0.0, path.write_bytes, (b"8\n",)).start()
    assert next(pieces) == (1, [b"8"])


def test_a_file_may_have_an_end(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"a\n1\n2")
    assert list(Tail(str(path), Interrupts(), until_end=True)) == [(1, [b"a", b"1"]), (3, [b"2"])]


def test_a_place_is_known_again_in_the_same_file_only(tmp_path):
    path, other = tmp_path / "log.csv", tmp_path / "other.csv"
    path.write_bytes(b"a\n1\n2\n")
    tail = Tail(str(path), Interrupts(), until_end=True)
    assert next(iter(tail)) == (1, [b"a", b"1", b"2"])
    place = tail.place()
    with path.open("ab") as file:
        file.write(b"3\n")
    again = Tail(str(path), Interrupts(), until_end=True)
    pieces = iter(again)
    assert next(pieces).lines == [b"a", b"1", b"2", b"3"]
    assert again.resume(place)
    assert next(pieces) == (4, [b"3"])
    for content in (b"a\n1\n", b"b\n1\n2\n3\n"):  # shorter, and with another start
        other.write_bytes(content)
        assert not Tail(str(other), Interrupts()).resume(place)
    assert not again.resume(None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_wait_and_later_ones_have_their_old_meaning(monkeypatch, number):
    pipe = Pipe(monkeypatch)
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        pieces = iter(Tail("-", interrupts))
        pipe.write(b"1\n")
        assert next(pieces).lines == [b"1"]
        os.kill(os.getpid(), number)  # while work is done, which goes on
        assert interrupts.stopped
        assert signal.getsignal(number) is before
        assert next(pieces, None) is None
    assert signal.getsignal(number) is before
    with Interrupts() as interrupts:
        pieces = iter(Tail("-", interrupts))
        waits = threading.Timer(0.0, os.kill, (os.getpid(), number))
        waits.start()
        assert next(pieces, None) is None  # nothing comes, and the wait ends


@pytest.mark.parametrize(
    ("content", "words"), [("a\n1\n".encode("utf-16"), "iconv"), (b"\x1f\x8b\x08\x00\n", "zcat")]
)
def test_what_is_no_stream_of_lines_is_refused(tmp_path, content, words):
    path = tmp_path / "odd.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=words):
        list(Tail(str(path), Interrupts(), until_end=True))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TableError, match=r"none\.csv: No such file"):
        Tail(str(tmp_path / "none.csv"), Interrupts())
