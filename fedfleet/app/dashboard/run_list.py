"""The list of runs as HTML: groups that open, arms with their seeds, ticks to compare, a filter and an order."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from urllib.parse import quote

from fedfleet.app.dashboard.run_filter import ORDERS, FilterResult, filter_runs
from fedfleet.app.dashboard.run_groups import FOLDER, GroupedRuns, RunArm, RunGroup, Selection, natural_order, seed_text
from fedfleet.app.dashboard.run_watcher import DAMAGED, FINISHED, PRUNED, RUNNING, STOPPED, RunSummary
from fedfleet.app.dashboard.sparklines import sparkline
from fedfleet.app.dashboard.status_text import score_text
from fedfleet.app.terminal.text import span

MAX_COMPARED = 256  # runs in one comparison
_MAX_ROWS = 200  # arms or runs in the list
_FEW_GROUPS = 3  # so few groups that match a filter are opened
_STATES = (RUNNING, FINISHED, PRUNED, STOPPED, DAMAGED)
_MAX_SEEDS = 30  # runs of an arm that have a link


@dataclass(frozen=True, slots=True)
class ListState:
    """What a reader has set: the words of the filter, the order, whether groups are shown, which are open or shut, what is ticked."""

    words: str = ""
    by: str = ""
    is_flat: bool = False
    open: Collection[str] = ()
    shut: Collection[str] = ()
    selection: Selection = field(default_factory=Selection)
    current: str = ""


def run_address(name: str) -> str:
    """Where the page of a run is."""
    return f"/runs/{quote(name)}"


def run_list(rows: str, state: ListState) -> str:
    """The runs with their filter and order; the rows fetch themselves anew when runs change."""
    orders = "".join(
        f'<option value="{k}"{" selected" if k == state.by else ""}>{label}</option>' for k, (label, _) in ORDERS.items()
    )
    views = "".join(
        f'<option value="{value}"{" selected" if state.is_flat == bool(value) else ""}>{label}</option>'
        for value, label in (("", "by study"), ("all", "one by one"))
    )
    change = 'hx-get="/list" hx-trigger="change" hx-include="#runs" hx-target="#rows" hx-swap="outerHTML"'
    return (
        '<section id="runs"><div class="hd"><h2>Runs</h2><span class="sp1"></span><a class="small" href="/new">New run</a></div>'
        '<label class="flt"><span class="vh">Filter runs</span><input type="search" id="filter" name="filter" autocomplete="off" '
        f'value="{escape(state.words)}" placeholder="Filter: pacing, method=fedprox, acc&gt;90" hx-get="/list" '
        'hx-trigger="input changed delay:250ms, search" hx-include="#runs" hx-target="#rows" hx-swap="outerHTML"></label>'
        f'<p class="flt"><label><span class="vh">Groups</span><select id="view" name="view" {change}>{views}</select></label> '
        f'<label><span class="vh">Order of the runs</span><select id="by" name="by" {change}>{orders}</select></label></p>{rows}</section>'
    )


def run_rows(runs: Mapping[str, RunSummary], grouped: GroupedRuns, state: ListState) -> str:
    """The rows of the list, and how many runs there are; what is ticked stays in sight, whatever the filter."""
    matches = filter_runs(runs.values(), state.words, state.by, grouped.label)

    def find(words: str) -> list[str]:
        return [run.name for run in filter_runs(runs.values(), words, "", grouped.label).runs]

    whole = {run.name for run in Selection(groups=state.selection.groups).runs_of(grouped, runs, find)}
    ticked = state.selection
    selection = Selection([n for n in ticked.runs if n not in whole], [n for n in ticked.arms if n not in whole], ticked.groups)
    selected = selection.runs_of(grouped, runs, find)
    rows = _Rows(runs, grouped, state, selection, {run.name: rank for rank, run in enumerate(matches.runs)})
    body = "".join(rows.flat() if state.is_flat else rows.by_group())
    kept = "".join(rows.ticked_elsewhere())
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{escape(value)}">'
        for name, values in (("open", state.open), ("shut", state.shut), ("current", [state.current]))
        for value in values
    )
    odd = f'<p class="small bad" role="status">{escape(matches.problem)}</p>' if matches.problem else ""
    none = '<p class="small">No run matches.</p>' if runs and not matches.runs else ""
    more = f'<p class="small">{rows.left_out:,} more; filter to find them.</p>' if rows.left_out else ""
    return (
        '<div id="rows" hx-get="/list" hx-trigger="runs-changed from:body" hx-include="#runs" hx-swap="outerHTML">'
        f'<p class="small tally">{_tally(runs, matches)}</p>{hidden}'
        f'<form action="/report/" method="get">{odd}<ul class="runs">{kept}{body}</ul>{none}{more}{_compare_line(len(selected))}</form></div>'
    )


def _tally(runs: Mapping[str, RunSummary], matches: FilterResult) -> str:
    counts = [(sum(run.status == status for run in runs.values()), status) for status in _STATES]
    words = ", ".join(f"{n:,} {status}" for n, status in counts if n) or "none yet"
    return words + (f"; {len(matches.runs):,} match" if len(matches.runs) < len(runs) else "")


def _compare_line(n: int) -> str:
    off = "" if 1 < n <= MAX_COMPARED else " disabled"
    clear = (
        '<button type="button" id="clear" hx-get="/list" hx-vals=\'{"clear": "1"}\' hx-include="#runs" hx-target="#rows" '
        f'hx-swap="outerHTML"{"" if n else " hidden"}>Clear</button>'
    )
    return (
        f'<p class="cmp"><button class="btn" id="compare" data-most="{MAX_COMPARED}"{off}>Compare {n} ticked</button> {clear} '
        '<span class="small">lines: accuracy by model, 0 to 100 %; R2 0 to 1</span></p>'
    )


@dataclass(slots=True)
class _Rows:
    """The rows that a reader sees; `ranks` are the places of the runs that match, `shown` what has a tick in sight."""

    runs: Mapping[str, RunSummary]
    grouped: GroupedRuns
    state: ListState
    selection: Selection
    ranks: Mapping[str, int]
    shown: set[str] = field(default_factory=set[str])
    left_out: int = 0
    count: int = 0

    def flat(self) -> Iterator[str]:
        """A row for each run."""
        for name in self.ranks:
            if self._has_room():
                yield self._run_row(self.runs[name], self.grouped.title(self.runs[name]))

    def by_group(self) -> Iterator[str]:
        """A row for each group, with its arms where it is open, and for each run that is in none."""
        groups = [(min(found), group) for group in self.grouped.groups.values() if (found := self._ranks_of(group.runs))]
        entries = [*groups, *((self.ranks[run.name], run) for run in self.grouped.singles if run.name in self.ranks)]
        for _, entry in sorted(entries, key=lambda pair: pair[0]):
            if isinstance(entry, RunGroup):
                yield self._group(entry, few=len(groups) <= _FEW_GROUPS)
            elif self._has_room():
                yield self._run_row(entry, entry.name)

    def ticked_elsewhere(self) -> Iterator[str]:
        """What is ticked and not among the rows: call it after them."""
        tokens = [*(("group", t) for t in self.selection.groups), *(("arm", t) for t in self.selection.arms)]
        for kind, token in [*tokens, *(("run", t) for t in self.selection.runs)]:
            key, _, words = token.partition("//")
            known = key in (self.grouped.groups if kind == "group" else self.runs)
            if known and f"{kind} {token}" not in self.shown:
                arm = self.grouped.arms.get(key)
                name = key if kind != "arm" or arm is None else f"{key.split('/')[0]}: {arm.name}"
                n = 1 if kind == "run" else len(arm.runs if arm and kind == "arm" else self._group_runs(key, words))
                label = escape(name) + (f" ({escape(words)})" if words else "") + (f", {n} runs" if n > 1 else "")
                yield f'<li class="kept">{self._tick(kind, token, n, f"compare {name}", checked=True)}<span class="nm">{label}</span></li>'

    def _group_runs(self, key: str, words: str) -> Collection[RunSummary]:
        runs = self.grouped.groups[key].runs
        return filter_runs(runs, words, "", self.grouped.label).runs if words else runs

    def _has_room(self) -> bool:
        self.count += 1
        self.left_out += self.count > _MAX_ROWS
        return self.count <= _MAX_ROWS

    def _ranks_of(self, runs: Collection[RunSummary]) -> list[int]:
        return [self.ranks[run.name] for run in runs if run.name in self.ranks]

    def _is_open(self, group: RunGroup, *, few: bool) -> bool:
        wanted = bool(self.state.words) and few
        wanted = wanted or any(run.name == self.state.current for run in group.runs) or len(self.grouped.groups) == 1
        return group.key in self.state.open or (wanted and group.key not in self.state.shut)

    def _group(self, group: RunGroup, *, few: bool) -> str:
        matching = [run for run in group.runs if run.name in self.ranks]
        part = len(matching) < len(group.runs)
        token = f"{group.key}//{self.state.words}" if part else group.key
        is_ticked, is_open = token in self.selection.groups, self._is_open(group, few=few)
        arms = "".join(self._arm_rows(group, is_ticked=is_ticked)) if is_open else ""
        tick = self._tick("group", token, len(matching), f"compare {len(matching)} runs of {group.name}", checked=is_ticked)
        values = escape(json.dumps({"toggle": group.key, "was": "open" if is_open else "shut"}))
        best = group.best
        figure = (
            "-"
            if best is None
            else f'<abbr title="{escape(best.name)}"><span class="small">best</span> {score_text(best.score, best.accuracy or 0.0)}</abbr>'
        )
        return (
            f'<li class="grp">{tick}<button type="button" class="tw" id="g-{_identifier(group.key)}" aria-expanded="{str(is_open).lower()}" '
            f'hx-get="/list" hx-vals="{values}" hx-include="#runs" hx-target="#rows" hx-swap="outerHTML">{escape(group.name)}</button>'
            f'<b>{figure}</b><span class="small of">{self._group_words(group, len(matching))}</span>'
            f"{f'<ul class=arms>{arms}</ul>' if arms else ''}</li>"
        )

    def _group_words(self, group: RunGroup, matching: int) -> str:
        runs, arms = group.runs, len(group.arms)
        match = f"{matching} of " if matching < len(runs) else ""
        inside = f" in {arms} arms" if group.kind != FOLDER and arms < len(runs) else ""
        counts = [(sum(run.status == status for run in runs), status) for status in (RUNNING, PRUNED, STOPPED, DAMAGED)]
        states = "".join(f', <span class="st {status}">{n} {status}</span>' for n, status in counts if n) or ", finished"
        name = "comparison" if group.kind == FOLDER else f"{group.kind} page"
        link = f' &nbsp;<a href="/report/{quote(group.key)}/{group.page}">{name}</a>' if group.page else ""
        return f"{group.kind}: {match}{len(runs)} {'run' if len(runs) == 1 else 'runs'}{inside}{states}{link}"

    def _arm_rows(self, group: RunGroup, *, is_ticked: bool) -> Iterator[str]:
        arms = [arm for arm in group.arms if self._ranks_of(arm.runs)]
        if self.state.by == "acc":
            arms.sort(key=lambda arm: (arm.accuracy is None, -(arm.accuracy or 0.0)))
        elif self.state.by:
            arms.sort(key=lambda arm: min(self._ranks_of(arm.runs)))
        for arm in arms:
            if self._has_room():
                yield (
                    self._run_row(arm.runs[0], arm.name, checked=is_ticked) if len(arm.runs) == 1 else self._arm_row(arm, is_ticked)
                )

    def _arm_row(self, arm: RunArm, is_ticked: bool) -> str:
        runs = sorted(arm.runs, key=lambda run: natural_order(seed_text(run)))
        first = arm.runs[0]
        checked = is_ticked or first.name in self.selection.arms
        links = " ".join(
            f'<a href="{run_address(run.name)}"{" aria-current=true" if run.name == self.state.current else ""}'
            f'{f" class={run.status}" if run.status != FINISHED else ""} title="{escape(run.name)}: {_score(run)}">{escape(seed_text(run))}</a>'
            for run in runs[:_MAX_SEEDS]
        )
        more = f" and {len(runs) - _MAX_SEEDS} more" if len(runs) > _MAX_SEEDS else ""
        worst = next((status for status in (RUNNING, DAMAGED, STOPPED) if any(run.status == status for run in runs)), "")
        n = sum(run.status == worst for run in runs)
        state = f'<span class="st {worst}">{f"{n} " if n < len(runs) else ""}{worst}</span>' if worst else ""
        current = " cur" if any(run.name == self.state.current for run in runs) else ""
        return (
            f'<li class="many{current}">{self._tick("arm", first.name, len(runs), f"compare {len(runs)} runs of {arm.name}", checked=checked)}'
            f'<span class="nm"><a href="{run_address(runs[0].name)}">{escape(arm.name)}</a>{state}</span><span class="seeds">seeds {links}{more}</span>'
            f'{sparkline(runs[0].scores, runs[0].planned_end, live=runs[0].status == RUNNING)}<b><abbr title="mean of {len(runs)} runs">'
            f'{_score(arm)}</abbr></b><span class="tm">{span(arm.time) if arm.time else "-"}</span></li>'
        )

    def _run_row(self, run: RunSummary, name: str, *, checked: bool = False) -> str:
        state = "" if run.status == FINISHED else f'<span class="st {run.status}">{run.status}</span>'
        tick = self._tick("run", run.name, 1, f"compare {name}", checked=checked or run.name in self.selection.runs)
        title = f' title="{escape(run.name)}"' if name != run.name else ""
        return (
            f"<li{' class=cur' if run.name == self.state.current else ''}>{tick}"
            f'<span class="nm"><a href="{run_address(run.name)}"{title}>{escape(name)}</a>{state}</span>'
            f"{sparkline(run.scores, run.planned_end, live=run.status == RUNNING)}<b>{_score(run)}</b>"
            f'<span class="tm">{span(run.time) if run.time else "-"}</span></li>'
        )

    def _tick(self, kind: str, token: str, n: int, words: str, *, checked: bool) -> str:
        self.shown.add(f"{kind} {token}")
        return f'<input type="checkbox" name="{kind}" value="{escape(token)}" aria-label="{escape(words)}"{" checked" if checked else ""} data-n="{n}">'


def _score(entry: RunSummary | RunArm) -> str:
    return "-" if entry.accuracy is None else score_text(entry.score, entry.accuracy)


def _identifier(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", key)
