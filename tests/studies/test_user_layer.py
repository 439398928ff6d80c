"""The study of the user layer: what it computes from curves, on curves whose answer is known."""

import json
from dataclasses import asdict

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from studies.user_layer import (
    ALL,
    ARMS,
    Cell,
    Curve,
    Factor,
    factor,
    median_interval,
    plateau,
    reached,
    report,
    spec_of,
)


def line(rounds, seconds_a_round, per_round):
    """Accuracy that rises by `per_round` a round, to 0.8 at most."""
    return Curve(
        list(range(1, rounds + 1)),
        [seconds_a_round * r for r in range(1, rounds + 1)],
        [min(0.8, per_round * r) for r in range(1, rounds + 1)],
    )


@pytest.mark.parametrize("arm", ALL)
def test_every_arm_is_a_spec_that_can_run(arm):
    setup = assemble(resolve(spec_of(Cell("digits", "2-5", arm, 0, 3, "cpu"))))
    assert setup.plan.stop.rounds == 3
    held = len(setup.task.dataset.y) - len(setup.task.holdout)
    assert setup.world.data.sizes(0).sum() == held  # nothing of what people hold is withheld from training


def test_a_factor_is_the_product_of_rounds_and_of_round_time():
    slow, fast = line(100, 10.0, 0.01), line(100, 4.0, 0.02)
    result = factor(slow, fast, 0.4)
    assert result is not None
    assert result.whole == pytest.approx(result.rounds * result.round_seconds)
    assert result.round_seconds == pytest.approx(2.5)
    # The running median of five is there two rounds after the curve itself.
    assert reached(slow, 0.4) == (42, 420.0) and reached(fast, 0.4) == (22, 88.0)
    assert result == Factor(pytest.approx(420 / 88), pytest.approx(42 / 22), pytest.approx(2.5))


def test_a_target_that_was_never_reached_has_no_factor():
    assert factor(line(100, 10.0, 0.01), line(10, 1.0, 0.01), 0.5) is None


def test_a_single_lucky_evaluation_reaches_nothing():
    curve = Curve([1, 2, 3, 4, 5], [1.0, 2.0, 3.0, 4.0, 5.0], [0.1, 0.1, 0.9, 0.1, 0.1])
    assert reached(curve, 0.5) is None
    assert plateau(curve) == 0.1


def test_the_interval_holds_the_median_and_repeats():
    low = median_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert low == median_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert 1.0 <= low[1] < low[0] == 3.0 < low[2] <= 5.0


def test_the_report_says_both_factors_and_what_was_not_reached(tmp_path):
    for fleet in range(2):
        for arm in ARMS:
            curve = (
                line(100, 10.0, 0.01) if arm == "fedavg" else line(100, 5.0, 0.02) if arm == "shufflefl" else line(20, 5.0, 0.01)
            )
            cell = Cell("digits", "2-5", arm, fleet, 100, "cpu")
            (tmp_path / f"{cell.name}.json").write_text(json.dumps({"cell": asdict(cell), "curve": asdict(curve)}))
    said = report(tmp_path)
    whole = next(row for row in said.splitlines() if row.startswith("| shufflefl | 100 %"))
    assert "0 of 2" in whole and "2.00 (2.00 to 2.00)" in whole
    assert "| no exchange | 80 %" not in said  # it never got there on any fleet
