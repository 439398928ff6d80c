"""What stays home: some leaves of the model are each client's own, and never travel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import NO_SETTINGS, LocalPass, Names
from fedfleet.core.records import Assignments, Cost, Ints, ServerState, Slots
from fedfleet.core.trees import Tree, tree_nbytes
from fedfleet.learn.baselines import own_leaves
from fedfleet.learn.composition import with_pass

_MAX_NAMES = 12  # leaves that a sentence names


@dataclass(frozen=True, slots=True)
class Leaves:
    """Leaves by patterns over their names; a value, so that passes with the same patterns train together.

    >>> head = Leaves(("head.*",))
    >>> head("head.bias"), head("body.head"), replace(head, others=True)("body.head")
    (True, False, True)
    """

    patterns: tuple[str, ...]
    others: bool = False  # all but these
    within: Names | None = None  # and only of those

    def __call__(self, name: str) -> bool:
        if self.within is not None and not self.within(name):
            return False
        return any(fnmatchcase(name, pattern) for pattern in self.patterns) != self.others


@dataclass(frozen=True, slots=True)
class _LeafUnion:
    one: Names
    other: Names

    def __call__(self, name: str) -> bool:
        return self.one(name) or self.other(name)


@cache  # one object for equal ones: costs are remembered by what is kept
def leaf_union(one: Names | None, other: Names) -> Names:
    """Leaves that one or the other names."""
    return other if one is None or one == other else _LeafUnion(one, other)


def with_local_leaves(algorithm: Algorithm, *, keep: str) -> Algorithm:
    """Leaves whose names match `keep`, such as "head.*", stay home: each client trains its own, and the rest is shared.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> alone = with_local_leaves(fedavg(), keep="head.*")
    >>> sorted(alone.fold.like(alone.init({"body.weight": np.zeros(2), "head.weight": np.zeros(2)})))
    ['body.weight']
    """
    local = algorithm.local(0, NO_SETTINGS)
    if isinstance(local, LocalPass) and local.second is not None and local.second.own is not None:
        raise BadInput(
            f"algorithm.keep: clients of {algorithm.name!r} have a whole model of their own, which would be pulled towards "
            "leaves that no client trains; leave `keep` out, or use another algorithm"
        )
    no_match = f"algorithm.keep = {keep!r} matches no leaf of this model"
    return keep_leaves_local(algorithm, Leaves((keep,)), "algorithm.keep", no_match)


def keep_leaves_local(algorithm: Algorithm, home: Names, where: str, no_match: str) -> Algorithm:
    """These leaves never travel, each client remembers its own; `where` names the setting, `no_match` is said if there is none."""
    if algorithm.pooled:
        raise BadInput(f"{where}: {algorithm.name!r} trains in one place, without clients that could keep leaves; leave it out")

    def like(server: ServerState) -> Tree:
        local_names = {n for n in server.params if home(n)}  # of the model only: what goes up beside it has names of its own
        return {n: v for n, v in algorithm.fold.like(server).items() if n not in local_names}

    def init(params: Tree) -> ServerState:
        if not any(map(home, params)):
            raise BadInput(f"{no_match}; its leaves are {_name_list(params)}")
        server = algorithm.init(params)
        whole = algorithm.fold.like(server)
        if whole and whole.keys().isdisjoint(params):
            raise BadInput(
                f"{where}: {algorithm.name!r} sends its whole update as one code, so no leaf can stay on the device; leave "
                f"{where} out, or use another algorithm"
            )
        if params.keys().isdisjoint(like(server)):
            raise BadInput(
                f"{where}: the whole model would stay at home, so that nothing is learnt together; keep fewer leaves, choose a "
                "model with more layers, or use local_only"
            )
        return server

    inner = algorithm.personal

    def personal(params: Tree, memory: Slots) -> Tree:
        assert inner is not None
        return inner(own_leaves(params, memory), memory)

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        """An algorithm's own price without the bytes of what stays home."""
        assert algorithm.cost is not None
        whole, fold_like = algorithm.cost(server, assignments, samples), algorithm.fold.like(server)
        down = tree_nbytes({n: v for n, v in server.params.items() if home(n)})
        up = tree_nbytes({n: fold_like[n] for n in server.params if home(n) and n in fold_like})
        reduced = np.maximum(whole.bytes_down - down, 0.0), np.maximum(whole.bytes_up - up, 0.0)
        return replace(whole, bytes_down=reduced[0], bytes_up=reduced[1])

    result = with_pass(
        algorithm, f"{where} cannot keep parts of it at home", lambda inner: replace(inner, keep=leaf_union(inner.keep, home))
    )
    result.local(0, NO_SETTINGS)  # so that it is refused before anything is written
    return replace(
        result, init=init, fold=replace(algorithm.fold, like=like), cost=None if algorithm.cost is None else cost,
        personal=own_leaves if inner is None or inner is own_leaves else personal,
    )  # fmt: skip


def _name_list(params: Tree) -> str:
    names = list(params)
    return ", ".join(names[:_MAX_NAMES]) + (" and others" if len(names) > _MAX_NAMES else "")
