"""The memory of this machine, and how much of it a fit may use to store values that it could also compute again."""

import os
from collections.abc import Iterator
from numbers import Real
from pathlib import Path

from hingerank.data.files import DataError

UNLIMITED = 1e9  # gigabytes
UNKNOWN = 8 * 10**9  # bytes to assume if the system does not say


def memory_budget(gigabytes: float | None) -> int:
    """The budget in bytes: `gigabytes` (10⁹ bytes each), or half of the memory of this machine or container."""
    if gigabytes is None:
        return (machine_memory() or UNKNOWN) // 2
    if not (isinstance(gigabytes, Real) and gigabytes >= 0):
        raise ValueError(f"memory_gb must be a number of gigabytes, 0 or more, not {gigabytes!r}")
    return int(min(float(gigabytes), UNLIMITED) * 1e9)


def machine_memory() -> int | None:
    """The bytes of memory that this process can use: the machine's, or less if a control group limits it.

    None if the system does not say.
    """
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this platform
        return None
    return min([there, *control_group_limits()])


def check_room(wanted: int, what: str, remedy: str) -> None:
    """Raise a DataError if this machine has less memory than the `wanted` bytes. `what` names the data (a plural)."""
    there = machine_memory()
    if there is not None and wanted > there:
        sizes = f"{wanted / 2**30:.1f} GiB, but there are {there / 2**30:.1f} GiB of memory"
        raise DataError(f"{what} take {sizes}: {remedy}")


def control_group_limits(root: Path = Path("/")) -> Iterator[int]:
    """The memory limits in bytes of this process's control groups, from its own up to the top (Linux, v1 and v2).

    A container may show its own group as the top and still name the path outside it. Files that do not exist are
    skipped.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        groups = ["0::/", "1:memory:/"]
    for group in groups:
        _, controllers, place = group.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        top = root / ("sys/fs/cgroup/memory" if controllers else "sys/fs/cgroup")
        parts = [part for part in place.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            file = top.joinpath(*parts[:depth], "memory.limit_in_bytes" if controllers else "memory.max")
            try:
                text = file.read_text("utf-8").strip()
            except OSError:
                continue
            if text.isdigit():
                yield int(text)
