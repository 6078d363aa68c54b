"""`hingerank demo`: the whole road on generated data: tune and compare the family, keep the winner, explain a query."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MEASURE = "ndcg@10"
FOLDS = 3


@dataclass(frozen=True)
class Demo:
    """What the demo found: the results of the comparison and their page, the winner, and a query explained."""

    results: Any
    page: Path
    model: Path
    explained: Path

    def table(self) -> tuple[list[str], list[list[object]]]:
        """Column names, and a row per method, best first: the test mean in every fold, then that over all queries."""
        from hingerank.lab.leaderboard import ranked_methods
        from hingerank.lab.results import mean_value

        results = self.results
        rows = []
        for method in ranked_methods(results):
            tests = {record["fold"]: mean_value(record, MEASURE) for record in results.tests(method)}
            rows.append([method, *(tests.get(fold) for fold in results.folds), results.query_mean(method, MEASURE)])
        return ["method", *results.folds, "mean"], rows


def demo_methods() -> list[Any]:
    """The family, one of each kind, with a few settings to choose from."""
    from hingerank.lab.methods import Method
    from hingerank.rankers.kernel import NystroemRankSVM
    from hingerank.rankers.linear import ListNet, RankSVM
    from hingerank.rankers.multipliers import FactorizedRankSVM
    from hingerank.rankers.sparse import FenchelRank

    methods = [
        Method("linear (RankSVM)", RankSVM, {"scale": ["standard", "query-minmax"], "C": [1e-4, 1e-3, 1e-2, 1e-1]}),
        Method("sparse (FenchelRank)", FenchelRank, {"radius": [1.0, 3.0, 10.0]}, {"scale": "standard"}),
        Method(
            "Nyström", NystroemRankSVM, {"gamma": ["0.25*scale", "scale"], "C": [1e-3, 1e-2]}, {"n_components": 300}
        ),
        Method("low rank", FactorizedRankSVM, {"C": [1e-3, 1e-2]}, {"rank": 5, "scale": "standard", "max_iter": 60}),
        Method("ListNet", ListNet, {"C": [1e-1, 1.0, 10.0]}, {"scale": "standard"}),
    ]
    if find_spec("lightgbm") is not None:
        from hingerank.rankers.trees import LightGBMRanker

        methods.append(Method("LightGBM", LightGBMRanker, {"n_estimators": [30, 60, 120]}, {"num_leaves": 15}))
    return methods


def run_demo(folder: Path, n_queries: int = 150, seed: int = 2, progress: Callable[[Any], None] | None = None) -> Demo:
    """Generate data, tune and compare the family over folds, write a page, keep the winner and explain a query of it.

    The data have columns of use, useless ones, products of columns (which linear rankers cannot see) and noise.

    Parameters
    ----------
    folder : where everything goes: the results as they come, report.html, model/ and explained.html; an earlier demo
        there is replaced
    n_queries, seed : of the generated data
    progress : a callback for `compare`
    """
    import shutil
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from hingerank.data.generate import make_letor
    from hingerank.lab.comparison import compare
    from hingerank.lab.folds import query_folds
    from hingerank.lab.report.explained import explained_page
    from hingerank.lab.report.page import write_report
    from hingerank.lab.run_folder import write_whole
    from hingerank.lab.winner import refit

    run = Path(folder)
    if run.exists() and any(run.iterdir()):
        if not (run / "run.json").exists():
            raise ValueError(f"{run} holds other files: name a new folder with --output")
        shutil.rmtree(run)
    run.mkdir(parents=True, exist_ok=True)
    data = make_letor(n_queries, (20, 60), n_features=20, useless=6, signal="nonlinear", noise=0.4, seed=seed)
    methods, measures = demo_methods(), [*(f"ndcg@{k}" for k in (1, 3, 5, 10)), "map", "p@5"]
    about = {"title": "generated data: useful and useless columns, products, noise"}
    results = compare(
        methods,
        query_folds(data, FOLDS, seed),
        MEASURE,
        measures,
        folder=run,
        seed=seed,
        progress=progress,
        about=about,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        name, ranker = refit(results, methods, data)
    model = Path(ranker.save(f"{run / 'model'}/", {"data": "generated", "method": name}))
    query = data.blocks.ids[0]
    explained = ranker.explain(data.subset([query])).query(query)
    first, last = explained.documents[0], explained.documents[-1]
    page = explained_page(explained, f"{query}, ranked by {name}", (first, last))
    write_whole(run / "explained.html", page.encode())
    return Demo(results, write_report(results), model, run / "explained.html")
