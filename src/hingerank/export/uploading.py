"""`upload`: put a model into a search engine, read it back, and compare the engine's scores with the ranker's."""

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isclose
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Facts, Given, Ranker
from hingerank.data.feature_logs import LoggedQuery, logged_queries
from hingerank.data.files import PathLike
from hingerank.export.engines import ENGINES, Call, Client, Engine, ScoredRow, Undo
from hingerank.export.exporting import (
    SINGLE_LIMIT,
    compare,
    known_options,
    renamed,
    scores_by,
    warn_of_negative_scores,
    written,
)
from hingerank.export.formats import ALIASES, refusal
from hingerank.export.forms import ExportError, Form
from hingerank.export.lucene import entries_of, own_list, shift_for
from hingerank.registry import did_you_mean

QUERIES = 3  # queries of a log that are scored in the engine


@dataclass(frozen=True)
class Uploaded:
    """The calls that `upload` made, notes on the model, and how the engine's scores compare."""

    to: str
    name: str
    calls: list[Call]
    notes: list[str]
    check: Facts | None = None


def upload(
    ranker: Ranker, to: str, url: str, *, name: str = "hingerank", store: str | None = None,
    features: Given | None = None, define: bool = False, log: PathLike | None = None,
    params: Mapping[str, str] | None = None, rows: int = 10, document: str = "id", query: str = "qid",
    replace: bool = False, headers: Mapping[str, str] | None = None, dry_run: bool = False, **options: Any,
) -> Uploaded:  # fmt: skip
    """Put a fitted ranker into Solr, Elasticsearch or OpenSearch, and check that it scores there as it does here.

    The engine's features are compared with those that the model uses, the model is sent and read back, and a few rows
    are scored there. Each is returned with its features and its score, which must be the ranker's score of these
    features. If anything fails, what was sent is removed, as far as the engine allows. Nothing else in the engine is
    deleted or changed.

    Parameters
    ----------
    ranker : a fitted ranker
    to : "solr", "elasticsearch" ("es") or "opensearch"
    url : of a collection or an index, such as http://localhost:8983/solr/products or http://localhost:9200/products
        It may contain a user and a password. Redirects are not followed.
    name : of the model in the engine
    store : Solr's feature store, by default _DEFAULT_; the plugins' feature set, which is required
    features : a mapping from feature names to the engine's, as in `export`
    define : define the features missing from the engine, by `features` or as the fields of their names
    log : a feature log (see `read_feature_log`); rows of its first queries are scored
        Without it the engine's first documents are. If the log contains Solr's request parameters, the same requests
        are made.
    params : external values of features, the same for all rows: Solr's efi, the plugins' params
    rows : largest number of rows for each query
    document, query : the field of Solr's document ids, and of the query ids in the log
    replace : whether a model of this name may be replaced, once the new one has passed the check under another name
    headers : of every call, such as {"Authorization": "ApiKey …"}
    dry_run : call nothing; the result lists the calls that a successful upload would make
    options : of the format, such as shift

    Returns
    -------
    An object with ``calls``, ``notes`` and ``check``, the differences between the engine's scores and the ranker's.
    """
    check_is_fitted(ranker)
    to = ALIASES.get(to, to)
    if to not in ENGINES:
        known = ", ".join(ENGINES)
        raise ExportError(f"there is no upload to {to!r}: choose {known}{did_you_mean(to, ENGINES)}")
    options = known_options(to, {**options, "name": name, "define": define})
    engine = ENGINES[to](Client(url, headers, dry_run), store, document)
    options |= {"store": store or "_DEFAULT_"} if to == "solr" else {}
    logged = [] if log is None else logged_queries(log, query, document, QUERIES)
    mapping, own = own_list(features or {}, to)
    if own is not None:
        raise ExportError("features is an engine's list, which upload reads from the engine: give a mapping of names")
    form = ranker._form()
    if why := refusal(to, [part.outline for part in form.parts], type(ranker).__name__):
        raise ExportError(why)
    if options["shift"] == "auto":
        seen = features_of([row for each in logged for row in each.rows.values()], renamed(form, mapping))
        scores = scores_by(ranker, seen, np.zeros(len(seen), int)) if len(seen) else None
        options["shift"] = shift_for(form, scores, "log='log.json'")
    sent: list[tuple[Undo, str]] = []  # how to undo each step, and what it was
    try:
        before = engine.features()
        listed = None if dry_run else names_of(before)
        form, notes, contents = written(form, to, type(ranker).__name__, mapping, options, listed)
        model = json.loads(contents[0])
        defined = (entries_of(json.loads(contents[1])) or []) if contents[1] else []
        there = engine.model(name)
        if there is not None and not replace:
            raise ExportError(f"{to} already has a model {name!r}: give another name, or pass replace=True")
        replaces = there is not None or (dry_run and replace)
        first = f"{name}_trial" if replaces else name
        if defined:
            define_lacking(engine, sent, defined, before)
        put(engine, sent, engine.renamed(model, first), first)
        shift = float(options["shift"])
        check = check_scores(engine, first, ranker, form, logged, params or {}, int(rows), shift)
        if replaces:
            engine.drop(first)
            sent.pop()
            step = partial(engine.put_back, name, there or {}), f"the model {name} that was there"
            make(partial(engine.drop, name), lambda: engine.model(name) is None, sent, step)
            put(engine, sent, model, name)
    except BaseException as error:  # an interruption too
        after = take_back(sent)
        if isinstance(error, ExportError):
            raise ExportError(f"{error}; {after}") from None
        if isinstance(error, Exception):
            raise ExportError(f"the engine's response was not understood: {error!r}; {after}") from error
        raise
    return Uploaded(to, name, engine.client.calls, notes, check)


