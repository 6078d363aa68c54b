"""`export`: write a ranker in the format of another program, with examples, and check its scores there."""

import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hingerank import __version__
from hingerank.arrays import Facts, Given, Ranker, RowsLike
from hingerank.data.binary import write_npy
from hingerank.data.files import PathLike, draft_of, naming, plain, write_together
from hingerank.data.ranking_data import RankingData
from hingerank.export.formats import FORMATS, format_name, refusal, run_first
from hingerank.export.forms import ExportError, Form, KernelSum, Trees
from hingerank.export.lucene import LUCENE, engine_set, own_list, shift_for, store_of, used_names
from hingerank.export.vespa import needs_onnx

EXAMPLE_ROWS, EXAMPLE_QUERIES = 20, 4
ENTRIES = ("name", "store", "class", "params", "template_language", "template", "expression")  # of mappings of names
VECTOR_OPTIONS = ("items", "item_ids", "kind")
DOUBLE_LIMIT, SINGLE_LIMIT = 1e-6, 1e-2  # of the scores' spread: larger differences are not rounding
SINGLE = (
    "The engine scores in single precision, so almost tied rows may swap positions, and forbids negative scores: the "
    "option shift adds a constant to all of them."
)


@dataclass(frozen=True)
class Exported:
    """The files that `export` has written, notes on them, and the result of the check."""

    to: str
    files: list[Path]
    notes: list[str]
    check: Facts | None = None
    options: Facts = field(default_factory=dict)


def export(
    ranker: Ranker, path: PathLike, to: str, *, features: object = None, check: RankingData | None = None,
    **options: Any,
) -> Exported:  # fmt: skip
    """Write a fitted ranker for another program; see `hingerank.export` for the parameters."""
    check_is_fitted(ranker)
    if to == "vectors":
        given = [*options, *["features"] * bool(features), *["check"] * (check is not None)]
        if unknown := [name for name in given if name not in VECTOR_OPTIONS]:
            raise ExportError(
                f"vectors have no option {', '.join(unknown)}; their options: {', '.join(VECTOR_OPTIONS)}"
            )
        return export_vectors(ranker, path, **options)
    to = format_name(to)
    chosen, options = FORMATS[to], known_options(to, options)
    form = ranker._form()
    if check is not None:
        if not isinstance(check, RankingData):
            raise ExportError(f"check must be RankingData, as hr.read returns it, not {type(check).__name__}")
        scores_by(ranker, check.take([0]))  # refuses columns with other names
    if options.get("shift") == "auto":
        scores = None if check is None else scores_by(ranker, *[rows_of(check)[k] for k in (0, 2)])
        options["shift"] = shift_for(form, scores, "check=data")
    mapping, listed = own_list(features or {}, to)
    if listed is not None and to == "solr" and options["store"] == "_DEFAULT_":
        options["store"] = store_of(features) or options["store"]
    form, notes, contents = written(form, to, type(ranker).__name__, mapping, options, listed)
    files = targets(path, chosen.files, contents)
    beside = examples_beside(files[0])
    rows = sample_rows(ranker, form, options) if check is None else rows_of(check)
    examples: Facts = {"to": to, "file": files[0].name, "statement": options, "notes": notes}
    examples |= example_rows(ranker, form, *rows)
    examples["set"] = engine_set(form, to, listed, options)
    examples["test"] = chosen.test.format(quote(files[0].name), quote(beside.name))
    texts = {target: content for target, content in zip(files, contents, strict=True) if content}
    texts[beside] = json.dumps(plain(examples), allow_nan=False)
    parts = {path: text.encode() if isinstance(text, str) else text for path, text in texts.items()}
    found = try_export(ranker, parts, form, to, rows, options, check is not None)
    write_together(parts)
    return Exported(to, list(parts), notes, found, options)


