"""Other searches than stages (`Staged`) and a grid (`Grid`): random draws, Optuna's suggestions, grids that grow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.checks import whole
from hingerank.search.settings import Grid, Proposals, Search, Setting, Staged, check_several

OptunaTrial: TypeAlias = Any  # which need not be installed


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


@dataclass(frozen=True)
class WideningGrid(Grid):
    """A grid that is extended if the best setting has a number at its edge: `Staged` with one stage.

    >>> proposals = WideningGrid({"C": [1.0, 2.0]}).propose(0)
    >>> next(proposals), proposals.send([0.3, 0.5])
    ([{'C': 1.0}, {'C': 2.0}], [{'C': 4.0}, {'C': 8.0}])
    """

    def propose(self, seed: int) -> Proposals:
        return Staged([self.space], choosing=self.choose).propose(seed)


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
class _Trials(Search):
    space: Mapping[str, Distribution | Sequence[object]]
    trials: int

    def __post_init__(self) -> None:
        whole("trials", self.trials)
        for name, values in self.space.items():
            if not isinstance(values, Distribution):
                check_several(name, values)

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
        if isinstance(value, Mapping):
            lists = {k: list(v) if isinstance(v, Sequence) and not isinstance(v, str) else v for k, v in value.items()}
            value = {k: repr(v) if isinstance(v, Distribution) else v for k, v in lists.items()}
        words[name] = value
    return words
