"""Print the requirements of pyproject.toml, every lower bound turned into a pin: a>=1.2 to a==1.2.

python .ci/lowest.py EXTRA... -PACKAGE...: the dependencies and those of the extras, less the packages.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]


def bounds(*extras):
    """Yield (name with its extras, lower bound) of the dependencies and of those of `extras`."""
    for requirement in PROJECT["dependencies"]:
        yield bound(requirement)
    for extra in extras:
        for requirement in PROJECT["optional-dependencies"][extra]:
            if own := re.fullmatch(rf"{PROJECT['name']}\[(.+)\]", requirement):
                yield from bounds(*own[1].split(","))
            else:
                yield bound(requirement)


def bound(requirement):
    parts = re.fullmatch(r"([\w.-]+(?:\[[\w,-]+\])?)>=([\d.]+)", requirement)
    if parts is None:
        raise SystemExit(
            f"pyproject.toml: {requirement!r} must be a name with a lower bound, a>=1.2"
        )
    return parts[1], parts[2]


if __name__ == "__main__":
    left_out = {word[1:] for word in sys.argv[1:] if word.startswith("-")}
    extras = [word for word in sys.argv[1:] if not word.startswith("-")]
    for name, version in sorted(set(bounds(*extras))):
        if name not in left_out:
            print(f"{name}=={version}")
