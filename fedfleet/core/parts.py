"""The part types. A part is a small frozen record of functions; a feature is a function from part to part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from fedfleet.core.aggregation import Aggregate, Fold, Folding
from fedfleet.core.edges import NestedPass
from fedfleet.core.events import TasksSpent
from fedfleet.core.kinds import CLASSIFICATION, Kind
from fedfleet.core.old_names import old_fields
from fedfleet.core.passes import LocalPass
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
    Rejection,
    Report,
    Roster,
    Score,
    ServerState,
    Settings,
    Slots,
    Stop,
)
from fedfleet.core.round_rules import RoundRules
from fedfleet.core.trees import Array, Tree, content_hash

# ---- learning: what client and server compute -------------------------------------------------------------------

# (job, dataset) -> report: allowed everywhere, never stacked
OpaquePass = Callable[["Job", "Dataset"], Report]
Pass = LocalPass | OpaquePass | NestedPass


@dataclass(frozen=True, slots=True)
class Offer:
    """What goes down to a client: the model, and what else its half needs (control variates, masks, codes).

    Both are what arrives. Where a codec makes them small on the way, `nbytes` is what travels, and `encoded()` the exact bytes.
    """

    params: Tree
    extra: Tree = field(default_factory=dict[str, Array])
    nbytes: float | None = None
    encoded: Callable[[], bytes] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Promise:
    """What a private algorithm does, from which its privacy loss follows: the mechanism, the noise as a multiple of how far one
    report can move what is released, and the delta that is granted. `epsilon` is what the noise was solved for, where it was.
    `sample`: clients of the fleet and, at most, of a commit, where each commit draws them in secret, without replacement."""

    mechanism: Literal["gaussian", "tree", "local"]
    noise: float
    delta: float
    epsilon: float | None = None
    sample: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What client and server compute, both halves in one value.

    `offer(server, client, settings)` is what goes down, `local(client, settings)` the client's half.
    `accept(server, report, context)` turns what arrived into what is folded (a decoder), with the server as it is at the
    commit; it raises Refused with the reason if that cannot be done. `cost(server, asked, samples)` is what a wave costs
    before anyone trained; without it the cost follows from the offer, the chain of passes and what the fold takes: whoever
    sends less than that, such as a codec, must say its own. `personal(params, memory)` is the model that a client would
    use, from the global one and its own memory; `tune(client)` a pass that it makes before it is evaluated, or None.
    `adapt(task, seed)` is the task as this method trains it: with prompts, with most weights frozen; compared by value.
    `priced_by_value`: bytes or seconds are known only after the work, so that a simulation must train first.
    `pooled`: one task a round trains on all clients' data at the server (the centralized bound). `private`: what it promises
    to those who take part. `tick(server)` is the part of `apply` that does not look at what was learnt, such as counting: audits
    that train nothing follow it, so that whatever decides about offers and costs must be there.
    """

    name: str
    init: Callable[[Tree], ServerState]
    offer: Callable[[ServerState, int, Settings], Offer]
    local: Callable[[int, Settings], Pass]
    fold: Fold
    apply: Callable[[ServerState, Aggregate], ServerState]
    cost: Callable[[ServerState, Assignments, Ints], Cost] | None = None
    accept: Callable[[ServerState, Report, Context], Report] | None = None
    personal: Callable[[Tree, Slots], Tree] | None = None
    tune: Callable[[int], LocalPass | None] | None = None
    adapt: Callable[[Task, int], Task] | None = None
    priced_by_value: bool = False
    pooled: bool = False
    private: Promise | None = None
    tick: Callable[[ServerState], ServerState] | None = None


