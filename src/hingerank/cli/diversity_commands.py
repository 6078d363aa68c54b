"""The command `rerank`, and `compare --qrels`: topics of a run or of judged documents, and methods that rerank them."""

import inspect
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hingerank.cli.files import load_ranker, open_data
from hingerank.cli.groups import Rows, TopicParts
from hingerank.cli.options import Group, choice, command, option, target
from hingerank.cli.output import Answer, facts, working
from hingerank.cli.settings import make_ranker, read_settings
from hingerank.data.files import DataError

if TYPE_CHECKING:
    from hingerank.data.ranking_data import RankingData
    from hingerank.diversity.queries import DiverseData
    from hingerank.diversity.selection import DiverseRanker
    from hingerank.diversity.trec import RunLike
    from hingerank.lab.methods import Method

KEPT = {
    "documents": "kept at the end of their topic's ranking",
    "topics": "kept; topics without aspects are ranked by relevance",
}
# methods compared by default, with the parts that each needs
USUAL = {
    "mmr": ("relations",),
    "xquad": ("aspects",),
    "pm2": ("aspects",),
    "r-ltr": ("relations",),
    "pamm": ("relations",),
}
FIRST = "listmle"  # the ranker that scores documents if there is no run


class RunParts(TopicParts):
    """The run and data about its documents."""

    features: Path | None = option("DATA", "LETOR data with document ids: features of the documents.")
    missing: str = choice("error|zero|nan", "How to read missing values and NULL.", "error", needs="--features")
    order: str = choice("score|trec|rank", "How RUN is sorted.", "score")


class Diversifying(Group, panel="Method"):
    """A method and its parameters, or a saved model."""

    method: str = option("NAME", "mmr, xquad, pm2, r-ltr, pamm, svm-div or struct-svm-div.", "mmr")
    model: Path | None = option("MODEL", "Saved model to use instead of --method.")
    settings: list[str] | None = option("NAME=VALUE", "Any parameter of the ranker; repeatable.", flag="--set")
    top: int = option("N", "Documents to choose per topic.", 20, min=1, needs="--output")
    qrels: Path | None = option("QRELS", "Learn from these subtopic judgments of RUN.", flag="--fit")


class Reranked(Group, panel="Output"):
    """What `rerank` writes."""

    output: Path | None = target("RUN", "Reranked TREC run to write.", short="-o")
    tag: str = option("TEXT", "Last column of the run written.", "hingerank", needs="--output")
    save: str | None = target("PATH", "Where to save the model that --fit learns.", writes="model")


@command
def rerank(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="TREC run: topic Q0 document rank score tag.")],
    how: Diversifying,
    parts: RunParts,
    out: Reranked,
) -> Answer:
    """Diversify a TREC run: each document adds to those before it.

    Methods that learn take two steps: learn a model from judgments with --fit and --save, then use it with --model.

    Example: hingerank rerank run.txt --method xquad --aspects suggestions.txt --set lam=0.6 -o diverse.txt

    Example: hingerank rerank train-run.txt --method pamm --features train.txt --fit qrels.txt --save model/

    Example: hingerank rerank run.txt --model model/ --features test.txt -o diverse.txt
    """
    from hingerank.diversity.trec import read_run, write_run

    ranker, about = _ranker(how)
    _check_steps(how, out, ranker)
    weights = getattr(ranker, "coef_", None)  # only models that learn have weights
    width = len(weights) if weights is not None and len(weights) else None
    rows = None
    if parts.features is not None:
        rows = open_data(parts.features, Rows(missing=parts.missing), width, index_base=about.get("index_base"))
    data = join_files(read_run(run, parts.order), rows, how.qrels, parts)
    found: dict[str, object] = {"method": how.method if how.model is None else str(how.model), "topics": len(data)}
    topics = about.get("topics") or []
    if out.save is not None:
        with working(f"fitting {how.method}"):
            ranker.fit(data)
        topics = [query.qid for query in data if query.judgments.any()]
        known = {"index_base": None if rows is None else rows.index_base, "topics": topics}
        found["saved"] = ranker.save(out.save, known)
    if out.output is not None:
        seen = set(topics) & {query.qid for query in data}
        if seen:
            warnings.warn(
                f"the model learned from {len(seen)} of these {len(data)} topics: measures of this run are on training "
                "topics, not on test topics; hingerank compare separates the two",
                stacklevel=2,
            )
        with working("reranking"):
            write_run(out.output, ranker.rerank_run(data, how.top), out.tag)
        found["written"] = str(out.output)
    return found, *([] if out.save is None else [facts("fitted", found)])


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


