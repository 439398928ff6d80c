"""The part types. A part is a small frozen record of functions; a feature is a function from part to part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedfleet.core.edges import NestedPass, UserSource
from fedfleet.core.exact import Scale
from fedfleet.core.records import (
    Assignments,
    Book,
    Bools,
    Context,
    Cost,
    Decision,
    Ended,
    Floats,
    Ints,
    Keys,
    Rejected,
    Report,
    Roster,
    Score,
    ServerState,
    Stop,
)
from fedfleet.core.trees import Array, Tree

# ---- learning: what client and server compute -------------------------------------------------------------------

# Gradients to add to the loss gradient: (params, start, memory) -> {name: tensor}. Elementwise, so that one client's
# tensors and a stack of clients' tensors are treated alike.
GradientTerm = Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Optimiser:
    """A functional optimiser on dictionaries of tensors: `init(params)`, `update(params, grads, state) -> (params, state)`."""

    init: Callable[[Mapping[str, Any]], Any]
    update: Callable[[Mapping[str, Any], Mapping[str, Any], Any], tuple[dict[str, Any], Any]]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How a client walks through its shard: `epochs` passes, or exactly `steps` steps when that is not None."""

    size: int = 16
    epochs: int = 1
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class LocalPass:
    """The client's half as data: inline interprets it literally, stacked in a batch.

    `train` says which names are trained (the rest stay frozen), `keep` which stay home in the client's memory,
    `weigh` what a report weighs in the mean.
    """

    optimiser: Optimiser
    batches: BatchPlan
    terms: tuple[GradientTerm, ...] = ()
    train: Callable[[str], bool] | None = None
    keep: Callable[[str], bool] | None = None
    weigh: Literal["samples", "one"] = "samples"


# The opaque alternative: (job, dataset) -> report. Allowed everywhere, never stacked.
OpaquePass = Callable[["Job", "Dataset"], Report]


@dataclass(frozen=True, slots=True)
class ExactMean:
    """What an executor needs to fold exactly: the scale of each leaf that is averaged, and the limit on the total weight."""

    scales: dict[str, Scale]
    total_weight: float


@dataclass(frozen=True, slots=True)
class Folded:
    """Reports that were added up where they were made: the sum, who is in it with which statistics, and who is not."""

    accumulator: Any
    tasks: Ints
    stats: Mapping[str, Floats]
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """How reports become one aggregate. `add` consumes its accumulator (it may work in place) and returns it.

    `check` names why a report cannot be folded, None if it can; `merge` joins accumulators of chunks or edges;
    `save` and `load` turn an accumulator into a tree and back, so that it can be kept or forwarded. `exact` says that this
    is the exact mean of `core.exact` and how leaves are scaled: then an executor may add reports up where they were made.
    """

    zero: Callable[[ServerState], Any]
    check: Callable[[ServerState, Report], str | None]
    add: Callable[[Any, Report, Context], Any]
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Tree | None]
    save: Callable[[Any], Tree]
    load: Callable[[Tree], Any]
    exact: Callable[[ServerState], ExactMean] | None = None


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What client and server compute, both halves in one value.

    `local(client)` gives the client's half; `cost(server, asked, samples)` what it costs before anyone trained;
    `personal(params, memory)` the model that a client would use, from the global one and its own memory.
    `priced_by_value`: bytes or seconds are known only after the work, so that a simulation must train first.
    `pooled`: one task a round trains on everybody's data at the server (the centralized bound).
    """

    name: str
    init: Callable[[Tree], ServerState]
    offer: Callable[[ServerState, int], Tree]
    local: Callable[[int], LocalPass | OpaquePass | NestedPass]
    cost: Callable[[ServerState, Assignments, Ints], Cost]
    fold: Fold
    apply: Callable[[ServerState, Tree], ServerState]
    remembers: bool = False
    personal: Callable[[Tree, Tree], Tree] | None = None
    priced_by_value: bool = False
    pooled: bool = False


# ---- who and when -----------------------------------------------------------------------------------------------

State = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Draw:
    """The address of a selector's randomness: seed, round, and the id of the first task that this pick would send."""

    seed: int
    round: int
    first: int = 0


def stateless(clients: int) -> State:
    """Nothing to remember, however many clients there are."""
    del clients
    return {}


