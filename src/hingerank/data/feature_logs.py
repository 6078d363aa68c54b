"""Features that search engines log, joined with judgments or clicks.

Solr logs them as [features], the plugins of Elasticsearch and OpenSearch as _ltrlog.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hingerank.arrays import Facts, Given
from hingerank.data.checks import decimal, real, warn
from hingerank.data.files import DataError, PathLike
from hingerank.data.ranking_data import RankingData
from hingerank.data.streams import BrokenRecord, json_records, split_lines, whole_text

NAMED = 3  # examples in a warning about what a join leaves out
Key = tuple[str, str]  # query, document
Features = tuple[dict[str, float | None], float | None]  # values by name, and the value of all other features
Row = tuple[str, str, Features]


def read_feature_log(
    path: PathLike, judgments: object = None, *, clicks: object = None, query: str = "qid", document: str = "id",
    missing: str = "error", unjudged: float | None = None,
) -> RankingData:  # fmt: skip
    """Read training rows from search responses in which an engine has logged its features.

    The file holds JSON responses one after the other, each on one line or on several, or a list of responses. They are
    Solr's with ``[features]`` in ``fl``, dense or sparse, or those of Elasticsearch and OpenSearch with ``ltr_log``.
    If a query and a document are logged more than once, the last entry counts. Two grades for them are an error.

    A warning gives examples of what the join leaves out, and ``notes`` of the result has the counts: judgments or
    clicks without a logged row, logged rows without a judgment, queries without any row left, and repeated entries.

    Parameters
    ----------
    path : path
        The log, plain or compressed.
    judgments : path, mapping or iterable, optional
        A file of TREC lines (query, 0, document, grade), a mapping (query, document) -> grade, or triples.
    clicks : path or iterable, optional
        A file of lines (query, document), or such pairs, instead of judgments. A row's grade is its number of clicks.
    query : str
        The name of the entry with the query id. It is looked up in the response itself, then in the parameters that
        Solr repeats there, then in the documents.
    document : str
        The field of Solr's documents that holds their id.
    missing : {"error", "zero", "nan"}
        What a feature becomes that was logged without a value or as NaN. The engines use 0. Solr's sparse format
        leaves out zeros, so features that are absent there are 0 in any case.
    unjudged : float, optional
        The grade of rows without a judgment. None leaves such rows out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> line = '{"qid": "q1", "response": {"docs": [{"id": "d1", "[features]": "title=0.5,age=3.0"}]}}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.jsonl")
    ...     _ = path.write_text(line)
    ...     data = read_feature_log(path, {("q1", "d1"): 2})
    >>> data.X.tolist(), data.y.tolist(), list(data.feature_names)
    ([[0.5, 3.0]], [2.0], ['title', 'age'])
    """
    if (judgments is None) == (clicks is None):
        raise DataError("give either judgments or clicks: rows need grades to learn from")
    if missing not in ("error", "zero", "nan"):
        raise DataError(f"missing must be 'error', 'zero' or 'nan', not {missing!r}")
    grades = _judged(judgments) if clicks is None else clicked_pairs(clicks)
    rows: dict[tuple[str, str], Features] = {}
    names: dict[str, None] = {}
    repeated, changed = 0, dict[Key, None]()
    for _, logged in _queries(path, query, document):
        for qid, docid, features in logged:
            repeated += (qid, docid) in rows
            changed |= {(qid, docid): None} if rows.get((qid, docid), features) != features else {}
            rows[qid, docid] = features
            names |= dict.fromkeys(features[0])
    if clicks is not None:
        unjudged = 0.0
    kept = [key for key in rows if key in grades or unjudged is not None]
    if not kept:
        raise DataError(
            f"{path} has {len(rows)} logged documents, and none of them has a grade; check that query and document ids "
            f"are the same in both. The log has {list(rows)[:2]}, the grades have {list(grades)[:2]}"
        )
    X = np.array([[rows[key][0].get(name, rows[key][1]) for name in names] for key in kept], np.float64)
    if missing != "nan" and np.isnan(X).any():
        row, column = np.argwhere(np.isnan(X))[0].tolist()
        qid, docid = kept[row]
        if missing == "error":
            what = f"{path}: {list(names)[column]} of document {docid!r} of query {qid!r} has no value"
            raise DataError(what, 'give missing="zero" (the engines use 0 too) or missing="nan"', "missing")
        X[np.isnan(X)] = 0.0
    y = np.array([grades.get(key, 0.0 if unjudged is None else unjudged) for key in kept], np.float64)
    queries, documents = (np.array([key[place] for key in kept]) for place in (0, 1))
    data = RankingData.from_arrays(X, y, queries, docid=documents, feature_names=list(names), missing="nan")
    noun = "judgments" if clicks is None else "clicked documents"
    notes = _left_out(path, rows, grades, kept, list(changed), noun)
    return replace(data, notes=notes | {"repeated entries, of which the last was kept": repeated})


def logged_lists(path: PathLike, query: str = "qid", document: str = "id") -> Iterator[tuple[str, list[str]]]:
    """The query and the documents, in their order, of each response with documents.

    The parameters are those of `read_feature_log`.
    """
    for _, rows in _queries(path, query, document):
        for qid in dict.fromkeys(qid for qid, _, _ in rows):
            yield qid, [docid for other, docid, _ in rows if other == qid]


def _left_out(
    path: PathLike, rows: Collection[Key], grades: Collection[Key], kept: list[Key], changed: list[Key], noun: str
) -> dict[str, int]:
    """The counts of what the join left out; also warns about it, with examples."""
    inside, queries = set(kept), {q for q, _ in kept}
    lost: dict[str, Sequence[object]] = {
        f"{noun} without a logged row": [key for key in grades if key not in inside],
        "logged rows without a judgment": [key for key in rows if key not in inside],
        "queries without a row left": sorted({q for q, _ in (*rows, *grades)} - queries),
    }
    notes = {what: len(keys) for what, keys in lost.items()}
    lost["rows logged before with other values"] = changed
    words = [f"{len(k):,} {what} (such as {', '.join(map(repr, k[:NAMED]))})" for what, k in lost.items() if k]
    if words:
        made = f"{len(grades):,} {noun} and {len(rows):,} logged rows make {len(kept):,} rows"
        warn(f"{path}: {made}; left out are {', '.join(words)}")
    return notes


class LoggedQuery(NamedTuple):
    """A logged response: the request's parameters in it (Solr's echoParams), and document -> features by name."""

    parameters: Facts
    rows: dict[str, dict[str, float]]


def logged_queries(path: PathLike, query: str = "qid", document: str = "id", most: int = 3) -> list[LoggedQuery]:
    """The first `most` responses of a feature log that have rows. Features without a value are 0, as in the engines."""
    found: list[LoggedQuery] = []
    for response, logged in _queries(path, query, document):
        rows = {docid: {n: v or 0.0 for n, v in features.items()} for _, docid, (features, _) in logged}
        if rows:
            found.append(LoggedQuery(response.get("responseHeader", {}).get("params", {}), rows))
        if len(found) == most:
            break
    return found


def _queries(path: PathLike, query: str, document: str) -> Iterator[tuple[Facts, list[Row]]]:
    """Each response with its rows. A record may hold several of them, as "responses". Errors say where they are."""
    for place, value in json_records(path, "response"):
        if isinstance(value, BrokenRecord):
            what = f"this is not JSON that can be read: {value}"
            raise DataError(f"{path}, {place}: {what}; expected search responses as JSON, one after the other")
        several = value.get("responses") if isinstance(value, dict) else None
        found: Iterable[tuple[int, Any]] = enumerate(several, 1) if isinstance(several, list) else [(0, value)]
        for number, response in found:
            where = f"{path}, response {number}" if number else f"{path}, {place}"
            try:
                rows = list(_logged(response, query, document))
            except DataError as error:
                raise DataError(f"{where}: {error}") from None
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                problem = f"this is not a response with logged features: {error!r:.200}"
                raise DataError(f"{where}: {problem}; log with [features] or ltr_log, or leave it out") from None
            yield response, rows


def _logged(response: Facts, query: str, document: str) -> Iterator[Row]:
    """Query, document and features of each logged document of a response."""
    if not isinstance(response, dict):
        raise DataError(f"this is not a response with logged features: found {str(response)[:40]!r}")
    params = response.get("responseHeader", {}).get("params", {})
    given = response.get(query, params.get(query))
    if "response" in response:
        for found in response["response"]["docs"]:
            pairs = (entry.rpartition("=") for entry in found["[features]"].split(",") if entry)  # names may contain =
            numbers = {name: _number(name, value) for name, _, value in pairs}
            yield _query(given, found, query), _id(found[document]), (numbers, 0.0)
    else:
        for found in response["hits"]["hits"]:
            entries = [entry for log in found["fields"]["_ltrlog"] for entries in log.values() for entry in entries]
            numbers = {str(entry["name"]): _number(entry["name"], entry.get("value")) for entry in entries}
            yield _query(given, found.get("_source", {}), query), _id(found["_id"]), (numbers, None)


def _number(name: str, value: object) -> float | None:
    """A logged value; None if it is absent or NaN."""
    if value is None or value == "NaN" or value != value:
        return None
    number = _plain(value)
    if number is None:
        raise DataError(f"{str(name)[:80]} is {str(value)[:40]!r}, expected a finite number in plain digits")
    return number


def _plain(value: object) -> float | None:
    """The value as a finite number, also if it is text that spells one; else None."""
    number = decimal(value) if isinstance(value, str) else real(value)
    return None if number != number else number


def _id(value: object) -> str:
    """The id of a query or a document as text. If a field can have several values, Solr puts the id into a list."""
    value = value[0] if isinstance(value, list) and value else value
    if not isinstance(value, str | int | float):
        raise DataError(f"found {str(value)[:40]!r} as an id, expected text or a number")
    return str(value)


def _query(given: object, found: Given, query: str) -> str:
    value = found.get(query) if given is None else given
    if value is None:
        raise DataError(f"there is no {query!r} in the response or in its documents: name the entry (query=...)")
    return _id(value)


def _judged(judgments: object) -> dict[Key, float]:
    if isinstance(judgments, Mapping):
        odd = next((key for key in judgments if not isinstance(key, tuple) or len(key) != 2), None)
        if odd is not None:
            raise DataError(f"judgments have the key {odd!r:.80}, expected (query, document)")
        judgments = [(*key, grade) for key, grade in judgments.items()]
    found: dict[Key, float] = {}
    places: dict[Key, str] = {}
    for place, words in _lines(judgments):
        grade = _plain(words[-1]) if len(words) in (3, 4) else None
        if grade is None:
            raise DataError(f"{place}: found {words!r:.80}, expected query, (0,) document and a finite grade")
        key = str(words[0]), str(words[-2])
        if found.get(key, grade) != grade:
            what = f"{place}: document {key[1]!r} of query {key[0]!r} has grade {grade:g}, and {found[key]:g} in"
            raise DataError(f"{what} {places[key]}: leave one of them out")
        found[key], places[key] = grade, place
    return found


def clicked_pairs(clicks: object) -> dict[Key, float]:
    """The number of clicks on each document of each query, from a file of lines (query, document) or such pairs."""
    found: dict[Key, float] = {}
    for place, words in _lines(clicks):
        if len(words) != 2:
            raise DataError(f"{place}: found {words!r:.80}, expected a query and a document")
        key = str(words[0]), str(words[1])
        found[key] = found.get(key, 0.0) + 1.0
    return found


def _lines(source: object) -> Iterator[tuple[str, Sequence[object]]]:
    """The position and the words of each line of a file, or of each entry of a list."""
    if isinstance(source, str | Path):
        for number, words in split_lines(source, whole_text(source)):
            yield f"{source}, line {number}", words
        return
    if not isinstance(source, Iterable):
        raise DataError(f"found {source!r:.40} for judgments or clicks, expected a file or a list of entries")
    for number, entry in enumerate(source, 1):
        if isinstance(entry, str) or not isinstance(entry, Iterable):
            raise DataError(f"entry {number}: found {entry!r:.40}, expected a query, a document (and a grade)")
        yield f"entry {number}", list(entry)
