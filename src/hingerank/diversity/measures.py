"""Measures of diversified rankings, equal to TREC's ndeval.

A document counts once for every subtopic that it is relevant to, less if earlier documents covered that subtopic. With
c_j(t) the number of documents above rank t that are relevant to subtopic j, every measure here is one sum:

    measure = Σ_t Σ_j J[t, j] · weight_j(t, c_j(t)),      J[t, j] = 1 if the document at rank t is relevant to j

    measure       weight_j(t, c)                                m = subtopics with a relevant document
    alpha-dcg@k   (1−α)^c / log₂(t+1) / Z                       Z = Σ_{t≤k} m (1−α)^(t−1) / log₂(t+1)
    err-ia@k      (1−α)^c / t / Z                               Z = Σ_{t≤k} m (1−α)^(t−1) / t
    nrbp          (1−α)^c β^(t−1) (1 − (1−α)β) / m
    strec@k       [c = 0] / m                                   subtopic recall
    p-ia@k        1 / (k m)
    map-ia        (c+1) / t / (m · relevant documents of j)

alpha-ndcg, nerr-ia and nnrbp divide the first three by the value of the greedy ideal ranking of all judged documents.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hingerank.arrays import ArrayLike, Facts
from hingerank.data.checks import fraction
from hingerank.data.files import DataError
from hingerank.diversity.kernels import ideal_prefix
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.trec import QrelsLike, RunLike, TopicJudgments, as_qrels, as_run, judged_topics
from hingerank.metrics.measure import kind_and_cutoff, several


class Kind(NamedTuple):
    """What the name of a measure means."""

    weight: str
    normalized: bool  # divided by the greedy ideal
    cutoff: str


KINDS = {
    "alpha-dcg": Kind("log", False, "required"),
    "alpha-ndcg": Kind("log", True, "required"),
    "err-ia": Kind("reciprocal", False, "required"),
    "nerr-ia": Kind("reciprocal", True, "required"),
    "nrbp": Kind("geometric", False, "none"),
    "nnrbp": Kind("geometric", True, "none"),
    "strec": Kind("recall", False, "required"),
    "p-ia": Kind("precision", False, "required"),
    "map-ia": Kind("average precision", False, "none"),
}


@dataclass(frozen=True)
class DiversityMeasure:
    """One measure of the module's table.

    Attributes
    ----------
    base : its name without the cutoff
    cutoff : None for the whole ranking
    alpha, beta : α and β, for the measures that have them

    Examples
    --------
    >>> measure = parse_diversity_measure("alpha-nDCG@5")
    >>> J = np.array([[1, 0], [1, 0], [0, 1]])
    >>> round(measure(J, [0, 2, 1]), 3), round(measure(J, [1, 0, 2]), 3)
    (1.0, 0.965)
    """

    base: str
    cutoff: int | None = None
    alpha: float = 0.5
    beta: float = 0.5

    def __post_init__(self) -> None:
        fraction("alpha", self.alpha)
        fraction("beta", self.beta)

    @property
    def name(self) -> str:
        return self.base if self.cutoff is None else f"{self.base}@{self.cutoff}"

    @property
    def normalized(self) -> bool:
        """Whether values are divided by the greedy ideal."""
        return KINDS[self.base].normalized

    def weights(self, ranks: int | np.ndarray, counts: np.ndarray, n_relevant: np.ndarray) -> np.ndarray:
        """weight_j(t, c), not divided by the ideal.

        Parameters
        ----------
        ranks : t, from 1; a number or a column
        counts : c, shape (…, m)
        n_relevant : relevant documents of each subtopic; subtopics without any must have been left out
        """
        kind, m = KINDS[self.base].weight, len(n_relevant)
        if kind == "recall":
            return np.where(counts == 0, 1.0 / m, 0.0)
        if kind == "precision":
            return np.full(counts.shape, 1.0 / (self.cutoff * m))  # type: ignore[operator]
        if kind == "average precision":
            return (counts + 1) / (ranks * (m * n_relevant))
        scale = self._discounts(np.asarray(ranks)) / self._largest(m)
        return scale * _powers(1 - self.alpha, int(counts.max(initial=0)))[counts]

    def _discounts(self, ranks: np.ndarray) -> np.ndarray:
        kind = KINDS[self.base].weight
        if kind == "log":
            return np.log(2.0) / np.log(ranks + 1.0)
        return 1.0 / ranks if kind == "reciprocal" else self.beta ** (ranks - 1.0)

    def _largest(self, m: int) -> float:
        """Return Z: the sum for a ranking in which every document is relevant to all m subtopics."""
        if self.cutoff is None:
            rest = 1 - (1 - self.alpha) * self.beta
            return m / rest if rest > 0 else np.inf
        if self.cutoff == 1:
            return 1.0  # like ndeval, which does not normalise at rank 1: values there go up to m
        ranks = np.arange(1, self.cutoff + 1)
        return float((m * _powers(1 - self.alpha, self.cutoff - 1) * self._discounts(ranks)).sum())

    def __call__(self, judgments: ArrayLike, order: ArrayLike, ideal: np.ndarray | None = None) -> float:
        """Return the measure of a ranking.

        Parameters
        ----------
        judgments : documents × subtopics of all judged documents, above 0 if relevant
        order : row numbers of `judgments`, best first, −1 for unjudged documents
        ideal : their `ideal_order`, if already computed
        """
        J = relevant_subtopics(judgments)
        if J.shape[1] == 0:
            return 0.0
        value = self.plain_value(J, np.asarray(order, np.int64))
        if not self.normalized or value == 0:
            return value
        return value / self.plain_value(J, ideal_order(J, self.cutoff, self.alpha) if ideal is None else ideal)

    def plain_value(self, J: np.ndarray, order: np.ndarray) -> float:
        """Return the sum, not divided by the ideal; J comes from `relevant_subtopics`."""
        order = order if self.cutoff is None else order[: self.cutoff]
        ranked = np.where((order >= 0)[:, None], J[order], 0)
        counts = np.cumsum(ranked, axis=0) - ranked
        ranks = np.arange(1, len(order) + 1)[:, None]
        return float((ranked * self.weights(ranks, counts, J.sum(axis=0))).sum())


def parse_diversity_measure(name: object, alpha: float = 0.5, beta: float = 0.5) -> DiversityMeasure:
    """Return the measure with a name such as `alpha-ndcg@20`, `err-ia@10`, `nrbp`, `strec@20`, `p-ia@5` or `map-ia`.

    Case, "-", "_" and spaces are ignored.

    Examples
    --------
    >>> parse_diversity_measure("AlphaNDCG@10").name, parse_diversity_measure("err_ia@5").name
    ('alpha-ndcg@10', 'err-ia@5')
    """
    if isinstance(name, DiversityMeasure):
        return name
    rules = {base: kind.cutoff for base, kind in KINDS.items()}
    return DiversityMeasure(*kind_and_cutoff(str(name), rules, "diversity measure"), alpha, beta)


def relevant_subtopics(judgments: ArrayLike) -> np.ndarray:
    """Return binary judgments (1 if above 0) without the subtopics that have no relevant document."""
    J = (np.asarray(judgments) > 0).astype(np.int64)
    if J.ndim != 2:
        raise DataError(f"judgments have shape {J.shape}, expected documents × subtopics")
    return np.ascontiguousarray(J[:, J.any(axis=0)])


def ideal_order(judgments: ArrayLike, depth: int | None = None, alpha: float = 0.5) -> np.ndarray:
    """Return rows in greedy ideal order: always the document with the largest Σ_j J[i, j](1−α)^c_j, the first of ties.

    Finding the true ideal is NP-hard; TREC's tools use this greedy one. Documents without any gain are left out, as
    they add nothing to any measure. O(depth · documents · subtopics).
    """
    J = relevant_subtopics(judgments)
    return ideal_prefix(J, 1.0 - alpha, len(J) if depth is None else depth)


def _powers(base: float, most: int) -> np.ndarray:
    """base⁰ … base^most by repeated multiplication."""
    return np.cumprod(np.concatenate(([1.0], np.full(most, base))))


def evaluate_diversity(
    qrels: QrelsLike, run: RunLike, measures: Iterable[str] = ("alpha-ndcg@20", "err-ia@20", "nrbp", "strec@20"),
    per_query: bool = False, *, complete: bool = False, alpha: float = 0.5, beta: float = 0.5,
) -> Facts:  # fmt: skip
    """Return the mean of diversity measures over topics, equal to TREC's ndeval; see ``hingerank.diversity.measures``.

    Parameters
    ----------
    qrels : path, Qrels or rows
        A path or the result of ``read_diversity_qrels``, or (topic, subtopic, document, judgment) rows. Judgments of 0
        and below are not relevant; a topic in which nothing is relevant scores 0 everywhere and counts.
    run : path, dict or rows
        {topic: documents best first}, {topic: {document: score}}, or (topic, document, score) rows.
    measures : list of str
        "alpha-ndcg@20", "err-ia@10", "nrbp", "strec@20", "p-ia@5", "map-ia", ...
    per_query : bool, default False
        Return {measure: {topic: value}} instead of means.
    complete : bool, default False
        Count judged topics missing from the run as 0 (ndeval's -c). Otherwise, as in ndeval, the mean is over the
        topics that are in both. Topics of the run without judgments are never counted.
    alpha, beta : float, default 0.5
        α and β of the measures that have them.

    Returns
    -------
    dict
        Maps names in canonical spelling, such as "alpha-ndcg@20", to values.

    Examples
    --------
    >>> qrels = [("7", "1", "a", 1), ("7", "2", "b", 1), ("7", "1", "c", 1)]
    >>> evaluate_diversity(qrels, {"7": ["a", "x", "b"]}, ["strec@2", "strec@3"])
    {'strec@2': 0.5, 'strec@3': 1.0}
    """
    parsed = [parse_diversity_measure(measure, alpha, beta) for measure in several(measures)]
    if not parsed:
        raise ValueError("measures is empty: name at least one, such as 'alpha-ndcg@20'")
    judged, ranked = as_qrels(qrels), as_run(run)
    topics = judged_topics(ranked, judged)
    values: dict[str, dict[str, float]] = {measure.name: {} for measure in parsed}
    for topic in topics:
        for measure, value in zip(parsed, _topic_values(judged[topic], ranked[topic].docids, parsed)):
            values[measure.name][topic] = value
    if complete:
        for topic in judged:
            for by_topic in values.values():
                by_topic.setdefault(topic, 0.0)
    if per_query:
        return values
    return {name: float(np.mean(list(by_topic.values()))) for name, by_topic in values.items()}


def _topic_values(judged: TopicJudgments, docids: list[str], measures: list[DiversityMeasure]) -> list[float]:
    """Return the measures of one topic; its ideal breaks ties towards the larger document id, as ndeval does."""
    rows = np.array(sorted(range(len(judged.docids)), key=judged.docids.__getitem__, reverse=True), np.int64)
    J = relevant_subtopics(judged.judgments[rows])
    place = np.empty(len(rows) + 1, np.int64)
    place[rows], place[-1] = np.arange(len(rows)), -1
    order = place[judged.rows(docids)]
    depths = [measure.cutoff for measure in measures if measure.normalized]
    depth = None if None in depths else max((d for d in depths if d is not None), default=0)
    ideals = {measure.alpha: ideal_order(J, depth, measure.alpha) for measure in measures if measure.normalized}
    return [measure(J, order, ideals.get(measure.alpha)) for measure in measures]


def order_values(query: DiverseQuery, order: ArrayLike, measures: Iterable[object]) -> list[float]:
    """Return measures of a ranking of a query's candidates, given as row numbers, best first, followed by its `rest`.

    The ideal ranking is over all judged documents if the query has them (``judged``), else over its candidates.

    Examples
    --------
    >>> query = DiverseQuery(np.zeros((2, 0)), judgments=[[0], [1]])
    >>> order_values(query, [1, 0], ["alpha-ndcg@20"]), order_values(query, [0, 1], ["strec@1"])
    ([1.0], [0.0])
    """
    parsed = [parse_diversity_measure(measure) for measure in measures]
    if query.judged is None:
        query.need("judgments", to="a measure")
        return [measure(query.judgments, order) for measure in parsed]
    docids = [str(docid) for docid in query.docids[np.asarray(order, np.int64)]]
    return _topic_values(query.judged, [*docids, *query.rest], parsed)
