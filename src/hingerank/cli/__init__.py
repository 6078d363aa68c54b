"""The command line. `main` is the entry point; each module here holds a group of commands that import what they use."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with `arguments` (default: the process's own) and return the exit status."""
    try:
        from hingerank.cli.app import run
    except KeyboardInterrupt:  # before `run` is there to take it
        print("hingerank: interrupted", file=sys.stderr)
        return 130
    return run(arguments)
