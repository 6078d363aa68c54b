"""Tables of papers as data: how a file of `figures/` is read, and how its tables are run.

A file is TOML, one for each paper (`nan`: a figure that the paper does not give; line breaks in prose are ignored):

    paper = "Author et al. 2000, Title (Journal)"
    came_out = "The result over all tables, in a sentence."
    believe = "What a reader of the paper should believe today."
    own = ["Other*"]                         # rows, or columns, of the paper's own methods: patterns; also of a table
    baselines = "How the paper's baselines differ from ours, in one line."                    # also of a table

    [methods]                                # row -> ranker by its registered name, values to try, fixed parameters
    RSVM = { ranker = "rank-svm", search = { C = { powers_of_two = [-4, 4, 2] } }, fixed = { loss = "hinge" } }
    Other = { ranker = "listnet", search = { C = [1.0, 10.0] }, closed = true }   # only these values

    [studies.author2000-set]                 # methods compared on a data set; also the name of the run's folder
    data = "MQ2008"                          # a set of `sets.KNOWN`, or a folder below that of real sets
    choose = "map:letor4"                    # the measure that chooses on validation
    columns = { MAP = "map:letor4" }         # title -> measure on test queries, or a name in `letor.COMPUTED`
    folds = [1]                              # default: all
    methods = {}                             # instead of the paper's, for this study

    [[tables]]
    name = "author2000-table1"               # as on the command line
    title = "Table 1: what it shows"
    fast = true                              # some seconds from scratch: `reproduce --check` runs it
    setup = "How our figures are computed, and how that differs from the paper."
    finding = "What matches and what does not, written when the results were in."
    edges = { Other = "why its best value is at an edge of all that was tried" }  # by row, or pattern of rows
    [[tables.sections]]                      # fields as in `Section`
    title = "MQ2008"
    study = "author2000-set"                 # of this file or of another one
    columns = ["MAP"]
    rows = { RSVM = [0.47], Other = [0.46] } # the paper's figures; [] for a method that only we have

Rows with a method are run by the section's runner, the others are shown as printed. Tables that share a study share its
results.
"""

import inspect
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from hingerank.arrays import Given
from hingerank.data.fetching import cache_folder
from hingerank.data.files import plain, write_whole
from hingerank.lab.comparison import Progress
from hingerank.lab.methods import Method
from hingerank.papers.sets import GRADED, KNOWN, find_set
from hingerank.search.proposals import NearestFirst, WideningGrid
from hingerank.search.settings import LIMITS, Grid, Setting, follow, size_of

TREES = ("lightgbm", "gbrank", "mcrank", "xgboost")  # rankers unaffected by the scale of columns


@dataclass(frozen=True)
class Ours:
    """Our results for one row of a table.

    Attributes
    ----------
    values : by column
    marks : signs of significance by column
    spread : standard deviation over folds by column, if there are several
    chosen : the setting that validation chose in each fold
    seconds : median time of a fit
    made : date and version, if the row was run later than the rest of its table
    widened : by parameter, the values tried beyond the grid because the best one was at its edge
    """

    values: Mapping[str, float]
    marks: Mapping[str, str] | None = None
    spread: Mapping[str, float] | None = None
    chosen: Sequence[Given] = ()
    seconds: float | None = None
    made: str = ""
    widened: Mapping[str, Sequence[object]] | None = None


@dataclass(frozen=True)
class Place:
    """Where data are and results go, and how much to run.

    Attributes
    ----------
    data : folder of real sets
    runs : folder where runs are stored and resumed
    folds : numbers of the folds to run; None for all of the table's
    progress : a callback for `compare`
    workers : processes
    device : for rankers that take a device
    """

    data: Path
    runs: Path
    folds: Sequence[int] | None = None
    progress: Callable[[Progress], None] | None = None
    workers: int | None = None
    device: str = "cpu"

    def find(self, name: str) -> Path:
        """A data set's folder; a MissingSet, which is a DataError, if it is not available."""
        return find_set(name, self.data).path

    def share(self, name: str) -> str:
        """The part of a set that the folder has; "" for the whole set and for generated data."""
        return find_set(name, self.data).share if name in KNOWN else ""


