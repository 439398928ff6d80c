"""What a search found: a row for each trial, the best beside the spec as it stands, what pruning saved, what mattered."""

from __future__ import annotations

import json
import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedfleet.app.studies.compare.comparison import json_value
from fedfleet.app.studies.grid.study_file import value_text
from fedfleet.app.studies.tune.aims import Aim
from fedfleet.app.studies.tune.search_file import Search
from fedfleet.app.studies.tune.search_store import import_optuna
from fedfleet.core.errors import BadInput
from fedfleet.core.json_text import parse_json
from fedfleet.core.kinds import CLASSIFICATION
from fedfleet.measure.score_info import kind_score

FILE = "tune.json"
_NAMES = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running", "WAITING": "waiting"}


@dataclass(frozen=True, slots=True)
class Row:
    """One trial. `value` is that of the aim (None: it has none), `early` the last that was seen of a pruned one; `same_as` names
    the trial whose spec it shares, and which was not run again."""

    trial: int
    state: str
    values: Mapping[str, Any]
    value: float | None
    early: float | None
    rounds: int
    reason: str
    default: bool = False
    same_as: int | None = None
    said: str = ""  # the value with its unit

    def __str__(self) -> str:
        return f"trial {self.trial} {self.state}: {self.reason or self.said}"


@dataclass(frozen=True, slots=True, repr=False)
class Tuned:
    """A search that was carried out; `print` shows the answer. `rows` has every trial (`pandas.DataFrame(found.rows)`), `best` the
    best values by key (None: no trial ended), `value` what they reach; `place` is where that trial stands in `rows`.

    `rounds_saved`: the share of all rounds that pruning saved, if a pruned trial had taken as many as a finished one at the median.
    """

    name: str
    metric: str
    minimise: bool
    seeds: tuple[int, ...]
    sampler: str
    pruner: str
    space: Mapping[str, Any]
    rows: list[Row]
    place: int | None
    default_value: float | None
    rounds: int
    rounds_saved: float
    importance: Mapping[str, float]
    out: Path
    notes: tuple[str, ...] = ()
    own: bool = False  # were model and data given in Python?
    kind: str = "classification"  # of the task
    page: Path | None = None

    @property
    def winner(self) -> Row | None:
        """The best trial; None if none ended."""
        return None if self.place is None else self.rows[self.place]

    @property
    def best(self) -> dict[str, Any] | None:
        """The best values by the keys of the spec; None if no trial ended. OUT/best.toml is the spec with them."""
        return None if self.winner is None else dict(self.winner.values)

    @property
    def value(self) -> float | None:
        """What the best values reach, in what was searched for."""
        return None if self.winner is None else self.winner.value

    def __repr__(self) -> str:
        if self.winner is None:
            return f"Tuned(none of {len(self.rows)} trials ended; {self.out})"
        values = ", ".join(f"{key} = {short_value(value)}" for key, value in self.winner.values.items())
        return (
            f"Tuned({values}: "
            f"{self.aim.description} {self.aim.format_value(_or_inf(self.winner))}; {len(self.rows)} trials; {self.out})"
        )

    def __str__(self) -> str:
        return result_text(self)

    @property
    def aim(self) -> Aim:
        """What was wanted."""
        return Aim(self.metric, self.minimise, kind_score(self.kind))

    def count(self, state: str) -> int:
        """How many trials ended so."""
        return sum(row.state == state for row in self.rows)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the command line says beside the answer."""
        return self.notes

    @property
    def exit_code(self) -> int:
        """1 for a search of which no trial ended."""
        return int(self.winner is None)

    def to_dict(self) -> dict[str, Any]:
        """What `fedfleet tune --json` answers."""
        return {
            "best": json_value(self.best),
            "value": self.value,
            "trials": len(self.rows),
            "pruned": self.count("pruned"),
            "failed": self.count("failed"),
            "default_value": self.default_value,
            "best_trial": self.winner.trial if self.winner else None,
            "metric": self.metric,
            "direction": "minimise" if self.minimise else "maximise",
            "rounds": self.rounds,
            "rounds_saved": self.rounds_saved,
            "importance": dict(self.importance),
            "notes": list(self.notes),
            "out": str(self.out),
            **({} if self.page is None else {"page": str(self.page)}),
        }

    answer = to_dict  # its name before

    def text(self) -> str:
        """Everything, as tune.json holds it."""
        fields = {k: v for k, v in asdict(self).items() if k not in ("out", "space", "place", "page")}
        return json.dumps(json_value({**fields, "best": self.place, "space": dict(self.space)}), indent=1) + "\n"


def read_search_result(folder: Path) -> Tuned:
    """A search from the folder that it was carried out in."""
    try:
        result = parse_json((folder / FILE).read_text(encoding="utf-8"))
        result["place"] = result.pop("best")
        rows = [Row(**row) for row in result.pop("rows")]
        return Tuned(**{**result, "rows": rows, "seeds": tuple(result["seeds"]), "notes": tuple(result["notes"]), "out": folder})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{folder / FILE} cannot be read ({error}); run the search again") from None


def collect_result(study: Any, search: Search, out: Path) -> Tuned:
    """The answer of a study as it stands."""
    state = import_optuna().trial.TrialState
    numbers = [t.number for t in study.get_trials(deepcopy=False) if t.state != state.WAITING]
    rows = trial_rows(study, search, numbers)
    ended = [i for i, row in enumerate(rows) if row.state == "finished"]
    good = [i for i in ended if rows[i].value is not None]
    key = lambda i: (rows[i].value or 0.0) * (1 if search.aim.minimise else -1)  # noqa: E731
    best = min(good, key=key, default=min(ended, default=None))
    rounds, saved = savings(rows)
    space = {a.key: list(a.values) or {"low": a.low, "high": a.high, "log": a.log} for a in search.space}
    default = next((row.value for row in rows if row.default), None)
    return Tuned(
        search.name, search.aim.metric, search.aim.minimise, search.seeds, search.sampler, search.pruner, space, rows, best,
        default, rounds, saved, _importance(study, search), out, tuple(_notes(search)), search.own, _kind_of(study),
    )  # fmt: skip


def _kind_of(study: Any) -> str:
    """The kind of the task, as the first trial that ended says."""
    kinds = (trial.user_attrs.get("kind") for trial in study.get_trials(deepcopy=False))
    return next((kind for kind in kinds if kind), CLASSIFICATION.name)


def trial_rows(study: Any, search: Search, numbers: Sequence[int]) -> list[Row]:
    """The trials of these numbers."""
    trials = study.get_trials(deepcopy=False)
    return [_row(trials[number], search) for number in numbers]


def _row(trial: Any, search: Search) -> Row:
    attributes = trial.user_attrs
    outside = attributes.get("default", False) and not attributes.get("inside", True)
    state = "finished" if outside and "value" in attributes else _NAMES[trial.state.name]
    last = list(trial.intermediate_values.items())
    early = max(last)[1] if last and state == "pruned" else None
    return Row(
        trial.number,
        state,
        {a.key: attributes.get("values", {}).get(a.key) for a in search.space},
        attributes.get("value"),
        None if early is None or not math.isfinite(early) else early,
        0 if "same_as" in attributes else int(attributes.get("rounds", 0)),
        attributes.get("reason", ""),
        attributes.get("default", False),
        attributes.get("same_as"),
        replace(search.aim, score=kind_score(str(attributes.get("kind")))).format_value(attributes.get("value")),
    )


def savings(rows: Sequence[Row]) -> tuple[int, float]:
    """Rounds that were run, and the share that pruning saved of those that there would have been."""
    done = sum(row.rounds for row in rows)
    round_counts = [row.rounds for row in rows if row.state == "finished" and row.rounds]
    if not round_counts:
        return done, 0.0
    usual = statistics.median(round_counts)
    saved = sum(max(usual - row.rounds, 0) for row in rows if row.state == "pruned")
    return done, saved / (done + saved) if done else 0.0


def _importance(study: Any, search: Search) -> dict[str, float]:
    """How much of the spread of values each key explains by itself (fANOVA), largest first; nothing from too few trials."""
    done = [t for t in study.get_trials(deepcopy=False) if t.state.name == "COMPLETE" and math.isfinite(t.value)]
    if len(done) < 4 or len({t.value for t in done}) < 2:
        return {}
    importance = import_optuna().importance
    try:
        result = importance.get_param_importances(study, evaluator=importance.FanovaImportanceEvaluator(seed=0))
    except ImportError:  # without scikit-learn
        result = importance.get_param_importances(study, evaluator=importance.PedAnovaImportanceEvaluator())
    except (ValueError, RuntimeError):  # a key that no two trials share
        return {}
    known = [axis.key for axis in search.space]
    return {key: float(value) for key, value in result.items() if key in known and math.isfinite(value)}


def _notes(search: Search) -> list[str]:
    result: list[str] = []
    if search.pruner != "none" and not search.aim.known_early:
        result.append(f"{search.aim.metric} is known at the end of a run only, so no trial was stopped early")
    defaults = search.defaults()
    outside = [a.key for a in search.space if a.key not in defaults or not a.contains(defaults[a.key])]
    if outside:
        own = ", ".join(f"{k} = {value_text(defaults.get(k, 'not set'))}" for k in outside)
        result.append(
            f"the spec as it stands lies outside of the space ({own}); it was tried, but the search does not learn from it"
        )
    return result


def result_text(result: Tuned) -> str:
    """The answer for a person."""
    aim = result.aim
    best = result.winner
    if best is None:
        reasons = [row.reason for row in result.rows if row.reason]
        return f"none of {len(result.rows)} trials ended{': ' + reasons[0] if reasons else ''}"
    values = ", ".join(f"{key} = {short_value(value)}" for key, value in best.values.items())
    head = "best" if best.value is not None else "no trial got there; the first"
    lines = [f"{head}: {values}", f"{aim.description}: {aim.format_value(_or_inf(best))}{_default_comparison(result, best)}"]
    lines.append(
        f"{len(result.rows)} trials: {result.count('finished')} finished, {result.count('pruned')} stopped early, "
        f"{result.count('failed')} failed; {result.rounds:,} rounds, {100 * result.rounds_saved:.0f} % saved by stopping early"
    )
    if not best.default and best.value is not None:
        lines.append(how_sure(result))
    if result.importance:
        shares = ", ".join(f"{k} {100 * v:.0f} %" for k, v in result.importance.items())
        lines.append(f"what mattered among the trials that finished: {shares}")
    lines += [f"trial {r.trial} failed: {r.reason}" for r in result.rows if r.state == "failed"][:5]
    how = (
        f"fedfleet.run({str(result.out / 'best.toml')!r}, model=.., data=..)"
        if result.own
        else f"fedfleet run {shlex.quote(str(result.out / 'best.toml'))}"
    )
    return "\n".join([*lines, f"run it: {how}; page: {result.out}/report.html"])


def how_sure(result: Tuned) -> str:
    """Why the best of many trials is not as good as it looks, and what decides."""
    seeds = "one seed" if len(result.seeds) == 1 else f"the same {len(result.seeds)} seeds"
    return (
        f"The best of {result.count('finished')} finished trials on {seeds} is in part luck: before you rely on the difference, "
        "run best.toml and the spec as it stands with 5 other seeds and let fedfleet compare recommend one."
    )


def _or_inf(row: Row) -> float:
    return math.inf if row.value is None else row.value


def _default_comparison(result: Tuned, best: Row) -> str:
    default = next((row for row in result.rows if row.default), None)
    if best.default:
        return "; no trial was better than the spec as it stands"
    if default is None or default.value is None or best.value is None:
        return f"; the spec as it stands: {default.reason or 'not reached'}" if default is not None else ""
    return f", {result.aim.gain(best.value, default.value)} the spec as it stands ({result.aim.format_value(default.value)})"


def short_value(value: Any) -> str:
    """A value with no more digits than anybody would type.

    >>> short_value(0.12345678), short_value("oort"), short_value(32)
    ('0.1235', 'oort', '32')
    """
    return f"{value:.4g}" if isinstance(value, float) else value_text(value)