def _ranker(how: Diversifying) -> tuple[Any, dict[str, Any]]:
    """Return the ranker, and the metadata of its file if it was saved."""
    from hingerank.diversity.selection import DiverseRanker
    from hingerank.export.model_file import read_header
    from hingerank.registry import ranker_class, registered_name

    if how.model is not None:
        if how.settings or "--method" in how.given():
            raise ValueError("--method and --set change no saved model: leave them out, or leave out --model")
        return load_ranker(how.model, "topics")[0], read_header(how.model)["metadata"]
    cls = ranker_class(registered_name(how.method))
    if not issubclass(cls, DiverseRanker):
        raise ValueError(
            f"{how.method} does not diversify: use mmr, xquad, pm2, r-ltr, pamm, svm-div or struct-svm-div"
        )
    return make_ranker(cls, how.method, read_settings(how.settings)), {}


# Comparisons.


class Topics(TopicParts, kinds=("topics",)):
    """Data about topics that `compare --qrels` takes besides DATA."""

    qrels: Path | None = option(
        "QRELS",
        "Subtopic judgments. DATA is then a TREC run, whose LETOR data --features names, or LETOR data with "
        "document ids.",
    )
    first: str | None = option(
        "RANKER", f"Ranker whose scores MMR and others start from. Default: none for a run, else {FIRST}."
    )

    def folds(self, data: Path, k: int | None, seed: int, rows: Rows) -> list[Any]:
        """Return folds over the topics, with scores of the first stage if there is one."""
        from hingerank.diversity.trec import read_run
        from hingerank.lab.folds import query_folds
        from hingerank.lab.topics import UNMEASURED
        from hingerank.lab.trec_evaluation import is_run

        run = is_run(data)
        if run:
            found = None if rows.features is None else open_data(Path(rows.features), Rows(missing=rows.missing))
            topics = join_files(read_run(data), found, self.qrels, self)
        else:
            topics = self._of_rows(data, rows)
        folds = query_folds(topics, 5 if k is None else k, seed)
        unmeasured = folds[0].rows.gaps.get(UNMEASURED, 0)  # type: ignore[attr-defined]
        if unmeasured:
            warnings.warn(f"{unmeasured} {UNMEASURED} of the comparison", stacklevel=2)
        first = self.first or ("none" if run else FIRST)
        return folds if first == "none" else _scored(folds, first, seed)

    def _of_rows(self, data: Path, how: Rows) -> "DiverseData":
        """Return the topics of LETOR data with document ids. The order of a file is not used as relevance."""
        from hingerank.data.blocks import as_text

        if how.features is not None:
            raise ValueError(f"{data} is not a TREC run (topic Q0 document rank score tag): --features needs one")
        rows = open_data(data, how)
        if rows.docid is None:
            raise DataError(f"{data} has no document ids to join with judgments: add `# docid = …` to its lines")
        run: dict[str, list[str]] = {}
        for topic, docid in zip(as_text(rows.qid), as_text(rows.docid)):
            run.setdefault(topic, []).append(docid)
        return join_files(run, rows, self.qrels, self).map(lambda query: query.with_parts(relevance=None))


def _scored(folds: list[Any], first: str, seed: int) -> list[Any]:
    from hingerank.lab.comparison import scored_folds
    from hingerank.lab.methods import method_from_name
    from hingerank.lab.topics import Reranker

    method = method_from_name(first)
    if isinstance(method.ranker, Reranker):
        raise ValueError(f"--first {first}: a first stage scores rows; use a ranker such as {FIRST} or rank-svm")
    with working(f"scoring documents with {first}"):
        return scored_folds(folds, method, seed=seed)


def usual_methods(folds: list[Any]) -> str:
    """Return the default methods for which the topics have all parts."""
    topic = folds[0].rows.topics[0]
    able = [name for name, parts in USUAL.items() if all(getattr(topic, part) is not None for part in parts)]
    if not able:
        raise ValueError("a run alone leaves nothing to compare: give --features or --aspects")
    return ",".join(able)


def for_topics(methods: list["Method"], folds: list[Any], measure: str) -> list["Method"]:
    """Check that the topics have what each method needs; methods with a parameter `measure` learn for this measure."""
    from hingerank.diversity.selection import DiverseRanker
    from hingerank.lab.topics import is_diversity_measure
    from hingerank.personal.top_n import Recommends

    topic, found = folds[0].rows.topics[0], []
    for method in methods:
        if isinstance(method.ranker, Recommends):
            raise ValueError(f"{method.name} is for ratings, not for topics")
        topic.need(*getattr(method.ranker, "_needs", ()), to=method.name)
        chosen = {*method.fixed, *getattr(method.search, "space", {})}
        own = inspect.isclass(method.ranker) and issubclass(method.ranker, DiverseRanker)
        learns_for = own and "measure" in inspect.signature(method.ranker).parameters
        if learns_for and "measure" not in chosen and is_diversity_measure(measure):
            method = replace(method, fixed={**method.fixed, "measure": measure})
        found.append(method)
    return found
