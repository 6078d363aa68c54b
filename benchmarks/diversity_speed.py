"""Milliseconds to rerank 1,000 candidates to the top 20, beside pyversity, and seconds to train.

    python benchmarks/diversity_speed.py [--candidates 1000] [--top 20] [--repeat 20] [--figure FILE]
    python benchmarks/diversity_speed.py --only reranking|training [--write FOLDER]

MMR is timed from vectors, cosine distances and all, as pyversity is; both must choose the same documents. Everything
else is timed from a DiverseQuery, its relations computed on demand from vectors ("on demand") or stored in a tensor
("stored", built before the clock starts). Medians of warm calls. --figure draws the seconds of training.
"""

import argparse
import statistics
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from hingerank.diversity.generate import make_diverse
from hingerank.diversity.learning import PAMM, RLTR
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.relations import Relations, cosine_relation, euclidean_relation
from hingerank.diversity.selection import MMR, PM2, XQuAD
from hingerank.diversity.structural import StructSVMDiv, SVMDiv
from measuring import keep_table, seconds_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--only", choices=["reranking", "training"])
    parser.add_argument("--write", type=Path, help="folder to keep the table of reranking in, such as docs/results")
    parser.add_argument("--figure", help="where the picture of training times goes")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if asked.only != "training":
        print(f"{asked.candidates} candidates to the top {asked.top}, median of {asked.repeat}, milliseconds per query")
        against_pyversity(asked.candidates, asked.top, asked.repeat)
        rows = every_method(asked.candidates, asked.top, asked.repeat)
        if asked.write:
            command = "python benchmarks/diversity_speed.py --only reranking"
            keep_table(asked.write, "diversity-speed", command, ["", "on demand", "stored"], rows)
    if asked.only != "reranking":
        seconds = training()
        if asked.figure:
            draw(seconds, asked.figure)


def milliseconds(call: Callable[[], object], repeat: int) -> float:
    call()
    return 1e3 * statistics.median(seconds_of(call, repeat))


def against_pyversity(n: int, top: int, repeat: int) -> None:
    """The same vectors and scores through both, in turn, so that both see the same machine."""
    rng = np.random.default_rng(0)
    relevance = rng.random(n).astype(np.float32)
    for width in (64, 384):
        vectors = rng.standard_normal((n, width)).astype(np.float32)

        def ours(vectors: np.ndarray = vectors) -> list[int]:
            query = DiverseQuery(np.zeros((n, 0)), relations=[cosine_relation(vectors)], relevance=relevance)
            return MMR(0.5).rerank(query, top).tolist()

        try:
            import pyversity
        except ImportError:
            print(f"MMR, {width} dimensions: hingerank {milliseconds(ours, repeat):.2f}; pyversity is not installed")
            continue

        def theirs(vectors: np.ndarray = vectors) -> list[int]:
            return pyversity.diversify(vectors, relevance, k=top, strategy="mmr", diversity=0.5).indices.tolist()

        rounds = [(milliseconds(ours, repeat), milliseconds(theirs, repeat)) for _ in range(3)]
        here, there = (min(times) for times in zip(*rounds))
        same = "same documents" if ours() == theirs() else "DIFFERENT documents"
        print(f"MMR, {width} dimensions: hingerank {here:.2f}, pyversity {there:.2f} ({there / here:.1f}x); {same}")


def every_method(n: int, top: int, repeat: int) -> list[list[str]]:
    """The rows of a table: models trained on small generated queries, used on one of n candidates."""
    small, (query,) = make_diverse(10, 50, seed=1), make_diverse(1, n, seed=2, materialize=False)
    rng = np.random.default_rng(0)
    V, W = rng.random((n, 64)), rng.random((n, 16))
    parts = [cosine_relation(V, "a"), cosine_relation(W, "b"), euclidean_relation(V, "c"), euclidean_relation(W, "d")]
    demand = query.with_parts(relations=Relations([*parts, cosine_relation(V[:, :8], "e")]))
    stored = query.with_parts(relations=demand.relations.materialize())
    rankers = {
        "`MMR`, mean of five relations": MMR(),
        "`XQuAD`": XQuAD(),
        "`PM2`": PM2(),
        "`RLTR`": RLTR().fit(small),
        "`RLTR`, least, mean and largest distances": RLTR(aggregate="all").fit(small),
        "`PAMM`": PAMM(max_iter=2).fit(small),
        "`StructSVMDiv`, the best 50 take part": StructSVMDiv(max_iter=20).fit(small),
        f"`StructSVMDiv`, all {n:,}": StructSVMDiv(candidates=None, max_iter=20).fit(small),
        "`SVMDiv`, the best 50 take part": SVMDiv(max_iter=20).fit(small),
        f"`SVMDiv`, all {n:,}": SVMDiv(candidates=None, max_iter=20).fit(small),
    }
    print(f"\n{'':<44}{'on demand':>10}{'stored':>10}")
    rows = []
    for name, ranker in rankers.items():
        kinds = (demand,) if isinstance(ranker, XQuAD | PM2 | SVMDiv) else (demand, stored)  # those use no relations
        times = [milliseconds(lambda q=q, r=ranker: r.rerank(q, top), repeat) for q in kinds]
        cells = [f"{time:.2f}" for time in times]
        rows.append([name, cells[0], cells[1] if len(cells) > 1 else ""])
        print(f"{name:<44}{rows[-1][1]:>10}{rows[-1][2]:>10}")
    return rows


TOPICS, CANDIDATES = (20, 40, 80, 160), (50, 100, 200, 400)  # one varies while the other is 40 or 100


def training() -> dict[str, dict[tuple[int, int], float]]:
    """Seconds per fit with the default settings: {method: {(topics, candidates): seconds}}."""
    fits = {
        "R-LTR": RLTR(),
        "PAMM, 10 epochs": PAMM(max_iter=10),
        "StructSVM": StructSVMDiv(),
        "SVM-DIV": SVMDiv(),
    }
    for ranker in fits.values():
        ranker.fit(make_diverse(4, 20))
    found: dict[str, dict[tuple[int, int], float]] = {name: {} for name in fits}
    print("\nseconds to train\n" + f"{'topics x candidates':<20}" + "".join(f"{name:>18}" for name in fits))
    for shape in sorted({(topics, 100) for topics in TOPICS} | {(40, candidates) for candidates in CANDIDATES}):
        data = make_diverse(*shape, seed=3)
        for name, ranker in fits.items():
            [found[name][shape]] = seconds_of(partial(ranker.fit, data))
        row = "".join(f"{times[shape]:>18.2f}" for times in found.values())
        print(f"{f'{shape[0]} x {shape[1]}':<20}{row}", flush=True)
    return found


def draw(found: dict[str, dict[tuple[int, int], float]], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
    for name, times in found.items():
        left.plot(TOPICS, [times[topics, 100] for topics in TOPICS], marker="o", label=name)
        right.plot(CANDIDATES, [times[40, candidates] for candidates in CANDIDATES], marker="o")
    for axis, title, ticks in (
        (left, "topics, 100 candidates each", TOPICS),
        (right, "candidates, 40 topics", CANDIDATES),
    ):
        axis.set(xscale="log", yscale="log", xlabel=title)
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    left.set_ylabel("seconds to train")
    left.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
