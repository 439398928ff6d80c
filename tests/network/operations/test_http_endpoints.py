"""The HTTP server: three pages, bounded in every direction, and it says nothing that it was told."""

import http.client
import os
import socket
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.network.operations import http_endpoints
from fedfleet.network.operations.http_endpoints import (
    MOST_CONNECTIONS,
    STUCK_SECONDS,
    Endpoints,
    HealthBoard,
    Page,
    answer_request,
    dead_reason,
    disk_check,
    mark_turn,
    pages_of,
    unready_reason,
)
from fedfleet.network.operations.metrics import Figures

pytestmark = pytest.mark.slow

PAGES = {"/metrics": lambda for_operator: Page(200, b"some 1\n"), "/healthz": lambda for_operator: Page(503, b"no\n")}
TOKEN = "5f" * 32


@pytest.fixture
def board():
    return HealthBoard(Figures("demo", transmitters=1, transmitters_up=1), listening=True)


@pytest.fixture
def server(board, tmp_path):
    made = Endpoints("127.0.0.1:0", pages_of(board, tmp_path), TOKEN)
    yield made
    made.close()


def ask(server, path, method="GET", **heads):
    host, port = server.address.split(":")
    line = http.client.HTTPConnection(host, int(port), timeout=60)
    line.request(method, path, headers=heads)
    reply = line.getresponse()
    return reply.status, reply.read().decode(), dict(reply.getheaders())


def raw(server, data, *, finish=False):
    """What comes back for these bytes, until the server hangs up."""
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        line.sendall(data)
        if finish:
            line.shutdown(socket.SHUT_WR)
        result = b""
        while more := line.recv(65536):
            result += more
    return result


def test_the_pages_of_a_server_that_is_well(server):
    assert ask(server, "/healthz")[:2] == (200, "ok\n")
    assert ask(server, "/readyz")[:2] == (200, "ok\n")
    code, text, heads = ask(server, "/metrics")
    assert code == 200 and "fedfleet_devices_online 0.0" in text
    assert heads["Content-Type"].startswith("text/plain; version=0.0.4")


def test_newest_figures_are_told(server, board):
    mark_turn(board, replace(board.figures, devices_online=42))
    assert "fedfleet_devices_online 42.0" in ask(server, "/metrics")[1]


def test_what_the_run_is_called_and_how_well_it_learns_is_for_who_shows_the_token(server, board):
    mark_turn(board, replace(board.figures, accuracy=0.75))
    for heads in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": "Bearer"}):
        code, text, _ = ask(server, "/metrics", **heads)
        assert code == 200 and "demo" not in text and "fedfleet_accuracy 0" not in text and "fedfleet_round 0.0" in text
    text = ask(server, "/metrics", authorization=f"bearer {TOKEN} ")[1]
    assert 'run="demo"' in text and "fedfleet_accuracy 0.75" in text


def test_nobody_is_an_operator_where_there_is_no_token(board, tmp_path):
    head = b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer \r\n\r\n"
    assert b"demo" not in answer_request(head, pages_of(board, tmp_path))


def test_a_stuck_or_stopping_server_says_so(server, board):
    mark_turn(board, replace(board.figures, draining=True))
    assert ask(server, "/healthz")[0] == 200 and ask(server, "/readyz")[:2] == (503, "no: it is stopping\n")
    board.turned_at -= 60
    assert ask(server, "/healthz")[0] == 503 and ask(server, "/metrics")[0] == 200


def test_other_paths_and_methods_are_refused(server):
    assert ask(server, "/")[0] == 404 and ask(server, "/../etc/passwd")[0] == 404
    code, _, heads = ask(server, "/metrics", "POST")
    assert code == 405 and heads["Allow"] == "GET, HEAD"
    code, text, heads = ask(server, "/metrics", "HEAD")
    assert code == 200 and text == "" and int(heads["Content-Length"]) > 100
    assert ask(server, "/metrics?name[]=up")[0] == 200


def test_requests_are_bounded_in_size(server):
    assert raw(server, b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20000).startswith(b"HTTP/1.1 400 ")
    assert raw(server, b"GET /metr", finish=True) == b""


