"""From exceptions to one line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from typing import Any

from ..io.models import ModelFileError
from ..io.tables import TableError
from ..io.tables.table import printable

#: What the exit codes mean; docs/cli.md has the same table.
OK, BUG, USAGE, DATA, MODEL, OUTPUT, SHORT, INTERRUPTED, PIPE = 0, 1, 2, 3, 4, 5, 6, 130, 141


class RefusedError(Exception):
    """What was asked cannot be done: a line that says why and what to do, and an exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


def tell(text: str) -> None:
    """A line on standard error."""
    if sys.stderr is not None:
        sys.stderr.write(f"dualpca: {printable(' '.join(text.split()))}\n")


def _ended(number: int, frame: Any) -> None:
    """What a signal asks for, so that files which are not complete are removed."""
    raise SystemExit(128 + number)


def run(app: Any, arguments: list[str]) -> int:
    """The exit code of the command; ``--debug``, anywhere, shows tracebacks."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _ended)
    if sys.stdout is None:  # it was closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names may have letters that the terminal has not
            stream.reconfigure(errors="backslashreplace")
    # The columns of a file are chosen by their names before rows reach a model.
    warnings.filterwarnings("ignore", "X does not have valid feature names")
    warnings.showwarning = lambda message, *_, **__: tell(f"warning: {message}")
    try:
        code = app(arguments, prog_name="dualpca", standalone_mode=False) or OK
        if code == INTERRUPTED:  # typer has caught it
            raise KeyboardInterrupt
        sys.stdout.flush()
        return code
    except BaseException as error:
        if isinstance(error, SystemExit):  # typer's own, of what lies behind it
            if not isinstance(error.__context__, (BrokenPipeError, KeyboardInterrupt)):
                return error.code if isinstance(error.code, int) else BUG
            error = error.__context__
        if isinstance(error, BrokenPipeError):  # who reads our output has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE
        if debug:
            sys.stderr.write(printable(traceback.format_exc(), keep="\n"))
        line, code = said(error)
        tell(line if debug or code != BUG else f"{line}; --debug shows where")
        return code


def said(error: BaseException) -> tuple[str, int]:
    """An exception in a line, and the exit code."""
    message = str(error) or type(error).__name__
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return "interrupted; what was not complete is not written", INTERRUPTED
    if hasattr(error, "format_message"):  # an option or argument that typer does not take
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "dualpca"
        words = error.format_message().rstrip(".")
        return f"{words}{'' if words.endswith('?') else ';'} see {where} --help", USAGE
    if isinstance(error, RefusedError):
        return message, error.code
    if isinstance(error, TableError):
        return message, DATA
    if isinstance(error, ModelFileError):
        return message, MODEL
    if isinstance(error, MemoryError):
        return (
            f"out of memory: {message}; lower --memory, or use --approximation or fewer rows",
            DATA,
        )
    if isinstance(error, OSError):
        if error.strerror is None:  # our own, with a remedy
            return message, OUTPUT
        path = f"{error.filename}: " if error.filename else ""
        return (
            f"{path}{error.strerror or message}; check the path, its permissions and the disk",
            OUTPUT,
        )
    if isinstance(error, ImportError):
        return message, BUG
    if isinstance(error, ArithmeticError):
        return f"the numbers overflow ({message}); --scale robust brings them to one scale", DATA
    if isinstance(error, (ValueError, TypeError)):
        return message, USAGE
    return f"unexpected {type(error).__name__}: {message}", BUG
