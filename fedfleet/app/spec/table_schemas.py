"""The keys of the tables that are not parts. Only the signatures are used: they are the schema, as a builder's is for a part."""

from __future__ import annotations

from typing import Any, Literal

from fedfleet.core.limits import Clients, Count, Natural, Part, Positive, Seed, Threads


def world_settings(
    *,
    clients: Clients = 100,
    model_bytes: Positive | None = None,
    split: list[Natural] = [6, 2, 2],  # noqa: B006
    min_samples: Count = 5,
    heterogeneity: Literal["both", "devices", "states", "none"] = "both",
    free_probes: bool = False,
    tags: dict[str, list[Natural]] | None = None,
    holdout: Part | Count | None = None,
    unseen: Part | Count | list[Natural] | None = None,
    charge: Literal["trained"] | Count | None = None,
) -> None:
    """The keys of [world] beside its parts."""


def seed_settings(*, fleet: Seed | None = None, data: Seed | None = None, training: Seed | None = None) -> None:
    """The keys of [seeds]: what is not set has the `seed` of the spec."""


def run_settings(
    *,
    execute: Literal["auto", "inline", "stacked", "ray"] = "auto",
    device: Literal["cpu", "cuda"] = "cpu",
    tf32: bool = False,
    threads: Threads = 1,
    checkpoint_every: Count = 20,
    memory_mb: Count = 2048,
    workers: Threads | None = None,
    ray_address: str | None = None,
    ray_execute: Literal["inline", "stacked"] = "inline",
) -> None:
    """The keys of [run], which say how to run and not what; they stay out of the digest."""


def override_settings(*, clients: list[Natural] = [], kinds: list[str] = [], algorithm: dict[str, Any] = {}) -> None:  # noqa: B006
    """The keys of one [[override]]."""
