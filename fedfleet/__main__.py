"""The command `fedfleet`, and `python -m fedfleet`: Ctrl-C ends it in one line from its first import to its last."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line and exit.

    While modules are loaded an interrupt ends the process at once: it would become whatever the module in the middle makes of it.
    """
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where a shell started it deaf to interrupts
    if heard:
        signal.signal(signal.SIGINT, _end_process)
    from fedfleet.app.cli.main import main as run_command_line

    try:
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run_command_line()
    finally:
        if heard:
            signal.signal(signal.SIGINT, _end_process)


def _end_process(*_: object) -> NoReturn:
    os.write(2, b"fedfleet: interrupted\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
