"""`fedfleet shuffle`: one user's exchange from a file, its contract, its picture, and what it refuses."""

import json
import re

import numpy as np
import pytest

from fedfleet.shuffle import problem_from, score
from tests.app.specs import refused

pytestmark = pytest.mark.slow

USER = {
    "counts": [[30, 0, 5], [2, 40, 1], [10, 10, 60]], "seconds_per_sample": [0.02, 0.1, 0.05],
    "up_bps": [1e7, 5e6, 2e7], "down_bps": [2e7, 1e7, 4e7], "bits_per_sample": 6272, "epochs": 5, "alpha": 20.0,
}  # fmt: skip
CONTRACT = {
    "objective", "max_latency", "std_latency", "max_imbalance", "moved", "relaxed", "bound", "plan", "seconds",
}  # fmt: skip


def saved(folder, **changes):
    """A user's file; a change to None leaves the key out."""
    path = folder / "user.json"
    path.write_text(json.dumps({k: v for k, v in {**USER, **changes}.items() if v is not None}))
    return path


@pytest.fixture
def shuffle(fedfleet, tmp_path):
    """Solve a user with these changes: the answer for programs."""

    def call(*words, **changes):
        code, out, err = fedfleet("shuffle", saved(tmp_path, **changes), *words, "--json")
        assert (code, err) == (0, "")
        assert set(json.loads(out)) >= CONTRACT
        return json.loads(out)

    return call


def whole(got, **changes):
    """The plan as an array, seen to be whole numbers from 0 that hand out all there is, and worth what is said."""
    user = {**USER, **changes}
    plan = np.array(got["plan"])
    assert plan.dtype == np.int64 and plan.min() >= 0
    assert plan.sum(2).tolist() == user["counts"]
    result = score(problem_from(user), plan)
    for name in ("objective", "max_latency", "std_latency", "max_imbalance", "moved"):
        assert got[name] == pytest.approx(getattr(result, name))
    return plan


def test_the_exact_answer_is_whole_and_proven(shuffle):
    got = shuffle()
    plan = whole(got)
    assert got["bound"] <= got["relaxed"] * (1 + 1e-6) <= got["objective"] * (1 + 2e-6)
    assert got["bound"] <= got["integer_bound"] <= got["objective"]
    assert got["relaxed"] - got["bound"] < 1e-3 * got["relaxed"]
    across = plan.sum(1)
    assert got["moved"] == across.sum() - np.trace(across) > 0
    nothing = score(problem_from(USER), np.array(USER["counts"])[:, :, None] * np.eye(3, dtype=int)[:, None])
    assert got["objective"] < nothing.objective / 2


def test_quick_leaves_the_bounds_out_and_comes_close(shuffle):
    got = shuffle("--quick")
    whole(got)
    assert got["bound"] is None and got["integer_bound"] is None
    assert got["relaxed"] <= got["objective"] < 1.05 * got["relaxed"]


def test_the_papers_solver_is_there_for_comparison(shuffle):
    got = shuffle("--solver", "slsqp")
    whole(got)
    assert got["bound"] <= got["objective"] and got["bound"] <= got["relaxed"]
    assert isinstance(got["message"], str)
    quick = shuffle("--solver", "slsqp", "--quick", "--limit", "0.001")
    whole(quick)
    assert quick["bound"] is None


def test_people_see_every_device_before_and_after(fedfleet, tmp_path):
    code, out, _ = fedfleet("shuffle", saved(tmp_path))
    assert code == 0
    lines = out.splitlines()
    for v, counts in enumerate(USER["counts"]):
        assert re.match(rf"\s*{v}\s+{sum(counts)} -> \d+ ", lines[1 + v]), lines[1 + v]
    assert "proven to within" in out and "of 158 samples" in out
    assert "proven" not in fedfleet("shuffle", saved(tmp_path), "--quick")[1]


