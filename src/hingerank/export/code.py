"""A model as one self-contained function in C, JavaScript or Python: arrays and a loop over them."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from hingerank.arrays import Facts
from hingerank.export.code_scaling import FILLED, SCALED_C, SCALED_JAVASCRIPT, SCALED_PYTHON
from hingerank.export.forms import Affine, CosineSum, Curves, ExportError, Form, KernelSum, Surfaces, Trees
from hingerank.export.scalings import Logs, Places, ScaledColumns

ABOUT = "score(x) of a {ranker}, by hingerank {version}: x holds {count} features, a higher score ranks first."


def tables_of(form: Form) -> tuple[str, Facts]:
    """The kind of loop of the model, and the numbers it runs over."""
    body = form.body
    if isinstance(body, Affine):
        used = form.used()
        return "linear", {"OFFSET": float(body.offset), "FEATURE": used, "WEIGHT": body.weights[used]}
    if isinstance(body, Surfaces):
        curves = tables_of(replace(form, body=body.curves))[1] | {"PAIR": body.columns.ravel()}
        return "surfaces", curves | {"BEGIN": body.begins.ravel(), "END": body.ends.ravel(), "WEIGHT": body.weights}
    if isinstance(body, Curves):
        used = form.used()
        parts = [body.of(j) for j in used]
        start = np.cumsum([0, *(len(knots) for knots, _ in parts)])
        knots, heights = (np.concatenate([part[k] for part in parts] or [np.empty(0)]) for k in (0, 1))
        names = ("FEATURE", "START", "KNOT", "HEIGHT", "SLOPE")
        return "curves", dict(zip(names, (used, start, knots, heights, body.slopes[used]), strict=True))
    if isinstance(body, Trees):
        names = ("FEATURE", "NUMBER", "CHILD", "MISSING", "ROOT")
        columns = (body.feature, body.number, body.child, body.missing, body.roots)
        return "trees", {"START": float(body.start), **dict(zip(names, columns, strict=True))}
    if isinstance(body, CosineSum):
        return "waves", {"WEIGHT": body.weights, "PHASE": body.phases, "ROW": body.frequencies.ravel()}
    assert isinstance(body, KernelSum)
    tables: Facts = {"GAMMA": float(body.gamma), "WEIGHT": body.weights, "ROW": body.rows.ravel()}
    if body.kernel == "polynomial":
        tables |= {"DEGREE": int(body.degree), "COEF0": float(body.coef0)}
    return body.kernel, tables


def front_tables(form: Form) -> Facts:
    """The numbers used on a row before the model's own loop: what scales its columns, and fills missing values."""
    scaling, used = form.scaling, form.used()
    tables: Facts = {}
    if isinstance(scaling, ScaledColumns):
        tables = {"SCALED": used, "CENTRE": scaling.centre[used], "WIDTH": scaling.width[used]}
    elif isinstance(scaling, Logs):
        tables = {"SCALED": used, "WIDTH": scaling.width[used]}
    elif isinstance(scaling, Places):
        count = scaling.quantiles.shape[1]
        tables = {"SCALED": used, "QUANTILES": int(count), "QUANTILE": scaling.quantiles[used].ravel()}
    if form.filled is not None:
        tables |= {"WIDE": form.width, "FILL": form.filled.values, "MARKED": form.filled.marked}
    return tables


def write_python(form: Form, about: Facts) -> str:
    """The source of a module with one function, score."""
    lines = [
        f'"""{ABOUT.format(**about, count=form.n_features)}"""',
        "",
        "from bisect import bisect_left, bisect_right",
    ]
    lines += ["from math import copysign, cos, exp, log1p", ""]
    lines += [f"FEATURES = {_listed([repr(str(name)) for name in form.names], '[', ']')}"]
    functions = []
    for mark, part, loop, tables in _marked_parts(form):
        lines += [f"{name}{mark} = {_literal(value, '[', ']')}" for name, value in tables.items()]
        functions.append(_marked(_functions(part, PYTHON[loop], SCALED_PYTHON, "python"), tables, mark))
    if len(functions) > 1:
        functions.append(f'def score(x):\n    """The score of one row."""\n    return {_calls(functions)}')
    return "\n".join([*lines, "", "", "\n\n\n".join(functions), ""])


