"""Fits on a folder larger than memory, under a real limit: seconds, what was read, and memory beside the mapping.

    python benchmarks/larger_than_memory.py --gb 6 --limit 2 [--folder FOLDER] [--parts N] [--write docs/results]

The limit is a control group's where one can be made (Linux, as root; version 1 or 2), else none and only the resident
size is measured. The file is read from front to back before and after the fits, under the same limit; "times reading"
is the seconds of a fit over those of reading the same bytes at that speed. "estimated" is what the fit says beforehand
that it takes at most. --parts reads the folder as that many parts of one process (`hingerank.distributed.read`) instead
of one mapped file. The folder is made, and removed at the end unless --keep; --write keeps the table, which
docs/scale.md shows (`hingerank reproduce --write-docs`). Some minutes a gigabyte.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measuring import keep_table

FEATURES, ROWS_PER_QUERY, ROWS_AT_ONCE = 136, 100, 200_000

CASES = {
    "`RankSVM`": ("RankSVM", {}),
    "`RankSVM`, standard": ("RankSVM", {"scale": "standard"}),
    "`RankSVM`, query-minmax": ("RankSVM", {"scale": "query-minmax"}),
    "`RankSVM`, query-standard": ("RankSVM", {"scale": "query-standard"}),
    "`RankSVM`, hinge, standard": ("RankSVM", {"loss": "hinge", "scale": "standard", "C": 1e-4, "tol": 1e-2}),
    "`FenchelRank`, standard": ("FenchelRank", {"radius": 1.0, "scale": "standard", "tol": 1e-2}),
    "`SparseRankSVM`, standard": ("SparseRankSVM", {"scale": "standard", "C": 10.0, "tol": 1e-2}),
    "`RankNet`, standard": ("RankNet", {"scale": "standard"}),
    "`ListNet`, standard": ("ListNet", {"scale": "standard"}),
    "`RankRLS`, standard": ("RankRLS", {"scale": "standard"}),
    "`CRR`, standard": ("CRR", {"scale": "standard"}),
    "`FourierRankSVM`, 64 features": ("FourierRankSVM", {"n_components": 64, "gamma": 0.01, "scale": "standard"}),
}


def generate(folder: Path, gigabytes: float) -> None:
    """Graded rows of float32 whose columns differ in scale, written part by part."""
    import numpy as np

    from hingerank.data.binary import save_binary
    from hingerank.data.ranking_data import RankingData

    rows, rng = int(gigabytes * 1e9 / (4 * FEATURES)) // ROWS_AT_ONCE * ROWS_AT_ONCE, np.random.default_rng(0)
    w, width = rng.normal(size=FEATURES).astype(np.float32), np.exp(rng.normal(size=FEATURES)).astype(np.float32)

    def parts() -> Iterator[RankingData]:
        for first in range(0, rows, ROWS_AT_ONCE):
            X = rng.standard_normal((ROWS_AT_ONCE, FEATURES), np.float32)
            s = X @ w + 4 * rng.standard_normal(ROWS_AT_ONCE, np.float32)
            y = np.digitize(s, [0.0, 10.0, 20.0]).astype(np.float64)
            yield RankingData(X * width, y, np.arange(first, first + ROWS_AT_ONCE) // ROWS_PER_QUERY)

    save_binary(parts(), folder)


@contextmanager
def control_group(limit: int) -> Iterator[Path | None]:
    """A control group with this limit of memory in bytes, None where it cannot be made."""
    name = f"hingerank{os.getpid()}"
    for top, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(top) / name
        try:
            group.mkdir()
            (group / file).write_text(str(limit))
        except OSError:
            with_rest = group.is_dir()
            if with_rest:
                group.rmdir()
            continue
        try:
            yield group
        finally:
            time.sleep(0.5)
            group.rmdir()
        return
    yield None


def drop(folder: Path) -> None:
    """Let the system forget what it holds of the files: what others have read would not count in the group."""
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def within(group: Path | None, folder: Path, *child: str) -> dict:
    """What a child of this program prints, run inside the group on a file that nobody has read yet."""
    drop(folder)
    arguments = ["--folder", str(folder), "--child", *child]
    command = [sys.executable, __file__, *arguments, *([] if group is None else ["--group", str(group)])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"problem": f"ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"}
    return json.loads(done.stdout)


def read_once(folder: Path) -> dict:
    """Seconds to read the features from front to back, as fast as the disk gives them under the limit."""
    started, buffer = time.perf_counter(), bytearray(1 << 22)
    with open(folder / "X.npy", "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return {"seconds": time.perf_counter() - started, "bytes": os.path.getsize(folder / "X.npy")}


def fit(folder: Path, case: str, parts: int) -> dict:
    """Fit, and watch the process' own memory meanwhile; parts: to read the folder in, 0 for one mapped file."""
    import threading
    import warnings

    import hingerank as hr
    from hingerank.data.rows_view import expected_bytes

    warnings.simplefilter("ignore")
    small = hr.make_letor(20, 10, FEATURES)
    name, settings = CASES[case]
    ranker = getattr(hr, name)(**settings)
    ranker.fit(small)  # compiled kernels are loaded
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], figure("/proc/self/status", "RssAnon:"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    before, started = figure("/proc/self/io", "read_bytes:"), time.perf_counter()
    plain = {"verify": False}
    data = hr.distributed.read(folder, parts=parts, **plain) if parts else hr.read(folder, **plain)
    ranker.fit(data)
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    return {
        "seconds": seconds,
        "read": figure("/proc/self/io", "read_bytes:") - before,
        "peak": peak[0] * 1024,
        "estimated": expected_bytes(data.n_rows, data.n_features, ROWS_PER_QUERY, ranker._bytes_a_row),
        "objective": ranker.objective_,
        "status": ranker.certificate_.status,
        "gap": ranker.certificate_.value,
    }


def figure(file: str, name: str) -> int:
    return next(int(line.split()[1]) for line in Path(file).read_text().splitlines() if line.startswith(name))


def table(reads: list[dict], fits: dict[str, dict]) -> tuple[list[str], list[list[str]]]:
    """Header and rows, the first about reading alone, at the mean speed of the readings."""
    size, once = reads[0]["bytes"], sum(read["seconds"] for read in reads) / len(reads)
    header = ["", "seconds", "GB read", "readings", "times reading", "gap", "peak MB beside the file", "estimated MB"]
    rows = [["reading the file", f"{once:.1f}", f"{size / 1e9:.2f}", "1", "1", "–", "–", "–"]]
    for case, found in fits.items():
        if "problem" in found:
            rows.append([case, found["problem"], *["–"] * 6])
            continue
        readings = found["read"] / size
        ratio = found["seconds"] / max(once * readings, 1e-9)
        rows.append([
            case, f"{found['seconds']:.0f}", f"{found['read'] / 1e9:.1f}", f"{readings:.1f}", f"{ratio:.1f}",
            f"{found['gap']:.0e}", f"{found['peak'] / 1e6:.0f}", f"{found['estimated'] / 1e6:.0f}",
        ])  # fmt: skip
    return header, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=6.0)
    parser.add_argument("--limit", type=float, default=2.0, help="gigabytes")
    parser.add_argument("--folder", type=Path, default=Path("large_data"))
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--parts", type=int, default=0, help="of one process, instead of one mapped file")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--write", type=Path, help="folder to keep the table in, such as docs/results")
    parser.add_argument("--child", choices=["read", "fit"])
    parser.add_argument("--case")
    parser.add_argument("--group", type=Path)
    asked = parser.parse_args()
    if asked.child:
        if asked.group is not None:
            (asked.group / "cgroup.procs").write_text(str(os.getpid()))
        print(
            json.dumps(read_once(asked.folder) if asked.child == "read" else fit(asked.folder, asked.case, asked.parts))
        )
        return
    if not asked.folder.exists():
        generate(asked.folder, asked.gb)
    with control_group(int(asked.limit * 1e9)) as group:
        what = f"{asked.limit:g} GB by a control group" if group else "none could be set; resident size measured"
        print(f"limit: {what}", flush=True)
        reads, fits = [within(group, asked.folder, "read")], {}
        for case in asked.cases:
            fits[case] = within(group, asked.folder, "fit", "--case", case, "--parts", str(asked.parts))
            print(f"{case}: {fits[case]}", flush=True)
        reads.append(within(group, asked.folder, "read"))
    header, rows = table(reads, fits)
    for row in [header, ["---"] * len(header), *rows]:
        print(f"| {' | '.join(row)} |")
    if asked.write:
        name = "scale-memory" if asked.gb >= 1 else "scale-memory-small"
        command = f"python benchmarks/larger_than_memory.py --gb {asked.gb:g} --limit {asked.limit:g}"
        keep_table(asked.write, name, command, header, rows)
    if not asked.keep:
        shutil.rmtree(asked.folder)


if __name__ == "__main__":
    main()
