"""Messages as JSON: there and back, and refused in one sentence if they are none."""

import json

import pytest

from fedfleet.core.errors import Refused
from fedfleet.network.frontend.http_json import json_bytes, message_from_json, message_to_json
from fedfleet.network.protocol import fleet_pb2 as pb


def test_a_message_comes_back_as_it_was():
    report = pb.Report(caller=pb.Caller(client=3, secret=b"\0\xff"), task=1 << 40, nonce=b"n", weight=0.25, kind=pb.EVALUATE)
    report.stats["loss"] = 0.5
    text = message_to_json(report)
    assert message_from_json(text, pb.Report) == report
    assert message_from_json(text.decode(), pb.Report) == report


def test_fields_keep_their_names_and_show_their_defaults():
    table = json.loads(message_to_json(pb.Receipt(status=pb.Receipt.BUSY)))
    assert table == {"status": "BUSY", "reason": "", "seconds": 0.0}


def test_nothing_is_an_empty_message():
    assert message_from_json(b"", pb.CheckIn) == pb.CheckIn()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b'{"hold": "perhaps"}', "not a CheckIn"),
        (b'{"unknown": 1}', "not a CheckIn"),
        (b'{"busy": 1.5}', "not a CheckIn"),
        (b'{"caller": 7}', "not a CheckIn"),
        (b'{"caller": {"client": 1}, "hold": true}', "'caller' is not part of this JSON"),
    ],
)
def test_what_is_no_message_is_refused(data, why):
    with pytest.raises(Refused, match=why):
        message_from_json(data, pb.CheckIn, () if b'"hold": true' not in data else ("caller",))


def test_json_of_ours_is_compact_and_has_no_number_that_json_has_not():
    assert json_bytes({"a": [1, None]}) == b'{"a":[1,null]}'
    with pytest.raises(ValueError, match="JSON compliant"):
        json_bytes(float("nan"))
