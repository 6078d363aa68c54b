"""The command `evaluate`, for each kind of data that it measures."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hingerank.cli.click_commands import ClickMeasuring, is_log, value_of_models
from hingerank.cli.files import data_and_model, load_ranker, open_data, open_for
from hingerank.cli.groups import LOGGED, Data, ListedItems, ModelRows, RatingColumns, Rows
from hingerank.cli.options import Group, check_kind, command, option, switch
from hingerank.cli.output import Answer, Table, facts, note, working
from hingerank.cli.personal_commands import warn_ratings_alone
from hingerank.cli.rating_files import open_model, read_rating_file, rows_of_items, seen_pairs

if TYPE_CHECKING:
    from hingerank.data.ranking_data import RankingData

OF_SUBTOPICS = ("alpha-ndcg@20", "err-ia@20", "nrbp", "strec@20", "p-ia@20", "map-ia")  # measured by default


class Measuring(
    Group,
    panel="Measures",
    kinds=("rows", "run", "judged", "subtopics", "rated"),
    fits={
        "measure": ("rows", "run", "judged", "subtopics", "clicks", "rated"),
        "preset": ("rows", "run", "judged", "rated"),
        "complete": ("run", "judged", "subtopics"),
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

    @property
    def of_preset(self) -> str:
        """What a title says of the preset."""
        return f", preset {self.preset}" if self.preset else ""


class ListOptions(ListedItems, panel="Lists for users", kinds=("lists",), fits={"items": ("lists", "rated")}):
    """How `evaluate` measures the lists of a personal model."""

    top: int | None = option("N", "Judge lists of N items; DATA holds test ratings.", min=1)
    relevant: float | None = option("X", "Smallest rating of a relevant item. Default: every rated item.")


class MeasuredRows(ModelRows):
    """How to read rows for a model, or the features of a click log."""

    features: str | None = LOGGED


@command
def evaluate(
    data: Data,
    scores: Annotated[
        Path, typer.Argument(metavar="SCORES", help="A saved model, a file with one score per row, or a TREC run.")
    ],
    how: Measuring,
    rows: MeasuredRows,
    logged: ClickMeasuring,
    lists: ListOptions,
    columns: RatingColumns,
) -> Answer:
    """Measure how well a model, scores or a TREC run rank data.

    DATA may be TREC judgments (topic, iteration, document, grade). SCORES is then a TREC run (topic Q0 document rank
    score tag). A run can also be measured on data with document ids. DATA and a model may be given in either order.

    If --features names a file, DATA is a click log, and the value of a model is estimated from its clicks. For a
    personal model DATA holds test ratings: the command measures the order of the items that each user rated, or with
    --top lists over all items that the user had not rated.

    Example: hingerank evaluate test.txt model/

    Example: hingerank evaluate test.txt scores.txt --measure ndcg@10 --measure map --preset letor4

    Example: hingerank evaluate qrels.txt run.txt --measure ndcg@10 --preset trec --complete

    Example: hingerank evaluate --diversity qrels.txt run.txt --measure alpha-ndcg@20

    Example: hingerank evaluate test.csv model/ --user-column customer --item-column sku -m pair_accuracy

    Example: hingerank evaluate test.csv model/ --top 10 --relevant 4

    Example: hingerank evaluate log.ndjson model/ --features features.parquet --propensities p.json -m dcg@10
    """
    from hingerank.export.model_file import is_model
    from hingerank.lab.trec_evaluation import is_qrels, is_run

    data, scores = data_and_model(data, scores)
    kind = "lists" if lists.top else "subtopics" if how.diversity else "rows"
    if kind == "rows" and not is_model(scores):
        kind = "judged" if is_qrels(data) else "run" if is_run(scores) else "rows"
    kind = "clicks" if is_log(rows) else kind
    ranker, learned = load_ranker(scores, "rows", "ratings") if kind == "rows" and is_model(scores) else (None, kind)
    kind = "rated" if learned == "ratings" else kind
    check_kind(kind, how, rows, logged, lists, columns)
    if kind in ("run", "judged", "rows", "subtopics") and is_run(data):
        raise ValueError(f"{data} is a TREC run: give the judgments first, as in hingerank evaluate QRELS {data}")
    if kind == "clicks":
        return _by_clicks(data, scores, rows, logged, how.measures)
    if kind == "lists":
        return _lists(data, scores, lists, columns)
    if kind == "rated":
        return _rated(data, scores, lists.items, columns, how)
    if kind == "subtopics":
        return _subtopics(data, scores, how)
    if kind == "rows":
        return _rows(data, scores, ranker, how, rows)
    return _run(data if kind == "judged" else open_data(data, rows), scores, how)


def _means(
    title: str, counts: dict[str, Any], values: dict[str, Any], word: str, ids: list[Any], how: Measuring
) -> Answer:
    """Return the means of values, and with --per-query also the value of each query, topic or user."""
    import numpy as np

    from hingerank.metrics.evaluator import mean_over_queries

    means = {name: mean_over_queries(np.asarray(found)) for name, found in values.items()}
    key, named = ("per_user", "user") if word == "user" else ("per_query", "qid")
    each = {key: {named: ids, **values}} if how.per_query else {}
    return {**counts, "means": means, **each}, _table(title, means, values, word, ids, how)


def _table(title: str, means: dict[str, Any], values: Any, word: str, ids: list[Any], how: Measuring) -> Table:
    """Return means as a table, below the values of each query, topic or user if these are asked for."""
    if not how.per_query:
        return title, ["measure", "mean"], list(means.items())
    each = [[str(one), *(values[name][k] for name in means)] for k, one in enumerate(ids)]
    return title, [word, *means], [*each, ["mean", *means.values()]]


def _rows(data: Path, scores: Path, ranker: Any, how: Measuring, rows: ModelRows) -> Answer:
    from hingerank.data.letor import read_scores
    from hingerank.metrics import evaluate as measure_ranking

    if ranker is not None:
        found = open_for(ranker, scores, data, rows, graded=True)
        with working("scoring"):
            given = ranker.predict(found)
    elif scores.is_dir():
        raise ValueError(f"{scores} is a folder without a model: name a model, or a file of scores")
    elif rows.pad:
        raise ValueError(f"--pad is about the features of a model, and {scores} holds scores: leave it out")
    else:
        found, given = open_data(data, rows), read_scores(scores)
        if len(given) != found.n_rows:
            n, expected = f"{len(given):,} scores", f"one for each of the {found.n_rows:,} rows of {data}"
            raise ValueError(f"{scores} has {n}, expected {expected}, in the same order")
    names, queries = how.measures or ["ndcg@10", "map"], found.blocks.ids.tolist()
    values = measure_ranking(found, given, measures=names, per_query=True, preset=how.preset)
    title = f"{found.n_queries:,} queries, {found.n_rows:,} rows" + how.of_preset
    counts = {"queries": len(queries), "rows": found.n_rows, "preset": how.preset}
    return _means(title, counts, values, "query", queries, how)


def _run(judgments: "Path | RankingData", run: Path, how: Measuring) -> Answer:
    """Measure a TREC run with judgments, or with data that has document ids."""
    from hingerank.diversity.trec import read_run
    from hingerank.lab.trec_evaluation import as_grades, evaluate_run

    names = how.measures or ["ndcg@10", "map"]
    judged = as_grades(judgments)
    ranked = read_run(run, "trec")
    by_topic = evaluate_run(judged, ranked, names, True, preset=how.preset, complete=how.complete)
    topics = list(next(iter(by_topic.values())))
    values = {name: list(found.values()) for name, found in by_topic.items()}
    title = f"{len(judged.keys() & ranked.keys()):,} of {len(judged):,} judged topics are in {run.name}"
    title += (", the others count as 0" if how.complete else "") + how.of_preset
    counts = {"topics": len(topics), "judged": len(judged), "preset": how.preset}
    return _means(title, counts, values, "topic", topics, how)


def _subtopics(qrels: Path, run: Path, how: Measuring) -> Answer:
    """Measure a TREC run by subtopic judgments: means over the judged topics, or values per topic."""
    import numpy as np

    from hingerank.diversity.measures import evaluate_diversity
    from hingerank.diversity.trec import read_diversity_qrels, read_run

    judged, ranked = read_diversity_qrels(qrels), read_run(run)
    by_topic = evaluate_diversity(judged, ranked, how.measures or OF_SUBTOPICS, per_query=True, complete=how.complete)
    means = {name: float(np.mean(list(found.values()))) for name, found in by_topic.items()}
    topics, both = list(next(iter(by_topic.values()))), len(judged.keys() & ranked.keys())
    left_out = {"run": len(ranked) - both, "judgments": len(judged) - both}
    title = f"{both} topics of {run.name} with judgments"
    if left_out["run"]:
        title += f"; {left_out['run']} without are left out"
    if left_out["judgments"]:
        lost = " and count as 0" if how.complete else ""
        title += f"; {left_out['judgments']} judged topics are not in the run{lost}"
    values = {name: list(found.values()) for name, found in by_topic.items()}
    counts = {"topics": len(topics), "topics_only_in": left_out, "means": means}
    each = {"per_query": by_topic} if how.per_query else {}
    return counts | each, _table(title, means, values, "topic", topics, how)


def _rated(data: Path, model: Path, items: Path | None, columns: RatingColumns, how: Measuring) -> Answer:
    """Measure how a personal model orders the items that each user rated."""
    from hingerank.metrics import evaluate as measure_ranking

    ranker, catalogue = open_model(model, items)
    users, rows, ratings = _judged(ranker, catalogue, data, columns)
    names = how.measures or ["pair_accuracy", "ndcg@10"]
    with working("ranking"):
        scores = ranker.predict(users, catalogue.X[rows])
        values = measure_ranking(ratings, scores, users, names, per_query=True, preset=how.preset)
    ids = list(dict.fromkeys(users.tolist()))
    title = f"items that {len(ids):,} users rated, {len(users):,} ratings"
    counts = {"users": len(ids), "ratings": len(users), "preset": how.preset}
    return _means(title, counts, values, "user", ids, how)


def _judged(ranker: Any, catalogue: Any, data: Path, columns: RatingColumns) -> tuple[Any, Any, Any]:
    """Return (users, rows of the catalogue, ratings) of the test ratings whose users and items are in the model."""
    rated = read_rating_file(data, columns, ranker)
    rows = catalogue.places(rated.item_ids)[rated.items]
    known, listed = ranker._index.numbers(rated.users) >= 0, rows >= 0
    if not known.any():
        raise ValueError(f"{data} has no user of the model: its first users are {rated.users[:3].tolist()}")
    if not (known & listed).any():
        rows_of_items(catalogue, rated, data)  # says which item is missing
    if not known.all():
        warnings.warn(f"{(~known).sum()} ratings of users who are not in the model are left out", stacklevel=2)
    if not listed[known].all():
        left = (~listed[known]).sum()
        warnings.warn(f"{left} ratings of items that are not in the catalogue of the model are left out", stacklevel=2)
    both = known & listed
    return rated.users[both], rows[both], rated.ratings[both]


def _lists(data: Path, model: Path, how: Any, columns: RatingColumns) -> Answer:
    """Measure lists over all items that the users had not rated."""
    from hingerank.personal.top_n import OF_LISTS, evaluate_top

    ranker, catalogue = open_model(model, how.items)
    test = _judged(ranker, catalogue, data, columns)
    with working("recommending"):
        hidden = seen_pairs(ranker, catalogue, ranker.users_, how, columns)
        found = evaluate_top(ranker, catalogue.X, test, hidden, top=how.top, relevant=how.relevant)
        beside = _baselines(catalogue, test, hidden, how)
    warn_ratings_alone(ranker)
    columns_shown, lines = found.table()
    tables: list[Table] = [(f"lists of {how.top} out of {len(catalogue.ids):,} items", columns_shown, lines)]
    if beside:
        means = [[name, *other.table()[1][0][2:]] for name, other in {"the model": found, **beside}.items()]
        tables.append(("compared with simple lists", ["", *columns_shown[2:]], means))
    tables.append(facts("all lists together", {name: found.means[name] for name in OF_LISTS if name in found.means}))
    figures = {"top": how.top, "users": len(found.users), "means": found.means, "groups": found.groups}
    return {**figures, "baselines": {name: other.means for name, other in beside.items()}}, *tables


def _baselines(catalogue: Any, test: Any, hidden: Any, how: Any) -> dict[str, Any]:
    """Measure lists of the most popular items, and of items similar to those that a user took.

    The training ratings are those saved with the model and those of --exclude. Each item is identified by its id, even
    if several items have the same features.
    """
    from hingerank.personal.baselines import ItemKNN, Popularity
    from hingerank.personal.item_features import identity_features
    from hingerank.personal.top_n import Recommends, evaluate_top

    taken = hidden
    if taken is None and catalogue.history is not None:
        taken = catalogue.history.pairs
    if taken is None or not len(taken[0]):
        warnings.warn(
            "lists by popularity and similar items are not shown: give the training ratings with --exclude",
            stacklevel=2,
        )
        return {}
    X = identity_features(catalogue.ids)[0]
    fitted: dict[str, Recommends] = {
        "popularity": Popularity().fit(X, *taken),
        "similar items": ItemKNN().fit(X, *taken),
    }
    return {
        name: evaluate_top(other, X, test, hidden, top=how.top, relevant=how.relevant) for name, other in fitted.items()
    }


def _by_clicks(data: Path, model: Path, rows: Rows, how: ClickMeasuring, measures: list[str] | None) -> Answer:
    """Estimate the values of models from the clicks of a log."""
    found, tables = dict[str, object](), list[Table]()
    for measure in measures or ["dcg@10"]:
        values = value_of_models(data, [model, *(how.also or [])], rows, how, measure)[2]
        tables.append((f"{measure} by clicks, {how.estimator}", *values.table()))
        found[measure] = {
            name: {"value": one.value, "interval": list(one.interval), "difference": float(one.difference),
                   "difference_interval": list(one.difference.interval), "logged": float(one.logged),
                   "effective_size": one.effective_size}
            for name, one in values.items()
        }  # fmt: skip
    some = next(iter(values.values()))
    note(f"{some.lists:,.0f} lists of {some.queries:,} queries, {some.clicks:,.0f} clicks; {some.resampled} resampled")
    return {"estimator": how.estimator, "values": found}, *tables
