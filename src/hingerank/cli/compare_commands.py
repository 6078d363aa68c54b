"""The commands `compare`, `report` and `cite`; pages are about comparisons, personal models and click logs."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hingerank.cli.click_commands import ClickMeasuring, open_clicks, value_of_models
from hingerank.cli.diversity_commands import Topics, for_topics, usual_methods
from hingerank.cli.files import open_data, read_options, with_query_ids
from hingerank.cli.groups import RANKER_NAMES, ListedItems, RatingOptions, Rows
from hingerank.cli.options import JSON, REQUIRED, Group, check_kind, choice, command, option, switch, target, typed
from hingerank.cli.output import Answer, console, note, print_json, print_table, working
from hingerank.cli.personal_commands import report_model
from hingerank.cli.rating_files import is_ratings, read_rated

if TYPE_CHECKING:
    from hingerank.lab.methods import Method
    from hingerank.lab.results import Results

OF_TOPICS = ("alpha-ndcg@20", "err-ia@20")  # the measures that papers on diversity report
IN_PAPERS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map", *OF_TOPICS)  # measures in leaderboard.tex
RATED = "popularity,item-mean,item-knn,ease,joint,mean-variance,personal-rank-svm"  # compared by default for ratings
RATED += ",shared=personal-rank-svm"
RATED_SETTINGS = ["shared.shared=true"]
RANDOM = "--search random or --search optuna"
LISTED = "popularity,item-knn,ease,list-ranker"  # the default for lists, with installed peers
BASELINE = option("METHOD", "Method to compare the others with. Default: the first.")
TEST = choice("randomisation|t|wilcoxon", "Significance test.", "randomisation")


class Methods(Group, panel="Train"):
    """The methods to compare, and the settings to try."""

    methods: str | None = option(
        "A,B,…",
        "Rankers. NAME=RANKER sets a display name; NAME=module:Class and NAME=file.py:Class are your own. Ratings: "
        "also popularity, item-mean, item-knn, als, bpr and lightfm. "
        "Default: rank-svm; for ratings, baselines and rankers; for topics, the methods that the files allow.",
        autocompletion=RANKER_NAMES,
    )
    settings: list[str] | None = option(
        "[METHOD.]NAME=V,…", "One value fixes a parameter, several are tried; repeatable.", flag="--set"
    )
    search: str = choice("grid|random|optuna", "How to choose the settings to try.", "grid")
    trials: int = option("N", "Number of settings per fold for random and optuna.", 20, min=1, needs=RANDOM)

    def made(self, fold: object = None) -> list["Method"]:
        """Return the methods. If a fold is given, the settings to try depend on its rows."""
        from hingerank.lab.methods import method_from_name, parse_settings

        given, names = parse_settings(self.settings or []), str(self.methods)
        everywhere = given.pop("", {})
        found = []
        for text in filter(None, (name.strip() for name in names.split(","))):
            name = text.partition("=")[0].strip()
            own = {**everywhere, **given.pop(name, {})}
            found.append(method_from_name(text, own, self.search, self.trials, fold))
        if not found:
            raise ValueError(f"--methods {names!r} names no ranker: give one, as in --methods rank-svm")
        if given:
            raise ValueError(f"--set names the method {next(iter(given))!r}, which is not in --methods {names}")
        return found


class Experiment(Group, panel="Experiment"):
    """The folds, the measure and the significance test."""

    measure: str | None = option(
        "NAME",
        "Measure that chooses settings and sorts, such as list_ndcg@10 for lists over all items. "
        "Default: ndcg@10; for topics, alpha-ndcg@20.",
    )
    folds: int | None = option("N", "Folds over queries. Default: those of the folder, else 5.", min=3)
    baseline: str | None = BASELINE
    test: str = TEST
    seed: int = option("N", "Seed of folds and of random rankers.", 0, min=0)
    seeds: int = option("N", "Number of fits of each random ranker, averaged.", 1, min=1)
    sizes: str = option("10%,30%,…", "Also learn from these fractions of the queries (learning curves).", "100%")
    workers: int | None = option("N", "Number of processes. Default: one per core in long runs.", min=1)
    retry_failed: bool = switch("Retry what failed in an earlier run.")


class ComparedRows(Rows):
    """How to read rows, or the features of a run's documents."""

    features: str | None = option(
        "A,B,…|FILE",
        "Feature columns, comma-separated (CSV/Parquet only). Default: every other column. Or, for a TREC run with "
        "--qrels, LETOR data with the features of its documents.",
    )


