"""Values of policies on the sample of the Open Bandit Dataset: obp's own values, and its formulas written out."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.clicks.value import policy_value

ORACLE = runpy.run_path(str(Path(__file__).with_name("obp_oracle.py")))


def obp(r, p, e, guess, own):
    """obp.ope's InverseProbabilityWeighting, SelfNormalized… and DoublyRobust, `_estimate_round_rewards` then mean."""
    iw = e / p
    return {
        "ips": np.mean(r * iw),
        "snips": np.mean(r * iw / iw.mean()),
        "dr": np.mean(own + iw * (r - guess)),
    }


def random_rounds(n, seed):
    rng = np.random.default_rng(seed)
    r = (rng.random(n) < 0.1).astype(float)
    return r, rng.uniform(0.05, 0.9, n), rng.uniform(0, 1, n), rng.uniform(0, 0.3, n), rng.uniform(0, 0.3, n)


def check(r, p, e, guess, own):
    for estimator, expected in obp(r, p, e, guess, own).items():
        found = policy_value(r, p, e, estimator=estimator, guess=guess, guess_of_target=own)
        assert float(found) == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert found.interval[0] < found < found.interval[1]


def test_obps_formulas():
    check(*random_rounds(2000, 0))


@pytest.mark.slow
@pytest.mark.skipif(not ORACLE["DATA"].is_dir(), reason="no click data in $HINGERANK_DATA")
def test_obps_own_values_on_the_open_bandit_sample():
    """`obp_oracle.py` wrote them with obp; the logs of uniform draws judge Thompson sampling."""
    found = ORACLE["open_bandit"]()
    target, guess = (table[found.action, found.position] for table in (found.policy, found.guess))
    own = (found.policy * found.guess).sum(axis=0)[found.position]
    check(found.reward, found.propensity, target, guess, own)
    for estimator in ("ips", "snips", "dr"):
        value = policy_value(
            found.reward, found.propensity, target, estimator=estimator, guess=guess, guess_of_target=own
        )
        assert float(value) == pytest.approx(json.loads(ORACLE["GOLDEN"].read_text())[estimator], rel=1e-12)
        assert value.interval[0] < found.truth < value.interval[1]


def test_a_value_covers_the_truth():
    rng, inside = np.random.default_rng(1), 0
    for run in range(60):
        draw = rng.random(400) < 0.3  # which of two arms
        r = (rng.random(400) < np.where(draw, 0.5, 0.2)).astype(float)
        found = policy_value(r, np.where(draw, 0.3, 0.7), np.where(draw, 0.9, 0.1), resamples=200, seed=run)
        inside += found.interval[0] < 0.47 < found.interval[1]
    assert inside >= 52


def test_few_rounds_are_not_clipped_below_a_weight_of_one():
    """The logged policy itself, whose weights are 1: of 32 rounds the largest was once √32/10."""
    rewards, p = np.tile([1.0, 0.0], 16), np.full(32, 0.5)
    assert policy_value(rewards, p, p, estimator="clipped") == 0.5


def test_what_is_refused():
    r, p, e, *_ = random_rounds(100, 2)
    with pytest.raises(hr.DataError, match="rounds of this policy"):
        policy_value(r, p, np.where(np.arange(100) < 3, e, 0.0))
    with pytest.raises(ValueError, match="needs guess"):
        policy_value(r, p, e, estimator="dr")
    with pytest.raises(ValueError, match=r"estimator must be 'ips', .* not 'dm'"):
        policy_value(r, p, e, estimator="dm")
    with pytest.raises(ValueError, match=r"clip=0\.2 is for estimator='clipped', not for estimator='snips'"):
        policy_value(r, p, e, estimator="snips", clip=0.2)
    with pytest.raises(hr.DataError, match="one of each"):
        policy_value(r, p[:5], e)
    with pytest.raises(hr.DataError, match="above 0"):
        policy_value(r, 0 * p, e)
