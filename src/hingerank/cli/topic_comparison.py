"""`compare --qrels`: topics of a run or of judged documents, and the methods that can rerank them."""

import inspect
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hingerank.cli.diversity_commands import OPTIONS, join_files
from hingerank.cli.files import open_data
from hingerank.cli.groups import Rows, TopicParts
from hingerank.cli.options import option
from hingerank.cli.output import working
from hingerank.data.files import DataError

if TYPE_CHECKING:
    from hingerank.diversity.queries import DiverseData
    from hingerank.lab.methods import Method

# methods compared by default, with the parts that each needs
USUAL = {
    "mmr": ("relations",),
    "xquad": ("aspects",),
    "pm2": ("aspects",),
    "r-ltr": ("relations",),
    "pamm": ("relations",),
}
FIRST = "listmle"  # the ranker that scores documents if there is no run


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
        from hingerank.lab.folds import query_folds
        from hingerank.lab.topics import UNMEASURED
        from hingerank.lab.trec_evaluation import is_run

        run = is_run(data)
        topics = self._of_run(data, rows) if run else self._of_rows(data, rows)
        folds = query_folds(topics, 5 if k is None else k, seed)
        unmeasured = folds[0].rows.gaps.get(UNMEASURED, 0)  # type: ignore[attr-defined]
        if unmeasured:
            warnings.warn(f"{unmeasured} {UNMEASURED} of the comparison", stacklevel=2)
        first = self.first or ("none" if run else FIRST)
        return folds if first == "none" else _scored(folds, first, seed)

    def _of_run(self, data: Path, how: Rows) -> "DiverseData":
        from hingerank.diversity.trec import read_run

        rows = None if how.features is None else open_data(Path(how.features), Rows(missing=how.missing))
        return join_files(read_run(data), rows, self.qrels, self)

    def _of_rows(self, data: Path, how: Rows) -> "DiverseData":
        """Return the topics of LETOR data with document ids. The order of a file is not used as relevance."""
        if how.features is not None:
            raise ValueError(f"{data} is not a TREC run (topic Q0 document rank score tag): --features needs one")
        rows = open_data(data, how)
        if rows.docid is None:
            raise DataError(f"{data} has no document ids to join with judgments: add `# docid = …` to its lines")
        run: dict[str, list[str]] = {}
        for topic, docid in zip(rows.qid.tolist(), rows.docid.tolist()):
            run.setdefault(str(topic), []).append(str(docid))
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
    from hingerank.lab.rating_folds import BaselineRows, PersonalRows
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