def write_javascript(form: Form, about: Facts) -> str:
    """The source of a module with one function, score."""
    names = _listed([json.dumps(str(name)) for name in form.names], "[", "]")
    lines = [f"// {ABOUT.format(**about, count=form.n_features)}", f"const FEATURES = {names};"]
    functions = []
    for mark, part, loop, tables in _marked_parts(form):
        lines += [f"const {name}{mark} = {_literal(value, '[', ']')};" for name, value in tables.items()]
        functions.append(_marked(_functions(part, JAVASCRIPT[loop], SCALED_JAVASCRIPT, "javascript"), tables, mark))
    if len(functions) > 1:
        functions.append(f"function score(x) {{\n  return {_calls(functions)};\n}}")
    ending = "if (typeof module !== 'undefined') module.exports = { score, FEATURES };"
    return "\n".join([*lines, "", "\n\n".join(functions), "", ending, ""])


def write_c(form: Form, about: Facts) -> str:
    """The source of a file with one function, score."""
    lines = [f"/* {ABOUT.format(**about, count=form.n_features)} */", "#include <math.h>", ""]
    names = _listed([_c_string(name) for name in form.names], "{", "}")
    lines += [f"const int N_FEATURES = {form.n_features};", f"const char *const FEATURES[] = {names};"]
    functions = []
    for mark, part, loop, tables in _marked_parts(form):
        tables.pop("WIDE", None)  # a constant, below
        for name, value in tables.items():
            kind = "int" if np.asarray(value).dtype.kind in "iu" else "double"
            size = f"[{max(1, len(value))}]" if isinstance(value, np.ndarray) else ""
            text = _literal(value, "{", "}") if np.size(value) else "{0}"
            lines.append(f"static const {kind} {name}{mark}{size} = {text};")
        counts = {"N": len(tables[{"trees": "ROOT", "curves": "SLOPE", "surfaces": "SLOPE"}.get(loop, "WEIGHT")])}
        counts |= {"PRODUCTS": len(tables["WEIGHT"])} if loop == "surfaces" else {}
        counts |= {"COLUMNS": len(part.used())} if part.scaling is not None else {}
        counts |= {"WIDE": part.width} if part.scaling is not None or part.filled is not None else {}
        counts |= {"MARKS": len(part.filled.marked)} if part.filled is not None else {}
        lines += [f"enum {{ {', '.join(f'{name}{mark} = {count}' for name, count in counts.items())} }};"]
        text = C[loop] if part.scaling is None else C[loop].replace("double score(", "static double score(", 1)
        text = _functions(part, text, SCALED_C, "c")
        text = text.replace("\ndouble score(", "\nstatic double score(") if mark else text
        text = f"static {text}" if mark and text.startswith("double score(") else text
        functions.append(_marked(text, {**tables, **counts}, mark))
    if len(functions) > 1:
        functions.append(f"double score(const double *x)\n{{\n    return {_calls(functions)};\n}}")
    return "\n".join([*lines, "", "\n\n".join(functions), ""])


def _marked_parts(form: Form) -> Iterator[tuple[str, Form, str, Facts]]:
    """The parts of a form: the suffix of its names if there are several, the part, its kind of loop and its numbers."""
    for k, part in enumerate(form.parts, 1):
        loop, tables = tables_of(part)
        yield f"_{k}" if len(form.parts) > 1 else "", part, loop, tables | front_tables(part)


def _marked(text: str, tables: Iterable[str], mark: str) -> str:
    """Source text with the suffix `mark` on the names of its tables and functions."""
    for name in tables if mark else ():
        text = re.sub(rf"\b{name}\b", name + mark, text)
    return re.sub(r"\b(score|of_scaled|of_filled|place)\(", rf"\g<1>{mark}(", text) if mark else text


def _calls(functions: list[str]) -> str:
    return " + ".join(f"score_{k}(x)" for k in range(1, len(functions) + 1))


def _functions(form: Form, loop: str, scaled: dict[str, str], language: str) -> str:
    """The function score; if features are scaled, one for scaled rows, and score, which scales and calls it.

    Likewise if missing values are filled, with one for filled rows.
    """
    text = loop if form.scaling is None else loop.replace(" score(", " of_scaled(", 1) + scaled[form.scaled]
    if form.filled is not None:
        for word in ("len(FEATURES)", "FEATURES.length", "N_FEATURES"):
            text = text.replace(word, "WIDE")
        text = text.replace("\ndouble score(", "\nstatic double score(").replace(" score(", " of_filled(", 1)
        text += FILLED[language]
    return text.strip("\n")


def _literal(value: object, opening: str, closing: str) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    return _listed([repr(item) for item in value.tolist()], opening, closing)


def _listed(items: Iterable[str], opening: str, closing: str) -> str:
    """Items separated by commas, in lines of up to 116 characters: a line ends after a comma, never inside an item."""
    lines: list[list[str]] = [[]]
    room = 100
    for item in items:
        if len(item) + 2 > room and lines[-1]:
            lines.append([])
            room = 116
        lines[-1].append(item)
        room -= len(item) + 2
    if len(lines) == 1:
        return opening + ", ".join(lines[0]) + closing
    return "\n    ".join([opening, *(f"{', '.join(line)}," for line in lines)]) + "\n" + closing