def test_requests_are_bounded_in_time(server, monkeypatch):
    monkeypatch.setattr(http_endpoints, "REQUEST_SECONDS", 0.2)
    assert raw(server, b"GET /metrics HTTP/1.1\r\n") == b""  # whoever reads gives up after a minute


def test_connections_are_bounded_in_number(server):
    host, port = server.address.split(":")
    lines = [socket.create_connection((host, int(port))) for _ in range(MOST_CONNECTIONS + 8)]
    for line in lines:
        line.settimeout(0.3)
    hung_up = 0
    for line in lines:
        try:
            hung_up += line.recv(1) == b""
        except ConnectionError:
            hung_up += 1
        except TimeoutError:
            break
    turned_away = [line for line in lines[MOST_CONNECTIONS:] if _closed(line)]
    for line in lines:
        line.close()
    assert len(turned_away) == 8 and hung_up == 0
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:  # the server hears of it a moment later
        try:
            assert ask(server, "/healthz")[0] == 200
            return
        except (ConnectionError, http.client.HTTPException):
            time.sleep(0.02)
    pytest.fail("it did not recover")


def _closed(line):
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@given(st.binary(max_size=200))
def test_whatever_comes_nothing_of_it_goes_back(data):
    reply = answer_request(data, PAGES)
    first = reply.split(b"\r\n", 1)[0]
    assert first.split(b" ")[1] in (b"200", b"400", b"404", b"405", b"503")
    odd = answer_request(b"GET /zzqq-" + data.replace(b" ", b"") + b" HTTP/1.1\r\n\r\n", PAGES)
    assert b"zzqq" not in odd


def test_a_page_that_fails_does_not_tell_why():
    def fails():
        raise RuntimeError("the secret is 12345")

    reply = answer_request(b"GET /x HTTP/1.1\r\n\r\n", {"/x": fails})
    assert reply.startswith(b"HTTP/1.1 500 ") and b"12345" not in reply


def test_an_address_that_is_taken_is_one_sentence(server):
    with pytest.raises(BadInput, match="cannot listen at"):
        Endpoints(server.address, PAGES)
    with pytest.raises(BadInput, match="not HOST:PORT"):
        Endpoints("nonsense", PAGES)


def test_closing_frees_the_port_and_the_thread(board, tmp_path):
    made = Endpoints("127.0.0.1:0", pages_of(board, tmp_path))
    held = socket.create_connection(tuple(made.address.split(":")))
    made.close()
    made.close()
    held.settimeout(5)
    assert _closed(held)
    held.close()
    Endpoints(made.address, PAGES).close()


UP = Figures("demo", transmitters=2, transmitters_up=2)


def board_of(**changes):
    return HealthBoard(replace(UP, **changes), turned_at=100.0, listening=True)


def test_a_loop_that_does_not_turn_is_dead():
    assert dead_reason(board_of(), 100.0 + STUCK_SECONDS) == ""
    assert "not turned" in dead_reason(board_of(), 100.1 + STUCK_SECONDS)
    assert "not turned" in unready_reason(board_of(), 106.0, writable=True)


def test_turning_brings_it_back():
    stuck = board_of()
    mark_turn(stuck, replace(UP, round=3))
    assert stuck.turned_at != 100.0 and stuck.figures.round == 3
    mark_turn(stuck)
    assert stuck.figures.round == 3


def test_readiness_needs_everything():
    assert unready_reason(board_of(), 100.0, writable=True) == ""
    assert "written" in unready_reason(board_of(), 100.0, writable=False)
    assert "1 of 2" in unready_reason(board_of(transmitters_up=1), 100.0, writable=True)
    assert "stopping" in unready_reason(board_of(draining=True), 100.0, writable=True)
    deaf = board_of()
    deaf.listening = False
    assert "listen" in unready_reason(deaf, 100.0, writable=True)


def test_a_folder_is_tried_by_writing(tmp_path):
    assert disk_check(tmp_path)()
    assert list(tmp_path.iterdir()) == []
    assert not disk_check(tmp_path / "none")()


def test_a_full_disk_is_noticed_and_the_answer_is_remembered_for_a_moment(tmp_path, monkeypatch):
    check = disk_check(tmp_path, every=3600)
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:10]))
    assert not check()
    monkeypatch.setattr(os, "write", real)
    assert not check() and disk_check(tmp_path)()
