"""The formats of `export`: the models each supports, the function that writes it, and the programs that run it."""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hingerank.export import code
from hingerank.export.forms import ExportError, Form, Outline
from hingerank.export.lucene import LUCENE, run_plugin, run_solr, write_plugin, write_solr
from hingerank.export.onnx_graph import run_onnx, write_onnx
from hingerank.export.pmml import run_pmml, write_pmml
from hingerank.export.sql import run_sql, sqlite_can, write_sql
from hingerank.export.vespa import run_vespa, write_vespa
from hingerank.registry import did_you_mean

WORDS = {
    "linear": "a linear model", "mapped": "a kernel or Fourier model", "trees": "trees", "curves": "curves",
    "surfaces": "curves with surfaces", "zero-trees": "trees that count zeros as missing values",
    "sum": "a sum of models",
}  # fmt: skip
SCALED = "features that are scaled within each query"


class Consumer(NamedTuple):
    """A program's name, whether it is installed, and how it scores rows: run(files, form, X, qid), where the last file
    is that of the examples.

    For engines that cannot be called from here, a model of their arithmetic is used, in single precision if theirs is.
    """

    name: str
    present: Callable[[], bool]
    run: Callable[[list[Path], Form, np.ndarray, np.ndarray], np.ndarray]


def run_first(
    consumers: tuple[Consumer, ...], to: str, files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray
) -> tuple[Consumer, np.ndarray]:
    """The first installed program that can run an export, and the scores: one may have limits that another has not."""
    failed = []
    for consumer in consumers:
        if consumer.present():
            try:
                return consumer, consumer.run(files, form, X, qid)
            except Exception as error:  # programs raise errors of any kind
                failed.append(f"{consumer.name} says {error}")
    if failed:
        raise ExportError(f"the export was not written because it does not run: {'; '.join(failed)}")
    wanted = " or ".join(consumer.name for consumer in consumers)
    raise ExportError(f"nothing here can run an export to {to!r}: install {wanted}")


class Format(NamedTuple):
    """The models a format supports, how it is written and what reads it.

    Parameters
    ----------
    files : names of the files that `write` returns; a single one may be renamed
    write : (form, about, **options) -> the content of each file
    consumers : programs that score rows by it
    carries : kinds of models that it supports, "sum" for sums of them
    scales : how it scales features before it scores them, where that does not fold into the model (see `Form.folded`)
    options : of `write`, with their defaults
    test : a command that tests the examples where the format runs; {0} and {1} are the files of the export and of them
    within : how it scales features within each query, if it can
    """

    files: tuple[str, ...]
    write: Callable[..., Any]
    consumers: tuple[Consumer, ...]
    carries: tuple[str, ...]
    scales: tuple[str, ...] = ()
    options: Mapping[str, object] = {}
    test: str = ""
    within: str = ""


ALL = ("linear", "mapped", "trees", "zero-trees", "curves", "surfaces", "sum")
BUT_ZEROS = tuple(kind for kind in ALL if kind != "zero-trees")
BY_COLUMNS = ("columns", "log", "quantile")
ANYHOW = (*BY_COLUMNS, "query-minmax", "query-standard")


def _has(module: str) -> bool:
    return module in sys.modules or find_spec(module) is not None


def stand_in(engine: str, run: Callable[..., np.ndarray]) -> tuple[Consumer, ...]:
    """A consumer with the arithmetic of an engine, for what was exported to it."""
    return (Consumer(f"the arithmetic of {engine}", lambda: True, run),)


