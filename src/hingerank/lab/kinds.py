"""The kinds of comparison: of graded rows, of topics for diversification, of lists over all items.

A kind knows its measures, how a ranker learns from a part of a fold, and how it is judged on one. `kind_of` says which
kind a part is of. Rankers of rows take part in all of them, and recommenders wherever queries are users.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hingerank.arrays import Matrix, PerRow, Ranker
from hingerank.data.blocks import fingerprint_whole
from hingerank.data.ranking_data import RankingData
from hingerank.diversity.measures import order_values, parse_diversity_measure
from hingerank.lab.rating_folds import ListRows
from hingerank.lab.topics import Reranker, TopicRows, is_diversity_measure
from hingerank.metrics import evaluate, parse_measure
from hingerank.metrics.measure import MEASURES, MeasureLike, measure_name
from hingerank.personal.top_n import Recommends, list_values, parse_list_measure, same_lists
from hingerank.rankers.own import fit_rows, predict_rows

LONGEST = 100  # items in a list
SEEN_ROWS = 50  # rows of computed distances that a fingerprint looks at, in each topic


@dataclass(frozen=True)
class OfRows:
    """Graded rows: a ranker gives every row a score, and measures of grades judge the order."""

    data: RankingData
    usual: ClassVar[str] = "ndcg@10"  # the measure that chooses settings

    def more_measures(self, measure: MeasureLike) -> list[str]:
        """The usual measures on test in addition to the one that chooses settings."""
        return default_measures(self.usual if callable(measure) else str(measure))

    def prepared(self, measure: MeasureLike, top_grade: float) -> MeasureLike:
        """The measure for `values`, with grades up to `top_grade`. A ValueError if it does not suit the data."""
        if isinstance(measure, str) and parse_list_measure(measure) is not None:
            raise ValueError(
                f"{measure} judges lists over all items, which are made of ratings: give folds of list_folds"
            )
        return measure if callable(measure) else parse_measure(measure).on_scale(top_grade)

    @property
    def gaps(self) -> Mapping[str, int]:
        """What is missing, counted."""
        return {}

    @property
    def ratings(self) -> tuple[Matrix, PerRow, PerRow, PerRow]:
        """Item features, users, items and ratings: pairs are within users, so every row may be its own item."""
        return self.data.X, self.data.qid, np.arange(self.data.n_rows), self.data.y

    def learn(self, ranker: Ranker) -> None:
        """Fit a ranker."""
        if isinstance(ranker, Reranker):
            raise ValueError(f"{type(ranker).__name__} reorders the documents of topics: give DiverseData, not rows")
        by_user = isinstance(ranker, Recommends)
        ranker.fit(*self.ratings) if by_user else fit_rows(ranker, self.data)

    def scores(self, ranker: Ranker) -> np.ndarray:
        """A score for every row."""
        data = self.data
        by_user = isinstance(ranker, Recommends)
        found = ranker.predict(data.qid, data.X) if by_user else predict_rows(ranker, data)
        scores = np.asarray(found, float)
        if scores.shape != (data.n_rows,):
            raise ValueError(f"predict returned an array of shape {scores.shape} for {data.n_rows} rows")
        if not np.isfinite(scores).all():
            raise ValueError(f"predict returned {scores[~np.isfinite(scores)][0]} as a score")
        return scores

    def values(self, scores: np.ndarray, measures: Mapping[str, MeasureLike]) -> dict[str, np.ndarray]:
        """Each of the prepared measures of every query, by its name; NaN where it is not defined."""
        data = self.data
        found = evaluate(data.y, scores, data.qid, list(measures.values()), per_query=True, docid=data.docid)
        return {name: np.asarray(found[measure_name(measure)], float) for name, measure in measures.items()}

    def fingerprint(self) -> bytes:
        """A hash of all that is known of the data."""
        return fingerprint_whole(self.data.X, self.data.y, self.data.qid)


class OfTopics(OfRows):
    """Topics: a reranker puts the candidates of each into a list, and measures of subtopics judge it, or of grades."""

    data: TopicRows
    usual = "alpha-ndcg@20"

    def more_measures(self, measure: MeasureLike) -> list[str]:
        return [*(f"{kind}@{k}" for kind in ("alpha-ndcg", "err-ia", "strec") for k in (5, 10, 20)), "nrbp"]

    def prepared(self, measure: MeasureLike, top_grade: float) -> MeasureLike:
        if not is_diversity_measure(measure):
            return super().prepared(measure, top_grade)
        cutoff = parse_diversity_measure(measure).cutoff
        if cutoff is not None and cutoff > self.data.top:
            top = f"rerankers choose {self.data.top} documents: name a measure of at most {self.data.top} ranks"
            raise ValueError(
                f"{measure} looks at {cutoff} ranks, but {top}, or from Python make the folds of "
                f"topic_rows(data, top={cutoff})"
            )
        return measure

    @property
    def gaps(self) -> Mapping[str, int]:
        return self.data.gaps

    def learn(self, ranker: Ranker) -> None:
        if isinstance(ranker, Reranker):
            ranker.fit(self.data.topics)
        else:
            super().learn(ranker)

    def scores(self, ranker: Ranker) -> np.ndarray:
        """A score for every row: n, n-1, … down the reranker's list; what it does not choose follows."""
        if not isinstance(ranker, Reranker):
            return super().scores(ranker)
        found, kind = [], type(ranker).__name__
        for query in self.data.topics:
            chosen = np.asarray(ranker.rerank(query, self.data.top))
            if chosen.ndim != 1 or (len(chosen) and chosen.dtype.kind not in "iu"):
                raise ValueError(f"{kind}.rerank returned {chosen.dtype} of shape {chosen.shape}, expected row numbers")
            if len(np.unique(chosen)) < len(chosen) or not ((chosen >= 0) & (chosen < query.n)).all():
                rows = f"rows twice, or beyond the {query.n} candidates of {query.qid!r}"
                raise ValueError(f"{kind}.rerank returned {rows}")
            first = np.zeros(query.n) if query.relevance is None else query.relevance
            order = np.argsort(-first, kind="stable")
            order = np.concatenate((chosen.astype(np.int64), order[~np.isin(order, chosen)]))
            scores = np.empty(query.n)
            scores[order] = np.arange(query.n, 0, -1)
            found.append(scores)
        return np.concatenate(found)

    def values(self, scores: np.ndarray, measures: Mapping[str, MeasureLike]) -> dict[str, np.ndarray]:
        diverse = [name for name, measure in measures.items() if is_diversity_measure(measure)]
        graded = {name: measure for name, measure in measures.items() if name not in diverse}
        found = super().values(scores, graded) if graded else {}
        if diverse:
            topics = self.data.topics
            parts = np.split(-scores, np.cumsum([query.n for query in topics])[:-1])
            orders = [np.argsort(part, kind="stable") for part in parts]  # equal scores as they came
            table = np.array([order_values(query, order, diverse) for query, order in zip(topics, orders)], float)
            found |= dict(zip(diverse, table.T))
        return {name: found[name] for name in measures}

    def fingerprint(self) -> bytes:
        """A hash of all that is known of the topics beside that of their rows; of computed distances, of some rows."""
        whole, topics = hashlib.blake2b(super().fingerprint(), digest_size=16), self.data.topics
        whole.update(repr((self.data.top, topics[0].relations is None)).encode())
        for query in topics:
            whole.update("\n".join([*map(str, query.docids), *query.rest]).encode())
            arrays = [query.relevance, query.aspects, query.aspect_weights, query.judgments]
            if query.vectors is not None:
                arrays.append(query.vectors)
            if query.words is not None:
                arrays += [query.words.data, query.words.indices, query.words.indptr]
            if query.relations is not None and query.n:
                arrays.append(query.relations.rows(np.unique(np.linspace(0, query.n - 1, SEEN_ROWS).astype(int))))
            if query.judged is not None:
                whole.update("\n".join(query.judged.docids).encode())
                arrays.append(query.judged.judgments)
            for array in arrays:
                whole.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        return whole.digest()


