"""Text from devices: however long and whatever is in it, it is one short printable line wherever people meet it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.events import ReportRejected, TaskLost
from tests.network.bench import UNTIL_STOPPED, tree
from tests.network.harness import ground
from tests.network.puppet import Puppet, Status
from tests.network.toys import Toy

pytestmark = pytest.mark.slow

NASTY = "\n".join(["\x1b[2J\x1b]0;title\x07 line \u202e of a stranger " + "y" * 100] * 50)
TOY = Toy(clients=4, buffer=1, rounds=UNTIL_STOPPED, width=16)


def is_short_line(text: str, most: int = 260) -> bool:
    return text.isprintable() and len(text) <= most and text.count("stranger") <= 3


@pytest.mark.parametrize("collects", [False, True])
def test_reasons_and_names_of_a_device_are_short_lines_in_journal_log_and_terminal(tmp_path: Path, collects: bool) -> None:
    with ground(tmp_path, replace(TOY, collects=collects)) as place:
        place.serve(devices=1, patience=0.1, log_level="debug")
        place.await_listening()
        puppet = Puppet(place.address, 0)
        puppet.enrol(data=NASTY, samples=5)
        errand = puppet.await_work()
        puppet.hand(puppet.report(errand.work, b"", declined=NASTY), b"")
        (lost,) = place.await_event(TaskLost)
        assert isinstance(lost, TaskLost) and lost.reason.startswith("its device declined: ") and is_short_line(lost.reason)
        errand = puppet.await_work()
        bad = tree(**{NASTY: np.zeros(16, np.float32)})
        for _ in range(3):
            receipt = puppet.hand(puppet.report(errand.work, bad, stats={NASTY: 1.0}), bad)
            assert is_short_line(receipt.reason)
            if receipt.status not in (Status.RETRY, Status.BUSY):
                break
        (rejected,) = place.await_event(ReportRejected)
        assert isinstance(rejected, ReportRejected) and is_short_line(rejected.reason)
        puppet.close()
        place.kill_everything()
        assert place.said.replace("\n", "").isprintable() and max(map(len, place.said.splitlines())) < 700
        logged = [json.loads(line) for line in (place.out / "wire" / "log.jsonl").read_text().splitlines()]
        texts = [value for entry in logged for value in entry.values() if isinstance(value, str)]
        assert len(texts) > 5 and [text for text in texts if not is_short_line(text, 300)] == []