@dataclass(frozen=True)
class Recipe:
    """How a row is computed: a ranker by its registered name, values to try by parameter, and fixed parameters.

    path: "" if every value is fitted from scratch, not from the solution of the one before. closed: nothing beyond
    these values is tried, as they are the paper's own or all there are.
    """

    ranker: str
    search: Mapping[str, Sequence[object]] = field(default_factory=dict)
    fixed: Given = field(default_factory=dict)
    path: str | None = None
    closed: bool = False

    def method(self, name: str, open_grid: type[Grid] = WideningGrid) -> Method:
        """The method with that name for `compare`; open_grid: how a grid grows that is not closed."""
        from hingerank.registry import ranker_class

        return Method(name, ranker_class(self.ranker), self.grid(open_grid), dict(self.fixed), self.path)

    def grid(self, open_grid: type[Grid]) -> Grid:
        """The values to try, extended if the best is at an edge and the grid is not closed."""
        return (Grid if self.closed else open_grid)(dict(self.search))

    def explore(self, value_of: Callable[[Setting], float]) -> list[tuple[Setting, float]]:
        """All settings tried, with their values; the grid is extended one value at a time."""
        tried: list[tuple[Setting, float]] = []

        def values(batch: list[Setting]) -> list[float | None]:
            tried.extend((setting, value_of(setting)) for setting in batch)
            return [value for _, value in tried[-len(batch) :]]

        follow(self.grid(NearestFirst).propose(0), values)
        return tried

    def grown(self, settings: Iterable[Given]) -> dict[str, list[object]]:
        """By parameter, the values tried beyond the grid."""
        found: dict[str, list[object]] = {}
        for setting in settings:
            for name, given in self.search.items():
                if setting[name] not in [*given, *found.get(name, [])]:
                    found.setdefault(name, []).append(setting[name])
        return {name: sorted(values, key=lambda value: size_of(value) or 0.0) for name, values in found.items()}

    def edges(self, ours: "Ours") -> list[str]:
        """The numbers that were best, in some fold, at the edge of all values tried: "C = 64"."""
        found: dict[str, None] = {}
        for name, given in self.search.items():
            values = [*given, *(ours.widened or {}).get(name, [])]
            sizes = {size for value in values if (size := size_of(value)) is not None}
            if len(sizes) < 2 or any(size_of(value) is None for value in values):  # words have no order
                continue
            inner, limits = (min(sizes), max(sizes)), LIMITS.get(name, ())
            best = {shown(s[name]): size_of(s[name]) for s in ours.chosen if name in s}
            at_edge = [text for text, size in best.items() if size is not None and not inner[0] < size < inner[1]]
            found |= {f"{name} = {text}": None for text in at_edge if best[text] not in limits}
        return list(found)


def has_device(ranker: Any) -> bool:
    """Whether a ranker, or its class, has the parameter `device`."""
    return "device" in inspect.signature(ranker).parameters


def shown(value: object) -> str:
    """A value of a grid, in short form.

    >>> shown(0.25), shown(2.0**-14), shown("4*scale")
    ('0.25', '2^-14', '4*scale')
    """
    if not isinstance(value, int | float):
        return str(value)
    text = f"{value:.4g}"
    if value <= 0 or float(text) == value:
        return text
    power = round(math.log2(value))
    return f"2^{power}" if math.isclose(value, 2.0**power) else text


