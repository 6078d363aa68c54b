"""How much memory a fit may take for what it could also compute again."""

import os
from numbers import Real
from pathlib import Path

UNLIMITED = 1e9  # gigabytes
LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_budget(gigabytes: float | None) -> int:
    """Bytes: the gigabytes (10⁹) given, or half of what this machine, or the container around it, has."""
    if gigabytes is None:
        return machine_memory() // 2
    if not (isinstance(gigabytes, Real) and gigabytes >= 0):
        raise ValueError(f"memory_gb must be a number of gigabytes, 0 or more, not {gigabytes!r}")
    return int(min(float(gigabytes), UNLIMITED) * 1e9)


def machine_memory() -> int:
    """Bytes of memory that this process may expect to get."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return 8 * 10**9
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in LIMIT_FILES:
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return min(found)
