"""Per-client settings: some clients run the client's half of another variant of the same algorithm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Algorithm, Offer, Pass
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import Assignments, Context, Cost, Ints, Report, ServerState, Settings
from fedfleet.core.task_cost import cost_of


def overridden(algorithm: Algorithm, variants: tuple[tuple[Ints, Algorithm], ...], clients: int) -> Algorithm:
    """The algorithm in which the listed clients are offered, train and cost what their variant says; a later variant wins."""
    if any(variant.adapt != algorithm.adapt for _, variant in variants):
        raise BadInput(
            f"override: clients of {algorithm.name!r} share one model, and a setting here would give some of them another; set it "
            "in [algorithm], for everybody"
        )
    everyone = (algorithm, *(variant for _, variant in variants))
    which = np.zeros(clients, np.int64)
    for i, (members, _) in enumerate(variants, start=1):
        which[members] = i

    def local(client: int, settings: Settings) -> Pass:
        return everyone[which[client]].local(client, settings)

    def offer(server: ServerState, client: int, settings: Settings) -> Offer:
        return everyone[which[client]].offer(server, client, settings)

    def cost(server: ServerState, asked: Assignments, samples: Ints) -> Cost:
        own = cost_of(algorithm, server, asked, samples)
        names = ("samples", "bytes_down", "bytes_up", "batches")
        total = {n: _column(own, n, len(samples)).copy() for n in names}
        for i, variant in enumerate(everyone[1:], start=1):
            mine = np.flatnonzero(which[asked.clients] == i)
            if len(mine):
                other = cost_of(variant, server, asked.only(mine), samples[mine])
                for name, column in total.items():
                    column[mine] = _column(other, name, len(mine))
        return Cost(**total)

    def accept(server: ServerState, report: Report, context: Context) -> Report:
        own = everyone[which[report.client]].accept
        return report if own is None else own(server, report, context)

    def tune(client: int) -> LocalPass | None:
        own = everyone[which[client]].tune
        return None if own is None else own(client)

    decodes = any(one.accept is not None for one in everyone)
    priced = any(one.cost is not None for one in everyone)
    return replace(
        algorithm,
        local=local,
        offer=offer,
        cost=cost if priced else None,
        accept=accept if decodes else None,
        tune=tune if any(one.tune is not None for one in everyone) else None,
        priced_by_value=any(one.priced_by_value for one in everyone),
    )


def _column(cost: Cost, name: str, n: int) -> np.ndarray:
    column = getattr(cost, name)
    return np.zeros(n) if column is None else column
