"""The process that judges models: `python -m fedfleet.network.evaluation.child_process DESCRIPTOR MODULE:FUNCTION`.

The first message says what to judge with (`function(facts)` builds it), every other one names a file with a model. The process
ends when the socket closes, also in the midst of its work, and so never outlives the server.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from fedfleet.core.container import unpacked
from fedfleet.core.errors import BadInput
from fedfleet.network.evaluation.results import LENGTHS, Court, Head, head_of, judged, judged_message, message

_KINDNESS = 5  # receiving reports comes before judging models, where both want the same core


def main(descriptor: int, builder: str) -> None:
    """Judge until the socket closes."""
    line = socket.socket(fileno=descriptor)
    asked = SimpleQueue[Head]()
    Thread(target=_listen, args=(line, asked), daemon=True).start()
    os.nice(_KINDNESS)
    try:
        court = _build(builder, asked.get())
    except Exception as wrong:
        _fail(line, -1, wrong)
        return
    line.sendall(message({"number": -1}))
    while True:
        _answer(line, court, asked.get())


def _listen(line: socket.socket, asked: SimpleQueue[Head]) -> None:
    """Pass questions on; end the process, whatever it is doing, when nobody is there any more."""
    try:
        while True:
            head, payload = LENGTHS.unpack(_read(line, LENGTHS.size))
            found = head_of(_read(line, head))
            _read(line, payload)
            asked.put(found)
    except (OSError, EOFError):
        os._exit(0)


def _read(line: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        piece = line.recv(min(length - len(found), 1 << 20))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)


def _build(builder: str, facts: Head) -> Court:
    module, _, name = builder.partition(":")
    build: Callable[[Head], Court] = getattr(import_module(module), name)
    return build(facts)


def _answer(line: socket.socket, court: Court, head: Head) -> None:
    number = int(head["number"])
    try:
        params = unpacked(Path(head["path"]).read_bytes())
        found = judged(court, int(head["version"]), params, bool(head["clients"]))
    except Exception as wrong:
        _fail(line, number, wrong)
    else:
        line.sendall(judged_message(number, found))


def _fail(line: socket.socket, number: int, wrong: Exception) -> None:
    """Say why; the other side raises it as what it was: a mistake of a person, or of the run."""
    facts: dict[str, Any] = {"number": number, "failed": str(wrong) or type(wrong).__name__}
    line.sendall(message({**facts, "input": isinstance(wrong, BadInput), "kind": type(wrong).__name__}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
