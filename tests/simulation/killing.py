"""Runs that are killed in the middle, with real processes and SIGKILL, and what they must end with."""

import multiprocessing
import time
from dataclasses import replace

from fedfleet.app.assemble import assemble
from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.core.parts import Policy
from fedfleet.core.passes import ConstantTerm, Slot, zeros_like
from fedfleet.core.records import NOTHING, Decision
from fedfleet.core.registry import register
from fedfleet.core.rng import stream
from fedfleet.learn.composition import with_pass
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.objectives import with_term
from fedfleet.store.journal import digest_of

BASE = {
    "seed": 5,
    "task": {"use": "digits_logreg"},
    "world": {
        "clients": 20,
        "devices": {"use": "spread"},
        "states": {"use": "daily", "sessions": 24, "ready": 0.5},
        "data": {"use": "dirichlet"},
        "model_bytes": 1e8,
    },
    "stop": {"rounds": 40},
    "run": {"checkpoint_every": 3},
}
SCENARIOS = {
    "overcommitted deadline": {
        **BASE, "pace": {"use": "overcommit", "policy": {"use": "deadline", "cohort": 5, "seconds": 60.0}},
    },
    "memory of clients and of a policy": {
        **BASE, "algorithm": {"use": "controlled"}, "pace": {"use": "patient", "cohort": 5},
        "run": {"checkpoint_every": 3, "memory_mb": 1},
    },
    "asynchronous with memory": {
        **BASE, "algorithm": {"use": "controlled"}, "pace": {"use": "refilling", "enough": 3, "concurrency": 6},
    },
    "asynchronous with older models": {
        **BASE, "algorithm": {"use": "fedasync"},
        "pace": {"use": "buffered", "k": 2, "concurrency": 6, "max_staleness": 9, "lease": 7200.0, "refill": 7.0},
    },
}  # fmt: skip


def controlled(*, lr: float = 0.1):
    """Clients with a control variate that moves with every folded report."""

    def moved(passed):
        control = {n: 0.5 * v - passed.update[n] for n, v in passed.memory["control"].items()}
        return replace(passed, memory={**passed.memory, "control": control})

    drift = ConstantTerm(lambda start, carried: {n: 0.1 * v for n, v in carried.memory["control"].items()})
    slots = (Slot("control", zeros_like),)
    return with_pass(with_term(fedavg(lr=lr), drift), "", lambda p: replace(p, slots=slots, after=(moved,)))


def patient(cohort: int = 5):
    """A deadline that grows by a half after every round in which somebody was late, and shrinks after the others: AIMD's shape."""

    def decide(book):
        (seconds,) = book.kept
        if book.wanted == 0:
            return Decision(ask=cohort) if book.now >= book.opened_at + 5 else Decision(wake_at=book.opened_at + 5)
        if book.asking:
            return NOTHING
        late = book.first_sent_at + seconds
        if book.running and book.now < late:
            return Decision(wake_at=late)
        keep = (min(seconds * 1.5, 600.0) if book.running else max(seconds - 5.0, 20.0),)
        if not book.arrived:
            return Decision(abandon="nobody reported", drop=0, keep=keep)
        return Decision(commit=True, drop=0, keep=keep)

    return Policy("patient", decide, cohort, (60.0,))


def refilling(enough: int = 3, concurrency: int = 6):
    """FedBuff's pacing, with a count of its commits in memory: every third round it gives up what is too old."""

    def decide(book):
        (commits,) = book.kept
        if book.arrived >= enough:
            return Decision(commit=True, keep=(commits + 1,), drop=4 if commits % 3 == 2 else None)
        coming = book.wanted - book.selected if book.asking else 0
        missing = concurrency - book.running - coming
        if book.answered or (book.lost and book.now == book.sent_at):
            return Decision(wake_at=book.now + 7.0) if missing else NOTHING
        return Decision(ask=missing) if missing else NOTHING

    return Policy("refilling", decide, concurrency, (0.0,))


def begin(spec, folder):
    """Start the run in a process of its own; forked, so that it begins at once and knows the toys."""
    process = multiprocessing.get_context("fork").Process(target=perform, args=(spec, folder), kwargs={"resume": True})
    process.start()
    return process


def kill_and_resume(name, folder, kills, tries=4):
    """Kill a scenario's run at so many random moments, resume it each time, and compare digest and model with a straight run."""
    for kind, toy in (("algorithms", controlled), ("policies", patient), ("policies", refilling)):
        register(kind, toy.__name__, toy)
    spec = resolve(SCENARIOS[name])
    assemble(spec).executor()  # what is loaded here need not be loaded in each process
    for first in ("warm", "straight"):
        start = time.monotonic()
        straight = begin(spec, folder / first)
        straight.join()
        whole = time.monotonic() - start
        assert straight.exitcode == 0
    digest, model = digest_of(folder / "straight/run.db"), (folder / "straight/model.safetensors").read_bytes()
    died = 0
    for i in range(tries * kills):
        moment = float(stream(1, f"kill {name}", i).random()) * whole
        process = begin(spec, folder / str(i))
        process.join(moment)
        process.kill()
        process.join()
        if process.exitcode == 0:
            continue  # a run that was faster than its killer does not count
        twice = begin(spec, folder / str(i))  # and killed once more on its way
        twice.join(float(stream(2, f"kill {name}", i).random()) * max(whole - moment, 0.05))
        twice.kill()
        twice.join()
        again = begin(spec, folder / str(i))
        again.join(60)
        assert again.exitcode == 0
        assert digest_of(folder / str(i) / "run.db") == digest, f"{name}: killed after {moment:.3f} s"
        assert (folder / str(i) / "model.safetensors").read_bytes() == model
        died += 1
        if died == kills:
            return
    raise AssertionError(f"only {died} of {tries * kills} runs could be killed while they ran")
