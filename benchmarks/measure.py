"""Seconds and peak memory of one run."""

from __future__ import annotations

import ctypes
import gc
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .methods import Method, quietly

_PROC = Path("/proc/self")

#: Seconds before each timed run. NumPy and SciPy each bring an OpenBLAS, whose threads spin for a tenth
#: of a second after a product; a method would pay for those that another one left behind.
PAUSE = 0.12


def seconds_of(method: Method, A: Any, s: int, knob: Any) -> tuple[float, Any]:
    """Seconds of one run, and what it returned."""
    time.sleep(PAUSE)
    begun = time.perf_counter()
    found = quietly(method, A, s, knob)
    return time.perf_counter() - begun, found


def measured(method: Method, A: Any, s: int, knob: Any) -> tuple[float, Any, float | None]:
    """Seconds of one run, what it returned, and its peak memory above the start, in MB.

    The peak is that of resident memory, which Linux keeps and lets one reset; elsewhere it is None.
    Freed memory is handed back first, so that no run works in what another one left behind.
    """
    before = _reset_peak()
    seconds, found = seconds_of(method, A, s, knob)
    return seconds, found, None if before is None else max(_status("VmHWM") - before, 0) / 1024


def _reset_peak() -> int | None:
    gc.collect(1)  # the oldest generation, where the modules are, takes a tenth of a second
    try:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        (_PROC / "clear_refs").write_text("5")
        return _status("VmRSS")
    except (OSError, TypeError, StopIteration):
        return None


def _status(field: str) -> int:
    """A field of /proc/self/status, in kB."""
    lines = (_PROC / "status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


def warm_up(method: Method, A: Any, s: int) -> None:
    """One run on a corner of A: thread pools, lazy imports and caches start outside the race."""
    tiny = A[:300, :200]
    with suppress(Exception):  # the exploration reports failures
        quietly(method, tiny, min(s, *(side // 4 for side in tiny.shape)), method.knobs[0])


def predicted(method: Method, A: Any, s: int) -> float:
    """Seconds that a direct method will take, from a corner with sides smaller by one factor.

    Its cost is cubic in that factor. Zero where A is small enough to simply run it. Small products
    are less efficient than large ones: this overestimates, by up to about two.
    """
    assert method.side is not None
    factor = method.side(A.shape) / 250
    if factor < 2:
        return 0.0
    N, d = (max(int(side / factor), s + 1) for side in A.shape)
    corner = A[:N, :d].copy()
    return min(seconds_of(method, corner, s, None)[0] for _ in range(2)) * factor**3
