"""Fleets as tables: devices and states in columns, row i for client i. Read by the world, measured by the metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.intervals import Traces
from fedfleet.core.records import Floats, Ints

Names = NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """Devices: each row owns a span of measured link speeds in kbit/s; an empty span of `up` means: drawn from `down`.

    `seconds_per_sample` is inference time; `latency` is [low, high] in seconds; NaN where cores or memory are unknown.
    """

    ids: Names
    down: Floats
    down_offsets: Ints
    up: Floats
    up_offsets: Ints
    seconds_per_sample: Floats
    latency: Floats
    cores: Floats
    memory_mb: Floats

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class StateTable:
    """When clients can be reached: names and ready intervals."""

    ids: Names
    traces: Traces

    def __len__(self) -> int:
        return len(self.ids)


# How good each state is on its own: (states, deadline, clients a round, rounds, semantics) -> one score per row. Samplers of
# states need it, the metrics compute it, and the application brings them together.
StateScorer = Callable[[StateTable, float, int, int, Literal["paper", "released"]], Floats]


def device_table(
    ids: Sequence[str],
    down: Sequence[Sequence[float]],
    seconds_per_sample: Sequence[float] | Floats,
    up: Sequence[Sequence[float]] | None = None,
    latency: Floats | None = None,
    cores: Floats | None = None,
    memory_mb: Floats | None = None,
) -> DeviceTable:
    """A table from rows."""
    n = len(ids)
    none = np.full(n, np.nan)
    return DeviceTable(
        np.array(ids, np.str_), *flat(down), *flat(up if up is not None else [()] * n),
        np.asarray(seconds_per_sample, np.float64), np.zeros((n, 2)) if latency is None else latency,
        none if cores is None else cores, none if memory_mb is None else memory_mb,
    )  # fmt: skip


def flat(spans: Sequence[Sequence[float]]) -> tuple[Floats, Ints]:
    """Rows of different length as one array and its offsets."""
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in spans])]).astype(np.int64)
    return np.array([v for span in spans for v in span], np.float64), offsets


def take_spans(values: NDArray[Any], offsets: Ints, rows: Ints) -> tuple[NDArray[Any], Ints]:
    """The spans of these rows, repetition allowed, as a new flat array with offsets."""
    lengths = offsets[rows + 1] - offsets[rows]
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    index: Ints = np.repeat(offsets[rows] - new[:-1], lengths) + np.arange(int(new[-1]))
    return values[index], new


def take_devices(table: DeviceTable, rows: Ints) -> DeviceTable:
    """These rows of a device table, repetition allowed."""
    return DeviceTable(
        table.ids[rows], *take_spans(table.down, table.down_offsets, rows), *take_spans(table.up, table.up_offsets, rows),
        table.seconds_per_sample[rows], table.latency[rows], table.cores[rows], table.memory_mb[rows],
    )  # fmt: skip


def take_states(table: StateTable, rows: Ints) -> StateTable:
    """These rows of a state table, repetition allowed."""
    t = table.traces
    begins, offsets = take_spans(t.begins, t.offsets, rows)
    ends, _ = take_spans(t.ends, t.offsets, rows)
    before, _ = take_spans(t.before, t.offsets, rows)
    return StateTable(
        table.ids[rows], Traces(t.start[rows], t.period[rows], offsets, begins, ends, before, t.total[rows])
    )


def mean_kbps(table: DeviceTable) -> Floats:
    """The mean measured download speed of each device."""
    sums = np.add.reduceat(table.down, table.down_offsets[:-1])
    return sums / np.diff(table.down_offsets)


def availability(table: StateTable) -> Floats:
    """The share of its period for which each state is ready."""
    return table.traces.total / table.traces.period
