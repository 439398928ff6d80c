"""What a transmitter is told survives its text, and shows no key."""

from __future__ import annotations

from fedfleet.network.server.options import LEVELS, FrontendConfig, ServeOptions, config_from_bytes, config_to_bytes

START = FrontendConfig(
    index=1, address="127.0.0.1:1", clients=3, key="00ff", folder="/f", shared="/s", sheet="{}", stream=True, spool=False,
    durable=True, encode_once=True, hold=2, hold_seconds=1.5, commit_seconds=0.05, in_flight_bytes=10, largest=20,
    codecs=[[{"use": "int8", "rows": 3}]], codec_of=[[0, 1]], tls={"key": "k"}, stats=None,
)  # fmt: skip


def test_a_start_survives_its_text() -> None:
    assert config_from_bytes(config_to_bytes(START)) == START


def test_a_start_shows_no_key() -> None:
    assert "00ff" not in repr(START)


def test_the_defaults_are_ones_that_can_be_served_with() -> None:
    serve = ServeOptions()
    assert serve.durable and serve.streaming and serve.log_level in LEVELS
    assert 0 < serve.commit_seconds < serve.hold_seconds < serve.lease