@dataclass(frozen=True)
class TableStudy:
    """Methods compared on one data set; see the module. methods: the paper's and those of the study."""

    run: str
    data: str
    choose: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    folds: Sequence[int] | None = None
    methods: Mapping[str, Recipe] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """Part of a table with the results of one data set.

    Attributes
    ----------
    figures : the paper's by row, one for each column (None: not given)
    methods : the rows that are run
    runner, options : "module.function" here that computes our figures, of (section, place), and its options
    marks : sign -> row; methods that are significantly better than that row get the sign
    close : a difference up to this counts as agreement
    counted : whether the paper's figures are on the same data as ours, so that they can agree
    digits : number of decimals shown
    note : the meaning of the marks
    after : what the paper prints after the figures of a row, such as marks and standard deviations; such a row shows
        ours too
    """

    title: str
    columns: Sequence[str]
    figures: Mapping[str, Sequence[float | None]]
    study: TableStudy = TableStudy("", "")
    methods: Mapping[str, Recipe] = field(default_factory=dict)
    runner: str = "letor.comparison"
    options: Given = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    close: float = 0.01
    counted: bool = True
    digits: int = 4
    note: str = ""
    after: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def compute(self, place: Place) -> Mapping[str, Ours]:
        """Our results by row; a row that the paper does not have is shown after the others."""
        module, _, name = self.runner.partition(".")
        return getattr(import_module(f"{__package__}.{module}"), name)(self, place)

    @property
    def recipes(self) -> list[Recipe]:
        """How the rows that are run are computed: the section's own methods, and those of its study in `options`."""
        named = [name for value in self.options.values() for name in (value if isinstance(value, list) else [value])]
        found = [self.study.methods[name] for name in named if isinstance(name, str) and name in self.study.methods]
        return [*self.methods.values(), *found]


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper; fields as in its file."""

    name: str
    paper: str
    title: str
    setup: str
    sections: Sequence[Section]
    finding: str = ""
    own: Sequence[str] = ()
    baselines: str = ""
    fast: bool = False
    edges: Mapping[str, str] = field(default_factory=dict)
    came_out: str = ""
    believe: str = ""

    def is_own(self, *names: str) -> bool:
        """Whether one of these names, of a row or a column, is a method of the paper itself."""
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.own)

    @property
    def takes_device(self) -> bool:
        """Whether a ranker of the table has the parameter `device`."""
        from hingerank.registry import ranker_class

        rankers = {recipe.ranker for section in self.sections for recipe in section.recipes}
        return any(has_device(ranker_class(name)) for name in rankers)

    @property
    def cited(self) -> str:
        """Authors and year."""
        return self.paper.partition(",")[0]


def read_tables(papers: Iterable[str]) -> dict[str, PaperTable]:
    """The tables of these papers, by name, from the files of `figures/`."""
    folder = files(__package__) / "figures"
    return make_tables([tomllib.loads((folder / f"{paper}.toml").read_text("utf-8")) for paper in papers])


def make_tables(papers: Sequence[Given]) -> dict[str, PaperTable]:
    """The tables of parsed files, by name."""
    studies: dict[str, TableStudy] = {}
    for words in papers:  # before any table, since a table may use the study of another paper
        for run, study in words.get("studies", {}).items():
            methods = _recipes(words.get("methods", {}) | study.get("methods", {}))
            studies[run] = _for_set(TableStudy(run, **study | {"methods": methods}))
    tables = {}
    for words in papers:
        of_paper = {key: value for key, value in words.items() if key not in ("methods", "studies", "tables")}
        methods = _recipes(words.get("methods", {}))
        for table in words["tables"]:
            entries = {key: _prose(value) for key, value in {**of_paper, **table}.items() if key != "sections"}
            sections = [_section(section, studies, methods) for section in table["sections"]]
            tables[table["name"]] = PaperTable(**entries, sections=sections)
    return tables


def _section(words: Given, studies: Mapping[str, TableStudy], methods: Mapping[str, Recipe]) -> Section:
    rows, rest = words.get("rows", {}), {key: value for key, value in words.items() if key not in ("rows", "study")}
    study = studies[words["study"]]
    known = {**methods, **study.methods}
    if better := ", ".join(f"{sign} than {row}" for sign, row in words.get("marks", {}).items()):
        rest["note"] = f"Significantly better (paired t over queries, 5 %, Holm): {better}."
    return Section(
        **rest,
        figures={row: [None if math.isnan(f) else f for f in figures] for row, figures in rows.items() if figures},
        study=study,
        methods={row: known[row] for row in rows if row in known},
    )


def _for_set(study: TableStudy) -> TableStudy:
    """The study with methods for its set: if the set has raw values, all rankers but trees scale the columns."""
    known = KNOWN.get(study.data.removeprefix("generated "))
    if known is None or not known.raw:
        return study
    methods = {
        row: recipe if recipe.ranker in TREES else replace(recipe, fixed={"scale": "standard", **recipe.fixed})
        for row, recipe in study.methods.items()
    }
    return replace(study, methods=methods)


def on_set(table: PaperTable, name: str) -> PaperTable:
    """The methods, grids and measures of a table's first comparison on another set, with that set's conventions.

    The paper has no figures for it, so none are shown.
    """
    if name not in GRADED:
        raise ValueError(f"there is no set {name!r} to run on; the known ones are: {', '.join(GRADED)}")
    section = next((section for section in table.sections if section.runner == "letor.comparison"), None)
    if section is None:
        raise ValueError(
            f"{table.name} does not compare rankers of graded rows, so it cannot be run on {name}: leave out --on"
        )

    def as_there(measure: str) -> str:
        kind, _, preset = measure.partition(":")
        return f"{kind}:{KNOWN[name].preset}" if preset else measure

    columns = {title: as_there(measure) for title, measure in section.study.columns.items()}
    run, choose = f"{section.study.run}-on-{name}", as_there(section.study.choose)
    study = _for_set(TableStudy(run, name, choose, columns, None, section.methods))
    moved = replace(section, title=name, figures={}, study=study, methods=study.methods, after={})
    setup = f"The methods and grids of {table.name} on {name}, of which the paper has no such table."
    return PaperTable(f"{table.name}-on-{name}", table.paper, f"{table.title}, its methods on {name}", setup, [moved])


def _recipes(words: Mapping[str, Given]) -> dict[str, Recipe]:
    return {row: make_recipe(**recipe) for row, recipe in words.items()}


def make_recipe(ranker: str, search: Given | None = None, **others: Any) -> Recipe:
    """Make a recipe from the entries of a file.

    `{ powers_of_two = [first, last, step] }` means the values 2^first, …, 2^last, and "none" means None.

    >>> make_recipe("rank-svm", {"C": {"powers_of_two": [-2, 2, 2]}}).search
    {'C': [0.25, 1.0, 4.0]}
    """
    values = {}
    for name, given in (search or {}).items():
        if isinstance(given, Mapping):
            first, last, step = given["powers_of_two"]
            given = [2.0**k for k in range(first, last + 1, step)]
        values[name] = [None if value == "none" else value for value in given]
    return Recipe(ranker, values, **others)


def _prose(entry: Any) -> Any:
    """An entry of a file whose texts, also those in a table, are without line breaks."""
    if isinstance(entry, dict):
        return {key: _prose(value) for key, value in entry.items()}
    return " ".join(entry.split()) if isinstance(entry, str) else entry


def default_data() -> Path:
    """$HINGERANK_DATA, else the folder where `hingerank fetch` keeps sets."""
    asked = os.environ.get("HINGERANK_DATA")
    return Path(asked).expanduser() if asked else cache_folder()


def kept(place: Place, run: str, name: str, compute: Callable[[], Any]) -> Any:
    """The result of compute(), or that stored by an earlier run. name: must state everything the result depends on."""
    path = place.runs / run / (re.sub(r"[^\w.=+-]+", "-", name) + ".json")
    if not path.exists():
        write_whole(path, json.dumps(plain(compute())).encode())
    return json.loads(path.read_text("utf-8"))
