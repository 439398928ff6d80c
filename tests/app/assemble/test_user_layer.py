"""Users and edges from a spec to worlds: nothing is lost on the way, time is charged, and runs obey their laws."""

import json
import tomllib

import numpy as np
import pytest

from fedfleet.app.api.run import run
from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core.events import ReportsGathered, TaskArrived, TasksSpent
from fedfleet.core.records import Cost
from fedfleet.core.stages import STAGES, total
from fedfleet.core.trees import content_hash
from fedfleet.engine.hierarchy import device_stages
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.simulation.simulator import simulate
from tests.app.specs import refused, written
from tests.app.users import BITS, SPEC, Watched, flat, spec_with

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shuffled():
    return Watched("stop.rounds=12").go()


# ---- what users hold ----------------------------------------------------------------------------------------------


def test_a_users_samples_stay_its_own_and_each_lies_on_one_device(shuffled):
    data, labels = shuffled.setup.world.data, shuffled.setup.task.dataset.y
    moved = 0.0
    for task, visit in shuffled.visits.items():
        own = np.sort(data.shard(visit.edge, "train", 0))
        held, trained = np.concatenate(visit.rows), np.concatenate(list(shuffled.trained[task].values()))
        assert np.array_equal(np.sort(held), own)
        assert np.array_equal(np.sort(trained), own)
        assert np.array_equal(np.bincount(labels[held], minlength=10), np.bincount(labels[trained], minlength=10))
        assert set(shuffled.trained[task]) <= set(visit.devices.tolist())
        moved += shuffled.reports[task].stats["moved"]
    assert moved > 100, "else nothing was tested"


def test_what_moved_stays_moved(shuffled):
    last, again = {}, 0
    for task, visit in shuffled.visits.items():  # with this pace every report is folded, in this order
        for device, rows in zip(visit.devices.tolist(), visit.rows, strict=True):
            if visit.edge in last:
                assert np.array_equal(np.sort(rows), np.sort(last[visit.edge].get(device, rows[:0])))
                again += 1
        last[visit.edge] = shuffled.trained[task]
    assert again > 20


def test_the_clock_shows_what_the_turns_took(shuffled):
    arrived = {e.task: e.seconds for e in shuffled.events if isinstance(e, TaskArrived)}
    assert len(arrived) == len(shuffled.reports) == 36
    for task, report in shuffled.reports.items():
        assert arrived[task] == pytest.approx(report.seconds) == report.stats["edge_seconds"]
        visit, after = shuffled.visits[task], shuffled.trained[task]
        down, up, own = visit.abilities.down_bps, visit.abilities.up_bps, visit.devices.tolist()
        # By hand: planning, then the slowest of: model down, exchange, two passes of training, model up.
        model = np.array([BITS / down[k] + BITS / up[k] if d in after else 0.0 for k, d in enumerate(own)])
        busy = 3 * 2 * visit.abilities.seconds_per_sample * [len(after.get(d, ())) for d in own]
        for k, before in enumerate(visit.rows):
            for j, d in enumerate(own):
                if j != k:  # both ends wait for both hops of each sample
                    hops = np.isin(before, after.get(d, ())).sum() * 64 * 32 * (1 / up[k] + 1 / down[j])
                    busy[k] += hops
                    busy[j] += hops
        edge = BITS / down.max() + BITS / up.max() + report.stats["planning_seconds"]
        assert report.seconds == pytest.approx(edge + (model + busy).max())
        assert report.stats["latency_after"] == pytest.approx(busy.max()), "planned with the same numbers"


