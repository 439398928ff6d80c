"""Commands that load when they are called, so that `fedfleet version` does not pay for `fedfleet measure`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

Verb = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Group:
    """A verb that has verbs of its own: its help text, and "module:attribute" by name."""

    help: str
    verbs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LazyVerb:
    """A verb whose options come from signatures elsewhere, which are imported only when the verb is called."""

    make: Callable[[], Verb]


def group_command(name: str, group: Group) -> Any:
    """The command of a group; it loads each of its verbs when that is needed."""

    class Loading(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            del ctx
            return list(group.verbs)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            del ctx
            if cmd_name not in self.commands and cmd_name in group.verbs:
                self.commands[cmd_name] = load_command(cmd_name, group.verbs[cmd_name])
            return self.commands.get(cmd_name)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args[0] not in group.verbs:  # suggestions come from the commands that are loaded, so load them all
                for known in group.verbs:
                    self.get_command(ctx, known)
            return super().resolve_command(ctx, args)

    return get_group(
        typer.Typer(
            name=name, cls=Loading, help=group.help, no_args_is_help=True, add_completion=False,
            pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
        )
    )  # fmt: skip


def load_command(name: str, where: str) -> Any:
    """The command of the verb at "module:attribute": a function, a group, or a verb that is made late."""
    module, _, attribute = where.partition(":")
    verb: Verb | Group | LazyVerb = getattr(import_module(module), attribute)
    if isinstance(verb, Group):
        return group_command(name, verb)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name)(verb.make() if isinstance(verb, LazyVerb) else verb)
    return get_command(app)
