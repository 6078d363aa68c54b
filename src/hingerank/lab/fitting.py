"""Fit a method to the rows, lists or topics of a fold, score another part of it, and measure the scores."""

import inspect
from collections.abc import Iterable, Sequence

import numpy as np

from hingerank.arrays import Ranker
from hingerank.data.ranking_data import RankingData
from hingerank.lab import list_rows
from hingerank.lab.list_rows import ListRows, Recommender, check_list_measures
from hingerank.lab.topics import MEASURE, MEASURES, Reranker, TopicRows, check_depth, is_diversity_measure
from hingerank.metrics import evaluate, parse_measure
from hingerank.metrics.measure import MEASURES as KINDS
from hingerank.metrics.own import MeasureLike, measure_name
from hingerank.personal.top_n import parse_list_measure

NEEDS = "a method needs fit(X, y, qid=…) and predict(X), or for topics fit(queries) and rerank(query, top)"


def learn(ranker: Ranker, train: RankingData) -> None:
    """Fit a ranker to rows, a recommender to ratings, or a reranker to topics."""
    if isinstance(train, ListRows) and isinstance(ranker, Recommender):
        ranker.fit_ratings(train.catalogue, train.qid, train.items, train.y)
    elif not isinstance(ranker, Reranker):
        ranker.fit(train.X, train.y, qid=train.qid)
    elif isinstance(train, TopicRows):
        ranker.fit(train.topics)
    else:
        raise ValueError(f"{type(ranker).__name__} reorders the documents of topics: give DiverseData, not rows")


def score_rows(ranker: Ranker, data: RankingData) -> np.ndarray:
    """A score for every row; a reranker's, and those of lists, fall along the list."""
    if isinstance(data, ListRows):
        return data.placed(ranker)
    if isinstance(ranker, Reranker) and isinstance(data, TopicRows):
        return data.reranked(ranker)
    asks_qid = "qid" in inspect.signature(ranker.predict).parameters
    scores = np.asarray(ranker.predict(data.X, qid=data.qid) if asks_qid else ranker.predict(data.X), float)
    if scores.shape != (data.n_rows,):
        raise ValueError(f"predict returned an array of shape {scores.shape} for {data.n_rows} rows")
    if not np.isfinite(scores).all():
        raise ValueError(f"predict returned {scores[~np.isfinite(scores)][0]} as a score")
    return scores


def query_values(data: RankingData, scores: np.ndarray, measures: Sequence[MeasureLike]) -> dict[str, np.ndarray]:
    """Every measure of every query, NaN where one is not defined for it: of grades, of subtopics, or your own."""
    if isinstance(data, ListRows):
        return data.values(scores, measures)
    diverse = [str(measure) for measure in measures if isinstance(data, TopicRows) and is_diversity_measure(measure)]
    found = data.values(scores, diverse) if isinstance(data, TopicRows) and diverse else {}
    graded = [measure for measure in measures if measure not in diverse]
    if graded:
        found |= evaluate(data.y, scores, data.qid, graded, per_query=True, docid=data.docid)
    return {measure_name(measure): np.asarray(found[measure_name(measure)], float) for measure in measures}


def check_measures(measures: Iterable[MeasureLike], data: RankingData) -> list[MeasureLike]:
    """The measures, each once; an unknown one is an error now, not in every fit."""
    found: dict[str, MeasureLike] = {}
    for measure in measures:
        name = measure_name(measure)
        if found.setdefault(name, measure) is not measure and found[name] != measure:
            raise ValueError(f"two measures are called {name!r}: rename one")
        if isinstance(data, ListRows):
            check_list_measures([measure])
        elif isinstance(measure, str) and parse_list_measure(measure) is not None:
            raise ValueError(
                f"{measure} judges lists over all items, which are made of ratings: give folds of list_folds"
            )
        elif not callable(measure) and not (isinstance(data, TopicRows) and is_diversity_measure(measure)):
            parse_measure(measure)
    if isinstance(data, TopicRows):
        check_depth(found.values(), data.top)
    return list(found.values())


def usual_measure(data: RankingData) -> str:
    """The default measure that chooses settings."""
    if isinstance(data, ListRows):
        return list_rows.MEASURE
    return MEASURE if isinstance(data, TopicRows) else "ndcg@10"


def usual_measures(measure: MeasureLike, data: RankingData) -> list[str]:
    """Measures on test in addition to the one that chooses."""
    if isinstance(data, ListRows | TopicRows):
        return list(list_rows.MEASURES if isinstance(data, ListRows) else MEASURES)
    return default_measures(measure if isinstance(measure, str) else usual_measure(data))


def default_measures(measure: str) -> list[str]:
    """Measures on test in addition to the one that chooses: NDCG and precision at 1 ... 10, MAP and mean NDCG.

    All are under the choosing measure's preset and those of its options that they have.

    >>> default_measures("ndcg@10:letor4:gain=linear")[-2:]
    ['map:letor4', 'mean_ndcg:letor4:gain=linear']
    """
    settings = [setting.strip() for setting in measure.split(":")[1:]]

    def tail(kind: str) -> str:
        known = (s for s in settings if "=" not in s or s.partition("=")[0].strip().lower() in KINDS[kind].options)
        return "".join(f":{setting}" for setting in known)

    ranks = [f"{kind}@{k}{tail(kind)}" for kind in ("ndcg", "p") for k in range(1, 11)]
    return [*ranks, *(f"{kind}{tail(kind)}" for kind in ("map", "mean_ndcg"))]