def take_back(sent: list[tuple[Undo, str]]) -> str:
    """Undo all steps, the last first; returns a description of the outcome."""
    left = []
    for undo, what in reversed(sent):
        try:
            if undo is None:
                raise ExportError("the engine cannot delete them one by one")
            undo()
        except ExportError as error:
            left.append(f"{what} ({error})")
    if left:
        return f"left behind in the engine: {', '.join(left)}"
    return "what was sent was removed again" if sent else "nothing was changed"


def make(
    change: Callable[[], object], made: Callable[[], bool], sent: list[tuple[Undo, str]], step: tuple[Undo, str]
) -> None:  # fmt: skip
    """Make a change and note how to undo it, also if the call fails after the engine has `made` it, as when the
    connection breaks; if the engine no longer says whether it has, undoing is tried."""
    try:
        change()
    except ExportError:
        try:
            if made():
                sent.append(step)
        except ExportError:
            sent.append((step[0], f"perhaps {step[1]}"))
        raise
    sent.append(step)


def names_of(features: list[Facts] | None) -> list[str]:
    """Names of an engine's features; None: it has none."""
    return [entry["name"] for entry in features or []]


def define_lacking(
    engine: Engine, sent: list[tuple[Undo, str]], features: list[Facts], before: list[Facts] | None
) -> None:
    """Add definitions of features to those before."""
    earlier, ours = names_of(before), names_of(features)

    def some_are_there() -> bool:
        new = {*names_of(engine.features())} - {*earlier}
        return bool(new) and new <= {*ours}  # others are somebody else's, who was quicker

    step = engine.undefine(before), f"definitions of {', '.join(ours)}"
    make(partial(engine.define, features, before is None), some_are_there, sent, step)


def put(engine: Engine, sent: list[tuple[Undo, str]], model: Facts, name: str) -> None:
    """Send a new model and read it back."""

    def found_there() -> bool:
        found = engine.model(name)
        return found is not None and alike(model, engine.sent_as(found))

    make(partial(engine.put, model), found_there, sent, (partial(engine.drop, name), f"the model {name}"))
    found = engine.model(name)
    if not engine.client.dry and (found is None or not alike(model, engine.sent_as(found))):
        raise ExportError(f"the engine took the model {name!r}, but returns a different one: {str(found)[:200]}")


