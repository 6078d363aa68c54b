"""Run tasks on the machine's cores: in this process, or in others that share the data through a mapped file.

Processes rather than threads, because the time a fit takes is one of the results and rankers written in Python would
slow each other down. Each worker gets its part of the cores for the threads of its kernels, so that workers times
threads never exceeds the cores. If a worker dies, no result is lost: the tasks that were running are tried again one
by one, and the one that kills its worker is recorded as failed.
"""

import os
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hingerank.data.files import scratch_folder
from hingerank.kernels.threads import VARIABLE, thread_count
from hingerank.lab.run_folder import Record
from hingerank.lab.tasks import ComparisonPlan, Task
from hingerank.metrics.measure import MeasureLike

if TYPE_CHECKING:
    from joblib.externals.loky import ProcessPoolExecutor

PATIENCE = 10.0  # seconds of work that are worth starting processes for
OTHERS = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM", "BLIS_NUM", "VECLIB_MAXIMUM")  # …_THREADS of libraries


Finished = list[tuple[Task, list[Record]]]  # tasks that are finished, and what they found


class Workers:
    """`count` workers for a plan's tasks: submit while there is `room`, then wait for what is finished.

    With one worker, tasks run in this process. So do, with `patient`, the first ones: processes take seconds to start,
    and are started only when the tasks that wait will take PATIENCE seconds, going by those that are done.
    """

    def __init__(self, count: int, plan: ComparisonPlan, patient: bool = False) -> None:
        self.count, self.plan = count, plan
        self.running: dict[Future[list[Record]], Task] = {}
        self._threads = str(max(1, thread_count() // count))
        self._here = count == 1 or patient
        self._warned = False
        self._started, self._done_here = time.monotonic(), 0
        self._executor: ProcessPoolExecutor | None = None
        self._folder: Path | None = None
        self._open = ExitStack()

    def room(self, waiting: int) -> int:
        """How many tasks can be submitted now, given how many are waiting."""
        if self._here and self.count > 1 and self._done_here and not self.running:
            ahead = waiting * (time.monotonic() - self._started) / self._done_here
            self._here = ahead < PATIENCE
        return (1 if self._here else self.count) - len(self.running)

    def submit(self, task: Task) -> None:
        future = Future[list[Record]]() if self._here else self._send(task, self.count)
        self.running[future] = task

    def _send(self, task: Task, count: int) -> Future[list[Record]]:
        # measures go with every task, not in the plan's file: loky sends whole what a notebook defines
        measures = self.plan.measure, self.plan.measures
        return self._pool(count).submit(_work, self._plan_file(), task, *measures)

    def wait(self) -> Finished:
        """Wait for at least one task, and give all that are finished."""
        finished: Finished = []
        if self._here:
            task = self.running.pop(next(iter(self.running)))
            with _limited(self._threads):
                finished.append((task, task.run(self.plan)))
            self._done_here += 1
            return finished
        from concurrent.futures.process import BrokenProcessPool

        dead = []
        done, _ = wait(self.running, return_when=FIRST_COMPLETED)
        for future in done:
            task = self.running.pop(future)
            try:
                finished.append((task, future.result()))
            except BrokenProcessPool:
                dead.append(task)
            except Exception as error:  # a ranker, or its result, that cannot be sent to another process
                self._warn(task, error)
                with _limited(self._threads):
                    finished.append((task, task.run(self.plan)))
        if dead:
            dead.extend(self.running.values())
            self.running.clear()
            finished.extend(self._one_by_one(dead))
        return finished

    def _warn(self, task: Task, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{task} cannot run in another process and runs in this one, as with workers=1: a ranker, its settings "
                f"and its measures must be picklable ({type(error).__name__}: {error})",
                stacklevel=4,
            )

    def _one_by_one(self, tasks: list[Task]) -> Finished:
        finished: Finished = []
        self._stop()
        for task in tasks:
            try:
                finished.append((task, self._send(task, 1).result()))
            except Exception:
                message = "the worker process died: out of memory, or a crash in compiled code"
                finished.append((task, task.failed(self.plan, message)))
                self._stop()
        self._stop()
        return finished

    def _pool(self, count: int) -> "ProcessPoolExecutor":
        if self._executor is None:
            from joblib.externals.loky import ProcessPoolExecutor

            limits = dict.fromkeys([VARIABLE, *(f"{name}_THREADS" for name in OTHERS)], self._threads)
            self._executor = ProcessPoolExecutor(count, env=limits, initializer=_watch_parent, initargs=(os.getpid(),))
        return self._executor

    def _plan_file(self) -> str:
        """The plan, written once into the run's own folder or a temporary one; workers map its arrays, uncopied."""
        if self._folder is None:
            import joblib

            place = self.plan.folder or Path(tempfile.gettempdir())
            place.mkdir(parents=True, exist_ok=True)
            self._folder = self._open.enter_context(scratch_folder(place))
            joblib.dump(self.plan, self._folder / "plan")
        return str(self._folder / "plan")

    def _stop(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._open.close()
        self._folder = None


@contextmanager
def _limited(threads: str) -> Iterator[None]:
    """A worker's part of the cores for what runs in this process, so that times can be compared."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = threads
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _work(plan_file: str, task: Task, measure: MeasureLike, measures: Sequence[MeasureLike]) -> list[Record]:
    plan = _plan(plan_file)
    plan.measure, plan.measures = measure, measures
    return task.run(plan)


@lru_cache(maxsize=1)
def _plan(path: str) -> ComparisonPlan:
    import joblib

    # "c": writable pages of our own. Read-only arrays are another type to numba and would have every kernel recompiled.
    return joblib.load(path, mmap_mode="c")


def _watch_parent(parent: int) -> None:
    """End this worker soon after the process that started it is gone, however that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
