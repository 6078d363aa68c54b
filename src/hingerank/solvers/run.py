"""The result of every solver: the weights, the value reached, and a certificate of how close to optimal they are."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from numbers import Real
from typing import Any, TypedDict

import numpy as np

from hingerank.arrays import Facts, Given, Vector
from hingerank.notebook import html_table
from hingerank.watching import BOARD

GAP, ABSOLUTE_GAP, STATIONARY = "relative duality gap", "duality gap", "stationarity"  # kinds of certificates
ROUNDING = 1e-14  # relative error of a value that is a sum over many pairs
LITTLE = 0.01  # fraction of the value at 0: a fit that gains less because of its penalty has learned next to nothing
Entry = dict[str, Any]  # of a trace: the figures of one iteration
Callback = Callable[[Entry], object] | None  # called with each entry; return True to stop


class Limits(TypedDict, total=False):
    """When a solver stops, as every solver takes it and hands it to its `Run`."""

    tol: float
    max_iter: float
    max_seconds: float
    callback: Callback


@dataclass(frozen=True)
class Certificate:
    """How far a fit is from the optimum, in a quantity that can be checked.

    kind: what `value` measures, such as "relative duality gap" (see `relative`); tolerance: the requested value;
    status: "converged", or why the solver stopped ("max_iter", "max_seconds", "stalled", "callback", "validation",
    "overflow" or "rounding" if numbers are too large for double precision), or "trained" for boosters, which run the
    requested rounds and approach no optimum: their value is a measure on the training rows;
    n_iter: iterations made; seconds: time spent; gradient: its norm relative to that at 0, if the solver computes it.

    >>> Certificate("duality gap", 2e-4, 1e-3, "converged", 12, 0.03).converged
    True
    """

    kind: str
    value: float
    tolerance: float
    status: str
    n_iter: int
    seconds: float
    gradient: float | None = None

    @property
    def converged(self) -> bool:
        return self.status == "converged"

    def __str__(self) -> str:
        """
        >>> print(Certificate("duality gap", 2.3456e-4, 1e-3, "converged", 12, 0.03))
        converged: duality gap 0.000235, at most 0.001 asked for, 12 iterations
        """
        asked = f", at most {self.tolerance:.3g} asked for" if self.status != "trained" else ""
        return f"{self.status}: {self.kind} {self.value:.3g}{asked}, {self.n_iter} iterations"

    def _repr_html_(self) -> str:
        return html_table("certificate", ["", ""], [[name, value] for name, value in self.to_dict().items()])

    def to_dict(self) -> Facts:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Given) -> "Certificate":
        """The inverse of `to_dict`; missing, extra or ill-typed entries are a ValueError."""
        types: Facts = {f.name: f.type for f in fields(cls)}
        values = {"gradient": None, **values}  # version 0.1 did not store the gradient
        if set(values) != set(types):
            raise ValueError(f"a certificate has the entries {sorted(types)}, got {sorted(values)}")
        for name, kind in types.items():
            if name == "gradient" and values[name] is None:
                continue
            wanted = (int, float) if kind in (float, float | None) else kind
            if not isinstance(values[name], wanted) or isinstance(values[name], bool):
                raise ValueError(f"certificate entry {name!r} must be a {kind}, got {values[name]!r}")
        return cls(**values)


@dataclass(frozen=True)
class Solution:
    """w: the minimiser found; value: the objective there; certificate; trace: one dict per iteration; extra: the
    solver's own results, such as dual multipliers; origin: the objective at w = 0, if the solver computes it; weak:
    whether the penalty keeps the weights so near 0 that next to nothing is gained (see `Run.relative`)."""

    w: Vector
    value: float
    certificate: Certificate
    trace: list[Entry] = field(default_factory=list)
    extra: Facts = field(default_factory=dict)
    origin: float = np.nan
    weak: bool = False


# What every solver's loop does besides its mathematics: keep a clock and a trace, and decide when to stop.


def relative(gap: float, value: float, origin: float, least: float = 0.0, nothing: float = 0.0) -> float:
    """gap / min(f(0) - f(w) + gap, |f(w)|): the stopping rule of every convex fit.

    f(0) - f(w) + gap bounds the possible gain. Relative to f(w) alone the gap would mean little if w = 0 is nearly as
    good as the optimum, as for small C or features of small scale: there only the direction of w counts. Relative to
    the gain alone it would mean little if nearly all is gained, as for a large C and separable data: there f(w) is a
    small fraction of f(0). The rule is invariant if features, C and weights are rescaled to the same problem.

    Parameters
    ----------
    gap : upper bound on f(w) minus the optimum
    value, origin : f(w) and f(0)
    least : a lower bound on f(0) - f(w) + gap that is free of the rounding of that difference
        If the gap comes from multipliers, f(0) - f(w) + gap is f(0) minus their dual value. For a structure R with
        R(0) = 0 and a loss whose gradient is -v that is at least R*(v), by Fenchel's inequality for the loss at 0:
        ½‖v‖² for R = ½‖w‖².
    nothing : the fraction of f(0) below which f(w) counts as zero, if it may fall to 0

    Returns
    -------
    float : infinity if rounding hides the gap or the possible gain; NaN if sums overflow
        If not even a gain of the size of rounding is possible, it is relative to f(w) alone: weights of 0 are optimal.

    Examples
    --------
    >>> [round(relative(0.5, value, origin=10.0), 6) for value in (10.0, 9.5, 1.0)]
    [1.0, 0.5, 0.5]
    """
    gain = max(origin - value + gap - ROUNDING * abs(origin), least)
    if not np.isfinite(gain) or np.isnan(gap):
        return np.nan
    if value - gap > origin + ROUNDING * (abs(value) + abs(origin)):  # no optimum is above f(0): rounding hides the gap
        return np.inf
    if gap == 0:
        return 0.0
    if least == 0 and gain <= ROUNDING * abs(origin):  # any gain is below rounding: w = 0 is optimal
        return gap / abs(value) if value != 0 else np.inf
    size = min(gain, max(abs(value), nothing * abs(origin)))
    return gap / size if size > 0 else np.inf


def apart(value: float, lower: float) -> float:
    """value - lower, plus a bound on the rounding error of that difference."""
    return value - lower + ROUNDING * abs(value)


class Run:
    """One run of a solver: its clock, its trace, and in `status` why it ended, empty while it runs.

    measured: the figure of a trace entry that must fall to tol. max_iter: entries to make after the first.
    callback: called with each entry; return True to stop. origin: f(0), set by a solver that uses `relative`.

    >>> run = Run("gap", tol=0.1, max_iter=10)
    >>> while not run.stops(gap=0.5 ** len(run.trace)):
    ...     pass
    >>> run.status, run.solution("duality gap", np.zeros(1), 0.0, n_iter=4).certificate.value
    ('converged', 0.0625)
    """

    def __init__(
        self,
        measured: str,
        tol: float = 1e-3,
        max_iter: float = 1000,
        max_seconds: float = np.inf,
        callback: Callback = None,
    ):
        for name, limit in (("max_iter", max_iter), ("max_seconds", max_seconds)):
            if not isinstance(limit, Real) or np.isnan(limit):
                raise ValueError(f"{name} must be a number, not {limit!r}")
        self.measured, self.tol, self.max_iter = measured, tol, max_iter
        self.max_seconds, self.callback, self.began = max_seconds, callback, time.perf_counter()
        self.status, self.trace = "", list[Entry]()
        self.origin, self.weak = np.nan, False

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def relative(
        self, gap: float, value: float, least: float = 0.0, penalty: float | None = None, nothing: float = 0.0
    ) -> float:
        """The gap `relative` to gain and objective.

        penalty: the penalty at w, `least` if not given. If it is most of a small gain, the penalty keeps the weights
        small, and not a lack of anything to learn.
        """
        gain, penalty = self.origin - value, least if penalty is None else penalty
        self.weak = bool(gain < LITTLE * abs(self.origin) and penalty > 0 and penalty >= 0.5 * gain)
        return relative(gap, value, self.origin, least, nothing)

    def stops(self, *, early: bool = False, w: Vector = None, **figures: Any) -> bool:
        """Add the figures to the trace and return whether the run ends. early: too early to have converged; w: the
        current weights, which the callback gets and the trace does not store."""
        entry = {**figures, "seconds": self.seconds}
        self.trace.append(entry)
        board = BOARD.get()
        if board is not None:
            board.tell(len(self.trace), entry, self.tol, self.measured)
        if self.callback is not None and self.callback(entry if w is None else {**entry, "w": w}):
            self.status = "callback"
        elif np.isnan(entry[self.measured]):
            self.status = "overflow"
        elif entry[self.measured] < -self.tol:  # a true gap is never negative
            self.status = "rounding"
        elif entry[self.measured] <= self.tol and not early:
            self.status = "converged"
        elif entry["seconds"] > self.max_seconds:
            self.status = "max_seconds"
        elif len(self.trace) > self.max_iter:
            self.status = "max_iter"
        return self.status != ""

    def solution(self, kind: str, w: Vector, value: float, n_iter: int, **extra: object) -> Solution:
        """The solution, with a certificate of the given kind from the last entry."""
        last = self.trace[-1]
        certificate = Certificate(
            kind, last[self.measured], self.tol, self.status, n_iter, self.seconds, last.get("gradient")
        )
        return Solution(w, value, certificate, self.trace, extra, self.origin, self.weak)
