import asyncio

import pytest

from fedfleet.network.protocol.frames import INLINE_BYTES
from fedfleet.network.stress.load_generator import DueQueue, Generator, Load, tally_json
from tests.network.stress.echo import Echo

pytestmark = pytest.mark.slow


def served(clients, rounds, nbytes=400, *, in_flight=8, waiting=8, generators=1, **how):
    """What an echo and its generators saw of a whole run."""

    async def run():
        echo = Echo(clients, rounds, nbytes, **how)
        server, address = await echo.serve()
        loads = [
            Load(address, "", nbytes, i, generators, len(range(i, clients, generators)), in_flight, waiting, 2)
            for i in range(generators)
        ]
        made = [Generator(load, lambda client: b"secret of %d" % client) for load in loads]
        await asyncio.wait_for(asyncio.gather(*(each.run() for each in made)), 20)
        await asyncio.gather(*(each.close() for each in made))
        await server.stop(0)
        return echo, [each.tally for each in made]

    return asyncio.run(run())


@pytest.mark.parametrize("next_work", [False, True])
def test_every_client_hands_in_once_a_round(next_work):
    echo, (tally,) = served(30, 3, next_work=next_work)
    assert echo.reports == dict.fromkeys(range(90), 1)
    assert tally.updates == 90
    assert tally.statuses == {"SAFE": 90}
    assert not tally.failures
    assert tally.hand.count() == 90


def test_every_client_shows_its_own_secret():
    echo, _ = served(12, 1)
    assert echo.secrets == {client: b"secret of %d" % client for client in range(12)}


def test_clients_are_shared_out_among_generators():
    echo, tallies = served(25, 2, generators=2)
    assert echo.reports == dict.fromkeys(range(50), 1)
    assert sorted(tally.updates for tally in tallies) == [24, 26]


def test_large_models_and_reports_travel_in_chunks():
    echo, (tally,) = served(3, 2, INLINE_BYTES + 400, in_flight=2)
    assert echo.calls["Fetch"] == 6
    assert tally.fetched_bytes == 6 * len(echo.model)
    assert tally.updates == 6


@pytest.mark.parametrize(
    ("trouble", "seen"),
    [
        (["BUSY", "RETRY"], {"BUSY": 1, "RETRY": 1, "SAFE": 8}),
        (["UNWANTED"], {"UNWANTED": 1, "SAFE": 8}),  # the client comes back, and its task is given again
    ],
)
def test_receipts_are_obeyed(trouble, seen):
    echo, (tally,) = served(4, 2, trouble=trouble)
    assert tally.statuses == seen
    assert sum(echo.reports.values()) == 8


def test_calls_that_fail_are_counted_and_made_again():
    echo, (tally,) = served(4, 1, trouble=["check"] * 2)
    assert tally.failures == {"UNAVAILABLE": 2}
    assert sum(echo.reports.values()) == 4
    assert tally_json(tally)["failures"] == {"UNAVAILABLE": 2}


def test_a_damaged_model_ends_the_generator():
    async def run():
        echo = Echo(1, 1, 400)
        echo.model = bytes(len(echo.model))
        server, address = await echo.serve()
        made = Generator(Load(address, "", 400, 0, 1, 1, 1, 1, 1), lambda client: b"")
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        await asyncio.wait_for(made.run(), 10)
        await made.close()
        await server.stop(0)
        return made.tally

    assert asyncio.run(run()).failures == {"Refused": 1}


def test_a_line_serves_whoever_is_due_first():
    async def run():
        line, start = DueQueue(), asyncio.get_running_loop().time
        from time import perf_counter

        now = perf_counter()
        line.add(1, now + 0.05)
        first = asyncio.create_task(line.next())
        await asyncio.sleep(0)
        line.add(2, now)  # comes later, and is due sooner
        before = start()
        got = [await first, await line.next()]
        return got, start() - before

    got, waited = asyncio.run(run())
    assert got == [2, 1]
    assert waited >= 0.02
