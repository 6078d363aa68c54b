"""TREC's files for search-result diversification: read subtopic judgments, read and write runs.

Ids of topics, subtopics and documents are strings, as in the files. Files may be compressed (.gz, .xz, .bz2, .zst).
Every error names the file and the line.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from hingerank.arrays import ArrayLike
from hingerank.data.blocks import spelled
from hingerank.data.checks import decimal, one_of, whole_decimal
from hingerank.data.files import DataError, PathLike, replace_file
from hingerank.data.streams import split_lines, whole_text


@dataclass(frozen=True, eq=False)
class RankedList:
    """The documents of one topic, best first, with their scores."""

    docids: list[str]
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.docids)


Run = dict[str, RankedList]
Documents: TypeAlias = RankedList | Mapping[str, float] | Iterable[str]  # ranked, scored, or best first
RunLike: TypeAlias = PathLike | Mapping[str, Documents] | Iterable[tuple[object, object, float]]


@dataclass(eq=False)
class TopicJudgments:
    """Judgments of one topic: judgments[i, j] > 0 means that document docids[i] is relevant to subtopics[j].

    Documents are in order of first appearance. Only subtopics that were ever judged are columns.
    """

    docids: list[str]
    subtopics: list[str]
    judgments: np.ndarray
    _place: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._place = {docid: i for i, docid in enumerate(self.docids)}

    def rows(self, docids: Iterable[str]) -> np.ndarray:
        """Return the row of each document, −1 for documents without a judgment."""
        return np.fromiter((self._place.get(docid, -1) for docid in docids), np.int64)

    def select(self, docids: Sequence[str]) -> np.ndarray:
        """Return one row of judgments for each document; unjudged documents count as judged 0."""
        rows = self.rows(docids)
        return np.where((rows >= 0)[:, None], self.judgments[rows], 0)


Qrels = dict[str, TopicJudgments]
QrelsLike: TypeAlias = PathLike | Mapping[str, TopicJudgments] | Iterable[tuple[object, object, object, int]]


def read_diversity_qrels(path: PathLike) -> Qrels:
    """Read lines `topic subtopic document judgment`, with whole numbers as judgments; 0 and below is not relevant.

    A document judged twice for the same subtopic is an error, since the two judgments may differ.
    """
    rows = []
    for line, (topic, subtopic, docid, text) in read_fields(path, 4, "topic subtopic document judgment"):
        judgment = whole_decimal(text)
        if judgment is None:
            raise DataError(f"{path}, line {line}: judgment is {text[:40]!r}, expected a whole number below 10¹⁸")
        rows.append((topic, subtopic, docid, judgment))
    return group_qrels(rows, str(path))


def group_qrels(rows: Iterable[tuple[object, object, object, int]], source: str = "qrels") -> Qrels:
    """Return judgments by topic from (topic, subtopic, document, judgment) tuples.

    Examples
    --------
    >>> qrels = group_qrels([("7", "1", "a", 1), ("7", "2", "a", 0), ("7", "2", "b", 2)])
    >>> qrels["7"].docids, qrels["7"].subtopics, qrels["7"].judgments.tolist()
    (['a', 'b'], ['1', '2'], [[1, 0], [0, 2]])
    """
    cells: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        topic, subtopic, docid, judgment = _fields(row, "(topic, subtopic, document, judgment)", source)
        judged, subtopic = cells.setdefault(spelled(topic), {}).setdefault(spelled(docid), {}), spelled(subtopic)
        if subtopic in judged:
            raise DataError(f"{source}: topic {topic} judges document {docid} twice for subtopic {subtopic}: keep one")
        if not number(judgment, f"{source}: the judgment of document {docid} in topic {topic}").is_integer():
            raise DataError(f"{source}: topic {topic} judges document {docid} by {judgment}, expected a whole number")
        judged[subtopic] = int(judgment)
    found: Qrels = {}
    for name, documents in cells.items():
        subtopics = sorted({s for judged in documents.values() for s in judged}, key=_natural)
        table = [[judged.get(s, 0) for s in subtopics] for judged in documents.values()]
        found[name] = TopicJudgments(list(documents), subtopics, np.array(table, np.int64))
    return found


def _fields(row: Any, wanted: str, source: str) -> tuple[Any, ...]:
    """The fields of a row of judgments or of a run; a DataError unless they are as many as are `wanted`."""
    fields = tuple(row) if isinstance(row, Iterable) and not isinstance(row, str) else (row,)
    if len(fields) != len(wanted.split(", ")):
        raise DataError(f"{source}: a row is {row!r}, expected {wanted}")
    return fields


def number(value: Any, what: str) -> float:
    """The value as a float, which may be infinite or NaN; a DataError if it is no number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DataError(f"{what} is {value!r}, expected a number") from None


