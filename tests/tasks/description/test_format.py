"""Descriptions are checked before an engine sees them: whatever a server sends, a device refuses it or trains it."""

import json
import random

import numpy as np
import pytest

from fedfleet.core.errors import Refused
from fedfleet.core.registry import builder
from fedfleet.tasks.description.format import MOST_BYTES, check_leaves, description_from_json
from fedfleet.tasks.description.tracer import describe_task

TASK = builder("tasks", "digits_cnn")()(0)
TEXT = describe_task(TASK).to_json()


def test_equal_models_give_equal_bytes():
    assert describe_task(TASK).to_json() == TEXT == description_from_json(TEXT).to_json()


def changed(**keys):
    return json.dumps({**json.loads(TEXT), **keys})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "cannot be read"),
        (changed(version=2), "version 2"),
        (changed(output=99), "does not compute"),
        (changed(trained=["ghost"]), "leaves that it does not have"),
        (changed(operations=[{"name": "exec", "inputs": [0]}]), "'exec', which this version"),
        (changed(operations=[{"name": "relu", "inputs": [1]}]), "does not exist before it"),
        (changed(operations=[{"name": "relu", "inputs": ["ghost"]}]), "does not exist before it"),
        (changed(operations=[{"name": "relu", "inputs": []}]), "inputs or settings"),
        (changed(operations=[{"name": "relu", "inputs": [0], "settings": {"a": 1}}]), "inputs or settings"),
        (changed(sample={"shape": [1 << 50], "type": "<f4"}), "cannot be read"),
        (changed(constants={"a": {"shape": [2], "type": "O", "data": ""}}), "cannot be read"),
        ("x" * (MOST_BYTES + 1), "at most"),
    ],
)
def test_what_is_no_description_is_one_sentence(text, says):
    with pytest.raises(Refused, match=says):
        description_from_json(text)


def outcome(data):
    """Is it read or refused? Any other error passes."""
    try:
        description_from_json(data)
    except Refused:
        return "refused"
    return "read"


def test_garbled_descriptions_are_refused_or_read():
    rng, outcomes = random.Random(5), {"read": 0, "refused": 0}
    for _ in range(400):
        data = bytearray(TEXT.encode())
        for _ in range(rng.choice([1, 1, 3])):
            data[rng.randrange(len(data))] = rng.choice(b'0123456789-{}[]",:truefalsnN.e')
        outcomes[outcome(bytes(data))] += 1
    assert min(outcomes.values()) > 5


def test_weights_of_another_model_are_refused():
    description, params = description_from_json(TEXT), TASK.init(0)
    check_leaves(description, params)
    name = next(iter(params))
    for odd in (params[name].astype(np.float64), params[name][:1]):
        with pytest.raises(Refused, match="do not have the shape and the type"):
            check_leaves(description, {**params, name: odd})
    with pytest.raises(Refused, match=name):
        check_leaves(description, {n: v for n, v in params.items() if n != name})
