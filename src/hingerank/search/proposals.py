"""Which settings to try: a grid, random draws, or Optuna's suggestions.

A search proposes batches of settings and is told their validation values, through one generator:

    proposals = search.propose(seed)
    batch = next(proposals)                  # settings to try, all at once if you like
    batch = proposals.send(values)           # their values, None where the ranker failed; StopIteration when done

The same seed and values give the same settings, which is why a killed run can simply be run again: what is already in
the results file is not computed a second time. For that reason settings are not scikit-learn's `ParameterGrid` and
`ParameterSampler`: these sort the parameters (the first of equally good settings is chosen, so order counts), and
sampling there depends on the library's version and draws lists without replacement.
"""

import itertools
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hingerank.search.settings import MOST_WIDENINGS, beyond

Setting = dict[str, Any]
Proposals = Generator[list[Setting], list[float | None], None]


@runtime_checkable
class Distribution(Protocol):
    """Values of one parameter: `draw` takes one from a generator, `suggest` has an Optuna trial choose."""

    def draw(self, rng: np.random.Generator) -> Any: ...

    def suggest(self, trial: Any, name: str) -> Any: ...


@dataclass(frozen=True)
class Uniform:
    """A number drawn evenly from [low, high]."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(self.low, self.high))

    def suggest(self, trial: Any, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high)


@dataclass(frozen=True)
class LogUniform:
    """A number from [low, high] whose logarithm is drawn evenly: for C, gamma and the like."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high:
            raise ValueError(f"LogUniform({self.low}, {self.high}): expected 0 < low < high")

    def draw(self, rng: np.random.Generator) -> float:
        return float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))

    def suggest(self, trial: Any, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high, log=True)


@dataclass(frozen=True)
class Integers:
    """A whole number drawn evenly from low, low+1, ..., high."""

    low: int
    high: int

    def draw(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.low, self.high, endpoint=True))

    def suggest(self, trial: Any, name: str) -> int:
        return trial.suggest_int(name, self.low, self.high)


@dataclass(frozen=True)
class Choice:
    """One of some values, each as likely."""

    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    def suggest(self, trial: Any, name: str) -> Any:
        return trial.suggest_categorical(name, self.values)


class Search(Protocol):
    """size: how many settings will be tried."""

    @property
    def size(self) -> int: ...

    def propose(self, seed: int) -> Proposals: ...


@dataclass(frozen=True)
class Grid:
    """Every combination of the listed values; an empty grid is the one setting {}.

    >>> Grid({"C": [1, 10], "loss": ["hinge"]}).settings()
    [{'C': 1, 'loss': 'hinge'}, {'C': 10, 'loss': 'hinge'}]
    """

    space: Mapping[str, Sequence[Any]]

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
class WideningGrid(Grid):
    """A grid that grows, a few times at most, where the best setting has a number at its edge.

    Only the best setting's numbers move, one at a time, by the grid's own steps.

    >>> proposals = WideningGrid({"C": [1.0, 2.0]}).propose(0)
    >>> next(proposals), proposals.send([0.3, 0.5])
    ([{'C': 1.0}, {'C': 2.0}], [{'C': 4.0}, {'C': 8.0}])
    """

    def propose(self, seed: int) -> Proposals:
        tried: list[tuple[float, Setting]] = []
        batch = self.settings()
        for _ in range(MOST_WIDENINGS + 1):
            values = yield batch
            tried += [(value, setting) for setting, value in zip(batch, values) if value is not None]
            if not tried:
                return
            known = [setting for _, setting in tried]
            best = max(tried, key=lambda pair: pair[0])[1]
            batch = [
                {**best, name: value}
                for name, given in self.space.items()
                if len(given) > 1
                for value in beyond(name, best, known)
            ]
            if not batch:
                return


@dataclass(frozen=True)
class _Trials:
    space: Mapping[str, Distribution | Sequence[Any]]
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


def describe_search(search: Search) -> dict[str, Any]:
    """What the search is, in words and numbers that can be stored and compared."""
    words: dict[str, Any] = {"kind": type(search).__name__}
    for name, value in vars(search).items():
        words[name] = {k: _words(v) for k, v in value.items()} if isinstance(value, Mapping) else value
    return words


def _words(values: Any) -> Any:
    return repr(values) if isinstance(values, Distribution) else list(values)
