"""`fit`, `rank` and `evaluate`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hingerank.cli import personal_commands
from hingerank.cli.output import (
    Data,
    Features,
    Json,
    Label,
    Missing,
    OneQuery,
    Pad,
    Qid,
    make_ranker,
    print_json,
    print_table,
    read_setting,
    working,
    writing,
)
from hingerank.cli.personal_commands import ItemColumns, Items


def fit(
    data: Data,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PATH", help="Where the model goes: folder/ or file.safetensors.")
    ],
    model: Annotated[str, typer.Option(help="Which ranker; an unknown name lists them.")] = "rank-svm",
    C: Annotated[float | None, typer.Option("--C", help="Weight of the loss against the structure.")] = None,
    loss: Annotated[str | None, typer.Option(help="Loss of a pair, for example squared_hinge.")] = None,
    tol: Annotated[float | None, typer.Option(help="When to stop: the certificate to reach.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed, for rankers that draw random numbers.")] = None,
    scale: Annotated[str | None, typer.Option(help="Feature scaling, for example query-minmax or standard.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any parameter of the ranker; may be repeated."),
    ] = None,
    validation: Annotated[Path | None, typer.Option(help="Data to score the fitted model on (mean NDCG@10).")] = None,
    missing: Missing = "error",
    label: Label = None,
    qid: Qid = None,
    features: Features = None,
    one_query: OneQuery = False,
    dask: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Fit over a Dask cluster: tcp://HOST:PORT, or local:N for N processes."),
    ] = None,
    parts: Annotated[int | None, typer.Option(min=1, help="With --dask: parts to cut a binary folder into.")] = None,
    items: Items = None,
    clicks: Annotated[bool, typer.Option("--clicks", help="Of ratings only who took what counts.")] = False,
    item_columns: ItemColumns = False,
    half_life: Annotated[
        float | None, typer.Option(metavar="DAYS", help="The age at which a rating counts half.")
    ] = None,
    time: Annotated[
        str, typer.Option(metavar="COLUMN", help="With --half-life: moments of ratings, in seconds or as dates.")
    ] = "timestamp",
    json: Json = False,
) -> None:
    """Fit a ranker to graded data, or a personal ranker to ratings, and save it.

    With --dask DATA is a file, a binary folder or a folder of such files, of which each is a part that a worker holds.

    Example: hingerank fit train.txt --model rank-svm --C 0.01 -o model/

    Example: hingerank fit parts/ --dask local:4 -o model/

    Example: hingerank fit ratings.csv --items items.csv --model personal-rank-svm --half-life 365 -o model/
    """
    from hingerank.cli.files import Columns, check_target, open_data
    from hingerank.lab.methods import not_from_rows
    from hingerank.rankers.base import BaseRanker
    from hingerank.registry import ranker_class, registered_name

    model = registered_name(model)
    asked = {"C": C, "loss": loss, "tol": tol, "random_state": seed, "scale": scale}
    parameters = {name: value for name, value in asked.items() if value is not None}
    for name, value in (read_setting(text) for text in settings or []):
        if name in parameters:
            raise ValueError(f"{name} is given twice: {parameters[name]!r} and {value!r}")
        parameters[name] = value
    personal = personal_commands.is_ratings(data, items)
    if not personal and not issubclass(ranker_class(model), BaseRanker):
        raise ValueError(not_from_rows(model, ranker_class(model)))
    if not personal and (clicks or item_columns or half_life is not None):
        raise ValueError("--clicks, --item-columns and --half-life are for ratings: name their items with --items")
    ranker = make_ranker(ranker_class(model), model, parameters)
    check_target(output, data)
    if personal:
        if isinstance(ranker, BaseRanker):
            raise ValueError(f"{data} is ratings: use a personal ranker, such as --model personal-rank-svm")
        how = personal_commands.RatingOptions(clicks, half_life, time, item_columns)
        _report_fit(model, ranker, personal_commands.fit_ratings(ranker, data, items, output, how), json)
        return
    columns = Columns(label, qid, features, one_query)
    if dask is not None:
        from hingerank.cli.cluster import open_parts

        if validation is not None:
            raise ValueError("--validation is not for data in parts: score the model with `hingerank rank`")
        with open_parts(data, dask, parts, missing, columns) as spread, working(f"fitting {model}"):
            ranker.fit(spread)
        _report_fit(model, ranker, ranker.save(output, {"data": data.name}), json)
        return
    rows, checks = open_data(data, missing=missing, columns=columns), []
    if validation is not None:
        checks = [open_data(validation, missing, rows.n_features, index_base=rows.index_base, columns=columns)]
    try:
        with working(f"fitting {model}"):
            ranker.fit(rows, eval_set=checks)
    except TypeError as error:  # a value of a type that the parameter cannot be
        raise ValueError(f"{model} cannot use {parameters}: {error}") from error
    saved = ranker.save(output, {"data": data.name, "index_base": rows.index_base})
    _report_fit(model, ranker, saved, json)


def _report_fit(name: str, ranker: Any, saved: str, json: bool) -> None:
    certificate = getattr(ranker, "certificate_", None)
    found: dict[str, Any] = {"model": name, "saved": saved, **getattr(ranker, "fingerprint_", {})}
    found.pop("sha256_of_sample", None)
    if certificate is not None:
        found |= {
            "status": certificate.status,
            certificate.kind: certificate.value,
            "iterations": certificate.n_iter,
            "seconds": certificate.seconds,
        }
    kept, scores = getattr(ranker, "selected_features_", None), getattr(ranker, "validation_scores_", None)
    found |= {} if kept is None else {"features kept": len(kept)}
    found |= {"validation ndcg@10": scores[0]} if scores else {}
    if json:
        print_json(found)
    else:
        print_table("fitted", ["", ""], [[key, value] for key, value in found.items()])


def rank(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What `fit` wrote: a folder or a .safetensors file.")],
    data: Data,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; default: stdout.")] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only the best so many rows of each query, best first.")
    ] = None,
    trec_run: Annotated[bool, typer.Option("--trec-run", help="TREC run lines: qid Q0 docid rank score tag.")] = False,
    pad: Pad = False,
    missing: Missing = "error",
    label: Label = None,
    qid: Qid = None,
    features: Features = None,
    one_query: OneQuery = False,
    json: Json = False,
) -> None:
    """Score data with a saved model: one score per line in file order, or the ranked rows of each query.

    With --top the lines are: qid, rank, document id (or row number from 1), score, separated by tabs. In a TREC run
    documents of equal score stand by falling id, as trec_eval ranks them. Of a personal model DATA is a table of users
    and items.

    Example: hingerank rank model/ test.txt -o scores.txt
    """
    from hingerank.cli.files import Columns
    from hingerank.export.model_file import load
    from hingerank.rankers.base import BaseRanker

    ranker = load(model)
    if not isinstance(ranker, BaseRanker):
        personal_commands.rank_pairs(model, data, output, json)
        return
    rows, scores = _scored(ranker, model, data, missing, Columns(label, qid, features, one_query), pad)
    with writing(output) as stream:
        if json:
            print_json([_as_dict(*item) for item in _ranked(rows, scores, top)], stream)
        elif trec_run:
            ranked = _ranked(rows, scores, top, falling_docid=True)
            stream.writelines(line for item in ranked for line in _trec_lines(*item))
        elif top is not None:
            stream.writelines(line for item in _ranked(rows, scores, top) for line in _plain_lines(*item))
        else:
            stream.writelines(f"{score}\n" for score in scores)


def _scored(ranker: Any, model: Path, data: Path, missing: str, columns: Any, pad: bool) -> tuple[Any, Any]:
    """The data, read with the features that the model has, and its scores of them."""
    from hingerank.cli.files import open_data
    from hingerank.export.model_file import read_header

    base = read_header(model)["metadata"].get("index_base")
    rows = open_data(data, missing, ranker.n_features_in_, index_base=base, columns=columns, pad=pad)
    with working("scoring"):
        return rows, ranker.predict(rows)


def _ranked(rows: Any, scores: Any, top: int | None, falling_docid: bool = False) -> Iterator[tuple[Any, list, Any]]:
    """For each query its id, the ids of its best documents (row numbers from 1 where there are none), their scores.

    Rows of equal score stay in row order, or stand by falling document id.
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


