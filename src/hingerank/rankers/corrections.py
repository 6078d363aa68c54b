"""Weights of rows from clicks: estimates of each row's relevance, corrected for the bias of its position.

A cell is a row at a place (position): n showings, c clicks. Under P(click) = α_k r + β_k, with α the propensity of the
place and β the rate of clicks from trust in it, every correction estimates r, the relevance of a row, times the number
of lists.
"""

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from scipy import sparse

from hingerank.arrays import ArrayLike, Matrix
from hingerank.data.blocks import places_of, real_numbers
from hingerank.data.checks import one_of, real, warn
from hingerank.data.files import DataError
from hingerank.data.missing import MissingValues
from hingerank.data.ranking_data import RankingData
from hingerank.rankers.sources import RowsInParts

CORRECTIONS = ("ips", "clipped", "affine", "doubly-robust", "naive")
FOLDS = 5  # of queries: relevance in each is regressed on features of the others
MOST_FEATURES, BLOCK = 2000, 1 << 22  # columns of the regression, and numbers of rows that are looked at together
RIDGES = tuple(10.0**k for k in range(-4, 3))  # penalties to choose from, relative to the rows' weight


@dataclass(frozen=True, eq=False)
class ClickData:
    """Rows to rank, and how often each was shown and clicked at each place.

    Parameters
    ----------
    data : RankingData
        A row per candidate; its grades play no part.
    row : int array
        The row of each cell.
    place : int array
        From 1.
    showings, clicks : float arrays
    propensity : float array or None
        Where the log has propensities: that of the cell.
    context : int array or None
        Where the log has contexts: the cell's, into `context_names`.
    lists : float array
        How often a list was shown for each query, in the order of ``data.blocks.ids``.
    dropped : mapping
        What found no partner: text -> count.
    notes : mapping
        What the reader of the log noted, and `dropped`.
    parts : rows in parts, or None
        Where the features are, if not in this process; those of `data` are then 0.
    """

    data: RankingData
    row: np.ndarray
    place: np.ndarray
    showings: np.ndarray
    clicks: np.ndarray
    propensity: np.ndarray | None
    context: np.ndarray | None
    lists: np.ndarray
    context_names: np.ndarray | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    parts: RowsInParts | None = None

    @property
    def X(self) -> Matrix:
        return self.data.X

    @property
    def qid(self) -> np.ndarray:
        return self.data.qid

    @property
    def docid(self) -> np.ndarray | None:
        return self.data.docid

    @property
    def feature_names(self) -> Sequence[str] | None:
        return self.data.feature_names

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        counts = {
            "query": self.data.n_queries, "row": self.data.n_rows, "cell": len(self),
            "showing": float(self.showings.sum()), "click": float(self.clicks.sum()),
        }  # fmt: skip
        return f"ClickData({', '.join(count_of(number, noun) for noun, number in counts.items())})"

    def subset(self, queries: Iterable[Hashable]) -> "ClickData":
        """The rows and cells of some queries (a list of their ids)."""
        refuse_parts(self, "a part of the queries is taken")
        part, blocks = self.data.subset(queries), self.data.blocks
        numbers = places_of(part.blocks.ids.tolist(), blocks.ids.tolist())
        kept = blocks.scatter(np.isin(blocks.numbers, numbers))
        cells = kept[self.row]
        new_row = np.cumsum(kept) - 1
        return replace(
            self, data=part, row=new_row[self.row[cells]], place=self.place[cells], showings=self.showings[cells],
            clicks=self.clicks[cells], propensity=None if self.propensity is None else self.propensity[cells],
            context=None if self.context is None else self.context[cells], lists=self.lists[numbers],
        )  # fmt: skip


def count_of(number: float, noun: str) -> str:
    """
    >>> count_of(1, "query"), count_of(2, "query"), count_of(3.5, "click")
    ('1 query', '2 queries', '3.5 clicks')
    """
    text = f"{number:,.0f}" if number % 1 == 0 else f"{number:,g}"
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{text} {noun if number == 1 else plural}"


@runtime_checkable
class PlaceBias(Protocol):
    """What is known of places, or of contexts × places: `hingerank.propensities`."""

    @property
    def context_names(self) -> np.ndarray | None: ...
    @property
    def reasons(self) -> Mapping[str, str]: ...
    @property
    def places(self) -> np.ndarray: ...
    @property
    def alpha(self) -> np.ndarray: ...
    @property
    def beta(self) -> np.ndarray: ...


