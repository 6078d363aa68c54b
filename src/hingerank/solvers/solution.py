"""What every solver returns: the weights, the value reached, and a certificate of how close to optimal they are."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Certificate:
    """How far a fit is from the optimum, in a quantity that can be checked.

    kind: what `value` measures, such as "relative gradient norm" or "duality gap"; tolerance: what was asked for;
    status: "converged", or why the solver stopped ("max_iter", "max_seconds", "stalled", "callback", "validation");
    n_iter: iterations made; seconds: time spent.

    >>> Certificate("duality gap", 2e-4, 1e-3, "converged", 12, 0.03).converged
    True
    """

    kind: str
    value: float
    tolerance: float
    status: str
    n_iter: int
    seconds: float

    @property
    def converged(self) -> bool:
        return self.status == "converged"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Certificate":
        """The inverse of `to_dict`; missing, extra or ill-typed entries are a ValueError."""
        types = {f.name: f.type for f in fields(cls)}
        if set(values) != set(types):
            raise ValueError(f"a certificate has the entries {sorted(types)}, got {sorted(values)}")
        for name, kind in types.items():
            wanted = (int, float) if kind is float else kind
            if not isinstance(values[name], wanted) or isinstance(values[name], bool):  # type: ignore[arg-type]
                raise ValueError(f"certificate entry {name!r} must be a {kind}, got {values[name]!r}")
        return cls(**values)


@dataclass(frozen=True)
class Solution:
    """w: the minimiser found; value: the objective there; certificate; trace: one dict per iteration; extra: the
    solver's own results, such as dual multipliers."""

    w: np.ndarray
    value: float
    certificate: Certificate
    trace: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
