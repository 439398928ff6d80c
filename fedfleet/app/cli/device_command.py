"""The command `fedfleet-device`, for small devices: the options of `fedfleet device` without the packages that draw its help.

The options come from the same table of verbs and the same signature; only the words of the help look plainer. What trains is numpy
unless another engine is asked for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from fedfleet.app.cli.call_parameters import CallParameter, flag, flags_of, read_call
from fedfleet.app.cli.verb_records import Verb
from fedfleet.app.terminal.answers import AS_JSON, OPTION_NAMES, print_answer, say
from fedfleet.core.errors import BadInput, FedFleetError

DEFAULTS: Mapping[str, Any] = {"engine": "numpy"}  # of a device that has nothing else
_EXTRAS = {"grpc": "gRPC is not installed; give the URL of the server's HTTP door, --server https://HOST:PORT, or install grpcio"}


def main() -> NoReturn:
    """Run the command and exit."""
    from fedfleet.app.cli.verbs import VERBS

    verb = VERBS["device"]
    assert isinstance(verb, Verb)
    try:
        code = run_verb("fedfleet-device", verb, sys.argv[1:], DEFAULTS)
    except FedFleetError as error:
        say(str(error), "error")
        code = error.exit_code
    except OSError as error:
        say(f"{error.filename or 'the system'}: {error.strerror or error}", "error")
        code = 1
    except ModuleNotFoundError as error:
        say(_missing(error), "error")
        code = 2
    except MemoryError:
        say("this machine does not have enough memory for this task", "error")
        code = 1
    except KeyboardInterrupt:
        say("interrupted")
        code = 130
    sys.exit(code)


def run_verb(name: str, verb: Verb, words: Sequence[str], defaults: Mapping[str, Any]) -> int:
    """Carry out a verb on these words; `defaults` stand in for those of its signature. The exit code."""
    module, _, attribute = verb.call.partition(":")
    call: Callable[..., Any] = getattr(import_module(module), attribute)
    parameters = read_call(call)
    values = vars(argument_parser(name, call, parameters, verb.options, defaults).parse_args(words))
    json_before, names_before = AS_JSON.set(values.pop("as_json")), OPTION_NAMES.set(flags_of(parameters, verb.options))
    try:
        return print_answer(call(**{n: v for n, v in values.items() if v is not None}))
    finally:
        AS_JSON.reset(json_before)
        OPTION_NAMES.reset(names_before)


def argument_parser(
    name: str,
    call: Callable[..., Any],
    parameters: Sequence[CallParameter],
    written: Mapping[str, str],
    defaults: Mapping[str, Any],
) -> argparse.ArgumentParser:
    """A parser of the standard library with an option for each parameter of a call."""
    parser = _Parser(prog=name, description=(call.__doc__ or "").partition("\n")[0], allow_abbrev=False)
    for p in parameters:
        option, _, metavar = written.get(p.name, flag(p)).partition(" ")
        default = defaults.get(p.name, p.default)
        shown = "" if default in (None, False, ()) else f" [default: {default}]"
        details: dict[str, Any] = {"dest": p.name, "help": (p.help + shown).replace("%", "%%")}
        if p.kind is bool:
            parser.add_argument(option, action="store_true", default=None, **details)
        else:
            parser.add_argument(
                option, type=_reader(p), metavar=metavar or p.kind.__name__.upper(), default=defaults.get(p.name), **details
            )
    parser.add_argument("--json", dest="as_json", action="store_true", help="Print one JSON object on standard output.")
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser whose refusal is one sentence."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message.removeprefix('argument ')}. See: {self.prog} --help")


def _reader(p: CallParameter) -> Callable[[str], Any]:
    """What makes a value of a word, within the limits of its parameter."""

    def read(word: str) -> Any:
        try:
            value = p.kind(word)
        except (ValueError, OverflowError):
            raise argparse.ArgumentTypeError(f"{word!r} is not {'a whole number' if p.kind is int else 'a number'}") from None
        if (p.minimum is not None and not value >= p.minimum) or (p.maximum is not None and not value <= p.maximum):
            limits = [f"at least {p.minimum}"] * (p.minimum is not None) + [f"at most {p.maximum}"] * (p.maximum is not None)
            raise argparse.ArgumentTypeError(f"{word} must be {' and '.join(limits)}")
        return value

    return read


def _missing(error: ModuleNotFoundError) -> str:
    package = (error.name or "").partition(".")[0]
    if package == "fedfleet":
        return f"this needs {error.name}, which fedfleet-device leaves out; install all of FedFleet: pip install 'fedfleet[train]'"
    return _EXTRAS.get(package, f"this needs {package}, which is not installed; install it with: pip install {package}")