def test_slow_users_ask_for_less_evenness_than_quick_ones():
    seen = Watched("stop.rounds=4", "pace.cohort=6", "edge.alpha=30.0", "world.devices.jitter=0.0").go()
    first, later = set(), 0
    for wave in range(4):
        tasks = [task for task in seen.visits if task // 6 == wave]
        users = {task: seen.visits[task].edge for task in tasks}
        known = [task for task in tasks if users[task] in first]
        for task in tasks:
            if users[task] not in first:
                assert seen.reports[task].stats["alpha"] == 30.0
        if len(known) > 1:
            took = [float(seen.visits[task].memory["seconds"][0]) for task in known]
            own = [seen.reports[task].stats["alpha"] for task in known]
            np.testing.assert_allclose(own, 30.0 * np.mean(took) / np.array(took))
            later += 1
        first |= set(users.values())
    assert later >= 2


def test_flat_runs_see_the_same_rows_on_the_same_devices():
    above, below = assemble(spec_with()), assemble(flat())
    fleet = above.plan.algorithm.local(0, {}).fleet
    assert below.plan.clients == 14 and above.plan.clients == len(fleet.users) == len(above.world.keys)
    assert np.array_equal(below.world.users.user_of, fleet.users.user_of)
    assert np.array_equal(below.world.keys, fleet.keys)
    assert not set(above.world.keys.tolist()) & set(below.world.keys.tolist()), "users draw numbers of their own"
    for user in range(above.plan.clients):
        rows, slots = above.world.data.shard(user, "train", 0), fleet.first_slots(user)
        for k, device in enumerate(fleet.users.devices_of(user).tolist()):
            assert np.array_equal(below.world.data.shard(device, "train", 0), rows[slots == k])
            assert len(rows[slots == k]) > 0


def test_edges_ask_devices_what_they_can_do_at_that_moment():
    above, below = assemble(spec_with()), assemble(flat())
    fleet, mine = above.plan.algorithm.local(0, {}).fleet, np.array([2, 5, 7])
    able = fleet.abilities(mine, 100.0, 8)
    work = Cost(np.array([7.0, 0.0, 3.0]), np.array([1e5, 2e6, 0.0]), np.array([3e6, 0.0, 1e4]))
    by_hand = 8 * work.bytes_down / able.down_bps + 8 * work.bytes_up / able.up_bps
    by_hand += 3 * work.samples * able.seconds_per_sample
    np.testing.assert_allclose(by_hand, below.world.devices.seconds(mine, work, 100.0, np.full(3, 8)), rtol=1e-9)
    assert not np.allclose(able.up_bps, fleet.abilities(mine, 100.0, 9).up_bps), "links vary from trip to trip"


def test_edges_say_what_their_turns_went_into_and_what_all_their_devices_drew(shuffled):
    told = {t: {n: v[i] for n, v in e.spent.items()} for e in shuffled.events if isinstance(e, TasksSpent)
            for i, t in enumerate(e.tasks.tolist())}  # fmt: skip
    arrived = [e for e in shuffled.events if isinstance(e, TaskArrived)]
    assert arrived
    for event in arrived:
        report, spent = shuffled.reports[event.task], told[event.task]
        stages = {name: np.array([report.spent[name]]) for name in STAGES if name in report.spent}
        assert total(stages)[0] == report.seconds, "to the last bit"
        assert {name: spent.get(name, 0.0) for name in stages} == {name: v[0] for name, v in stages.items()}
        assert spent["joules"] == report.spent["joules"] > 0
        # All devices of a user compute, one at a time is waited for.
        assert report.spent["joules"] > 4.9 * report.spent["compute"]
    assert {"planning", "exchange", "averaging"} <= {name for spent in told.values() for name in spent}


def test_what_an_edge_would_draw_is_foreseen_for_all_of_its_devices():
    setup = assemble(spec_with())
    users = np.bincount(setup.plan.algorithm.local(0, {}).fleet.users.user_of)
    work = {"compute": np.full(len(users), 10.0)}
    result = setup.world.energy.charges(np.arange(len(users)), work, np.zeros(len(users)))["joules"]
    assert result.tolist() == pytest.approx((49.0 * users).tolist())


def late(folder, times, batch=0.25):
    """Devices of two kinds whose every trip costs half a second to two, times a factor, and every batch some time."""
    kinds = [(21_000, 9_000, 0.0625), (9_000, 3_000, 0.03125)]
    rows = [
        {"id": f"d{i}", "down_kbps": [down], "up_kbps": [up], "seconds_per_sample": per_sample,
         "latency_ms": [500 * times, 2000 * times], "seconds_per_batch": batch}
        for i in range(14) for down, up, per_sample in kinds[i % 2 : i % 2 + 1]
    ]  # fmt: skip
    path = written(folder, json.dumps({"format": "fedfleet/devices@1", "devices": rows}), f"late{times}-{batch}.json")
    return f"world.devices={{ use = 'device_file', path = '{path}' }}"


def test_a_device_behind_an_edge_takes_what_it_takes_alone(tmp_path):
    above, below = assemble(spec_with(late(tmp_path, 1))), assemble(flat(late(tmp_path, 1)))
    able = above.plan.algorithm.local(0, {}).fleet.abilities(np.array([2, 5, 7]), 100.0, 8)
    work = Cost(np.array([70.0, 0.0, 30.0]), np.full(3, 1e5), np.full(3, 2e6), np.array([3.0, 0.0, 7.0]))
    alone = below.world.devices.seconds(np.array([2, 5, 7]), work, 100.0, np.full(3, 8))
    np.testing.assert_allclose(total(device_stages(work, able, np.arange(3))), alone, rtol=1e-9)
    assert (able.latencies() >= 0.5).all() and (able.latencies() <= 2.0).all()


@pytest.mark.parametrize("edge", ['edge={ use = "hierfl", kappa1 = 2, kappa2 = 3 }', "edge.solver=proportional"])
def test_latency_delays_every_turn_and_changes_no_model(tmp_path, edge):
    words = ("stop.rounds=2", "edge.adaptive=false" if "solver" in edge else "stop.rounds=2", edge)
    still, once, twice = (Watched(*words, late(tmp_path, times, 0)).go() for times in (0, 1, 2))
    assert content_hash(still.done.state.server.params) == content_hash(twice.done.state.server.params)
    for a, b, c in zip(still.reports.values(), once.reports.values(), twice.reports.values(), strict=True):
        # Three trips or one to devices and one to the server, each of 0.5 to 2 s, and what the exchange adds.
        assert b.seconds >= a.seconds + (2.0 if "hierfl" in edge else 1.0)
        assert c.seconds > b.seconds


# ---- laws between runs --------------------------------------------------------------------------------------------


def users_in(spec):
    return assemble(spec).plan.clients


def test_hierfl_with_one_average_over_everybody_is_fedavg_over_all_devices():
    whole = ("stop.rounds=3", "algorithm.batch=2000")  # whole batches, so that their order does not matter
    edge = 'edge={ use = "hierfl", kappa1 = 4, kappa2 = 1 }'
    everybody = f"pace.cohort={users_in(spec_with())}"
    above = simulate(*parts(spec_with(*whole, edge, everybody)))
    below = simulate(*parts(flat(*whole, "algorithm.steps=4", "pace.cohort=14")))
    for name, value in below.state.server.params.items():
        np.testing.assert_allclose(above.state.server.params[name], value, atol=1e-5)
        assert np.abs(value - assemble(flat()).plan.params[name]).max() > 1e-2, "it has learnt something"


def parts(spec):
    setup = assemble(spec)
    return setup.plan, setup.world, setup.executor()


def test_literal_and_stacked_devices_agree_and_take_the_same_time():
    for words in (("edge.use=shufflefl",), ('edge={ use = "hierfl", kappa1 = 3, kappa2 = 2 }',)):
        one, two = (Watched("stop.rounds=3", *words, inner=inner).go() for inner in (inline, stacked_executor))
        times = [[e.time for e in watched.events] for watched in (one, two)]
        assert times[0] == times[1]
        for name, value in one.done.state.server.params.items():
            np.testing.assert_allclose(two.done.state.server.params[name], value, atol=1e-4)


def test_faster_devices_make_faster_users():
    words = ("edge.solver=none", "world.devices.jitter=0.0", "stop.rounds=1", "world.model_bytes=1e7")
    slow = Watched(*words, "world.devices.mbps=10.0", "world.devices.seconds_per_sample=0.1").go()
    fast = Watched(*words, "world.devices.mbps=20.0", "world.devices.seconds_per_sample=0.05").go()
    assert [r.seconds for r in slow.reports.values()] == pytest.approx([2 * r.seconds for r in fast.reports.values()])


def test_a_declared_model_size_costs_time_and_not_learning():
    words = ("stop.rounds=2", "edge.adaptive=false")
    small, large = Watched(*words).go(), Watched(*words, "world.model_bytes=1e9").go()
    assert content_hash(small.done.state.server.params) == content_hash(large.done.state.server.params)
    for a, b in zip(small.reports.values(), large.reports.values(), strict=True):
        assert b.seconds > a.seconds + 2 * 8e9 / 1e12
        assert a.stats["latency_after"] == b.stats["latency_after"] and a.stats["moved"] == b.stats["moved"]


def test_a_dropped_users_samples_are_where_they_were():
    seen = Watched("pace.ready_share=0.5", "pace.cohort=4", "stop.rounds=8").go()
    folded = {int(t) for e in seen.events if isinstance(e, ReportsGathered) for t in e.tasks}
    last, checked = {}, 0
    for task, visit in seen.visits.items():
        if visit.edge in last:
            before = last[visit.edge]
            for rows, other in zip(visit.rows, before, strict=True):
                assert np.array_equal(np.sort(rows), np.sort(other))
            checked += task not in folded
        own = [seen.trained[task].get(d, np.zeros(0, np.int64)) for d in visit.devices.tolist()]
        last[visit.edge] = own if task in folded else list(visit.rows)
    assert len(folded) < len(seen.visits) and checked > 2


# ---- what a person may get wrong ----------------------------------------------------------------------------------


def without(text, start):
    """The spec without the lines of a table or the line of a key."""
    table = start.startswith("[")
    lines, kept, skipping = text.splitlines(), [], False
    for line in lines:
        skipping = line == start if table and line.startswith("[") else skipping
        if not skipping and (table or not line.startswith(start)):
            kept.append(line)
    return "\n".join(kept)


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (("edge.use=shuflefl",), ("edge.use", "did you mean 'shufflefl'")),
        (("edge.solvr=quick",), ("edge", "did you mean 'solver'")),
        (("edge.solver=fast",), ("edge.solver", "'quick'")),
        (("edge.gateway=raspberry_pi",), ("edge.gateway", "'raspberry_pi4'")),
        (("edge.gamma=0.0",), ("edge.gamma", "greater than 0")),
        (("edge.alpha=-1.0",), ("edge.alpha", "at least 0")),
        (("pace.cohort=10",), ("pace: ", "needs 10 clients at once", "users")),
        (("run.execute=ray",), ("run.execute", "inline or stacked")),
        (('algorithm="centralized"',), ("edge", "'centralized' trains in one place")),
        (('algorithm="local_only"',), ("edge.use = 'shufflefl'", "'local_only' keeps something on every device")),
        (("world.users.devices=[5, 2]",), ("world.users.devices = [5, 2]", "for example [2, 5]")),
        (("world.users.devices=[0, 2]",), ("world.users.devices", "at least 1")),
        (("world.users.use=household",), ("world.users.use", "did you mean 'households'")),
        (('world.users={ use = "groups", count = 15 }',), ("world.users.count", "15 groups", "14 devices")),
        (('edge={ use = "fedgs", random = 3, per_sync = 2 }',), ("edge.random = 3", "edge.per_sync = 2")),
        (('edge={ use = "hierfl", share = 1.5 }',), ("edge.share", "at most 1")),
        (("edge=3",), ("edge: 3 is not a table",)),
        (("edge={ solver = 'none' }",), ("edge: choose the part",)),
        (("world.devices={ use = 'state_only' }",), ("world.devices", "finite link speeds")),
    ],
    ids=lambda value: value[0].partition("=")[0] + "=" + value[0].partition("=")[2][:20] if "=" in value[0] else "",
)
def test_bad_input_is_one_sentence_and_leaves_no_folder(fedfleet, tmp_path, words, mentions):
    refused(fedfleet("run", written(tmp_path, SPEC), *words, "--out", tmp_path / "out"), *mentions)
    assert not (tmp_path / "out").exists()


