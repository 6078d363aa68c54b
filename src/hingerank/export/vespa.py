"""A model as a rank profile of Vespa: an expression, or an ONNX model where an expression would be too long."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.export.consumers import _run_onnx
from hingerank.export.expressions import evaluate
from hingerank.export.forms import Affine, Curves, ExportError, Form, Surfaces, Trees, goes_left
from hingerank.export.lucene import by_engine_name
from hingerank.export.onnx_graph import write_onnx
from hingerank.export.sql import total

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def write_vespa(
    form: Form, about: dict[str, Any], name: str = "hingerank", phase: str = "second-phase", rerank: int = 1000
) -> list[str | bytes]:
    """The rank profile, and the ONNX model that it names (empty where it names none)."""
    given = {n: v["expression"] for n, v in by_engine_name(about["features"]).items() if "expression" in v}
    terms = {j: given.get(form.names[j], f"attribute({form.names[j]})") for j in form.used()}
    for j, n in enumerate(form.names):
        if n not in given and j in terms and not NAME.fullmatch(n):
            raise ExportError(f"{n!r} is no name of an attribute: map it to one, or to {{'expression': ...}}")
    head = f"# {about['ranker']} by hingerank {about['version']}\n" + "".join(f"# {n}\n" for n in about["notes"])
    if form.query is not None:
        return [head + _by_query(form, terms, name, rerank), b""]
    if form.kind == "mapped":
        return [head + _by_onnx(form, terms, name, phase), write_onnx(form, about, "float")]
    lines = [f"rank-profile {name} {{", f"    {phase} {{", "        expression {"]
    return [head + "\n".join([*lines, f"            {expression(form, terms)}", *_closing(3)]), b""]


def expression(form: Form, terms: dict[Any, str]) -> str:
    """The score as an expression of Vespa's."""
    body = form.body
    if isinstance(body, Affine):
        return total([literal(body.offset), *(f"{literal(body.weights[j])} * {x}" for j, x in terms.items())])
    if isinstance(body, Curves):
        return total([literal(0.0), *(_curve(body, j, x) for j, x in terms.items())])
    if isinstance(body, Surfaces):
        shapes = [*(_curve(body.curves, j, x) for j, x in terms.items()), *_products(body, terms)]
        return total([literal(0.0), *shapes])
    return total([literal(body.start), *(_tree(body, root, terms) for root in body.roots.tolist())])


def _curve(body: Curves, column: int, x: str) -> str:
    """Nested ifs that halve the knots."""
    knots, heights = body.of(column)
    slope = literal(body.slopes[column])

    def piece(k: int) -> str:
        """The line of bin k."""
        at = literal(knots[max(k - 1, 0)])
        if k in (0, len(knots)):
            return f"{literal(heights[max(k - 1, 0)])} + {slope} * ({x} - {at})"
        rise, length = literal(heights[k] - heights[k - 1]), literal(knots[k] - knots[k - 1])
        return f"{literal(heights[k - 1])} + {rise} * (({x} - {at}) / {length})"

    def choice(low: int, high: int) -> str:
        if low == high:
            return piece(low)
        middle = (low + high) // 2
        return f"if ({x} < {literal(knots[middle])}, {choice(low, middle)}, {choice(middle + 1, high)})"

    return choice(0, len(knots))


def _products(body: Surfaces, terms: dict[Any, str]) -> Iterator[str]:
    """Products of two ramps."""
    for k, weight in enumerate(body.weights):
        ramps = []
        for j, begin, end in zip(body.columns[k].tolist(), body.begins[k], body.ends[k], strict=True):
            place = f"({terms[j]} - {literal(begin)}) / {literal(end - begin)}"
            ramps.append(f"if ({terms[j]} < {literal(begin)}, 0.0, if ({terms[j]} < {literal(end)}, {place}, 1.0))")
        yield " * ".join((literal(weight), *ramps))


def _tree(body: Trees, k: int, terms: dict[Any, str]) -> str:
    """Nested ifs: a comparison with a missing value, which is NaN, is false."""
    if body.feature[k] < 0:
        return literal(body.number[k])
    x, limit, first = terms[int(body.feature[k])], literal(body.number[k]), int(body.child[k])
    left, right = _tree(body, first, terms), _tree(body, first + 1, terms)
    missing_left, zero_left = goes_left(body, k)
    if zero_left is not None:
        raise ExportError("these trees take zeros for missing values, which this format cannot say: use sql or onnx")
    return f"if ({x} > {limit}, {right}, {left})" if missing_left else f"if ({x} <= {limit}, {left}, {right})"


def _by_query(form: Form, terms: dict[Any, str], name: str, rerank: int) -> str:
    """Vespa scales between the least and largest of the rows that it reranks, in the global phase."""
    if form.query != "minmax" or form.kind != "linear":
        raise ExportError("vespa scales within queries by 'query-minmax' only, and only for linear models: use onnx")
    functions = [f"    function scaled_{j + 1}() {{ expression: {x} }}" for j, x in terms.items()]
    sums = total([f"{literal(form.body.weights[j])} * normalize_linear(scaled_{j + 1})" for j in terms] or ["0.0"])
    lines = [f"rank-profile {name} {{", *functions, "    global-phase {", f"        rerank-count: {rerank}"]
    return "\n".join([*lines, "        expression {", f"            {sums}", *_closing(3)])


def _by_onnx(form: Form, terms: dict[Any, str], name: str, phase: str) -> str:
    rows = ", ".join(terms.values())
    return "\n".join(
        [
            f"rank-profile {name} {{",
            f"    onnx-model {name} {{",
            "        file: files/model.onnx",
            "        input features: ranker_features",
            "        output scores: scores",
            "    }",
            f"    function ranker_features() {{ expression: tensor<float>(d0[1],d1[{form.n_features}]):[[{rows}]] }}",
            f"    {phase} {{",
            "        expression {",
            f"            sum(onnx({name}).scores)",
            *_closing(3),
        ]
    )


def _closing(depth: int) -> list[str]:
    return [*("    " * (d - 1) + "}" for d in range(depth, 0, -1)), ""]


def literal(value: Any) -> str:
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text


def run_vespa(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """The profile's expression over whole columns, in double precision as Vespa's; its ONNX model in onnxruntime."""
    if form.kind == "mapped":
        return _run_onnx(files[1:], form, X, qid)
    found = re.search(r"expression \{\s*(.*?)\s*\}", files[0].read_text("utf-8"), re.DOTALL)
    assert found
    values = {f"attribute({n})": X[:, j] for j, n in enumerate(form.names)}
    if form.query is not None:
        values |= {f"normalize_linear(scaled_{j + 1})": _between(X[:, j], qid) for j in range(form.n_features)}
    return np.broadcast_to(np.asarray(evaluate(found[1], values), np.float64), (len(X),))


def _between(column: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """0 for the least, 1 for the largest of the query, and 0.5 where these are the same, as Vespa has it."""
    low, high = np.full(qid.max() + 1, np.inf), np.full(qid.max() + 1, -np.inf)
    np.minimum.at(low, qid, column)
    np.maximum.at(high, qid, column)
    width = (high - low)[qid]
    return np.where(width > 0, (column - low[qid]) / np.where(width > 0, width, 1.0), 0.5)
