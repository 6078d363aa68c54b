"""Features that search engines log, joined with judgments or clicks: Solr's [features], the plugins' _ltrlog."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.streams import split_lines, whole_text

LOGGED = {"zero": 0.0, "nan": np.nan}  # what a feature without a value becomes
Features = tuple[dict[str, float | None], float | None]  # by name, and what others have
Row = tuple[str, str, Features]


def read_feature_log(
    path: Any, judgments: Any = None, *, clicks: Any = None, query: str = "qid", document: str = "id",
    missing: str = "error", unjudged: float | None = None,
) -> RankingData:  # fmt: skip
    """Rows to learn from, from the search responses in which an engine has logged its features.

    The file holds a response on each line (or a single one, or a list): Solr's with ``[features]`` in ``fl``, dense or
    sparse, or those of Elasticsearch and OpenSearch with ``ltr_log``. The last entry for a query and a document counts.

    Parameters
    ----------
    path : the log, plain or compressed
    judgments : file of TREC lines (query, 0, document, grade), a mapping (query, document) -> grade, or triples
    clicks : file of lines (query, document), or such pairs
        A row's grade is the number of its clicks; instead of judgments.
    query : where a response has its query's id
        Looked for beside the response's own entries, among the parameters that Solr repeats, then in the documents.
    document : the field of Solr's documents that holds their id
    missing : "error", "zero" or "nan": what a feature that was logged without a value becomes
        The engines take it for 0. Solr's sparse form leaves out zeros, so these are zeros in any case.
    unjudged : the grade of rows without a judgment; None leaves such rows out

    Examples
    --------
    >>> import os, tempfile
    >>> line = '{"qid": "q1", "response": {"docs": [{"id": "d1", "[features]": "title=0.5,age=3.0"}]}}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "log.jsonl")
    ...     _ = open(path, "w").write(line)
    ...     data = read_feature_log(path, {("q1", "d1"): 2})
    >>> data.X.tolist(), data.y.tolist(), list(data.feature_names)
    ([[0.5, 3.0]], [2.0], ['title', 'age'])
    """
    if (judgments is None) == (clicks is None):
        raise DataError("give judgments or clicks, one of them: rows need grades to learn from")
    if missing not in ("error", *LOGGED):
        raise DataError(f"missing must be 'error', 'zero' or 'nan', not {missing!r}")
    grades = _judged(judgments) if clicks is None else _clicked(clicks)
    rows: dict[tuple[str, str], Features] = {}
    names: dict[str, None] = {}
    for number, response in _responses(path):
        try:
            for qid, docid, features in _logged(response, query, document):
                rows[qid, docid] = features
                names |= dict.fromkeys(features[0])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            problem = error if isinstance(error, DataError) else f"this is no response with logged features: {error!r}"
            raise DataError(f"{path}, response {number}: {problem}") from None
    if clicks is not None:
        unjudged = 0.0
    kept = [key for key in rows if key in grades or unjudged is not None]
    if not kept:
        raise DataError(
            f"{path} has {len(rows)} logged documents, and none of them has a grade: are query and document ids the "
            f"same in both? Logged are {list(rows)[:2]}, graded are {list(grades)[:2]}"
        )
    X = np.array([[_value(rows[key], name, missing, path, key) for name in names] for key in kept])
    y = np.array([grades.get(key, 0.0 if unjudged is None else unjudged) for key in kept], np.float64)
    queries, documents = (np.array([key[place] for key in kept]) for place in (0, 1))
    return RankingData.from_arrays(X, y, queries, docid=documents, feature_names=list(names), missing="nan")


def _value(features: Features, name: str, missing: str, path: Any, key: tuple[str, str]) -> float:
    value = features[0].get(name, features[1])
    if value is not None:
        return value
    if missing == "error":
        raise DataError(f"{path}: {name} of document {key[1]!r} of query {key[0]!r} has no value", option="missing")
    return LOGGED[missing]


def _responses(path: Any) -> Iterator[tuple[int, Any]]:
    """The responses of a file with their numbers: one on each line, or one JSON text of one or several."""
    text = whole_text(path)
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        for number, line in lines:
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{path}, line {number}: this is not JSON: {error}") from None
        return
    several = whole.get("responses", [whole]) if isinstance(whole, dict) else whole
    yield from enumerate(several, 1)


def _logged(response: dict[str, Any], query: str, document: str) -> Iterator[Row]:
    """Query, document and features of each logged document of a response."""
    params = response.get("responseHeader", {}).get("params", {})
    given = response.get(query, params.get(query))
    if "response" in response:
        for found in response["response"]["docs"]:
            yield _query(given, found, query), str(found[document]), (_solr(found["[features]"]), 0.0)
    else:
        for found in response["hits"]["hits"]:
            entries = [entry for log in found["fields"]["_ltrlog"] for entries in log.values() for entry in entries]
            features = {entry["name"]: entry.get("value") for entry in entries}
            numbers = {name: None if value is None else float(value) for name, value in features.items()}
            yield _query(given, found.get("_source", {}), query), str(found["_id"]), (numbers, None)


def _query(given: Any, found: Mapping[str, Any], query: str) -> str:
    value = found.get(query) if given is None else given
    if value is None:
        raise DataError(f"there is no {query!r} in the response or in its documents: name its place (query=...)")
    return str(value[0] if isinstance(value, list) else value)


def _solr(text: str) -> dict[str, float | None]:
    """name=value,name=value; names may hold any sign but the last '=' of their entry."""
    pairs = (entry.rpartition("=") for entry in text.split(",") if entry)
    return {name: float(value) for name, _, value in pairs}


def _judged(judgments: Any) -> dict[tuple[str, str], float]:
    if isinstance(judgments, Mapping):
        return {(str(q), str(d)): float(grade) for (q, d), grade in judgments.items()}
    found: dict[tuple[str, str], float] = {}
    for number, words in _lines(judgments):
        try:
            q, d, grade = (words[0], words[-2], words[-1]) if len(words) in (3, 4) else (None, None, "")
            found[str(q), str(d)] = float(grade)
        except (ValueError, TypeError):
            raise DataError(f"judgment {number}: found {words}, expected query, (0,) document and grade") from None
    return found


def _clicked(clicks: Any) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for number, words in _lines(clicks):
        if len(words) != 2:
            raise DataError(f"click {number}: found {words}, expected a query and a document")
        key = str(words[0]), str(words[1])
        found[key] = found.get(key, 0.0) + 1.0
    return found


def _lines(source: Any) -> Iterable[tuple[int, list[Any]]]:
    if isinstance(source, str | Path):
        return split_lines(source, whole_text(source))
    return ((number, list(entry)) for number, entry in enumerate(source, 1))
