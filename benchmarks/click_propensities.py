"""Propensities of the Yandex sample by EM and by AllPairs: how far apart they are, and how sure.

    python benchmarks/click_propensities.py
    python benchmarks/click_propensities.py --write docs/results    the same, stored

"500 steps" is EM that is stopped there, without leaps: not at its end. Intervals are of 200 resampled logs; that of the
difference is of the differences on the same logs.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

import hingerank as hr
from hingerank.clicks.counting import group_by
from hingerank.kernels.clicks import product_step
from measuring import keep_table

DATA = Path(os.environ.get("HINGERANK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def stopped(log: hr.ClickLog, steps: int) -> np.ndarray:
    """Propensities after so many plain steps of EM."""
    cells = log.cells()
    pair, size = group_by([cells.query, cells.document]).number, log.n_places
    slot = np.asarray(cells.place, np.int64) - 1
    n, c = np.asarray(cells.showings, np.float64), np.asarray(cells.clicks, np.float64)
    shown = np.concatenate([np.bincount(slot, n, size), np.bincount(pair, n)])
    x, new = np.full(len(shown), 0.5), np.empty(len(shown))
    for _ in range(steps):
        product_step(slot, pair, n, c, size, x, shown, 0.0, 0.0, new)
        x, new = new, x
    return x[:size] / x[0]


def _ends(draws: np.ndarray) -> list[str]:
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    return [f"{a:.3f} to {b:.3f}" for a, b in zip(low, high)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    log = hr.read_clicks(DATA / "clicks" / "yandex-sessions.txt.xz")
    hr.propensities(log, "em")  # loads what is compiled
    start = time.perf_counter()
    em = hr.propensities(log, "em")
    print(f"EM: {em.about['iterations']} steps, {time.perf_counter() - start:.2f} s, ended: {em.about['converged']}")
    pairs, early = hr.propensities(log, "all-pairs"), stopped(log, 500)
    first, second = (each.resampled(arguments.rounds) for each in (em, pairs))
    header = ["place", "EM", "interval", "EM, 500 steps", "AllPairs", "interval", "difference", "interval"]
    columns = [
        [str(k) for k in em.places], [f"{v:.4f}" for v in em.values], _ends(first), [f"{v:.4f}" for v in early],
        [f"{v:.4f}" for v in pairs.values], _ends(second), [f"{v:+.4f}" for v in em.values - pairs.values],
        _ends(first - second),
    ]  # fmt: skip
    rows = [list(row) for row in zip(*columns)][1:]
    for row in rows:
        print(*row, sep="  ")
    if arguments.write:
        keep_table(arguments.write, "click-propensities", "python benchmarks/click_propensities.py", header, rows)


if __name__ == "__main__":
    main()
