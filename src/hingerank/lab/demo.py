"""`hingerank demo`: the whole path on generated data, from rows to a page."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEASURE = "ndcg@10"
GRID = [1e-4, 1e-3, 1e-2, 1e-1]


@dataclass(frozen=True)
class Demo:
    """What the demo found: the results of the comparison and the page that shows them."""

    results: Any
    page: Path

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Column names, and a row per method: the test mean in every fold, then the mean over folds."""
        results = self.results
        rows = []
        for method in results.methods:
            means = [float(value) for value in results.fold_means(method, MEASURE)]
            rows.append([method, *means, sum(means) / len(means)])
        return ["method", *results.folds, "mean"], rows


def run_demo(folder: Path, n_queries: int = 200, seed: int = 0, progress: Callable[[Any], None] | None = None) -> Demo:
    """Generate data, compare RankSVM under three losses over five folds (C chosen on validation), write a page.

    Parameters
    ----------
    folder : where everything goes: the results as they come, then report.html; an earlier demo there is replaced
    n_queries, seed : of the generated data
    progress : a callback for `compare`
    """
    import shutil

    from hingerank.data.generate import make_letor
    from hingerank.lab import Method, compare, query_folds
    from hingerank.lab.report.page import write_report
    from hingerank.rankers.linear import RankSVM

    run = Path(folder)
    if run.exists() and any(run.iterdir()):
        if not (run / "run.json").exists():
            raise ValueError(f"{run} holds other files: name a new folder with --output")
        shutil.rmtree(run)
    run.mkdir(parents=True, exist_ok=True)
    data = make_letor(n_queries=n_queries, rows_per_query=(20, 120), n_features=46, useless=10, seed=seed)
    methods = [
        Method(f"RankSVM, {loss.replace('_', ' ')}", RankSVM, {"C": GRID}, fixed={"loss": loss})
        for loss in ("squared_hinge", "hinge", "logistic")
    ]
    results = compare(
        methods, query_folds(data, 5, seed), MEASURE, [MEASURE, "map", "p@5"], folder=run, seed=seed, progress=progress
    )
    return Demo(results, write_report(results))
