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

from fedfleet.core.errors import BadInput
from fedfleet.core.tensor_format import unpack_tree
from fedfleet.network.evaluation.evaluators import (
    LENGTHS,
    EvalContext,
    Head,
    decode_head,
    encode_message,
    encode_result,
    evaluate_model,
)

_NICENESS = 5  # receiving reports comes before judging models, where both want the same core


def main(descriptor: int, builder: str) -> None:
    """Judge until the socket closes."""
    connection = socket.socket(fileno=descriptor)
    questions = SimpleQueue[Head]()
    Thread(target=_listen, args=(connection, questions), daemon=True).start()
    os.nice(_NICENESS)
    try:
        context = _build(builder, questions.get())
    except Exception as error:
        _fail(connection, -1, error)
        return
    connection.sendall(encode_message({"number": -1}))
    while True:
        _answer(connection, context, questions.get())


def _listen(connection: socket.socket, questions: SimpleQueue[Head]) -> None:
    """Pass questions on; end the process, whatever it is doing, when nobody is there any more."""
    try:
        while True:
            head_size, payload_size = LENGTHS.unpack(_read(connection, LENGTHS.size))
            question = decode_head(_read(connection, head_size))
            _read(connection, payload_size)
            questions.put(question)
    except (OSError, EOFError):
        os._exit(0)


def _read(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(min(length - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _build(builder: str, facts: Head) -> EvalContext:
    module, _, name = builder.partition(":")
    build: Callable[[Head], EvalContext] = getattr(import_module(module), name)
    return build(facts)


def _answer(connection: socket.socket, context: EvalContext, head: Head) -> None:
    number = int(head["number"])
    try:
        params = unpack_tree(Path(head["path"]).read_bytes())
        result = evaluate_model(context, int(head["version"]), params, bool(head["clients"]))
    except Exception as error:
        _fail(connection, number, error)
    else:
        connection.sendall(encode_result(number, result))


def _fail(connection: socket.socket, number: int, wrong: Exception) -> None:
    """Say why; the other side raises it as what it was: a mistake of a person, or of the run."""
    facts: dict[str, Any] = {"number": number, "failed": str(wrong) or type(wrong).__name__}
    connection.sendall(encode_message({**facts, "input": isinstance(wrong, BadInput), "kind": type(wrong).__name__}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
