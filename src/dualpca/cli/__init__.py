"""The command line ``dualpca``; it needs ``pip install 'dualpca[cli]'``."""

import sys

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line with these arguments, by default those of the process, and exit."""
    try:
        from .app import app
        from .run import run
    except ImportError as error:
        sys.exit(f"dualpca: {error.name} is missing; pip install 'dualpca[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run(app, sys.argv[1:] if arguments is None else arguments))
