"""What each feature contributed to a score, and why one row ranks above another.

    score(x) = base + sum over features of contribution_j(x) + rest

Linear, sparse and boosted rankers are sums over features: base and rest are 0. Trees are explained along their paths.
Any other ranker is explained by its gradient on the straight line from the mean row of the query to x, in STEPS
segments. In each segment the contribution of feature j is the change of the score as x_j moves through it, with the
other features in its middle. That is exact for sums of functions of single features; otherwise a rest remains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import ArrayLike, Facts, Matrix, PerRow, RowsLike
from hingerank.data.blocks import QueryBlocks, blocks_from_qid, single_id
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView
from hingerank.notebook import html_table
from hingerank.rankers.inputs import PreparedRows, check_features, grades_and_ids, names_of_features

STEPS = 8
ROWS_AT_ONCE = 1 << 14
SUMS = "exact: the score is a sum over features"
PATHS = "exact: SHAP values along the paths of the trees"
GRADIENT = (
    "approximate: by the gradient of the score from the query's mean row; the rest is the joint effect of features"
)


class Contributions(NamedTuple):
    """Contributions of every row and feature, every row's base, how they were computed, and whether no rest remains."""

    parts: np.ndarray
    base: np.ndarray
    how: str
    exact: bool


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each feature contributed to the scores of some rows.

    Attributes
    ----------
    names : of the features
    values : the rows, as they were given
    contributions : of every row and feature
    base : of every row, the score that explaining starts from
    scores : of every row
    qid : of every row
    documents : of every row its document id, or its number from 1
    how : the method by which contributions were computed
    exact : whether base and contributions add up to the score in every case
    """

    names: Sequence[str]
    values: np.ndarray
    contributions: np.ndarray
    base: np.ndarray
    scores: np.ndarray
    qid: np.ndarray
    documents: np.ndarray
    how: str
    exact: bool

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def rest(self) -> np.ndarray:
        """Each score less base and contributions."""
        return self.scores - self.base - self.contributions.sum(axis=1)

    def query(self, query: object) -> "Explanation":
        """The rows of one query, best first; ids are compared as they are, else as text."""
        mine = np.array([q == query for q in self.qid.tolist()], bool)
        if not mine.any():
            mine = np.array([str(q) == str(query) for q in self.qid.tolist()], bool)
        if not mine.any():
            some = ", ".join(map(str, list(dict.fromkeys(self.qid.tolist()))[:5]))
            raise DataError(f"there is no query {query!r}; the first ones are {some}")
        rows = np.flatnonzero(mine)
        return self.take(rows[np.argsort(-self.scores[rows], kind="stable")])

    def take(self, rows: ArrayLike) -> "Explanation":
        """Some rows, in that order."""
        names = ("values", "contributions", "base", "scores", "qid", "documents")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def renamed(self, documents: ArrayLike) -> "Explanation":
        """The same with other names for the documents."""
        return replace(self, documents=np.asarray(documents))

    def find(self, document: object) -> int:
        """The place of a document."""
        found = [place for place, name in enumerate(self.documents.tolist()) if str(name) == str(document)]
        if len(found) != 1:
            some = ", ".join(map(str, self.documents[:5].tolist()))
            raise DataError(f"{len(found) or 'no'} documents are called {document!r}; the first ones here are {some}")
        return found[0]

    def strongest(self, place: int, top: int | None = 10) -> list[int]:
        """Features that contributed to a row, the strongest first."""
        return _strongest(self.contributions[place], top)

    def table(self, place: int = 0, top: int | None = 10) -> tuple[list[str], list[list[object]]]:
        """Names of columns, and a row per feature: its value and contribution; then the others, base, rest and sum."""
        return ["feature", "value", "contribution"], self._lines([place], "score", top)

    def pair(self, first: object, second: object, top: int | None = 10) -> tuple[list[str], list[list[object]]]:
        """Why one document ranks above another: a row per feature, the difference of its contributions to the two."""
        lines = self._lines([self.find(first), self.find(second)], "difference of scores", top)
        return ["feature", f"of {first}", f"of {second}", f"for {first}"], lines

    def _lines(self, places: list[int], total: str, top: int | None) -> list[list[object]]:
        """For the strongest features their values in a row, or in two, and their part in the score, or in the
        difference of scores; then the others' part, base, rest and sum."""

        def own(each: np.ndarray) -> Any:
            return each[places[0]] if len(places) == 1 else each[places[0]] - each[places[1]]

        parts, blank = own(self.contributions), [""] * len(places)
        kept = _strongest(parts, top)
        lines: list[list[object]] = [
            [self.names[j], *(float(self.values[place, j]) for place in places), float(parts[j])] for j in kept
        ]
        others = np.count_nonzero(parts) - len(kept)
        if others:
            lines.append(
                ["1 other" if others == 1 else f"{others} others", *blank, float(parts.sum() - parts[kept].sum())]
            )
        small = 1e-6 * max(1.0, float(np.abs(self.scores).max()))
        ends = ("base", own(self.base)), ("together (the rest)", own(self.rest))
        lines += [[name, *blank, float(value)] for name, value in ends if abs(value) > small]
        return [*lines, [total, *blank, float(own(self.scores))]]

    def pair_dict(self, first: object, second: object) -> Facts:
        """The same as plain values, all features."""
        a, b = self.find(first), self.find(second)
        apart = self.contributions[a] - self.contributions[b]
        return {
            "first": str(first),
            "second": str(second),
            "difference": float(self.scores[a] - self.scores[b]),
            "rest": float(self.rest[a] - self.rest[b] + self.base[a] - self.base[b]),
            "contributions": {str(self.names[j]): float(apart[j]) for j in _strongest(apart, None)},
        }

    def to_dict(self, top: int | None = None) -> Facts:
        """Plain values: of each row its document, score, base, rest and contributions by name, the strongest first."""
        rows = [
            {
                "qid": self.qid[i].item() if isinstance(self.qid[i], np.generic) else self.qid[i],
                "document": str(self.documents[i]),
                "score": float(self.scores[i]),
                "base": float(self.base[i]),
                "rest": float(self.rest[i]),
                "contributions": {str(self.names[j]): float(self.contributions[i, j]) for j in self.strongest(i, top)},
            }
            for i in range(len(self))
        ]
        return {"how": self.how, "exact": self.exact, "rows": rows}

    def _repr_html_(self) -> str:
        shown = self if len(self) <= 5 else self.take(np.argsort(-self.scores, kind="stable")[:5])
        tables = [
            html_table(f"query {shown.qid[i]}, document {shown.documents[i]}", *shown.table(i, 8))
            for i in range(len(shown))
        ]
        return f"<p>{self.how}</p>" + "".join(tables)


