"""A misspelt path is answered with the nearest one, by every verb that takes a path, and wherever the mistake is in it."""

import pytest

from tests.app.specs import TINY, fleet, refused, written

pytestmark = pytest.mark.slow


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("examples", "runs/first-a1b2", "fleets", "samples"):
        (tmp_path / name).mkdir(parents=True)
    written(tmp_path / "examples", TINY, "first.toml")
    written(tmp_path / "examples", "base = 'first.toml'\n[grid]\n\"pace.cohort\" = [2, 3]\n", "study.toml")
    (tmp_path / "runs/first-a1b2/spec.toml").write_text(TINY)
    fleet(tmp_path / "fleets", 14)
    (tmp_path / "fleets/exchange.json").write_text("{}")
    (tmp_path / "samples/mine.csv").write_text("x,label\n1,a\n2,b\n")
    (tmp_path / "samples/model.py").write_text("Net = None\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        ("run exmples/first.toml", "examples/first.toml"),
        ("run examples/frist.toml", "examples/first.toml"),
        ("run exmples/frist.toml", "examples/first.toml"),
        ("run examples/first.toml --resume --out runs/frist-a1b2", "runs/first-a1b2"),
        ("serve exmples/first.toml", "examples/first.toml"),
        ("tune exmples/first.toml", "examples/first.toml"),
        ("predict exmples/first.toml", "examples/first.toml"),
        ("measure exmples/first.toml", "examples/first.toml"),
        ("study exmples/study.toml", "examples/study.toml"),
        ("report rnus/first-a1b2", "runs/first-a1b2"),
        ("verify runs/first-a1b3", "runs/first-a1b2"),
        ("replay run/first-a1b2", "runs/first-a1b2"),
        ("explain runs/frst-a1b2", "runs/first-a1b2"),
        ("export runs/first-a1b --to jsonl:x", "runs/first-a1b2"),
        ("compare runs/first-a1b2 run/first-a1b2", "runs/first-a1b2"),
        ("token runs/frist-a1b2", "runs/first-a1b2"),
        ("dashboard rums", "runs"),
        ("measure --devices fleet/devices.json", "fleets/devices.json"),
        ("measure --states fleets/state.json", "fleets/states.json"),
        ("run examples/first.toml world.devices.use=device_file world.devices.path=fleet/devices.json", "fleets/devices.json"),
        ("sample states --base fleets/sates.json", "fleets/states.json"),
        ("shuffle fleet/exchange.json", "fleets/exchange.json"),
        ("run --data sample/mine.csv --label label", "samples/mine.csv"),
        ("run --data samples/mime.csv --label label", "samples/mine.csv"),
        ("measure --data sample/mine.csv --label label", "samples/mine.csv"),
        ("device --server 127.0.0.1:1 --client 0 --data samples/mime.csv", "samples/mine.csv"),
        ("trust samples/modle.py", "samples/model.py"),
        ("run --data samples/mine.csv --label label --model sample/model.py:Net", "samples/model.py"),
    ],
)
def test_the_nearest_path_is_named(fedfleet, tree, words, nearest):
    refused(fedfleet(*words.split()), f"did you mean {nearest}?")
