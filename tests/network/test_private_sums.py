"""A disk that is taken from a private run shows no update and no sum without noise; of any other run it does."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from fedfleet.core import aggregation
from fedfleet.core.records import Context, Report
from fedfleet.core.tensor_format import unpack_tree
from tests.network.harness import ground
from tests.network.puppet import Status, in_chunks, puppets
from tests.network.test_private_folder import shared_folders
from tests.network.toys import NOISE_KEY, Toy, payload_of, plan_of, worked

pytestmark = pytest.mark.slow


def shown(folders: list[Path], needles: dict[str, bytes]) -> set[str]:
    """Which of these byte sequences lie in any file."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    return {name for path in files for data in [path.read_bytes()] for name, needle in needles.items() if needle in data}


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_disk_shows_neither_updates_nor_their_sum_before_the_noise_is_in_it(tmp_path: Path, noise: float) -> None:
    toy = Toy(clients=3, buffer=3, rounds=2, width=400_000, noise=noise)  # large enough for streams, whose beginnings are kept
    plan = plan_of(toy)
    with ground(tmp_path, toy) as place, ExitStack() as stack:
        place.serve(keep_reports=True, devices=1, patience=0.1)
        place.await_listening()
        first, second = stack.enter_context(puppets(place.address, range(2)))
        acc = aggregation.zero(plan.algorithm.fold, plan.algorithm.init(plan.params))
        needles: dict[str, bytes] = {"the key": NOISE_KEY, "the key as text": NOISE_KEY.hex().encode()}
        for name, puppet in (("first", first), ("second", second)):
            errand = puppet.await_work()
            done = worked(toy, puppet.client, errand.work.task, errand.model)
            payload = payload_of(done)
            head = puppet.report(errand.work, payload, weight=done.weight)
            if name == "first":
                assert puppet.hand_stream(head, in_chunks(payload)).status == Status.SAFE
                report = Report(done.task, done.client, unpack_tree(payload), done.weight, {})
                aggregation.add(plan.algorithm.fold, acc, report, Context(0, 0.0, done.client, {}, done.task))
            else:  # the line breaks in the middle
                assert puppet.hand_stream(head, list(in_chunks(payload))[:1]).status == Status.RETRY
                assert puppet.held(head) > 0
            needles[f"update of {name}"] = done.update["w"][1000:1016].tobytes()
        needles["sum"] = max(aggregation.save(acc).values(), key=lambda leaf: leaf.size).reshape(-1)[1000:1016].tobytes()
        assert any(needles["sum"])
        assert place.server is not None
        found = shown([place.out, *shared_folders(place.server.pid)], needles)
        assert found == (set() if noise else {"update of first", "update of second", "sum"})
