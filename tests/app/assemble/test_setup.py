"""A setup's executor is closed when it is no longer used."""

from dataclasses import replace

import pytest

from fedfleet.app.assemble import assemble, metric_warnings, open_executor
from fedfleet.app.spec import resolve


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
