"""Rankers in a PyTerrier pipeline over a real index."""

import shutil

import numpy as np
import pytest

import hingerank as hr

TEXTS = [
    "red apple pie", "green apple", "apple computer store", "pie with red berries", "computer science",
    "berries and cream", "red computer", "cream pie recipe", "apple cream", "science of pie",
]  # fmt: skip
TOPICS = {"1": "apple pie", "2": "computer science", "3": "red berries", "4": "cream"}
JUDGED = {("1", 0): 2, ("1", 1): 1, ("2", 4): 2, ("2", 2): 1, ("3", 3): 2, ("4", 7): 1, ("4", 5): 2}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [lambda: hr.RankSVM(scale="standard"), hr.AdditiveRankSVM])
def test_rankers_learn_in_a_pipeline(make, tmp_path):
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    pt, pandas = pytest.importorskip("pyterrier"), pytest.importorskip("pandas")
    documents = [{"docno": f"d{k}", "text": text} for k, text in enumerate(TEXTS)]
    index = pt.terrier.IterDictIndexer(str(tmp_path / "index"), meta={"docno": 20}).index(documents)
    topics = pandas.DataFrame(list(TOPICS.items()), columns=["qid", "query"])
    judged = pandas.DataFrame(
        [(q, f"d{d}", grade) for (q, d), grade in JUDGED.items()], columns=["qid", "docno", "label"]
    )
    by = {model: pt.terrier.Retriever(index, wmodel=model) for model in ("BM25", "TF_IDF", "DPH")}
    features = by["BM25"] >> (by["TF_IDF"] ** by["DPH"])
    ranker = make()
    pipeline = features >> pt.ltr.apply_learned_model(ranker, form="ltr")
    pipeline.fit(topics, judged, topics, judged)
    assert ranker.fingerprint_["queries"] == len(TOPICS) and len(ranker.validation_scores_) == 1
    rows, found = features.transform(topics), pipeline.transform(topics)
    expected = rows.assign(score=ranker.predict(np.stack(rows["features"].to_numpy())))
    both = found.merge(expected, on=["qid", "docno"])
    assert len(both) == len(found) > 10 and np.allclose(both["score_x"], both["score_y"])
