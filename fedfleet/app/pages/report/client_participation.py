"""Who took part and who was left out, whose data the model saw, and how well it serves each person."""

from __future__ import annotations

from html import escape

import numpy as np

from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.column_chart import Column, Group, Panel, columns, histogram, rank_edges
from fedfleet.app.pages.charts.marks import HALF, figure
from fedfleet.app.pages.report.number_words import count_noun, per_cent, share_name
from fedfleet.app.pages.report.report_facts import LATE, NEVER, TOOK_PART, Facts
from fedfleet.core.events import Evaluated
from fedfleet.core.records import Ints

_BINS = 10


def participation_section(f: Facts) -> list[str]:
    """The section, with a sentence on how evenly work was shared; nothing for a run in one place."""
    if f.clients < 2:
        return []
    charts = "".join(part for part in (data_figure(f), client_accuracy_figure(f)) if part)
    head = "Who took part" if f.participants == f.clients else "Who took part, and who was left out"
    summary = " ".join(s for s in (busiest_sentence(f), holdings_sentence(f), accuracy_sentence(f)) if s)
    return [
        f"<h2>{head}</h2>",
        f"<p>{escape(summary)}</p>" if summary else "",
        participation_figure(f),
        f'<div class="two">{charts}</div>' if charts else "",
    ]


def busiest_sentence(f: Facts) -> str:
    """How few gave how much; nothing if nobody did."""
    total = int(f.used.sum())
    if not total or f.participants < 2:
        return ""
    ranked = np.sort(f.used)[::-1]
    counts = ranked[: f.participants]
    if counts[0] == counts[-1]:
        subject = (
            "Everybody gave the same"
            if f.participants == f.clients
            else f"Each of the {f.participants:,} who took part gave the same"
        )
        return f"{subject}: {count_noun(int(counts[0]), 'report')} that {'was' if counts[0] == 1 else 'were'} used."
    few, group = max(1, round(f.clients / 10)), "all"
    if few >= f.participants:
        few, group = max(1, round(f.participants / 10)), "those who took part"
    share = float(ranked[:few].sum()) / total
    subject = f"The busiest {f.person}" if few == 1 else f"The {few:,} busiest {f.people}, a tenth of {group},"
    return f"{subject} gave {per_cent(share)} of the {total:,} reports that were used."


def holdings_sentence(f: Facts) -> str:
    """What those who took part hold, beside those who did not."""
    h = f.hindsight
    if h is None or f.participants in (0, f.clients):
        return ""
    words = {TOOK_PART: "who took part", LATE: "of whom nothing was used", NEVER: "never asked"}
    means = [
        f"those {words[k]} {h.samples[f.kind == k].mean():,.1f}"
        for k in (TOOK_PART, LATE, NEVER)
        if (f.kind == k).any()
    ]
    return f"Samples to train on: {', '.join(means)} each."


def accuracy_sentence(f: Facts) -> str:
    """How good the model is for those who took part, those who did not, and people who were held out."""
    m = f.metrics
    if not m["commits"]:
        return ""
    names = (
        (
            "accuracy_took_part",
            "for those who took part" if f.participants < f.clients else f"for all {f.clients:,} {f.people}",
        ),
        ("accuracy_never", "for those who never did"),
        ("accuracy_unseen", f"for {f.people} whose data nobody trained on"),
    )
    known = [f"{per_cent(m[key])} {name}" for key, name in names if m.get(key) is not None]
    return f"Of their own test data the model gets right {', '.join(known)}." if known else ""


def participation_figure(f: Facts) -> str:
    """How often each was asked, and how often the report was used: most first, then those of whom nothing was, then the rest."""
    order: Ints = np.lexsort((-f.asked, -f.used, f.kind))
    edges = rank_edges(f.clients)
    wasted = f.asked - f.used
    single = len(edges) == f.clients + 1
    column_list = list[Column]()
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        members = order[a:b]
        c = int(members[0])
        title = (
            f"{f.person} {c}: asked {count_noun(int(f.asked[c]), 'time')}, used {f.used[c]:,}{_samples_note(f, c)}"
            if single
            else f"ranks {a + 1:,} to {b:,}"
        )
        column_list.append(Column(float(f.used[members].mean()), float(wasted[members].mean()), title))
    panel = Panel(column_list, colour=f.colour, people=f.clients, never=f.never, groups=_groups(f))
    sorted_ = f"{f.clients:,} {f.people}, sorted"
    each = "" if single else f"; a column is the mean of about {round(f.clients / len(column_list)):,}"
    finding = (
        f"How often each of {f.clients:,} {f.people} was asked and how often their report was used: "
        + "; ".join(f"{g.name}: {g.what}" for g in panel.groups)
        + "."
    )
    return figure(
        f"How often each {f.person} was asked, and how often their report was used",
        f"{sorted_}{each}. Full: used.{' Hatched: asked, and it came too late or to nothing.' if wasted.any() else ''}",
        lambda sheet: columns([panel], sheet, across=1, height=140), finding,
    )  # fmt: skip


