"""Parts on the workers of a Dask cluster: one task per worker and round, and recovery when workers die.

Each part stays in the memory of its worker. A task contains the parts' paths and the function to call, so a worker that
restarted can load its parts again. Tasks are bound to their workers and never stolen. If a worker dies, its parts, and
only these, move to the others.
"""

import os
import pickle
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from distributed import Client, wait
from distributed.worker import get_worker

from hingerank.arrays import Facts
from hingerank.distributed.checkpoint import ClusterError
from hingerank.distributed.parts import LOADED, Answers, Arguments, Part, Question, Runner, answers, forget

LOOK = 0.5  # seconds between checks of which workers are alive, during a round
PATIENCE = 30.0  # seconds to wait for a scheduler or for a worker
MOST_DEATHS = 3  # number of workers that may die while working on the same parts
LOST = ("KilledWorker", "CancelledError", "FutureCancelledError", "FuturesCancelledError", "CommClosedError")
ENDED = ("closed", "closing", "newly-created")
RESUME = "weights stored by callback=hingerank.distributed.Checkpoint(path) can be passed as init= to a new fit"


class DaskRunner(Runner):
    """Calls functions of parts on the workers of a client.

    Attributes
    ----------
    rounds : number of calls, each for all parts
    sent, received : number of bytes sent and received
    loads : number of parts that workers have read
    """

    def __init__(self, client: Client):
        self.client = client
        self.place: dict[str, str] = {}  # part -> worker
        self._seen: frozenset[str] = frozenset()  # workers that were alive lately
        self.rounds = self.sent = self.received = self.loads = 0

    def run(self, question: Question, parts: Sequence[Part], arguments: Arguments) -> Answers:
        self.rounds += 1
        found: dict[int, Any] = {}
        content, deaths = pickle.dumps((question, arguments), protocol=5), 0
        while len(found) < len(parts):
            todo = [k for k in range(len(parts)) if k not in found]
            batches = self._batches(parts, todo)
            futures: Facts = {}
            try:
                for address, of in batches.items():
                    self.sent += len(content)
                    what = ([parts[k] for k in of], content, os.getpid())
                    futures[address] = self.client.submit(_answer, *what, workers=[address], pure=False, retries=0)
                deaths += self._collect(futures, batches, found)
            except Exception as error:
                if self.client.status in ENDED or type(error).__name__ in LOST:
                    raise ClusterError(f"the scheduler, or one of its tasks, is lost ({error}); {RESUME}") from error
                raise
            finally:
                if self.client.status not in ENDED:
                    for future in futures.values():
                        future.release()
            if deaths > MOST_DEATHS:
                paths = ", ".join(parts[k].path for k in todo[:3])
                raise ClusterError(
                    f"{deaths} workers died while working on the parts {paths}: most likely these do not fit in a "
                    "worker's memory (memory_limit of the worker, `dask worker --memory-limit`). Split the data into "
                    f"more parts, or use workers with more memory; {RESUME}"
                )
        return [found[k] for k in range(len(parts))]

    def forget(self, parts: Sequence[Part]) -> None:
        """Release the parts. The request is sent from the client's own event loop, because the garbage collector calls
        this in any thread."""
        at = {address for part in parts if (address := self.place.pop(part.key, None)) is not None}
        at &= self._seen
        if at and self.client.status == "running":
            loop: Any = self.client.loop
            loop.add_callback(_tell, self.client, list(parts), sorted(at))

    def _batches(self, parts: Sequence[Part], todo: list[int]) -> dict[str, list[int]]:
        """The parts of each worker. Parts whose worker died go to the workers with the fewest parts."""
        known = {self.place.get(parts[k].key) for k in todo}
        if None in known or not known <= self._seen:
            load = dict.fromkeys(self._workers(), 0)
            for address in self.place.values():
                if address in load:
                    load[address] += 1
            for k in todo:
                if self.place.get(parts[k].key) not in load:
                    self.place[parts[k].key] = address = min(load, key=lambda worker: (load[worker], worker))
                    load[address] += 1
        batches: dict[str, list[int]] = {}
        for k in todo:
            batches.setdefault(self.place[parts[k].key], []).append(k)
        return batches

    def _workers(self) -> list[str]:
        """The sorted addresses of the live workers. If there is none, this waits for one."""
        until = time.monotonic() + PATIENCE
        while True:
            found = sorted(self._info())
            if found:
                self._seen = frozenset(found)
                return found
            if time.monotonic() > until:
                raise ClusterError(f"the cluster had no worker for {PATIENCE:.0f} s; {RESUME}")
            time.sleep(LOOK)

    def _info(self) -> Facts:
        if self.client.status in ENDED:
            raise ClusterError(f"the connection to the scheduler is closed; {RESUME}")
        try:
            self.client.sync(self.client._update_scheduler_info, n_workers=-1)
            return dict(self.client._scheduler_identity["workers"])
        except (OSError, TimeoutError) as error:
            raise ClusterError(f"the scheduler does not respond ({error}); {RESUME}") from error

    def _collect(self, futures: Facts, batches: dict[str, list[int]], found: dict[int, object]) -> int:
        """Collect the results of live workers. Returns how many workers died meanwhile."""
        lost, waiting = 0, dict(futures)
        while waiting:
            with suppress(TimeoutError):
                wait(list(waiting.values()), timeout=LOOK)
            self._check_scheduler()
            done = [address for address, future in waiting.items() if future.done()]
            answered = self.client.gather([waiting.pop(address) for address in done])
            for address, (content, loads) in zip(done, answered):
                self.received += len(content)
                self.loads += loads
                found.update(zip(batches[address], pickle.loads(content)))
            if waiting:
                there = self._info()
                for address in [a for a in waiting if a not in there]:
                    waiting.pop(address).cancel()
                    self._seen = self._seen - {address}
                    self.place = {key: worker for key, worker in self.place.items() if worker != address}
                    lost += 1
        return lost

    def _check_scheduler(self) -> None:
        """Raise a ClusterError if the scheduler is lost. A lost connection gets some time to recover."""
        until = time.monotonic() + 2 * LOOK
        while self.client.status != "running":
            if self.client.status in ENDED or time.monotonic() > until:
                raise ClusterError(f"the scheduler is lost; {RESUME}")
            time.sleep(0.05)


async def _tell(client: Client, parts: list[Part], addresses: list[str]) -> None:
    with suppress(Exception):  # a worker that died, or a closed cluster, has no parts to release
        await client._run(forget, parts, workers=addresses, on_error="ignore")


def _answer(parts: list[Part], content: bytes, driver: int) -> tuple[bytes, int]:
    """The results of some parts, pickled, and the number of parts that had to be read."""
    if os.getpid() != driver:  # in a worker process: use as many threads as the worker has
        os.environ.setdefault("HINGERANK_NUM_THREADS", str(get_worker().state.nthreads))
    before, (question, arguments) = LOADED[0], pickle.loads(content)
    with np.errstate(over="ignore"):
        found = answers(question, parts, arguments)
    return pickle.dumps(found, protocol=5), LOADED[0] - before
