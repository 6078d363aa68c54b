"""Diversifying rerankers compared as in the R-LTR and PAMM papers: methods, folds, choices on validation, marks.

Every method's settings are chosen on the validation fold alone, by the measure it is named after (α-NDCG@20 if it names
none). MMR, xQuAD and PM-2 rerank what ListMLE learned, and the structural SVMs choose among its best 20 or 50.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from hingerank.diversity.learning import PAMM, RLTR
from hingerank.diversity.measures import parse_diversity_measure
from hingerank.diversity.queries import DiverseData, DiverseQuery
from hingerank.diversity.relations import unit_scores
from hingerank.diversity.selection import MMR, PM2, XQuAD
from hingerank.diversity.structural import StructSVMDiv, SVMDiv
from hingerank.lab.statistics import holm, p_values
from hingerank.rankers.linear import ListMLE

ERR, NDCG = "err-ia@20", "alpha-ndcg@20"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
METHODS = (
    "One feature",
    "ListMLE",
    "MMR",
    "xQuAD",
    "PM-2",
    "SVM-DIV",
    "StructSVM(ERR-IA)",
    "StructSVM(α-NDCG)",
    "R-LTR",
    "PAMM(ERR-IA)",
    "PAMM(α-NDCG)",
)
Values = dict[str, dict[str, float]]  # measure -> query -> value
Scorer = Callable[[DiverseData, Any], Values]  # of a run over queries
Parts = Mapping[str, DiverseData]  # train, validation, test


def fold_values(name: str, folds: Sequence[DiverseData], score: Scorer, rates: Sequence[float]) -> dict[str, Any]:
    """{"values": {measure: {query: value}} over all test folds, "chosen": the setting in each}.

    Three folds to train, one to choose, one to test, rotating. rates: learning rates for PAMM to choose from.
    """
    values: Values = {ERR: {}, NDCG: {}}
    chosen = []
    for k in range(len(folds)):
        train = DiverseData([query for j in range(3) for query in folds[(k + j) % 5]])
        parts = {"train": train, "validation": folds[(k + 3) % 5], "test": folds[(k + 4) % 5]}
        found, setting = _tested(name, parts, score, rates)
        chosen.append(setting)
        for measure, by_query in values.items():
            by_query.update(found[measure])
    return {"values": values, "chosen": chosen}


def _tested(name: str, parts: Parts, score: Scorer, rates: Sequence[float]) -> tuple[Values, dict[str, Any]]:
    if name == "One feature":
        j = _best_feature(parts["train"])
        return score(parts["test"], _run_by(parts["test"], np.eye(parts["test"][0].n_features)[j])), {"feature": j}
    if name in ("ListMLE", "MMR", "xQuAD", "PM-2", "SVM-DIV") or name.startswith("StructSVM"):
        C, w = _listmle(parts, score)
        if name == "ListMLE":
            return score(parts["test"], _run_by(parts["test"], w)), {"C": C}
        parts = {part: _rescored(queries, w) for part, queries in parts.items()}
    by = ERR if "ERR" in name else NDCG
    rankers = _settings(name, by, rates)
    scores = []
    for ranker in rankers:
        ranker.fit(parts["train"])
        scores.append(_mean(score(parts["validation"], ranker.rerank_run(parts["validation"]))[by]))
    best = rankers[int(np.argmax(scores))]
    return score(parts["test"], best.rerank_run(parts["test"])), _changed(best)


def _settings(name: str, measure: str, rates: Sequence[float]) -> list[Any]:
    """Rankers to choose from; measure: the one that the method is named after."""
    if name == "MMR":
        return [MMR(lam, relation) for lam, relation in product(SHARES, (None, 0, 1, 2))]
    if name in ("xQuAD", "PM-2"):
        return [(XQuAD if name == "xQuAD" else PM2)(lam) for lam in SHARES]
    if name == "R-LTR":
        return [RLTR(*how, tol=1e-3) for how in product((0.1, 1.0, 10.0), ("mean", "all"), (3, 5, 10))]
    if name.startswith("PAMM"):
        return [PAMM(measure, top=top, learning_rate=rate) for top, rate in product((5, 10), rates)]
    struct: list[dict[str, Any]] = [{"C": C, "candidates": n} for C, n in product((1.0, 10.0), (20, 50))]
    return [SVMDiv(**how) if name == "SVM-DIV" else StructSVMDiv(measure, **how) for how in struct]


def _changed(ranker: Any) -> dict[str, Any]:
    """The parameters that differ from the defaults, other than the measure."""
    usual = type(ranker)().get_params()
    return {k: v for k, v in ranker.get_params().items() if v != usual[k] and k not in ("measure", "tol")}


def _listmle(parts: Parts, score: Scorer) -> tuple[float, np.ndarray]:
    """C and weights of ListMLE on the number of subtopics that a document serves, C chosen on validation queries."""
    train = parts["train"]
    X, qid = np.concatenate([q.X for q in train]), np.repeat(np.arange(len(train)), [q.n for q in train])
    y = np.concatenate([(q.judgments > 0).sum(axis=1) for q in train])
    found = []
    for C in (0.001, 0.01, 0.1, 1.0):
        w = ListMLE(C=C).fit(X, y, qid).coef_
        found.append((_mean(score(parts["validation"], _run_by(parts["validation"], w))[NDCG]), C, w))
    return max(found, key=lambda entry: entry[0])[1:]


def _rescored(queries: DiverseData, w: np.ndarray) -> DiverseData:
    """ListMLE's score as relevance and as one more feature; aspects count more in relevant documents."""

    def change(query: DiverseQuery) -> DiverseQuery:
        s = unit_scores(query.X @ w)
        aspects = None if query.aspects is None else query.aspects * s[:, None]
        return query.with_parts(relevance=s, X=np.column_stack((query.X, s)), aspects=aspects)

    return queries.map(change)