PLUGIN = Format(
    ("model.json", "featureset.json"), write_plugin, stand_in("the LTR plugin", run_plugin), ("linear", "trees"),
    options={"name": "hingerank", "shift": 0.0, "ranklib": False, "define": False},
    test="POST {0} to _ltr/_featureset/SET/_createmodel, and rescore with sltr and ltr_log",
)  # fmt: skip
FORMATS: dict[str, Format] = {
    "python": Format(
        ("model.py",), partial(code.write_code, "python"), (Consumer("python", lambda: True, code.run_python),), ALL,
        BY_COLUMNS,
        test="python -c \"import json, runpy, sys; s = runpy.run_path(sys.argv[1])['score']; "
        "e = json.load(open(sys.argv[2])); print(max(abs(s(x) - y) for x, y in zip(e['rows'], e['scores'])))\" {0} {1}",
    ),
    "c": Format(
        ("model.c",), partial(code.write_code, "c"),
        (Consumer("a C compiler", lambda: code.compiler() is not None, code.run_c),), ALL, BY_COLUMNS,
        test="cc -O2 -shared -fPIC -o model.so -x c {0} -lm && python -c \"import ctypes, json, sys; "
        "s = ctypes.CDLL('./model.so').score; s.restype = ctypes.c_double; e = json.load(open(sys.argv[1])); "
        "n = float('nan'); c = lambda x: (ctypes.c_double * len(x))(*[n if v is None else v for v in x]); "
        "print(max(abs(s(c(x)) - y) for x, y in zip(e['rows'], e['scores'])))\" {1}",
    ),
    "javascript": Format(
        ("model.js",), partial(code.write_code, "javascript"),
        (Consumer("node", lambda: shutil.which("node") is not None, code.run_node),), ALL, BY_COLUMNS,
        test="node -e \"const [{{score}}, e] = process.argv.slice(1).map(name => require('./' + name)); "
        'console.log(Math.max(...e.rows.map((x, k) => Math.abs(score(x) - e.scores[k]))))" {0} {1}',
    ),
    "sql": Format(
        ("model.sql",), write_sql,
        (
            Consumer("sqlite", sqlite_can, partial(run_sql, "sqlite3")),
            Consumer("duckdb", lambda: _has("duckdb"), partial(run_sql, "duckdb")),
        ),
        ALL, ANYHOW, {"table": "documents", "key": "docid", "query": "qid"},
        test="python -c \"import json, sqlite3, sys; e = json.load(open(sys.argv[2])); "
        "o = e['statement']; Q = chr(34); q = lambda n: Q + n.replace(Q, Q + Q) + Q; "
        "c = list(map(q, [o['query'], o['key'], *e['features']])); "
        "d = sqlite3.connect(':memory:'); t = q(o['table']); "
        "d.execute('create table ' + t + ' (' + ', '.join(c) + ')'); "
        "r = [[g, k, *x] for k, (g, x) in enumerate(zip(e['qid'], e['rows']))]; "
        "d.executemany('insert into ' + t + ' values (' + ', '.join('?' * len(c)) + ')', r); "
        "s = {{r[1]: r[2] for r in d.execute(open(sys.argv[1]).read())}}; "
        "print(max(abs(s[k] - y) for k, y in enumerate(e['scores'])))\" {0} {1}",
        within="by window functions over the rows of a query",
    ),
    "onnx": Format(
        ("model.onnx",), write_onnx, (Consumer("onnxruntime", lambda: _has("onnxruntime"), run_onnx),), ALL, ANYHOW,
        {"precision": "double"},
        test="python -c \"import json, numpy, onnxruntime as o, sys; s = o.InferenceSession(sys.argv[1]); "
        "e = json.load(open(sys.argv[2])); t = {{'tensor(double)': 'f8', 'tensor(float)': 'f4'}}; i = s.get_inputs(); "
        "x = {{i[0].name: numpy.array(e['rows'], t[i[0].type])}}; x |= {{v.name: e['qid'] for v in i[1:]}}; "
        "print(abs(s.run(None, x)[0] - e['scores']).max())\" {0} {1}",
        within="with the rows' query ids as its second input",
    ),
    "solr": Format(
        ("model.json", "features.json"), write_solr, stand_in("Solr", run_solr), ("linear", "trees"),
        options={"name": "hingerank", "store": "_DEFAULT_", "shift": 0.0, "missing": None, "define": False},
        test="PUT {0} to schema/model-store, and ask with rq={{!ltr model=NAME reRankDocs=1000}} and "
        "fl=id,score,[features]",
    ),
    "elasticsearch": PLUGIN,
    "opensearch": PLUGIN,
    "vespa": Format(
        ("model.profile", "model.onnx"), write_vespa, stand_in("Vespa", run_vespa),
        BUT_ZEROS, (*BY_COLUMNS, "query-minmax"),  # the last one for linear models alone, see `carries`
        {"name": "hingerank", "phase": "second-phase", "rerank": 1000},
        test="put the profile into a schema, feed 'rows', and query with ranking=NAME",
        within="by normalize_linear in the global phase, for linear models with 'query-minmax'",
    ),
    "pmml": Format(
        ("model.pmml",), write_pmml, stand_in("a PMML evaluator", run_pmml), ("linear", "trees", "curves"),
        BY_COLUMNS, test="score 'rows' by any PMML evaluator, such as JPMML",
    ),
}  # fmt: skip


