"""Who is better, and how sure that is: at the end of every run, at equal time, and by the aim of whoever asks.

A hundred rounds can be hours for one run and weeks for another, so that the end alone flatters the slow. The recommendation is by
one aim, accuracy at equal time unless another is asked for; the arm that leads at the end is a trade-off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedfleet.app.studies.compare import verdict_text
from fedfleet.app.studies.compare.arms import seed_of
from fedfleet.app.studies.compare.criteria import check_aim
from fedfleet.app.studies.compare.moments import drop_repeated_runs, equal_time, moment
from fedfleet.app.studies.compare.recommendation import recommend
from fedfleet.app.studies.compare.records import Arm, ComparedRun, Recommendation, Verdict
from fedfleet.measure.goal import Target

_DATA_SETTINGS = ("pictures", "samples", "stride", "per_role", "test_users")  # settings of tasks that choose samples, not models


def verdict(
    arms: Sequence[Arm], *, aim: str = "accuracy", target: Target | None = None, baseline: str | None = None, look: int = 1
) -> Verdict:
    """The verdict on these arms; `aim`, `target`, `baseline` and `look` as in `recommend`."""
    each = [drop_repeated_runs(arm) for arm in arms]
    unlike = unlike_data(each)
    when = equal_time(each)
    at_end = moment(each, None, fair=not unlike, baseline=baseline, look=look)
    at_equal = None if when is None else moment(each, when, fair=not unlike, baseline=baseline, look=look)
    why_none = verdict_text.reason_for_none(arms, each, at_end, at_equal, unlike)
    found = (
        Recommendation(None, check_aim(aim), why_none)
        if why_none
        else recommend(each, aim=aim, target=target, baseline=baseline, look=look)
    )
    winner = found.arm if found.decided and found.equal_within is None else None
    caveats = tuple(verdict_text.caveats(arms, each, at_end, at_equal, found))
    return Verdict(found.sentence, at_end, at_equal, winner is not None, winner, caveats, found)


def unlike_data(arms: Sequence[Arm]) -> list[str]:
    """The names of the data if these arms are evaluated on different ones, whose accuracies cannot be compared; else nothing.

    Tasks are named data_model: two models on the same data may well be compared. Where the names of tasks differ, the same size of
    the test set must bear that out, and the same share of lucky guesses on those that one seed drew. Runs of one seed have one test
    set, or cannot be compared either.
    """
    runs = [run for arm in arms for run in arm.runs]
    names = dict.fromkeys(data_name(run) for run in runs)
    test_sets = {(_seed_of_data(run), run.tested, run.metrics.get("chance")) for run in runs if run.tested}
    alike = len({tested for _, tested, _ in test_sets}) <= 1 and len(test_sets) <= len({seed for seed, _, _ in test_sets})
    if len(names) == 1 and (len({run.task for run in runs}) == 1 or alike):
        sizes = [{run.tested for run in runs if run.tested and seed_of(run) == seed} for seed in map(seed_of, runs)]
        odd = next((sorted(result) for result in sizes if len(result) > 1), [])
        return [f"a test set of {n:,} samples" for n in odd]
    return list(names) if len(names) > 1 else list(dict.fromkeys(run.task for run in runs))


def _seed_of_data(run: ComparedRun) -> int:
    """What the test set was drawn by."""
    return int(run.table.get("seeds", {}).get("data", run.seed))


def data_name(run: ComparedRun) -> str:
    """The data on which a run is evaluated, by name."""
    task = run.table["task"]
    if "data" in task:
        return f"own data {task['data']}"
    name = run.task.rsplit("_", 1)[0]
    world: Mapping[str, Any] = run.table.get("world", {})
    chosen = {**{key: task.get(key) for key in _DATA_SETTINGS}, **{key: world.get(key) for key in ("holdout", "unseen")}}
    parts = [f"{key} {value}" for key, value in chosen.items() if value]
    return ", ".join([f"synthetic {name}" if task.get("synthetic") else name, *parts])
