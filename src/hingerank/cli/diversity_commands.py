"""The command `rerank`, and `evaluate --diversity`; both work on TREC runs."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hingerank.cli.files import check_target, in_command_words, open_data
from hingerank.cli.groups import Output, Rows, TopicParts
from hingerank.cli.options import Group, choice, command, option, switch, target
from hingerank.cli.output import answer, facts, make_ranker, read_setting, working

if TYPE_CHECKING:
    from hingerank.data.ranking_data import RankingData
    from hingerank.diversity.queries import DiverseData
    from hingerank.diversity.selection import DiverseRanker
    from hingerank.diversity.trec import RunLike

KEPT = {
    "documents": "kept at the end of their topic's ranking",
    "topics": "kept; topics without aspects are ranked by relevance",
}
OPTIONS = {"relations": "--features", "aspects": "--aspects, or --clusters with --features", "words": "--texts"}


class RunParts(TopicParts):
    """The run and data about its documents."""

    features: Path | None = option("DATA", "LETOR data with document ids: features of the documents.")
    missing: str = choice("error|zero|nan", "How to read missing values and NULL.", "error")
    order: str = choice("score|trec|rank", "How RUN is sorted.", "score")


class Diversifying(Group, panel="Method"):
    """A method and its parameters, or a saved model."""

    method: str = option("NAME", "mmr, xquad, pm2, r-ltr, pamm, svm-div or struct-svm-div.", "mmr")
    model: Path | None = option("MODEL", "Saved model to use instead of --method.")
    settings: list[str] | None = option("NAME=VALUE", "Any parameter of the ranker; repeatable.", flag="--set")
    top: int = option("N", "Documents to choose per topic.", 20, min=1)
    qrels: Path | None = option("QRELS", "Learn from these subtopic judgments of RUN.", flag="--fit")


class Reranked(Output):
    """What `rerank` writes."""

    output: Path | None = target("RUN", "Reranked TREC run to write.", short="-o")
    tag: str = option("TEXT", "Last column of the run written.", "hingerank")
    save: str | None = option("PATH", "Where to save the model that --fit learns.")
    force: bool = switch("Replace what is there.")


@command
def rerank(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="TREC run: topic Q0 document rank score tag.")],
    how: Diversifying,
    parts: RunParts,
    out: Reranked,
) -> None:
    """Diversify a TREC run: each document adds to those before it.

    Methods that learn take two steps: learn a model from judgments with --fit and --save, then use it with --model.

    Example: hingerank rerank run.txt --method xquad --aspects suggestions.txt --set lam=0.6 -o diverse.txt

    Example: hingerank rerank train-run.txt --method pamm --features train.txt --fit qrels.txt --save model/

    Example: hingerank rerank run.txt --model model/ --features test.txt -o diverse.txt
    """
    from hingerank.diversity.trec import read_run, write_run

    ranker, about = _ranker(how)
    _check_steps(how, out, ranker)
    if out.save is not None:
        check_target(out.save, run, out.force, "--save")
    weights = getattr(ranker, "coef_", None)  # only models that learn have weights
    width = len(weights) if weights is not None and len(weights) else None
    rows = None
    if parts.features is not None:
        rows = open_data(parts.features, Rows(missing=parts.missing), width, index_base=about.get("index_base"))
    data = join_files(read_run(run, parts.order), rows, how.qrels, parts)
    _check_parts(ranker, data)
    found: dict[str, object] = {"method": how.method if how.model is None else str(how.model), "topics": len(data)}
    topics = about.get("topics") or []
    if out.save is not None:
        with working(f"fitting {how.method}"):
            ranker.fit(data)
        topics = [query.qid for query in data if query.judgments.any()]
        known = {"index_base": None if rows is None else rows.index_base, "topics": topics}
        found["saved"] = ranker.save(out.save, known)
    if out.output is not None:
        _warn_of_training_topics(data, topics)
        with working("reranking"):
            write_run(out.output, ranker.rerank_run(data, how.top), out.tag)
        found["written"] = str(out.output)
    if out.json or out.save is not None:
        answer(out.json, found, facts("fitted", found))


def _check_steps(how: Diversifying, out: Reranked, ranker: "DiverseRanker") -> None:
    if out.output is None and out.save is None:
        raise ValueError("nothing to do: name the run to write with --output, or the model to write with --save")
    if (how.qrels is None) != (out.save is None):
        raise ValueError("--fit and --save go together: give both to learn from judgments and save the model")
    if how.qrels is None and not ranker.__sklearn_is_fitted__():
        raise ValueError(
            f"{how.method} learns from judgments: make a model with --fit QRELS --save MODEL, then --model MODEL"
        )


def join_files(run: "RunLike", rows: "RankingData | None", qrels: Path | None, parts: TopicParts) -> "DiverseData":
    """Return the topics of a run, joined with the contents of the files; warn with counts of what is missing."""
    from hingerank.diversity.queries import join_run, read_aspects, read_texts

    if parts.clusters is not None and (rows is None or parts.aspects is not None):
        raise ValueError("--clusters makes aspects from features: give --features, and not --aspects")
    with in_command_words():
        data = join_run(
            run,
            rows,
            None if qrels is None else str(qrels),
            None if parts.aspects is None else read_aspects(parts.aspects),
            clusters=parts.clusters,
            depth=parts.depth,
            texts=None if parts.texts is None else read_texts(parts.texts),
            incomplete=parts.incomplete,
        )
    for what, count in data.gaps.items():
        fate = KEPT[what.split()[0]] if parts.incomplete == "keep" else "left out"
        warnings.warn(f"{count} {what}: {fate}", stacklevel=2)
    return data


def _warn_of_training_topics(data: "DiverseData", topics: list[str]) -> None:
    """Warn if the run has topics that the model learned from: measures on them are too optimistic."""
    seen = set(topics) & {query.qid for query in data}
    if seen:
        warnings.warn(
            f"the model learned from {len(seen)} of these {len(data)} topics: measures of this run are on training "
            "topics, not on test topics; hingerank compare separates the two",
            stacklevel=2,
        )


def _check_parts(ranker: "DiverseRanker", queries: "DiverseData") -> None:
    """Raise an error if the run lacks a part that the method needs; the message names the option that gives it."""
    for part, options in OPTIONS.items():
        if part in ranker._needs and any(getattr(query, part) is None for query in queries):
            raise ValueError(f"the run has no {part}, which {type(ranker).__name__} needs: give {options}")


def _ranker(how: Diversifying) -> tuple[Any, dict[str, Any]]:
    """Return the ranker, and the metadata of its file if it was saved."""
    from hingerank.diversity.selection import DiverseRanker
    from hingerank.export.model_file import load, read_header
    from hingerank.registry import ranker_class, registered_name

    if how.model is not None:
        if how.settings:
            raise ValueError("--set changes no saved model: give it with --method, where the model is learned")
        ranker = load(how.model)
        if not isinstance(ranker, DiverseRanker):
            raise ValueError(f"{how.model} is a {type(ranker).__name__}: it scores rows, use hingerank rank")
        return ranker, read_header(how.model)["metadata"]
    cls = ranker_class(registered_name(how.method))
    if not issubclass(cls, DiverseRanker):
        raise ValueError(
            f"{how.method} does not diversify: use mmr, xquad, pm2, r-ltr, pamm, svm-div or struct-svm-div"
        )
    return make_ranker(cls, how.method, dict(map(read_setting, how.settings or []))), {}
