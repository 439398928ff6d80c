"""Columns of rounds and clients, by hand."""

import numpy as np

from fedfleet.measure.run_tables import client_columns, round_columns
from tests.measure.journals import LOG, TASKS
from tests.measure.test_costs import COSTS


def same(column, *values):
    np.testing.assert_array_equal(column, values)


def test_rounds():
    got = round_columns(LOG)
    same(got["round"], 0, 1, 2, 3)
    same(got["version"], 1, 1, 2, 3)
    same(got["committed"], True, False, True, True)
    same(got["time"], 50.0, 90.0, 120.0, 150.0)
    same(got["seconds"], 50.0, 40.0, 30.0, 30.0)
    same(got["selected"], 4, 2, 2, 0)
    same(got["arrived"], 3, 1, 2, 0)
    same(got["folded"], 2, 0, 2, 0)
    same(got["dropped"], 1, 0, 0, 0)
    same(got["lost"], 0, 1, 0, 0)
    same(got["rejected"], 1, 0, 0, 0)
    same(got["bytes_up"], 150.0, 50.0, 100.0, 0.0)
    same(got["accuracy"], 0.5, np.nan, 0.9, 0.8)
    same(got["loss"], 1.5, np.nan, 0.5, 0.6)


def test_clients():
    got = client_columns(LOG, kinds=list("abcdef"), samples=np.arange(6))
    same(got["client"], *range(6))
    same(got["kind"], *"abcdef")
    same(got["samples"], *range(6))
    same(got["picked"], 2, 2, 2, 1, 1, 0)
    same(got["folded"], 1, 2, 1, 0, 0, 0)
    same(got["dropped"], 0, 0, 0, 1, 0, 0)
    same(got["seconds"], 30.0, 60.0, 35.0, 30.0, 0.0, 0.0)
    same(got["accuracy"], 0.5, 0.0, 0.75, np.nan, np.nan, np.nan)


def test_what_work_took_and_drew():
    log = [*LOG, *COSTS]
    rounds, clients = round_columns(log), client_columns(log)
    same(rounds["worked"], 10 + 14 + 24 + 20, 15, 30 + 10, 0)
    same(rounds["joules"], 75.0, 25.0, 50.0, 0.0)
    same(clients["worked"], 10 + 15, 14 + 30, 24 + 10, 20, 0, 0)
    same(clients["joules"], 35.0, 60.0, 40.0, 15.0, 0.0, 0.0)
    assert np.isnan(round_columns(LOG)["joules"]).all() and np.isnan(client_columns(LOG)["worked"]).all()


def test_totals_are_those_of_the_tasks():
    rounds, clients = round_columns(LOG), client_columns(LOG)
    for name in ("arrived", "folded", "dropped", "lost", "rejected", "bytes_up", "bytes_down"):
        assert rounds[name].sum() == clients[name].sum(), name
    assert rounds["selected"].sum() == clients["picked"].sum() == len(TASKS.clients)


def test_all_columns_are_as_long_as_each_other():
    for log in (LOG, LOG[:4], LOG[:1], []):
        for columns in (round_columns(log), client_columns(log)):
            assert len({len(column) for column in columns.values()}) == 1


def test_facts_of_another_world_are_left_out():
    assert "kind" not in client_columns(LOG, kinds=["a"]) and "samples" not in client_columns(LOG, samples=np.arange(2))
