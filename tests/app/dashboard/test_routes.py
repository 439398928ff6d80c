"""The dashboard over HTTP: what it answers, and that nothing gets past its guard."""

import json
import os
import random
import socket

import pytest

from fedfleet.app.dashboard.auth import TOKEN_HEADER
from tests.app.dashboard.runs import END, STORY, Answers, folder_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    root = tmp_path_factory.mktemp("site")
    folder_of(root, "going")
    done = folder_of(root, "deep/done", [*STORY, *END], sealed=True)
    (done / "report.html").write_text("<p>the report</p>")
    folder_of(root, "<script>x")
    (folder_of(root, "odd") / "spec.toml").write_text("stop = 5\n")
    folder_of(root, os.fsdecode(b"caf\xe9"))
    with Answers(root) as result:
        yield result


def test_pages(site):
    status, page, headers = site.get("/")
    assert status == 200 and site.door.token in page and "unsafe" not in headers["content-security-policy"]
    assert "<script>x" not in page and "&lt;script&gt;x" in page
    assert site.get("/runs/going")[0] == 200 and site.get("/runs/deep/done")[0] == 200 and site.get("/runs/none")[0] == 404
    assert site.get("/runs/%3Cscript%3Ex")[0] == site.get("/runs/odd")[0] == site.get("/runs/caf%5Cudce9")[0] == 200
    form = site.get("/new?from=going")[1]
    assert 'value="going-again"' in form and "aria-current=page>New run" in form and "example:deadline" in form
    assert 'value="run-1"' in site.get("/new?from=no-such-run")[1]
    rows = site.get("/list?filter=acc%3E50&run=going&current=going")[1]
    assert 'value="going" aria-label="compare going" checked' in rows
    assert "Device 1</h2>" in site.get("/device?run=going&client=1")[1]
    assert "by its number" in site.get("/device?run=going&client=x")[1]
    for name in ("dashboard.js", "dashboard.css", "htmx-2.0.11.min.js", "uplot-1.6.32.min.js", "htmx.LICENSE"):
        assert site.get(f"/static/{name}")[0] == 200
    assert site.get("/enter")[0] == 303  # nothing to enter by


def test_reports_have_no_scripts(site):
    status, page, headers = site.get("/report/deep/done/report.html")
    assert (status, page) == (200, "<p>the report</p>") and "script-src" not in headers["content-security-policy"]
    assert site.get("/report/going/report.html")[0] == 404


def test_files_elsewhere_are_not_served(site):
    for path in (
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/report/../../etc/passwd",
        "/report/deep/done/spec.toml",
        "/runs/../x",
        "/report/%2e%2e/x",
    ):
        assert site.get(path)[0] in (404, 400)


def test_one_run_alone_is_not_compared(site):
    status, said, _ = site.get("/report/?run=going&run=none")
    assert status == 400 and "two runs" in said


def test_a_live_stream(site):
    with socket.create_connection(("127.0.0.1", site.door.port)) as line:
        line.sendall(f"GET /events?run=going HTTP/1.1\r\nHost: 127.0.0.1:{site.door.port}\r\n\r\n".encode())
        line.settimeout(20)
        said = b""
        while b"\n\n" not in said.partition(b"\r\n\r\n")[2]:
            said += line.recv(65536)
    assert b"text/event-stream" in said and b'"curve"' in said and b"60" in said


def test_a_form_is_checked(site):
    _, said, _ = site.post("/check", name="new", **{"world.devices.use": "dpgm"})
    assert "did you mean" in said and 'data-right="dpgmm"' in said
    _, said, _ = site.post("/check", name="new", **{"pace.use": "deadline", "pace.cohort": "0", "pace.seconds": "60"})
    assert 'data-right="1"' in said and "[pace]" in said and "seconds = 60.0" in said
    assert "longer than" in site.post("/check", toml="x" * 70_000)[1]


