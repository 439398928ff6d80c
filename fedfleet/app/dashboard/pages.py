"""The pages of the dashboard, and the pieces of them that are sent anew when a run goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from urllib.parse import urlencode

from fedfleet.app.dashboard import status_text
from fedfleet.app.dashboard.auth import TOKEN_HEADER, Access, is_loopback
from fedfleet.app.dashboard.run_view import clients_in_model, current_round
from fedfleet.app.dashboard.run_watcher import DAMAGED, FINISHED, RUNNING, STOPPED, FollowedRun, RunSummary
from fedfleet.app.dashboard.served_runs import ServerStatus, resume_command, status_sentence
from fedfleet.app.dashboard.sparklines import HATCH, round_bars, rounds_picture
from fedfleet.app.dashboard.status_text import SimilarRun, short_duration, state_counts
from fedfleet.app.pages.html import table
from fedfleet.app.pages.report.number_words import as_people
from fedfleet.app.terminal.text import span
from fedfleet.measure.run_record import RunRecord

STATE_WORDS = {
    "r": "reported this round", "w": "training", "x": "lost last round", "l": "late last round",
    "n": "refused last round", "u": "idle, reported before", "o": "offline now", "-": "never asked so far",
}  # fmt: skip
_SCRIPTS = ("htmx-2.0.11.min.js", "uplot-1.6.32.min.js", "dashboard.js")
_STYLES = ("uplot-1.6.32.min.css", "tokens.css", "dashboard.css")
# htmx may neither evaluate text nor write a style of its own: the page allows no inline code.
_HTMX = '{"allowEval":false,"includeIndicatorStyles":false,"selfRequestsOnly":true,"historyEnabled":false}'
_LINKS = "".join(f'<link rel="stylesheet" href="/static/{name}">' for name in _STYLES)
_HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    f'<link rel="icon" href="data:,">{_LINKS}'
)


def frame(access: Access, title: str, body: str, *, run: str = "", at: str = "/") -> str:
    """A whole page; `at`: the part of the dashboard that it belongs to."""
    where = "this machine only" if is_loopback(access.host) else f"open to {access.host}"
    scripts = "".join(f'<script src="/static/{name}" defer></script>' for name in _SCRIPTS)
    headers = escape(json.dumps({TOKEN_HEADER: access.token}))
    places = (("/", "Runs"), ("/new", "New run"))
    links = "".join(f'<a href="{to}"{" aria-current=page" if to == at else ""}>{word}</a>' for to, word in places)
    return (
        f'{_HEAD}<meta name="color-scheme" content="light dark"><meta name="htmx-config" content=\'{_HTMX}\'><title>{escape(title)}</title>'
        f'{scripts}</head><body hx-headers="{headers}" data-run="{escape(run)}">{HATCH}'
        f'<header class="bar"><b>FedFleet</b><nav>{links}</nav>'
        f'<span class="small">{where} &nbsp;<span id="live" role="status">connecting</span></span></header>{body}</body></html>\n'
    )


def two_columns(aside: str, main: str, *, list_first: bool = False) -> str:
    """The list of runs beside one run, or beside the form of a new one; on a phone one above the other."""
    return f'<div class="grid{" listed" if list_first else ""}"><aside>{aside}</aside><main>{main}</main></div>'


def empty_page() -> str:
    """What is there before the first run."""
    return (
        '<h1 id="empty">No runs yet</h1><p class="say">Runs appear here as soon as they begin: <a href="/new">start a new run</a> by menus, '
        "or with <code>fedfleet run SPEC</code> in a terminal.</p>"
    )


def waiting_page(name: str) -> str:
    """A run that was started and has no folder yet."""
    return f"<h1>{escape(name)}</h1>{waiting_piece(name, '')}"


def waiting_piece(name: str, refused: str) -> str:
    """That a run is getting ready, asked for again every second; or why it was refused."""
    if refused:
        return f'<p class="say bad" role="alert">It did not begin: {escape(refused)}</p>'
    again = f'hx-get="/starting?{escape(urlencode({"run": name}))}" hx-trigger="every 1s" hx-swap="outerHTML"'
    return f'<p class="say" {again}>It is getting ready: data, devices and model are being made.</p>'


def live_page(
    run: RunSummary,
    followed: FollowedRun,
    other: SimilarRun | None,
    log: Sequence[str],
    server_status: ServerStatus | None = None,
    title: str = "",
) -> str:
    """One run in full, by its `title` if it has another than its name; every piece with an id is replaced while the run goes on."""
    pieces = live_pieces(run, followed, other, log, server_status)
    if run.status == DAMAGED and not followed.record.progress.rounds:
        return f'<div class="hd"><h1>{escape(title or run.name)}</h1><span id="state">{pieces["state"]}</span></div><p id="say" class="say">{pieces["say"]}</p>'
    name = escape(run.name)
    folder = f'<p class="small where">{name}</p>' if title not in ("", run.name) else ""

    def piece(tag: str, key: str, kind: str = "") -> str:
        return f'<{tag} id="{key}"{f" class={kind}" if kind else ""}>{pieces[key]}</{tag}>'

    return (
        f'<div class="hd"><h1>{escape(title) or name}</h1>{piece("span", "state")}<span class="sp1"></span>{piece("span", "acts", "acts")}</div>'
        f'{folder}<p id="act-said" class="small" role="status"></p>{piece("p", "say", "say")}{piece("div", "resume")}{piece("div", "progress")}{piece("dl", "keys", "keys")}'
        f'<figure><p class="ct">{escape(run.score.title)}</p>{piece("p", "versus", "cs")}<div id="curve" class="plot"></div></figure>'
        '<figure><p class="ct">Rounds</p><p class="cs">Full: reports used. Hatched: asked, too late or lost. Below the line: the round failed.</p>'
        f"{piece('div', 'rounds')}</figure>"
        f'<div class="two"><figure>{piece("div", "now")}</figure>'
        '<figure><p class="ct">Devices now</p><p class="cs">Point at a dot for its number; click it for its history</p>'
        f'<canvas id="devices" role="img" aria-label="devices"></canvas>{piece("ul", "kinds", "key")}'
        '<form class="find" hx-get="/device" hx-target="#device" hx-swap="innerHTML">'
        f'<input type="hidden" name="run" value="{name}"><label for="who">Device number</label> '
        '<input id="who" name="client" inputmode="numeric" size="6"> <button>Show its history</button></form></figure></div>'
        f'<div id="device" aria-live="polite"></div><section class="lo"><h2>Faults and late work</h2>{piece("div", "faults")}</section>'
        f'<section class="lo"><h2>Warnings and log</h2>{piece("div", "log")}</section>'
    )


def live_pieces(
    run: RunSummary, followed: FollowedRun, other: SimilarRun | None, log: Sequence[str], server_status: ServerStatus | None = None
) -> dict[str, str]:
    """The pieces of a run's page that change, by id."""
    record = followed.record
    first, strong, rest = status_text.status_sentences(run, record, other)
    rest = f"{rest} {status_sentence(server_status)}" if server_status else rest
    middle = f", <b>{escape(strong)}</b>" if strong else ""
    done, figures = status_text.progress(run), status_text.figures(record, server_status.online if server_status else None)
    items = "".join(f"<li>{escape(remark)}</li>" for remark in followed.remarks[-12:])
    printed = f'<pre tabindex="0">{escape(chr(10).join(reversed(log[-40:])))}</pre>' if log else ""
    return {
        "state": f'<span class="st {run.status}">{run.status}</span>',
        "acts": _action_buttons(run),
        "say": f"{escape(first)}{middle} {escape(rest)}",
        "resume": _resume_hint(run),
        "progress": "" if done is None else f'<progress max="100" value="{100 * done:.1f}" aria-label="share of what the spec allows">{100 * done:.0f} %</progress>',
        "keys": "".join(f"<div><dd>{escape(value)}</dd><dt>{escape(what)}</dt></div>" for value, what in figures),
        "versus": f"Against {'real' if run.served else 'virtual'} time; {escape(_compared_with(other))}",
        "rounds": rounds_picture(record.progress.rounds),
        "now": _current_round(record, going=run.status == RUNNING),
        "kinds": "",
        "faults": _faults(record, followed.fault),
        "log": (f'<ul class="said">{items}</ul>' if items else '<p class="small">The journal has no warnings.</p>') + printed,
    }  # fmt: skip