class ComparedRatings(RatingOptions):
    """How to split ratings."""

    hold_out: str | None = choice(
        "items|ratings|time",
        "Test on new items, some ratings of each user, or the latest ratings. Default: items; for lists, ratings.",
        None,
    )
    relevant: float | None = option(
        "X", "Smallest rating that a list should find, for measures such as list_ndcg@10. Default: the median."
    )
    time_column: str = option("COLUMN", "Column of times for --hold-out time.", "timestamp", needs="--hold-out time")


class RunOutput(Group, panel="Output", fits={"keep": ("rows",), "force": ("rows",)}):
    """Where to write results."""

    output: Path = option("FOLDER", "Folder of results; an interrupted run there resumes.", REQUIRED, short="-o")
    keep: str | None = target("PATH", "Also fit the winner on all rows and save it here.", writes="model")
    force: bool = switch("Replace the model at --keep.", needs="--keep")


@command
def compare(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A data file, a folder of folds, ratings, a TREC run or its data.")
    ],
    what: Methods,
    how: Experiment,
    rows: ComparedRows,
    ratings: ComparedRatings,
    topics: Topics,
    out: RunOutput,
    json: bool = JSON,
) -> None:
    """Compare rankers over folds, with tests of significance.

    Settings are chosen on validation queries, and test queries are measured once. Each result is saved as it is
    computed: run the same command again to resume.

    Ratings (a MovieLens folder, or --items) have one query per user, and personal rankers can be compared too: by the
    order of the items that each user rated, or by lists over all items (--measure list_ndcg@10, list_recall@10, …).
    Topics (--qrels) are for methods that diversify, compared by alpha-NDCG and ERR-IA.

    Example: hingerank compare MQ2008/ --methods rank-svm,lightgbm --measure ndcg@10 -o run/

    Example: hingerank compare ratings.csv --items items.csv --measure pair_accuracy -o run/

    Example: hingerank compare ratings.csv --methods popularity,ease --measure list_ndcg@10 --relevant 4 -o run/

    Example: hingerank compare run.txt --qrels qrels.txt --features features.txt --methods mmr,pamm -o run/
    """
    from hingerank.lab.folds import parse_sizes
    from hingerank.lab.leaderboard import refit
    from hingerank.personal.top_n import parse_list_measure

    lists = how.measure is not None and parse_list_measure(how.measure) is not None
    rated = topics.qrels is None and (lists or is_ratings(data, ratings, what.methods))
    kind = "topics" if topics.qrels is not None else "ratings" if rated else "rows"
    check_kind(kind, rows, ratings, topics, out)
    how = replace(how, measure=how.measure or ("alpha-ndcg@20" if kind == "topics" else "ndcg@10"))
    turns = topics.folds(data, how.folds, how.seed, rows) if kind == "topics" else None
    if ratings.relevant is not None and not lists:
        raise ValueError("--relevant is for lists over all items: add --measure list_ndcg@10")
    if out.output.is_file():
        raise ValueError(f"--output {out.output} is a file: name a folder")
    what = _with_defaults(what, kind, turns, lists)
    fractions = parse_sizes(how.sizes)
    _check_before(what.made(), how, kind)
    if turns is None:
        turns = _rating_folds(data, ratings, how, lists) if rated else _folds(data, how, rows)
    methods = what.made(turns[0])
    methods = for_topics(methods, turns, str(how.measure)) if kind == "topics" else methods
    line = typed("compare", data, what, replace(how, retry_failed=False), rows, ratings, topics)
    command = f"{line} -o {shlex.quote(str(out.output))}"
    about = {"title": data.name, "data": str(data), "kind": kind, "command": command}
    results = _run(methods, turns, how, out, about, fractions)
    _show(results, how, out.output, kind, json)
    failures = results.failures()
    if failures and not any(results.tests(method.name) for method in methods):
        raise ValueError(f"no method has a result; the first error is: {failures[0]['error']}")
    for record in failures[:3]:
        note(f"failed: {record['method']}, {record['fold']}: {record['error']}")
    if out.keep is not None:
        found = open_data(data, rows)
        with working("fitting the winner on all data"):
            name, ranker = refit(results, methods, found)
        words = {"data": data.name, "index_base": found.index_base, "run": str(out.output), "method": name}
        saved = ranker.save(out.keep, words)
        (note if json else print)(f"{name}, fitted on all {found.n_rows:,} rows, is in {saved}")
    note(f"hingerank report {shlex.quote(str(out.output))} writes a page about it")


