"""First weights from disk: a .safetensors file, a folder of Hugging Face, or a run folder; matched to a model name by name.

Never a pickle, because reading one runs the code in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.trees import Array, Tree

_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".th")
_GIVE = "; give a .safetensors file, or the folder of a model or a run"
_WHOLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_FROZEN = "frozen.safetensors"  # beside it in the folder of a run that froze a part of its model
WRAPPED = "model."  # as `LogitsModel` names its model
_NAMES_SHOWN, _NAMES_TRIED = 3, 5
_INDEX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """Where first weights come from: a file or a folder, and whether it may fit a part of the model only."""

    source: str | Path
    partial: bool = False


@dataclass(frozen=True, slots=True)
class FittedWeights:
    """All arrays of a model, and sentences about what was done to make the weights of a file fit."""

    tree: Tree
    notes: tuple[str, ...] = ()


def fitted_weights(source: str | Path, first: Mapping[str, Array], *, partial: bool = False) -> FittedWeights:
    """The weights of `source` for a model whose own first weights are `first`: names and shapes must be the same.

    With `partial` arrays that the source lacks, or has in another shape, stay as they are in `first`, and those that the model
    lacks are left out; a note names both.
    """
    path = Path(source).expanduser()
    found = read_weights(path)
    given, prefix_note = without_prefix(found, first)
    notes = [] if not prefix_note else [f"weights: {path}: {prefix_note}"]
    missing = [n for n in first if n not in given]
    other_shape = [n for n in first if n in given and given[n].shape != first[n].shape]
    unexpected = [n for n in given if n not in first]
    fitting = [n for n in first if n in given and n not in other_shape]
    problems = _problems(given, first, missing, other_shape, unexpected)
    if not fitting:
        raise BadInput(
            f"weights: no array of {path} fits the model ({'; '.join(problems)}); give the weights of a model with the same layers"
        )
    if problems and not partial:
        raise BadInput(
            f"weights: {path} does not fit the model: {'; '.join(problems)}; give the weights of the same model, or take over what "
            "fits with partial_weights=True, so that the rest begins as without weights"
        )
    if problems:
        notes.append(f"weights: {len(fitting)} of {len(first)} arrays are from {path}; {'; '.join(problems)}")
    tree = {n: _as_type(n, given[n], v, path) if n in fitting else v for n, v in first.items()}
    return FittedWeights(tree, tuple(notes))


def read_weights(path: Path) -> Tree:
    """All arrays of a .safetensors file, of a folder of Hugging Face, or of a finished run; nothing in them is executed."""
    if path.is_dir():
        return _read_folder(path)
    if path.suffix.lower() in _PICKLES:
        raise BadInput(
            f"weights: {path} is a pickle, and reading one can run code; convert a file that you trust: "
            f"python -c \"import torch, safetensors.torch as s; w = torch.load('{path}', weights_only=True); "
            f"s.save_file({{n: v.clone().contiguous() for n, v in w.items()}}, '{path.with_suffix('.safetensors')}')\""
        )
    if not path.exists():
        raise BadInput(f"weights: there is no file or folder {path}{nearest_file(path) or _GIVE}")
    if path.suffix != ".safetensors":
        raise BadInput(f"weights: {path} is not a .safetensors file; give one, or the folder of a model or a run")
    return _read_file(path)


def _read_folder(folder: Path) -> Tree:
    if (folder / _INDEX).is_file():
        return _read_shards(folder)
    if (folder / _WHOLE).is_file():
        frozen = _read_file(folder / _FROZEN) if (folder / _FROZEN).is_file() else {}
        return {**frozen, **_read_file(folder / _WHOLE)}
    if (folder / "run.db").is_file():
        raise BadInput(f"weights: the run in {folder} is not finished and has no model yet; resume it first")
    pickle = next((p for p in sorted(folder.glob("*")) if p.suffix in _PICKLES), None)
    if pickle is not None:
        return read_weights(pickle)
    raise BadInput(f"weights: the folder {folder} has no {_WHOLE} and no {_INDEX}; give the folder of a model or a finished run")


def _read_shards(folder: Path) -> Tree:
    """The arrays that an index lists, from its files, which lie beside it."""
    path = folder / _INDEX
    try:
        if path.stat().st_size > _INDEX_BYTES:
            raise ValueError("it is too large for an index")
        places: dict[str, str] = {str(n): str(f) for n, f in json.loads(path.read_text(encoding="utf-8"))["weight_map"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"weights: {path} cannot be read as an index: {error}; copy the folder again") from None
    strange = next((f for f in places.values() if Path(f).name != f or not f.endswith(".safetensors")), None)
    if strange is not None:
        raise BadInput(f"weights: {path} names {strange!r}, which is not a .safetensors file beside it; copy the folder again")
    tree: Tree = {}
    for file in sorted(set(places.values())):
        tree |= _read_file(folder / file)
    lacking = [n for n in places if n not in tree]
    if lacking:
        raise BadInput(f"weights: the files of {folder} lack {_listed(lacking)}, which {_INDEX} lists; copy the folder again")
    return {n: tree[n] for n in places}


def _read_file(path: Path) -> Tree:
    """One file; number types that NumPy lacks become float32."""
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise BadInput(f"weights: {path} cannot be read: {error}; copy it again") from None
    return {n: (v.float() if v.is_floating_point() else v).numpy() for n, v in tensors.items()}


def without_prefix(given: Tree, wanted: Iterable[str]) -> tuple[Tree, str]:
    """The arrays under the names of the model, where all names differ by one prefix that wrappers add; and a word about that.

    >>> names, note = without_prefix({"module.w": np.zeros(1), "module.b": np.zeros(1)}, ["w", "b"])
    >>> sorted(names), note
    (['b', 'w'], "the prefix 'module.' of its names was left out")
    """
    names = set(wanted)
    best, note, most = given, "", len(names & given.keys())
    for prefix in _candidates(given, names):
        shorter = {n.removeprefix(prefix): v for n, v in given.items()}
        longer = {f"{prefix}{n}": v for n, v in given.items()}
        # A model that FedFleet wrapped has names with this prefix, which is nobody's affair.
        put_before = "" if prefix == WRAPPED else f"the prefix {prefix!r} was put before its names"
        for renamed, word in ((shorter, f"the prefix {prefix!r} of its names was left out"), (longer, put_before)):
            count = len(names & renamed.keys()) if len(renamed) == len(given) else 0
            if count > most:
                best, note, most = renamed, word, count
    return best, note


def _candidates(given: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """What could be a prefix: how a name of one side ends with one of the other, of a few names that are long enough to tell."""
    found: set[str] = set()
    for shorter, longer in ((given, wanted), (wanted, given)):
        for name in sorted(shorter, key=len)[-_NAMES_TRIED:]:
            found |= {other.removesuffix(name) for other in longer if other.endswith(f".{name}")}
    return sorted(found)


def _problems(
    given: Tree, first: Mapping[str, Array], missing: Sequence[str], other_shape: Sequence[str], unexpected: Sequence[str]
) -> list[str]:
    """What does not fit, as parts of a sentence."""
    problems: list[str] = []
    if other_shape:
        name = other_shape[0]
        shapes = f"{given[name].shape} there and {first[name].shape} in the model"
        more = f" ({len(other_shape)} arrays have another shape)" if len(other_shape) > 1 else ""
        problems.append(f"{name!r} has the shape {shapes}{more}")
    if missing:
        problems.append(f"it lacks {_listed(missing)}")
    if unexpected:
        problems.append(f"the model lacks {_listed(unexpected)}")
    return problems


def _as_type(name: str, value: Array, like: Array, path: Path) -> Array:
    if not np.isfinite(value).all():
        raise BadInput(f"weights: {name!r} in {path} holds values that are not finite; give other weights")
    return np.ascontiguousarray(value.astype(like.dtype)).reshape(like.shape)


def _listed(names: Sequence[Any]) -> str:
    """So many arrays, the first of them by name.

    >>> _listed(["a", "b", "c", "d"]), _listed(["a"])
    ("4 arrays ('a', 'b', 'c', ..)", "'a'")
    """
    if len(names) == 1:
        return repr(names[0])
    return f"{len(names)} arrays ({', '.join(map(repr, names[:_NAMES_SHOWN]))}{', ..' if len(names) > _NAMES_SHOWN else ''})"
