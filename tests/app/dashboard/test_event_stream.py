"""A page is told only what changed, and put together again it is the whole."""

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.dashboard.event_stream import PageState, SideInfo, page_updates, stream
from fedfleet.app.dashboard.run_view import device_states
from fedfleet.app.dashboard.run_watcher import RunWatcher
from fedfleet.core.events import RoundFailed, RunBegan
from fedfleet.measure.run_record import read_record
from tests.app.dashboard.runs import END, STORY, folder_of, sent, writing

pytestmark = pytest.mark.slow


def nothing(_):
    return SideInfo()


def test_what_is_told_piece_by_piece_is_the_whole(tmp_path):
    folder = folder_of(tmp_path, "a", STORY[:1])
    watch, told, states, curve = RunWatcher(tmp_path), PageState(), "", []
    for event in [*STORY[1:], *END]:
        with writing(folder) as journal:
            journal.append([event])
        watch.refresh()
        result = page_updates(told, watch, "a", nothing)
        assert page_updates(told, watch, "a", nothing).get("pieces") is None
        moved = result.get("devices", {})
        letters = list(moved.get("all", states))
        for i, letter in moved.get("some", {}).items():
            letters[i] = letter
        states = "".join(letters)
        if "curve" in result:
            curve = curve[: result["curve"]["from"]] + result["curve"]["a"]
    assert states == device_states(read_record([*STORY, *END])) and curve == [60.0]


def test_ten_thousand_devices_are_told_in_little(tmp_path):
    n = 10_000

    def asked(round_, clients):
        return replace(sent(10.0 * round_, round_, 100 * round_, clients), version=0)

    rounds = [(asked(i, [*range(100 * i, 100 * i + 100)]), RoundFailed(10.0 * i + 9, i, "too few")) for i in range(20)]
    story = [RunBegan(0.0, 0, n, "s", "m"), *(event for pair in rounds for event in pair)]
    folder = folder_of(tmp_path, "big", story, {"world": {"clients": n}})
    watch, told = RunWatcher(tmp_path), PageState()
    watch.refresh()
    first = json.dumps(page_updates(told, watch, "big", nothing))
    assert len(first) < n + 40_000  # a letter a device, and the pieces of the page
    with writing(folder) as journal:
        journal.append([asked(20, [*range(5000, 5100)])])
    watch.refresh()
    later = page_updates(told, watch, "big", nothing)
    assert len(later["devices"]["some"]) == 100 and len(json.dumps(later["devices"])) < 2_000


def test_the_list_is_told_of_when_it_changed_and_not_too_often(tmp_path):
    watch, told = RunWatcher(tmp_path), PageState()
    watch.refresh()
    assert page_updates(told, watch, "", nothing) == {}
    folder_of(tmp_path, "a")
    watch.refresh()
    assert [page_updates(told, watch, "", nothing) for _ in range(6)].count({"runs": True}) == 1


def test_a_stream_ends_when_the_dashboard_closes(tmp_path):
    folder_of(tmp_path, "a")
    watch = RunWatcher(tmp_path)
    watch.refresh()

    said: list[str] = []

    async def listen():
        async for text in stream(watch, "a", nothing, lambda: bool(said)):
            said.append(text)  # noqa: PERF401  # the stream looks at it

    asyncio.run(listen())
    (text,) = said
    assert text.startswith("data: {") and text.endswith("\n\n") and json.loads(text[6:])["curve"]["a"] == [60.0]
    assert np.isfinite(json.loads(text[6:])["curve"]["t"]).all()
