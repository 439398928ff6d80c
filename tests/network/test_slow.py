"""What takes the server long never keeps a device waiting: receipts come while a model is being made.

How long they take is measured by benchmarks/receiving.py.
"""

import time

import pytest

from fedfleet.core.events import ModelCommitted, ReportsGathered
from tests.network.bench import UNTIL_STOPPED, bench
from tests.network.harness import wait_for
from tests.network.puppet import PAUSE, Status
from tests.network.toys import Toy
from tests.worlds import only

pytestmark = pytest.mark.slow


def test_receipts_come_while_a_model_is_being_made(tmp_path):
    toy = Toy(clients=6, buffer=2, rounds=UNTIL_STOPPED, slow_seconds=1.5)
    with bench(tmp_path, toy, devices=6, patience=20.0) as desk:
        people = [desk.newcomer() for _ in range(6)]
        errands = {}

        def all_have_work():
            for puppet in people:
                if puppet.client not in errands:
                    answer, payload = puppet.check()
                    if answer.HasField("work"):
                        errands[puppet.client] = puppet.opened(answer, payload)
            time.sleep(PAUSE)
            return len(errands) == len(people)

        wait_for(all_have_work, "work for everybody", seconds=60)
        for puppet in people[:2]:  # these two make a model, which takes its time
            assert desk.hand(puppet, *desk.honest(puppet, errands[puppet.client])).status == Status.SAFE
        began = time.monotonic()
        for puppet in people[2:5]:
            assert desk.hand(puppet, *desk.honest(puppet, errands[puppet.client])).status == Status.SAFE
            answer, _ = people[5].check()  # and so do answers to those who only ask
            assert answer.WhichOneof("what")
        took = time.monotonic() - began
        assert not only(ModelCommitted, desk.ground.events()), f"three receipts took {took:.2f} s: longer than the model"
        desk.ground.await_event(ModelCommitted, 1, seconds=60)
        first = only(ReportsGathered, desk.ground.events())[0]
        assert len(first.tasks) == 2  # what came meanwhile waits for the next model
