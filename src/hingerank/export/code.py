"""A model as one self-contained function in C, JavaScript or Python: arrays and a loop over them; and how to run it."""

import ctypes
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.scaling import ColumnScaler, LogScaler, QuantileScaler
from hingerank.export.code_texts import JAVASCRIPT, PYTHON, C
from hingerank.export.forms import Affine, CosineSum, ExportError, Form, KernelSum, Shapes, Trees

ABOUT = "score(x) of a {ranker}, by hingerank {version}: x holds {count} features, a higher score ranks first."
COUNTED = {"trees": "ROOT", "curves": "SLOPE", "surfaces": "SLOPE"}  # the table whose length is the number of a loop


def tables_of(form: Form) -> tuple[str, Facts]:
    """The kind of loop of the model, and the numbers it runs over."""
    body = form.body
    tables: Facts
    if isinstance(body, Affine):
        used = form.used()
        return "linear", {"OFFSET": float(body.offset), "FEATURE": used, "WEIGHT": body.weights[used]}
    if isinstance(body, Shapes):
        used = form.used()
        parts = [body.curves.of(j) for j in used]
        knots, heights = (np.concatenate([part[k] for part in parts] or [np.empty(0)]) for k in (0, 1))
        tables = {"FEATURE": used, "START": np.cumsum([0, *(len(knots) for knots, _ in parts)])}
        tables |= {"KNOT": knots, "HEIGHT": heights, "SLOPE": body.curves.slopes[used]}
        if form.kind == "surfaces":
            tables |= {"PAIR": body.columns.ravel(), "BEGIN": body.begins.ravel(), "END": body.ends.ravel()}
            tables["WEIGHT"] = body.weights
        return form.kind, tables
    if isinstance(body, Trees):
        names = ("FEATURE", "NUMBER", "CHILD", "MISSING", "ROOT")
        columns = (body.feature, body.number, body.child, body.missing, body.roots)
        return "trees", {"START": float(body.start), **dict(zip(names, columns, strict=True))}
    if isinstance(body, CosineSum):
        return "waves", {"WEIGHT": body.weights, "PHASE": body.phases, "ROW": body.frequencies.ravel()}
    assert isinstance(body, KernelSum)
    tables = {"GAMMA": float(body.gamma), "WEIGHT": body.weights, "ROW": body.rows.ravel()}
    if body.kernel == "polynomial":
        tables |= {"DEGREE": int(body.degree), "COEF0": float(body.coef0)}
    return body.kernel, tables


def front_tables(form: Form) -> Facts:
    """The numbers used on a row before the model's own loop: what scales its columns, and fills missing values."""
    scaling, used = form.scaling, form.used()
    tables: Facts = {} if scaling is None else {"SCALED": used}
    if isinstance(scaling, ColumnScaler):
        tables["CENTRE"] = scaling.centre_[used]
    if isinstance(scaling, ColumnScaler | LogScaler):
        tables["WIDTH"] = scaling.width_[used]
    if isinstance(scaling, QuantileScaler):
        tables |= {"QUANTILES": scaling.quantiles_.shape[1], "QUANTILE": scaling.quantiles_[used].ravel()}
    if form.filled is not None:
        tables |= {"FILL": form.filled.values, "MARKED": form.filled.marked}
    return tables


def _c_string(name: str) -> str:
    """A string literal of C in UTF-8; bytes beyond plain letters are octal, which no following letter can change."""
    if "\0" in name:
        raise ExportError(f"the feature {name!r} contains a zero byte, the end of a C string: rename it by features=")
    plain = (chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in name.encode("utf-8"))
    return f'"{"".join(plain)}"'


class Language(NamedTuple):
    """The functions of a language, and how it writes strings, arrays, the head and the end of a file, and constants."""

    functions: Mapping[str, str]
    quote: Callable[[str], str]
    brackets: str
    head: str
    table: str
    counts: str
    gap: str = "\n\n"  # between functions
    end: str = "\n"


LANGUAGES = {
    "python": Language(
        PYTHON, repr, "[]",
        '"""{about}"""\n\nfrom bisect import bisect_left, bisect_right\nfrom math import copysign, cos, exp, log1p\n\n'
        "FEATURES = {names}",
        "{name} = {value}", "{}", gap="\n\n\n",
    ),
    "c": Language(
        C, _c_string, "{}",
        "/* {about} */\n#include <math.h>\n\n"
        "const int N_FEATURES = {count};\nconst char *const FEATURES[] = {names};",
        "static const {kind} {name}{size} = {value};", "enum {{ {} }};",
    ),
    "javascript": Language(
        JAVASCRIPT, json.dumps, "[]", "// {about}\nconst N_FEATURES = {count};\nconst FEATURES = {names};",
        "const {name} = {value};", "const {};",
        end="\n\nif (typeof module !== 'undefined') module.exports = { score, FEATURES };\n",
    ),
}  # fmt: skip


