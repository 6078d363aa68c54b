"""evaluate: values of measures per query, and their means."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hingerank.arrays import ArrayLike, Facts
from hingerank.data.blocks import QueryBlocks, blocks_from_group, blocks_from_qid, real_numbers
from hingerank.data.checks import GIVE_IDS, warn_one_query
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.metrics.kinds import RankedLists
from hingerank.metrics.measure import MEASURES, Measure, OwnMeasure, measure_name, parse_measure, preset_name, several

HIGHEST_EXPONENT = 1000.0  # up to here 2^grade and sums of it stay finite
LARGEST = 1e150  # values up to here can be squared and added up, as standard errors and tests do


def evaluate(
    y: ArrayLike | RankingData,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    measures: str | Measure | OwnMeasure | Sequence[str | Measure | OwnMeasure] = ("ndcg@10", "map"),
    per_query: bool = False,
    sample_weight: ArrayLike | None = None,
    group: ArrayLike | None = None,
    preset: str | None = None,
    docid: ArrayLike | None = None,
) -> Facts:
    """Mean over queries q of ``m_q``, or ``m_q`` itself; with weights ``sum_q w_q m_q / sum_q w_q``.

    Parameters
    ----------
    y : a grade per row, or RankingData
        Higher is better; any real number (grades of 0 and below are not relevant). RankingData already holds the
        queries and document ids.
    scores : a finite number per row
        Higher ranks first. Tied rows count by the expected value over all their orders, unless the preset says
        otherwise.
    qid : a query id per row
        In any order and of any type. A single id makes one query of all rows, and so does None, with a warning.
    measures : a name, or several
        ndcg@10, dcg@5, map, p@5, recall@10, mrr, err@10, mean_ndcg, pair_accuracy, kendall_tau, each optionally
        followed by ":preset" ("ndcg@10:letor4") or ":option=value" ("ndcg@10:ties=stable"). Or a function (y, scores)
        -> number of one query's rows, reported under its name.
    per_query : bool
        Return arrays, queries in order of first appearance, instead of means. A value is nan where a measure is
        undefined (pair_accuracy without a pair; anything with ":empty=skip"); the mean leaves such queries out.
    sample_weight : a weight per query, or per row
        Per query in order of first appearance; row weights must be constant within a query.
    group : rows per query in row order, instead of qid
    preset : for measures that do not name one
        default, letor3, letor4, mslr, trec, sklearn, lightgbm, xgboost, catboost or ranklib.
    docid : a document id per row
        Only ``trec`` uses it, to break ties as trec_eval does.

    Returns
    -------
    dict
        Maps the names, exactly as given, to means or arrays.

    Examples
    --------
    >>> evaluate([0, 1, 2, 1], [0.1, 0.9, 0.4, 0.3], ["a", "a", "b", "b"], ["ndcg@10", "p@1"])
    {'ndcg@10': 1.0, 'p@1': 1.0}
    """
    names, wanted, own = parse_measures(measures, preset)
    if isinstance(y, RankingData):
        if qid is not None or group is not None:
            raise ValueError("the data already contain their queries: leave out qid and group, and pass measures=…")
        qid, docid, y = y.qid, y.docid if docid is None else docid, y.y
    if qid is not None and group is not None:
        raise DataError("give qid (an id per row) or group (rows per query), not both")
    grades = finite_numbers(y, "y")
    given = finite_numbers(scores, "scores", len(grades))
    blocks = blocks_from_qid(qid, len(grades)) if group is None else blocks_from_group(group, len(grades))
    if qid is None and group is None:
        warn_one_query(grades, GIVE_IDS)
    weight = None if sample_weight is None else _query_weight(sample_weight, blocks)
    check_measurable(wanted, grades, lambda row: f"at row {row}")
    values = query_values(wanted, grades, given, blocks, docid)
    values |= {name: own_values(measure, grades, given, blocks) for name, measure in own.items()}
    values = {name: values[name] for name in names}
    return values if per_query else {name: mean_over_queries(value, weight) for name, value in values.items()}


def query_values(
    wanted: Mapping[str, Measure], y: np.ndarray, scores: np.ndarray, blocks: QueryBlocks, docid: ArrayLike | None
) -> dict[str, np.ndarray]:
    """Each measure's value for every query, of rows that were checked."""
    by_docid = None
    if docid is not None and any(measure.conventions.ties == "docid" for measure in wanted.values()):
        names = np.asarray(docid)
        if names.shape != (blocks.n_rows,):
            raise DataError(f"docid has shape {names.shape}, expected one id for each of the {blocks.n_rows} rows")
        text = names if names.dtype.kind == "U" else np.array([str(name) for name in names])
        by_docid = by_falling_docid(blocks.gather(text), blocks.numbers)
    lists = RankedLists(blocks.gather(y), blocks.gather(scores), blocks.offsets, wanted.values(), by_docid)
    return {name: MEASURES[measure.kind].values(lists, measure) for name, measure in wanted.items()}