def alike(sent: Any, found: Any) -> bool:
    """Whether what was found contains all of what was sent; numbers may be rounded to single precision."""
    if isinstance(sent, Mapping):
        return isinstance(found, Mapping) and all(key in found and alike(sent[key], found[key]) for key in sent)
    if isinstance(sent, list):
        return isinstance(found, list) and len(sent) == len(found) and all(map(alike, sent, found))
    try:  # Solr's normalizers store numbers as strings
        return sent == found or isclose(float(sent), float(found), rel_tol=1e-6)
    except (TypeError, ValueError):
        return False


def check_scores(
    engine: Engine, name: str, ranker: Ranker, form: Form, logged: list[LoggedQuery], given: Mapping[str, str],
    most: int, shift: float,
) -> Facts | None:  # fmt: skip
    """How an engine's scores differ from the ranker's, for each row with the features that the engine gives it; an
    ExportError if that is not rounding. Rows are those of queries of a log, up to `most` each."""
    queries: list[LoggedQuery | None] = [*logged] or [None]
    try:
        found = [engine.score(name, query, given, most) for query in queries]
    except ExportError as error:
        outside = "if features need external values, such as the words of a query, give them by params"
        raise ExportError(f"{error} ({outside}, as in params={{'text': 'lamp'}})") from None
    if engine.client.dry:
        return None
    rows = [row for each in found for row in each]
    if not rows:
        raise ExportError("the engine found no document to score: give one of its logs, as in log='log.jsonl'")
    X = features_of([row.features for row in rows], form)
    qid = np.repeat(np.arange(len(found)), [len(each) for each in found])
    expected, scores = scores_by(ranker, X, qid) + shift, np.array([row.score for row in rows])
    result = {"consumer": "the engine", **compare(expected, scores, qid)}
    away = np.abs(scores - expected)
    wrong = away > SINGLE_LIMIT * np.ptp(expected) + 1e-5 * np.abs(expected).max()
    if wrong.any():
        k = int(away.argmax())
        raise ExportError(
            f"the engine scores {int(wrong.sum())} of {len(rows)} rows differently from the ranker: "
            f"document {rows[k].document!r} gets {scores[k]:.6g}, not {expected[k]:.6g}"
        )
    empty = [form.names[j] for j in form.features_used() if not X[:, j].any()]
    if empty:
        warnings.warn(
            f"{', '.join(empty)}: 0 in the engine for all {len(X)} rows scored: are these the features that the "
            "model was trained on?",
            stacklevel=3,
        )
    warn_of_negative_scores(result, shift, "Lucene", stacklevel=4)
    if logged:
        result["changed_since_log"] = _changed(logged, found, [form.names[j] for j in form.features_used()])
    return result


def _changed(logged: list[LoggedQuery], found: list[list[ScoredRow]], used: list[str]) -> int:
    """The number of rows whose features differ from the log; a warning names the features."""
    names, rows = set[str](), 0
    for query, each in zip(logged, found, strict=True):
        for row in each:
            then = query.rows.get(row.document, row.features)
            other = {n for n in used if not isclose(then.get(n, 0.0), row.features.get(n, 0.0), rel_tol=1e-4)}
            names, rows = names | other, rows + bool(other)
    if rows:
        warnings.warn(
            f"{rows} rows have other values of {', '.join(sorted(names))} in the engine than in the log: has the "
            "index or the definition changed since?",
            stacklevel=4,
        )
    return rows


def features_of(rows: list[dict[str, float]], form: Form) -> np.ndarray:
    """Rows of the model's features from an engine's values by name; missing ones are 0."""
    return np.array([[row.get(name, 0.0) for name in form.names] for row in rows]).reshape(len(rows), form.n_features)
