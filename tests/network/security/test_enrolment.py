"""Enrolment: every wrong token, every way back, and never two devices in one place, whoever is killed."""

import sqlite3
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedfleet.core.errors import RunFailed
from fedfleet.network.protocol.fleet_pb2 import EnrolRequest
from fedfleet.network.protocol.frames import PROTOCOL
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.enrolment_request import Admission, Refusal, Terms
from fedfleet.network.security.enrolment_store import all_enrolments, open_store, revoke_client
from fedfleet.network.security.secrets import RunKey, secret_of
from fedfleet.network.security.tokens import TokenRequest, all_tokens, make_token, revoke_token, token_of

pytestmark = pytest.mark.slow

KEY = RunKey(bytes(range(32)))


def asks(**fields):
    return EnrolRequest(**{"protocol": PROTOCOL, **fields})


def back(client, generation=1, **fields):
    return asks(client=client, secret=secret_of(KEY, client, generation), **fields)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "devices.db"


@pytest.fixture
def db(path):
    db = open_store(path)
    yield db
    db.close()


@pytest.fixture
def opened(path):
    made = []

    def make(clients=5, **terms):
        made.append(Registry(path, KEY, Terms(clients, **terms)))
        return made[-1]

    yield make
    for registry in made:
        registry.close()


def refused(answer, *words):
    assert isinstance(answer, Refusal), answer
    assert all(word in answer.sentence for word in words), answer


def test_a_token_gives_the_first_free_place_once(db, opened):
    registry = opened()
    text, _ = make_token(db, TokenRequest(), 0.0)
    assert registry.enrol(asks(token=text), 1.0, "peer") == Admission(0, 1, True)
    refused(registry.enrol(asks(token=text), 1.0, "peer"), "used up")  # replayed
    assert registry.holds(0, secret_of(KEY, 0, 1))
    assert not registry.holds(0, secret_of(KEY, 0, 2))
    assert not registry.holds(1, secret_of(KEY, 1, 1))  # nobody enrolled there
    assert not registry.holds(99, b"")


def test_every_wrong_token_is_refused_and_changes_nothing(db, opened):
    registry = opened()
    late, _ = make_token(db, TokenRequest(seconds=10.0), 0.0)
    ended, token = make_token(db, TokenRequest(), 0.0)
    revoke_token(db, token.id, 0.5)
    named, _ = make_token(db, TokenRequest(client=2), 0.0)
    far, _ = make_token(db, TokenRequest(client=7), 0.0)
    refused(registry.enrol(asks(token="fft_guess"), 1.0, ""), "not one of this run")
    refused(registry.enrol(asks(token=late), 10.0, ""), "expired")
    refused(registry.enrol(asks(token=ended), 1.0, ""), "revoked")
    refused(registry.enrol(asks(token=named, client=1), 1.0, ""), "for client 2")
    refused(registry.enrol(asks(token=far), 1.0, ""), "no client 7", "0 to 4")
    refused(registry.enrol(asks(token=late, client=5), 1.0, ""), "no client 5")
    refused(registry.enrol(asks(token=late, protocol=1), 1.0, ""), "same version")
    refused(registry.enrol(asks(), 1.0, ""), "with a token only")
    refused(registry.enrol(asks(secret=bytes(32), client=0), 1.0, ""), "with a token only")
    assert all_enrolments(db) == [] and sum(t.used for t in all_tokens(db)) == 0


def test_open_enrolment_needs_no_token_but_takes_no_wrong_one(opened):
    registry = opened(open=True)
    assert registry.enrol(asks(client=3), 1.0, "") == Admission(3, 1, True)
    refused(registry.enrol(asks(client=3), 1.0, ""), "another device")
    refused(registry.enrol(asks(token="fft_guess"), 1.0, ""), "not one of this run")


