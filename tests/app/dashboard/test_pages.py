"""Pages: names are only ever text, nothing is inline, and every piece that changes has its place."""

import re

from fedfleet.app.dashboard.auth import Access
from fedfleet.app.dashboard.pages import (
    device_description,
    device_legend,
    device_piece,
    empty_page,
    frame,
    live_page,
    live_pieces,
    login_page,
    two_columns,
    waiting_page,
    waiting_piece,
)
from fedfleet.app.dashboard.run_groups import RunGrouper, Selection
from fedfleet.app.dashboard.run_list import ListState, run_list, run_rows
from fedfleet.app.dashboard.run_view import device_states
from fedfleet.app.dashboard.run_watcher import RunWatcher
from fedfleet.app.dashboard.served_runs import ServerStatus
from fedfleet.measure.run_record import read_record
from tests.app.dashboard.runs import STORY, folder_of

EVIL = "<script>alert(1)</script>'\"&"


def page_of(root, name):
    folder_of(root, name, STORY)
    watch = RunWatcher(root)
    runs = watch.refresh()
    main = watch.inspect(
        name,
        lambda run, followed: live_page(
            run, followed, None, [EVIL], ServerStatus({"devices_online": 1, "running": 1, "waiting_for": EVIL}, EVIL)
        ),
    )
    grouped, ticked = RunGrouper(root).group(runs), Selection([name])
    found, everything = (ListState(words, selection=ticked, current=name) for words in (EVIL, ""))
    rows = run_rows(runs, grouped, found) + run_rows(runs, grouped, everything)
    return frame(Access("127.0.0.1", 1), f"FedFleet: {name}", two_columns(run_list(rows, found), main), run=name)


def test_names_are_only_ever_text(tmp_path):
    page = page_of(tmp_path, EVIL.replace("/", ""))
    assert "<script>alert" not in page and "alert(1)" in page
    for tag in re.findall(r"<script[^>]*>", page):
        assert re.fullmatch(r'<script src="/static/[\w.-]+" defer>', tag)
    for piece in (
        device_piece(EVIL, read_record([]), 3),
        waiting_page(EVIL),
        waiting_piece(EVIL, EVIL),
    ):
        assert "<script" not in piece


def test_nothing_is_inline(tmp_path):
    page = page_of(tmp_path, "a")
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)


def test_every_piece_has_its_place(tmp_path):
    page = page_of(tmp_path, "a")
    followed = RunWatcher(tmp_path)
    followed.refresh()
    pieces = followed.inspect("a", lambda run, f: live_pieces(run, f, None, []))
    assert [key for key in pieces if f'id="{key}"' not in page] == []
    assert 'aria-label="compare a" checked' in page and "Stop" not in pieces["acts"] and "Resume" in pieces["acts"]


def test_what_is_ticked_stays_in_sight_whatever_the_filter(tmp_path):
    for name in ("a", "b", "c"):
        folder_of(tmp_path, name, STORY)
    runs = RunWatcher(tmp_path).refresh()
    rows = run_rows(runs, RunGrouper(tmp_path).group(runs), ListState("no-such", selection=Selection(["a", "b"])))
    assert "Compare 2 ticked" in rows and 'value="a"' in rows and 'value="c"' not in rows and "0 match" in rows


def test_a_run_that_cannot_be_read_has_its_reason_and_no_empty_pictures(tmp_path):
    (folder_of(tmp_path, "odd") / "run.db").write_bytes(b"not ours")
    watch = RunWatcher(tmp_path)
    watch.refresh()
    page = watch.inspect("odd", lambda run, f: live_page(run, f, None, []))
    assert "cannot be read" in page and "<canvas" not in page and "Report" not in page


def test_devices_in_words():
    states = device_states(read_record(STORY))
    words = device_description(states)
    assert words.startswith("8 devices: ") and "1 training" in words and "1 late last round" in words and "3 never asked" in words
    assert device_legend(states).count("<li>") == 6


def test_the_history_of_a_device_is_a_table():
    assert device_piece("a", read_record(STORY), 1).count("<tr>") == 3
    assert "never been asked" in device_piece("a", read_record(STORY), 7)
    assert "has devices 0 to 7" in device_piece("a", read_record(STORY), 8)


def test_the_door_and_the_beginning():
    assert "not the token" in login_page(rejected=True) and "not the token" not in login_page(rejected=False)
    assert "fedfleet run SPEC" in empty_page()


def test_a_stopped_server_is_resumed_by_a_command_and_not_by_a_button(tmp_path):
    (folder_of(tmp_path, "a", STORY) / "wire").mkdir()
    watch = RunWatcher(tmp_path)
    watch.refresh()
    pieces = watch.inspect("a", lambda run, f: live_pieces(run, f, None, []))
    assert "Resume" not in pieces["acts"] and "--resume</pre>" in pieces["resume"] and "fedfleet serve" in pieces["resume"]
    assert "of real time" in pieces["say"]


def test_a_device_that_its_server_misses_is_offline():
    says = ServerStatus({"devices_online": 1, "running": 0, "waiting_for": ""}, "01000000")
    assert "It is online now." in device_piece("a", read_record(STORY), 1, says)
    assert "It is offline now." in device_piece("a", read_record(STORY), 7, says) and "line now" not in device_piece(
        "a", read_record(STORY), 7
    )
    states = device_states(read_record(STORY), says.present)
    assert "6 offline now" in device_description(states) and 'class="dot so"' in device_legend(states)


def test_the_newest_line_of_the_log_comes_first(tmp_path):
    folder_of(tmp_path, "a", STORY)
    watch = RunWatcher(tmp_path)
    watch.refresh()
    pieces = watch.inspect("a", lambda run, f: live_pieces(run, f, None, ["old", "new"]))
    assert '<pre tabindex="0">new\nold</pre>' in pieces["log"]
