"""Queries for diversification: candidates, their features and distances, and the subtopics they are relevant to.

`join_run` makes them from the files of a TREC experiment: a run with features, judgments and aspects of its documents.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from hingerank.arrays import ArrayLike, Facts, Matrix
from hingerank.data.blocks import as_text, spelled
from hingerank.data.checks import decimal, one_of, whole
from hingerank.data.files import DataError, PathLike
from hingerank.data.ranking_data import RankingData
from hingerank.data.sparse import plain_csr
from hingerank.diversity.relations import (
    Relation,
    Relations,
    aspects_from_clusters,
    cosine_relation,
    euclidean_relation,
    unit_scores,
)
from hingerank.diversity.trec import QrelsLike, RunLike, TopicJudgments, as_qrels, as_run, read_fields

Aspects = Mapping[str, Mapping[str, Mapping[str, float]]]  # topic -> aspect -> document -> P(document | aspect)
Vectors = Mapping[str, Mapping[str, Sequence[float] | np.ndarray]]  # topic -> document -> features
FEATURE_RELATIONS: dict[str, Callable[[Matrix], Relation]] = {
    "cosine": cosine_relation,
    "euclidean": euclidean_relation,
}


@dataclass(frozen=True, eq=False)
class DiverseQuery:
    """n candidates of one query; every part but the first is optional, and each reranker says which ones it needs.

    Parameters
    ----------
    X : (n, d) array
        Relevance features. Sparse ones are made dense, as are judgments, aspects and vectors.
    relations : Relations, list of Relation, or tensor (n, n, r)
        Distances between candidates.
    judgments : (n, m) array
        Above 0 if the candidate is relevant to the subtopic; needed to learn and to evaluate.
    relevance : (n,) array
        Initial score of every candidate, such as the retrieval score scaled to [0, 1].
    aspects : (n, a) array
        P(d | a), the probability that the candidate answers aspect a.
    aspect_weights : (a,) array
        P(a | q), default equal.
    words : (n, V) sparse matrix
        Word counts of each candidate.
    vectors : (n, v) array
        Vectors that a relation is learned from (``learned_rank`` of RLTR and PAMM), such as embeddings; default X.
    docids : list of str
        Names of the candidates, default their row numbers.
    qid : str
        Name of the query.
    judged : TopicJudgments
        All judged documents of the query, candidates or not, over which measures compute the ideal ranking; default the
        candidates with their judgments.
    rest : list of str
        Documents without any data. They cannot be chosen and follow the candidates, in this order.

    Examples
    --------
    >>> query = DiverseQuery(np.eye(3), relations=np.ones((3, 3, 1)) - np.eye(3)[:, :, None], qid="7")
    >>> query.n, query.n_features, len(query.relations)
    (3, 3, 1)
    """

    X: Matrix
    relations: Any = None
    judgments: Any = None
    relevance: Any = None
    aspects: Any = None
    aspect_weights: Any = None
    words: Any = None
    docids: Any = None
    qid: str = ""
    judged: TopicJudgments | None = None
    rest: Sequence[str] = ()
    vectors: Any = None

    def __post_init__(self) -> None:
        self._put("qid", spelled(self.qid))
        self._put("X", self._numbers("X", self.X, 2))
        for name, dimensions in (("judgments", 2), ("relevance", 1), ("aspects", 2), ("vectors", 2)):
            if getattr(self, name) is not None:
                self._put(name, self._numbers(name, getattr(self, name), dimensions))
        if self.relations is not None:
            given = self.relations
            self._put("relations", given if isinstance(given, Relations) else Relations(given))
            self._check_rows("relations", self.relations.n)
        if self.aspects is not None:
            A, count, weights = self.aspects, self.aspects.shape[1], self.aspect_weights
            if (A < 0).any() or (A > 1).any():
                raise DataError(f"{self._place}: aspects must be probabilities in [0, 1], found {A.min()}…{A.max()}")
            weights = np.full(count, 1.0 / max(1, count)) if weights is None else np.asarray(weights, np.float64)
            if weights.shape != (count,) or not np.isfinite(weights).all() or (weights < 0).any():
                raise DataError(f"{self._place}: aspect_weights must be {count} non-negative numbers, got {weights}")
            self._put("aspect_weights", weights)
        elif self.aspect_weights is not None:
            raise DataError(f"{self._place}: aspect_weights were given without aspects: give both or neither")
        if self.words is not None:
            counts = self.words if sparse.issparse(self.words) else sparse.csr_matrix(self._floats("words", self.words))
            self._put("words", plain_csr(counts))
            self._check_rows("words", self.words.shape[0])
            if not (self.words.data >= 0).all():  # also false for NaN
                raise DataError(f"{self._place}: words must be counts, 0 or more, found {self.words.data.min()}")
        docids = np.arange(self.n)
        if self.docids is not None:
            docids = np.array([spelled(docid) for docid in self.docids], object)
            self._check_rows("docids", len(docids))
            if len(set(docids)) < len(docids):
                twice = Counter(docids.tolist()).most_common(1)[0][0]
                raise DataError(f"{self._place}: document {twice} occurs twice; keep one row for each document")
        self._put("docids", docids)

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    @property
    def representation(self) -> np.ndarray:
        """The vectors, or X if there are none."""
        return np.asarray(self.X if self.vectors is None else self.vectors)

    def __len__(self) -> int:
        return self.n

    @property
    def _place(self) -> str:
        return f"query {self.qid!r}" if self.qid else "a query"

    def _floats(self, name: str, value: Any) -> np.ndarray:
        try:
            return np.ascontiguousarray(value, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{self._place}: {name} must be numbers ({error})") from None

    def _numbers(self, name: str, value: Any, dimensions: int) -> np.ndarray:
        array = self._floats(name, value.toarray() if sparse.issparse(value) else value)
        if array.ndim != dimensions:
            raise DataError(f"{self._place}: {name} has {array.ndim} dimensions, expected {dimensions}")
        if name != "X":
            self._check_rows(name, len(array))
        if not np.isfinite(array).all():
            where = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
            raise DataError(
                f"{self._place}: {name}{list(where)} is {array[where]}; replace missing values first (by 0 or the mean)"
            )
        return array

    def _check_rows(self, name: str, rows: int) -> None:
        if rows != self.n:
            raise DataError(f"{self._place}: {name} has {rows} candidates but X has {self.n}: give the same candidates")

    def need(self, *parts: str, to: str) -> None:
        """Raise a DataError if one of the named parts is missing."""
        for part in parts:
            if getattr(self, part) is None:
                problem = f"{self._place} has no {part}, which {to} needs"
                raise DataError(problem, f"give it as DiverseQuery({part}=…)", part)

    def with_parts(self, **parts: Any) -> "DiverseQuery":
        """Return the same query with some parts replaced."""
        return replace(self, **parts)

    def subset(self, candidates: ArrayLike) -> "DiverseQuery":
        """Return the query with some of its candidates: by row numbers, in this order, or by a boolean mask."""
        given = np.asarray(candidates)
        rows = np.arange(self.n)[given if given.dtype == np.bool_ else given.astype(np.int64)]
        names = ("X", "judgments", "relevance", "aspects", "words", "vectors", "docids")
        parts = {name: getattr(self, name)[rows] for name in names if getattr(self, name) is not None}
        return replace(self, relations=None if self.relations is None else self.relations.subset(rows), **parts)


@dataclass(frozen=True, eq=False)
class DiverseData(Sequence[DiverseQuery]):
    """A list of queries with the same features and relations; slices and index arrays return sub-lists.

    Parameters
    ----------
    queries : list of DiverseQuery
    feature_names : list of str, optional
    gaps : dict, optional
        What `join_run` found missing, such as {"documents without features": 3}.

    Examples
    --------
    >>> data = DiverseData([DiverseQuery(np.eye(2), qid=q) for q in "abc"])
    >>> len(data), [query.qid for query in data[[2, 0]]]
    (3, ['c', 'a'])
    """

    queries: Sequence[DiverseQuery]
    feature_names: Sequence[str] | None = None
    gaps: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        queries = list(self.queries)
        object.__setattr__(self, "queries", queries)
        check_queries(queries)

    @property
    def relation_names(self) -> Sequence[str] | None:
        first = self.queries[0].relations if self.queries else None
        return None if first is None else first.names

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, int | np.integer):
            return self.queries[int(which)]
        return DiverseData([self.queries[int(i)] for i in np.arange(len(self))[which]], self.feature_names)

    def map(self, change: Callable[[DiverseQuery], DiverseQuery]) -> "DiverseData":
        """Return the same data with change(query) for every query."""
        return DiverseData([change(query) for query in self.queries], self.feature_names)


def check_queries(queries: Sequence[DiverseQuery]) -> None:
    """Raise a DataError unless all are DiverseQuery with equal numbers of features and relations and vector lengths."""
    for query in queries:
        if not isinstance(query, DiverseQuery):
            raise DataError(f"expected a list of DiverseQuery, found {type(query).__name__} in it")
    shapes = {(q.n_features, 0 if q.relations is None else len(q.relations)): q.qid for q in queries}
    lengths = {q.representation.shape[1]: q.qid for q in queries}
    for found, what in ((shapes, "(features, relations)"), (lengths, "lengths of vectors")):
        if len(found) > 1:
            (first, a), (second, b) = list(found.items())[:2]
            raise DataError(
                f"queries differ in their {what}: {first} in {a!r} but {second} in {b!r}; "
                "build all queries in the same way"
            )


def read_aspects(path: PathLike) -> Aspects:
    """Read lines `topic aspect document probability`; documents that an aspect does not list have probability 0."""
    aspects: dict[str, dict[str, dict[str, float]]] = {}
    for line, (topic, aspect, docid, text) in read_fields(path, 4, "topic aspect document probability"):
        probability = decimal(text)
        if probability is None or not 0 <= probability <= 1:
            raise DataError(f"{path}, line {line}: the probability is {text!r}, expected a number in [0, 1]")
        documents = aspects.setdefault(topic, {}).setdefault(aspect, {})
        if docid in documents:
            raise DataError(f"{path}, line {line}: document {docid} occurs twice for aspect {aspect}: keep one line")
        documents[docid] = probability
    return aspects


def join_run(
    run: RunLike, features: RankingData | Vectors | None = None, qrels: QrelsLike | None = None,
    aspects: Aspects | None = None, relations: Sequence[str] = ("cosine", "euclidean"), clusters: int | None = None,
    depth: int | None = None, texts: Mapping[str, str] | None = None, incomplete: str = "error",
) -> DiverseData:  # fmt: skip
    """Make one `DiverseQuery` for each topic of the run, with its candidates in the run's order.

    Parameters
    ----------
    run : a path or anything else that `as_run` takes; scores, scaled to [0, 1] in every topic, become `relevance`
    features : RankingData with document ids, or {topic: {document: vector}}; they become `X`
    qrels : subtopic judgments, as `as_qrels` takes them; all of a topic's are kept for the ideal of measures
    aspects : the result of `read_aspects`
    relations : distances between features, "cosine" and "euclidean"; () for none
    clusters : cluster a topic's features into this many aspects, instead of `aspects`
    depth : use only the first `depth` documents of each topic
    texts : {document: its text}, whose words are counted
    incomplete : what to do with documents without features or text, and topics without aspects or judgments
        "error" refuses them. "keep" puts such documents at the end of their topic's ranking, in the run's order; xQuAD
        and PM-2 keep the order by relevance in a topic without aspects, and a topic without judgments is not used for
        training. "skip" leaves such documents and topics out. ``gaps`` of the result counts them.

    Examples
    --------
    >>> data = join_run({"7": ["a", "b"]}, {"7": {"a": [1.0, 0.0], "b": [0.5, 0.5]}}, [("7", "1", "b", 1)])
    >>> data[0].qid, data[0].relevance.tolist(), data[0].judgments.tolist(), data.relation_names
    ('7', [1.0, 0.0], [[0.0], [1.0]], ('cosine', 'euclidean'))
    >>> data = join_run({"7": ["a", "b", "c"]}, {"7": {"a": [1.0], "c": [0.5]}}, incomplete="keep")
    >>> data[0].docids.tolist(), data[0].rest, data.gaps
    (['a', 'c'], ['b'], {'documents without features': 1})
    """
    for name in relations:
        one_of("a relation of features", name, *FEATURE_RELATIONS)
    if clusters is not None and (features is None or aspects is not None):
        raise ValueError("clusters makes aspects from the features: give features, and no other aspects")
    for name, number in (("clusters", clusters), ("depth", depth)):
        if number is not None:
            whole(name, number)
    one_of("incomplete", incomplete, "error", "keep", "skip")
    vectors = _by_document(features) if isinstance(features, RankingData) else features
    judged = None if qrels is None else as_qrels(qrels)
    lengths = (len(row) for rows in (vectors or {}).values() for row in rows.values())
    width = features.n_features if isinstance(features, RankingData) else next(lengths, 0)
    gaps, queries = Counter[str](), []
    for topic, ranked in as_run(run).items():
        known, rest = _known_documents(topic, ranked.docids[:depth], vectors, texts, incomplete, gaps)
        tables = {"judgments": judged, "aspects": aspects}
        lacking = [what for what, table in tables.items() if table is not None and topic not in table]
        if lacking and incomplete == "error":
            raise _incomplete(f"topic {topic} of the run has no {lacking[0]}")
        gaps.update(f"topics without {what}" for what in [*lacking, *([] if known else ["features or texts"])])
        if incomplete == "skip" and (lacking or not known):
            continue
        docids = [ranked.docids[i] for i in known]
        scores = unit_scores(ranked.scores[:depth])[known]
        parts: Facts = {"relevance": scores, "docids": docids, "qid": topic, "rest": rest}
        X = np.zeros((len(docids), width)) if vectors is None else _feature_rows(vectors, topic, docids, width)
        if vectors is not None and relations:
            parts["relations"] = Relations([FEATURE_RELATIONS[name](X) for name in relations])
        if judged is not None:
            here = judged.get(topic)
            parts |= {"judgments": np.zeros((len(docids), 0)) if here is None else here.select(docids), "judged": here}
        if aspects is not None:
            named = aspects.get(topic, {}).values()
            rows = [[documents.get(docid, 0.0) for documents in named] for docid in docids]
            parts["aspects"] = np.array(rows, np.float64).reshape(len(docids), len(named))
        if clusters is not None:
            parts["aspects"] = aspects_from_clusters(X, clusters) if docids else np.zeros((0, 0))
        if texts is not None:
            from sklearn.feature_extraction.text import CountVectorizer

            own = [texts[docid] for docid in docids]
            try:
                parts["words"] = sparse.csr_matrix(CountVectorizer().fit_transform(own), dtype=np.float64)
            except ValueError:  # no words at all
                parts["words"] = sparse.csr_matrix((len(own), 1))
        queries.append(DiverseQuery(X, **parts))
    names = features.feature_names if isinstance(features, RankingData) else None
    return DiverseData(queries, names, dict(gaps))


def _incomplete(problem: str) -> DataError:
    return DataError(problem, 'add them, or pass incomplete="keep" or "skip"', "incomplete")


def _by_document(data: RankingData) -> dict[str, dict[str, np.ndarray]]:
    if data.docid is None:
        raise DataError("the features have no document ids, so they cannot be joined with a run: add `# docid = …`")
    X, vectors = data.X, dict[str, dict[str, np.ndarray]]()
    for row, (topic, docid) in enumerate(zip(as_text(data.qid).tolist(), as_text(data.docid).tolist())):
        documents = vectors.setdefault(topic, {})
        if docid in documents:
            raise DataError(f"the features have document {docid} twice in topic {topic}: keep one row")
        documents[docid] = X[row].toarray().ravel() if sparse.issparse(X) else X[row]
    return vectors


def _known_documents(
    topic: str,
    docids: list[str],
    vectors: Vectors | None,
    texts: Mapping[str, str] | None,
    incomplete: str,
    gaps: Counter[str],
) -> tuple[list[int], list[str]]:
    """Return indices of the documents with all required data, and the documents without it that follow them."""
    tables = {"features": None if vectors is None else vectors.get(topic, {}), "text": texts}
    missing: dict[str, None] = {}
    for what, table in tables.items():
        lacking = [docid for docid in docids if table is not None and docid not in table]
        if lacking and incomplete == "error":
            absent = what == "features" and vectors is not None and topic not in vectors
            count = f"{len(lacking)} of {len(docids)} documents of topic {topic} have no {what}, such as {lacking[0]}"
            raise _incomplete(f"topic {topic} of the run has no features" if absent else count)
        gaps.update({f"documents without {what}": len(lacking)} if lacking else {})
        missing |= dict.fromkeys(lacking)
    known = [i for i, docid in enumerate(docids) if docid not in missing]
    return known, [docid for docid in docids if docid in missing] if incomplete == "keep" else []


def _feature_rows(vectors: Vectors, topic: str, docids: list[str], width: int) -> np.ndarray:
    odd = next((docid for docid in docids if len(vectors[topic][docid]) != width), None)
    if odd is not None:
        found = len(vectors[topic][odd])
        raise DataError(f"document {odd} in topic {topic} has {found} features, others have {width}: give all the same")
    rows = np.array([vectors[topic][docid] for docid in docids], np.float64).reshape(len(docids), width)
    if not np.isfinite(rows).all():
        i, j = np.argwhere(~np.isfinite(rows))[0]
        raise DataError(
            f"feature {j + 1} of document {docids[i]} in topic {topic} is {rows[i, j]}: replace missing values first"
        )
    return rows


def read_texts(path: PathLike) -> dict[str, str]:
    """Read {document: text} from lines of a document, a tab and its text, plain or compressed."""
    from hingerank.data.streams import whole_text

    found: dict[str, str] = {}
    for number, line in enumerate(whole_text(path, ("utf-8-sig", "latin-1")).split("\n"), 1):
        docid, tab, text = line.partition("\t")
        if not line.strip():
            continue
        if not tab:
            raise DataError(f"{path}, line {number}: expected a document, a tab and its text, found {line[:60]!r}")
        if docid in found:
            raise DataError(f"{path}, line {number}: document {docid!r} already has a text: keep one")
        found[docid] = text
    return found