def _compared_with(other: SimilarRun | None) -> str:
    if other is None:
        return "the model changes at server updates only, so the line goes in steps"
    keys = ", ".join(key for key, _, _ in other.differs)
    how = f"that this one repeats with another {keys}" if keys else "of the same spec"
    return f"grey: {other.title}, a finished run {how}"


def device_legend(states: str) -> str:
    """The legend of the devices with its counts."""
    counts = [(k.replace("-", "0"), f"<b>{n:,}</b> {STATE_WORDS[k]}") for k, n in state_counts(states).items() if n]
    return "".join(f'<li><i class="dot s{letter}"></i>{words}</li>' for letter, words in counts)


def device_description(states: str) -> str:
    """What the picture of the devices shows, for those who do not see it."""
    return f"{len(states):,} devices: {', '.join(f'{n:,} {STATE_WORDS[k]}' for k, n in state_counts(states).items() if n)}."


def _action_buttons(run: RunSummary) -> str:
    def button(do: str, words: str) -> str:
        return f'<button type="button" hx-post="/{do}" hx-vals=\'{escape(json.dumps({"run": run.name}))}\' hx-target="#act-said">{words}</button>'

    report = "Report" if run.status == FINISHED else "Report so far"
    again = f'<a class="plain" href="/new?{urlencode({"from": run.name})}">Repeat with changes</a>'
    can_resume = run.status == STOPPED and not run.served
    first = button("stop", "Stop") if run.status == RUNNING else button("resume", "Resume") if can_resume else ""
    return f'{first}{button("report", report)}{again}<span class="vh">of {escape(run.name)}</span>'


