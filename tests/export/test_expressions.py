"""Vespa's expressions are read, never run."""

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
