"""Offers: what goes down to devices, encoded once for each version and code, and told to every transmitter."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedfleet.core.container import packed
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Offer
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Floats, Ints, ServerState, Wave
from fedfleet.core.task_cost import settings_at
from fedfleet.engine.state import RunState
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import offer_to_bytes
from fedfleet.network.server.blobs import Blob, drop_blob, write_blob
from fedfleet.network.server.options import Serve
from fedfleet.network.server.served_plan import Served, heaviest_reports

_MOST_BLOBS = 1 << 16  # different offers of one wave: more cannot be numbered
Mark = tuple[int, ...]


@dataclass(slots=True)
class Offering:
    """The blobs that devices may ask for. `shared` is the folder in which they lie."""

    served: Served
    options: Serve
    shared: Path = field(default_factory=Path)
    made: dict[Mark, tuple[Offer, Blob]] = field(default_factory=dict[Mark, tuple[Offer, Blob]])
    version_of: dict[str, int] = field(
        default_factory=dict[str, int]
    )  # by blob: the newest wave's version that it is of
    known: dict[str, Blob] = field(default_factory=dict[str, Blob])
    frozen: Blob | None = None

    def lay_frozen(self) -> None:
        """Put weights that nobody trains where devices can fetch them."""
        if self.served.frozen:
            self.frozen = write_blob(self.shared, packed(self.served.frozen))

    def prepare(self, server: ServerState) -> Blob:
        """Encode what most devices will be offered; beside the loop, since large models take time."""
        return self._blob(self.served.plan.algorithm.offer(server, 0, NO_SETTINGS))

    def prepared(self, blob: Blob, version: int) -> None:
        """A blob is of this version, should any wave of it be sent or not."""
        self.version_of[blob.name] = max(version, self.version_of.get(blob.name, version))

    def _blob(self, offer: Offer) -> Blob:
        mark = id(offer.params), id(offer.extra) if offer.extra else 0, id(offer.encoded)
        if mark not in self.made:
            # The offer is held too, so that no other can take its id.
            self.made[mark] = offer, write_blob(self.shared, offer_to_bytes(offer))
        return self.made[mark][1]

    def heaviest(self, wave: Wave) -> Floats:
        """The most that each report of a wave may weigh."""
        asked, sizes = wave.asked, self.served.world.data.sizes(wave.round)[wave.asked.clients]
        return heaviest_reports(self.served.plan, self.served.registry, asked.clients, asked.share, sizes)

    def wave(self, wave: Wave, heaviest: Floats, memory_task: Ints) -> tuple[list[inside.NewBlob], inside.Wave]:
        """A wave as transmitters hear of it, with the blobs that are new to them."""
        algorithm, asked = self.served.plan.algorithm, wave.asked
        places: dict[str, int] = {}
        fresh: list[inside.NewBlob] = []
        which = np.zeros(len(wave), np.uint16)
        for slot, client in enumerate(asked.clients.tolist()):
            settings = settings_at(asked, slot) if asked.settings else NO_SETTINGS
            blob = self._blob(algorithm.offer(wave.server, client, settings))
            if blob.name not in places:
                if len(places) >= _MOST_BLOBS:
                    raise RunFailed(
                        f"a wave of more than {_MOST_BLOBS} different offers cannot be sent; ask fewer clients"
                    )
                places[blob.name] = len(places)
                self.prepared(blob, wave.version)
                if blob.name not in self.known:
                    self.known[blob.name] = blob
                    fresh.append(_new(blob))
            which[slot] = places[blob.name]
        return fresh, self._message(wave, heaviest, memory_task, list(places), which)

    def _message(
        self, wave: Wave, heaviest: Floats, memory_task: Ints, blobs: list[str], which: np.ndarray
    ) -> inside.Wave:
        asked, memory = wave.asked, memory_task[wave.asked.clients]
        return inside.Wave(
            first=wave.first, round=wave.round, version=wave.version, clients=asked.clients.astype(np.uint32).tobytes(),
            steps=asked.steps.astype(np.uint32).tobytes() if asked.steps.any() else b"",
            share=asked.share.tobytes() if (asked.share != 1.0).any() else b"",
            memory_task=memory.tobytes() if (memory >= 0).any() else b"", heaviest=heaviest.tobytes(),
            settings=list(asked.settings), columns=[c.tobytes() for c in asked.settings.values()],
            blobs=blobs, blob=which.tobytes() if len(blobs) > 1 else b"",
            lease_seconds=self.options.lease, seed=self.served.plan.seed, time=wave.time,
        )  # fmt: skip

    def introduce(self, out: inside.ToTransmitter, state: RunState, memory_task: Ints) -> None:
        """Tell a transmitter that has just started all that the others know."""
        running: dict[int, tuple[Wave, list[int]]] = {}
        for task, wave in state.running.items():
            running.setdefault(wave.first, (wave, []))[1].append(task)
        for first in sorted(running):
            wave, tasks = running[first]
            _, message = self.wave(wave, self.heaviest(wave), memory_task)
            out.waves.append(message)
            out.withdrawn.extend(sorted(set(range(first, first + len(wave))) - set(tasks)))
        out.blobs.extend(_new(blob) for blob in self.known.values())
        if self.frozen is not None:
            out.blobs.append(_new(self.frozen))
            out.frozen = self.frozen.name

    def judged(self, server: ServerState, version: int, clients: Ints, settings: inside.Wave) -> list[inside.NewBlob]:
        """Fill in what devices that judge a model are given; the blobs that are new to transmitters."""
        blob = self._blob(self.served.plan.algorithm.offer(server, int(clients[0]) if len(clients) else 0, NO_SETTINGS))
        self.prepared(blob, version)
        settings.blobs.append(blob.name)
        if blob.name in self.known:
            return []
        self.known[blob.name] = blob
        return [_new(blob)]

    def tidy(self, state: RunState, outs: Sequence[inside.ToTransmitter], judged: Set[int] = frozenset()) -> None:
        """Drop what no task that runs can ask for any more, nor anybody who judges one of these versions."""
        alive = {wave.version for wave in state.running.values()} | {state.book.version} | judged
        dead = {name for name, version in self.version_of.items() if version not in alive}
        if not dead:
            return
        for blob in [blob for _, blob in self.made.values() if blob.name in dead]:
            drop_blob(blob)
        self.made = {mark: pair for mark, pair in self.made.items() if pair[1].name not in dead}
        for name in sorted(dead):
            del self.version_of[name]
            if self.known.pop(name, None) is not None:
                for out in outs:
                    out.dropped_blobs.append(name)


def _new(blob: Blob) -> inside.NewBlob:
    return inside.NewBlob(name=blob.name, path=blob.path, nbytes=blob.nbytes, crc32c=blob.crc32c)
