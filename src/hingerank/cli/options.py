"""Options in groups: a group is a panel of a help page and says which kinds of data its options are for.

A command takes groups as arguments. `command` turns the groups into options for typer, and the options that a user
gives back into groups. It checks options with a fixed list of values. If an option names a file to write, it adds
--force and requires it to replace an existing file. Errors and warnings name options instead of Python arguments.
`check_kind` refuses options that do not fit the data.
"""

import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, get_type_hints

import typer

from hingerank.cli.messages import naming_options
from hingerank.cli.output import Answer, answer
from hingerank.registry import did_you_mean

ALL = "all"  # the help page with every option


class DataKind(NamedTuple):
    """A kind of data, or a mode of a command: its name in messages, its help page, and how to give such data."""

    name: str
    page: str
    remedy: str = ""


KINDS = {  # the usual kinds come first
    "rows": DataKind("graded rows", "rows"),
    "comparison": DataKind("a comparison", "comparison"),
    "info": DataKind("clicks info", "info"),
    "propensities": DataKind("clicks propensities", "propensities"),
    "judgments": DataKind("clicks judgments", "judgments"),
    "clicks": DataKind("a click log", "clicks", "name the file of its documents' features with --features"),
    "ratings": DataKind("ratings of users", "ratings", "name their items with --items, or a ranker of ratings"),
    "rated": DataKind("items that users rated", "ratings"),
    "lists": DataKind("the lists of a personal model", "ratings", "add --top N"),
    "pairs": DataKind("pairs of a user and an item", "ratings"),
    "personal model": DataKind("a personal model", "ratings"),
    "topics": DataKind("topics to diversify", "topics", "name their subtopic judgments with --qrels"),
    "run": DataKind("a TREC run", "trec"),
    "judged": DataKind("a TREC run and judgments", "trec"),
    "subtopics": DataKind("a TREC run judged by subtopics", "trec", "add --diversity"),
    "parts": DataKind("rows on a Dask cluster", "cluster", "name the cluster with --dask"),
}
REQUIRED = MISSING  # the default of an option that must be given


def option(
    metavar: str, help: str, default: object = None, *, flag: str = "", short: str = "", panel: str = "",
    choices: Sequence[str] = (), writes: str = "", needs: str = "", excludes: str = "", **more: object,
) -> Any:  # fmt: skip
    """Define an option with a value, as a field of a group or as the default of a command's parameter.

    Parameters
    ----------
    metavar, help : str
        Placeholder of the value and description on the help page.
    default : value, optional
    flag, short : str, optional
        The name on the command line if it is not --name, and a short name.
    panel : str, optional
        The heading on the help page, if it is not that of the group.
    choices : sequence of str, optional
        The values that it may have.
    writes : {"", "file", "folder", "model"}
        What it names, if that is written: an existing one is not replaced without --force.
    needs : str, optional
        Options without which it does nothing, such as "--output" or "--search random or --search optuna".
    excludes : str, optional
        Options with which it does nothing, such as "--json or --pair".
    **more
        Passed to `typer.Option`.
    """
    about = {"metavar": metavar or None, "help": help, **more}
    named = {"flag": flag, "short": short, "panel": panel}
    checked = {"choices": choices, "writes": writes, "needs": needs, "excludes": excludes}
    return field(default=default, metadata={**named, **checked, "about": about})


def switch(help: str, **more: Any) -> Any:
    """Define an option without a value."""
    return option("", help, False, **more)


