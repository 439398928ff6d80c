"""A person's own task (`table`) in a client's configuration: the model's code or layers, and how devices read samples of their own.

A device never gets code that it runs unasked: models of PyTorch's own layers travel as a description, all others as source that the
device's owner reads and trusts once, by its hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfleet.app.spec.table_checks import Table, build_part
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.kinds import KINDS
from fedfleet.core.parts import Dataset
from fedfleet.core.passes import LocalPass
from fedfleet.core.trees import Tree, content_hash
from fedfleet.tasks.data_files import roots
from fedfleet.tasks.description.format import description_from_json
from fedfleet.tasks.model_code import code_name
from fedfleet.tasks.onnx_model import described_net, is_onnx
from fedfleet.tasks.table import source_of, table_recipe
from fedfleet.tasks.trusted_code import MOST_BYTES, keep_received, source_hash, trust, trusted_source
from fedfleet.tasks.user_data.fit import ColumnPlan, fit_samples

if TYPE_CHECKING:
    from fedfleet.app.assemble.setup import Setup

_CODE_KEYS = ("path", "content", "model", "code")


def is_table(task: Table) -> bool:
    """Is this the task of a person's own data?"""
    return task["use"] == "table"


# ---- on the server ------------------------------------------------------------------------------------------------


def table_entries(setup: Setup, *, local: bool) -> Table:
    """What a configuration says of such a task beside its numbers and words: "task", "model" and "reading".

    `local`: devices are on this machine, so they may read the file of the samples where the server does. Its hash travels too, so
    that a device reads no file whose content the server does not know already.
    """
    task, data = setup.spec.task, setup.task.dataset
    named = code_name(task["model"])
    place = Path(task["path"])
    # Devices of earlier versions know no `drop`.
    result: Table = {k: v for k, v in task.items() if k not in _CODE_KEYS and (k != "drop" or v is not None)}
    result |= {"path": str(place) if local else place.name, "content": task["content"], "model": "auto" if named else task["model"]}
    reading: Table = {
        "kind": data.kind.name,
        "labels": list(data.label_names),
        "columns": list(data.input_names),
        "scale": None if data.input_scale is None else [[float(v) for v in row] for row in data.input_scale],
        "target_scale": [list(pair) for pair in data.target_scale],
    }
    if is_onnx(task["model"]):
        return {"task": {**result, "model": "auto"}, "reading": reading, "model": _described_entry(setup)}
    return {"task": result, "reading": reading} | ({} if named is None else {"model": _model_entry(setup, named.name)})


def _described_entry(setup: Setup) -> Table:
    """A model that came as data travels as data, without its weights: the server sends those."""
    from fedfleet.tasks.description.tracer import describe_task

    local = setup.plan.algorithm.local(0, {})
    if isinstance(local, LocalPass) and local.down is not None and local.keep is not None:
        raise BadInput(
            f"{setup.plan.algorithm.name} keeps layers at home and sends models in a code, so that devices make their first "
            "weights, and those of an ONNX file are not made from a seed; leave one of the three out"
        )
    return {"description": describe_task(setup.task).to_json()}


def _model_entry(setup: Setup, name: str) -> Table:
    """The model as layers, where these make the same first weights; otherwise as source."""
    from fedfleet.tasks import layers
    from fedfleet.tasks.task import first_parameters

    described = layers.describe_model(setup.task.build())
    seed = setup.spec.training_seed
    if described is not None and _same(first_parameters(lambda: layers.build_from(described), seed), setup.task.init(seed)):
        return {"layers": described}
    source = trusted_source(setup.spec.task["code"])
    if source is None:
        raise BadInput(f"task.model: the code of {name} is no longer trusted here; trust it again with: fedfleet trust FILE.py")
    return {"source": source, "name": name}


def _same(first: Tree, second: Tree) -> bool:
    return content_hash(first) == content_hash(second)


# ---- on the device ------------------------------------------------------------------------------------------------


def found_data(path: str) -> Path:
    """Where the samples of a rehearsal are on this machine: at the server's place, here, or in a data folder. The hash in the
    configuration says whether it is them."""
    place = Path(path)
    places = [place, Path(place.name), *(root / place.name for root in roots())]
    found = next((one for one in places if one.exists()), None)
    if found is None:
        raise BadInput(
            f"this client trains on its part of the run's own data, and {place.name} is not on this machine; copy it here, or give "
            "samples of your own with --data"
        )
    return found


def device_recipe(config: Table, table: Table, trusted: str | None) -> Any:
    """The recipe of the task on a device; `trusted` is the hash of code that its owner trusts."""
    if not table["content"]:
        raise Refused("the server names a file of samples without its hash")
    model = config.get("model")
    if model is None:
        return build_part("tasks", table)
    if not isinstance(model, Mapping):
        raise Refused("the server sent a model in a form that this version cannot read")
    if "description" in model:
        from fedfleet.tasks.own_model import own_recipe

        described = description_from_json(str(model["description"]))
        zeros = {n: np.zeros(shape, kind) for n, (shape, kind) in described.leaves.items()}
        return own_recipe(
            table_recipe(source_of(table), described_net(described, zeros, "the model"), test=table["test"], scale=table["scale"])
        )
    if "layers" in model:
        from fedfleet.tasks import layers

        described = model["layers"]
        return table_recipe(
            source_of(table), lambda shape, outputs: layers.build_from(described), test=table["test"], scale=table["scale"]
        )
    source, name = str(model["source"]), str(model["name"])
    if len(source.encode()) > MOST_BYTES or not name.isidentifier():
        raise Refused("the server sent the code of a model in a form that this version does not take")
    digest = source_hash(source)
    if trusted == digest:
        trust(source)
    elif trusted_source(digest) is None:
        kept = keep_received(source)
        raise BadInput(
            f"this run trains a model of somebody's own code ({name}), which does not run here unless you trust it; read {kept}, "
            f"then start this device again with --trust-code {digest}"
        )
    return build_part("tasks", {**table, "model": f":{name}", "code": digest})


def own_samples(config: Table, table: Table, path: Path) -> Dataset:
    """A device's own samples, read and scaled as the server's: the same columns, the same numbers for the same labels."""
    reading, inputs = config["reading"], config["inputs"]
    scale = reading["scale"]
    plan = ColumnPlan(
        kind=KINDS[reading["kind"]],
        shape=tuple(inputs["shape"]),
        classes=inputs["classes"],
        columns=tuple(reading["columns"]),
        labels=tuple(reading["labels"]),
        label=table["label"],
        missing=table["missing"],
        context=table["context"],
        scale=None if scale is None else (np.array(scale[0], np.float64), np.array(scale[1], np.float64)),
        target_scale=tuple((float(mean), float(sd)) for mean, sd in reading["target_scale"]),
    )
    return fit_samples(path, plan)