def _with_defaults(what: Methods, kind: str, turns: list[Any] | None, lists: bool) -> Methods:
    from hingerank.personal.baselines import PEERS, is_installed

    if what.methods is not None:
        return what
    if turns is not None:
        return replace(what, methods=usual_methods(turns))
    if lists:
        return replace(what, methods=",".join([LISTED, *filter(is_installed, PEERS)]))
    if kind == "ratings":
        return replace(what, methods=RATED, settings=[*RATED_SETTINGS, *(what.settings or [])])
    return replace(what, methods="rank-svm")


def _run(
    methods: list["Method"], turns: list[Any], how: Experiment, out: RunOutput, about: object, fractions: object
) -> "Results":
    from hingerank.lab.comparison import compare as run_comparison
    from hingerank.lab.progress import LiveBoard

    options: dict[str, Any] = {"folder": out.output, "seed": how.seed, "workers": how.workers, "seeds": how.seeds}
    options |= {"retry_failed": how.retry_failed, "sizes": fractions, "about": about}
    try:
        with LiveBoard(console(stderr=True)) as board:
            return run_comparison(methods, turns, str(how.measure), progress=board, **options)
    except KeyboardInterrupt:
        note("run the same command again to resume")
        raise


def _show(results: "Results", how: Experiment, folder: Path, kind: str, json: bool) -> None:
    """Print the leaderboard, and write it as CSV and LaTeX."""
    from hingerank.data.files import write_whole
    from hingerank.lab.folds import size_text
    from hingerank.lab.leaderboard import leaderboard, learning_curves

    table = leaderboard(results, baseline=how.baseline, test=how.test)
    write_whole(folder / "leaderboard.csv", table.to_csv().encode())
    shown = [name for name in table.lines[0].means if name == table.measure or name.split(":")[0] in IN_PAPERS]
    write_whole(folder / "leaderboard.tex", table.to_latex(shown).encode())
    if json:
        print_json(table.to_dict())
        return
    console().print(table.to_rich(console().width))
    for other in [m for m in OF_TOPICS if kind == "topics" and m in results.measures and m != how.measure]:
        console().print(leaderboard(results, other, how.baseline, how.test).to_rich(console().width))
    curves = learning_curves(results)
    if curves["methods"]:
        names = ["method", *map(size_text, curves["sizes"])]
        rows = [[m, *(p and p["mean"] for p in points)] for m, points in curves["methods"].items()]
        print_table(f"{curves['measure']} by the fraction of training queries", names, rows)


