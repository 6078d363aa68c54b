"""`compare`."""

import inspect
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hingerank.cli.diversity_commands import Incomplete
from hingerank.cli.output import (
    Features,
    Json,
    Label,
    Missing,
    OneQuery,
    Qid,
    Workers,
    console,
    note,
    print_json,
    print_table,
    working,
)
from hingerank.cli.personal_commands import ItemColumns, is_ratings
from hingerank.cli.topic_comparison import (
    AspectsFile,
    Clusters,
    Depth,
    First,
    Qrels,
    Texts,
    TopicFiles,
    for_topics,
    usual_methods,
)

if TYPE_CHECKING:
    from hingerank.lab.leaderboard import Leaderboard
    from hingerank.lab.methods import Method

OF_TOPICS = ("alpha-ndcg@20", "err-ia@20")  # both are in papers on diversity
IN_PAPERS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map", *OF_TOPICS)  # measures in the leaderboard for LaTeX
RATED = "popularity,item-mean,joint,mean-variance,personal-rank-svm,shared=personal-rank-svm"  # what to compare first
RATED_SETTINGS = ["shared.shared=true"]
Baseline = Annotated[
    str | None, typer.Option(metavar="METHOD", help="What the others are compared with; default: the first method.")
]
Test = Annotated[str, typer.Option(help="Significance test: randomisation, t or wilcoxon.")]


