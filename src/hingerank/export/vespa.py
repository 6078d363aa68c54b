"""A model as a rank profile of Vespa: an expression, or an ONNX model where an expression would be too long."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import SupportsFloat

import numpy as np

from hingerank.arrays import Facts
from hingerank.export.consumers import _run_onnx
from hingerank.export.engine_features import by_engine_name
from hingerank.export.expressions import evaluate
from hingerank.export.forms import Affine, Curves, ExportError, Form, Surfaces, Trees, goes_left
from hingerank.export.onnx_graph import write_onnx
from hingerank.export.scalings import ScaledWithinQueries, Words
from hingerank.export.sql import total

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = ("if", "in", "true", "false")
PHASES = ("first-phase", "second-phase")


def write_vespa(
    form: Form, about: Facts, name: str = "hingerank", phase: str = "second-phase", rerank: int = 1000
) -> list[str | bytes]:
    """The rank profile, and the ONNX model that it names (empty if it names none).

    A feature is an attribute, or a function feature_K with the expression given by the mapping; scaled ones are
    functions scaled_K.
    """
    if not NAME.fullmatch(name.replace("-", "_")) or phase not in PHASES or int(rerank) < 1:
        raise ExportError(f"name must be letters, digits, - and _, phase one of {PHASES}, rerank a number of rows")
    given = {n: v["expression"] for n, v in by_engine_name(about["features"]).items() if "expression" in v}
    terms: dict[int, str] = {}
    functions: list[str] = []
    for j in form.features_used():
        n = form.names[j]
        if n in given:
            functions += _function(f"feature_{j + 1}", _one_line(n, given[n]))
        elif not NAME.fullmatch(n) or n in RESERVED:
            raise ExportError(f"{n!r} cannot be the name of an attribute: map it to one, or to {{'expression': ...}}")
        terms[j] = f"feature_{j + 1}" if n in given else f"attribute({n})"
    head = [f"# {about['ranker']} by hingerank {about['version']}", *(f"# {n}" for n in about["notes"])]
    head += [f"rank-profile {name} {{"]
    if needs_onnx(form):  # which also fills missing values
        lines = [*head, *functions, *_by_onnx(form, terms, name, phase)]
        return ["\n".join(lines), write_onnx(form, about, "float")]
    words, scores = VespaWords(), []
    for number, part in enumerate(form.parts, 1):
        behind = f"_{number}" if len(form.parts) > 1 else ""
        own = {j: terms[j] for j in part.features_used()}
        if part.filled is not None:
            filled = _filled(part, terms)
            own = {j: f"filled_{j + 1}{behind}" for j in filled}
            functions += [line for j, x in own.items() for line in _function(x, filled[j])]
        if isinstance(part.scaling, ScaledWithinQueries):  # never in a sum here
            return ["\n".join([*head, *functions, *_by_query(part, own, rerank)]), b""]
        if part.scaling is not None:
            for j, x in own.items():
                functions += _function(f"scaled_{j + 1}{behind}", part.scaling.written(words, j, x))
            own = {j: f"scaled_{j + 1}{behind}" for j in own}
        scores.append(expression(part, own))
    return ["\n".join([*head, *functions, *_phase(phase, total(scores) if scores[1:] else scores[0])]), b""]


def needs_onnx(form: Form) -> bool:
    """Whether the score cannot be written as an expression."""
    return any(part.kind == "mapped" for part in form.parts)


def _filled(form: Form, terms: dict[int, str]) -> dict[int, str]:
    """Expressions of the columns that are used: features, which are NaN if missing, and marks of missing values."""
    filled = form.filled
    assert filled is not None
    found = {}
    for j in form.used().tolist():
        own = terms[j if j < form.n_features else int(filled.marked[j - form.n_features])]
        gone = f"isNan({own})"
        found[j] = f"if ({gone} > 0.5, {literal(filled.values[j])}, {own})" if j < form.n_features else gone
    return found


class VespaWords(Words):
    """Expressions in Vespa's language."""

    equals = "=="
    logarithm, size = "log", "fabs"

    def choose(self, test: str, yes: str, no: str) -> str:
        return f"if ({test}, {yes}, {no})"


def _one_line(name: str, text: object) -> str:
    """A mapping's expression, if it is one line that does not close the function around it."""
    depth = 0
    for letter in str(text):
        depth += (letter == "{") - (letter == "}")
        if depth < 0 or letter in "\n\r#":
            break
    else:
        if depth == 0 and str(text).strip():
            return str(text)
    raise ExportError(f"the expression of the feature {name!r} must be one line with as many {{ as }}, not {text!r}")


def _function(name: str, text: str) -> list[str]:
    return [f"    function {name}() {{", f"        expression: {text}", "    }"]


