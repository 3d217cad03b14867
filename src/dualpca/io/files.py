"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

#: Errors of writing, which do not say of what.
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextmanager
def written(path: Any, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` once it is complete and on the disk.

    Until then it has another name in the same folder, ``.dualpca-*.tmp``; where anything fails it
    is removed, and what was at ``path`` stays. Only a process that is killed leaves it behind.
    """
    check_free(path, overwrite)
    target = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
    made = target.with_name(f".dualpca-{uuid.uuid4().hex}.tmp")
    try:
        with open(made, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not overwrite and _linked(made, target, path):
            made.unlink()
        else:
            check_free(path, overwrite)  # it may have appeared meanwhile
            if target.exists():
                shutil.copymode(target, made)
            os.replace(made, target)
    except BaseException as error:
        made.unlink(missing_ok=True)
        if isinstance(error, OSError) and (
            str(error.filename) == str(made) or (error.filename is None and error.errno in _FULL)
        ):
            error.filename = str(path)  # what the user knows it by
        raise


def _linked(made: Path, target: Path, path: Any) -> bool:
    """Give the file its name unless something has it; False where the disk has no hard links.

    A link is refused by the system in one step, where a test and a renaming are two, and what
    another process writes between them would be lost.
    """
    try:
        os.link(made, target)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:
        return False
    return True


def check_free(path: Any, overwrite: bool) -> None:
    """Refuse a path in no folder, one of no plain file, and one that is not to be replaced."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} is in no folder; make {Path(path).parent} first")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{path} is not a plain file; give another name")
    if target.exists() and not overwrite:
        raise _taken(path)


def _taken(path: Any) -> FileExistsError:
    return FileExistsError(
        f"{path} exists; give another name, or overwrite=True (--force) to replace it"
    )