def compare(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A data file, folds (S1 … S5, Fold1 … Fold5), ratings, or topics."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where results go; a run there is continued.")
    ],
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Rankers, NAME=RANKER to call one otherwise, or your own: NAME=module:Class, NAME=file.py:Class. "
            "Default: rank-svm; for ratings baselines and rankers; for topics those that their parts allow.",
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(help="Chooses settings and sorts the leaderboard; default ndcg@10, for topics alpha-ndcg@20."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=3, help="Folds over queries; default: those of the folder, else 5.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="[METHOD.]NAME=V,…", help="Values of a parameter: one to fix it, more to try."),
    ] = None,
    search: Annotated[str, typer.Option(help="How settings are tried: grid, random or optuna.")] = "grid",
    trials: Annotated[int, typer.Option(min=1, help="Settings per fold for random and optuna.")] = 20,
    baseline: Baseline = None,
    test: Test = "randomisation",
    seed: Annotated[int, typer.Option(min=0, help="Seed of folds, searches and rankers.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Fits of each random ranker's chosen setting, averaged.")] = 1,
    sizes: Annotated[
        str, typer.Option(metavar="10%,30%,…", help="Learning curves: also learn from these fractions of the queries.")
    ] = "100%",
    workers: Workers = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try what failed in an earlier run again.")
    ] = False,
    missing: Missing = "error",
    items: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="DATA are ratings (user, item, rating) of these items: ids and features."),
    ] = None,
    hold_out: Annotated[str, typer.Option(help="Of ratings, test whole items or some ratings of each user.")] = "items",
    item_columns: ItemColumns = False,
    qrels: Qrels = None,
    aspects: AspectsFile = None,
    texts: Texts = None,
    clusters: Clusters = None,
    depth: Depth = None,
    first: First = None,
    incomplete: Incomplete = "error",
    keep: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Fit the winner on all data and save it: folder/ or a file.")
    ] = None,
    label: Label = None,
    qid: Qid = None,
    features: Features = None,
    one_query: OneQuery = False,
    json: Json = False,
) -> None:
    """Compare rankers over folds: settings chosen on validation, test measured once, significance over all queries.

    Every result is kept as soon as it is known: after an interruption the same command goes on where it stopped.

    Of ratings (a MovieLens folder, or --items) every user is a query, and personal rankers can be compared too.
    Topics (--qrels) are for diversifying rerankers, compared by alpha-NDCG and ERR-IA.

    Example: hingerank compare MQ2008/ --methods rank-svm,lightgbm --measure ndcg@10 -o run/
    """
    from hingerank.cli.files import Columns, check_target, open_data
    from hingerank.lab.comparison import compare as run_comparison
    from hingerank.lab.leaderboard import leaderboard
    from hingerank.lab.learning_curves import check_sizes, parse_sizes
    from hingerank.lab.progress import LiveBoard
    from hingerank.lab.winner import refit

    files = TopicFiles(qrels, features, aspects, texts, clusters, depth, incomplete, first)
    turns = files.folds(data, folds, seed, missing)
    measure = measure or ("ndcg@10" if turns is None else "alpha-ndcg@20")
    if methods is None and turns is not None:
        methods = usual_methods(turns)
    elif methods is None:
        rated = is_ratings(data, items)
        methods, more = (RATED, RATED_SETTINGS) if rated else ("rank-svm", [])
        settings = [*more, *(settings or [])]
    about = {"title": data.name, "data": str(data), "command": _command(locals())}
    columns = Columns(label, qid, features, one_query)
    chosen, fractions = _methods(methods, settings or [], search, trials), check_sizes(parse_sizes(sizes))
    _check_choices(test, baseline, [method.name for method in chosen])
    if keep is not None:
        check_target(keep, data)
    of_topics = turns is not None
    if turns is None:
        turns = _rating_folds(data, items, folds, seed, hold_out, item_columns)
    if turns is None:
        _check_rows_are_enough(chosen)
        if hold_out != "items":
            raise ValueError("--hold-out is for ratings: other data are cut by query")
        if item_columns:
            raise ValueError("--item-columns is for ratings: graded rows have no items")
        turns = _folds(data, folds, seed, missing, columns)
    elif keep is not None:
        raise ValueError("--keep is for graded rows: of ratings or topics, fit the winner from Python and save it")
    chosen = _methods(methods, settings or [], search, trials, turns[0])  # with settings that suit the data
    chosen = for_topics(chosen, turns, measure) if of_topics else chosen
    options: dict[str, Any] = {"folder": output, "seed": seed, "workers": workers, "retry_failed": retry_failed}
    options |= {"seeds": seeds, "sizes": fractions}
    try:
        with LiveBoard(console(stderr=True)) as board:
            results = run_comparison(chosen, turns, measure, progress=board, about=about, **options)
    except KeyboardInterrupt:
        note("the same command goes on where this one stopped")
        raise
    table = leaderboard(results, baseline=baseline, test=test)
    _write_tables(table, output)
    if json:
        print_json(table.to_dict())
    else:
        console().print(table.to_rich(console().width))
        for other in [m for m in OF_TOPICS if qrels is not None and m in results.measures and m != measure]:
            console().print(leaderboard(results, other, baseline, test).to_rich(console().width))
        _print_curves(results)
    failures = results.failures()
    if failures and not any(results.tests(method.name) for method in chosen):
        raise ValueError(f"no method has a result; the first error is: {failures[0]['error']}")
    for record in failures[:3]:
        note(f"failed: {record['method']}, {record['fold']}: {record['error']}")
    if keep is not None:
        rows = open_data(data, missing=missing, columns=columns)
        with working("fitting the winner on all data"):
            name, ranker = refit(results, chosen, rows)
        words = {"data": data.name, "index_base": rows.index_base, "run": str(output), "method": name}
        saved = ranker.save(keep, words)
        (note if json else print)(f"{name}, fitted on all {rows.n_rows:,} rows, is in {saved}")
    note(f"hingerank report {shlex.quote(str(output))} makes a page of it")


def _methods(names: str, settings: list[str], search: str, trials: int, fold: Any = None) -> list["Method"]:
    from hingerank.lab.methods import method_from_name, parse_settings

    given = parse_settings(settings)
    everywhere = given.pop("", {})
    found = []
    for text in filter(None, (name.strip() for name in names.split(","))):
        name = text.partition("=")[0].strip()
        found.append(method_from_name(text, {**everywhere, **given.pop(name, {})}, search, trials, fold))
    if not found:
        raise ValueError(f"--methods {names!r} names no ranker: give one, as in --methods rank-svm")
    if given:
        raise ValueError(f"--set names the method {next(iter(given))!r}, which is not in --methods {names}")
    return found


