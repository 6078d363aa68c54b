"""Real worker processes: the same bits for any number of them, and faults while a fit goes on."""

import os
import shutil
import signal
import time

import numpy as np
import pytest

import hingerank as hr

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    place, data = tmp_path_factory.mktemp("parts"), hr.make_letor(120, 15, seed=1)
    for k, ids in enumerate(np.array_split(data.blocks.ids, 6)):
        hr.write(data.subset(ids.tolist()), f"{place}/part{k}/")
    return [str(place / f"part{k}") for k in range(6)]


def fitted(data, **more):
    return hr.RankSVM(tol=1e-9, scale="standard", **more).fit(data)


def test_the_bits_are_those_of_one_process(client, paths):
    spread, alone = hr.distributed.read(paths, client), hr.distributed.read(paths)
    far, near = fitted(spread), fitted(alone)
    assert np.array_equal(far.coef_, near.coef_) and far.objective_ == near.objective_
    assert spread.runner.loads == len(paths)  # every part was read once, by one worker
    assert far.score(spread) == near.score(alone)
    assert np.array_equal(far.predict(spread), near.predict(alone))
    assert hr.distributed.evaluate(far, spread, ["map"]) == hr.distributed.evaluate(near, alone, ["map"])


def test_a_worker_killed_in_the_middle_changes_nothing(client, paths):
    spread, killed = hr.distributed.read(paths, client), []
    expected, before = fitted(spread), spread.runner.loads

    def kill(entry):
        if entry["iteration"] == 2 and not killed:
            address = spread.runner.place[spread.parts[0].key]
            killed.append([key for key, worker in spread.runner.place.items() if worker == address])
            os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)

    assert np.array_equal(fitted(spread, callback=kill).coef_, expected.coef_)
    assert spread.runner.loads - before == len(set(killed[0]) & {part.key for part in spread.parts})


def test_a_part_that_kills_its_workers_is_named(client, paths, monkeypatch):
    monkeypatch.setattr("hingerank.distributed.dask_runner.MOST_DEATHS", 1)
    spread = hr.distributed.read(paths[:1], client)
    with pytest.raises(hr.distributed.ClusterError, match=r"workers died while working on .*part0: .* memory"):
        spread.ask(_die)


def _die(part):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_file_that_vanished_is_named_and_the_fit_can_go_on(client, paths, tmp_path):
    copies = [shutil.copytree(path, tmp_path / os.path.basename(path)) for path in paths]
    spread = hr.distributed.read(copies, client)
    expected = fitted(spread)

    def vanish(entry):
        if entry["iteration"] == 2:
            shutil.move(copies[0], tmp_path / "away")
            address = spread.runner.place[spread.parts[0].key]
            os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)

    checkpoint = hr.distributed.Checkpoint(tmp_path / "weights.npy", also=vanish)
    with pytest.raises(hr.DataError, match="part0: the file of a part is missing"):
        fitted(spread, callback=checkpoint)
    shutil.move(tmp_path / "away", copies[0])
    taken_up = fitted(spread, init=checkpoint.weights())
    assert taken_up.n_iter_ < expected.n_iter_
    assert taken_up.objective_ == pytest.approx(expected.objective_, rel=1e-9)


def test_a_lost_scheduler_is_a_clear_error(paths, tmp_path):
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0, "silence_logs": 50}
    cluster = distributed.LocalCluster(n_workers=1, processes=False, **options)
    client = distributed.Client(cluster)
    spread = hr.distributed.read(paths, client)
    checkpoint = hr.distributed.Checkpoint(
        tmp_path / "weights.npy", also=lambda entry: entry["iteration"] == 1 and cluster.close() and None
    )
    with pytest.raises(hr.distributed.ClusterError, match=r"init="):
        fitted(spread, callback=checkpoint)
    assert np.isfinite(checkpoint.weights()).all()
    client.close()


def test_a_data_frame_in_partitions(client, paths, tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    import pandas as pd

    whole = hr.RankingData.concatenate([hr.read(path) for path in paths])
    table = whole.to_frame().sample(frac=1.0, random_state=0)  # no query lies together
    spread = hr.distributed.read(frames.from_pandas(pd.DataFrame(table), npartitions=4), client, folder=tmp_path)
    assert (spread.n_rows, spread.n_queries) == (whole.n_rows, whole.n_queries)
    assert fitted(spread).objective_ == pytest.approx(fitted(whole).objective_, rel=1e-7)
    named = frames.from_pandas(pd.DataFrame(table.rename(columns={"qid": "query_id"})), npartitions=2)
    assert hr.distributed.read(named, client, folder=tmp_path / "named").n_queries == whole.n_queries
    with pytest.raises(hr.DataError, match="no column 'topic'"):
        hr.distributed.read(frames.from_pandas(pd.DataFrame(table), npartitions=2), client, qid="topic")


def test_a_part_that_exceeds_the_memory_of_its_worker_is_named(client, paths, monkeypatch):
    """The nanny ends a worker that outgrows its memory; the part goes to the next, until it is enough."""
    monkeypatch.setattr("hingerank.distributed.dask_runner.MOST_DEATHS", 0)
    spread = hr.distributed.read(paths[:1], client)
    with pytest.raises(hr.distributed.ClusterError, match=r"1 workers died while .*part0: .*memory_limit"):
        spread.ask(_swell, 1_300_000_000)


def _swell(part, size):
    kept = np.ones(size, np.uint8)
    time.sleep(60)
    return kept[0]
