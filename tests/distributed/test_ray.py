"""Real Ray actors: the bits of one process, and an actor that dies while a fit goes on."""

import numpy as np
import pytest

import hingerank as hr

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    place, data = tmp_path_factory.mktemp("parts"), hr.make_letor(60, 10, seed=1)
    for k, ids in enumerate(np.array_split(data.blocks.ids, 3)):
        hr.write(data.subset(ids.tolist()), f"{place}/part{k}/")
    return [str(place / f"part{k}") for k in range(3)]


@pytest.fixture(scope="module")
def runner():
    from hingerank.distributed.ray_runner import RayRunner

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80_000_000)
    try:
        yield RayRunner(2, num_cpus=1)
    finally:
        ray.shutdown()


def fitted(data, **more):
    return hr.RankSVM(tol=1e-9, scale="standard", **more).fit(data)


@pytest.mark.filterwarnings("ignore")
def test_two_actors_have_the_bits_of_one_process_and_may_die(runner, paths):
    spread, alone = hr.distributed.read(paths, runner), fitted(hr.distributed.read(paths))
    far = fitted(spread)
    assert np.array_equal(far.coef_, alone.coef_) and far.objective_ == alone.objective_
    assert runner.rounds > 3
    killed = []

    def kill(entry):
        if entry["iteration"] == 2 and not killed:
            killed.append(ray.kill(runner.actors[0], no_restart=False))

    assert np.array_equal(fitted(spread, callback=kill).coef_, alone.coef_) and killed


@pytest.mark.filterwarnings("ignore")
def test_an_error_of_a_part_comes_back_as_itself(runner, tmp_path):
    with pytest.raises(hr.DataError, match="the file of a part is not there"):
        hr.distributed.read([str(tmp_path / "gone")], runner)
