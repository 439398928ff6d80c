"""A setup's executor is closed when it is no longer used."""

from dataclasses import replace

import pytest

from fedfleet.app.assemble import assemble, metric_warnings, open_executor, rebuild
from fedfleet.app.assemble.setup import check_pin, pin_frozen_weights
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput


def test_what_an_executor_started_ends_with_its_use():
    setup, ended = assemble(resolve({"task": "digits_logreg"})), []
    closing = replace(setup, executor=lambda keep: replace(setup.executor(keep), close=lambda: ended.append(keep)))
    with open_executor(closing, "here"):
        assert ended == []
    assert ended == ["here"]
    with pytest.raises(RuntimeError), open_executor(closing, "there"):
        raise RuntimeError
    assert ended == ["here", "there"], "also when something fails"


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [
        ("fedrep", "2 of the 4 arrays of weights (3.weight, 3.bias) stay on the clients"),
        ("local_only", "4 of the 4 arrays of weights (1.weight, 1.bias, 3.weight, ..) stay on the clients"),
        ({"use": "fedprox", "keep": "1.bias"}, "1 of the 4 arrays of weights (1.bias) stay on the clients"),
        ("fedavg", None),
        ("ditto", None),
        ("fedbabu", None),  # its body is trained for the head that the server has
        ("centralized", None),
    ],
)
def test_whoever_reads_an_accuracy_that_nobody_has_is_told(algorithm, says):
    result = metric_warnings(assemble(resolve({"task": "digits_mlp", "algorithm": algorithm})))
    assert (result == []) if says is None else (says in result[0] and "read accuracy_clients" in result[0])


TASK = {"use": "digits_vit", "width": 8, "heads": 2, "depth": 1, "backbone": ""}
SPEC = {"task": TASK, "algorithm": "biasprompt", "world": {"clients": 8}, "pace": {"cohort": 3}}


def test_a_text_names_the_weights_that_it_is_meant_with():
    setup = assemble(resolve(SPEC))
    text = pin_frozen_weights(setup.spec.toml(), setup.task)
    assert text.endswith(setup.spec.toml()) and text != setup.spec.toml()
    assert rebuild(text).spec.digest == setup.spec.digest
    with pytest.raises(BadInput, match="frozen weights on this machine differ"):
        rebuild(text.replace("seed = 0", "seed = 1"))


def test_without_frozen_weights_there_is_nothing_to_name():
    setup = assemble(resolve({**SPEC, "algorithm": "fedavg"}))
    assert pin_frozen_weights("text", setup.task) == "text"
    check_pin("text", setup.task)
    with pytest.raises(BadInput, match="frozen weights"):
        check_pin("# frozen weights: 00ff\ntext", setup.task)
