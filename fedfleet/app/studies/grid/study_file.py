"""The study file: one question as a grid or a list of specs, with seeds, scales and analyses.

base = "spec.toml"             # a spec in the same folder, or the spec itself as a table
seeds = 5                      # a count, or a list; each arm is run once with each
baseline = "pace.seconds=60"   # the arm that the others are compared with
target = 0.8                   # to be reached: a score, "rmse <= 3.5", or "0.95 of best of ARM"
[grid]                         # every combination of these is an arm
"pace.seconds" = [60.0, 120.0]
[[grid.world]]                 # a table among the values may have a name, by which its arms are called
name = "mild"
[[runs]]                       # or arms by name; with a grid too, each is run at every point of it
name = "patient"
pace = { use = "readiness" }
[scale.quick]                  # what --scale quick changes: spec keys, seeds, lists of the grid
seeds = 2
stop.rounds = 10
[[analysis]]
kind = "table"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedfleet.app.spec import read_table, set_values
from fedfleet.app.spec.resolution import DEFAULTS
from fedfleet.app.spec.spec_record import TABLES
from fedfleet.app.studies.compare.criteria import DEFAULT_AIM, check_aim
from fedfleet.app.studies.grid.analyses import Analysis, ShareOfBest, check_analysis, check_target, parse_target
from fedfleet.core.errors import BadInput, nearest_file, suggest_name
from fedfleet.measure.goal import target_of

KEYS = ("name", "base", "seeds", "baseline", "target", "aim", "grid", "runs", "scale", "analysis")
_MOST_SEEDS = 10_000
_LONGEST_WORDS = 60  # letters of an arm, in the name of a folder
_PARTS = {*DEFAULTS, "edge", "world.users", "world.faults"}  # what a bare name may stand for


@dataclass(frozen=True, slots=True)
class Arm:
    """One thing to be compared: the keys in which its spec differs from the base, by their dotted names."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Study:
    """A study, checked as far as the file alone can be. `draws` are seeds of parts of a run (`seeds.fleet`, ..) that the grid
    names: they make repetitions of an arm, not arms."""

    name: str
    base: dict[str, Any]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    draws: tuple[Mapping[str, int], ...] = ({},)
    scale: str | None = None
    analyses: tuple[Analysis, ...] = ()
    baseline: str | None = None
    target: float | str | None = None
    aim: str = DEFAULT_AIM


def read_study(path: str | Path, *, scale: str | None = None) -> Study:
    """Read a study file; `base` is looked for in its folder."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise BadInput(f"there is no study file {path}{nearest_file(path)}") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder; give a study file in TOML") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the study {path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the study {path} is not valid TOML: {error}") from None
    try:
        return study_of(table, path.stem, folder=path.parent, scale=scale)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def study_of(table: Mapping[str, Any], name: str = "study", *, folder: Path = Path("."), scale: str | None = None) -> Study:
    """The study that a table describes; nothing of it has been run."""
    for key in table:
        if key not in KEYS:
            hint = f"; keys of a spec go below base, as in base.{key}" if key in TABLES else suggest_name(key, KEYS)
            # A list of arms, whose name lacks a letter; the settings of [run] are a table.
            hint = "; did you mean 'runs'?" if key == "run" and isinstance(table[key], list) else hint
            if not {"base", "runs", "grid"} & {*table}:
                hint = f"{hint}; if this is the spec of one run, use: fedfleet run SPEC"
            raise BadInput(f"the study has no key {key!r}{hint}")
    base = _base(table.get("base"), folder)
    table, base = _apply_scale(table, base, scale)
    grid, draws = _grid(table.get("grid", {}))
    arms = tuple(_arms(grid, _runs(table.get("runs"))))
    baseline = table.get("baseline")
    names = [arm.name for arm in arms]
    if baseline is not None and baseline not in names:
        raise BadInput(f"baseline = {baseline!r} is not an arm of this study{suggest_name(str(baseline), names)}")
    target = check_target(table.get("target", target_of(_stop(base))), "target", names)
    analyses = tuple(_analyses(table.get("analysis", []), names))
    _check_answerable(target, baseline, analyses)
    return Study(
        name=_text(table.get("name", name), "name"),
        base=base,
        arms=arms,
        seeds=_seeds(table.get("seeds"), base),
        draws=draws,
        scale=scale,
        analyses=analyses,
        baseline=baseline,
        target=target,
        aim=check_aim(table.get("aim", DEFAULT_AIM), "aim"),
    )


def study_text(study: Study, *, own: bool = False) -> str:
    """The study as a file that asks for the same runs, its scale applied; `own`: model and data were given in Python."""
    import tomli_w

    draws = {key: sorted({draw[key] for draw in study.draws}) for key in study.draws[0]}
    table: dict[str, Any] = {
        "name": study.name,
        "seeds": list(study.seeds),
        **{key: value for key in ("baseline", "target") if (value := getattr(study, key)) is not None},
        **({} if study.aim == DEFAULT_AIM else {"aim": study.aim}),
        "base": {**study.base, "task": {"use": "own"}} if own else study.base,
        "runs": [{"name": arm.name, **arm.settings} for arm in study.arms],
        **({"grid": draws} if draws else {}),
        "analysis": [{"kind": a.kind, "title": a.title, **_without_none(a.settings)} for a in study.analyses],
    }
    return tomli_w.dumps(_without_none(table))


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _without_none(v) if isinstance(v, Mapping) else v for key, v in table.items() if v is not None}


# ---- base and scales ----------------------------------------------------------------------------------------------


def _base(setting: Any, folder: Path) -> dict[str, Any]:
    if setting is None:
        raise BadInput('the study needs base = "spec.toml", the spec that its arms change; or the spec itself below [base]')
    if isinstance(setting, str):
        return read_table(folder / setting)
    if not isinstance(setting, Mapping):
        raise BadInput(f"base = {setting!r} is neither the path of a spec nor a table")
    return dict(setting)


def _apply_scale(table: Mapping[str, Any], base: dict[str, Any], scale: str | None) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The study and its base with what a scale changes; every scale is looked at, whichever is asked for."""
    scales = _mapping(table.get("scale", {}), "scale", "[scale.quick]")
    for name, body in scales.items():
        for key in _mapping(body, f"scale.{name}", f"[scale.{name}]"):
            known = ("seeds", "grid", "target", *(k for k in TABLES if k != "seed"))
            if key.partition(".")[0] not in known:
                raise BadInput(f"scale.{name} has no key {key!r}{suggest_name(key, known)}")
        own = flatten(_mapping(table.get("grid", {}), "grid", "[grid]"))
        for key in flatten(_mapping(body.get("grid", {}), f"scale.{name}.grid", f"[scale.{name}.grid]")):
            if key not in own:
                raise BadInput(f"scale.{name}.grid has {key!r}, which [grid] does not have{suggest_name(key, own)}")
    if scale is None:
        return table, base
    if scale not in scales:
        have = suggest_name(scale, scales) if scales else "; it has no scales, so leave --scale out"
        raise BadInput(f"--scale {scale}: this study has no [scale.{scale}]{have}")
    body = scales[scale]
    spec = {k: v for k, v in body.items() if k not in ("seeds", "grid", "target")}
    own = {k: body[k] for k in ("seeds", "target") if k in body}
    grid = {"grid": {**flatten(table["grid"]), **flatten(body.get("grid", {}))}} if "grid" in table else {}
    return {**table, **own, **grid}, set_values(base, flatten(spec))


