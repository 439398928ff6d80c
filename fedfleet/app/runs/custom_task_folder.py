"""What a run folder keeps of a person's own task: `own/`, all of it data, every file found out by its hash when it was changed.

own.json says how model, loss and metrics are made again; weights.safetensors holds the first weights, labels.safetensors the
labels and owners, data.safetensors the inputs where they are copied, code/ the sources.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedfleet.app.runs.user_code import Entry, sha256
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.json_text import parse_json
from fedfleet.core.kinds import IGNORED, KINDS, MULTILABEL, REGRESSION, Kind, KindName
from fedfleet.core.parts import Dataset, FirstWeights
from fedfleet.core.trees import Array, Tree, content_hash
from fedfleet.store.files import DamagedFile, load_tree, save_tree, write_atomically
from fedfleet.tasks.data_checks import checked_data

FOLDER = "own"
_DIGITS = 16  # of a hash, in the name of a file
_MANIFEST_BYTES, _SOURCE_BYTES = 4 << 20, 16 << 20  # larger ones are nobody's
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST_CLASSES = 1 << 20
_SLACK = 1 << 16  # what a file of arrays may hold beside the arrays


@dataclass(frozen=True, slots=True)
class TaskManifest:
    """own.json. `arrays` has the shape and the hash of x, y and perhaps owner; `data` says where the inputs are: in the folder,
    in a file elsewhere, or only in the hands of whoever has them."""

    arrays: dict[str, tuple[list[int], str]]
    classes: int
    weights: str
    data: Literal["folder", "file", "hand"]
    file: str
    # What the person's own file calls classes, outputs and people, and what was taken out of the outputs of a regression.
    label_names: list[str] = field(default_factory=list[str], kw_only=True)
    owner_names: list[str] = field(default_factory=list[str], kw_only=True)
    target_scale: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]], kw_only=True)
    model: Entry
    loss: Entry | None
    metrics: dict[str, Entry]
    kind: KindName = "classification"
    # Folders of older versions do not say where their first weights came from.
    first_weights: FirstWeights = "module"
    warnings: list[str] = field(default_factory=list[str])

    def content_id(self) -> str:
        """The name of data and first weights together, which the spec holds."""
        return content_id_of({n: array_hash for n, (_, array_hash) in self.arrays.items()}, self.classes, self.weights)

    def entries(self) -> dict[str, Entry]:
        """Everything that a person gave beside the data, by role."""
        loss = {} if self.loss is None else {"loss": self.loss}
        return {"model": self.model, **loss, **{f"metric {name!r}": entry for name, entry in self.metrics.items()}}

    def code_hash(self) -> str:
        """The hash that stands for all code of this run: what is named, with which arguments, and its source. "": no code."""
        code_entries = {role: asdict(entry) for role, entry in self.entries().items() if entry.by == "code"}
        return sha256(json.dumps(code_entries, sort_keys=True)) if code_entries else ""


def content_id_of(hashes: Mapping[str, str], classes: int, weights: str) -> str:
    """One name for arrays, number of classes and first weights."""
    return sha256(json.dumps([sorted(hashes.items()), classes, weights]))


def hashes_of(arrays: Mapping[str, Array]) -> dict[str, str]:
    """The content hash of each array."""
    return {name: content_hash({name: value}) for name, value in arrays.items()}


def write_task_folder(out: Path, manifest: TaskManifest, arrays: Tree, weights: Tree, sources: list[str]) -> None:
    """Write `own/`: whole or not at all."""
    draft = out / f"{FOLDER}.part"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        (draft / "code").mkdir(parents=True)
    except OSError as error:
        raise RunFailed(f"{draft} cannot be written ({error}); free some space, then resume") from error
    save_tree(draft / first_weights_file(out).name, weights)
    save_tree(draft / "labels.safetensors", {n: v for n, v in arrays.items() if n != "x"})
    if manifest.data == "folder":
        save_tree(draft / "data.safetensors", {"x": arrays["x"]})
    for text in sources:
        write_atomically(draft / "code" / f"{sha256(text)}.py", text.encode())
    body = json.dumps(asdict(manifest), sort_keys=True)
    write_atomically(draft / "own.json", (json.dumps({"sha256": sha256(body), "own": json.loads(body)}, indent=1) + "\n").encode())
    os.replace(draft, out / FOLDER)


def load_manifest(out: Path) -> TaskManifest:
    """own.json, if it is what was written."""
    path = out / FOLDER / "own.json"
    try:
        document = parse_json(_read_bounded(path, _MANIFEST_BYTES))
        body = json.dumps(document["own"], sort_keys=True)
        if document["sha256"] != sha256(body):
            raise _changed_error(path)
        return TypeAdapter(TaskManifest).validate_json(body)
    except FileNotFoundError:
        raise BadInput(
            f"{out} contains a run of a model that was given in Python, but {path} is missing; resume it from "
            "Python, with the model and the data: "
            f"fedfleet.run('{out}/spec.toml', model=.., data=.., out='{out}', resume=True)"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError):
        raise _changed_error(path) from None


def first_weights_file(out: Path) -> Path:
    """Where a run's folder keeps the first weights."""
    return out / FOLDER / "weights.safetensors"


