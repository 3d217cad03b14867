"""Bytes of text on their way to the parser."""

from __future__ import annotations

import codecs
import io
import re
from threading import Lock
from typing import Any

from .limits import check_line


class Feed:
    """What pyarrow reads ahead from in its threads, until it is closed and the file is ours again."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._lock, self.closed = stream, Lock(), False

    def read(self, size: int = -1) -> bytes:
        with self._lock:
            return b"" if self.closed else self._stream.read(size)

    def close(self) -> None:
        with self._lock:
            self.closed = True


class Pieces(io.RawIOBase):
    """A stream whose bytes go through a function, piece by piece."""

    def __init__(self, stream: Any, change: Any) -> None:
        self._stream, self._change, self._ready, self._ended = stream, change, b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            piece = self._stream.read(2**18)
            self._ended = not piece
            self._ready = self._change(piece, self._ended)
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


class Recode:
    """Bytes of another encoding in UTF-8."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def __call__(self, piece: bytes, last: bool) -> bytes:
        return self._decoder.decode(piece, final=last).encode("utf-8", errors="replace")


class Squeeze:
    """Runs of spaces and tabs as one space, none at the ends of lines; quoted cells stay."""

    _RUNS = re.compile(rb'("[^"\r\n]*")|[ \t]+')
    _ENDS = re.compile(rb"^ | (?=\r?$)", re.MULTILINE)

    def __init__(self) -> None:
        self._kept, self._lines = bytearray(), 0

    def __call__(self, piece: bytes, last: bool) -> bytes:
        lines, newline, rest = piece.rpartition(b"\n")
        if last:
            lines, newline, rest = piece, b"", b""
        if not (newline or last):
            self._kept += piece
            check_line(self._kept, self._lines + 1)
            return b""
        lines, self._kept = bytes(self._kept) + lines, bytearray(rest)
        self._lines += lines.count(b"\n") + 1
        runs = self._RUNS.sub(lambda run: run[1] or b" ", lines)
        return self._ENDS.sub(b"", runs) + newline
