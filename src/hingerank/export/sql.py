"""A model as one SELECT statement for SQLite, DuckDB and PostgreSQL; window functions scale within queries."""

import json
import re
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import SupportsFloat

import numpy as np

from hingerank.arrays import Facts
from hingerank.export.expressions import Words, filled_expression, scaled_expression, score_expression, total
from hingerank.export.forms import CosineSum, ExportError, Form, KernelSum


def write_sql(form: Form, about: Facts, table: str, key: str, query: str) -> str:
    """A statement that selects query, key and score of every row of a table whose columns are named as the features.

    A name is quoted whole, so a dot in it is part of the name: the schema of the table is the session's.
    """
    refuse_names(form, table, key, query)
    keys, forms = [quoted(query), quoted(key)], form.parts
    several = len(forms) > 1
    columns = [{j: f"x{j + 1}" + f"p{k}" * several for j in part.used()} for k, part in enumerate(forms, 1)]
    # with the table's name: without it SQLite takes the name of a missing column for a string
    given = [f"CAST({quoted(table)}.{quoted(name)} AS DOUBLE PRECISION)" for name in form.names]
    names = [
        f"{filled_expression(WORDS, part, j, given[part.feature_of(j)])} AS {x}"
        for part, each in zip(forms, columns)
        for j, x in each.items()
    ]
    steps = {"rows_": f"SELECT {', '.join([*keys, *names])}\n  FROM {quoted(table)}"}
    for k, (part, own) in enumerate(zip(forms, columns)):  # the other parts' columns are passed through
        others = [x for each in columns if each is not own for x in each.values()]
        steps |= _scaling_steps(part, own, [*keys, *others], query, [*steps][-1], f"{k + 1}_" if several else "_")
    source, scores = [*steps][-1], []
    for k, (part, own) in enumerate(zip(forms, columns)):
        extra, score = _score(part, own, f"known{k + 1}_" if several else "known_")
        steps |= extra
        scores.append(score)
    written = ",\n".join(f"{name} AS (\n  {text}\n)" for name, text in steps.items())
    title = f"-- {about['ranker']} by hingerank {about['version']}: a higher score ranks first within its query"
    total_score = total(scores) if several else scores[0]
    return f"{title}\nWITH {written}\nSELECT {', '.join(keys)}, {total_score} AS score\nFROM {source}\n"


def _scaling_steps(
    form: Form, columns: dict[int, str], keys: list[str], query: str, source: str, end: str
) -> dict[str, str]:
    """Steps from `source` on that scale the columns of a form and pass `keys` through, by name; end: of the names."""
    scaling, names = form.scaling, columns.values()
    if scaling is None or not columns:
        return {}
    window = f" WINDOW q AS (PARTITION BY {quoted(query)})" if form.within_queries else ""
    if not window:  # NULL stays NULL
        values = {x: scaled_expression(WORDS, scaling, j, x) for j, x in columns.items()}
        scaled = {"scaled": [f"CASE WHEN {x} IS NOT NULL THEN {value} END" for x, value in values.items()]}
    elif form.scaled == "query-minmax":
        widths = {x: f"MAX({x}) OVER q - MIN({x}) OVER q" for x in names}
        scaled = {"scaled": [_divided(f"({x} - MIN({x}) OVER q)", width, x) for x, width in widths.items()]}
    else:  # sums of differences: a constant column gives exactly 0
        scaled = {"moved": [f"{x} - MIN({x}) OVER q" for x in names]}
        scaled["centred"] = [f"{x} - AVG({x}) OVER q" for x in names]
        scaled["scaled"] = [_divided(x, f"SQRT(AVG({x} * {x}) OVER q)", x) for x in names]
    steps = {}
    for step, each in scaled.items():  # one column a feature in each, since databases limit columns
        items = ", ".join([*keys, *(f"{value} AS {x}" for value, x in zip(each, names))])
        steps[f"{step}{end}"] = f"SELECT {items}\n  FROM {source}{window}"
        source = f"{step}{end}"
    return steps


def _divided(moved: str, width: str, x: str) -> str:
    """moved / width; 0 where the width is 0, and NULL where x is."""
    return f"COALESCE({moved} / NULLIF({width}, 0), {x} - {x})"


class SqlWords(Words):
    """Expressions in SQL."""

    def number(self, value: SupportsFloat) -> str:
        """A literal in double precision: the exponent keeps DuckDB from reading it as a decimal."""
        text = repr(float(value))
        text = text if "e" in text else f"{text}e0"
        return f"({text})" if text.startswith("-") else text

    def choose(self, test: str, yes: str, no: str) -> str:
        return f"CASE WHEN {test} THEN {yes} ELSE {no} END"

    def missing(self, x: str) -> str:
        return f"{x} IS NULL"


