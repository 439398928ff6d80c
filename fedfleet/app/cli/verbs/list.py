"""`fedfleet list`: which parts there are."""

from __future__ import annotations

from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer
from fedfleet.core.errors import BadInput
from fedfleet.core.registry import KINDS


def list_parts(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the parts of a kind, with their parameters; of tasks also whether their data are here."""
    if kind is None:
        raise BadInput(f"say which kind of part to list: fedfleet list KIND, with one of {', '.join(KINDS)}")
    from fedfleet.app.spec.parameter_text import describe_parts
    from fedfleet.app.terminal.text import parts_text

    answer(describe_parts(kind), as_json, parts_text)
