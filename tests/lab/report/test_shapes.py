"""The report page draws the curves of additive rankers, fold by fold."""

import hingerank as hr
from hingerank.lab.comparison import compare
from hingerank.lab.folds import query_folds
from hingerank.lab.methods import Method
from hingerank.lab.report.page import make_payload, render_page, shapes, weights


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
