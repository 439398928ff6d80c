"""A device's whole life, at a server that behaves and at one that does not."""

import signal
import threading
import time
from dataclasses import replace

import grpc
import numpy as np
import pytest

from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.core.parts import Executor
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.network.device.caps import Caps
from fedfleet.network.device.client_loop import Stopped
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import INLINE_BYTES, crc32c
from tests.network.device.fake import ToyExecutor, attended, device, toy_kit
from tests.network.device.http_fake import over_both

pytestmark = [pytest.mark.slow, over_both]

W = {"w": np.arange(3, dtype=np.float32)}
LARGE = {"w": np.arange(3 * INLINE_BYTES // 4, dtype=np.float32)}  # 3 MiB


def test_a_device_enrols_works_and_hears_that_the_run_is_over(fake, tmp_path):
    fake.give(W)
    fake.give(W, inline=False)
    said = []
    did = attended(fake, tmp_path / "s", said=said, token="t", client=4, samples=5, data="mine")
    assert (did.client, did.tasks, did.declined, did.reason) == (4, 2, 0, "that was all")
    (asked,) = fake.enrolments
    assert (asked.token, asked.client, asked.samples, asked.data, len(asked.attempt)) == ("t", 4, 5, "mine", 16)
    for task, (head, payload) in enumerate(fake.reports):
        assert np.array_equal(unpack_tree(payload)["w"], W["w"] * (task + 1))
        assert head.crc32c == crc32c(payload) and head.nonce == b"n%d" % task and head.weight == 5.0
        assert dict(head.stats) == {"loss": 0.5, "samples": 5.0}  # what is not finite stays here
        assert set(head.spent) == {"download", "compute"} and min(head.spent.values()) >= 0.0
        used = head.resources
        assert used.samples == 5 and used.bytes_up >= len(payload) and used.bytes_down >= len(pack_tree(W))
        assert used.peak_memory_bytes > 1 << 20 and used.wall_seconds > 0
    # In steady state a report brings the next work: one check-in, and a fetch for the model that did not come along.
    assert fake.calls == ["Enrol", "Check", "Hand", "Fetch", "Hand"]
    assert "enrolled" in said[0] and "waiting for work" in said[0]


def test_memory_is_what_the_server_says_was_folded(fake, tmp_path):
    fake.give(W, task=0)
    fake.give(W, task=1, memory_task=-1)  # the first was not folded
    fake.give(W, task=2, memory_task=1)  # the second was
    fake.give(W, task=3, memory_task=1)  # the third was not
    attended(fake, tmp_path / "s")
    added = [float(unpack_tree(p)["w"][0]) for _, p in fake.reports]
    assert added == [0.0, 0.0, 2.0, 2.0]
    kept = sorted(p.name.split("-")[0] for p in (tmp_path / "s" / "memory").iterdir())
    assert kept == ["1", "2", "3"]  # older than the one that holds: gone; newer: kept until told


@pytest.mark.parametrize("spoil", ["missing", "damaged"])
def test_a_device_that_lost_its_memory_says_so(fake, tmp_path, spoil):
    fake.give(W, task=0)
    attended(fake, tmp_path / "s")
    (path,) = (tmp_path / "s" / "memory").iterdir()
    if spoil == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    fake.give(W, task=1, memory_task=0)
    fake.give(W, task=2, memory_task=-1)
    assert attended(fake, tmp_path / "s").declined == 1
    assert "remembers of task 0 is" in fake.declined[0][0].declined
    assert len(fake.reports) == 2  # what needs no memory goes on


def test_a_restarted_device_is_the_same_client_and_hands_in_the_same_bytes(fake, tmp_path):
    fake.give(W)
    one = device(fake, tmp_path / "s", client=4)
    fake.failures.extend([("Hand", grpc.StatusCode.UNAVAILABLE)] * 1000)

    def stop(seconds):
        raise Stopped

    one._wait.sleep = stop  # killed while it waits to try again
    with pytest.raises(Stopped):
        one.run()
    one.connection.close(), one.store.close()
    assert not fake.reports and not fake.declined  # the report is ready, so that the task is not given up
    assert fake.left == 1
    fake.failures.clear()
    trained = []
    did = attended(fake, tmp_path / "s", make=lambda sheet, fetch: trained.append(1))
    assert not trained and did.tasks == 1
    _, payload = fake.reports[0]
    assert np.array_equal(unpack_tree(payload)["w"], W["w"])
    again = fake.enrolments[1]
    assert (again.client, again.secret) == (4, fake.secret)


def test_a_report_whose_lease_is_over_is_not_handed_in_by_the_next_life(fake, tmp_path):
    from fedfleet.network.device.device_store import Identity, WaitingReport

    store = DeviceStore(tmp_path / "s")
    store.set_identity(Identity(fake.address, "tiny", 4, fake.secret))
    store.keep_report(WaitingReport(pb.Report(task=0), b"", time.time() - 1))
    store.close()
    attended(fake, tmp_path / "s")
    assert not fake.reports and not (tmp_path / "s" / "report.bin").exists()


def test_another_server_gets_neither_the_secret_nor_the_report_nor_the_memory(fake, tmp_path):
    fake.give(W)
    attended(fake, tmp_path / "s")
    known = (tmp_path / "s" / "identity.json").read_text()
    (tmp_path / "s" / "identity.json").write_text(known.replace("127.0.0.1", "elsewhere").replace('"client": 4', '"client": 5'))
    attended(fake, tmp_path / "s")
    assert fake.enrolments[1].secret == b"" and not fake.enrolments[1].HasField("client")
    assert list((tmp_path / "s" / "memory").iterdir()) == []


@pytest.mark.parametrize("tree", [W, LARGE], ids=["small", "large"])
def test_damaged_and_busy_are_tried_again_and_refusals_are_not(fake, tmp_path, tree):
    fake.give(tree, inline=tree is W)
    fake.give(W)
    fake.receipts.extend([(pb.Receipt.RETRY, 0), (pb.Receipt.BUSY, 0.2), (pb.Receipt.BUSY, 0), (pb.Receipt.REFUSED, 0)])
    said = []
    did = attended(fake, tmp_path / "s", said=said)
    assert did.tasks == 1  # the second: the first was refused, and the device went on
    assert [h.task for h, _ in fake.reports] == [0, 1]
    assert any("does not take the report of task 0: scripted" in line for line in said)


def test_a_large_upload_goes_on_where_the_line_broke(fake, tmp_path):
    fake.give(LARGE, inline=False)
    fake.cut_after.extend([1 << 20, 2 << 20])
    attended(fake, tmp_path / "s")
    assert fake.calls.count("HandStream") == 3 and fake.calls.count("Held") == 2
    ((head, payload),) = fake.reports
    assert np.array_equal(unpack_tree(payload)["w"], LARGE["w"])
    assert head.offset == 2 << 20


def test_a_fetch_goes_on_where_the_line_broke(fake, tmp_path):
    fake.give(LARGE, inline=False)
    fake.cut_fetch.extend([1 << 20, 1 << 20])
    attended(fake, tmp_path / "s")
    assert fake.calls.count("Fetch") == 3
    assert np.array_equal(unpack_tree(fake.reports[0][1])["w"], LARGE["w"])


def test_a_model_that_came_damaged_is_fetched_again_and_declined_if_it_stays_so(fake, tmp_path):
    work = fake.give(W)
    fake.works[0] = (work, b"x" + pack_tree(W)[1:])
    attended(fake, tmp_path / "s")
    assert fake.calls.count("Fetch") == 1 and len(fake.reports) == 1
    work = fake.give(W, inline=False)
    work.model.crc32c ^= 1
    attended(fake, tmp_path / "s")
    assert "damaged 8 times" in fake.declined[0][0].declined


def test_a_model_that_is_gone_is_declined(fake, tmp_path):
    fake.give(W, inline=False)
    fake.blobs.clear()
    attended(fake, tmp_path / "s")
    assert "no such blob" in fake.declined[0][0].declined


def test_a_server_that_restarts_is_waited_for(fake, tmp_path):
    fake.give(W)
    one = device(fake, tmp_path / "s")
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            fake.start()
        time.sleep(0.02)

    one._wait.sleep = sleep
    make, one._make_runtime = one._make_runtime, None

    def kit(sheet, fetch):
        fake.stop()
        return make(sheet, fetch=fetch)

    one._make_runtime = kit
    did = one.run()
    one.connection.close(), one.store.close()
    assert did.tasks == 1 and len(slept) >= 3 and len(fake.reports) == 1


def test_a_device_that_is_not_known_any_more_enrols_again(fake, tmp_path):
    fake.give(W)
    one = device(fake, tmp_path / "s")
    one._enrol(5.0)
    fake.secret = b"t" * 32  # another generation of the server's key
    assert one._run_loop() == "that was all"
    one.connection.close(), one.store.close()
    assert len(fake.enrolments) == 2 and len(fake.reports) == 1


def test_a_sheet_that_changed_is_fetched_before_the_work(fake, tmp_path):
    import hashlib

    fake.give(W)
    seen = []

    def make(sheet, fetch):
        seen.append(sheet)
        return toy_kit()

    one = device(fake, tmp_path / "s", make=make)
    one._enrol(5.0)
    fake.sheet = b"another"
    fake.works[0][0].sheet = hashlib.sha256(b"another").hexdigest()
    one._run_loop()
    one.connection.close(), one.store.close()
    assert seen == [b"another"]


def test_evaluations_and_probes_are_answered_in_whole_numbers(fake, tmp_path):
    fake.give({"w": np.full(3, 2, np.float32)}, kind=pb.EVALUATE, task=1 << 40)
    fake.give({"w": np.full(3, 3, np.float32)}, kind=pb.PROBE, task=(1 << 40) + 1)
    attended(fake, tmp_path / "s")
    one, two = (h for h, _ in fake.reports)
    assert (one.kind, one.correct, one.total, one.loss) == (pb.EVALUATE, 2, 4, 0.25)
    assert (two.kind, two.correct, two.total, two.loss) == (pb.PROBE, 3, 5, 0.25)
    assert not list((tmp_path / "s" / "memory").iterdir())


def test_what_goes_beyond_the_caps_is_declined_with_the_reason(fake, tmp_path):
    fake.give(LARGE, inline=False)
    fake.give(W, steps=11)
    fake.give(W)
    did = attended(fake, tmp_path / "s", caps=Caps(bytes=1000, steps=10))
    assert (did.tasks, did.declined) == (1, 2)
    large, long = (h.declined for h, _ in fake.declined)
    assert "takes 1000 at most" in large and "11 steps, and this device does 10" in long
    assert "Fetch" not in fake.calls


@pytest.mark.parametrize("caps", [Caps(tasks=2), Caps(seconds=0.0)])
def test_a_device_that_has_done_enough_leaves(fake, tmp_path, caps):
    for _ in range(5):
        fake.give(W)
    did = attended(fake, tmp_path / "s", caps=caps)
    assert did.tasks == (caps.tasks or 0) and "at most" in did.reason
    assert fake.left == 1 and len(fake.declined) == 1  # so that nobody waits for the one that it was given


def test_training_that_fails_is_declined_and_after_three_in_a_row_the_device_gives_up(fake, tmp_path):
    fake.give(W, settings={"fail": 1.0})
    fake.give(W, settings={"fail": 1.0})
    fake.give(W)
    assert attended(fake, tmp_path / "s").declined == 2
    for _ in range(5):
        fake.give(W, settings={"fail": 1.0})
    with pytest.raises(RunFailed, match=r"3 tasks in a row failed on this device.*cannot be trained"):
        attended(fake, tmp_path / "s")
    assert fake.left == 1


@pytest.mark.parametrize("wrong", [BadInput("the data are not here"), Refused("it is no sheet")])
def test_a_device_that_cannot_take_part_says_so_to_both_sides(fake, tmp_path, wrong):
    fake.give(W)

    def make(sheet, fetch):
        raise wrong

    with pytest.raises(BadInput, match=str(wrong)):
        attended(fake, tmp_path / "s", make=make)
    assert str(wrong) in fake.declined[0][0].declined
    assert fake.left == 1


def test_a_stopped_device_gives_up_its_task_and_takes_its_leave(fake, tmp_path):
    fake.give(W)

    def make(sheet, fetch):
        raise Stopped

    with pytest.raises(Stopped):
        attended(fake, tmp_path / "s", make=make)
    assert fake.declined[0][0].declined == "the device was stopped"
    assert fake.left == 1


def test_wrong_use_is_answered_in_one_sentence(fake, tmp_path):
    with pytest.raises(BadInput, match=r"refuses: the token is unknown\\x1b\[2J; ask for a new one"):
        attended(fake, tmp_path / "s", token="bad")
    fake.failures.extend([("Enrol", grpc.StatusCode.UNIMPLEMENTED)] * 3)
    with pytest.raises(BadInput, match="not a FedFleet server, or has another version"):
        attended(fake, tmp_path / "s")
    fake.stop()
    with pytest.raises(BadInput, match="no server answers at"):
        attended(fake, tmp_path / "s", patience=0.05)


def test_a_sheet_that_is_not_signed_for_this_device_is_not_used(fake, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.network.device.fake.sign_config", lambda secret, sheet: b"x" * 32)
    with pytest.raises(BadInput, match="not signed for this device"):
        attended(fake, tmp_path / "s")


def test_a_repeated_enrolment_shows_the_same_attempt(fake, tmp_path):
    fake.failures.extend([("Enrol", grpc.StatusCode.UNAVAILABLE)] * 2)
    calls = []
    enrol = fake.enrol
    fake.stop()
    fake.enrol = lambda data, context: calls.append(pb.EnrolRequest.FromString(data)) or enrol(data, context)
    fake.failures.clear()
    fake.start()
    attended(fake, tmp_path / "s")
    attended(fake, tmp_path / "s")
    assert len(calls) == 2 and calls[0].attempt != calls[1].attempt  # a new life tries anew; a lost answer does not
    store = DeviceStore(tmp_path / "s")
    assert store.attempt() == store.attempt()
    store.close()


def test_frozen_weights_are_fetched_once(fake, tmp_path):
    frozen = {"f": np.arange(9, dtype=np.float32)}
    blob, got = fake.add_blob(pack_tree(frozen)), []

    def make(sheet, fetch):
        got.append(fetch("whatever"))
        return toy_kit()

    for _ in range(2):
        fake.give(W, frozen=blob)
        attended(fake, tmp_path / "s", make=make)
    assert fake.calls.count("Fetch") == 1
    assert all(np.array_equal(tree["f"], frozen["f"]) for tree in got) and len(got) == 2


def test_a_signal_stops_a_device_that_waits_on_the_line(fake, tmp_path):
    from fedfleet.network.device.device_process import stop_on_sigterm

    release = threading.Event()
    check = fake.check

    def hold(data, context):
        release.wait(60)
        return check(data, context)

    fake.stop()
    fake.check = hold
    fake.start()
    one = device(fake, tmp_path / "s")
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM))
    timer.start()
    began = time.monotonic()
    with stop_on_sigterm(), pytest.raises(Stopped):
        one.run()
    release.set()
    timer.join()
    one.connection.close(), one.store.close()
    assert time.monotonic() - began < 45 and fake.left == 1


def test_what_fails_with_much_text_is_told_in_one_short_line(fake, tmp_path):
    nasty = "\n".join(["\x1b[2J it cannot be trained \u202e" + "x" * 80] * 50)

    class Failing(ToyExecutor):
        def train(self, jobs):
            raise ValueError(nasty)

    def make(sheet, fetch=None):
        toy = toy_kit(sheet, fetch)
        return replace(toy, execute=Executor("toy", Failing().train, toy.execute.evaluate))

    for _ in range(3):
        fake.give(W)
    said = []
    with pytest.raises(RunFailed, match="3 tasks in a row failed") as wrong:
        attended(fake, tmp_path / "s", make=make, said=said)
    declined = [head.declined for head, _ in fake.declined]
    assert len(declined) == 3
    for text in (*said, *declined, str(wrong.value)):
        assert text.isprintable() and len(text) < 400 and text.count("trained") <= 2


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0])
def test_a_server_that_names_odd_numbers_of_seconds_ends_no_device(fake, tmp_path, odd):
    fake.give(W, lease_seconds=odd)
    fake.receipts.append((pb.Receipt.BUSY, odd))
    fake.idle = odd
    one = device(fake, tmp_path / "s", caps=Caps(tasks=1))
    rests = []

    def sleep(seconds):
        rests.append(seconds)
        if len(rests) > 3:
            fake.idle = None
        time.sleep(min(seconds, 1.0) / 100)

    one._wait.sleep = sleep
    did = one.run()
    one.connection.close(), one.store.close()
    assert did.tasks == 1 and all(0.0 <= seconds <= 3600.0 for seconds in rests)


def test_samples_that_the_run_cannot_use_are_refused_before_any_work(fake, tmp_path):
    fake.give(W)
    looked = []

    def refuse(config):
        looked.append(config)
        raise BadInput("--data: device1.csv has no column 'heart_rate', which this run's model reads")

    said = []
    with pytest.raises(BadInput, match="no column 'heart_rate'"):
        attended(fake, tmp_path / "s", said=said, check_samples=refuse)
    assert looked == [fake.sheet] and fake.calls == ["Enrol", "Leave"] and not any("waiting for work" in line for line in said)


def test_samples_are_looked_at_once_for_each_configuration(fake, tmp_path):
    fake.give(W)
    fake.give(W)
    looked = []
    assert attended(fake, tmp_path / "s", check_samples=looked.append).tasks == 2
    assert looked == [fake.sheet]


def test_a_device_whose_samples_would_move_takes_part_only_if_its_owner_agrees(fake, tmp_path):
    fake.sheet = b'{"form": 1, "moves_samples": true}'
    with pytest.raises(BadInput, match="--share-samples"):
        attended(fake, tmp_path / "s")
    assert attended(fake, tmp_path / "s", share_samples=True).reason == "that was all"
