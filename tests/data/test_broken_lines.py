"""A broken line is a DataError that names its line, for every reader of text; numbers are spelt with plain digits."""

import ast
import json
import random
import warnings
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

import hingerank as hr
from hingerank.diversity.queries import read_aspects, read_texts
from hingerank.diversity.trec import read_diversity_qrels, read_run
from hingerank.export.svmlight import read_linear_model
from hingerank.lab.trec_evaluation import read_qrels

LOG = '{"qid": "a", "hits": {"hits": [{"_id": "1", "fields": {"_ltrlog": [{"log": [{"name": "t", "value": %s}]}]}}]}}'
SOLR = '{"qid": "a", "response": {"docs": [{"id": "1", "[features]": "t=%s,u=2"}]}}'
GRADES = {("a", "1"): 1}


def log_of(path):
    return hr.read_feature_log(path, GRADES)


def judged(path):
    log = path.with_suffix(".log")
    log.write_text(LOG % 1)
    return hr.read_feature_log(log, path, unjudged=0)


def clicked(path):
    log = path.with_suffix(".log")
    log.write_text(LOG % 1)
    return hr.read_feature_log(log, clicks=path)


# reader -> (function of a path, a line with a place for a number, two good numbers)
READERS = {
    "feature log of a plugin": (log_of, LOG, "1.5", "2"),
    "feature log of Solr": (log_of, SOLR, "1.5", "2.0E-5"),
    "judgments of a feature log": (judged, "a 0 d%s %s", "1", "2"),
    "judgments of a run": (read_qrels, "7 0 d%s %s", "1", "2"),
    "judgments of subtopics": (read_diversity_qrels, "7 1 d%s %s", "1", "2"),
    "run": (read_run, "7 Q0 d%s 1 %s tag", "1.5", "0.5"),
    "aspects": (read_aspects, "7 1 d%s %s", "0.5", "1"),
    "LETOR text": (hr.read, "1 qid:7 1:%s 2:3", "0.5", "1e-3"),
    "grades of LETOR text": (hr.read, "%s qid:7 1:1 2:3", "1", "2"),
    "ratings": (hr.read_ratings, "ann,i%s,%s", "1", "4.5"),
    "scores": (hr.read_scores, "%s", "1", "-2.5"),
}
ODD = ["1_0", "\u0663", "\uff11", "0x10", "1e999", "-inf", "1.5.5", "--1", "1e", "\u00bd", "one", '"', "\ud83d\ude00"]


def filled(line, number):
    """The line with the number in its last place, and the number's own text in an id before it, where it has one."""
    return line % ((crc32(number.encode("utf-8", "surrogatepass")), number) if line.count("%s") == 2 else number)


