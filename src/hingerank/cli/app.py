"""The list of commands, and the one function that turns an exception into a line on stderr.

Exit statuses: 0 for success; 1 for a user's mistake (ValueError, a file or stream that cannot be read or written); 2
for a wrong command line; 130 for an interruption; 70 for a bug in this program. To add a command, write a function
with `@command` that returns its answer in one of the modules below, and name it in `PANELS`.
"""

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Protocol, runtime_checkable

import typer

from hingerank import __version__
from hingerank.cli import (
    click_commands,
    compare_commands,
    data_commands,
    diversity_commands,
    evaluate_command,
    export_commands,
    model_commands,
    paper_commands,
    personal_commands,
    setup_commands,
    train_commands,
)
from hingerank.cli.help import CommandPage, CommandsPage
from hingerank.cli.streams import flush_output, interrupted, say
from hingerank.data.files import disk_is_full, no_such_file
from hingerank.registry import did_you_mean

app = typer.Typer(
    name="hingerank",
    cls=CommandsPage,
    help="Learning to rank with the whole Ranking SVM family.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Data": {
        "info": data_commands.info,
        "convert": data_commands.convert,
        "fetch": data_commands.fetch,
        "clicks": click_commands.clicks,
    },
    "Train": {
        "models": setup_commands.models,
        "fit": train_commands.fit,
        "tune": train_commands.tune,
        "add-users": personal_commands.add_users,
    },
    "Use": {
        "rank": model_commands.rank,
        "recommend": personal_commands.recommend,
        "similar": personal_commands.similar,
        "rerank": diversity_commands.rerank,
        "explain": model_commands.explain,
        "export": export_commands.export,
        "upload": export_commands.upload,
    },
    "Compare": {
        "evaluate": evaluate_command.evaluate,
        "compare": compare_commands.compare,
        "report": compare_commands.report,
        "cite": compare_commands.cite,
        "reproduce": paper_commands.reproduce,
        "analyse": paper_commands.analyse,
    },
    "Set-up": {
        "doctor": setup_commands.doctor,
        "warmup": setup_commands.warmup,
        "demo": setup_commands.demo,
    },
}
for _panel, _commands in PANELS.items():
    for _name, _function in _commands.items():
        _summary = (_function.__doc__ or "").partition("\n")[0]
        app.command(_name, cls=CommandPage, short_help=_summary, rich_help_panel=_panel)(_function)


@runtime_checkable
class CommandLineError(Protocol):
    """A mistake in the command line itself, as click raises it. Some versions of typer have their own click."""

    exit_code: int

    def format_message(self) -> str: ...


def _show_version(asked: bool) -> None:
    if asked:
        print(f"hingerank {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Learning to rank with the whole Ranking SVM family."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; every mistake is printed as one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [word for word in given if word != "--debug"] or ["--help"]  # --debug may be at any place
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # show warnings, whatever the environment says
        warnings.showwarning = _show_warning
        try:
            answer = app(given, prog_name="hingerank", standalone_mode=False)
            status = answer if isinstance(answer, int) else 0
        except KeyboardInterrupt:
            status = 130
        except Exception as error:
            if debug:
                say(traceback.format_exc())
            status = _report(error, given)
    unwritten = flush_output()
    if unwritten is not None and status == 0:
        status = _report(unwritten, given)
    if status == 130:
        _say("interrupted")
    return status


def _report(error: Exception, given: Sequence[str]) -> int:
    """Print what went wrong in one line and return the exit status."""
    if isinstance(error, BrokenPipeError):  # `hingerank rank … | head`: the reader has closed the pipe
        return 1
    if isinstance(error, CommandLineError):
        command = " ".join(
            ["hingerank", *(word for word in given[:1] if any(word in known for known in PANELS.values()))]
        )
        text, option = error.format_message().rstrip("."), getattr(error, "option_name", None)
        known = getattr(error, "possibilities", None)  # click sets it for an option that does not exist
        if option and known:  # the message is the same with every version of click
            text = f"No such option: {option}{did_you_mean(option, known)}"
        _say(f"{text} (see {command} --help)")
        return error.exit_code
    if isinstance(error, typer.Abort) or interrupted(error):
        return 130
    if isinstance(error, UnicodeEncodeError) and error.encoding not in ("utf-8", "utf8"):  # files are all UTF-8
        letter = error.object[error.start]
        _say(
            f"standard output: its encoding {error.encoding} has no {letter!r}: set PYTHONIOENCODING=utf-8, or name a "
            "file with --output where the command has it"
        )
        return 1
    if isinstance(error, OSError) and error.strerror:
        if error.errno == errno.ENOENT and error.filename:
            _say(no_such_file(error.filename))
            return 1
        of_stream = disk_is_full(error) or error.errno == errno.EBADF
        place = f"{error.filename}: " if error.filename else "standard output: " if of_stream else ""
        _say(f"{place}{error.strerror}")
    elif isinstance(error, ImportError):
        _say(f"{error}: install the optional package that this needs, for example with pip install 'hingerank[all]'")
    elif isinstance(error, ValueError | OSError | MemoryError):
        _say(str(error) or type(error).__name__)
    else:
        _say(f"internal error: {type(error).__name__}: {error} (run again with --debug and report the traceback)")
        return 70
    return 1


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, *rest: object, **also: object
) -> None:
    """Print warnings that are for the user, but not those of SciPy and not deprecations, which are for programmers."""
    of_scipy = "/scipy/" in filename.replace(os.sep, "/")
    if not (of_scipy or issubclass(category, DeprecationWarning | PendingDeprecationWarning)):
        _say(f"warning: {message}")


def _say(text: str) -> None:
    say("hingerank: " + " ".join(text.split()))
