"""Compare methods over folds: choose each method's setting on validation, measure it once on test.

Each result is saved to the results file as it is computed. Running the same comparison again reads what is there and
computes the rest, so a killed run resumes where it stopped and ends with the same table. A method whose code has
changed is computed again.

The walk: `compare` asks every `_Study` (a method on a fold) for the tasks that come next and hands them to `Workers`;
a `Task` fits a ranker and measures it on validation, or fits the chosen one and measures it on test.
"""

import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from hingerank.arrays import Given
from hingerank.data.checks import WeakFitWarning, list_of, warn, whole
from hingerank.data.files import canonical
from hingerank.kernels.threads import thread_count
from hingerank.lab.folds import PARTS, Fold, FoldLike, check_folds, check_sizes, grade_range
from hingerank.lab.kinds import OfRows, OfTopics, kind_of
from hingerank.lab.methods import Method
from hingerank.lab.report.examples import write_examples
from hingerank.lab.results import Results, save_rows, size_of
from hingerank.lab.run_folder import (
    CODE,
    Record,
    ResultsFile,
    check_header,
    current,
    make_header,
    read_header,
    write_header,
)
from hingerank.lab.tasks import ComparisonPlan, Task
from hingerank.lab.topics import TopicRows, topic_rows, with_scores
from hingerank.lab.workers import Workers
from hingerank.metrics.measure import MEASURES, Measure, MeasureLike, measure_name, several
from hingerank.search.folds import path_batches
from hingerank.search.settings import Setting