def attempt(read, path):
    """What a reader answers, or the DataError; any other error is one of the reader."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read(path)
        except hr.DataError as error:
            return error


@pytest.mark.parametrize("name", READERS)
def test_numbers_have_plain_digits(name, tmp_path):
    read, line, *good = READERS[name]
    path = tmp_path / "file.txt"
    path.write_text("\n".join(filled(line, number) for number in good) + "\n")
    assert not isinstance(attempt(read, path), hr.DataError)
    for odd in ODD:
        path.write_text(f"{filled(line, good[0])}\n{filled(line, odd)}\n", "utf-8", errors="surrogatepass")
        found = attempt(read, path)
        assert isinstance(found, hr.DataError), odd
        assert "line 2" in str(found) or "UTF-8" in str(found), (odd, found)


@pytest.mark.parametrize("name", READERS)
def test_damaged_lines_are_refused_in_words(name, tmp_path):
    read, line, *good = READERS[name]
    path, rng = tmp_path / "file.txt", random.Random(name)
    whole = "\n".join(filled(line, number) for number in good) + "\n"
    for _ in range(60):
        text = list(whole)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 3)] = rng.choice(
                [
                    "",
                    "\u2028",
                    "\x85",
                    '"',
                    "{",
                    "[",
                    "]",
                    "\t",
                    "\n",
                    "\r",
                    "1_0",
                    "null",
                    "9" * 400,
                    ",",
                    "\x00",
                    "\u0663",
                ]
            )
        path.write_bytes("".join(text).encode())
        attempt(read, path)


@pytest.mark.parametrize(
    "text",
    ["5", "null", "true", '"a"', "[5]", "[null]", '{"responses": 5}', "[" * 10**5, '{"a":' * 10**5, "5\n6\n", "",
     '{"hits": {"hits": 3}}', '{"qid": {"a": 1}, "hits": {"hits": [{}]}}', '{"qid": "a", "response": {"docs": [3]}}',
     LOG % 10**400, LOG % ("1" * 5000), LOG % "true", LOG % '"x"', LOG % "[1]", LOG % '{"a": 1}', LOG % "Infinity",
     SOLR % "", '{"qid": "a", "response": {"docs": [{"id": "1", "[features]": 3}]}}', LOG % "1" + "\n{",
     '{"qid": "a", "response": {"docs": [{"id": {}, "[features]": "t=1"}]}}', '{"responseHeader": 3}'],
)  # fmt: skip
def test_what_is_no_response_is_said(text, tmp_path):
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(hr.DataError, match=r"log\.jsonl"):
        hr.read_feature_log(tmp_path / "log.jsonl", GRADES)


@pytest.mark.parametrize(
    "judgments",
    [5, [5], ["abc"], [("a", "1")], [("a", "1", np.nan)], [("a", "1", "1_0")], [("a", "1", 10**400)], {"a": 1},
     {("a", "1"): None}, {("a", "1"): True}, {("a", "1", "2"): 1}, {("a", "1"): np.inf}],
)  # fmt: skip
def test_what_are_no_judgments_is_said(judgments, tmp_path):
    (tmp_path / "log").write_text(LOG % 1)
    with pytest.raises(hr.DataError):
        hr.read_feature_log(tmp_path / "log", judgments)


def test_clicks_name_their_line(tmp_path):
    (tmp_path / "clicks").write_text("a 1\na\n")
    with pytest.raises(hr.DataError, match="clicks, line 2: found"):
        clicked(tmp_path / "clicks")


def test_texts_keep_signs_that_unicode_takes_for_ends_of_lines(tmp_path):
    (tmp_path / "texts").write_text("d1\ta\u2028b\x85c\x0bd\nd2\te\n", "utf-8")
    assert read_texts(tmp_path / "texts") == {"d1": "a\u2028b\x85c\x0bd", "d2": "e"}
    (tmp_path / "run").write_text("7 Q0 d\u2028\u00a01 1 0.5 tag\n", "utf-8")
    assert read_run(tmp_path / "run")["7"].docids == ["d\u2028\u00a01"]


def test_weights_of_a_model_file_have_plain_digits(tmp_path):
    head = "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n"
    (tmp_path / "good").write_text(head + "1.5\n2\n")
    assert read_linear_model(tmp_path / "good").coef_.tolist() == [1.5, 2.0]
    for odd in ("1_0", "nan", "0x1"):
        (tmp_path / "bad").write_text(head + f"1.5\n{odd}\n")
        with pytest.raises(hr.DataError, match="line 8"):
            read_linear_model(tmp_path / "bad")


SYSTEM = {"data/memory.py", "export/lucene.py"}  # which split what the system, or they themselves, wrote


def test_no_reader_splits_lines_where_unicode_does():
    """str.splitlines also splits at U+2028, U+0085 and others, within what a file calls a line."""
    top = Path(hr.__file__).parent
    for path in sorted(top.rglob("*.py")):
        text = path.read_text("utf-8")
        if "splitlines" not in text:
            continue
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
        if any(node.attr == "splitlines" for node in calls):
            assert str(path.relative_to(top)) in SYSTEM, path


def test_the_log_lines_here_are_json():
    for line in (LOG % 1, SOLR % 1):
        assert json.loads(line)
