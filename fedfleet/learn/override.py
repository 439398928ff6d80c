"""Per-client settings: some clients run the client's half of another variant of the same algorithm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.core.parts import Algorithm, LocalPass, OpaquePass
from fedfleet.core.records import Assignments, Cost, Ints, ServerState


def overridden(algorithm: Algorithm, variants: tuple[tuple[Ints, Algorithm], ...], clients: int) -> Algorithm:
    """The algorithm in which the listed clients train, and cost, as their variant says; a later variant wins."""
    everyone = (algorithm, *(variant for _, variant in variants))
    which = np.zeros(clients, np.int64)
    for i, (members, _) in enumerate(variants, start=1):
        which[members] = i

    def local(client: int) -> LocalPass | OpaquePass:
        return everyone[which[client]].local(client)

    def cost(server: ServerState, asked: Assignments, samples: Ints) -> Cost:
        own = algorithm.cost(server, asked, samples)
        total = Cost(own.samples.copy(), own.bytes_down.copy(), own.bytes_up.copy())
        for i, variant in enumerate(everyone[1:], start=1):
            mine = np.flatnonzero(which[asked.clients] == i)
            if len(mine):
                part = Assignments(asked.clients[mine], asked.steps[mine], asked.share[mine])
                other = variant.cost(server, part, samples[mine])
                total.samples[mine], total.bytes_down[mine], total.bytes_up[mine] = (
                    other.samples,
                    other.bytes_down,
                    other.bytes_up,
                )
        return total

    return replace(algorithm, local=local, cost=cost)
