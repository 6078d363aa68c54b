"""A model as PMML 4.4: a regression, on curves of the features where it has some, or a sum of trees."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from hingerank.export.forms import Affine, Curves, ExportError, Form, Trees, goes_left

NAMESPACE = "http://www.dmg.org/PMML-4_4"


def write_pmml(form: Form, about: dict[str, Any]) -> str:
    """The text of a PMML document."""
    used = [form.names[j] for j in form.used()] or [form.names[0]]
    fields = [f"  <DataField name={quoteattr(n)} optype='continuous' dataType='double'/>" for n in used]
    mining = [f"<MiningField name={quoteattr(n)}{_missing(form)}/>" for n in used]
    schema = f"<MiningSchema><MiningField name='score' usageType='target'/>{''.join(mining)}</MiningSchema>"
    lines = [
        "<?xml version='1.0' encoding='UTF-8'?>",
        f"<PMML xmlns='{NAMESPACE}' version='4.4'>",
        f" <Header description={quoteattr(' '.join(about['notes']))}>",
        f"  <Application name='hingerank' version='{about['version']}'/></Header>",
        " <DataDictionary>",
        "  <DataField name='score' optype='continuous' dataType='double'/>",
        *fields,
        " </DataDictionary>",
    ]
    body = form.body
    if isinstance(body, Curves):
        terms = [f"curve of {form.names[j]}" for j in form.used()]
        lines += [f" <RegressionModel functionName='regression'>{schema}", "  <LocalTransformations>"]
        lines += [_curve(form, body, int(j), name) for j, name in zip(form.used(), terms, strict=True)]
        lines += ["  </LocalTransformations>", "  <RegressionTable intercept='0.0'>"]
        lines += [f"   <NumericPredictor name={quoteattr(name)} coefficient='1.0'/>" for name in terms]
        return "\n".join([*lines, "  </RegressionTable>", " </RegressionModel>", "</PMML>", ""])
    if isinstance(body, Affine):
        lines += [f" <RegressionModel functionName='regression'>{schema}"]
        lines += [f"  <RegressionTable intercept='{float(body.offset)!r}'>"]
        lines += [
            f"   <NumericPredictor name={quoteattr(form.names[j])} coefficient='{float(body.weights[j])!r}'/>"
            for j in form.used()
        ]
        return "\n".join([*lines, "  </RegressionTable>", " </RegressionModel>", "</PMML>", ""])
    lines += [f" <MiningModel functionName='regression'>{schema}", "  <Segmentation multipleModelMethod='sum'>"]
    plain = f"<MiningSchema>{''.join(mining)}</MiningSchema>"
    head = "<TreeModel functionName='regression' missingValueStrategy='defaultChild' splitCharacteristic='binarySplit'>"
    nodes = [_node(form, body, root, "<True/>") for root in body.roots.tolist()]
    nodes += [f"<Node score='{float(body.start)!r}'><True/></Node>"]
    lines += [f"   <Segment><True/>{head}{plain}{node}</TreeModel></Segment>" for node in nodes]
    return "\n".join([*lines, "  </Segmentation>", " </MiningModel>", "</PMML>", ""])


def _curve(form: Form, body: Curves, column: int, name: str) -> str:
    """Points that are joined by lines; two further ones give the lines beyond the outermost knots."""
    knots, heights = body.of(column)
    away, slope = np.ptp(knots) or 1.0, body.slopes[column]
    x = np.concatenate(([knots[0] - away], knots, [knots[-1] + away]))
    y = np.concatenate(([heights[0] - slope * away], heights, [heights[-1] + slope * away]))
    points = "".join(f"<LinearNorm orig='{float(a)!r}' norm='{float(b)!r}'/>" for a, b in zip(x, y, strict=True))
    field = f"<NormContinuous field={quoteattr(form.names[column])} outliers='asIs'>{points}</NormContinuous>"
    return f"   <DerivedField name={quoteattr(name)} optype='continuous' dataType='double'>{field}</DerivedField>"


def _missing(form: Form) -> str:
    return "" if form.kind == "trees" else " invalidValueTreatment='asIs'"


def _node(form: Form, body: Trees, k: int, predicate: str) -> str:
    if body.feature[k] < 0:
        return f"<Node id='{k}' score='{float(body.number[k])!r}'>{predicate}</Node>"
    missing_left, zero_left = goes_left(body, k)
    if zero_left is not None:
        raise ExportError("these trees take zeros for missing values, which this format cannot say: use sql or onnx")
    first = int(body.child[k])
    test = f"<SimplePredicate field={quoteattr(form.names[body.feature[k]])} operator='{{}}' value='{{!r}}'/>"
    limit = float(body.number[k])
    left = _node(form, body, first, test.format("lessOrEqual", limit))
    right = _node(form, body, first + 1, test.format("greaterThan", limit))
    return f"<Node id='{k}' defaultChild='{first + (not missing_left)}'>{predicate}{left}{right}</Node>"


def run_pmml(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """What the document says, over whole columns."""
    root = ET.parse(files[0]).getroot()
    rows, space = dict(zip(form.names, X.T, strict=True)), {"p": NAMESPACE}
    for derived in root.iter(f"{{{NAMESPACE}}}DerivedField"):
        points = np.array([[float(p.attrib["orig"]), float(p.attrib["norm"])] for p in derived[0]])
        rows[derived.attrib["name"]] = _joined(points, rows[derived[0].attrib["field"]])
    table = root.find(".//p:RegressionTable", space)
    if table is not None:
        total = np.full(len(X), float(table.attrib["intercept"]))
        for term in table:
            total += float(term.attrib["coefficient"]) * rows[term.attrib["name"]]
        return total
    return np.sum(
        [_reached(tree.find("p:Node", space), rows, len(X)) for tree in root.iter(f"{{{NAMESPACE}}}TreeModel")], 0
    )


def _joined(points: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The line through the two points around each value, or nearest to it."""
    k = np.clip(np.searchsorted(points[:, 0], x, side="right") - 1, 0, len(points) - 2)
    low, high = points[k], points[k + 1]
    return low[:, 1] + (high[:, 1] - low[:, 1]) * ((x - low[:, 0]) / (high[:, 0] - low[:, 0]))


def _reached(node: Any, rows: dict[str, np.ndarray], count: int) -> np.ndarray:
    if "score" in node.attrib:
        return np.full(count, float(node.attrib["score"]))
    left, right = node.findall(f"{{{NAMESPACE}}}Node")
    test = left[0].attrib
    x = rows[test["field"]]
    goes = np.where(np.isnan(x), node.attrib["defaultChild"] == left.attrib["id"], x <= float(test["value"]))
    return np.where(goes, _reached(left, rows, count), _reached(right, rows, count))
