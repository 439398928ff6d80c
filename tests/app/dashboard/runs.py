"""What tests of the dashboard share: small stories in events, run folders made of them, and a dashboard that answers."""

import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from urllib.parse import urlencode

import numpy as np

from fedfleet.app.dashboard.auth import TOKEN_HEADER, Access
from fedfleet.app.dashboard.web_server import bind_socket
from fedfleet.app.spec import resolve
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    ModelCommitted,
    ReportRejected,
    ReportsGathered,
    RoundFailed,
    RunBegan,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
    TasksSpent,
)
from fedfleet.core.records import Roster
from fedfleet.store import journal as journals


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float64)


def sent(time, round_, first, clients, due=120.0):
    whole = np.ones(len(clients))
    steps = np.zeros(len(clients), np.int64)
    return TasksSent(time, round_, round_, first, ints(*clients), steps, whole, 5 * whole, 100 * whole, {}, due)


SPENT = {"compute": floats(40, 50, 30), "bytes_down": floats(100, 100, 60), "bytes_up": floats(30, 30, 0)}
# Two rounds of three people out of eight: the first makes a model of two reports, one is late; the second goes on.
STORY = [
    RunBegan(0.0, 7, 8, "spec", "model"),
    CandidatesSeen(0.0, Roster(ints(0, 1, 2, 3, 4), np.zeros(5, np.uint64), ints(1, 1, 1, 1, 1))),
    sent(0.0, 0, 0, [1, 2, 3]),
    TaskArrived(40.0, 0, 1, 40.0, 30.0),
    TaskArrived(50.0, 1, 2, 50.0, 30.0),
    TasksDropped(120.0, ints(2), ints(3), floats(120.0)),
    TasksSpent(120.0, ints(0, 1, 2), ints(1, 2, 3), SPENT),
    ReportsGathered(120.0, None, ints(0, 1), {}),
    ModelCommitted(120.0, 0, 1, "abc", 2),
    Evaluated(120.0, 1, 60, 100, 1.0),
    sent(120.0, 1, 3, [1, 4, 5]),
    TaskArrived(150.0, 3, 1, 30.0, 30.0),
    TaskLost(160.0, 4, 4, 40.0, "its battery was empty"),
]  # fmt: skip
END = [
    ReportRejected(170.0, 3, 1, "it is not finite"),
    RoundFailed(240.0, 1, "too few reports"),
    RunEnded(240.0, "rounds"),
]


def folder_of(root, name, events=STORY, table=None, *, sealed=False):
    """A run folder of this name with these events."""
    folder = root / name
    folder.mkdir(parents=True)
    table = table or {"seed": 7, "stop": {"rounds": 4}}
    table = {**table, "world": {"clients": 8, **table.get("world", {})}}
    (folder / "spec.toml").write_text(resolve(table, "run").toml())
    with writing(folder) as journal:
        journal.append(list(events))
    if sealed:
        (folder / "seal.json").write_text("{}")
    return folder


@contextmanager
def writing(folder):
    """The journal of a run, new or to go on with."""
    path = folder / "run.db"
    journal = journals.reopen(path) if path.exists() else journals.create(path)
    journal.truncate(len(journals.numbered_rows(path)))
    try:
        yield journal
    finally:
        journal.close()


class Answers:
    """A dashboard on the loopback, and how to ask it."""

    def __init__(self, root, **more):
        import uvicorn

        from fedfleet.app.dashboard.routes import Site, site_app
        from fedfleet.app.dashboard.run_processes import Starter
        from fedfleet.app.dashboard.run_watcher import RunWatcher

        self.held = bind_socket("127.0.0.1", 0)
        self.door = Access("127.0.0.1", self.held.getsockname()[1], **more)
        self.site = Site(RunWatcher(root), Starter(root), self.door)
        config = uvicorn.Config(site_app(self.site), log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.held]})

    def __enter__(self):
        self.thread.start()
        until = time.monotonic() + 20
        while not self.server.started and time.monotonic() < until:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.site.closing = self.server.should_exit = True
        self.thread.join(10)
        self.held.close()
        for run in self.site.starter.started.values():  # only what this dashboard started
            if run.is_running:
                run.process.kill()
            run.process.wait()

    @property
    def address(self):
        return self.door.address.rstrip("/")

    @property
    def ours(self):
        """The headers of our own page."""
        return {"Origin": self.address, TOKEN_HEADER: self.door.token}

    def get(self, path, **headers):
        return self.ask(urllib.request.Request(self.address + path, headers=headers))

    def post(self, path, headers=None, **fields):
        body = urlencode(fields).encode()
        return self.ask(urllib.request.Request(self.address + path, body, self.ours if headers is None else headers))

    def ask(self, request):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
        try:
            with opener.open(request, timeout=30) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None