@dataclass(frozen=True, slots=True)
class FoldResult:
    """Reports that were added up where they were made: the sums, who is in them with which statistics, and who is not; and in
    `memory` what the folded clients remember now, by client and slot."""

    accumulator: Folding
    tasks: Ints
    stats: Mapping[str, Floats]
    rejected: tuple[Rejection, ...]
    memory: Mapping[int, Slots] = field(default_factory=dict[int, Slots])


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
    columns that the runtime puts into `Roster.stats`: compute_seconds, transfer_seconds and its upload_seconds (foreseen for the
    whole work, without unavailable time), step_seconds (of one more step, at most) and batch_seconds (of a step's own, whatever its
    samples), each with the latency_seconds of a trip; steps (NaN where they cannot be foreseen), joules (of the whole work), user
    (-1: nobody's) and user_tasks (how many tasks of that user are out), untold (how many tasks of the client ended since `learn`
    last heard of any), time (now). What a probe did not bring within `probe_seconds` is NaN. `charge(state, spent)` hears
    what ended tasks really cost (TasksSpent: seconds by stage, bytes, joules), after each round and before `learn`. `by_round`: it
    picks a whole cohort at once and thinks of when that ends, so that it fits only policies with `rounds`. `tailors`: it gives
    clients work of their own (steps, shares, settings), which edges cannot. `by_reports`: it goes by losses or norms that clients
    report, which no noise covers and no prediction knows (None: it does not say). `equal_chance`: every candidate has the same
    chance, whatever happened before. `members` are those whom alone it ever asks (None: anyone). `bounded`: what it believes of
    reports, and how often one client leads, is limited. A wrapper that changes `pick` must say `equal_chance` again.
    """

    name: str
    pick: Callable[[State, Roster, int, Draw], Assignments]
    learn: Callable[[State, Ended, float], State] | None = None
    probe: Callable[[State, Roster, int, Draw], tuple[Ints, str]] | None = None
    initial: Callable[[int], State] = stateless
    sees: tuple[str, ...] = ()
    probe_seconds: float = math.inf
    charge: Callable[[State, TasksSpent], State] | None = None
    by_round: bool = False
    tailors: bool = False
    by_reports: bool | None = None
    equal_chance: bool = False
    members: Ints | None = field(default=None, compare=False)
    bounded: bool = False

    def may_ask(self, clients: int) -> Bools:
        """Which of that many clients it may ever ask."""
        return np.ones(clients, np.bool_) if self.members is None else np.isin(np.arange(clients), self.members)

    @property
    def unpredictable(self) -> str:
        """Why its choices cannot be known before training, as the end of a sentence; "" where they follow from fleet and time."""
        if self.by_reports:
            return "chooses by what trained reports say, which is not known before training"
        if self.by_reports is None and (self.learn is not None or self.probe is not None):
            return "does not say whether it goes by trained reports (Selector.by_reports), which are not known before training"
        return ""


class Steady(NamedTuple):
    """So many further arrivals before `wake_at` change nothing: the policy only wants to be woken then (None: not at all)."""

    arrivals: int
    wake_at: float | None = None


UNSTEADY = Steady(0)


@dataclass(frozen=True, slots=True)
class SteadyDecide:
    """A policy's `decide` that can say how long its answer holds, so that many arrivals are taken at once.

    `steady(book)` looks ahead: each of so many next reports, if it comes before `wake_at`, would be answered with
    `Decision(wake_at=wake_at)` and nothing else. It may always say fewer. A policy that wraps another has a `decide` of its own,
    which promises nothing unless it says so.
    """

    decide: Callable[[Book], Decision]
    steady: Callable[[Book], Steady]

    def __call__(self, book: Book) -> Decision:
        return self.decide(book)


@dataclass(frozen=True, slots=True)
class Policy:
    """When to ask, give up waiting, commit: a pure function of the book. `cohort` is how many it wants at once.

    What it must remember is in the book: `initial` is `Book.kept` at the start, `Decision.keep` replaces it. What can be known of
    its rounds before the run serves to warn of those that can never succeed: with fewer than `least` selected clients, or if
    no client reports within `patience` seconds. `doubts` are sentences about its own parameters; `key` is the one that says
    how many it wants. `holds` is how many reports a commit waits for at most, where that is not the cohort. `most_reports` is how
    many a commit can have, whatever happens, of the tasks of its own round and of the places that it fills (None: it does not
    say), and `late_reports` says that tasks of earlier rounds come on top; what a report may weigh follows (core.room).
    `prompt`: it counts reports one by one, and so is asked after each, even where it is woken at the same instant.

    `limit` names the parameter that bounds `patience`, `holds_key` the one that says what it `holds`. `endless`: it waits for a
    report that never comes, however long. `rounds`: it has rounds, which ask a whole cohort at once; without them clients are
    replaced one by one. `shows` names numbers of seconds in its memory, with their places there, whose changes belong in the
    journal (PaceSet). `wraps` names what has been put around it and may be there only once. `round_rules` are the numbers of its
    rounds, where nothing else decides about them: by them fleets are measured and runs predicted. A wrapper that changes
    `decide` must clear them, or say its own. A `decide` that is a `SteadyDecide` is not asked about every single report.
    """

    name: str
    decide: Callable[[Book], Decision]
    cohort: int
    initial: tuple[float, ...] = ()
    least: int = 1
    patience: float = math.inf
    doubts: tuple[str, ...] = ()
    prompt: bool = False
    key: str = "cohort"
    holds: int | None = None
    limit: str = "seconds"
    holds_key: str = "k"
    endless: bool = False
    rounds: bool = True
    shows: tuple[tuple[str, int], ...] = ()
    wraps: tuple[str, ...] = ()
    round_rules: RoundRules | None = None
    most_reports: int | None = None
    late_reports: bool = False


# ---- tasks, jobs, executors, the plan ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples as arrays: inputs, labels, and who made each sample where that is known.

    Type and shape of the labels depend on `kind` (core.kinds); `classes` is how many classes, labels or outputs there are.
    `label_names` are their names, where they have any, and `owner_names` those behind `owner`. Labels of a regression may have been
    scaled: `target_scale` has the mean and the standard deviation that were taken out, one pair for each output. `spread` is the
    variance of each output that R2 is measured against, where it is not that of the central test set. `input_names` are the columns
    of the inputs, where they have names, and `input_scale` the means and the deviations that were taken out of them.
    """

    x: Array
    y: Array
    classes: int
    owner: Ints | None = None
    kind: Kind = CLASSIFICATION
    label_names: tuple[str, ...] = ()
    owner_names: tuple[str, ...] = ()
    target_scale: tuple[tuple[float, float], ...] = ()
    spread: tuple[float, ...] = ()
    input_names: tuple[str, ...] = ()
    input_scale: tuple[Floats, Floats] | None = field(default=None, compare=False)


