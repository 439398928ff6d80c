"""The two ways of saying no, and the hint with the nearest name."""

import pytest

from fedfleet.core.errors import BadInput, FedFleetError, RunFailed, nearest


def test_bad_input_and_failed_runs_have_their_own_exit_codes():
    assert (BadInput.exit_code, RunFailed.exit_code) == (2, 1)
    for kind in (BadInput, RunFailed):
        with pytest.raises(FedFleetError, match="why"):
            raise kind("why")


def test_the_nearest_name_is_offered_or_else_what_there_is():
    assert nearest("oorrt", ["uniform", "oort"]) == "; did you mean 'oort'?"
    assert nearest("zzz", ["b", "a"]) == "; there is a, b"
    assert nearest("zzz", []) == ""
