"""Taking a report in: decoded and checked as the fold would; what is wrong is a reason and never an exception.

A frontend's messages to the server loop: one for what a moment brings, and each question gets its own answer.
"""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.registry import builder
from fedfleet.core.tensor_format import pack_tree
from fedfleet.learn.codecs.chain import chain
from fedfleet.network.frontend.claims import Uplink, clean_stats, codec_from, codec_recipe, decode_report
from fedfleet.network.frontend.partial_sums import fold_layout
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import MOST_STATS
from tests.network.frontend.test_partial_sums import SERVER, fold_of, model

SHEET = fold_layout(fold_of(model()), SERVER)


def test_an_honest_report_is_its_tree() -> None:
    result = decode_report(SHEET, None, memoryview(pack_tree(model(3))), 1.0)
    assert result.fault == "" and result.tree.keys() == model(3).keys()
    assert all(np.array_equal(result.tree[n], leaf) for n, leaf in model(3).items())
    assert result.nbytes == sum(leaf.nbytes for leaf in model(3).values())


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"garbage", ""),
        (b"", ""),
        (pack_tree({"other": np.zeros(3, np.float32)}), "missing"),
        (
            pack_tree({n: v * np.float32("nan") if v.dtype == np.float32 else v for n, v in model(1).items()}),
            "not finite",
        ),
    ],
    ids=["garbage", "nothing", "another leaf", "NaN"],
)
def test_what_cannot_be_folded_has_a_reason(data: bytes, word: str) -> None:
    result = decode_report(SHEET, None, memoryview(data), 1.0)
    assert result.fault and word in result.fault


def test_whoever_folds_later_looks_later() -> None:
    assert decode_report(SHEET, None, memoryview(b"garbage"), 1.0, check=False) == ({}, 7, "", None)


def test_a_codec_is_made_again_from_its_recipe() -> None:
    whole = chain([builder("codecs", "int8")()])
    assert whole is not None
    again = codec_from(codec_recipe(whole))
    assert codec_recipe(again) == codec_recipe(whole)


def play(script):
    """Run a script with an uplink, and the messages that it sent."""

    async def main():
        uplink, sent = Uplink(), []
        uplink.link = SimpleNamespace(send=sent.append)
        result = await script(uplink)
        await asyncio.sleep(0.03)
        return result, sent

    return asyncio.run(main())


def test_what_a_moment_brings_goes_in_one_message():
    async def script(uplink):
        uplink.record_call(3, 0.0)
        uplink.record_call(5, 60.0)
        uplink.record_departure(7)
        uplink.record_departure(7)

    _, sent = play(script)
    assert [(list(m.heard), list(m.heard_back), list(m.gone)) for m in sent] == [([3, 5], [0.0, 60.0], [7])]


def test_a_device_that_hangs_up_and_calls_again_is_not_reported_as_gone():
    async def script(uplink):
        uplink.record_departure(3)
        uplink.record_call(3, 0.0)

    _, (message,) = play(script)
    assert list(message.gone) == [] and list(message.heard) == [3]


def test_answers_reach_their_questions_in_any_order():
    async def script(uplink):
        def ask(out, number):
            out.asking.append(inside.Asking(number=number))

        first, second = (asyncio.create_task(uplink.ask_server(ask)) for _ in range(2))
        await asyncio.sleep(0)
        uplink.on_answers([inside.Told(number=2, json="b"), inside.Told(number=1, json="a"), inside.Told(number=9)])
        return [(await task).json for task in (first, second)]

    result, (message,) = play(script)
    assert result == ["a", "b"] and [a.number for a in message.asking] == [1, 2]


def test_a_claim_waits_for_its_grant():
    async def script(uplink):
        claim = asyncio.create_task(uplink.claim(inside.Claim(task=4), None, b""))
        await asyncio.sleep(0)
        (number,) = uplink.claims
        uplink.claims.pop(number).answer.set_result(inside.Grant(number=number, granted=True))
        return await claim

    grant, (message,) = play(script)
    assert grant.granted and [c.task for c in message.claims] == [4]


@given(st.dictionaries(st.one_of(st.text(max_size=40), st.from_regex(r"[a-z][a-z0-9_./]{0,31}", fullmatch=True)), st.floats()))
def test_statistics_that_remain_are_plain_finite_and_few(said):
    kept = clean_stats(said)
    assert len(kept) <= MOST_STATS and kept.keys() <= said.keys()
    assert all(math.isfinite(value) and said[name] == value for name, value in kept.items())
    assert all(name.isascii() and len(name) <= 32 and name[0].isalpha() for name in kept)


def test_only_declared_statistics_remain():
    assert clean_stats({"loss": 1.0, "norm": 2.0}, {"loss"}) == {"loss": 1.0}


@pytest.mark.parametrize("name", ["", "Loss", "1loss", "lo ss", "loss\n", "l" * 33, "löss"])
def test_names_that_are_not_plain_are_dropped(name):
    assert clean_stats({name: 1.0, "fine_1.a/b": 1.0}) == {"fine_1.a/b": 1.0}


def test_of_too_many_the_first_by_name_remain_in_whatever_order_they_came():
    names = [f"s{i:02d}" for i in range(20)]
    forth, back = (clean_stats(dict.fromkeys(order, 1.0)) for order in (names, names[::-1]))
    assert forth == back == dict.fromkeys(names[:16], 1.0)
