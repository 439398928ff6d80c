"""Pages about a fleet: speeds, availability over the day, and how often each client succeeds."""

from __future__ import annotations

from functools import partial

import numpy as np

from fedfleet.app.pages.columns import ranked_columns, thinned
from fedfleet.app.pages.html import figure, page
from fedfleet.app.pages.svg import COLOURS, Series, bar_chart, line_chart
from fedfleet.core.fleet import DeviceTable, StateTable, availability, mean_kbps, unshared_devices, unshared_states
from fedfleet.core.intervals import ready_until
from fedfleet.core.records import Floats
from fedfleet.measure.montecarlo.metrics import in_threads, parts_of, simulate
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.world.bases import load_devices, load_states


def histogram(values: Floats, x_label: str, y_label: str, *, bins: int = 40) -> str:
    """How often values fall into equal ranges."""
    counts, edges = np.histogram(values, bins)
    titles = [f"{edges[i]:.4g} to {edges[i + 1]:.4g}: {counts[i]}" for i in range(len(counts))]
    span = f"{x_label}: {edges[0]:.4g} to {edges[-1]:.4g}, in {bins} equal ranges"
    return bar_chart(counts.tolist(), span, y_label, [COLOURS[0]] * len(counts), titles, numbered=False)


def devices_page(table: DeviceTable) -> str:
    """Speeds of a fleet, as in Figures S3 and S4 of FLHetBench's supplement."""
    means = mean_kbps(table) / 1000.0
    ordered = np.sort(means)
    curve = Series("clients", ordered.tolist(), (np.arange(1, len(ordered) + 1) / len(ordered)).tolist(), COLOURS[0])
    body = [
        "<h1>Devices of a fleet</h1>",
        f'<p class="lead">{len(table)} clients with {len(np.unique(table.ids))} different devices; mean speed {means.mean():.1f} Mbit/s, '
        f"standard deviation {means.std():.1f}.</p>",
        figure(histogram(means, "mean speed of a client, Mbit/s", "clients"), "How fast clients are on average."),
        figure(histogram(unshared_devices(table).down / 1000.0, "single measurements, Mbit/s", "measurements"), "All measured speeds; each trip of a client uses one of them."),
        figure(line_chart([thinned(curve)], "mean speed, Mbit/s", "share of clients", y_percent=True), "The share of clients that are slower than a speed."),
    ]  # fmt: skip
    return page("FedFleet: devices", body)


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
    lengths = np.log10(np.maximum(t.ends - t.begins, 1.0))
    body = [
        "<h1>Reachability of a fleet</h1>",
        f'<p class="lead">{len(table)} clients with {len(np.unique(table.ids))} different states; on average {100 * share.mean():.1f} % of the time ready.</p>',
        figure(line_chart([Series("ready", list(range(24)), hours.tolist(), COLOURS[0])], "hour of the day", "share of clients ready"), "How many can be reached at each hour."),
        figure(histogram(share, "share of time ready", "clients"), "How much of the time each client is ready."),
        figure(histogram(lengths, "length of a session, log10 seconds", "sessions"), "How long a client stays ready: 1 is ten seconds, 4 is nearly three hours."),
    ]  # fmt: skip
    return page("FedFleet: states", body)


def successes_page(devices: str | None, states: str | None, settings: Settings) -> str:
    """How often each client succeeds before the deadline, S_i, in the simulations behind the R metrics."""
    d = load_devices(devices) if devices else None
    s = load_states(states) if states else None
    body = [
        "<h1>How often each client succeeds</h1>",
        '<p class="lead">Successful trips per client in one simulation of each kind, most first.</p>',
    ]
    for name, needed in (
        ("DevMC-R", d is not None),
        ("StatMC-R", s is not None),
        ("InterMC-R", d is not None and s is not None),
    ):
        if not needed:
            continue
        mine = parts_of(name, d, s)
        asked = partial(simulate, settings, *mine, seed=0, t_cost=settings.deadline, by_deadline=True)
        [(successes, _)] = in_threads(lambda asked, stop: asked(stop=stop), [asked])
        order = np.argsort(-successes, kind="stable")
        ideal = settings.s_ideal(len(successes))
        chart = ranked_columns(
            successes, order, "clients, most successful first", "S_i", [COLOURS[0], COLOURS[2]], (successes == 0).astype(np.int64),
            lambda c, own=successes: f"client {c}: {own[c]}",
        )  # fmt: skip
        body.append(
            f"<h2>{name}</h2>"
            + figure(chart, f"If all clients were alike and always reachable, each would succeed {ideal:.0f} times.")
        )
    return page("FedFleet: successes", body)
