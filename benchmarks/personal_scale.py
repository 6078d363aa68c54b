"""PersonalRankSVM at scale: processor seconds an epoch, peak memory against the data held once, lists, adding a user.

    python benchmarks/personal_scale.py [movielens-20m] [--write FOLDER]

A shape is MovieLens 20M, a quarter or half of its users, million-users, or pairs, which are comparisons in place of
ratings; without one those are run that are not kept yet (docs/reproductions/runs). --write keeps the table of all as
personal-scale.json there (docs/results).

The data have MovieLens 20M's shape (or a part of it): popular and rare items, light and heavy users, half-star ratings
from a low-rank truth with noise, 1,000 sparse features. They are generated, written to a temporary folder, and the fit
runs in a process of its own, so that its peak memory is that of the data and the fit alone. "times_held" is the peak,
less what the process held before it loaded the data, over the size of the ratings (or comparisons) and features. All
seconds are of the processor, over all threads: other work on the machine disturbs them least.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.files import write_whole
from measuring import REUSED, keep_table, resident

# users, items, ratings (comparisons) per user on average, rank unless an option says otherwise; name in the table
SHAPES = {
    "quarter": (34_623, 27_278, 144, 50, "a quarter of the users"),
    "half": (69_246, 27_278, 144, 50, "half of them"),
    "movielens-20m": (138_493, 27_278, 144, 50, "all"),
    "million-users": (1_000_000, 50_000, 20, 20, "1,000,000 users, 50,000 items, rank 20"),
    "pairs": (138_493, 27_278, 144, 50, "all, as listed comparisons"),
}
KEPT = Path("docs/reproductions/runs/personal-scale")
FEATURES, PER_ITEM, TRUE_RANK = 1_000, 20, 12


def make(folder: Path, n_users: int, n_items: int, mean: int, pairs: bool, seed: int = 0) -> None:
    """Write features, and users, items, ratings or users, winners, losers."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, FEATURES, (n_items, PER_ITEM)), axis=1)
    X = sp.csr_matrix((np.ones(n_items * PER_ITEM), columns.ravel(), np.arange(n_items + 1) * PER_ITEM))
    X.resize(n_items, FEATURES)
    X.sum_duplicates()
    X.data[:] = 1.0
    spread = rng.lognormal(0, 1.0, n_users)
    counts = np.clip(np.round(spread / spread.mean() * 1.13 * mean), min(20, mean // 2), n_items // 3).astype(np.int64)
    popularity = np.cumsum(1.0 / np.arange(1, n_items + 1) ** 0.7)
    users = np.repeat(np.arange(n_users, dtype=np.int32), counts)
    items = np.searchsorted(popularity, rng.random(len(users)) * popularity[-1]).astype(np.int32)
    del counts
    U, V = rng.standard_normal((FEATURES, TRUE_RANK)), rng.standard_normal((n_users, TRUE_RANK))
    P = X @ U / np.sqrt(PER_ITEM * TRUE_RANK)
    sp.save_npz(folder / "X.npz", X)
    if pairs:
        others = np.searchsorted(popularity, rng.random(len(users)) * popularity[-1]).astype(np.int32)
        kept = items != others
        users, items, others = users[kept], items[kept], others[kept]
        wins = noisy(P, V, users, items, rng) > noisy(P, V, users, others, rng)
        winners, losers = np.where(wins, items, others), np.where(wins, others, items)
        save(folder, rng, users=users, winners=winners, losers=losers)
        return
    key = users.astype(np.int64) * n_items + items
    key.sort()
    key = key[np.concatenate(([True], key[1:] != key[:-1]))]
    users, items = (key // n_items).astype(np.int32), (key % n_items).astype(np.int32)
    del key
    ratings = np.clip(np.round(2 * (3.5 + noisy(P, V, users, items, rng))) / 2, 0.5, 5).astype(np.float32)
    save(folder, rng, users=users, items=items, ratings=ratings)


def noisy(P: np.ndarray, V: np.ndarray, users: np.ndarray, items: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The true scores of rows, and noise."""
    scores = np.empty(len(users), np.float32)
    for a in range(0, len(users), 1 << 20):
        part = slice(a, a + (1 << 20))
        scores[part] = np.einsum("rc,rc->r", P[items[part]], V[users[part]])
        scores[part] += 0.7 * rng.standard_normal(len(users[part]))
    return scores


def save(folder: Path, rng: np.random.Generator, **columns: np.ndarray) -> None:
    """Columns in no order at all, as logs come; their names as a file too."""
    order = rng.permutation(len(columns["users"]))
    for name, column in columns.items():
        np.save(folder / f"{name}.npy", column[order])
    (folder / "columns.json").write_text(json.dumps(list(columns)))


def fit(folder: Path, rank: int, epochs: int, C: float) -> None:
    """In the child: load, fit, print figures as JSON."""
    from hingerank.personal.factorized import PersonalRankSVM

    warnings.simplefilter("ignore")
    names = json.loads((folder / "columns.json").read_text())
    learn = PersonalRankSVM.fit if names[-1] == "ratings" else PersonalRankSVM.fit_pairs
    warm_up(learn)
    base = resident() / 2**20
    columns = [np.load(folder / f"{name}.npy") for name in names]
    X = sp.load_npz(folder / "X.npz")
    held = sum(a.nbytes for a in (*columns, X.data, X.indices, X.indptr)) / 2**20
    began, epochs_end = time.process_time(), []
    ranker = PersonalRankSVM(
        rank=rank, C=C, max_iter=epochs, tol=1e-9, callback=lambda entry: epochs_end.append(time.process_time())
    )
    learn(ranker, X, *columns)
    seconds, peak = time.process_time() - began, resident("VmHWM") / 2**20
    figures = {
        names[-1]: len(columns[0]), "pairs": ranker.n_pairs_, "rank": rank, "held_mb": held, "base_mb": base,
        "peak_mb": peak, "times_held": (peak - base) / held, "seconds": seconds,
        "epoch_s": (epochs_end[-1] - epochs_end[0]) / max(1, len(epochs_end) - 1),
        "train_accuracy": [round(entry["train_accuracy"], 4) for entry in ranker.trace_],
    }  # fmt: skip
    print(json.dumps(figures | serving(ranker, X)))


def warm_up(learn: Callable[..., Any]) -> None:
    """Load the compiled kernels."""
    from hingerank.personal.factorized import PersonalRankSVM

    rng = np.random.default_rng(0)
    X, users = sp.csr_matrix(rng.random((9, 4))), np.zeros(8, np.int32)
    third = np.arange(1, 9, dtype=np.int32 if learn is PersonalRankSVM.fit_pairs else np.float32)
    ranker = learn(PersonalRankSVM(rank=2, max_iter=2), X, users, np.arange(8, dtype=np.int32), third)
    ranker.add_user(7, X, np.arange(9))
    ranker.top_k([7], X)


def serving(ranker: Any, X: Any) -> dict[str, float]:
    """Lists of the best ten per second, and the median time to add a user by 20 ratings."""
    began = time.process_time()
    rows = ranker.top_k(ranker.users_[:10_000], X, top=10)[0]
    lists = len(rows) / (time.process_time() - began)
    rng, latency = np.random.default_rng(0), []
    for new in range(200):
        chosen, ratings = rng.choice(X.shape[0], 20, replace=False), rng.integers(1, 6, 20)
        began = time.process_time()
        ranker.add_user(-1 - new, X[chosen], ratings)
        latency.append(time.process_time() - began)
    return {"top10_users_per_s": lists, "fold_in_ms": 1e3 * float(np.median(latency))}


def run(shape: str, rank: int, epochs: int, C: float) -> dict[str, Any]:
    """Make the data, fit in a child, answer its figures."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, shape, "--make", folder], check=True)
        command = [sys.executable, __file__, shape, "--fit", folder, "--rank", str(rank)]
        command += ["--epochs", str(epochs), "--C", str(C)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(answer.splitlines()[-1])


def table(write: Path | None) -> None:
    """The fastest runs so far."""
    header = ["users", "ratings or comparisons", "pairs", "processor seconds an epoch", "peak memory, times the data",
              "lists of ten per second", "adding a user, ms"]  # fmt: skip
    rows = []
    for shape, (*_, name) in SHAPES.items():
        f = json.loads((KEPT / f"{shape}.json").read_text())
        millions = f.get("ratings", f.get("losers")) / 1e6
        of_fit = f"{f['pairs'] / 1e6:,.0f} M", f"{f['epoch_s']:.1f}", f"{f['times_held']:.2f}"
        rows.append([name, f"{millions:.1f} M", *of_fit, f"{f['top10_users_per_s']:,.0f}", f"{f['fold_in_ms']:.2f}"])
        print("| " + " | ".join(rows[-1]) + " |")
    if write:
        keep_table(write, "personal-scale", "python benchmarks/personal_scale.py", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=list(SHAPES), nargs="?")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--C", type=float, default=1e-3)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    if arguments.make:
        *size, _, _ = SHAPES[arguments.shape]
        make(arguments.make, *size, pairs=arguments.shape == "pairs")
        return
    if arguments.fit:
        fit(arguments.fit, arguments.rank, arguments.epochs, arguments.C)
        return
    missing = [shape for shape in SHAPES if not (KEPT / f"{shape}.json").exists()]
    REUSED.extend(shape for shape in SHAPES if shape not in missing)
    for shape in [arguments.shape] if arguments.shape else missing:
        found = run(shape, arguments.rank or SHAPES[shape][3], arguments.epochs, arguments.C)
        file = KEPT / f"{shape}.json"  # of the fastest run so far
        if not file.exists() or json.loads(file.read_text())["seconds"] > found["seconds"]:
            write_whole(file, json.dumps(found).encode())
        print(shape)
        for name, value in found.items():
            print(f"  {name:18} {value:,.2f}" if isinstance(value, float) else f"  {name:18} {value}")
    if arguments.shape is None:
        table(arguments.write)


if __name__ == "__main__":
    main()
