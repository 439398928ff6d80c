"""Tokens and devices of a served run as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

_MOST_ROWS = 50


def invitation_text(token: Mapping[str, Any]) -> str:
    """What to know of a new token, beside the token itself."""
    good = f"for {token['uses']} devices" if token["uses"] > 1 else "for one device"
    client_part = "" if token["client"] is None else f", as client {token['client']}"
    return f"token {token['id']} is good {good}{client_part} until {_moment(token['expires'])}; it is not shown again"


def token_list_text(result: Mapping[str, Any]) -> str:
    """All tokens and devices, a line each."""
    lines = [_token_line(t) for t in result["tokens"]] or ["no tokens"]
    return "\n".join([*lines, *_device_lines(result["devices"])])


def _token_line(token: Mapping[str, Any]) -> str:
    client_part = "" if token["client"] is None else f", client {token['client']}"
    note = f" ({token['note']})" if token["note"] else ""
    end = f"until {_moment(token['expires'])}" if token["revoked"] is None else f"revoked {_moment(token['revoked'])}"
    return f"token {token['id']}: {token['used']} of {token['uses']} used, {end}{client_part}{note}"


def _device_lines(devices: Sequence[Mapping[str, Any]]) -> list[str]:
    active = [d for d in devices if d["revoked"] is None]
    lines = [
        f"client {d['client']}: enrolled {_moment(d['enrolled'])} from {d['peer']}"
        + (f" with {d['samples']} samples of {d['data']}" if d["data"] else "")
        for d in active[:_MOST_ROWS]
    ]
    if len(active) > _MOST_ROWS:
        lines.append(f"and {len(active) - _MOST_ROWS} more devices; --json shows all")
    return lines or ["no devices"]


def _moment(seconds: float | None) -> str:
    return "it is revoked" if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"
