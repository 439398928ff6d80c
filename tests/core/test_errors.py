"""The two ways of saying no, and the hint with the nearest name."""

import pytest

from fedfleet.core.errors import BadInput, FedFleetError, RunFailed, error_context, part_error, suggest_name


def test_bad_input_and_failed_runs_have_their_own_exit_codes():
    assert (BadInput.exit_code, RunFailed.exit_code) == (2, 1)
    for kind in (BadInput, RunFailed):
        with pytest.raises(FedFleetError, match="why"):
            raise kind("why")


def test_the_nearest_name_is_offered_or_else_what_there_is():
    assert suggest_name("oorrt", ["uniform", "oort"]) == "; did you mean 'oort'?"
    assert suggest_name("zzz", ["b", "a"]) == "; known: a, b"
    assert suggest_name("zzz", []) == ""


def test_an_error_inside_a_part_names_it_and_keeps_its_cause():
    with (
        pytest.raises(RunFailed, match=r"^selector 'mine' failed: ValueError: too few$") as told,
        error_context("selector 'mine'"),
    ):
        raise ValueError("too few")
    assert isinstance(told.value.__cause__, ValueError)


def test_our_own_errors_pass_as_they_are():
    with pytest.raises(BadInput, match=r"^cohort: too small$"), error_context("selector 'mine'"):
        raise BadInput("cohort: too small")
    assert str(part_error("policy 'mine'", KeyError("loss"))) == "policy 'mine' failed: KeyError: 'loss'"


def test_an_interrupt_is_nobodys_fault():
    with pytest.raises(KeyboardInterrupt), error_context("selector 'mine'"):
        raise KeyboardInterrupt
