"""Values of a policy on the sample of the Open Bandit Dataset by obp itself, written to obp.json for test_policy.py.

    HINGERANK_DATA=FOLDER PYTHON tests/clicks/obp_oracle.py

PYTHON has obp (0.4.1, the last version for Python 3.11: `pip install --no-deps obp`) and torch, scikit-learn, pandas,
matplotlib, seaborn, pyyaml, tqdm, mypy_extensions. hingerank is not needed.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

DATA = Path(os.environ.get("HINGERANK_DATA", Path(__file__).parents[3] / "shared" / "data")) / "clicks"
GOLDEN = Path(__file__).with_name("obp.json")


class Rounds(NamedTuple):
    """Logs of uniform draws; the policy to be judged draws as often as Thompson sampling did in its own logs."""

    reward: np.ndarray
    propensity: np.ndarray
    action: np.ndarray
    position: np.ndarray
    policy: np.ndarray  # (items, positions)
    guess: np.ndarray  # (items, positions)
    truth: float


def open_bandit() -> Rounds:
    """Of the sample: rewards are clicks, a guess is a click rate with twenty showings of .005 before."""
    logs = {kind: pd.read_csv(DATA / f"open-bandit-{kind}-all.csv.xz", index_col=0) for kind in ("random", "bts")}
    rounds = logs["random"]
    size = int(max(log["item_id"].max() for log in logs.values())) + 1, int(rounds["position"].max())

    def table(log: pd.DataFrame, weight: pd.Series | None = None) -> np.ndarray:
        at = np.ravel_multi_index((log["item_id"], log["position"] - 1), size)
        return np.bincount(at, weight, size[0] * size[1]).reshape(size)

    shown = table(logs["bts"])
    return Rounds(
        rounds["click"].to_numpy(float), rounds["propensity_score"].to_numpy(float), rounds["item_id"].to_numpy(),
        rounds["position"].to_numpy() - 1, shown / shown.sum(axis=0),
        (table(rounds, rounds["click"]) + 0.1) / (table(rounds) + 20.0), float(logs["bts"]["click"].mean()),
    )  # fmt: skip


def main() -> None:
    import obp
    from obp.ope import DoublyRobust, InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting

    found = open_bandit()
    n = len(found.reward)
    given = {
        "reward": found.reward, "action": found.action, "pscore": found.propensity, "position": found.position,
        "action_dist": np.tile(found.policy, (n, 1, 1)),
    }  # fmt: skip
    guess = np.tile(found.guess, (n, 1, 1))
    values = {
        "version": obp.__version__,
        "ips": InverseProbabilityWeighting().estimate_policy_value(**given),
        "snips": SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given),
        "dr": DoublyRobust().estimate_policy_value(**given, estimated_rewards_by_reg_model=guess),
    }
    GOLDEN.write_text(json.dumps({name: v if isinstance(v, str) else float(v) for name, v in values.items()}) + "\n")


if __name__ == "__main__":
    main()
