"""Servers that are killed at random moments of a run, and what they must end with: the models of the simulation, bit for bit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fedfleet.core.rng import stream
from fedfleet.core.trees import content_hash
from tests.network.crowd import Crowd, crowd
from tests.network.harness import PATIENT, Ground, ground, wait_for
from tests.network.proving import complaints, models_again
from tests.network.toys import Toy, plan_of, reference


def _processor(place: Ground, n: int) -> None:
    del n
    place.kill_processor()
    place.serve(resume=True)


def _transmitter(place: Ground, n: int) -> None:
    place.kill_transmitter(n)


def _whole(place: Ground, n: int) -> None:
    del n
    place.kill_everything()
    place.serve(resume=True)


KILLS: dict[str, Callable[[Ground, int], None]] = {
    "processor": _processor,
    "transmitter": _transmitter,
    "whole server": _whole,
}


def moments(name: str, kills: int, reports: int, seed: int = 1) -> list[tuple[int, float]]:
    """When to kill: after so many acknowledged reports, and so many seconds more, so that every phase of a round is met."""
    draws = [stream(seed, f"kill {name}", n).random(2) for n in range(kills)]
    share = reports / (kills + 1)
    return [(int((n + float(a)) * share), float(b) * 0.12) for n, (a, b) in enumerate(draws)]


def kill_and_prove(folder: Path, toy: Toy, kinds: Sequence[str], kills: int, *, seed: int = 1, **options: object) -> None:
    """Kill a run so often, in turn in these ways, let it end, and compare it with the run that nobody killed."""
    names, params = reference(toy)
    when = moments("+".join(kinds), kills, toy.rounds * toy.asked, seed)
    with ground(folder, toy) as place:
        place.serve(**options)
        with crowd(toy, place.address, pause=_pause(toy)) as people:
            done = _killed(place, people, kinds, when)
            code = place.ended(2 * PATIENT)
        assert people.errors == [], people.errors
        assert code == 0, place.said
        assert done == kills, f"only {done} of {kills} kills met a running server; make the run longer"
        events = place.events()
        assert complaints(events, people.receipts) == []
        if not toy.noise:  # which is not in the reports
            assert models_again(plan_of(toy), events, people.reports) == []
        assert place.models() == names
        assert place.last_model() == content_hash(params)


def _pause(toy: Toy) -> Callable[[int, int], float]:
    """Devices take a little, each another time: reports trickle in, and a kill finds some safe, some granted, some on their way."""

    def pause(client: int, task: int) -> float:
        return 0.06 * float(stream(toy.seed, "pause", client, task).random())

    return pause


def _killed(place: Ground, people: Crowd, kinds: Sequence[str], when: Sequence[tuple[int, float]]) -> int:
    """How many kills met a server that was at work."""
    for n, (reports, more) in enumerate(when):

        def look(reports: int = reports) -> bool:
            assert place.server is not None
            return people.safe() >= reports or place.server.poll() is not None

        wait_for(look, f"{reports} acknowledged reports", seconds=2 * PATIENT, said=lambda: place.said)
        time.sleep(more)
        assert place.server is not None
        if place.server.poll() is not None:
            return n
        KILLS[kinds[n % len(kinds)]](place, n)
    return len(when)
