"""Messages as JSON, by protobuf's own mapping: for browsers, and for devices in languages without protobuf."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from fedfleet.core.errors import Refused, printable
from fedfleet.core.json_text import parse_json

MAX_JSON_BYTES = 1 << 17  # a head of 64 KiB whose bytes are in base64
Kind = TypeVar("Kind", bound=Message)


def message_from_json(data: bytes | str, kind: type[Kind], without: tuple[str, ...] = ()) -> Kind:
    """The message in a text of JSON; nothing at all is an empty message. `without` are fields that stand elsewhere.

    >>> from fedfleet.network.protocol.fleet_pb2 import CheckIn
    >>> message_from_json(b'{"hold": true}', CheckIn).hold
    True
    """
    table = json_table(data)
    for name in without:
        if name in table:
            raise Refused(f"the field {name!r} is not part of this JSON: it stands in the request's path or headers")
    try:
        return json_format.ParseDict(table, kind())
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"its JSON is not a {kind.DESCRIPTOR.name} ({printable(str(error))})") from None


def json_table(data: bytes | str) -> dict[str, Any]:
    """The object in a text of JSON, which may be empty."""
    try:
        table = parse_json(data) if data else {}
    except ValueError as error:
        raise Refused(f"its text is not JSON ({printable(str(error))})") from None
    if not isinstance(table, dict):
        raise Refused("its JSON is not an object")
    return table


def message_to_json(message: Message) -> bytes:
    """A message as JSON, with the fields that have their default values.

    >>> from fedfleet.network.protocol.fleet_pb2 import Receipt
    >>> message_to_json(Receipt())
    b'{"status":"SAFE","reason":"","seconds":0.0}'
    """
    return json_bytes(
        json_format.MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    )


def json_bytes(table: Any) -> bytes:
    """A value as compact JSON."""
    return json.dumps(table, separators=(",", ":"), allow_nan=False).encode()
