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
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
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
        """Run a task in another process; the plan is written once, and workers map its arrays, uncopied."""
        if self._executor is None:
            from joblib.externals.loky import ProcessPoolExecutor

            limits = dict.fromkeys([VARIABLE, *(f"{name}_THREADS" for name in OTHERS)], self._threads)
            self._executor = ProcessPoolExecutor(count, env=limits, initializer=_watch_parent, initargs=(os.getpid(),))
        if self._folder is None:
            import joblib

            place = self.plan.folder or Path(tempfile.gettempdir())
            place.mkdir(parents=True, exist_ok=True)
            self._folder = self._open.enter_context(scratch_folder(place))
            joblib.dump(self.plan, self._folder / "plan")
        # measures go with every task, not in the plan's file: loky sends whole what a notebook defines
        return self._executor.submit(_work, str(self._folder / "plan"), task, self.plan.measures)

    def wait(self) -> Finished:
        """Wait for at least one task, and give all that are finished."""
        if self._here:
            task = self.running.pop(next(iter(self.running)))
            self._done_here += 1
            return [(task, self._run_here(task))]
        from concurrent.futures.process import BrokenProcessPool

        finished: Finished = []
        dead = []
        done, _ = wait(self.running, return_when=FIRST_COMPLETED)
        for future in done:
            task = self.running.pop(future)
            try:
                finished.append((task, future.result()))
            except BrokenProcessPool:
                dead.append(task)
            except Exception as error:  # a ranker, or its result, that cannot be sent to another process
                if not self._warned:
                    self._warned = True
                    warnings.warn(
                        f"{task} cannot run in another process and runs in this one, as with workers=1: a ranker, its "
                        f"settings and its measures must be picklable ({type(error).__name__}: {error})",
                        stacklevel=3,
                    )
                finished.append((task, self._run_here(task)))
        if dead:
            dead.extend(self.running.values())
            self.running.clear()
            self._stop()
            for task in dead:  # one by one, to find which one kills its worker
                try:
                    finished.append((task, self._send(task, 1).result()))
                except Exception:
                    message = "the worker process died: out of memory, or a crash in compiled code"
                    finished.append((task, task.failed(self.plan, message)))
                    self._stop()
            self._stop()
        return finished

    def _run_here(self, task: Task) -> list[Record]:
        """Run a task in this process, with a worker's part of the cores, so that times can be compared."""
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = self._threads
        try:
            return task.run(self.plan)
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before

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


def _work(plan_file: str, task: Task, measures: Mapping[str, MeasureLike]) -> list[Record]:
    plan = _plan(plan_file)
    plan.measures = measures
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
