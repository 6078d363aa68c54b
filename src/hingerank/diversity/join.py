"""Join a run with features, judgments and aspects of its documents: the files of a TREC experiment as DiverseData."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.diversity.aspects import aspects_from_clusters, unit_scores
from hingerank.diversity.queries import DiverseData, DiverseQuery
from hingerank.diversity.relations import Relation, Relations, cosine_relation, euclidean_relation
from hingerank.diversity.trec import as_qrels, as_run, read_fields

FEATURE_RELATIONS = {"cosine": cosine_relation, "euclidean": euclidean_relation}
Aspects = dict[str, dict[str, dict[str, float]]]  # topic -> aspect -> document -> P(document | aspect)


def read_aspects(path: Any) -> Aspects:
    """Lines `topic aspect document probability`; documents that an aspect does not name have probability 0 in it."""
    aspects: Aspects = {}
    for line, (topic, aspect, docid, text) in read_fields(path, 4, "topic aspect document probability"):
        try:
            probability = float(text)
        except ValueError:
            probability = np.nan
        if not 0 <= probability <= 1:
            raise DataError(f"{path}, line {line}: the probability is {text!r}, expected a number in [0, 1]")
        documents = aspects.setdefault(topic, {}).setdefault(aspect, {})
        if docid in documents:
            raise DataError(f"{path}, line {line}: document {docid} is there twice for aspect {aspect}")
        documents[docid] = probability
    return aspects


def join_run(
    run: Any,
    features: Any = None,
    qrels: Any = None,
    aspects: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None,
    relations: Sequence[str] = ("cosine", "euclidean"),
    clusters: int | None = None,
    depth: int | None = None,
) -> DiverseData:
    """One `DiverseQuery` for each topic of the run, its candidates in the run's order.

    run: a path or anything else that `as_run` takes; scores, brought to [0, 1] in every topic, become `relevance`.
    features: RankingData with document ids, or {topic: {document: vector}}; they become `X`, and distances between them
        `relations` ("cosine", "euclidean"; () for none). A document of the run without features is an error.
    qrels: subtopic judgments, as `as_qrels` takes them; a topic without any is an error.
    aspects: as `read_aspects` gives them; a topic without any is an error.
    clusters: so many clusters of a topic's features become its aspects, instead of `aspects`.
    depth: use only the first so many documents of each topic.

    >>> data = join_run({"7": ["a", "b"]}, {"7": {"a": [1.0, 0.0], "b": [0.5, 0.5]}}, [("7", "1", "b", 1)])
    >>> data[0].qid, data[0].relevance.tolist(), data[0].judgments.tolist(), data.relation_names
    ('7', [1.0, 0.0], [[0.0], [1.0]], ('cosine', 'euclidean'))
    """
    unknown = [name for name in relations if name not in FEATURE_RELATIONS]
    if unknown:
        raise ValueError(f"there is no relation {unknown[0]!r} of features; known: {', '.join(FEATURE_RELATIONS)}")
    if clusters is not None and (features is None or aspects is not None):
        raise ValueError("clusters of the features become aspects: give features, and no other aspects")
    vectors = _by_document(features) if isinstance(features, RankingData) else features
    judged = None if qrels is None else as_qrels(qrels)
    queries = []
    for topic, ranked in as_run(run).items():
        docids = ranked.docids[:depth]
        parts: dict[str, Any] = {"relevance": unit_scores(ranked.scores[:depth]), "docids": docids, "qid": topic}
        X = np.zeros((len(docids), 0)) if vectors is None else _feature_rows(vectors, topic, docids)
        if vectors is not None and relations:
            parts["relations"] = Relations([_feature_relation(name, X) for name in relations])
        if judged is not None:
            parts["judgments"] = _of_topic(judged, topic, "judgments").select(docids)
        if aspects is not None:
            named = _of_topic(aspects, topic, "aspects").values()
            parts["aspects"] = np.array([[documents.get(docid, 0.0) for documents in named] for docid in docids])
        if clusters is not None:
            parts["aspects"] = aspects_from_clusters(X, clusters)
        queries.append(DiverseQuery(X, **parts))
    return DiverseData(queries, getattr(features, "feature_names", None))


def _feature_relation(name: str, X: np.ndarray) -> Relation:
    return FEATURE_RELATIONS[name](X)


def _by_document(data: RankingData) -> dict[str, dict[str, np.ndarray]]:
    if data.docid is None:
        raise DataError("the features have no document ids, so they cannot be joined with a run: add `# docid = …`")
    vectors: dict[str, dict[str, np.ndarray]] = {}
    for row, (topic, docid) in enumerate(zip(data.qid, data.docid)):
        documents = vectors.setdefault(str(topic), {})
        if str(docid) in documents:
            raise DataError(f"the features have document {docid} twice in topic {topic}")
        x = data.X[row]
        documents[str(docid)] = x.toarray().ravel() if hasattr(x, "toarray") else x
    return vectors


def _feature_rows(vectors: Any, topic: str, docids: list[str]) -> np.ndarray:
    documents = _of_topic(vectors, topic, "features")
    lacking = [docid for docid in docids if docid not in documents]
    if lacking:
        raise DataError(
            f"{len(lacking)} of {len(docids)} documents of topic {topic} have no features, {lacking[0]} among them: "
            "leave them out of the run, or use a smaller depth"
        )
    rows = np.array([documents[docid] for docid in docids], np.float64)
    if not np.isfinite(rows).all():
        i, j = np.argwhere(~np.isfinite(rows))[0]
        raise DataError(
            f"feature {j + 1} of document {docids[i]} in topic {topic} is {rows[i, j]}: replace missing values before"
        )
    return rows


def _of_topic(table: Mapping[str, Any], topic: str, what: str) -> Any:
    if topic not in table:
        raise DataError(f"topic {topic} of the run has no {what}: leave it out of the run or add them")
    return table[topic]
