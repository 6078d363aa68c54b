"""How kernels are compiled and cached on disk for the next process.

Decorators:

``kernel``  a function that Python calls, and no other kernel. It releases the GIL; its machine code is cached on disk.
``inner``   a helper of kernels. It is compiled into each kernel that calls it and never cached by itself; called
            from Python it runs as plain Python.
``chosen``  an `inner` whose body depends on the types of its arguments: the seam between dense and sparse rows.

and ``with_room`` for a plain function that allocates the arrays a kernel needs, and calls it.

All of it is numba's ``njit(cache=True, nogil=True)``. With a tested version of numba (`numba_inside`), helpers compile
a quarter faster, cached code has a checksum, and curves are looked up by vector instructions; any other version, or
HINGERANK_NUMBA=plain, uses plain numba. ``benchmarks/startup.py`` measures both.

The measured cost of compiling shapes the code: assigning one slice to another, or `numpy.sort`, costs as much as a
hundred lines of loops; a function that Python can call needs a wrapper that unpacks its arguments; an integer literal
passed to a `kernel` compiles a second version of it; counting references to arrays costs a fifth of the time, and
Python's garbage collector, which is paused meanwhile, another fifth. So, unless declared ``allocates=True``, kernels
allocate no arrays, which numba checks, and do not count references. They must then neither return an array nor call a
function that allocates one.
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

from hingerank.arrays import Facts

SUMS_MAY_REORDER = {"reassoc", "contract", "nsz"}  # lets sums use vector registers; NaN and inf keep their meaning
TESTED = (0, 60), (0, 68)  # the first and the last version of numba whose internals are known


def inside_is_known(version: str, wish: str | None = None) -> bool:
    """Whether the faster compilation may be used with this version of numba.

    >>> inside_is_known("0.61.2"), inside_is_known("0.99.0"), inside_is_known("0.61.2", "plain")
    (True, False, False)
    """
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isascii() and part.isdigit())
    return wish != "plain" and TESTED[0] <= numbers <= TESTED[1]


QUICK = inside_is_known(numba_version, os.environ.get("HINGERANK_NUMBA"))


def _options(allocates: bool, fastmath: object) -> Facts:
    """Options of numba for a function; in the fast mode: it allocates no arrays, and C does not call it."""
    return {"fastmath": fastmath, **({"no_cfunc_wrapper": True, "_nrt": allocates} if QUICK else {})}


def _helper_options(allocates: bool, fastmath: object) -> Facts:
    if not QUICK:
        return _options(allocates, fastmath)
    from hingerank.kernels.numba_inside import PartCompiler

    return _options(allocates, fastmath) | {"pipeline_class": PartCompiler}


class CompiledKernel:
    """A function that numba compiles. It is registered on first use, as a process needs only a few kernels."""

    def __init__(self, function: Callable, allocates: bool, fastmath: object):
        functools.update_wrapper(self, function)
        self.py_func, self.allocates, self.fastmath = function, allocates, fastmath
        self._lock, self._compiled = threading.Lock(), None

    def __call__(self, *arguments: object) -> Any:
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
                except RuntimeError:  # numba found no writable folder: compile in every process
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
    """Compile a function for Python to call, and cache the result on disk."""
    if function is None:
        return functools.partial(kernel, allocates=allocates, fastmath=fastmath)
    return CompiledKernel(function, allocates, fastmath)


def _uncollected(compile_for: Callable, *arguments: object, **named: object) -> Any:
    """Compile or load with the garbage collector paused: it would scan all of numba's objects many times."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return compile_for(*arguments, **named)
    finally:
        if collects:
            gc.enable()


def with_room(function: object) -> Any:
    """Mark a function that allocates arrays for a kernel and calls it; typed, like kernels, as taking anything."""
    return function


def inner(function: object = None, /, *, allocates: bool = False, fastmath: object = False) -> Any:
    """Compile a function into the kernels that call it."""
    if function is None:
        return functools.partial(inner, allocates=allocates, fastmath=fastmath)
    return register_jitable(**_helper_options(allocates, fastmath))(function)


def chosen(choose: Any = None, /, *, fastmath: object = False) -> Any:
    """Make a helper of kernels from a function that maps the arguments' types to the body for them."""
    if choose is None:
        return functools.partial(chosen, fastmath=fastmath)

    @functools.wraps(choose)
    def compiled_only(*arguments):
        raise NotImplementedError("this function runs only inside compiled kernels")

    overload(compiled_only, jit_options=_helper_options(False, fastmath))(choose)
    return compiled_only