def test_the_picture_shows_each_device_and_fetches_nothing(shuffle, tmp_path):
    got = shuffle("--quick", "--picture", str(tmp_path / "user.html"))
    page = (tmp_path / "user.html").read_text()
    plan = np.array(got["plan"])
    assert page.count('role="img"') == 4 and "<script" not in page and "http" not in page.replace("http-equiv", "")
    for v in range(3):
        assert page.count(f">device {v}<") == 1 and f">Device {v}, before<" in page
        for i in range(3):
            for held in (USER["counts"][v][i], int(plan[:, i, v].sum())):
                assert (f"device {v}, class {i}: {held} samples" in page) == (held > 0)
    assert f"{got['moved']} of them change device" in page and "158 samples of 3 classes" in page


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": [[5, 0, 3]], "seconds_per_sample": [0.1], "up_bps": [1e6], "down_bps": [1e6]},
        {"counts": [[5], [0], [9]]},
        {"counts": [[5, 2], [0, 0], [9, 0]], "alpha": "auto"},
        {"counts": [[0, 0], [0, 1], [0, 0]]},
        {"alpha": 0},
        {"counts": [[4, 4], [4, 4], [4, 4]], "alpha": "auto", "time_balance": False},
    ],
    ids=["one device", "one class", "a device without data", "one sample", "no alpha", "already even"],
)
def test_odd_users_are_solved_and_drawn(shuffle, tmp_path, changes):
    got = shuffle("--picture", str(tmp_path / "user.html"), **changes)
    plan = whole(got, **changes)
    assert got["bound"] <= got["relaxed"] * (1 + 1e-6) + 1e-9
    assert got["relaxed"] <= got["objective"] * (1 + 1e-6) + 1e-9
    page = (tmp_path / "user.html").read_text()
    assert all(f">device {v}<" in page for v in range(len(plan))) and "nan" not in page
    if len(plan) == 1:
        assert got["moved"] == 0 and got["objective"] == got["relaxed"] == got["bound"]


@pytest.mark.parametrize(
    ("changes", "mentions"),
    [
        ({"counts": [[30, 0, 5], [2, -40, 1], [1, 1, 6]]}, ("device 1, class 1", "-40")),
        ({"counts": [[30, 0, 5], [2, 4.5, 1], [1, 1, 6]]}, ("device 1, class 1", "4.5")),
        ({"counts": [[30, 0, 5], [2, 40], [1, 1, 6]]}, ("device 1 has 2 classes", "device 0 has 3")),
        ({"counts": [[0, 0, 0]] * 3}, ("no device holds any sample",)),
        ({"counts": []}, ("counts", "no devices")),
        ({"counts": 7}, ("counts must be a list",)),
        ({"up_bps": [1e7, 0, 2e7]}, ("up_bps of device 1", "above 0")),
        ({"down_bps": [1e7, 1e7, float("nan")]}, ("down_bps of device 2", "nan")),
        ({"down_bps": [1e7, 1e7]}, ("down_bps has 2 entries", "3 devices")),
        ({"seconds_per_sample": 0.1}, ("seconds_per_sample must be a list",)),
        ({"bits_per_sample": -1}, ("bits_per_sample is -1",)),
        ({"epochs": 0}, ("epochs is 0",)),
        ({"epochs": True}, ("epochs is True",)),
        ({"alpha": "large"}, ("alpha is 'large'", '"auto"')),
        ({"alpha": None}, ("the key 'alpha' is missing",)),
        ({"up_bsp": [1, 1, 1]}, ("no key 'up_bsp'", "did you mean 'up_bps'")),
        ({"time_balance": 1}, ("time_balance is 1", "true or false")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_user_that_cannot_be_is_one_sentence(fedfleet, tmp_path, changes, mentions):
    refused(fedfleet("shuffle", saved(tmp_path, **changes), "--json"), *mentions)


@pytest.mark.parametrize(
    ("content", "mention"),
    [
        (b"{counts: 3}", "is not JSON"),
        (b"", "is not JSON"),
        (b"[1, 2]", "must hold one JSON object"),
        (b"3", "must hold one JSON object"),
        (b"\xff\xfe\x00", "cannot read"),
        (b"[" * 100_000, "nested too deeply"),
    ],
    ids=["no JSON", "empty", "list", "number", "bytes", "deep"],
)
def test_a_file_without_a_user_is_one_sentence(fedfleet, tmp_path, content, mention):
    path = tmp_path / "user.json"
    path.write_bytes(content)
    refused(fedfleet("shuffle", path), "user.json", mention)


def test_files_that_are_not_there_and_words_that_mean_nothing(fedfleet, tmp_path):
    refused(fedfleet("shuffle", tmp_path / "none.json"), "there is no file", "none.json")
    refused(fedfleet("shuffle", tmp_path), "cannot read")
    refused(fedfleet("shuffle", saved(tmp_path), "--solver", "slqsp"), "--solver", "did you mean 'slsqp'")
    refused(fedfleet("shuffle", saved(tmp_path), "--limit", "0"), "--limit")
    refused(fedfleet("shuffle", saved(tmp_path), "--quik"), "--quick")
    refused(fedfleet("shuffle"), "needs FILE")


def test_a_picture_that_cannot_be_written_is_one_sentence(fedfleet, tmp_path):
    refused(fedfleet("shuffle", saved(tmp_path), "--quick", "--picture", tmp_path / "none" / "user.html"), "user.html")


@pytest.mark.parametrize("changes", [{"counts": [[10**400, 0, 1]] * 3}, {"alpha": 10**400}], ids=["counts", "alpha"])
def test_numbers_beyond_all_measure_are_one_sentence(fedfleet, tmp_path, changes):
    refused(fedfleet("shuffle", saved(tmp_path, **changes)), next(iter(changes)))
