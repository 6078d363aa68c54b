"""Which software computed a result."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def versions() -> dict[str, str]:
    """Versions of Python, this package and the libraries that results can depend on."""
    import hingerank

    found = {"python": platform.python_version(), "hingerank": hingerank.__version__}
    for name in ("numpy", "scipy", "numba", "scikit-learn", "lightgbm", "xgboost"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int]:
    """What computed: operating system, processor architecture and number of cores."""
    from hingerank.kernels.threads import thread_count

    return {"system": platform.system(), "machine": platform.machine(), "cores": thread_count()}