def _natural(name: str) -> tuple[bool, int, str]:
    """Sort key that puts numbers first, by value, and then other names."""
    number = whole_decimal(name)
    return (number is None, number or 0, name)


def read_run(path: PathLike, order: str = "score") -> Run:
    """Read lines `topic Q0 document rank score tag`: the ranked documents of every topic.

    A repeated document in a topic is an error, and so is a repeated rank when sorting by rank.

    Parameters
    ----------
    path : of a run
    order : "score" sorts by decreasing score and breaks ties by increasing document id, as pyndeval and ir_measures do;
        "trec" breaks them by decreasing document id, as trec_eval and ``ndeval -traditional`` do; "rank" sorts by the
        rank column and ignores the scores, as ndeval does by default
    """
    one_of("order", order, "score", "trec", "rank")
    topics: dict[str, dict[str, tuple[int, float, int]]] = {}
    for line, fields in read_fields(path, 6, "topic Q0 document rank score tag"):
        topic, _, docid, rank, score = fields[:5]
        place, value = whole_decimal(rank), decimal(score)
        if place is None or value is None:
            raise DataError(
                f"{path}, line {line}: rank {rank[:40]!r} and score {score[:40]!r} must be a whole number below 10¹⁸ "
                "and a finite number"
            )
        documents = topics.setdefault(topic, {})
        if docid in documents:
            where = f"{path}, line {line}"
            raise DataError(f"{where}: document {docid} was already on line {documents[docid][2]}: keep one of them")
        documents[docid] = (place, value, line)
    return {topic: _ranked(documents, order, f"{path}, topic {topic}") for topic, documents in topics.items()}


def _ranked(documents: dict[str, tuple[int, float, int]], order: str, place: str) -> RankedList:
    if order == "rank":
        docids = sorted(documents, key=lambda docid: documents[docid][0])
        for a, b in pairwise(docids):
            if documents[a][0] == documents[b][0]:
                raise DataError(
                    f"{place}: documents {a} and {b} share rank {documents[a][0]}; read with order='score' instead"
                )
    else:
        bad = next((docid for docid in documents if not np.isfinite(documents[docid][1])), None)
        if bad is not None:
            raise DataError(f"{place}: the score of document {bad} is {documents[bad][1]}, expected a finite number")
        docids = sorted(documents, reverse=order == "trec")
        docids.sort(key=lambda docid: -documents[docid][1])  # stable: equal scores keep the order of their ids
    return RankedList(docids, np.array([documents[docid][1] for docid in docids]))


def as_run(run: RunLike, order: str = "score") -> Run:
    """Make a run from a path, {topic: documents}, {topic: {document: score}}, or (topic, document, score) rows.

    Documents without scores are best first. Documents with scores are ordered as in `read_run`.

    Examples
    --------
    >>> as_run({"7": ["b", "a"]})["7"].docids, as_run([("7", "a", 1.0), ("7", "b", 2.0)])["7"].docids
    (['b', 'a'], ['b', 'a'])
    """
    if isinstance(run, str | os.PathLike):
        return read_run(run, order)
    if isinstance(run, Mapping):
        return {spelled(topic): _as_ranked(documents, order, spelled(topic)) for topic, documents in run.items()}
    if not isinstance(run, Iterable):
        raise DataError(f"a run is a path, {{topic: documents}} or (topic, document, score) rows, not {run!r}")
    rows: dict[str, dict[str, float]] = {}
    for row in run:
        topic, docid, score = _fields(row, "(topic, document, score)", "the run")
        documents, name = rows.setdefault(spelled(topic), {}), spelled(docid)
        if name in documents:
            raise DataError(f"the run has document {docid} twice in topic {topic}: list it once")
        documents[name] = score
    return as_run(rows, order)


