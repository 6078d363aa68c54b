"""Compile every kernel once, so that later processes load them from numba's cache on disk.

The rooms have functions for it, which call each of their kernels on tiny arrays. The registered rankers are fitted to
a few rows (or ratings, or documents), dense in both precisions and sparse.
"""

import gc
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import chain
from multiprocessing import get_context

import numpy as np

from hingerank.arrays import Facts, Matrix, Ranker
from hingerank.clicks.estimation import warm_clicks
from hingerank.data.blocks import blocks_from_qid
from hingerank.data.generate import GeneratedData, make_letor
from hingerank.data.letor import warm_reader
from hingerank.data.letor_writer import warm_writer
from hingerank.data.rows_view import RowsView
from hingerank.data.scaling import SCALERS, make_scaler
from hingerank.export.forest import warm_trees
from hingerank.kernels.threads import thread_count
from hingerank.metrics import warm_metrics
from hingerank.problem.streamed import StreamedDesign
from hingerank.registry import RANKERS, ranker_class

KINDS = ("float32", "float64", "sparse float32", "sparse float64")
Named = tuple[str, Callable[[], object]]  # what a step compiles, and how


@dataclass(frozen=True)
class Step:
    """What was compiled, the seconds it took, and why it failed or was left out (None if it did not)."""

    label: str
    seconds: float
    problem: str | None = None


def warm(progress: Callable[[int, int | None], None] | None = None, apart: bool | None = None) -> list[Step]:
    """Run every step; `progress` is called with (steps done, steps in all). Optional libraries may be absent.

    apart: in two processes side by side (default: where there are two cores). Each takes the next batch when it is
    free: steps of a batch share kernels, two that follow each other share almost none.
    """
    batches = _batches()
    count, found = sum(map(len, batches)), []
    side_by_side = thread_count() > 1 if apart is None else apart
    for steps in _in_two_processes(batches) if side_by_side else map(_run_all, batches):
        found += steps
        if progress:
            progress(len(found), count)
    return found


def _in_two_processes(batches: list[list[Named]]) -> Iterator[list[Step]]:
    rarely = (200_000, 20, 100)  # a compiler makes little garbage, among very many objects
    with ProcessPoolExecutor(2, get_context("spawn"), gc.set_threshold, rarely) as pool:
        for future in as_completed([pool.submit(_run_all, batch) for batch in batches]):
            yield future.result()


def _run_all(batch: list[Named]) -> list[Step]:
    return [_run(label, action) for label, action in batch]


def _run(label: str, action: Callable[[], object]) -> Step:
    started, problem = time.perf_counter(), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fits to a few rows need not converge
            action()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return Step(label, time.perf_counter() - started, problem)


def _batches() -> list[list[Named]]:
    """A batch for each ranker of rows, one for all personal rankers, whose passes are the same, and so on."""

    def fits(wing: str, fit: Callable[[str, str], None]) -> list[list[Named]]:
        names = [name for name, place in RANKERS.items() if place.split(".")[1] == wing]
        return [[(f"{name}, {kind}", partial(fit, name, kind)) for kind in KINDS] for name in names]

    files: list[Named] = [("reader", warm_reader), ("writer", warm_writer)]
    arrays: list[Named] = [("generated and scaled data", _warm_data), ("measures", warm_metrics)]
    arrays += [("trees", warm_trees), ("clicks", warm_clicks)]
    diverse: list[Named] = [
        (name, partial(_fit_diverse, name)) for name, place in RANKERS.items() if ".diversity." in place
    ]
    graded, personal = fits("rankers", _fit_graded), list(chain.from_iterable(fits("personal", _fit_personal)))
    return [*graded[:1], personal, files, arrays, *graded[1:], diverse]


