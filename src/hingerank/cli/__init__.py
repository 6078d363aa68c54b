"""The command line. `main` is the entry point; each module has a group of commands, which import what they use."""

from collections.abc import Sequence

from hingerank.cli.streams import interrupted, open_streams, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with `arguments` (default: the process's own) and return the exit status."""
    open_streams()
    try:
        from hingerank.cli.app import run
    except (KeyboardInterrupt, RuntimeError) as error:  # `run`, which handles it, is not imported yet
        if not interrupted(error):
            raise
        say("hingerank: interrupted")
        return 130
    return run(arguments)