def _as_ranked(documents: Documents, order: str, topic: str) -> RankedList:
    if isinstance(documents, RankedList):
        return documents
    if isinstance(documents, Mapping):
        scores = {spelled(docid): number(score, f"the score of document {docid}") for docid, score in documents.items()}
        return _ranked({docid: (0, score, 0) for docid, score in scores.items()}, order, f"topic {topic}")
    if isinstance(documents, str) or not isinstance(documents, Iterable):
        raise DataError(f"topic {topic} of the run is {documents!r}, expected a list of documents")
    docids = [spelled(docid) for docid in documents]
    _check_once(docids, topic)
    return RankedList(docids, np.arange(len(docids), 0, -1, dtype=np.float64))


def _check_once(docids: Sequence[str], topic: str) -> None:
    if len(set(docids)) < len(docids):
        twice = Counter(docids).most_common(1)[0][0]
        raise DataError(f"the run has document {twice} twice in topic {topic}: list it once")


def as_qrels(qrels: QrelsLike) -> Qrels:
    """Make judgments from a path, from `read_diversity_qrels`, or from (topic, subtopic, document, judgment) rows."""
    if isinstance(qrels, str | os.PathLike):
        return read_diversity_qrels(qrels)
    if not isinstance(qrels, Mapping):
        return group_qrels(qrels)
    for topic, judged in qrels.items():
        if not isinstance(judged, TopicJudgments):
            raise DataError(
                f"the judgments of topic {topic} are {type(judged).__name__}, expected those of subtopics, as "
                "read_diversity_qrels reads them; judgments of documents alone are for hingerank.evaluate_run"
            )
    return dict(qrels)


def judged_topics(run: Mapping[str, object], judged: Mapping[str, object]) -> list[str]:
    """The topics of a run that have judgments; a DataError if none has."""
    found = [topic for topic in run if topic in judged]
    if not found:
        some = []
        for names in (list(run), list(judged)):
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            some.append(", ".join(names[:5]) + more or "none")
        raise DataError(f"no topic of the run has judgments: the run has {some[0]}, the judgments are for {some[1]}")
    return found


def write_run(path: PathLike, run: RunLike, tag: str = "hingerank") -> None:
    """Write a run (see `as_run`) as `topic Q0 document rank score tag`, ranks from 1; the whole file or nothing.

    Scores come from `distinct_scores`, so that every tool reads the same order.
    """
    if not tag or tag.split() != [tag]:
        raise ValueError(f"tag is {tag!r}, expected one word")
    given = as_run(run)
    for name in (name for topic, ranked in given.items() for name in (topic, *ranked.docids)):
        if name.split() != [name]:
            raise DataError(f"the run has the id {name!r}: in a TREC run ids have no spaces and are not empty")
    for topic, ranked in given.items():
        _check_once(ranked.docids, topic)
    with replace_file(path) as file:
        for topic, ranked in given.items():
            for rank, (docid, score) in enumerate(zip(ranked.docids, distinct_scores(ranked.scores)), start=1):
                file.write(f"{topic} Q0 {docid} {rank} {float(score)!r} {tag}\n".encode())


def distinct_scores(scores: ArrayLike) -> np.ndarray:
    """Return the scores of a ranking, or n, n−1, ..., 1 if they do not strictly decrease in float32 (as in trec_eval).

    Examples
    --------
    >>> distinct_scores([0.5, 0.25]).tolist(), distinct_scores([1 + 1e-9, 1.0]).tolist()
    ([0.5, 0.25], [2.0, 1.0])
    """
    scores = np.asarray(scores, np.float64)
    with np.errstate(over="ignore"):
        read = scores.astype(np.float32)
    if np.isfinite(read).all() and (read[1:] < read[:-1]).all():
        return scores
    return np.arange(len(scores), 0, -1, dtype=np.float64)


def read_fields(path: PathLike, count: int, expected: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and fields of every non-blank line."""
    empty = True
    for line, fields in split_lines(path, whole_text(path, by_name=True)):
        if len(fields) != count:
            raise DataError(f"{path}, line {line}: {len(fields)} fields, expected {count}: {expected}")
        empty = False
        yield line, fields
    if empty:
        raise DataError(f"{path} is empty: expected lines `{expected}`")