def _fit_graded(name: str, kind: str) -> None:
    """Fit the ranker to a few rows; one whose optional library is not installed has nothing to compile."""
    try:
        ranker, data = ranker_class(name), _tiny(kind)
        for parameters in _variants(name, ranker, len(np.unique(data.y))):
            ranker(**parameters).fit(data.X, data.y, data.qid).rank(data.X, data.qid)
        if name == "rank-svm":  # columns of very different spread have a sweep of their own
            ranker().fit(_uneven(data.X), data.y, data.qid)
    except ImportError as error:
        if (error.name or "hingerank").startswith("hingerank"):
            raise


def _fit_personal(name: str, kind: str) -> None:
    """Fit the ranker to a few ratings and to a few comparisons of items with features of this kind."""
    from hingerank.personal.factorized import PersonalRankSVM
    from hingerank.personal.item_item import EASE

    X = _tiny(kind).X[:10]
    users, items = np.repeat(np.arange(4), 5), np.tile(np.arange(10), 2)
    ranker = ranker_class(name)().fit(X, users, items, items % 3 + users % 2)
    ranker.score(X, users, items, items % 3)
    ranker.top_k(users[:6], X, 2)
    if not isinstance(ranker, EASE):  # which does not learn from comparisons
        ranker.fit_pairs(X, users, items, 9 - items)
    if isinstance(ranker, PersonalRankSVM):
        ranker.add_users([8, 8], X, [0, 1], [1.0, 2.0])
        PersonalRankSVM(rank=2, loss="squared").fit_clicks(X, users, items)


def _fit_diverse(name: str) -> None:
    """Fit the ranker to a query, order its documents and measure the order."""
    from hingerank.diversity.queries import DiverseQuery

    rng = np.random.default_rng(0)
    query = DiverseQuery(
        rng.random((6, 2)),
        relations=rng.random((6, 6, 2)),
        judgments=np.eye(6)[:, :3],
        relevance=rng.random(6),
        aspects=rng.random((6, 3)),
        words=rng.integers(0, 3, (6, 8)),
    )
    ranker_class(name)().fit([query]).score([query])


def _variants(name: str, ranker: Ranker, grades: int) -> list[Facts]:
    """The settings that use different kernels: every loss with every solver of it, where a ranker takes both."""
    special: dict[str, list[Facts]] = {
        "rank-svm": [{"grade_weight": np.ones((grades, grades))}, {"pair_weight": "ndcg"}],
        "factorized": [{"form": "primal"}],
    }
    found = [{}, *special.get(name, [])]
    if {"loss", "solver"} <= set(ranker._get_param_names()):
        from hingerank.rankers.linear import PairwiseRanker

        if not issubclass(ranker, PairwiseRanker):
            return found
        by_loss = ranker._solvers.items()
        found += [{"loss": loss, "solver": solver} for loss, solvers in by_loss for solver in solvers]
    return found


def _uneven(X: Matrix) -> Matrix:
    """X with its columns scaled over many decades, in the same form."""
    scale = (10.0 ** np.arange(X.shape[1])).astype(X.dtype)
    return X * scale if isinstance(X, np.ndarray) else X.multiply(scale).tocsr().astype(X.dtype)


def _tiny(kind: str) -> GeneratedData:
    density = 0.5 if kind.startswith("sparse") else None
    shape: Facts = {"n_queries": 4, "rows_per_query": (6, 12), "n_features": 5, "seed": 1}
    return make_letor(**shape, sparse_density=density, dtype=kind.split()[-1])


def _warm_data() -> None:
    """The kernels of generated data, of scalers and of queries whose rows do not stand together."""
    blocks_from_qid(np.array([0, 1, 0]), 3)
    for kind in KINDS:
        data = _tiny(kind)
        if data.truth is not None:
            data.truth.utility(data.X)
        if not kind.startswith("sparse"):  # rows of a file, scaled within queries
            view = RowsView(data.X, None, make_scaler("query-minmax").fit(data.X), data.blocks.offsets)
            StreamedDesign(view).back(np.ones(len(view)))
        for name in SCALERS:
            if name not in ("minmax", "quantile") or not kind.startswith("sparse"):
                make_scaler(name).fit(data.X, data.qid).transform(data.X, data.qid)
