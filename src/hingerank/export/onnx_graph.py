"""A model as an ONNX graph, in double or single precision, for any number of rows; it scales within queries itself.

Inputs: ``features`` (rows × features) and, if features are scaled within queries, ``query`` (an int64 id per row).
Output: ``scores``, one per row.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hingerank.arrays import ArrayLike, Facts
from hingerank.data.missing import MissingValues
from hingerank.data.scaling import ColumnScaler, LogScaler, QuantileScaler, Scaler
from hingerank.export.forest import ZERO_IS_MISSING
from hingerank.export.forms import (
    Affine,
    CosineSum,
    ExportError,
    Form,
    KernelSum,
    Shapes,
    Trees,
    largest_single,
)
from hingerank.features.curves import Curves
from hingerank.kernels.threads import threads_for

OPSET, TREE_OPSET, IR_VERSION = 18, 5, 10
PRECISIONS: Facts = {"double": np.float64, "float": np.float32}


class Graph:
    """Nodes and constants of a graph, numbered in the order of their creation."""

    def __init__(self, precision: str):
        import onnx

        if precision not in PRECISIONS:
            raise ExportError(f"precision must be 'double' or 'float', not {precision!r}")
        self.onnx, self.dtype = onnx, PRECISIONS[precision]
        self.type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        self.nodes: list[object] = []
        self.constants: list[object] = []

    def constant(self, value: ArrayLike, dtype: DTypeLike | None = None) -> str:
        """Add a constant and return its name."""
        name = f"c{len(self.constants)}"
        with np.errstate(over="ignore"):
            array = np.asarray(value, self.dtype if dtype is None else dtype)
        if array.dtype.kind == "f" and np.isinf(array).any():
            raise ExportError("the model has numbers beyond single precision: use onnx with precision='double'")
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add an operator and return the name, or names, of its outputs."""
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def product(self, rows: str, matrix: np.ndarray) -> str:
        """Add a product of rows and a matrix; for a single column by `Mul`, since onnxruntime fuses a `MatMul` with a
        single factor before it, which it rounds to single precision."""
        return self.add("Mul" if len(matrix) == 1 else "MatMul", rows, self.constant(matrix))

    def weighted(self, rows: str, weights: np.ndarray) -> str:
        """Add a product of rows and weights: a matrix of one column, since onnxruntime takes no vector for 0 rows."""
        return self.add("Squeeze", self.product(rows, weights[:, None]), self.constant([1], np.int64))


def write_onnx(form: Form, about: Facts, precision: str) -> bytes:
    """The bytes of a model file."""
    graph = Graph(precision)
    onnx = graph.onnx
    given = onnx.helper.make_tensor_value_info
    inputs = [given("features", graph.type, ["rows", form.n_features])]
    if form.within_queries:
        inputs.append(given("query", onnx.TensorProto.INT64, ["rows"]))
    within: dict[tuple[str, str, bool], str] = {}  # (rows, scaling, gaps) -> scaled rows, shared by all parts
    scores = ""
    for part in form.parts:
        x = "features" if part.filled is None else _filled(graph, part.filled)
        if part.within_queries:
            gaps = part.filled is None and isinstance(part.body, Trees)
            key = (part.scaled, x, gaps)
            if key not in within:
                within[key] = _scaled_queries(graph, x, part.width, part.scaled, gaps)
            x = within[key]
        elif part.scaling is not None:
            x = _scaled_columns(graph, x, part.scaling)
        own = _trees(graph, part, x) if isinstance(part.body, Trees) else _scores(graph, part, x)
        scores = graph.add("Add", scores, own) if scores else own
    graph.nodes.append(onnx.helper.make_node("Identity", [scores], ["scores"]))
    outputs = [given("scores", graph.type, ["rows"])]
    made = onnx.helper.make_graph(graph.nodes, "ranker", inputs, outputs, graph.constants)
    versions = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", TREE_OPSET)]
    model = onnx.helper.make_model(
        made, opset_imports=versions, producer_name="hingerank", producer_version=about["version"]
    )
    model.ir_version = IR_VERSION
    facts = {"ranker": about["ranker"], "features": json.dumps([str(name) for name in form.names])}
    hows = ", ".join(form.within_queries) or "none"
    facts |= {"precision": precision, "query_scaling": hows, "notes": json.dumps(about["notes"])}
    onnx.helper.set_model_props(model, facts)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _filled(graph: Graph, filled: MissingValues) -> str:
    """Features with missing values filled, and columns that mark some of them."""
    x, absent = "features", graph.add("IsNaN", "features")
    full = graph.add("Where", absent, graph.constant(filled.values), x)
    if not len(filled.marked):
        return full
    marks = graph.add(
        "Cast", graph.add("Gather", absent, graph.constant(filled.marked, np.int64), axis=1), to=graph.type
    )
    return graph.add("Concat", full, marks, axis=1)


