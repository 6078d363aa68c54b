"""Help pages: options in panels and examples to copy; no line breaks inside a word. Unknown commands get a hint."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from hingerank.cli.options import ALL, KINDS, help_pages
from hingerank.registry import did_you_mean

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
