"""Which settings to try next: stages of grids, one grid, random draws, or Optuna's suggestions.

A search proposes batches of settings and receives their validation values, through one generator:

    proposals = search.propose(seed)
    batch = next(proposals)                  # settings to try, all at once if you like
    batch = proposals.send(values)           # their values, None if the fit failed; StopIteration when done

The same seed and values give the same settings, so a killed run can simply be run again: what is already in the results
file is not recomputed. For that reason settings do not come from scikit-learn's `ParameterGrid` and `ParameterSampler`:
these sort the parameters (ties go to the first setting, so order matters), and sampling there depends on the library's
version and draws lists without replacement.
"""

import itertools
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from hingerank.arrays import Facts
from hingerank.search.settings import AROUND, MOST_WIDENINGS, After, Setting, Stage, Values, beyond, near, size_of

OptunaTrial: TypeAlias = Any  # which need not be installed
Proposals = Generator[list[Setting], list[float | None], None]


@runtime_checkable
class Distribution(Protocol):
    """Values of one parameter: `draw` takes one from a generator, `suggest` lets an Optuna trial choose."""

    def draw(self, rng: np.random.Generator) -> object: ...

    def suggest(self, trial: OptunaTrial, name: str) -> object: ...


@dataclass(frozen=True)
class Uniform:
    """A number drawn uniformly from [low, high]."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(self.low, self.high))

    def suggest(self, trial: OptunaTrial, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high)


@dataclass(frozen=True)
class LogUniform:
    """A number from [low, high] whose logarithm is drawn uniformly: for parameters such as C and gamma."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high:
            raise ValueError(f"LogUniform({self.low}, {self.high}): expected 0 < low < high")

    def draw(self, rng: np.random.Generator) -> float:
        return float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))

    def suggest(self, trial: OptunaTrial, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high, log=True)


@dataclass(frozen=True)
class Integers:
    """A whole number drawn uniformly from low, low+1, ..., high."""

    low: int
    high: int

    def draw(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.low, self.high, endpoint=True))

    def suggest(self, trial: OptunaTrial, name: str) -> int:
        return trial.suggest_int(name, self.low, self.high)


@dataclass(frozen=True)
class Choice:
    """One of some values with equal probability."""

    values: tuple[object, ...]

    def draw(self, rng: np.random.Generator) -> object:
        return self.values[int(rng.integers(len(self.values)))]

    def suggest(self, trial: OptunaTrial, name: str) -> object:
        return trial.suggest_categorical(name, self.values)


class Search(Protocol):
    """Proposes settings to try. size: how many in all."""

    @property
    def size(self) -> int: ...

    def propose(self, seed: int) -> Proposals: ...

    def choose(self, tried: Sequence[tuple[Setting, float]]) -> Setting: ...


def follow(proposals: Proposals, value_all: Callable[[list[Setting]], list[float | None]]) -> None:
    """Give a search the values of the settings that it proposes, batch by batch, until it ends."""
    batch = next(proposals, None)
    while batch is not None:
        try:
            batch = proposals.send(value_all(batch))
        except StopIteration:
            batch = None


class FirstOfEquals:
    """Chooses the setting with the largest value, the first of ties."""

    def choose(self, tried: Sequence[tuple[Setting, float]]) -> Setting:
        return max(tried, key=lambda pair: pair[1])[0]


@dataclass(frozen=True)
class Grid(FirstOfEquals):
    """Every combination of the listed values; an empty grid has the one setting {}.

    >>> Grid({"C": [1, 10], "loss": ["hinge"]}).settings()
    [{'C': 1, 'loss': 'hinge'}, {'C': 10, 'loss': 'hinge'}]
    """

    space: Stage

    def __post_init__(self) -> None:
        for name, values in self.space.items():
            if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
                raise ValueError(f"the grid of {name!r} is {values!r}: give a list of values to try")

    @property
    def size(self) -> int:
        return len(self.settings())

    def settings(self) -> list[Setting]:
        return [dict(zip(self.space, values)) for values in itertools.product(*self.space.values())]

    def propose(self, seed: int) -> Proposals:
        yield self.settings()