Key = tuple[str, str, str, str, int, float]


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    counts : for each method, results known and expected
    running : tasks that are running
    workers : number of processes
    header : what is compared
    records : results so far, in the order in which they came
    folder : where they are stored
    """

    counts: dict[str, tuple[int, int]]
    running: Sequence[Task]
    workers: int
    header: Record
    records: Sequence[Record]
    folder: Path | None = None

    @cached_property
    def results(self) -> Results:
        """The results so far."""
        return Results(self.header, list(self.records), self.folder)

    @property
    def done(self) -> int:
        return sum(done for done, _ in self.counts.values())

    @property
    def total(self) -> int:
        return sum(total for _, total in self.counts.values())


def compare(
    methods: Iterable[Method],
    folds: Iterable[FoldLike],
    measure: MeasureLike | None = None,
    measures: MeasureLike | Iterable[MeasureLike] | None = None,
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    seeds: int = 1,
    sizes: Sequence[float] = (1.0,),
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    retry_failed: bool = False,
    about: Given | None = None,
) -> Results:
    """For every method and fold: argmax over settings of measure(validation), then measures(test) of that one.

    A ranker that fails is recorded with its error and does not stop the others.

    Parameters
    ----------
    methods : what to compare; names must differ
    folds : ``query_folds(data)``, ``part_folds(parts)``, or triples (train, validation, test) as of ``read_folds``; of
        rows, or of topics (DiverseData)
    measure : chooses the setting, a name or a function (y, scores) of one query's rows -> number; default "ndcg@10",
        for topics "alpha-ndcg@20"
    measures : measures on test, one or several, names or functions; default ``default_measures(measure)``, for topics
        alpha-NDCG, ERR-IA, subtopic recall and NRBP
    folder : where results are stored, and a run that is there resumes; None keeps them in memory
        Results of a method whose code has changed since (a class or function of yours, or the version of an installed
        one) are computed again.
    seed : of random searches, and of rankers that have a ``random_state``
    seeds : fit the chosen setting of such rankers with N seeds: seed, seed + 1, …; a query's value is the mean
    sizes : fractions of the training queries to learn from, for learning curves; all of them are always among these
    workers : processes to use; 1 runs everything in this process; default one per core, once a run proves long
    progress : called whenever a task starts or ends
    retry_failed : try failed settings of an earlier run again
    about : anything to store with the run, such as the command that started it
    """
    methods, folds, sizes = list_of("methods", methods, "Method"), check_folds(folds), check_sizes(sizes)
    other = next((method for method in methods if not isinstance(method, Method)), None)
    if other is not None:
        raise ValueError(
            f"{other!r} is no Method: give method_from_name(…) of hingerank.lab, or Method(name, ranker, …)"
        )
    called = [method.name for method in methods]
    if not called or len(set(called)) < len(called):
        raise ValueError(f"give methods with different names, got {called}")
    seed, seeds = whole("seed", seed, least=0), whole("seeds", seeds)
    workers = None if workers is None else whole("workers", workers)
    if len(sizes) > 1 and any(fold.shared_queries for fold in folds):
        raise ValueError("sizes cannot be used with ratings: they leave out queries, here the users to test")
    kind = kind_of(folds[0].rows)
    measure = kind.usual if measure is None else measure
    measures = [measure, *(kind.more_measures(measure) if measures is None else several(measures))]
    least, most = grade_range(folds)
    wanted = _named_measures(measures, kind, most)
    _warn_all_relevant(*next(iter(wanted.items())), least)
    place = None if folder is None else Path(folder)
    with ResultsFile(None if place is None else place / "results.jsonl") as file:
        header = make_header(methods, folds, wanted, seed, seeds, sizes, about)
        if place is not None:
            header = check_header(read_header(place), header, place, len(file.records))
            write_header(place, header)
        plan = ComparisonPlan(folds, wanted, seed, place, header.get("seeds", {}), sizes)
        _run(methods, plan, file, header, workers, progress, retry_failed)
        results = Results(header, list(file.records), place)
        write_examples(results, folds)
        if place is not None:
            save_rows(place, folds)
        return results


def _named_measures(measures: Iterable[MeasureLike], kind: OfRows, top_grade: float) -> dict[str, MeasureLike]:
    """The prepared measures by name; an unknown one is an error now, not in every fit."""
    found: dict[str, MeasureLike] = {}
    for measure in measures:
        name, prepared = measure_name(measure), kind.prepared(measure, top_grade)
        other = found.setdefault(name, prepared)
        if other != prepared and (callable(prepared) or callable(other)):
            raise ValueError(f"two measures are called {name!r}: rename one")
    return found


def _warn_all_relevant(name: str, measure: MeasureLike, least: float) -> None:
    """Warn of a measure that chooses settings by which rows are relevant, where all are, as all ratings from 1 on."""
    if not isinstance(measure, Measure) or "relevant" not in MEASURES[measure.kind].options:
        return
    if least >= measure.conventions.relevant:
        warn(f"all rows are relevant to {name}, so it is the same for all methods: add :relevant=GRADE to its name")


def _run(
    methods: Sequence[Method],
    plan: ComparisonPlan,
    file: ResultsFile,
    header: Record,
    workers: int | None,
    progress: Callable[[Progress], None] | None,
    retry_failed: bool,
) -> None:
    valid = current(header, file.records)
    known = {_key(record): record for record in valid if not (retry_failed and record["error"])}
    marks = {name: definition[CODE][-1] for name, definition in header["methods"].items() if CODE in definition}
    places = [(fold, size) for size in reversed(plan.sizes) for fold in range(len(plan.folds))]
    studies = [_Study(method, fold, size, plan, known) for fold, size in places for method in methods]
    owner = {(study.method.name, study.fold, study.size): study for study in studies}
    queue: deque[Task] = deque(task for study in studies for task in study.due())
    count = min(workers or thread_count(), max(1, len(queue)))
    with Workers(count, plan, patient=workers is None) as pool:

        def tell() -> None:
            if progress is not None:
                counts = {method.name: (0, 0) for method in methods}
                for study in studies:
                    (done, expected), (before, total) = study.counts(), counts[study.method.name]
                    counts[study.method.name] = before + done, total + expected
                running, so_far = list(pool.running.values()), list(file.records)
                progress(Progress(counts, running, pool.count, header, so_far, plan.folder))

        tell()
        while queue or pool.running:
            while queue and pool.room(len(queue)) > 0:
                pool.submit(queue.popleft())
            tell()
            for task, records in pool.wait():
                fresh = [record | {CODE: marks[task.method.name]} for record in records if _key(record) not in known]
                file.append(fresh)
                known.update((_key(record), record) for record in fresh)
                study = owner[task.method.name, task.fold, task.size]
                study.running -= 1
                queue.extendleft([] if study.running else study.due())
        tell()


class _Study:
    """One method on one fold at one size: which tasks come next, given what is known."""

    def __init__(
        self, method: Method, fold: int, size: float, plan: ComparisonPlan, known: Mapping[Key, Record]
    ) -> None:
        self.method, self.fold, self.size, self.plan, self.known = method, fold, size, plan, known
        self.seeds = range(plan.seed, plan.seed + plan.seeds.get(method.name, 1))
        self.planned = method.search.size if method.search.size > 1 else 0  # a single setting needs no validation
        self.running = 0
        self.batch: dict[Key, Setting] = {}  # settings that are being tried
        self.tried: list[tuple[Setting, float | None]] = []
        self.tests: dict[Key, Task] = {}  # of the chosen setting
        self._steps = self._walk()

    def due(self) -> list[Task]:
        """The next tasks, once all before have ended; none at the end."""
        tasks = next(self._steps, [])
        self.running = len(tasks)
        return tasks

    def _walk(self) -> Iterator[list[Task]]:
        """Tasks that can run side by side, and once they have ended the next ones."""
        search, place = self.method.search, (self.method, self.fold)
        proposals = search.propose(self.plan.seed + zlib.crc32(self.method.name.encode()))
        proposed = next(proposals)
        chosen = None if self.planned else proposed[0]
        while self.planned and proposed:
            keys = [self._key("validation", setting) for setting in proposed]
            self.batch = dict(zip(keys, proposed))
            missing = {key for key in keys if key not in self.known}
            if missing:
                groups = path_batches(list(self.batch.values()), self.method.paths)
                due = [group for group in groups if any(self._key("validation", s) in missing for s in group)]
                yield [Task("validation", *place, group, self.plan.seed, self.size) for group in due]
            values = [self.known[key]["value"] for key in keys]
            self.tried.extend(zip(proposed, values))
            self.batch, proposed = {}, []
            with suppress(StopIteration):
                proposed = proposals.send(values)
        worked = [(setting, value) for setting, value in self.tried if value is not None]
        if worked:
            chosen = search.choose(worked)
        if chosen is not None:
            tests = [Task("test", *place, [chosen], seed, self.size) for seed in self.seeds]
            self.tests = {self._key("test", chosen, task.seed): task for task in tests}
            yield [task for key, task in self.tests.items() if key not in self.known]

    def counts(self) -> tuple[int, int]:
        """Results that are known, and those to expect, as far as the search is done."""
        hopeless = self.tried and not self.batch and not self.tests  # every setting failed: none is tested
        tested = len(self.seeds) if hopeless else sum(key in self.known for key in self.tests)
        validated = len(self.tried) + sum(key in self.known for key in self.batch)
        return validated + tested, max(self.planned, len(self.tried) + len(self.batch)) + len(self.seeds)

    def _key(self, kind: str, setting: Setting, seed: int | None = None) -> Key:
        head = kind, self.method.name, self.plan.folds[self.fold].name, canonical(setting)
        return *head, self.plan.seed if seed is None else seed, self.size


def _key(record: Record) -> Key:
    head = record["kind"], record["method"], record["fold"], canonical(record["setting"])
    return *head, record["seed"], size_of(record)


def scored_folds(
    folds: Iterable[FoldLike], method: Method, measure: MeasureLike = OfTopics.usual, *, seed: int = 0,
    workers: int | None = 1,
) -> list[Fold]:  # fmt: skip
    """Folds of topics with a ranker's scores as relevance (see ``hingerank.lab.topics.with_scores``).

    The ranker learns the number of subtopics that a document serves. Its setting is chosen on a fold's validation
    topics and it is fitted to the fold's training topics, so it has not seen the test topics that it scores.

    Parameters
    ----------
    folds : as `compare` takes them, of topics
    method : a ranker of rows, such as ListMLE, with the settings to try
    measure : chooses its setting
    seed, workers : as in `compare`

    Examples
    --------
    >>> import hingerank as hr
    >>> from hingerank.lab import Method, query_folds
    >>> folds = query_folds(hr.make_diverse(6, 15, seed=1), k=3)
    >>> scored = scored_folds(folds, Method("ListMLE", hr.ListMLE, {"C": [0.1, 1.0]}))
    >>> folds[0].part("test").n_features, scored[0].part("test").n_features
    (10, 11)
    """
    named = check_folds(folds)
    results = compare([method], named, measure, [measure], seed=seed, workers=workers)
    found = []
    for fold in named:
        record = results.test(method.name, fold.name)
        if record is None:
            raise ValueError(f"the first stage {method.name} failed in {fold.name}: {results.failures()[0]['error']}")
        ranker = method.make(record["setting"], seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakFitWarning)  # the validation has chosen
            kind_of(fold.part("train")).learn(ranker)
        parts = {}
        for name in PARTS:
            data = fold.part(name)
            if not isinstance(data, TopicRows):
                raise ValueError("a first stage is for topics: give folds of DiverseData")
            # one topic at a time: the last digits of products of matrices depend on the rows beside a row
            alone = (topic_rows([topic], data.top) for topic in data.topics)
            parts[name] = with_scores(data, np.concatenate([kind_of(topic).scores(ranker) for topic in alone]))
        found.append(Fold(fold.name, **parts, shared_queries=fold.shared_queries))
    return found
