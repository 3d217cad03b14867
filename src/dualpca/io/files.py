"""Write files whole or not at all."""

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

#: Errors of a full disk, which do not name the file.
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}

TAKEN = "exists; give another name, or overwrite=True (--force) to replace it"


@contextmanager
def written(path: Any, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Yield a new file that takes the place of ``path`` once it is complete and on the disk.

    Until then it is called ``.dualpca-*.tmp`` in the same folder; where anything fails it is removed,
    and the file at ``path`` stays. Only a process that is killed leaves it behind.
    """
    check_free(path, overwrite)
    target = Path(os.path.realpath(path))  # the target of a link is replaced, not the link
    temporary = target.with_name(f".dualpca-{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            check_free(path, overwrite)  # a folder may have appeared meanwhile
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
            return
        try:
            os.link(temporary, target)  # in one step, so that no other process's file is lost
        except FileExistsError:
            raise FileExistsError(f"{path} {TAKEN}") from None
        except OSError:  # the disk has no hard links
            check_free(path, overwrite)
            os.replace(temporary, target)
    except OSError as error:
        if str(error.filename) == str(temporary) or (not error.filename and error.errno in _FULL):
            error.filename = str(path)  # the name that the user knows
        raise
    finally:
        temporary.unlink(missing_ok=True)


def check_free(path: Any, overwrite: bool) -> None:
    """Refuse a path in no folder, one that is no plain file, and one that must not be replaced."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} is in no folder; make {Path(path).parent} first")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{path} is not a plain file; give another name")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{path} {TAKEN}")
