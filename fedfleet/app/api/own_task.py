"""A task that a person names by the places of their data and model: `--data my.csv --label activity --model model.py:Net`.

Places become keys of the spec's [task], so that everything that takes a spec takes them: runs, studies, searches, predictions,
servers. What is given as objects (a module, arrays) stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.spec import apply_overrides, plain_table, set_values, spec_table
from fedfleet.app.terminal.answers import OPTION_NAMES, option_name
from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder

Names = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of the data are the label, the owner, the inputs and the time, and which are not read; which kind of task they
    make, and what becomes of missing values."""

    label: Names | None = None
    owner: str | None = None
    input: Names | None = None
    drop: Names | None = None
    time: str | None = None
    kind: str | None = None
    missing: str | None = None

    def settings(self) -> dict[str, Any]:
        """What is given, as keys of a task."""
        found = {
            "label": _names(self.label),
            "owner": self.owner,
            "input": _names(self.input, split=True),
            "drop": _names(self.drop, split=True),
            "time": self.time,
            "kind": self.kind,
            "missing": self.missing,
        }
        return {key: value for key, value in found.items() if value is not None}


def _names(given: Names | None, *, split: bool = False) -> str | list[str] | None:
    """One name, or several; those of one option may be separated by commas."""
    if given is None or isinstance(given, str):
        return given
    names = list(given)
    if split and OPTION_NAMES.get() is not None:
        names = [name.strip() for one in names for name in one.split(",") if name.strip()]
    # One name from the command line is a list of one.
    return names[0] if len(names) == 1 else names or None


NO_COLUMNS = Columns()


def read_user_data(source: Any, columns: Columns = NO_COLUMNS) -> Any:
    """What a person gave as data beside a model of their own: a file, a folder or a table is read, arrays stay as they are."""
    from fedfleet.tasks.data_checks import checked_data
    from fedfleet.tasks.user_data import samples

    settings = columns.settings()
    if not settings or source is None:
        return samples.read_user_data(source)
    if not isinstance(source, list | tuple):
        return samples.data(source, **settings)
    others = [name for name in settings if name != "kind"]
    if others:
        raise BadInput(f"{others[0]} names a column, and arrays have none; give data=(inputs, labels, owners)")
    checked = checked_data(source, settings["kind"])
    return samples.OwnData(checked.x, checked.y, checked.owner, kind=checked.kind)


def names_task(model: Any, data: Any) -> bool:
    """Are model and data given by their places, so that a spec can hold them?"""
    places = data is None or isinstance(data, str | Path)
    return places and (model is None or isinstance(model, str)) and not (model is None and data is None)


SpecSource = str | Path | Mapping[str, Any] | None


def take_task(
    spec: SpecSource, overrides: Sequence[str], model: Any, data: Any, columns: Columns = NO_COLUMNS
) -> tuple[dict[str, Any], str]:
    """The spec as a table, with the task that model, data and columns name where they are given; and the name of its runs."""
    if data is not None and isinstance(spec, str | Path) and "=" in str(spec) and not Path(spec).exists():
        spec, overrides = None, [str(spec), *overrides]  # with data of one's own a spec may be left out
    refuse_nothing(spec, data)
    refuse_columns(columns, data)
    if not names_task(model, data):
        return spec_table({} if spec is None else spec, overrides)
    table, name = spec_table({} if spec is None else spec)
    name = Path(data).stem if spec is None and data is not None else name
    # What is written out in words may change how the data are read.
    return dealt_by_owner(apply_overrides(with_named_task(table, model, data, columns), overrides)), name


def refuse_nothing(spec: SpecSource, data: Any) -> None:
    """Refuse a call that names neither a spec nor data."""
    if spec is None and data is None:
        option = option_name("data")
        own = f"{option} FILE" if option.startswith("-") else "data="
        raise BadInput(f"nothing to train: give a spec, or your own data with {own}")


def with_named_task(table: Mapping[str, Any], model: Any, data: Any, columns: Columns) -> dict[str, Any]:
    """The spec's table with the task that model, data and columns name; code that is named here is trusted from now on."""
    plain = plain_table(table)
    task = plain.get("task")
    is_table = task == "table" or (isinstance(task, Mapping) and task.get("use") == "table")
    if data is None and not is_table:
        raise BadInput(
            f"{option_name('model')} {model}: a model of your own needs data of your own; give {option_name('data')} FILE too, or "
            "name task.path in the spec; a model that ships with FedFleet is part of a task: task.use=NAME (fedfleet list tasks)"
        )
    settings = {f"task.{key}": value for key, value in columns.settings().items()}
    if data is not None:
        settings |= {"task.path": str(data), "task.content": None}
    if isinstance(model, str):
        settings |= {"task.model": model, "task.code": None} | _trusted(model)
    changed = set_values(plain, {"task.use": "table", **settings})
    changed["task"] = {key: value for key, value in changed["task"].items() if value is not None}
    return changed


def _trusted(model: str) -> dict[str, Any]:
    """The hash of code that is named, which is trusted by being named; nothing for a model that ships."""
    from fedfleet.tasks.model_code import code_name, trust_file

    return {} if code_name(model) is None else {"task.code": trust_file(model)}


def dealt_by_owner(table: dict[str, Any]) -> dict[str, Any]:
    """The table with data dealt by owner, where they say who made each sample and the table does not say how they are dealt."""
    world = table.get("world", {})
    if not isinstance(world, Mapping) or "data" in world:
        return table
    from fedfleet.app.spec.table_checks import resolve_part
    from fedfleet.core.pins import complete
    from fedfleet.tasks.table import has_owners

    resolved = complete(builder("tasks", "table"), resolve_part("tasks", table["task"], "task"))
    return set_values(table, {"world.data": {"use": "by_owner"}}) if has_owners(resolved) else table


def refuse_columns(columns: Columns, data: Any) -> None:
    """Refuse names of columns without the data that would have them."""
    given = [name for name in ("label", "owner", "input", "drop", "time", "kind", "missing") if getattr(columns, name)]
    if given and data is None:
        raise BadInput(
            f"{option_name(given[0])} says how to read data; give {option_name('data')} FILE too, or write "
            f"task.{given[0]}=.. for the task of the spec"
        )