def load_weights(out: Path, manifest: TaskManifest) -> Tree:
    """The first weights."""
    path = first_weights_file(out)
    tree = _read_tree(path)
    if content_hash(tree) != manifest.weights:
        raise _changed_error(path)
    return tree


def load_arrays(out: Path, manifest: TaskManifest, data: Any = None) -> tuple[Tree, str]:
    """Inputs, labels and owners; and why the inputs are not here, if they are not: then they are zeros that take no room.

    `data` is what the person gave again, if anything.
    """
    labels = _read_tree(out / FOLDER / "labels.safetensors")
    _check_sane(out, manifest, labels)
    x, path = _inputs(out, manifest, data)
    hashes = hashes_of(labels if x is None else {"x": x, **labels})
    for name, (_, expected) in manifest.arrays.items():
        if hashes.get(name) != expected and not (name == "x" and x is None):
            if name == "x" and data is not None:
                raise BadInput(f"data: these are not the inputs of the run in {out}; give the same arrays again")
            raise _changed_error(path if name == "x" else out / FOLDER / "labels.safetensors")
    if x is not None:
        return {"x": x, **labels}, ""
    why = f"its file {manifest.file} is not there" if manifest.data == "file" else "it was not kept (keep_data=False)"
    missing = (
        f"the data of the run in {out} is not at hand: {why}; give it again in Python: "
        f"fedfleet.run('{out}/spec.toml', data=.., out='{out}', resume=True), or fedfleet.replay('{out}', data=..)"
    )
    return {"x": np.broadcast_to(np.float32(0), manifest.arrays["x"][0]), **labels}, missing


def stored_dataset(arrays: Tree, manifest: TaskManifest) -> Dataset:
    """The samples of a folder, with the names and the scale that belong to them."""
    return Dataset(
        arrays["x"],
        arrays["y"],
        manifest.classes,
        arrays.get("owner"),
        KINDS[manifest.kind],
        tuple(manifest.label_names),
        tuple(manifest.owner_names),
        tuple((mean, sd) for mean, sd in manifest.target_scale),
    )


def _check_sane(out: Path, manifest: TaskManifest, labels: Tree) -> None:
    """Refuse labels, owners and shapes that no run can have had, whoever sealed them."""
    rows, (shape, _) = labels.get("y", np.zeros(0)), manifest.arrays.get("x", ([0], ""))
    names = [v.ndim == 1 and v.dtype == np.int64 and v.min(initial=0) >= 0 for n, v in labels.items() if n != "y"]
    columns = [*names, *(len(v) == len(rows) for v in labels.values()), _are_labels(rows, KINDS[manifest.kind])]
    fits = labels.keys() | {"x"} == manifest.arrays.keys() and {"y"} <= labels.keys() <= {"y", "owner"} and all(columns)
    sized = len(rows) > 0 and shape[:1] == [len(rows)] and all(n > 0 for n in shape) and math.prod(shape) < 1 << 48
    scales = all(math.isfinite(mean) and 0 < sd < math.inf for mean, sd in manifest.target_scale)
    named = len(manifest.label_names) in (0, manifest.classes) and len(manifest.target_scale) in (0, manifest.classes) and scales
    people = not manifest.owner_names or int(labels.get("owner", np.zeros(1)).max(initial=0)) < len(manifest.owner_names)
    if not (fits and sized and named and people and _most_label(rows) < manifest.classes <= _MOST_CLASSES):
        raise _changed_error(out / FOLDER)


