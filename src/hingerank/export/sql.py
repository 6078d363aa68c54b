"""A model as one SELECT statement for SQLite, DuckDB and PostgreSQL; window functions scale within queries."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import SupportsFloat

import numpy as np

from hingerank.arrays import Facts
from hingerank.export.forms import Affine, CosineSum, Curves, ExportError, Form, KernelSum, Surfaces, Trees, goes_left
from hingerank.export.scalings import ScaledWithinQueries, Words


def write_sql(form: Form, about: Facts, table: str = "documents", key: str = "docid", query: str = "qid") -> str:
    """A statement that selects query, key and score of every row of a table whose columns are named as the features."""
    refuse_names(form, key, query)
    keys, forms = [quoted(query), quoted(key)], form.parts
    several = len(forms) > 1
    columns = [{j: f"x{j + 1}" + f"p{k}" * several for j in part.used()} for k, part in enumerate(forms, 1)]
    # with the table's name: without it SQLite takes the name of a missing column for a string
    names = [f"{_given(part, table, j)} AS {x}" for part, each in zip(forms, columns) for j, x in each.items()]
    steps = [("rows_", f"SELECT {', '.join([*keys, *names])}\n  FROM {quoted(table)}", "")]
    for k, (part, own) in enumerate(zip(forms, columns)):  # the other parts' columns are passed through
        others = [x for each in columns if each is not own for x in each.values()]
        steps += _scaling_steps(part, own, [*keys, *others], query, steps[-1][0], f"{k + 1}_" if several else "_")
    source, scores = steps[-1][0], []
    for k, (part, own) in enumerate(zip(forms, columns)):
        extra, score = _score(part, own, f"known{k + 1}_" if several else "known_")
        steps += extra
        scores.append(score)
    written = ",\n".join(f"{name}{heads} AS (\n  {text}\n)" for name, text, heads in steps)
    title = f"-- {about['ranker']} by hingerank {about['version']}: a higher score ranks first within its query"
    total_score = total(scores) if several else scores[0]
    return f"{title}\nWITH {written}\nSELECT {', '.join(keys)}, {total_score} AS score\nFROM {source}\n"


def _scaling_steps(
    form: Form, columns: dict[int, str], keys: list[str], query: str, source: str, end: str
) -> list[tuple[str, str, str]]:
    """Steps from `source` on, each with its name, that scale the columns of a form and pass `keys` through.

    end: suffix of the steps' names.
    """
    scaling = form.scaling
    steps: list[tuple[str, str, str]] = []
    if not columns:
        return steps
    if isinstance(scaling, ScaledWithinQueries) and scaling.how == "minmax":
        low = [f"MIN({x}) OVER q AS a{x}, MAX({x}) OVER q - MIN({x}) OVER q AS b{x}" for x in columns.values()]
        return _scaled(keys, columns, [*columns.values(), *low], query, source, end)
    if isinstance(scaling, ScaledWithinQueries):  # sums of differences: a constant column gives exactly 0
        low = [f"{x} - MIN({x}) OVER q AS {x}" for x in columns.values()]
        steps.append((f"moved{end}", _select(keys, low, source, query), ""))
        mean = [f"{x}, {x} - AVG({x}) OVER q AS d{x}" for x in columns.values()]
        steps.append((f"centred{end}", _select(keys, mean, steps[-1][0], query), ""))
        width = [f"d{x} AS {x}, 0e0 AS a{x}, SQRT(AVG(d{x} * d{x}) OVER q) AS b{x}" for x in columns.values()]
        return [*steps, *_scaled(keys, columns, width, query, steps[-1][0], end)]
    if scaling is not None:  # NULL stays NULL
        words = SqlWords()
        values = {x: scaling.written(words, j, x) for j, x in columns.items()}
        scaled = [f"CASE WHEN {x} IS NOT NULL THEN {value} END AS {x}" for x, value in values.items()]
        steps.append((f"scaled{end}", f"SELECT {', '.join([*keys, *scaled])}\n  FROM {source}", ""))
    return steps


def _given(form: Form, table: str, column: int) -> str:
    """A column of the table, or one that marks missing values; missing values are filled if the model fills them."""
    filled, d = form.filled, form.n_features
    feature = column if column < d or filled is None else filled.marked[column - d]
    name = f"{quoted(table)}.{quoted(form.names[feature])}"
    if column >= d:
        return f"CASE WHEN {name} IS NULL THEN {number(1.0)} ELSE {number(0.0)} END"
    value = f"CAST({name} AS DOUBLE PRECISION)"
    return value if filled is None else f"COALESCE({value}, {number(filled.values[column])})"


class SqlWords(Words):
    """Expressions in SQL."""

    def number(self, value: SupportsFloat) -> str:
        return number(value)

    def choose(self, test: str, yes: str, no: str) -> str:
        return f"CASE WHEN {test} THEN {yes} ELSE {no} END"


def refuse_names(form: Form, key: str, query: str) -> None:
    """Raise an ExportError if databases would confuse two columns, or cannot name one."""
    seen: dict[str, str] = {}
    for part, name in (("key", key), ("query", query)):
        if re.fullmatch(r"[abd]?x[0-9]+(p[0-9]+)?", name.lower()):
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


def _scaled(
    keys: list[str], columns: dict[int, str], ranges: list[str], query: str, source: str, end: str
) -> list[tuple[str, str, str]]:
    """Steps that compute each query's ranges, and divide by them; 0 where a column is constant."""
    scaled = [f"CASE WHEN b{x} > 0 THEN ({x} - a{x}) / b{x} ELSE {x} - {x} END AS {x}" for x in columns.values()]
    return [
        (f"ranges{end}", _select(keys, ranges, source, query), ""),
        (f"scaled{end}", f"SELECT {', '.join([*keys, *scaled])}\n  FROM ranges{end}", ""),
    ]


