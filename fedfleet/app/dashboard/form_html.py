"""The form of a new run as HTML: menus of parts, their settings with limits, the program's own sentence and its cure beside each."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape

from fedfleet.app.dashboard.new_run_form import MAX_PARTS, NAME, TOML, USE, FormCheck, Mistake
from fedfleet.app.dashboard.spec_fields import (
    CHOICE,
    NUMBER,
    PART,
    PARTS,
    YES_NO,
    SpecField,
    own_field_count,
    part_choices,
    part_fields,
    plain_fields,
    seed_field,
)
from fedfleet.app.spec.resolution import DEFAULTS, PART_KINDS
from fedfleet.core.errors import BadInput

_FIRST = 4  # settings of a part that are in sight; the others are folded
_LONGEST = 90  # letters of a menu's line
_TITLES = {
    "task": "Task: a model on a dataset",
    "world.devices": "Devices: how fast they are",
    "world.states": "States: when clients can be reached",
    "world.data": "Data: who holds what",
    "world.energy": "Energy: what the work costs",
    "world.users": "Users: who owns several devices",
    "world.faults": "Faults: what goes wrong",
    "edge": "Edges: what a user's devices do among themselves",
    "algorithm": "Algorithm: what clients and server compute",
    "choose": "Selector: which clients are asked",
    "pace": "Policy: when a round ends",
}
_IN_SIGHT = ("task", "world.devices", "world.states", "world.data", "algorithm", "choose", "pace")
_EXAMPLE = "[[override]]\nclients = [0, 1]\nalgorithm = { lr = 0.05 }"


def form(
    values: Mapping[str, str], sources: Sequence[tuple[str, Sequence[tuple[str, str]]]], source: str, *, can_start: bool
) -> str:
    """The whole form. `sources`: what it can begin with, in groups of (value, label); `source` is what it did begin with."""
    if not can_start:
        return '<section id="new"><h1>New run</h1><p>Runs are started where there is a folder of runs: fedfleet dashboard FOLDER.</p></section>'
    sections = "".join(
        f"<section>{part_menu(key, PART_KINDS[key], values, DEFAULTS.get(key, ''))}</section>" for key in _IN_SIGHT[1:4]
    )
    rest = "".join(part_menu(key, kind, values, DEFAULTS.get(key, "")) for key, kind in PART_KINDS.items() if key not in _IN_SIGHT)
    others = "".join(part_menu(key, PART_KINDS[key], values, DEFAULTS.get(key, "")) for key in _IN_SIGHT[4:])
    world, stop, run = (plain_fields(table) for table in ("world", "stop", "run"))
    clients = [field for field in world if field.key == "world.clients"]
    more_world = [field for field in world if field not in clients]
    return (
        f'<section id="new"><div class="hd"><h1>New run</h1></div>{_source_menu(sources, source)}'
        '<form id="ask" hx-post="/check" hx-trigger="load, change delay:100ms, input delay:700ms, fields-changed from:body" '
        'hx-swap="none" hx-sync="this:replace" novalidate autocomplete="off">'
        f'<div class="sets top">{_line(NAME, "name", _input(NAME, values.get(NAME, "")), "of its folder")}'
        f"{_field(seed_field(), values)}{''.join(_field(field, values) for field in clients)}</div>"
        f"{part_menu('task', 'tasks', values, DEFAULTS['task'])}{sections}{others}"
        f"<fieldset><legend>Stop: whichever comes first</legend>{_settings(stop, values)}</fieldset>"
        f"<details{_open(values, [*(k for k in PART_KINDS if k not in _IN_SIGHT), *(f.key for f in more_world)])}>"
        f"<summary>More of the fleet: users, edges, faults, energy, held-out clients</summary>{rest}"
        f'<fieldset><legend>Fleet</legend><div class="sets">{"".join(_field(field, values) for field in more_world)}</div></fieldset></details>'
        f"<details{_open(values, [f.key for f in run])}><summary>How it runs: executor, threads, checkpoints</summary>"
        f'<div class="sets">{"".join(_field(field, values) for field in run)}</div></details>'
        f'<details{" open" if values.get(TOML) else ""}><summary>Anything else, as TOML</summary><p class="wide"><label for="f-{TOML}" class="vh">anything else, '
        f'as TOML</label><textarea id="f-{TOML}" name="{TOML}" rows="5" spellcheck="false" placeholder="{escape(_EXAMPLE)}" '
        f'aria-describedby="m-{TOML}">{escape(values.get(TOML, ""))}</textarea>{_message(TOML, None)}</p></details>'
        # A check that is under way must not take the start away.
        '<p class="go"><button type="button" class="btn" id="start" hx-post="/start" hx-include="#ask" hx-swap="none" hx-trigger="click" '
        f'hx-sync="this:drop" hx-disabled-elt="this">Start</button> {form_status(None)}</p></form>'
        '<div class="hd"><h2>The same as a spec file</h2><span class="sp1"></span><button type="button" id="copy">Copy</button></div>'
        f'<p class="small">Run it in a terminal with: fedfleet run SPEC.toml</p>{_preview(None)}</section>'
    )


def part_menu(key: str, kind: str, values: Mapping[str, str], default: str = "", *, inside: str = "") -> str:
    """The menu of a part, with the settings of the one that is chosen. Another choice brings the settings of another part.

    `inside`: the list that it is in, which a choice makes longer or shorter.
    """
    name = values.get(f"{key}{USE}", default)
    choices = part_choices(kind)
    empty = "" if default else f'<option value=""{"" if name else " selected"}>none</option>'
    unknown = [(name, "not a registered part")] if name and name not in dict(choices) else []
    options = "".join(
        f'<option value="{escape(choice)}"{" selected" if choice == name else ""}>{escape(_shorten(f"{choice}: {about}".replace("`", "")))}</option>'
        for choice, about in (*unknown, *choices)
    )
    ask = escape(json.dumps({"part": key, "kind": kind, "default": default, "list": inside}))
    about = dict((*unknown, *choices)).get(name, "")
    return (
        f'<fieldset class="part" id="p-{_id(key)}"><legend>{escape(_TITLES.get(key, key))}</legend><p class="wide"><label for="f-{_id(key + USE)}" class="vh">'
        f'{escape(key)}</label><select id="f-{_id(key + USE)}" name="{escape(key + USE)}" hx-post="/fields" hx-vals="{ask}" hx-include="#ask" '
        f'hx-target="#p-{_id(inside or key)}" hx-swap="outerHTML" hx-trigger="change consume" hx-sync="#ask:replace" aria-describedby="m-{_id(key + USE)}">{empty}{options}</select>'
        f'{_message(key + USE, None)}<span class="hint">{_marked_up(about)}</span></p>{_part_settings(key, kind, name, values)}</fieldset>'
    )


def _part_settings(key: str, kind: str, name: str, values: Mapping[str, str]) -> str:
    if not name:
        return ""
    try:
        fields = part_fields(kind, name, key)
    except BadInput:
        return ""
    own = own_field_count(kind, name)
    around = fields[own:]
    more = (
        f"<details{_open(values, [field.key for field in around])}><summary>Around it: codecs, aggregation, privacy</summary>"
        f'<div class="sets">{"".join(_field(field, values) for field in around)}</div></details>'
        if around
        else ""
    )
    return _settings(fields[:own], values) + more


def _settings(fields: Sequence[SpecField], values: Mapping[str, str]) -> str:
    """The first settings, the required ones and those that are set; the others are folded."""
    first = [
        field for i, field in enumerate(fields) if i < _FIRST or field.required or field.input == PART or _is_set(field.key, values)
    ]
    rest = [field for field in fields if field not in first]
    lines = f'<div class="sets">{"".join(_field(field, values) for field in first)}</div>' if first else ""
    if not rest:
        return lines
    words = f"{len(rest)} more {'setting' if len(rest) == 1 else 'settings'}"
    return f'{lines}<details><summary>{words}</summary><div class="sets">{"".join(_field(field, values) for field in rest)}</div></details>'


def _field(field: SpecField, values: Mapping[str, str]) -> str:
    if field.input == PART:
        return part_menu(field.key, field.part_kind, values)
    if field.input == PARTS:
        return part_list(field.key, field.part_kind, values)
    value, key, at = values.get(field.key, ""), escape(field.key), _id(field.key)
    default = "" if field.default is None else field.text_of(field.default)
    about = f'id="f-{at}" name="{key}" aria-describedby="m-{at}"'
    if field.input == YES_NO:
        checked = " checked" if (value or default) == "true" else ""
        box = f'<input type="hidden" name="{key}" value="false"><input type="checkbox" {about} value="true"{checked}>'
        return _line(field.key, field.name, box, f"default {'yes' if field.default else 'no'}", kind="box")
    if field.input == CHOICE:
        empty = "" if field.required else f'<option value="">{escape(f"{default} (default)" if default else "not set")}</option>'
        options = "".join(
            f'<option value="{escape(str(choice))}"{" selected" if str(choice) == value else ""}>{escape(str(choice))}</option>'
            for choice in field.choices
        )
        return _line(field.key, field.name, f"<select {about}>{empty}{options}</select>", "")
    hint = f"{field.type}, {'required' if field.required else f'default {default}' if default else 'not set by default'}"
    if field.input == NUMBER and (field.whole or field.high < math.inf):
        limits = "".join(
            f' {name}="{limit:.12g}"' for name, limit in (("min", field.low), ("max", field.high)) if abs(limit) < 1e12
        )
        kind = f'type="number" step="{1 if field.whole else "any"}"{limits}'
    else:
        kind = f'inputmode="{"decimal" if field.input == NUMBER else "text"}"'
    return _line(field.key, field.name, f'<input {about} {kind} value="{escape(value)}" placeholder="{escape(default)}">', hint)


def part_list(key: str, kind: str, values: Mapping[str, str]) -> str:
    """A list of parts: a menu for each, and one for the next."""
    keys = [f"{key}[{i}]" for i in range(MAX_PARTS)]
    filled = [one for one in keys if values.get(f"{one}{USE}")]
    menus = "".join(part_menu(one, kind, values, inside=key) for one in [*filled, *[one for one in keys if one not in filled][:1]])
    return f'<fieldset class="list" id="p-{_id(key)}"><legend>{escape(key)}: {escape(kind)}, applied in this order</legend>{menus}</fieldset>'


def _input(key: str, value: str) -> str:
    return f'<input id="f-{_id(key)}" name="{escape(key)}" value="{escape(value)}" aria-describedby="m-{_id(key)}">'


def _line(key: str, label: str, inside: str, hint: str, kind: str = "") -> str:
    words = f'<span class="hint">{escape(hint)}</span>' if hint else ""
    marked = f' class="{kind}"' if kind else ""
    return f'<p{marked}><label for="f-{_id(key)}" title="{escape(key)}">{escape(label)}</label>{inside}{_message(key, None)}{words}</p>'


def form_messages(check: FormCheck) -> str:
    """What a check says, as pieces that replace those of the form."""
    keys = [key for key in check.values if re.fullmatch(r"[\w.\[\]]+", key)]
    return (
        "".join(_message(key, check.mistakes.get(key), swap=True) for key in keys) + form_status(check, swap=True) + _preview(check)
    )


def form_status(check: FormCheck | None, *, swap: bool = False) -> str:
    """How much is left to mend."""
    count = len(check.mistakes) if check else 0
    text = f"{count} field{'' if count == 1 else 's'} to mend" if count else "what is left out keeps its default"
    oob = ' hx-swap-oob="true"' if swap else ""
    return f'<span class="small" id="left" role="status"{oob}>{text}</span>'


def _preview(check: FormCheck | None) -> str:
    """The spec as one would write it; what is not there has its default."""
    oob = ' hx-swap-oob="true"' if check else ""
    return f'<pre id="as-toml" tabindex="0" aria-label="the spec as TOML"{oob}>{escape(check.toml) if check else ""}</pre>'


def _source_menu(sources: Sequence[tuple[str, Sequence[tuple[str, str]]]], source: str) -> str:
    """What the form begins with: another choice fills it anew."""

    def option(value: str, label: str) -> str:
        return f'<option value="{escape(value)}"{" selected" if value == source else ""}>{escape(_shorten(label))}</option>'

    groups = "".join(
        f'<optgroup label="{escape(title)}">{"".join(option(*one) for one in options)}</optgroup>'
        for title, options in sources
        if options
    )
    return (
        '<form method="get" action="/new" class="from"><label for="from">start from</label> <select id="from" name="from" hx-get="/new" '
        f'hx-trigger="change" hx-select="#new" hx-target="#new" hx-swap="outerHTML" hx-push-url="true"><option value="">the defaults</option>{groups}</select></form>'
    )


def _open(values: Mapping[str, str], keys: Sequence[str]) -> str:
    """Open what holds a setting that is set."""
    return " open" if any(_is_set(key, values) for key in keys) else ""


def _is_set(key: str, values: Mapping[str, str]) -> bool:
    return any(value and (name == key or name.startswith((f"{key}.", f"{key}["))) for name, value in values.items())


def _marked_up(text: str) -> str:
    """A sentence in which keys stand between backquotes."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2].rstrip()} .."


def _id(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", key)


def _message(key: str, mistake: Mistake | None, *, swap: bool = False) -> str:
    oob = ' hx-swap-oob="true"' if swap else ""
    if mistake is None:
        return f'<span class="msg" id="m-{_id(key)}"{oob}></span>'
    cure = (
        f' <button type="button" class="fix" data-field="f-{_id(key)}" data-wrong="{escape(mistake.wrong)}" data-right="{escape(mistake.right)}">'
        f"use {escape(mistake.right)}</button>"
        if mistake.right
        else ""
    )
    text = mistake.text[:1].upper() + mistake.text[1:] if not mistake.text.split(" ")[0].count(".") else mistake.text
    return f'<span class="msg" id="m-{_id(key)}"{oob}>{escape(text)}{cure}</span>'
