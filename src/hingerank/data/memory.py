"""How much memory there is, and how much of it a fit may take for what it could also compute again."""

import os
from collections.abc import Iterator
from numbers import Real
from pathlib import Path

from hingerank.data.files import DataError

UNLIMITED = 1e9  # gigabytes
UNKNOWN = 8 * 10**9  # bytes to assume where the system does not say


def memory_budget(gigabytes: float | None) -> int:
    """Bytes: the gigabytes (10⁹) given, or half of what this machine, or the container around it, has."""
    if gigabytes is None:
        return (machine_memory() or UNKNOWN) // 2
    if not (isinstance(gigabytes, Real) and gigabytes >= 0):
        raise ValueError(f"memory_gb must be a number of gigabytes, 0 or more, not {gigabytes!r}")
    return int(min(float(gigabytes), UNLIMITED) * 1e9)


def machine_memory() -> int | None:
    """Bytes of memory that this process may expect to get: the machine's, or less where a control group limits it.

    None where the system does not say.
    """
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this platform
        return None
    return min([there, *control_group_limits()])


def check_room(wanted: int, what: str, remedy: str) -> None:
    """Raise a DataError if this machine lacks the bytes that `what` needs."""
    there = machine_memory()
    if there is not None and wanted > there:
        sizes = f"{wanted / 2**30:.1f} GiB, but there are {there / 2**30:.1f} GiB of memory"
        raise DataError(f"{what} take {sizes}: {remedy}")


def control_group_limits(root: Path = Path("/")) -> Iterator[int]:
    """The limits in bytes of the control groups around this process, from its own up to the top (Linux, v1 and v2).

    A container may show its own group as the top and yet name the path outside: what is not there is passed over.
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
