"""Memory limits of control groups, on made-up file trees."""

import numpy as np
import pytest

from hingerank.data import memory


def tree(root, groups, limits):
    """A file tree with /proc/self/cgroup and files of limits below /sys/fs/cgroup."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in groups))
    for name, text in limits.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def test_budgets(monkeypatch):
    assert memory.memory_budget(2.5) == 2_500_000_000 and memory.memory_budget(0) == 0
    assert memory.memory_budget(np.inf) == memory.memory_budget(1e300) >= 10**15
    with pytest.raises(ValueError, match="memory_gb"):
        memory.memory_budget(-1)
    monkeypatch.setattr(memory, "control_group_limits", lambda: iter([10**6, 10**7]))
    assert memory.machine_memory() == 10**6 and memory.memory_budget(None) == 500_000
    monkeypatch.setattr(memory, "control_group_limits", lambda: iter([]))
    assert memory.memory_budget(None) > 500_000
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.machine_memory() is None and memory.memory_budget(None) == memory.UNKNOWN // 2


@pytest.mark.parametrize(
    "groups, limits, least",
    [
        (["0::/"], {"memory.max": 5000}, 5000),
        (["0::/"], {"memory.max": "max"}, None),
        (["0::/a/b"], {"a/b/memory.max": "max", "a/memory.max": 700, "memory.max": 5000}, 700),  # the nested one counts
        (["0::/a/b"], {"a/b/memory.max": 300, "a/memory.max": 700}, 300),
        (["0::/a"], {"other/memory.max": 1, "a/b/memory.max": 1, "a/memory.max": 700}, 700),
        (["0::/../outside"], {"memory.max": 900}, 900),
        (["3:cpu:/x", "2:memory:/docker/1"], {"memory/memory.limit_in_bytes": 800}, 800),  # the container is the top
        (["2:memory:/a/b"], {"memory/a/memory.limit_in_bytes": 60, "memory/memory.limit_in_bytes": 2**63 - 4096}, 60),
        (["2:cpu,memory:/a", "0::/"], {"memory/a/memory.limit_in_bytes": 70}, 70),
        ([], {"memory.max": 1}, None),
    ],
)
def test_the_least_limit_from_the_own_group_up(tmp_path, groups, limits, least):
    assert min(memory.control_group_limits(tree(tmp_path, groups, limits)), default=None) == least


def test_without_a_list_of_groups_the_top_counts(tmp_path):
    root = tree(tmp_path, [], {"memory.max": 40, "memory/memory.limit_in_bytes": 30})
    (root / "proc/self/cgroup").unlink()
    assert sorted(memory.control_group_limits(root)) == [30, 40]
    assert list(memory.control_group_limits(tmp_path / "nothing")) == []
