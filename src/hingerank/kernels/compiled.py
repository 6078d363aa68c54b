"""How kernels are compiled, and kept on disk for the next process.

Decorators:

``kernel``  what Python calls, and no other kernel. It lets go of the GIL and its machine code is kept on disk.
``inner``   a helper of kernels. It becomes a part of each kernel that calls it and is never kept by itself; called
            from Python it runs as plain Python.
``chosen``  an `inner` whose body is chosen by the types of its arguments: the seam between dense and sparse rows.

and ``with_room`` for a plain function that makes the arrays a kernel needs, and calls it.

All of it is numba's ``njit(cache=True, nogil=True)``. Where numba's version is one that was tested (`numba_inside`),
helpers are compiled a quarter faster, kept code has a checksum, and curves are looked up by vector instructions; with
any other version, or with HINGERANK_NUMBA=plain, the plain road is taken. ``benchmarks/startup.py`` measures both.

What compiling costs was measured, and shapes the code: an assignment of one slice to another, or `numpy.sort`, costs
as much as a hundred lines of loops; a function that Python can call costs a wrapper that takes its arguments apart; a
whole number written as a literal argument of a `kernel` makes a second version of it; counting references to arrays
costs a fifth, and Python's collector of reference circles, which rests meanwhile, another. So, unless they say
``allocates=True``, kernels make no arrays, which numba checks, and do not count references. They must then neither
return an array nor call what makes one.
"""

import functools
import gc
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from numba import __version__ as numba_version
from numba import config, njit
from numba.extending import overload, register_jitable

SUMS_MAY_REORDER = {"reassoc", "contract", "nsz"}  # lets sums use vector registers; NaN and inf keep their meaning
TESTED = (0, 60), (0, 68)  # the versions of numba whose inside is known, from and to


def inside_is_known(version: str, wish: str | None = None) -> bool:
    """Whether the quick road may be taken with this version of numba.

    >>> inside_is_known("0.61.2"), inside_is_known("0.99.0"), inside_is_known("0.61.2", "plain")
    (True, False, False)
    """
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isascii() and part.isdigit())
    return wish != "plain" and TESTED[0] <= numbers <= TESTED[1]


QUICK = inside_is_known(numba_version, os.environ.get("HINGERANK_NUMBA"))


def _options(allocates: bool, fastmath: Any) -> dict[str, Any]:
    """numba's options for a function: in the fast mode, that it makes no arrays and that C does not call it."""
    return {"fastmath": fastmath, **({"no_cfunc_wrapper": True, "_nrt": allocates} if QUICK else {})}


def _helper_options(allocates: bool, fastmath: Any) -> dict[str, Any]:
    if not QUICK:
        return _options(allocates, fastmath)
    from hingerank.kernels.numba_inside import PartCompiler

    return _options(allocates, fastmath) | {"pipeline_class": PartCompiler}


class CompiledKernel:
    """A function that numba compiles. It is registered at first use: most kernels belong to other rankers."""

    def __init__(self, function: Callable, allocates: bool, fastmath: Any):
        functools.update_wrapper(self, function)
        self.py_func, self.allocates, self.fastmath = function, allocates, fastmath
        self._lock, self._compiled = threading.Lock(), None

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compiled)(*arguments)

    @property
    def compiled(self) -> Any:
        """numba's function."""
        with self._lock:
            if self._compiled is None:
                if config.DISABLE_JIT:
                    raise ValueError("NUMBA_DISABLE_JIT is set, but kernels run only as compiled code: unset it")
                try:
                    self._compiled = self._made(cache=True)
                except RuntimeError:  # numba found no folder that it may write to: compile in every process
                    logging.getLogger(__name__).debug("no cache for %s", self.py_func.__qualname__)
                    self._compiled = self._made(cache=False)
        return self._compiled

    def _made(self, cache: bool) -> Any:
        options = _options(self.allocates, self.fastmath)
        if not QUICK:
            return njit(nogil=True, cache=cache, **options)(self.py_func)
        from hingerank.kernels.numba_inside import keep

        made: Any = njit(nogil=True, **options)(self.py_func)
        made._compile_for_args = functools.partial(_uncollected, made._compile_for_args)
        if cache:
            keep(made, self.py_func, self.allocates)
        return made


def kernel(function: Any = None, /, *, allocates: bool = False, fastmath: Any = False) -> Any:
    """Compile a function for Python to call, and keep the result on disk."""
    if function is None:
        return functools.partial(kernel, allocates=allocates, fastmath=fastmath)
    return CompiledKernel(function, allocates, fastmath)


def _uncollected(compile_for: Callable, *arguments: Any, **named: Any) -> Any:
    """Compile, or load, while the garbage collector rests: it would look through all of numba's objects many times."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return compile_for(*arguments, **named)
    finally:
        if collects:
            gc.enable()


def with_room(function: Any) -> Any:
    """Mark a function that makes arrays for a kernel and calls it: typed, like kernels, as taking anything."""
    return function


def inner(function: Any = None, /, *, allocates: bool = False, fastmath: Any = False) -> Any:
    """Make a function a part of the kernels that call it."""
    if function is None:
        return functools.partial(inner, allocates=allocates, fastmath=fastmath)
    return register_jitable(**_helper_options(allocates, fastmath))(function)


def chosen(choose: Any = None, /, *, fastmath: Any = False) -> Any:
    """Make a helper of kernels from a function that takes the arguments' types and returns the body for them."""
    if choose is None:
        return functools.partial(chosen, fastmath=fastmath)

    @functools.wraps(choose)
    def compiled_only(*arguments):
        raise NotImplementedError("compiled code only")

    overload(compiled_only, jit_options=_helper_options(False, fastmath))(choose)
    return compiled_only
