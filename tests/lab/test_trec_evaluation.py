"""Runs against judgments: the measures of `evaluate`, equal to trec_eval's and ir_measures' under the preset trec."""

import itertools
import json
import math

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.lab.trec_evaluation import as_grades, is_qrels, is_run, read_qrels
from hingerank.metrics import MEASURES, PRESETS, parse_measure

CUTOFFS = {"optional": ("", "@1", "@4", "@10", "@50"), "required": ("@1", "@4", "@10", "@50"), "none": ("",)}
NAMES = [name + cut for name, kind in MEASURES.items() for cut in CUTOFFS[kind.cutoff]]
OPTIONS = {
    "relevant": (1, 2), "ties": ("stable", "average", "worst", "docid"), "empty": (0, 1, "skip"), "max_grade": (4, 6),
    "gain": ("linear", "exponential"), "discount": ("log2", "letor"), "short": ("zero", "truncate"),
    "precision": ("k", "list", "zero"), "map_divisor": ("relevant", "cutoff", "whole"),
}  # fmt: skip


def random_case(seed, low=-1, high=4):
    """Judgments and a run: ties (some only in single precision), unjudged documents, topics missing on either side."""
    random = np.random.default_rng(seed)
    qrels, run = {}, {}
    for topic in random.permutation(8).tolist():
        pool = [f"d{i}" for i in random.permutation(40)]
        grades = random.integers(low, high + 1, 25) * random.integers(0, 2, 25) * (topic != 3)  # topic 3: none relevant
        if topic != 1:
            qrels[str(topic)] = dict(zip(pool[: random.integers(1, 26)], grades.tolist()))
        documents = random.permutation(pool)[: random.integers(1, 31)].tolist()
        scores = random.integers(0, 6, len(documents)) + random.choice([0, 1e-8, 0.25], size=len(documents))
        if topic != 2:
            run[str(topic)] = dict(zip(documents, scores.tolist()))
    return qrels, run


def spelling(random, name):
    """The same measure in another of its names, in other letters."""
    head, *settings = name.split(":")
    word, at, cut = head.partition("@")
    word = random.choice([word, *MEASURES[word].aliases])
    word = random.choice(
        [word, word.upper(), word.title(), word.replace("_", "-"), word.replace("_", " "), f" {word} "]
    )
    settings = [random.choice([s, s.upper(), f" {s} "]) for s in settings]
    return ":".join([word + at + cut, *settings])


def with_options(random, name):
    kind = MEASURES[parse_measure(name).kind]
    for option in [option for option in kind.options if option in OPTIONS and random.random() < 0.3]:
        name += f":{option}={random.choice(OPTIONS[option])}"
    return name


@pytest.mark.parametrize("seed", range(6))
def test_values_equal_trec_eval(seed):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    qrels, run = random_case(seed)
    theirs = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank"}
    for k in (1, 4, 10, 50):
        theirs |= {f"ndcg@{k}": f"ndcg_cut_{k}", f"p@{k}": f"P_{k}", f"recall@{k}": f"recall_{k}"}
        theirs |= {f"map@{k}": f"map_cut_{k}"}
    wanted = {"ndcg", "map", "recip_rank", *(f"{m}.1,4,10,50" for m in ("ndcg_cut", "P", "recall", "map_cut"))}
    expected = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(run)
    values = hr.evaluate_run(qrels, run, list(theirs), per_query=True, preset="trec")
    for level in (2, 3):
        strict = pytrec_eval.RelevanceEvaluator(qrels, {"map", "P.4"}, relevance_level=level).evaluate(run)
        for ours, key in ((f"map:relevant={level}", "map"), (f"p@4:relevant={level}", "P_4")):
            found = hr.evaluate_run(qrels, run, ours, per_query=True, preset="trec")[ours]
            assert found == pytest.approx({topic: strict[topic][key] for topic in found}, abs=1e-12), ours
    for ours, key in theirs.items():
        assert values[ours].keys() == expected.keys() == qrels.keys() & run.keys()
        assert values[ours] == pytest.approx({topic: expected[topic][key] for topic in expected}, abs=1e-12), ours