def _resume_hint(run: RunSummary) -> str:
    """A server is started where its devices look for it, with its certificates: by its operator, not from a page."""
    if not run.served or run.status != STOPPED:
        return ""
    return (
        '<p class="small">Its server has stopped. What it acknowledged is on disk, and devices that still wait for it come back; go on with</p>'
        f'<pre class="cmd" tabindex="0" aria-label="the command that resumes this run">{escape(resume_command(run.folder))}</pre>'
    )


def _current_round(record: RunRecord, *, going: bool) -> str:
    last = current_round(record)
    if last is None:
        return '<p class="ct">This round</p><p class="cs">No client has been asked yet</p>'
    scale, rows, more = status_text.round_rows(record)
    words = {1: "it made a model", 0: "it goes on" if going else "it was not over", -1: f"it failed: {as_people(last.reason)}"}
    outcome = words[last.outcome]
    until = f"; it stays open for {span(last.due)}" if last.due and not last.outcome else ""
    return (
        f'<p class="ct">Round {last.number + 1:,}: {last.asked:,} asked, {escape(outcome)}</p><p class="cs">One row for each client that was asked; '
        f"the longest bar is {short_duration(scale)}{until}</p>{round_bars(scale, rows, more)}"
    )


def _faults(record: RunRecord, fault: str) -> str:
    damaged = f'<p class="bad">{escape(fault)}</p>' if fault else ""
    lines = "".join(
        f"<li{' class=w' if line.grave else ''}><span>round {line.round + 1:,}</span> {escape(line.words)}</li>"
        for line in status_text.fault_lines(record)
    )
    return f'{damaged}<p class="small">{escape(status_text.fault_summary(record))}</p><ul class="log">{lines}</ul>'


def device_piece(run: str, record: RunRecord, client: int, server_status: ServerStatus | None = None) -> str:
    """The history of one device, and whether it is there if a server says so."""
    clients = record.progress.clients
    if not 0 <= client < clients:
        return f'<p class="bad">There is no device {client}; {escape(run)} has devices 0 to {max(0, clients - 1):,}.</p>'
    rows = status_text.device_history(record, client)
    here = server_status.present[client : client + 1] if server_status else ""
    presence = {"1": " It is online now.", "0": " It is offline now."}.get(here, "")
    head = f'<section class="lo"><h2>Device {client}</h2><p class="small">'
    if not rows:
        return f"{head}It has never been asked so far.{presence}</p></section>"
    columns = ("round", "asked at", "took", "what came of it", "down / up")
    more = f'<p class="small">and {len(rows) - 50:,} turns before.</p>' if len(rows) > 50 else ""
    used = "has" if client in clients_in_model(record) else "has not"
    said = f"Asked {len(rows):,} {'time' if len(rows) == 1 else 'times'}; it {used} contributed to the model.{presence}</p>"
    return f"{head}{said}{table(columns, [[str(cell) for cell in row] for row in rows[:50]])}{more}</section>"


def login_page(*, rejected: bool) -> str:
    """Where a browser shows the token for reading."""
    message = '<p class="bad" role="alert">That is not the token.</p>' if rejected else ""
    return (
        f'{_HEAD}<title>FedFleet: token</title></head><body><main class="door"><h1>FedFleet</h1>{message}'
        '<form method="post" action="/enter"><p><label for="token">Token of this dashboard</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required></p><p><button class="btn">Open</button></p></form></main></body></html>\n'
    )