def _as_dict(query: Any, documents: list, scores: Any) -> dict[str, Any]:
    return {"qid": query, "documents": documents, "scores": scores}


def _plain_lines(query: Any, documents: list, scores: Any) -> Iterator[str]:
    for place, (document, score) in enumerate(zip(documents, scores, strict=True), 1):
        yield f"{query}\t{place}\t{document}\t{score}\n"


def _trec_lines(query: Any, documents: list, scores: Any) -> Iterator[str]:
    """Scores in all their digits: equal ones stay equal, and every reader orders them by a rule of its own."""
    for place, (document, score) in enumerate(zip(documents, scores.tolist(), strict=True), 1):
        if len(f"{query} {document}".split()) != 2:
            raise ValueError(f"a TREC run cannot hold the ids {query!r} and {document!r}: they must be single words")
        yield f"{query} Q0 {document} {place} {score!r} hingerank\n"


def evaluate(
    data: Data,
    scores: Annotated[
        Path,
        typer.Argument(metavar="SCORES", help="A saved model, one score per line in the order of rows, or a TREC run."),
    ],
    measure: Annotated[
        list[str] | None, typer.Option("--measure", "-m", help="Such as ndcg@10, map, p@5; may be repeated.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Conventions: default, letor3, letor4, mslr, trec, sklearn, lightgbm.")
    ] = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="The values of every query, not only means.")] = False,
    complete: Annotated[
        bool, typer.Option("--complete", help="SCORES is a TREC run: judged topics that it lacks count as 0.")
    ] = False,
    diversity: Annotated[
        bool, typer.Option("--diversity", help="DATA is subtopic judgments and SCORES a TREC run: diversity measures.")
    ] = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="DATA is ratings, SCORES a personal model: judge its lists of so many.")
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option(metavar="RATINGS", help="With --top: training ratings, not to be offered again.")
    ] = None,
    relevant: Annotated[
        float | None, typer.Option(help="With --top: the least rating that makes an item relevant (all are).")
    ] = None,
    items: Items = None,
    pad: Pad = False,
    missing: Missing = "error",
    label: Label = None,
    qid: Qid = None,
    features: Features = None,
    one_query: OneQuery = False,
    json: Json = False,
) -> None:
    """Measure how well a model or scores rank data, or a TREC run its judgments; with --diversity how well it covers
    subtopics.

    DATA may be TREC judgments (topic iteration document grade): then SCORES is a run (topic Q0 document rank score
    tag). A run is also measured against data with document ids.

    Example: hingerank evaluate test.txt model/

    Example: hingerank evaluate test.txt scores.txt --measure ndcg@10 --measure map --preset letor4

    Example: hingerank evaluate qrels.txt run.txt --measure ndcg@10 --preset trec

    Example: hingerank evaluate --diversity qrels.txt run.txt --measure alpha-ndcg@20

    Example: hingerank evaluate test.csv model/ --top 10 --exclude train.csv --relevant 4
    """
    if top is not None:
        personal_commands.evaluate_lists(data, scores, items, exclude, top, relevant, json)
        return
    if diversity:
        from hingerank.cli.diversity_commands import evaluate_run

        if preset is not None:
            raise ValueError("--preset has no meaning for diversity measures, which are ndeval's")
        evaluate_run(data, scores, measure, per_query, json, complete)
        return
    from hingerank.cli.files import Columns, open_data
    from hingerank.data.letor import read_scores
    from hingerank.export.model_file import is_model
    from hingerank.lab.trec_evaluation import is_qrels, is_run
    from hingerank.metrics import evaluate as measure_ranking

    names = measure or ["ndcg@10", "map"]
    columns = Columns(label, qid, features, one_query)
    if is_model(data):
        raise ValueError(f"{data} is a model: give the data first, then the model")
    if scores.is_dir() and not is_model(scores):
        raise ValueError(f"{scores} holds neither a model nor scores")
    if not is_model(scores) and (is_run(scores) or is_qrels(data)):
        _evaluate_run(data, scores, names, preset, per_query, complete, json, missing, columns)
        return
    if complete:
        raise ValueError("--complete is about topics that a TREC run lacks, and SCORES is no run")
    if is_model(scores):
        rows, given = _scored(_graded_model(scores), scores, data, missing, columns, pad)
    else:
        rows, given = open_data(data, missing=missing, columns=columns), read_scores(scores)
    values = measure_ranking(rows.y, given, rows.qid, names, per_query=True, preset=preset, docid=rows.docid)
    means = measure_ranking(rows.y, given, rows.qid, names, preset=preset, docid=rows.docid)
    queries = rows.blocks.ids.tolist()
    if json:
        found: dict[str, Any] = {"queries": len(queries), "rows": rows.n_rows, "preset": preset, "means": means}
        if per_query:
            found["per_query"] = {"qid": queries, **values}
        print_json(found)
    elif per_query:
        each = [[str(query), *(values[name][q] for name in names)] for q, query in enumerate(queries)]
        print_table(_title(rows, preset), ["query", *names], [*each, ["mean", *(means[name] for name in names)]])
    else:
        print_table(_title(rows, preset), ["measure", "mean"], [[name, means[name]] for name in names])


