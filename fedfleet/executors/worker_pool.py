"""A crew: long-lived worker processes that take pieces of work; one that dies loses nothing but time.

A worker is a command that calls `attend`. It gets pieces as lines of JSON on its standard input and answers on its standard output;
whatever else it prints goes to the log. When the process that started it is gone, its input ends, and it ends too.
"""

from __future__ import annotations

import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from fedfleet.core.errors import FedFleetError, RunFailed

Body = dict[str, Any]
Tell = Callable[[Body], None]
Work = Callable[[Body, Tell], Body]
TRIES = 3  # how often a piece, or the start of a worker, may end in a death
_PATIENCE = 5.0  # seconds that a worker has to end by itself


@dataclass(frozen=True, slots=True)
class Said:
    """What a worker said about a piece: on the way, or at its end. `failure` is why a piece has no answer; "": it has.

    `died` counts the workers that a piece has cost so far.
    """

    piece: int
    body: Body
    ended: bool = False
    failure: str = ""
    died: int = 0


# ---- the process that has the work ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Hand:
    """One worker: its process, what it has said but not finished saying, the piece it has, and whether it is there yet."""

    process: subprocess.Popen[bytes]
    text: bytes = b""
    piece: int | None = None
    ready: bool = False


@dataclass(slots=True)
class _Crew:
    """The workers, the pieces that wait, and how many workers each piece has cost. It has processes to end: `close` does."""

    command: Sequence[str]
    pieces: Sequence[Mapping[str, Any]]
    log: Path
    env: Mapping[str, str] | None
    waiting: deque[int]
    died: dict[int, int] = field(default_factory=dict[int, int])
    stillborn: int = 0
    hands: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def close(self) -> None:
        """End every worker: its input ends, and after a while it is killed."""
        there: list[_Hand] = [key.data for key in self.hands.get_map().values()]
        for hand in there:
            _end_input(hand)
        for hand in there:
            try:
                hand.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                hand.process.kill()
                hand.process.wait()
            _out(hand).close()
        self.hands.close()


def crew(
    command: Sequence[str],
    pieces: Sequence[Mapping[str, Any]],
    workers: int,
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
) -> Generator[Said]:
    """Have all pieces done by so many processes of this command; what they say, as it comes, with one end for every piece.

    A piece whose worker dies is given to another, three times at most. Whoever stops listening ends the workers.
    """
    mine = _Crew(command, pieces, log, env, deque(range(len(pieces))))
    left = len(pieces)
    try:
        for _ in range(min(workers, left)):
            _hire(mine)
        while left:
            for key, _ in mine.hands.select():
                for said in _heard(mine, key.data):
                    left -= said.ended
                    yield said
    finally:
        mine.close()


def _hire(mine: _Crew) -> None:
    with mine.log.open("ab") as log, deaf_to_interrupts():
        pipe = subprocess.PIPE
        process = subprocess.Popen(mine.command, stdin=pipe, stdout=pipe, stderr=log, bufsize=0, env=mine.env)
    hand = _Hand(process)
    mine.hands.register(_out(hand), selectors.EVENT_READ, hand)


class deaf_to_interrupts:  # noqa: N801
    """What is started inside never hears Ctrl-C, which a terminal sends to the whole group: only the one who asked ends it."""

    def __enter__(self) -> None:
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)


def _heard(mine: _Crew, hand: _Hand) -> Iterator[Said]:
    got = os.read(_out(hand).fileno(), 1 << 16)
    if not got:
        yield from _lost(mine, hand)
        return
    *lines, hand.text = (hand.text + got).split(b"\n")
    for line in lines:
        body: Body = json.loads(line)
        piece, ended, failure = hand.piece, body.pop("ended", False), body.pop("failure", "")
        if not hand.ready:
            hand.ready = True
        elif piece is not None:
            yield Said(piece, body, ended, failure, mine.died.get(piece, 0))
        if ended or piece is None:
            _next(mine, hand)


def _next(mine: _Crew, hand: _Hand) -> None:
    """Give a worker the next piece; one for whom there is none stays, in case that another dies."""
    hand.piece = mine.waiting.popleft() if mine.waiting else None
    if hand.piece is not None:
        assert hand.process.stdin is not None
        with suppress(OSError):  # it has died, and its output will say so
            hand.process.stdin.write(json.dumps(mine.pieces[hand.piece]).encode() + b"\n")


def _lost(mine: _Crew, hand: _Hand) -> Iterator[Said]:
    """A worker died: its piece goes to another, or is given up."""
    mine.hands.unregister(_out(hand))
    _end_input(hand)
    _out(hand).close()
    how = _death(hand.process.wait())
    if not hand.ready:
        mine.stillborn += 1
        if mine.stillborn >= TRIES:
            raise RunFailed(f"no worker could be started: {how}; {_last_words(mine.log)}")
    piece = hand.piece
    if piece is not None:
        times = mine.died[piece] = mine.died.get(piece, 0) + 1
        if times >= TRIES:
            why = f"its worker died {times} times ({how}), perhaps for lack of memory; try again with fewer --workers"
            yield Said(piece, {}, ended=True, failure=why, died=times)
        else:
            mine.waiting.appendleft(piece)
            yield Said(piece, {}, died=times)
    if mine.waiting:
        idle = [key.data for key in mine.hands.get_map().values() if key.data.ready and key.data.piece is None]
        if idle:
            _next(mine, idle[0])
        else:
            _hire(mine)


def _end_input(hand: _Hand) -> None:
    assert hand.process.stdin is not None
    with suppress(OSError):
        hand.process.stdin.close()


def _out(hand: _Hand) -> Any:
    assert hand.process.stdout is not None
    return hand.process.stdout


def _death(code: int) -> str:
    """How a process ended, in words.

    >>> _death(-9), _death(1)
    ('killed by SIGKILL', 'exit code 1')
    """
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"{log} is empty"


# ---- the worker -----------------------------------------------------------------------------------------------------


def attend(work: Work) -> NoReturn:
    """Be a worker: do every piece that comes, one after the other, until there is nobody any more who gives one.

    `work` may tell something on the way. What it cannot do is its answer; any other error is too, and its trace is in the log.
    """
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what anybody prints is no answer
    pieces: queue.SimpleQueue[Body] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(pieces,), daemon=True).start()

    def tell(body: Body) -> None:
        out.write(json.dumps(body).encode() + b"\n")

    tell({})
    while True:
        tell({**answered(work, pieces.get(), tell), "ended": True})


def answered(work: Work, piece: Body, tell: Tell) -> Body:
    """What a piece gives; what cannot be done is the answer too, under `failure`."""
    try:
        return work(piece, tell)
    except FedFleetError as wrong:
        return {"failure": str(wrong)}
    except Exception as wrong:
        traceback.print_exc()
        return {"failure": f"{type(wrong).__name__}: {wrong}"}


def _read(pieces: queue.SimpleQueue[Body]) -> None:
    """Read pieces as they come. When the input ends, so does the worker, whatever it is doing: nobody waits for it any more."""
    for line in sys.stdin.buffer:
        pieces.put(json.loads(line))
    os._exit(0)
