"""What checksums cost: opening a binary folder and reading a Parquet file with and without comparing them.

    python benchmarks/checksums.py --gigabytes 1

The files are in the page cache, so the disk adds nothing.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import hingerank as hr
from hingerank.data.ranking_data import RankingData
from measuring import best_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    options = parser.parse_args()
    rows = int(options.gigabytes * 1e9 / (136 * 4))
    X = np.random.default_rng(0).random((rows, 136), np.float32)
    data = RankingData(X, np.zeros(rows), np.arange(rows) // 100)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("rows", "rows.parquet"):
            path = Path(folder) / name
            hr.write(data, path)
            hr.read(path)
            read = partial(hr.read, path)
            checked, unchecked = (best_of(partial(read, verify=verify))[0] for verify in (True, False))
            size = options.gigabytes
            print(f"{name:14} {size:g} GB: {checked:.2f} s with checksums compared, {unchecked:.2f} s without")


if __name__ == "__main__":
    main()
