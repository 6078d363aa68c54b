"""Measures of TREC runs against judgments (qrels): the retrieved documents, and the judged ones that are missing."""

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.blocks import as_text, spelled
from hingerank.data.checks import decimal
from hingerank.data.files import DataError, PathLike, kind_to_read
from hingerank.data.ranking_data import RankingData
from hingerank.data.streams import TextSource
from hingerank.diversity.trec import Run, RunLike, as_run, judged_topics, number, read_fields
from hingerank.metrics import MEASURES, Measure
from hingerank.metrics.evaluator import by_falling_docid, check_measurable, mean_over_queries, parse_measures
from hingerank.metrics.kinds import RankedLists

Grades = dict[str, dict[str, float]]  # topic -> document -> grade


def first_words(path: Path) -> list[str]:
    """The words of the first line of a text file that is not blank; none for folders, tables and pipes."""
    if not path.is_file() or kind_to_read(path) != "text":
        return []
    with TextSource(path).open() as file:
        text = file.read(1 << 12).decode("utf-8", "replace")
    return next((line.split() for line in text.replace("\r", "\n").split("\n") if line.strip()), [])


def is_run(path: Path) -> bool:
    """Whether a file has TREC's lines `topic Q0 document rank score tag`, and not rows of features."""
    words = first_words(path)
    return len(words) == 6 and not any(word.startswith("qid:") for word in words)


def is_qrels(path: Path) -> bool:
    """Whether a file has TREC's lines `topic iteration document grade`, and not rows of features."""
    words = first_words(path)
    return len(words) == 4 and not words[1].startswith("qid:") and ":" not in words[3]


def read_qrels(path: PathLike) -> Grades:
    """Lines `topic iteration document grade`: the grades of each topic's documents."""
    found: Grades = {}
    for line, (topic, _, document, grade) in read_fields(path, 4, "topic iteration document grade"):
        value = decimal(grade)
        if value is None:
            raise DataError(f"{path}, line {line}: the grade {grade[:40]!r} is no number")
        documents = found.setdefault(topic, {})
        if documents.get(document, value) != value:
            problem = f"{path}, line {line}: document {document} already has grade {documents[document]:g}"
            raise DataError(problem, "judgments of subtopics are for hingerank.evaluate_diversity", "subtopics")
        documents[document] = value
    return found


def as_grades(qrels: object) -> Grades:
    """Judgments from a path, RankingData with document ids, or {topic: {document: grade}}."""
    if isinstance(qrels, str | os.PathLike):
        return read_qrels(qrels)
    if isinstance(qrels, RankingData):
        if qrels.docid is None:
            raise DataError("a run names documents, and the data have no document ids: write '# docid' after each row")
        of_data: Grades = {}
        for query, document, grade in zip(as_text(qrels.qid), as_text(qrels.docid), qrels.y.tolist()):
            of_data.setdefault(query, {})[document] = grade
        return of_data
    if not isinstance(qrels, Mapping) or not all(isinstance(documents, Mapping) for documents in qrels.values()):
        raise DataError("judgments are a path, RankingData with document ids, or {topic: {document: grade}}")
    found = {
        spelled(topic): {
            spelled(d): number(grade, f"the grade of document {d} in topic {topic}") for d, grade in of.items()
        }
        for topic, of in qrels.items()
    }
    for topic, document in ((t, d) for t, of in found.items() for d, grade in of.items() if not np.isfinite(grade)):
        raise DataError(f"the grade of document {document} in topic {topic} is not a finite number")
    return found


