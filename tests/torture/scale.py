"""How much is tried: little by ``make test-all``, much by ``make torture`` (TORTURE=1).

TORTURE_SEED=n repeats a run. The short run has a seed of its own, so that it changes only with the code.
"""

from __future__ import annotations

import datetime
import os
import resource
from pathlib import Path

LARGE = os.environ.get("TORTURE", "") not in ("", "0")
SEED = int(
    os.environ.get("TORTURE_SEED") or (datetime.date.today().strftime("%Y%m%d") if LARGE else 0)
)


def count(small: int, large: int) -> int:
    """How many cases to try."""
    return large if LARGE else small


def tries(small: int, large: int):
    """How often hypothesis tries, with the seed of the run where that is large."""
    from hypothesis import seed, settings  # not in the processes that are measured

    def decorate(test):
        test = settings(
            max_examples=count(small, large),
            derandomize=not LARGE,
            database=None,
        )(test)
        return seed(SEED)(test) if LARGE else test

    return decorate


def peak() -> int:
    """The most bytes this process held; where the system tells, not what its parent held."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    told = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return 1024 * (told or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])[0]