def completing(known: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a function that completes a value for the shell: with the known words, also after a comma.

    >>> completing(lambda: ["rank-svm", "ranknet", "listnet"])("listnet,rank")
    ['listnet,rank-svm', 'listnet,ranknet']
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [before + comma + word for word in known() if word.startswith(begun)]

    return complete


def choice(values: str, help: str, default: str | None, *, needs: str = "") -> Any:
    """Define an option with one of the values "a|b|c"; with the default None the command chooses."""
    choices = values.split("|")
    return option(values, help, default, choices=choices, needs=needs, autocompletion=completing(lambda: choices))


def target(
    metavar: str, help: str, default: object = None, *, short: str = "", writes: str = "file", panel: str = "Output"
) -> Any:
    """Define an option that names a file, a folder or a model to write."""
    return option(metavar, help, default, short=short, panel=panel, writes=writes)


class Option:
    """An option: its name and type in Python, its name on the command line, and the kinds of data that it is for."""

    def __init__(
        self, name: str, kind: Any, made: Any, panel: str = "Options", kinds: Sequence[str] = (), needs: str = ""
    ) -> None:
        self.name, self.kinds, self.default, about = name, kinds, made.default, made.metadata
        self.flag = about["flag"] or f"--{name.replace('_', '-')}"
        self.choices, self.writes = about["choices"], about["writes"]
        self.needs, self.excludes = about["needs"] or needs, about["excludes"]
        names = [self.flag, *filter(None, [about["short"]])]
        described = typer.Option(*names, rich_help_panel=about["panel"] or panel, **about["about"])
        default = inspect.Parameter.empty if self.default is REQUIRED else self.default
        self.parameter = inspect.Parameter(  # as typer reads it
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, described]
        )

    def check(self, value: object) -> None:
        """Refuse a value that is not one of the choices."""
        if self.choices and value is not None and value not in self.choices:
            hint = did_you_mean(str(value), self.choices)
            raise ValueError(f"{self.flag} {value}: choose one of {', '.join(self.choices)}{hint}")

    def check_place(self, place: str | Path | None, force: bool, read: Iterable[Path]) -> None:
        """Raise an error if what is at `place` may not be replaced, or if a model could not be saved there.

        Nothing is written or changed here. read: the files that the command reads.
        """
        if not place:
            return
        if str(place) == "-":
            raise ValueError(f"{self.flag} -: name a file, or /dev/stdout to write to standard output")
        path, model = Path(place), self.writes == "model"
        if self.writes == "file" and path.is_dir():
            raise ValueError(f"{self.flag} {place} is a folder: name a file")
        if model and path.exists() and any(data.exists() and path.samefile(data) for data in read):
            raise ValueError(f"{self.flag} {place} is the data itself: name another file or a folder")
        if not force:
            self._check_free(path, place)
        if model and str(place).endswith("/") and path.exists() and not path.is_dir():
            raise ValueError(f"{self.flag} {place} is a file: name a folder, or leave out the slash")
        above = next((folder for folder in path.parents if folder.exists()), None)
        if above is not None and not above.is_dir():
            raise ValueError(f"{self.flag} {place}: {above} is a file, not a folder")

    def _check_free(self, path: Path, place: str | Path) -> None:
        """Raise an error if there is a model, a file that is not empty, or a folder to write that is not empty."""
        other = f"or give another {self.flag}"
        if self.writes == "model":
            from hingerank.export.model_file import is_model

            if is_model(path):
                raise ValueError(f"{place} holds a model: pass --force to replace it, {other}")
        if self.writes == "folder" and path.is_dir() and any(path.iterdir()):
            raise ValueError(f"{place} is not empty: pass --force to write there, {other}")
        if path.is_file() and path.stat().st_size > 0:  # false for pipes and devices
            raise ValueError(f"{place} exists: pass --force to replace it, {other}")


class Group:
    """Options that belong together: a frozen dataclass.

    Parameters
    ----------
    panel : str
        The heading on the help page.
    kinds : sequence of str
        The kinds of data that the options are for; all kinds if it is empty.
    fits : mapping, optional
        The kinds of data of single options, if they differ from those of the group.
    needs : str, optional
        Options without which those of the group do nothing, as in `option`.
    """

    panel: ClassVar[str] = "Options"
    kinds: ClassVar[Sequence[str]] = ()
    fits: ClassVar[Mapping[str, Sequence[str]]] = {}
    options: ClassVar[Sequence[Option]] = ()
    if TYPE_CHECKING:  # attributes that `dataclass` adds
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

        def __init__(self, **options: object) -> None: ...

    def __init_subclass__(
        cls,
        panel: str = "",
        kinds: Sequence[str] = (),
        fits: Mapping[str, Sequence[str]] | None = None,
        needs: str = "",
    ) -> None:
        cls.panel, cls.kinds, cls.fits = panel or cls.panel, kinds or cls.kinds, {**cls.fits, **(fits or {})}
        dataclass(frozen=True, kw_only=True)(cls)
        hints = get_type_hints(cls)
        cls.options = [
            Option(one.name, hints[one.name], one, cls.panel, cls.fits.get(one.name, cls.kinds), needs)
            for one in fields(cls)
        ]

    def given(self) -> dict[str, object]:
        """Return a mapping from options to values, for the options that are not at their default."""
        values = {one: getattr(self, one.name) for one in self.options}
        return {one.flag: value for one, value in values.items() if value != one.default}


FORCE = switch("Replace what is there.", panel="Output")  # added to every command that has a target
JSON = switch("Print JSON instead of text.", panel="Output")  # added to every command that does not have it itself


