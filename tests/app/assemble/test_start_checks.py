"""Refusals of clients' hooks come before the run."""

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput

SPEC = {"task": "digits_mlp", "world": {"clients": 20}, "pace": {"cohort": 4}}


@pytest.mark.parametrize("around", [{"feedback": True, "up": ["int4"]}, {"keep": "3.*"}])
def test_slices_of_changing_width_cannot_be_remembered(around):
    with pytest.raises(
        BadInput, match="clients with slices of the model cannot keep leaves or models of their own at home"
    ):
        assemble(resolve({**SPEC, "algorithm": {"use": "fjord", **around}}))


def test_slices_that_stay_as_they_are_can():
    assert (
        assemble(resolve({**SPEC, "algorithm": {"use": "heterofl", "feedback": True, "up": ["int4"]}})).plan.clients
        == 20
    )
