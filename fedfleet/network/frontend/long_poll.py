"""Calls that are held: a device without work waits on the line until somebody wakes it, or its time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Waiters = dict[int, "asyncio.Future[None]"]


async def hold_call(waiters: Waiters, client: int, seconds: float, on_gone: Callable[[int], None]) -> None:
    """Hold this client's call for so long at most; `gone` hears of a device that hung up meanwhile.

    Of two calls of one client the earlier is let go: its device has lost that line. A timer of its own costs half of `wait_for`.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    wake(waiters, client)
    waiters[client] = waiter
    timer = loop.call_later(seconds, _release, waiter)
    try:
        await waiter
    except asyncio.CancelledError:
        if waiters.get(client) is waiter:
            on_gone(client)
        raise
    finally:
        timer.cancel()
        if waiters.get(client) is waiter:
            del waiters[client]


def wake(waiters: Waiters, client: int) -> None:
    """Let the call of this client go, if there is one."""
    waiter = waiters.pop(client, None)
    if waiter is not None:
        _release(waiter)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