def _samples_note(f: Facts, client: int) -> str:
    return "" if f.hindsight is None else f", {count_noun(int(f.hindsight.samples[client]), 'sample')}"


def _groups(f: Facts) -> list[Group]:
    h, at, result = f.hindsight, 0, list[Group]()
    unreachable = (
        "out of reach whenever somebody was asked"
        if h is not None and h.all_moments and not h.reached[f.kind == NEVER].any()
        else ""
    )
    late = count_noun(int(f.asked[f.kind == LATE].sum()), "time")
    rows = (
        (f.participants, "took part", f"used {count_noun(int(f.used.sum()), 'time')}"),
        (f.late_only, "asked in vain", late),
        (f.never, "never asked", unreachable),
    )
    for count, name, what in rows:
        if count:
            result.append(Group(at, count, f"{count:,} {name}", what))
            at += count
    return result


def data_figure(f: Facts) -> str:
    """How many samples lie with those who took part, and with the others."""
    h = f.hindsight
    if h is None or not h.samples.sum() or f.participants in (0, f.clients):
        return ""
    total = int(h.samples.sum())
    rows = list[Bar]()
    for kind, words, paint in (
        (TOOK_PART, "took part", f"a{f.colour}"),
        (LATE, "asked in vain", "late-area"),
        (NEVER, "never asked", "a6"),
    ):
        samples = h.samples[f.kind == kind]
        if len(samples):
            rows.append(
                Bar(
                    f"{count_noun(len(samples), f.person, f.people)} {words}",
                    [Part(float(samples.sum()), paint)],
                    f"{samples.sum():,}",
                    f"{samples.mean():,.1f} each",
                )
            )
    share = float(h.samples[f.kind == TOOK_PART].sum()) / total
    finding = (
        f"{share_name(share).capitalize()} of the {total:,} training samples lie with those who took part: "
        + "; ".join(f"{row.name}: {row.end_label}" for row in rows)
    )
    return figure(
        "Whose data the model saw",
        f"Training samples, {total:,} in all",
        lambda sheet: bars(rows, sheet),
        finding,
        sheet=HALF,
    )


def client_accuracy_figure(f: Facts) -> str:
    """How many people are served how well, on their own test data, at the last evaluation that looked."""
    scores = next(
        (
            e.clients
            for e in reversed(f.events)
            if isinstance(e, Evaluated) and e.clients is not None and len(e.clients.total)
        ),
        None,
    )
    if scores is None or not f.metrics["commits"]:
        return ""
    share = scores.correct / scores.total
    counts = np.bincount(np.minimum((share * _BINS).astype(np.int64), _BINS - 1), minlength=_BINS).tolist()
    feet = ["0 to 10 %", *[""] * 4, "50 to 60 %", *[""] * 3, "90 to 100 %"]
    kinds = [f"a{f.colour}", *["a6"] * (_BINS - 1)]
    low, mean = f.metrics["accuracy_bottom10"], f.metrics["accuracy_clients"]
    finding = f"Of {len(share):,} {f.people}, {counts[0]:,} are served right in less than 10 % of their test samples, {counts[-1]:,} in 90 % or more; the mean is {per_cent(mean or 0.0)}, the 10th percentile {per_cent(low or 0.0)}."
    return figure(
        f"How well it serves each {f.person}", f"Number of {f.people} by accuracy on their own test data",
        lambda sheet: histogram(counts, sheet, feet, kinds=kinds, label="right on their own test data"), finding,
        sheet=HALF,
    )  # fmt: skip
