"""How much is tried: little by ``make test``, much by ``make torture`` (TORTURE=1).

TORTURE_SEED=n repeats a run. The short run has a seed of its own, so that it changes only with the code.
"""

from __future__ import annotations

import datetime
import os

LARGE = os.environ.get("TORTURE", "") not in ("", "0")
SEED = int(
    os.environ.get("TORTURE_SEED") or (datetime.date.today().strftime("%Y%m%d") if LARGE else 0)
)


def count(small: int, large: int) -> int:
    """How many cases to try."""
    return large if LARGE else small
