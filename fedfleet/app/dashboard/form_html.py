"""The form of a new run as HTML: a line for each field, with the program's own sentence and its cure beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from fedfleet.app.dashboard.new_run_form import FIELDS, NAME, TOML, Field, FormCheck, Mistake
from fedfleet.app.dashboard.pages import datalists

_EXAMPLE = '[world]\ndevices = { use = "dpgmm", sigma = 1.1 }'


def form(values: Mapping[str, str], names: Mapping[str, Sequence[str]], *, can_start: bool) -> str:
    """The whole form; `can`: runs can be started here."""
    if not can_start:
        return '<section id="new"><h2>New run</h2><p class="small">Runs are started where there is a folder of runs: fedfleet dashboard FOLDER.</p></section>'
    lines = "".join(_line(field, values.get(field.key, "")) for field in FIELDS)
    return (
        '<section id="new"><h2>New run</h2><form id="ask" hx-post="/check" hx-trigger="change delay:100ms, input delay:700ms" '
        'hx-swap="none" hx-sync="this:replace" novalidate autocomplete="off">'
        f"{_line(Field(NAME, 'of its folder'), values.get(NAME, ''))}{lines}"
        f'<p class="wide"><label for="f-{TOML}">anything else, as TOML</label><textarea id="f-{TOML}" name="{TOML}" rows="5" spellcheck="false" '
        f'placeholder="{escape(_EXAMPLE)}" aria-describedby="m-{TOML}">{escape(values.get(TOML, ""))}</textarea>{_message(TOML, None)}</p>'
        # A check that is under way must not take the start away.
        '<p class="go"><button type="button" class="btn" id="start" hx-post="/start" hx-include="#ask" hx-swap="none" hx-trigger="click" '
        f'hx-sync="this:drop" hx-disabled-elt="this">Start</button> {form_status(None)}</p></form>{datalists(names)}</section>'
    )


def form_messages(check: FormCheck) -> str:
    """What a check says, as pieces that replace those of the form."""
    keys = (NAME, *(f.key for f in FIELDS), TOML)
    return "".join(_message(key, check.mistakes.get(key), swap=True) for key in keys) + form_status(check, swap=True)


def form_status(check: FormCheck | None, *, swap: bool = False) -> str:
    """How much is left to mend."""
    count = len(check.mistakes) if check else 0
    text = f"{count} field{'' if count == 1 else 's'} to mend" if count else "what is left out keeps its default"
    oob = ' hx-swap-oob="true"' if swap else ""
    return f'<span class="small" id="left" role="status"{oob}>{text}</span>'


def _id(key: str) -> str:
    return escape(key.replace(".", "-"))


def _line(field: Field, value: str) -> str:
    number = ' inputmode="decimal"' if field.number else ""
    offers = f' list="k-{field.kind}"' if field.kind else ""
    hint = f'<span class="hint">{escape(field.hint)}</span>' if field.hint else ""
    key, at = escape(field.key), _id(field.key)
    return (
        f'<p><label for="f-{at}">{key}</label><input id="f-{at}" name="{key}" value="{escape(value)}"{number}{offers} '
        f'aria-describedby="m-{at}">{_message(field.key, None)}{hint}</p>'
    )


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
