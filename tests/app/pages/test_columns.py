"""Columns by rank: every client of a small fleet, groups of a large one, nobody left out."""

import re

import numpy as np
import pytest

from fedfleet.app.pages.columns import MOST, groups, ranked_columns, thinned
from fedfleet.app.pages.svg import WIDTH, Series


def drawn(values, kinds=None):
    kinds = (values == 0).astype(np.int64) if kinds is None else kinds
    order = np.argsort(-values, kind="stable")
    return ranked_columns(values, order, "clients", "reports", ["red", "blue"], kinds, lambda c: f"client {c}")


def titles(text):
    return re.findall("<title>(.*?)</title>", text)


@pytest.mark.parametrize("n", [1, 7, MOST, MOST + 1, 12_345, 1_000_000])
def test_groups_cover_everybody_once_and_are_of_nearly_equal_size(n):
    edges = groups(n)
    sizes = np.diff(edges)
    assert edges[0] == 0 and edges[-1] == n and sizes.min() >= 1 and sizes.max() - sizes.min() <= 1
    assert len(sizes) == (n if n <= MOST else 500)


def test_a_small_fleet_has_a_column_for_every_client():
    text = drawn(np.array([0, 5, 2]))
    assert titles(text) == ["client 1", "client 2", "client 0"]
    assert text.count('fill="red"') == 2 and text.count('fill="blue"') == 1


def test_columns_of_a_large_fleet_say_whom_they_stand_for():
    values = np.arange(10_000) // 1000
    text = drawn(values)
    assert len(titles(text)) == 500
    assert titles(text)[0] == "20 clients, ranks 1 to 20: 9 to 9 each"
    assert titles(text)[-1] == "20 clients, ranks 9,981 to 10,000: 0 to 0 each"
    assert text.count('fill="blue"') == 50, "the tenth that has none"
    assert "a column is 20 clients" in text and ">10,000</text>" in text, "the axis counts clients"
    places = [float(x) for x in re.findall(r'<rect x="([\d.]+)"', text)]
    assert places == sorted(places) and places[-1] < WIDTH


def test_heights_are_means():
    values = np.array([4, 2] * 2500)
    heights = [float(h) for h in re.findall(r'height="([\d.]+)" fill', drawn(values))]
    assert heights[0] == pytest.approx(2 * heights[-1], rel=0.01)


def test_long_lines_keep_their_ends():
    line = Series("a", list(range(100_000)), [i / 10 for i in range(100_000)], "red")
    short = thinned(line)
    assert len(short.x) == len(short.y) == MOST
    assert (short.x[0], short.y[0], short.x[-1], short.y[-1]) == (0, 0.0, 99_999, 9999.9)
    assert thinned(short) is short
