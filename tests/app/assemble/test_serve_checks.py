"""What a server refuses is said before the run; what it does not use of a spec is named."""

from dataclasses import replace

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.serve_checks import SETUP_RULES, check_serve, rules_table, serve_refusal, unused_settings
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.served_plan import PLAN_RULES

pytestmark = pytest.mark.slow

BASE = {"task": "digits_logreg", "world": {"clients": 4}, "pace": {"cohort": 2}}


def made(**more):
    return assemble(resolve({**BASE, **more}))


def test_every_rule_says_what_where_and_the_cure_in_one_sentence():
    for rule in (*PLAN_RULES, *SETUP_RULES):
        assert rule.sentence().startswith(f"{rule.setting}: ") and rule.cure in rule.sentence()
        assert "\n" not in rule.sentence() and not rule.sentence().endswith(".")
        assert f"| `{rule.setting}` | {rule.why} | {rule.cure} |" in rules_table()


def test_a_target_that_devices_cannot_report_is_refused():
    setup = made(task="diabetes_mlp", stop={"target": "rmse <= 40"})
    check_serve(setup, ServeOptions(devices=2, evaluate="server"))
    with pytest.raises(BadInput, match=r"--evaluate devices: .*stop.target"):
        check_serve(setup, ServeOptions(devices=2, evaluate="devices"))
    score = replace(setup, plan=replace(setup.plan, stop=replace(setup.plan.stop, target="r2 >= 0.4")))
    check_serve(score, ServeOptions(devices=2, evaluate="devices"))


def test_a_fleet_that_cannot_come_is_refused():
    assert serve_refusal(made()) is None
    with pytest.raises(BadInput, match="--devices: cannot wait for 5 devices"):
        check_serve(made(), ServeOptions(devices=5))


def test_what_a_server_does_not_use_is_named():
    fleet = {"clients": 4, "devices": {"use": "spread"}, "charge": 1}
    (sentence,) = unused_settings(resolve({**BASE, "world": fleet}), made(world=fleet))
    assert sentence.startswith("world.devices, world.charge describe a simulated fleet")
    spread = {**fleet, "charge": None}
    (used,) = unused_settings(resolve({**BASE, "world": spread, "choose": "fastest"}), made(world=spread, choose="fastest"))
    assert "parts of this run look at the described devices" in used
    (execute,) = unused_settings(resolve({**BASE, "run": {"execute": "numpy"}}))
    assert execute.startswith('run.execute = "numpy" has no effect')