def _check_before(methods: list["Method"], how: Experiment, kind: str) -> None:
    """Raise an error before the run if a method cannot take part or the leaderboard cannot be made."""
    from hingerank.lab.topics import Reranker
    from hingerank.personal.top_n import Recommends

    names = [method.name for method in methods]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"--methods has {twice} twice: give one of them another name, as in other={twice}")
    if how.baseline is not None and how.baseline not in names:
        raise ValueError(f"the baseline {how.baseline!r} is not one of the methods {', '.join(names)}")
    for method in methods if kind != "topics" else []:
        if kind == "rows" and isinstance(method.ranker, Recommends):
            raise ValueError(f"{method.name} learns a function for each user: give ratings (--items names the items)")
        if isinstance(method.ranker, Reranker):
            raise ValueError(
                f"{method.name} reorders documents of topics: name judgments with --qrels, or use hingerank rerank"
            )


def _folds(path: Path, how: Experiment, rows: Rows) -> list[Any]:
    """Return the folds of a folder if it has as many as were asked for, else new folds over the queries."""
    from hingerank.data.files import has_folds
    from hingerank.data.read_write import read_folds
    from hingerank.lab.folds import query_folds

    if path.is_dir() and has_folds(path):
        with with_query_ids(path):
            folds: list[Any] = read_folds(path, missing=rows.missing, **read_options(rows, "folds"))
        if how.folds in (None, len(folds)):
            return folds
    return query_folds(open_data(path, rows), 5 if how.folds is None else how.folds, how.seed)


def _rating_folds(path: Path, ratings: ComparedRatings, how: Experiment, lists: bool) -> list[Any]:
    """Return folds for the order of rated items, or for lists; for lists each item has an indicator feature."""
    from hingerank.lab.rating_folds import list_folds, rating_folds

    hold_out = ratings.hold_out or ("ratings" if lists else "items")
    rated, catalogue = read_rated(
        path, ratings, ["ease"] if lists else [], ratings.time_column if hold_out == "time" else None
    )
    given = rated, (catalogue.X, catalogue.names), 5 if how.folds is None else how.folds, how.seed, hold_out
    return list_folds(*given, ratings.relevant) if lists else rating_folds(*given)


# Pages and papers.


class OfComparison(Group, panel="Comparison", kinds=("comparison",)):
    """What to write about a comparison."""

    baseline: str | None = BASELINE
    test: str = TEST
    latex: bool = switch("Also write table.tex with every measure.")
    csv: bool = switch("Also write per-query.csv with the values of every query.")
    trec_runs: bool = switch("Also write trec-runs/ with a TREC run of every method.")
    table: Path | None = option("FILE", "", hidden=True)  # writes the CSV to this file, as in version 0.2


class OfModel(ListedItems, panel="Personal model", kinds=("personal model",)):
    """What to show about a personal model."""

    user: list[str] | None = option("ID", "User whose list to show; repeatable.")


class OfClicks(ClickMeasuring):
    """What to show about a click log."""

    features: Path | None = option("FILE", "Rows with features and document ids: RUN is then a click log.")
    model: list[Path] | None = option("MODEL", "Model whose value to estimate from clicks; repeatable.")
    measure: str = option("NAME", "Measure of the value.", "dcg@10")


