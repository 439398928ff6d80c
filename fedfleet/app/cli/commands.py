"""From the table of verbs to commands. A command is made when it is used, so that `fedfleet version` does not pay for `measure`."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from fedfleet.app.cli.call_options import command_parameters
from fedfleet.app.cli.call_parameters import flags_of, read_call, split_arguments
from fedfleet.app.cli.verb_records import Group, Verb
from fedfleet.app.terminal.answers import AS_JSON, OPTION_NAMES, OWN_DATA, Interrupted, print_answer
from fedfleet.app.terminal.own_options import cure_options, with_option_names
from fedfleet.core.errors import BadInput, CurableInput

Call = Callable[..., Any]


def group_command(name: str, group: Group) -> Any:
    """The command of a group; it loads each of its verbs when that is needed."""

    class LazyGroup(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            del ctx
            return list(group.verbs)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            del ctx
            if cmd_name not in self.commands and cmd_name in group.verbs:
                self.commands[cmd_name] = verb_command(cmd_name, group.verbs[cmd_name])
            return self.commands.get(cmd_name)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args[0] not in group.verbs:  # suggestions come from the commands that are loaded, so load them all
                for known in group.verbs:
                    self.get_command(ctx, known)
            return super().resolve_command(ctx, args)

    return get_group(
        typer.Typer(
            name=name, cls=LazyGroup, help=group.help, no_args_is_help=True, add_completion=False,
            pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
        )
    )  # fmt: skip


def verb_command(name: str, verb: Verb | Group) -> Any:
    """The command of a verb; its module is imported now."""
    if isinstance(verb, Group):
        return group_command(name, verb)
    module, _, attribute = verb.call.partition(":")
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name)(_command_function(verb, getattr(import_module(module), attribute)))
    return get_command(app)


def _command_function(verb: Verb, call: Call) -> Call:
    """The function that Typer calls: it calls the Python call, under the names of the options, and prints what it gives back."""
    parameters = read_call(call)
    flags = flags_of(parameters, verb.options)

    def command(*, as_json: bool, **values: Any) -> None:
        positional, keywords = split_arguments(call, values)
        json_before, names_before = AS_JSON.set(as_json), OPTION_NAMES.set(flags)
        own_before = OWN_DATA.set("label" in flags and values.get("data") is not None)
        try:
            result = call(*positional, **keywords, **verb.supplied)
            if result is not None:
                exit_code = print_answer(result)
                if exit_code:
                    raise typer.Exit(exit_code)
        except BadInput as error:
            raise _in_option_words(error, flags) if OWN_DATA.get() else error from None
        except KeyboardInterrupt:
            if not verb.interrupted:
                raise
            raise Interrupted(verb.interrupted) from None
        finally:
            OWN_DATA.reset(own_before)
            AS_JSON.reset(json_before)
            OPTION_NAMES.reset(names_before)

    command.__signature__ = command_parameters(parameters, verb)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in command.__signature__.parameters.values()}  # type: ignore[attr-defined]
    command.__doc__ = help_text(call)
    return command


def _in_option_words(error: BadInput, flags: Mapping[str, str]) -> BadInput:
    """A refusal in the words of the options, with the whole command that a cure makes of the one that was typed."""
    text = with_option_names(str(error), flags)
    if not isinstance(error, CurableInput) or not error.cure:
        return BadInput(text)
    command = shlex.join(["fedfleet", *sys.argv[1:], *cure_options(error.cure, flags)])
    return BadInput(f"{text}; the whole command: {command}")


def help_text(call: Call) -> str:
    """What a call does, without its Args section and its examples: the paragraphs up to `Args:`.

    >>> help_text(lambda: None)
    ''
    """
    text = (inspect.getdoc(call) or "").partition("\n\nArgs:")[0]
    return "\n\n".join(part for part in text.split("\n\n") if not part.startswith((">>>", "Args:")))
