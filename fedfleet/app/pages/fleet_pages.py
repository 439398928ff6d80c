"""Pages about a fleet: speeds, availability over the day, and how often each client succeeds."""

from __future__ import annotations

from functools import partial

import numpy as np

from fedfleet.app.pages.charts.axes import format_number
from fedfleet.app.pages.charts.column_chart import Column, Panel, columns, histogram, rank_edges
from fedfleet.app.pages.charts.marks import Drawing, Sheet, figure
from fedfleet.app.pages.charts.steps import Line, Plot, steps
from fedfleet.app.pages.html import page, topline
from fedfleet.core.fleet import DeviceTable, StateTable, availability, mean_kbps, unshared_devices, unshared_states
from fedfleet.core.intervals import ready_until
from fedfleet.core.records import Floats, Ints
from fedfleet.measure.montecarlo.metrics import map_in_threads, parts_of, simulate
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.world.bases import load_devices, load_states


def distribution_figure(title: str, values: Floats, unit: str, *, bins: int = 20, log: bool = False) -> str:
    """The figure of how often values fall into equal ranges; `log`: equal on a logarithmic scale."""
    scaled = np.log10(np.maximum(values, 1e-9)) if log else values
    counts, edges = np.histogram(scaled, bins)
    limits: list[float] = (10.0**edges if log else edges).tolist()
    feet = [_short_number(limits[i]) if i % 5 == 0 else "" for i in range(bins)]
    finding = f"{title}: {_short_number(float(values.min()))} to {_short_number(float(values.max()))} {unit}, {_short_number(float(np.median(values)))} in the middle, of {len(values):,}."
    ranges = (
        f"{bins} equal ranges{', logarithmic' if log else ''}, {_short_number(limits[0])} to {_short_number(limits[-1])} {unit}"
    )
    label = f"{unit}, each from"
    how, numbers = f"How many fall into each of {ranges}", counts.tolist()
    return figure(title, how, lambda sheet: histogram(numbers, sheet, feet, label=label), finding)


def _short_number(value: float) -> str:
    return format_number(float(f"{value:.3g}"))


def devices_page(table: DeviceTable) -> str:
    """Speeds of a fleet, as in Figures S3 and S4 of FLHetBench's supplement."""
    means = mean_kbps(table) / 1000.0
    ordered = np.sort(means)
    curve = Line("devices", ordered.tolist(), (np.arange(1, len(ordered) + 1) / len(ordered)).tolist(), label_text="100 %")
    slow = f"A tenth of the clients is slower than {np.percentile(means, 10):,.1f} Mbit/s, half than {np.median(means):,.1f}."
    body = [
        "<h1>Devices of a fleet</h1>",
        f'<p class="lead">{len(table)} clients with {len(np.unique(table.ids))} different devices; mean speed {means.mean():.1f} Mbit/s, '
        f"standard deviation {means.std():.1f}.</p>",
        distribution_figure("How fast clients are on average", means, "Mbit/s"),
        distribution_figure("All measured speeds; each trip of a client uses one of them", unshared_devices(table).down / 1000.0, "Mbit/s"),
        figure("The share of clients that are slower than a speed", "", lambda sheet: steps([curve], sheet, Plot(time=False, label="mean speed, Mbit/s")), slow),
    ]  # fmt: skip
    return page("FedFleet: devices", body, top=topline("devices of a fleet"))


def hourly_availability(table: StateTable, *, days: int = 5) -> Floats:
    """The mean share of ready clients at each hour of the day, over some days, looked at every ten minutes."""
    everyone = np.arange(len(table))
    times = np.arange(0, days * 86400, 600.0)
    ready = np.array([ready_until(table.traces, everyone, float(t))[0].mean() for t in times])
    return np.array([ready[(times % 86400) // 3600 == hour].mean() for hour in range(24)])


def states_page(table: StateTable) -> str:
    """Reachability of a fleet over the day, and how long sessions last."""
    share = availability(table)
    hours = hourly_availability(table)
    t = unshared_states(table).traces
    lengths = np.maximum(t.ends - t.begins, 1.0) / 60.0
    curve = Line("ready", [*range(24), 24], [*hours.tolist(), float(hours[0])], label_text=f"{100 * hours[0]:.0f} %")
    daily = f"Most are ready at {int(hours.argmax())} o'clock, {100 * hours.max():.0f} %; fewest at {int(hours.argmin())} o'clock, {100 * hours.min():.0f} %."
    body = [
        "<h1>Reachability of a fleet</h1>",
        f'<p class="lead">{len(table)} clients with {len(np.unique(table.ids))} different states; on average {100 * share.mean():.1f} % of the time ready.</p>',
        figure("How many can be reached at each hour", "Share of clients ready", lambda sheet: steps([curve], sheet, Plot(time=False, label="hour of the day")), daily),
        distribution_figure("How much of the time each client is ready", 100 * share, "%"),
        distribution_figure("How long a client stays ready", lengths, "minutes", log=True),
    ]  # fmt: skip
    return page("FedFleet: states", body, top=topline("reachability of a fleet"))


def successes_page(devices: str | None, states: str | None, settings: Settings) -> str:
    """How often each client succeeds before the deadline, S_i, in the simulations behind the R metrics."""
    d = load_devices(devices) if devices else None
    s = load_states(states) if states else None
    body = [
        "<h1>How often each client succeeds</h1>",
        '<p class="lead">Successful trips per client in one simulation of each kind, most first.</p>',
    ]
    known = {"DevMC-R": d is not None, "StatMC-R": s is not None, "InterMC-R": d is not None and s is not None}
    for name in (name for name, available in known.items() if available):
        job = partial(simulate, settings, *parts_of(name, d, s), seed=0, t_cost=settings.deadline, by_deadline=True)
        [(successes, _)] = map_in_threads(lambda asked, stop: asked(stop=stop), [job])
        order = np.argsort(-successes, kind="stable")
        ideal = settings.s_ideal(len(successes))
        body.append(f"<h2>{name}</h2>" + _success_chart(successes[order], ideal))
    return page("FedFleet: successes", body, top=topline("how often each client succeeds"))


def _success_chart(successes: Ints, ideal: float) -> str:
    """Successes from most to least, a column for each client or for several of like rank."""
    edges = rank_edges(len(successes))
    means: list[float] = (np.add.reduceat(successes, edges[:-1]) / np.diff(edges)).tolist()
    none = int((successes == 0).sum())
    captions = (f"{none:,} of {len(successes):,} never succeed",)
    panel = Panel([Column(m) for m in means], people=len(successes), never=none, captions=captions)
    each = "" if len(means) == len(successes) else f"; a column is {len(successes) // len(means):,} clients"
    finding = f"If all clients were alike and always reachable, each would succeed {ideal:.0f} times; the best does {successes[0]:,} times, {none:,} never."

    def chart(sheet: Sheet) -> Drawing:
        return columns([panel], sheet, across=1, height=130, ref=(ideal, "if all were alike"))

    return figure("Successes of each client, most first", f"Grey: never{each}", chart, finding, note=finding)