def parse_measures(measures: Any, preset: str | None) -> tuple[list[str], dict[str, Measure], dict[str, OwnMeasure]]:
    """All names as given, the built-in measures among them, and the user's own functions."""
    names: list[str] = []
    wanted: dict[str, Measure] = {}
    own: dict[str, OwnMeasure] = {}
    for given in several(measures):
        if callable(given):
            names.append(measure_name(given))
            own[names[-1]] = given
        else:
            names.append(str(given))
            wanted[names[-1]] = parse_measure(given)
    if preset is not None:
        preset = preset_name(preset)
        wanted = {name: measure.with_preset(preset) for name, measure in wanted.items()}
    if not names:
        raise ValueError("measures is empty: name at least one, such as 'ndcg@10'")
    if wanted.keys() & own.keys():
        raise ValueError(f"two measures are called {min(wanted.keys() & own.keys())!r}: rename your own")
    return names, wanted, own


def finite_numbers(values: ArrayLike, name: str, n_rows: int | None = None) -> np.ndarray:
    """One finite float64 per row, or a DataError."""
    array = real_numbers(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"{name} has shape {array.shape}, expected one number per row; flatten a queries × items table and pass qid"
        )
    if n_rows is not None and len(array) != n_rows:
        raise DataError(f"y has {n_rows} rows but {name} has {len(array)}: they must describe the same rows")
    if len(array) == 0:
        raise DataError(f"{name} is empty: there is nothing to evaluate")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise DataError(f"{name} is {array[row]} at row {row}: every row needs a finite number")
    return np.ascontiguousarray(array)


def _query_weight(sample_weight: ArrayLike, blocks: QueryBlocks) -> np.ndarray:
    """One weight per query."""
    weight = finite_numbers(sample_weight, "sample_weight")
    if len(weight) == blocks.n_rows:
        weight = blocks.gather(weight)
        starts = blocks.offsets[:-1]
        least, most = np.minimum.reduceat(weight, starts), np.maximum.reduceat(weight, starts)
        if (least != most).any():
            q = int(np.flatnonzero(least != most)[0])
            raise DataError(
                f"sample_weight varies from {least[q]:g} to {most[q]:g} inside query {blocks.ids.tolist()[q]!r}: a "
                "measure is one number per query, so give the rows of a query the same weight, or one weight per query"
            )
        weight = least
    elif len(weight) != len(blocks):
        raise DataError(
            f"sample_weight has {len(weight)} values, expected {len(blocks)} (one per query) or {blocks.n_rows} (one "
            "per row)"
        )
    if (weight < 0).any() or not 0 < weight.max() <= LARGEST:
        raise DataError(
            f"sample_weight must contain no negative weight, none above {LARGEST:g}, and at least one positive weight"
        )
    return weight


