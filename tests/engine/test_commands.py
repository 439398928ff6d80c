"""Every command reaches the one thing that carries it out."""

import numpy as np
import pytest

from fedfleet.core.commands import Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.records import ServerState
from fedfleet.engine.commands import carry_out

NONE, SERVER = np.zeros(0, np.int64), ServerState({})
COMMANDS = {
    "find": FindCandidates(3),
    "probe": Probe(NONE, "loss", SERVER),
    "send": Send(None),
    "wake": WakeAt(1.0),
    "gather": Gather((), (), (), SERVER),
    "forget": Forget(NONE, NONE),
    "evaluate": Evaluate(0, SERVER, False),
    "finish": Finish("rounds"),
}


class Noting:
    """An actor that notes what it was asked to do."""

    def __init__(self):
        self.done = []

    def __getattr__(self, name):
        return lambda command: self.done.append((name, command))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_carried_out(name):
    actor = Noting()
    carry_out(actor, COMMANDS[name])
    assert [(n, c is COMMANDS[name]) for n, c in actor.done] == [(name, True)]


def test_what_is_no_command_is_refused():
    with pytest.raises(AssertionError):
        carry_out(Noting(), "finish")