@pytest.mark.filterwarnings("ignore:.*will be removed in Python 3.14:DeprecationWarning")  # ast.Num in ir_measures
@pytest.mark.parametrize("seed", range(3))
def test_means_equal_ir_measures(seed):
    """It counts topics that the run lacks as 0, which `complete` does."""
    ir_measures = pytest.importorskip("ir_measures")
    qrels, run = random_case(seed, low=0)
    theirs = {"ndcg@20": "nDCG@20", "map": "AP", "ap@4": "AP@4", "map:relevant=2": "AP(rel=2)", "Precision@4": "P@4"}
    theirs |= {"rec@4": "R@4", "RR": "RR", "mrr:relevant=3": "RR(rel=3)"}
    parsed = {ours: ir_measures.parse_measure(name) for ours, name in theirs.items()}
    expected = ir_measures.calc_aggregate(list(parsed.values()), qrels, run)
    values = hr.evaluate_run(qrels, run, list(theirs), preset="trec", complete=True)
    assert values == pytest.approx({ours: expected[name] for ours, name in parsed.items()}, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_a_value_depends_neither_on_the_spelling_nor_on_the_other_measures(seed):
    import random as plain

    random = plain.Random(seed)
    qrels, run = random_case(seed, low=0)
    for preset in PRESETS:
        names = [with_options(random, name) for name in random.sample(NAMES, 6)]
        spelled = {name: spelling(random, name) for name in names}
        together = hr.evaluate_run(qrels, run, [*spelled.values(), *names], per_query=True, preset=preset)
        for name in names:
            alone = hr.evaluate_run(qrels, run, name, per_query=True, preset=preset)[name]
            np.testing.assert_equal(together[name], alone, err_msg=f"{name} {preset}")
            np.testing.assert_equal(together[spelled[name]], alone, err_msg=f"{spelled[name]} {preset}")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_run_of_just_the_judged_documents_measures_as_evaluate_does(preset):
    qrels, run = random_case(11, low=0)
    topics = [topic for topic in run if topic in qrels]
    run = {topic: dict(zip(qrels[topic], itertools.cycle((3.0, 1.0, 2.0, 1.0)))) for topic in topics}
    rows = [  # row order: the order of a run's ties where a preset asks for that
        (topic, d, score, qrels[topic][d]) for topic in topics for d, score in sorted(run[topic].items(), reverse=True)
    ]
    qid, docid, scores, y = map(list, zip(*rows))
    top = ":max_grade=6"
    names = [name + top if name.startswith("err") else name for name in NAMES]
    expected = hr.evaluate(y, scores, qid, names, per_query=True, preset=preset, docid=docid)
    found = hr.evaluate_run(qrels, run, names, per_query=True, preset=preset)
    for name in names:
        np.testing.assert_array_equal(list(found[name].values()), expected[name], err_msg=name)
    data = hr.RankingData.from_arrays(np.zeros((len(y), 1)), y, qid, docid=docid)
    np.testing.assert_equal(hr.evaluate_run(data, run, names, per_query=True, preset=preset), found)


def plain_parts(qrels, run, topic):
    """Grades in ranked order (no ties), all grades that are known, and both of the documents ranked and judged."""
    of, ranked = qrels[topic], sorted(run[topic], key=run[topic].get, reverse=True)
    known = [of.get(d, 0) for d in ranked] + [grade for d, grade in of.items() if d not in run[topic]]
    return [of.get(d, 0) for d in ranked], sorted(known, reverse=True), [of[d] for d in ranked if d in of]


def test_ids_of_data_match_however_they_are_written():
    data = hr.RankingData.from_arrays(np.eye(2), [1, 0], [1.0, 1.0], docid=np.array([7.0, 8.0]))
    for qrels in (data, {1.0: {7.0: 1, 8.0: 0}}):
        assert as_grades(qrels) == {"1": {"7": 1.0, "8": 0.0}}


def test_judged_documents_without_a_place_count_where_all_there_is_does():
    qrels, run = random_case(5, low=0)
    run = {topic: {d: -i for i, d in enumerate(scores)} for topic, scores in run.items()}
    names = ["dcg@4", "ndcg@4", "mean_ndcg", "err@4", "recall@4", "map@4:map_divisor=cutoff", "p@50:precision=list"]
    names += ["ndcg@10:short=zero", "pair_accuracy", "kendall_tau", "p@10:precision=zero"]
    values = hr.evaluate_run(qrels, run, names, per_query=True)
    top = max(grade for of in qrels.values() for grade in of.values())

    def dcg(grades, k):
        return sum((2**g - 1) / math.log2(r + 1) for r, g in enumerate(grades[:k], 1))

    for topic in qrels.keys() & run.keys():
        found = {name: of[topic] for name, of in values.items()}
        ranking, known, paired = plain_parts(qrels, run, topic)
        n, relevant = len(ranking), sum(g > 0 for g in known)
        assert found["dcg@4"] == pytest.approx(dcg(ranking, 4))
        assert found["p@50:precision=list"] == pytest.approx(sum(g > 0 for g in ranking) / n)
        assert found["p@10:precision=zero"] == pytest.approx(sum(g > 0 for g in ranking[:10]) / 10 * (n >= 10))
        going, err = 1.0, 0.0
        for r, g in enumerate(ranking[:4], 1):
            err, going = err + going * (2**g - 1) / 2**top / r, going * (1 - (2**g - 1) / 2**top)
        assert found["err@4"] == pytest.approx(err)
        if relevant:
            assert found["ndcg@4"] == pytest.approx(dcg(ranking, 4) / dcg(known, 4))
            assert found["ndcg@10:short=zero"] == pytest.approx(dcg(ranking, 10) / dcg(known, 10) * (n >= 10))
            places = range(1, len(known) + 1)
            assert found["mean_ndcg"] == pytest.approx(np.mean([dcg(ranking, r) / dcg(known, r) for r in places]))
            assert found["recall@4"] == pytest.approx(sum(g > 0 for g in ranking[:4]) / relevant)
            precisions = [sum(h > 0 for h in ranking[:r]) / r for r, g in enumerate(ranking[:4], 1) if g > 0]
            assert found["map@4:map_divisor=cutoff"] == pytest.approx(sum(precisions) / min(relevant, 4))
        pairs = [(a, b) for a, b in itertools.combinations(paired, 2) if a != b]
        if pairs:
            right = sum(a > b for a, b in pairs)
            assert found["pair_accuracy"] == pytest.approx(right / len(pairs))
            all_pairs = len(paired) * (len(paired) - 1) / 2
            assert found["kendall_tau"] == pytest.approx((2 * right - len(pairs)) / math.sqrt(len(pairs) * all_pairs))
        else:
            assert math.isnan(found["pair_accuracy"])


def test_topics_that_the_run_lacks_count_when_asked():
    qrels, run = {"1": {"a": 1}, "2": {"b": 1}, "3": {}}, {"1": ["a"], "9": ["a"], "2": []}
    each = hr.evaluate_run(qrels, run, list(NAMES), per_query=True, complete=True, preset="lightgbm")
    assert all(list(of) == ["1", "2", "3"] and of["2"] == of["3"] == 0 for of in each.values())
    assert hr.evaluate_run(qrels, run, "map") == {"map": 1.0}
    assert hr.evaluate_run(qrels, run, "map", complete=True) == {"map": pytest.approx(1 / 3)}


def test_the_scale_of_err_is_that_of_all_judgments():
    """Not of the documents that happen to be ranked."""
    qrels = {"1": {"a": 1, "b": 0}, "2": {"c": 3}, "5": {"d": 4}}
    assert hr.evaluate_run(qrels, {"1": ["a"], "2": ["x"]}, "err@20", per_query=True)["err@20"]["1"] == 1 / 16


def test_scores_tie_in_single_precision_under_trec():
    qrels, run = {"1": {"a": 1, "b": 0}}, {"1": {"a": 3.00000001, "b": 3.0}}
    assert hr.evaluate_run(qrels, run, ["mrr", "mrr:trec"]) == {"mrr": 1.0, "mrr:trec": 0.5}
    far = {"1": {"a": 1e300, "b": 1e299}}  # both beyond single precision
    assert hr.evaluate_run(qrels, far, "mrr:trec") == {"mrr:trec": 0.5}


@pytest.fixture
def files(tmp_path):
    qrels, run = random_case(0, low=0)
    judged = [f"{topic} 0 {d} {grade}\n" for topic, of in qrels.items() for d, grade in of.items()]
    ranked = [f"{topic} Q0 {d} 1 {score!r} tag\n" for topic, of in run.items() for d, score in of.items()]
    (tmp_path / "qrels.txt").write_text("".join(judged))
    (tmp_path / "run.txt").write_text("".join(ranked))
    return tmp_path / "qrels.txt", tmp_path / "run.txt"


def test_files_measure_as_dictionaries(files):
    qrels, run = random_case(0, low=0)
    names = ["ndcg@10", "map:trec", "err@4:letor4", "kendall_tau"]
    expected = hr.evaluate_run(qrels, run, names, per_query=True)
    np.testing.assert_equal(hr.evaluate_run(*files, names, per_query=True), expected)
    np.testing.assert_equal(hr.evaluate_run(*map(str, files), names, per_query=True), expected)
    rows = [(int(topic), d, score) for topic, of in run.items() for d, score in of.items()]
    np.testing.assert_equal(hr.evaluate_run(qrels, rows, names, per_query=True), expected)


def test_files_are_told_apart(files, tmp_path):
    qrels, run = files
    rows = tmp_path / "rows.txt"
    rows.write_text("1 qid:1 1:0.5 2:3\n0 qid:1 1:0.5 2:3\n")
    assert is_qrels(qrels) and not is_run(qrels) and is_run(run) and not is_qrels(run)
    assert not is_qrels(rows) and not is_qrels(tmp_path)
    rows.write_text("1 qid:1 1:0.5 2:3 3:1 4:1\n")  # six words, as the lines of a run have
    assert not is_run(rows)


def test_on_the_command_line(files, capsys, tmp_path, monkeypatch):
    qrels, run = map(str, files)
    assert main(["evaluate", qrels, run, "--measure", "ndcg@10", "--preset", "trec"]) == 0
    assert "6 of 7 judged topics are in run.txt" in capsys.readouterr().out
    assert main(["evaluate", qrels, run, "-m", "NDCG@10", "-m", "map:relevant=2", "--complete", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["means"] == hr.evaluate_run(qrels, run, ["NDCG@10", "map:relevant=2"], complete=True)
    assert (found["topics"], found["judged"]) == (7, 7)
    assert main(["evaluate", qrels, run, "-m", "p@5", "--complete", "--per-query"]) == 0
    assert "the others count as 0" in capsys.readouterr().out
    assert main(["evaluate", run, qrels]) == 1
    assert "run.txt is a TREC run: give the judgments first" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    data = hr.make_letor(n_queries=5, rows_per_query=(4, 9), n_features=3, seed=1, dtype="float64")
    names = [f"D{i}" for i in range(data.n_rows)]
    rows = hr.RankingData.from_arrays(data.X, data.y, data.qid, docid=names)
    hr.write(rows, "rows.txt")
    assert main(["fit", "rows.txt", "-o", "model/"]) == 0
    assert main(["rank", "model/", "rows.txt", "-o", "scores.txt"]) == 0
    assert main(["rank", "model/", "rows.txt", "--trec-run", "-o", "own.txt"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "rows.txt", "scores.txt", "--complete"]) == 1
    assert "--complete is for a TREC run, not for graded rows" in capsys.readouterr().err
    for scores in ("scores.txt", "own.txt"):
        assert main(["evaluate", "rows.txt", scores, "--json"]) == 0
    plain, run_means = (json.loads(line)["means"] for line in capsys.readouterr().out.splitlines())
    assert plain == pytest.approx(run_means)


def test_mistakes_are_named(tmp_path):
    bad = tmp_path / "qrels.txt"
    for text, problem in [
        ("1 0 D1 one\n", "line 1: the grade 'one' is no number"),
        ("1 0 D1 nan\n", "line 1: the grade 'nan' is no number"),
        ("1 0 D1 1\n1 0 D1 2\n", "line 2: document D1 already has grade 1; .*hingerank.evaluate_diversity"),
    ]:
        bad.write_text(text)
        with pytest.raises(hr.DataError, match=problem):
            read_qrels(bad)
    for qrels, run, name, problem in [
        ({"1": {"a": 1}}, {"2": ["a"]}, "map", "no topic of the run has judgments: the run has 2"),
        ({"1": {"a": 1}}, {"1": {"a": np.nan}}, "map", "topic 1: the score of document a is nan"),
        ({"1": {"a": np.inf}}, {"1": ["a"]}, "map", "grade of document a in topic 1 is not a finite number"),
        ({"1": {"a": "x"}}, {"1": ["a"]}, "map", "grade of document a in topic 1 is 'x', expected a number"),
        ({"1": {"a": 1}}, {"1": {"a": "x"}}, "map", "score of document a is 'x', expected a number"),
        ({"1": {"a": 1}}, {"1": None}, "map", "topic 1 of the run is None, expected a list of documents"),
        ({"1": {"a": 1}}, None, "map", r"a run is a path, \{topic: documents\} or .*, not None"),
        ({"1": ["a"]}, {"1": ["a"]}, "map", "judgments are a path"),
        ({"1": {"a": 1, "b": -1}}, {"1": ["a"]}, "ndcg:sklearn", "not defined for grade -1 of document b in topic 1"),
        ({"1": {"a": 9}}, {"1": ["a"]}, "err:trec", "grade 9 of document a in topic 1: the scale of grades ends at 4"),
    ]:
        with pytest.raises(hr.DataError, match=problem):
            hr.evaluate_run(qrels, run, name)
    without = hr.RankingData.from_arrays(np.zeros((2, 1)), [0, 1], [1, 1])
    with pytest.raises(hr.DataError, match="the data have no document ids"):
        hr.evaluate_run(without, {"1": ["a"]})
