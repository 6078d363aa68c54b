"""The list of commands, their help pages, and the one function that turns an exception into a line on stderr.

Exit statuses: 0 for success; 1 for a user's mistake (ValueError, a file or stream that cannot be read or written); 2
for a wrong command line; 130 for an interruption; 70 for a bug in this program. To add a command, write a function
with `@command` that returns its answer in one of the modules below, and name it in `PANELS`.
"""

import errno
import os
import re
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Protocol, runtime_checkable

import typer
from typer.core import TyperCommand, TyperGroup

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
from hingerank.cli.options import ALL, KINDS, help_pages
from hingerank.cli.streams import flush_output, interrupted, say
from hingerank.data.files import disk_is_full, no_such_file
from hingerank.registry import did_you_mean

# Help pages: options in panels and examples to copy; no line breaks inside a word. Unknown commands get a hint.

EXAMPLE = "Example: "
PAGE = "page of help"  # where the context of a command keeps the page of help
WIDEST = 26  # width of the column of option names
OTHERS = (
    "predict=rank score=rank train=fit learn=fit test=evaluate eval=evaluate optimise=tune optimize=tune search=tune "
    "benchmark=compare analyze=analyse describe=info download=fetch diversify=rerank rankers=models save=export"
)
MEANT = dict(pair.split("=") for pair in OTHERS.split())  # names of such commands in other programs -> names here


def wrapped(text: str, width: int, start: str = "", rest: str | None = None) -> list[str]:
    """Wrap a text into lines that break only at spaces."""
    rest = start if rest is None else rest
    return textwrap.wrap(
        text, width, initial_indent=start, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


def example(text: str, width: int) -> list[str]:
    """Wrap a command line, with a backslash at the end of each line but the last; an option stays with its value."""
    joined = re.sub(r"(?<= )(--?[\w-]+) (?=[^-\s])", "\\1\0", text)
    lines = [line.replace("\0", " ") for line in wrapped(joined, width - 2, "  ", "      ")]
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def section(formatter: Any, title: str, rows: Iterable[tuple[str, str]], widest: int = WIDEST) -> None:
    """Write a heading, and below it names on the left and their meanings on the right."""
    rows = list(rows)
    column = 4 + max((len(name) for name, _ in rows if len(name) <= widest), default=widest)
    formatter.write(f"\n{title}:\n")
    for name, text in rows:
        lines = wrapped(text, formatter.width, " " * column) or [""]
        if len(name) + 4 <= column:
            lines[0] = f"  {name}".ljust(column) + lines[0].lstrip()
        else:
            lines.insert(0, f"  {name}")
        formatter.write("".join(f"{line}\n" for line in lines))


class CommandPage(TyperCommand):
    """A command with help in panels. If its options are for several kinds of data, --help PAGE shows those of one."""

    @property
    def pages(self) -> dict[str, Sequence[str]]:
        """The kinds of data on each page, the usual page first."""
        return help_pages(vars(self.callback)["kinds"].values())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Choose the page to show: the word after --help, or a word before it, as in clicks judgments --help."""
        for flag, word in zip(args, [*args[1:], "-"]):
            if flag in ctx.help_option_names and not ctx.resilient_parsing:
                if not word.startswith("-") and word not in self.pages:
                    hint = did_you_mean(word, self.pages)
                    ctx.fail(f"there is no help page {word!r}: choose one of {', '.join(self.pages)}{hint}")
                ctx.meta[PAGE] = next(page for page in [word, *args, *self.pages] if page in self.pages)
        return super().parse_args(ctx, args)

    def _is_on(self, page: str, *options: str) -> bool:
        """Whether each of these options is for a kind of data of the page, or for any."""
        kinds = [vars(self.callback)["kinds"].get(option) for option in options]
        return all(not own or set(own) & set(self.pages[page]) for own in kinds)

    def _page_of(self, example: str) -> str:
        """Return the first page that has all options of an example."""
        names = {flag: one.name for one in self.params for flag in one.opts}
        given = [names[word] for word in example.split() if word in names]
        return next(page for page in self.pages if self._is_on(page, *given))

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        arguments = [one for one in self.params if one.param_type_name == "argument"]
        words = [_metavar(one) if one.required else f"[{_metavar(one)}]" for one in arguments]
        formatter.write_usage(ctx.command_path, " ".join([*words, "[OPTIONS]"]))

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        paragraphs = [" ".join(part.split()) for part in (self.help or "").split("\n\n")]
        for text in paragraphs:
            if not text.startswith(EXAMPLE):
                formatter.write("\n" + "\n".join(wrapped(text, formatter.width, "  ")) + "\n")
        examples = [text.removeprefix(EXAMPLE) for text in paragraphs if text.startswith(EXAMPLE)]
        page = ctx.meta.get(PAGE, ALL)
        formatter.write("\nExamples:\n")
        for text in [text for text in examples if page in (ALL, self._page_of(text))]:
            formatter.write("\n".join(example(text, formatter.width)) + "\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        page = ctx.meta.get(PAGE, ALL)
        for parameter in [one for one in self.get_params(ctx) if self._is_on(page, one.name)]:
            if parameter.param_type_name == "argument":
                panels.setdefault("Arguments", []).append((_metavar(parameter), getattr(parameter, "help", None) or ""))
            elif (record := parameter.get_help_record(ctx)) is not None:
                panel = getattr(parameter, "rich_help_panel", None) or "Output"  # --help has none
                name, text = record[0], record[1].replace("\\[", "[")  # some versions of typer escape brackets
                panels.setdefault(panel, []).append((name, text))
        panels["Output"] = panels.pop("Output")  # at the end
        for title, rows in panels.items():
            section(formatter, title, rows)
        others = {other: kinds for other, kinds in self.pages.items() if other != page}
        commands = [f"{ctx.command_path} --help {other}" for other in others]
        abouts = ["every option" if other == ALL else KINDS[kinds[0]].name for other, kinds in others.items()]
        if others:
            section(formatter, "Other pages of help", zip(commands, abouts), widest=80)


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


class CommandsPage(TyperGroup):
    """The list of commands in panels. The error for an unknown command suggests similar ones."""

    def format_commands(self, ctx: object, formatter: object) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, one in self.commands.items():
            panels.setdefault(str(getattr(one, "rich_help_panel", "")), []).append((name, str(one.short_help)))
        for title, rows in panels.items():
            section(formatter, title, [(name.ljust(max(map(len, self.commands))), text) for name, text in rows])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if word not in self.commands and not word.startswith("-"):
            meant = MEANT.get(word.lower())
            hint = f"; did you mean {meant!r}?" if meant else did_you_mean(word, self.commands)
            ctx.fail(f"No such command {word!r}{hint}")
        return super().resolve_command(ctx, args)


# The commands.

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
