"""Rankings to show to users or to judge by clicks: a fitted ranker, or a score for each row; one of them or several."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData


@runtime_checkable
class Predictor(Protocol):
    """What scores rows: a fitted ranker."""

    def predict(self, X: RankingData, /) -> ArrayLike: ...


Ranking: TypeAlias = Predictor | ArrayLike  # a fitted ranker, or a score for each row
Rankings: TypeAlias = Ranking | Sequence[Ranking] | Mapping[str, Ranking]


def are_several(rankings: Rankings, n_rows: int) -> bool:
    """Whether these are several rankings: a mapping, or a list that is not itself a score for each row."""
    if isinstance(rankings, list | tuple):
        return not (len(rankings) == n_rows and n_rows > 0 and np.ndim(rankings[0]) == 0)
    return isinstance(rankings, Mapping)


def named_rankings(rankings: Rankings, n_rows: int) -> dict[str, Ranking]:
    """The rankings by name: as given, or by the rankers' classes, with numbers where two have the same."""
    if isinstance(rankings, Mapping):
        found = {str(name): each for name, each in rankings.items()}
    else:
        several = cast(Sequence[Ranking], rankings if are_several(rankings, n_rows) else [rankings])
        names = [type(each).__name__ if isinstance(each, Predictor) else "ranking" for each in several]
        found = {n if names.count(n) == 1 else f"{n} {k}": each for k, (n, each) in enumerate(zip(names, several), 1)}
    if not found:
        raise DataError("there is no ranker: give a fitted one, a score for each row, or several of these")
    return found


def scores_of(ranking: Ranking, data: RankingData, name: str = "ranking") -> np.ndarray:
    """One finite score for each row; a DataError names a ranking without them."""
    scores = np.asarray(ranking.predict(data) if isinstance(ranking, Predictor) else ranking, np.float64)
    if scores.shape != (data.n_rows,) or not np.isfinite(scores).all():
        raise DataError(
            f"{name}: expected a finite score for each of the {data.n_rows} rows, got an array of shape {scores.shape}"
            + (" with numbers that are not finite" if scores.shape == (data.n_rows,) else "")
        )
    return scores
