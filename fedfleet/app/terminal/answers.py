"""What all verbs share: the application object, the --json switch, and how an answer is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="fedfleet",
    help="Federated learning on the devices that people really own: make fleets, measure them, train on them, see what happens.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.")
]


def answer(value: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], str]) -> None:
    """Print for a program or for a person."""
    typer.echo(json.dumps(value) if as_json else show(value))
