"""`hingerank recommend --all` for 200,000 users and 50,000 items: seconds and peak memory of the command.

    python benchmarks/personal_recommend.py [--users 200000] [--items 50000] [--per-user 20] [--rank 20] [--write DIR]

Ratings are generated (uniform items, 1 to 5 stars at random, 200 sparse features, 8 an item): lists of such a model
mean nothing, but take as long as any. The model is fitted for two epochs, then the command runs in a process of its
own, once without and once with --exclude, which reads the ratings again. --write keeps the table as
personal-recommend.json there (docs/results).
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

import hingerank as hr
from hingerank.personal.catalogue import Catalogue
from measuring import keep_table

FEATURES, PER_ITEM = 200, 8


def make(folder: Path, n_users: int, n_items: int, per_user: int, rank: int) -> int:
    """Write ratings and the model; the number of ratings."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, FEATURES, (n_items, PER_ITEM)), axis=1)
    X = sp.csr_matrix((np.ones(columns.size), columns.ravel(), np.arange(n_items + 1) * PER_ITEM), (n_items, FEATURES))
    X.sum_duplicates()
    key = np.unique(np.repeat(np.arange(n_users), per_user) * n_items + rng.integers(0, n_items, n_users * per_user))
    users, items, ratings = key // n_items, key % n_items, rng.integers(1, 6, len(key))
    warnings.simplefilter("ignore")
    ranker = hr.PersonalRankSVM(rank=rank, prior=0.0, max_iter=2).fit(X, users, items, ratings)
    ranker.save(str(folder / "model") + "/")
    Catalogue(np.arange(n_items), X, [f"f{j + 1}" for j in range(FEATURES)]).save(folder / "model")
    pq.write_table(pa.table({"user": users, "item": items, "rating": ratings}), folder / "ratings.parquet")
    return len(key)


def command(folder: Path, *more: str) -> dict[str, Any]:
    """Run it in a child; wall seconds, processor seconds, peak memory in MB, lines written."""
    output = folder / "recs.parquet"
    words = [
        sys.executable,
        __file__,
        "--run",
        str(folder / "model"),
        "--all",
        "--top",
        "10",
        "--force",
        "-o",
        str(output),
    ]
    began = time.perf_counter()
    answer = subprocess.run([*words, *more], check=True, capture_output=True, text=True).stdout
    found = json.loads(answer.splitlines()[-1])
    return found | {"seconds": time.perf_counter() - began, "lines": pq.read_metadata(output).num_rows}


def run(arguments: list[str]) -> None:
    """In the child: the command, then its peak memory."""
    from hingerank.cli import main as hingerank

    status = hingerank(["recommend", *arguments])
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"peak_mb": used.ru_maxrss / 1024, "cpu_s": used.ru_utime + used.ru_stime}))
    raise SystemExit(status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("users", 200_000), ("items", 50_000), ("per-user", 20), ("rank", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        n_ratings = make(folder, asked.users, asked.items, asked.per_user, asked.rank)
        print(f"fitted to {n_ratings:,} generated ratings", flush=True)
        for name, more in (("all items", []), ("without rated items", ["--exclude", str(folder / "ratings.parquet")])):
            found = command(folder, *more)
            print(name, found, flush=True)
            shown = f"{found['cpu_s']:.0f}", f"{found['peak_mb']:,.0f}"
            rows.append([name, f"{asked.users:,}", f"{asked.items:,}", *shown, f"{found['lines']:,}"])
    if asked.write:
        header = ["lists of ten", "users", "items", "processor seconds", "peak memory, MB", "lines written"]
        keep_table(asked.write, "personal-recommend", "python benchmarks/personal_recommend.py", header, rows)


if __name__ == "__main__":
    if "--run" in sys.argv:
        run(sys.argv[2:])
    main()
