"""Conformance of algorithms: both halves fit, and whatever they answer follows from what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.cost import cost_of
from fedfleet.core.decoders import Decoder
from fedfleet.core.errors import FedFleetError
from fedfleet.core.parts import Algorithm, Executor, Job, Task, Trial
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Assignments, Context, Cost, Report, ServerState, whole_work
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import content_hash, tree_nbytes
from fedfleet.executors.gather import admit
from fedfleet.executors.tensor_stacks import CPU, stack_trees
from fedfleet.testing.conformance import CheckLog, Conformance, fingerprint
from fedfleet.testing.folds import check_fold
from fedfleet.testing.server_rules import check_server
from fedfleet.testing.surroundings import Surroundings

_SIZES = (20, 11, 1)  # samples of the clients that try the algorithm
_TOGETHER = 0.02  # of a leaf's largest value: far above rounding, far below what a neighbour in a stack changes
_ODD = 0.03  # of an update's elements
_AGAIN = "no chance without an address, no clock, no memory but ServerState.extra and slots"


def check_algorithm(
    algorithm: Algorithm, task: Task | None = None, execute: Executor | None = None, *, quiet: bool = False
) -> Conformance:
    """Both halves fit: costs are known before training, updates fold, the model keeps its shape, nothing depends on order.

    Everything is asked twice, with other global generators and clocks. `task` is what clients train (default: a perceptron on
    digits), `execute` who trains it (default: one client after the other). What was checked is printed, unless `quiet`.
    """
    task = task or _small_task()
    execute = execute or _executor_of(task)
    log, around = CheckLog(f"algorithm {algorithm.name!r}"), Surroundings(algorithm)
    with around(1):
        server = algorithm.init(task.init(0))
    with around(2):
        assert fingerprint(algorithm.init(task.init(0))) == fingerprint(server), f"init must give the same state again: {_AGAIN}"
    cost = _check_costs(algorithm, server, around, log)
    jobs = _check_offers(algorithm, server, around, log)
    before = fingerprint(server)
    reports = _check_training(jobs, execute, around, log)
    assert fingerprint(server) == before, "training must not change the model that was offered"
    _check_bytes(algorithm, cost, jobs, reports)
    log.checked("costs are finite, the same for any wave, and what is really sent")
    if not execute.together and all(isinstance(job.local, LocalPass) for job in jobs):
        _check_stack(jobs, task, execute)
        log.checked("clients that train together in a stack do not depend on each other")
    with around(5):
        first = _accepted(algorithm, server, reports)
    with around(6):
        assert fingerprint(_accepted(algorithm, server, reports)) == fingerprint(first), f"accept must decode alike: {_AGAIN}"
    acc = _fold_reports(algorithm, server, reports, "a healthy update")
    aggregate = aggregation.finish(algorithm.fold, acc)
    assert aggregate is not None, "healthy reports must give an aggregate"
    after = check_server(algorithm, server, aggregate, log)
    _check_decoder(algorithm, server, reports[0])
    _check_stack_decoder(algorithm, server, reports)
    # Once more from what they remember now: a second task must fit the first one's memory.
    twice = list(execute.train([replace(job, memory=r.memory or {}) for job, r in zip(jobs, reports, strict=True)]))
    _fold_reports(algorithm, server, twice, "what a client with memory sends")
    log.checked("its own fold takes what its clients send, with memory and without, and refuses garbled reports")
    if algorithm.personal is not None:
        personal = [algorithm.personal(after.params, reports[0].memory or {}) for _ in range(2)]
        assert content_hash(personal[0]) == content_hash(personal[1]), f"the personal model must be the same again: {_AGAIN}"
        next(iter(execute.evaluate([Trial(personal[0], jobs[0].rows)])))
    log.answer(check_fold(algorithm.fold, server, first, quiet=True).digest)
    log.checked("no order of reports changes a bit of the aggregate")
    return log.end(quiet)


def _small_task() -> Task:
    from fedfleet.tasks.digits import digits_mlp  # needs scikit-learn and torch, which other checks do without

    return digits_mlp()(0)


def _executor_of(task: Task) -> Executor:
    from fedfleet.executors.inline import inline

    return inline(task)


def _check_costs(algorithm: Algorithm, server: ServerState, around: Surroundings, log: CheckLog) -> Cost:
    asked, sizes = whole_work(np.arange(3)), np.array(_SIZES)
    with around(1):
        cost = cost_of(algorithm, server, asked, sizes)
    for column in (cost.samples, cost.bytes_down, cost.bytes_up):
        assert len(column) == 3 and np.isfinite(column).all() and (column >= 0).all(), "a cost must be finite, one per task"
    with around(2):
        again = cost_of(algorithm, server, asked, sizes)
        alone = [_cost_alone(algorithm, server, asked, sizes, i) for i in range(3)]
    for name in ("samples", "bytes_down", "bytes_up"):
        column = getattr(cost, name)
        assert np.array_equal(getattr(again, name), column), f"{name}: the same task must cost the same again: {_AGAIN}"
        assert [float(getattr(one, name)[0]) for one in alone] == column.tolist(), (
            f"{name}: what a task costs must not depend on who else is asked"
        )
    log.answer([cost.samples, cost.bytes_down, cost.bytes_up])
    return cost


def _cost_alone(algorithm: Algorithm, server: ServerState, asked: Assignments, sizes: Any, i: int) -> Cost:
    at = np.array([i])
    return cost_of(algorithm, server, asked.only(at), sizes[at])


def _check_offers(algorithm: Algorithm, server: ServerState, around: Surroundings, log: CheckLog) -> list[Job]:
    """What goes down, and the clients' passes, twice and in another order; the work of three clients."""
    rows = np.split(np.arange(sum(_SIZES)), np.cumsum(_SIZES)[:-1])
    jobs: list[Job] = []
    before = fingerprint(server)
    with around(3, leaves_generators="offer and local"):
        for c in range(3):
            local = algorithm.local(c, NO_SETTINGS)
            assert isinstance(local, LocalPass) or callable(local), "the client's half must be a pass or a function"
            jobs.append(Job(c, c, 1000 + c, 7, algorithm.offer(server, c, NO_SETTINGS), local, rows[c]))
    with around(4):
        for job in jobs[::-1]:
            again = algorithm.local(job.client, NO_SETTINGS)
            assert job.local == again, (
                "the same client must get an equal pass each time, or nobody can train together; make its functions once per "
                "algorithm, not once per call"
            )
            offer = algorithm.offer(server, job.client, NO_SETTINGS)
            assert fingerprint([offer.params, offer.extra]) == fingerprint([job.offer.params, job.offer.extra]), (
                f"the same client must be offered the same: {_AGAIN}"
            )
    assert fingerprint(server) == before, "offer must not change the state of the server; copy an array before you write"
    log.answer([[job.offer.params, job.offer.extra] for job in jobs])
    log.checked("offers and passes are the same whenever they are asked for")
    return jobs