def _scaled_columns(graph: Graph, x: str, scaling: Scaler) -> str:
    """Features scaled column by column."""
    if isinstance(scaling, ColumnScaler):
        return graph.add("Div", graph.add("Sub", x, graph.constant(scaling.centre_)), graph.constant(scaling.width_))
    one = graph.constant(1.0)
    if isinstance(scaling, LogScaler):  # with u = 1 + s rounded, log(u) s / (u - 1) is exact for a small s too
        size = graph.add("Abs", x)
        u = graph.add("Add", size, one)
        exact = graph.add("Div", graph.add("Mul", graph.add("Log", u), size), graph.add("Sub", u, one))
        log = graph.add("Where", graph.add("Equal", u, one), size, exact)
        return graph.add("Div", graph.add("Mul", graph.add("Sign", x), log), graph.constant(scaling.width_))
    assert isinstance(scaling, QuantileScaler)
    knots = scaling.quantiles_.astype(graph.dtype)  # the mean of ramps from 0 to 1, which are steps between equal knots
    begin, width, last = knots[:, :-1], np.diff(knots), graph.constant([2], np.int64)
    moved = graph.add("Sub", graph.add("Unsqueeze", x, last), graph.constant(begin))
    ramp = graph.add("Div", moved, graph.constant(np.where(width > 0, width, 1.0)))
    ramp = graph.add("Min", graph.add("Max", ramp, graph.constant(0.0)), one)
    half = graph.constant(0.5)
    step = graph.add("Add", graph.add("Mul", graph.add("Sign", moved), half), half)
    ramps = graph.add("Where", graph.constant(width > 0, np.bool_), ramp, step)
    return graph.add("Where", graph.add("IsNaN", x), x, graph.add("ReduceMean", ramps, last, keepdims=0))


def _scaled_queries(graph: Graph, x: str, d: int, how: str, gaps: bool) -> str:
    """Features scaled by the minimum and maximum, or the mean and standard deviation, of their own query; gaps: whether
    NaN may occur, which is skipped and kept."""
    queries, _, group, counts = graph.add("Unique", "query", outputs=4, sorted=1)
    shape = graph.add(
        "Concat", graph.add("Shape", queries), graph.constant([d], np.int64), axis=0
    )  # queries × features
    column = graph.constant([1], np.int64)
    index = graph.add("Expand", graph.add("Unsqueeze", group, column), graph.add("Shape", x))

    zero, one = graph.constant(0.0), graph.constant(1.0)
    absent = graph.add("IsNaN", x) if gaps else ""

    def gathered(values: str, reduction: str, start: float) -> str:
        """For each row, a reduction of `values` over its query."""
        begun = graph.add("Expand", graph.constant(start), shape)
        values = graph.add("Where", absent, graph.constant(start), values) if gaps else values
        reduced = graph.add("ScatterElements", begun, index, values, axis=0, reduction=reduction)
        return graph.add("Gather", reduced, group, axis=0)

    most = float(np.finfo(graph.dtype).max)
    low, high = gathered(x, "min", most), gathered(x, "max", -most)
    moved, width = graph.add("Sub", x, low), graph.add("Sub", high, low)
    if how == "query-standard":
        if gaps:
            known = gathered(graph.add("Expand", one, graph.add("Shape", x)), "add", 0.0)
            size = graph.add("Max", known, one)
        else:
            size = graph.add("Unsqueeze", graph.add("Gather", counts, group), column)
            size = graph.add("Cast", size, to=graph.type)
        moved = graph.add("Sub", moved, graph.add("Div", gathered(moved, "add", 0.0), size))
        squares = gathered(graph.add("Mul", moved, moved), "add", 0.0)
        width = graph.add("Sqrt", graph.add("Div", squares, size))
    some = graph.add("Greater", width, zero)
    scaled = graph.add("Where", some, graph.add("Div", moved, graph.add("Where", some, width, one)), zero)
    return graph.add("Where", absent, x, scaled) if gaps else scaled


def _scores(graph: Graph, form: Form, x: str) -> str:
    body = form.body
    if isinstance(body, Affine):
        return graph.add("Add", graph.weighted(x, body.weights), graph.constant(body.offset))
    if isinstance(body, Shapes):
        curves = _curves(graph, body.curves, x)
        return graph.add("Add", curves, _products(graph, body, x)) if len(body.weights) else curves
    if isinstance(body, CosineSum):
        waves = graph.product(x, body.frequencies.T)
        quarter = graph.constant(body.phases + np.pi / 2)  # older versions of onnxruntime have no cosine of doubles
        values = graph.add("Sin", graph.add("Add", waves, quarter))
        return graph.weighted(values, body.weights)
    assert isinstance(body, KernelSum)
    if body.kernel == "polynomial":
        product = graph.product(x, body.gamma * body.rows.T)
        values = graph.add("Pow", graph.add("Add", product, graph.constant(body.coef0)), graph.constant(body.degree))
        return graph.weighted(values, body.weights)
    middle = body.rows.mean(axis=0)  # ‖x − l‖² by a product, centred so that little cancels
    rows = np.sqrt(body.gamma) * (body.rows - middle)
    root = np.full(form.width, np.sqrt(body.gamma))  # not a scalar, which would be fused into the product as float
    z = graph.add("Mul", graph.add("Sub", x, graph.constant(middle)), graph.constant(root))
    own = graph.add("ReduceSum", graph.add("Mul", z, z), graph.constant([1], np.int64), keepdims=1)
    product = graph.add("Sub", graph.product(z, 2 * rows.T), own)
    exponent = graph.add("Sub", product, graph.constant(np.square(rows).sum(axis=1)))
    values = graph.add("Exp", graph.add("Min", exponent, graph.constant(0.0)))
    return graph.weighted(values, body.weights)


