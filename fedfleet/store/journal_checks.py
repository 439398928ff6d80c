"""Whether the events of a journal fit together: all that readers rely on when they make room for a run and follow it.

Everybody who can write a folder can seal it anew, so a sealed journal may say anything. Readers make tables by client, by task and
by round; this module is why no row can make such a table larger than the journal itself, or name a task that was never sent.
Whether the events are true is a question for `fedfleet replay`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from fedfleet.core import events
from fedfleet.core.events import Event
from fedfleet.core.limits import MAX_CLIENTS
from fedfleet.core.records import ClientScores, Floats, Ints
from fedfleet.measure.score_info import kind_of_measures
from fedfleet.store.journal_rows import Values, decode_with_numbers, row_errors

# No run goes on for so many seconds (limits.Horizon).
_LAST_MOMENT = 1e13
# Seconds, bytes and joules of one row: beyond, their sums overflow.
_LARGEST = 1e18
_LARGEST_COUNT = 2**53
# Columns and measures that a run has by name; each is a table over all tasks or evaluations.
_MAX_NAMES = 256
_RUNNING, _ARRIVED, _ENDED = range(3)
_ACCOUNTED = 4


class JournalCheck:
    """The events of a journal so far, as far as later ones must fit to them: `on` refuses with ValueError what does not.

    `most_clients` is how many its run can have, where its spec says that; a run on edges has one for each user.
    """

    __slots__ = ("_client_of", "_closed", "_commits", "_ended", "_names", "_state", "_time", "clients", "most_clients")

    def __init__(self, most_clients: int | None = None) -> None:
        self.clients, self.most_clients = 0, most_clients
        self._time, self._closed, self._commits, self._ended = 0.0, 0, 0, False
        # By task: its client, and what became of it.
        self._client_of, self._state = array("q"), bytearray()
        self._names = set[str]()

    def on(self, event: Event) -> None:
        """Take the next event."""
        if not self._time <= event.time <= _LAST_MOMENT:
            raise ValueError(f"time {event.time} does not follow time {self._time}")
        self._time = event.time
        if self._ended:
            raise ValueError("the run had ended before")
        if not self.clients and not isinstance(event, events.RunBegan):
            raise ValueError("a journal begins with the beginning of its run")
        match event:
            case events.TaskArrived():
                self._end_task(event.task, event.client, _ARRIVED)
                _check_amounts("seconds", event.seconds)
                _check_amounts("bytes", event.bytes_up)
            case events.TaskLost():
                self._end_task(event.task, event.client, _ENDED)
                _check_amounts("seconds", event.seconds)
            case events.TaskStruck() | events.ReportUnwanted():
                self._check_task(event.task, event.client)
                _check_amounts("amount", event.seconds if isinstance(event, events.TaskStruck) else event.bytes_up)
            case events.TasksSent():
                self._send(event)
            case events.TasksDropped():
                _check_amounts("seconds", event.seconds)
                for task, client in zip(event.tasks.tolist(), event.clients.tolist(), strict=True):
                    self._end_task(task, client, _ENDED)
            case events.ReportsGathered():
                for task in event.tasks.tolist():
                    self._use_report(task)
            case events.ReportRejected():
                self._check_task(event.task, event.client)
                self._use_report(event.task)
            case events.TasksSpent():
                self._check_spent(event)
            case events.CandidatesSeen():
                if len(event.roster.clients) > self.clients:
                    raise ValueError(f"{len(event.roster.clients)} candidates among {self.clients} clients")
            case events.Probed():
                self._check_clients(event.clients)
                self._check_columns(event.spent, len(event.clients))
                if len(event.values) != len(event.clients):
                    raise ValueError(f"{len(event.values)} values of {len(event.clients)} clients")
            case events.Evaluated():
                self._check_evaluation(event)
            case events.ModelCommitted():
                self._close_round(event.round)
                self._commits += 1
                if event.version != self._commits:
                    raise ValueError(f"model {event.version} follows model {self._commits - 1}")
                if not 0 <= event.folded <= len(self._state):
                    raise ValueError(f"a model of {event.folded} reports, and {len(self._state)} tasks were sent")
            case events.RoundFailed():
                self._close_round(event.round)
            case events.RunBegan():
                self._begin(event)
            case events.RunEnded():
                self._ended = True
            case events.PaceSet():
                self._add_names([event.name])
            case events.TimerFired():
                pass

    def _begin(self, event: events.RunBegan) -> None:
        if self.clients:
            raise ValueError("the run began before")
        if type(event.clients) is not int or not 1 <= event.clients <= MAX_CLIENTS:
            raise ValueError(f"the number of clients, {event.clients!r:.40}, is not between 1 and {MAX_CLIENTS:,}")
        if self.most_clients is not None and event.clients > self.most_clients:
            raise ValueError(f"the run has {event.clients} clients, and its spec {self.most_clients}")
        if type(event.seed) is not int or not all(isinstance(text, str) for text in (event.spec_digest, event.model_hash)):
            raise ValueError("the beginning of the run does not name its seed, spec and model")
        self.clients = event.clients

    def _send(self, event: events.TasksSent) -> None:
        self._check_clients(event.clients)
        if event.first != len(self._state):
            raise ValueError(f"task {event.first} is sent, and task {len(self._state)} would be the next")
        if event.version != self._commits or event.round != self._closed:
            now = f"in round {self._closed} with model {self._commits}"
            raise ValueError(f"tasks of round {event.round} and model {event.version} are sent {now}")
        for amounts in (event.samples, event.bytes_down, event.steps, event.share):
            _check_amounts("amount", amounts)
        self._check_columns(event.settings, len(event.clients))
        self._client_of.extend(event.clients.tolist())
        self._state.extend(bytes(len(event.clients)))

    def _check_task(self, task: int, client: int) -> None:
        if not 0 <= task < len(self._state):
            raise ValueError(f"task {task} was not sent")
        if self._client_of[task] != client:
            raise ValueError(f"task {task} was sent to client {self._client_of[task]}, not to client {client}")

    def _end_task(self, task: int, client: int, state: int) -> None:
        self._check_task(task, client)
        if self._state[task] & 3 != _RUNNING:
            raise ValueError(f"task {task} had ended before")
        self._state[task] |= state

    def _use_report(self, task: int) -> None:
        """The report of a task is folded or refused: once, and after it arrived."""
        if not 0 <= task < len(self._state) or self._state[task] & 3 != _ARRIVED:
            raise ValueError(f"no report of task {task} waits for a model")
        self._state[task] += _ENDED - _ARRIVED

    def _check_spent(self, event: events.TasksSpent) -> None:
        tasks, clients = event.tasks.tolist(), event.clients.tolist()
        if len(tasks) != len(clients):
            raise ValueError(f"{len(tasks)} tasks of {len(clients)} clients")
        self._check_columns(event.spent, len(tasks))
        for column in event.spent.values():
            _check_amounts("amount", column)
        for task, client in zip(tasks, clients, strict=True):
            self._check_task(task, client)
            if self._state[task] & _ACCOUNTED:
                raise ValueError(f"what task {task} cost was said before")
            self._state[task] |= _ACCOUNTED

    def _check_evaluation(self, event: events.Evaluated) -> None:
        if not 0 <= event.version <= self._commits:
            raise ValueError(f"model {event.version} is evaluated, and the newest is model {self._commits}")
        tallies = [(event.correct, event.total), *([] if event.unseen is None else [event.unseen])]
        if any(not -_LARGEST_COUNT <= correct <= total <= _LARGEST_COUNT for correct, total in tallies):
            raise ValueError("a score is not a ratio of two counts")
        if event.correct < 0 and kind_of_measures(event.measures).percent:
            raise ValueError(f"{event.correct} of {event.total} test samples are right")
        self._add_names(event.measures)
        scores: ClientScores | None = event.clients
        if scores is None:
            return
        # One client may be a place where the data of all are trained on, and then they are all evaluated.
        most = self.clients if self.clients > 1 else MAX_CLIENTS
        self._check_clients(scores.clients, most)
        if not len(scores.clients) == len(scores.correct) == len(scores.total) or len(scores.clients) > most:
            raise ValueError("the scores of clients have columns of different length")
        columns = scores.correct, scores.total
        if (columns[1] < 1).any() or (columns[0] > columns[1]).any() or any((np.abs(c) > _LARGEST_COUNT).any() for c in columns):
            raise ValueError("the score of a client is not a ratio of two counts")

    def _close_round(self, round_: int) -> None:
        if round_ != self._closed:
            raise ValueError(f"round {round_} ends, and round {self._closed} is open")
        self._closed += 1

    def _check_clients(self, clients: Ints, most: int | None = None) -> None:
        most = self.clients if most is None else most
        if clients.ndim != 1 or (len(clients) and not 0 <= int(clients.min()) <= int(clients.max()) < most):
            raise ValueError(f"a client is not one of the {most} clients of the run")

    def _check_columns(self, columns: Mapping[str, Floats], n: int) -> None:
        self._add_names(columns)
        if any(column.shape != (n,) for column in columns.values()):
            raise ValueError(f"a column does not have {n} entries")

    def _add_names(self, names: Iterable[str]) -> None:
        self._names.update(names)
        if len(self._names) > _MAX_NAMES:
            raise ValueError(f"there are more than {_MAX_NAMES} names of columns and measures")


def _check_amounts(what: str, amounts: float | Floats | Ints) -> None:
    """Refuse an amount that is negative or infinite; NaN stands for one that nobody knows."""
    if isinstance(amounts, np.ndarray):
        wrong = amounts[~(np.isnan(amounts) | ((amounts >= 0) & (amounts <= _LARGEST)))]
        if len(wrong):
            raise ValueError(f"{what} {wrong[0]} is not between 0 and {_LARGEST:g}")
    elif not (0.0 <= amounts <= _LARGEST or math.isnan(amounts)):
        raise ValueError(f"{what} {amounts} is not between 0 and {_LARGEST:g}")


def check_events(numbered: Iterable[tuple[int, Event]], check: JournalCheck | None = None) -> Iterator[tuple[int, Event]]:
    """The same events, each with the number of its first row; one that does not fit to those before is `UnreadableRow`.

    `check` knows the events before, where these are not the first.
    """
    check = JournalCheck() if check is None else check
    for number, event in numbered:
        with row_errors(number):
            check.on(event)
        yield number, event


def read_events(rows: Iterable[tuple[int, Values]], clients: int | None = None) -> Iterator[Event]:
    """The events of all rows of a journal, numbered from 1; `clients`: how many its run can have."""
    return (event for _, event in check_events(decode_with_numbers(rows), JournalCheck(clients)))
