"""Lines of standard input, or of a file that grows, as they come; signals end the wait for them."""

import hashlib
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Self

from ..io.tables import TableError
from ..io.tables.limits import check_line

#: The most bytes that are read at once, and seconds between two looks at a file that has ended.
PIECE, POLL = 2**20, 0.1

#: So many bytes from its start tell a file from others.
START = 2**12

#: The signals that end a stream.
SIGNALS = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]


class Interrupts:
    """The first signal ends a wait at once, and other work when it is done; the second ends all."""

    def __init__(self) -> None:
        self.stopped = self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {n: signal.getsignal(n) for n in SIGNALS}
            for number, handler in self._before.items():
                if handler is not signal.SIG_IGN:  # as nohup asks for
                    signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, *_: Any) -> None:
        self.stopped = True
        self.__exit__()
        if self._waiting:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a signal raise KeyboardInterrupt inside, also one that came before."""
        self._waiting = True
        try:
            if self.stopped:
                raise KeyboardInterrupt
            yield
        finally:
            self._waiting = False


class Piece(NamedTuple):
    """Lines that came together, without their ends, and the number of the first."""

    number: int
    lines: list[bytes]


class Tail:
    """Lines from their start, or from a place that an earlier one has reached.

    ``path`` "-" is standard input, which ends. Of a file the ``until_end`` is what it has now; otherwise
    the tail waits for more, and begins again if the file is cut or another one takes its place.
    """

    def __init__(self, path: str, interrupts: Interrupts, until_end: bool = False) -> None:
        self._path, self._interrupts = None if path == "-" else path, interrupts
        try:
            self._fd = sys.stdin.fileno() if self._path is None else os.open(path, os.O_RDONLY)
        except (OSError, AttributeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is closed"
            raise TableError(f"{path}: {reason}; give a file, or a pipe into -") from error
        self.is_file = self._path is not None and stat.S_ISREG(os.fstat(self._fd).st_mode)
        self._ends = until_end or not self.is_file
        self._number, self._offset, self._rest = 0, 0, bytearray()
        _enlarge(self._fd)

    def place(self) -> dict[str, Any] | None:
        """Return how far a file has been read, for :meth:`resume`; None for a pipe."""
        if not self.is_file:
            return None
        return {"offset": self._offset, "line": self._number, "start": self._digest(self._offset)}

    def resume(self, place: dict[str, Any] | None) -> bool:
        """Go on where an earlier tail of this file was; return whether it is the same file."""
        if not self.is_file or not place or os.fstat(self._fd).st_size < place["offset"]:
            return False
        if self._digest(place["offset"]) != place["start"]:
            return False
        self._go_to(place["line"], place["offset"])
        return True

    def _go_to(self, line: int, offset: int) -> None:
        self._number, self._offset = line, offset
        self._rest.clear()

    def _digest(self, offset: int) -> str:
        os.lseek(self._fd, 0, os.SEEK_SET)
        return hashlib.sha256(os.read(self._fd, min(offset, START))).hexdigest()

    def __iter__(self) -> Iterator[Piece]:
        """Yield what has come since the last piece, waiting for one line at least."""
        with suppress(KeyboardInterrupt):
            while True:
                with self._interrupts.waiting():
                    content = self._read()
                cut = content.rfind(b"\n") + 1
                text = bytes(self._rest + content[:cut]) if cut or not content else b""
                if text or not content:
                    self._rest.clear()
                self._rest += content[cut:]
                check_line(self._rest, self._number + 1)
                if text:
                    yield self._piece(text)
                if not content:
                    return

    def _piece(self, text: bytes) -> Piece:
        if not self._offset:
            if text.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise TableError("this is UTF-16, which is no stream of lines; use iconv before it")
            if text.startswith(b"\x1f\x8b"):
                raise TableError("this is compressed; give the output of zcat")
        lines = text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n")
        if not lines[-1]:
            lines.pop()
        number = self._number + 1
        self._number, self._offset = self._number + len(lines), self._offset + len(text)
        return Piece(number, lines)

    def _read(self) -> bytes:
        """Return the next bytes, none at the end."""
        while True:
            if self.is_file:
                os.lseek(self._fd, self._offset + len(self._rest), os.SEEK_SET)
            content = os.read(self._fd, PIECE)
            if content or self._ends:
                return content
            if not self._replaced():
                time.sleep(POLL)

    def _replaced(self) -> bool:
        """Open the file that has taken the place of this one, or begin again if it was cut."""
        assert self._path is not None
        now = os.fstat(self._fd)
        try:
            there = os.stat(self._path)
        except OSError:  # it was moved away, and may come back
            return False
        if (now.st_dev, now.st_ino) != (there.st_dev, there.st_ino):
            os.close(self._fd)
            self._fd = os.open(self._path, os.O_RDONLY)
        elif now.st_size >= self._offset:
            return False
        self._go_to(0, 0)
        return True


def _enlarge(fd: int) -> None:
    """Ask for a pipe that holds as much as is read at once: rows that come fast are taken together."""
    with suppress(ImportError, OSError, AttributeError):
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(fd, F_SETPIPE_SZ, PIECE)
