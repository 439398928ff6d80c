"""Several processes that want one run folder at once."""

import multiprocessing
import os

from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.store.journal import digest_of
from tests.app.runs.tampering import SPEC

WORKED, REFUSED = 0, 2


def _go(folder, gate, resume, answers):
    gate.wait(60)
    try:
        digest = perform(resolve({**SPEC, "stop": {"rounds": 30}}), folder, resume=resume).metrics["digest"]
        answers.put((os.getpid(), WORKED, digest))
    except BadInput as error:
        answers.put((os.getpid(), REFUSED, str(error)))


def rush(folder, processes, *, resume):
    """Let so many processes begin on one folder together; their answers as (pid, code, text)."""
    context = multiprocessing.get_context("fork")
    gate, answers = context.Barrier(processes), context.Queue()
    crowd = [context.Process(target=_go, args=(folder, gate, resume, answers)) for _ in range(processes)]
    for process in crowd:
        process.start()
    result = [answers.get(timeout=120) for _ in crowd]
    for process in crowd:
        process.join(60)
    return result


def check_crowd(folder, processes, *, resume, digest):
    """One process works; whoever comes while it does is refused by its pid; nothing is lost."""
    result = rush(folder, processes, resume=resume)
    worked = [pid for pid, code, _ in result if code == WORKED]
    assert worked, result
    for _, code, text in result:
        if code == WORKED:
            assert text == digest
        else:
            assert "in use by" in text or "exists already" in text
            assert "in use by" not in text or any(f"process {pid} on" in text for pid in worked)
    assert digest_of(folder / "run.db") == digest
    return len(result) - len(worked)
