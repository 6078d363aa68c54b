"""Seconds to evaluate one ranking: hingerank against pytrec_eval, ir_measures, ranx and scikit-learn.

    python benchmarks/metrics.py [--queries 10000] [--rows 120] [--repeat 5]

Every tool gets the same grades and scores already in the form it likes best (dictionaries for pytrec_eval and
ir_measures, Qrels and Run for ranx, rectangles for scikit-learn; building those is timed apart) and has been called
once before the clock starts. hingerank gets flat arrays and query ids, and its time includes checking and grouping
them. Values must agree to 1e-9. Missing peers are left out.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import hingerank as hr
from measuring import best_of

Answer = dict[str, float]
Peer = tuple[str, float, dict[str, Callable[[], Answer]]]  # name, seconds to build its inputs, task -> call
NDCG, BOTH, MANY = "ndcg@10", "ndcg@10 + map", "8 measures"
MANY_NAMES = ["ndcg@5", "ndcg@10", "ndcg", "map", "p@5", "p@10", "recall@10", "mrr"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=120)
    parser.add_argument("--repeat", type=int, default=5)
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    y = random.choice(5, p=[0.5, 0.3, 0.12, 0.06, 0.02], size=(asked.queries, asked.rows))
    scores = random.normal(size=y.shape).astype(np.float32).astype(np.float64)  # trec_eval compares in single precision
    ours = hingerank_calls(y, scores)
    seconds = {task: best_of(call, asked.repeat) for task, call in ours.items()}
    print(f"{asked.queries} queries x {asked.rows} rows, best of {asked.repeat}, warm")
    print(f"{'tool':<24}{'task':<16}{'seconds':>9}{'ratio':>8}{'inputs':>9}")
    for task, (time_taken, _) in seconds.items():
        print(f"{'hingerank':<24}{task:<16}{time_taken:>9.4f}{'':>8}{'':>9}")
    behind = []
    for name, building, calls in peers(y, scores):
        for task, call in calls.items():
            time_taken, answer = best_of(call, min(asked.repeat, 3))
            ratio = time_taken / seconds[task][0]
            print(f"{name:<24}{task:<16}{time_taken:>9.4f}{ratio:>7.1f}x{building:>8.2f}s")
            compare(name, answer, seconds[task][1])
            if ratio <= 1:
                behind.append(f"{name} on {task}")
    print("ahead of every tool above" if not behind else f"BEHIND {', '.join(behind)}")


def compare(name: str, answer: Answer, ours: Answer) -> None:
    for measure, value in answer.items():
        if abs(value - ours[measure]) > 1e-9:
            raise SystemExit(f"{name} says {measure} = {value}, hingerank {ours[measure]}")


def hingerank_calls(y: np.ndarray, scores: np.ndarray) -> dict[str, Callable[[], Answer]]:
    qid = np.repeat(np.arange(len(y)), y.shape[1])
    flat, flat_scores = y.ravel(), scores.ravel()
    tasks = {NDCG: ["ndcg@10"], BOTH: ["ndcg@10", "map"], MANY: MANY_NAMES}
    return {
        task: lambda names=names: hr.evaluate(flat, flat_scores, qid, names, preset="trec")
        for task, names in tasks.items()
    }


def peers(y: np.ndarray, scores: np.ndarray) -> Iterator[Peer]:
    yield from sklearn_calls(y, scores)
    start = time.perf_counter()
    names = [f"d{i}" for i in range(y.shape[1])]
    qrels = {str(q): dict(zip(names, row)) for q, row in enumerate(y.tolist())}
    run = {str(q): dict(zip(names, row)) for q, row in enumerate(scores.tolist())}
    building = time.perf_counter() - start
    for make in (pytrec_eval_calls, ir_measures_calls, ranx_calls):
        try:
            yield from make(qrels, run, building)
        except ImportError as missing:
            print(f"({missing.name} is not installed: left out)")


def sklearn_calls(y: np.ndarray, scores: np.ndarray) -> Iterator[Peer]:
    from sklearn.metrics import ndcg_score

    for name, ignore in (("scikit-learn", False), ("scikit-learn, no ties", True)):
        yield name, 0.0, {NDCG: lambda ignore=ignore: {"ndcg@10": ndcg_score(y, scores, k=10, ignore_ties=ignore)}}


def pytrec_eval_calls(qrels: dict, run: dict, building: float) -> Iterator[Peer]:
    import pytrec_eval

    theirs = {"ndcg@10": "ndcg_cut.10", "map": "map", "ndcg@5": "ndcg_cut.5", "ndcg": "ndcg", "p@5": "P.5"}
    theirs |= {"p@10": "P.10", "recall@10": "recall.10", "mrr": "recip_rank"}

    def call(names: list[str]) -> Callable[[], Answer]:
        judge = pytrec_eval.RelevanceEvaluator(qrels, {theirs[name] for name in names})

        def mean() -> Answer:
            each = judge.evaluate(run)
            keys = {name: theirs[name].replace(".", "_") for name in names}
            return {name: float(np.mean([value[key] for value in each.values()])) for name, key in keys.items()}

        return mean

    yield "pytrec_eval", building, {NDCG: call(["ndcg@10"]), BOTH: call(["ndcg@10", "map"]), MANY: call(MANY_NAMES)}


def ir_measures_calls(qrels: dict, run: dict, building: float) -> Iterator[Peer]:
    import ir_measures

    theirs = {"ndcg@10": "nDCG@10", "map": "AP", "ndcg@5": "nDCG@5", "ndcg": "nDCG", "p@5": "P@5"}
    theirs |= {"p@10": "P@10", "recall@10": "R@10", "mrr": "RR"}

    def call(names: list[str]) -> Callable[[], Answer]:
        parsed = {name: ir_measures.parse_measure(theirs[name]) for name in names}
        judge = ir_measures.evaluator(list(parsed.values()), qrels)

        def mean() -> Answer:
            values: Any = judge.calc_aggregate(run)
            return {name: values[measure] for name, measure in parsed.items()}

        return mean

    yield "ir_measures", building, {NDCG: call(["ndcg@10"]), BOTH: call(["ndcg@10", "map"]), MANY: call(MANY_NAMES)}


def ranx_calls(qrels: dict, run: dict, building: float) -> Iterator[Peer]:
    import ranx

    warnings.simplefilter("ignore")  # its kernels warn of integer casts while compiling
    start = time.perf_counter()
    judged, ranked = ranx.Qrels(qrels), ranx.Run(run)
    building += time.perf_counter() - start
    theirs = {"p@5": "precision@5", "p@10": "precision@10"}

    def call(names: list[str]) -> Callable[[], Answer]:
        def mean() -> Answer:
            values: Any = ranx.evaluate(judged, ranked, [theirs.get(name, name) for name in names])
            values = values if isinstance(values, dict) else {names[0]: values}
            return {name: float(values[theirs.get(name, name)]) for name in names}

        return mean

    yield "ranx", building, {NDCG: call(["ndcg@10"]), BOTH: call(["ndcg@10", "map"]), MANY: call(MANY_NAMES)}


if __name__ == "__main__":
    main()