# ---- arms ---------------------------------------------------------------------------------------------------------


def _grid(setting: Any) -> tuple[list[dict[str, Any]], tuple[dict[str, int], ...]]:
    """All combinations of the grid's lists, those of arms and those of seeds apart."""
    grid = flatten(_mapping(setting, "grid", "[grid]"))
    arms: list[dict[str, Any]] = [{}]
    draws: list[dict[str, int]] = [{}]
    for key, values in grid.items():
        first = key.partition(".")[0]
        if key == "seed":
            raise BadInput("grid: seeds are not arms; write seeds = [..] above [grid]")
        if first == "run":
            raise BadInput(
                f"grid: {key!r} sets how to run, not what to run, so it cannot make arms; set it in the base or with --workers"
            )
        if first not in TABLES and first != "seeds":
            raise BadInput(f"grid: no spec has a key {key!r}{suggest_name(first, TABLES)}")
        if not isinstance(values, list) or not values:
            raise BadInput(f'grid: "{key}" = {values!r} is not a list of values; write [..]')
        if any(value in values[:i] for i, value in enumerate(values)):
            raise BadInput(f'grid: "{key}" names a value twice')
        if first == "seeds":
            draws = [{**draw, key: value} for draw in draws for value in values]
        else:
            arms = [{**arm, key: value} for arm in arms for value in values]
    return arms, tuple(draws)


def _runs(setting: Any) -> list[Arm]:
    if setting is None:
        return []
    if not isinstance(setting, list) or not setting:
        raise BadInput("runs must be a list of tables: write [[runs]], with two brackets")
    result: list[Arm] = []
    for i, body in enumerate(setting):
        where = f"runs[{i}]"
        own = dict(_mapping(body, where, "[[runs]]"))
        name = _text(own.pop("name", None), f"{where}.name")
        settings = flatten(own)
        for key in settings:
            first = key.partition(".")[0]
            if first not in TABLES or first in ("seed", "run"):
                raise BadInput(f"{where} ({name}): an arm cannot set the key {key!r}{suggest_name(first, (*TABLES, 'name'))}")
        if name in [arm.name for arm in result]:
            raise BadInput(f"{where}: there is already a run called {name!r}")
        result.append(Arm(name, settings))
    return result


def _arms(grid: Sequence[Mapping[str, Any]], runs: Sequence[Arm]) -> list[Arm]:
    """The named runs, each at every point of the grid; a table sets its keys, whether it stands in a run or in a grid."""
    result: list[Arm] = []
    for arm in runs or [Arm("")]:
        for point in grid:
            words, settings = _point(point)
            result.append(Arm(", ".join(filter(None, (arm.name, words))) or "base", {**arm.settings, **settings}))
    return result


