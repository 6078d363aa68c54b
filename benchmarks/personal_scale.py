"""PersonalRankSVM at scale: seconds per epoch, peak memory against the data held once, linearity, fold-in latency.

    python benchmarks/personal_scale.py [--shape small|movielens-20m|million-users|pairs] [--epochs 3] [--rank 50]

The data have MovieLens 20M's shape (or a part of it): popular and rare items, light and heavy users, half-star ratings
from a low-rank truth with noise, 1,000 sparse features. They are generated, written to a temporary folder, and the fit
runs in a process of its own, so that its peak memory is that of the data and the fit alone. "beyond the libraries" is
the peak less what the process held before it loaded the data.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

# users, items, ratings per user on average, rank unless told otherwise
SHAPES = {
    "small": (14_000, 2_700, 144, 50),
    "tenth": (13_850, 27_278, 144, 50),
    "half": (69_000, 27_278, 144, 50),
    "movielens-20m": (138_493, 27_278, 144, 50),
    "million-users": (1_000_000, 50_000, 20, 20),
}
FEATURES, PER_ITEM, TRUE_RANK = 1_000, 20, 12


def make(folder: Path, n_users: int, n_items: int, mean: int, seed: int = 0) -> int:
    """Write features, users, items and ratings; returns the number of ratings."""
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
    key = users.astype(np.int64) * n_items + items
    key.sort()
    key = key[np.concatenate(([True], key[1:] != key[:-1]))]
    users, items = (key // n_items).astype(np.int32), (key % n_items).astype(np.int32)
    del key
    U, V = rng.standard_normal((FEATURES, TRUE_RANK)), rng.standard_normal((n_users, TRUE_RANK))
    P = X @ U / np.sqrt(PER_ITEM * TRUE_RANK)
    ratings = np.empty(len(users), np.float32)
    for a in range(0, len(users), 1 << 20):
        part = slice(a, a + (1 << 20))
        score = np.einsum("rc,rc->r", P[items[part]], V[users[part]]) + 0.7 * rng.standard_normal(len(users[part]))
        ratings[part] = np.clip(np.round(2 * (3.5 + score)) / 2, 0.5, 5)
    order = rng.permutation(len(users))  # in no order at all, as logs come
    np.save(folder / "users.npy", users[order])
    np.save(folder / "items.npy", items[order])
    np.save(folder / "ratings.npy", ratings[order])
    sp.save_npz(folder / "X.npz", X)
    return len(users)


def resident() -> tuple[float, float]:
    """(memory now, most so far) in MB."""
    text = Path("/proc/self/status").read_text()
    value = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("Vm")}
    return value["VmRSS"], value["VmHWM"]


def fit(folder: Path, rank: int, epochs: int, C: float) -> None:
    """In the child: load, fit, print figures as JSON."""
    from hingerank.rankers.personal.factorization import PersonalRankSVM

    warnings.simplefilter("ignore")
    tiny = np.random.default_rng(0)
    small = sp.csr_matrix(tiny.random((9, 4)))
    one = np.zeros(9, np.int32), np.arange(9, dtype=np.int32), tiny.integers(0, 3, 9).astype(np.float32)
    PersonalRankSVM(rank=2, max_iter=2).fit(small, *one).add_user(7, small, one[2])  # load the compiled kernels
    base = resident()[0]
    users, items, ratings = (np.load(folder / f"{name}.npy") for name in ("users", "items", "ratings"))
    X = sp.load_npz(folder / "X.npz")
    held = sum(a.nbytes for a in (users, items, ratings, X.data, X.indices, X.indptr)) / 2**20
    began, cpu = time.perf_counter(), time.process_time()
    ranker = PersonalRankSVM(rank=rank, C=C, max_iter=epochs, tol=1e-9).fit(X, users, items, ratings)
    total = time.perf_counter() - began
    trace = ranker.trace_
    figures = {
        "ratings": len(users), "pairs": ranker.n_pairs_, "rank": rank, "held_mb": held, "base_mb": base,
        "peak_mb": resident()[1], "times_held": (resident()[1] - base) / held,
        "prepare_s": total - trace[-1]["seconds"], "cpu_s": time.process_time() - cpu,
        "first_epoch_s": trace[0]["seconds"],
        "epoch_s": (trace[-1]["seconds"] - trace[0]["seconds"]) / max(1, len(trace) - 1),
        "train_accuracy": [round(entry["train_accuracy"], 4) for entry in trace], "products": trace[-1]["products"],
    }  # fmt: skip
    began = time.perf_counter()
    rows = ranker.top_k(ranker.users_[:10_000], X, top=10)[0]
    figures["top10_users_per_s"] = len(rows) / (time.perf_counter() - began)
    latency = []
    for new in range(200):
        chosen = tiny.choice(X.shape[0], 20, replace=False)
        began = time.perf_counter()
        ranker.add_user(-1 - new, X[chosen], tiny.integers(1, 6, 20))
        latency.append(time.perf_counter() - began)
    figures["fold_in_ms"] = 1e3 * float(np.median(latency))
    print(json.dumps(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--C", type=float, default=1e-3)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rank = arguments.rank or SHAPES[arguments.shape][3]
    if arguments.folder:
        fit(Path(arguments.folder), rank, arguments.epochs, arguments.C)
        return
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        n = make(Path(folder), *SHAPES[arguments.shape][:3])
        print(f"{arguments.shape}: {n:,} ratings made in {time.perf_counter() - began:.1f} s", flush=True)
        command = [sys.executable, __file__, "--folder", folder, "--shape", arguments.shape, "--rank", str(rank)]
        command += ["--epochs", str(arguments.epochs), "--C", str(arguments.C)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for name, value in json.loads(answer.splitlines()[-1]).items():
            print(f"  {name:18} {value:,.2f}" if isinstance(value, float) else f"  {name:18} {value}")


if __name__ == "__main__":
    main()
