"""Measures of TREC runs against judgments (qrels): the retrieved documents, and the judged ones that are missing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.files import DataError, kind_to_read
from hingerank.data.ranking_data import RankingData
from hingerank.data.streams import TextSource
from hingerank.diversity.trec import read_fields, read_run
from hingerank.metrics import evaluate, parse_measure


def first_words(path: Path) -> list[str]:
    """The words of the first line of a text file that is not blank; none for folders, tables and pipes."""
    if not path.is_file() or kind_to_read(path) != "text":
        return []
    with TextSource(path).open() as stream:
        view = memoryview(bytearray(1 << 12))
        text = bytes(view[: stream.fill(view)]).decode("utf-8", "replace")
    return next((line.split() for line in text.splitlines() if line.strip()), [])


def is_run(path: Path) -> bool:
    """Whether a file has TREC's lines `topic Q0 document rank score tag`."""
    return len(first_words(path)) == 6


def is_qrels(path: Path) -> bool:
    """Whether a file has TREC's lines `topic iteration document grade`, and not rows of features."""
    words = first_words(path)
    return len(words) == 4 and not words[1].startswith("qid:") and ":" not in words[3]


def read_qrels(path: Any) -> dict[str, dict[str, float]]:
    """Lines `topic iteration document grade`: the grades of each topic's documents."""
    found: dict[str, dict[str, float]] = {}
    for line, (topic, _, document, grade) in read_fields(path, 4, "topic iteration document grade"):
        try:
            value = float(grade)
        except ValueError:
            raise DataError(f"{path}, line {line}: the grade {grade!r} is no number") from None
        documents = found.setdefault(topic, {})
        if documents.get(document, value) != value:
            raise DataError(f"{path}, line {line}: document {document} already has grade {documents[document]:g}")
        documents[document] = value
    return found


def qrels_of_data(data: RankingData) -> dict[str, dict[str, float]]:
    """The grades of data with document ids, by query and document."""
    if data.docid is None:
        raise DataError("a run names documents, and the data have no document ids: write '# docid' after each row")
    found: dict[str, dict[str, float]] = {}
    for query, document, grade in zip(data.qid.tolist(), data.docid.tolist(), data.y.tolist()):
        found.setdefault(str(query), {})[str(document)] = grade
    return found


def evaluate_run(
    qrels: dict[str, dict[str, float]], run: Any, measures: Sequence[str], preset: str | None = None
) -> tuple[list[str], dict[str, np.ndarray]]:
    """The judged topics of the run, and for each measure its values in their order.

    Documents without a judgment have grade 0. Judged ones that were not retrieved count in the ideal ranking, in recall
    and in the divisor of MAP, and stand nowhere in the ranking, as trec_eval has it.

    Parameters
    ----------
    qrels : topic -> document -> grade
    run : what `read_run` gave, or a path
    measures : names
    preset : for measures that name none
    """
    ranked = run if isinstance(run, dict) else read_run(run, "trec")
    topics = [topic for topic in ranked if topic in qrels]
    if not topics:
        raise DataError("the run and the judgments have no topic in common")
    values: dict[str, list[float]] = {name: [] for name in measures}
    deepest = max((parse_measure(name).k or 0) for name in measures)
    for topic in topics:
        documents, judged = list(ranked[topic].docids), qrels[topic]
        grades = [judged.get(document, 0.0) for document in documents]
        missing = [grade for document, grade in judged.items() if document not in set(documents)]
        pad = [0.0] * max(0, deepest - len(documents))  # so that what is missing stands below every cutoff
        for name in measures:
            values[name].append(_value(name, np.array([*grades, *pad]), np.array(missing), preset))
    return topics, {name: np.array(found) for name, found in values.items()}


def _value(name: str, ranked: np.ndarray, missing: np.ndarray, preset: str | None) -> float:
    """A measure of the grades in ranked order, with the grades of judged documents that were not retrieved."""
    measure = parse_measure(name)

    def of(kind: str, y: np.ndarray) -> float:
        wanted = name.replace(measure.kind, kind, 1)
        return evaluate(y, -np.arange(len(y), dtype=float), 0, wanted, preset=preset)[wanted]

    if not len(missing):
        return of(measure.kind, ranked)
    both = np.concatenate([ranked, missing])
    if measure.kind == "ndcg":
        ideal = of("dcg", -np.sort(-both))
        return of("dcg", ranked) / ideal if ideal > 0 else of("ndcg", both)
    if measure.kind == "map":
        good = (both > 0).sum()
        return of("map", ranked) * (ranked > 0).sum() / good if good else of("map", both)
    return of(measure.kind, both if measure.kind in ("recall", "mean_ndcg") else ranked)
