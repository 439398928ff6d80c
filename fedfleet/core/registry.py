"""The registry: names of parts as "module:function" strings, so that listing them imports no heavy package.

A builder's signature is the only schema of its parameters. Other packages add parts with entry points in the group
`fedfleet.KIND`; `register` adds one at run time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, get_type_hints

from fedfleet.core.errors import BadInput, suggest_name

_BUILTIN: dict[str, dict[str, str]] = {
    "algorithms": {
        "fedavg": "fedfleet.learn.zoo:fedavg",
        "fedprox": "fedfleet.learn.zoo:fedprox",
        "centralized": "fedfleet.learn.zoo:centralized",
        "local_only": "fedfleet.learn.zoo:local_only",
        "scaffold": "fedfleet.learn.zoo:scaffold",
        "feddyn": "fedfleet.learn.zoo:feddyn",
        "fednova": "fedfleet.learn.zoo:fednova",
        "fedavgm": "fedfleet.learn.zoo:fedavgm",
        "fedadagrad": "fedfleet.learn.zoo:fedadagrad",
        "fedadam": "fedfleet.learn.zoo:fedadam",
        "fedyogi": "fedfleet.learn.zoo:fedyogi",
        "fedkd": "fedfleet.learn.zoo:fedkd",
        "fetchsgd": "fedfleet.learn.zoo:fetchsgd",
        "stale_fedavg": "fedfleet.learn.zoo:stale_fedavg",
        "fedbuff": "fedfleet.learn.zoo:fedbuff",
        "fedasync": "fedfleet.learn.zoo:fedasync",
        "fedavg_plus": "fedfleet.learn.zoo:fedavg_plus",
        "ft": "fedfleet.learn.zoo:ft",
        "fedper": "fedfleet.learn.zoo:fedper",
        "fedrep": "fedfleet.learn.zoo:fedrep",
        "fedbabu": "fedfleet.learn.zoo:fedbabu",
        "fedbn": "fedfleet.learn.zoo:fedbn",
        "ditto": "fedfleet.learn.zoo:ditto",
        "heterofl": "fedfleet.learn.zoo:heterofl",
        "fjord": "fedfleet.learn.zoo:fjord",
        "timelyfl": "fedfleet.learn.zoo:timelyfl",
        "biasprompt": "fedfleet.learn.zoo:biasprompt",
        "biasprompt_plus": "fedfleet.learn.zoo:biasprompt_plus",
    },
    "selectors": {
        "uniform": "fedfleet.choose.uniform:uniform",
        "timely": "fedfleet.choose.timely:timely",
        "timely_interval": "fedfleet.choose.timely:timely_interval",
        "flame": "fedfleet.choose.flame:flame",
        "power_of_choice": "fedfleet.choose.power_of_choice:power_of_choice",
        "tifl": "fedfleet.choose.tifl:tifl",
        "round_robin": "fedfleet.choose.baselines:round_robin",
        "fair": "fedfleet.choose.baselines:fair",
        "fastest": "fedfleet.choose.baselines:fastest",
        "only": "fedfleet.choose.combinators:only",
        "explore": "fedfleet.choose.combinators:explore",
        "per_user": "fedfleet.choose.combinators:per_user",
        "oort": "fedfleet.choose.oort:oort",
        "pyramidfl": "fedfleet.choose.pyramid:pyramidfl",
    },
    "policies": {
        "readiness": "fedfleet.pace.rounds:readiness",
        "deadline": "fedfleet.pace.rounds:deadline",
        "overcommit": "fedfleet.pace.combinators:overcommit",
        "buffered": "fedfleet.pace.asynchronous:buffered",
        "semi_async": "fedfleet.pace.asynchronous:semi_async",
        "timeout": "fedfleet.pace.timeout:timeout",
        "first_of": "fedfleet.pace.combinators:first_of",
    },
    "codecs": {
        **{f"int{bits}": f"fedfleet.learn.codecs.quantisation:int{bits}" for bits in range(2, 9)},
        "fp16": "fedfleet.learn.codecs.quantisation:fp16",
        "bf16": "fedfleet.learn.codecs.quantisation:bf16",
        "topk": "fedfleet.learn.codecs.sparsification:topk",
        "randomk": "fedfleet.learn.codecs.sparsification:randomk",
        "sketch": "fedfleet.learn.codecs.count_sketch:sketch",
        "lowrank": "fedfleet.learn.codecs.low_rank:lowrank",
        "gzip": "fedfleet.learn.codecs.lossless:gzip",
        "deflate": "fedfleet.learn.codecs.lossless:deflate",
        "zstd": "fedfleet.learn.codecs.lossless:zstd",
    },
    "folds": {
        "mean": "fedfleet.learn.folds:mean",
        "median": "fedfleet.learn.folds:median",
        "trimmed_mean": "fedfleet.learn.folds:trimmed_mean",
        "norm_bound": "fedfleet.learn.folds:norm_bound",
        "krum": "fedfleet.learn.folds:krum",
        "multi_krum": "fedfleet.learn.folds:multi_krum",
    },
    "attacks": {
        "sign_flip": "fedfleet.learn.attacks:sign_flip",
        "scaled": "fedfleet.learn.attacks:scaled",
        "nan": "fedfleet.learn.attacks:nan",
    },
    "privacy": {
        "gaussian": "fedfleet.learn.differential_privacy:gaussian",
        "tree": "fedfleet.learn.differential_privacy:tree",
        "local": "fedfleet.learn.differential_privacy:local",
    },
    "devices": {
        "homogeneous": "fedfleet.world.devices:homogeneous",
        "spread": "fedfleet.world.devices:spread",
        "device_file": "fedfleet.world.devices:device_file",
        "dpgmm": "fedfleet.world.devices:dpgmm",
        "pool72": "fedfleet.world.samplers.pool72:pool72",
        "mobile": "fedfleet.world.dynamics:mobile",
        "equalled": "fedfleet.world.ideal_devices:equalled",
        "state_only": "fedfleet.world.dynamics:state_only",
    },
    "states": {
        "always_on": "fedfleet.world.states:always_on",
        "daily": "fedfleet.world.states:daily",
        "state_file": "fedfleet.world.states:state_file",
        "dpcsm": "fedfleet.world.states:dpcsm",
    },
    "faults": {
        "lossy": "fedfleet.world.faults:lossy",
        "delayed": "fedfleet.world.faults:delayed",
        "repeated": "fedfleet.world.faults:repeated",
        "slowed": "fedfleet.world.faults:slowed",
        "crashes": "fedfleet.world.downtime:crashes",
        "outages": "fedfleet.world.downtime:outages",
        "all_of": "fedfleet.world.faults:all_of",
    },
    "energy": {
        "phones": "fedfleet.world.energy:phones",
        "per_kind": "fedfleet.world.energy:per_kind",
        "energy_file": "fedfleet.world.energy:energy_file",
        "carbon": "fedfleet.world.energy:carbon",
        "none": "fedfleet.world.energy:none",
    },
    "partitions": {
        "iid": "fedfleet.world.partitions:iid",
        "dirichlet": "fedfleet.world.partitions:dirichlet",
        "by_label": "fedfleet.world.partitions:by_label",
        "by_owner": "fedfleet.world.partitions:by_owner",
        "label_flip": "fedfleet.world.partitions:label_flip",
    },
    "users": {"households": "fedfleet.world.users:households", "groups": "fedfleet.world.users:groups"},
    "edges": {
        "hierfl": "fedfleet.edges.hierfl:hierfl",
        "fedgs": "fedfleet.edges.fedgs:fedgs",
        "shufflefl": "fedfleet.edges.shufflefl.rule:shufflefl",
    },
    "evidence": {
        "none": "fedfleet.network.security.attestation:none",
        "shared_secret": "fedfleet.network.security.attestation:shared_secret",
    },
    "tasks": {
        "digits_logreg": "fedfleet.tasks.digits:digits_logreg",
        "digits_mlp": "fedfleet.tasks.digits:digits_mlp",
        "digits_cnn": "fedfleet.tasks.digits:digits_cnn",
        "digits_vit": "fedfleet.tasks.digits:digits_vit",
        "femnist_cnn": "fedfleet.tasks.small_images:femnist_cnn",
        "chars74k_cnn": "fedfleet.tasks.small_images:chars74k_cnn",
        "chars74k_vit": "fedfleet.tasks.small_images:chars74k_vit",
        "omniglot_cnn": "fedfleet.tasks.small_images:omniglot_cnn",
        "mlp": "fedfleet.tasks.small_images:mlp",
        "logreg": "fedfleet.tasks.small_images:logreg",
        "mnist_mlp": "fedfleet.tasks.small_images:mnist_mlp",
        "fashion_mlp": "fedfleet.tasks.small_images:fashion_mlp",
        "fashion_cnn": "fedfleet.tasks.small_images:fashion_cnn",
        "cifar_cnn": "fedfleet.tasks.photos:cifar_cnn",
        "resnet18_gn": "fedfleet.tasks.photos:resnet18_gn",
        "vit_tiny": "fedfleet.tasks.photos:vit_tiny",
        "celeba_cnn": "fedfleet.tasks.photos:celeba_cnn",
        "openimage_vit": "fedfleet.tasks.photos:openimage_vit",
        "covid_cnn": "fedfleet.tasks.photos:covid_cnn",
        "pneumonia_cnn": "fedfleet.tasks.photos:pneumonia_cnn",
        "covidfl_vit": "fedfleet.tasks.photos:covidfl_vit",
        "transfer": "fedfleet.tasks.transfer:transfer",
        "char_lstm": "fedfleet.tasks.text:char_lstm",
        "shakespeare_lstm": "fedfleet.tasks.text:shakespeare_lstm",
        "twitter_logreg": "fedfleet.tasks.text:twitter_logreg",
        "har_cnn": "fedfleet.tasks.sensors:har_cnn",
        "wisdm_cnn": "fedfleet.tasks.sensors:wisdm_cnn",
        "phone_watch_cnn": "fedfleet.tasks.sensors:phone_watch_cnn",
        "harbox_mlp": "fedfleet.tasks.sensors:harbox_mlp",
        "harbox_cnn": "fedfleet.tasks.sensors:harbox_cnn",
        "realworld_cnn": "fedfleet.tasks.sensors:realworld_cnn",
        "kws_cnn": "fedfleet.tasks.sensors:kws_cnn",
        "speech_cnn": "fedfleet.tasks.sensors:speech_cnn",
    },
}
KINDS = tuple(_BUILTIN)
# What one part of a kind is called in a message, where it is not the kind itself.
_SINGULAR = {
    "algorithms": "algorithm",
    "selectors": "selector",
    "policies": "policy",
    "codecs": "codec",
    "folds": "fold",
    "attacks": "attack",
    "partitions": "partition",
    "tasks": "task",
    "devices": "device source",
    "states": "state source",
    "faults": "fault source",
    "energy": "energy source",
    "users": "user source",
    "edges": "edge rule",
    "privacy": "privacy mechanism",
    "evidence": "evidence check",
}
_added: dict[str, dict[str, Callable[..., Any] | str]] = {kind: {} for kind in KINDS}


def register(kind: str, name: str, builder: Callable[..., Any] | str) -> None:
    """Add a part at run time: a builder, or the string "module:function"."""
    _check_kind(kind)
    _check_builder(name, builder)
    _added[kind][name] = builder


def added_here() -> bool:
    """Whether parts were registered in this process; other processes do not know them."""
    return any(_added.values())


def names(kind: str) -> list[str]:
    """All names of a kind, sorted."""
    _check_kind(kind)
    third = {e.name for e in entry_points(group=f"fedfleet.{kind}")}
    return sorted({*_BUILTIN[kind], *_added[kind], *third})


def builder(kind: str, name: str, where: str = "") -> Callable[..., Any]:
    """The function that builds this part; `where` names the place in a spec for the error message."""
    _check_kind(kind)
    result: Callable[..., Any] | str | None = _added[kind].get(name) or _BUILTIN[kind].get(name)
    if result is None:
        third = [e for e in entry_points(group=f"fedfleet.{kind}") if e.name == name]
        if not third:
            place = f"{where}: " if where else ""
            raise BadInput(f"{place}unknown {_SINGULAR.get(kind, kind)} {name!r}{suggest_name(name, names(kind))}")
        result = third[0].value
    if not isinstance(result, str):
        return result
    module, _, attribute = result.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        if module.startswith("fedfleet."):
            raise  # FedFleet's own modules exist; a missing package is reported where it is imported
        raise BadInput(f"the {kind} part {name!r} is registered as {result!r}, which cannot be loaded: {error}") from None


def parameters(build: Callable[..., Any]) -> dict[str, tuple[Any, inspect.Parameter]]:
    """The parameters of a builder with their types, read from its signature alone."""
    hints = get_type_hints(build, include_extras=True)
    return {name: (hints.get(name, Any), p) for name, p in inspect.signature(build).parameters.items()}


def summary(build: Callable[..., Any]) -> str:
    """The first line of a builder's docstring."""
    return (inspect.getdoc(build) or "").partition("\n")[0]


def _check_kind(kind: str) -> None:
    if kind not in _BUILTIN:
        hint = suggest_name(kind, KINDS)
        known = f" The kinds are {', '.join(KINDS)}." if hint.endswith("?") else ""
        raise BadInput(f"unknown kind of part {kind!r}{hint}{known}")


def _check_builder(name: Any, builder: Any) -> None:
    if not isinstance(name, str) or not name:
        raise BadInput(f"register: {name!r} is not a name; give a non-empty string, which specs use to name the part")
    if not callable(builder) and not (isinstance(builder, str) and all(builder.partition(":"))):
        raise BadInput(f'register {name!r}: {builder!r} is not a builder; give a function, or "module:function"')
