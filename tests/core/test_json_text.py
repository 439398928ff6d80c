"""JSON of any making: a value, or one kind of error."""

import pytest

from fedfleet.core.json_text import parse_json


@pytest.mark.parametrize("text", ["", "{", b"\xff\x00", "[" * 100_000, '{"a": ' * 50_000, "1" * 5000])
def test_whatever_is_wrong_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_what_is_right_is_read():
    assert parse_json(b'{"a": [1, null]}') == {"a": [1, None]}
