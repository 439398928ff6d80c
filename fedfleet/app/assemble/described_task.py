"""A client's configuration for devices without PyTorch: the model as a description, which their own engine trains.

The description is data: such a device runs no code of the run, whoever wrote the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfleet.app.spec.table_checks import Table
from fedfleet.core.edges import NestedPass
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.part_facts import ModelFacts
from fedfleet.core.parts import Algorithm, Dataset, Task
from fedfleet.core.passes import LocalPass
from fedfleet.core.trees import Tree
from fedfleet.executors.described_executor import torch_objective
from fedfleet.tasks.description.format import MOST_BYTES, ModelDescription, description_from_json

if TYPE_CHECKING:
    from fedfleet.app.assemble.setup import Setup

_CURE = "start this device with --engine torch"


# ---- on the server ------------------------------------------------------------------------------------------------


def description_entry(setup: Setup) -> Table:
    """The model for devices without PyTorch, or why they cannot train it: the entry "described" of a configuration."""
    try:
        check_passes(setup.plan.algorithm)
        if setup.task.loss is not None:
            raise BadInput("the task brings a loss of its own, written for PyTorch")
        from fedfleet.app.assemble.slice_entries import slice_entries
        from fedfleet.tasks.description.tracer import describe_task
        from fedfleet.tasks.model_parts import model_facts

        text, facts, slices = describe_task(setup.task).to_json(), model_facts(setup.task), slice_entries(setup)
        size = len(text) + len(json.dumps(slices))
        if size > MOST_BYTES // 8:
            raise BadInput(f"the description of the model has {size:,} bytes, more than a configuration holds")
    except BadInput as error:
        return {"refused": str(error)}
    return {"model": text, "name": setup.task.name, "head": facts.head, "norms": list(facts.norms), **slices}


def check_passes(algorithm: Algorithm) -> None:
    """Refuse a method whose clients' half only PyTorch can train, by the pass of its first client."""
    local = algorithm.local(0, {})
    if isinstance(local, NestedPass):
        # The devices behind edges train.
        check_passes(local.algorithm)
        return
    if not isinstance(local, LocalPass):
        raise BadInput(f"{algorithm.name} trains with code of its own")
    objective = torch_objective(algorithm)
    if objective is not None:
        raise BadInput(objective)
    if local.down is not None and local.keep is not None:
        raise BadInput(
            f"{algorithm.name} keeps layers at home and sends models in a code, so that only PyTorch makes their first weights"
        )


# ---- on the device ------------------------------------------------------------------------------------------------


def model_of_entry(entry: Any, engine: str) -> tuple[ModelDescription, ModelFacts]:
    """The description in a configuration and what builders may ask about it; `BadInput` if this run has none."""
    if not isinstance(entry, Mapping) or ("model" not in entry and "refused" not in entry):
        raise Refused(
            "the server does not describe its model, as versions before --engine did; install the same version on both sides"
        )
    if "refused" in entry:
        raise BadInput(f"--engine {engine} cannot train this run: {str(entry['refused'])[:500]}; {_CURE}")
    facts = ModelFacts(str(entry["head"]), tuple(str(n) for n in entry["norms"]))
    return description_from_json(str(entry["model"])), facts


def described_task(description: ModelDescription, name: str, dataset: Dataset, frozen: Tree) -> Task:
    """A task on these samples whose model is only described. Its first weights are zeros: every model comes from the server."""
    if tuple(dataset.x.shape[1:]) != description.sample_shape:
        raise BadInput(
            f"the samples of this device have the shape {dataset.x.shape[1:]}, and the model takes {description.sample_shape}"
        )
    return Task(
        name, dataset, np.zeros(0, np.int64), partial(_no_module, name), partial(_zeros, description, frozen), frozen=frozen
    )


def without_adapting(algorithm: Algorithm) -> Algorithm:
    """The algorithm for a model that was described after the server had adapted it."""
    return replace(algorithm, adapt=None)


def _no_module(name: str) -> Any:
    raise BadInput(
        f"the method of this run builds the model of {name} with PyTorch, which the engine of this device does not have; {_CURE}"
    )


def _zeros(description: ModelDescription, frozen: Tree, seed: int) -> Tree:
    del seed
    return {n: np.zeros(shape, kind) for n, (shape, kind) in description.leaves.items() if n not in frozen}
