"""Topics for diversification under the protocol of all comparisons.

A topic is a query, and its rows are its candidates with their features; the grade of a candidate is the number of
subtopics that it serves. So rankers of rows take part as they are, and their scores can be the first stage of a
reranker. Rerankers get the topics themselves (`TopicRows.topics`), with distances, aspects and words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from hingerank.arrays import ArrayLike
from hingerank.data.checks import list_of, whole
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.diversity.measures import parse_diversity_measure
from hingerank.diversity.queries import DiverseData, DiverseQuery
from hingerank.diversity.relations import unit_scores
from hingerank.metrics.measure import MeasureLike

TOP = 20
IN_PAPERS = ("alpha-ndcg@20", "err-ia@20")
UNMEASURED = "topics without judgments or candidates, left out"


@runtime_checkable
class Reranker(Protocol):
    """A ranker of topics, of ``hingerank.diversity`` or your own. `rerank` gives row numbers, best first."""

    def fit(self, queries: object) -> object: ...

    def rerank(self, query: object, top: int) -> ArrayLike: ...


@dataclass(frozen=True, eq=False, repr=False)
class TopicRows(RankingData):
    """The candidates of topics as rows, and the topics themselves.

    Attributes
    ----------
    topics : one DiverseQuery for each query of the rows, in their order
    top : how many documents a reranker chooses; the others follow by `relevance`, or as they came
    gaps : what is missing, counted: that of the DiverseData, and topics without judgments or candidates, which are
        left out
    """

    topics: Sequence[DiverseQuery] = ()
    top: int = TOP
    gaps: Mapping[str, int] = field(default_factory=dict)

    def take(self, rows: ArrayLike) -> "TopicRows":
        """Whole topics by their rows."""
        known = {query.qid: query for query in self.topics}
        chosen = [known[qid] for qid in dict.fromkeys(self.qid[np.asarray(rows, np.int64)].tolist())]
        if sum(query.n for query in chosen) != np.size(rows):
            raise DataError("topics must stay whole: the rows of a reranker's query cannot be split")
        return topic_rows(chosen, self.top, self.feature_names, self.gaps)


def topic_rows(
    topics: Iterable[DiverseQuery],
    top: int = TOP,
    feature_names: Sequence[str] | None = None,
    gaps: Mapping[str, int] | None = None,
) -> TopicRows:
    """The candidates of topics as rows for `compare`; topics without judgments or candidates are left out and counted.

    Parameters
    ----------
    topics : with judgments and different names
    top : how many documents a reranker chooses
    feature_names : one per feature
    gaps : counts of what is missing, by default those of DiverseData

    Examples
    --------
    >>> from hingerank.diversity.generate import make_diverse
    >>> topic_rows(make_diverse(3, 20, seed=1))
    TopicRows(3 queries, 60 rows, 10 features, float64)
    """
    given, top = list_of("topics", topics, "DiverseQuery"), whole("top", top)
    if isinstance(topics, DiverseData):
        feature_names, gaps = feature_names or topics.feature_names, topics.gaps if gaps is None else gaps
    kept = [q for q in given if q.judgments is not None and (q.judgments.shape[1] or q.judged is not None)]
    if not kept:
        raise DataError(f"none of the {len(given)} topics has judgments of subtopics: give the queries judgments")
    names = [query.qid for query in kept]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"two topics are called {twice!r}: give each query its own qid")
    kept = [query for query in kept if query.n]
    if not kept:
        raise DataError("no topic has candidates")
    return TopicRows(
        X=np.concatenate([query.X for query in kept]),
        y=np.concatenate([(query.judgments > 0).sum(axis=1).astype(np.float64) for query in kept]),
        qid=np.repeat(np.array([query.qid for query in kept], object), [query.n for query in kept]),
        docid=np.concatenate([np.array([str(docid) for docid in query.docids], object) for query in kept]),
        feature_names=feature_names,
        topics=kept,
        top=top,
        gaps={**(gaps or {}), **({UNMEASURED: len(given) - len(kept)} if len(kept) < len(given) else {})},
    )


def join_topics(parts: Sequence[TopicRows]) -> TopicRows:
    """All topics, one part after the other."""
    gaps = {name: count for part in parts for name, count in part.gaps.items()}
    return topic_rows([topic for part in parts for topic in part.topics], parts[0].top, parts[0].feature_names, gaps)


def is_diversity_measure(measure: MeasureLike) -> bool:
    """Whether a measure is one of subtopics, such as "alpha-ndcg@20"."""
    try:
        parse_diversity_measure(measure)
    except ValueError:
        return False
    return isinstance(measure, str)


def with_scores(data: TopicRows, scores: np.ndarray) -> TopicRows:
    """The topics with a first ranker's scores: as `relevance`, as one more feature, and as a factor of the aspects.

    Scores are brought to [0, 1] in each topic. P(d | a) counts more in relevant documents.
    """
    changed = []
    for query, own in zip(data.topics, np.split(scores, np.cumsum([query.n for query in data.topics])[:-1])):
        s = unit_scores(own)
        aspects = None if query.aspects is None else query.aspects * s[:, None]
        changed.append(query.with_parts(relevance=s, X=np.column_stack((query.X, s)), aspects=aspects))
    names = None if data.feature_names is None else [*data.feature_names, "first stage"]
    return topic_rows(changed, data.top, names, data.gaps)
