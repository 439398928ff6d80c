"""The lean loop in several processes: where many small operations queue for one interpreter, threads gain nothing.

Each round forks: the children inherit jobs, data and model as they are, so that nothing has to be sent to them, train their
share and leave their reports in memory that both can see. This process trains a share itself. Who trains a client changes no
bit of its report, and the clients of a child that died are trained here.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise

from fedfleet.core.parts import Job
from fedfleet.core.records import Report
from fedfleet.core.trees import tree_nbytes

Train = Callable[[Sequence[Job]], list[Report]]
_ROOM = 1 << 16  # bytes for the small things of a report: names, statistics


def forked_reports(jobs: Sequence[Job], train: Train, workers: int) -> list[Report]:
    """The reports in the order of the jobs, every `workers`-th by each process."""
    workers = max(1, min(workers, len(jobs)))
    children = [_Child([jobs[i] for i in range(k, len(jobs), workers)], train) for k in range(1, workers)]
    try:
        shares = [train([jobs[i] for i in range(0, len(jobs), workers)])]
        shares += [child.reports() for child in children]
    except BaseException:
        for child in children:
            child.end()
        raise
    return [shares[i % workers][i // workers] for i in range(len(jobs))]


class _Child:
    """A process that trains a share of the jobs. It is a resource: it ends when its reports were read, or by `end`."""

    def __init__(self, jobs: list[Job], train: Train) -> None:
        self.jobs, self.train = jobs, train
        size = sum(tree_nbytes(job.offered) + tree_nbytes(job.memory or {}) + _ROOM for job in jobs)
        self.shared = mmap.mmap(-1, 2 * size)  # what is not written costs nothing
        self.pid = os.fork()
        if self.pid == 0:
            self._work()

    def _work(self) -> None:
        """In the child: train, leave the reports, and go without any of this process's ceremonies."""
        code = 1
        try:
            parts: list[pickle.PickleBuffer] = []
            head = pickle.dumps(self.train(self.jobs), protocol=5, buffer_callback=parts.append)
            views = [part.raw() for part in parts]
            sizes = pickle.dumps([len(head), *(len(view) for view in views)])
            for piece in (len(sizes).to_bytes(8, "little"), sizes, head, *views):
                self.shared.write(piece)
            code = 0
        except BaseException:
            code = 1  # the other side trains these jobs again, and meets the error where it can be told
        finally:
            os._exit(code)

    def reports(self) -> list[Report]:
        """Wait, and take over what the child made; if it failed, make it here."""
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        if status != 0:
            return self.train(self.jobs)
        seen = memoryview(self.shared)
        start = 8 + int.from_bytes(seen[:8], "little")
        head, *sizes = pickle.loads(seen[8:start])
        ends = [start + head]
        for size in sizes:
            ends.append(ends[-1] + size)
        buffers = [seen[a:b] for a, b in pairwise(ends)]
        return pickle.loads(seen[start : ends[0]], buffers=buffers)

    def end(self) -> None:
        """Stop a child whose reports nobody wants any more."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.pid = 0
