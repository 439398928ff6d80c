"""Disks that fill up or lie: one clear sentence, nothing acknowledged is lost, and with room the run goes on to the same bits."""

import pytest

from fedfleet.core.events import ModelCommitted
from fedfleet.core.trees import content_hash
from tests.network.crowd import crowd
from tests.network.harness import ground, wait_for
from tests.network.proving import complaints, models_again
from tests.network.toys import Toy, plan_of, reference
from tests.simulation.disks import mount, resize, unmount

pytestmark = pytest.mark.slow

TOY = Toy(clients=4, rounds=12, width=4096)

SOAK = pytest.mark.soak


def goes_on(place, people):
    """Resume with room, and compare with the run that never met a full disk."""
    names, params = reference(place.toy)
    place.serve(resume=True)
    assert place.ended() == 0, place.said
    assert people.errors == []
    events = place.events()
    assert complaints(events, people.receipts) == []
    assert models_again(plan_of(place.toy), events, people.reports) == []
    assert place.models() == names
    assert place.last_model() == content_hash(params)


@pytest.mark.slow
@pytest.mark.parametrize("most", [pytest.param(size, marks=SOAK) for size in (24_000, 90_000, 200_000)])
def test_files_that_may_not_grow_stop_the_server_with_a_sentence_and_lose_nothing(most, tmp_path):
    with ground(tmp_path, TOY) as place:
        place.serve(most_bytes=most)
        with crowd(TOY, place.address) as people:
            assert place.ended() == 1, place.said
            assert "space" in place.said or "room" in place.said
            assert "Traceback" not in place.said
            if not (place.out / "run.db").exists():
                return  # it could not even begin, and said so
            goes_on(place, people)


@pytest.mark.slow
def test_a_full_disk_stops_the_server_with_a_sentence_and_loses_nothing(tmp_path):
    disk = tmp_path / "disk"
    if not mount(disk, "700k"):
        pytest.skip("a small disk cannot be mounted here; file limits are tried above")
    try:
        with ground(tmp_path, TOY) as place:
            place.out.symlink_to(disk / "run")
            (disk / "run").mkdir()
            place.serve()
            with crowd(TOY, place.address) as people:
                assert place.ended() == 1, place.said
                assert "space" in place.said or "room" in place.said
                assert "Traceback" not in place.said
                resize(disk, "200m")
                goes_on(place, people)
    finally:
        unmount(disk)


def damaged(path, at=-100):
    """Flip one byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.slow
def test_a_damaged_checkpoint_falls_back_to_the_one_before_it_and_says_so(tmp_path):
    with ground(tmp_path, TOY) as place:
        place.serve(checkpoint_every=2)
        with crowd(TOY, place.address, pause=lambda client, task: 0.03) as people:
            place.await_event(ModelCommitted, 5)
            place.kill_everything()
            newest = max(place.out.glob("checkpoint-*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
            damaged(newest)
            goes_on(place, people)
        assert newest.name in place.said or "checkpoint" in place.said


@SOAK
def test_without_any_checkpoint_the_journal_alone_leads_back(tmp_path):
    with ground(tmp_path, TOY) as place:
        place.serve()
        with crowd(TOY, place.address, pause=lambda client, task: 0.03) as people:
            place.await_event(ModelCommitted, 4)
            place.kill_everything()
            for path in place.out.glob("checkpoint-*.safetensors"):
                path.unlink()
            goes_on(place, people)


@SOAK
def test_a_torn_log_of_sums_is_cut_where_it_is_torn(tmp_path):
    """A power cut may leave half a record behind the last one that was made safe: nobody was promised that one."""
    with ground(tmp_path, TOY) as place:
        place.serve()
        with crowd(TOY, place.address, pause=lambda client, task: 0.03) as people:
            place.await_event(ModelCommitted, 3)
            wait_for(lambda: people.safe() >= 14, "some reports of a round", seconds=60)
            place.kill_everything()
            logs = [p for p in place.out.glob("wire/t*/*") if "log" in p.name or "spool" in p.name]
            assert logs
            for path in logs:
                with path.open("ab") as file:
                    file.write(b"\x2a\0\0\0half a rec")
            goes_on(place, people)


def test_two_servers_on_one_folder_are_one_too_many(tmp_path):
    with ground(tmp_path, TOY) as place, ground(tmp_path, TOY) as second:
        place.serve()
        place.await_listening()
        second.serve(resume=True)
        assert second.ended() in (1, 2)
        assert "Traceback" not in place.said
        assert place.server.poll() is None
