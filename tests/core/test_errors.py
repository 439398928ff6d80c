"""Errors of parts are told once, with the part's name."""

import pytest

from fedfleet.core.errors import BadInput, RunFailed, blaming, part_failed


def test_an_error_inside_a_part_names_it_and_keeps_its_cause():
    with (
        pytest.raises(RunFailed, match=r"^selector 'mine' failed: ValueError: too few$") as told,
        blaming("selector 'mine'"),
    ):
        raise ValueError("too few")
    assert isinstance(told.value.__cause__, ValueError)


def test_our_own_errors_pass_as_they_are():
    with pytest.raises(BadInput, match=r"^cohort: too small$"), blaming("selector 'mine'"):
        raise BadInput("cohort: too small")
    assert str(part_failed("policy 'mine'", KeyError("loss"))) == "policy 'mine' failed: KeyError: 'loss'"


def test_an_interrupt_is_nobodys_fault():
    with pytest.raises(KeyboardInterrupt), blaming("selector 'mine'"):
        raise KeyboardInterrupt
