"""`fedfleet sample`, `measure` and `profile`, as people and programs use them."""

import http.server
import json
import threading

import pytest

from fedfleet.world.bases import load_devices, load_states


def fleet(folder, n=30):
    """A devices file and a states file of n clients."""
    devices = [
        {"id": f"d{i % 7}", "down_kbps": [20000 + 1000 * i, 50000], "up_kbps": None, "seconds_per_sample": 0.05}
        for i in range(n)
    ]
    states = [{"id": f"s{i % 5}", "start": 0, "end": 86400, "ready": [[i * 100, 40000 + i * 100]]} for i in range(n)]
    for name, rows in (("devices", devices), ("states", states)):
        (folder / f"{name}.json").write_text(json.dumps({"format": f"fedfleet/{name}@1", name: rows}))
    return folder / "devices.json", folder / "states.json"


QUICK = ("--clients-k", 5, "--rounds", 200, "--trips", 500, "--seeds", 2)


def test_measure_answers_by_the_contract(fedfleet, tmp_path):
    devices, states = fleet(tmp_path)
    code, out, err = fedfleet("measure", "--devices", devices, "--states", states, *QUICK, "--json")
    got = json.loads(out)
    assert code == 0, err
    assert list(got) == ["DevMC-R", "DevMC-T", "StatMC-R", "StatMC-T", "InterMC-R", "InterMC-T", "per_state"]
    assert all({"value", "sd", "seconds"} <= set(got[name]) for name in got if "MC-" in name)
    assert set(got["per_state"]) == {f"s{i}" for i in range(5)}
    assert list(json.loads(fedfleet("measure", "--devices", devices, *QUICK, "--json")[1])) == ["DevMC-R", "DevMC-T"]
    only = fedfleet("measure", "--states", states, *QUICK, "--only", "StatMC-R", "--json")[1]
    assert list(json.loads(only)) == ["StatMC-R", "per_state"]


def test_people_are_told_what_the_numbers_mean(fedfleet, tmp_path):
    devices, _ = fleet(tmp_path)
    _, out, _ = fedfleet("measure", "--devices", devices, *QUICK, "--against", "fsreal")
    assert "higher is easier" in out
    assert "ks " in out


def test_a_fleet_is_sampled_written_and_measured(fedfleet, tmp_path):
    base, states = fleet(tmp_path)
    for ending in ("json", "npz"):
        made = tmp_path / f"made.{ending}"
        words = (
            "sample",
            "devices",
            "--base",
            base,
            "--kinds",
            5,
            "--sigma",
            0.5,
            "--clients",
            40,
            "--out",
            made,
            "--json",
        )
        code, out, err = fedfleet(*words)
        assert code == 0, err
        assert json.loads(out)["clients"] == len(load_devices(str(made))) == 40
        words = (
            "sample",
            "states",
            "--base",
            states,
            "--alpha",
            2,
            "--clients",
            40,
            "--clients-k",
            5,
            "--rounds",
            100,
            "--out",
            made,
        )
        assert fedfleet(*words)[0] == 0
        assert len(load_states(str(made))) == 40


def test_samples_repeat(fedfleet, tmp_path):
    base, states = fleet(tmp_path)
    for semantics in ("paper", "released"):
        words = ("sample", "devices", "--base", base, "--kinds", 5, "--semantics", semantics, "--seed", 3, "--out")
        fedfleet(*words, tmp_path / "a.json")
        fedfleet(*words, tmp_path / "b.json")
        assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()
    words = (
        "sample",
        "states",
        "--base",
        states,
        "--clients-k",
        5,
        "--rounds",
        100,
        "--semantics",
        "released",
        "--out",
    )
    fedfleet(*words, tmp_path / "a.json")
    fedfleet(*words, tmp_path / "b.json", "--seed", 2022)
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text(), "without a seed: 2022"


