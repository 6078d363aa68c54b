"""A model as PMML 4.4: a regression, possibly on scaled features or curves of them, or a sum of trees."""

import operator
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import SupportsFloat
from xml.sax.saxutils import quoteattr

import numpy as np

from hingerank.arrays import Facts
from hingerank.export.expressions import Words, filled_expression, scaled_expression
from hingerank.export.forest import MISSING_LEFT
from hingerank.export.forms import Affine, ExportError, Form, Shapes, Trees
from hingerank.features.curves import Curves

NAMESPACE = "http://www.dmg.org/PMML-4_4"
NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
JOINS: dict[str, Callable[..., np.ndarray]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "lessThan": operator.lt,
    "equal": operator.eq, "ln": np.log, "abs": np.abs, "if": np.where, "isMissing": np.isnan,
}  # fmt: skip


def write_pmml(form: Form, about: Facts) -> str:
    """The text of a PMML document."""
    used = [str(form.names[j]) for j in form.features_used()] or [str(form.names[0])]
    for name in used:
        if not name or NOT_XML.search(name):
            raise ExportError(
                f"PMML, which is XML, cannot have a field called {name!r}: rename this feature by features="
            )
    taken = set(used)
    target = _named("score", taken)
    fields = [f"  <DataField name={quoteattr(n)} optype='continuous' dataType='double'/>" for n in (target, *used)]
    invalid = "" if form.kind == "trees" else " invalidValueTreatment='asIs'"
    given = "".join(f"<MiningField name={quoteattr(n)}{invalid}/>" for n in used)
    schema = f"<MiningSchema><MiningField name={quoteattr(target)} usageType='target'/>{given}</MiningSchema>"
    head = [
        "<?xml version='1.0' encoding='UTF-8'?>",
        f"<PMML xmlns='{NAMESPACE}' version='4.4'>",
        f" <Header description={quoteattr(' '.join(about['notes']))}>",
        f"  <Application name='hingerank' version='{about['version']}'/></Header>",
        " <DataDictionary>",
        *fields,
        " </DataDictionary>",
    ]
    body = _forest(form, schema, given) if isinstance(form.body, Trees) else _regression(form, schema, taken)
    return "\n".join([*head, *body, "</PMML>", ""])


