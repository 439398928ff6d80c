"""Every registered algorithm passes its check; algorithms that break a rule do not."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet import testing
from fedfleet.core.records import Cost, Report, ServerState
from fedfleet.core.registry import names
from fedfleet.executors.inline import inline
from fedfleet.learn.zoo import fedavg
from fedfleet.testing.toys import consensus, consensus_start, opaque_executor
from tests.testing.models import TASKS
from tests.testing.registered import assembled

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", names("algorithms"))
def test_algorithms(name):
    setup = assembled(name)
    algorithm = replace(setup.plan.algorithm, pooled=False)
    testing.check_algorithm(algorithm, setup.task, inline(setup.task), quiet=True)


# ---- algorithms that break a rule ---------------------------------------------------------------------------------


def forgetful_pass():
    """A new function for each client, so that no two passes are ever equal."""
    plain = fedavg().local(0, {})
    return lambda client, settings: replace(plain, train=lambda name: True)


def writes_in_place(server, aggregate):
    for name, change in aggregate.mean.items():
        server.params[name][...] += change
    return server


def grows(server, aggregate):
    return ServerState({n: np.concatenate([v, v]) for n, v in server.params.items()})


def explodes(server, aggregate):
    return ServerState({n: v * np.float32("inf") for n, v in server.params.items()})


def costs(value):
    def cost(server, asked, samples):
        n = len(asked.clients)
        return Cost(np.full(n, value), np.zeros(n), np.zeros(n))

    return cost


BAD = {
    "costs nothing that is finite": (replace(fedavg(), cost=costs(np.inf)), "a cost must be finite"),
    "costs less than nothing": (replace(fedavg(), cost=costs(-1.0)), "a cost must be finite"),
    "gives a new pass each time": (replace(fedavg(), local=forgetful_pass()), "equal pass each time"),
    "has no client's half": (replace(fedavg(), local=lambda client, settings: None), "a pass or a function"),
    "changes the state it was given": (replace(fedavg(), apply=writes_in_place), "must not change the state"),
    "makes another model of it": (replace(fedavg(), apply=grows), None),
    "makes a model that is not finite": (replace(fedavg(), apply=explodes), "must be finite"),
    "refuses its own reports": (fedavg(lr=0.5, bound=1e-9), "its own fold refuses a healthy update"),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", BAD)
def test_an_algorithm_that_breaks_a_rule_is_caught(name):
    task = TASKS["dense"]()
    bad, why = BAD[name]
    with pytest.raises(AssertionError, match=why):
        testing.check_algorithm(bad, task, inline(task))


def test_an_executor_whose_clients_depend_on_each_other_is_caught():
    task = TASKS["dense"]()
    honest, seen = inline(task), []

    def train(jobs):
        for report in honest.train(jobs):
            seen.append(report.task)
            yield replace(report, update={n: v + np.float32(len(seen)) for n, v in report.update.items()})

    with pytest.raises(AssertionError, match="must not depend on who trains before it"):
        testing.check_algorithm(fedavg(), task, replace(honest, train=train))


def test_training_that_writes_into_the_offer_is_caught():
    task = replace(TASKS["dense"](), init=lambda seed: consensus_start())

    def writing(job, dataset):
        job.offer.params["w"] += 1
        return Report(job.task, job.client, {"w": np.zeros(4, np.float32)}, 1.0, {})

    with pytest.raises(AssertionError, match="must not change the model that was offered"):
        testing.check_algorithm(replace(consensus(), local=lambda client, settings: writing), task, opaque_executor())


def test_an_opaque_algorithm_passes_too():
    task = replace(TASKS["dense"](), init=lambda seed: consensus_start())
    testing.check_algorithm(consensus(), task, opaque_executor())
    testing.check_algorithm(consensus(remembers=True), task, opaque_executor())
