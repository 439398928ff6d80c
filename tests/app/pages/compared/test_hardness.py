"""How hard fleets are under the pacing of their own runs."""

import pytest

from fedfleet.app.pages.compared.hardness import how_hard, measured, seen_share, verdict
from fedfleet.app.pages.compared.looking import look
from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from tests.app.pages.compared.looks import made, side

SPEC = {
    "seed": 1, "task": {"use": "digits_logreg"}, "pace": {"use": "deadline", "cohort": 3, "seconds": 120.0}, "stop": {"rounds": 4},
    "world": {"clients": 12, "model_bytes": 343_200_776, "devices": {"use": "dpgmm", "sigma": 0.7, "mean_mbps": 60.0}},
}  # fmt: skip


@pytest.fixture(scope="module")
def looks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hard")
    waiting = {**SPEC, "pace": {"use": "readiness", "cohort": 3}}
    return [look(perform(resolve(t, "x"), folder / n).out, folder / "p.html") for n, t in (("d", SPEC), ("w", waiting))]


def test_a_deadline_is_told_in_shares_and_waiting_in_time(looks):
    sides = [side("deadline", looks[0], group="mild"), side("waiting", looks[1], group="mild")]
    (share,), (wait,) = measured(sides, "deadline"), measured(sides, "readiness")
    assert 0 <= share.plain["InterMC"] <= 1 and share.plain["InterMC"] == share.plain["DevMC"], "always reachable"
    assert wait.plain["DevMC"] > 20.0 and wait.seen == pytest.approx(looks[1].end / looks[1].metrics["rounds"])
    page = how_hard(sides)
    assert "Deadline of 2\u00a0min" in page and "Waiting for all" in page and f"Mild: {verdict(share)}" in page
    assert "DevMC-R" in page and "DevMC-T" in page


def test_what_a_run_saw_counts_nobody_beyond_an_equal_share():
    # 2 asked in 4 rounds of 4 people: a fair share is 2 reports each
    assert seen_share(made(used=(8, 0, 0, 0))) == 2 / 8 and seen_share(made(used=(2, 2, 2, 2))) == 1.0


def test_other_pacings_have_no_section():
    assert how_hard([side("a", made(table={"pace": {"use": "buffered"}}))]) == ""