def test_scores_may_be_given(fedfleet, tmp_path):
    _, states = fleet(tmp_path, 5)
    (tmp_path / "scores.json").write_text(json.dumps({"s0": 0.1, "s1": 0.2, "s2": 0.9, "s3": 0.3, "s4": 0.4}))
    words = (
        "sample",
        "states",
        "--base",
        states,
        "--scores",
        tmp_path / "scores.json",
        "--alpha",
        0.001,
        "--semantics",
        "released",
    )
    fedfleet(*words, "--out", tmp_path / "made.json")
    assert set(load_states(str(tmp_path / "made.json")).ids) == {"s2"}, "nearly everyone has the best state"
    (tmp_path / "scores.json").write_text(json.dumps({"s0": 0.1}))
    code, _, err = fedfleet(*words)
    assert code == 2
    assert "no number for state s1" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("measure",), "give a devices file"),
        (("measure", "--devices", "none.json"), "none.json"),
        (("measure", "--devices", "fsreal", "--clients-k", 73), "fleet of 72"),
        (("measure", "--devices", "fsreal", "--deadline", 0), "--deadline 0 must be positive"),
        (("measure", "--devices", "fsreal", "--ready-share", 1.5), "--ready-share"),
        (("measure", "--devices", "fsreal", "--semantics", "printed"), "--semantics"),
        (("measure", "--devices", "fsreal", "--t-cost", "often"), "--t-cost"),
        (("measure", "--devices", "fsreal", "--only", "DevMC"), "did you mean 'DevMC-"),
        (("measure", "--devices", "fsreal", "--only", "StatMC-R"), "StatMC"),
        (("sample", "devices", "--sampler", "dpgm", "--base", "fsreal"), "did you mean 'dpgmm'"),
        (("sample", "devices", "--base", "fsreal", "--alpha", -1), "--alpha"),
        (("sample", "states", "--base", "fsreal"), "has no states"),
        (("profile", "--task", "digits_cn"), "did you mean 'digits_cnn'"),
    ],
)
def test_bad_input(fedfleet, words, says):
    code, out, err = fedfleet(*words)
    assert code == 2, (out, err)
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_pictures_are_pages(fedfleet, tmp_path):
    devices, states = fleet(tmp_path)
    fedfleet("sample", "devices", "--sampler", "uniform", "--base", devices, "--picture", tmp_path / "d.html")
    fedfleet("sample", "states", "--sampler", "uniform", "--base", states, "--picture", tmp_path / "s.html")
    fedfleet("measure", "--devices", devices, "--states", states, *QUICK, "--picture", tmp_path / "m.html")
    for name, word in (("d", "Mbit/s"), ("s", "hour of the day"), ("m", "InterMC-R")):
        page = (tmp_path / f"{name}.html").read_text()
        assert "<svg" in page
        assert word in page


def test_this_device_becomes_a_row(fedfleet, tmp_path):
    path = tmp_path / "mine.json"
    words = ("profile", "--task", "digits_logreg", "--iterations", 3, "--out", path)
    assert fedfleet(*words, "--id", "one")[0] == 0
    assert fedfleet(*words, "--id", "two")[0] == 0
    code, out, _ = fedfleet(*words, "--id", "one", "--json")
    got = json.loads(out)
    assert code == 0
    assert got["row"]["seconds_per_sample"] > 0
    assert load_devices(str(path)).ids.tolist() == ["two", "one"], "a device is replaced by its newer measurement"
    (tmp_path / "other.json").write_text("{}")
    assert fedfleet("profile", "--task", "digits_logreg", "--iterations", 1, "--out", tmp_path / "other.json")[0] == 2
    assert (tmp_path / "other.json").read_text() == "{}", "what is not a devices file is left alone"


def test_the_link_to_a_server_is_measured(fedfleet):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(bytes(200_000))

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        place = f"127.0.0.1:{server.server_port}"
        code, out, err = fedfleet("profile", "--task", "digits_logreg", "--iterations", 2, "--server", place, "--json")
    finally:
        server.shutdown()
        server.server_close()
    row = json.loads(out)["row"]
    assert code == 0, err
    assert len(row["down_kbps"]) == len(row["up_kbps"]) == 5
    assert min(row["down_kbps"]) > 0
