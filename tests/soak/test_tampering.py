"""A thousand flipped bits, over every file of finished and of killed runs: found before they are used, or they change nothing."""

import random
import shutil

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import resolve
from fedfleet.core.errors import FedFleetError
from fedfleet.core.registry import register
from tests.app.runs.flipping import flip, killed_run, sealed_files
from tests.app.runs.tampering import SPEC
from tests.simulation.killing import controlled

REMEMBERING = {**SPEC, "algorithm": "controlled", "run": {"checkpoint_every": 2, "memory_mb": 1}}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    register("algorithms", "controlled", controlled)
    folder = tmp_path_factory.mktemp("honest")
    perform(resolve(REMEMBERING), folder / "whole")
    killed_run(REMEMBERING, folder / "killed", 3)
    assert (folder / "killed/run.db-wal").stat().st_size and list(folder.glob("killed/memory-*.bin"))
    return folder


def test_of_500_flips_in_a_finished_run_none_is_accepted(honest, tmp_path):
    draw = random.Random(1)
    for i in range(500):
        folder = shutil.copytree(honest / "whole", tmp_path / str(i))
        name = draw.choice(sealed_files(folder))
        at = flip(folder / name, draw)
        for quick in (True, False) if i % 5 == 0 else (True,):
            with pytest.raises(FedFleetError) as wrong:
                replay_run(folder, quick=quick)
            assert "\n" not in str(wrong.value), (name, at)
        with pytest.raises(FedFleetError):
            perform(resolve(REMEMBERING), folder, resume=True)
        shutil.rmtree(folder)


def attempted(folder):
    """A resumed run, or the sentence that says why it cannot be resumed; anything else fails the test."""
    try:
        return perform(resolve(REMEMBERING), folder, resume=True), ""
    except FedFleetError as error:
        return None, str(error)


def test_after_500_flips_in_a_killed_run_it_resumes_to_the_same_end_or_says_why_not(honest, tmp_path):
    draw = random.Random(2)
    digest, model = replay_run(honest / "whole")["digest"], (honest / "whole/model.safetensors").read_bytes()
    names = [p.name for p in (honest / "killed").iterdir() if p.name not in ("lock", "run.db-shm")]
    went_on = 0
    for i in range(500):
        folder = shutil.copytree(honest / "killed", tmp_path / str(i))
        name = draw.choice(names)
        at = flip(folder / name, draw)
        done, said = attempted(folder)
        assert "\n" not in said, (name, at)
        if done is not None:
            went_on += 1
            assert done.metrics["digest"] == digest, (name, at)
            assert (folder / "model.safetensors").read_bytes() == model, (name, at)
            assert replay_run(folder, quick=True)["ok"]
        shutil.rmtree(folder)
    assert went_on > 100
