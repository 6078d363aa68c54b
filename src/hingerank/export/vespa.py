"""A model as a rank profile of Vespa: an expression, or an ONNX model where an expression would be too long."""

import ast
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hingerank.arrays import Facts, Given
from hingerank.export.expressions import Words, filled_expression, scaled_expression, score_expression, total
from hingerank.export.forms import ExportError, Form
from hingerank.export.onnx_graph import run_onnx, write_onnx

Column: TypeAlias = np.ndarray | np.float64  # a value for each row, or the same for all
OPERATORS: dict[type, Callable[..., Column]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
}  # fmt: skip
FUNCTIONS: dict[str, tuple[Callable[..., Column], int]] = {  # with the number of their arguments
    "where": (np.where, 3), "log": (np.log, 1), "fabs": (np.abs, 1),
    "isNan": (lambda x: np.isnan(x).astype(np.float64), 1),
}  # fmt: skip
FEATURE = re.compile(r"\b(?:(?:attribute|normalize_linear)\(\w+\)|[A-Za-z_]\w*)", re.ASCII)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = ("if", "in", "true", "false")
PHASES = ("first-phase", "second-phase")


def write_vespa(form: Form, about: Facts, name: str, phase: str, rerank: int) -> list[str | bytes]:
    """The rank profile, and the ONNX model that it names (empty if it names none).

    A feature is an attribute, or a function feature_K with the expression given by the mapping; scaled ones are
    functions scaled_K.
    """
    if not NAME.fullmatch(name.replace("-", "_")):
        raise ExportError(f"name must be letters, digits, - and _, and begin with no digit, not {name!r}")
    if phase not in PHASES:
        raise ExportError(f"phase must be {' or '.join(map(repr, PHASES))}, not {phase!r}")
    if int(rerank) < 1:
        raise ExportError(f"rerank must be a positive number of rows, not {rerank!r}")
    given = {n: v["expression"] for n, v in about["features"].items() if "expression" in v}
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
        rows = f"tensor<float>(d0[1],d1[{form.n_features}]):[[{', '.join(terms.values())}]]"
        graph = ["file: files/model.onnx", "input features: ranker_features", "output scores: scores"]
        lines = [*head, *functions, f"    onnx-model {name} {{", *(f"        {line}" for line in graph), "    }"]
        lines += [*_function("ranker_features", rows), *_phase(phase, f"sum(onnx({name}).scores)")]
        return ["\n".join(lines), write_onnx(form, about, "float")]
    scores = []
    for number, part in enumerate(form.parts, 1):
        behind = f"_{number}" if len(form.parts) > 1 else ""
        own = {j: terms[part.feature_of(j)] for j in part.used().tolist()}
        if part.filled is not None:
            for j, x in own.items():
                own[j] = f"filled_{j + 1}{behind}"
                functions += _function(own[j], filled_expression(WORDS, part, j, x))
        if part.scaling is not None:
            for j, x in own.items():
                scaled = f"scaled_{j + 1}{behind}"
                inner = x if part.within_queries else scaled_expression(WORDS, part.scaling, j, x)
                functions += _function(scaled, inner)
                own[j] = f"normalize_linear({scaled})" if part.within_queries else scaled
        scores.append(score_expression(WORDS, part, own))
    text = total(scores) if scores[1:] else scores[0]
    if form.within_queries:  # Vespa scales between the extremes of the rows that it reranks, in the global phase
        return ["\n".join([*head, *functions, *_phase("global-phase", text, f"rerank-count: {int(rerank)}")]), b""]
    return ["\n".join([*head, *functions, *_phase(phase, text)]), b""]


def needs_onnx(form: Form) -> bool:
    """Whether the score cannot be written as an expression."""
    return any(part.kind == "mapped" for part in form.parts)


class VespaWords(Words):
    """Expressions in Vespa's language."""

    equals = "=="
    logarithm, size = "log", "fabs"

    def choose(self, test: str, yes: str, no: str) -> str:
        return f"if ({test}, {yes}, {no})"

    def missing(self, x: str) -> str:
        return f"isNan({x}) > 0.5"


WORDS = VespaWords()


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


def run_vespa(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """The profile's expression over whole columns, in double precision as in Vespa; its ONNX model in onnxruntime.

    For a feature that the mapping gives as an expression, Vespa computes it; here rows already have its value.
    """
    if needs_onnx(form):
        return run_onnx(files[1:], form, X, qid)
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


def evaluate(text: str, values: Given) -> Column:
    """The value of an expression, as far as exports write them; nothing is run.

    Such expressions are Python's but for `if`, so its parser reads them: numbers, names, operators, comparisons and the
    functions `if`, `log`, `fabs` and `isNan`.

    Parameters
    ----------
    text : the expression
    values : of features, by how they are written there, such as ``attribute(title)`` or ``scaled_1``

    Examples
    --------
    >>> float(evaluate("if (attribute(a) < 2, 3 * attribute(a), -1)", {"attribute(a)": 1.5}))
    4.5
    """
    names: dict[str, str] = {}  # of features, which may be Python's own words -> placeholders

    def placeholder(match: re.Match[str]) -> str:
        if match[0] in values:
            return names.setdefault(match[0], f"v{len(names)}")
        return "where" if match[0] == "if" else match[0]

    try:
        tree = ast.parse(FEATURE.sub(placeholder, text.strip()), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExportError(f"the expression cannot be read: {error}") from None
    with np.errstate(all="ignore"):  # both branches of an `if` are evaluated
        return _value(tree, {own: values[name] for name, own in names.items()})


def _value(node: ast.expr, values: Given) -> Column:
    """The value of a syntax tree; an ExportError for anything but numbers, features and listed operators."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return np.float64(node.value)
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    function: Any = None
    operands: list[ast.expr] = []
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        function, operands = operator.neg, [node.operand]
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        function, operands = OPERATORS[type(node.op)], [node.left, node.right]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
        function, operands = OPERATORS[type(node.ops[0])], [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function, count = FUNCTIONS.get(node.func.id, (None, 0))
        operands = node.args if len(node.args) == count else []
    if not operands:
        raise ExportError(f"the expression contains {ast.unparse(node)[:40]!r}, which exports do not write")
    return function(*(_value(part, values) for part in operands))
