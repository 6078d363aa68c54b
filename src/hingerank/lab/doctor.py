"""`hingerank doctor`: the parts of this installation, what the optional ones are for, and what is wrong with it."""

import os
import platform
import re
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from hingerank import __version__
from hingerank.arrays import Facts

GIVES = {  # extra of pyproject.toml -> what is possible with it
    "report": "plots of curves, paths and multipliers",
    "frames": "data frames, CSV, Parquet and Feather files",
    "zstd": "text compressed with zstandard (.zst)",
    "trees": "LightGBM and XGBoost rankers",
    "dask": "fits on a cluster (fit --dask)",
    "onnx": "ONNX exports, and their check",
    "search": "settings proposed by Optuna (compare --search optuna)",
    "gpu": "fits on an NVIDIA GPU (device='cuda')",
}
ALSO = {"xgboost": "xgboost-cpu"}  # a distribution -> another one with the same module
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?\s*(?:>=([\d.]+))?(?:.*extra == ['\"](\w+)['\"])?")


def examine() -> Facts:
    """Versions, threads, caches, the GPU, libraries and optional parts, and the problems found."""
    from hingerank.data.fetching import cache_folder
    from hingerank.kernels.threads import thread_count

    problems: list[str] = []
    threads = None
    try:
        threads = thread_count()
    except ValueError as error:
        problems.append(str(error))
    found = {
        "hingerank": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": threads,
        "cores": os.cpu_count(),
        "kernels": _kernels(problems),
        "data_sets": str(cache_folder()),
        "gpu": _gpu(),
    }
    wanted = _requirements(problems)
    libraries = [_library(*one) for one in wanted.get("", [])]
    problems += [_wanting(one) for one in libraries if not one["fits"]]
    parts = []
    for extra, gives in GIVES.items():
        members = [_library(*one) for one in wanted.get(extra, [])]
        old = [one for one in members if one["installed"] and not one["fits"]]
        problems += [f"{_wanting(one)[:-1]}, which {extra!r} needs)" for one in old]
        there = bool(members) and all(one["fits"] for one in members)
        parts.append({"part": extra, "installed": there, "libraries": members, "gives": gives})
    return {**found, "libraries": libraries, "parts": parts, "problems": problems}


def _requirements(problems: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Extra ("" for what is always needed) -> (distribution, lowest version)."""
    try:
        lines = metadata.requires("hingerank") or []
    except metadata.PackageNotFoundError:
        problems.append("hingerank can be imported but is not installed: pip install hingerank")
        return {}
    found: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        if (match := REQUIREMENT.match(line)) is not None:
            found.setdefault(match[3] or "", []).append((match[1], match[2] or "0"))
    return found


def _library(name: str, lowest: str) -> Facts:
    """A distribution: its version here, or None, the lowest that will do, and whether it does."""
    version = None
    for distribution in filter(None, (ALSO.get(name), name)):
        with suppress(metadata.PackageNotFoundError):
            version = metadata.version(distribution)
    fits = version is not None and _numbers(version) >= _numbers(lowest)
    return {"name": name, "installed": version, "lowest": lowest, "fits": fits}


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part]  # type: ignore[index]


def _wanting(library: Facts) -> str:
    name, here, lowest = library["name"], library["installed"], library["lowest"]
    return f"{name} {here or 'is missing'} (needed: {lowest} or newer)"


def _kernels(problems: list[str]) -> Facts:
    """Where compiled kernels are kept, how many files there are, and their size."""
    from hingerank.kernels.order import order_by_code

    try:
        place = order_by_code.compiled.stats.cache_path
    except ValueError as error:
        problems.append(str(error))
        place = None
    if place is None:
        problems.append("compiled kernels cannot be kept: set NUMBA_CACHE_DIR to a folder that can be written")
        return {"folder": None, "files": 0, "bytes": 0}
    folder = Path(place)
    top = folder.parents[1] if folder.name == "__pycache__" else folder.parent  # one folder a module, or a room
    files = [path.stat().st_size for path in top.rglob("*.nb[ic]")]
    return {"folder": str(top), "files": len(files), "bytes": sum(files)}


def _gpu() -> str:
    """The GPU that PyTorch sees, or what is missing."""
    if find_spec("torch") is None:
        return "not used: PyTorch is not installed"
    import torch

    if not torch.cuda.is_available():
        return f"not used: PyTorch {torch.__version__} sees no NVIDIA GPU"
    size = torch.cuda.get_device_properties(0).total_memory / 1e9
    return f"{torch.cuda.get_device_name(0)}, {size:.0f} GB, PyTorch {torch.__version__}"
