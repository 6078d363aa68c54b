"""Faster compilation and safer caching through numba's internal classes, for the versions in `compiled.TESTED`.

Helpers of kernels are never compiled to machine code of their own. numba caches a function's machine code in two files
(``.nbi``, ``.nbc``) and recompiles when the function's own file changes. Here it recompiles when any file changes that
the function's helpers come from, and a cached file that cannot be read, fails its checksum or belongs to other
arguments is dropped and rebuilt. File locks let one process at a time change the files.
"""

import contextlib
import functools
import hashlib
import inspect
import logging
import os
import pickle
import re
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import caching, serialize, sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


class _PartLibrary(JITCodeLibrary):
    """The code of a helper, to be linked into kernels: it is optimised there, and no machine code is made here."""

    class codegen:  # replaces the engine that would hold its machine code
        @staticmethod
        def set_env(name: str, environment: object) -> None: ...

    def _optimize_final_module(self) -> None: ...

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # tells numba that Python cannot call it


class PartCompiler(Compiler):
    """numba's compiler, for helpers: a quarter of the compilation time went into machine code that is never run."""

    def compile_extra(self, func: Callable) -> Any:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


def keep(made: Any, function: Callable, allocates: bool) -> None:
    """Let numba's function cache its machine code in a `KernelCache`; RuntimeError if no folder is writable."""
    made._cache = KernelCache(function)
    made._cache.allocates = allocates


@functools.cache
def source_stamp(name: str) -> str:
    """A digest of a module's file and of the files of this package's modules whose functions it uses.

    The functions' bytecode counts too: Python runs stale bytecode after an edit within the same second that keeps the
    file's size, and code compiled from it must not be taken for that of the new file.
    """
    module, package = sys.modules[name], __name__.partition(".")[0]
    used = {getattr(value, "__module__", None) or "" for value in vars(module).values()}
    digest = hashlib.sha256(module.__spec__.loader.get_data(module.__file__))  # type: ignore[union-attr]
    for value in vars(module).values():
        code = getattr(inspect.unwrap(value) if callable(value) else None, "__code__", None)
        if code is not None and code.co_filename == module.__file__:
            digest.update(_bytecode(code))
    for other in sorted(used - {name}):
        if other.startswith(package + "."):
            digest.update(source_stamp(other).encode())
    return digest.hexdigest()


def _bytecode(code: types.CodeType) -> bytes:
    """The instructions and constants of a function, the same in every process."""
    texts = [code.co_code, repr(code.co_names).encode()]
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            texts.append(_bytecode(value))
        else:  # the order of a set differs between processes
            texts.append(repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value).encode())
    return b"\0".join(texts)


class _Stamped:
    """A numba cache locator whose stamp covers all files that a kernel is made of."""

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> Any:
        found: Any = super().from_function(py_func, py_file)  # type: ignore[misc]
        if found is not None:
            found.stamp = source_stamp(py_func.__module__)
        return found

    def get_source_stamp(self) -> str:
        return self.stamp  # type: ignore[attr-defined]

    def ensure_cache_path(self) -> None:
        path = self.get_cache_path()  # type: ignore[attr-defined]
        if path not in _writable or not os.path.isdir(path):
            super().ensure_cache_path()  # type: ignore[misc]
            _writable.add(path)


_writable: set[str] = set()


class _Checked(caching.CompileResultCacheImpl):
    """Compiled code with a checksum: damaged code that can still be unpickled would crash the process."""

    _locator_classes = [  # noqa: RUF012
        type(locator.__name__, (_Stamped, locator), {}) for locator in caching.CompileResultCacheImpl._locator_classes
    ]

    def reduce(self, data: object) -> tuple[int, bytes]:
        code = serialize.dumps(super().reduce(data))
        return zlib.crc32(code), code

    def rebuild(self, target_context: Any, reduced_data: Any) -> Any:
        checksum, code = reduced_data
        if zlib.crc32(code) != checksum:
            raise ValueError("the checksum does not match")
        return super().rebuild(target_context, pickle.loads(code))


_UNFINISHED = re.compile(r"\.nb[ci]\.tmp\.[0-9a-f]+$")  # numba's names of files not yet renamed


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Let one process at a time change a folder, where the system has file locks.

    Files left behind by a process that was killed while writing are removed first.
    """
    with contextlib.ExitStack() as stack:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a network drive may have no locks
                fcntl.flock(stack.enter_context(open(os.path.join(folder, "lock"), "wb")), fcntl.LOCK_EX)
                for entry in os.scandir(folder):
                    if _UNFINISHED.search(entry.name):
                        os.unlink(entry.path)
        yield


class KernelCache(caching.FunctionCache):
    """numba's cache of one function's compiled versions, able to recover from damaged files."""

    _impl_class = _Checked
    _warned = False
    allocates = True  # arrays, which need numba's runtime

    def load_overload(self, sig: object, target_context: object) -> Any:
        try:
            # not super().load_overload, which first loads everything compiling would need: most of a warm start
            if self.allocates:
                rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                found = self._load_overload(sig, target_context)
            if found is not None and tuple(found.signature.args) != tuple(sigutils.normalize_signature(sig)[0]):
                raise ValueError("the code was compiled for other arguments")
            return found
        except Exception as error:  # a damaged pickle can raise anything
            self._start_again(error)
            return None

    def save_overload(self, sig: object, data: object) -> None:
        try:
            with _alone(self.cache_path):
                super().save_overload(sig, data)
        except OSError as error:
            where = f"in {self.cache_path} ({error})"
            self._warn_once(f"compiled kernels could not be cached {where}: compiled at each start")
        except Exception as error:
            self._start_again(error)
            with _alone(self.cache_path):
                super().save_overload(sig, data)

    def _start_again(self, error: Exception) -> None:
        what = type(error).__name__
        self._warn_once(f"a file of compiled kernels in {self.cache_path} is damaged ({what}): compiling again")
        with contextlib.suppress(OSError), _alone(self.cache_path):
            self.flush()

    @staticmethod
    def _warn_once(line: str) -> None:
        """Log a warning once per process: damaged files rarely come alone."""
        if not KernelCache._warned:
            KernelCache._warned = True
            logging.getLogger(__name__).warning("hingerank: %s", line)