def test_a_device_comes_back_as_itself_after_a_restart_and_without_a_token(opened):
    assert opened(open=True).enrol(asks(client=2), 1.0, "") == Admission(2, 1, True)
    again = opened()
    assert again.enrol(back(2), 2.0, "") == Admission(2, 1, False)
    refused(again.enrol(back(1), 2.0, ""), "with a token only")  # the secret of a place that nobody has
    refused(again.enrol(back(2, 2), 2.0, ""), "with a token only")
    refused(again.enrol(asks(client=1, secret=secret_of(KEY, 2, 1)), 2.0, ""), "with a token only")
    refused(again.enrol(asks(client=99, secret=bytes(32)), 2.0, ""), "with a token only")


def test_where_enrolment_is_open_a_secret_of_another_run_does_no_harm(opened):
    registry = opened(open=True)
    assert registry.enrol(asks(client=1, secret=bytes(32)), 1.0, "") == Admission(1, 1, True)
    refused(registry.enrol(asks(client=1, secret=b"x" * 32), 1.0, ""), "another device", "empty --store")


def test_who_comes_back_spends_no_token(db, opened):
    registry = opened(open=True)
    registry.enrol(asks(), 1.0, "")
    text, _ = make_token(db, TokenRequest(), 0.0)
    assert registry.enrol(back(0, token=text), 2.0, "") == Admission(0, 1, False)
    assert token_of(db, text).used == 0


def test_a_fleet_that_is_full_takes_nobody_until_one_is_put_out(opened):
    registry = opened(3, open=True)
    assert [registry.enrol(asks(), 1.0, "").client for _ in range(3)] == [0, 1, 2]
    refused(registry.enrol(asks(), 1.0, ""), "all 3 places")
    registry.revoke(1, 2.0)
    assert registry.enrol(asks(), 3.0, "") == Admission(1, 2, True)
    refused(registry.enrol(asks(), 3.0, ""), "all 3 places")


def test_places_that_nobody_had_go_before_those_that_were_revoked(opened):
    registry = opened(3, open=True)
    registry.enrol(asks(), 1.0, "")
    registry.revoke(0, 2.0)
    assert [registry.enrol(asks(), 3.0, "")[:2] for _ in range(3)] == [(1, 1), (2, 1), (0, 2)]


def test_a_device_that_is_put_out_while_the_server_runs_is_out(db, opened):
    registry = opened(open=True)
    registry.enrol(asks(client=3), 1.0, "")
    assert registry.take_changes() == []
    revoke_client(db, 3, 2.0)  # as the command line does
    assert registry.take_changes() == [(3, 2)] and registry.take_changes() == []
    assert not registry.holds(3, secret_of(KEY, 3, 1)) and not registry.holds(3, secret_of(KEY, 3, 2))
    refused(registry.enrol(back(3), 3.0, ""), "no longer valid")
    assert registry.enrol(asks(client=3), 3.0, "") == Admission(3, 2, True)
    assert registry.holds(3, secret_of(KEY, 3, 2))
    assert opened().raised_generations() == registry.raised_generations() == [(3, 2)]


def test_a_revocation_is_seen_by_the_next_enrolment_even_if_nobody_asked_for_changes(db, opened):
    registry = opened(open=True)
    registry.enrol(asks(client=3), 1.0, "")
    revoke_client(db, 3, 2.0)
    refused(registry.enrol(back(3), 3.0, ""), "no longer valid")
    assert registry.take_changes() == [(3, 2)]


def test_only_a_token_that_names_a_client_replaces_its_device(db, opened):
    registry = opened(open=True)
    registry.enrol(asks(client=3), 1.0, "")
    plain, _ = make_token(db, TokenRequest(), 0.0)
    refused(registry.enrol(asks(token=plain, client=3), 2.0, ""), "another device")
    naming, _ = make_token(db, TokenRequest(client=3), 0.0)
    assert registry.enrol(asks(token=naming), 2.0, "") == Admission(3, 2, True)
    assert registry.take_changes() == [(3, 2)]
    refused(registry.enrol(back(3, 1), 3.0, ""), "no longer valid")
    assert registry.enrol(back(3, 2), 3.0, "") == Admission(3, 2, False)
    assert [(e.client, e.generation, e.revoked) for e in all_enrolments(db)] == [(3, 1, 2.0), (3, 2, None)]


