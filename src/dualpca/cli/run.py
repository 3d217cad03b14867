"""From exceptions to one line and an exit code."""

import _thread
import os
import re
import signal
import sys
import traceback
import warnings
from typing import Any

from ..io.models import ModelFileError
from ..io.tables import TableError
from ..io.tables.table import printable

#: The exit codes; docs/cli.md has the same table.
OK, BUG, USAGE, DATA, MODEL, OUTPUT, MISSED_TOL, INTERRUPTED, PIPE = 0, 1, 2, 3, 4, 5, 6, 130, 141

#: Exceptions whose message has a remedy already, and their exit codes; the first that fits counts.
COMPLETE = (
    *((TableError, DATA), (ModelFileError, MODEL), (OSError, OUTPUT), (ImportError, BUG)),
    *((ValueError, USAGE), (TypeError, USAGE)),
)


#: What messages for Python say, as patterns, and the same with options of the command line.
IN_OPTIONS = {
    r", or compare the fits of init='\w+' and init='\w+'": "",
    r"scale them first, as with make_pipeline\(Preprocessor\('robust'\), ...\)": "use --scale robust",
    r"(Put|use) an imputer [^;]*?Preprocessor\(missing='impute'\)[^,]*, or drop the rows": (
        "use --missing impute or --missing drop"
    ),
    r"raise max_iter or tol": "raise --tol",
    r"\b(flag|kernel|approximation|gamma|quantile|tol)='?([\w.+-]+)'?": r"--\1 \2",
    r"\bn_components(='?([\w.-]+)'?)?": r"--components \2",
    r"\bn_nonzero(='?([\w.]+)'?)?": r"--nonzero \2",
}


def in_options(message: Any) -> str:
    """Return a message of the library in words of the command line."""
    text = str(message)
    for pattern, words in IN_OPTIONS.items():
        text = re.sub(pattern, words, text)
    return " ".join(text.split())


class RefusedError(Exception):
    """A request that cannot be met: a line with the reason and a remedy, and an exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


def stderr_line(text: str) -> None:
    """Write a line to standard error."""
    if sys.stderr is not None:
        sys.stderr.write(f"dualpca: {printable(' '.join(text.split()))}\n")


def ask_again(lost: Any) -> None:
    """Raise anew what code without a caller has swallowed, if it was to end the command.

    Destructors, and extensions such as that of pydantic, lose the exception that a signal raises in them.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        _thread.interrupt_main()
    elif isinstance(lost.exc_value, SystemExit):
        _thread.interrupt_main(signal.SIGTERM)
    else:
        sys.__unraisablehook__(lost)


def run(app: Any, arguments: list[str]) -> int:
    """Run a command and return its exit code; ``--debug``, anywhere, shows tracebacks."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # An exception ends the command, so that incomplete files are removed.
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    sys.unraisablehook = ask_again
    if sys.stdout is None:  # it was closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal may lack letters of names
            stream.reconfigure(errors="backslashreplace")
    # The columns of a file are chosen by their names before rows reach a model.
    warnings.filterwarnings("ignore", "X does not have valid feature names")
    warnings.showwarning = lambda message, *_, **__: stderr_line(f"warning: {in_options(message)}")
    try:
        code = app(arguments, prog_name="dualpca", standalone_mode=False) or OK
        if code == INTERRUPTED:  # typer has caught it
            raise KeyboardInterrupt
        sys.stdout.flush()
        return code
    except BaseException as error:
        if isinstance(error, SystemExit):  # typer raises it for another exception
            if not isinstance(error.__context__, (BrokenPipeError, KeyboardInterrupt)):
                return error.code if isinstance(error.code, int) else BUG
            error = error.__context__
        if isinstance(error, BrokenPipeError):  # the reader of our output has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE
        if debug:
            sys.stderr.write(printable(traceback.format_exc(), keep="\n"))
        line, code = describe_error(error)
        stderr_line(line if debug or code != BUG else f"{line}; --debug shows where")
        return code


def describe_error(error: BaseException) -> tuple[str, int]:
    """Return an exception in a line, and the exit code."""
    message = str(error) or type(error).__name__
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return "interrupted; what was not complete is not written", INTERRUPTED
    if hasattr(error, "format_message"):  # an option or argument that typer does not take
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "dualpca"
        words = error.format_message().rstrip(".")
        return f"{words}{'' if words.endswith('?') else ';'} see {command} --help", USAGE
    if isinstance(error, RefusedError):
        return message, error.code
    if isinstance(error, MemoryError):
        return f"out of memory: {message}; lower --memory or use --approximation", DATA
    if isinstance(error, OSError) and error.strerror is not None:
        path = f"{error.filename}: " if error.filename else ""
        return f"{path}{error.strerror}; check the path, its permissions and the disk", OUTPUT
    if isinstance(error, ArithmeticError):
        return f"the numbers overflow ({message}); --scale robust brings them to one scale", DATA
    for kind, code in COMPLETE:
        if isinstance(error, kind):
            return in_options(message) if code == USAGE else message, code
    return f"unexpected {type(error).__name__}: {message}", BUG
