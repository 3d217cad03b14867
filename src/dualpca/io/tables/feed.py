"""The bytes of a delimited file as pyarrow takes them: unpacked, UTF-8, without lines to leave out."""

import bz2
import codecs
import gzip
import io
import itertools
import re
from collections.abc import Iterator
from threading import Lock
from typing import Any

from .limits import check_line

#: Bytes of a file that are decoded at a time.
PIECE = 2**20

#: What bytes that are no UTF-8 become: letters of latin-1.
_LATIN_1 = {0xDC00 + byte: byte for byte in range(128, 256)}

_RUNS = re.compile(rb'("[^"\r\n]*")|[ \t]+')
_ENDS = re.compile(rb"^ | (?=\r?$)", re.MULTILINE)
_LINE = re.compile(rb"[^\r\n]*(\r\n|\r|\n|$)")


class Feed(io.RawIOBase):
    """A stream of pieces, which pyarrow's threads read ahead until it is closed."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._ready, self._lock = filter(None, pieces), memoryview(b""), Lock()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        done = 0
        with self._lock:
            while done < len(buffer):  # pyarrow takes a short piece for a block
                self._ready = self._ready or memoryview(next(self._pieces, b""))
                count = min(len(buffer) - done, len(self._ready))
                if not count:
                    break
                buffer[done : done + count] = self._ready[:count]
                self._ready, done = self._ready[count:], done + count
        return done

    def close(self) -> None:
        with self._lock:
            self._pieces, self._ready = filter(None, ()), memoryview(b"")
        super().close()


def decoded(stream: Any, notes: list[str]) -> Iterator[bytes]:
    """Yield the text of a file from its start, in UTF-8."""
    stream.seek(0)
    magic = stream.read(10)
    stream.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        stream = gzip.GzipFile(fileobj=stream)
    elif magic.startswith(b"BZh") and magic[4:] == b"1AY&SY":
        stream = bz2.BZ2File(stream)
    first, others = stream.read(PIECE), iter(lambda: stream.read(PIECE), b"")
    wide = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding, errors = ("utf-16", "replace") if wide else ("utf-8-sig", "surrogateescape")
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    for piece in itertools.chain([first], others, [b""]):
        text = decoder.decode(piece, final=not piece)
        if not text.isascii() and (latin := text.translate(_LATIN_1)) != text:
            text, note = latin, "the file is not UTF-8; its text is read as latin-1"
            notes += [] if note in notes else [note]
        yield text.encode(errors="replace")


def text_of(content: bytes) -> str:
    """Return bytes as text; those that are no UTF-8 are letters of latin-1."""
    text = content.decode(errors="surrogateescape")
    return text if text.isascii() else text.translate(_LATIN_1)


def squeezed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Make runs of spaces and tabs one space, and none at the ends of lines; quoted cells stay."""
    for lines in _whole_lines(pieces):
        yield _ENDS.sub(b"", _RUNS.sub(lambda run: run[1] or b" ", lines))


def emptied(pieces: Iterator[bytes], skip: int, comment: str) -> Iterator[bytes]:
    """Empty the first lines, and those that begin with a comment unless they are in a quoted cell.

    They are not removed, so that lines keep their numbers; blank lines are no rows.
    """
    comments = re.compile(rb"(?<![^\r\n])" + re.escape(comment.encode()) + rb"[^\r\n]*")
    quotes = 0
    for lines in _whole_lines(pieces):
        done, parts = 0, []
        while skip and done < len(lines):
            line = _LINE.match(lines, done)
            assert line is not None
            parts.append(line[1])
            done, skip = line.end(), skip - 1
        for found in comments.finditer(lines, done) if comment else ():
            quotes += lines.count(b'"', done, found.start())
            parts.append(lines[done : found.start()])
            # In a quoted cell it stays, and its quotes are counted with what follows.
            done = found.start() if quotes % 2 else found.end()
        quotes += lines.count(b'"', done)
        yield b"".join([*parts, lines[done:]])


def _whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Cut a text behind ends of lines only; refuse a line that does not end."""
    tail, count = b"", 1
    for piece in itertools.chain(filter(None, pieces), [b""]):
        text = tail + piece
        # A carriage return at the end may be half of an end of line.
        cut = (
            max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1 if piece else len(text)
        )
        lines, tail = text[:cut], text[cut:]
        count += lines.count(b"\n")
        check_line(tail, count)
        yield lines
