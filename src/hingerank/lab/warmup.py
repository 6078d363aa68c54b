"""Compile every kernel once, so that later processes load them from numba's cache on disk.

`STEPS` lists what the rooms offer for it; the registered rankers are added by fitting each of them to a few rows, dense
in both precisions and sparse.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

# label -> "module:function", a function without arguments that calls each of the room's kernels on tiny arrays
STEPS = {
    "reader": "hingerank.data.letor:warm_reader",
    "writer": "hingerank.data.letor_writer:warm_writer",
    "generated data": "hingerank.lab.warmup:_warm_generate",
    "measures": "hingerank.metrics:warm_metrics",
}


@dataclass(frozen=True)
class Step:
    """What was compiled, the seconds it took, and why it failed or was left out (None if it did not)."""

    label: str
    seconds: float
    problem: str | None = None


def warm(progress: Callable[[int, int | None], None] | None = None) -> list[Step]:
    """Run every step; `progress` is called with (steps done, steps in all). Optional libraries may be absent."""
    steps = [*_rooms(), *_rankers()]
    done = []
    for number, (label, action) in enumerate(steps):
        if progress:
            progress(number, len(steps))
        started = time.perf_counter()
        problem = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a few rows are no place to converge
                action()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        done.append(Step(label, time.perf_counter() - started, problem))
    if progress:
        progress(len(steps), len(steps))
    return done


def _rooms() -> Iterator[tuple[str, Callable[[], object]]]:
    for label, place in STEPS.items():
        yield label, partial(_call, place)


def _rankers() -> Iterator[tuple[str, Callable[[], object]]]:
    from hingerank.registry import RANKERS

    for name in RANKERS:
        for kind in ("float32", "float64", "sparse"):
            yield f"{name}, {kind}", partial(_fit_tiny, name, kind)


def _fit_tiny(name: str, kind: str) -> None:
    """Fit the ranker to a few rows; one that learns from other data than graded rows is warmed by a step of its own,
    and one whose optional library is not installed has nothing to compile."""
    from hingerank.rankers.base import BaseRanker
    from hingerank.registry import ranker_class

    try:
        ranker = ranker_class(name)
        if not issubclass(ranker, BaseRanker):
            return
        data = _tiny(kind)
        for parameters in _variants(ranker):
            ranker(**parameters).fit(data.X, data.y, data.qid).rank(data.X, data.qid)
    except ImportError as error:
        if (error.name or "hingerank").startswith("hingerank"):
            raise


def _variants(ranker: Any) -> list[dict[str, str]]:
    """The settings that use different kernels: every loss with every solver of it, where a ranker takes both."""
    if not {"loss", "solver"} <= set(ranker._get_param_names()):
        return [{}]
    from hingerank.rankers.linear import SOLVERS

    return [{"loss": loss, "solver": solver} for solver in ranker._solvers for loss in SOLVERS[solver].losses]


def _tiny(kind: str) -> Any:
    from hingerank.data.generate import make_letor

    shape: dict[str, Any] = {"n_queries": 4, "rows_per_query": (6, 12), "n_features": 5, "seed": 1}
    if kind == "sparse":
        return make_letor(**shape, sparse_density=0.5)
    return make_letor(**shape, dtype=kind)


def _warm_generate() -> None:
    for kind in ("float32", "float64", "sparse"):
        data = _tiny(kind)
        data.truth.utility(data.X)


def _call(place: str) -> None:
    module, _, name = place.partition(":")
    getattr(import_module(module), name)()
