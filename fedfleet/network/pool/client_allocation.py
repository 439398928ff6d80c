"""Which process plays which clients: the clients of a process take turns, each with its own state and its own limits."""

from __future__ import annotations

from fedfleet.core.rng import stream


def allocate_clients(clients: int, processes: int, seed: int) -> list[list[int]]:
    """The clients of each process, the same for the same seed; with a process for each client, client i has process i.

    >>> allocate_clients(3, 3, seed=7)
    [[0], [1], [2]]
    >>> [len(own) for own in allocate_clients(7, 3, seed=7)]
    [3, 2, 2]
    """
    if processes >= clients:
        return [[client] for client in range(clients)]
    order = stream(seed, "pool").permutation(clients)
    return [sorted(int(client) for client in order[process::processes]) for process in range(processes)]
