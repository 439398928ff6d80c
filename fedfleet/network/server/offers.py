"""Offers: what goes down to devices, encoded once for each version and codec, and announced to every frontend."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedfleet.core.cost import settings_at
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Offer
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Ints, ServerState, Wave
from fedfleet.core.tensor_format import pack_tree
from fedfleet.engine.state import RunState
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import offer_to_bytes
from fedfleet.network.protocol.process_link import Blob, drop_blob, write_blob
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.recovery import ClientState
from fedfleet.network.server.sample_limits import SampleLimits
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.network.server.turns import Effects, Tell

_MAX_BLOBS = 1 << 16  # different offers of one wave: more cannot be numbered
OfferKey = tuple[int, ...]


class Offers:
    """The blobs that devices may ask for, in the folder `shared`, and what each device remembers."""

    def __init__(self, served: ServedRun, options: ServeOptions, shared: Path) -> None:
        self.served, self.options, self.shared = served, options, shared
        self.client_state = ClientState(served.plan.clients, served.folder / "wire" / "takeovers.jsonl")
        self.blobs: dict[OfferKey, tuple[Offer, Blob]] = {}
        self.version_of: dict[str, int] = {}  # by blob: the version of the newest wave that uses it
        self.announced_blobs: dict[str, Blob] = {}
        self.frozen_blob: Blob | None = None
        self.limits = SampleLimits(served.plan, served.world, served.registry, options.max_samples)
        # What belongs to single tasks of a wave beside the model: it is filled in here, with the blobs that this needs.
        self.fill_in: Callable[[Wave, inside.Wave], list[Blob]] | None = None

    def write_frozen(self) -> None:
        """Put weights that are not trained where devices can fetch them."""
        if self.served.frozen:
            self.frozen_blob = write_blob(self.shared, pack_tree(self.served.frozen))

    def encode_model(self, server: ServerState) -> Blob:
        """Encode what most devices will be offered; in a thread, since large models take time."""
        return self._blob_for(self.served.plan.algorithm.offer(server, 0, NO_SETTINGS))

    def register_version(self, blob: Blob, version: int) -> None:
        """A blob is of this version, should any wave of it be sent or not."""
        self.version_of[blob.name] = max(version, self.version_of.get(blob.name, version))

    def _blob_for(self, offer: Offer) -> Blob:
        key = id(offer.params), id(offer.extra) if offer.extra else 0, id(offer.encoded)
        if key not in self.blobs:
            # The offer is held too, so that no other can take its id.
            self.blobs[key] = offer, write_blob(self.shared, offer_to_bytes(offer))
        return self.blobs[key][1]

    def wave_message(self, wave: Wave) -> inside.ToTransmitter:
        """A wave as frontends are told of it, with the blobs that are new to them."""
        algorithm, assignments = self.served.plan.algorithm, wave.assignments
        indices: dict[str, int] = {}
        new_blobs: list[inside.NewBlob] = []
        blob_index = np.zeros(len(wave), np.uint16)
        for slot, client in enumerate(assignments.clients.tolist()):
            settings = settings_at(assignments, slot) if assignments.settings else NO_SETTINGS
            blob = self._blob_for(algorithm.offer(wave.server, client, settings))
            if blob.name not in indices:
                if len(indices) >= _MAX_BLOBS:
                    raise RunFailed(f"cannot send a wave with more than {_MAX_BLOBS} different offers; select fewer clients")
                indices[blob.name] = len(indices)
                self.register_version(blob, wave.version)
                if blob.name not in self.announced_blobs:
                    self.announced_blobs[blob.name] = blob
                    new_blobs.append(_blob_message(blob))
            blob_index[slot] = indices[blob.name]
        memory, blobs = self.client_state.memory_task[assignments.clients], list(indices)
        message = inside.Wave(
            first=wave.first, round=wave.round, version=wave.version, clients=assignments.clients.astype(np.uint32).tobytes(),
            steps=assignments.steps.astype(np.uint32).tobytes() if assignments.steps.any() else b"",
            share=assignments.share.tobytes() if (assignments.share != 1.0).any() else b"",
            memory_task=memory.tobytes() if (memory >= 0).any() else b"", heaviest=self.limits.of(wave).heaviest.tobytes(),
            settings=list(assignments.settings), columns=[c.tobytes() for c in assignments.settings.values()],
            blobs=blobs, blob=blob_index.tobytes() if len(blobs) > 1 else b"",
            lease_seconds=self.options.lease, seed=self.served.plan.seed, time=wave.time,
        )  # fmt: skip
        for blob in [] if self.fill_in is None else self.fill_in(wave, message):
            self.register_version(blob, wave.version)
            if blob.name not in self.announced_blobs:
                self.announced_blobs[blob.name] = blob
                new_blobs.append(_blob_message(blob))
        return inside.ToTransmitter(blobs=new_blobs, waves=[message])

    def add_full_state(self, out: inside.ToTransmitter, state: RunState) -> None:
        """Tell a frontend that has just started all that the others know."""
        running: dict[int, tuple[Wave, list[int]]] = {}
        for task, wave in state.running.items():
            running.setdefault(wave.first, (wave, []))[1].append(task)
        for first in sorted(running):
            wave, tasks = running[first]
            out.waves.extend(self.wave_message(wave).waves)
            out.withdrawn.extend(sorted(set(range(first, first + len(wave))) - set(tasks)))
        out.blobs.extend(_blob_message(blob) for blob in self.announced_blobs.values())
        if self.frozen_blob is not None:
            out.blobs.append(_blob_message(self.frozen_blob))
            out.frozen = self.frozen_blob.name

    def add_eval_model(self, server: ServerState, version: int, clients: Ints, wave: inside.Wave) -> list[inside.NewBlob]:
        """Fill in what devices that evaluate a model are given; the blobs that are new to frontends."""
        offer = self.served.plan.algorithm.offer(server, int(clients[0]) if len(clients) else 0, NO_SETTINGS)
        if any(name in server.params and leaf.shape != server.params[name].shape for name, leaf in offer.params.items()):
            # What this client trains is a slice; all of them evaluate the whole model.
            offer = replace(offer, params=server.params, encoded=None)
        blob = self._blob_for(offer)
        self.register_version(blob, version)
        wave.blobs.append(blob.name)
        if blob.name in self.announced_blobs:
            return []
        self.announced_blobs[blob.name] = blob
        return [_blob_message(blob)]

    def drop_unused(self, state: RunState, evaluated_versions: Set[int] = frozenset()) -> Effects:
        """Drop what no running task can ask for any more, and no device that evaluates one of these versions."""
        live_versions = {wave.version for wave in state.running.values()} | {state.book.version} | evaluated_versions
        unused = {name for name, version in self.version_of.items() if version not in live_versions}
        if not unused:
            return []
        for blob in [blob for _, blob in self.blobs.values() if blob.name in unused]:
            drop_blob(blob)
        self.blobs = {key: pair for key, pair in self.blobs.items() if pair[1].name not in unused}
        for blob in [self.announced_blobs[name] for name in unused if name in self.announced_blobs]:
            drop_blob(blob)
        for name in unused:
            del self.version_of[name]
        dropped = [name for name in sorted(unused) if self.announced_blobs.pop(name, None) is not None]
        return [Tell(inside.ToTransmitter(dropped_blobs=dropped))] if dropped else []


def _blob_message(blob: Blob) -> inside.NewBlob:
    return inside.NewBlob(name=blob.name, path=blob.path, nbytes=blob.nbytes, crc32c=blob.crc32c)
