"""A server that admits with tokens only: wrong, replayed, expired and revoked ones, and devices that are put out in mid-run."""

import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from fedfleet.network.security.enrolment_store import open_store, revoke_client
from fedfleet.network.security.tokens import TokenRequest, make_token, revoke_token
from tests.network.bench import UNTIL_STOPPED, bench
from tests.network.harness import wait_for
from tests.network.puppet import Puppet, Status
from tests.network.toys import Toy

pytestmark = pytest.mark.slow

TOY = Toy(clients=16, buffer=1, rounds=UNTIL_STOPPED)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with bench(tmp_path_factory.mktemp("invited"), TOY, open_enrolment=False) as made:
        yield made


@pytest.fixture
def store(desk):
    db = open_store(desk.ground.out / "wire/devices.db")
    yield db
    db.close()


def refused(puppet, **said):
    """The sentence with which an enrolment is refused."""
    with pytest.raises(grpc.RpcError) as wrong:
        puppet.enrol(**said)
    puppet.close()
    return wrong.value.details()


def at_the_door(desk, n):
    """A puppet that is not enrolled."""
    return Puppet(desk.ground.address, n)


def invited(desk, store, n, **wanted):
    token, _ = make_token(store, TokenRequest(**wanted), time.time())
    puppet = at_the_door(desk, n)
    desk._made.append(puppet)
    puppet.enrol(token=token)
    return puppet, token


def reports(desk, puppet):
    return desk.hand(puppet, *desk.honest(puppet, puppet.await_work())).status


def test_nobody_gets_in_without_a_token(desk):
    assert "token" in refused(at_the_door(desk, 0))


def test_a_token_that_nobody_made_is_refused(desk):
    assert "not one of this run" in refused(at_the_door(desk, 0), token="fft_guessed")


def test_a_token_lets_a_device_in_and_its_report_counts(desk, store):
    puppet, _ = invited(desk, store, 1)
    assert reports(desk, puppet) == Status.SAFE


def test_a_replayed_token_is_used_up(desk, store):
    _, token = invited(desk, store, 2)
    assert "used up" in refused(at_the_door(desk, 3), token=token)


def test_an_expired_token_is_refused(desk, store):
    token, _ = make_token(store, TokenRequest(seconds=1.0), time.time() - 10.0)
    assert "expired" in refused(at_the_door(desk, 4), token=token)


def test_a_revoked_token_is_refused(desk, store):
    token, made = make_token(store, TokenRequest(uses=5), time.time())
    revoke_token(store, made.id, time.time())
    assert "revoked" in refused(at_the_door(desk, 5), token=token)


def test_a_device_that_comes_back_with_its_secret_needs_no_token(desk, store):
    puppet, _ = invited(desk, store, 6)
    back = desk.again(puppet)
    assert back.enrol().client == 6
    assert reports(desk, back) == Status.SAFE


def test_a_second_device_cannot_push_the_first_out(desk, store):
    first, _ = invited(desk, store, 7)
    token, _ = make_token(store, TokenRequest(), time.time())
    assert "another device" in refused(at_the_door(desk, 7), token=token, attempt=b"another one, of 16+")
    assert reports(desk, first) == Status.SAFE


def test_a_revoked_device_is_put_out_while_the_server_runs(desk, store):
    puppet, _ = invited(desk, store, 8)
    assert reports(desk, puppet) == Status.SAFE
    revoke_client(store, 8, time.time())

    def out():
        try:
            puppet.check()
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.UNAUTHENTICATED
        return False

    wait_for(out, "end of a revoked secret", seconds=60)
    anew, _ = invited_again(desk, store, 8)
    assert anew.secret != puppet.secret
    assert reports(desk, anew) == Status.SAFE


def test_a_device_that_is_put_out_while_it_waits_on_the_line_hears_so_at_once(desk, store):
    puppet, _ = invited(desk, store, 10)
    task = puppet.await_work().work.task
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(puppet.check, hold=True, busy=task)
        time.sleep(0.3)
        assert not waiting.done()
        revoke_client(store, 10, time.time())
        wrong = waiting.exception(10.0)
    assert isinstance(wrong, grpc.RpcError) and wrong.code() == grpc.StatusCode.UNAUTHENTICATED


def invited_again(desk, store, n):
    token, _ = make_token(store, TokenRequest(client=n), time.time())
    puppet = at_the_door(desk, n)
    desk._made.append(puppet)
    puppet.enrol(token=token, attempt=b"")
    return puppet, token


def test_neither_tokens_nor_secrets_are_written_down(desk, store):
    puppet, token = invited(desk, store, 9)
    reports(desk, puppet)
    # Files that are still being written are renamed when they are whole.
    for path in [p for p in desk.ground.out.rglob("*") if p.is_file() and p.suffix != ".part"]:
        data = path.read_bytes()
        assert token.encode() not in data, path
        assert puppet.secret not in data, path
        assert puppet.secret.hex().encode() not in data, path
    assert token not in desk.ground.said
