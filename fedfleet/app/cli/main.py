"""The entry point of the command line: every refusal becomes one sentence and an exit code."""

from __future__ import annotations

import atexit
import errno
import gc
import sys
from typing import Any, NoReturn

import typer

from fedfleet.app.cli.commands import group_command
from fedfleet.app.cli.usage_hints import argument_hint, option_hint, verb_hint
from fedfleet.app.cli.verb_records import Group
from fedfleet.app.cli.verbs import VERBS
from fedfleet.app.terminal.answers import LOG_LINES, Interrupted, say
from fedfleet.app.terminal.interrupts import caused_by_interrupt, safe_interrupts
from fedfleet.core.errors import FedFleetError

FEDFLEET = Group(
    "Federated learning on the devices that people really own: make fleets, measure them, train on them, see what happens.", VERBS
)
# Newer versions of Typer carry a Click of their own, so its exceptions are found through Typer's.
_USAGE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

# A path that cannot be is bad input, whatever looked at it; anything else of the system's is a failure.
_BAD_NAMES = (errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.ELOOP, errno.EINVAL)
# What the base installation, which is meant for devices, leaves out and most commands need.
_TRAIN = ("torch", "scipy", "numba", "sklearn")


def main() -> NoReturn:
    """Run the command line and exit."""
    atexit.register(gc.freeze)  # else the interpreter looks through all of torch for garbage before it goes: 0.4 s
    LOG_LINES.set(False)
    try:
        with safe_interrupts():
            code = group_command("fedfleet", FEDFLEET)(prog_name="fedfleet", standalone_mode=False)
    except _USAGE as error:
        _explain(error)
        sys.exit(2)
    except FedFleetError as error:
        say(str(error), "info" if isinstance(error, Interrupted) else "error")
        sys.exit(error.exit_code)
    except OSError as error:
        say(f"{error.filename or 'the system'}: {error.strerror or error}", "error")
        sys.exit(2 if error.errno in _BAD_NAMES else 1)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _TRAIN:
            raise
        say(f"this command needs {package}, which is not installed; install it with: pip install 'fedfleet[train]'", "error")
        sys.exit(2)
    except MemoryError:
        say("this machine does not have enough memory for this; ask for fewer clients, a smaller model or smaller batches", "error")
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except RuntimeError as error:
        if not caused_by_interrupt(error):
            raise
        code = 130
    if code == 130:  # newer versions of Typer answer so to Ctrl-C, older ones raise
        say("interrupted")
    sys.exit(code if isinstance(code, int) else 0)


def _explain(wrong: Any) -> None:
    """Say in one sentence what is wrong with the words of the command line."""
    text, context = wrong.format_message().strip(), getattr(wrong, "ctx", None)
    if type(wrong).__name__ == "NoArgsIsHelpError":  # its message is the help itself
        typer.echo(text, err=True)
        return
    hint = ""
    if type(wrong).__name__ == "NoSuchOption":
        hint = option_hint(wrong.option_name, context, sys.argv)
    elif context is None or context.parent is None:
        hint = verb_hint(sys.argv[1:], VERBS)
    elif type(wrong).__name__ == "MissingParameter":
        hint = argument_hint(context)
    say(hint or f"{text.rstrip('.?')}. See: {context.command_path if context else 'fedfleet'} --help")


if __name__ == "__main__":
    main()
