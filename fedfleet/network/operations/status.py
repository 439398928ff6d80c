"""Ask a server for its status: the caller's side of `Fleet/Status`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import grpc

from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.errors import printable as printable
from fedfleet.network.operations.metrics import activity_text
from fedfleet.network.protocol.fleet_pb2 import StatusReply, StatusRequest
from fedfleet.network.protocol.frames import CHANNEL_OPTIONS, method_path, parse_message
from fedfleet.network.security.tls import ClientFiles, client_credentials, refuse_plain

CONTRACT = ("run", "round", "version", "devices_online", "running", "waiting_for", "uptime_seconds")
MOST_REPLY = 1 << 16
_WANTS_TOKEN = "it gives its status only to callers with its token: give the file wire/status.token of its run, --token-file FILE"


def ask_status(address: str, *, token: str = "", tls: ClientFiles | None = None, seconds: float = 5.0) -> dict[str, Any]:
    """What the server at this address answers; an error of one sentence if none does."""
    refuse_plain(address, tls is not None)
    limits = (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", MOST_REPLY))
    if tls is None:
        channel = grpc.insecure_channel(address, limits)
    else:
        channel = grpc.secure_channel(address, client_credentials(tls), limits)
    with channel:
        call = channel.unary_unary(method_path("Status"))
        try:
            reply: bytes = call(StatusRequest(token=token).SerializeToString(), timeout=seconds)
        except grpc.RpcError as error:
            raise _to_error(address, error, secure=tls is not None) from None
    return parse_status(address, reply)


def parse_status(address: str, reply: bytes) -> dict[str, Any]:
    """The answer of a server, which is untrusted text: an object with what the contract names, all of it printable."""
    try:
        status = json.loads(parse_message(reply, StatusReply).json)
    except (Refused, ValueError, RecursionError):
        status = None
    if isinstance(status, dict) and isinstance(status.get("serving"), bool):
        does = "takes devices" if status["serving"] else "is stopping, or its run is over"
        raise RunFailed(f"{address} {does}; {_WANTS_TOKEN}")
    if not isinstance(status, dict) or any(name not in status for name in CONTRACT):
        raise RunFailed(
            f"{address} answers, but not as a FedFleet server of this version; check the address and the version of the server"
        )
    return {str(name): printable(value) if isinstance(value, str) else value for name, value in status.items()}


def format_status(status: dict[str, Any]) -> str:
    """The answer for people."""
    from fedfleet.network.operations.monitor import duration_text

    uptime = status["uptime_seconds"]
    lines = [
        f"run {status['run']}, up for {duration_text(uptime) if isinstance(uptime, (int, float)) else uptime}",
        f"round {status['round']}, model {status['version']}" + _score_text(status),
        f"{status['devices_online']} devices online, {status['running']} tasks out",
    ]
    if status["waiting_for"]:
        lines.append(activity_text(str(status["waiting_for"])))
    if status.get("draining") is True:
        lines.append("the server is stopping")
    return "\n".join(lines)


def _score_text(status: Mapping[str, object]) -> str:
    """The score of the newest model that was evaluated, by its name."""
    value = status.get("accuracy")
    return f", {printable(str(status.get('score', 'accuracy')), 40)} {value:.3f}" if isinstance(value, float) else ""


def _to_error(address: str, error: grpc.RpcError, *, secure: bool) -> RunFailed:
    code, details = error.code(), printable(error.details() or "", 120)  # type: ignore[attr-defined]
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            cure = "or it shows another certificate" if secure else "or it wants TLS: then give --ca FILE"
            return RunFailed(f"no answer from {address}; no server runs there, {cure}")
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return RunFailed(f"{address} did not answer in time; it may be overloaded, or it is not a FedFleet server")
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return RunFailed(f"{address} does not accept this token; {_WANTS_TOKEN}")
        case grpc.StatusCode.UNIMPLEMENTED:
            return RunFailed(
                f"{address} answers, but not as a FedFleet server of this version; check the address and the version of the server"
            )
        case _:
            return RunFailed(f"{address} could not give its status: {code.name} {details}")
