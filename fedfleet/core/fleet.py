"""Fleets as tables: devices and states in columns. Read by the world, measured by the metrics.

Row i is client i's, unless clients share rows (`core.shared_rows`): then client c has row `row_index[c]`, and the length of a table
is its number of clients, not of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.intervals import Traces
from fedfleet.core.records import Floats, Ints
from fedfleet.core.shared_rows import Names, RowNumbers, compact_rows


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """Devices: each row owns a span of measured link speeds in kbit/s; an empty span of `up` means: drawn from `down`.

    `seconds_per_sample` is inference time; `seconds_per_batch` is what each training batch takes besides its samples; `latency` is
    [low, high] in seconds; NaN where cores or memory are unknown.
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
    seconds_per_batch: Floats
    row_index: RowNumbers | None = None

    def __len__(self) -> int:
        return len(self.ids) if self.row_index is None else len(self.row_index)


@dataclass(frozen=True, slots=True)
class StateTable:
    """When clients can be reached: ready intervals, and the name of each trace (which client follows it: `traces.of`)."""

    ids: Names
    traces: Traces

    def __len__(self) -> int:
        return len(self.traces)


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
    seconds_per_batch: Floats | None = None,
) -> DeviceTable:
    """A table from rows."""
    n = len(ids)
    none = np.full(n, np.nan)
    return DeviceTable(
        np.array(ids, np.str_), *flatten_spans(down), *flatten_spans(up if up is not None else [()] * n),
        np.asarray(seconds_per_sample, np.float64), np.zeros((n, 2)) if latency is None else latency,
        none if cores is None else cores, none if memory_mb is None else memory_mb,
        np.zeros(n) if seconds_per_batch is None else seconds_per_batch,
    )  # fmt: skip


def flatten_spans(spans: Sequence[Sequence[float]]) -> tuple[Floats, Ints]:
    """Rows of different length as one array and its offsets."""
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in spans])]).astype(np.int64)
    return np.array([v for span in spans for v in span], np.float64), offsets


def take_spans(values: NDArray[Any], offsets: Ints, rows: Ints) -> tuple[NDArray[Any], Ints]:
    """The spans of these rows, repetition allowed, as a new flat array with offsets."""
    lengths = offsets[rows + 1] - offsets[rows]
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    index: Ints = np.repeat(offsets[rows] - new[:-1], lengths) + np.arange(int(new[-1]))
    return values[index], new


def take_devices(table: DeviceTable, clients: Ints) -> DeviceTable:
    """A table of these clients of another, repetition allowed; clients that have the same device share its row."""
    return _device_rows(table, *compact_rows(table.row_index, len(table.ids), clients))


def _device_rows(table: DeviceTable, rows: Ints, row_index: RowNumbers | None) -> DeviceTable:
    return DeviceTable(
        table.ids[rows], *take_spans(table.down, table.down_offsets, rows), *take_spans(table.up, table.up_offsets, rows),
        table.seconds_per_sample[rows], table.latency[rows], table.cores[rows], table.memory_mb[rows],
        table.seconds_per_batch[rows], row_index,
    )  # fmt: skip


def take_states(table: StateTable, clients: Ints) -> StateTable:
    """A table of these clients of another, repetition allowed; clients that have the same state share its trace."""
    return _state_rows(table, *compact_rows(table.traces.row_index, len(table.ids), clients))


def _state_rows(table: StateTable, rows: Ints, row_index: RowNumbers | None) -> StateTable:
    t = table.traces
    begins, offsets = take_spans(t.begins, t.offsets, rows)
    ends, _ = take_spans(t.ends, t.offsets, rows)
    before, _ = take_spans(t.before, t.offsets, rows)
    return StateTable(
        table.ids[rows], Traces(t.start[rows], t.period[rows], offsets, begins, ends, before, t.total[rows], row_index)
    )


def unshared_devices(table: DeviceTable) -> DeviceTable:
    """The same fleet with one row for each client, as files and figures of single measurements need it."""
    return table if table.row_index is None else _device_rows(table, table.row_index.astype(np.int64), None)


def unshared_states(table: StateTable) -> StateTable:
    """The same fleet with one row for each client."""
    return table if table.traces.row_index is None else _state_rows(table, table.traces.row_index.astype(np.int64), None)


def client_ids(table: DeviceTable | StateTable) -> Names:
    """The name of each client's device or state."""
    row_index = table.row_index if isinstance(table, DeviceTable) else table.traces.row_index
    return table.ids if row_index is None else table.ids[row_index]


def mean_kbps(table: DeviceTable) -> Floats:
    """The mean measured download speed of each client's device."""
    sums = np.add.reduceat(table.down, table.down_offsets[:-1])
    means: Floats = sums / np.diff(table.down_offsets)
    return means if table.row_index is None else means[table.row_index]


def availability(table: StateTable) -> Floats:
    """The share of its period for which each client is ready."""
    shares = table.traces.total / table.traces.period
    return shares if table.traces.row_index is None else shares[table.traces.row_index]
