"""Options from signatures: types, limits, defaults and help, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from fedfleet.app.cli.call_options import command_parameters
from fedfleet.app.cli.call_parameters import argument_help, flags_of, read_call, split_arguments
from fedfleet.app.cli.verb_records import Verb
from fedfleet.core.limits import Count


def call(
    spec: str | Path | Mapping[str, Any] | None = None,
    *overrides: str,
    count: Count | None = None,
    share: float | None = 0.5,
    cost: str | float | None = None,
    durable: bool = True,
    names: Sequence[str] = (),
    only: str | Sequence[str] | None = None,
    model: Any = None,
    loss: Callable[[Any], Any] | None = None,
    table: Mapping[str, Any] | None = None,
    noted: Annotated[int | None, "Its own help."] = None,
) -> None:
    """Do it.

    Args:
        spec: a spec file; in Python also a table.
        count: how many, on
            two lines.
        cost: `uniform`, or a number.
        share, durable: the same help.

    Not an argument: this.
    """


def listed(runs: Iterable[Result | str | Path]) -> None:  # noqa: F821
    """A name that only type checkers know is read over."""


def test_what_a_command_line_can_give_is_read_from_the_signature():
    read = {p.name: p for p in read_call(call)}
    assert set(read) == {"spec", "overrides", "count", "share", "cost", "durable", "names", "only", "noted"}
    assert (read["spec"].kind, read["cost"].kind, read["share"].kind, read["count"].kind) == (Path, str, float, int)
    assert (read["count"].minimum, read["count"].maximum) == (1, 2**31 - 1)
    assert read["names"].several and read["overrides"].several and not read["only"].several
    assert [(p.name, p.kind, p.several) for p in read_call(listed)] == [("runs", Path, True)]


def test_help_is_that_of_the_docstring():
    read = {p.name: p.help for p in read_call(call)}
    assert read["spec"] == "A spec file." and read["count"] == "How many, on two lines."
    assert read["cost"] == "uniform, or a number." and read["noted"] == "Its own help."
    assert read["share"] == read["durable"] == "The same help." and read["names"] == ""
    assert argument_help("No section.") == {}


def test_options_are_spelt_with_dashes_and_switch_off_what_is_on():
    flags = flags_of(read_call(call), {"cost": "--t-cost SECONDS"})
    assert flags["cost"] == "--t-cost" and flags["durable"] == "--no-durable" and flags["count"] == "--count"


def test_arguments_come_first_and_json_last():
    parameters = command_parameters(read_call(call), Verb("x:y", {"spec": "[SPEC]"})).parameters
    assert list(parameters)[:3] == ["spec", "overrides", "count"] and list(parameters)[-1] == "as_json"
    assert parameters["durable"].default is False and parameters["share"].default == 0.5


def test_values_arrive_as_the_call_takes_them():
    values = {"spec": Path("s"), "overrides": ["a=1"], "count": None, "durable": True, "share": 0.5}
    assert split_arguments(call, values) == ([Path("s"), "a=1"], {"durable": False, "share": 0.5})