Propensities: TypeAlias = PlaceBias | Mapping[int, float] | ArrayLike | None  # estimated, by place, or those in the log


def bias_of(data: ClickData, propensities: Propensities, wanted_by: str) -> tuple[np.ndarray, np.ndarray]:
    """α and β of every cell: from an estimate, from values by place (the first place first), or as logged."""
    cells = len(data.row)
    if propensities is None:
        if data.propensity is None:
            raise DataError(
                f"{wanted_by} needs propensities, and the log itself has none",
                "give those of hingerank.propensities(log), or numbers, position 1 first",
                "propensities",
            )
        return np.asarray(data.propensity, np.float64), np.zeros(cells)
    if isinstance(propensities, PlaceBias):
        alpha, beta = (_by_cell(data, propensities, values) for values in (propensities.alpha, propensities.beta))
    else:
        alpha, beta = _by_place(data.place, propensities), np.zeros(cells)
    unknown = ~((alpha > 0) & np.isfinite(alpha) & np.isfinite(beta))
    wrong = (data.showings > 0) & unknown
    if wrong.any():
        cell = int(np.argmin(np.where(wrong, data.place, data.place.max() + 1)))
        where, why, example = f"{data.place[cell]}", "", f", as in log.take(log.place < {data.place[cell]})"
        if isinstance(propensities, PlaceBias):
            if propensities.context_names is not None and data.context is not None and data.context_names is not None:
                where, example = f"{where} ({data.context_names[data.context[cell]]})", ""
            why = propensities.reasons.get(where, "")
        raise DataError(
            f"place {where} has no propensity above 0{f' ({why})' if why else ''}, and {int(wrong.sum())} cells were "
            f"shown at such places: leave their showings out{example}, or give propensities"
        )
    return np.where(unknown, 1.0, alpha), np.where(unknown, 0.0, beta)  # of cells with showings of weight 0


def _by_cell(data: ClickData, known: PlaceBias, values: ArrayLike) -> np.ndarray:
    """Values by place, or by context and place, of every cell."""
    table = np.asarray(values, np.float64)
    table = np.concatenate([table, np.full((*table.shape[:-1], 1), np.nan)], axis=-1)
    at = np.minimum(data.place - 1, table.shape[-1] - 1)
    if known.context_names is None:
        return table[at]
    if data.context is None or data.context_names is None:
        raise DataError("the propensities are by place and context, and the clicks were joined without contexts")
    numbers = {str(name): k for k, name in enumerate(known.context_names)}
    code = np.array([numbers.get(str(name), -1) for name in data.context_names])[data.context]
    return np.where(code >= 0, table[np.maximum(code, 0), at], np.nan)


def _by_place(places: np.ndarray, values: Mapping[int, float] | ArrayLike) -> np.ndarray:
    if isinstance(values, Mapping):
        known = {int(place): float(value) for place, value in values.items()}
        return np.array([known.get(place, np.nan) for place in places.tolist()])
    if isinstance(values, str | os.PathLike):
        raise ValueError(f"propensities are a file: give hingerank.propensities(log, 'given', values={str(values)!r})")
    table = real_numbers(values, "propensities")
    if table.ndim != 1:
        raise ValueError("propensities must be numbers by place, that of place 1 first, or a hingerank.propensities")
    return np.append(table, np.nan)[np.minimum(places - 1, len(table))]


def clip_at(data: ClickData, clip: float | None) -> float:
    """τ, the least propensity that counts: as given, or min(10 / √lists, 1)."""
    if clip is None:
        return min(10.0 / np.sqrt(max(float(np.sum(data.lists)), 1.0)), 1.0)
    if not 0 < real(clip) <= 1:
        raise ValueError(f"clip must be a propensity above 0 and at most 1, not {clip!r}")
    return float(clip)