def test_a_stale_secret_beside_a_good_token_does_no_harm(db, opened):
    registry = opened()
    text, _ = make_token(db, TokenRequest(client=1), 0.0)
    assert registry.enrol(asks(token=text, client=1, secret=bytes(32)), 1.0, "") == Admission(1, 1, True)


def test_an_attempt_whose_answer_was_lost_gets_it_again_also_when_the_token_is_used_up(db, opened):
    text, token = make_token(db, TokenRequest(seconds=10.0), 0.0)
    first = asks(token=text, attempt=bytes(16))
    assert opened().enrol(first, 1.0, "") == Admission(0, 1, True)
    registry = opened()  # killed before it could answer
    revoke_token(db, token.id, 2.0)
    assert registry.enrol(first, 50.0, "") == Admission(0, 1, False)
    refused(registry.enrol(asks(token=text, attempt=b"x" * 16), 3.0, ""), "revoked")
    other, _ = make_token(db, TokenRequest(), 0.0)
    assert registry.enrol(asks(token=other, attempt=bytes(16)), 3.0, "") == Admission(1, 1, True)
    registry.revoke(0, 4.0)
    refused(registry.enrol(first, 5.0, ""), "removed from the run")


def test_a_batch_is_one_transaction_in_order(db, opened):
    registry = opened(3)
    text, _ = make_token(db, TokenRequest(uses=2), 0.0)
    batch = [asks(token=text, client=2), asks(token=text, client=2), asks(token=text), asks(token=text)]
    got = registry.enrol_all([(request, "") for request in batch], 1.0)
    assert got[0] == Admission(2, 1, True) and got[2] == Admission(0, 1, True)
    refused(got[1], "another device")
    refused(got[3], "used up")
    twice = [(asks(token=text, attempt=bytes(16)), "")] * 2
    assert all(isinstance(answer, Refusal) for answer in registry.enrol_all(twice, 1.0))


def test_the_same_attempt_twice_in_a_batch_is_one_device(opened):
    registry = opened(open=True)
    assert registry.enrol_all([(asks(attempt=bytes(16)), "")] * 2, 1.0) == [
        Admission(0, 1, True),
        Admission(0, 1, False),
    ]


def test_what_cannot_be_written_is_not_admitted(db, opened):
    registry = opened(open=True)
    full = "CREATE TEMP TRIGGER full BEFORE INSERT ON main.enrolments WHEN new.client = 3 BEGIN SELECT raise(ABORT, 'full'); END"
    registry._db.execute(full)
    with pytest.raises(RunFailed, match="cannot be written"):
        registry.enrol_all([(asks(), "")] * 5, 1.0)
    assert all_enrolments(db) == [] and not registry.enrolled.any()
    registry._db.execute("DROP TRIGGER full")
    assert registry.enrol(asks(), 1.0, "") == Admission(0, 1, True)


def test_evidence_is_judged_only_of_those_who_are_invited(db, opened):
    seen = []

    def judge(evidence, request):
        seen.append(evidence)
        return None if evidence == b"fine" else "it is forged"

    registry = opened(evidence=judge)
    text, _ = make_token(db, TokenRequest(uses=2), 0.0)
    refused(registry.enrol(asks(token="fft_guess", evidence=b"fine"), 1.0, ""), "not one of this run")
    assert seen == []
    refused(registry.enrol(asks(token=text, evidence=b"bad"), 1.0, ""), "forged")
    assert token_of(db, text).used == 0
    assert registry.enrol(asks(token=text, evidence=b"fine"), 1.0, "") == Admission(0, 1, True)
    refused(registry.enrol(back(0, evidence=b"bad"), 1.0, ""), "forged")
    assert registry.enrol(back(0, evidence=b"fine"), 1.0, "") == Admission(0, 1, False)


