"""The report page draws the curves of additive rankers, fold by fold."""

import numpy as np

import hingerank as hr
from hingerank.lab.comparison import compare
from hingerank.lab.folds import query_folds
from hingerank.lab.methods import Method
from hingerank.lab.report.page import make_payload, render_page, shapes, weights
from hingerank.lab.run_folder import save_arrays


def test_curves_of_every_fold_are_on_the_page(tmp_path):
    data = hr.make_letor(n_queries=12, n_features=4, seed=0)
    folds = query_folds(data, 3)
    methods = [Method("additive", hr.AdditiveRankSVM, {"C": [0.01]}), Method("line", hr.RankSVM, {"C": [0.01]})]
    results = compare(methods, folds, folder=tmp_path / "run", workers=1)
    found = shapes(results, "additive")
    assert found["total"] == 4 and len(found["features"]) == 4
    heaviest = [feature["weight"] for feature in found["features"]]
    assert heaviest == sorted(heaviest, reverse=True)
    for feature in found["features"]:
        assert len(feature["folds"]) == 3
        for _, knots, heights in feature["folds"]:
            assert len(knots) == len(heights) > 1 and knots == sorted(knots)
    assert shapes(results, "line") is None and weights(results, "additive") is None
    page = render_page(make_payload(results))
    assert '"shapes":{"additive":{' in page and 'id="shapes"' in page


def test_columns_that_a_ranker_adds_have_their_own_names(tmp_path):
    """Ranks within queries were called f5, f6, …, and a method whose folds differ in them was not shown at all."""
    data = hr.make_letor(n_queries=12, n_features=2, seed=0)
    data = hr.RankingData.from_arrays(data.X, data.y, data.qid, feature_names=["price", "rating"])
    ranks = {"context": "rank", "C": 0.01}
    methods = [
        Method("line", hr.RankSVM, fixed=ranks | {"missing": "indicator"}),
        Method("curves", hr.AdditiveRankSVM, fixed=ranks),
        Method("map", hr.NystroemRankSVM, fixed={"n_components": 2, "C": 0.01}),
    ]
    results = compare(methods, query_folds(data, 3), folder=tmp_path / "run", workers=1)
    wanted = {"price", "rating", "price, rank in its query", "rating, rank in its query"}
    for found in (weights(results, "line"), shapes(results, "curves")):
        assert found["total"] == 4 and {feature["name"] for feature in found["features"]} == wanted
    assert weights(results, "map") is None  # these weights are of the map's outputs
    plain = hr.AdditiveRankSVM(C=0.01).fit(data)
    save_arrays(results.folder, "curves", results.folds[0], np.zeros(1), plain, data.names)
    save_arrays(results.folder, "line", results.folds[0], np.zeros(1), hr.RankSVM().fit(data), data.names)
    for found, counts in ((weights(results, "line"), "folds"), (shapes(results, "curves"), "folds")):
        count = {f["name"]: f[counts] if isinstance(f[counts], int) else len(f[counts]) for f in found["features"]}
        assert count["rating"] == 3 and count["rating, rank in its query"] == 2
