"""What the benchmarks share: seconds of calls, memory of this process (Linux), work in a process of its own, tables."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

STARTED = time.perf_counter()
REUSED: list[str] = []  # what an earlier run of the script did
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"  # real sets beside the checkout
if BESIDE.is_dir():
    os.environ.setdefault("HINGERANK_DATA", str(BESIDE))


def default_data() -> Path:
    """$HINGERANK_DATA, else the sets beside the checkout, else where `hingerank fetch` keeps them."""
    from hingerank.papers.engine import default_data

    return default_data()


def seconds_of(call: Callable[[], Any], repeat: int = 1) -> list[float]:
    """Wall seconds of each of `repeat` calls."""
    taken = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


def best_of(call: Callable[[], Any], repeat: int = 3) -> tuple[float, Any]:
    """The least seconds of `repeat` calls after one that is not timed, and that one's answer."""
    answer = call()
    return min(seconds_of(call, repeat)), answer


def resident(kind: str = "VmRSS") -> int:
    """Bytes of this process: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) * 1024


def reset_peak() -> None:
    """Let the kernel forget the peak so far."""
    Path("/proc/self/clear_refs").write_text("5")


def machine_class(device: str = "") -> str:
    """Cores, memory and system of this machine, and the name of a GPU that took part."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if sys.platform != "win32" else 0
    parts = [device, f"{os.cpu_count()} cores", f"{pages / 2**30:.0f} GB" if pages else ""]
    return ", ".join([*filter(None, parts), f"{platform.system()} {platform.machine()}"])


def keep_table(
    folder: Path, name: str, command: str, header: list[str], rows: list[list[str]], device: str = ""
) -> None:
    """Write a table as folder/name.json, from which a page of the documentation takes it.

    With it go the version, the date, the class of the machine, and the seconds since the script began, from which
    `make bench` knows what fits into its time; no seconds if some of the work was done by an earlier run.
    """
    import hingerank as hr

    words = {
        "command": command, "date": datetime.now(UTC).date().isoformat(), "version": hr.__version__,
        "machine": machine_class(device), "seconds": round(time.perf_counter() - STARTED),
        "header": header, "rows": rows,
    }  # fmt: skip
    if REUSED:
        del words["seconds"]
    path = folder / f"{name}.json"
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    more = {key: before[key] for key in ("align", "zero") if key in before}  # how the page shows it
    write_table(path, words | more)


def show_table(
    name: str, command: str, header: list[str], rows: list[list[str]], title: str = "", write: Path | None = None
) -> None:
    """Print a table, and keep it in the folder `write`."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=150).print(table)
    if write is not None:
        keep_table(write, name, command, header, rows)


def write_table(path: Path, words: dict[str, Any]) -> None:
    """Write what is known of a table as JSON, a row a line."""
    text = json.dumps({**words, "rows": 0}, indent=1, ensure_ascii=False)
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in words["rows"])
    path.write_text(text.replace('"rows": 0', f'"rows": [\n{lines}\n ]') + "\n", "utf-8")


def kept(place: Any, run: str, name: str, compute: Callable[[], Any]) -> Any:
    """As `hingerank.papers.engine.kept`, noting whether an earlier run did the work."""
    from hingerank.papers.engine import kept

    if is_kept(place, run, name):
        REUSED.append(name)
    return kept(place, run, name, compute)


def is_kept(place: Any, run: str, name: str) -> bool:
    """Whether `hingerank.papers.engine.kept` has this already."""
    from hingerank.papers.engine import kept

    def missing() -> None:
        raise LookupError

    try:
        kept(place, run, name, missing)
    except LookupError:
        return False
    return True


def run_apart(script: str, job: dict) -> dict:
    """What `script --worker JOB` prints as JSON, or its error."""
    done = subprocess.run([sys.executable, script, "--worker", json.dumps(job)], capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])
