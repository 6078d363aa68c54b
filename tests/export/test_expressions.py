"""Expressions: Vespa's are read, never run; SQL's are of functions that no database refuses."""

import math
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import hingerank as hr
from hingerank.export.vespa import evaluate


def test_expressions_are_read_as_vespa_reads_them():
    a = np.array([-1.0, 0.0, 2.0])
    values = {"attribute(a)": a, "b": 2.0, "attribute(class)": 5.0}
    for text, expected in {
        "1 - 2 - 3 * -b / 4": 1 - 2 - 3 * -2 / 4,
        "if (attribute(a) <= 0, 1.5e-3, log(b) * attribute(a))": np.where(a <= 0, 1.5e-3, np.log(2) * a),
        "fabs(attribute(a)) + (b)": np.abs(a) + 2,
        "attribute(class) * isNan(attribute(a))": 0,  # a word of Python's
        "if (attribute(a) == b, 1, if (attribute(a) > -0.5, 2, 3))": [3, 2, 1],
    }.items():
        assert np.allclose(evaluate(text, values), expected, rtol=0, atol=1e-15)
    for text in (
        "__import__('os')",
        "b.real",
        "b ** 2",
        "b[0]",
        "b b",
        "c",
        "log b",
        "if (b, 1)",
        "b < b < b",
        "where(b, b, *b)",
        "(b",
        "b)",
        "",
    ):
        with pytest.raises(hr.ExportError, match="the expression"):
            evaluate(text, values)


def test_sql_asks_for_no_exp_that_is_about_0(tmp_path):
    """PostgreSQL refuses to compute it, and with it the whole statement."""
    data = hr.make_letor(n_queries=8, n_features=3, seed=0)
    ranker = hr.NystroemRankSVM(n_components=6, gamma=0.5, C=0.1).fit(data)
    statement = ranker.export(tmp_path / "m.sql", "sql").files[0].read_text("utf-8")
    rows = [[*data.X[0].tolist()], [1e3, 0.0, 0.0], [None, 0.0, 0.0]]

    def strict(x):
        assert x is None or x > -708
        return None if x is None else math.exp(x)

    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function("EXP", 1, strict)
        connection.execute("CREATE TABLE documents (qid, docid, f1, f2, f3)")
        connection.executemany("INSERT INTO documents VALUES (1, ?, ?, ?, ?)", [[k, *r] for k, r in enumerate(rows)])
        scores = [row[2] for row in sorted(connection.execute(statement))]
    assert scores[1:] == [0.0, None]
    np.testing.assert_allclose(scores[0], ranker.predict(data.X[:1]), rtol=1e-5)  # float32