def _strongest(parts: np.ndarray, top: int | None) -> list[int]:
    """The features with the largest parts, none of them 0."""
    return [int(j) for j in np.argsort(-np.abs(parts), kind="stable")[:top] if parts[j] != 0]


def along_a_line(scores: Callable[[np.ndarray], np.ndarray], X: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Contributions of each row's features to scores(x) − scores(start), by differences on the line between them.

    >>> along_a_line(lambda X: X[:, 0] ** 2 + X[:, 1], np.array([[3.0, 1.0]]), np.zeros((1, 2))).tolist()
    [[9.0, 1.0]]
    """
    parts = np.zeros(X.shape)
    for i in range(len(X)):
        apart = X[i] - start[i]
        moving = np.flatnonzero(apart)
        if not len(moving):
            continue
        half = apart[moving] / (2 * STEPS)
        for step in range(STEPS):
            middle = start[i] + apart * ((step + 0.5) / STEPS)
            for chunk in np.array_split(np.arange(len(moving)), max(1, 2 * len(moving) // ROWS_AT_ONCE)):
                both = np.repeat(middle[None], 2 * len(chunk), axis=0)
                columns, n = moving[chunk], len(chunk)
                both[np.arange(n), columns] += half[chunk]
                both[n + np.arange(n), columns] -= half[chunk]
                found = scores(both)
                parts[i, columns] += found[:n] - found[n:]
    return parts


class Explained(PreparedRows):
    """`explain` for every ranker; one that has an exact method overrides `_contributions`."""

    _scores: Callable[[Matrix], np.ndarray]

    def explain(self, X: RowsLike, qid: PerRow = None) -> Explanation:
        """What each feature contributed to the score of every row.

        Exact for linear, sparse and boosted rankers and for trees; gradient-based for others. `Explanation.how` states
        which method was used.

        Parameters
        ----------
        X : rows as in fit
        qid : a query id per row; None if all rows belong to one query
        """
        check_is_fitted(self)
        documents = X.docid if isinstance(X, RankingData) else None
        _, qid = grades_and_ids(X, None, qid)
        checked = check_features(self, X, reset=False)
        checked = checked.copied("explain") if isinstance(checked, RowsView) else checked
        n_rows = checked.shape[0]
        ids = np.full(n_rows, single_id(qid)) if qid is None or np.ndim(qid) == 0 else qid
        found, scores = self._explained(checked, np.asarray(ids))
        values = checked.toarray() if sparse.issparse(checked) else checked
        documents = np.arange(1, n_rows + 1) if documents is None else np.asarray(documents)
        names = names_of_features(self, self.n_features_in_)
        return Explanation(
            names, values, found.parts, found.base, scores, np.asarray(ids), documents, found.how, found.exact
        )

    def _explained(self, X: Matrix, qid: np.ndarray) -> tuple[Contributions, np.ndarray]:
        """What the features of checked rows contributed to their scores, and the scores."""
        scaled, d = self._scaled(X, qid), X.shape[1]
        found, scores = self._contributions(scaled, blocks_from_qid(qid, X.shape[0])), self._scores(scaled)
        parts, missing = found.parts, self.missing_
        columns = d if missing is None else missing.width
        if parts.shape[1] > columns:  # columns of a context belong to their features
            parts = parts[:, :columns] + parts[:, columns:]
        if missing is not None:  # and so do marks of missing values
            parts, marks = np.split(parts, [d], axis=1)
            parts[:, missing.marked] += marks
        return found._replace(parts=parts), np.asarray(scores, np.float64)

    def _contributions(self, X: Matrix, blocks: QueryBlocks) -> Contributions:
        """What the features of checked, scaled rows contributed to their scores."""
        rows = (X.toarray() if sparse.issparse(X) else X).astype(np.float64)
        gathered = blocks.gather(rows)
        means = np.add.reduceat(gathered, blocks.offsets[:-1], axis=0) / blocks.sizes[:, None]
        start = blocks.scatter(means[blocks.numbers])
        parts = along_a_line(lambda Z: np.asarray(self._scores(Z), np.float64), rows, start)
        base = blocks.scatter(np.asarray(self._scores(means), np.float64)[blocks.numbers])
        return Contributions(parts, base, GRADIENT, False)
