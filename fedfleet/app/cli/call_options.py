"""Options of Typer from the parameters of a call."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedfleet.app.cli.call_parameters import CallParameter, flag

if TYPE_CHECKING:
    from fedfleet.app.cli.verb_records import Verb

_REQUIRED = inspect.Parameter.empty
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.")]


def command_parameters(parameters: Sequence[CallParameter], verb: Verb) -> inspect.Signature:
    """The signature of a command, as Typer reads it: arguments first, then options, then --json."""
    panels = {name: panel for panel, names in verb.panels.items() for name in names}
    arguments, options = list[inspect.Parameter](), list[inspect.Parameter]()
    for p in parameters:
        hint: Any = list[p.kind] if p.several else p.kind
        if p.name in verb.arguments or p.is_rest:
            details = typer.Argument(metavar=verb.arguments.get(p.name, "[KEY=VALUE]..."), help=p.help)
            arguments.append(_typer_parameter(p, hint, details))
            continue
        written = verb.options.get(p.name, flag(p)).split()
        details = typer.Option(
            written[0],
            metavar=written[1] if len(written) > 1 else None,
            min=p.minimum,
            max=p.maximum,
            help=p.help,
            rich_help_panel=panels.get(p.name),
        )
        options.append(_typer_parameter(p, hint, details, inverted=p.default is True))
    last = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
    return inspect.Signature([*arguments, *options, last])


def _typer_parameter(p: CallParameter, hint: Any, details: Any, *, inverted: bool = False) -> inspect.Parameter:
    required = p.default is _REQUIRED and not p.is_rest
    empty = p.default is None or p.default == () or p.is_rest
    return inspect.Parameter(
        p.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=_REQUIRED if required else None if empty else False if inverted else _default(p),
        annotation=Annotated[hint | None if empty else hint, details],
    )


def _default(p: CallParameter) -> Any:
    return Path(p.default) if p.kind is Path else p.default