def known_options(to: str, given: Given) -> Facts:
    """The options of a format, updated by those given; an unknown one, or one of another type, is an ExportError."""
    usual = FORMATS[to].options
    unknown = set(given) - set(usual)
    if unknown:
        raise ExportError(f"{to} has no option {', '.join(sorted(unknown))}; its options: {', '.join(usual) or 'none'}")
    for name, value in given.items():
        if wanted := wanted_instead(value, usual[name]):
            raise ExportError(f"{name} must be {wanted}, not {value!r}")
    return {**usual, **{name: str(v) if isinstance(usual[name], str) else v for name, v in given.items()}}


def wanted_instead(value: Any, usual: object) -> str:
    """What an option takes, by its default, if it is not of that type; else empty.

    >>> wanted_instead(2.5, 1000), wanted_instead(2.5, 0.0)
    ('a whole number', '')
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if isinstance(usual, str):
        fits, wanted = value != "" and (number or isinstance(value, str)), "a text that is not empty"
    elif usual is None or isinstance(usual, bool):
        fits, wanted = value is usual or isinstance(value, bool), "True or False"
    elif isinstance(usual, int):
        fits, wanted = number and float(value).is_integer(), "a whole number"
    else:
        fits, wanted = value == "auto" or (number and np.isfinite(value)), "a finite number, or 'auto'"
    return "" if fits else wanted


def written(
    form: Form, to: str, ranker: str, features: Given, options: Given, listed: Sequence[str] | None = None
) -> tuple[Form, list[str], list[str | bytes]]:
    """The form with the other program's names, notes about it, and the content of each file of the format; listed: the
    features that the engine already has, if known."""
    form.refuse_infinities()
    plain_form = form.folded()
    if why := refusal(to, [part.outline for part in form.parts], ranker):
        raise ExportError(why)
    plain_form.refuse_infinities()
    form = renamed(form, features)
    notes = notes_of(form) + ([SINGLE] if to in LUCENE else [])
    if to in LUCENE and not options.get("define"):
        notes.append(f"The features are the engine's own, by these names: {', '.join(used_names(form))}.")
    entries = {str(entry.get("name", name)): entry for name, entry in features.items() if isinstance(entry, Mapping)}
    about = {"ranker": ranker, "version": __version__, "notes": notes, "features": entries, "listed": listed}
    about["set"] = engine_set(form, to, listed, options)
    keeps = to in LUCENE and form.kind != "trees"
    given = form if keeps else replace(plain_form, names=form.names)
    try:
        contents = FORMATS[to].write(given, about, **options)
    except RecursionError:
        loops = "python, c, javascript, onnx"
        raise ExportError(
            f"a tree is too deep for {to}, which nests its nodes: limit its depth, or use {loops}"
        ) from None
    return form, notes, [contents] if isinstance(contents, str | bytes) else contents


def export_vectors(
    ranker: Ranker, path: PathLike, items: RowsLike = None, item_ids: Iterable[object] | None = None,
    kind: str = "npy",
) -> Exported:  # fmt: skip
    """Write the users' and the items' vectors of a personal ranker, for a vector index: inner products are scores.

    Parameters
    ----------
    ranker : a fitted personal ranker
    path : a folder, created if needed
    items : a row of features for each item
    item_ids : of the items; their row numbers if None
    kind : "npy" for users.npy and items.npy beside ids.json, "parquet" for tables of id and vector
    """
    if kind not in ("npy", "parquet"):
        raise ExportError(f"vectors are written as 'npy' or 'parquet', not {kind!r}")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{path} is a file: vectors go into a folder")
    if folder.suffix == f".{kind}" and not folder.exists() and not str(path).endswith("/"):
        raise ExportError(f"vectors are several files: name a folder for them, as in {folder.with_suffix('')}/")
    users, U, V = ranker._vectors(items)
    ids = list(range(len(V))) if item_ids is None else plain(list(item_ids))
    if len(ids) != len(V):
        raise ExportError(f"{len(ids)} item_ids for {len(V)} items: give one for each")
    if twice := [item for item, count in Counter(ids).items() if count > 1]:
        raise ExportError(f"several items have the id {twice[0]!r}: item_ids must differ")
    if not (np.isfinite(U).all() and np.isfinite(V).all()):
        raise ExportError("the vectors contain numbers that are not finite: rescale the features and fit again")
    named = {"users": (plain(list(users)), U), "items": (ids, V)}
    text = {"about": type(ranker).__name__, "score": "inner product"} | {name: own for name, (own, _) in named.items()}
    files = [*(folder / f"{name}.{kind}" for name in named), folder / "ids.json"]
    with ExitStack() as together:  # no old file is replaced before all new ones are written
        for target, (own_ids, vectors) in zip(files, named.values()):
            _write_vectors(together.enter_context(draft_of(target)), own_ids, vectors)
        together.enter_context(draft_of(files[-1])).write_text(json.dumps(text, allow_nan=False), "utf-8")
    return Exported("vectors", files, ["The score of an item for a user is the inner product of their vectors."])


def _write_vectors(path: Path, ids: Sequence[object], vectors: np.ndarray) -> None:
    """Write vectors as an .npy file, or as a Parquet file with their ids."""
    if path.suffix == ".npy":
        write_npy(path, vectors)
        return
    from hingerank.data.tables import pa, parquet

    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    parquet.write_table(pa.table({"id": pa.array(ids), "vector": lists}), path)


def renamed(form: Form, features: Given) -> Form:
    """The form with the names that the other program uses: name -> name, or name -> {"name": ..., more}."""
    given = {str(name): value if isinstance(value, Mapping) else {"name": value} for name, value in features.items()}
    unknown = set(given) - {str(name) for name in form.names}
    if unknown:
        raise ExportError(f"the mapping names {', '.join(sorted(unknown))}, which the model has no feature for")
    for name, entry in given.items():
        if not isinstance(entry.get("name", name), str | int):
            raise ExportError(f"the mapping calls {name!r} {entry['name']!r}: give a text")
        if more := set(entry) - set(ENTRIES):
            raise ExportError(
                f"the mapping of {name!r} has {', '.join(sorted(more))}; it may have {', '.join(ENTRIES)}"
            )
    names = [str(given.get(str(name), {}).get("name", name)) for name in form.names]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ExportError(f"two features have the same name in the other program, {name!r}: names must differ")
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ExportError(f"the feature {name!r} contains an unpaired surrogate, which no file can hold: rename it")
    return replace(form, names=names)


def notes_of(form: Form) -> list[str]:
    """What the model expects of the rows it will score."""
    notes = ["Higher scores rank first; scores are comparable only within a query."]
    takes = all(part.filled is not None or isinstance(part.body, Trees) for part in form.parts)
    if all(part.missing_is_zero for part in form.parts):
        notes.append("A missing feature counts as the number 0.")
    elif takes and any(part.filled is not None for part in form.parts):
        notes.append(
            "A missing value is not a zero: the model has learned what it means. Give missing features as missing."
        )
    elif takes:
        notes.append("A missing value is not a zero: it takes a branch of its own. Give missing features as missing.")
    else:
        notes.append("The model does not handle missing values: it was trained with 0 for absent features, so give 0.")
    if within := form.within_queries:
        notes.append(f"Features are scaled within each query ({', '.join(within)}): score all its rows together.")
    return notes


def example_rows(ranker: Ranker, form: Form, X: np.ndarray, ids: np.ndarray, qid: np.ndarray) -> Facts:
    """The first of some rows, whole queries of them, with the ranker's scores."""
    whole = np.flatnonzero(qid <= qid[min(len(qid), EXAMPLE_ROWS) - 1])[: 5 * EXAMPLE_ROWS]
    X, qid = X[whole], qid[whole]
    scores, rows = scores_by(ranker, X, qid), [[None if v != v else v for v in row] for row in X.tolist()]
    return {"features": list(map(str, form.names)), "rows": rows, "qid": qid.tolist(), "scores": scores.tolist()}


