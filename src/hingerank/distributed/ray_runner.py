"""Parts in Ray actors: Ray itself starts a lost actor again and repeats its task, and parts reload themselves."""

import pickle
from collections.abc import Sequence
from typing import Any

from hingerank.data.parts import Part, Question, answers
from hingerank.distributed.errors import ClusterError


class Holder:
    """The actor: a process that holds parts."""

    def answer(self, parts: list[Part], content: bytes) -> list[Any]:
        question, arguments = pickle.loads(content)
        return answers(question, parts, arguments)


class RayRunner:
    """For ``hingerank.distributed.read(paths, RayRunner(4))``: actors that hold the parts in turn.

    Parameters
    ----------
    workers : how many actors
    restarts : how often an actor that died is started again
    **options : of the actors, such as num_cpus
    """

    def __init__(self, workers: int, restarts: int = 3, **options: Any):
        import ray

        self.rounds, kind = 0, ray.remote(max_restarts=restarts, max_task_retries=restarts, **options)(Holder)
        self.actors: list[Any] = [kind.remote() for _ in range(workers)]

    def run(self, question: Question, parts: Sequence[Part], arguments: tuple[Any, ...]) -> list[Any]:
        import ray

        self.rounds += 1
        content, count = pickle.dumps((question, arguments), protocol=5), len(self.actors)
        asked = [actor.answer.remote(list(parts[k::count]), content) for k, actor in enumerate(self.actors)]
        try:
            found = ray.get(asked)
        except ray.exceptions.RayActorError as error:
            raise ClusterError(f"an actor died more often than it may be started again: {error}") from error
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        return [found[k % count][k // count] for k in range(len(parts))]