def _c_string(name: object) -> str:
    """A string literal of C in UTF-8; bytes beyond plain letters are octal, which no following letter can change."""
    if "\0" in str(name):
        raise ExportError(f"the feature {name!r} contains a zero byte, the end of a C string: rename it by features=")
    plain = (chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in str(name).encode("utf-8"))
    return f'"{"".join(plain)}"'


PYTHON = {
    "linear": '''
def score(x):
    """The score of one row."""
    return OFFSET + sum(w * x[j] for j, w in zip(FEATURE, WEIGHT))
''',
    "trees": '''
def score(x):
    """The score of one row; None and NaN are missing values."""
    total = START
    for node in ROOT:
        while FEATURE[node] >= 0:
            v = x[FEATURE[node]]
            if v is None or v != v or (v == 0 and MISSING[node] & 2):
                left = MISSING[node] & 1
            else:
                left = v <= NUMBER[node]
            node = CHILD[node] if left else CHILD[node] + 1
        total += NUMBER[node]
    return total
''',
    "curves": '''
def score(x):
    """The score of one row: the sum of the features' curves, linear between knots."""
    total = 0.0
    for k, j in enumerate(FEATURE):
        v, first, last = x[j], START[k], START[k + 1] - 1
        i = first
        while i < last and KNOT[i + 1] <= v:
            i += 1
        if v < KNOT[first] or i == last:
            total += HEIGHT[i] + SLOPE[k] * (v - KNOT[i])
        else:
            total += HEIGHT[i] + (HEIGHT[i + 1] - HEIGHT[i]) * ((v - KNOT[i]) / (KNOT[i + 1] - KNOT[i]))
    return total
''',
    "waves": '''
def score(x):
    """The score of one row."""
    d = len(FEATURES)
    waves = (PHASE[i] + sum(ROW[i * d + j] * x[j] for j in range(d)) for i in range(len(WEIGHT)))
    return sum(w * cos(wave) for w, wave in zip(WEIGHT, waves))
''',
    "rbf": '''
def score(x):
    """The score of one row."""
    d = len(FEATURES)
    squares = (sum((x[j] - ROW[i * d + j]) ** 2 for j in range(d)) for i in range(len(WEIGHT)))
    return sum(w * exp(-GAMMA * square) for w, square in zip(WEIGHT, squares))
''',
    "polynomial": '''
def score(x):
    """The score of one row."""
    d = len(FEATURES)
    products = (sum(x[j] * ROW[i * d + j] for j in range(d)) for i in range(len(WEIGHT)))
    return sum(w * (GAMMA * product + COEF0) ** DEGREE for w, product in zip(WEIGHT, products))
''',
}
JAVASCRIPT = {
    "linear": """
function score(x) {
  let total = OFFSET;
  for (let k = 0; k < WEIGHT.length; k++) total += WEIGHT[k] * x[FEATURE[k]];
  return total;
}
""",
    "trees": """
// null, undefined and NaN are missing values
function score(x) {
  let total = START;
  for (let node of ROOT) {
    while (FEATURE[node] >= 0) {
      const v = x[FEATURE[node]];
      const missing = v == null || v !== v || (v === 0 && (MISSING[node] & 2));
      const left = missing ? MISSING[node] & 1 : v <= NUMBER[node];
      node = left ? CHILD[node] : CHILD[node] + 1;
    }
    total += NUMBER[node];
  }
  return total;
}
""",
    "curves": """
// the sum of the features' curves, linear between knots
function score(x) {
  let total = 0;
  for (let k = 0; k < SLOPE.length; k++) {
    const v = x[FEATURE[k]], first = START[k], last = START[k + 1] - 1;
    let i = first;
    while (i < last && KNOT[i + 1] <= v) i++;
    if (v < KNOT[first] || i === last) total += HEIGHT[i] + SLOPE[k] * (v - KNOT[i]);
    else total += HEIGHT[i] + (HEIGHT[i + 1] - HEIGHT[i]) * ((v - KNOT[i]) / (KNOT[i + 1] - KNOT[i]));
  }
  return total;
}
""",
    "waves": """
function score(x) {
  const d = FEATURES.length;
  let total = 0;
  for (let i = 0; i < WEIGHT.length; i++) {
    let wave = PHASE[i];
    for (let j = 0; j < d; j++) wave += ROW[i * d + j] * x[j];
    total += WEIGHT[i] * Math.cos(wave);
  }
  return total;
}
""",
    "rbf": """
function score(x) {
  const d = FEATURES.length;
  let total = 0;
  for (let i = 0; i < WEIGHT.length; i++) {
    let square = 0;
    for (let j = 0; j < d; j++) square += (x[j] - ROW[i * d + j]) ** 2;
    total += WEIGHT[i] * Math.exp(-GAMMA * square);
  }
  return total;
}
""",
    "polynomial": """
function score(x) {
  const d = FEATURES.length;
  let total = 0;
  for (let i = 0; i < WEIGHT.length; i++) {
    let product = 0;
    for (let j = 0; j < d; j++) product += x[j] * ROW[i * d + j];
    total += WEIGHT[i] * (GAMMA * product + COEF0) ** DEGREE;
  }
  return total;
}
""",
}
C = {
    "linear": """
double score(const double *x)
{
    double total = OFFSET;
    for (int k = 0; k < N; k++) total += WEIGHT[k] * x[FEATURE[k]];
    return total;
}
""",
    "trees": """
/* NAN is a missing value */
double score(const double *x)
{
    double total = START;
    for (int k = 0; k < N; k++) {
        int node = ROOT[k];
        while (FEATURE[node] >= 0) {
            double v = x[FEATURE[node]];
            int missing = isnan(v) || (v == 0 && (MISSING[node] & 2));
            int left = missing ? MISSING[node] & 1 : v <= NUMBER[node];
            node = left ? CHILD[node] : CHILD[node] + 1;
        }
        total += NUMBER[node];
    }
    return total;
}
""",
    "curves": """
/* the sum of the features' curves, linear between knots */
double score(const double *x)
{
    double total = 0;
    for (int k = 0; k < N; k++) {
        double v = x[FEATURE[k]];
        int first = START[k], last = START[k + 1] - 1, i = first;
        while (i < last && KNOT[i + 1] <= v) i++;
        if (v < KNOT[first] || i == last) total += HEIGHT[i] + SLOPE[k] * (v - KNOT[i]);
        else total += HEIGHT[i] + (HEIGHT[i + 1] - HEIGHT[i]) * ((v - KNOT[i]) / (KNOT[i + 1] - KNOT[i]));
    }
    return total;
}
""",
    "waves": """
double score(const double *x)
{
    double total = 0;
    for (int i = 0; i < N; i++) {
        double wave = PHASE[i];
        for (int j = 0; j < N_FEATURES; j++) wave += ROW[i * N_FEATURES + j] * x[j];
        total += WEIGHT[i] * cos(wave);
    }
    return total;
}
""",
    "rbf": """
double score(const double *x)
{
    double total = 0;
    for (int i = 0; i < N; i++) {
        double square = 0;
        for (int j = 0; j < N_FEATURES; j++) {
            double gap = x[j] - ROW[i * N_FEATURES + j];
            square += gap * gap;
        }
        total += WEIGHT[i] * exp(-GAMMA * square);
    }
    return total;
}
""",
    "polynomial": """
double score(const double *x)
{
    double total = 0;
    for (int i = 0; i < N; i++) {
        double product = 0;
        for (int j = 0; j < N_FEATURES; j++) product += x[j] * ROW[i * N_FEATURES + j];
        total += WEIGHT[i] * pow(GAMMA * product + COEF0, DEGREE);
    }
    return total;
}
""",
}


