"""The own/ of a run folder that was spoilt, exchanged or forged: found before any of it is used, in one sentence."""

import json
import shutil

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import load_spec
from fedfleet.core.errors import BadInput, RunFailed
from tests.app.runs.owning import trust_of, unfinished
from tests.app.runs.tampering import reseal

pytestmark = pytest.mark.slow


def spoilt(path):
    """One bit in the middle of a file, turned."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["own.json", "weights.safetensors", "labels.safetensors", "data.safetensors", "code"])
@pytest.mark.parametrize("how", ["spoilt", "gone"])
def test_changed_files_are_found_before_they_are_used(coded, tmp_path, name, how):
    folder, trust = unfinished(coded, tmp_path / "run"), trust_of(coded.out)
    path = folder / "own" / name
    path = next(path.glob("*.py")) if name == "code" else path
    spoilt(path) if how == "spoilt" else path.unlink()
    says = "is missing after the run began" if how == "gone" else "was changed after the run began"
    for act in (
        lambda: replay_run(folder),
        lambda: replay_run(folder, trust=trust),
        lambda: perform(load_spec(folder / "spec.toml"), folder, resume=True, trust=trust),
    ):
        with pytest.raises((RunFailed, BadInput), match=says):
            act()


def test_a_description_that_was_exchanged_with_its_seal_does_not_replay(plain, tmp_path):
    """Someone who writes another layer and reseals own.json is found out by training again."""
    from fedfleet.app.runs.user_code import sha256

    folder = shutil.copytree(plain.out, tmp_path / "run")
    path = folder / "own/own.json"
    whole = json.loads(path.read_text())
    whole["own"]["model"]["layers"]["layers"][1][1] = {"use": "Tanh"}
    whole["sha256"] = sha256(json.dumps(whole["own"], sort_keys=True))
    path.write_text(json.dumps(whole))
    with pytest.raises(RunFailed, match=r"own/own\.json was changed after it was sealed"):
        replay_run(folder)
    reseal(folder)
    with pytest.raises(RunFailed, match="of the journal is wrong"):
        replay_run(folder)


def negative(own, arrays):
    arrays["y"][3] = -1


def high(own, arrays):
    arrays["y"][3] = 7


def short(own, arrays):
    arrays["owner"] = arrays["owner"][:-1]


def huge(own, arrays):
    own["arrays"]["x"][0], own["data"] = [200, 1 << 62], "hand"


def none(own, arrays):
    own["arrays"].pop("x")


def many(own, arrays):
    own["classes"] = 1 << 60


@pytest.mark.parametrize("forge", [negative, high, short, huge, none, many])
def test_nonsense_that_was_sealed_again_is_one_sentence(plain, tmp_path, forge):
    """Someone who recomputes every hash, the spec's as well, still gets no traceback and no memory."""
    from fedfleet.app.runs.custom_task_folder import content_id_of, hashes_of
    from fedfleet.app.runs.user_code import sha256
    from fedfleet.store.files import load_tree, save_tree

    folder = shutil.copytree(plain.out, tmp_path / "run")
    own = json.loads((folder / "own/own.json").read_text())["own"]
    arrays, _ = load_tree(folder / "own/labels.safetensors")
    forge(own, arrays)
    save_tree(folder / "own/labels.safetensors", arrays)
    for name, result in hashes_of(arrays).items():
        own["arrays"][name] = [list(arrays[name].shape), result]
    seal = {"sha256": sha256(json.dumps(own, sort_keys=True)), "own": own}
    (folder / "own/own.json").write_text(json.dumps(seal))
    content = content_id_of({n: h for n, (_, h) in own["arrays"].items()}, own["classes"], own["weights"])
    old = load_spec(folder / "spec.toml").task["content"]
    (folder / "spec.toml").write_text((folder / "spec.toml").read_text().replace(old, content))
    reseal(folder)
    with pytest.raises(RunFailed, match="has changed since the run started"):
        replay_run(folder)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b'{"sha256": "", "own": {}}', b"\xff", b"[" * 100_000])
def test_a_manifest_that_is_none_is_refused_in_one_sentence(plain, tmp_path, body):
    folder = shutil.copytree(plain.out, tmp_path / "run")
    (folder / "own/own.json").write_bytes(body)
    reseal(folder)
    with pytest.raises(RunFailed, match=r"own\.json is missing or has changed"):
        replay_run(folder)


def test_the_own_folder_of_another_run_is_refused(plain, coded, tmp_path):
    folder = shutil.copytree(plain.out, tmp_path / "run")
    shutil.rmtree(folder / "own")
    shutil.copytree(coded.out / "own", folder / "own")
    reseal(folder)
    with pytest.raises(BadInput, match="belongs to another run"):
        replay_run(folder)