def _best_feature(train: DiverseData) -> int:
    measure = parse_diversity_measure(NDCG)

    def mean(j: int) -> float:
        return float(np.mean([measure(q.judgments, np.argsort(-q.X[:, j], kind="stable")) for q in train]))

    return int(np.argmax([mean(j) for j in range(train[0].n_features)]))


def _run_by(queries: DiverseData, w: np.ndarray) -> dict[str, list[str]]:
    return {q.qid: q.docids[np.argsort(-(q.X @ w), kind="stable")].tolist() for q in queries}


def leave_one_out(queries: Sequence[DiverseQuery], score: Scorer, rankers: Sequence[Any]) -> dict[str, Any]:
    """For every query the ranker that is best on all the others, by α-NDCG@20: for few queries and nothing to fit."""
    data = DiverseData(queries)
    tried = [score(data, ranker.rerank_run(data)) for ranker in rankers]
    values: Values = {ERR: {}, NDCG: {}}
    chosen = []
    for query in data:
        others = [_mean({k: v for k, v in found[NDCG].items() if k != query.qid}) for found in tried]
        best = int(np.argmax(others))
        chosen.append(_changed(rankers[best]))
        for measure in (ERR, NDCG):
            values[measure][query.qid] = tried[best][measure][query.qid]
    return {"values": values, "chosen": chosen}


def score_candidates(queries: DiverseData, run: Any) -> Values:
    """Measures of a run with the ideal taken among the candidates."""
    values: Values = {ERR: {}, NDCG: {}}
    for q in queries:
        place = {docid: i for i, docid in enumerate(q.docids)}
        docids = getattr(run[q.qid], "docids", run[q.qid])[:20]
        for name, by_query in values.items():
            by_query[q.qid] = parse_diversity_measure(name)(q.judgments, [place[docid] for docid in docids])
    return values


def marks(values: Mapping[str, Values], columns: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, str]]:
    """row -> column -> sign. columns: column -> (measure, row that others are compared with).

    ▼: significantly below that row, ▲: significantly above (randomisation test over queries, 5 %, Holm).
    """
    signs: dict[str, dict[str, str]] = {row: {} for row in values}
    for column, (measure, reference) in columns.items():
        queries = list(values[reference][measure])
        cells = {row: np.array([found[measure][query] for query in queries]) for row, found in values.items()}
        others = [row for row in values if row != reference]
        found = holm(p_values("randomisation", [(cells[row], cells[reference]) for row in others]))
        for row, p in zip(others, found):
            if p < 0.05:
                signs[row][column] = "▲" if cells[row].mean() > cells[reference].mean() else "▼"
    return signs


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean(list(values.values())))
