"""C and gamma chosen together: every fit equals one made alone, the rows are mapped once for a gamma."""

import numpy as np
import pytest

from hingerank import FourierRankSVM, KernelRankSVM, NystroemRankSVM, evaluate
from hingerank.data.generate import make_letor
from hingerank.data.scaling import DeviationScaler
from hingerank.features.kernels import choose_gamma
from hingerank.search.folds import path_scores
from hingerank.search.kernel_search import WIDTHS, search_kernel


@pytest.fixture(scope="module")
def parts():
    return make_letor(25, (5, 20), 8, seed=0), make_letor(10, (5, 20), 8, seed=1)


@pytest.mark.parametrize("make", [KernelRankSVM, NystroemRankSVM, FourierRankSVM])
@pytest.mark.parametrize("scale", [None, "query-minmax"])
def test_finds_the_best_of_all_combinations(make, scale, parts):
    train, validation = parts
    Cs, gammas = [1.0, 0.01], [0.05, 0.5]
    ranker = make(tol=1e-6, scale=scale)
    found = search_kernel(ranker, train, validation, Cs=Cs, gammas=gammas, measure="map")
    alone = {}
    for gamma in gammas:
        for C in Cs:
            one = make(tol=1e-6, scale=scale, gamma=gamma, C=C).fit(train)
            alone[gamma, C] = evaluate(validation.y, one.predict(validation), validation.qid, "map")["map"]
    assert {(row["gamma"], row["C"]): row["value"] for row in found.table} == pytest.approx(alone)
    assert alone[found.best.gamma, found.best.C] == pytest.approx(max(alone.values()))
    value = evaluate(validation.y, found.best.predict(validation), validation.qid, "map")["map"]
    assert value == pytest.approx(max(alone.values()))


def test_rows_are_mapped_once_for_a_path(parts):
    train, validation = parts
    calls = []

    class Counted(NystroemRankSVM):
        def _new_map(self):
            feature_map = super()._new_map()
            write = feature_map.write
            feature_map.write = lambda X, out: (calls.append(len(out)), write(X, out))[1]
            return feature_map

    path = Counted(20, gamma=0.3).fit_path(train, Cs=[0.01, 0.1, 1.0])
    assert sum(calls) == train.n_rows
    calls.clear()
    together = path_scores(path, validation)
    assert sum(calls) == validation.n_rows
    for member, scores in zip(path, together):
        np.testing.assert_allclose(scores, member.predict(validation), atol=1e-10)


def test_defaults_and_empty_lists(parts):
    train, validation = parts
    found = search_kernel(FourierRankSVM(20), train, validation, Cs=[0.1])
    scaled = DeviationScaler().fit_transform(train.X)
    assert [row["gamma"] for row in found.table] == pytest.approx(choose_gamma("scale", scaled) * np.array(WIDTHS))
    with pytest.raises(ValueError, match="the grid of 'gammas' is empty"):
        search_kernel(FourierRankSVM(20), train, validation, gammas=[])