WORDS = SqlWords()
number = WORDS.number


def refuse_names(form: Form, table: str, key: str, query: str) -> None:
    """Raise an ExportError if databases would confuse two columns, or cannot name one."""
    seen: dict[str, str] = {}
    if re.fullmatch(r"(rows|moved|centred|scaled|known)[0-9]*_", table.lower()):
        raise ExportError(
            f"table={table!r} is the name of a step inside the statement: rename the table, or make a view"
        )
    for part, name in (("key", key), ("query", query)):
        if re.fullmatch(r"x[0-9]+(p[0-9]+)?|score", name.lower()):
            raise ExportError(f"{part}={name!r} is the name of a column inside the statement: choose another")
        seen[name.lower()] = f"the {part} column {name!r}"
    if key.lower() == query.lower():
        raise ExportError(f"key={key!r} and query={query!r} are the same column: name two")
    for name in map(str, form.names):
        if not name or "\0" in name or "\r" in name:  # readers of text convert \r to \n
            raise ExportError(f"SQL cannot have a column called {name!r}: rename this feature by features=")
        if name.lower() in seen:
            raise ExportError(
                f"the feature {name!r} and {seen[name.lower()]} have the same name in SQL, which ignores case: rename "
                "one by features=, or the key and query columns by the options key and query"
            )
        seen[name.lower()] = f"the feature {name!r}"


def _score(form: Form, columns: dict[int, str], known: str) -> tuple[dict[str, str], str]:
    """Further steps, and the expression of the score."""
    body = form.body
    if not isinstance(body, CosineSum | KernelSum):
        return {}, score_expression(WORDS, form, columns)
    x = list(columns.values())
    products = [f"l.r{j + 1} * {x[j]}" for j in range(len(x))]
    if isinstance(body, CosineSum):
        rows, heads = np.column_stack((body.weights, body.phases, body.frequencies)), "c, p"
        inner, value = total(["l.p", *products]), "COS(l.u)"
    else:
        rows, heads = np.column_stack((body.weights, body.rows)), "c"
        if body.kernel == "rbf":
            squares = total([f"({x[j]} - l.r{j + 1}) * ({x[j]} - l.r{j + 1})" for j in range(len(x))])
            inner = f"{number(body.gamma)} * {squares}"
            value = "CASE WHEN l.u > 7e2 THEN 0e0 ELSE EXP(-l.u) END"  # PostgreSQL refuses an exp that is about 0
        else:
            inner = f"{number(body.gamma)} * {total(products)} + {number(body.coef0)}"
            value = f"POWER(l.u, {int(body.degree)})"
    lines = ",\n    ".join(f"({', '.join(number(v) for v in row)})" for row in rows.tolist())
    heads = f"({heads}, {', '.join(f'r{j + 1}' for j in range(len(x)))})"
    each = f"SELECT l.c, {inner} AS u FROM {known} l"
    return {f"{known}{heads}": f"VALUES\n    {lines}"}, f"(SELECT SUM(l.c * {value}) FROM ({each}) l)"


def quoted(name: object) -> str:
    """A column or table name."""
    return '"' + str(name).replace('"', '""') + '"'


def run_sql(database: str, files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Fill a table in memory as the statement expects it, run the statement, and put the scores in row order."""
    about = json.loads(files[-1].read_text("utf-8"))["statement"]
    columns = [quoted(name) for name in form.names]
    table, key, query = (quoted(about[part]) for part in ("table", "key", "query"))
    typed = ", ".join(f"{column} DOUBLE PRECISION" for column in columns)
    rows = np.column_stack((qid, np.arange(len(X)), X))
    with closing(import_module(database).connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE {table} ({query} INTEGER, {key} INTEGER, {typed})")
        if database == "sqlite3":
            plain = ([None if v != v else v for v in row] for row in rows.tolist())
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * rows.shape[1])})", plain)
        else:  # DuckDB reads whole columns faster
            given = {f"c{j}": np.ascontiguousarray(column) for j, column in enumerate(rows.T)}
            connection.register("given", given)
            values = ", ".join(f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END" for name in given)
            connection.execute(f"INSERT INTO {table} SELECT {values} FROM given")
        found = connection.execute(files[0].read_text("utf-8")).fetchall()
    scores = np.full(len(X), np.nan)
    scores[[row[1] for row in found]] = [np.nan if row[2] is None else row[2] for row in found]
    return scores


def sqlite_can() -> bool:
    """Whether SQLite has window functions, and the mathematical functions that kernels use."""
    import sqlite3

    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute("SELECT EXP(1e0), SUM(1) OVER (PARTITION BY 1)")
    except sqlite3.Error:
        return False
    return True