def _curves(graph: Graph, body: Curves, x: str) -> str:
    """Sum over segments of the rise times the position of the value in it, from 0 to 1, and the slopes outside."""
    first, last = body.starts[:-1], body.starts[1:] - 1
    column = np.repeat(np.arange(len(first)), np.diff(body.starts))
    ends = np.flatnonzero(~np.isin(np.arange(len(column)), first))  # a segment ends at every knot but the first
    zero = graph.constant(0.0)
    below = graph.add("Min", graph.add("Sub", x, graph.constant(body.knots[first])), zero)
    above = graph.add("Max", graph.add("Sub", x, graph.constant(body.knots[last])), zero)
    outside = graph.weighted(graph.add("Add", below, above), body.slopes)
    scores = graph.add("Add", outside, graph.constant(body.heights[first].sum()))
    if not len(ends):
        return scores
    place = _ramps(graph, x, column[ends], body.knots[ends - 1], body.knots[ends])
    return graph.add("Add", scores, graph.weighted(place, body.heights[ends] - body.heights[ends - 1]))


def _products(graph: Graph, body: Shapes, x: str) -> str:
    """Sums of products of two ramps."""
    ramps = (_ramps(graph, x, body.columns[:, k], body.begins[:, k], body.ends[:, k]) for k in (0, 1))
    return graph.weighted(graph.add("Mul", *ramps), body.weights)


def _ramps(graph: Graph, x: str, columns: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> str:
    """Functions of some columns that rise from 0 at `begins` to 1 at `ends`."""
    each = graph.add("Gather", x, graph.constant(columns, np.int64), axis=1)
    place = graph.add("Div", graph.add("Sub", each, graph.constant(begins)), graph.constant(ends - begins))
    return graph.add("Min", graph.add("Max", place, graph.constant(0.0)), graph.constant(1.0))


def _trees(graph: Graph, form: Form, x: str) -> str:
    """A TreeEnsemble, which numbers inner nodes and leaves separately; trees of one leaf are added to the start."""
    body = form.body
    assert isinstance(body, Trees)
    inner, column = body.feature >= 0, body.feature[body.feature >= 0]
    start = body.start + float(body.number[body.roots[~inner[body.roots]]].sum())
    roots = body.roots[inner[body.roots]]
    if not len(roots):  # the start for every row, whatever is missing there
        return graph.add("Expand", graph.constant(start), graph.add("Shape", x, start=0, end=1))
    if (body.missing[inner] & ZERO_IS_MISSING).any():
        at_zero = np.zeros(form.n_features)
        at_zero[column[(body.missing[inner] & ZERO_IS_MISSING) > 0]] = np.nan
        x = graph.add("Where", graph.add("Equal", x, graph.constant(0.0)), graph.constant(at_zero), x)
    numbers = np.where(inner, np.cumsum(inner) - 1, np.cumsum(~inner) - 1)  # among inner nodes, or among leaves
    first = body.child[inner]
    splits = body.number[inner]
    splits = largest_single(splits) if graph.dtype == np.float32 else splits
    tensor = graph.onnx.numpy_helper.from_array
    values = graph.add(
        "TreeEnsemble", x, domain="ai.onnx.ml", n_targets=1, aggregate_function=1, post_transform=0,
        tree_roots=numbers[roots].tolist(), nodes_splits=tensor(splits.astype(graph.dtype)),
        nodes_modes=tensor(np.zeros(len(first), np.uint8)), nodes_featureids=column.tolist(),
        nodes_truenodeids=numbers[first].tolist(), nodes_falsenodeids=numbers[first + 1].tolist(),
        nodes_trueleafs=(~inner[first]).astype(int).tolist(), nodes_falseleafs=(~inner[first + 1]).astype(int).tolist(),
        nodes_missing_value_tracks_true=(body.missing[inner] & 1).astype(int).tolist(),
        leaf_targetids=[0] * int((~inner).sum()), leaf_weights=tensor(body.number[~inner].astype(graph.dtype)),
    )  # fmt: skip
    values = graph.add("Squeeze", values, graph.constant([1], np.int64))
    return graph.add("Add", values, graph.constant(start))


def run_onnx(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Scores by onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads_for(X.size)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(files[0]), options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()
    dtype = np.float64 if given[0].type == "tensor(double)" else np.float32
    rows = {given[0].name: np.ascontiguousarray(X, dtype)}
    if len(given) > 1:
        rows[given[1].name] = np.asarray(qid, np.int64)
    return np.asarray(session.run(None, rows)[0], np.float64)
