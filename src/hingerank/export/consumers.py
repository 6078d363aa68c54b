"""Programs that score rows by an exported model, for `--check` to compare with the ranker's own scores.

Each takes the export's files and rows, and returns a score per row. For engines that cannot be called from here, a
model of their arithmetic is used, in single precision if theirs is.
"""

import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hingerank.arrays import Facts
from hingerank.export.forms import ExportError, Form
from hingerank.export.sql import quoted
from hingerank.kernels.threads import threads_for


class Consumer(NamedTuple):
    """A program's name, whether it is installed, and how it scores rows: run(files, form, X, qid)."""

    name: str
    present: Callable[[], bool]
    run: Callable[[list[Path], Form, np.ndarray, np.ndarray], np.ndarray]


def first_present(consumers: tuple[Consumer, ...], to: str) -> Consumer:
    """The first that is installed."""
    for consumer in consumers:
        if consumer.present():
            return consumer
    wanted = " or ".join(consumer.name for consumer in consumers)
    raise ExportError(f"nothing here can run an export to {to!r}: install {wanted}")


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
    first_present(consumers, to)
    raise ExportError(f"the export was not written because it does not run: {'; '.join(failed)}")


def _run_python(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Run the text made by `write_python`: literals of numbers and names, and functions of this package."""
    space: Facts = {}
    exec(compile(files[0].read_text("utf-8"), str(files[0]), "exec"), space)
    return np.array([space["score"](row) for row in X.tolist()])


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def _run_c(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "model.so"
        command = [_compiler() or "cc", "-O2", "-std=c99", "-ffp-contract=off", "-shared", "-fPIC"]
        done = subprocess.run(
            [*command, "-o", library, "-x", "c", files[0], "-lm"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        if done.returncode:
            raise ExportError(f"the C compiler refuses {files[0].name}: {done.stderr[-500:]}")
        score = ctypes.CDLL(str(library)).score
        score.restype, score.argtypes = ctypes.c_double, [ctypes.POINTER(ctypes.c_double)]
        rows = np.ascontiguousarray(X, np.float64)
        pointer = ctypes.POINTER(ctypes.c_double)
        return np.array([score(row.ctypes.data_as(pointer)) for row in rows])


NODE = """
const { score } = require(process.argv[1]);
const rows = JSON.parse(require("fs").readFileSync(0));
process.stdout.write(JSON.stringify(rows.map(score)));
"""


def _run_node(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    rows = json.dumps([[None if v != v else v for v in row] for row in X.tolist()])
    command = [shutil.which("node") or "node", "-e", NODE, str(files[0].resolve())]
    done = subprocess.run(command, input=rows, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise ExportError(f"node cannot run {files[0].name}: {done.stderr[-500:]}")
    return np.array(json.loads(done.stdout), np.float64)


def _run_sql(
    connect: Callable[[], Any], fill: Callable[[Any, str, np.ndarray], None], files: list[Path], form: Form,
    X: np.ndarray, qid: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Fill a table in memory as the statement expects it, run the statement, and put the scores in row order."""
    about = json.loads(files[0].with_suffix(".examples.json").read_text("utf-8"))["statement"]
    columns = [quoted(name) for name in form.names]
    table, key, query = (quoted(about[part]) for part in ("table", "key", "query"))
    typed = ", ".join(f"{column} DOUBLE PRECISION" for column in columns)
    with closing(connect()) as connection:
        connection.execute(f"CREATE TABLE {table} ({query} INTEGER, {key} INTEGER, {typed})")
        fill(connection, table, np.column_stack((qid, np.arange(len(X)), X)))
        found = connection.execute(files[0].read_text("utf-8")).fetchall()
    scores = np.full(len(X), np.nan)
    scores[[row[1] for row in found]] = [np.nan if row[2] is None else row[2] for row in found]
    return scores


def _fill_sqlite(connection: Any, table: str, rows: np.ndarray) -> None:
    places = ", ".join("?" * rows.shape[1])
    plain = ([None if v != v else v for v in row] for row in rows.tolist())
    connection.executemany(f"INSERT INTO {table} VALUES ({places})", plain)


def _fill_duckdb(connection: Any, table: str, rows: np.ndarray) -> None:
    given = {f"c{j}": np.ascontiguousarray(column) for j, column in enumerate(rows.T)}
    connection.register("given", given)
    columns = ", ".join(f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END" for name in given)
    connection.execute(f"INSERT INTO {table} SELECT {columns} FROM given")


def _sqlite() -> object:
    import sqlite3

    return sqlite3.connect(":memory:")


def _duckdb() -> object:
    import duckdb

    return duckdb.connect(":memory:")


def _sqlite_can() -> bool:
    """Whether SQLite has window functions, and the mathematical functions that kernels use."""
    import sqlite3

    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute("SELECT EXP(1e0), SUM(1) OVER (PARTITION BY 1)")
    except sqlite3.Error:
        return False
    return True


def _has(module: str) -> Callable[[], bool]:
    from importlib.util import find_spec

    return lambda: module in sys.modules or find_spec(module) is not None


def _run_onnx(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
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


PYTHON = (Consumer("python", lambda: True, _run_python),)
C = (Consumer("a C compiler", lambda: _compiler() is not None, _run_c),)
JAVASCRIPT = (Consumer("node", lambda: shutil.which("node") is not None, _run_node),)
SQL = (
    Consumer("sqlite", _sqlite_can, lambda *given: _run_sql(_sqlite, _fill_sqlite, *given)),
    Consumer("duckdb", _has("duckdb"), lambda *given: _run_sql(_duckdb, _fill_duckdb, *given)),
)
ONNX = (Consumer("onnxruntime", _has("onnxruntime"), _run_onnx),)
