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

# By kind and module, the builders that FedFleet brings; each goes by the name of its function.
_MODULES: dict[str, dict[str, str]] = {
    "algorithms": {
        "learn.zoo": (
            "fedavg fedprox centralized local_only scaffold feddyn fednova fedavgm fedadagrad fedadam fedyogi fedkd fetchsgd "
            "stale_fedavg fedbuff fedasync fedavg_plus ft fedper fedrep fedbabu fedbn ditto heterofl fjord timelyfl biasprompt "
            "biasprompt_plus"
        ),
    },
    "selectors": {
        "choose.uniform": "uniform",
        "choose.timely": "timely timely_interval",
        "choose.flame": "flame",
        "choose.power_of_choice": "power_of_choice",
        "choose.tifl": "tifl",
        "choose.baselines": "round_robin fair fastest",
        "choose.combinators": "only explore per_user",
        "choose.report_bounds": "bounded",
        "choose.oort": "oort",
        "choose.pyramid": "pyramidfl",
    },
    "policies": {
        "pace.rounds": "readiness deadline",
        "pace.combinators": "overcommit first_of",
        "pace.asynchronous": "buffered semi_async",
        "pace.timeout": "timeout",
    },
    "codecs": {
        "learn.codecs.quantisation": "int2 int3 int4 int5 int6 int7 int8 fp16 bf16",
        "learn.codecs.sparsification": "topk randomk sketch",
        "learn.codecs.low_rank": "lowrank",
        "learn.codecs.lossless": "gzip deflate zstd",
    },
    "folds": {"learn.folds": "mean median trimmed_mean norm_bound krum multi_krum"},
    "attacks": {"learn.attacks": "sign_flip scaled nan"},
    "privacy": {"learn.differential_privacy": "gaussian tree local"},
    "devices": {
        "world.devices": "homogeneous spread device_file dpgmm",
        "world.samplers.pool72": "pool72",
        "world.dynamics": "mobile state_only",
        "world.ideal_devices": "equalled",
    },
    "states": {"world.states": "always_on daily state_file dpcsm"},
    "faults": {
        "world.faults": "lossy delayed repeated slowed all_of crashes outages",
    },
    "energy": {"world.energy": "phones per_kind energy_file carbon none"},
    "partitions": {"world.partitions": "iid dirichlet quantity by_label by_owner label_flip"},
    "users": {"world.users": "households groups"},
    "edges": {
        "edges.hierfl": "hierfl",
        "edges.fedgs": "fedgs",
        "edges.shufflefl.rule": "shufflefl",
    },
    "evidence": {"network.security.attestation": "none shared_secret"},
    "tasks": {
        "tasks.digits": "digits_logreg digits_mlp digits_cnn digits_vit digits_traits",
        "tasks.small_images": "femnist_cnn chars74k_cnn chars74k_vit omniglot_cnn mlp logreg mnist_mlp fashion_mlp fashion_cnn",
        "tasks.photos": "cifar_cnn resnet18_gn vit_tiny celeba_cnn openimage_vit covid_cnn pneumonia_cnn covidfl_vit transfer",
        "tasks.text": "char_lstm shakespeare_lstm text_gpt text_lstm shakespeare_gpt twitter_logreg",
        "tasks.numbers": "diabetes_mlp digits_completion",
        "tasks.table": "table",
        "tasks.sensors": "har_cnn wisdm_cnn phone_watch_cnn harbox_mlp harbox_cnn realworld_cnn kws_cnn speech_cnn",
    },
}
_BUILTIN = {
    kind: {name: f"fedfleet.{module}:{name}" for module, names in modules.items() for name in names.split()}
    for kind, modules in _MODULES.items()
}
KINDS = tuple(_BUILTIN)
# What one part of a kind is called in a message, where it is not the kind itself.
_SINGULAR = {kind: kind[:-1] for kind in ("algorithms", "selectors", "codecs", "folds", "attacks", "partitions", "tasks")} | {
    "policies": "policy", "devices": "device source", "states": "state source", "faults": "fault source",
    "energy": "energy source", "users": "user source", "edges": "edge rule", "privacy": "privacy mechanism",
    "evidence": "evidence check",
}  # fmt: skip
_added: dict[str, dict[str, Callable[..., Any] | str]] = {kind: {} for kind in KINDS}


def register(kind: str, name: str, builder: Callable[..., Any] | str) -> None:
    """Add a part at run time: a builder, or the string "module:function"."""
    _check_kind(kind)
    if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance] - people call it
        raise BadInput(f"register: {name!r} is not a name; give a non-empty string, which specs use to name the part")
    if not callable(builder) and not (isinstance(builder, str) and all(builder.partition(":"))):  # pyright: ignore
        raise BadInput(f'register {name!r}: {builder!r} is not a builder; give a function, or "module:function"')
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