@dataclass(frozen=True)
class Staged:
    """Grids one after another, each around the best setting so far.

    If the best setting has a number at the edge of its grid, the grid is extended, a few times at most, by its own
    steps, with the other parameters of the best setting fixed, one parameter at a time.

    Parameters
    ----------
    stages : parameter -> values, for each stage; AROUND means values around the best one so far
    start : values of later stages' parameters before their stage
    widen : whether grids may be extended
    limits : of parameters whose limits are not the usual ones
    choosing : breaks ties; by default the simpler setting wins
    allowed : which settings may be tried

    Examples
    --------
    >>> proposals = Staged([{"C": [1.0, 2.0]}, {"loss": ["hinge"], "C": AROUND}]).propose(0)
    >>> next(proposals), proposals.send([0.3, 0.5])
    ([{'C': 1.0}, {'C': 2.0}], [{'C': 4.0}, {'C': 8.0}])
    >>> proposals.send([0.4, 0.3])
    [{'C': 1.0, 'loss': 'hinge'}, {'C': 2.0, 'loss': 'hinge'}, {'C': 4.0, 'loss': 'hinge'}]
    """

    stages: Sequence[Stage]
    start: Setting = field(default_factory=dict)
    widen: bool = True
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    choosing: Callable[[Sequence[tuple[Setting, float]]], Setting] | None = None
    allowed: Callable[[Setting], bool] | None = None

    @property
    def size(self) -> int:
        return len(self.first)

    @property
    def first(self) -> list[Setting]:
        """The settings of the first stage."""
        return [{**self.start, **setting} for setting in Grid(self.stages[0]).settings()]

    def choose(self, tried: Sequence[tuple[Setting, float]]) -> Setting:
        return (self.choosing or best_setting)(tried)

    def propose(self, seed: int, widened: dict[str, Values] | None = None) -> Proposals:
        """Propose settings; widened: receives the values added beyond the edges, by parameter."""
        tried: list[tuple[Setting, float]] = []
        best = dict(self.start)
        for stage in self.stages:
            grid: dict[str, Sequence[object]] = {}
            for name, values in stage.items():
                if values is AROUND:
                    grid[name] = near(best[name], [setting.get(name) for setting, _ in tried])
                elif not isinstance(values, After) or best[name] == values.best:
                    grid[name] = values
            batch = [{**best, **setting} for setting in Grid(grid).settings()]
            open_names = [name for name, values in grid.items() if len(values) > 1] if self.widen else []
            for growth in range(MOST_WIDENINGS + 1):
                done = [setting for setting, _ in tried]
                batch = [s for s in batch if s not in done and (self.allowed is None or self.allowed(s))]
                if batch:
                    values = yield batch
                    tried += [(setting, value) for setting, value in zip(batch, values) if value is not None]
                if not tried:
                    return
                best = self.choose(tried)
                added = {name: beyond(name, best, [s for s, _ in tried], self.limits.get(name)) for name in open_names}
                batch = [{**best, name: value} for name, values in added.items() for value in values]
                if not batch or growth == MOST_WIDENINGS:
                    break
                for name, values in added.items():
                    if values and widened is not None:
                        widened.setdefault(name, []).extend(values)


@dataclass(frozen=True)
class WideningGrid(Grid):
    """A grid that is extended if the best setting has a number at its edge: `Staged` with one stage.

    >>> proposals = WideningGrid({"C": [1.0, 2.0]}).propose(0)
    >>> next(proposals), proposals.send([0.3, 0.5])
    ([{'C': 1.0}, {'C': 2.0}], [{'C': 4.0}, {'C': 8.0}])
    """

    def propose(self, seed: int) -> Proposals:
        return Staged([self.space], choosing=self.choose).propose(seed)


