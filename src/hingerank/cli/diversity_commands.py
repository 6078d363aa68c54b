"""`rerank`, and `evaluate --diversity`: TREC runs in and out."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from hingerank.cli.output import Missing, make_ranker, print_json, print_table, read_setting, working

MEASURES = ("alpha-ndcg@20", "err-ia@20", "nrbp", "strec@20", "p-ia@20", "map-ia")
KEPT = {"documents": "kept at the end of their topic's ranking", "topics": "kept, those without aspects by relevance"}
Incomplete = Annotated[
    str,
    typer.Option(
        metavar="error|keep|skip",
        help="Documents without features or text and topics without aspects or judgments: refuse them, keep them "
        "(documents at the end of the ranking), or leave them out.",
    ),
]
OPTIONS = {"relations": "--features", "aspects": "--aspects, or --clusters with --features", "words": "--texts"}


def rerank(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="TREC run: topic Q0 document rank score tag.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="RUN", help="The reranked TREC run to write.")
    ] = None,
    method: Annotated[str, typer.Option(help="mmr, xquad, pm2, r-ltr, pamm, svm-div or struct-svm-div.")] = "mmr",
    model: Annotated[Path | None, typer.Option(help="A saved model to use instead of --method.")] = None,
    features: Annotated[
        Path | None, typer.Option(help="LETOR data with document ids: features and the distances between documents.")
    ] = None,
    aspects: Annotated[Path | None, typer.Option(help="Lines: topic aspect document probability.")] = None,
    texts: Annotated[
        Path | None, typer.Option(help="Lines: document, a tab, its text; svm-div covers its words.")
    ] = None,
    clusters: Annotated[
        int | None, typer.Option(min=1, help="Take so many clusters of a topic's features as its aspects.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option("--fit", metavar="QRELS", help="Learn from these subtopic judgments of the run.")
    ] = None,
    save: Annotated[str | None, typer.Option(metavar="PATH", help="Where the learned model goes.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any parameter of the method.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Documents to choose for each topic.")] = 20,
    depth: Annotated[int | None, typer.Option(min=1, help="Choose among the first so many documents only.")] = None,
    order: Annotated[str, typer.Option(help="How RUN is sorted: score, trec or rank.")] = "score",
    tag: Annotated[str, typer.Option(help="Last column of the output.")] = "hingerank",
    missing: Missing = "error",
    incomplete: Incomplete = "error",
) -> None:
    """Diversify a TREC run: choose documents one after the other, each for what those before it leave open.

    Example: hingerank rerank run.txt --method xquad --aspects suggestions.txt --set lam=0.6 -o diverse.txt

    Learned methods take two steps: rerank TRAIN_RUN --method pamm --features train.txt --fit QRELS --save model, then
    rerank RUN --model model --features test.txt -o diverse.txt.
    """
    from hingerank.cli.files import open_data
    from hingerank.diversity.trec import read_run, write_run

    ranker, about = _ranker(method, model, settings or [])
    if output is None and save is None:
        raise ValueError("nothing to do: name the run to write with --output, or the model to write with --save")
    if (qrels is None) != (save is None):
        raise ValueError("--fit and --save go together: learn from judgments, then keep the model")
    if qrels is None and not ranker.__sklearn_is_fitted__():
        raise ValueError(
            f"{method} learns from judgments: make a model with --fit QRELS --save MODEL, then --model MODEL"
        )
    weights = getattr(ranker, "coef_", None)  # of a model that learnt
    width = len(weights) if weights is not None and len(weights) else None
    rows = None if features is None else open_data(features, missing, width, index_base=about.get("index_base"))
    data = join_files(read_run(run, order), rows, qrels, aspects, texts, clusters, depth, incomplete)
    _check_parts(ranker, data)
    if qrels is not None:
        with working(f"fitting {method}"):
            ranker.fit(data)
        topics = [query.qid for query in data if query.judgments.any()]
        saved = ranker.save(save, {"index_base": None if rows is None else rows.index_base, "topics": topics})
        print_table("fitted", ["", ""], [["method", method], ["topics", len(data)], ["saved", saved]])
    if output is not None:
        _say_what_was_seen(data, about if qrels is None else {"topics": topics})
        with working("reranking"):
            write_run(output, ranker.rerank_run(data, top), tag)


def join_files(
    run: Any,
    rows: Any,
    qrels: Path | None,
    aspects: Path | None,
    texts: Path | None,
    clusters: int | None,
    depth: int | None,
    incomplete: str,
) -> Any:
    """The topics of a run with what the files say of them; a warning counts what is missing."""
    from hingerank.cli.files import in_command_words
    from hingerank.diversity.queries import join_run, read_aspects, read_texts

    with in_command_words():
        data = join_run(
            run,
            rows,
            None if qrels is None else str(qrels),
            None if aspects is None else read_aspects(aspects),
            clusters=clusters,
            depth=depth,
            texts=None if texts is None else read_texts(texts),
            incomplete=incomplete,
        )
    for what, count in data.gaps.items():
        fate = KEPT[what.split()[0]] if incomplete == "keep" else "left out"
        warnings.warn(f"{count} {what}: {fate}", stacklevel=2)
    return data


def _say_what_was_seen(data: Any, about: dict[str, Any]) -> None:
    """A ranker looks better than it is on the topics that it learned from: say so."""
    seen = set(about.get("topics") or []) & {query.qid for query in data}
    if seen:
        warnings.warn(
            f"the model learned from {len(seen)} of these {len(data)} topics: measures of this run are of training, "
            "not of test; hingerank compare keeps the two apart",
            stacklevel=2,
        )


def _check_parts(ranker: Any, queries: Any) -> None:
    """Name the option that gives what the method needs and the run alone has not."""
    for part, options in OPTIONS.items():
        if part in ranker._needs and any(getattr(query, part) is None for query in queries):
            raise ValueError(f"the run has no {part}, which {type(ranker).__name__} needs: give {options}")


def _ranker(method: str, model: Path | None, settings: list[str]) -> tuple[Any, dict[str, Any]]:
    """The ranker, and what was noted with a saved one."""
    from hingerank.diversity.selection import DiverseRanker
    from hingerank.registry import ranker_class, registered_name

    if model is not None:
        from hingerank.export.model_file import load, read_header

        ranker = load(model)
        if not isinstance(ranker, DiverseRanker):
            raise ValueError(f"{model} is a {type(ranker).__name__}: it scores rows, use hingerank rank")
        return ranker, read_header(model)["metadata"]
    cls = ranker_class(registered_name(method))
    if not issubclass(cls, DiverseRanker):
        raise ValueError(f"{method} does not diversify: use mmr, xquad, pm2, r-ltr, pamm or struct-svm-div")
    return make_ranker(cls, method, dict(map(read_setting, settings))), {}


def evaluate_run(
    qrels: Path, run: Path, measures: list[str] | None, per_query: bool, json: bool, complete: bool = False
) -> None:
    """What `evaluate --diversity QRELS RUN` prints: means over the judged topics of the run, or the values of each."""
    import numpy as np

    from hingerank.diversity.measures import evaluate_diversity
    from hingerank.diversity.trec import read_diversity_qrels, read_run

    judged, ranked = read_diversity_qrels(qrels), read_run(run)
    values = evaluate_diversity(judged, ranked, measures or MEASURES, per_query=True, complete=complete)
    means = {name: float(np.mean(list(by_topic.values()))) for name, by_topic in values.items()}
    names, topics = list(values), list(next(iter(values.values())))
    both = len(judged.keys() & ranked.keys())
    left_out = {"run": len(ranked) - both, "judgments": len(judged) - both}
    if json:
        counts = {"topics": len(topics), "topics_only_in": left_out}
        print_json({**counts, "means": means} | ({"per_query": values} if per_query else {}))
        return
    title = f"{both} topics of {run.name} with judgments"
    if left_out["run"]:
        title += f"; {left_out['run']} without are left out"
    if left_out["judgments"]:
        title += f"; {left_out['judgments']} judged topics are not in the run" + (" and count as 0" if complete else "")
    if per_query:
        rows = [[topic, *(values[name][topic] for name in names)] for topic in topics]
        print_table(title, ["topic", *names], [*rows, ["mean", *means.values()]])
    else:
        print_table(title, ["measure", "mean"], [[name, means[name]] for name in names])
