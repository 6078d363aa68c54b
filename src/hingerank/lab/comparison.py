"""Compare methods over folds: choose each method's setting on validation, measure it once on test.

Every result goes to the results file the moment it is known. Running the same comparison again reads what is there and
computes the rest, so a killed run continues where it stopped and ends with the same table."""

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hingerank.data.files import canonical
from hingerank.kernels.threads import thread_count
from hingerank.lab.folds import check_folds
from hingerank.lab.leaderboard import Results
from hingerank.lab.methods import Method
from hingerank.lab.report.examples import write_examples
from hingerank.lab.run_folder import Record, ResultsFile, check_header, make_header, read_header, write_header
from hingerank.lab.search import Setting
from hingerank.lab.tasks import Plan, Task
from hingerank.lab.workers import Workers

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Progress:
    """Where a run stands. counts: for each method, results known and expected; running: tasks at work now."""

    counts: dict[str, tuple[int, int]]
    running: Sequence[Task]
    workers: int
    results: Results

    @property
    def done(self) -> int:
        return sum(done for done, _ in self.counts.values())

    @property
    def total(self) -> int:
        return sum(total for _, total in self.counts.values())


def compare(
    methods: Iterable[Method],
    folds: Iterable[Any],
    measure: str = "ndcg@10",
    measures: Iterable[str] | None = None,
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    retry_failed: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Results:
    """For every method and fold: argmax over settings of measure(validation), then measures(test) of that one.

    folds: `query_folds(data)`, `part_folds(parts)`, or triples (train, validation, test) such as `read_folds` gives.
    measure: chooses the setting; measures: taken on test (default: `default_measures(measure)`).
    folder: where results are kept and continued from; None keeps them in memory.
    seed: steers random searches and goes to rankers that have a `random_state`.
    workers: processes to use; 1 runs everything in this process; by default one per core, once a run proves long.
    progress: called whenever something starts or ends. retry_failed: try failed settings of an earlier run again.
    about: anything to keep with the run, such as the command that started it.

    A ranker that fails is recorded with its error and does not stop the others.
    """
    methods, folds = _check_methods(methods), check_folds(folds)
    from hingerank.metrics import parse_measure

    names = list(dict.fromkeys([measure, *(default_measures(measure) if measures is None else measures)]))
    for name in names:
        parse_measure(name)  # an unknown one is a mistake to name now, not in every fit
    place = None if folder is None else Path(folder)
    with ResultsFile(None if place is None else place / "results.jsonl") as file:
        header = make_header(methods, folds, measure, names, seed, about)
        if place is not None:
            header = check_header(read_header(place), header, place, len(file.records))
            write_header(place, header)
        plan = Plan(folds, measure, names, seed, place)
        _run(methods, plan, file, header, workers, progress, retry_failed)
        results = Results(header, list(file.records), place)
        write_examples(results, folds)
        return results


def default_measures(measure: str) -> list[str]:
    """What to take on test besides the choosing measure: NDCG and precision at 1 ... 10, MAP and mean NDCG, all under
    the choosing measure's preset and those of its options that they have.

    >>> default_measures("ndcg@10:letor4:gain=linear")[-2:]
    ['map:letor4', 'mean_ndcg:letor4:gain=linear']
    """
    from hingerank.metrics.measure import MEASURES

    settings = [setting.strip() for setting in measure.split(":")[1:]]

    def tail(kind: str) -> str:
        known = (s for s in settings if "=" not in s or s.partition("=")[0].strip().lower() in MEASURES[kind].options)
        return "".join(f":{setting}" for setting in known)

    ranks = [f"{kind}@{k}{tail(kind)}" for kind in ("ndcg", "p") for k in range(1, 11)]
    return [*ranks, *(f"{kind}{tail(kind)}" for kind in ("map", "mean_ndcg"))]


def _run(
    methods: Sequence[Method],
    plan: Plan,
    file: ResultsFile,
    header: Record,
    workers: int | None,
    progress: Callable[[Progress], None] | None,
    retry_failed: bool,
) -> None:
    known = {_key(record): record for record in file.records if not (retry_failed and record["error"])}
    studies = [_Study(method, fold, plan, known) for fold in range(len(plan.folds)) for method in methods]
    queue: deque[Task] = deque(task for study in studies for task in study.tasks())
    owner = {(study.method.name, study.fold): study for study in studies}
    count = min(workers or thread_count(), max(1, len(queue)))
    with Workers(count, plan, patient=workers is None) as pool:

        def tell() -> None:
            if progress is not None:
                counts = {method.name: _counts(studies, method) for method in methods}
                so_far = Results(header, file.records, plan.folder)
                progress(Progress(counts, list(pool.running.values()), pool.count, so_far))

        tell()
        while queue or pool.running:
            while queue and pool.room(len(queue)) > 0:
                pool.submit(queue.popleft())
            tell()
            for task, records in pool.wait():
                fresh = [record for record in records if _key(record) not in known]
                file.append(fresh)
                known.update((_key(record), record) for record in fresh)
                queue.extendleft(owner[task.method.name, task.fold].tasks())
        tell()


class _Study:
    """One method on one fold: which tasks come next, given what is known."""

    def __init__(self, method: Method, fold: int, plan: Plan, known: Mapping[Key, Record]) -> None:
        self.method, self.fold, self.plan, self.known = method, fold, plan, known
        self.single = method.search.size <= 1
        self.size = 1 if self.single else method.search.size + 1
        self.proposals = method.search.propose(plan.seed + zlib.crc32(method.name.encode()))
        self.batch: list[Setting] | None = next(self.proposals)
        self.issued = False
        self.tried: list[tuple[Setting, float | None]] = []
        self.hopeless = False  # every setting failed: there is nothing to test
        self.chosen: Setting | None = self.batch[0] if self.single else None

    @property
    def done(self) -> int:
        validated = len(self.tried)
        if not self.single:
            validated += sum(self._result("validation", setting) is not None for setting in self.batch or [])
        tested = self.chosen is not None and self._result("test", self.chosen) is not None
        return validated + (tested or self.hopeless)

    def tasks(self) -> list[Task]:
        """Tasks to run now; empty while others are running, and at the end."""
        while self.chosen is None and not self.hopeless:
            missing = {canonical(s): s for s in self.batch or [] if self._result("validation", s) is None}
            if missing:
                if self.issued:
                    return []
                self.issued = True
                groups = self.method.batches(list({canonical(s): s for s in self.batch or []}.values()))
                due = [group for group in groups if any(canonical(s) in missing for s in group)]
                return [Task("validation", self.method, self.fold, group) for group in due]
            self._next_batch()
        if self.chosen is not None and not self.issued and self._result("test", self.chosen) is None:
            self.issued = True
            return [Task("test", self.method, self.fold, [self.chosen])]
        return []

    def _next_batch(self) -> None:
        values = [self._value(setting) for setting in self.batch or []]
        self.tried.extend(zip(self.batch or [], values))
        self.issued, self.batch = False, None
        try:
            self.batch = self.proposals.send(values)
        except StopIteration:
            worked = [(value, setting) for setting, value in self.tried if value is not None]
            self.hopeless = not worked
            self.chosen = max(worked, key=lambda pair: pair[0])[1] if worked else None  # the first of the best

    def _value(self, setting: Setting) -> float | None:
        record = self._result("validation", setting)
        return None if record is None else record["value"]

    def _result(self, kind: str, setting: Setting) -> Record | None:
        return self.known.get((kind, self.method.name, self.plan.folds[self.fold].name, canonical(setting)))


def _counts(studies: Sequence[_Study], method: Method) -> tuple[int, int]:
    own = [study for study in studies if study.method is method]
    return sum(study.done for study in own), sum(study.size for study in own)


def _key(record: Record) -> Key:
    return record["kind"], record["method"], record["fold"], canonical(record["setting"])


def _check_methods(methods: Iterable[Method]) -> list[Method]:
    methods = list(methods)
    names = [method.name for method in methods]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"give methods with different names, got {names}")
    return methods