def _select(keys: list[str], columns: list[str], source: str, query: str) -> str:
    return f"SELECT {', '.join([*keys, *columns])}\n  FROM {source} WINDOW q AS (PARTITION BY {quoted(query)})"


def _score(form: Form, columns: dict[int, str], known: str = "known_") -> tuple[list[tuple[str, str, str]], str]:
    """Further steps, and the expression of the score."""
    body = form.body
    if isinstance(body, Affine):
        terms = [f"{number(body.weights[j])} * {x}" for j, x in columns.items()]
        return [], total([number(body.offset), *terms])
    if isinstance(body, Curves):
        return [], total([number(0.0), *(_curve(body, j, x) for j, x in columns.items())])
    if isinstance(body, Surfaces):
        shapes = [*(_curve(body.curves, j, x) for j, x in columns.items()), *_products(body, columns)]
        return [], total([number(0.0), *shapes])
    if isinstance(body, Trees):
        return [], total([number(body.start), *(_tree(body, root, columns) for root in body.roots.tolist())])
    x = list(columns.values())
    if isinstance(body, CosineSum):
        rows = np.column_stack((body.weights, body.phases, body.frequencies))
        inner = total(["l.p", *(f"l.r{j + 1} * {x[j]}" for j in range(len(x)))])
        value, heads = f"COS({inner})", "c, p"
    else:
        assert isinstance(body, KernelSum)
        rows, heads = np.column_stack((body.weights, body.rows)), "c"
        if body.kernel == "rbf":
            squares = total([f"({x[j]} - l.r{j + 1}) * ({x[j]} - l.r{j + 1})" for j in range(len(x))])
            value = f"EXP({number(-body.gamma)} * {squares})"
        else:
            product = total([f"l.r{j + 1} * {x[j]}" for j in range(len(x))])
            value = f"POWER({number(body.gamma)} * {product} + {number(body.coef0)}, {int(body.degree)})"
    lines = ",\n    ".join(f"({', '.join(number(v) for v in row)})" for row in rows.tolist())
    heads = f"({heads}, {', '.join(f'r{j + 1}' for j in range(len(x)))})"
    return [(known, f"VALUES\n    {lines}", heads)], f"(SELECT SUM(l.c * {value}) FROM {known} l)"


def _curve(body: Curves, column: int, x: str) -> str:
    """CASE from the lowest knot up."""
    knots, heights = body.of(column)
    slope = number(body.slopes[column])
    cases = [f"WHEN {x} < {number(knots[0])} THEN {number(heights[0])} + {slope} * ({x} - {number(knots[0])})"]
    for k in range(1, len(knots)):
        place = f"(({x} - {number(knots[k - 1])}) / {number(knots[k] - knots[k - 1])})"
        rise = number(heights[k] - heights[k - 1])
        cases.append(f"WHEN {x} < {number(knots[k])} THEN {number(heights[k - 1])} + {rise} * {place}")
    return f"CASE {' '.join(cases)} ELSE {number(heights[-1])} + {slope} * ({x} - {number(knots[-1])}) END"


def _products(body: Surfaces, columns: dict[int, str]) -> Iterator[str]:
    """Products of two ramps."""
    for k, weight in enumerate(body.weights):
        ramps = []
        for j, begin, end in zip(body.columns[k].tolist(), body.begins[k], body.ends[k], strict=True):
            place = f"({columns[j]} - {number(begin)}) / {number(end - begin)}"
            cases = (
                f"WHEN {columns[j]} < {number(begin)} THEN {number(0.0)} WHEN {columns[j]} < {number(end)} THEN {place}"
            )
            ramps.append(f"CASE {cases} ELSE {number(1.0)} END")
        yield " * ".join((number(weight), *ramps))


def _tree(body: Trees, node: int, columns: dict[int, str]) -> str:
    """Nested CASEs; missing values go to the ELSE of each."""
    if body.feature[node] < 0:
        return number(body.number[node])
    x, limit, first = columns[int(body.feature[node])], number(body.number[node]), int(body.child[node])
    left, right = _tree(body, first, columns), _tree(body, first + 1, columns)
    missing_left, zero_left = goes_left(body, node)
    zero = "" if zero_left is None else f" AND {x} <> 0"
    if missing_left:
        return f"CASE WHEN {x} > {limit}{zero} THEN {right} ELSE {left} END"
    return f"CASE WHEN {x} <= {limit}{zero} THEN {left} ELSE {right} END"


def total(terms: Sequence[str], write: Callable[[Sequence[str]], str] = " + ".join) -> str:
    """The sum of terms, bisected: engines limit the depth of expressions."""
    if len(terms) <= 8:
        return f"({write(terms)})"
    half = len(terms) // 2
    return f"({total(terms[:half])} + {total(terms[half:])})"


def number(value: SupportsFloat) -> str:
    """A literal in double precision: the exponent keeps DuckDB from reading it as a decimal."""
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def quoted(name: object) -> str:
    """A column or table name."""
    return '"' + str(name).replace('"', '""') + '"'
