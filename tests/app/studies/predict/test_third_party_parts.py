"""Policies, selectors and states that others registered are measured and predicted by what they declare, never by their name."""

from dataclasses import replace

import numpy as np
import pytest

import fedfleet
from fedfleet.app.assemble import assemble, feasibility_warnings
from fedfleet.app.spec import resolve
from fedfleet.app.studies.predict.fleet_hardness import measure_spec
from fedfleet.app.studies.predict.key_sweep import parse_sweep, predict_sweep
from fedfleet.app.studies.predict.participation import (
    closed_form,
    expected_participation,
    fleet_of,
    predictable_plan,
    walkable_rules,
)
from fedfleet.choose.uniform import uniform
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.records import Book, Decision, whole_work
from fedfleet.core.round_rules import RoundRules
from fedfleet.core.sources import StateSource
from fedfleet.pace.rounds import deadline
from fedfleet.simulation.dry_run import dry_run
from fedfleet.testing import check_policy, check_selector, check_state_source
from fedfleet.world.states import daily
from tests.app.studies.predict.conftest import TABLE

pytestmark = pytest.mark.slow

MEASURED = TABLE | {"world": {**TABLE["world"], "states": {"use": "daily", "sessions": 24}}}


def strict(cohort: int = 6, patience: float = 40.0) -> Policy:
    """A deadline under which one report is enough, written without FedFleet's own."""

    def decide(book: Book) -> Decision:
        if book.asking:
            return Decision()
        if not book.wanted:
            return Decision(cohort) if book.now >= book.opened_at + 5.0 else Decision(0, book.opened_at + 5.0)
        if not book.selected:
            return Decision(abandon="no client could be reached", drop=0)
        end = book.first_sent_at + patience
        if book.now < end and book.arrived < book.selected and book.running:
            return Decision(wake_at=end)
        if not book.arrived:
            return Decision(abandon="no report arrived", drop=0)
        return Decision(commit=True, drop=0)

    return Policy("strict", decide, cohort)


def declared_strict(cohort: int = 6, patience: float = 40.0) -> Policy:
    """The same policy, which says what its rounds wait for."""
    return replace(strict(cohort, patience), round_rules=RoundRules(cohort, 1.0, patience, 5.0, 1, 0.0))


def register_policies():
    for name, build in (("strict", strict), ("declared_strict", declared_strict)):
        fedfleet.register("policies", name, build)


def setup_of(**changes):
    return assemble(resolve(TABLE | changes))


# ---- a policy -----------------------------------------------------------------------------------------------------


def test_a_policy_is_measured_by_the_rules_that_it_declares():
    register_policies()
    ours = {"use": "deadline", "cohort": 6, "seconds": 40.0, "t_break": 5.0, "min_clients": 1, "min_share": 0.0}
    result = measure_spec(resolve(MEASURED | {"pace": {"use": "declared_strict"}}), seeds=2)
    wanted = measure_spec(resolve(MEASURED | {"pace": ours}), seeds=2)
    for name in ("DevMC-R", "StatMC-R", "InterMC-T"):
        assert result[name] == wanted[name]
    assert result["under"] == wanted["under"] | {"pace": "declared_strict"} and result["clock"] == wanted["clock"]


def test_a_policy_that_declares_nothing_has_no_figures_but_a_sentence():
    register_policies()
    result = measure_spec(resolve(MEASURED | {"pace": {"use": "strict"}}), seeds=2)
    assert not [name for name in result if "MC-" in name] and "paced by strict" in result["not_measured"][0]
    assert result["under"]["deadline_seconds"] is None and result["clock"] is not None


@pytest.mark.parametrize("name", ["strict", "declared_strict"])
def test_a_policy_is_predicted_as_it_runs(name):
    register_policies()
    setup = setup_of(pace={"use": name})
    assert (walkable_rules(setup.plan, setup.world) is not None) == (name == "declared_strict")
    ((part,), notes), wanted = expected_participation(setup, [5]), dry_run(setup.plan, setup.world, seed=5)
    assert part.clients.tolist() == wanted.clients.tolist() and part.times.tolist() == wanted.times.tolist()
    assert not notes
    form = closed_form(setup, fleet_of(setup).labels, cohort=6, noise=1.0)
    assert (form is not None) == (name == "declared_strict")


def test_what_wraps_a_policy_does_not_pass_for_it():
    table = {"use": "overcommit", "policy": {"use": "deadline", "cohort": 6, "seconds": 40.0}}
    result = measure_spec(resolve(MEASURED | {"pace": table}), seeds=2)
    assert "paced by overcommit" in result["not_measured"][0]


def test_rules_are_checked_against_decisions():
    check_policy(declared_strict())
    wrong = replace(declared_strict(), round_rules=RoundRules(6, 0.5, 40.0, 5.0, 1, 0.0))
    with pytest.raises(AssertionError, match="round_rules"):
        check_policy(wrong)
    check_policy(replace(deadline(5), name="other"))


# ---- a selector ---------------------------------------------------------------------------------------------------


def curious(by_reports):
    """A selector with a memory: nobody can see from outside whether it goes by what reports say."""

    def build() -> Selector:
        return Selector(
            "curious",
            lambda state, roster, n, draw: whole_work(roster.clients[:n]),
            lambda state, ended, now: state,
            initial=lambda clients: {"seen": np.zeros(clients)},
            by_reports=by_reports,
        )

    return build