def click_weights(
    data: ClickData, propensities: Propensities = None, correction: str = "ips", clip: float | None = None
) -> np.ndarray:
    """The weight of every row as a winner, from the clicks on it; a DataError where all would be 0.

    - "naive": Σ c, clicks as they are
    - "ips": Σ c / α, unbiased if clicks are α r (Joachims, Swaminathan & Schnabel 2017)
    - "clipped": Σ c / max(α, τ), a little biased, but with less variance
    - "affine": max(0, Σ (c - n β) / α), unbiased if clicks are α r + β (Vardasbi, Oosterhuis & de Rijke 2020)
    - "doubly-robust": lists · max(0, R + Σ (c - n (β + α R)) / (n_d max(ᾱ_d, τ))), R a regression of relevance on
      features, each query's from the other queries (Oosterhuis 2023); rows that were never shown have lists · R

    All but "doubly-robust" add up clicks: a row that half of its query's lists showed weighs half of what it would if
    all had.

    Parameters
    ----------
    data : ClickData
        ``log.join(rows)``.
    propensities : hingerank.propensities, numbers by place (place 1 first), a mapping, or None for the logged ones
    correction : str
    clip : float, optional
        τ of "clipped" and "doubly-robust"; ``min(10 / √lists, 1)`` if not given.

    Examples
    --------
    >>> from hingerank import ClickLog, RankingData
    >>> rows = RankingData.from_arrays([[1.0], [2.0]], [0, 0], ["q", "q"], docid=["a", "b"])
    >>> log = ClickLog(queries=["q"] * 3, documents=["a", "b", "b"], places=[1, 2, 2], clicks=[1, 1, 1])
    >>> click_weights(log.join(rows), propensities=[1.0, 0.5]).tolist()
    [1.0, 4.0]
    """
    one_of("correction", correction, *CORRECTIONS)
    if clip is not None and correction not in ("clipped", "doubly-robust"):
        clipping = "correction='clipped' or correction='doubly-robust'"
        raise ValueError(f"clip={clip!r} is for {clipping}, not for correction={correction!r}")
    if not isinstance(data, ClickData):
        raise ValueError(f"expected clicks joined with features (log.join(data)), got {type(data).__name__}")
    weight = _weights(data, propensities, correction, clip)
    if not weight.any():
        raise DataError(f"there are no clicks to learn from (correction={correction!r}): every row weighs 0")
    return weight


def _weights(data: ClickData, propensities: Propensities, correction: str, clip: float | None) -> np.ndarray:
    """The same, all 0 or not."""
    row, n, c, rows = data.row, data.showings, data.clicks, data.data.n_rows
    if correction == "naive":
        return np.bincount(row, c, rows)
    alpha, beta = bias_of(data, propensities, f"correction={correction!r}")
    if correction == "doubly-robust":
        lists = data.data.blocks.scatter(np.repeat(np.asarray(data.lists, np.float64), data.data.blocks.sizes))
        return np.asarray(lists * np.maximum(relevance(data, alpha, beta, clip_at(data, clip)), 0.0))
    if correction == "affine":
        return np.maximum(np.bincount(row, (c - n * beta) / alpha, rows), 0.0)
    if beta.any():
        warn(f"correction={correction!r} takes clicks from trust in a place for relevance: use 'affine'")
    if correction == "clipped":
        alpha = np.maximum(alpha, clip_at(data, clip))
    return np.bincount(row, c / alpha, rows)


def refuse_parts(data: ClickData, where: str) -> None:
    """A ValueError for clicks on rows in parts, whose features are not in this process."""
    if data.parts is not None:
        raise ValueError(
            f"the clicks are joined with rows in parts, whose features are not in this process, and {where}: read the "
            "rows into memory for this; fit_clicks with other corrections and evaluate_clicks take rows in parts"
        )


def relevance(data: ClickData, alpha: np.ndarray, beta: np.ndarray, clip: float) -> np.ndarray:
    """The doubly robust estimate of every row's relevance: a regression, corrected by its residuals on clicks."""
    guess, each, expected = doubly_robust(data, alpha, beta, clip)
    return np.asarray(guess + np.bincount(data.row, each * (data.clicks - expected), len(guess)))