def check_measurable(wanted: Mapping[str, Measure], y: np.ndarray, where: Callable[[int], str]) -> None:
    """Refuse grades for which a measure is not defined; ``where`` describes the location of a row of y."""
    for name, measure in wanted.items():
        options, chosen = MEASURES[measure.kind].options, measure.conventions
        undefined: list[tuple[np.ndarray, str]] = []
        if "grades" in options and chosen.grades != "any":
            undefined.append((y < 0, "this preset takes no negative grades (the default preset counts them as 0)"))
            if chosen.grades == "label_gain":
                why = "LightGBM takes whole grades from 0 to 30 (the default preset takes any)"
                undefined.append(((y != np.floor(y)) | (y > 30), why))
        if "gain" in options and chosen.gain == "exponential":
            most = math.log2(LARGEST) if measure.kind == "dcg" else HIGHEST_EXPONENT
            why = "its gain 2^grade - 1 is too large to add up; rescale the grades, or use ':gain=linear'"
            undefined.append((y > most, why))
        elif "gain" in options:
            undefined.append((y > LARGEST, "its gain is too large to add up; rescale the grades"))
        if "max_grade" in options:
            top = HIGHEST_EXPONENT if chosen.max_grade is None else chosen.max_grade
            if top > HIGHEST_EXPONENT:
                raise DataError(
                    f"{name!r}: max_grade is at most {HIGHEST_EXPONENT:g}, since 2^max_grade must be finite"
                )
            undefined.append((y > top, f"the scale of grades ends at {top:g}; set ':max_grade=' or rescale the grades"))
        for bad, why in undefined:
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise DataError(f"{name!r} is not defined for grade {y[row]:g} {where(row)}: {why}")


def by_falling_docid(text: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Rows by query number, those of a query by decreasing docid."""
    _, rank = np.unique(text, return_inverse=True)
    return np.lexsort((-rank.ravel(), numbers))


def mean_over_queries(values: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The (weighted) mean over the queries where the measure is defined; nan when there is none.

    Queries are added one after another, as the tools do, so that even the last digits agree with theirs.
    """
    weight = np.ones(len(values)) if weight is None else weight
    kept = ~np.isnan(values) & (weight > 0)
    if not kept.any():
        return float("nan")
    return float(np.cumsum(values[kept] * weight[kept])[-1] / np.cumsum(weight[kept])[-1])


def standard_error(values: np.ndarray) -> float:
    """The standard error of the mean of values; 0 for one value or none."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def own_values(measure: OwnMeasure, y: np.ndarray, scores: np.ndarray, blocks: QueryBlocks) -> np.ndarray:
    """measure(y_q, s_q) of the grades and scores of every query q, both in the rows' order; nan for undefined."""
    name, values, y, scores = measure_name(measure), np.empty(len(blocks)), blocks.gather(y), blocks.gather(scores)
    for q, (first, last) in enumerate(zip(blocks.offsets[:-1], blocks.offsets[1:])):
        found = measure(y[first:last].copy(), scores[first:last].copy())
        try:
            values[q] = float(found)
        except (TypeError, ValueError):
            raise ValueError(
                f"the measure {name} returned {found!r} for query {blocks.ids.tolist()[q]!r}: it takes (y, scores), "
                "the grades and scores of one query's rows, and must return one number, or nan if it is not defined"
            ) from None
        if abs(values[q]) > LARGEST:
            raise ValueError(
                f"the measure {name} returned {values[q]} for query {blocks.ids.tolist()[q]!r}: return a number "
                f"between -{LARGEST:g} and {LARGEST:g}, for example in a larger unit"
            )
    return values


def warm_metrics() -> None:
    """Run every measure, both gains and all tie rules on a tiny sample, to compile the kernels for later calls."""
    y = np.array([0.0, 1.0, 2.0, 1.0, 0.5, 0.0] * 3)
    scores = np.array([0.5, 0.5, 1.0, 2.0, 3.0, 3.0] * 3)
    names = [name + ("@1" if kind.cutoff == "required" else "") for name, kind in MEASURES.items()]
    for preset in ("default", "trec", "sklearn"):
        evaluate(y, scores, group=[6, 12], measures=names, preset=preset)
    evaluate(y, scores, 0, "ndcg@1")
