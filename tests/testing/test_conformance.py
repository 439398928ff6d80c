"""What checks give back: sentences, and a digest that follows from the answers alone, in every process."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Selector
from fedfleet.core.records import ServerState, whole_work
from fedfleet.core.rng import hash_keys
from fedfleet.testing import check_across_processes, check_selector
from fedfleet.testing.conformance import fingerprint


def lottery():
    def pick(state, roster, n, draw):
        return whole_work(roster.clients[np.argsort(hash_keys(draw.seed, "toy", roster.keys, draw.round, draw.first))[:n]])

    return Selector("lottery", pick)


def by_text_hash():
    """Texts have another hash() in every process."""

    def pick(state, roster, n, draw):
        luck = np.array([hash(f"{key} {draw.round}") for key in roster.keys.tolist()], np.int64)
        return whole_work(roster.clients[np.argsort(luck)[:n]])

    return Selector("by text hash", pick)


def check_lottery():
    return check_selector(lottery(), rounds=3, quiet=True)


def check_text_hash():
    return check_selector(by_text_hash(), quiet=True)


def test_a_check_prints_what_it_checked_and_is_quiet_when_asked(capsys):
    result = check_selector(lottery(), rounds=3)
    printed = capsys.readouterr().out
    assert "'lottery' passed" in printed and all(sentence in printed for sentence in result.checked)
    again = check_selector(lottery(), rounds=3, quiet=True)
    assert capsys.readouterr().out == "" and again == result


def test_a_digest_sees_types_shapes_and_the_place_of_values():
    values = [
        {"a": np.zeros(2)}, {"a": np.zeros(2, np.float32)}, {"a": np.zeros((2, 1))}, {"b": np.zeros(2)}, [np.zeros(2)],
        ServerState({"a": np.zeros(2)}), ServerState({}, {"a": np.zeros(2)}), 0.0, 0, None, "0",
    ]  # fmt: skip
    assert len({fingerprint(value) for value in values}) == len(values)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


@pytest.mark.slow
def test_what_answers_alike_in_every_process_passes():
    assert "text hashes" in check_across_processes(check_lottery, quiet=True).checked[0]


@pytest.mark.slow
def test_what_goes_by_the_hash_of_a_text_is_caught():
    check_text_hash()  # one process alone cannot tell
    with pytest.raises(AssertionError, match="PYTHONHASHSEED"):
        check_across_processes(check_text_hash)


def test_a_check_that_no_other_process_can_find_is_refused():
    with pytest.raises(BadInput, match="top level"):
        check_across_processes(lambda: check_lottery())
