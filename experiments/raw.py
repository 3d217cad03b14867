"""The raw results that the page is written from, in one compressed file of the repository.

A line of JSON for each measurement, so that the page can be checked, and written again, without a run.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .engine import Experiment, Results, Store

#: Where they are, from the root of the repository.
RAW = Path("experiments", "raw.jsonl.gz")


def write_raw(results: Sequence[Results], path: Path) -> Path:
    """Every record of these results; equal records make equal bytes."""
    records = [{"experiment": r.experiment.name, **d} for r in results for d in r.declared]
    text = "".join(json.dumps(record) + "\n" for record in records)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def read_raw(path: Path, load: Callable[[str], Experiment]) -> Callable[[str], Results | None]:
    """The full results of an experiment by its name; None where they are not there in full.

    Records of another version of the experiment do not count.
    """
    kept: dict[str, dict[str, dict[str, Any]]] = {}
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        record = json.loads(line)
        key = Store.key(record["cell"], record["method"])
        kept.setdefault(record.pop("experiment"), {})[key] = record

    def found(name: str) -> Results | None:
        experiment = load(name)
        mine = {k: r for k, r in kept.get(name, {}).items() if r["version"] == experiment.version}
        results = Results(experiment, False, mine, found)
        return results if results.complete else None

    return found
