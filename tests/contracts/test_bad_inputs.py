"""Whatever is given to a ranker of the registry is taken or refused by a ValueError; kernels see what was checked.

Sparse matrices are forged after SciPy has looked at them; without the check before their conversion they end the
process, and so would many others here.
"""

import re
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from scipy import sparse

import hingerank as hr
from hingerank.data.blocks import QueryBlocks
from hingerank.diversity.relations import cosine_relation
from hingerank.losses import LIST_LOSSES, LOSSES, RANKING_LOSSES, make_loss
from hingerank.personal.rankers import PersonalRanker
from hingerank.preferences import ExplicitPairs, GradedPreferences
from hingerank.rankers.base import BaseRanker
from hingerank.registry import RANKERS, ranker_class

AVAILABLE = {name: cls for name in RANKERS if find_spec(getattr(cls := ranker_class(name), "requires", "sklearn"))}
GRADED = {name: cls for name, cls in AVAILABLE.items() if issubclass(cls, BaseRanker)}

N, D = 24, 3
FAR = 10**7  # an index that leads out of every array here
rng = np.random.default_rng(0)
X = rng.random((N, D)) + 0.1
Y, QID = rng.integers(0, 3, N).astype(float), np.repeat(np.arange(4), 6)


def forged(form, **parts):
    """A valid matrix of the format, with some of its arrays changed afterwards."""
    matrix = sparse.bsr_matrix(X, blocksize=(2, 1)) if form == "bsr" else getattr(sparse, f"{form}_matrix")(X)
    for name, change in parts.items():
        array = change(getattr(matrix, name).copy())
        setattr(matrix, name, array)
    return matrix


def at(place, value):
    def change(array):
        array[place] = value
        return array

    return change


def borders(array):
    array[1], array[2] = array[2], array[1] - 1
    return array


def far_key():
    matrix = sparse.dok_matrix(X)
    matrix._dict[(FAR, 0)] = 1.0
    return matrix


def lists(rows):
    matrix = sparse.lil_matrix(X)
    matrix.rows[0], matrix.data[0] = rows, [1.0] * 2
    return matrix


SPARSE = {
    **{f"{form} index far": forged(form, indices=at(0, FAR)) for form in ("csr", "csc", "bsr")},
    **{f"{form} index at the border": forged(form, indices=at(-1, 10**3)) for form in ("csr", "csc", "bsr")},
    **{f"{form} index below 0": forged(form, indices=at(0, -FAR)) for form in ("csr", "csc", "bsr")},
    **{f"{form} border far": forged(form, indptr=at(-1, FAR)) for form in ("csr", "csc", "bsr")},
    **{f"{form} border inside far": forged(form, indptr=at(1, FAR)) for form in ("csr", "csc", "bsr")},
    **{f"{form} border below 0": forged(form, indptr=at(0, -FAR)) for form in ("csr", "csc", "bsr")},
    **{f"{form} borders fall": forged(form, indptr=borders) for form in ("csr", "csc", "bsr")},
    **{f"{form} few borders": forged(form, indptr=lambda a: a[:2]) for form in ("csr", "csc", "bsr")},
    **{f"{form} no borders": forged(form, indptr=lambda a: a[:0]) for form in ("csr", "csc", "bsr")},
    **{f"{form} few values": forged(form, data=lambda a: a[:1]) for form in ("csr", "csc", "bsr")},
    **{f"{form} few indices": forged(form, indices=lambda a: a[:1]) for form in ("csr", "csc", "bsr")},
    **{f"{form} indices of halves": forged(form, indices=lambda a: a + 0.5) for form in ("csr", "csc", "bsr")},
    **{f"{form} borders of text": forged(form, indptr=lambda a: a.astype(str)) for form in ("csr", "csc")},
    **{f"{form} values in a table": forged(form, data=lambda a: a[None]) for form in ("csr", "csc", "bsr")},
    "csr huge indices": forged("csr", indices=lambda a: a.astype(np.uint64) + np.uint64(2**63)),
    "csr objects": forged("csr", data=lambda a: a.astype(object)),
    "csr complex": sparse.csr_matrix(X + 1j),
    "csr NaN": forged("csr", data=at(0, np.nan)),
    "csc infinite": forged("csc", data=at(0, np.inf)),
    "coo row far": forged("coo", row=at(0, FAR)),
    "coo column below 0": forged("coo", col=at(0, -FAR)),
    "coo few values": forged("coo", data=lambda a: a[:1]),
    "coo of one dimension": sparse.coo_array(X[0]),
    "coo of three dimensions": sparse.coo_array(X[None]),
    "dok key far": far_key(),
    "lil column far": lists([0, FAR]),
    "lil column below 0": lists([-FAR, 0]),
    "lil few columns": lists([0]),
    "lil column of text": lists(["a", "b"]),
    "dia few offsets": forged("dia", offsets=lambda a: a[:1]),
    "dia values in a list": forged("dia", data=lambda a: a[0]),
    "no rows": sparse.csr_matrix((0, D)),
    "other columns": sparse.csr_matrix((N, D + 1)),
}