@pytest.mark.parametrize(
    ("by_reports", "reason"), [(True, "chooses by what trained reports say"), (None, "does not say"), (False, "")]
)
def test_a_selector_with_a_memory_says_whether_it_goes_by_reports(by_reports, reason):
    fedfleet.register("selectors", "curious", curious(by_reports))
    plan, notes = predictable_plan(setup_of(choose={"use": "curious"}))
    assert plan.choose.name == ("uniform" if reason else "curious")
    assert bool(notes) == bool(reason) and all("curious" in note and reason in note for note in notes)


def hurried() -> Selector:
    """A selector without a memory that sets a due time of its own, and says nothing about it."""
    return replace(
        uniform(),
        name="hurried",
        pick=lambda state, roster, n, draw: replace(uniform().pick(state, roster, n, draw), due=3.0),
        equal_chance=False,
    )


def test_work_or_time_of_its_own_is_not_walked_past():
    fedfleet.register("selectors", "hurried", hurried)
    setup = setup_of(choose={"use": "hurried"})
    ((part,), _), wanted = expected_participation(setup, [5]), dry_run(setup.plan, setup.world, seed=5)
    assert part.clients.tolist() == wanted.clients.tolist()
    usual = expected_participation(setup_of(), [5])[0][0]
    assert part.commits < usual.commits


def test_a_selector_that_gives_equal_chances_has_the_closed_form(foretold, kept):
    def lottery(fair: bool = True) -> Selector:
        return replace(uniform(), name="lottery", equal_chance=fair)

    fedfleet.register("selectors", "lottery", lottery)
    check_selector(lottery())
    forms = [
        closed_form(setup, fleet_of(setup).labels, cohort=6, noise=1.0)
        for setup in (setup_of(choose={"use": "lottery", "fair": fair}) for fair in (True, False))
    ]
    assert forms[0] is not None and forms[1] is None
    rows = predict_sweep(TABLE | {"choose": "lottery"}, "small", parse_sweep("pace.seconds=15,40"), cache=kept).rows
    assert [row["commits"] for row in rows] == [
        row["commits"] for row in predict_sweep(TABLE, "small", parse_sweep("pace.seconds=15,40"), cache=kept).rows
    ]


# ---- states -------------------------------------------------------------------------------------------------------


def shifts(declared: bool = True):
    """The sessions of `daily` as another source of states, with or without their table."""
    recipe = daily(sessions=24)

    def build(keys, seed):
        source = recipe(keys, seed)
        return source if declared else StateSource(source.online, source.finish, source.earliest, source.worked)

    return build


def test_states_are_measured_by_the_table_that_they_declare():
    fedfleet.register("states", "shifts", shifts)
    specs = [resolve(TABLE | {"world": {**TABLE["world"], "states": table}}) for table in (
        {"use": "daily", "sessions": 24}, {"use": "shifts"}, {"use": "shifts", "declared": False},
    )]  # fmt: skip
    wanted, declared, mute = (measure_spec(spec, seeds=2) for spec in specs)
    assert declared["StatMC-R"] == wanted["StatMC-R"] and declared["InterMC-R"] == wanted["InterMC-R"]
    assert [name for name in mute if "MC-" in name] == ["DevMC-R", "DevMC-T"]
    assert "reachability by shifts" in mute["not_measured"][0] and "only devices" in mute["not_measured"][0]
    assert mute["clock"] == wanted["clock"]


def test_states_that_are_always_on_say_so():
    def steady(always: bool = True):
        def build(keys, seed):
            everyone = np.ones(len(keys), np.bool_)
            return StateSource(lambda time: everyone, lambda clients, start, seconds: start + seconds, always=always)

        return build

    fedfleet.register("states", "steady", steady)
    check_state_source(steady()(np.arange(4, dtype=np.uint64), 0), 4)
    for always in (True, False):
        setup = setup_of(world={**TABLE["world"], "states": {"use": "steady", "always": always}})
        assert (closed_form(setup, fleet_of(setup).labels, cohort=6, noise=1.0) is not None) == always
        missing = measure_spec(setup.spec, seeds=2)["not_measured"]
        assert bool(missing) != always


def test_what_states_declare_is_checked_against_their_answers():
    keys = np.arange(1, 9, dtype=np.uint64)
    honest, other = daily(sessions=4)(keys, 0), daily(sessions=4)(keys, 1)
    check_state_source(honest, 8)
    with pytest.raises(AssertionError, match="table"):
        check_state_source(replace(honest, table=other.table), 8)
    with pytest.raises(AssertionError, match="always"):
        check_state_source(replace(honest, always=True), 8)


def test_warnings_of_states_are_told_before_the_run():
    def odd():
        return lambda keys, seed: replace(daily()(keys, seed), warnings=("odd: these states are a test",))

    fedfleet.register("states", "odd", odd)
    for more in ({}, {"faults": {"use": "crashes"}}):
        setup = setup_of(world={**TABLE["world"], "states": {"use": "odd"}, **more})
        assert "odd: these states are a test" in feasibility_warnings(setup)
    wide = setup_of(world={**TABLE["world"], "states": {"use": "dpcsm", "alpha": 200.0, "rounds": 20}})
    assert any("alpha 200" in warning for warning in feasibility_warnings(wide))
