"""What stays home: some leaves of the model are each client's own, and never travel."""

from __future__ import annotations

from collections.abc import Callable
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

_SHOWN = 12  # leaves that a sentence names


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
class _Either:
    one: Names
    other: Names

    def __call__(self, name: str) -> bool:
        return self.one(name) or self.other(name)


@cache  # one object for equal ones: costs are remembered by what is kept
def either(one: Names | None, other: Names) -> Names:
    """Leaves that one or the other names."""
    return other if one is None or one == other else _Either(one, other)


def personalised(algorithm: Algorithm, *, keep: str) -> Algorithm:
    """Leaves whose names match `keep`, such as "head.*", stay home: each client trains its own, and the rest is shared.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> alone = personalised(fedavg(), keep="head.*")
    >>> sorted(alone.fold.like(alone.init({"body.weight": np.zeros(2), "head.weight": np.zeros(2)})))
    ['body.weight']
    """
    local = algorithm.local(0, NO_SETTINGS)
    if isinstance(local, LocalPass) and local.second is not None and local.second.own is not None:
        raise BadInput(
            f"algorithm.keep: clients of {algorithm.name!r} have a whole model of their own, which would be drawn to leaves that "
            "nobody trains; leave `keep` out, or use another algorithm"
        )
    none = f"algorithm.keep = {keep!r} matches no leaf of this model"
    return at_home(algorithm, Leaves((keep,)), "algorithm.keep", none)


def at_home(algorithm: Algorithm, home: Names, where: str, none: str) -> Algorithm:
    """The algorithm in which these leaves never travel and each client remembers its own.

    `where` names the setting that says so, `none` the sentence for a model that has no such leaf.
    """
    if algorithm.pooled:
        raise BadInput(f"{where}: {algorithm.name!r} trains in one place, where nobody has a home; leave it out")

    def like(server: ServerState) -> Tree:
        stays = {n for n in server.params if home(n)}  # of the model only: what goes up beside it has names of its own
        return {n: v for n, v in algorithm.fold.like(server).items() if n not in stays}

    def init(params: Tree) -> ServerState:
        if not any(map(home, params)):
            raise BadInput(f"{none}; its leaves are {_named(params)}")
        server = algorithm.init(params)
        whole = algorithm.fold.like(server)
        if whole and whole.keys().isdisjoint(params):
            raise BadInput(
                f"{where}: {algorithm.name!r} sends one code of its whole update, from which nothing can be left out; leave it "
                "out, or use another algorithm"
            )
        if params.keys().isdisjoint(like(server)):
            raise BadInput(
                f"{where}: the whole model would stay at home, so that nothing is learnt together; keep fewer leaves, choose a "
                "model with more layers, or use local_only"
            )
        return server

    found = with_pass(algorithm, f"{where} cannot keep parts of it at home", lambda inner: _keeping(inner, home))
    found.local(0, NO_SETTINGS)  # so that it is refused before anything is written
    cost = None if algorithm.cost is None else _cheaper(algorithm, algorithm.cost, home)
    return replace(
        found, init=init, fold=replace(algorithm.fold, like=like), personal=_own(algorithm.personal), cost=cost
    )


def _keeping(inner: LocalPass, home: Names) -> LocalPass:
    return replace(inner, keep=either(inner.keep, home))


def _own(inner: Callable[[Tree, Slots], Tree] | None) -> Callable[[Tree, Slots], Tree]:
    if inner is None or inner is own_leaves:
        return own_leaves
    return lambda params, memory: inner(own_leaves(params, memory), memory)


def _cheaper(
    algorithm: Algorithm, price: Callable[[ServerState, Assignments, Ints], Cost], home: Names
) -> Callable[[ServerState, Assignments, Ints], Cost]:
    """An algorithm's own price without the bytes of what stays home."""

    def cost(server: ServerState, asked: Assignments, samples: Ints) -> Cost:
        whole = price(server, asked, samples)
        down = tree_nbytes({n: v for n, v in server.params.items() if home(n)})
        like = algorithm.fold.like(server)
        up = tree_nbytes({n: like[n] for n in server.params if home(n) and n in like})
        less = np.maximum(whole.bytes_down - down, 0.0), np.maximum(whole.bytes_up - up, 0.0)
        return replace(whole, bytes_down=less[0], bytes_up=less[1])

    return cost


def _named(params: Tree) -> str:
    names = list(params)
    return ", ".join(names[:_SHOWN]) + (" and others" if len(names) > _SHOWN else "")