@command
def report(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A folder of compare, finished or not, a personal model, or a click log."),
    ],
    comparison: OfComparison,
    personal: OfModel,
    clicks: OfClicks,
    output: Path | None = target("FILE", "Page to write. Default: report.html in the folder.", short="-o"),
) -> Answer:
    """Write a web page about a comparison, a model or clicks.

    The page is one self-contained file. For a personal model it shows the basic ranking functions in words, a map of
    the users, and lists with reasons. For a click log it shows how much of the log was joined with features, how often
    each position is examined, and the estimated value of the models.

    Example: hingerank report run/ -o report.html

    Example: hingerank report run/ --latex --csv --trec-runs

    Example: hingerank report model/ --user 17 -o model.html

    Example: hingerank report log.ndjson --features features.parquet --propensities p.json --model model/ -o clicks.html
    """
    from hingerank.export.model_file import is_model

    kind = "personal model" if run.suffix == ".safetensors" or is_model(run) else "comparison"
    kind = "clicks" if clicks.features is not None else kind
    check_kind(kind, comparison, personal, clicks)
    if comparison.table is not None and comparison.table.is_dir():
        raise ValueError(f"--table {comparison.table} is a folder: name a file")
    if kind == "comparison" and run.is_file():
        raise ValueError(
            f"{run} is a file, and a comparison is a folder: for a click log, name the file of its documents' features "
            "with --features"
        )
    if kind == "clicks":
        written = [_report_clicks(run, output, clicks)]
    elif kind == "personal model":
        written = [report_model(run, output, personal.user, personal)]
    else:
        written = _report_run(run, output, comparison)
    return {"written": written}, *map(str, written)


def _report_clicks(run: Path, output: Path | None, how: OfClicks) -> Path:
    """Write the page about a click log and return its path."""
    from hingerank.clicks.propensities import propensities
    from hingerank.data.files import DataError, write_whole
    from hingerank.lab.report.clicks import click_page, held_out_models

    rows, values = Rows(features=str(how.features)), None
    judged = [*(how.model or []), *(how.also or [])]
    if judged:
        log, data, values = value_of_models(run, judged, rows, how, how.measure)
    elif idle := how.given().keys() & {"--clip", "--estimator", "--measure"}:
        raise ValueError(f"{min(idle)} is for the value of a model: name one with --model")
    else:
        log, data = open_clicks(run, rows, how)
    given, curves = how.given_propensities(log), None
    try:
        curves = propensities(log) if given is None else propensities(log, "given", values=given)
    except DataError as error:
        note(f"no propensities are shown: {error}")
    place = Path(f"{run.stem}.html") if output is None else output
    with working("fitting click models"):
        models = held_out_models(log)
    write_whole(place, click_page(run.name, log, data, values, curves, models).encode())
    return place


def _report_run(run: Path, output: Path | None, how: OfComparison) -> list[Path]:
    """Write the page and files about a comparison and return their paths, the page first."""
    from hingerank.data.files import write_whole
    from hingerank.lab.paper import latex_table, write_trec_runs
    from hingerank.lab.report.page import write_report
    from hingerank.lab.results import load_results

    results = load_results(run)
    if how.table is not None:
        results.write_csv(how.table)
    written = [write_report(results, output, how.baseline, how.test)]
    if how.latex:
        write_whole(run / "table.tex", latex_table(results, how.baseline, how.test).encode())
        written.append(run / "table.tex")
    if how.csv:
        results.write_csv(run / "per-query.csv")
        written.append(run / "per-query.csv")
    return [*written, *(write_trec_runs(results) if how.trec_runs else [])]


@command
def cite(
    what: Annotated[list[str], typer.Argument(metavar="RUN|RANKER…", help="Folders of compare, or names of rankers.")],
) -> Answer:
    """Print the papers behind rankers or a comparison as BibTeX.

    Example: hingerank cite run/ > references.bib

    Example: hingerank cite rank-svm listnet
    """
    from hingerank.data.files import no_such_file
    from hingerank.lab.paper import bibtex, rankers_of_run
    from hingerank.lab.results import load_results

    rankers: list[str] = []
    others: list[str] = []
    for word in what:
        if "/" in word and not Path(word).exists():
            raise ValueError(no_such_file(Path(word)))
        found = rankers_of_run(load_results(word).header) if Path(word).is_dir() else ([word], [])
        rankers += found[0]
        others += found[1]
    unknown = [f"% {method}: not a ranker of this library, cite its paper yourself" for method in others]
    papers = bibtex(rankers)
    return {"rankers": rankers, "without_paper": others, "bibtex": papers}, *unknown, *papers.split("\n")[:-1]
