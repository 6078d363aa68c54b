"""`hingerank fit --dask`."""

import socket
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from typer.testing import CliRunner

import hingerank as hr
from hingerank.cli.app import app

pytestmark = pytest.mark.slow

pytest.importorskip("distributed")


class Started:
    """In place of LocalCluster: the cluster of all tests here, since processes take seconds to start."""

    def __init__(self, asked, address):
        self.asked, self.address = asked, address

    def __call__(self, **options):
        self.asked.append(options)
        return self

    def __enter__(self):
        return self.address

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("local", [False, True])
def test_fit_over_workers(tmp_path, client, monkeypatch, local):
    asked_for: list[dict] = []
    address = client.scheduler.address
    monkeypatch.setattr("distributed.LocalCluster", Started(asked_for, address))
    data = hr.make_letor(40, 10, seed=0)
    (tmp_path / "parts").mkdir()
    for k, ids in enumerate(np.array_split(data.blocks.ids, 3)):
        hr.write(data.subset(ids.tolist()), tmp_path / "parts" / f"part{k}.parquet")
    (tmp_path / "parts" / "_SUCCESS").touch()  # as Spark leaves one in a folder of tables
    asked = ["fit", str(tmp_path / "parts"), "--label", "label", "--dask", "local:2" if local else address]
    asked += ["--tol", "1e-7", "-o", str(tmp_path / "model") + "/"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "converged" in done.output
    found, alone = hr.load(tmp_path / "model"), hr.RankSVM(tol=1e-7).fit(data)
    assert found.objective_ == pytest.approx(alone.objective_, rel=1e-6)
    assert found.fingerprint_["rows"] == data.n_rows
    assert [options["n_workers"] for options in asked_for] == ([2] if local else [])


def test_no_fixed_port_is_taken(tmp_path):
    """Two fits at once would warn that port 8787 is in use."""
    hr.write(hr.make_letor(5), tmp_path / "data" / "")
    asked = ["fit", str(tmp_path / "data"), "--dask", "local:1", "-o", str(tmp_path / "model")]
    with socket.socket() as other:
        with suppress(OSError):
            other.bind(("0.0.0.0", 8787))
            other.listen()
        done = subprocess.run([sys.executable, "-m", "hingerank", *asked], capture_output=True, encoding="utf-8")
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("cluster", ["local:x", "somewhere"])
def test_a_cluster_that_is_none(tmp_path, cluster):
    hr.write(hr.make_letor(5), tmp_path / "data" / "")
    done = CliRunner().invoke(
        app, ["fit", str(tmp_path / "data"), "--dask", cluster, "-o", str(tmp_path / "model") + "/"]
    )
    assert done.exit_code != 0
