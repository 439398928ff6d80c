"""Whoever builds a spec again elsewhere must come to the same frozen weights."""

import pytest

from fedfleet.app.assemble import assemble, rebuild
from fedfleet.app.assemble.frozen_hashes import check_pin, pin_frozen_weights
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput

TASK = {"use": "digits_vit", "width": 8, "heads": 2, "depth": 1, "backbone": ""}
SPEC = {"task": TASK, "algorithm": "biasprompt", "world": {"clients": 8}, "pace": {"cohort": 3}}


def test_a_text_names_the_weights_that_it_is_meant_with():
    setup = assemble(resolve(SPEC))
    text = pin_frozen_weights(setup.spec.toml(), setup.task)
    assert text.endswith(setup.spec.toml()) and text != setup.spec.toml()
    assert rebuild(text).spec.digest == setup.spec.digest
    with pytest.raises(BadInput, match="frozen weights here are not those of the run"):
        rebuild(text.replace("seed = 0", "seed = 1"))


def test_without_frozen_weights_there_is_nothing_to_name():
    setup = assemble(resolve({**SPEC, "algorithm": "fedavg"}))
    assert pin_frozen_weights("text", setup.task) == "text"
    check_pin("text", setup.task)
    with pytest.raises(BadInput, match="frozen weights"):
        check_pin("# frozen weights: 00ff\ntext", setup.task)