def doubly_robust(
    data: ClickData, alpha: np.ndarray, beta: np.ndarray, clip: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The regressed relevance of every row, and by cell what a click adds to it and the clicks that it expects."""
    guess = regressed_relevance(data, alpha, beta)
    row, n, rows = data.row, data.showings, len(guess)
    shares = np.maximum(np.bincount(row, n * alpha, rows), clip * np.bincount(row, n, rows))  # n_d max(ᾱ_d, τ)
    each = np.divide(1.0, shares, out=np.zeros(rows), where=shares > 0)
    return guess, each[row], n * (beta + alpha * guess[row])


def regressed_relevance(data: ClickData, alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """R = x·b + b₀ that minimises Σ over cells n (c/n - β - α R)² / v, with a ridge, every query's from other queries.

    v = α r + β, r the mean relevance, is about the variance of a click: clicks are rare at low places and vary little
    there. Without v the first places alone would count, whose documents are better than those below them. By rows it is
    Σ ω (t - R)² with ω = Σ n α² / v, t = Σ α (c - n β) / (v ω). The ridge is that of the least squared error on queries
    left out. Values below 0 count as 0. A missing feature counts as the median of its column.
    """
    rows, n_queries = data.data, data.data.n_queries
    refuse_parts(data, "relevance is regressed on features (doubly robust; use clipped or ips)")
    if n_queries < 2:
        raise DataError('correction="doubly-robust" regresses relevance on other queries, and there is one query only')
    if rows.n_features > MOST_FEATURES:
        raise DataError(
            f'correction="doubly-robust" regresses relevance on up to {MOST_FEATURES:,} features, and the rows have '
            f'{rows.n_features:,}: use "clipped" or "ips"'
        )
    n, c = data.showings, data.clicks
    mean = max(float((c - n * beta).sum()) / max(float((n * alpha).sum()), 1e-12), 1e-3)
    sure = alpha / (alpha * mean + beta)
    weight = np.bincount(data.row, n * alpha * sure, rows.n_rows)
    moment = np.bincount(data.row, sure * (c - n * beta), rows.n_rows)
    target = np.divide(moment, weight, out=np.zeros_like(moment), where=weight > 0)
    query = rows.blocks.scatter(rows.blocks.numbers)
    fold = np.random.default_rng(0).permutation(n_queries)[query] % min(FOLDS, n_queries)
    total = (rows.X.data if sparse.issparse(rows.X) else rows.X).sum(dtype=np.float64)
    fill = MissingValues.learn("median", rows.X) if np.isnan(total) else None

    def features(which: np.ndarray) -> Matrix:
        return rows.X[which] if fill is None else fill.filled(rows.X[which])

    weights = (np.where(fold == k, 0.0, weight) for k in range(int(fold.max()) + 1))
    regressions = [_Ridge(features, rows.n_features, target, of_others) for of_others in weights]

    def held_out(ridge: float) -> np.ndarray:
        out = np.empty(len(fold))
        for k, regression in enumerate(regressions):
            mine = np.flatnonzero(fold == k)
            out[mine] = regression.predict(mine, ridge)
        return out

    best = min(RIDGES, key=lambda ridge: float(weight @ (target - held_out(ridge)) ** 2))
    return np.maximum(held_out(best), 0.0)


Features = Callable[[np.ndarray], Matrix]  # of some rows


class _Ridge:
    """Weighted ridge regression of standardised columns, for many penalties: one decomposition."""

    def __init__(self, features: Features, width: int, target: np.ndarray, weight: np.ndarray):
        self.features, self.mass = features, float(weight.sum())
        if self.mass == 0:
            self.mean, self.centre = 0.0, None
            return
        self.mean = float(weight @ target) / self.mass
        self.centre, gram, product = _moments(features, width, weight / self.mass, target - self.mean)
        self.width = np.sqrt(np.maximum(np.diag(gram), 0.0))
        self.width[self.width == 0] = 1.0
        values, self.vectors = np.linalg.eigh(gram / np.outer(self.width, self.width))
        self.values, self.product = np.maximum(values, 0.0), self.vectors.T @ (product / self.width)

    def predict(self, rows: np.ndarray, ridge: float) -> np.ndarray:
        if self.centre is None:
            return np.full(len(rows), self.mean)
        b = self.vectors @ (self.product / (self.values + ridge)) / self.width
        return np.asarray(self.features(rows) @ b) - float(self.centre @ b) + self.mean


def _moments(
    features: Features, d: int, weight: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of rows whose weights add up to 1: the mean, the covariance, and Σ weight · target · (x - mean); by blocks."""
    used = np.flatnonzero(weight)
    mean, gram, product = np.zeros(d), np.zeros((d, d)), np.zeros(d)
    height = max(1, BLOCK // d)
    for a in range(0, len(used), height):
        rows = used[a : a + height]
        block = features(rows)
        dense = np.asarray(block.toarray() if sparse.issparse(block) else block, np.float64)
        w = weight[rows]
        mean += w @ dense
        gram += (w[:, None] * dense).T @ dense
        product += (w * target[rows]) @ dense
    return mean, gram - np.outer(mean, mean), product - mean * float(weight @ target)
