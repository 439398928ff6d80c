"""Every output of a run says what its kind of task is measured by, in the right unit: texts, pages, comparisons, the dashboard."""

import re
import warnings
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

import fedfleet
from fedfleet.app.api.audit import explain
from fedfleet.app.dashboard.event_stream import _columns
from fedfleet.app.dashboard.pages import live_page
from fedfleet.app.dashboard.run_list import _score
from fedfleet.app.dashboard.run_watcher import RunWatcher
from fedfleet.app.runs import read_finished_run
from fedfleet.app.tracking.points import EVALUATED, follower
from fedfleet.measure.score_info import kind_of_measures

SMALL = {"world": {"clients": 6, "data": {"use": "dirichlet", "alpha": 1.0}}, "pace": {"cohort": 3}, "stop": {"rounds": 4}}
TEXTS = {"world": {"clients": 14, "data": "by_owner"}, "pace": {"cohort": 3}, "stop": {"rounds": 4}}


@dataclass(frozen=True)
class Words:
    """What the outputs of a task must and must not say."""

    kind: str
    task: dict
    lr: float
    score: str
    measure: str  # the one that is shown beside the score
    others: tuple[str, ...]  # further facts of its report
    wrong: tuple[str, ...]  # patterns that must not be in any text
    base: dict


