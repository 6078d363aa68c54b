"""How often the 95 % intervals of propensities hold the truth: logs drawn from a position-based model, many times.

    python benchmarks/click_intervals.py                        200 logs of each kind, EM and AllPairs; eight minutes
    python benchmarks/click_intervals.py --runs 50
    python benchmarks/click_intervals.py --write docs/results    the same, stored

A log has 1,500 lists of 5 places for 4 queries, or for 150, where documents have few showings and EM is biased. A query
has 8 documents; each list shows them in the order of a noisy score, so that better ones stand higher up and all of them
move. Clicks are drawn by propensity × attraction. An interval is a bootstrap of 200 logs. With 200 runs a frequency of
.95 has a standard error of .015.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np

import hingerank as hr
from measuring import keep_table

TRUE = np.array([1.0, 0.7, 0.5, 0.35, 0.25])
QUERIES, DOCUMENTS, LISTS, ROUNDS = (4, 150), 8, 1500, 200


def draw(seed: int, queries: int) -> hr.ClickLog:
    """A log; attractions are the same in every run."""
    attraction = np.random.default_rng(12345).uniform(0.1, 0.9, (queries, DOCUMENTS))
    rng, places = np.random.default_rng(seed), len(TRUE)
    query = rng.integers(0, queries, LISTS)
    order = np.argsort(-attraction[query] + 0.4 * rng.normal(size=(LISTS, DOCUMENTS)), axis=1)[:, :places]
    clicks = rng.random(order.shape) < TRUE * attraction[query[:, None], order]
    return hr.ClickLog(
        queries=np.repeat(query, places), documents=order.ravel(), places=np.tile(np.arange(1, places + 1), LISTS),
        clicks=clicks.ravel(), sessions=np.repeat(np.arange(LISTS), places),
    )  # fmt: skip


def _digits(line: dict) -> list[str]:
    return [f"{value:.3f}" for value in (line["inside"], *line["inside by place"], line["width"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    found = []
    warnings.simplefilter("ignore", UserWarning)  # of EM's bias, which is what is measured here
    for method, queries in product(("em", "all-pairs"), QUERIES):
        inside, widths, errors, start = [], [], [], time.perf_counter()
        for run in range(arguments.runs):
            estimate = hr.propensities(draw(run, queries), method)
            low, high = estimate.interval(rounds=ROUNDS, seed=run)
            inside.append(((low <= TRUE) & (high >= TRUE))[1:])
            widths.append((high - low)[1:])
            errors.append((estimate.values - TRUE)[1:])
        line = {
            "method": method, "queries": queries, "runs": arguments.runs, "inside": float(np.mean(inside)),
            "inside by place": np.mean(inside, axis=0).round(4).tolist(), "width": float(np.mean(widths)),
            "bias by place": np.mean(errors, axis=0).round(4).tolist(), "seconds": time.perf_counter() - start,
        }  # fmt: skip
        found.append(line)
        print(line)
    if arguments.write:
        header = ["method", "queries", "runs", "inside", *(f"place {k}" for k in range(2, len(TRUE) + 1)), "mean width"]
        rows = [[line["method"], f"{line['queries']}", f"{line['runs']}", *_digits(line)] for line in found]
        keep_table(arguments.write, "click-intervals", "python benchmarks/click_intervals.py", header, rows)


if __name__ == "__main__":
    main()
