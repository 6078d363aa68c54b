"""Folds follow LETOR's rule, never cut a query, and are told apart by their fingerprint."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.lab.folds import PARTS, Fold, SelectedRows, check_folds, part_folds, query_folds
from hingerank.lab.run_folder import fingerprint


def queries(data):
    return list(dict.fromkeys(data.qid.tolist()))


def test_query_folds_test_every_query_once(data):
    folds = query_folds(data, 5, seed=3)
    tested = [q for fold in folds for q in queries(fold.part("test"))]
    assert sorted(tested) == sorted(queries(data))
    for i, fold in enumerate(folds):
        parts = {name: set(queries(fold.part(name))) for name in PARTS}
        assert sum(map(len, parts.values())) == len(set.union(*parts.values())) == data.n_queries
        assert parts["validation"] == set(queries(folds[(i - 1) % 5].part("test")))


def test_query_folds_are_those_of_the_data(data):
    for own, fold in zip(query_folds(data, 4, seed=1), data.folds(4, seed=1)):
        assert all(own.part(name) == getattr(fold, name) for name in PARTS)


def test_query_folds_with_scattered_rows(data):
    order = np.random.default_rng(0).permutation(data.n_rows)
    for fold in query_folds(data.take(order), 3):
        sizes = [len(set(part.docid)) for part in map(fold.part, PARTS)]
        assert sum(sizes) == data.n_rows
        check_folds([fold])


def test_seed_shuffles(data):
    assert fingerprint(query_folds(data, 3, seed=0)) == fingerprint(query_folds(data, 3, seed=0))
    assert fingerprint(query_folds(data, 3, seed=0)) != fingerprint(query_folds(data, 3, seed=1))


def test_part_folds_are_letors():
    parts = [RankingData(np.full((2, 1), i), np.zeros(2), np.array([i, i])) for i in range(1, 6)]
    folds = part_folds(parts)
    assert queries(folds[0].part("train")) == [1, 2, 3]
    assert (queries(folds[0].part("validation")), queries(folds[0].part("test"))) == ([4], [5])
    assert sorted(queries(folds[3].part("train"))) == [1, 4, 5]
    assert (queries(folds[3].part("validation")), queries(folds[3].part("test"))) == ([2], [3])


def test_fingerprint_sees_every_change(data):
    def changed(name, value):
        return replace(data, **{name: value})

    X = data.X.copy()
    X[3, 1] += 1e-9
    y = data.y.copy()
    y[0] += 1
    qid = data.qid.copy()
    qid[-1] = "q0"
    sets = [data, changed("X", X), changed("y", y), changed("qid", qid), changed("X", sp.csr_matrix(data.X))]
    rows = [np.arange(0, 80), np.arange(80, 120), np.arange(120, 160)]
    prints = [fingerprint([Fold("f", *(SelectedRows(d, r) for r in rows))]) for d in sets]
    assert len(set(prints)) == len(prints)
    whole = [Fold("f", *(data.take(r) for r in rows))]
    assert fingerprint(whole) == fingerprint([Fold("f", *(data.take(r) for r in rows))])


def turned(data):
    """A triple whose test part has the same columns in another order."""
    train, validation, test = next(data.folds(3))
    return train, validation, replace(test, X=test.X[:, ::-1], feature_names=test.feature_names[::-1])


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda d: query_folds(d, 2), "at least 3"),
        (lambda d: query_folds(d, 21), "21 folds of 20 queries"),
        (lambda d: query_folds(d, 3.5), "k must be a positive whole number, not 3.5"),
        (lambda d: part_folds([d, d]), "at least 3"),
        (lambda d: check_folds([Fold("a", d, d, d)]), "query 'q0' is in both the train and the validation part"),
        (lambda d: check_folds(query_folds(d, 3) * 2), "different names"),
        (
            lambda d: check_folds([turned(d)]),
            "the train part of fold 1 and the test part of fold 1 have different feature",
        ),
        (lambda d: check_folds([Fold("a", d, SelectedRows(d, np.arange(0)), d)]), "validation part is empty"),
    ],
)
def test_unusable_folds_are_named(data, call, words):
    with pytest.raises((ValueError, DataError), match=words):
        call(data)