def test_an_edge_needs_users_but_users_need_no_edge(fedfleet, tmp_path):
    alone = written(tmp_path, without(SPEC, "users ="), "alone.toml")
    refused(fedfleet("run", alone, "--out", tmp_path / "a"), "edge", "world.users")
    no_edge = written(tmp_path, without(SPEC, "[edge]"), "flat.toml")
    code, out, err = fedfleet("run", no_edge, "stop.rounds=2", "--out", tmp_path / "b", "--json")
    assert (code, err) == (0, "") and json.loads(out)["commits"] == 2
    assert tomllib.loads((tmp_path / "b/spec.toml").read_text())["world"]["users"]["use"] == "households"


def test_few_samples_leave_no_device_without_any():
    words = ("world.min_samples=1", "world.clients=120", "world.data.alpha=0.05", "world.users.devices=[2, 5]")
    for more in ((), ("world.split=[1, 1, 3]", "world.clients=40")):
        setup = assemble(flat(*words, *more))
        assert setup.world.data.sizes(0).min() >= 1
    assert run(flat(*words, "pace.cohort=60", "stop.rounds=1").table()).metrics["commits"] == 1


def test_the_resolved_spec_reads_back():
    for words in ((), ("edge.alpha=3", "edge.gamma=0.5"), ('edge="hierfl"',)):
        spec = spec_with(*words)
        assert resolve(tomllib.loads(spec.toml())).digest == spec.digest
    assert spec_with().digest != flat().digest
