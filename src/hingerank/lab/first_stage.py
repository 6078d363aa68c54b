"""A first stage for rerankers: a ranker of rows whose scores become the relevance that MMR and the like start from."""

import warnings
from collections.abc import Iterable

import numpy as np

from hingerank.arrays import Ranker
from hingerank.data.checks import WeakFitWarning
from hingerank.data.ranking_data import RankingData
from hingerank.lab.comparison import compare
from hingerank.lab.fitting import learn, score_rows
from hingerank.lab.folds import PARTS, Fold, FoldLike, check_folds
from hingerank.lab.methods import Method
from hingerank.lab.topics import MEASURE, TopicRows, topic_rows, with_scores
from hingerank.metrics.own import MeasureLike


def scored_folds(
    folds: Iterable[FoldLike], method: Method, measure: MeasureLike = MEASURE, *, seed: int = 0, workers: int | None = 1
) -> list[Fold]:
    """Folds of topics with a ranker's scores as relevance (see ``hingerank.lab.topics.with_scores``).

    The ranker learns the number of subtopics that a document serves. Its setting is chosen on a fold's validation
    topics and it is fitted to the fold's training topics, so it has not seen the test topics that it scores.

    Parameters
    ----------
    folds : as `compare` takes them, of topics
    method : a ranker of rows, such as ListMLE, with the settings to try
    measure : chooses its setting
    seed, workers : as in `compare`

    Examples
    --------
    >>> import hingerank as hr
    >>> from hingerank.lab import Method, query_folds
    >>> folds = query_folds(hr.make_diverse(6, 15, seed=1), k=3)
    >>> scored = scored_folds(folds, Method("ListMLE", hr.ListMLE, {"C": [0.1, 1.0]}))
    >>> folds[0].part("test").n_features, scored[0].part("test").n_features
    (10, 11)
    """
    named = check_folds(folds)
    results = compare([method], named, measure, [measure], seed=seed, workers=workers)
    found = []
    for fold in named:
        record = results.test(method.name, fold.name)
        if record is None:
            raise ValueError(f"the first stage {method.name} failed in {fold.name}: {results.failures()[0]['error']}")
        ranker = method.make(record["setting"], seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakFitWarning)  # the validation has chosen
            learn(ranker, fold.part("train"))
        parts = {name: _scored(fold.part(name), ranker) for name in PARTS}
        found.append(Fold(fold.name, **parts, shared_queries=fold.shared_queries))
    return found


def _scored(data: RankingData, ranker: Ranker) -> TopicRows:
    if not isinstance(data, TopicRows):
        raise ValueError("a first stage is for topics: give folds of DiverseData")
    # one topic at a time: the last digits of products of matrices depend on the rows beside a row
    alone = (topic_rows([topic], data.top) for topic in data.topics)
    return with_scores(data, np.concatenate([score_rows(ranker, topic) for topic in alone]))
