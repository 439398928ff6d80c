"""The code of a spec's model: trusted by hash, kept in run folders, found there by whoever audits."""

import pytest

import fedfleet
from fedfleet.app.runs.model_trust import has_model_code, keep_model_code, trust_model
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.tasks.trusted_code import forget, trust, trusted_source
from tests.app.own_files import write_data, write_model


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path, columns = write_data(tmp_path, "classification")
    return resolve({"task": {"use": "table", "path": str(path), **columns, "model": f"{write_model(tmp_path)}:Net"}})


def test_only_the_right_hash_makes_code_trusted(spec):
    digest = spec.task["code"]
    assert has_model_code(spec) and not has_model_code(resolve({}))
    trust_model(spec, None)
    assert trusted_source(digest) is None
    with pytest.raises(BadInput, match=digest):
        trust_model(spec, "0" * 64)
    trust_model(spec, digest)
    assert trusted_source(digest) is not None


def test_a_folder_keeps_the_code_and_gives_it_to_who_trusts_it(spec, tmp_path):
    digest, folder = spec.task["code"], tmp_path / "run"
    folder.mkdir()
    trust((tmp_path / "model.py").read_text())
    keep_model_code(spec, folder)
    (tmp_path / "model.py").unlink()
    forget(digest)
    with pytest.raises(BadInput, match="restore"):
        trust_model(spec, digest)
    trust_model(spec, digest, folder)
    assert trusted_source(digest) is not None


@pytest.mark.filterwarnings("ignore")
def test_a_run_of_somebody_else_is_audited_once_its_code_is_trusted(spec, tmp_path):
    trust((tmp_path / "model.py").read_text())
    words = ("stop.rounds=1", "pace.cohort=2", "world.clients=4", "run.execute=inline")
    fedfleet.run(spec.table(), *words, out=tmp_path / "run")
    forget(spec.task["code"])
    import sys

    sys.modules.pop(f"fedfleet_model_{spec.task['code']}", None)
    with pytest.raises(BadInput, match="fedfleet trust"):
        fedfleet.replay(tmp_path / "run")
    assert "models" in fedfleet.replay(tmp_path / "run", trust_code=spec.task["code"])["verified"]
