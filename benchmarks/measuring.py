"""What the benchmarks share: seconds of calls, memory of this process (Linux), and work in a process of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


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


def keep_table(folder: Path, name: str, command: str, header: list[str], rows: list[list[str]]) -> None:
    """Write a table as folder/name.json, from which a page of the documentation takes it."""
    import hingerank as hr

    words = {
        "command": command, "date": datetime.now(UTC).date().isoformat(), "version": hr.__version__, "header": header,
        "rows": rows,
    }  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps(words, indent=1, ensure_ascii=False) + "\n", "utf-8")


def run_apart(script: str, job: dict) -> dict:
    """What `script --worker JOB` prints as JSON, or its error."""
    done = subprocess.run([sys.executable, script, "--worker", json.dumps(job)], capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])