def test_what_was_declared_is_known_by_task_and_after_a_start(opened):
    registry = opened(open=True)
    for request in (asks(), asks(samples=7), asks(samples=50), asks(samples=70, data="mine")):
        registry.enrol(request, 1.0, "")
    registry.enrol(back(3, samples=90, data="mine"), 2.0, "", next_task=12)
    for seen in (registry, opened()):
        assert [a.tolist() for a in seen.declared.at(np.arange(5), 12)] == [[0, 7, 50, 90, 0], [False, False, False, True, False]]
        assert [int(seen.declared.at(np.array([3]), task)[0][0]) for task in (0, 11, 12, 99)] == [70, 70, 90, 90]


def test_what_a_device_says_of_itself_is_disarmed_before_it_is_stored(db, opened):
    opened(open=True).enrol(asks(data="a\n\x1b[2J", samples=1), 1.0, "ipv4:\u202e")
    (row,) = all_enrolments(db)
    assert (row.data, row.peer) == (r"a\n\x1b[2J", r"ipv4:\u202e")


def test_a_store_of_a_larger_run_is_refused(opened):
    opened(5, open=True).enrol(asks(client=4), 1.0, "")
    with pytest.raises(RunFailed, match="client 4"):
        opened(4)


class Fleet(RuleBasedStateMachine):
    """Whatever happens in whatever order, the places are as a literal list of living devices says.

    Tokens are drawn in the order in which they were made: their texts are random, and sorted they would be others in a second try.
    """

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "devices.db"
        self.terms = Terms(4)
        self.registry = Registry(self.path, KEY, self.terms)
        self.db = open_store(self.path)
        self.now, self.made, self.attempts = 0.0, {}, count()
        self.living: dict[int, int] = {}  # generation by client
        self.ended: list[tuple[int, int]] = []

    @rule(uses=st.integers(1, 2), seconds=st.sampled_from([None, 5.0]), client=st.sampled_from([None, 0, 1, 4]))
    def invite(self, uses, seconds, client):
        text, token = make_token(self.db, TokenRequest(1 if client is not None else uses, seconds, client), self.now)
        self.made[text] = [token.uses, token.expires, client]

    @precondition(lambda self: self.made)
    @rule(data=st.data(), client=st.sampled_from([None, 0, 1, 2, 4]), repeat=st.booleans())
    def enrol(self, data, client, repeat):
        text = data.draw(st.sampled_from(list(self.made)))
        left, expires, named = self.made[text]
        request = asks(token=text, attempt=next(self.attempts).to_bytes(16, "little"))
        if client is not None:
            request.client = client
        wanted = client if named is None else named
        fine = left > 0 and (expires is None or self.now < expires)
        fine = fine and (named is None or client in (None, named)) and (wanted is None or wanted < 4)
        fine = fine and (len(self.living) < 4 if wanted is None else named is not None or wanted not in self.living)
        got = self.registry.enrol(request, self.now, "")
        assert isinstance(got, Admission) == fine, got
        if not fine:
            assert text not in got.sentence
            return
        assert wanted in (None, got.client) and got.new
        self.made[text][0] -= 1
        if got.client in self.living:
            self.ended.append((got.client, self.living[got.client]))
        assert (got.client, got.generation) not in self.ended
        self.living[got.client] = got.generation
        if repeat:
            assert self.registry.enrol(request, self.now, "") == Admission(got.client, got.generation, False)

    @precondition(lambda self: self.living)
    @rule(data=st.data(), here=st.booleans())
    def put_out(self, data, here):
        client = data.draw(st.sampled_from(sorted(self.living)))
        self.registry.revoke(client, self.now) if here else revoke_client(self.db, client, self.now)
        self.ended.append((client, self.living.pop(client)))

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def end_token(self, data):
        text = data.draw(st.sampled_from(list(self.made)))
        revoke_token(self.db, token_of(self.db, text).id, self.now)
        self.made[text][0] = 0

    @rule(seconds=st.sampled_from([1.0, 10.0]))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def restart(self):
        self.registry.close()
        self.registry = Registry(self.path, KEY, self.terms)

    @invariant()
    def only_the_living_hold_places(self):
        self.registry.take_changes()
        assert np.flatnonzero(self.registry.enrolled).tolist() == sorted(self.living)
        for client, generation in self.living.items():
            assert self.registry.holds(client, secret_of(KEY, client, generation))
        for client, generation in self.ended:
            assert not self.registry.holds(client, secret_of(KEY, client, generation))

    def teardown(self):
        self.registry.close()
        self.db.close()
        self.folder.cleanup()