class OfLists(OfRows):
    """Lists over all items: measures judge where the items of a user are in the list that a recommender makes.

    A row's score is its place in its user's list, counted down from -1.
    """

    data: ListRows
    usual = "list_ndcg@10"

    def more_measures(self, measure: MeasureLike) -> list[str]:
        return [f"list_{kind}@10" for kind in ("ndcg", "recall", "precision", "hit_rate", "mrr")]

    def prepared(self, measure: MeasureLike, top_grade: float) -> MeasureLike:
        found = parse_list_measure(measure) if isinstance(measure, str) else None
        if found is None:
            raise ValueError(
                f"{measure_name(measure)} judges the order of rated items, and these folds are for lists over all "
                "items: use list_ndcg@10, list_recall@10 and the like, or rating_folds"
            )
        if found[1] > LONGEST:
            raise ValueError(f"{measure}: lists have at most {LONGEST} items here")
        return measure

    @property
    def ratings(self) -> tuple[Matrix, PerRow, PerRow, PerRow]:
        return self.data.catalogue, self.data.qid, self.data.items, self.data.y

    @property
    def _user_of_row(self) -> np.ndarray:
        return self.data.blocks.scatter(self.data.blocks.numbers)

    def scores(self, ranker: Ranker) -> np.ndarray:
        """A score for every row: -1 for the first item of its user's list, -2 for the second, …, and the same for all
        that are not in it."""
        data, n_items = self.data, self.data.catalogue.shape[0]
        users, every = data.blocks.ids, np.arange(n_items) if data.offered is None else data.offered
        top, X = min(LONGEST, len(every)), data.catalogue[every]
        place_of = np.full(n_items, -1, np.int64)
        place_of[every] = np.arange(len(every))
        seen = data.seen
        if seen is not None:
            here = place_of[seen[1]] >= 0
            seen = seen[0][here], place_of[seen[1][here]]
        if isinstance(ranker, Recommends):
            lists, _ = ranker.top_k(users, X, top, exclude=seen)
        else:  # a ranker of rows has one function for all users
            same = np.zeros(X.shape[0], np.int64)
            of_all = np.asarray(predict_rows(ranker, RankingData(X, same, same)), np.float64)
            lists, _ = same_lists(of_all, users, top, seen)
        wanted = place_of[data.items]
        hit = np.asarray(lists)[self._user_of_row] == wanted[:, None]
        return np.where(hit.any(axis=1) & (wanted >= 0), -1.0 - hit.argmax(axis=1), -1.0 - max(len(every), LONGEST))

    def values(self, scores: np.ndarray, measures: Mapping[str, MeasureLike]) -> dict[str, np.ndarray]:
        """Measures of every user's list, NaN for users without a relevant item."""
        good, n_users = self.data.y >= self.data.relevant, self.data.n_queries
        user, place = self._user_of_row[good], -scores[good].astype(np.int64) - 1
        count = np.bincount(user, minlength=n_users)
        some = np.flatnonzero(count)
        hit = np.zeros((n_users, LONGEST), bool)
        inside = place < LONGEST
        hit[user[inside], place[inside]] = True
        found = {}
        for measure in measures:
            name, top = parse_list_measure(measure) or ("", 0)
            found[measure] = np.full(n_users, np.nan)
            found[measure][some] = list_values(hit[some, :top], count[some], top)[name]
        return found

    def fingerprint(self) -> bytes:
        """A hash of the catalogue and of what is relevant beside that of the rows."""
        whole = hashlib.blake2b(super().fingerprint(), digest_size=16)
        whole.update(repr((self.data.relevant, self.data.catalogue.shape)).encode())
        whole.update(np.asarray(self.data.items, np.int64).tobytes())
        return whole.digest()


def kind_of(data: RankingData) -> OfRows:
    """The kind of comparison that a part of a fold is for."""
    if isinstance(data, ListRows):
        return OfLists(data)
    return OfTopics(data) if isinstance(data, TopicRows) else OfRows(data)


def default_measures(measure: str) -> list[str]:
    """Measures on test in addition to the one that chooses: NDCG and precision at 1 ... 10, MAP and mean NDCG.

    All are under the choosing measure's preset and those of its options that they have.

    >>> default_measures("ndcg@10:letor4:gain=linear")[-2:]
    ['map:letor4', 'mean_ndcg:letor4:gain=linear']
    """
    settings = [setting.strip() for setting in measure.split(":")[1:]]

    def tail(kind: str) -> str:
        known = (s for s in settings if "=" not in s or s.partition("=")[0].strip().lower() in MEASURES[kind].options)
        return "".join(f":{setting}" for setting in known)

    ranks = [f"{kind}@{k}{tail(kind)}" for kind in ("ndcg", "p") for k in range(1, 11)]
    return [*ranks, *(f"{kind}{tail(kind)}" for kind in ("map", "mean_ndcg"))]
