"""What a policy is worth by a log of another one that drew at random: IPS, self-normalised, clipped, doubly robust."""

import numpy as np
from numpy.typing import ArrayLike

from hingerank.clicks.value import HANDFUL, Estimate, check_estimate, studentised
from hingerank.data.blocks import real_numbers
from hingerank.data.checks import positive
from hingerank.data.files import DataError


def policy_value(
    rewards: ArrayLike,
    propensities: ArrayLike,
    target: ArrayLike,
    *,
    estimator: str = "ips",
    guess: ArrayLike | None = None,
    guess_of_target: ArrayLike | None = None,
    clip: float | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """Mean reward per round of a policy, from rounds in which another one drew the action; w = target / propensity.

    - "ips":  mean(w r)
    - "snips":  mean(w r) / mean(w)
    - "clipped":  mean(min(w, 1 / clip) r)
    - "dr":  mean(guess_of_target + w (r - guess))

    Parameters
    ----------
    rewards : array, an entry a round
        r, such as clicks.
    propensities : array
        The logged probability with which the action of the round was drawn, above 0.
    target : array
        The probability with which the policy to be judged would have drawn it.
    estimator : {"ips", "snips", "clipped", "dr"}
    guess, guess_of_target : arrays
        Of "dr": a model's expected reward of the logged action, and that of the policy's own draw.
    clip : float, optional
        Of "clipped": 1 / clip is the largest weight; 10 / √rounds if not given.
    confidence, resamples, seed : as in `evaluate_clicks`; rounds are resampled

    Returns
    -------
    Estimate
        A float with ``.interval``. A DataError where the effective sample size (Σw)² / Σw² is below 10 rounds.

    Examples
    --------
    >>> import numpy as np
    >>> rewards, p = np.tile([1.0, 0.0], 50), np.full(100, 0.5)
    >>> round(float(policy_value(rewards, p, np.tile([0.8, 0.2], 50))), 6)
    0.8
    """
    r, p, e = (
        _rounds(values, name)
        for values, name in ((rewards, "rewards"), (propensities, "propensities"), (target, "target"))
    )
    if not len(r) == len(p) == len(e) > 0:
        raise DataError(f"{len(r)} rewards, {len(p)} propensities and {len(e)} target: give one of each for a round")
    if not (p > 0).all() or not (e >= 0).all():
        raise DataError("propensities must be above 0, and target not below it")
    check_estimate(estimator, confidence, resamples)
    w = e / p
    if estimator == "clipped":
        w = np.minimum(w, np.sqrt(len(r)) / 10 if clip is None else 1.0 / positive("clip", clip))
    size = float(w.sum()) ** 2 / float(w @ w) if w.any() else 0.0
    if size < HANDFUL:
        raise DataError(
            f"the logged rounds are worth {size:.1f} rounds of this policy (effective sample size), and fewer than "
            f"{HANDFUL:.0f} say nothing: log more, or judge a policy nearer to the logged one"
        )
    above, below = w * r, w if estimator == "snips" else np.ones(len(r))
    if estimator == "dr":
        if guess is None or guess_of_target is None:
            raise ValueError("estimator='dr' needs guess (of the logged actions) and guess_of_target (of the policy)")
        model, own = _rounds(guess, "guess"), _rounds(guess_of_target, "guess_of_target")
        if len(model) != len(r) or len(own) != len(r):
            raise DataError(f"guess and guess_of_target need an entry for each of the {len(r)} rounds")
        above = own + w * (r - model)
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    interval = studentised(above[None], below, np.random.default_rng(seed), tails, resamples)[0]
    return Estimate(float(above.mean() / below.mean()), interval)


def _rounds(values: ArrayLike, name: str) -> np.ndarray:
    found = np.asarray(real_numbers(values, name))
    if found.ndim != 1 or not np.isfinite(found).all():
        raise DataError(f"{name} must be finite numbers, an entry a round")
    return found
