"""Energy sources: what computing and the radio draw from each client's battery, and the carbon that it stands for.

Joules are seconds by stage times watts. Waiting for anything but the network costs nothing here: a phone that is out of reach, or
whose model is back, would have idled anyway. An edge plans on its gateway, which is plugged in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Literal

import numpy as np

from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.limits import NonNegative
from fedfleet.core.records import Floats, Ints, Keys
from fedfleet.core.shared_rows import SharedNames
from fedfleet.core.sources import DeviceSource, EnergySource
from fedfleet.core.stages import StageSeconds
from fedfleet.world.bases.file_checks import read_json

EnergyRecipe = Callable[[DeviceSource, Keys, int], EnergySource]
Link = Literal["wifi", "4g"]
FORMAT = "fedfleet/energy@1"
_KILOWATT_HOUR, _DAY = 3.6e6, 86400.0


@dataclass(frozen=True, slots=True)
class Watts:
    """What a device draws beyond idling: watts while it computes, receives, transmits, or waits with its radio on; and after a
    transfer the `tail`, the watts of a radio that stays awake for `tail_seconds`."""

    compute: float
    receive: float
    transmit: float
    waiting: float
    tail: float
    tail_seconds: float


# Computing: the mean of the peak watts of three phones' processors, 5.5, 5.6 and 3.6 (Kim and Wu, AutoFL, MICRO 2021).
# Radio: Huang et al., MobiSys 2012: base + slope x Mbit/s, in watts, at the median speeds that they measured. Wi-Fi: base 0.133,
# slopes 0.137 down and 0.283 up, at 4.12 and 0.94 Mbit/s; LTE: base 1.288, slopes 0.052 and 0.438, at 12.74 and 5.64 Mbit/s.
LINKS: dict[str, Watts] = {
    "wifi": Watts(4.9, receive=0.697, transmit=0.399, waiting=0.133, tail=0.119, tail_seconds=0.238),
    "4g": Watts(4.9, receive=1.950, transmit=3.761, waiting=1.288, tail=1.060, tail_seconds=11.576),
}
_NAMES = tuple(field.name for field in fields(Watts))


def none() -> EnergyRecipe:
    """Energy is not counted."""
    return lambda devices, keys, seed: EnergySource(lambda clients, spent, start: {})


def phones(
    *,
    link: Link = "wifi",
    compute: NonNegative | None = None,
    receive: NonNegative | None = None,
    transmit: NonNegative | None = None,
    waiting: NonNegative | None = None,
    tail: NonNegative | None = None,
    tail_seconds: NonNegative | None = None,
) -> EnergyRecipe:
    """The same watts for every device: computing, receiving, transmitting, and the radio's tail after a transfer, by `link`.

    What is left out is that of the link: `fedfleet.world.energy.LINKS` has the numbers with their sources. All are in watts but
    `tail_seconds`. The tail after a download lasts until computing ends at most, that after an upload until its own end. A faster
    device draws no more than a slow one: it takes fewer joules for the same work, as it is done sooner; `per_kind` says otherwise.
    """
    given = zip(_NAMES, (compute, receive, transmit, waiting, tail, tail_seconds), strict=True)
    own = replace(LINKS[link], **{name: value for name, value in given if value is not None})
    return lambda devices, keys, seed: source_from_watts(lambda clients: own)


def per_kind(*, watts: dict[str, dict[str, NonNegative]], link: Link = "wifi") -> EnergyRecipe:
    """Own watts for each kind of device: `watts.KIND` has compute, receive, transmit, waiting, tail, tail_seconds.

    What a kind leaves out, and kinds that are not named, have what `phones` has for the link. A kind of no device is an error.
    """
    for kind, kind_watts in watts.items():
        for name in kind_watts:
            if name not in _NAMES:
                raise BadInput(f"world.energy.watts.{kind} has no key {name!r}{suggest_name(name, _NAMES)}")

    def recipe(devices: DeviceSource, _keys: Keys, _seed: int) -> EnergySource:
        names, kind_of = _kinds(devices.kinds)
        for kind in watts:
            if kind not in names:
                raise BadInput(f"world.energy: no device is of the kind {kind!r}{suggest_name(kind, names)}")
        rows = np.array([astuple(replace(LINKS[link], **watts.get(name, {}))) for name in names])
        return source_from_watts(lambda clients: Watts(*rows[kind_of(clients)].T))

    return recipe


def energy_file(path: str, *, link: Link = "wifi") -> EnergyRecipe:
    """Own watts by kind of device from a file: {"format": "fedfleet/energy@1", "watts": {KIND: {"compute": 3.5, ..}}}."""
    result = read_json(path)
    table = result.get("watts") if isinstance(result, dict) and result.get("format") == FORMAT else None
    if not isinstance(table, dict):
        raise BadInput(f'{path} is not an energy file; it needs "format": "{FORMAT}" and "watts": {{KIND: {{..}}}}')
    for kind, kind_watts in table.items():
        fine = isinstance(kind_watts, dict) and all(type(v) in (int, float) and 0 <= v < np.inf for v in kind_watts.values())
        if not fine:
            raise BadInput(f"{path}: the watts of {kind!r} must be finite numbers by name, not negative")
    return per_kind(watts=table, link=link)


def carbon(
    energy: EnergyRecipe,
    *,
    base: NonNegative = 480.0,
    swing: NonNegative = 0.0,
    peak_hour: NonNegative = 19.0,
    hours: list[NonNegative] | None = None,
) -> EnergyRecipe:
    """Grams of CO2 beside the joules of another source, by the hour at which a task starts; a run starts at midnight.

    Grams per kilowatt-hour are base + swing cos(2 pi (hour - peak_hour) / 24), or those of `hours`, a list of equal parts of
    the day that begins at midnight. The base is the world's mean of 2023 (Ember, Global Electricity Review 2024). Losses of the
    charger and the energy of networks and servers are not in it.
    """
    if swing > base:
        raise BadInput(
            f"world.energy.swing = {swing:g}: this is more than base = {base:g}, so grams would be negative; lower swing"
        )
    if hours is not None and not hours:
        raise BadInput(
            "world.energy.hours: the list is empty; give the grams of CO2 per kWh for equal parts of the day from midnight "
            "on, or leave hours out"
        )

    def grams_per_joule(start: Floats) -> Floats:
        day = np.mod(start, _DAY) / _DAY
        if hours is not None:
            parts = np.array(hours, np.float64)
            return parts[np.minimum((day * len(parts)).astype(np.int64), len(parts) - 1)] / _KILOWATT_HOUR
        return (base + swing * np.cos(2.0 * np.pi * (day - peak_hour / 24.0))) / _KILOWATT_HOUR

    def recipe(devices: DeviceSource, keys: Keys, seed: int) -> EnergySource:
        inner = energy(devices, keys, seed)

        def charges(clients: Ints, spent: StageSeconds, start: Floats) -> Mapping[str, Floats]:
            result = inner.charges(clients, spent, start)
            return {**result, "grams": result["joules"] * grams_per_joule(start)} if "joules" in result else result

        return EnergySource(charges)

    return recipe


def source_from_watts(watts_of: Callable[[Ints], Watts]) -> EnergySource:
    """The source of devices that draw these watts: numbers, or columns with one entry for each of the clients."""

    def charges(clients: Ints, spent: StageSeconds, _start: Floats) -> Mapping[str, Floats]:
        nothing, own = np.zeros(len(clients)), watts_of(clients)

        def seconds(stage: str) -> Floats:
            return spent.get(stage, nothing)

        both = 0.5 * (own.receive + own.transmit)  # models and samples go both ways inside a user
        down, up, compute = seconds("download"), seconds("upload"), seconds("compute")
        awake = np.where(down > 0, np.minimum(own.tail_seconds, compute), 0.0) + np.where(up > 0, own.tail_seconds, 0.0)
        joules = (
            own.compute * compute + own.receive * down + own.transmit * up + own.waiting * seconds("latency")
            + both * (seconds("exchange") + seconds("averaging")) + own.tail * awake
        )  # fmt: skip
        return {"joules": joules}

    return EnergySource(charges)


def _kinds(kinds: Sequence[str]) -> tuple[list[str], Callable[[Ints], Ints]]:
    """The different kinds, and which of them clients are of; a fleet that shares names need not be written out."""
    if isinstance(kinds, SharedNames):
        return kinds.names.tolist(), lambda clients: kinds.row_index[clients].astype(np.int64)
    names, kind_index = np.unique(np.array(kinds, np.str_), return_inverse=True)
    return names.tolist(), lambda clients: kind_index[clients]
