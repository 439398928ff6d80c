"""What a server serves, and the checks of a plan before any device is let in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedfleet.core.codec import Codec
from fedfleet.core.edges import NestedPass
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event
from fedfleet.core.kinds import CLASSIFICATION, Kind
from fedfleet.core.parts import Plan, Selector
from fedfleet.core.passes import NO_SETTINGS, STATS, LocalPass
from fedfleet.core.sources import World
from fedfleet.core.trees import Tree, tree_nbytes
from fedfleet.network.evaluation.evaluators import Evaluator
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.secrets import RunKey
from fedfleet.network.server.options import ServeOptions
from fedfleet.simulation.rosters import check_sees
from fedfleet.store.journal import Journal
from fedfleet.store.noise_source import SEEDED, NoiseSource

_SLACK = 1 << 20  # what a report may hold beside the model: names, framing


@dataclass(frozen=True, slots=True)
class ServedRun:
    """A run as its server sees it: the plan and its world, who evaluates, who is admitted, and where everything is kept.

    `client_config(client)` is what a device is told of its own work; `frozen` are weights that are not trained; `on_events` gets
    all events. `kind` is that of the task, and `label_shape` that of one sample's label: they say what a score can be.
    `shard(client)` has the samples that the spec deals to a client, for devices that cannot make them (empty: none).
    """

    plan: Plan
    world: World
    evaluator: Evaluator
    registry: Registry
    key: RunKey
    client_config: Callable[[int], bytes]
    journal: Journal
    folder: Path
    name: str
    noising: NoiseSource = SEEDED
    frozen: Tree | None = None
    on_events: Callable[[Sequence[Event]], None] | None = None
    kind: Kind = CLASSIFICATION
    label_shape: tuple[int, ...] = ()
    shard: Callable[[int], bytes] | None = None


@dataclass(frozen=True, slots=True)
class ServeRule:
    """Something that cannot be served: the setting, why, and what to do instead, in the words of the refusal and of its table."""

    setting: str
    why: str
    cure: str
    applies: Callable[[Plan], bool] = lambda plan: False

    def sentence(self) -> str:
        """The refusal."""
        return f"{self.setting}: {self.why}; {self.cure}"


PLAN_RULES: tuple[ServeRule, ...] = (
    ServeRule(
        'algorithm.use = "centralized"',
        "it trains on all clients' data in one place, which devices cannot do",
        "use another algorithm, or simulate it with fedfleet run",
        lambda plan: plan.algorithm.pooled,
    ),
    ServeRule(
        "choose",
        "the selector needs the joules of a task in advance, which no device reports",
        "use a selector that goes by seconds or losses, or simulate it with fedfleet run",
        lambda plan: "joules" in plan.choose.sees,
    ),
)


def check_servable(plan: Plan, devices: int) -> None:
    """Refuse what cannot work over a network, with one sentence each."""
    for rule in PLAN_RULES:
        if rule.applies(plan):
            raise BadInput(rule.sentence())
    check_sees(plan)
    check_devices(plan, devices)


def check_devices(plan: Plan, devices: int) -> None:
    """Refuse a declared fleet that is larger than the run's."""
    if not 1 <= devices <= plan.clients:
        raise BadInput(
            f"--devices: cannot wait for {devices} devices in a fleet of {plan.clients} clients; give 1 to {plan.clients}"
        )


def foresees(choose: Selector) -> bool:
    """Does a selector need to know in advance how long work takes on a device? On a server it sees what reports have shown."""
    return any(name.endswith("_seconds") for name in choose.sees)


def adds_on_arrival(plan: Plan, options: ServeOptions) -> bool:
    """Do reports enter sums as they come? Else they are spooled, and folded at the commit."""
    algorithm = plan.algorithm
    # What edges forward is merged at the commit.
    return (
        options.streaming
        and algorithm.fold.streams
        and algorithm.accept is None
        and not algorithm.fold.partial
        and nested_pass(plan) is None
    )


def nested_pass(plan: Plan) -> NestedPass | None:
    """What the clients do, where they are edges."""
    half = plan.algorithm.local(0, NO_SETTINGS)
    return half if isinstance(half, NestedPass) else None


def max_report_bytes(plan: Plan) -> int:
    """The most bytes that a report may have: twice the model, and some room. Sums of edges have 8 or 16 bytes for each number."""
    times = 2 if nested_pass(plan) is None else 4
    return times * max(tree_nbytes(plan.params), tree_nbytes(plan.algorithm.fold.like(plan.algorithm.init(plan.params)))) + _SLACK


def stat_names(plan: Plan) -> list[str] | None:
    """The names of the statistics that clients report; None: an opaque pass calls them what it likes."""
    opaque = any(not isinstance(plan.algorithm.local(c, NO_SETTINGS), LocalPass) for c in range(plan.clients))
    return None if opaque else list(STATS)


def client_codecs(plan: Plan) -> dict[int, Codec]:
    """In which code each client's reports come, where they come in one."""
    codecs: dict[int, Codec] = {}
    for client in range(plan.clients):  # overrides may change some of them
        local_pass = plan.algorithm.local(client, NO_SETTINGS)
        if isinstance(local_pass, LocalPass) and local_pass.up is not None:
            codecs[client] = local_pass.up
    return codecs
