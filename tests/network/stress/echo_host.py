"""The process of an echo, told like the server's: what it commits are its rounds."""

import asyncio
import time
from pathlib import Path

from fedfleet.executors.child_process import read_message, send_message
from fedfleet.network.security.secrets import run_key
from fedfleet.network.stress.stress_plan import Dummy
from tests.network.stress.echo import Echo


async def host(told):
    dummy = Dummy(**told["dummy"])
    key = Path(told["folder"]) / "run.key"
    run_key(key)
    echo = Echo(dummy.clients, dummy.rounds, dummy.payload_bytes)
    _, address = await echo.serve()
    start, committed = time.monotonic(), []
    send_message({"address": address, "key": str(key)})
    while echo.round < echo.rounds:
        opened, before = echo.opened, echo.round
        await opened.wait()
        committed += [time.monotonic() - start] * (echo.round - before)
    send_message({"committed": committed})
    await asyncio.to_thread(read_message)


asyncio.run(host(read_message()))
