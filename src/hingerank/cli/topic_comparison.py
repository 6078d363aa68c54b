"""`compare --qrels`: the topics of a run or of judged documents, and the methods that can take part."""

import inspect
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hingerank.cli.diversity_commands import OPTIONS, join_files

if TYPE_CHECKING:
    from hingerank.lab.methods import Method

# what to compare where nothing is asked for, with the parts that each needs
USUAL = {
    "mmr": ("relations",),
    "xquad": ("aspects",),
    "pm2": ("aspects",),
    "r-ltr": ("relations",),
    "pamm": ("relations",),
}
FIRST = "listmle"  # scores documents where no run does
Qrels = Annotated[
    Path | None,
    typer.Option(
        metavar="QRELS",
        help="DATA are topics to diversify, a TREC run or LETOR data with document ids; these are their subtopic "
        "judgments. --features then names the LETOR data of a run.",
    ),
]
AspectsFile = Annotated[Path | None, typer.Option(help="Topics only. Lines: topic aspect document probability.")]
Texts = Annotated[Path | None, typer.Option(help="Topics only. Lines: document, a tab, its text.")]
Clusters = Annotated[
    int | None, typer.Option(min=1, help="Topics only. Clusters of a topic's features become its aspects.")
]
Depth = Annotated[int | None, typer.Option(min=1, help="Topics only. Use the first N documents of the run.")]
First = Annotated[
    str | None,
    typer.Option(
        metavar="RANKER",
        help=f"Topics only. Ranker whose scores MMR and others start from; default none for a run, else {FIRST}.",
    ),
]


@dataclass(frozen=True)
class TopicFiles:
    """What `compare --qrels` was given beside DATA."""

    qrels: Path | None
    features: str | None = None
    aspects: Path | None = None
    texts: Path | None = None
    clusters: int | None = None
    depth: int | None = None
    incomplete: str = "error"
    first: str | None = None

    def folds(self, data: Path, k: int | None, seed: int, missing: str) -> list[Any] | None:
        """Folds over the topics, scored by the first stage where there is one; None without --qrels."""
        from hingerank.lab.folds import query_folds
        from hingerank.lab.topics import UNMEASURED
        from hingerank.lab.trec_evaluation import is_run

        if self.qrels is None:
            self._check_unused()
            return None
        run = is_run(data)
        topics = self._of_run(data, missing) if run else self._of_rows(data, missing)
        folds = query_folds(topics, 5 if k is None else k, seed)
        unmeasured = folds[0].rows.gaps.get(UNMEASURED, 0)  # type: ignore[attr-defined]
        if unmeasured:
            warnings.warn(f"{unmeasured} {UNMEASURED} of the comparison", stacklevel=2)
        first = self.first or ("none" if run else FIRST)
        return folds if first == "none" else _scored(folds, first, seed)

    def _check_unused(self) -> None:
        """A ValueError for options that say nothing without --qrels."""
        given: dict[str, Any] = {
            "--aspects": self.aspects,
            "--texts": self.texts,
            "--clusters": self.clusters,
            "--depth": self.depth,
        }
        given |= {"--first": self.first, "--incomplete": None if self.incomplete == "error" else self.incomplete}
        lost = [option for option, value in given.items() if value is not None]
        if lost:
            raise ValueError(f"{lost[0]} is for topics: name their subtopic judgments with --qrels")

    def _of_run(self, data: Path, missing: str) -> Any:
        from hingerank.cli.files import open_data
        from hingerank.diversity.trec import read_run

        return self._join(read_run(data), None if self.features is None else open_data(Path(self.features), missing))

    def _of_rows(self, data: Path, missing: str) -> Any:
        """Topics of LETOR data with document ids; the order of a file says nothing of relevance."""
        from hingerank.cli.files import open_data
        from hingerank.data.files import DataError

        if self.features is not None:
            raise ValueError(
                f"{data} is no TREC run (topic Q0 document rank score tag), whose features --features names"
            )
        rows = open_data(data, missing)
        if rows.docid is None:
            raise DataError(f"{data} has no document ids to join with judgments: add `# docid = …` to its lines")
        run: dict[str, list[str]] = {}
        for topic, docid in zip(rows.qid.tolist(), rows.docid.tolist()):
            run.setdefault(str(topic), []).append(str(docid))
        return self._join(run, rows).map(lambda query: query.with_parts(relevance=None))

    def _join(self, run: Any, rows: Any) -> Any:
        return join_files(run, rows, self.qrels, self.aspects, self.texts, self.clusters, self.depth, self.incomplete)


def _scored(folds: list[Any], first: str, seed: int) -> list[Any]:
    from hingerank.cli.output import working
    from hingerank.lab.first_stage import scored_folds
    from hingerank.lab.methods import method_from_name
    from hingerank.lab.topics import Reranker

    method = method_from_name(first)
    if isinstance(method.ranker, Reranker):
        raise ValueError(f"--first {first}: a first stage scores rows; use a ranker such as {FIRST} or rank-svm")
    with working(f"scoring documents with {first}"):
        return scored_folds(folds, method, seed=seed)


def usual_methods(folds: list[Any]) -> str:
    """The methods that the topics have the parts for."""
    topic = folds[0].rows.topics[0]
    able = [name for name, parts in USUAL.items() if all(getattr(topic, part) is not None for part in parts)]
    if not able:
        raise ValueError("topics of a run alone leave nothing to compare: give --features, or --aspects")
    return ",".join(able)


def for_topics(methods: list["Method"], folds: list[Any], measure: str) -> list["Method"]:
    """The methods, if the topics have what each needs; those that learn for a measure learn for the choosing one."""
    from hingerank.diversity.selection import DiverseRanker
    from hingerank.lab.folds import BaselineRows, PersonalRows
    from hingerank.lab.topics import is_diversity_measure

    topic, found = folds[0].rows.topics[0], []
    for method in methods:
        if method.ranker in (PersonalRows, BaselineRows):
            raise ValueError(f"{method.name} is for ratings, not for topics")
        for part in getattr(method.ranker, "_needs", ()):
            if getattr(topic, part) is None:
                options = OPTIONS.get(part, f"a run, or --first {FIRST}")
                raise ValueError(f"the topics have no {part}, which {method.name} needs: give {options}")
        chosen = {*method.fixed, *getattr(method.search, "space", {})}
        own = inspect.isclass(method.ranker) and issubclass(method.ranker, DiverseRanker)
        learns_for = own and "measure" in inspect.signature(method.ranker).parameters
        if learns_for and "measure" not in chosen and is_diversity_measure(measure):
            method = replace(method, fixed={**method.fixed, "measure": measure})
        found.append(method)
    return found
