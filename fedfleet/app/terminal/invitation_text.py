"""Tokens and devices of a served run as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

_MOST_ROWS = 50


def shown_invitation(made: Mapping[str, Any]) -> str:
    """What to know of a new token, beside the token itself."""
    good = f"for {made['uses']} devices" if made["uses"] > 1 else "for one device"
    named = "" if made["client"] is None else f", as client {made['client']}"
    return f"token {made['id']} is good {good}{named} until {_moment(made['expires'])}; it is not shown again"


def shown_list(found: Mapping[str, Any]) -> str:
    """All tokens and devices, a line each."""
    lines = [_token_line(t) for t in found["tokens"]] or ["no tokens"]
    return "\n".join([*lines, *_device_lines(found["devices"])])


def _token_line(token: Mapping[str, Any]) -> str:
    named = "" if token["client"] is None else f", client {token['client']}"
    note = f" ({token['note']})" if token["note"] else ""
    end = f"until {_moment(token['expires'])}" if token["revoked"] is None else f"revoked {_moment(token['revoked'])}"
    return f"token {token['id']}: {token['used']} of {token['uses']} used, {end}{named}{note}"


def _device_lines(devices: Sequence[Mapping[str, Any]]) -> list[str]:
    there = [d for d in devices if d["revoked"] is None]
    lines = [
        f"client {d['client']}: enrolled {_moment(d['enrolled'])} from {d['peer']}"
        + (f" with {d['samples']} samples of {d['data']}" if d["data"] else "")
        for d in there[:_MOST_ROWS]
    ]
    if len(there) > _MOST_ROWS:
        lines.append(f"and {len(there) - _MOST_ROWS} more devices; --json shows all")
    return lines or ["no devices"]


def _moment(seconds: float | None) -> str:
    return "it is revoked" if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"