# Curves, and products of ramps from 0 to 1 over two features

PYTHON["surfaces"] = PYTHON["curves"].replace(
    "    return total\n",
    """    for k, w in enumerate(WEIGHT):
        for i in (2 * k, 2 * k + 1):
            w *= min(1.0, max(0.0, (x[PAIR[i]] - BEGIN[i]) / (END[i] - BEGIN[i])))
        total += w
    return total
""",
)
JAVASCRIPT["surfaces"] = JAVASCRIPT["curves"].replace(
    "  return total;\n",
    """  for (let k = 0; k < WEIGHT.length; k++) {
    let w = WEIGHT[k];
    for (let i = 2 * k; i < 2 * k + 2; i++)
      w *= Math.min(1, Math.max(0, (x[PAIR[i]] - BEGIN[i]) / (END[i] - BEGIN[i])));
    total += w;
  }
  return total;
""",
)
C["surfaces"] = C["curves"].replace(
    "    return total;\n",
    """    for (int k = 0; k < PRODUCTS; k++) {
        double w = WEIGHT[k];
        for (int i = 2 * k; i < 2 * k + 2; i++)
            w *= fmin(1, fmax(0, (x[PAIR[i]] - BEGIN[i]) / (END[i] - BEGIN[i])));
        total += w;
    }
    return total;
""",
)