def best_setting(tried: Sequence[tuple[Setting, float]]) -> Setting:
    """The setting with the largest value; ties go to the simpler one, then the first.

    >>> best_setting([({"C": 10.0}, 0.5), ({"C": 0.1}, 0.5), ({"C": 1.0}, 0.4)])
    {'C': 0.1}
    """
    top = max(value for _, value in tried)
    equals = [setting for setting, value in tried if value == top]
    return min(equals, key=lambda setting: complexity(setting, [other for other, _ in tried]))


def complexity(setting: Setting, tried: Iterable[Setting]) -> float:
    """The complexity of a setting: the sum over its numbers of their ranks among the values tried."""
    total, tried = 0.0, list(tried)
    for name, value in setting.items():
        own = size_of(value)
        if own is not None:
            sizes = sorted({size for other in tried if (size := size_of(other.get(name))) is not None})
            total += sizes.index(own) / max(1, len(sizes) - 1)
    return total


@dataclass(frozen=True)
class NearestFirst(WideningGrid):
    """A grid that is extended one value at a time, the nearest first; it stops once a value is worse.

    >>> proposals = NearestFirst({"C": [1.0, 2.0]}).propose(0)
    >>> next(proposals), proposals.send([0.3, 0.5])
    ([{'C': 1.0}, {'C': 2.0}], [{'C': 4.0}])
    >>> proposals.send([0.4])  # worse, so 8.0 is not tried
    Traceback (most recent call last):
        ...
    StopIteration
    """

    def propose(self, seed: int) -> Proposals:
        wider = super().propose(seed)
        batch = next(wider)
        values: list[float | None] = yield batch
        best: Setting = {}
        most = -np.inf
        while True:
            for setting, value in zip(batch, values):
                if value is not None and value > most:
                    best, most = setting, value
            try:
                batch = wider.send(values)
            except StopIteration:
                return
            values, worse = [], set[str]()
            for setting in batch:
                moved = {name for name in best if setting[name] != best[name]}
                value = None if moved & worse else (yield [setting])[0]
                values.append(value)
                worse |= moved if value is None or value < most else set()


@dataclass(frozen=True)
class _Trials(FirstOfEquals):
    space: Mapping[str, Distribution | Sequence[object]]
    trials: int

    @property
    def size(self) -> int:
        return self.trials

    def _distributions(self) -> dict[str, Distribution]:
        return {n: kind if isinstance(kind, Distribution) else Choice(tuple(kind)) for n, kind in self.space.items()}


class RandomSearch(_Trials):
    """`trials` independent draws from a space of Uniform, LogUniform, Integers, Choice or lists of values."""

    def propose(self, seed: int) -> Proposals:
        rng, space = np.random.default_rng(seed), self._distributions()
        yield [{name: kind.draw(rng) for name, kind in space.items()} for _ in range(self.trials)]


class OptunaSearch(_Trials):
    """`trials` suggestions, one after another, by Optuna's default sampler (install optuna to use it)."""

    def propose(self, seed: int) -> Proposals:
        try:
            import optuna
        except ImportError as error:
            raise ValueError("OptunaSearch needs Optuna: install it with `pip install optuna`") from error
        sampler, storage = optuna.samplers.TPESampler(seed=seed), optuna.storages.InMemoryStorage()
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(storage=storage, sampler=sampler, direction="maximize")
        optuna.logging.set_verbosity(before)
        space = self._distributions()
        for _ in range(self.trials):
            trial = study.ask()
            value = (yield [{name: kind.suggest(trial, name) for name, kind in space.items()}])[0]
            if value is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, value)


def describe_search(search: Search) -> Facts:
    """A description of the search, in strings and numbers that can be stored and compared."""
    words: Facts = {"kind": type(search).__name__}
    for name, value in vars(search).items():
        words[name] = {k: _words(v) for k, v in value.items()} if isinstance(value, Mapping) else value
    return words


def _words(values: object) -> object:
    if isinstance(values, Distribution):
        return repr(values)
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else values
