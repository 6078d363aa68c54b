"""The command line. `main` is the entry point; each module here holds a group of commands that import what they use."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with `arguments` (default: the process's own) and return the exit status."""
    from hingerank.cli.app import run

    return run(arguments)
