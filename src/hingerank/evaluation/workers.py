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

from hingerank.evaluation.store import Record
from hingerank.evaluation.tasks import Plan, Task
from hingerank.kernels.threads import thread_count

Finished = tuple[Task, list[Record]]


class Workers:
    """`count` workers; with one, tasks run in this process. Submit while `free`, then wait for what is finished."""

    def __init__(self, count: int, plan: Plan) -> None:
        self.count, self.plan = count, plan
        self.running: dict[Any, Task] = {}
        self._executor: Any = None
        self._folder: str | None = None

    @property
    def free(self) -> int:
        return self.count - len(self.running)

    def submit(self, task: Task) -> None:
        if self.count == 1:
            self.running[Future()] = task
        else:
            self.running[self._pool(self.count).submit(_work, self._plan_file(), task)] = task

    def wait(self) -> list[Finished]:
        """Wait for at least one task, and give all that are finished."""
        if self.count == 1:
            task = self.running.pop(next(iter(self.running)))
            return [(task, task.run(self.plan))]
        from concurrent.futures.process import BrokenProcessPool

        finished, dead = [], []
        done, _ = wait(self.running, return_when=FIRST_COMPLETED)
        for future in done:
            task = self.running.pop(future)
            try:
                finished.append((task, future.result()))
            except BrokenProcessPool:
                dead.append(task)
            except Exception as problem:  # such as a ranker that cannot be sent to another process
                finished.append((task, task.failed(self.plan, f"{type(problem).__name__}: {problem}")))
        if dead:
            dead.extend(self.running.values())
            self.running.clear()
            finished.extend(self._one_by_one(dead))
        return finished

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

            threads = str(max(1, thread_count() // self.count))
            names = ("HINGERANK", "OMP", "OPENBLAS", "MKL", "NUMBA", "BLIS", "VECLIB_MAXIMUM")
            limits = {f"{name}_NUM_THREADS" if "MAXIMUM" not in name else f"{name}_THREADS": threads for name in names}
            self._executor = ProcessPoolExecutor(count, env=limits, initializer=_watch_parent, initargs=(os.getpid(),))
        return self._executor

    def _plan_file(self) -> str:
        """The plan, written once to a temporary folder; workers map its arrays instead of copying them."""
        if self._folder is None:
            import joblib

            self._folder = tempfile.mkdtemp(prefix="hingerank-")
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

    return joblib.load(path, mmap_mode="r")


def _watch_parent(parent: int) -> None:
    """End this worker soon after the process that started it is gone, however that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
