"""What every runtime does alike: decode, check and fold; judge clients by the model that each would use."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core.commands import Evaluate
from fedfleet.core.errors import Refused
from fedfleet.core.events import ModelCommitted, ReportRejected, ReportsGathered
from fedfleet.core.noise import Noise, add_noise, seeded_key
from fedfleet.core.parts import Offer, Plan
from fedfleet.core.records import Context, Report, ServerState, Stop
from fedfleet.executors.gather import admit, evaluate, fold_in_order
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.baselines import own_leaves
from fedfleet.learn.composition import with_pass
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.folds import mean
from fedfleet.learn.zoo import local_only
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import drive, new_simulation
from fedfleet.store.noise_source import NoiseSource
from fedfleet.testing.toys import consensus
from tests.simulation.small import TASK, small_run, small_world
from tests.worlds import even_fleet, events_of, only, toy_plan, world_of


def halved(algorithm):
    """A codec of the simplest kind: updates travel in half precision, at half the bytes."""

    def narrow(passed):
        return replace(passed, update={n: v.half() if v.is_floating_point() else v for n, v in passed.update.items()})

    def accept(server, report, context):
        if any(v.dtype != np.float16 for v in report.update.values()):
            raise Refused("it is not in half precision")
        return replace(report, update={n: v.astype(np.float32) for n, v in report.update.items()})

    return replace(with_pass(algorithm, "", lambda p: replace(p, after=(*p.after, narrow))), accept=accept)


@pytest.mark.parametrize("make", [inline, stacked_executor], ids=["inline", "stacked"])
def test_what_clients_encode_the_server_decodes(make):
    plain, coded = (small_run(algorithm, make(TASK)) for algorithm in (fedavg(lr=0.5), halved(fedavg(lr=0.5))))
    a, b = plain.state.server.params, coded.state.server.params
    assert all(np.allclose(a[n], b[n], atol=2e-3) for n in a)
    assert any(not np.array_equal(a[n], b[n]) for n in a), "half precision leaves its mark"


def test_a_report_that_cannot_be_decoded_is_refused_and_the_run_goes_on():
    algorithm = halved(fedavg())
    server, fold = ServerState({"w": np.zeros(2, np.float32)}), algorithm.fold
    good = Report(1, 1, {"w": np.ones(2, np.float16)}, 1.0, {})
    odd = replace(good, task=2, client=2, update={"w": np.ones(2, np.float32)})
    mad = replace(good, task=3, client=3, update={"w": [1.0, 2.0]})
    done = fold_in_order(fold, server, [good, odd, mad], [Context(0, 1.0, 0)] * 3, algorithm.accept)
    assert done.tasks.tolist() == [1]
    assert done.rejected[0].reason == "client 2: it is not in half precision"
    assert "client 3: it cannot be decoded (AttributeError" in done.rejected[1].reason


def test_one_report_can_be_admitted_alone():
    from fedfleet.core import aggregation

    fold, server = mean(), ServerState({"w": np.zeros(2, np.float32)})
    acc = aggregation.zero(fold, server)
    good = Report(1, 1, {"w": np.ones(2, np.float32)}, 1.0, {})
    assert admit(fold, server, acc, good, Context(0, 1.0, 1)) is None
    assert admit(fold, server, acc, replace(good, weight=-1.0), Context(0, 1.0, 1)).startswith("its weight -1.0")
    assert acc.count == 1


def test_too_much_weight_rejects_a_report_and_the_round_commits():
    toy = consensus()
    heavy = replace(toy, fold=replace(toy.fold, total_weight=2.0))
    plan = toy_plan(readiness(3), 3, algorithm=heavy, stop=Stop(rounds=2))
    events, _ = events_of(plan, world_of(even_fleet(3)))
    assert len(only(ModelCommitted, events)) == 2
    assert all("would exceed 2" in e.reason for e in only(ReportRejected, events))
    assert [len(e.tasks) for e in only(ReportsGathered, events)] == [2, 2]


@pytest.mark.parametrize("make", [inline, stacked_executor], ids=["inline", "stacked"])
def test_clients_may_tune_before_they_are_judged(make):
    base = fedavg(lr=0.3, epochs=1, batch=8)
    tuned = replace(base, tune=lambda client: fedavg(lr=0.5, epochs=5, batch=8).local(client, {}))
    execute = make(TASK)
    plain, other = (small_run(algorithm, execute) for algorithm in (base, tuned))
    world = small_world()
    scores = []
    for algorithm, end in ((base, plain), (tuned, other)):
        assert all(np.array_equal(end.state.server.params[n], v) for n, v in plain.state.server.params.items())
        plan = replace(end.plan, algorithm=algorithm)
        command = Evaluate(end.state.book.version, end.state.server, clients=True)
        result = evaluate(plan, world, execute, end.memory, command, 0.0)
        scores.append((result.correct, result.clients.correct.sum()))
    assert scores[0][0] == scores[1][0], "the central test is of the global model"
    assert scores[1][1] > scores[0][1], "each client's own data helps it"


def test_a_personal_model_is_judged_with_what_its_client_kept():
    end = small_run(local_only(lr=0.5), inline(TASK))
    clients = sorted(end.memory.current)
    assert clients
    mine = own_leaves(end.state.server.params, end.memory.slots_of(clients[0]))
    assert all(np.array_equal(mine[n], end.memory.slots_of(clients[0])["kept"][n]) for n in mine)


def test_an_offer_may_bring_more_than_the_model():
    seen = []
    base = fedavg()

    def offer(server, client, settings):
        return Offer(server.params, {"mark": np.full(1, client, np.float32)})

    def after(passed):
        seen.extend(passed.given["mark"].reshape(-1).tolist())
        return passed

    marked = replace(with_pass(base, "", lambda p: replace(p, after=(after,))), offer=offer)
    small_run(marked, stacked_executor(TASK), rounds=1, cohort=4)
    assert len(set(seen)) == 4


def test_too_few_reports_make_no_model_and_say_why():
    toy = consensus(remembers=True)
    needy = replace(toy, fold=replace(toy.fold, least=4))
    events, end = events_of(toy_plan(readiness(3), 3, algorithm=needy, stop=Stop(rounds=2)), world_of(even_fleet(3)))
    assert not only(ModelCommitted, events)
    reasons = {e.reason for e in only(ReportRejected, events)}
    assert "client 0: only 3 reports could be folded, and this fold needs 4" in reasons
    assert not end.memory.current, "a report that was not folded is not remembered"


@pytest.mark.parametrize("make", [inline, stacked_executor], ids=["inline", "stacked"])
def test_noise_is_in_the_sums_before_there_is_a_fact(make):
    """What a run gathers differs from the sums of its reports by exactly the noise of that commit; the key decides it."""
    fold = replace(mean(), denominator=4.0)
    plain, noised = fedavg(lr=0.5), replace(fedavg(lr=0.5), fold=replace(fold, noise=Noise(0.01)))
    bare = replace(plain, fold=fold)

    def first_sums(algorithm, key=None):
        plan = Plan(3, algorithm, uniform(), readiness(4), Stop(rounds=1), TASK.init(3), 8)
        end = new_simulation(plan, small_world(), make(TASK), noising=NoiseSource(key))
        result = []
        drive(end, lambda events: result.extend(e.aggregate for e in events if isinstance(e, ReportsGathered)))
        return result[0]

    without, seeded, secret = first_sums(bare), first_sums(noised), first_sums(noised, b"k" * 32)
    for key, got in ((seeded_key(3), seeded), (b"k" * 32, secret)):
        wanted = add_noise(Noise(0.01), first_sums(bare), key, 1)
        assert all(np.array_equal(got.sums[""].sums[n], v) for n, v in wanted.sums[""].sums.items())
    assert any(not np.array_equal(without.sums[""].sums[n], v) for n, v in seeded.sums[""].sums.items())