@old_fields(of="compute")
@dataclass(frozen=True, slots=True)
class Loss:
    """A loss instead of cross-entropy: `compute(outputs, labels)` gives one value per sample; if `joint`, one for all of them."""

    compute: Callable[[Any, Any], Any]
    joint: bool = False


MetricFunction = Callable[[Array, Array], Any]
FirstWeights = Literal["seed", "module", "file"]


@old_fields(dealt="client_rows")
@dataclass(frozen=True, slots=True)
class Task:
    """A model on a dataset. `build()` makes the torch module; `init(seed)` its first parameters; `holdout` is central, and
    `unseen` are the rows of people whose samples are never trained on.

    Models are trained and evaluated by cross-entropy, or by `loss`. `narrow(share)` makes the module with this share of the units
    of every hidden layer, all of them at 1; a task without it has one size only. `frozen` are weights that are never trained:
    `build()` has them inside, held once, `init` leaves them out, and so they are in no offer, update, checkpoint or charged byte.
    `metrics` are a person's own measures, functions (outputs, labels) of arrays, asked at each evaluation of the central test set.
    `first_weights` says where `init` has its weights from: the seed, a module that a person gave, or a file; `warnings` are
    sentences about the model that its user should read before it is trained.
    """

    name: str
    dataset: Dataset
    holdout: Ints
    build: Callable[[], Any]
    init: Callable[[int], Tree]
    loss: Loss | None = None
    narrow: Callable[[float], Any] | None = None
    frozen: Tree = field(default_factory=dict[str, Array])
    unseen: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    metrics: Mapping[str, MetricFunction] = field(default_factory=dict[str, MetricFunction])
    first_weights: FirstWeights = "seed"
    warnings: tuple[str, ...] = ()

    def client_rows(self) -> Ints:
        """The rows that clients hold: all but those of the central test set and of people whose samples are never trained on."""
        return np.setdiff1d(np.arange(len(self.dataset.y)), np.concatenate([self.holdout, self.unseen]))

    def whole(self, params: Tree) -> Tree:
        """All weights of the model: these, and those that are frozen."""
        return {**self.frozen, **params}

    @property
    def frozen_name(self) -> str:
        """The content hash of the frozen weights, by which a device knows whether it has them; "" if there are none."""
        return content_hash(self.frozen) if self.frozen else ""


@dataclass(frozen=True, slots=True)
class Job:
    """One client's work, complete. `noise_key` addresses the noise that the client adds; None: the seed, as in a simulation."""

    task: int
    client: int
    key: int
    seed: int
    offer: Offer
    local: Pass
    rows: Ints
    steps: int = 0
    memory: Slots = field(default_factory=dict[str, Tree])
    settings: Settings = field(default_factory=dict[str, float])
    round: int = 0
    time: float = 0.0
    noise_key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluation: these parameters on these rows; `measured`: with the measures of the task's kind and its own metrics."""

    params: Tree
    rows: Ints
    measured: bool = False


@old_fields(remarks="warnings")
@dataclass(frozen=True, slots=True)
class Executor:
    """Carries out jobs, answering in input order: `train(jobs)` streams reports, `evaluate(trials)` gives scores.

    `fold(jobs, contexts, fold, server, decode)` trains and adds up in place, for folds that stream; `begin(jobs)` may start before.
    `close()`, if any, ends the processes that it started; its owner calls it at the end. `warnings()` is what a person should know
    about how the work went. `together`: it is fastest with many jobs at once.
    """

    name: str
    train: Callable[[Sequence[Job]], Iterable[Report]]
    evaluate: Callable[[Sequence[Trial]], Iterable[Score]]
    fold: Callable[..., FoldResult] | None = None
    close: Callable[[], None] | None = None
    notes: tuple[str, ...] = ()  # what a person should know about how it works, one line each
    warnings: Callable[[], tuple[str, ...]] | None = None
    together: bool = False
    begin: Callable[[Sequence[Job]], None] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides a run, apart from the world: what, who, when, until when.

    `charge`: for how many samples a task is charged (None: for those that it trains on).
    """

    seed: int
    algorithm: Algorithm
    choose: Selector
    pace: Policy
    stop: Stop
    params: Tree
    clients: int
    byte_scale: float = 1.0
    spec_digest: str = ""
    charge: float | None = None
