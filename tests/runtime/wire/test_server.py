"""The runtime of a real fleet: toy fleets end as their simulation does, what cannot be served is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.network import serve_run
from fedfleet.app.runs.replay import replay_run
from fedfleet.app.spec import load_spec
from fedfleet.core.commands import Account, Probe, Send
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import CandidatesSeen, Event, ModelCommitted, TaskArrived, TasksDropped, TasksSpent
from fedfleet.core.parts import Offer, Policy, Selector
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.records import (
    NOTHING,
    Assignments,
    Book,
    Cost,
    Decision,
    Report,
    ServerState,
    Stop,
    Wave,
    whole_work,
)
from fedfleet.core.trees import content_hash, tree_nbytes
from fedfleet.engine.coordinator import begin
from fedfleet.engine.state import Ending
from fedfleet.learn.optimisers import sgd
from fedfleet.measure.attribution.walking import attribution
from fedfleet.pace.overcommit import overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.runtime import journal as journals
from fedfleet.runtime.audit import follow_served
from fedfleet.runtime.journal import read
from fedfleet.runtime.wire import device
from fedfleet.runtime.wire.desk import TaskDesk
from fedfleet.runtime.wire.framing import offer_from_bytes
from fedfleet.runtime.wire.server import (
    Serving,
    check_servable,
    errands,
    forget_wasted,
    heaviest_report,
    largest_message,
    next_fact,
    serve,
)
from fedfleet.testing.toys import consensus, opaque_executor
from tests.runtime.test_audit import numbered
from tests.runtime.wire import fleet as processes
from tests.runtime.wire.fleet import READINESS, fleet, wait_for
from tests.runtime.wire.toys import LOOPBACK, errand, ready_desk, served
from tests.worlds import commits_at, even_fleet, events_of, only, toy_plan, world_of

CLIENTS = range(3)

# ---- whole runs ---------------------------------------------------------------------------------------------------


def test_simulation_and_wire_end_with_the_same_bytes(tmp_path: Path) -> None:
    with fleet(tmp_path, pace=READINESS, rounds=3, task="digits_mlp") as ours:
        ours.serve()
        for client in CLIENTS:
            ours.start_device(client)
        simulated = perform(load_spec(ours.spec), tmp_path / "simulated")
        served = ours.answer("server", ours.server, 60)
        done = [ours.answer(f"device{c}", ours.devices[c], 20) for c in CLIENTS]
    assert (ours.out / "model.safetensors").read_bytes() == (tmp_path / "simulated/model.safetensors").read_bytes()
    assert done == [{"client": c, "tasks": 3} for c in CLIENTS]
    assert served.keys() == simulated.answer().keys()
    same = ("rounds", "commits", "accuracy", "accuracy_clients", "bytes_up", "bytes_down")
    assert [served[k] for k in same] == [simulated.metrics[k] for k in same]
    hashes = [
        [e.model_hash for e in only(ModelCommitted, events)] for events in (simulated.events, read(ours.out / "run.db"))
    ]
    assert hashes[0] == hashes[1]
    replayed = replay_run(ours.out)
    assert (replayed["ok"], replayed["kind"]) == (True, "served")
    assert {"models", "model.safetensors"} <= set(replayed["verified"])
    assert replayed["digest"] == served["digest"]


def test_a_killed_device_does_not_stop_the_run(tmp_path: Path) -> None:
    with fleet(tmp_path, pace=processes.deadline(1.0), rounds=5, clients=2) as ours:
        ours.serve()
        ours.start_device(0)
        ours.start_device(1)
        wait_for(lambda: only(ModelCommitted, events_in(ours.out)), 60, "first commit")
        ours.devices[1].kill()
        served = ours.answer("server", ours.server, 60)
        done = ours.answer("device0", ours.devices[0], 20)
    assert (served["rounds"], served["commits"], done["tasks"]) == (5, 5, 5)
    assert {c for e in only(TasksDropped, events_in(ours.out)) for c in e.clients.tolist()} <= {1}
    assert 1 <= sum(e.client == 1 for e in only(TaskArrived, events_in(ours.out))) < 5
    assert replay_run(ours.out)["ok"]


def events_in(folder: Path) -> list[Event]:
    return list(read(folder / "run.db")) if (folder / "run.db").is_file() else []


@pytest.mark.parametrize("seed", range(3))
def test_a_toy_fleet_ends_as_its_simulation_does(tmp_path: Path, seed: int) -> None:
    plan, world = toy_plan(readiness(5, t_break=0.01), 5, seed=seed), world_of(even_fleet(5))
    done, tasks, events = served(plan, world, tmp_path)
    assert tasks == [4] * 5
    assert content_hash(done.server.params) == content_hash(events_of(plan, world)[1].state.server.params)
    found = follow_served(plan, world, opaque_executor(), numbered(events), tmp_path)
    assert "models" in found.verified and "arrivals" in found.believed
    assert content_hash(found.params) == content_hash(done.server.params)


@pytest.mark.parametrize(
    "pace",
    [
        deadline(4, seconds=0.02, t_break=0.01, min_clients=1),
        overcommit(readiness(3, t_break=0.01), factor=2.0),
        deadline(4, seconds=0.02, t_break=0.01, min_clients=3, if_few="wait"),
        commits_at(3, 1, t_break=0.005),  # leaves tasks running, so that reports arrive while others are gathered
    ],
    ids=lambda p: p.name,
)
def test_whatever_the_order_of_events_the_journal_replays(tmp_path: Path, pace) -> None:
    plan, world = toy_plan(pace, 8, stop=Stop(rounds=25)), world_of(even_fleet(8))
    done, _, events = served(plan, world, tmp_path)
    times = [e.time for e in events]
    assert times == sorted(times)
    found = follow_served(plan, world, opaque_executor(), numbered(events), tmp_path)
    assert content_hash(found.params) == content_hash(done.server.params)
    assert found.commits == done.book.version


def test_an_error_of_the_coordinator_stops_the_server_and_surfaces(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(device, "PATIENCE_SECONDS", 0.5)
    stranger = Selector("stranger", lambda state, roster, n, draw: whole_work(np.full(n, 99, np.int64)))
    plan, world = toy_plan(readiness(2, t_break=0.01), 2, choose=stranger), world_of(even_fleet(2))
    with pytest.raises(RunFailed, match="'stranger' picked"):
        served(plan, world, tmp_path)


def test_the_horizon_ends_a_run_whose_devices_stay_away(tmp_path: Path) -> None:
    plan, world = toy_plan(readiness(2, t_break=0.05), 2, stop=Stop(virtual_seconds=0.4)), world_of(even_fleet(2))
    seen: list[Event] = []
    journal = journals.in_memory()
    serve(plan, world, opaque_executor(), TaskDesk(2), devices=0, journal=journal, folder=tmp_path, watch=seen.extend)
    assert not only(CandidatesSeen, seen)
    assert seen[-1].reason == "virtual_seconds"  # type: ignore[union-attr]


def waits_for_others(least: int) -> Policy:
    """Ask one client, then at least so many others."""

    def decide(book: Book) -> Decision:
        if book.wanted == 0:
            return Decision(ask=1)
        if book.asks == 1 and not book.asking and not book.running and book.arrived:
            return Decision(ask=1, at_least=least, others=True)
        return Decision(commit=True) if book.asks == 2 and not book.running else NOTHING

    return Policy("waits", decide, 1)


@pytest.mark.parametrize(("least", "ends"), [(2, "rounds"), (3, "virtual_seconds")])
def test_as_many_as_are_wanted_must_be_there_besides_those_left_out(tmp_path: Path, least: int, ends: str) -> None:
    # Of three devices one has been asked: two others can come, and never three.
    plan = toy_plan(waits_for_others(least), 3, stop=Stop(rounds=1, virtual_seconds=1.5))
    _, _, events = served(plan, world_of(even_fleet(3)), tmp_path)
    assert events[-1].reason == ends  # type: ignore[union-attr]
    assert [len(e.roster.clients) for e in only(CandidatesSeen, events)][1:] == ([2] if least == 2 else [])


# ---- what cannot be served ----------------------------------------------------------------------------------------


def refused(spec: Path, out: Path, *words: str, address: str = LOOPBACK, devices: int | None = None) -> str:
    with pytest.raises(BadInput) as wrong:
        serve_run(spec, list(words), out, address, devices)
    return str(wrong.value)


def test_what_cannot_be_served_is_bad_input(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "HOST:PORT" in refused(spec, out, address="nowhere")
    assert "remember" in refused(spec, out, "algorithm.use=local_only")
    assert "4 devices" in refused(spec, out, devices=4)
    assert "0 devices" in refused(spec, out, devices=0)
    assert "seed" in refused(spec, out, f"seed={1 << 64}")  # what travels has 64 bits
    assert not out.exists()
    out.mkdir()
    (out / "something").touch()
    assert "exists" in refused(spec, out)


def test_a_selector_that_probes_cannot_be_served() -> None:
    plan = toy_plan(readiness(2), 2)
    curious = replace(plan.choose, probe=lambda state, roster, n, draw: (roster.clients, "loss"))
    with pytest.raises(BadInput, match="probes"):
        check_servable(replace(plan, choose=curious), 2)
    with pytest.raises(BadInput, match="remember"):
        check_servable(replace(plan, algorithm=consensus(remembers=True)), 2)


def test_a_selector_that_must_foresee_seconds_cannot_be_served() -> None:
    plan = toy_plan(readiness(2), 2)
    for name in ("compute_seconds", "transfer_seconds"):
        with pytest.raises(BadInput, match=f"{name} of clients, which nobody can foresee"):
            check_servable(replace(plan, choose=replace(plan.choose, sees=(name,))), 2)
    check_servable(replace(plan, choose=replace(plan.choose, sees=("steps", "user"))), 2)


# ---- the pieces ---------------------------------------------------------------------------------------------------


def wave_of(*clients: int, share: float = 1.0, steps: int = 0, settings: dict[str, np.ndarray] | None = None) -> Wave:
    n = len(clients)
    asked = Assignments(np.array(clients), np.full(n, steps), np.full(n, share), settings or {})
    nothing = Cost(np.zeros(n), np.zeros(n), np.zeros(n))
    model = ServerState({"w": np.arange(4, dtype=np.float32)})
    return Wave(40, 2, 1, 9.0, asked, np.arange(n, dtype=np.uint64), nothing, model)


def serving(plan, world, *, desk: TaskDesk | None = None, folder: Path | None = None) -> Serving:
    return Serving(plan, world, opaque_executor(), desk or TaskDesk(plan.clients), folder or Path(), begin(plan).state)


PLAN, WORLD = toy_plan(readiness(3), 5), world_of(even_fleet(5))


def test_a_wave_becomes_errands_with_all_that_a_device_must_know() -> None:
    found = errands(PLAN, WORLD, wave_of(4, 1, share=0.5, steps=3))
    assert [(e.task, e.client, e.round, e.steps, e.share, e.seed, e.sent_at) for e in found] == [
        (40, 4, 2, 3, 0.5, PLAN.seed, 9.0),
        (41, 1, 2, 3, 0.5, PLAN.seed, 9.0),
    ]
    assert offer_from_bytes(found[0].tensors).params["w"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_model_that_many_are_offered_is_encoded_once() -> None:
    found = errands(PLAN, WORLD, wave_of(0, 1, 2))
    assert len({id(e.tensors) for e in found}) == 1


def test_what_is_offered_to_one_client_alone_reaches_that_client() -> None:
    def offer(server: ServerState, client: int, settings: object) -> Offer:
        return Offer(server.params, {"code": np.full(2, float(client))})

    own = replace(PLAN, algorithm=replace(PLAN.algorithm, offer=offer))
    found = errands(own, WORLD, wave_of(3, 0, 4))
    assert [offer_from_bytes(e.tensors).extra["code"].tolist() for e in found] == [[3.0] * 2, [0.0] * 2, [4.0] * 2]


def test_a_report_weighs_no_more_than_its_samples() -> None:
    local = LocalPass(sgd(), BatchPlan())
    assert heaviest_report(local, 7) == 7.0
    assert heaviest_report(replace(local, weigh="one"), 7) == 1.0
    assert heaviest_report(consensus().local(0, {}), 7) == math.inf
    trained = replace(PLAN, algorithm=replace(PLAN.algorithm, local=lambda client, settings: local))
    sizes = WORLD.data.sizes(2)
    assert [e.heaviest for e in errands(trained, WORLD, wave_of(0, 1, share=0.25))] == [
        math.ceil(0.25 * sizes[c]) for c in (0, 1)
    ]


def test_the_largest_message_has_room_for_any_honest_report() -> None:
    assert largest_message(PLAN) > 2 * tree_nbytes(PLAN.params)


def test_settings_and_probes_do_not_travel_yet() -> None:
    run = serving(PLAN, WORLD)
    with pytest.raises(RunFailed, match="settings of their own, which do not travel yet"):
        run.send(Send(wave_of(0, settings={"rate": np.ones(1)})))
    with pytest.raises(RunFailed, match="probes clients for loss"):
        run.probe(Probe(np.arange(2), "loss", run.state.server))


def test_what_ended_after_it_was_given_up_is_no_fact() -> None:
    desk = ready_desk(5)
    run = serving(PLAN, WORLD, desk=desk)
    run.state = run.state._replace(running=run.state.running.set(41, wave_of(4, 1)))
    desk.arrived(errand(40, 4), Report(40, 4, {}, 1.0, {}), 8.0)  # given up before it came
    desk.lost(errand(39, 2), "garbled")
    desk.arrived(errand(41, 1), Report(41, 1, {}, 1.0, {}), 8.0)
    fact = next_fact(run)
    assert isinstance(fact, TaskArrived)
    assert fact.task == 41
    assert list(run.held) == [41]


def test_what_devices_said_of_their_work_is_told_and_the_rest_nobody_knows() -> None:
    desk = ready_desk(5)
    run = serving(PLAN, WORLD, desk=desk)
    wave = replace(wave_of(4, 1, 2), cost=Cost(np.zeros(3), np.full(3, 100.0), np.full(3, 50.0)))
    run.state = run.state._replace(running=run.state.running.update(dict.fromkeys((40, 41), wave)))
    for task, client, claimed in ((40, 4, 3.0), (41, 1, 1e6)):
        desk.arrived(errand(task, client), Report(task, client, {}, 1.0, {}, spent={"compute": claimed}), 8.0)
        next_fact(run)
    run.account(Account((40, 41, 42), (wave, wave, wave), (5.0, 5.0, 5.0)))
    fact, _ = desk.next_fact(None, (), None)
    assert isinstance(fact, TasksSpent) and run.said == {}
    assert (fact.tasks.tolist(), fact.clients.tolist()) == ([40, 41, 42], [4, 1, 2])
    nobody = [np.nan] * 3
    for name, values in {
        "compute": [3.0, np.nan, np.nan],  # who claims more than passed is not believed
        "download": nobody,
        "upload": nobody,
        "bytes_up": [8.0, 8.0, np.nan],
        "bytes_down": [100.0, 100.0, np.nan],
    }.items():
        np.testing.assert_array_equal(fact.spent[name], values, err_msg=name)


def test_the_time_of_a_served_run_is_explained_and_what_nobody_measured_is_unknown(tmp_path: Path) -> None:
    plan = toy_plan(readiness(3, t_break=0.05), 3, stop=Stop(rounds=4))
    _, _, events = served(plan, world_of(even_fleet(3)), tmp_path)
    found = attribution(events)
    assert abs(math.fsum(found.causes.values()) - events[-1].time) < 1e-6
    assert all(min(r.causes.values()) > 0 for r in found.rounds)
    assert found.causes["pause"] >= 4 * 0.04  # the first model is tried while the first pause begins
    for cause in ("download", "compute", "unknown", "server"):
        assert found.causes[cause] > 0, cause
    assert found.causes["upload"] == 0 and found.ended
    assert set(found.who["unknown"]) <= {0, 1, 2}


def test_reports_of_a_failed_round_are_not_held_for_ever() -> None:
    run = serving(PLAN, WORLD)
    run.held = {task: Report(task, 0, {}, 1.0, {}) for task in (40, 41, 42)}
    run.state = run.state._replace(ended=Ending(None, 41, wave_of(4, 1), 1.0, 0))
    forget_wasted(run)
    assert list(run.held) == [41]