ALIASES = {"es": "elasticsearch", "js": "javascript"}


def format_name(text: str) -> str:
    """The format with the name or alias `text`; an unknown one is an ExportError that lists them.

    >>> format_name("es")
    'elasticsearch'
    """
    name = ALIASES.get(text, text)
    if name in FORMATS:
        return name
    known = [*FORMATS, "vectors"]
    raise ExportError(f"there is no format {text!r}; the known ones are: {', '.join(known)}{did_you_mean(text, known)}")


Parts = Sequence[Outline]  # of a model whose score is their sum


def carries(to: str, parts: Parts) -> bool:
    """Whether a format supports a model: `export` refuses the others, and `tune` with a target leaves them out."""
    chosen, by_query = FORMATS[to], any(part.scaled.startswith("query-") for part in parts)
    if len(parts) > 1 and "sum" not in chosen.carries:
        return False
    if to == "vespa" and by_query and [part.kind for part in parts] != ["linear"]:
        return False
    return all(  # missing values are zeros in some engines, which the model may treat otherwise
        part.kind in chosen.carries
        and part.scaled in ("none", *chosen.scales)
        and (to not in LUCENE or part.kind == "trees" or part.filled in ("none", "zero"))
        for part in parts
    )


def carriers(parts: Parts) -> list[str]:
    """The formats that support a model."""
    return [to for to in FORMATS if carries(to, parts)]


def refusal(to: str, parts: Parts, ranker: str) -> str:
    """Why a format cannot express a model, and which formats can; empty if it can."""
    if carries(to, parts):
        return ""
    others = f"formats that can: {', '.join(carriers(parts)) or 'none'}"
    if any(part.kind is None for part in parts):
        return f"{ranker} has no form that another program could run; {others}"
    refused = [part for part in parts if not carries(to, [part])]
    if len(parts) > 1 and ("sum" not in FORMATS[to].carries or not refused):
        why = f"{to} cannot carry the sum of {' and '.join(map(_named, parts))} that this {ranker} is"
        if to in LUCENE:
            why += " (it adds up only trees, and a line or a curve is not an exact sum of trees)"
        return f"{why}; {others}"
    part = refused[0]
    kind, scaled = str(part.kind), part.scaled
    if kind not in FORMATS[to].carries:
        why = f"{to} cannot carry {WORDS[kind]}{' such as this' if len(parts) == 1 else ', a part of this'} {ranker}"
    elif scaled.startswith("query-"):
        alone = to if FORMATS[to].within else f"{to} sees one row at a time and"
        why = f"{alone} cannot carry {WORDS[kind]} on {SCALED} ({scaled!r})"
    elif scaled != "none":
        why = f"{to} cannot carry {_named(part)}"
    else:
        why = f"{to} treats a missing feature as 0, and this {ranker} has learned otherwise"
        return f"{why}; fit it with missing set to 'zero', or use {others}"
    return f"{why}; {others}"


def _named(part: Outline) -> str:
    words = WORDS[str(part.kind)]
    return words if part.scaled == "none" else f"{words} on features that are scaled by {part.scaled!r}"