def _check_choices(test: str, baseline: str | None, methods: list[str]) -> None:
    """Find out before the run, not after it, that its leaderboard could not be made."""
    from hingerank.lab.statistics import TESTS

    if test not in TESTS:
        raise ValueError(f"there is no test {test!r}; choose {', '.join(TESTS)}")
    if baseline is not None and baseline not in methods:
        raise ValueError(f"the baseline {baseline!r} is not one of the methods {', '.join(methods)}")


def _check_rows_are_enough(methods: list["Method"]) -> None:
    from hingerank.lab.folds import PersonalRows
    from hingerank.lab.topics import Reranker

    for method in methods:
        if method.ranker is PersonalRows:
            raise ValueError(f"{method.name} learns a function for each user: give ratings (--items names the items)")
        if isinstance(method.ranker, Reranker):
            raise ValueError(
                f"{method.name} reorders documents of topics: name judgments with --qrels, or use hingerank rerank"
            )


def _folds(path: Path, k: int | None, seed: int, missing: str, columns: Any) -> list[Any]:
    """The folds of a folder that has some (as many as asked for), else k folds over the queries."""
    from hingerank.cli.files import open_data
    from hingerank.data.files import DataError, has_folds
    from hingerank.data.read_write import read_folds
    from hingerank.lab.folds import query_folds

    if path.is_dir() and has_folds(path):
        folds: list[Any] = read_folds(path, missing=missing)
        if k in (None, len(folds)):
            return folds
    try:
        data = open_data(path, missing=missing, columns=columns)
    except DataError as error:
        if error.option == "columns":
            raise DataError(f"{error}; of ratings, name the items with --items") from error
        raise
    return query_folds(data, 5 if k is None else k, seed)


def _rating_folds(
    path: Path, items: Path | None, k: int | None, seed: int, held_out: str, item_columns: bool
) -> list[Any] | None:
    """Folds over ratings, if that is what `path` holds."""
    from hingerank.data.files import DataError
    from hingerank.lab.folds import rating_folds
    from hingerank.personal.rating_sets import open_ratings

    if items is not None and not items.exists():
        raise DataError(f"{items}: there is no such file")
    opened = open_ratings(path, items, item_columns=item_columns)
    return None if opened is None else rating_folds(*opened, 5 if k is None else k, seed, held_out)


def _command(given: dict[str, Any]) -> str:
    """The command line that asks for the same again."""
    words = ["hingerank", "compare", str(given["data"])]
    for name, option in inspect.signature(compare).parameters.items():
        chosen = given[name] != option.default or name in ("methods", "measure")  # these are the run's name, so to say
        if chosen and name not in ("data", "output", "settings", "retry_failed", "json", "keep"):
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if given[name] is True else [flag, str(given[name])]
    for text in given["settings"] or []:
        words += ["--set", text]
    return shlex.join([*words, "-o", str(given["output"])])


def _print_curves(results: Any) -> None:
    from hingerank.lab.learning_curves import learning_curves, size_text

    curves = learning_curves(results)
    if curves["methods"]:
        names = ["method", *map(size_text, curves["sizes"])]
        rows = [[m, *(p and p["mean"] for p in points)] for m, points in curves["methods"].items()]
        print_table(f"{curves['measure']} by the fraction of training queries", names, rows)


def _write_tables(board: "Leaderboard", folder: Path) -> None:
    from hingerank.data.files import write_whole

    write_whole(folder / "leaderboard.csv", board.to_csv().encode())
    shown = [name for name in board.lines[0].means if name == board.measure or name.split(":")[0] in IN_PAPERS]
    write_whole(folder / "leaderboard.tex", board.to_latex(shown).encode())
