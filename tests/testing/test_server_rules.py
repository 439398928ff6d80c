"""The server's half: what it remembers, across checkpoints, and what it may not lean on."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.aggregation import Aggregate, Mean
from fedfleet.core.errors import RunFailed
from fedfleet.core.records import ServerState
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.server_optimisers import with_momentum, with_rule, with_yogi
from fedfleet.testing.conformance import CheckLog
from fedfleet.testing.server_rules import check_server

CHANGE = {"w": np.linspace(-0.1, 0.1, 12, dtype=np.float32).reshape(4, 3)}
AGGREGATE = Aggregate(CHANGE, 3.0, 3, {"": Mean(CHANGE, 3.0, 3)})
SERVER = ServerState({"w": np.ones((4, 3), np.float32)})


def test_rules_that_remember_in_the_state_pass_and_the_next_state_comes_back():
    for algorithm in (fedavg(), with_momentum(fedavg()), with_yogi(fedavg())):
        log = CheckLog("toy")
        after = check_server(algorithm, SERVER, AGGREGATE, log)
        assert after.params["w"].shape == (4, 3) and not np.array_equal(after.params["w"], SERVER.params["w"])
        assert len(log.sentences) == 3


@pytest.mark.parametrize("shape", [(), (1,), (4, 1), (1, 3), (1, 4, 3)])
def test_a_step_that_would_be_broadcast_is_refused_where_it_is_added(shape):
    rule = with_rule(fedavg(), lambda server, mean: ({}, {"w": np.zeros(shape, np.float32)}))
    with pytest.raises(RunFailed, match="one number for each element"):
        rule.apply(SERVER, AGGREGATE)


def test_a_step_for_a_name_that_is_not_there_is_refused():
    rule = with_rule(fedavg(), lambda server, mean: ({}, {"v": mean["w"]}))
    with pytest.raises(RunFailed, match="no such name"):
        rule.apply(SERVER, AGGREGATE)


def test_a_tick_by_chance_is_caught():
    def tick(server):
        return replace(server, extra={"count": np.random.random(1)})

    with pytest.raises(AssertionError, match="tick"):
        check_server(replace(fedavg(), tick=tick), SERVER, AGGREGATE, CheckLog("toy"))
