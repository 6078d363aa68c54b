"""Help pages with options in panels and examples to copy; no line breaks inside a word. Unknown commands get a hint."""

import re
import textwrap
from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

from hingerank.registry import did_you_mean

EXAMPLE = "Example: "
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


def section(formatter: Any, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Write a heading, and below it names on the left and their meanings on the right."""
    rows = list(rows)
    column = 4 + max((len(name) for name, _ in rows if len(name) <= WIDEST), default=WIDEST)
    formatter.write(f"\n{title}:\n")
    for name, text in rows:
        lines = wrapped(text, formatter.width, " " * column) or [""]
        if len(name) + 4 <= column:
            lines[0] = f"  {name}".ljust(column) + lines[0].lstrip()
        else:
            lines.insert(0, f"  {name}")
        formatter.write("".join(f"{line}\n" for line in lines))


class CommandPage(TyperCommand):
    """A command with a help page in panels."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        words = [_shown(argument) for argument in self.params if argument.param_type_name == "argument"]
        formatter.write_usage(ctx.command_path, " ".join([*words, "[OPTIONS]"]))

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        paragraphs = [" ".join(part.split()) for part in (self.help or "").split("\n\n")]
        for text in paragraphs:
            if not text.startswith(EXAMPLE):
                formatter.write("\n" + "\n".join(wrapped(text, formatter.width, "  ")) + "\n")
        examples = [text.removeprefix(EXAMPLE) for text in paragraphs if text.startswith(EXAMPLE)]
        formatter.write("\nExamples:\n")
        for text in examples:
            formatter.write("\n".join(example(text, formatter.width)) + "\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if parameter.param_type_name == "argument":
                panels.setdefault("Arguments", []).append((_name(parameter), getattr(parameter, "help", None) or ""))
            elif (record := parameter.get_help_record(ctx)) is not None:
                panel = getattr(parameter, "rich_help_panel", None) or "Output"  # --help has none
                name, text = record
                panels.setdefault(panel, []).append(
                    (name, text.replace("\\[", "["))
                )  # some versions of typer escape brackets
        panels["Output"] = panels.pop("Output")  # at the end
        for title, rows in panels.items():
            section(formatter, title, rows)


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _shown(argument: Any) -> str:
    return _name(argument) if argument.required else f"[{_name(argument)}]"


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