def scores_by(ranker: Ranker, X: np.ndarray | RankingData, qid: np.ndarray | None = None) -> np.ndarray:
    """The ranker's own scores, without a warning that rows have no feature names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return np.asarray(ranker.predict(X, qid), np.float64)


def sample_rows(ranker: Any, form: Form, options: Given) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few rows made up from the form, in the format of `rows_of`; some values are missing, if the ranker handles that
    and the export does."""
    qid = np.repeat(np.arange(EXAMPLE_QUERIES), EXAMPLE_ROWS // EXAMPLE_QUERIES)
    gaps = ranker.__sklearn_tags__().input_tags.allow_nan and options.get("missing") is not False
    return form.sample(EXAMPLE_ROWS, gaps), qid, qid


def rows_of(data: RankingData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Dense rows, the data's own query ids, and queries as numbers by first appearance."""
    X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    return X.astype(np.float64), data.qid, data.blocks.scatter(data.blocks.numbers)


def try_export(
    ranker: Ranker, parts: Mapping[Path, bytes], form: Form, to: str,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray], options: Given, asked: bool,
) -> Facts | None:  # fmt: skip
    """Score rows by the export in the first installed program, and return how that differs from the ranker.

    Unless it was asked for, this needs no installed program, and returns None. An ExportError names rows whose scores
    differ from the ranker's by more than the precision of the format explains. Files are written only to a temporary
    folder.
    """
    consumers = FORMATS[to].consumers
    if not asked and not any(consumer.present() for consumer in consumers):
        return None
    X, ids, qid = rows
    with tempfile.TemporaryDirectory() as folder, naming(folder):
        drafts = [Path(folder) / target.name for target in parts]
        for draft, content in zip(drafts, parts.values()):
            draft.write_bytes(content)
        consumer, scores = run_first(consumers, to, drafts, form, X, qid)
    shift = float(options.get("shift", 0.0))
    expected = scores_by(ranker, X, qid) + shift
    found = compare(expected, scores, qid)
    single = to in LUCENE or options.get("precision") == "float" or (to == "vespa" and needs_onnx(form))
    rounded = scores_by(ranker, X.astype(np.float32).astype(np.float64), qid) + shift if single else expected
    hint = ""
    if any(loses_digits(part, X) for part in form.parts):
        hint = (
            "; some rows are so far apart for the kernel's width that its values lose digits: fit with scale='standard'"
        )
    refuse_differences(expected, rounded, scores, qid, single, f"{to}, run by {consumer.name},", ids, hint)
    if not asked:
        return None
    moved = np.abs(rounded - expected) > SINGLE_LIMIT * np.ptp(expected)
    if moved.any():
        warnings.warn(
            f"{int(moved.sum())} of {len(X)} rows get other scores because {to} rounds features to single precision: "
            "give numbers that differ only in late digits, such as timestamps, as a difference from a recent one",
            stacklevel=4,
        )
    if to in LUCENE:
        warn_of_negative_scores(found, shift, to, stacklevel=5)
    return {"consumer": consumer.name, **found}


def warn_of_negative_scores(found: Facts, shift: float, who: str, stacklevel: int) -> None:
    """Warn if there are any, which search engines forbid; shift: what was added to the scores."""
    if found["negative_scores"]:
        warnings.warn(
            f"{found['negative_scores']} of {found['rows']} scores are negative, which {who} forbids: the option shift "
            "adds a constant to all scores and keeps their order (here "
            f"shift={shift - found['least_score']:.6g} is enough)",
            stacklevel=stacklevel,
        )


def refuse_differences(
    expected: np.ndarray, rounded: np.ndarray, scores: np.ndarray, qid: np.ndarray, single: bool, who: str,
    ids: np.ndarray, hint: str = "",
) -> None:  # fmt: skip
    """Raise an ExportError if scores of the export differ from the ranker's by more than one constant per query.

    rounded: the ranker's scores of rows rounded as an engine in single precision does; single: whether the export
    computes in that; who, ids: the program that scored the rows, and the queries' names; hint: what may be the reason.
    """
    with np.errstate(over="ignore"):
        rough = single or bool((expected.astype(np.float32) == expected).all())
    away = scores - np.clip(scores, np.minimum(expected, rounded), np.maximum(expected, rounded))
    spread = float(np.abs(_centred(expected, qid)).max(initial=0.0)) or float(np.abs(expected).max(initial=0.0)) or 1.0
    away = np.abs(_centred(away, qid)) / spread
    limit = SINGLE_LIMIT if rough else DOUBLE_LIMIT
    wrong = np.argsort(-away, kind="stable")[: int((away > limit).sum())]
    if len(wrong):
        rows = "; ".join(f"row {k + 1} of query {ids[k]}: {scores[k]:.6g}, not {expected[k]:.6g}" for k in wrong[:3])
        raise ExportError(
            f"the export is wrong and was not written: {who} scores {len(wrong)} of {len(scores)} rows differently "
            f"from the ranker, by up to {away.max():.2g} of the scores' spread ({limit:g} is allowed): {rows}"
            + ("; formats that can compute in double precision: python, c, javascript, sql, onnx" if single else "")
            + hint
        )


def loses_digits(form: Form, X: np.ndarray) -> bool:
    """Whether unscaled rows are so far apart that ‖x‖² + ‖l‖² − 2<x, l> is no distance any more. The ranker and ONNX
    compute kernels by that; other formats subtract first."""
    body = form.body
    if not isinstance(body, KernelSum) or body.kernel != "rbf" or form.scaling is not None or form.filled is not None:
        return False
    farthest = np.square(X - body.rows.mean(axis=0)).sum(axis=1).max(initial=0.0)
    return bool(body.gamma * farthest * np.finfo(np.float64).eps > DOUBLE_LIMIT)


def _centred(values: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Values minus the median of their query, which a few wrong rows do not move."""
    _, query, counts = np.unique(qid, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    return values - values[np.lexsort((values, query))[middle]][query]


def compare(expected: np.ndarray, scores: np.ndarray, qid: np.ndarray) -> Facts:
    """Largest difference, queries with a different order, and negative scores."""
    if not np.isfinite(scores).all():
        bad = np.flatnonzero(~np.isfinite(scores))
        raise ExportError(f"the export gives {len(bad)} rows no finite score; the first is row {bad[0] + 1}")
    order = np.lexsort((-scores, qid))
    same = np.diff(qid[order]) == 0
    wrong = same & (np.diff(expected[order]) > 0)
    largest = float(np.abs(expected).max(initial=0.0)) or 1.0
    difference = float(np.abs(scores - expected).max(initial=0.0))
    return {
        "rows": len(scores),
        "queries": len(np.unique(qid)),
        "largest_difference": difference,
        "relative_to_largest_score": difference / largest,
        "reordered_queries": len(np.unique(qid[order][1:][wrong])),
        "negative_scores": int((scores < 0).sum()),
        "least_score": float(scores.min(initial=0.0)),
    }


def examples_beside(file: Path) -> Path:
    """STEM.examples.json, unless that has the examples of another file of the same stem: then NAME.examples.json."""
    usual, own = file.with_suffix(".examples.json"), file.with_name(f"{file.name}.examples.json")
    try:
        taken = own.exists() or json.loads(usual.read_text("utf-8"))["file"] != file.name
    except (OSError, ValueError, KeyError, TypeError):  # nothing is there, or what is no examples of this version
        taken = False
    return own if taken else usual


def targets(path: PathLike, names: tuple[str, ...], contents: Sequence[str | bytes]) -> list[Path]:
    """The files to write: a folder that exists or ends in a slash takes them all, a single one may have any name.

    A format of several files writes only the first one for most models. A path with the suffix of that one names it.
    """
    text, place = str(path), Path(path)
    needed = [name for name, content in zip(names, contents, strict=True) if content]
    is_file = len(names) == 1 or place.suffix.lower() == Path(names[0]).suffix
    if place.is_dir() or text.endswith("/") or not is_file:
        if place.exists() and not place.is_dir():
            raise ExportError(f"{path} is a file: this format writes {', '.join(names)} into a folder")
        return [place / name for name in names]
    if len(needed) > 1:
        folder = place.with_suffix("")
        raise ExportError(f"this export writes {' and '.join(needed)}: name a folder for them, as in {folder}/")
    return [place, *(place.parent / name for name in names[1:])]