ACCURACY, POINTS, SHARE_OF_R2 = r"\b[Aa]ccurac", r"\d points", r"R2[^;,.]{0,12} \d+(\.\d+)? %"
CASES = [
    Words(
        "classification", {"use": "digits_logreg"}, 0.3, "accuracy", "", ("Confusion matrix",),
        (r"\bR2\b", r"\bF1\b", "perplexity"), SMALL,
    ),
    Words(
        "regression", {"use": "diabetes_mlp", "hidden": 0}, 0.05, "R2", "RMSE",
        ("MAE", "Predicted against true", "predicted = true", "too low on average"),
        (ACCURACY, POINTS, SHARE_OF_R2, "[Cc]onfusion", "[Cc]lasses"), SMALL,
    ),
    Words(
        "multilabel", {"use": "digits_traits", "hidden": 8}, 0.3, "F1", "macro F1",
        ("AUROC", "exact match", "F1 of each label", "has a loop"), (ACCURACY, r"\bR2\b", "[Cc]onfusion"), SMALL,
    ),
    Words(
        "next_token", {"use": "text_lstm", "hidden": 8, "window": 16}, 0.5, "token accuracy", "perplexity",
        ("with most wrong predictions", "space"), (r"\bR2\b", r"\bF1\b", "[Cc]onfusion"), TEXTS,
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Made:
    """Two runs of a task that differ in their learning rate."""

    words: Words
    quick: Path
    slow: Path


@pytest.fixture(scope="module", params=CASES, ids=lambda words: words.kind)
def made(request, tmp_path_factory):
    words, folder = request.param, tmp_path_factory.mktemp(request.param.kind)
    spec = {"seed": 1, "task": words.task, **words.base}
    for name, lr in (("quick", words.lr), ("slow", words.lr / 20)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # four rounds are few
            fedfleet.run({**spec, "algorithm": {"lr": lr}}, out=folder / name)
    return Made(words, folder / "quick", folder / "slow")


def visible(page):
    """What a reader sees of a page, and what those hear who do not see its pictures."""
    heard = " ".join(re.findall(r'aria-label="(.*?)"', page))
    page = re.sub(r"<style.*?</style>|<details.*?</details>", " ", page, flags=re.DOTALL)
    return re.sub(r"[\s\u00a0]+", " ", unescape(re.sub(r"<[^>]*>", " ", page) + heard))


def check(text, words):
    """No word or unit in this text belongs to another kind of task."""
    for pattern in words.wrong:
        found = re.search(pattern, text)
        assert found is None, text[max(found.start() - 80, 0) : found.end() + 40]


def test_the_text_of_a_run_has_its_score_and_measures(made):
    run = read_finished_run(made.quick)
    text, metrics = str(run), run.metrics
    assert f"{made.words.score} " in text and made.words.measure in text
    check(text, made.words)
    shown = f"{metrics['accuracy']:.3f}" if made.words.kind == "regression" else f"{100 * metrics['accuracy']:.1f} %"
    assert f"{made.words.score} {shown}".replace("-", "\N{MINUS SIGN}") in text.replace("-", "\N{MINUS SIGN}")
    assert made.words.kind == "classification" or f"{made.words.score} {shown}" in repr(fedfleet.load(made.quick))
    assert metrics["test_samples"] > 0 and set(run.to_dict()) >= {"accuracy", "warnings"}


def test_the_report_says_and_draws_what_the_kind_of_task_is_measured_by(made):
    text = visible((made.quick / "report.html").read_text())
    for fact in (made.words.score, made.words.measure, *made.words.others):
        assert fact in text, fact
    check(text, made.words)
    run = read_finished_run(made.quick)
    results = run.metrics.get("task_results")
    assert (results is None) == (made.words.kind == "classification")
    assert (run.metrics["classes"] is not None) == (made.words.kind == "classification")


def test_a_comparison_names_the_score_and_the_measure(made, tmp_path):
    found = fedfleet.compare([made.quick, made.slow], page=tmp_path / "page.html")
    text, page = str(found), visible((tmp_path / "page.html").read_text())
    assert f"{made.words.score} at the end" in text and made.words.measure in text
    assert found.to_dict()["score"]["kind"] == made.words.kind
    for one in (text, page):
        check(one, made.words)
    assert f"{made.words.score[:1].upper()}{made.words.score[1:]} against virtual time" in page
    if made.words.measure:
        label = made.words.measure[:1].upper() + made.words.measure[1:]
        assert f"{label} against virtual time" in page


def test_time_counts_to_a_limit_of_a_measure_and_an_arm_is_recommended_by_it(made):
    if not made.words.measure:
        with pytest.raises(fedfleet.BadInput, match=r"own\.NAME"):
            fedfleet.compare([made.quick, made.slow], aim="recall")
        return
    run = read_finished_run(made.quick)
    name = {"RMSE": "rmse", "macro F1": "f1_macro", "perplexity": "perplexity"}[made.words.measure]
    values = run.metrics["curve"]["measures"][name]
    lower = name != "f1_macro"
    goal = f"{name} {'<=' if lower else '>='} {values[-1]}"
    found = fedfleet.compare([made.quick, made.slow], target=goal, aim=name)
    first = next(i for i, value in enumerate(values) if (value <= values[-1] if lower else value >= values[-1]))
    answer = found.to_dict()
    quick = next(one for one in answer["runs"] if one["name"] == "quick")
    assert answer["target"] == goal and quick["seconds_to_target"] == run.metrics["curve"]["seconds"][first]
    best = min if lower else max
    ends = {path.name: read_finished_run(path).metrics["measures"][name] for path in (made.quick, made.slow)}
    at_equal_time = found.verdict.recommendation.value
    assert at_equal_time is not None and (at_equal_time <= max(ends.values()) if lower else at_equal_time >= min(ends.values()))
    assert best(ends, key=lambda name: ends[name]) == "quick" and found.verdict.recommendation.arm == found.arms[0].name
    assert made.words.measure in found.verdict.sentence and ("lower than" if lower else "higher than") in found.verdict.sentence
    assert f"at {'most' if lower else 'least'}" in str(found)


def test_predictions_and_clocks_say_what_applies(made):
    spec = {"seed": 1, "task": made.words.task, **made.words.base, "algorithm": {"lr": made.words.lr}}
    clock = fedfleet.measure(spec, seeds=1)
    names = list(clock.clock["classes"])
    assert len(names) == {"classification": 10, "regression": 10, "multilabel": 4, "next_token": 1}[made.words.kind]
    check(str(clock), made.words) if made.words.kind != "classification" else None
    if made.words.kind == "classification":
        return
    found = fedfleet.predict(spec)
    assert found.accuracy is None and found.commits.value == 4 and found.left_out["never"] >= 0
    text = str(found)
    assert "classification only" in text and f"{made.words.score} at the end: not predicted" in text
    assert made.words.kind != "regression" or all(re.fullmatch(r"\d+ to \d+", name) for name in names)
    with pytest.raises(fedfleet.BadInput, match="classification only"):
        fedfleet.predict(spec, sweep={"pace.cohort": [2, 3]})


def test_the_dashboard_shows_the_score_in_its_unit(made):
    watcher = RunWatcher(made.quick.parent)
    run = watcher.refresh()["quick"]
    assert run.score.kind.name == made.words.kind
    assert ("%" in _score(run)) == (made.words.kind != "regression")
    page = watcher.inspect("quick", lambda summary, followed: live_page(summary, followed, None, ()))
    text = visible(page)
    check(text, made.words)
    assert f"{made.words.score[:1].upper()}{made.words.score[1:]}" in text and made.words.measure in text
    largest = max(abs(value) for value in _columns(run.scores)["a"])
    assert largest == pytest.approx(
        (1 if made.words.kind == "regression" else 100) * max(abs(s.accuracy) for s in run.scores), abs=0.01
    )


def test_points_for_tracking_have_the_measures_and_a_journal_alone_tells_the_kind(made):
    events = read_finished_run(made.quick).events
    points = [point for point in follower()(events) if point.what == EVALUATED]
    measures = set(points[-1].values) - {"accuracy", "loss"}
    assert kind_of_measures(measures).name == made.words.kind


def test_what_the_model_gets_right_is_verified_by_a_replay(made):
    answer = fedfleet.replay(made.quick)
    assert "metrics.json" in answer["verified"] and "task_results" not in answer["not_verified"]


def test_counterfactuals_have_the_unit_of_the_score(made):
    found = explain(made.quick, counterfactuals=True)
    assert found.to_dict()["score"]["kind"] == made.words.kind
    text = str(found) + visible((made.quick / "explain.html").read_text())
    check(text, made.words)
    assert made.words.score in text.lower() or made.words.score in text
