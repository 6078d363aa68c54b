"""Propensities as they are estimated or given: a value for each place, with intervals, and as a file."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from hingerank.arrays import Facts, Given
from hingerank.data.checks import warn, whole
from hingerank.data.files import DataError, plain, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Propensities:
    """How often each place is examined, relative to the first.

    Parameters
    ----------
    method : str
    places : int array
        1, 2, … up to the last place.
    alpha, beta : arrays, an entry a place, or contexts × places
        P(click) = alpha · relevance + beta. Without trust bias alpha is `values` and beta 0.
    context_names : array, optional
    reasons : mapping
        Why a value is NaN: place (of a context) -> reason.
    about : mapping
        The number of iterations, the thinnest edge of the graph of places, …

    Attributes
    ----------
    values : array
        alpha over its first place: 1 first, NaN where it is not identified.
    """

    method: str
    places: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    context_names: np.ndarray | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    about: Given = field(default_factory=dict)
    _resample: Callable[[int, int], np.ndarray] | None = None
    _drawn: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    @property
    def values(self) -> np.ndarray:
        return relative(self.alpha)

    def __repr__(self) -> str:
        some = ", ".join(f"{value:.3f}" for value in np.atleast_2d(self.values)[0][:5])
        more = ", …" if len(self.places) > 5 else ""
        few = f"; too few clicks to tell at {len(self.few_clicks)} of them" if self.few_clicks else ""
        return f"Propensities({self.method}: {some}{more} at places 1 to {len(self.places)}{few})"

    @property
    def few_clicks(self) -> Mapping[str, float]:
        """Places (of a context) with fewer than 10 clicks on documents that were shown at other places too.

        Their values are little more than noise, and their intervals may be far too narrow.
        """
        found: Mapping[str, float] = self.about.get("few clicks", {})
        return found

    def at(self, places: ArrayLike, contexts: ArrayLike | None = None) -> np.ndarray:
        """The value of each place (and context, by its code); an error where one is not identified."""
        k = np.asarray(places, np.int64)
        if len(k) and (k.min() < 1 or k.max() > len(self.places)):
            raise DataError(
                f"there is no propensity of place {k.max() if k.min() >= 1 else k.min()}: they are known for 1 to "
                f"{len(self.places)}; leave out such showings, as in log.take(log.place <= {len(self.places)})"
            )
        if self.context_names is not None and contexts is None:
            raise DataError("these propensities are by place and context: give the contexts of the places")
        values = self.values[k - 1] if self.context_names is None else self.values[np.asarray(contexts), k - 1]
        unknown = np.isnan(values)
        if unknown.any():
            place = int(k[np.argmax(unknown)])
            why = next(iter(self.reasons.values()), "it was never shown")
            raise DataError(
                f"the propensity of place {place} is not identified ({why}): leave out its showings, or give values="
            )
        return values

    def interval(self, level: float = 0.95, rounds: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) bounds of `values`: bootstrap over lists, or over showings where the log has no sessions.

        If the drawn logs have other values on average, by more than these differ among each other, a warning says that
        the method is biased on this log: with few showings of each document, EM's values are too large, and so are the
        bounds.

        Parameters
        ----------
        level : float
            The probability that a bound of this kind covers the truth on both sides.
        rounds : int
            Logs that are drawn.
        seed : int
        """
        if not 0 < level < 1:
            raise DataError(f"level is {level!r}, expected a number between 0 and 1")
        drawn = self.resampled(rounds, seed)
        self._warn_biased(drawn)
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def _warn_biased(self, drawn: np.ndarray) -> None:
        drift, spread = np.ravel(drawn.mean(axis=0) - self.values), np.ravel(drawn.std(axis=0))
        most = int(np.argmax(np.where(np.abs(drift) > spread, np.abs(drift), 0.0)))  # False for NaN
        if abs(drift[most]) > spread[most]:
            value, place = np.ravel(self.values)[most], most % len(self.places) + 1
            remedy = "count more lists" if self.method == "all-pairs" else "use method='all-pairs'"
            warn(
                f"propensities by {self.method!r} are biased on this log, and so are their intervals: at position "
                f"{place} they are {value:.3f}, and {value + drift[most]:.3f} on average in logs drawn from this one. "
                f"Documents have too few showings: {remedy}"
            )

    def resampled(self, rounds: int = 200, seed: int = 0) -> np.ndarray:
        """`values` of so many logs whose lists are drawn from this one, rounds first.

        The same seed draws the same lists, whatever the method: the interval of a difference between two methods is
        that of the differences of these.
        """
        if self._resample is None:
            raise DataError(f"propensities that were {self.method} have no interval: nothing was estimated")
        key = whole("rounds", rounds, 2), seed
        if key not in self._drawn:
            self._drawn[key] = self._resample(*key)
        return self._drawn[key]

    def plot(self, axis: "Axes | None" = None, level: float = 0.95) -> "Figure":
        """A matplotlib Figure of values by place with their intervals; or draws on `axis`.

        Parameters
        ----------
        axis : matplotlib Axes, optional
        level : float
            Of the intervals.
        """
        if axis is None:
            try:
                from matplotlib.figure import Figure
            except ImportError:
                raise ImportError("plots need matplotlib: pip install 'hingerank[report]'") from None
            axis = Figure(figsize=(5, 3.2), layout="constrained").add_subplot()
        low, high = (self.values, self.values) if self._resample is None else self.interval(level)
        names = [None] if self.context_names is None else [str(name) for name in self.context_names]
        for name, value, below, above in zip(names, *map(np.atleast_2d, (self.values, low, high))):
            bars = np.nan_to_num(np.maximum(0.0, [value - below, above - value]))
            axis.errorbar(self.places, value, bars, marker="o", markersize=4, capsize=2, label=name)
        axis.set(xlabel="place", ylabel="propensity, relative to place 1", ylim=(0, None))
        if self.context_names is not None:
            axis.legend()
        return cast("Figure", axis.figure)

    def to_dict(self, level: float = 0.95) -> Facts:
        """Plain values for JSON, with intervals where there are any."""
        found: Facts = {"method": self.method, "places": self.places, "values": self.values}
        if self._resample is not None:
            low, high = self.interval(level)
            found |= {"low": low, "high": high, "level": level}
        found |= {"alpha": self.alpha, "beta": self.beta, "reasons": dict(self.reasons), "about": dict(self.about)}
        if self.context_names is not None:
            found["contexts"] = self.context_names
        return plain(found)

    def save(self, path: str | os.PathLike[str], level: float = 0.95) -> None:
        """Write them as JSON; ``propensities(log, "given", values=path)`` reads it."""
        write_whole(path, (json.dumps(self.to_dict(level), indent=1) + "\n").encode())


def relative(alpha: np.ndarray) -> np.ndarray:
    first = alpha[..., :1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(first > 0, alpha / first, np.nan)


def read_propensities(path: Path) -> Propensities:
    try:
        stored = json.loads(path.read_text("utf-8"))
        alpha, beta = (np.array(stored[name], np.float64) for name in ("alpha", "beta"))
        places = np.array(stored["places"], np.int64)
        contexts = stored.get("contexts")
        alike = alpha.shape == beta.shape and alpha.shape[-1:] == places.shape
        if not alike or (places != np.arange(len(places)) + 1).any():
            raise ValueError("places, alpha and beta differ in length")
        if not (np.nan_to_num(alpha, nan=1.0) >= 0).all() or not len(places):
            raise ValueError("alpha holds negative numbers, or none")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(f"{path} holds no propensities that can be read: {error}") from None
    names = None if contexts is None else np.array(contexts, object)
    return Propensities("given", places, alpha, beta, names, dict(stored.get("reasons", {})))
