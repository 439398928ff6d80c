"""Ask a server how it stands: the device's side of `Fleet/Status`."""

from __future__ import annotations

import json
from typing import Any

import grpc

from fedfleet.core.errors import Refused, RunFailed
from fedfleet.network.protocol.fleet_pb2 import StatusReply, StatusRequest
from fedfleet.network.protocol.frames import CHANNEL_OPTIONS, parsed, path_of
from fedfleet.network.security.sanitiser import shown as printable
from fedfleet.network.security.tls import ClientFiles, client_credentials, refuse_plain

CONTRACT = ("run", "round", "version", "devices_online", "running", "waiting_for", "uptime_seconds")
MOST_REPLY = 1 << 16


def ask_status(
    address: str, *, token: str = "", tls: ClientFiles | None = None, seconds: float = 5.0
) -> dict[str, Any]:
    """What the server at this address answers; one sentence when nobody does, or not so."""
    refuse_plain(address, tls is not None)
    limits = (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", MOST_REPLY))
    if tls is None:
        channel = grpc.insecure_channel(address, limits)
    else:
        channel = grpc.secure_channel(address, client_credentials(tls), limits)
    with channel:
        call = channel.unary_unary(path_of("Status"))
        try:
            reply: bytes = call(StatusRequest(token=token).SerializeToString(), timeout=seconds)
        except grpc.RpcError as wrong:
            raise _explained(address, wrong, secure=tls is not None) from None
    return checked(address, reply)


def checked(address: str, reply: bytes) -> dict[str, Any]:
    """The answer of a server, which is foreign text: an object with what the contract names, all of it readable."""
    try:
        said = json.loads(parsed(reply, StatusReply).json)
    except (Refused, ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or any(name not in said for name in CONTRACT):
        raise RunFailed(f"{address} answers, but not as a FedFleet server of this version; is it another program?")
    return {str(name): printable(value) if isinstance(value, str) else value for name, value in said.items()}


def shown(said: dict[str, Any]) -> str:
    """The answer for people."""
    from fedfleet.network.operations.live_line import elapsed

    uptime = said["uptime_seconds"]
    lines = [
        f"run {said['run']}, up for {elapsed(uptime) if isinstance(uptime, (int, float)) else uptime}",
        f"round {said['round']}, model {said['version']}" + _accuracy(said.get("accuracy")),
        f"{said['devices_online']} devices online, {said['running']} tasks out",
    ]
    if said["waiting_for"]:
        lines.append(f"waiting for {said['waiting_for']}")
    if said.get("draining") is True:
        lines.append("it is stopping")
    return "\n".join(lines)


def _accuracy(value: object) -> str:
    return f", accuracy {value:.3f}" if isinstance(value, float) else ""


def _explained(address: str, wrong: grpc.RpcError, *, secure: bool) -> RunFailed:
    code, details = wrong.code(), printable(wrong.details() or "", 120)  # type: ignore[attr-defined]
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            cure = "or it shows another certificate" if secure else "or it wants TLS: then give --ca FILE"
            return RunFailed(f"nobody answers at {address}; no server runs there, {cure}")
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return RunFailed(f"{address} did not answer in time; it may be overloaded or no FedFleet server")
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return RunFailed(
                f"{address} does not tell its status to everybody; show the token in its wire/status.token: --token-file FILE"
            )
        case grpc.StatusCode.UNIMPLEMENTED:
            return RunFailed(f"{address} answers, but not as a FedFleet server of this version; is it another program?")
        case _:
            return RunFailed(f"{address} could not say its status: {code.name} {details}")