@dataclass(frozen=True, slots=True)
class Selector:
    """Who is asked, and for how much. State goes in and comes out, as columns; `initial(clients)` makes the first.

    `probe(state, roster, n, draw)` names clients to look at before picking, and the number wanted of them. `sees` names
    columns that the runtime puts into `Roster.stats`: compute_seconds and transfer_seconds (foreseen for the whole work,
    without unavailable time), steps (NaN where they cannot be foreseen), user (-1: nobody's).
    """

    name: str
    pick: Callable[[State, Roster, int, Draw], Assignments]
    learn: Callable[[State, Ended, float], State] | None = None
    probe: Callable[[State, Roster, int, Draw], tuple[Ints, str]] | None = None
    initial: Callable[[int], State] = stateless
    sees: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """When to ask, give up waiting, commit: a pure function of the book. `cohort` is how many it wants at once.

    What it must remember is in the book: `initial` is `Book.kept` at the start, `Decision.keep` replaces it.
    """

    name: str
    decide: Callable[[Book], Decision]
    cohort: int
    initial: tuple[float, ...] = ()


# ---- where: the world as sources, pure functions of (clients, time), vectorised ----------------------------------


@dataclass(frozen=True, slots=True)
class DeviceSource:
    """How long work takes: `seconds(clients, cost, start, tasks)`; infinite if a device cannot do it at all.

    `kinds[i]` names client i's kind of device; `tasks` addresses what varies from trip to trip.
    """

    seconds: Callable[[Ints, Cost, float, Ints], Floats]
    kinds: Sequence[str]


@dataclass(frozen=True, slots=True)
class StateSource:
    """Who is reachable: `online(t)` for all clients; `finish(clients, start, seconds)` when so many ready seconds passed."""

    online: Callable[[float], Bools]
    finish: Callable[[Ints, float, Floats], Floats]


Split = Literal["train", "valid", "test"]


@dataclass(frozen=True, slots=True)
class DataSource:
    """Who holds what: `shard(client, split, round)` as row numbers of the dataset; `sizes(round)` of the training shards.

    `testers` are the clients with test samples of their own; `holdout` are the rows of the central test set.
    """

    shard: Callable[[int, Split, int], Ints]
    sizes: Callable[[int], Ints]
    testers: Ints
    holdout: Ints


@dataclass(frozen=True, slots=True)
class World:
    """Heterogeneity: devices, states, data, and the clients' keys. A deployment has none: reality answers.

    `users` says whose device each client is, where that is known.
    """

    keys: Keys
    devices: DeviceSource
    states: StateSource
    data: DataSource
    users: UserSource | None = None


# ---- tasks, jobs, executors, the plan ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples as arrays: inputs, integer labels, and who made each sample where that is known."""

    x: Array
    y: Ints
    classes: int
    owner: Ints | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A model on a dataset. `build()` makes the torch module; `init(seed)` its first parameters; `holdout` is central."""

    name: str
    dataset: Dataset
    holdout: Ints
    build: Callable[[], Any]
    init: Callable[[int], Tree]


@dataclass(frozen=True, slots=True)
class Job:
    """One client's work, complete: nothing else is needed to carry it out."""

    task: int
    client: int
    key: int
    seed: int
    offered: Tree
    local: LocalPass | OpaquePass | NestedPass
    rows: Ints
    steps: int = 0
    memory: Tree | None = None
    round: int = 0
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluation: these parameters on these rows."""

    params: Tree
    rows: Ints


@dataclass(frozen=True, slots=True)
class Executor:
    """Carries out jobs, answering in input order: `train(jobs)` streams reports, `evaluate(trials)` gives scores.

    `fold(jobs, mean)` trains and adds up in place, where a mean allows it. `close()`, where there is one, ends the processes
    that the executor started; whoever made the executor calls it at the end. `remarks()` is what a person should know
    about how the work went, when it is done. `together`: it is fastest with many jobs at once.
    """

    name: str
    train: Callable[[Sequence[Job]], Iterable[Report]]
    evaluate: Callable[[Sequence[Trial]], Iterable[Score]]
    fold: Callable[[Sequence[Job], ExactMean], Folded] | None = None
    close: Callable[[], None] | None = None
    notes: tuple[str, ...] = ()  # what a person should know about how it works, one line each
    remarks: Callable[[], tuple[str, ...]] | None = None
    together: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides a run, apart from the world: what, who, when, until when."""

    seed: int
    algorithm: Algorithm
    choose: Selector
    pace: Policy
    stop: Stop
    params: Tree
    clients: int
    byte_scale: float = 1.0
    spec_digest: str = ""
