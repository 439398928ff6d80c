"""Flipping single bits of files, and runs that were stopped in the middle."""

import multiprocessing
import os
import signal

from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.core.events import ModelCommitted
from fedfleet.store.seals import files_of


def flip(path, draw):
    """Flip one random bit of a file."""
    data = bytearray(path.read_bytes())
    at = draw.randrange(len(data))
    data[at] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    return at


def sealed_files(folder):
    """What a seal covers, and the seal itself."""
    return [*files_of(folder), "seal.json"]


def _until(spec, folder, commits):
    seen = [0]

    def watch(events):
        seen[0] += sum(isinstance(e, ModelCommitted) for e in events)
        if seen[0] >= commits:
            os.kill(os.getpid(), signal.SIGKILL)

    perform(resolve(spec), folder, watch=watch)


def killed_run(spec, folder, commits):
    """A run that was killed after so many commits, as it lies on the disk then: with its WAL."""
    process = multiprocessing.get_context("fork").Process(target=_until, args=(spec, folder, commits))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    return folder
