"""Pins: what a builder adds to its table when a spec is resolved."""

from fedfleet.core.pins import complete, identity_of, pinned


def test_a_builder_without_a_pin_leaves_its_table_alone():
    def plain(*, rate: float = 1.0): ...

    table = {"use": "plain", "rate": 1.0}
    assert complete(plain, table) is table and identity_of(plain, table) is table


def test_a_pin_completes_a_table_and_says_what_of_it_names_the_content():
    @pinned(lambda table: {**table, "content": "0"}, lambda table: {k: v for k, v in table.items() if k != "path"})
    def file(*, path: str, content: str | None = None): ...

    whole = complete(file, {"path": "a"})
    assert whole == {"path": "a", "content": "0"} and identity_of(file, whole) == {"content": "0"}
