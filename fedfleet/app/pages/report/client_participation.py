"""Participation: which clients contributed, whose data the model saw, and how accurate it is for each client."""

from __future__ import annotations

from html import escape

import numpy as np

from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.column_chart import Column, Group, Panel, columns, histogram, rank_edges
from fedfleet.app.pages.charts.marks import HALF, figure
from fedfleet.app.pages.report.number_words import count_noun, per_cent, share_name
from fedfleet.app.pages.report.report_facts import LATE, NEVER, TOOK_PART, Facts
from fedfleet.core.records import Floats, Ints

_BINS = 10


def participation_section(f: Facts) -> list[str]:
    """The section, with a sentence on how evenly work was shared; nothing for a run in one place."""
    if f.clients < 2:
        return []
    charts = data_figure(f) + client_accuracy_figure(f)
    summary = " ".join(s for s in (busiest_sentence(f), holdings_sentence(f), accuracy_sentence(f)) if s)
    return [
        "<h2>Participation</h2>",
        f"<p>{escape(summary)}</p>" if summary else "",
        participation_figure(f),
        f'<div class="two">{charts}</div>' if charts else "",
    ]


def busiest_sentence(f: Facts) -> str:
    """Which share of the reports the busiest clients gave; nothing if no report was used."""
    total = int(f.used.sum())
    if not total or f.participants < 2:
        return ""
    ranked = np.sort(f.used)[::-1]
    counts = ranked[: f.participants]
    if counts[0] == counts[-1]:
        some = f"Each of the {f.participants:,} {f.people} that took part"
        subject = f"All {f.people}" if f.participants == f.clients else some
        verb = "was" if counts[0] == 1 else "were"
        return f"{subject} contributed equally: {count_noun(int(counts[0]), 'report')} that {verb} used."
    few, group = max(1, round(f.clients / 10)), "all"
    if few >= f.participants:
        few, group = max(1, round(f.participants / 10)), "those that took part"
    share = float(ranked[:few].sum()) / total
    subject = f"The busiest {f.person}" if few == 1 else f"The {few:,} busiest {f.people}, a tenth of {group},"
    return f"{subject} gave {per_cent(share)} of the {total:,} reports that were used."


def holdings_sentence(f: Facts) -> str:
    """What clients that took part hold, and what the others hold."""
    h = f.hindsight
    if h is None or f.participants in (0, f.clients):
        return ""
    words = {TOOK_PART: "that took part", LATE: "with no report used", NEVER: "never asked"}
    means = [f"those {words[k]} {h.samples[f.kind == k].mean():,.1f}" for k in (TOOK_PART, LATE, NEVER) if (f.kind == k).any()]
    return f"Samples to train on: {', '.join(means)} each."


def accuracy_sentence(f: Facts) -> str:
    """How good the model is for clients that took part, for the others, and for clients that were held out."""
    m = f.metrics
    if not m["commits"]:
        return ""
    names = (
        ("accuracy_took_part", "for those that took part" if f.participants < f.clients else f"for all {f.clients:,} {f.people}"),
        ("accuracy_never", "for those that never did"),
        ("accuracy_unseen", f"for {f.people} that were held out from training"),
    )
    known = [f"{f.score.brief(m[key])} {name}" for key, name in names if m.get(key) is not None]
    is_right = "the model is right on" if f.score.counts_answers else f"the {f.score.name} of the model is"
    return f"On their own test data {is_right} {', '.join(known)}." if known else ""


def participation_figure(f: Facts) -> str:
    """How often each was asked, and how often the report was used: most first, then those of whom nothing was, then the rest."""
    order: Ints = np.lexsort((-f.asked, -f.used, f.kind))
    edges = rank_edges(f.clients)
    wasted = f.asked - f.used
    single = len(edges) == f.clients + 1
    column_list = list[Column]()
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        members = order[a:b]
        c, title = int(members[0]), f"ranks {a + 1:,} to {b:,}"
        if single:
            samples = "" if f.hindsight is None else f", {count_noun(int(f.hindsight.samples[c]), 'sample')}"
            title = f"{f.person} {c}: asked {count_noun(int(f.asked[c]), 'time')}, used {f.used[c]:,}{samples}"
        column_list.append(Column(float(f.used[members].mean()), float(wasted[members].mean()), title))
    h, at, groups = f.hindsight, 0, list[Group]()
    away = h is not None and h.all_moments and not h.reached[f.kind == NEVER].any()
    for count, name, what in (
        (f.participants, "took part", f"used {count_noun(int(f.used.sum()), 'time')}"),
        (f.late_only, "asked, nothing used", count_noun(int(f.asked[f.kind == LATE].sum()), "time")),
        (f.never, "never asked", f"out of reach whenever {f.people} were asked" if away else ""),
    ):
        groups += [Group(at, count, f"{count:,} {name}", what)] if count else []
        at += count
    panel = Panel(column_list, colour=f.colour, people=f.clients, never=f.never, groups=groups)
    each = "" if single else f"; a column is the mean of about {round(f.clients / len(column_list)):,}"
    hatched = " Hatched: asked, but the report was late or not used." if wasted.any() else ""
    summary = "; ".join(f"{g.name}: {g.what}" for g in groups)
    return figure(
        f"How often each {f.person} was asked, and how often its report was used",
        f"{f.clients:,} {f.people}, sorted{each}. Full: used.{hatched}",
        lambda sheet: columns([panel], sheet, across=1, height=140),
        f"How often each of {f.clients:,} {f.people} was asked and how often its report was used: {summary}.",
    )


