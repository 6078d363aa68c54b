"""The commands `fit`, `rank` and `evaluate`."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hingerank.cli import personal_commands
from hingerank.cli.click_fits import ClickMeasuring, ClickTraining, evaluate_clicks_of, fit_clicks, is_log
from hingerank.cli.files import check_target, data_and_model, keeping_missing, open_data, open_parts, scored
from hingerank.cli.groups import (
    JSON,
    RANKER_NAMES,
    Data,
    Model,
    ModelOutput,
    ModelRows,
    Output,
    RatingColumns,
    RatingOptions,
    Rows,
)
from hingerank.cli.options import Group, check_kind, command, option, switch, target
from hingerank.cli.output import answer, facts, make_ranker, print_json, print_table, read_setting, working, writing
from hingerank.cli.rating_files import (
    CLICKED,
    LISTS,
    ROWS,
    is_ratings,
    read_rated,
    save_with_items,
    weights_by_age,
)

if TYPE_CHECKING:
    import numpy as np

    from hingerank.data.ranking_data import RankingData


class Training(Group, panel="Train"):
    """A ranker and its parameters."""

    model: str | None = option(
        "NAME",
        "Ranker; see hingerank models. Default: rank-svm; for ratings, list-ranker.",
        autocompletion=RANKER_NAMES,
    )
    rank: int | None = option("N", "Rank of rankers that have one, such as personal-rank-svm.", min=1)
    C: float | None = option("X", "Weight of the loss relative to the penalty; --set C=none follows the data.")
    loss: str | None = option("NAME", "Loss of a pair, such as squared_hinge.")
    tol: float | None = option("X", "Stop at this certified accuracy.")
    seed: int | None = option("N", "Seed of random rankers.")
    scale: str | None = option("NAME", "Feature scaling, such as query-minmax or standard.")
    settings: list[str] | None = option("NAME=VALUE", "Any parameter of the ranker; repeatable.", flag="--set")

    def ranker(self, usual: str) -> tuple[str, Any]:
        """Return the registered name and the ranker; usual: the name of the ranker if --model is not given."""
        from hingerank.registry import ranker_class, registered_name

        options = {"C": self.C, "loss": self.loss, "tol": self.tol, "random_state": self.seed, "scale": self.scale}
        options["rank"] = self.rank
        parameters = {name: value for name, value in options.items() if value is not None}
        flags = {name: f"--{name}" for name in parameters} | {"random_state": "--seed"}
        for name, value in map(read_setting, self.settings or []):
            if name in parameters:
                raise ValueError(f"{name} is given twice, as {parameters[name]!r} and {value!r}: leave out one")
            parameters[name] = value
        name = registered_name(self.model or usual)
        return name, make_ranker(ranker_class(name), name, parameters, flags)


class FitRows(Rows, fits={"validation": ("rows",)}):
    """How to read rows, and rows to validate on."""

    validation: Path | None = option("DATA", "Measure the fitted model on these rows (mean NDCG@10).")


class Cluster(Group, panel="Dask cluster", kinds=("parts",)):
    """The Dask cluster, and how to cut the rows into parts."""

    dask: str | None = option("CLUSTER", "tcp://HOST:PORT, or local:N for N processes here.")
    parts: int | None = option("N", "Cut a binary folder into N parts.", min=1)


class FitRatings(RatingOptions):
    """How `fit` uses ratings."""

    clicks: bool = switch("Ignore the values of ratings: items chosen beat items not chosen.")
    half_life: float | None = option("DAYS", "Age at which the weight of a rating is one half.")
    time_column: str = option(
        "COLUMN", "Column of times for --half-life: dates, or (milli)seconds.", "timestamp", short="--time"
    )


@command
def fit(
    data: Data,
    train: Training,
    rows: FitRows,
    logged: ClickTraining,
    cluster: Cluster,
    ratings: FitRatings,
    out: ModelOutput,
) -> None:
    """Fit a ranker to graded rows, clicks or ratings, and save it.

    With --items, --user-column and the like, a personal ranker as --model, or a MovieLens folder as DATA, it learns
    from ratings of users. With --dask, DATA is a file, a binary folder, or a folder in which each file is a part. With
    a file as --features, DATA is a click log.

    Example: hingerank fit train.txt --model rank-svm --C 0.01 -o model/

    Example: hingerank fit parts/ --dask local:4 -o model/

    Example: hingerank fit log.ndjson --features features.parquet --propensities p.json --correction clipped -o model/

    Example: hingerank fit ratings.csv --items items.csv --half-life 365 -o model/

    Example: hingerank fit ratings.dat --separator :: --model personal-rank-svm --rank 20 -o model/

    Example: hingerank fit sales.csv --user-column customer --item-column sku --rating-column stars -o model/
    """
    from hingerank.lab.methods import not_from_rows
    from hingerank.rankers.base import BaseRanker

    personal = is_ratings(data, ratings, train.model)
    kind = "clicks" if is_log(rows) else "ratings" if personal else "rows" if cluster.dask is None else "parts"
    check_kind(kind, rows, logged, cluster, ratings)
    name, ranker = train.ranker(CLICKED if ratings.clicks else LISTS if personal else ROWS)
    if personal and isinstance(ranker, BaseRanker):
        raise ValueError(f"{data} holds ratings: use a personal ranker, such as --model personal-rank-svm")
    if not personal and not isinstance(ranker, BaseRanker):
        raise ValueError(not_from_rows(name, type(ranker)))
    check_target(out.output, data, out.force)
    try:
        if kind == "clicks":
            saved = fit_clicks(ranker, data, rows, logged, out.output)
        elif kind == "ratings":
            saved = _fit_ratings(name, ranker, data, ratings, out.output)
        elif kind == "parts":
            with open_parts(data, str(cluster.dask), cluster.parts, rows) as spread, working("fitting"):
                ranker.fit(spread)
            saved = ranker.save(out.output, {"data": data.name})
        else:
            rows = keeping_missing(rows, ranker.missing != "error")
            found, checks = open_data(data, rows), []
            if rows.validation is not None:
                checks = [open_data(rows.validation, rows, found.n_features, index_base=found.index_base)]
            with working("fitting"):
                ranker.fit(found, eval_set=checks)
            saved = ranker.save(out.output, {"data": data.name, "index_base": found.index_base})
    except TypeError as error:  # a parameter has a value of a wrong type
        raise ValueError(f"{name} does not accept these settings: {error}") from error
    _report_fit(name, ranker, saved, out.json)


def _fit_ratings(name: str, ranker: Any, data: Path, ratings: FitRatings, output: str) -> str:
    from hingerank.personal.catalogue import history_of
    from hingerank.personal.factorized import PersonalRankSVM
    from hingerank.personal.item_item import EASE

    if ratings.clicks and not isinstance(ranker, PersonalRankSVM | EASE):
        raise ValueError(f"{type(ranker).__name__} learns from ratings: --clicks is for --model personal-rank-svm")
    days = ratings.half_life
    rated, catalogue = read_rated(data, ratings, [name], None if days is None else ratings.time_column)
    weight = None if days is None else weights_by_age(rated, days)
    with working("fitting"):
        if ratings.clicks:
            ranker.fit_clicks(rated.item_features, rated.users, rated.items, sample_weight=weight)
        else:
            ranker.fit(rated.item_features, *rated.triples, sample_weight=weight)
    history = history_of(rated.users, rated.items, rated.n_items)
    return save_with_items(ranker, output, data, catalogue, history)


def _report_fit(name: str, ranker: Any, saved: str, json: bool) -> None:
    certificate = getattr(ranker, "certificate_", None)
    found: dict[str, object] = {"model": name, "saved": saved, **getattr(ranker, "fingerprint_", {})}
    found.pop("sha256_of_sample", None)
    if certificate is not None:
        value = certificate.value if json else f"{certificate.value:.3g}"
        found |= {"status": certificate.status, certificate.kind: value}
        found |= {"iterations": certificate.n_iter, "seconds": certificate.seconds}
    kept, scores = getattr(ranker, "selected_features_", None), getattr(ranker, "validation_scores_", None)
    found |= {} if kept is None else {"features kept": len(kept)}
    found |= {"validation ndcg@10": scores[0]} if scores else {}
    answer(json, found, facts("fitted", found))


class Ranking(Output, fits={"top": ("rows",), "trec_run": ("rows",)}):
    """What `rank` writes."""

    top: int | None = option("N", "Keep the top N rows per query, in order.", min=1)
    trec_run: bool = switch("TREC run lines: qid Q0 docid rank score tag.")
    output: Path | None = target("FILE", "File to write. Default: standard output.", short="-o")


@command
def rank(model: Model, data: Data, rows: ModelRows, columns: RatingColumns, out: Ranking) -> None:
    """Score data with a saved model, one score per line or ranked.

    Scores are in the order of the rows. With --top the lines hold qid, rank, document id (or row number from 1) and
    score, separated by tabs. A TREC run orders documents of equal score by decreasing id, as trec_eval does. For a
    personal model DATA is a table of users and items. MODEL and DATA may be given in either order.

    Example: hingerank rank model/ test.txt -o scores.txt

    Example: hingerank rank model/ test.txt --top 10 --trec-run -o run.txt
    """
    from hingerank.export.model_file import load
    from hingerank.rankers.base import BaseRanker

    data, model = data_and_model(data, model)
    ranker = load(model)
    personal = not isinstance(ranker, BaseRanker)
    check_kind("pairs" if personal else "rows", rows, columns, out)
    if out.json and out.trec_run:
        raise ValueError("--json and --trec-run are two formats: give one of them")
    if personal:
        personal_commands.rank_pairs(model, data, out.output, columns, out.json)
        return
    found, scores = scored(ranker, model, data, rows)
    with writing(out.output) as stream:
        if not (out.json or out.trec_run or out.top):
            stream.writelines(f"{score}\n" for score in scores)
            return
        ranked = _ranked(found, scores, out.top, falling_docid=out.trec_run)
        if out.json:
            print_json([dict(zip(("qid", "documents", "scores"), item)) for item in ranked], stream)
            return
        line = _trec_line if out.trec_run else "{}\t{}\t{}\t{}\n".format
        for query, documents, best in ranked:
            each = enumerate(zip(documents, best.tolist()), 1)
            stream.writelines(line(query, place, document, score) for place, (document, score) in each)


def _ranked(
    rows: "RankingData", scores: "np.ndarray", top: int | None, falling_docid: bool = False
) -> "Iterator[tuple[object, list, np.ndarray]]":
    """Yield for each query its id, the ids of its best documents (or their row numbers from 1), and their scores.

    Rows of equal score stay in row order, or are ordered by falling document id.
    """
    import numpy as np

    blocks, documents = rows.blocks, np.arange(1, rows.n_rows + 1) if rows.docid is None else rows.docid
    order = np.arange(rows.n_rows) if blocks.order is None else blocks.order
    for query, first, last in zip(blocks.ids.tolist(), blocks.offsets[:-1], blocks.offsets[1:], strict=True):
        here = order[first:last]
        if falling_docid:
            here = here[np.argsort(documents[here].astype(str), kind="stable")[::-1]]
        best = here[np.argsort(-scores[here], kind="stable")][:top]
        yield query, documents[best].tolist(), scores[best]


def _trec_line(query: object, place: int, document: object, score: float) -> str:
    """Return a line of a run. Scores have all their digits, so equal scores stay equal for programs that read it."""
    if len(f"{query} {document}".split()) != 2:
        raise ValueError(f"a TREC run cannot hold the ids {query!r} and {document!r}: they must be single words")
    return f"{query} Q0 {document} {place} {score!r} hingerank\n"


class Measuring(
    Group,
    panel="Measures",
    kinds=("rows", "run", "subtopics", "rated"),
    fits={
        "measure": ("rows", "run", "subtopics", "clicks", "rated"),
        "preset": ("rows", "run", "rated"),
        "complete": ("run", "subtopics"),
        "diversity": ("subtopics",),
    },
):
    """What `evaluate` measures."""

    measure: list[str] | None = option("NAME,…", "ndcg@10, map, p@5, …; repeatable.", short="-m")
    preset: str | None = option("NAME", "Conventions: default, letor3, letor4, mslr, trec, sklearn, lightgbm, ….")
    per_query: bool = switch("Print the values of every query too.")
    complete: bool = switch("Count judged topics that the TREC run lacks as 0.")
    diversity: bool = switch("Measure a TREC run by subtopic judgments (DATA).")

    @property
    def measures(self) -> list[str] | None:
        """The names of the measures, or None for the default ones."""
        names = [name.strip() for text in self.measure or [] for name in text.split(",")]
        return [name for name in names if name] or None


class ListOptions(Group, panel="Lists for users", kinds=("lists",), fits={"items": ("lists", "rated")}):
    """How `evaluate` measures the lists of a personal model."""

    top: int | None = option("N", "Judge lists of N items; DATA holds test ratings.", min=1)
    exclude: Path | None = option("RATINGS", "More ratings whose items are left out of lists.")
    include_rated: bool = switch("Lists may have items that the user rated in training.")
    relevant: float | None = option("X", "Smallest rating of a relevant item. Default: every rated item.")
    items: Path | None = option("TABLE", "Table of items. Default: the items saved with the model.")


@command
def evaluate(
    data: Data,
    scores: Annotated[
        Path, typer.Argument(metavar="SCORES", help="A saved model, a file with one score per row, or a TREC run.")
    ],
    how: Measuring,
    rows: ModelRows,
    logged: ClickMeasuring,
    lists: ListOptions,
    columns: RatingColumns,
    json: bool = JSON,
) -> None:
    """Measure how well a model, scores or a TREC run rank data.

    DATA may be TREC judgments (topic, iteration, document, grade). SCORES is then a TREC run (topic Q0 document rank
    score tag). A run can also be measured on data with document ids. DATA and a model may be given in either order.
    With a file as --features, DATA is a click log, and the value of a model is estimated from its clicks. For a
    personal model DATA holds test ratings. The order of the items that each user rated is measured, or with --top the
    lists over all items that the user had not rated.

    Example: hingerank evaluate test.txt model/

    Example: hingerank evaluate test.txt scores.txt --measure ndcg@10 --measure map --preset letor4

    Example: hingerank evaluate qrels.txt run.txt --measure ndcg@10 --preset trec

    Example: hingerank evaluate --diversity qrels.txt run.txt --measure alpha-ndcg@20

    Example: hingerank evaluate test.csv model/ -m pair_accuracy

    Example: hingerank evaluate test.csv model/ --top 10 --relevant 4

    Example: hingerank evaluate log.ndjson model/ --features features.parquet --propensities p.json -m dcg@10
    """
    from hingerank.export.model_file import is_model, load
    from hingerank.lab.trec_evaluation import is_qrels, is_run
    from hingerank.personal.rankers import PersonalRanker

    data, scores = data_and_model(data, scores)
    is_trec = not is_model(scores) and (is_run(scores) or is_qrels(data))
    kind = "lists" if lists.top else "subtopics" if how.diversity else "run" if is_trec else "rows"
    kind = "clicks" if is_log(rows) else kind
    ranker = load(scores) if kind == "rows" and is_model(scores) else None
    kind = "rated" if isinstance(ranker, PersonalRanker) else kind
    check_kind(kind, how, rows, logged, lists, columns)
    if kind == "clicks":
        evaluate_clicks_of(data, scores, rows, logged, how.measures, json)
    elif kind == "lists":
        personal_commands.evaluate_lists(data, scores, lists, columns, json)
    elif kind == "rated":
        personal_commands.evaluate_pairs(data, scores, lists.items, columns, how, json)
    elif kind == "subtopics":
        from hingerank.cli.diversity_commands import evaluate_run

        evaluate_run(data, scores, how.measures, how.per_query, json, how.complete)
    elif kind == "run":
        _evaluate_run(data, scores, how, rows, json)
    else:
        _evaluate_rows(data, scores, ranker, how, rows, json)


def _evaluate_rows(data: Path, scores: Path, ranker: object, how: Measuring, rows: ModelRows, json: bool) -> None:
    from hingerank.data.letor import read_scores
    from hingerank.metrics import evaluate as measure_ranking
    from hingerank.rankers.base import BaseRanker

    if ranker is not None and not isinstance(ranker, BaseRanker):
        raise ValueError(f"{scores} is a {type(ranker).__name__}, which does not score rows: use hingerank rerank")
    if ranker is not None:
        found, given = scored(ranker, scores, data, rows, graded=True)
    elif scores.is_dir():
        raise ValueError(f"{scores} is a folder without a model: name a model, or a file of scores")
    else:
        found, given = open_data(data, rows), read_scores(scores)
        if len(given) != found.n_rows:
            n, expected = f"{len(given):,} scores", f"one for each of the {found.n_rows:,} rows of {data}"
            raise ValueError(f"{scores} has {n}, expected {expected}, in the same order")
    names, queries = how.measures or ["ndcg@10", "map"], found.blocks.ids.tolist()
    measured = partial(measure_ranking, found.y, given, found.qid, names, preset=how.preset, docid=found.docid)
    means, values = measured(), measured(per_query=True) if how.per_query else {}
    title = f"{found.n_queries:,} queries, {found.n_rows:,} rows"
    counts = {"queries": len(queries), "rows": found.n_rows}
    _print_measures(title, counts, means, "query", queries, values, how, json)


def _evaluate_run(data: Path, run: Path, how: Measuring, rows: Rows, json: bool) -> None:
    """Measure a TREC run with judgments, or with data that has document ids."""
    from hingerank.diversity.trec import read_run
    from hingerank.lab.trec_evaluation import as_grades, evaluate_run, is_qrels

    names = how.measures or ["ndcg@10", "map"]
    judged = as_grades(data if is_qrels(data) else open_data(data, rows))
    ranked = read_run(run, "trec")
    by_topic = evaluate_run(judged, ranked, names, True, preset=how.preset, complete=how.complete)
    means = evaluate_run(judged, ranked, names, preset=how.preset, complete=how.complete)
    topics = list(next(iter(by_topic.values())))
    values = {name: list(found.values()) for name, found in by_topic.items()}
    title = f"{len(judged.keys() & ranked.keys()):,} of {len(judged):,} judged topics are in {run.name}"
    title += ", the others count as 0" if how.complete else ""
    counts = {"topics": len(topics), "judged": len(judged)}
    _print_measures(title, counts, means, "topic", topics, values, how, json)


def _print_measures(
    title: str, counts: dict[str, int], means: Any, word: str, queries: list, values: Any, how: Measuring, json: bool
) -> None:
    """Print the means, and with --per-query also the values of each query or topic."""
    title += f", preset {how.preset}" if how.preset else ""
    if json:
        found: dict[str, object] = {**counts, "preset": how.preset, "means": means}
        print_json(found | ({"per_query": {"qid": queries, **values}} if how.per_query else {}))
    elif how.per_query:
        each = [[str(query), *(values[name][q] for name in means)] for q, query in enumerate(queries)]
        print_table(title, [word, *means], [*each, ["mean", *means.values()]])
    else:
        print_table(title, ["measure", "mean"], [[name, value] for name, value in means.items()])
