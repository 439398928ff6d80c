"""Measuring this device and its link."""

import http.server
import json
import threading
from contextlib import contextmanager

import pytest

import fedfleet
from fedfleet.app.machine.device_profile import append_row, link_speed, profile_device, with_images
from fedfleet.core.engines import ENGINES
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.tasks.digits import digits_logreg
from fedfleet.world.bases import load_devices

ROW = {"id": "one", "down_kbps": [1000.0], "up_kbps": None, "seconds_per_sample": 0.1}


@contextmanager
def web_server(content, *, uploads=True):
    """An HTTP server on the loopback: its address."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200 if uploads else 405)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_the_link_to_a_server_is_measured():
    with web_server(bytes(200_000)) as place:
        row, details = profile_device("digits_logreg", engine="numpy", batch=4, iterations=2, side=None, name="me", server=place)
    assert details["link"] == "measured"
    assert len(row["down_kbps"]) == len(row["up_kbps"]) == 5
    assert min(*row["down_kbps"], *row["up_kbps"]) > 0


def test_a_server_without_uploads_gives_downloads_only():
    with web_server(bytes(1000), uploads=False) as place:
        down, up = link_speed(place)
    assert len(down) == 5 and up is None


def test_a_link_that_cannot_be_measured_is_a_failure():
    with web_server(b"") as place, pytest.raises(RunFailed, match="empty answer"):
        link_speed(place)
    with pytest.raises(RunFailed, match="cannot measure the link"):
        link_speed("127.0.0.1:9")


def test_without_a_server_the_link_is_assumed_and_said():
    row, details = profile_device("digits_logreg", engine="torch", batch=4, iterations=2, side=None, name=None, server=None)
    assert row["down_kbps"] == [100_000.0] and "assumed" in details["link"]
    parts = details["training_seconds"]
    assert 3 * row["seconds_per_sample"] == pytest.approx(parts["per_sample"]) and row["seconds_per_batch"] == parts["per_batch"]
    assert row["latency_ms"] == [1000 * parts["per_task"]] * 2 and sum(parts.values()) > 0
    assert details["inference_seconds"]["mean"] > 0 and details["training_over_inference"] >= 0 and row["memory_mb"] > 100


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_is_a_devices_file_on_which_a_run_takes_as_long_as_its_parts_say(engine, tmp_path):
    row, _ = profile_device("digits_logreg", engine=engine, batch=4, iterations=2, side=None, name="me", server=None)
    # so that all three parts are there whatever was measured
    row |= {"seconds_per_sample": 1.0, "seconds_per_batch": 5.0, "latency_ms": [7000.0, 7000.0], "down_kbps": [1e9]}
    append_row(tmp_path / "devices.json", row)
    spec = {
        "task": "digits_logreg", "algorithm": {"steps": 2, "batch": 8}, "stop": {"rounds": 1},
        "pace": {"cohort": 1, "min_clients": 1},
        "world": {"clients": 1, "devices": {"use": "device_file", "path": str(tmp_path / "devices.json")}},
    }  # fmt: skip
    result = fedfleet.run(spec, out=tmp_path / "run")
    assert result.clients["seconds"][0] == pytest.approx(7 + 2 * 5 + 2 * 8 * 3, rel=1e-3)


def test_images_of_another_size_are_for_models_of_images_that_take_them():
    assert with_images(digits_logreg()(0), 20).dataset.x.shape[1:] == (1, 20, 20)
    for task, says in (("diabetes_mlp", "the samples of diabetes_mlp are not images"), ("mnist_mlp", "cannot take such images")):
        for engine in ENGINES:
            with pytest.raises(BadInput, match=f"--side.*{says}"):
                profile_device(task, engine=engine, batch=1, iterations=1, side=20, name="me", server=None)


def test_rows_are_added_and_replaced_by_id(tmp_path):
    path = tmp_path / "devices.json"
    for row in (ROW, {**ROW, "id": "two"}, {**ROW, "seconds_per_sample": 0.2}):
        append_row(path, row)
    table = load_devices(str(path))
    assert table.ids.tolist() == ["two", "one"]
    assert table.seconds_per_sample.tolist() == [0.1, 0.2]


def test_what_is_no_devices_file_is_left_alone(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"mine": 1}))
    with pytest.raises(BadInput):
        append_row(path, ROW)
    assert json.loads(path.read_text()) == {"mine": 1}
    with pytest.raises(BadInput, match="cannot write"):
        append_row(tmp_path / "none/devices.json", ROW)


def test_a_sheet_gets_a_further_line(tmp_path):
    path = tmp_path / "d.csv"
    append_row(path, ROW)
    append_row(path, {**ROW, "id": "two", "up_kbps": [5.0, 6.0]})
    append_row(path, {**ROW, "seconds_per_sample": 0.2})
    result = load_devices(str(path))
    assert result.ids.tolist() == ["two", "one"] and result.seconds_per_sample.tolist() == [0.1, 0.2]