def masked():
    return np.ma.masked_array(X, np.arange(N * D).reshape(N, D) == 4)


DENSE = {
    "NaN": np.where(np.arange(D) == 1, np.nan, X),
    "infinite": np.where(np.arange(D) == 1, np.inf, X),
    "text": np.full((N, D), "a"),
    "text of other digits": np.full((N, D), "\u0663").astype(object),
    "text with underscores": np.full((N, D), "1_0").astype(object),
    "objects": np.full((N, D), object()),
    "dictionaries": [[{}] * D] * N,
    "huge numbers": np.full((N, D), 10**400, object),
    "complex": X + 1j,
    "one dimension": X[:, 0],
    "three dimensions": X[None],
    "a number": 3.0,
    "None": None,
    "a string": "features.txt",
    "no rows": X[:0],
    "no columns": X[:, :0],
    "ragged": [[1.0, 2.0], [1.0]] * (N // 2),
    "dates": np.full((N, D), np.datetime64("2024-05-31")),
    "bytes": np.full((N, D), b"x"),
    "records": np.zeros(N, [("a", float), ("b", float)]),
    "masked": masked(),
}
NAN_WELCOME = {"NaN", "csr NaN"}


def frames():
    pandas = pytest.importorskip("pandas")
    return {
        "mixed columns": pandas.DataFrame({"a": X[:, 0], "b": ["x"] * N, "c": X[:, 2]}),
        "a missing number": pandas.DataFrame({"a": X[:, 0], "b": [None] + [1.0] * (N - 1), "c": X[:, 2]}),
        "a column of dates": pandas.DataFrame(X[:, :2], columns=["a", "b"]).assign(c=pandas.Timestamp("2024-05-31")),
    }


def make(name):
    quick = {"n_estimators": 5} if "n_estimators" in GRADED[name]().get_params() else {}
    return GRADED[name](**quick)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module", params=sorted(GRADED))
def ranker(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(request.param).fit(X, Y, QID)


def refused(call, what):
    """A ValueError with words in it, or what scikit-learn's own checks of estimators ask for."""
    try:
        call()
    except ValueError as error:
        assert str(error), what
    except TypeError as error:
        assert what[-1] in ("objects", "dictionaries") and re.search("must be .* string.* number", str(error)), what
    else:
        raise AssertionError(f"{what} was taken")


def test_bad_features_are_refused(ranker):
    fresh = make(next(name for name, cls in GRADED.items() if cls is type(ranker)))
    allow_nan = ranker.__sklearn_tags__().input_tags.allow_nan
    for name, bad in (SPARSE | DENSE | frames()).items():
        if allow_nan and (name in NAN_WELCOME or name == "a missing number"):
            continue
        for method in ("predict", "rank", "explain"):
            refused(lambda m=method, b=bad: getattr(ranker, m)(b, QID), (method, name))
        refused(lambda b=bad: ranker.score(b, Y, QID), ("score", name))
        if name != "other columns":
            refused(lambda b=bad: fresh.fit(b, Y, QID), ("fit", name))


ROWS = {  # what may stand beside the features, one for each row
    "y": {
        "short": Y[:-1], "NaN": Y * np.nan, "infinite": Y + np.inf, "text": ["a"] * N, "None": None, "complex": Y + 1j,
        "huge": [10**400] * N, "objects": [object()] * N, "table": np.ones((N, 2)), "empty": [],
        "other digits": ["\u0663"] * N, "masked": np.ma.masked_array(Y, Y == 1),
    },
    "qid": {"short": QID[:-1], "NaN": QID * np.nan, "None inside": [None] * N, "lists": [[1, 2]] * N,
            "table": np.ones((N, 2)), "records": np.zeros(N, "V4")},
    "group": {"short": [6, 6], "long": [N, 1], "negative": [-1, N + 1], "halves": [0.5] * 2 * N, "text": ["a"],
              "huge": [2**62, 2**62]},
    "sample_weight": {"short": np.ones(N - 1), "NaN": np.full(N, np.nan), "negative": -np.ones(N),
                      "text": ["a"] * N, "zero": np.zeros(N), "huge": [10**400] * N, "complex": np.ones(N) + 1j},
}  # fmt: skip


def test_bad_rows_are_refused(ranker):
    name = next(name for name, cls in GRADED.items() if cls is type(ranker))
    for part, kinds in ROWS.items():
        if part == "sample_weight" and not hasattr(type(ranker), "set_fit_request"):
            continue
        for kind, bad in kinds.items():
            told = {"y": Y, "qid": QID, part: bad}
            if part == "group":
                del told["qid"]
            if part == "sample_weight" and "sample_weight" not in type(ranker).fit.__code__.co_varnames:
                continue
            refused(lambda t=told: make(name).fit(X, **t), (part, kind))
            if part in ("y", "qid"):
                refused(lambda t=told: ranker.score(X, **t), ("score", part, kind))
            if part == "qid":
                refused(lambda b=bad: ranker.rank(X, b), ("rank", kind))
                refused(lambda b=bad: ranker.explain(X, b), ("explain", kind))


def test_data_made_by_hand_are_checked_like_others(ranker):
    name = next(name for name, cls in GRADED.items() if cls is type(ranker))
    for form in ("csc index far", "csr border far", "coo row far"):
        refused(lambda f=form: make(name).fit(hr.RankingData(SPARSE[f], Y, QID)), form)
        refused(lambda f=form: hr.RankingData.from_arrays(SPARSE[f], Y, QID), form)
    refused(lambda: make(name).fit(hr.RankingData(X, Y, QID[:-1])), "query ids")
    refused(lambda: make(name).fit(hr.RankingData(X, Y[:-1], QID)), "grades")


@pytest.mark.parametrize("kind", sorted(SPARSE))
def test_a_refused_matrix_is_not_changed(kind):
    before = {name: np.copy(part) for name, part in vars(SPARSE[kind]).items() if isinstance(part, np.ndarray)}
    with pytest.raises((ValueError, TypeError)):
        hr.RankSVM().fit(SPARSE[kind], Y, QID).predict(np.ones((1, D)))
    for name, part in before.items():
        assert np.array_equal(vars(SPARSE[kind])[name], part) or part.dtype.kind in "fO"


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dok", "lil", "dia"])
def test_valid_matrices_of_every_format_are_taken(form):
    dense = np.where(X > 0.5, X, 0.0)
    expected = hr.RankSVM().fit(dense, Y, QID)
    matrix = sparse.csr_matrix(dense).asformat(form)
    for given in (matrix, getattr(sparse, f"{form}_array")(matrix)):
        np.testing.assert_allclose(hr.RankSVM().fit(given, Y, QID).predict(given), expected.predict(dense), atol=1e-6)
    empty = getattr(sparse, f"{form}_matrix")((N, D))
    assert np.array_equal(expected.predict(empty), np.zeros(N))


OFFSETS = {
    "far": [0, FAR], "short": [0, N - 1], "from 1": [1, N], "falling": [0, N, 5, N], "negative": [0, -FAR, N],
    "empty": [], "halves": [0.0, N], "a table": [[0, N]], "text": ["0", "24"], "huge": [0, 2**63],
    "a number": 3,
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(OFFSETS))
def test_graded_preferences_check_their_blocks(kind):
    with pytest.raises(ValueError, match="offsets"):
        GradedPreferences(Y, OFFSETS[kind])
    with pytest.raises(ValueError, match="offsets"):
        GradedPreferences(Y, OFFSETS[kind], grade_weight=np.ones((3, 3)), pair_weight="query")


@pytest.mark.parametrize("kind", sorted(ROWS["y"]))
def test_graded_preferences_check_their_grades(kind):
    with pytest.raises(ValueError):
        GradedPreferences(ROWS["y"][kind], [0, N])


@pytest.mark.parametrize("rows", [[FAR], [-1], [0.5], ["a"], [[0]], [2**63], [None], [True], [1 + 1j], 3])
def test_pairs_check_their_rows(rows):
    for winners, losers in ((rows, [0]), ([0], rows)):
        with pytest.raises(ValueError):
            ExplicitPairs(winners, losers, n_items=N)
        with pytest.raises(ValueError):
            hr.RankSVM().fit_pairs(X, winners, losers)


@pytest.mark.parametrize(
    "parts",
    [([0], [0, FAR], [0, 1]), ([0, 1], [0, 2], None), ([0], [1, 2], None), ([0], [0, 2], [0, FAR]),
     ([0], [0, 2], [0, 0]), ([0], [0, 2], [0]), ([0], [0, 2], [-1, 0]), ([0], [0, 2], [0.0, 1.0]), ([], [], None),
     ([0, 1], [0, 5, 2], None)],
)  # fmt: skip
def test_query_blocks_made_by_hand(parts):
    ids, offsets, order = (None if part is None else np.array(part) for part in parts)
    with pytest.raises(ValueError):
        QueryBlocks(ids, offsets, order)


@pytest.mark.parametrize("loss", [*LOSSES, *LIST_LOSSES, *RANKING_LOSSES])
def test_losses_take_a_score_for_each_row(loss):
    made, preferences = make_loss(loss), GradedPreferences(Y, [0, N])
    for scores in (np.zeros(N - 1), np.zeros(N + 1), np.zeros((N, 1)), np.zeros(0), 0.0):
        with pytest.raises(ValueError, match="scores"):
            made.at(scores, preferences)


PERSONAL = sorted(name for name, cls in AVAILABLE.items() if issubclass(cls, PersonalRanker))
USERS, ITEMS, RATINGS = np.repeat(np.arange(4), 6), np.tile(np.arange(6), 4), rng.integers(1, 6, N).astype(float)
ITEM = {
    "far": FAR, "behind the last": N, "negative": -1, "half": 0.5, "NaN": np.nan, "huge": 2**70, "text": "a",
    "None": None, "complex": 1j,
}  # fmt: skip


@pytest.mark.parametrize("name", PERSONAL)
def test_personal_rankers_check_features_users_and_items(name):
    def new():
        return AVAILABLE[name](**({"rank": 2} if "rank" in AVAILABLE[name]().get_params() else {}))

    fitted = new().fit(X, USERS, ITEMS, RATINGS)
    for kind, bad in (SPARSE | DENSE).items():
        if kind != "other columns":
            refused(lambda b=bad: new().fit(b, USERS, ITEMS, RATINGS), ("fit", kind))
            refused(lambda b=bad: new().fit_pairs(b, [0], [0], [1]), ("fit_pairs", kind))
        refused(lambda b=bad: fitted.predict([0] * N, b), ("predict", kind))
        refused(lambda b=bad: fitted.rank(0, b), ("rank", kind))
    for kind, item in ITEM.items():
        some = [item, *ITEMS[1:].tolist()]
        refused(lambda s=some: new().fit(X, USERS, s, RATINGS), ("items", kind))
        refused(lambda i=item: new().fit_pairs(X, [0], [i], [1]), ("winners", kind))
        refused(lambda i=item: new().fit_pairs(X, [0], [1], [i]), ("losers", kind))
    for kind in ("short", "NaN", "infinite", "text", "None", "complex", "huge", "objects", "table", "empty"):
        refused(lambda k=kind: new().fit(X, USERS, ITEMS, ROWS["y"][k]), ("ratings", kind))
    for kind, bad in ROWS["qid"].items():
        refused(lambda b=bad: new().fit(X, b, ITEMS, RATINGS), ("users", kind))
    refused(lambda: new().fit_pairs(X, [0, 1], [0], [1]), "users of pairs")


@pytest.mark.parametrize("kind", sorted(set(SPARSE) - {"csr complex", "no rows", "other columns"}))
def test_sparse_vectors_of_candidates_are_checked(kind):
    with pytest.raises(ValueError):
        cosine_relation(SPARSE[kind])
    if kind != "csc infinite":
        with pytest.raises(ValueError):
            hr.DiverseQuery(X, words=SPARSE[kind])


def test_pairs_that_all_have_weight_0_are_refused():
    """As `fit` refuses such rows: weights of 0 would come without a word."""
    for ranker in (hr.RankSVM(), hr.KernelRankSVM(gamma=1.0), hr.AdditiveRankSVM()):
        with pytest.raises(ValueError, match="all sample_weight are zero"):
            ranker.fit_pairs([[0.0], [1.0], [2.0]], [0, 1], [1, 2], [0, 0])


# parameters in which a word is taken, has no say with the other defaults, or is refused in a library's words
TAKE_WORDS = {"orthogonal", "average", "monotone", "negated", "absolute"}
IDLE = {"rounds", "degree", "coef0", "bag_share", "memory_gb"}
IDLE_IN = {"factorized": {"learning_rate"}, "regularized": {"learning_rate", "inner_iter", "random_state"}}
OF_LIBRARIES = {"learning_rate", "num_leaves", "min_child_samples", "max_depth", "objective"}
OTHER_WORDS = {"validation": "could not", "kernel": "no kernel", "measure": "measure"}


@pytest.mark.parametrize("name", sorted(GRADED))
def test_parameters_that_are_no_such_word_are_named(name):
    rng = np.random.default_rng(0)
    X, y, qid = rng.random((12, 3)), np.tile([0, 1, 2], 4), np.repeat([0, 1, 2], 4)
    parameters = make(name).get_params(deep=False).keys() - TAKE_WORDS - IDLE - IDLE_IN.get(name, set())
    if hasattr(GRADED[name], "library"):
        parameters -= OF_LIBRARIES
    for parameter in parameters:
        with pytest.raises(ValueError, match=OTHER_WORDS.get(parameter, parameter.rstrip("s"))):
            make(name).set_params(**{parameter: "no such word"}).fit(X, y, qid)
