"""Presets against the tools they are named after, on random lists with ties, empty queries and short lists."""

import shutil

import numpy as np
import pytest

import hingerank as hr

CUTS = (1, 3, 5, 10)


def random_lists(seed, n_queries=40, whole=True, ties=True):
    """Grades (many queries have none above 0), scores (few distinct ones if ties), rows per query from 1 to 15."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 16, n_queries)
    y = random.choice(5, p=[0.78, 0.1, 0.06, 0.04, 0.02], size=sizes.sum())
    s = random.integers(0, 6, len(y)) / 4 if ties else random.permutation(len(y)) / 8
    return (y if whole else np.minimum(y, 1)), s, sizes


@pytest.mark.parametrize("seed", range(4))
def test_trec_is_pytrec_eval(seed):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    random = np.random.default_rng(seed)
    y, s, sizes = random_lists(seed)
    y, qid = y - (random.random(len(y)) < 0.1), np.repeat(np.arange(len(sizes)), sizes)  # some grades are -1
    s = s + random.choice([0, 1e-12, 1e-3], size=len(s))  # 1e-12 is a tie in single precision
    docid = np.array([f"doc{i}" for i in random.permutation(len(y))])
    theirs = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank"}
    for k in CUTS:
        theirs |= {f"ndcg@{k}": f"ndcg_cut_{k}", f"p@{k}": f"P_{k}", f"recall@{k}": f"recall_{k}"}
        theirs |= {f"map@{k}": f"map_cut_{k}"}
    cuts = ",".join(map(str, CUTS))
    wanted = {"ndcg", "map", "recip_rank", *(f"{m}.{cuts}" for m in ("ndcg_cut", "P", "recall", "map_cut"))}
    qrels, run = {}, {}
    for q, d, grade, score in zip(qid.tolist(), docid.tolist(), y.tolist(), s.tolist()):
        qrels.setdefault(str(q), {})[d] = grade
        run.setdefault(str(q), {})[d] = score
    expected = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(run)
    each = hr.evaluate(y, s, qid, list(theirs), per_query=True, preset="trec", docid=docid)
    for ours, name in theirs.items():
        reference = [expected[str(q)][name] for q in range(len(sizes))]
        np.testing.assert_allclose(each[ours], reference, rtol=0, atol=1e-12, err_msg=ours)


@pytest.mark.filterwarnings("ignore:.*will be removed in Python 3.14:DeprecationWarning")  # ast.Num in ir_measures
@pytest.mark.parametrize("seed", range(2))
def test_trec_is_ir_measures(seed):
    """ERR and the exponential NDCG come from TREC's gdeval, a Perl script that prints five digits."""
    ir_measures = pytest.importorskip("ir_measures")
    y, s, sizes = random_lists(seed, ties=False)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    docid = [f"doc{i}" for i in range(len(y))]
    qrels = [ir_measures.Qrel(str(q), d, int(g)) for q, d, g in zip(qid, docid, y)]
    run = [ir_measures.ScoredDoc(str(q), d, float(x)) for q, d, x in zip(qid, docid, s)]
    theirs = {"ndcg@10:trec": "nDCG@10", "map:trec": "AP", "p@5:trec": "P@5", "recall@5:trec": "R@5", "mrr:trec": "RR"}
    theirs |= {"mrr@5": "RR@5", "map:relevant=2": "AP(rel=2)"}
    printed = {"ndcg@10": "nDCG(dcg='exp-log2')@10", "err@10:trec": "ERR@10"} if shutil.which("perl") else {}
    theirs |= printed
    parsed = {ours: ir_measures.parse_measure(name) for ours, name in theirs.items()}
    expected = ir_measures.calc_aggregate(list(parsed.values()), qrels, run)
    for ours, value in hr.evaluate(y, s, qid, list(theirs)).items():
        assert value == pytest.approx(expected[parsed[ours]], abs=1e-5 if ours in printed else 1e-12), ours


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [None, 1, 3, 10, 40])
def test_sklearn_is_scikit_learn(seed, k):
    from sklearn.metrics import dcg_score, ndcg_score

    y, s, sizes = random_lists(seed, n_queries=25)
    cut = "" if k is None else f"@{k}"
    each = hr.evaluate(y, s, group=sizes, measures=[f"ndcg{cut}", f"dcg{cut}"], per_query=True, preset="sklearn")
    borders = np.cumsum(sizes)[:-1]
    for q, (grades, scores) in enumerate(zip(np.split(y, borders), np.split(s, borders))):
        if len(grades) > 1:  # scikit-learn refuses lists of one item
            assert each[f"dcg{cut}"][q] == pytest.approx(dcg_score([grades], [scores], k=k), abs=1e-12)
            assert each[f"ndcg{cut}"][q] == pytest.approx(ndcg_score([grades], [scores], k=k), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_lightgbm_reports_the_same(seed):
    """A booster without trees scores a validation set by its init_score: LightGBM's own values for our scores."""
    lightgbm = pytest.importorskip("lightgbm")
    y, s, sizes = random_lists(seed)
    params = {"objective": "lambdarank", "metric": ["ndcg", "map"], "eval_at": CUTS, "verbosity": -1, "num_threads": 1}
    X = np.arange(len(y), dtype=float)[:, None]

    def report(rows, group):
        train = lightgbm.Dataset(X, y, group=sizes, params=params)
        valid = lightgbm.Dataset(X[rows], y[rows], group=group, init_score=s[rows], reference=train, params=params)
        booster = lightgbm.Booster(params, train)
        booster.add_valid(valid, "valid")
        return {name: value for _, name, value, _ in booster.eval_valid()}

    expected = report(slice(None), sizes)
    assert len(expected) == 2 * len(CUTS)
    assert hr.evaluate(y, s, group=sizes, measures=list(expected), preset="lightgbm") == pytest.approx(
        expected, abs=1e-14
    )
    each = hr.evaluate(y, s, group=sizes, measures=list(expected), per_query=True, preset="lightgbm")
    start = 0
    for q, n in enumerate(sizes[:8]):
        alone = report(slice(start, start + n), [n])
        assert {name: each[name][q] for name in expected} == pytest.approx(alone, abs=1e-14)
        start += n


def test_xgboost_reports_the_same():
    xgboost = pytest.importorskip("xgboost")
    for names, objective, whole in (
        (["ndcg@10", "ndcg@3", "ndcg"], "rank:ndcg", True),
        (["map@3", "map"], "rank:map", False),
    ):
        y, s, sizes = random_lists(1, whole=whole, ties=False)
        data = xgboost.DMatrix(np.zeros((len(y), 1)), y, base_margin=s)
        data.set_group(sizes)
        settings = {"objective": objective, "eval_metric": names, "disable_default_eval_metric": 1, "base_score": 0.0}
        printed = xgboost.Booster(settings, [data]).eval(data).split("\t")[1:]
        expected = {name: float(text.rpartition(":")[2]) for name, text in zip(names, printed)}
        assert hr.evaluate(y, s, group=sizes, measures=names, preset="xgboost") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_catboost_reports_the_same(ties):
    eval_metric = pytest.importorskip("catboost.utils").eval_metric
    theirs = {
        "ndcg@10": "NDCG:top=10",
        "ndcg@3": "NDCG:top=3",
        "ndcg": "NDCG",
        "dcg@5": "DCG:top=5",
        "mrr@5": "MRR:top=5",
    }
    theirs |= {
        "map@3": "MAP:top=3",
        "map": "MAP",
        "p@5": "PrecisionAt:top=5",
        "recall@5": "RecallAt:top=5",
        "mrr": "MRR",
    }
    y, s, sizes = random_lists(2, ties=ties)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    for ours, name in theirs.items():
        expected = eval_metric(y.astype(float), s, name, group_id=qid)[0]
        assert hr.evaluate(y, s, qid, ours, preset="catboost")[ours] == pytest.approx(expected, abs=1e-12), ours