def _check_training(jobs: list[Job], execute: Executor, around: Surroundings, log: CheckLog) -> list[Report]:
    """A client's report follows from its job alone: in another order, alone, with other generators and clocks."""
    before = fingerprint([[job.offer.params, job.offer.extra] for job in jobs])
    with around(5):
        first = _train(execute, jobs)
    changed = fingerprint([[job.offer.params, job.offer.extra] for job in jobs]) != before
    assert not changed, "training must not change the model that was offered: copy an array before you write"
    with around(6):
        again = _train(execute, jobs[::-1])[::-1]
        # Where clients train together, the last bits follow from who is in the stack.
        alone = [] if execute.together else _train(execute, jobs[1:2])
    for a, b, job in zip([*first, first[1]], [*again, *alone], [*jobs, jobs[1]], strict=False):
        assert (a.task, a.client) == (b.task, b.client) == (job.task, job.client), "reports must come in the order of the jobs"
        assert content_hash(a.update) == content_hash(b.update), (
            f"a client's update must not depend on who trains before it, nor on chance or the clock: {_AGAIN}"
        )
        if execute.together:
            continue
        said = [a.weight, a.stats, a.memory, a.bytes_up], [b.weight, b.stats, b.memory, b.bytes_up]
        assert fingerprint(said[0]) == fingerprint(said[1]), (
            "weight, statistics and memory of a client must not depend on who trains before it, nor on chance or the clock: "
            f"{_AGAIN}"
        )
    for report in first:
        assert all(np.isfinite(v) for v in (report.weight, *report.stats.values())), (
            f"client {report.client} of {_SIZES[report.client]} samples reports a weight or a statistic that is not finite: "
            f"{report.weight}, {dict(report.stats)}"
        )
        for slot, tree in (report.memory or {}).items():
            kept = unpack_tree(pack_tree({n: np.asarray(v) for n, v in tree.items()}))
            assert content_hash(kept) == content_hash({n: np.asarray(v) for n, v in tree.items()}), f"memory {slot!r} must survive"
    log.answer([[r.update, r.weight] for r in first])
    log.checked("a client's report is the same in any order, alone, and with other global generators and clocks")
    return first


def _train(execute: Executor, jobs: Sequence[Job]) -> list[Report]:
    try:
        return list(execute.train(jobs))
    except FedFleetError as error:
        raise AssertionError(f"every client must be able to train, whatever the number of its samples: {error}") from error


def _check_bytes(algorithm: Algorithm, cost: Cost, jobs: list[Job], reports: list[Report]) -> None:
    """The bytes that a task is charged for are those that travel."""
    if algorithm.priced_by_value:
        return
    for job, report in zip(jobs, reports, strict=True):
        i, sent = job.client, float(tree_nbytes(report.update)) if report.bytes_up is None else report.bytes_up
        assert abs(cost.bytes_up[i] - sent) < 0.5, (
            f"bytes_up must be what is sent: client {i} is charged {cost.bytes_up[i]:g} bytes and sends {sent:g}; give the "
            "algorithm a `cost` of its own, or say priced_by_value"
        )
        keep = job.local.keep if isinstance(job.local, LocalPass) else None
        kept = {n for n in job.offer.params if keep is not None and keep(n)}
        down = tree_nbytes({n: v for n, v in job.offer.params.items() if n not in kept}) + tree_nbytes(job.offer.extra)
        down = float(down) if job.offer.nbytes is None else job.offer.nbytes
        assert abs(cost.bytes_down[i] - down) < 0.5, (
            f"bytes_down must be what is offered: client {i} is charged {cost.bytes_down[i]:g} bytes and gets {down:g}"
        )