def _graded_model(model: Path) -> Any:
    from hingerank.export.model_file import load
    from hingerank.rankers.base import BaseRanker

    ranker = load(model)
    if not isinstance(ranker, BaseRanker):
        raise ValueError(f"{model} is a {type(ranker).__name__}, which ranks for users: judge its lists with --top 10")
    return ranker


def _evaluate_run(
    data: Path, run: Path, names: list[str], preset: str | None, per_query: bool, complete: bool, json: bool,
    missing: str, columns: Any,
) -> None:  # fmt: skip
    """A TREC run against judgments, or against data with document ids."""
    from hingerank.cli.files import open_data
    from hingerank.diversity.trec import read_run
    from hingerank.lab.trec_evaluation import as_grades, evaluate_run, is_qrels

    judged = as_grades(data if is_qrels(data) else open_data(data, missing=missing, columns=columns))
    ranked = read_run(run, "trec")
    values = evaluate_run(judged, ranked, names, True, preset=preset, complete=complete)
    means = evaluate_run(judged, ranked, names, preset=preset, complete=complete)
    topics = list(next(iter(values.values())))
    if json:
        found: dict[str, Any] = {"topics": len(topics), "judged": len(judged), "preset": preset, "means": means}
        each = {name: list(by_topic.values()) for name, by_topic in values.items()}
        print_json(found | ({"per_query": {"qid": topics, **each}} if per_query else {}))
        return
    title = f"{len(judged.keys() & ranked.keys()):,} of {len(judged):,} judged topics are in {run.name}"
    title += ", the others count as 0" if complete else ""
    title += f", preset {preset}" if preset else ""
    if per_query:
        rows = [[topic, *(values[name][topic] for name in names)] for topic in topics]
        print_table(title, ["topic", *names], [*rows, ["mean", *(means[name] for name in names)]])
    else:
        print_table(title, ["measure", "mean"], [[name, means[name]] for name in names])


def _title(rows: Any, preset: str | None) -> str:
    return f"{rows.n_queries:,} queries, {rows.n_rows:,} rows" + (f", preset {preset}" if preset else "")
