"""The command `clicks`: `clicks info`, `clicks propensities` and `clicks judgments`; and click logs with features, as
`fit`, `tune`, `evaluate` and `report` take them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from hingerank.cli.files import load_ranker, open_data
from hingerank.cli.groups import Rows
from hingerank.cli.options import Group, check_kind, choice, command, option, switch, target
from hingerank.cli.output import Answer, Table, facts, working
from hingerank.data.files import TABLES, TEXTS, DataError, endings, no_such_file
from hingerank.registry import did_you_mean

if TYPE_CHECKING:
    from hingerank.clicks.log import ClickData, ClickLog
    from hingerank.clicks.propensities import Propensities
    from hingerank.clicks.value import ClickValues
    from hingerank.data.ranking_data import RankingData

WHAT = ("info", "propensities", "judgments")
Log = Annotated[
    list[Path],
    typer.Argument(metavar="LOG…", help="UBI, CSV, Parquet, session lines or feature logs; several files are one log."),
]


class LogColumns(Group, kinds=("clicks",)):
    """Which columns of a table are a click log."""

    query: str | None = option("COLUMN", "Column of queries (CSV/Parquet only). Default: query, qid, …")
    document: str | None = option("COLUMN", "Column of documents. Default: document, docid, …")
    place: str | None = option("COLUMN", "Column of positions. Default: place, position, rank, …")
    clicked: str | None = option("COLUMN", "Column of clicks: 0 and 1, weights or actions. Default: clicked, …")
    session: str | None = option("COLUMN", "Column of result lists: one id per answer to a search. Default: session, …")
    weight: str | None = option("COLUMN", "Column with the number of showings that a row stands for.")
    context: str | None = option("COLUMN", "Column, or field of UBI, that propensities may depend on.")

    def read(self, paths: list[Path], **more: Any) -> "ClickLog":
        """Read the log from its files."""
        from hingerank.clicks.reading import read_clicks

        with working(f"reading {paths[0].name}"):
            return read_clicks(paths, **{one.name: getattr(self, one.name) for one in LogColumns.options}, **more)


class ClickLogOptions(LogColumns, panel="Log", kinds=WHAT):
    """How to read a click log."""

    action: list[str] | None = option("NAME=WEIGHT", "Weight of an action; repeatable. Default: click=1.")
    clicks: Path | None = option("FILE", "Lines of query and clicked document, for feature logs.")
    first_place: int | None = option("0|1", "Number of the first position. Default: detected.")
    counted: bool = switch("Count while reading, for logs larger than memory; sessions are lost.")

    def read(self, paths: list[Path], **more: Any) -> "ClickLog":
        """Read the log from its files."""
        from hingerank.data.checks import decimal

        actions = {}
        for text in self.action or []:
            name, equals, value = text.partition("=")
            weight = decimal(value) if equals else 1.0
            if not name or weight is None:
                raise ValueError(f"--action {text} is not of the form NAME=WEIGHT, such as purchase=5")
            actions[name] = weight
        keep = "cells" if self.counted else "showings"
        return super().read(paths, actions=actions or None, clicks=self.clicks, first_place=self.first_place, keep=keep)


class PropensityOptions(Group, panel="Propensities", kinds=("propensities",)):
    """How to estimate propensities."""

    method: str = choice("all-pairs|em|regression-em", "How to estimate propensities.", "all-pairs")
    features: Path | None = option("DATA", "Rows with the features of documents.", needs="--method regression-em")
    by_context: bool = switch("Estimate values for each context of the log.")
    level: float = option("P", "Level of the intervals.", 0.95)
    rounds: int = option("N", "Logs drawn for the intervals; fewer take less time.", 200, min=2)
    picture: Path | None = target(
        "FILE", "Draw the values with their intervals (.png, .svg, .pdf).", panel="Propensities"
    )


class JudgmentOptions(Group, panel="Judgments", kinds=("judgments",)):
    """How to grade documents by their clicks."""

    model: str = choice("pbm|cascade|dcm|sdbn|dbn|ubm", "Click model that grades documents.", "pbm")
    grades: int = option("N", "Number of grades.", 5, min=2)
    least_showings: float = option("N", "Leave out documents that were shown less often.", 1.0)
    to: str = choice(
        "qrels|opensearch|table", "TREC qrels, OpenSearch's import format, or a table.", "qrels", needs="--output"
    )
    topics: Path | None = target(
        "FILE", "Number the queries, and write number, tab, query here (qrels).", panel="Judgments"
    )


class ClickOutput(Group, panel="Output", kinds=("propensities", "judgments")):
    """What `clicks` writes."""

    output: Path | None = target("FILE", "Where propensities (JSON) or judgments go.", short="-o")


@command
def clicks(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="info, propensities or judgments.")],
    log: Log,
    reading: ClickLogOptions,
    estimating: PropensityOptions,
    judging: JudgmentOptions,
    out: ClickOutput,
) -> Answer:
    """Describe a click log, or learn propensities or judgments from it.

    info shows clicks by position, documents shown at several positions, bots and gaps. propensities estimates
    how often each position is examined, relative to the first; fit, tune and evaluate take the file. judgments fits a
    click model and grades the documents of each query by it.

    Example: hingerank clicks info ubi.ndjson

    Example: hingerank clicks propensities log.parquet -o p.json

    Example: hingerank clicks judgments log.csv --model dbn -o qrels.txt
    """
    if what not in WHAT:
        raise ValueError(f"clicks {what}: choose one of {', '.join(WHAT)}{did_you_mean(what, WHAT)}")
    check_kind(what, estimating, judging, out)
    if judging.topics is not None and (out.output is None or judging.to != "qrels"):
        raise ValueError("--topics numbers the queries of qrels: give --to qrels and --output")
    opened = reading.read(list(log))
    if what == "propensities":
        return _propensities(opened, estimating, out.output)
    return _info(log, opened) if what == "info" else _judgments(opened, judging, out.output)


def _info(paths: list[Path], log: "ClickLog") -> Answer:
    with working("counting"):
        found = log.describe()
    rates = [(int(place), showings, clicks, float(rate)) for place, showings, clicks, rate in found.rates()]
    names = [str(path) for path in paths]
    return (
        {"files": names, **found.to_dict()},
        (", ".join(names), ["", "count", "what was done"], found.facts()),
        ("clicks by position", ["place", "showings", "clicks", "click rate"], rates),
    )


def _propensities(log: "ClickLog", options: PropensityOptions, output: Path | None) -> Answer:
    from hingerank.clicks.propensities import place_name, propensities

    rows = None if options.features is None else open_features(options.features, Rows())
    with working("estimating"):
        found = propensities(log, options.method, data=rows, by_context=options.by_context)
        stored = found.to_dict(options.level, options.rounds)
    if options.picture is not None:  # first: its ending may be one that no picture has
        from hingerank.lab.report.figures import save_figure

        save_figure(found.plot(level=options.level, rounds=options.rounds), options.picture)
    if output is not None:
        found.save(output, options.level, options.rounds)
    contexts, tables = stored.get("contexts", [None]), list[Table]()
    several = stored["values"] if options.by_context else [stored["values"]]
    bounds = [stored[name] if options.by_context else [stored[name]] for name in ("low", "high")]
    few = {name: f"too few clicks: {count:g} on documents shown at other positions too"
           for name, count in found.few_clicks.items()}  # fmt: skip
    cautions, shown = few | dict(found.reasons), set(log.place.tolist())
    for context, *columns in zip(contexts, several, *bounds):
        rows_shown = [
            [place, *("unknown" if number is None else f"{number:.4f}" for number in numbers),
             cautions.get(place_name(place, context), "")]
            for place, *numbers in zip(stored["places"], *columns)
            if place in shown
        ]  # fmt: skip
        title = f"propensities ({options.method})" + ("" if context is None else f", {context}")
        tables.append((title, ["place", "value", "from", "to", ""], rows_shown))
    return stored, *tables


def _judgments(log: "ClickLog", options: JudgmentOptions, output: Path | None) -> Answer:
    from hingerank.clicks.judgments import judgments
    from hingerank.clicks.models import click_model
    from hingerank.data.tables import write_table

    with working("fitting"):
        model = click_model(log, options.model)
        found = judgments(model, options.grades, options.least_showings)
        perplexity = model.perplexity(log)["mean"]
    if output is not None and options.to == "qrels":
        found.to_qrels(output, options.topics)
    elif output is not None and options.to == "opensearch":
        found.to_opensearch(output, output.stem)
    elif output is not None:
        write_table(found.to_frame("pyarrow"), output)
    counts = {str(grade): int((found.grade == grade).sum()) for grade in range(options.grades)}
    about = {"model": options.model, "documents": len(found), "queries": len(set(found.query.tolist())),
             "log_likelihood": model.log_likelihood(log), "perplexity": perplexity, "grades": counts,
             "written": None if output is None else str(output)}  # fmt: skip
    words = about | {"grades": ", ".join(f"{grade}: {count:,}" for grade, count in counts.items())}
    return about, facts("judgments", {name: word for name, word in words.items() if word is not None})


# Logs with features.


class ClickOptions(LogColumns, panel="Clicks"):
    """How to correct clicks for the positions at which documents were shown."""

    propensities: str | None = option(
        "FILE|P,P,…",
        "A file that hingerank clicks propensities wrote, or numbers, position 1 first. Default: the log's.",
    )
    clip: float | None = option("P", "Raise smaller propensities to this. Default: min(10/√lists, 1).")

    def given_propensities(self, log: "ClickLog") -> "Propensities | list[float] | None":
        """Return the value of --propensities as the library takes it."""
        from hingerank.clicks.propensities import propensities

        text = self.propensities
        if text is None:
            return None
        path = Path(text)
        if path.exists():
            return propensities(log, "given", values=path)
        try:
            return [float(word) for word in text.split(",")]
        except ValueError:
            raise ValueError(f"--propensities {text}: neither a file nor numbers, such as 1,0.5,0.3") from None


class ClickTraining(ClickOptions):
    """How a ranker learns from clicks."""

    correction: str = choice(
        "ips|clipped|affine|doubly-robust|naive", "How clicks are corrected for position bias.", "ips"
    )
    around: Path | None = option("MODEL", "Linear model in production: stay near its weights.")

    def settings(self, log: "ClickLog") -> dict[str, Any]:
        """Return the keyword arguments of `fit_clicks`."""
        from hingerank.export.model_file import load

        if self.correction == "naive" and self.propensities is not None:
            raise ValueError("--propensities does nothing with --correction naive: leave out one of them")
        return {
            "propensities": self.given_propensities(log),
            "correction": self.correction,
            "clip": self.clip,
            "around": None if self.around is None else load(self.around),
        }


class ClickMeasuring(ClickOptions):
    """How the value of a ranking is estimated from clicks."""

    estimator: str = choice("ips|snips|clipped|dr", "Estimator of the value.", "ips")
    also: list[Path] | None = option("MODEL", "Further model to compare; repeatable.")


def is_log(rows: Rows) -> bool:
    """Whether --features names a file, so that DATA is a click log; a file that is not there is an error."""
    if rows.features is None or Path(rows.features).exists():
        return rows.features is not None
    if "," not in rows.features and endings(rows.features)[0] in (*TABLES, *TEXTS):
        raise DataError(no_such_file(rows.features))
    return False


def open_clicks(data: Path, rows: Rows, how: ClickOptions) -> "tuple[ClickLog, ClickData]":
    """Return the log, and its clicks joined with the features that --features names."""
    features = open_features(Path(str(rows.features)), rows)
    log = how.read([data])
    with working("joining"):
        return log, log.join(features)


def open_features(path: Path, rows: Rows) -> "RankingData":
    """Return rows with features of documents. A table of them needs no column of grades."""
    from hingerank.data.files import kind_to_read

    label = "" if kind_to_read(path) == "table" else None
    named = Rows(missing=rows.missing, qid=rows.qid, docid=rows.docid, label=label)
    return open_data(path, named)


def value_of_models(
    data: Path, models: list[Path], rows: Rows, how: ClickMeasuring, measure: str
) -> "tuple[ClickLog, ClickData, ClickValues]":
    """Return the log, the joined clicks, and the estimated value of each model by name."""
    from hingerank.clicks.value import evaluate_clicks

    rankers = {str(path): load_ranker(path, "rows")[0] for path in models}
    log, joined = open_clicks(data, rows, how)
    with working("evaluating"):
        given = how.given_propensities(log)
        values = evaluate_clicks(
            joined, rankers, propensities=given, estimator=how.estimator, measure=measure, clip=how.clip
        )
    return log, joined, cast("ClickValues", values)  # a mapping, since a mapping of models was given
