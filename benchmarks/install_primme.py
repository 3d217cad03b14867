"""Install PRIMME with pip and a C compiler alone: ``python -m benchmarks.install_primme``.

Its own build wants BLAS and LAPACK of the system. Here it is linked with the OpenBLAS that pip brings,
scipy-openblas32, the one of NumPy and SciPy. The functions in it have a prefix, which a header adds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from importlib import import_module, invalidate_caches
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "install", "-q"]
PREFIX = "scipy_"


def renamed(library: bytes) -> str:
    """Lines such as ``#define dgemm_ scipy_dgemm_``, for all Fortran functions of the library."""
    names = set(re.findall(rb"\0%s([a-z][a-z0-9]*_)(?=\0)" % PREFIX.encode(), library))
    return "".join(f"#define {name} {PREFIX}{name}\n" for name in sorted(map(bytes.decode, names)))


def main() -> None:
    """Install it, or fail as pip does."""
    subprocess.run([*PIP, "scipy-openblas32", "setuptools>=61", "wheel"], check=True)
    invalidate_caches()
    openblas = import_module("scipy_openblas32")
    folder = Path(openblas.get_lib_dir())
    with tempfile.TemporaryDirectory() as made:
        header = Path(made) / "renamed.h"
        header.write_text(renamed((folder / openblas.get_library(fullname=True)).read_bytes()))
        flags = {"CFLAGS": f"-O3 -g0 -include {header}", "LDFLAGS": f"-Wl,-rpath,{folder}"}
        options = ["--no-build-isolation", "--no-cache-dir", "--no-deps"]
        subprocess.run([*PIP, *options, "primme>=3.2.3"], check=True, env=os.environ | flags)


if __name__ == "__main__":
    main()
