"""What a server refuses before any device is let in, and what it takes from a spec but does not use.

Each rule is one row: the sentence of the refusal and the table in the documentation are made of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedfleet.app.assemble.client_config import check_sendable, client_configs
from fedfleet.app.assemble.setup import Setup
from fedfleet.app.spec import Spec, resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import read_target
from fedfleet.core.part_facts import FleetFacts
from fedfleet.core.registry import builder, parameters
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.served_plan import PLAN_RULES, ServeRule, check_devices, foresees
from fedfleet.store.noise_source import VARIABLE, secret_file

_SIMULATED_KEYS = ("devices", "states", "faults", "energy", "heterogeneity", "charge")


@dataclass(frozen=True, slots=True)
class SetupRule(ServeRule):
    """A rule about a spec and the options of the server, beyond the plan."""

    breaks: Callable[[Setup, ServeOptions], bool] = lambda setup, options: False


def _noise_without_secret(setup: Setup, options: ServeOptions) -> bool:
    del options
    return setup.plan.algorithm.fold.noise is not None and secret_file() is None


def _secret_sampling(setup: Setup, options: ServeOptions) -> bool:
    del options
    promise = setup.plan.algorithm.private
    return promise is not None and promise.sample is not None


def _target_of_server(setup: Setup, options: ServeOptions) -> bool:
    target = setup.plan.stop.target
    parsed = None if target is None else read_target(target)
    kind = setup.task.dataset.kind
    return options.evaluate == "devices" and parsed is not None and parsed[0] not in ("score", kind.score.lower().replace(" ", "_"))


def _evaluation_behind_edges(setup: Setup, options: ServeOptions) -> bool:
    return setup.spec.edge is not None and options.evaluate != "server"


SETUP_RULES: tuple[SetupRule, ...] = (
    SetupRule(
        "--evaluate devices",
        "edges evaluate no models, and pass none on to be evaluated",
        "with [edge], leave --evaluate out: the server itself evaluates",
        breaks=_evaluation_behind_edges,
    ),
    SetupRule(
        "algorithm.private.amplify",
        "devices know the seed, so they can compute which clients are picked, and sampling protects no client in a served run",
        "leave amplify out",
        breaks=_secret_sampling,
    ),
    SetupRule(
        "algorithm.private",
        "devices know the seed, so the noise of a served run needs a secret",
        f"set the environment variable {VARIABLE} to the path of the file that holds it",
        breaks=_noise_without_secret,
    ),
    SetupRule(
        "--evaluate devices",
        "devices report a score and a loss, so a stop.target of another measure could never be reached",
        "use --evaluate server or both, or a stop.target of the score",
        breaks=_target_of_server,
    ),
)


def check_serve(setup: Setup, options: ServeOptions) -> None:
    """Refuse what cannot be served, with one sentence each."""
    check_sendable(setup)
    for rule in PLAN_RULES:
        if rule.applies(setup.plan):
            raise BadInput(rule.sentence())
    for rule in SETUP_RULES:
        if rule.breaks(setup, options):
            raise BadInput(rule.sentence())
    check_devices(setup.plan, options.devices)


def serve_refusal(setup: Setup) -> str | None:
    """Why a server would refuse this spec with the options that it has by default; None if it would serve it."""
    try:
        check_serve(setup, ServeOptions(devices=setup.plan.pace.cohort))
    except BadInput as refusal:
        return str(refusal)
    return None


def numpy_refusal(setup: Setup) -> str | None:
    """Why devices with `--engine numpy` cannot train this run, from the configuration of a client; None if they can."""
    config: Mapping[str, Any] = json.loads(client_configs(setup)(0, False))
    # That of an edge has what the configurations of its devices share.
    described: Mapping[str, Any] = config.get("shared", config)["described"]
    return str(described["refused"]) if "refused" in described else None


def rules_table() -> str:
    """The rules as a table in Markdown, for the documentation."""
    rows = [(rule.setting, rule.why, rule.cure) for rule in (*PLAN_RULES, *SETUP_RULES)]
    lines = ["| setting | why a server refuses it | what to do |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| `{setting}` | {why} | {cure} |" for setting, why, cure in rows)])


# ---- what is not used -----------------------------------------------------------------------------------------------


def unused_settings(spec: Spec, setup: Setup | None = None) -> list[str]:
    """What a spec says of a simulated fleet and a server has no use for: real devices show how they are.

    With the setup it is known whether a part looks at the described devices all the same.
    """
    defaults = resolve({}).world
    keys = [f"world.{key}" for key in _SIMULATED_KEYS if spec.world.get(key) != defaults.get(key)]
    sentences: list[str] = []
    if setup is not None and "world.devices" in keys and looks_at_devices(spec, setup):
        keys.remove("world.devices")
        sentences.append(
            "world.devices: parts of this run look at the described devices; how long work takes is replaced by what devices "
            "report, as soon as they do"
        )
    if keys:
        single = len(keys) == 1
        sentences.append(
            f"{', '.join(keys)} {'describes' if single else 'describe'} a simulated fleet; here devices need real time, so "
            f"{'this setting has' if single else 'these settings have'} no effect"
        )
    execute = spec.run["execute"]
    if execute not in ("inline", "auto"):
        sentences.append(f'run.execute = "{execute}" has no effect on training: each device trains with its own --engine')
    return sentences


def looks_at_devices(spec: Spec, setup: Setup) -> bool:
    """Does a part of the run look at the devices that the spec describes: their speeds, their memory, their kinds?"""
    tables = [("selectors", spec.choose), ("algorithms", spec.algorithm)]
    return foresees(setup.plan.choose) or any(o["kinds"] for o in spec.override) or any(_asks(kind, t) for kind, t in tables)


def _asks(kind: str, table: Mapping[str, Any]) -> bool:
    """Does the part of this table, or one inside it, ask for facts of the fleet?"""
    inner = [value for value in table.values() if isinstance(value, Mapping) and "use" in value]
    asks = any(hint is FleetFacts for hint, _ in parameters(builder(kind, table["use"])).values())
    return asks or any(_asks(kind, one) for one in inner if kind == "selectors")