def test_another_part_brings_its_own_settings(site):
    ask = {"part": "pace", "kind": "policies", "default": "readiness", "pace.use": "deadline", "pace.cohort": "7"}
    _, piece, headers = site.post("/fields", **ask)
    assert 'name="pace.seconds"' in piece and 'name="pace.cohort" aria-describedby="m-pace-cohort" type="number"' in piece
    assert 'value="7"' in piece and headers["hx-trigger-after-settle"] == "fields-changed"
    codecs = {"part": "algorithm.up[0]", "kind": "codecs", "list": "algorithm.up", "algorithm.up[0].use": "topk"}
    _, piece, _ = site.post("/fields", **codecs)
    assert 'name="algorithm.up[0].share"' in piece and 'name="algorithm.up[1].use"' in piece
    for odd in ({"kind": "no-such-kind"}, {"part": "<b>"}, {"list": "<b>"}):
        assert site.post("/fields", **{**ask, **odd})[0] == 400


def test_a_group_has_its_page_and_nothing_beside_it(tmp_path):
    study = tmp_path / "study"
    folder_of(study / "runs", "a-s0-0123456789abcdef", [*STORY, *END], sealed=True)
    for name, text in (
        ("study.toml", "name = 'x'"),
        ("report.html", "<p>the study</p>"),
        ("runs.csv", "a,b"),
        ("secret.txt", "no"),
    ):
        (study / name).write_text(text)
    with Answers(tmp_path) as site:
        assert '<a href="/report/study/report.html">study page</a>' in site.get("/list")[1]
        form = site.get("/new?from=study/runs/a-s0-0123456789abcdef")[1]
        assert (
            'value="a-again"' in form
            and '<option value="study/runs/a-s0-0123456789abcdef" selected>study: all runs</option>' in form
        )
        assert site.get("/report/study/report.html")[1] == "<p>the study</p>"
        status, said, headers = site.get("/report/study/runs.csv")
        assert (status, said) == (200, "a,b") and headers["content-type"].startswith("text/plain")
        for name in ("secret.txt", "study.toml", "runs", "../study/report.html", ""):
            assert site.get(f"/report/study/{name}")[0] in (404, 400)


@pytest.mark.parametrize("path", ["/check", "/fields", "/start", "/stop", "/resume", "/report"])
def test_nothing_foreign_changes_anything(site, path):
    ours = site.ours
    foreign = [
        {}, ours | {"Origin": "http://evil.example"}, {"Origin": site.address}, ours | {TOKEN_HEADER: "x"},
        {TOKEN_HEADER: site.door.token}, ours | {"Host": f"evil.example:{site.door.port}"},
    ]  # fmt: skip
    for headers in foreign:
        assert site.post(path, headers, run="going", name="foreign")[0] in (403, 421)
    assert site.get(path)[0] in (404, 405)  # nor by a link
    assert site.site.starter.started == {}


def test_what_cannot_be_done_is_said(site):
    for path, word in (("/stop", "nothing to stop"), ("/resume", "no such run")):
        status, said, _ = site.post(path, run="going" if path == "/stop" else "none")
        assert status == 400 and word in said.lower()


def test_noise_on_the_line_changes_nothing(site):
    chance = random.Random(5)
    for i in range(40):
        noise = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 400)))
        first = (b"", b"GET / HTTP/1.1\r\n", b"POST /start HTTP/1.1\r\nHost: x\r\n", b"GET /runs/")[i % 4]
        with socket.create_connection(("127.0.0.1", site.door.port)) as line:
            line.settimeout(5)
            line.sendall(first + noise + b"\r\n\r\n")
            line.shutdown(socket.SHUT_WR)
            while line.recv(65536):
                pass
    assert site.get("/")[0] == 200 and site.site.starter.started == {}


def test_with_a_token_nothing_is_told_without_it(tmp_path):
    folder_of(tmp_path, "secret-run")
    with Answers(tmp_path, read_token="a-long-token-for-reading") as site:
        for path in ("/", "/list", "/runs/secret-run", "/events", "/device?run=secret-run&client=1", "/report/?run=a"):
            status, said, _ = site.get(path)
            assert status in (303, 401) and "secret" not in said
        own = {"Origin": site.address}
        assert site.post("/enter", own, token="wrong")[0] == 403
        status, _, headers = site.post("/enter", own, token="a-long-token-for-reading")
        assert status == 303
        assert "secret-run" in site.get("/", Cookie=headers["set-cookie"].partition(";")[0])[1]
        assert "secret-run" in site.get("/", Authorization="Bearer a-long-token-for-reading")[1]
        assert site.post("/start", own | {"Authorization": "Bearer a-long-token-for-reading"})[0] == 403


def test_state_is_json_free_of_secrets(site):
    assert site.door.token not in json.dumps(site.get("/list")[1])
