"""Run tasks on the machine's cores: in this process, or in others that share the data through a mapped file.

Processes rather than threads, because the time a fit takes is one of the results and rankers written in Python would
slow each other down. Each worker gets its share of the cores for the threads of its kernels, so that workers times
threads never exceeds the cores. A worker that dies takes nothing with it: the tasks that were running are tried again
one by one, and the one that kills its worker is recorded as failed.
"""

import os
import shutil
import tempfile
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import lru_cache
from pathlib import Path
from typing import Any

from hingerank.kernels.threads import thread_count
from hingerank.lab.run_folder import Record
from hingerank.lab.tasks import Plan, Task

Finished = tuple[Task, list[Record]]


PATIENCE = 10.0
WORK = ".work"


class Workers:
    """`count` workers for a plan's tasks: submit while there is `room`, then wait for what is finished.

    With one worker, tasks run in this process. So do, with `patient`, the first ones: processes take seconds to start,
    and are started only when the tasks that wait will take PATIENCE seconds, going by those that are done.
    """

    def __init__(self, count: int, plan: Plan, patient: bool = False) -> None:
        self.count, self.plan = count, plan
        self.running: dict[Any, Task] = {}
        self._threads = str(max(1, thread_count() // count))
        self._here = count == 1 or patient
        self._started, self._done_here = time.monotonic(), 0
        self._executor: Any = None
        self._folder: str | None = None
        if plan.folder is not None:
            shutil.rmtree(plan.folder / WORK, ignore_errors=True)

    def room(self, waiting: int) -> int:
        """How many tasks can be submitted now, when so many are waiting."""
        if self._here and self.count > 1 and self._done_here and not self.running:
            ahead = waiting * (time.monotonic() - self._started) / self._done_here
            self._here = ahead < PATIENCE
        return (1 if self._here else self.count) - len(self.running)

    def submit(self, task: Task) -> None:
        future = Future() if self._here else self._pool(self.count).submit(_work, self._plan_file(), task)
        self.running[future] = task

    def wait(self) -> list[Finished]:
        """Wait for at least one task, and give all that are finished."""
        if self._here:
            task = self.running[next(iter(self.running))]
            finished = [(task, self._run_here(task))]
            self.running.clear()
            self._done_here += 1
            return finished
        from concurrent.futures.process import BrokenProcessPool

        finished, dead = [], []
        done, _ = wait(self.running, return_when=FIRST_COMPLETED)
        for future in done:
            task = self.running.pop(future)
            try:
                finished.append((task, future.result()))
            except BrokenProcessPool:
                dead.append(task)
            except Exception:  # a ranker, or its result, that cannot be sent to another process
                finished.append((task, self._run_here(task)))
        if dead:
            dead.extend(self.running.values())
            self.running.clear()
            finished.extend(self._one_by_one(dead))
        return finished

    def _run_here(self, task: Task) -> list[Record]:
        """Run a task in this process with a worker's share of the cores, so that times can be compared."""
        before = os.environ.get("HINGERANK_NUM_THREADS")
        os.environ["HINGERANK_NUM_THREADS"] = self._threads
        try:
            return task.run(self.plan)
        finally:
            if before is None:
                del os.environ["HINGERANK_NUM_THREADS"]
            else:
                os.environ["HINGERANK_NUM_THREADS"] = before

    def _one_by_one(self, tasks: list[Task]) -> list[Finished]:
        finished = []
        self._stop()
        for task in tasks:
            try:
                finished.append((task, self._pool(1).submit(_work, self._plan_file(), task).result()))
            except Exception:
                message = "the worker process died: out of memory, or a crash in compiled code"
                finished.append((task, task.failed(self.plan, message)))
                self._stop()
        self._stop()
        return finished

    def _pool(self, count: int) -> Any:
        if self._executor is None:
            from joblib.externals.loky import ProcessPoolExecutor

            names = ("HINGERANK", "OMP", "OPENBLAS", "MKL", "NUMBA", "BLIS", "VECLIB_MAXIMUM")
            limits = {
                f"{name}_NUM_THREADS" if "MAXIMUM" not in name else f"{name}_THREADS": self._threads for name in names
            }
            self._executor = ProcessPoolExecutor(count, env=limits, initializer=_watch_parent, initargs=(os.getpid(),))
        return self._executor

    def _plan_file(self) -> str:
        """The plan, written once; workers map its arrays instead of copying them.

        It lies in the run's own folder, where the next run removes what a killed one left, or in a temporary one.
        """
        if self._folder is None:
            import joblib

            if self.plan.folder is None:
                self._folder = tempfile.mkdtemp(prefix="hingerank-")
            else:
                self._folder = str(self.plan.folder / WORK)
                os.makedirs(self._folder, exist_ok=True)
            joblib.dump(self.plan, Path(self._folder) / "plan")
        return str(Path(self._folder) / "plan")

    def _stop(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None

    def close(self) -> None:
        self._stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _work(plan_file: str, task: Task) -> list[Record]:
    return task.run(_plan(plan_file))


@lru_cache(maxsize=1)
def _plan(path: str) -> Plan:
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