Fleet.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None, derandomize=True)
TestFleet = Fleet.TestCase


KILLS = """
import fcntl, os, random, signal, sys
from pathlib import Path
from tests.network.security.test_enrolment import KEY, asks
from fedfleet.network.security.enrolment_request import Terms
from fedfleet.network.security.enrolment import Registry

folder, kills, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
devices, answered = [i.to_bytes(16, "little") for i in range(1500)], {}
for _ in range(kills):
    left, right = os.pipe()
    fcntl.fcntl(right, fcntl.F_SETPIPE_SZ, 4096)  # a child that is far ahead waits until its answers are read
    child = os.fork()
    if child == 0:
        registry = Registry(folder / "devices.db", KEY, Terms(len(devices), open=True))
        waiting = [d for d in devices if d not in answered]
        for i in range(0, len(waiting), 3):
            batch = waiting[i : i + 3]
            for device, got in zip(batch, registry.enrol_all([(asks(attempt=d), "") for d in batch], 1.0)):
                os.write(right, device + got.client.to_bytes(4, "little"))
        os._exit(0)
    os.close(right)
    said, wanted = b"", 20 * chance.randrange(1, 60)
    while len(said) < wanted and (more := os.read(left, wanted - len(said))):  # so many have a place: a kill is in mid-enrolment
        said += more
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(left, 1 << 16):
        said += more
    os.close(left)
    for i in range(0, len(said) - 19, 20):
        answered[said[i : i + 16]] = int.from_bytes(said[i + 16 : i + 20], "little")
    registry = Registry(folder / "devices.db", KEY, Terms(len(devices), open=True))
    assert len(set(answered.values())) == len(answered), "two devices in one place"
    again = registry.enrol_all([(asks(attempt=device), "") for device in answered], 2.0)
    assert [got[:2] for got in again] == [(client, 1) for client in answered.values()], "an answer was lost"
    registry.close()
everyone = Registry(folder / "devices.db", KEY, Terms(len(devices), open=True))
places = [got.client for got in everyone.enrol_all([(asks(attempt=d), "") for d in devices], 3.0)]
assert sorted(places) == list(range(len(devices)))
sys.stdout.write(str(len(answered)))
"""


def kill_often(folder, kills, seed):
    root = Path(__file__).parents[3]
    words = [sys.executable, "-c", KILLS, str(folder), str(kills), str(seed)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_kill_in_mid_enrolment_gives_no_place_twice_and_loses_no_answer(tmp_path):
    assert 5 <= kill_often(tmp_path, 5, 7) < 1500  # every kill left some with an answer and some without


def test_the_database_itself_has_no_room_for_two(db, opened):
    """Should the rules ever err, the store refuses."""
    opened(open=True).enrol(asks(attempt=bytes(16)), 1.0, "")
    for change in ("client = 0", "client = 1"):  # the same place; the same attempt in another
        columns = "generation, token, attempt, samples, test_samples, memory_bytes, data, peer, enrolled, evidence, revoked"
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(f"INSERT INTO enrolments (client, {columns}) SELECT {change[-1]}, {columns} FROM enrolments")
