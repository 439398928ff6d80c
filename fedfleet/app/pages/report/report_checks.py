"""How to check a report: what guards it, how it was computed, all measures, the spec, and how to replay it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from fedfleet.app.pages.html import details_block
from fedfleet.app.pages.report.report_facts import Facts
from fedfleet.app.runs.run_folder import first_weights_lines
from fedfleet.measure.privacy import privacy_figures

_NOISE_KINDS = {
    "seed": "a study: its noise comes from the seed",
    "secret": "its noise comes from a secret",
    "devices": "each device draws its own noise, which no one else knows",
}


def checking_section(f: Facts, remarks: Sequence[str]) -> list[str]:
    """Folded: spec, measures, digest and commands, and what the journal remarks about how the run was carried out."""
    m = f.metrics
    shown = {k: v for k, v in m.items() if k not in ("report", "out")}
    folder = escape(str(m.get("out") or "RUN"))
    replay = f"<pre>fedfleet replay {folder}\nfedfleet verify {folder}\nfedfleet explain {folder}</pre>"
    first = "".join(f'<p class="note">{escape(line[:1].upper() + line[1:])}.</p>' for line in first_weights_lines(m))
    digest = f'<p class="note">Digest <code>{escape(str(m.get("digest", "")))}</code>. The journal run.db beside this page holds every event.</p>'
    return [
        "<h2>How to check it</h2>",
        details_block("Spec, with every default", f"<pre>{escape(f.text)}</pre>"),
        details_block("All measures", f"<pre>{escape(json.dumps(_shorten(shown), indent=1, default=str))}</pre>"),
        details_block("Digest and replay", digest + first + replay),
        *([details_block("How it was computed", f"<ul>{''.join(f'<li>{escape(r)}</li>' for r in remarks)}</ul>")] if remarks else []),
    ]  # fmt: skip


def _shorten(value: Any) -> Any:
    """Long lists of numbers by their length: they are in metrics.json."""
    if isinstance(value, dict):
        return {k: _shorten(v) for k, v in value.items()}
    if isinstance(value, list):
        return f"{len(value):,} values, in metrics.json" if len(value) > 60 else [_shorten(v) for v in value]
    return value


def privacy_section(f: Facts) -> list[str]:
    """What is claimed about privacy, and whether it is more than a study."""
    privacy = f.metrics.get("privacy")
    if not privacy:
        return []
    kind = _NOISE_KINDS.get(str(privacy["noise_from"]), _NOISE_KINDS["secret"])
    figures = privacy_figures(privacy)
    summary = f"{figures[0].upper()}{figures[1:]} ({privacy['mechanism']}; {kind}): {privacy['claim']}."
    gloss = "Epsilon bounds how much one person's data can change what is published: the smaller, the more private."
    return ["<h2>Privacy</h2>", f"<p>{escape(summary)}</p>", f'<p class="note">{gloss}</p>']