def data_figure(f: Facts) -> str:
    """How many samples clients that took part hold, and how many the others hold."""
    h = f.hindsight
    if h is None or not h.samples.sum() or f.participants in (0, f.clients):
        return ""
    total, rows = int(h.samples.sum()), list[Bar]()
    kinds = ((TOOK_PART, "took part", f"a{f.colour}"), (LATE, "asked, nothing used", "late-area"), (NEVER, "never asked", "a6"))
    for kind, words, paint in kinds:
        samples = h.samples[f.kind == kind]
        if len(samples):
            name, parts = f"{count_noun(len(samples), f.person, f.people)} {words}", [Part(float(samples.sum()), paint)]
            rows.append(Bar(name, parts, f"{samples.sum():,}", f"{samples.mean():,.1f} each"))
    share = share_name(float(h.samples[f.kind == TOOK_PART].sum()) / total).capitalize()
    numbers = "; ".join(f"{row.name}: {row.end_label}" for row in rows)
    finding = f"{share} of the {total:,} training samples are held by {f.people} that took part: {numbers}"
    how = f"Training samples, {total:,} in all"
    return figure("Whose data the model saw", how, lambda sheet: bars(rows, sheet), finding, sheet=HALF)


def client_accuracy_figure(f: Facts) -> str:
    """How many clients have which score on their own test data, at the last evaluation of clients."""
    scores = f.record.progress.client_scores
    if scores is None or not f.metrics["commits"]:
        return ""
    if not f.score.kind.percent:
        return _client_r2_figure(f, scores.correct / scores.total)
    share = scores.correct / scores.total
    counts = np.bincount(np.clip((share * _BINS).astype(np.int64), 0, _BINS - 1), minlength=_BINS).tolist()
    feet = ["0 to 10 %", *[""] * 4, "50 to 60 %", *[""] * 3, "90 to 100 %"]
    kinds = [f"a{f.colour}", *["a6"] * (_BINS - 1)]
    low, mean = f.metrics["accuracy_bottom10"], f.metrics["accuracy_clients"]
    name, label = f.score.name, f"{f.score.name} on their own test data"
    ends = f"the mean is {per_cent(mean or 0.0)}, the 10th percentile {per_cent(low or 0.0)}."
    if f.score.counts_answers:
        label = "right on their own test data"
        finding = f"Of {len(share):,} {f.people}, for {counts[0]:,} the model is right on less than 10 % of their test samples, {counts[-1]:,} in 90 % or more; {ends}"
    else:
        finding = (
            f"Of {len(share):,} {f.people}, {name} is below 10 % for {counts[0]:,} and 90 % or more for {counts[-1]:,}; {ends}"
        )
    return figure(
        f"{f.score.title} for each {f.person}", f"Number of {f.people} by {name} on their own test data",
        lambda sheet: histogram(counts, sheet, feet, kinds=kinds, label=label), finding,
        sheet=HALF,
    )  # fmt: skip


def _client_r2_figure(f: Facts, values: Floats) -> str:
    """The same of a score that may be negative: clients for whom the mean would predict better stand apart."""
    edges = np.linspace(-1.0, 1.0, _BINS + 1)
    counts = np.bincount(np.clip(np.searchsorted(edges, values, side="right") - 1, 0, _BINS - 1), minlength=_BINS).tolist()
    below, low, mean = int((values < 0).sum()), f.metrics["accuracy_bottom10"], f.metrics["accuracy_clients"]
    feet = [f"below {f.score.text(-0.8).removesuffix('00')}", *[""] * 4, "0 to 0.2", *[""] * 3, "0.8 to 1"]
    kinds = ["a3" if edge < -1e-9 else "a6" for edge in edges[:-1].tolist()]
    name = f.score.name
    finding = (
        f"Of {len(values):,} {f.people}, {name} is below 0 for {below:,}, for whom the mean of all test data would predict better; "
        f"the mean is {f.score.brief(mean)}, the 10th percentile {f.score.brief(low)}."
    )
    return figure(
        f"{name} for each {f.person}", f"Number of {f.people} by {name} on their own test data",
        lambda sheet: histogram(counts, sheet, feet, kinds=kinds, label=f"{name} on their own test data"), finding, sheet=HALF,
    )  # fmt: skip