def _check_stack(jobs: list[Job], task: Task, execute: Executor) -> None:
    """Terms, objectives and hooks work on stacks of clients: what a client sends is its own there, too."""
    from fedfleet.executors.stacked.executor import stacked_executor  # needs torch, as the passes do

    # Some steps for everyone, side by side: in the first nobody has moved yet. Without codecs, which magnify a last bit.
    jobs = [replace(job, steps=3, local=_without_codec(job.local)) for job in jobs]
    for one, other in zip(_train(execute, jobs), _train(stacked_executor(task), jobs), strict=True):
        leaves = {n: v for n, v in one.update.items() if v.size and np.issubdtype(v.dtype, np.floating)}
        sizes = {n: float(np.abs(v).max()) for n, v in leaves.items()}
        # What normalising layers undo has no gradient but rounding, which may differ as it likes.
        floor = max(1e-3 * max(sizes.values(), default=0.0), 1e-9)
        # A hook that keeps the largest may keep another one after rounding: a few elements prove nothing.
        wrong = {n: np.count_nonzero(np.abs(v - other.update[n]) > _TOGETHER * max(sizes[n], floor)) for n, v in leaves.items()}
        share = sum(wrong.values()) / max(1, sum(v.size for v in leaves.values()))
        assert share <= _ODD, (
            f"{share:.0%} of client {one.client}'s update, as of leaf {max(wrong, key=lambda n: wrong[n])!r}, is another when "
            "clients train together in one stack: terms and hooks see a leading axis of clients, which a norm must leave out"
        )


def _without_codec(local: Any) -> LocalPass:
    return replace(local, up=None, feedback=False)


def _accepted(algorithm: Algorithm, server: ServerState, reports: list[Report]) -> list[Report]:
    """The reports as they are folded; decoding changes neither them nor the state."""
    if algorithm.accept is None:
        return reports
    before = fingerprint([server, reports])
    result = [algorithm.accept(server, r, Context(0, 1.0, r.client)) for r in reports]
    assert fingerprint([server, reports]) == before, "accept must change neither the report nor the state; copy before you write"
    return result


def _fold_reports(algorithm: Algorithm, server: ServerState, reports: list[Report], what: str) -> aggregation.Folding:
    acc = aggregation.zero(algorithm.fold, server)
    for report in reports:
        reason = admit(algorithm.fold, server, acc, report, Context(0, 1.0, report.client), algorithm.accept)
        assert reason is None, (
            f"its own fold refuses {what}, of client {report.client} with {_SIZES[report.client]} samples: {reason}"
        )
    return acc


def _check_stack_decoder(algorithm: Algorithm, server: ServerState, reports: list[Report]) -> None:
    """Reports of equal names and shapes, decoded as one stack, are those that are decoded one by one."""
    if not isinstance(algorithm.accept, Decoder):
        return
    alike = [r for r in reports if _shapes(r) == _shapes(reports[0])]
    contexts = [Context(0, 1.0, r.client) for r in alike]
    update, parts = algorithm.accept.stack(server, stack_trees([r.update for r in alike], CPU), contexts)
    for i, (report, context) in enumerate(zip(alike, contexts, strict=True)):
        wanted = algorithm.accept(server, report, context)
        same = all(n in update and np.array_equal(update[n][i].numpy(), v) for n, v in wanted.update.items())
        assert same and len(update) == len(wanted.update), f"client {report.client}'s report is another when decoded in a stack"
        assert (wanted.parts or None) == (parts or None), "a stack has other parts than its reports"


def _shapes(report: Report) -> dict[str, tuple[int, ...]]:
    return {n: v.shape for n, v in report.update.items()}


def _check_decoder(algorithm: Algorithm, server: ServerState, report: Report) -> None:
    """Garbled reports are refused with a reason, whatever is wrong with them."""
    garbled_updates = [
        {},
        {n: v[..., :-1] if v.ndim else v for n, v in report.update.items()},
        {n: np.full_like(v, np.nan) if np.issubdtype(v.dtype, np.floating) else v for n, v in report.update.items()},
        {f"odd {n}": v for n, v in report.update.items()},
    ]
    for update in garbled_updates if report.update else ():
        acc = aggregation.zero(algorithm.fold, server)
        context = Context(0, 1.0, report.client)
        reason = admit(algorithm.fold, server, acc, replace(report, update=update), context, algorithm.accept)
        assert reason, "a garbled report must be refused with a reason"