def write_code(language: str, form: Form, about: Facts) -> str:
    """The source of a file with one function, score: for each part of the form its numbers and functions (the loop,
    and before it the scaling and the filling of missing values), and their sum if there are several."""
    own = LANGUAGES[language]
    names = _listed([own.quote(str(name)) for name in form.names], own.brackets)
    lines = [own.head.format(about=ABOUT.format(**about, count=form.n_features), count=form.n_features, names=names)]
    functions = []
    for k, part in enumerate(form.parts, 1):
        loop, tables = tables_of(part)
        counts = {"N": len(tables[COUNTED.get(loop, "WEIGHT")]), "PRODUCTS": len(tables.get("WEIGHT", ()))}
        tables |= front_tables(part)
        text = own.functions[loop]
        if part.scaling is not None:
            text = text.replace(" score(", " of_scaled(", 1) + own.functions[part.scaled]
        if part.filled is not None:
            text = re.sub(r"len\(FEATURES\)|\bN_FEATURES\b", "WIDE", text)
            text = text.replace(" score(", " of_filled(", 1) + own.functions["filled"]
        counts |= {"COLUMNS": len(tables.get("SCALED", ())), "WIDE": part.width, "MARKS": len(tables.get("MARKED", ()))}
        counts = {name: count for name, count in counts.items() if re.search(rf"\b{name}\b", text)}
        mark = f"_{k}" if len(form.parts) > 1 else ""  # at the end of all names
        for name, value in tables.items():
            kind = "int" if np.asarray(value).dtype.kind in "iu" else "double"
            size = f"[{max(1, len(value))}]" if isinstance(value, np.ndarray) else ""
            items = _listed(map(repr, value.tolist()), own.brackets) if size else repr(value)
            items = items.replace("{}", "{0}")  # C has no empty arrays
            lines.append(own.table.format(kind=kind, name=name + mark, size=size, value=items))
        if counts:
            lines.append(own.counts.format(", ".join(f"{name}{mark} = {count}" for name, count in counts.items())))
        if mark:
            named = "|".join([*tables, *counts, r"(?:score|of_scaled|of_filled|place)(?=\()"])
            text = re.sub(rf"\b({named})\b", rf"\g<1>{mark}", text)
        functions.append(text.strip("\n"))
    if len(functions) > 1:
        calls = " + ".join(f"score_{k}(x)" for k in range(1, len(functions) + 1))
        functions.append(own.functions["sum"].replace("CALLS", calls))
    functions = [re.sub(r"^double (?!score\()", "static double ", text, flags=re.MULTILINE) for text in functions]  # C
    return own.gap.join(["\n".join(lines), *functions]) + own.end


def _listed(items: Iterable[str], brackets: str) -> str:
    """Items separated by commas, in lines of up to 116 characters: a line ends after a comma, never inside an item."""
    lines: list[list[str]] = [[]]
    room = 100
    for item in items:
        if len(item) + 2 > room and lines[-1]:
            lines.append([])
            room = 116
        lines[-1].append(item)
        room -= len(item) + 2
    opening, closing = brackets[0], brackets[1]
    if len(lines) == 1:
        return opening + ", ".join(lines[0]) + closing
    return "\n    ".join([opening, *(f"{', '.join(line)}," for line in lines)]) + "\n" + closing


def run_python(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Run the text made by `write_code`: literals of numbers and names, and functions of this package."""
    space: Facts = {}
    exec(compile(files[0].read_text("utf-8"), str(files[0]), "exec"), space)
    return np.array([space["score"](row) for row in X.tolist()])


def compiler() -> str | None:
    """A C compiler."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def run_c(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Scores by the compiled function."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "model.so"
        command = [compiler() or "cc", "-O2", "-std=c99", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(library)]
        command += ["-x", "c", str(files[0]), "-lm"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
        if done.returncode:
            raise ExportError(f"the C compiler refuses {files[0].name}: {done.stderr[-500:]}")
        score, pointer = ctypes.CDLL(str(library)).score, ctypes.POINTER(ctypes.c_double)
        score.restype, score.argtypes = ctypes.c_double, [pointer]
        return np.array([score(row.ctypes.data_as(pointer)) for row in np.ascontiguousarray(X, np.float64)])


NODE = """
const { score } = require(process.argv[1]);
const rows = JSON.parse(require("fs").readFileSync(0));
process.stdout.write(JSON.stringify(rows.map(score)));
"""


def run_node(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Scores by node."""
    rows = json.dumps([[None if v != v else v for v in row] for row in X.tolist()])
    command = [shutil.which("node") or "node", "-e", NODE, str(files[0].resolve())]
    done = subprocess.run(command, input=rows, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise ExportError(f"node cannot run {files[0].name}: {done.stderr[-500:]}")
    return np.array(json.loads(done.stdout), np.float64)
