"""What `own/` is made of: names by content, arrays from files, nothing that is executed."""

import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.runs.custom_task_folder import (
    TaskManifest,
    arrays_file,
    content_id_of,
    hashes_of,
    load_arrays,
    load_manifest,
    load_source,
    read_arrays,
    stored_dataset,
    task_arrays,
    write_arrays,
    write_task_folder,
)
from fedfleet.app.runs.user_code import Entry
from fedfleet.core.errors import BadInput, RunFailed

ARRAYS = {"x": np.zeros((3, 2), np.float32), "y": np.arange(3)}
WEIGHTS = {"w": np.ones(2, np.float32)}


def kept(**more):
    shapes = {n: (list(v.shape), h) for (n, v), h in zip(ARRAYS.items(), hashes_of(ARRAYS).values(), strict=True)}
    known = {"classes": 3, "weights": "w", "data": "folder", "file": "", "loss": None, "metrics": {}}
    return TaskManifest(arrays=shapes, **{**known, "model": Entry("layers", "a layer", {"use": "Linear"}), **more})


def test_what_was_saved_is_loaded(tmp_path):
    whole = kept(metrics={"f1": Entry("code", "m:f", {}, "m", "f", False, [1], {"a": "b"}, "", "")})
    write_task_folder(tmp_path, whole, ARRAYS, WEIGHTS, ["x = 1\n"])
    assert load_manifest(tmp_path) == whole
    assert not (tmp_path / "own.part").exists()


def test_a_draft_that_a_kill_left_behind_is_replaced(tmp_path):
    (tmp_path / "own.part/code").mkdir(parents=True)
    (tmp_path / "own.part/rubbish").write_text("half")
    write_task_folder(tmp_path, kept(), ARRAYS, WEIGHTS, [])
    assert sorted(p.name for p in (tmp_path / "own").iterdir()) == [
        "code", "data.safetensors", "labels.safetensors", "own.json", "weights.safetensors",
    ]  # fmt: skip


def test_the_content_names_every_piece():
    names = {content_id_of(hashes_of(a), c, w) for a, c, w in (
        (ARRAYS, 3, "w"), ({**ARRAYS, "x": ARRAYS["x"] + 1}, 3, "w"), ({**ARRAYS, "y": ARRAYS["y"] + 1}, 3, "w"),
        ({**ARRAYS, "owner": ARRAYS["y"]}, 3, "w"), (ARRAYS, 4, "w"), (ARRAYS, 3, "v"),
    )}  # fmt: skip
    assert len(names) == 6


def test_the_code_names_paths_arguments_and_sources():
    entry = {"by": "code", "what": "m:f", "module": "m", "name": "f", "sha256": "a"}
    changes = ({}, {"module": "n"}, {"name": "g"}, {"args": [1]}, {"kwargs": {"a": 1}}, {"sha256": "b"}, {"call": True})
    result = {kept(model=Entry(**{**entry, **change})).code_hash() for change in changes}
    assert len(result) == 7 and kept().code_hash() == "", "layers of PyTorch are no code"


def test_a_source_must_be_named_by_a_hash(tmp_path):
    with pytest.raises(RunFailed, match=r"own\.json"):
        load_source(tmp_path, Entry("code", "m:f", sha256="../../etc/passwd"))


class Trap:
    def __reduce__(self):
        return (exec, ("raise SystemExit('executed')",))


def test_pickles_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([Trap()], dtype=object), y=np.arange(1))
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Trap()))
    for name in ("a.npz", "b.npz", "none.npz", "c.safetensors"):
        with pytest.raises(BadInput, match="cannot read arrays x and y"):
            read_arrays(tmp_path / name)


def test_a_file_that_unpacks_to_more_than_the_data_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((1000, 1000)), y=np.arange(3))
    assert zipfile.ZipFile(tmp_path / "a.npz").infolist()[0].compress_size < 10_000
    with pytest.raises(RunFailed, match="more than the data"):
        read_arrays(tmp_path / "a.npz", most=100_000)


def test_arrays_are_written_once_for_their_content_and_read_back_the_same(tmp_path):
    data = (np.arange(6.0).reshape(3, 2), [0, 1, 1], np.array(["b", "a", "b"], dtype=object))
    path = write_arrays(tmp_path, data)
    assert path == arrays_file(tmp_path, task_arrays(data))
    again = task_arrays(read_arrays(path))
    assert hashes_of(again) == hashes_of(task_arrays(data))
    made = path.stat().st_mtime_ns
    assert write_arrays(tmp_path, data) == path and path.stat().st_mtime_ns == made
    assert write_arrays(tmp_path, (data[0] + 1, data[1])) != path


def test_arrays_are_laid_out_as_tasks_hold_them():
    result = task_arrays(([[1, 2], [3, 4]], [0, 1], ["b", "a"]))
    assert result["x"].dtype == np.float32 and result["y"].dtype == np.int64 and result["owner"].tolist() == [1, 0]


def test_names_and_scale_of_own_data_are_kept_with_them(tmp_path):
    y = np.zeros((3, 1), np.float32)
    arrays = {"x": ARRAYS["x"], "y": y, "owner": np.array([0, 1, 1])}
    shapes = {n: (list(v.shape), h) for (n, v), h in zip(arrays.items(), hashes_of(arrays).values(), strict=True)}
    named = {"label_names": ["price"], "owner_names": ["ann", "bob"], "target_scale": [(5.0, 2.0)]}
    whole = replace(kept(**named), arrays=shapes, classes=1, kind="regression")
    write_task_folder(tmp_path / "a", whole, arrays, WEIGHTS, [])
    found = stored_dataset(load_arrays(tmp_path / "a", load_manifest(tmp_path / "a"))[0], load_manifest(tmp_path / "a"))
    assert (found.label_names, found.owner_names, found.target_scale) == (("price",), ("ann", "bob"), ((5.0, 2.0),))
    wrong = (
        {"target_scale": [(5.0, 0.0)]},
        {"target_scale": [(5.0, 2.0)] * 2},
        {"label_names": ["p", "q"]},
        {"owner_names": ["ann"]},
    )
    for i, forged in enumerate(wrong):
        write_task_folder(tmp_path / str(i), replace(whole, **forged), arrays, WEIGHTS, [])
        with pytest.raises(RunFailed, match="has changed"):
            load_arrays(tmp_path / str(i), replace(whole, **forged))


def test_a_run_on_own_numbers_replays_with_their_scale(tmp_path):
    import torch

    import fedfleet

    lines = [f"p{i % 3},{i % 7},{i % 5},{1000 * (i % 7) + 1.5}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["who,a,b,price", *lines]))
    data = fedfleet.data(tmp_path / "t.csv", owner="who", label="price", scale="standard")
    spec = {"world": {"clients": 3, "data": "by_owner"}, "pace": {"cohort": 2, "min_clients": 1}, "stop": {"rounds": 2}}
    done = fedfleet.run(spec, model=torch.nn.Linear(2, 1), data=data, out=tmp_path / "run")
    assert "scores" in fedfleet.replay(done.out)["verified"]
    assert load_manifest(tmp_path / "run").label_names == ["price"]