def _are_labels(y: Array, kind: Kind) -> bool:
    """Can these be the labels of that kind of task?"""
    if kind is REGRESSION:
        return y.ndim == 2 and y.dtype == np.float32 and bool(np.isfinite(y).all())
    if kind is MULTILABEL:
        return y.ndim == 2 and y.dtype == np.bool_
    least = IGNORED if kind.places else 0
    return y.ndim == 1 + kind.places and y.dtype == np.int64 and int(y.min(initial=0)) >= least


def _most_label(y: Array) -> int:
    """The largest class; of other kinds of labels the number of columns, less one."""
    return int(y.max()) if y.dtype == np.int64 else y.shape[1] - 1


def _inputs(out: Path, manifest: TaskManifest, data: Any) -> tuple[Array | None, Path]:
    """The inputs from wherever they are, None if nowhere; and the file that they should be in."""
    if data is not None:
        return task_arrays(data)["x"], out
    if manifest.data == "folder":
        path = out / FOLDER / "data.safetensors"
        tree = _read_tree(path)
        if tree.keys() != {"x"}:
            raise _changed_error(path)
        return tree["x"], path
    file, shape = Path(manifest.file), manifest.arrays["x"][0]
    if manifest.data == "hand" or not file.is_file():
        return None, file
    most = 8 * math.prod(shape) + 16 * shape[0] + _SLACK  # as doubles, with labels and owners
    return task_arrays(read_arrays(file, most))["x"], file


def load_source(out: Path, entry: Entry) -> str:
    """The source of an entry, just as its hash says; "" if it has none."""
    if not entry.sha256:
        return ""
    path = out / FOLDER / "code" / f"{entry.sha256}.py"
    if not _HASH.fullmatch(entry.sha256):  # it is about to be a file's name
        raise _changed_error(out / FOLDER / "own.json")
    try:
        text = _read_bounded(path, _SOURCE_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        raise _changed_error(path) from None
    if sha256(text) != entry.sha256:
        raise _changed_error(path)
    return text


def read_arrays(path: str | Path, most: int | None = None) -> list[Array]:
    """Inputs, labels and perhaps owners from a .npz or .safetensors file with arrays x, y, owner; nothing in it is executed."""
    path = Path(path)
    try:
        if path.suffix == ".safetensors":
            tree = load_file(path)
        else:
            if most is not None and sum(i.file_size for i in zipfile.ZipFile(path).infolist()) > most:
                raise RunFailed(f"{path} contains more than the data of the run")
            with np.load(path, allow_pickle=False) as file:
                tree = {name: file[name] for name in ("x", "y", "owner") if name in file.files}
        return [tree["x"], tree["y"], *([tree["owner"]] if "owner" in tree else [])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, SafetensorError) as wrong:
        raise BadInput(f"data: cannot read arrays x and y (and perhaps owner) from {path}: {wrong}") from None


def write_arrays(folder: Path, data: Any) -> Path:
    """Write inputs, labels and perhaps owners as `read_arrays` reads them, once for the same content: its hash is in the name."""
    tree = task_arrays(data)
    path = arrays_file(folder, tree)
    if not path.is_file():
        draft = io.BytesIO()
        arrays: dict[str, Any] = {**tree}
        np.savez(draft, **arrays)
        write_atomically(path, draft.getvalue())
    return path


def arrays_file(folder: Path, tree: Tree) -> Path:
    """Where `write_arrays` keeps such arrays."""
    return folder / f"data-{sha256(json.dumps(sorted(hashes_of(tree).items())))[:_DIGITS]}.npz"


def task_arrays(data: Any, kind: str = "auto") -> Tree:
    """Arrays as a task holds them."""
    dataset = checked_data(data, kind)
    return {"x": dataset.x, "y": dataset.y} | ({} if dataset.owner is None else {"owner": dataset.owner})


def _read_tree(path: Path) -> Tree:
    try:
        return load_tree(path)[0]
    except (OSError, SafetensorError, ValueError, DamagedFile):
        raise _changed_error(path) from None


def _read_bounded(path: Path, most: int) -> bytes:
    if path.stat().st_size > most:
        raise _changed_error(path)
    return path.read_bytes()


def _changed_error(path: Path) -> RunFailed:
    return RunFailed(f"{path} is missing or has changed since the run started; restore it, or start a new run")