def _point(point: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What a point of the grid is called, and its settings: a table that has a name is called so."""
    words, settings = list[str](), dict[str, Any]()
    for key, value in point.items():
        named = isinstance(value, Mapping) and "name" in value
        words.append(_text(value["name"], f"grid.{key}.name") if named else f"{key}={value_text(value)}")
        settings |= flatten({key: {k: v for k, v in value.items() if k != "name"} if named else value})
    return ", ".join(words), settings


def flatten(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys; lists and empty tables are values, and a bare name of a part is its `use`.

    >>> flatten({"pace": {"use": "deadline", "seconds": 60.0}, "stop.rounds": 5, "choose": "oort"})
    {'pace.use': 'deadline', 'pace.seconds': 60.0, 'stop.rounds': 5, 'choose.use': 'oort'}
    """
    result: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            result |= flatten(value, f"{path}{key}.")
        elif isinstance(value, str) and f"{path}{key}" in _PARTS:
            result[f"{path}{key}.use"] = value
        else:
            result[f"{path}{key}"] = value
    return result


def folder_words(arm: str) -> str:
    """How the folders of an arm's runs begin; long names are cut, so arms may share it.

    >>> folder_words("severe, pace=deadline(seconds=60.0)")
    'severe-pace-deadline-seconds-60.0'
    """
    return re.sub(r"[^a-z0-9.]+", "-", arm.lower()).strip("-.")[:_LONGEST_WORDS].rstrip("-.") or "arm"


def value_text(value: Any) -> str:
    """A value of a spec in the name of an arm.

    >>> value_text({"use": "deadline", "seconds": 60.0}), value_text("oort"), value_text([0.5, True])
    ('deadline(seconds=60.0)', 'oort', '[0.5, true]')
    """
    if isinstance(value, Mapping):
        rest = ", ".join(f"{k}={value_text(v)}" for k, v in value.items() if k != "use")
        return f"{value['use']}({rest})" if rest and "use" in value else str(value.get("use", f"({rest})"))
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---- seeds, target, analyses ----------------------------------------------------------------------------------------


def _seeds(setting: Any, base: Mapping[str, Any]) -> tuple[int, ...]:
    if setting is None:
        return (base.get("seed", 0),)
    if type(setting) is int and 0 < setting <= _MOST_SEEDS:
        return tuple(range(setting))
    listed: list[Any] = list(setting) if isinstance(setting, list) else []
    if not listed or any(type(seed) is not int or seed < 0 for seed in listed) or len({*listed}) < len(listed):
        raise BadInput(
            f"seeds = {setting!r}: give the number of seeds, or a list of different whole numbers, for example [0, 1, 2]"
        )
    return tuple(listed)


def _analyses(setting: Any, arms: Sequence[str]) -> list[Analysis]:
    if not isinstance(setting, list):
        raise BadInput("analysis must be a list of tables: write [[analysis]], with two brackets")
    return [
        check_analysis(_mapping(body, f"analysis[{i}]", "[[analysis]]"), f"analysis[{i}]", arms) for i, body in enumerate(setting)
    ]


def _check_answerable(target: float | str | None, baseline: str | None, analyses: Sequence[Analysis]) -> None:
    """Refuse what cannot be answered for want of a baseline or a target."""
    targets = {"target": target, **{f"analysis[{i}].target": a.settings.get("target") for i, a in enumerate(analyses)}}
    for where, entry in targets.items():
        parsed = parse_target(entry)
        if isinstance(parsed, ShareOfBest) and parsed.arm == "baseline" and baseline is None:
            raise BadInput(f'{where} = "{entry}": the study names no baseline; write baseline = "ARM" at its top')
    for i, entry in enumerate(analyses):
        if entry.kind == "time_to_accuracy" and target is None and entry.settings["target"] is None:
            raise BadInput(
                f'analysis[{i}] needs a target accuracy or measure; write target = 0.8 or "rmse <= 3.5" there or at the top of the '
                "study"
            )
        if entry.kind == "paired_test" and baseline is None and entry.settings["baseline"] is None:
            raise BadInput(f'analysis[{i}] needs an arm to compare with; write baseline = "ARM" there or at the top of the study')


def _stop(base: Mapping[str, Any]) -> Mapping[str, Any]:
    result = base.get("stop", {})
    return result if isinstance(result, Mapping) else {}


def _mapping(setting: Any, where: str, example: str) -> Mapping[str, Any]:
    if not isinstance(setting, Mapping):
        raise BadInput(f"{where} = {setting!r} is not a table; write {example}")
    return setting


def _text(setting: Any, where: str) -> str:
    if not isinstance(setting, str) or not setting.strip():
        raise BadInput(f"{where} must be a name in quotes")
    if not setting.isprintable():
        raise BadInput(f"{where} = {setting!r} has a line break or another character that cannot be printed; remove it")
    return setting