def evaluate_run(
    qrels: object, run: RunLike, measures: str | Measure | Sequence[str | Measure] = ("ndcg@10", "map"),
    per_query: bool = False, *, preset: str | None = None, complete: bool = False,
) -> Facts:  # fmt: skip
    """Mean over topics of the measures of ``evaluate``, of a run whose documents are not just the judged ones.

    Documents without a judgment have grade 0. Judged ones that were not retrieved have no rank; they count where a
    measure uses all documents: in the ideal ranking, among the relevant documents, in the ranks of mean_ndcg.
    ERR's scale ends at the largest grade of all judgments unless the preset says otherwise. pair_accuracy and
    kendall_tau are of the documents both retrieved and judged.

    Parameters
    ----------
    qrels : path, dict or RankingData
        Lines `topic iteration document grade`, {topic: {document: grade}}, or data with document ids.
    run : path, dict or rows
        Lines `topic Q0 document rank score tag`, {topic: {document: score}}, {topic: documents best first}, or (topic,
        document, score) rows. Scores order the documents, and equal ones as the preset says; a preset that keeps "row
        order" finds them by falling document id.
    measures : a name, or several
        As in ``evaluate``.
    per_query : bool, default False
        Give {measure: {topic: value}} instead of means.
    preset : for the measures that name none
        "trec" measures as trec_eval, ir_measures and gdeval do.
    complete : bool, default False
        Count judged topics that the run lacks as 0 (trec_eval's -c). Otherwise the mean is over the topics that are in
        both. Topics of the run without judgments are never counted.

    Examples
    --------
    >>> evaluate_run({"7": {"a": 2, "b": 0, "c": 1}}, {"7": {"x": 3.0, "a": 2.0}}, ["p@2", "recall@2", "mrr"])
    {'p@2': 0.5, 'recall@2': 0.5, 'mrr': 0.5}
    """
    _, wanted, own = parse_measures(measures, preset)
    if own:
        raise ValueError(f"{next(iter(own))} is a function of rows: it measures data (hingerank.evaluate), not runs")
    judged = as_grades(qrels)
    ranked = {topic: documents for topic, documents in as_run(run, "trec").items() if len(documents)}
    topics = judged_topics(ranked, judged)
    lists = _lists(judged, ranked, topics, wanted)
    values = {name: MEASURES[measure.kind].values(lists, measure) for name, measure in wanted.items()}
    lacking = [topic for topic in judged if topic not in ranked] if complete else []
    each = {name: np.concatenate((found, np.zeros(len(lacking)))) for name, found in values.items()}
    if per_query:
        return {name: dict(zip([*topics, *lacking], found.tolist())) for name, found in each.items()}
    return {name: mean_over_queries(found) for name, found in each.items()}


def _lists(judged: Grades, ranked: Run, topics: list[str], wanted: dict[str, Measure]) -> RankedLists:
    """The topics' rankings, beside all that is known of each topic, and beside what is both ranked and judged."""
    retrieved = [ranked[topic].docids for topic in topics]
    missing = [[d for d in judged[topic] if d not in there] for topic, there in zip(topics, map(set, retrieved))]
    rows = [(topic, d) for topic, *both in zip(topics, retrieved, missing) for d in chain(*both)]
    known_grades = np.array([judged[topic].get(d, 0.0) for topic, d in rows])
    check_measurable(wanted, known_grades, lambda row: "of document {1} in topic {0}".format(*rows[row]))
    found = np.array([judged[topic].get(d, np.nan) for topic, docids in zip(topics, retrieved) for d in docids])
    grades, graded = np.nan_to_num(found), ~np.isnan(found)

    sizes, read = np.array([len(docids) for docids in retrieved]), list(wanted.values())
    numbers, scores = np.repeat(np.arange(len(topics)), sizes), np.concatenate([ranked[t].scores for t in topics])
    known_sizes = sizes + [len(documents) for documents in missing]
    paired_sizes = np.bincount(numbers[graded], minlength=len(topics))
    return RankedLists(
        grades,
        scores,
        _borders(sizes),
        read,
        by_falling_docid(np.array(list(chain.from_iterable(retrieved))), numbers),
        known=RankedLists(known_grades, np.zeros(len(rows)), _borders(known_sizes), read),
        paired=RankedLists(grades[graded], scores[graded], _borders(paired_sizes)),
        top_grade=max(chain.from_iterable(of.values() for of in judged.values()), default=0.0),
    )


def _borders(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(sizes)))