def _named(wanted: str, taken: set[str]) -> str:
    """The wanted name of a field, or a similar one that is not taken, and now is."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


class PmmlWords(Words):
    """Expressions as XML elements; x is a field."""

    logarithm, size = "ln", "abs"

    def number(self, value: SupportsFloat) -> str:
        return f"<Constant dataType='double'>{float(value)!r}</Constant>"

    def join(self, a: str, operator: str, b: str) -> str:
        return f"<Apply function='{ {'<': 'lessThan', '=': 'equal'}.get(operator, operator) }'>{a}{b}</Apply>"

    def call(self, function: str, a: str) -> str:
        return f"<Apply function='{function}'>{a}</Apply>"

    def choose(self, test: str, yes: str, no: str) -> str:
        return f"<Apply function='if'>{test}{yes}{no}</Apply>"

    def missing(self, x: str) -> str:
        return self.call("isMissing", x)


WORDS = PmmlWords()


def _regression(form: Form, schema: str, taken: set[str]) -> list[str]:
    """A sum of fields: features, scaled features, or curves of these."""
    body, scaling = form.body, form.scaling
    assert isinstance(body, Affine | Shapes)
    weights = {int(j): float(body.weights[j]) if isinstance(body, Affine) else 1.0 for j in form.used()}
    fields, derived = {j: str(form.names[form.feature_of(j)]) for j in weights}, []
    if form.filled is not None:
        for j, field in fields.items():
            fields[j] = _named(f"filled {field}" if j < form.n_features else f"missing {field}", taken)
            derived.append(_derived(fields[j], filled_expression(WORDS, form, j, _field(field))))
    if scaling is not None:
        for j, field in fields.items():
            fields[j] = _named(f"scaled {field}", taken)
            derived.append(_derived(fields[j], scaled_expression(WORDS, scaling, j, _field(field))))
    if isinstance(body, Shapes):
        for j, field in fields.items():
            fields[j] = _named(f"curve of {field}", taken)
            derived.append(_derived(fields[j], _curve(body.curves, j, field)))
    lines = [f" <RegressionModel functionName='regression'>{schema}"]
    lines += ["  <LocalTransformations>", *derived, "  </LocalTransformations>"] if derived else []
    lines += [f"  <RegressionTable intercept='{float(body.offset) if isinstance(body, Affine) else 0.0!r}'>"]
    for j, weight in weights.items():
        lines.append(f"   <NumericPredictor name={quoteattr(fields[j])} coefficient='{weight!r}'/>")
    return [*lines, "  </RegressionTable>", " </RegressionModel>"]


def _field(name: str) -> str:
    return f"<FieldRef field={quoteattr(name)}/>"


def _derived(name: str, value: str) -> str:
    return f"   <DerivedField name={quoteattr(name)} optype='continuous' dataType='double'>{value}</DerivedField>"


def _curve(body: Curves, column: int, field: str) -> str:
    """Points joined by lines; two extra points give the lines beyond the outermost knots."""
    knots, heights = body.of(column)
    away, slope = np.ptp(knots) or 1.0, body.slopes[column]
    x = np.concatenate(([knots[0] - away], knots, [knots[-1] + away]))
    y = np.concatenate(([heights[0] - slope * away], heights, [heights[-1] + slope * away]))
    points = "".join(f"<LinearNorm orig='{float(a)!r}' norm='{float(b)!r}'/>" for a, b in zip(x, y, strict=True))
    return f"<NormContinuous field={quoteattr(field)} outliers='asIs'>{points}</NormContinuous>"


def _forest(form: Form, schema: str, given: str) -> list[str]:
    body = form.body
    assert isinstance(body, Trees)
    lines = [f" <MiningModel functionName='regression'>{schema}", "  <Segmentation multipleModelMethod='sum'>"]
    head = "<TreeModel functionName='regression' missingValueStrategy='defaultChild' splitCharacteristic='binarySplit'>"
    nodes = [_node(form, body, root, "<True/>") for root in body.roots.tolist()]
    nodes += [f"<Node score='{float(body.start)!r}'><True/></Node>"]
    schema = f"<MiningSchema>{given}</MiningSchema>"
    lines += [f"   <Segment><True/>{head}{schema}{node}</TreeModel></Segment>" for node in nodes]
    return [*lines, "  </Segmentation>", " </MiningModel>"]


def _node(form: Form, body: Trees, k: int, predicate: str) -> str:
    if body.feature[k] < 0:
        return f"<Node id='{k}' score='{float(body.number[k])!r}'>{predicate}</Node>"
    first = int(body.child[k])
    usual = first if body.missing[k] & MISSING_LEFT else first + 1
    field, limit = quoteattr(str(form.names[body.feature[k]])), float(body.number[k])
    left, right = (
        _node(form, body, node, f"<SimplePredicate field={field} operator='{test}' value='{limit!r}'/>")
        for node, test in ((first, "lessOrEqual"), (first + 1, "greaterThan"))
    )
    return f"<Node id='{k}' defaultChild='{usual}'>{predicate}{left}{right}</Node>"


def run_pmml(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Scores by the document's arithmetic, over whole columns."""
    root = ET.parse(files[0]).getroot()
    rows, space = dict(zip(form.names, X.T, strict=True)), {"p": NAMESPACE}
    for derived in root.iter(f"{{{NAMESPACE}}}DerivedField"):
        if (name := derived.attrib["name"]) in rows:
            raise ExportError(f"two fields of the document are called {name!r}")
        with np.errstate(all="ignore"):  # both branches of an `if` are evaluated
            rows[name] = _value(derived[0], rows)
    table = root.find(".//p:RegressionTable", space)
    if table is not None:
        total = np.full(len(X), float(table.attrib["intercept"]))
        for term in table:
            total += float(term.attrib["coefficient"]) * rows[term.attrib["name"]]
        return total
    return np.sum([_reached(node, rows, len(X)) for node in root.findall(".//p:TreeModel/p:Node", space)], 0)


def _value(element: ET.Element, rows: dict[str, np.ndarray]) -> object:
    """The value of an expression."""
    tag = element.tag.rpartition("}")[2]
    if tag == "NormContinuous":
        points = np.array([[float(p.attrib["orig"]), float(p.attrib["norm"])] for p in element])
        return _joined(points, rows[element.attrib["field"]])
    if tag == "FieldRef":
        return rows[element.attrib["field"]]
    if tag == "Constant":
        return np.float64(element.text or "")
    return JOINS[element.attrib["function"]](*(_value(part, rows) for part in element))


def _joined(points: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The line through the two points around each value, or nearest to it."""
    k = np.clip(np.searchsorted(points[:, 0], x, side="right") - 1, 0, len(points) - 2)
    low, high = points[k], points[k + 1]
    return low[:, 1] + (high[:, 1] - low[:, 1]) * ((x - low[:, 0]) / (high[:, 0] - low[:, 0]))


def _reached(node: ET.Element, rows: dict[str, np.ndarray], count: int) -> np.ndarray:
    if "score" in node.attrib:
        return np.full(count, float(node.attrib["score"]))
    left, right = node.findall(f"{{{NAMESPACE}}}Node")
    test = left[0].attrib
    x = rows[test["field"]]
    goes = np.where(np.isnan(x), node.attrib["defaultChild"] == left.attrib["id"], x <= float(test["value"]))
    return np.where(goes, _reached(left, rows, count), _reached(right, rows, count))