def command(function: Callable[..., Answer | None]) -> Callable[..., None]:
    """Turn a function that takes groups into a command whose options typer can read.

    What the function returns is printed: as JSON, or as the tables and lines that follow the document.
    """
    arguments, options, groups = _parameters(function)
    targets = [one for one in options if one.writes]
    asks = bool(targets) and all(one.name != "force" for one in options)  # compare has its own
    if asks:
        options.insert(options.index(targets[-1]) + 1, Option("force", bool, FORCE, kinds=targets[-1].kinds))
    prints = all(one.name != "json" for one in options)  # else the function itself does
    if prints:
        options.append(Option("json", bool, JSON))
    options.sort(key=lambda one: one.name == "json")  # put --json last
    parameters = [*arguments, *(one.parameter for one in options)]
    signature = inspect.Signature(parameters)

    def run(*positional: object, **given: object) -> None:
        bound = signature.bind(*positional, **given)
        bound.apply_defaults()
        values = bound.arguments
        by_flag = {one.flag: values[one.name] for one in options}
        flags = _names_in_messages(options, values)
        for one in options:
            one.check(values[one.name])
        check_needs([one for one in options if not one.kinds], by_flag)  # `check_kind` checks the others
        check_excludes(options, by_flag)
        read = [values[one.name] for one in arguments if isinstance(values[one.name], Path)]
        for one in targets:
            one.check_place(values[one.name], bool(values["force"]), read)
        if asks:
            del values["force"]
        as_json = values.pop("json") if prints else False
        for name, group in groups.items():
            values[name] = group(**{one.name: values.pop(one.name) for one in group.options})
        with naming_options(by_flag, flags):
            found = function(**values)
        if found is not None:
            answer(as_json, *found)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(run).update(__signature__=signature, groups=groups, kinds={one.name: one.kinds for one in options})
    return run


def _parameters(
    function: Callable[..., object],
) -> tuple[list[inspect.Parameter], list[Option], dict[str, type[Group]]]:
    """Return the arguments, the options and the groups of a function."""
    arguments, options, groups = list[inspect.Parameter](), list[Option](), dict[str, type[Group]]()
    for one in inspect.signature(function, eval_str=True).parameters.values():
        if inspect.isclass(one.annotation) and issubclass(one.annotation, Group):
            groups[one.name] = one.annotation
            options += one.annotation.options
        elif isinstance(one.default, Field):
            options.append(Option(one.name, one.annotation, one.default))
        else:
            arguments.append(one)
    return arguments, options, groups


def _names_in_messages(options: Iterable[Option], values: Mapping[str, Any]) -> dict[str, str]:
    """Return a mapping from Python arguments, and parameters of --set, to what messages call them.

    An argument whose name is also the value of an option, such as a folder named model, keeps its name.
    """
    typed_words = {str(value) for value in values.values()}
    flags = {one.name: one.flag for one in options if one.name not in typed_words}
    for text in [text for one in options if one.flag == "--set" for text in values[one.name] or []]:
        name = text.partition("=")[0].strip().rpartition(".")[2]
        flags |= {name: f"--set {name}"} if name else {}
    return flags


def check_needs(options: Iterable[Option], values: Mapping[str, object]) -> None:
    """Raise an error for an option that is given but does nothing without another one; values: those of all options."""
    for one in options:
        if not one.needs or values[one.flag] == one.default:
            continue
        needs = [need.partition(" ") for need in one.needs.split(" or ")]
        if not any(str(values[flag]) == value if value else values[flag] for flag, _, value in needs):
            raise ValueError(f"{one.flag} does nothing without {one.needs}: add that, or leave out {one.flag}")


def check_excludes(options: Iterable[Option], values: Mapping[str, object]) -> None:
    """Raise an error for an option that is given but does nothing with another one that is given too."""
    for one in options:
        for flag in one.excludes.split(" or ") if one.excludes and values[one.flag] != one.default else []:
            if values[flag]:
                raise ValueError(f"{one.flag} does nothing with {flag}: leave out one of them")


def check_kind(kind: str, *groups: Group) -> None:
    """Raise an error for an option that is given but does not fit data of this kind, or does nothing."""
    for group in groups:
        for one in group.options:
            if one.kinds and kind not in one.kinds and getattr(group, one.name) != one.default:
                own = KINDS[one.kinds[0]]  # the first kind is enough
                remedy = f": {own.remedy}" if own.remedy else ""
                words = f"{one.flag} is for {own.name}, not for {KINDS[kind].name}{remedy}"
                raise ValueError(f"{words} (see --help {own.page})")
    values = {one.flag: getattr(group, one.name) for group in groups for one in group.options}
    check_needs((one for group in groups for one in group.options), values)


def help_pages(options: Iterable[Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return the help pages of a command and the kinds of data that each is about, the usual page first.

    options: the kinds of data of each option. A kind has a page if an option is for it and not for the usual kind. The
    last page has everything.
    """
    fits = list(options)
    usual = next((kind for kind in KINDS if any(kind in kinds for kinds in fits)), "")
    own = {kind for kinds in fits if usual not in kinds for kind in kinds}
    pages: dict[str, list[str]] = {}
    for kind in KINDS:
        if kind == usual or kind in own:
            pages.setdefault(KINDS[kind].page, []).append(kind)
    return {**(pages if len(pages) > 1 else {}), ALL: list(KINDS)}


def typed(name: str, argument: object, *groups: Group) -> str:
    """Return the command line that would run the same command again."""
    words = ["hingerank", name, str(argument)]
    for group in groups:
        for option, value in group.given().items():
            values = value if isinstance(value, list) else [value]
            words += [option] if value is True else [word for each in values for word in (option, str(each))]
    return shlex.join(words)