def _phase(phase: str, text: str, *more: str) -> list[str]:
    inner = [f"        {line}" for line in more]
    return [f"    {phase} {{", *inner, "        expression {", f"            {text}", "        }", "    }", "}", ""]


def expression(form: Form, terms: dict[int, str]) -> str:
    """The score as a Vespa expression."""
    body = form.body
    if isinstance(body, Affine):
        return total([literal(body.offset), *(f"{literal(body.weights[j])} * {x}" for j, x in terms.items())])
    if isinstance(body, Curves):
        return total([literal(0.0), *(_curve(body, j, x) for j, x in terms.items())])
    if isinstance(body, Surfaces):
        shapes = [*(_curve(body.curves, j, x) for j, x in terms.items()), *_products(body, terms)]
        return total([literal(0.0), *shapes])
    assert isinstance(body, Trees)
    return total([literal(body.start), *(_tree(body, root, terms) for root in body.roots.tolist())])


def _curve(body: Curves, column: int, x: str) -> str:
    """Nested ifs that bisect the knots."""
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


def _products(body: Surfaces, terms: dict[int, str]) -> Iterator[str]:
    """Products of two ramps."""
    for k, weight in enumerate(body.weights):
        ramps = []
        for j, begin, end in zip(body.columns[k].tolist(), body.begins[k], body.ends[k], strict=True):
            place = f"({terms[j]} - {literal(begin)}) / {literal(end - begin)}"
            ramps.append(f"if ({terms[j]} < {literal(begin)}, 0.0, if ({terms[j]} < {literal(end)}, {place}, 1.0))")
        yield " * ".join((literal(weight), *ramps))


def _tree(body: Trees, k: int, terms: dict[int, str]) -> str:
    """Nested ifs: a comparison with a missing value, which is NaN, is false."""
    if body.feature[k] < 0:
        return literal(body.number[k])
    x, limit, first = terms[int(body.feature[k])], literal(body.number[k]), int(body.child[k])
    left, right = _tree(body, first, terms), _tree(body, first + 1, terms)
    missing_left, _ = goes_left(body, k)
    return f"if ({x} > {limit}, {right}, {left})" if missing_left else f"if ({x} <= {limit}, {left}, {right})"


def _by_query(form: Form, terms: dict[int, str], rerank: int) -> list[str]:
    """Vespa scales between the minimum and maximum of the rows that it reranks, in the global phase."""
    assert isinstance(form.body, Affine)
    weights = form.body.weights
    functions = [line for j, x in terms.items() for line in _function(f"scaled_{j + 1}", x)]
    sums = total([f"{literal(weights[j])} * normalize_linear(scaled_{j + 1})" for j in terms] or ["0.0"])
    return [*functions, *_phase("global-phase", sums, f"rerank-count: {int(rerank)}")]


def _by_onnx(form: Form, terms: dict[int, str], name: str, phase: str) -> list[str]:
    rows = f"tensor<float>(d0[1],d1[{form.n_features}]):[[{', '.join(terms.values())}]]"
    lines = ["file: files/model.onnx", "input features: ranker_features", "output scores: scores"]
    lines = [f"    onnx-model {name} {{", *(f"        {line}" for line in lines), "    }"]
    return [*lines, *_function("ranker_features", rows), *_phase(phase, f"sum(onnx({name}).scores)")]


def literal(value: SupportsFloat) -> str:
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text


def run_vespa(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """The profile's expression over whole columns, in double precision as in Vespa; its ONNX model in onnxruntime.

    For a feature that the mapping gives as an expression, Vespa computes it; here rows already have its value.
    """
    if needs_onnx(form):
        return _run_onnx(files[1:], form, X, qid)
    text = files[0].read_text("utf-8")
    values = {f"attribute({n})": X[:, j] for j, n in enumerate(form.names)}
    values |= {f"feature_{j + 1}": X[:, j] for j in range(form.n_features)}
    for name, inner in re.findall(r"function ((?:filled|scaled)_[\d_]+)\(\) \{\n\s*expression: (.*)\n", text):
        values[name] = np.asarray(evaluate(inner, values))
        values[f"normalize_linear({name})"] = _between(values[name], qid)
    found = re.search(r"expression \{\n\s*(.*)\n", text)
    assert found
    return np.broadcast_to(np.asarray(evaluate(found[1], values), np.float64), (len(X),))


def _between(column: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """0 for the smallest, 1 for the largest value of the query, and 0.5 if these are equal, as in Vespa."""
    low, high = np.full(qid.max() + 1, np.inf), np.full(qid.max() + 1, -np.inf)
    np.minimum.at(low, qid, column)
    np.maximum.at(high, qid, column)
    width = (high - low)[qid]
    return np.where(width > 0, (column - low[qid]) / np.where(width > 0, width, 1.0), 0.5)
