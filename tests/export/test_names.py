"""Feature names of any kind in every format: exact scores in the program that reads them, or a refusal of the name."""

import ctypes
import json
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

import hingerank as hr
from hingerank.export import code
from hingerank.export.code import write_code
from hingerank.export.exporting import scores_by, written
from hingerank.export.formats import FORMATS

NASTY = [
    "plain", "click through rate", 'with "quotes"', "it's", "back\\slash", "ends in \\", "new\nline", "return\r",
    "tab\tbed", "bell\x07", "escape\x1b[31m", "nul\0inside", "delete\x7f", "\U0001f600 beyond U+FFFF", "é", "e\u0301",
    "line\u2028separator", "\ufffe", "half \ud83d", "{", "}", "{0}", "{{mustache}}", "${dollar}", "%s", "*/", "/*",
    "--", "//", "]]>", "<b>", "&amp;", "??/", "trigraph ??=", "\\u0022", "\\N{BULLET}", "qid", "docid", "QID", "Title",
    "title", "x" * 5000, "", " ", " padded ", "select", "if", "class", "attribute(a)", "score", "curve of plain",
    "scaled plain", "f(x)", "a,b", "a;b", "1", "-", "\"; drop table documents; --", "'''", '"""', "__proto__",
]  # fmt: skip
ABOUT = {"ranker": "RankSVM", "version": "1", "notes": [], "features": {}}
LINES = {  # what each program has as the names of features
    "python": lambda path: runs_python(path),
    "javascript": lambda path: json.loads(
        subprocess.run(
            ["node", "-e", f"process.stdout.write(JSON.stringify(require('{path}').FEATURES))"],
            capture_output=True, check=True,
        ).stdout
    ),
}  # fmt: skip


def runs_python(path):
    space = {}
    exec(compile(path.read_text("utf-8"), "model.py", "exec"), space)
    return space["FEATURES"]


def ranker_of(count, kind=hr.RankSVM, **parameters):
    rng = np.random.default_rng(count)
    X = rng.normal(size=(40, count))
    return kind(C=0.1, **parameters).fit(X, np.arange(40) % 3, np.repeat(np.arange(5), 8)), X


def put(ranker, names):
    """The ranker, as if it had learnt from columns of these names."""
    ranker.feature_names_in_ = np.array(names, dtype=object)
    return ranker


def carried(to):
    """The nasty names that a format carries together; every other is refused by an error that says it."""
    names = []
    for name in NASTY:
        ranker, _ = ranker_of(len(names) + 1)
        try:
            written(put(ranker, [*names, name])._form(), to, "RankSVM", {}, FORMATS[to].options)
        except hr.ExportError as error:
            assert repr(name) in str(error), (name[:40], str(error))
            continue
        names.append(name)
    return names


@pytest.mark.parametrize("to", FORMATS)
def test_names_are_carried_or_refused(tmp_path, to):
    if not any(consumer.present() for consumer in FORMATS[to].consumers):
        pytest.skip(f"nothing here runs {to}")
    if to == "onnx":
        pytest.importorskip("onnx", reason="onnx is not installed")
    names = carried(to)
    assert "half \ud83d" not in names and "plain" in names
    assert len(names) > len(NASTY) - 12 or to == "vespa"  # Vespa's attributes are plain words
    ranker, X = ranker_of(len(names))
    y = np.arange(len(X)) % 3
    rows = hr.RankingData(X, y, np.repeat(np.arange(5), 8))
    options = {"shift": 9.0} if "shift" in FORMATS[to].options else {}
    done = put(ranker, names).export(tmp_path / "out", to, check=rows, **options)
    assert done.check["relative_to_largest_score"] < 1e-5 and done.check["reordered_queries"] <= 1
    if to == "sql" and FORMATS["sql"].consumers[1].present():  # DuckDB reads the same names
        scores = FORMATS["sql"].consumers[1].run(done.files, ranker._form(), X, rows.qid.astype(int))
        assert np.abs(scores - scores_by(ranker, X, rows.qid)).max() < 1e-9
    if to in LINES:
        path = (tmp_path / "out").rename(tmp_path / "model.js")
        assert LINES[to](path) == names


@pytest.mark.parametrize("parameters", [{"kind": hr.AdditiveRankSVM, "n_knots": 4}, {"scale": "log"}])
def test_derived_fields_of_pmml_have_names_of_their_own(tmp_path, parameters):
    names = ["a", "curve of a", "curve of a_", "scaled a", "scaled a_", "score"]
    ranker, X = ranker_of(len(names), **parameters)
    rows = hr.RankingData(X, np.arange(len(X)) % 3, np.repeat(np.arange(5), 8))
    done = put(ranker, names).export(tmp_path / "m.pmml", "pmml", check=rows)
    assert done.check["relative_to_largest_score"] < 1e-12
    fields = [e.attrib["name"] for e in ET.parse(done.files[0]).iter() if e.tag.endswith(("DataField", "DerivedField"))]
    assert len(fields) == len(set(fields)) > len(names)


def test_names_in_sql_differ_by_more_than_case_and_from_the_keys(tmp_path):
    ranker, _ = ranker_of(2)
    with pytest.raises(hr.ExportError, match="the feature 'TITLE' and the feature 'title' have the same name in SQL"):
        put(ranker, ["title", "TITLE"]).export(tmp_path / "m.sql", "sql")
    with pytest.raises(hr.ExportError, match="the feature 'Qid' and the query column 'qid'"):
        put(ranker, ["a", "Qid"]).export(tmp_path / "m.sql", "sql")
    assert ranker.export(tmp_path / "m.sql", "sql", query="session", key='my "key"', table='a "b" c').files
    with pytest.raises(hr.ExportError, match="key='x1' is the name of a column inside"):
        ranker.export(tmp_path / "m.sql", "sql", key="x1")
    with pytest.raises(hr.ExportError, match="key='Score' is the name of a column inside"):
        ranker.export(tmp_path / "m.sql", "sql", key="Score")
    for table in ("rows_", "Scaled_", "known2_"):  # SQLite would find a circular reference
        with pytest.raises(hr.ExportError, match=f"table='{table}' is the name of a step inside"):
            ranker.export(tmp_path / "m.sql", "sql", table=table)
    with pytest.raises(hr.ExportError, match="same column"):
        ranker.export(tmp_path / "m.sql", "sql", key="Qid")


def test_long_lists_of_names_break_between_names_and_are_read_back(tmp_path):
    names = [f"click through rate {k}, of   the\tlast {k} days" for k in range(60)]
    ranker, _ = ranker_of(len(names))
    form = replace(ranker._form(), names=names)
    path = tmp_path / "model.js"
    path.write_text(write_code("python", form, ABOUT))
    assert runs_python(path) == names
    path.write_text(write_code("javascript", form, ABOUT))
    if FORMATS["javascript"].consumers[0].present():
        assert LINES["javascript"](path) == names
    assert max(map(len, write_code("c", form, ABOUT).splitlines())) < 130


def test_names_in_c_are_what_they_were(tmp_path):
    compiler = code.compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    names = [name for name in NASTY if "\0" not in name and "\ud83d" not in name]
    ranker, _ = ranker_of(len(names))
    path, library = tmp_path / "model.c", tmp_path / "model.so"
    path.write_text(write_code("c", replace(ranker._form(), names=names), ABOUT))
    subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", "-shared", "-fPIC", path, "-o", library], check=True)
    table = (ctypes.c_char_p * len(names)).in_dll(ctypes.CDLL(str(library)), "FEATURES")
    assert [text.decode("utf-8") for text in table] == names
